"""The records of the kgsgo-dataset-preprocessor of 2015, with every quirk of its planes.

The program's frame has row 0 at the bottom. Games are replayed in that frame from the start (moves are flipped as they
are read), so that the board's bit sets are the planes. The planes' meaning: docs/planes/kgsgo7.md and kgsgo8.md.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from kifu.errors import DropReason
from kifu.go.state import (
    EMPTY,
    LAST_CAPTURED,
    LAST_POINT,
    SUICIDE_LEFT,
    State,
    bit,
    clear,
    play,
)
from kifu.kernel import inline_kernel, kernel
from kifu.planes.bits import ZERO, put_plane, put_word, spread_table
from kifu.planes.packed import DAT1, DAT2
from kifu.point import BLACK, to_bottom_row

SIZE: Final = 19
POINTS: Final = SIZE * SIZE
V1: Final = 1  # records of `packed.DAT1`
V2: Final = 2  # records of `packed.DAT2`
V1_BYTES: Final = DAT1.itemsize
V2_BYTES: Final = DAT2.itemsize

_KEPT = int(DropReason.KEPT)
_OFF_BOARD = int(DropReason.OFF_BOARD)
_SETUP_TWICE = int(DropReason.SETUP_TWICE)
_VALID_AREA = np.uint64(0x8080808080808080)


Tables = tuple[npt.NDArray[np.uint16], npt.NDArray[np.uint64], npt.NDArray[np.uint64]]


def new_tables() -> Tables:
    """What `write_records` looks up, and room for one plane: (flip [362], spread [256], ko [6])."""
    flip = [to_bottom_row(point, SIZE) for point in range(POINTS)] + [POINTS]
    return np.array(flip, np.uint16), spread_table(), np.zeros(6, np.uint64)


@inline_kernel
def _mark_ko(s: State, mover: Any, ko: Any) -> Any:
    """Fills the bit set `ko` [W] with the program's ko plane; returns whether any bit is set.

    If the last stone took exactly one and is alone with one liberty, each of its neighbours is marked, empty or not,
    beside which exactly one stone of the side not to move stands in a chain with one liberty.
    """
    for i in range(len(s.words)):
        ko[i] = ZERO
    p = s.scalars[LAST_POINT]
    if p < 0 or s.scalars[LAST_CAPTURED] != 1:
        return False
    h = s.chain_id[p]
    if s.n_stones[h] != 1 or s.n_liberties[h] != 1:
        return False
    found = False
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
                found = True
    return found


@inline_kernel
def _put_dat2(s: State, mover: Any, ko: Any, out: Any, at: Any) -> None:
    """Writes the 316 bytes of seven packed planes."""
    carry, filled = ZERO, 0
    for side in range(2):
        c = mover - 1 if side == 0 else 2 - mover
        for k in range(3):
            at, carry, filled = put_plane(out, at, carry, filled, s.words, s.stones_by_liberties[c, k], POINTS)
    at, carry, filled = put_plane(out, at, carry, filled, s.words, ko, POINTS)
    for k in range((filled + 7) // 8):  # 7 x 361 bits are 39 words and 31 bits
        out[at + k] = np.uint8(carry >> np.uint64(56 - 8 * k) & np.uint64(0xFF))


@inline_kernel
def _put_dat1(s: State, mover: Any, ko: Any, spread: Any, out: Any, at: Any) -> None:
    """Writes 361 bytes, bit k of each for plane k; plane 7 is all ones. Stones without liberties are in none."""
    own, other = s.stones_by_liberties[mover - 1], s.stones_by_liberties[2 - mover]
    for group in range(POINTS // 8 + 1):
        w, shift = group >> 3, np.uint64(56 - 8 * (group & 7))
        word = _VALID_AREA
        for k in range(3):
            word |= spread[own[k, w] >> shift & np.uint64(0xFF)] << np.uint64(k)
            word |= spread[other[k, w] >> shift & np.uint64(0xFF)] << np.uint64(k + 3)
        word |= spread[ko[w] >> shift & np.uint64(0xFF)] << np.uint64(6)
        if group < POINTS // 8:
            put_word(out, at + 8 * group, word)
        else:
            out[at + 8 * group] = np.uint8(word >> np.uint64(56))


@inline_kernel
def _add_breathless(s: State, mover: Any, out: Any, at: Any) -> None:
    """Stones without liberties, which only a suicide leaves, count as having three or more in v1."""
    for p in range(POINTS):
        c = s.colour[p]
        if c != EMPTY and s.n_liberties[s.chain_id[p]] == 0:
            out[at + p] |= np.uint8(4) if c == mover else np.uint8(32)


@inline_kernel
def _place_handicap(s: State, setup: Any, start: Any, stop: Any, flip: Any) -> Any:
    """Plays all the root's setup stones, AW and AE too, as black; returns a Drop."""
    for i in range(start, stop):
        if play(s, np.int64(flip[setup[i] & 0x3FFF]), np.uint8(BLACK), SUICIDE_LEFT) != 0:
            return _SETUP_TWICE
    return _KEPT


@inline_kernel
def _one_game(
    s: State,
    moves: Any,
    first: Any,
    last: Any,
    started: Any,
    layout: Any,
    tables: Any,
    out: Any,
    at: Any,
    plies: Any,
    row: Any,
) -> Any:
    """Writes the examples of one game from byte `at`, their plies from `row`; returns (Drop, next byte, next row)."""
    flip, spread, ko = tables
    suicides = False
    for i in range(first, last):
        point = moves[i] & 0x3FFF
        if point == POINTS:  # a pass
            continue
        if point > POINTS:
            return _OFF_BOARD, at, row
        p = np.int64(flip[point])
        mover = np.uint8(1 + (moves[i] >> 15))
        if started:
            plies[row] = i - first
            row += 1
            _mark_ko(s, mover, ko)
            out[at] = 71  # G
            out[at + 1] = 79  # O
            if layout == V1:
                out[at + 2] = p // SIZE
                out[at + 3] = p % SIZE
                _put_dat1(s, mover, ko, spread, out, at + 4)
                if suicides:
                    _add_breathless(s, mover, out, at + 4)
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
    s: State,
    moves: Any,
    move_offset: Any,
    setup: Any,
    setup_offset: Any,
    root_setup: Any,
    handicap: Any,
    picks: Any,
    layout: Any,
    tables: Any,
    out: Any,
    plies: Any,
    drop: Any,
    examples: Any,
) -> Any:
    """Writes the records of the picked games, one game after another; returns how many there are in all.

    moves ... root_setup: columns of `kifu.records.games.GameArrays`; the picked games are of 19 x 19.  handicap: [G] bool,
    whether the root's setup stones are placed and the first move is written.  picks: [K] int64 rows.  layout: V1 or
    V2.  tables: `new_tables()`, one for each thread.  out: [>= record bytes x moves of the picked games] uint8.
    Fills plies [>= moves of the picked games] uint16, how many moves of its game (passes too) come before each record;
    drop [K] uint8; examples [K] int32. A dropped game leaves nothing in `out`.
    """
    at = 0
    row = 0
    for j in range(picks.shape[0]):
        g = picks[j]
        begin, begin_row = at, row
        why = _KEPT
        clear(s)
        if handicap[g]:
            why = _place_handicap(s, setup, setup_offset[g], setup_offset[g] + root_setup[g], tables[0])
        if why == _KEPT:
            why, at, row = _one_game(
                s, moves, move_offset[g], move_offset[g + 1], handicap[g], layout, tables, out, at, plies, row
            )
        if why != _KEPT:
            at, row = begin, begin_row
        drop[j] = why
        examples[j] = row - begin_row
    return row
