"""Kernels of `kifu.corpus.hashes` and `kifu.corpus.duplicates`.

Products of 64-bit words wrap around, as they shall. Compiled code says nothing of it; where NumPy's scalars would warn
(uncompiled), callers wrap these kernels in `np.errstate(over="ignore")`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kifu.kernel import inline_kernel, kernel
from kifu.point import ERASE_BIT, POINT_MASK, WHITE_BIT

SETUP_TOKEN = 0x10000
BOARD_TOKEN = 0x20000

# Variants of a point in `HashState.table`; 0 and 1 are moves of the first colour and of the other.
SETUP = 2  # and 3: the other colour's stone
EMPTIED = 4
VARIANTS = 5

ZERO = np.uint64(0)
LARGEST = np.uint64(2**64 - 1)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_30, _27, _31, _32 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(32)


def mix_words(x: Any) -> Any:
    """`mix` of an array of uint64."""
    x = x + _GOLDEN
    x = (x ^ (x >> _30)) * _FIRST
    x = (x ^ (x >> _27)) * _SECOND
    return x ^ (x >> _31)


mix = inline_kernel(mix_words)


class HashState(NamedTuple):
    """G games, and what it takes to hash them.

    width ... setup_offset: as in `kifu.records.games.Games`, but for width and height, which are int64.
    table: [rows, 8] uint64: under each symmetry the value of point p in variant v at row base[g] + v * points[g] + p.
    base, points: [G] int64; points is 0 for a board without a table. Other points have one value for all symmetries.
    lanes, group: [8] uint64: the eight hashes under way, and what one ply sets up.
    stamp: [POINT_MASK + 1] int64: in which group a point was last set up; mark: [1] int64: the number of that group.
    """

    width: npt.NDArray[np.int64]
    height: npt.NDArray[np.int64]
    moves: npt.NDArray[np.uint16]
    move_offset: npt.NDArray[np.int64]
    setup: npt.NDArray[np.uint16]
    setup_ply: npt.NDArray[np.uint16]
    setup_offset: npt.NDArray[np.int64]
    table: npt.NDArray[np.uint64]
    base: npt.NDArray[np.int64]
    points: npt.NDArray[np.int64]
    lanes: npt.NDArray[np.uint64]
    group: npt.NDArray[np.uint64]
    stamp: npt.NDArray[np.int64]
    mark: npt.NDArray[np.int64]


@inline_kernel
def step(h: Any, value: Any) -> Any:
    """The hash of a sequence, one value longer."""
    h = (h ^ value) * _FIRST
    return h ^ (h >> _32)


@inline_kernel
def lowest(lanes: Any) -> Any:
    """The hash that eight symmetries agree on."""
    low = lanes[0]
    for k in range(1, 8):
        if lanes[k] < low:
            low = lanes[k]
    return low


@inline_kernel
def trimmed(w: HashState, g: Any) -> Any:
    """How many moves game g has up to its last stone, played or set up."""
    start, stop = w.move_offset[g], w.move_offset[g + 1]
    plies = stop - start
    least: Any = 0
    if w.setup_offset[g] < w.setup_offset[g + 1]:
        least = np.int64(w.setup_ply[w.setup_offset[g + 1] - 1])
    away = w.width[g] * w.height[g]
    while plies > least and (w.moves[start + plies - 1] & POINT_MASK) == away:
        plies -= 1
    return plies


@inline_kernel
def begin(w: HashState, g: Any) -> None:
    """Begins the hash of game g, with its board."""
    across = np.uint64(BOARD_TOKEN + w.width[g] * 256 + w.height[g])
    upright = np.uint64(BOARD_TOKEN + w.height[g] * 256 + w.width[g])
    for k in range(8):
        w.lanes[k] = mix(across if k < 4 else upright)


@inline_kernel
def set_up(w: HashState, g: Any, first: Any, at: Any, last_ply: Any) -> Any:
    """Hashes what is set up from setup[at] on by `last_ply`, the last word for each point. Returns where that ends."""
    stop = at
    while stop < w.setup_offset[g + 1] and np.int64(w.setup_ply[stop]) <= last_ply:
        stop += 1
    if stop == at:
        return at
    w.mark[0] += 1
    for k in range(8):
        w.group[k] = ZERO
    for i in range(stop - 1, at - 1, -1):
        word = np.int64(w.setup[i])
        p = word & POINT_MASK
        if w.stamp[p] == w.mark[0]:
            continue
        w.stamp[p] = w.mark[0]
        other = (word ^ first) >> 15
        variant = EMPTIED if word & ERASE_BIT else SETUP + other
        if p < w.points[g]:
            row = w.base[g] + variant * w.points[g] + p
            for k in range(8):
                w.group[k] ^= w.table[row, k]
        else:
            bits = ERASE_BIT if word & ERASE_BIT else other << 15
            value = mix(np.uint64(SETUP_TOKEN | bits | p))
            for k in range(8):
                w.group[k] ^= value
    for k in range(8):
        w.lanes[k] = step(w.lanes[k], w.group[k])
    return stop


@inline_kernel
def play(w: HashState, g: Any, first: Any, word: Any) -> None:
    """Hashes one move."""
    p = word & POINT_MASK
    other = (word ^ first) >> 15
    if p < w.points[g]:
        row = w.base[g] + other * w.points[g] + p
        for k in range(8):
            w.lanes[k] = step(w.lanes[k], w.table[row, k])
    else:
        value = mix(np.uint64(other << 15 | p))
        for k in range(8):
            w.lanes[k] = step(w.lanes[k], value)


@kernel
def hash_all(w: HashState, opening_plies: Any, canonical: Any, opening: Any) -> None:
    """Fills canonical and opening: [G] uint64; see `kifu.corpus.hashes.hash_games`."""
    for g in range(canonical.shape[0]):
        plies = trimmed(w, g)
        start = w.move_offset[g]
        best, best_early = LARGEST, LARGEST
        # Without a move nobody is first: the lower of both ways to see it.
        for turn in range(1 if plies > 0 else 2):
            first = np.int64(w.moves[start]) & WHITE_BIT if plies > 0 else turn * WHITE_BIT
            begin(w, g)
            at = w.setup_offset[g]
            early = LARGEST
            for ply in range(plies):
                if ply == opening_plies:
                    early = lowest(w.lanes)
                at = set_up(w, g, first, at, ply)
                play(w, g, first, np.int64(w.moves[start + ply]))
            if plies == opening_plies:
                early = lowest(w.lanes)
            set_up(w, g, first, at, 0xFFFF)
            low = lowest(w.lanes)
            if low < best:
                best = low
            if plies < opening_plies:
                early = low
            if early < best_early:
                best_early = early
        canonical[g] = mix(best)
        opening[g] = mix(best_early)


@kernel
def find_new(table: Any, salt: Any, keys: Any, new: Any, adds: bool) -> None:
    """Fills new: [G] bool, whether each of keys [G] uint64, none of them 0, is not there yet; and adds them, if told.

    table: [power of 2] uint64, where 0 is a free slot, with more of these than keys. salt: [1] uint64: where a key goes
    depends on it, so that nobody can make records that all go to the same place.
    """
    mask = table.shape[0] - 1
    for i in range(keys.shape[0]):
        slot = np.int64(mix(keys[i] ^ salt[0]) & np.uint64(mask))
        while table[slot] != ZERO and table[slot] != keys[i]:
            slot = (slot + 1) & mask
        new[i] = table[slot] == ZERO
        if new[i] and adds:
            table[slot] = keys[i]


@kernel
def hash_numbers(states: Any, values: Any) -> None:
    """Hashes one int64 for each game on to states: [G] uint64."""
    for g in range(states.shape[0]):
        states[g] = step(states[g], mix(np.uint64(values[g] & 0xFFFFFFFF)))


@kernel
def hash_lists(states: Any, values: Any, offset: Any) -> None:
    """Hashes a list of uint16 for each game on to states: its length, then four numbers at a time."""
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
def hash_texts(states: Any, data: Any, offset: Any, told: Any) -> None:
    """Hashes a text for each game on to states: its length plus 1, then eight bytes at a time; only 0 if not told."""
    for g in range(states.shape[0]):
        if not told[g]:
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
    """The one that stands for i's set in a union-find forest."""
    while parent[i] != i:
        parent[i] = parent[parent[i]]
        i = parent[i]
    return i


