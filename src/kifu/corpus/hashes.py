"""Hash games: the canonical hash of the moves, which is invariant to symmetry, and the id of all recorded content.

`canonical@1`, the hash of a game's stones, is defined here and never changes; arithmetic is modulo 2**64:

    mix(x):      x += 0x9E3779B97F4A7C15
                 x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9
                 x = (x ^ x >> 27) * 0x94D049BB133111EB
                 return x ^ x >> 31                                     (SplitMix64, Steele, Lea and Flood 2014)
    step(h, v):  h = (h ^ v) * 0xBF58476D1CE4E5B9
                 return h ^ h >> 32

    Passes after the last stone, played or set up, are removed first.
    The first move's colour is 0, the other is 1. Without a move, both are tried and the lower hash counts.
    Under each of the 8 symmetries of the board (`kifu.point.symmetries`; four of them map a w x h board to h x w):
        h = mix(0x20000 + 256 * width + height)                         of the board after the symmetry
        before each move, and after the last, all stones set up at that ply are hashed as one value:
            h = step(h, v), v = the exclusive or of mix(0x10000 + 0x8000 * colour + point) over points given a stone
                              and mix(0x10000 + 0x4000 + point) over points emptied; the last entry per point counts
        each move:
            h = step(h, mix(0x8000 * colour + point))
    canonical = mix(the lowest h of the eight)

The columns of catalogues are the hashes of `handicap_as_setup`.

A pass is point width * height. Passes and points beyond the board are mapped to themselves by all symmetries; on boards
outside 1 to 25, all points are. Setup whose ply exceeds the number of moves comes last.

Products of 64-bit words overflow by design. NumPy scalars in uncompiled kernels would warn about it, so callers wrap
the kernels in `np.errstate(over="ignore")`.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kifu.arrays import Hashes, MoveArrays
from kifu.kernel import inline_kernel, kernel, writable_view
from kifu.point import ERASE_BIT, MAX_SIZE, NO_POINT, POINT_MASK, WHITE_BIT, symmetries
from kifu.records.games import NO_HANDICAP, GameArrays

SETUP_TOKEN = 0x10000
BOARD_TOKEN = 0x20000

# Variants of a point in `HashState.table`; 0 and 1 are moves of the first colour and of the other.
SETUP = 2  # and 3: a stone of the other colour
EMPTIED = 4
VARIANTS = 5

ZERO = np.uint64(0)
LARGEST = np.uint64(2**64 - 1)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_30, _27, _31, _32 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(32)


def mix_words(x: Any) -> Any:
    """Return `mix` of each element of an array of uint64."""
    x = x + _GOLDEN
    x = (x ^ (x >> _30)) * _FIRST
    x = (x ^ (x >> _27)) * _SECOND
    return x ^ (x >> _31)


mix = inline_kernel(mix_words)


def seeded_hashes(words: Hashes, seed: int) -> Hashes:
    """Return hashes [G] uint64 that depend on each word and the seed, and order the words as if at random."""
    hashes: Hashes = mix_words(words ^ mix_words(np.array([seed], np.uint64)))
    return hashes


def lowest_bound(hashes: Hashes, count: int) -> np.uint64:
    """Return the highest of the `count` lowest hashes, to which a draw of as many takes all; of fewer, the maximum."""
    if count >= len(hashes):
        return np.uint64(2**64 - 1)
    bound: np.uint64 = np.partition(hashes, count - 1)[count - 1]
    return bound


def lowest_of_each(group: npt.NDArray[np.int64], keys: Hashes, most: int) -> npt.NDArray[np.bool_]:
    """Return whether each entry is one of the `most` of its group with the lowest keys: [B] bool; group: ascending."""
    order = np.lexsort((keys, group))
    first = np.searchsorted(group, group, side="left")
    is_lowest = np.empty(len(group), np.bool_)
    is_lowest[order] = np.arange(len(group)) - first < most
    return is_lowest


class HashState(NamedTuple):
    """G games with the tables and work arrays for hashing them; offsets and moves are those of `GameArrays`.

    Row base[g] + v * points[g] + p of the table holds the value of variant v of point p under each symmetry. A board
    without a table has 0 points, whose values are the same for all symmetries.
    """

    width: npt.NDArray[np.int64]  # [G]
    height: npt.NDArray[np.int64]  # [G]
    moves: npt.NDArray[np.uint16]
    move_offset: npt.NDArray[np.int64]
    setup: npt.NDArray[np.uint16]
    setup_ply: npt.NDArray[np.uint16]
    setup_offset: npt.NDArray[np.int64]
    table: npt.NDArray[np.uint64]  # [rows, 8]
    base: npt.NDArray[np.int64]  # [G]
    points: npt.NDArray[np.int64]  # [G]
    symmetry_hashes: npt.NDArray[np.uint64]  # [8], the hashes in progress
    group: npt.NDArray[np.uint64]  # [8], the combined value of the stones set up at one ply
    stamp: npt.NDArray[np.int64]  # [POINT_MASK + 1], the group in which a point was last set up
    group_number: npt.NDArray[np.int64]  # [1], of the current group


@inline_kernel
def step(h: Any, value: Any) -> Any:
    """Append a value to the hash of a sequence."""
    h = (h ^ value) * _FIRST
    return h ^ (h >> _32)


@inline_kernel
def lowest(symmetry_hashes: Any) -> Any:
    """Return the lowest of the eight hashes, which is the same for all symmetries of a game."""
    low = symmetry_hashes[0]
    for k in range(1, 8):
        if symmetry_hashes[k] < low:
            low = symmetry_hashes[k]
    return low


@inline_kernel
def trimmed_length(s: HashState, g: Any) -> Any:
    """Return the number of moves of game g up to its last stone, played or set up."""
    start, stop = s.move_offset[g], s.move_offset[g + 1]
    plies = stop - start
    least: Any = 0
    if s.setup_offset[g] < s.setup_offset[g + 1]:
        least = np.int64(s.setup_ply[s.setup_offset[g + 1] - 1])
    pass_move = s.width[g] * s.height[g]
    while plies > least and (s.moves[start + plies - 1] & POINT_MASK) == pass_move:
        plies -= 1
    return plies


@inline_kernel
def begin(s: HashState, g: Any) -> None:
    """Start the eight hashes of game g with its board size."""
    across = np.uint64(BOARD_TOKEN + s.width[g] * 256 + s.height[g])
    upright = np.uint64(BOARD_TOKEN + s.height[g] * 256 + s.width[g])
    for k in range(8):
        s.symmetry_hashes[k] = mix(across if k < 4 else upright)


@inline_kernel
def hash_setup(s: HashState, g: Any, first_colour: Any, first: Any, last_ply: Any) -> Any:
    """Hash the stones from setup[first] to `last_ply`; a point's last entry counts. Returns the index after them."""
    stop = first
    while stop < s.setup_offset[g + 1] and np.int64(s.setup_ply[stop]) <= last_ply:
        stop += 1
    if stop == first:
        return first
    s.group_number[0] += 1
    for k in range(8):
        s.group[k] = ZERO
    for i in range(stop - 1, first - 1, -1):
        word = np.int64(s.setup[i])
        p = word & POINT_MASK
        if s.stamp[p] == s.group_number[0]:
            continue
        s.stamp[p] = s.group_number[0]
        colour = (word ^ first_colour) >> 15
        variant = EMPTIED if word & ERASE_BIT else SETUP + colour
        if p < s.points[g]:
            row = s.base[g] + variant * s.points[g] + p
            for k in range(8):
                s.group[k] ^= s.table[row, k]
        else:
            bits = ERASE_BIT if word & ERASE_BIT else colour << 15
            value = mix(np.uint64(SETUP_TOKEN | bits | p))
            for k in range(8):
                s.group[k] ^= value
    for k in range(8):
        s.symmetry_hashes[k] = step(s.symmetry_hashes[k], s.group[k])
    return stop


