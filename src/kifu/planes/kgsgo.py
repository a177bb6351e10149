"""The records of the kgsgo-dataset-preprocessor of 2015, with every quirk of its planes.

The program's frame has row 0 at the bottom. Games are replayed in that frame: moves are flipped as they are read, so
the bit sets of the board are the planes. docs/planes/kgsgo7.md and kgsgo8.md define the planes.

The program had no ko rule, left suicides on the board, skipped passes and ignored setup after the root, so these
records have a game loop of their own instead of `kifu.go.replay.replay_game`.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kifu.arrays import Bools, Bytes, Hashes, Ints
from kifu.errors import DropReason, GameError
from kifu.go.replay import ReplayArrays, replay_arrays
from kifu.go.state import EMPTY, LAST_CAPTURED, LAST_POINT, SUICIDE_LEFT, ZERO, State, bit, clear, new_state, play
from kifu.kernel import inline_kernel, kernel
from kifu.planes import packing
from kifu.point import BLACK, POINT_MASK, to_bottom_row
from kifu.records.game import Game
from kifu.records.games import NO_HANDICAP, ParseWarning

SIZE: Final = 19
POINTS: Final = SIZE * SIZE
V1: Final = 1  # records of `packed.DAT1`
V2: Final = 2  # records of `packed.DAT2`
V1_BYTES: Final = packing.DAT1.itemsize
V2_BYTES: Final = packing.DAT2.itemsize

_KEPT = int(DropReason.KEPT)
_OFF_BOARD = int(DropReason.OFF_BOARD)
_SETUP_TWICE = int(DropReason.SETUP_TWICE)
_BOARD_PLANE = np.uint64(0x8080808080808080)


class RecordBuffers(NamedTuple):
    """The output of `write_records` for K games of M moves in all, without initial values."""

    records: Bytes  # [>= M * record bytes]
    plies: npt.NDArray[np.uint16]  # [>= M]: how many moves of its game, including passes, come before each record
    drop: Bytes  # [K]: of `DropReason`, why a game has no records
    examples: Ints  # [K]: the number of records of each game


Tables = tuple[npt.NDArray[np.uint16], Hashes, Hashes]


def placed_stones(root_setup: npt.NDArray[np.uint16], handicap: Bools) -> Ints:
    """Return how many of the root's setup stones are placed, [G]; -1 for games whose first move is no example, either.

    handicap: [G], see `has_handicap`.
    """
    return np.where(handicap, root_setup.astype(np.int32), np.int32(-1))


def new_tables() -> Tables:
    """Return lookup tables and scratch for `write_records`, one for each thread: (flip [362], spread [256], ko [6])."""
    flip = [to_bottom_row(point, SIZE) for point in range(POINTS)] + [POINTS]
    return np.array(flip, np.uint16), packing.spread_table(), np.zeros(6, np.uint64)


@inline_kernel
def _mark_ko(s: State, mover: Any, ko: Any) -> None:
    """Fill the bit set `ko` [W] with the program's ko plane.

    If the last stone captured exactly one and is a single stone with one liberty, the plane marks each of its
    neighbours, empty or not, that has exactly one neighbour of the side not to move in a chain with one liberty.
    """
    for i in range(len(s.words)):
        ko[i] = ZERO
    p = s.scalars[LAST_POINT]
    if p < 0 or s.scalars[LAST_CAPTURED] != 1:
        return
    h = s.chain_id[p]
    if s.n_stones[h] != 1 or s.n_liberties[h] != 1:
        return
    for j in range(4):
        q = np.int64(s.neighbours[p, j])
        if q < s.neighbours.shape[0]:
            atari = 0
            for k in range(4):
                r = s.neighbours[q, k]
                if s.colour[r] == 3 - mover and s.n_liberties[s.chain_id[r]] == 1:
                    atari += 1
            if atari == 1:
                ko[q >> 6] |= bit(q)


@inline_kernel
def _put_dat2(s: State, mover: Any, ko: Any, out: Any, at: Any) -> None:
    """Write the 316 bytes of seven packed planes."""
    carry, filled = ZERO, 0
    for side in range(2):
        c = mover - 1 if side == 0 else 2 - mover
        for k in range(3):
            at, carry, filled = packing.put_plane(out, at, carry, filled, s.words, s.stones_by_liberties[c, k], POINTS)
    at, carry, filled = packing.put_plane(out, at, carry, filled, s.words, ko, POINTS)
    for k in range((filled + 7) // 8):  # 7 x 361 bits are 39 words and 31 bits
        out[at + k] = np.uint8(carry >> np.uint64(56 - 8 * k) & packing.BYTE)


@inline_kernel
def _put_dat1(s: State, mover: Any, ko: Any, spread: Any, out: Any, at: Any) -> None:
    """Write 361 bytes, bit k of each for plane k; plane 7 is all ones. Stones without liberties are in none."""
    own, other = s.stones_by_liberties[mover - 1], s.stones_by_liberties[2 - mover]
    for group in range(POINTS // 8 + 1):
        w, shift = group >> 3, np.uint64(56 - 8 * (group & 7))
        word = _BOARD_PLANE
        for k in range(3):
            word |= spread[own[k, w] >> shift & packing.BYTE] << np.uint64(k)
            word |= spread[other[k, w] >> shift & packing.BYTE] << np.uint64(k + 3)
        word |= spread[ko[w] >> shift & packing.BYTE] << np.uint64(6)
        if group < POINTS // 8:
            packing.put_word(out, at + 8 * group, word)
        else:
            out[at + 8 * group] = np.uint8(word >> np.uint64(56))


@inline_kernel
def _add_stones_without_liberties(s: State, mover: Any, out: Any, at: Any) -> None:
    """Count stones without liberties, which only suicide leaves, as having three or more, as v1 does."""
    for p in range(POINTS):
        c = s.colour[p]
        if c != EMPTY and s.n_liberties[s.chain_id[p]] == 0:
            out[at + p] |= np.uint8(4) if c == mover else np.uint8(32)


@inline_kernel
def _place_handicap(s: State, setup: Any, start: Any, stop: Any, flip: Any) -> Any:
    """Play all setup entries of the root, including AW and AE, as black stones, and return a drop reason."""
    for i in range(start, stop):
        point = setup[i] & POINT_MASK
        if point >= POINTS:
            return _OFF_BOARD
        if play(s, np.int64(flip[point]), np.uint8(BLACK), SUICIDE_LEFT) != 0:
            return _SETUP_TWICE
    return _KEPT


@inline_kernel
def _one_game(  # noqa: PLR0913 - kernel
    s: State, games: ReplayArrays, g: Any, started: Any, layout: Any, tables: Any, buffers: RecordBuffers, at: Any,
    row: Any
) -> Any:  # fmt: skip
    """Write the examples of game g from byte `at`, their plies from `row`; return (reason, next byte, next row)."""
    flip, spread, ko = tables
    out = buffers.records
    first = games.move_offset[g]
    suicides = False
    for i in range(first, games.move_offset[g + 1]):
        point = games.moves[i] & POINT_MASK
        if point == POINTS:  # a pass
            continue
        if point > POINTS:
            return _OFF_BOARD, at, row
        p = np.int64(flip[point])
        mover = np.uint8(1 + (games.moves[i] >> 15))
        if started:
            buffers.plies[row] = i - first
            row += 1
            _mark_ko(s, mover, ko)
            out[at] = 71  # G
            out[at + 1] = 79  # O
            if layout == V1:
                out[at + 2] = p // SIZE
                out[at + 3] = p % SIZE
                _put_dat1(s, mover, ko, spread, out, at + 4)
                if suicides:
                    _add_stones_without_liberties(s, mover, out, at + 4)
                at += V1_BYTES
            else:
                out[at + 2] = p & 0xFF
                out[at + 3] = p >> 8
                out[at + 4] = 0
                out[at + 5] = 0
                _put_dat2(s, mover, ko, out, at + 6)
                at += V2_BYTES
        why = play(s, p, mover, SUICIDE_LEFT)
        if why != 0:
            return why, at, row
        suicides = suicides or s.n_liberties[s.chain_id[p]] == 0
        started = True
    return _KEPT, at, row


@kernel
def write_records(
    s: State, games: ReplayArrays, placed: Any, game_index: Any, layout: Any, tables: Any, buffers: RecordBuffers
) -> Any:
    """Write the records of some games, one game after another, and return their number.

    s: a board of 19 x 19; placed: from `placed_stones`; game_index: [K] int64, the games; layout: V1 or V2; tables:
    from `new_tables`; buffers: filled. A dropped game leaves no records.
    """
    at = 0
    row = 0
    for j in range(game_index.shape[0]):
        g = game_index[j]
        first_byte, first_row = at, row
        why = _KEPT
        clear(s)
        if placed[g] >= 0:
            start = games.setup_offset[g]
            why = _place_handicap(s, games.setup, start, start + placed[g], tables[0])
        if why == _KEPT:
            why, at, row = _one_game(s, games, g, placed[g] >= 0, layout, tables, buffers, at, row)
        if why != _KEPT:
            at, row = first_byte, first_row
        buffers.drop[j] = why
        buffers.examples[j] = row - first_row
    return row


# Which games the program could use


# Parse warnings about what made the program raise, and so lose the game. Later entries win.
_UNREADABLE = (
    (ParseWarning.HANDICAP_TEXT | ParseWarning.HANDICAP_ONE, DropReason.BAD_HANDICAP),
    (ParseWarning.SIZE_PAIR, DropReason.BAD_SIZE),
    (ParseWarning.BAD_CHARSET, DropReason.BAD_CHARSET),
    (ParseWarning.TRUNCATED, DropReason.TRUNCATED),
)


def has_handicap(handicap: npt.NDArray[np.int16]) -> Bools:
    """Return [G] bool: whether HA is present and not 0. Only then did the program place setup and write the first move.

    handicap: [G] int16, see `kifu.records.games.GameArrays`.
    """
    present: Bools = np.logical_and(handicap != NO_HANDICAP, handicap != 0)
    return present


def unreadable_reason(
    width: Bytes, height: Bytes, handicap: npt.NDArray[np.int16], warnings: npt.NDArray[np.uint32], drop: Bytes
) -> Bytes:
    """Return [G] uint8 of `DropReason`: why the program could not read a game, without replaying it.

    All arguments are [G], columns of `kifu.records.games.GameArrays`; `drop` takes precedence.
    """
    why = np.where((width == 19) & (height == 19), DropReason.KEPT, DropReason.WRONG_SIZE).astype(np.uint8)
    why[has_handicap(handicap) & (warnings & ParseWarning.BAD_SETUP_POINT != 0)] = DropReason.OFF_BOARD
    for warning, reason in _UNREADABLE:
        why[warnings & warning != 0] = reason
    return np.where(drop != DropReason.KEPT, drop, why)


def encode_game(game: Game, layout: int) -> tuple[packing.Planes, packing.Labels]:
    """Return the planes and next moves of one game, see `kifu.encode`; layout: V1 or V2."""
    if (game.width, game.height) != (SIZE, SIZE):
        raise GameError(f"the kgsgo planes are for 19 x 19, not for {game.width} x {game.height}")
    size = np.array([SIZE], np.uint8)
    handicap = np.array([NO_HANDICAP if game.handicap is None else game.handicap], np.int16)
    warnings = np.array([int(game.warnings)], np.uint32)
    _check_usable(unreadable_reason(size, size, handicap, warnings, np.zeros(1, np.uint8)))
    plies = len(game.moves)
    record, unpack = (packing.DAT1, packing.unpack_dat1) if layout == V1 else (packing.DAT2, packing.unpack_dat2)
    records, drop = np.empty(plies * record.itemsize, np.uint8), np.empty(1, np.uint8)
    buffers = RecordBuffers(records, np.empty(plies, np.uint16), drop, np.empty(1, np.int32))
    games, state = game.arrays(), new_state(SIZE, SIZE)
    placed = placed_stones(games.root_setup, has_handicap(handicap))
    total = write_records(state, replay_arrays(games), placed, np.zeros(1, np.int64), layout, new_tables(), buffers)
    _check_usable(drop)
    planes = np.empty((total, 8 if layout == V1 else 7, SIZE, SIZE), np.uint8)
    labels = np.empty(total, np.int32)
    unpack(records[: total * record.itemsize].view(record), planes, labels)
    return planes, labels


def _check_usable(drop: Bytes) -> None:
    if drop[0]:
        raise GameError(f"the kgsgo program could not use this game: {DropReason(drop[0]).reason}")
