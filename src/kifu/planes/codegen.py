"""The kernel of a plane set: replays games and draws the wanted positions, all features compiled into it."""

from __future__ import annotations

from collections.abc import Sequence
from types import FunctionType
from typing import Any

import numpy as np

from kifu.errors import DropReason
from kifu.go.replay import GameMoves, set_up
from kifu.go.rules import RECORD_RULES, History, make_move
from kifu.go.state import ONE, ZERO, State, clear
from kifu.kernel import fingerprint, inline_kernel, kernel
from kifu.planes.bits import BYTE, put_word
from kifu.planes.board_embedding import place
from kifu.planes.context import (
    NEVER,
    PAST,
    PositionContext,
    context_at,
    copy_stones,
    has_chain_without_liberties,
    some_point,
)
from kifu.planes.feature import Feature, Fill, Prepare
from kifu.point import BLACK, POINT_MASK, WHITE, WHITE_BIT

_KEPT = int(DropReason.KEPT)
_OFF_BOARD = int(DropReason.OFF_BOARD)
_KO, _SUICIDE = RECORD_RULES.codes


# What the kernel below does for the features of a set. These are those of no set: each copy of it has its own.


@inline_kernel
def prepare(view: PositionContext) -> None:
    """Works out what several features use."""


@inline_kernel
def begin(bits: Any, out: Any) -> None:
    """Empties bits [C, W], and out [C, bytes or points] where features draw there themselves."""
    for c in range(bits.shape[0]):
        for i in range(bits.shape[1]):
            bits[c, i] = ZERO


@inline_kernel
def fill(view: PositionContext, bits: Any, out: Any) -> None:
    """Draws each feature into its part of bits, or of out."""


@inline_kernel
def finish(words: Any, bits: Any, out: Any) -> None:
    """Writes bits to out, each plane from a byte of its own. words: a tuple of W."""
    for c in range(out.shape[0]):
        plane = out[c]
        for i in range(len(words)):
            at = 8 * i
            if at + 8 <= plane.shape[0]:
                put_word(plane, at, bits[c, i])
            else:
                for k in range(at, plane.shape[0]):
                    plane[k] = np.uint8(bits[c, i] >> np.uint64(56 - 8 * (k - at)) & BYTE)


@inline_kernel
def _begin_values(bits: Any, out: Any) -> None:
    begin(bits, out)
    for c in range(out.shape[0]):
        for p in range(out.shape[1]):
            out[c, p] = 0


@inline_kernel
def _finish_values(words: Any, bits: Any, out: Any) -> None:
    """Adds bits to out [C, points] float32, as ones."""
    for c in range(out.shape[0]):
        for i in range(len(words)):
            word = bits[c, i]
            while word != ZERO:
                out[c, 64 * i + some_point(word)] = 1
                word &= word - ONE


@kernel
def _step(s: State, history: History, p: Any, c: Any) -> Any:
    """Plays a move under the rules of records. Not inlined, so that it is compiled once and not for each set."""
    return make_move(s, history, p, c, _KO, _SUICIDE)