@inline_kernel
def hash_move(s: HashState, g: Any, first_colour: Any, word: Any) -> None:
    """Hash one move."""
    p = word & POINT_MASK
    colour = (word ^ first_colour) >> 15
    if p < s.points[g]:
        row = s.base[g] + colour * s.points[g] + p
        for k in range(8):
            s.symmetry_hashes[k] = step(s.symmetry_hashes[k], s.table[row, k])
    else:
        value = mix(np.uint64(colour << 15 | p))
        for k in range(8):
            s.symmetry_hashes[k] = step(s.symmetry_hashes[k], value)


@kernel
def hash_all(s: HashState, opening_plies: Any, canonical: Any, opening: Any) -> None:
    """Fill canonical and opening: [G] uint64, see `kifu.corpus.hashes.hash_games`."""
    for g in range(canonical.shape[0]):
        plies = trimmed_length(s, g)
        start = s.move_offset[g]
        best, best_opening = LARGEST, LARGEST
        # Without a move there is no first colour: take the lower hash of both assignments.
        for turn in range(1 if plies > 0 else 2):
            first_colour = np.int64(s.moves[start]) & WHITE_BIT if plies > 0 else turn * WHITE_BIT
            begin(s, g)
            next_stone = s.setup_offset[g]
            opening_low = LARGEST
            for ply in range(plies):
                if ply == opening_plies:
                    opening_low = lowest(s.symmetry_hashes)
                next_stone = hash_setup(s, g, first_colour, next_stone, ply)
                hash_move(s, g, first_colour, np.int64(s.moves[start + ply]))
            if plies == opening_plies:
                opening_low = lowest(s.symmetry_hashes)
            hash_setup(s, g, first_colour, next_stone, 0xFFFF)
            low = lowest(s.symmetry_hashes)
            if low < best:
                best = low
            if plies < opening_plies:
                opening_low = low
            if opening_low < best_opening:
                best_opening = opening_low
        canonical[g] = mix(best)
        opening[g] = mix(best_opening)