@inline_kernel
def _note(lanes: Any, keys: Any, me: Any, plies: Any, longer: Any, parent: Any) -> None:
    """If the hash so far is that of another game, then that one is a beginning of the game `me`."""
    key = mix(lowest(lanes))
    other, stop = 0, keys.shape[0]
    while other < stop:
        middle = (other + stop) >> 1
        if keys[middle] < key:
            other = middle + 1
        else:
            stop = middle
    if other == keys.shape[0] or keys[other] != key or other == me:
        return
    if longer[other] < 0 or plies[me] > plies[longer[other]]:
        longer[other] = me
    a, b = root(parent, me), root(parent, other)
    parent[max(a, b)] = min(a, b)


@kernel
def find_beginnings(
    w: HashState, rows: Any, numbers: Any, least: Any, keys: Any, plies: Any, longer: Any, parent: Any
) -> None:
    """Finds which of C games are beginnings, of at least `least` plies (1 or more), of the games `rows` of w.

    keys: [C] uint64, rising: their canonical hashes. numbers: [R] int64: which of the C games each of `rows` is.
    Fills plies: [C] int64 at numbers (see `trimmed`); and joins what belongs together in longer: [C] int64, the longest
    game, then the first, that one is a beginning of, -1 if none; and parent: [C] int64, a union-find forest.
    """
    for i in range(rows.shape[0]):
        g, me = rows[i], numbers[i]
        total = trimmed(w, g)
        plies[me] = total
        if total < least:
            continue
        start, at = w.move_offset[g], w.setup_offset[g]
        first = np.int64(w.moves[start]) & WHITE_BIT
        begin(w, g)
        for ply in range(total + 1):
            if ply >= least:
                _note(w.lanes, keys, me, plies, longer, parent)
            before = at
            at = set_up(w, g, first, at, ply if ply < total else 0xFFFF)
            if ply >= least and at > before:
                _note(w.lanes, keys, me, plies, longer, parent)
            if ply < total:
                play(w, g, first, np.int64(w.moves[start + ply]))