def _encode(
    room: PositionContext, history: History, moves: Any, move_offset: Any, setup: Any, setup_ply: Any, setup_offset: Any,
    rows: Any, which: Any, symmetry: Any, rating: Any, table: Any, label_of: Any, placed: Any, take: Any,
    take_offset: Any, bits: Any, out: Any, label: Any, drop: Any, ply: Any,
) -> None:  # fmt: skip
    """Replays the games rows[which] and fills out, label [slots] for the plies that `take` wants; see `Encoder.encode`.

    All arrays by row are for all R rows, `which` says which of them fit the room.  table, label_of: see
    `kifu.planes.board_embedding.Placing`.  placed: two buffers of uint16 for one game's moves and setup.  bits: [C, W] uint64,
    scratch.
    """
    s = room.s
    n = s.neighbours.shape[0]
    for j in range(which.shape[0]):
        r = which[j]
        g = rows[r]
        plies = move_offset[g + 1] - move_offset[g]
        at, stop = np.int64(0), setup_offset[g + 1] - setup_offset[g]
        words, stones = placed
        place(moves, move_offset[g], move_offset[g + 1], table[symmetry[r]], words)
        place(setup, setup_offset[g], setup_offset[g + 1], table[symmetry[r]], stones)
        due = setup_ply[setup_offset[g] : setup_offset[g + 1]]
        clear(s)
        breathless = False
        why = _KEPT
        t = np.int64(0)
        while t < plies and why == _KEPT:
            if at < stop and due[at] <= t:
                first = at
                at = set_up(s, GameMoves(words, stones, due), at, stop, t)
                if at < 0:
                    why = _OFF_BOARD
                    break
                for i in range(first, at):
                    room.played[stones[i] & POINT_MASK] = NEVER
                breathless = has_chain_without_liberties(s)
            p = np.int64(words[t] & POINT_MASK)
            c = np.uint8(WHITE if words[t] & WHITE_BIT else BLACK)
            copy_stones(s, breathless, room.past[t & (PAST - 1)])
            slot = take[take_offset[r] + t]
            if slot >= 0 and p <= n:
                view = context_at(room, c, t, words, rating[r])
                prepare(view)
                begin(bits, out[slot])
                fill(view, bits, out[slot])
                finish(s.words, bits, out[slot])
                label[slot] = label_of[p]
            why = _step(s, history, p, c)
            if why == _KEPT:
                if p < n:
                    room.played[p] = t
                t += 1
        drop[r] = why
        ply[r] = t


def _drawing_bits(draw: Fill, first: int, last: int) -> Any:
    @inline_kernel
    def step(view: PositionContext, bits: Any, out: Any) -> None:
        draw(view, bits[first:last])

    return step


def _drawing_values(draw: Fill, first: int, last: int) -> Any:
    @inline_kernel
    def step(view: PositionContext, bits: Any, out: Any) -> None:
        draw(view, out[first:last])

    return step


def _one_by_one(steps: Sequence[Any]) -> Any:
    """One step that takes all of them, in order.

    A tree and no chain, since each link is compiled with all that it holds.
    """
    if len(steps) == 1:
        return steps[0]
    former, latter = _one_by_one(steps[: len(steps) // 2]), _one_by_one(steps[len(steps) // 2 :])

    @inline_kernel
    def step(view: PositionContext, bits: Any, out: Any) -> None:
        former(view, bits, out)
        latter(view, bits, out)

    return step


def _all_prepared(uses: Sequence[Prepare]) -> Any:
    """One step that prepares all."""
    if len(uses) == 1:
        return uses[0]
    former, latter = _all_prepared(uses[:-1]), uses[-1]

    @inline_kernel
    def step(view: PositionContext) -> None:
        former(view)
        latter(view)

    return step


def compile_encoder(features: Sequence[Feature]) -> Any:
    """Return the kernel of `_encode` with these features compiled in.

    Its name contains its fingerprint, because Numba does not tell apart the compiled code of two kernels of one name.
    """
    parts: dict[str, Any] = {"prepare": prepare, "begin": begin, "fill": fill, "finish": finish}
    if uses := tuple(dict.fromkeys(use for each in features for use in each.uses)):
        parts["prepare"] = _all_prepared(uses)
    steps, first = [], 0
    for each in features:
        last = first + len(each.planes)
        steps.append((_drawing_values if each.real else _drawing_bits)(each.fill, first, last))
        first = last
    parts["fill"] = _one_by_one(steps)
    if any(each.real for each in features):
        parts |= {"begin": _begin_values, "finish": _finish_values}
    names = {**_encode.__globals__, **parts}
    name = f"encode_{fingerprint(FunctionType(_encode.__code__, names)).digest}"
    return kernel(FunctionType(_encode.__code__.replace(co_name=name, co_qualname=name), names, name))