@kernel
def find_new(table: Any, salt: Any, keys: Any, new: Any, add: bool) -> None:
    """Fill new: [G] bool, True for keys that are not in the hash table; with `add`, insert them.

    keys: [G] uint64, none of them 0. table: [power of 2] uint64 with more free slots (0) than keys. salt: [1] uint64,
    which randomizes the slots, so that crafted records cannot make all keys collide.
    """
    mask = table.shape[0] - 1
    for i in range(keys.shape[0]):
        slot = np.int64(mix(keys[i] ^ salt[0]) & np.uint64(mask))
        while table[slot] != ZERO and table[slot] != keys[i]:
            slot = (slot + 1) & mask
        new[i] = table[slot] == ZERO
        if new[i] and add:
            table[slot] = keys[i]


@kernel
def hash_numbers(states: Any, values: Any) -> None:
    """Append one int64 per game to the hashes `states`: [G] uint64."""
    for g in range(states.shape[0]):
        states[g] = step(states[g], mix(np.uint64(values[g] & 0xFFFFFFFF)))


@kernel
def hash_lists(states: Any, values: Any, offset: Any) -> None:
    """Append a list of uint16 per game to the hashes: its length, then four elements at a time."""
    for g in range(states.shape[0]):
        start, stop = offset[g], offset[g + 1]
        h = step(states[g], mix(np.uint64(stop - start)))
        for i in range(start, stop, 4):
            word = ZERO
            for k in range(min(4, stop - i)):
                word |= np.uint64(values[i + k]) << np.uint64(16 * k)
            h = step(h, mix(word))
        states[g] = h


@kernel
def hash_texts(states: Any, data: Any, offset: Any, valid: Any) -> None:
    """Append a text per game to the hashes: its length plus 1, then eight bytes at a time; 0 for null."""
    for g in range(states.shape[0]):
        if not valid[g]:
            states[g] = step(states[g], mix(ZERO))
            continue
        start, stop = offset[g], offset[g + 1]
        h = step(states[g], mix(np.uint64(stop - start + 1)))
        for i in range(start, stop, 8):
            word = ZERO
            for k in range(min(8, stop - i)):
                word |= np.uint64(data[i + k]) << np.uint64(8 * k)
            h = step(h, mix(word))
        states[g] = h


@inline_kernel
def root(parent: Any, i: Any) -> Any:
    """Return the root of i in a union-find forest, halving the path."""
    while parent[i] != i:
        parent[i] = parent[parent[i]]
        i = parent[i]
    return i


@inline_kernel
def _link_beginning(symmetry_hashes: Any, keys: Any, game: Any, plies: Any, longer: Any, parent: Any) -> None:
    """If the hash so far equals the key of another game, record that one as a beginning of `game`."""
    key = mix(lowest(symmetry_hashes))
    other, stop = 0, keys.shape[0]
    while other < stop:
        middle = (other + stop) >> 1
        if keys[middle] < key:
            other = middle + 1
        else:
            stop = middle
    if other == keys.shape[0] or keys[other] != key or other == game:
        return
    if longer[other] < 0 or plies[game] > plies[longer[other]]:
        longer[other] = game
    a, b = root(parent, game), root(parent, other)
    parent[max(a, b)] = min(a, b)


