"""Compiles a list of features into one kernel that replays games and encodes the chosen positions.

The features of a plane set are chained into one inlined function, which a kernel made for that set calls: encoding then
costs no call per feature, and LLVM optimizes all of them together. The kernel is a closure over these functions; its
cache entry is keyed on the code of all of them (`kifu.kernel`), so a changed feature is compiled anew wherever it is
defined.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kifu.go.replay import GameMoves, replay_game
from kifu.go.rules import RECORD_RULES, History
from kifu.go.state import ONE, ZERO, State, has_chain_without_liberties, last_point
from kifu.kernel import inline_kernel, kernel
from kifu.planes.board_embedding import BoardEmbedding, EncodeTask, embed_game
from kifu.planes.context import NEVER, PAST, PositionContext, context_at, copy_stones
from kifu.planes.feature import Feature, Fill, Prepare
from kifu.planes.packing import pack_planes
from kifu.point import POINT_MASK

_RULES = RECORD_RULES.codes


class _GameContext(NamedTuple):
    """What the functions called by `replay_game` need for one game.

    Attributes:
        base: the position context of its size; see `context_at`.
        any_without_liberties: [1] bool, whether the board has stones without liberties.
        rating: [2] float32, see `PositionContext`.
        slot_of_move: [T] int64, the slot that the position before each move goes to, or -1.
        label_of: see `BoardEmbedding`.
        bits: [C, W] uint64, scratch.
        out: see `EncodeTask`.
        label: see `EncodeTask`.
    """

    base: PositionContext
    any_without_liberties: npt.NDArray[np.bool_]
    rating: npt.NDArray[np.float32]
    slot_of_move: npt.NDArray[np.int64]
    label_of: npt.NDArray[np.int16]
    bits: npt.NDArray[np.uint64]
    out: npt.NDArray[Any]
    label: npt.NDArray[np.int16]


@inline_kernel
def _clear_bits(bits: Any, out: Any) -> None:
    for c in range(bits.shape[0]):
        for i in range(bits.shape[1]):
            bits[c, i] = ZERO


@inline_kernel
def _clear_bits_and_values(bits: Any, out: Any) -> None:
    _clear_bits(bits, out)
    for c in range(out.shape[0]):
        for p in range(out.shape[1]):
            out[c, p] = 0


@inline_kernel
def _add_values(words: Any, bits: Any, out: Any) -> None:
    """Add bits to out [C, points] float32, as ones."""
    for c in range(out.shape[0]):
        for i in range(len(words)):
            word = bits[c, i]
            while word != ZERO:
                out[c, last_point(i, word)] = 1
                word &= word - ONE


@inline_kernel
def _after_setup(context: _GameContext, s: State, game: GameMoves, first: Any, last: Any) -> None:
    for i in range(first, last):
        context.base.played[game.setup[i] & POINT_MASK] = NEVER
    context.any_without_liberties[0] = has_chain_without_liberties(s)


@inline_kernel
def _after_stone(context: _GameContext, s: State, game: GameMoves, t: Any, p: Any, c: Any) -> None:
    context.base.played[p] = t


def _fill_planes(fill: Fill, first: int, last: int, real: bool) -> Any:
    """Return a function that fills planes first to last - 1."""
    if real:

        @inline_kernel
        def fill_part(position: PositionContext, bits: Any, out: Any) -> None:
            fill(position, out[first:last])
    else:

        @inline_kernel
        def fill_part(position: PositionContext, bits: Any, out: Any) -> None:
            fill(position, bits[first:last])

    return fill_part


def _in_order(functions: Sequence[Any]) -> Any:
    """Return one function that calls all of them in order.

    They are joined as a balanced tree: in a chain, each link would be compiled with all that it contains.
    """
    if len(functions) == 1:
        return functions[0]
    first, second = _in_order(functions[: len(functions) // 2]), _in_order(functions[len(functions) // 2 :])

    @inline_kernel
    def both(position: PositionContext, bits: Any, out: Any) -> None:
        first(position, bits, out)
        second(position, bits, out)

    return both


@inline_kernel
def _prepare_nothing(position: PositionContext) -> None:
    pass


def _prepare_all(functions: Sequence[Prepare]) -> Any:
    """Return one function that calls all of them in order."""
    if not functions:
        return _prepare_nothing
    if len(functions) == 1:
        return functions[0]
    first, last = _prepare_all(functions[:-1]), functions[-1]

    @inline_kernel
    def prepare(position: PositionContext) -> None:
        first(position)
        last(position)

    return prepare


def compile_encoder(features: Sequence[Feature]) -> Any:
    """Return the encoding kernel of a list of features, compiled at its first call and then cached on disk.

    It is called as encode(base, history, task, embedding, subset, rating, flags, bits), with these arguments:
        base: the position context of the games' size.
        history: of any size; the rules have no superko.
        task: see `EncodeTask`.
        embedding: how boards of that size lie in the frame.
        subset: [K] int64, which of the task's R games are of that size.
        rating: [R, 2] float32, see `PositionContext`.
        flags: [1] bool, scratch.
        bits: [C, W] uint64, scratch.
    """
    real = any(feature.real for feature in features)
    begin = _clear_bits_and_values if real else _clear_bits
    finish = _add_values if real else pack_planes
    prepare = _prepare_all(tuple(dict.fromkeys(use for feature in features for use in feature.uses)))
    parts, first = [], 0
    for feature in features:
        last = first + len(feature.planes)
        parts.append(_fill_planes(feature.fill, first, last, feature.real))
        first = last
    fill = _in_order(parts)

    @inline_kernel
    def before_move(context: _GameContext, s: State, game: GameMoves, t: Any, p: Any, c: Any) -> None:
        base, bits = context.base, context.bits
        copy_stones(s, context.any_without_liberties[0], base.past[t & (PAST - 1)])
        slot = context.slot_of_move[t]
        if slot >= 0 and p <= s.neighbours.shape[0]:
            position = context_at(base, c, t, game.moves, context.rating)
            out = context.out[slot]
            prepare(position)
            begin(bits, out)
            fill(position, bits, out)
            finish(s.words, bits, out)
            context.label[slot] = context.label_of[p]

    @kernel
    def encode(
        base: PositionContext, history: History, task: EncodeTask, embedding: BoardEmbedding, subset: Any, rating: Any,
        flags: Any, bits: Any,
    ) -> None:  # fmt: skip
        for j in range(subset.shape[0]):
            r = subset[j]
            game = embed_game(task, r, embedding.table)
            flags[0] = False
            slot_of_move = task.slot_of_move[task.slot_offset[r] : task.slot_offset[r + 1]]
            context = _GameContext(base, flags, rating[r], slot_of_move, embedding.label_of, bits, task.out, task.label)
            task.drop[r], task.ply[r] = replay_game(
                base.s, history, game, game.moves.shape[0], _RULES, _after_setup, before_move, _after_stone, context
            )

    return encode