@kernel
def find_beginnings(
    s: HashState, rows: Any, numbers: Any, least: Any, keys: Any, plies: Any, longer: Any, parent: Any
) -> None:
    """Find which of C games are beginnings, of at least `least` plies (1 or more), of the games `rows` of s.

    keys: [C] uint64, ascending canonical hashes. numbers: [R] int64, the index among the C games of each of `rows`.
    Fills plies: [C] int64 at `numbers` (see `trimmed_length`). Updates longer: [C] int64, the longest game, then the
    first, that a game is a beginning of, -1 if none; and parent: [C] int64, a union-find forest of related games.
    """
    for i in range(rows.shape[0]):
        g, game = rows[i], numbers[i]
        total = trimmed_length(s, g)
        plies[game] = total
        if total < least:
            continue
        start, next_stone = s.move_offset[g], s.setup_offset[g]
        first_colour = np.int64(s.moves[start]) & WHITE_BIT
        begin(s, g)
        for ply in range(total + 1):
            if ply >= least:
                _link_beginning(s.symmetry_hashes, keys, game, plies, longer, parent)
            before = next_stone
            next_stone = hash_setup(s, g, first_colour, next_stone, ply if ply < total else 0xFFFF)
            if ply >= least and next_stone > before:
                _link_beginning(s.symmetry_hashes, keys, game, plies, longer, parent)
            if ply < total:
                hash_move(s, g, first_colour, np.int64(s.moves[start + ply]))


OPENING_PLIES = 30
"""The number of moves that the hash of a game's opening covers.

Of 64,842 KGS games, 3,066 pairs of different games share this many moves: few enough to keep the sets of a split even
(20 moves: 11,699 pairs; 50 moves: 196). 15 games are the beginning of another and have at least 20 moves. Of the five
with at least 30, three are one game recorded twice and two were played by programs that repeat themselves; most of
those with 20 to 29 moves are coincidences.
"""


def handicap_as_setup(games: GameArrays, stated_only: bool = False) -> GameArrays:
    """Return the games with handicap stones that are moves as setup of the root: both forms of a game become equal.

    They are two or more Black stones before White's first one, as many as HA states beyond the Black stones of the
    root; White may pass between them. Without HA, they are moves in a row, and White plays next. HA[0], which is not
    FF[4], counts as none. stated_only: leave games without HA as they are.
    """
    with_ha = games.handicap > 1
    lengths, points = np.diff(games.move_offset), games.width.astype(np.int64) * games.height
    at = np.minimum(games.move_offset[:-1, None] + [0, 1], len(games.moves) - 1)
    first, second = games.moves[at].astype(np.int64).T if len(games.moves) else np.full((2, len(games)), NO_POINT)
    placed = (lengths > 1) & (first < points) & ((second < points) | (second == points | WHITE_BIT))
    row = np.flatnonzero(placed & (with_ha if stated_only else games.handicap != 1))
    if not len(row):
        return games
    game = np.repeat(np.arange(len(row)), lengths[row])
    start = np.cumsum(lengths[row]) - lengths[row]
    move_at = np.arange(len(game)) + (games.move_offset[row] - start)[game]
    moves, board = games.moves[move_at].astype(np.int64), points[row][game]
    is_stone, is_pass = moves < board, moves == board | WHITE_BIT
    ends = np.where(is_stone | is_pass, len(game), np.arange(len(game)))
    lead = np.minimum.reduceat(ends, start) - start
    in_lead = np.arange(len(game)) - start[game] < lead[game]
    stones, passes = (np.bincount(game[in_lead & kind], minlength=len(row)) for kind in (is_stone, is_pass))
    next_move = games.moves[np.minimum(games.move_offset[row] + lead, len(games.moves) - 1)].astype(np.int64)
    follows = (next_move & WHITE_BIT != 0) & (next_move & POINT_MASK < points[row])
    follows = np.where(lead < lengths[row], follows, with_ha[row])

    setup_game = np.repeat(np.arange(len(games)), np.diff(games.setup_offset))
    at_root = np.bincount(setup_game[games.setup_ply == 0], minlength=len(games))[row]
    lead_of = np.zeros(len(games), np.int64)
    lead_of[row] = lead
    other = (games.setup >= ERASE_BIT) | (games.setup_ply > 0)
    other &= games.setup_ply < lead_of[setup_game]
    hindered = np.bincount(setup_game[other], minlength=len(games))[row] > 0
    stated = np.where(with_ha[row], games.handicap[row] - at_root, stones + 2 * passes)
    chosen = follows & ~hindered & (stones > 1) & (stones == stated) & (at_root + stones <= 0xFFFF)
    if not chosen.any():
        return games

    row, stones, taken = row[chosen], stones[chosen], in_lead & chosen[game]
    lead_of[:] = 0
    lead_of[row] = lead[chosen]
    counts = np.zeros(len(games), np.int64)
    counts[row] = stones
    root_end = games.setup_offset[row] + at_root[chosen]
    ply = games.setup_ply.astype(np.int64)
    ply -= np.where(ply > 0, lead_of[setup_game], 0)
    placed_at = np.repeat(root_end, stones)
    return replace(
        games,
        moves=np.delete(games.moves, move_at[taken]),
        move_offset=games.move_offset - np.append(0, np.cumsum(lead_of)),
        setup=np.insert(games.setup, placed_at, games.moves[move_at[taken & is_stone]]),
        setup_ply=np.insert(ply.astype(np.uint16), placed_at, np.uint16(0)),
        setup_offset=games.setup_offset + np.append(0, np.cumsum(counts)),
        root_setup=(games.root_setup + counts).astype(np.uint16),
    )


def hash_games(games: MoveArrays) -> tuple[Hashes, Hashes]:
    """Return the canonical and opening hashes of G games.

    Legality is not checked; any values of moves and setup are allowed.

    Returns:
        canonical: [G] uint64, equal for games that are equal up to symmetry, exchange of colours and final passes.
        opening: [G] uint64, the same hash of the first OPENING_PLIES moves and the setup before them, or of all of a
            shorter game. A game and any of its beginnings with that many moves up to the last stone share it.
    """
    state = make_hash_state(games)
    canonical, opening = np.empty(len(games.width), np.uint64), np.empty(len(games.width), np.uint64)
    with np.errstate(over="ignore"):
        hash_all(state, OPENING_PLIES, canonical, opening)
    return canonical, opening


def make_hash_state(games: MoveArrays) -> HashState:
    """Return the games and the work arrays that the hash kernels need."""
    width, height = games.width.astype(np.int64), games.height.astype(np.int64)
    sizes, size_index = np.unique(width * 256 + height, return_inverse=True)
    tables = [_table(*divmod(int(size), 256)) for size in sizes]
    rows = np.array([len(table) for table in tables], np.int64)
    base = np.cumsum(rows) - rows
    return HashState(
        width=width,
        height=height,
        moves=games.moves,
        move_offset=games.move_offset,
        setup=games.setup,
        setup_ply=games.setup_ply,
        setup_offset=games.setup_offset,
        table=np.concatenate([np.empty((0, 8), np.uint64), *tables]),
        base=base[size_index],
        points=rows[size_index] // VARIANTS,
        symmetry_hashes=np.empty(8, np.uint64),
        group=np.empty(8, np.uint64),
        stamp=np.zeros(POINT_MASK + 1, np.int64),
        group_number=np.zeros(1, np.int64),
    )


@functools.lru_cache(maxsize=64)
def _table(width: int, height: int) -> Hashes:
    """Return [VARIANTS * points, 8] uint64 by variant, point and symmetry; boards outside 1 to 25 have no points."""
    if not (1 <= width <= MAX_SIZE and 1 <= height <= MAX_SIZE):
        return np.empty((0, 8), np.uint64)
    stone = SETUP_TOKEN
    bits = np.array([0, WHITE_BIT, stone, stone | WHITE_BIT, stone | ERASE_BIT], np.uint64)
    points = symmetries(width, height)[:, :-1].T.astype(np.uint64)  # [points, 8]
    table: Hashes = mix_words(bits[:, None, None] | points).reshape(-1, 8)
    return table


def hash_rows(games: GameArrays, texts: Sequence[pa.StringArray]) -> Hashes:
    """Return the catalogue's column `id`: [G] uint64, equal for rows with equal content.

    The hash is not cryptographic. It is fixed for one version of the catalogue. It covers board, moves, setup, to_play
    and handicap of the games, and text columns in a fixed order, in which null differs from the empty text. HA[0] is
    not written, so it counts as none.
    """
    states = np.zeros(len(games), np.uint64)
    handicap = np.where(games.handicap == 0, NO_HANDICAP, games.handicap)
    with np.errstate(over="ignore"):
        for numbers in (games.width, games.height, games.to_play, handicap):
            hash_numbers(states, numbers.astype(np.int64))
        hash_lists(states, games.setup, games.setup_offset)
        hash_lists(states, games.setup_ply, games.setup_offset)
        hash_lists(states, games.moves, games.move_offset)
        for column in texts:
            _hash_texts(states, column)
    return states


def text_hashes(column: pa.StringArray) -> Hashes:
    """Return a hash of each text, with one value for all nulls: [G] uint64."""
    states = np.zeros(len(column), np.uint64)
    with np.errstate(over="ignore"):
        _hash_texts(states, column)
    return states


def _hash_texts(states: Hashes, column: pa.StringArray) -> None:
    _, offsets, data = column.buffers()
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    offset = np.zeros(1, np.int32)
    if len(column):
        offset = np.frombuffer(offsets, np.int32, len(column) + 1, 4 * column.offset)
    text = np.empty(0, np.uint8) if data is None else writable_view(np.frombuffer(data, np.uint8))
    hash_texts(states, text, offset.astype(np.int64), valid)
