"""The compiled board: its arrays, and the kernels that change them by one stone.

A board is a `State`, a tuple of flat arrays that `new_state` allocates once and that serves any number of games of its
size, one after another. Each chain has exact bit sets of its stones and liberties, so that merging chains is a few ORs
and no liberty is counted twice. The board also maintains six sets that plane kernels copy out: the stones of each
colour whose chains have one, two, and three or more liberties (`State.stones_by_liberties`).

A bit set is W words of 64 bits, with the first point in the highest bit of the first word, so that packed planes, which
are written highest bit first, are shifts of it. W is 6 up to 19 x 19 and 10 up to 25 x 25. It is passed as a tuple of W
zeros, because the length of a tuple is a constant to the compiler, which then unrolls loops over words.

This module implements no ko rule. It only records the point that simple ko forbids after each move (`KO_POINT`);
`kifu.go.rules` decides what is legal.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kifu.arrays import Hashes
from kifu.errors import DropReason
from kifu.kernel import inline_kernel, kernel, writable_view
from kifu.point import check_size, symmetries

EMPTY, WALL = 0, 3

# How `play` treats a stone that leaves its own chain without liberties.
SUICIDE_FORBIDDEN = 0  # illegal
SUICIDE_REMOVED = 1  # the chain is removed; suicide of a single stone is illegal, since it would change nothing
SUICIDE_LEFT = 2  # the chain stays without liberties, as in the kgsgo program of 2015

# Indices of State.scalars
KO_POINT = 0  # the point that simple ko forbids to the opponent of the last mover; -1 if none
LAST_POINT = 1  # the last stone played; -1 before the first, or if it did not stay on the board
LAST_CAPTURED = 2  # how many stones it captured
N_SCALARS = 3

OCCUPIED = int(DropReason.OCCUPIED)
SUICIDE = int(DropReason.SUICIDE)

ONE = np.uint64(1)
ZERO = np.uint64(0)


class State(NamedTuple):
    """A board of n = width * height points. Index n of the arrays by point stands for the wall around the board."""

    words: tuple[int, ...]
    neighbours: npt.NDArray[np.uint16]  # [n, 4]: the neighbours of each point; n for the wall
    colour: npt.NDArray[np.uint8]  # [n + 1]: EMPTY, BLACK, WHITE or WALL
    chain_id: npt.NDArray[np.uint16]  # [n + 1]: the chain of each stone, identified by the point of one of its stones
    next_in_chain: npt.NDArray[np.uint16]  # [n]: the next stone of the same chain, in a ring
    n_stones: npt.NDArray[np.int16]  # [n]: by chain id
    n_liberties: npt.NDArray[np.int16]  # [n]: by chain id
    stones: npt.NDArray[np.uint64]  # [n, W]: bit sets, by chain id
    liberties: npt.NDArray[np.uint64]  # [n, W]: bit sets, by chain id
    key: npt.NDArray[np.uint64]  # [n]: by chain id: the exclusive or of its stones' Zobrist keys
    # [n]: by chain id: 1, 2 or 3 for one, two, three or more liberties; 0 for none
    liberty_class: npt.NDArray[np.uint8]
    # [2, 3, W]: bit sets of the black and the white stones of chains in liberty classes 1 to 3. Stones without
    # liberties are in none.
    stones_by_liberties: npt.NDArray[np.uint64]
    zobrist: npt.NDArray[np.uint64]  # [2, n]: the key of each black and each white stone
    hash: npt.NDArray[np.uint64]  # [1]: the exclusive or of the keys of all stones
    scalars: npt.NDArray[np.int64]  # [N_SCALARS]: KO_POINT, LAST_POINT, LAST_CAPTURED


@functools.cache
def neighbour_table(width: int, height: int) -> npt.NDArray[np.uint16]:
    """Return [n, 4] uint16: the points left, right, above and below each point, or n = width * height for the wall."""
    n = width * height
    y, x = np.divmod(np.arange(n), width)
    table = np.full((n, 4), n, np.uint16)
    for k, (dx, dy) in enumerate(((-1, 0), (1, 0), (0, -1), (0, 1))):
        inside = (x + dx >= 0) & (x + dx < width) & (y + dy >= 0) & (y + dy < height)
        table[inside, k] = ((y + dy) * width + x + dx)[inside]
    table.setflags(write=False)
    return table


@functools.cache
def zobrist_keys(n: int) -> npt.NDArray[np.uint64]:
    """Return [2, n] uint64, a key for each black and white stone; never changed, so hashes of them may be stored."""
    keys = np.random.Generator(np.random.PCG64(20150408)).integers(0, 2**64, (2, 625), np.uint64, endpoint=False)
    keys = np.ascontiguousarray(keys[:, :n])
    keys.setflags(write=False)
    return keys


def new_state(width: int, height: int) -> State:
    """Return an empty board. Raises GameError if width or height is not in 1..25."""
    check_size(width, height)
    n = width * height
    words = 6 if n < 384 else 10  # the wall, point n, has a bit too
    state = State(
        words=(0,) * words, neighbours=neighbour_table(width, height), colour=np.zeros(n + 1, np.uint8),
        chain_id=np.zeros(n + 1, np.uint16), next_in_chain=np.zeros(n, np.uint16), n_stones=np.zeros(n, np.int16),
        n_liberties=np.zeros(n, np.int16), stones=np.zeros((n, words), np.uint64),
        liberties=np.zeros((n, words), np.uint64), key=np.zeros(n, np.uint64), liberty_class=np.zeros(n, np.uint8),
        stones_by_liberties=np.zeros((2, 3, words), np.uint64), zobrist=zobrist_keys(n), hash=np.zeros(1, np.uint64),
        scalars=np.full(N_SCALARS, -1, np.int64),
    )  # fmt: skip
    clear(state)
    return state


# Bit sets


@inline_kernel
def bit(point: Any) -> Any:
    """Return the bit of a point within its word, which is word point >> 6."""
    return ONE << np.uint64(63 - (point & 63))


@inline_kernel
def popcount(x: Any) -> Any:
    """Return the number of bits set in a uint64; LLVM compiles this loop to one instruction."""
    n = 0
    while x != ZERO:
        x &= x - ONE
        n += 1
    return n


@inline_kernel
def last_point(i: Any, word: Any) -> Any:
    """Return the last point of word i of a bit set; the word is not 0. `word & (word - ONE)` removes it."""
    return 64 * i + 63 - popcount((word & (~word + ONE)) - ONE)


@inline_kernel
def add_point(out: Any, p: Any) -> None:
    """Add point p to the bit set out [W]."""
    out[p >> 6] |= bit(p)


@inline_kernel
def copy_bits(source: Any, out: Any) -> None:
    """Copy the bit set `source` to `out`."""
    for i in range(len(out)):
        out[i] = source[i]


# The board


@inline_kernel
def clear_totals(s: State) -> None:
    """Reset stones_by_liberties, the hash and the scalars to those of an empty board."""
    for c in range(2):
        for k in range(3):
            for i in range(len(s.words)):
                s.stones_by_liberties[c, k, i] = ZERO
    s.hash[0] = ZERO
    s.scalars[KO_POINT] = -1
    s.scalars[LAST_POINT] = -1
    s.scalars[LAST_CAPTURED] = 0


@kernel
def clear(s: State) -> None:
    """Remove all stones."""
    n = s.neighbours.shape[0]
    for p in range(n):
        s.colour[p] = EMPTY
    s.colour[n] = WALL
    clear_totals(s)


@inline_kernel
def _update_liberty_class(s: State, c: Any, h: Any) -> None:
    """Move chain h of colour c to the set of `stones_by_liberties` for its number of liberties."""
    old = s.liberty_class[h]
    if old != 0:
        for i in range(len(s.words)):
            s.stones_by_liberties[c - 1, old - 1, i] &= ~s.stones[h, i]
    new = min(s.n_liberties[h], 3)
    if new != 0:
        for i in range(len(s.words)):
            s.stones_by_liberties[c - 1, new - 1, i] |= s.stones[h, i]
    s.liberty_class[h] = np.uint8(new)


@inline_kernel
def relabel_chain(s: State, b: Any, chain_id: Any) -> None:
    """Set the chain id of all stones in the ring of b."""
    q = np.int64(b)
    while True:
        s.chain_id[q] = chain_id
        q = np.int64(s.next_in_chain[q])
        if q == b:
            break


@inline_kernel
def _merge_chains(s: State, c: Any, a: Any, b: Any) -> Any:
    """Merge chains a and b, neither with the new stone as a liberty; return the larger's id, in its liberty class."""
    if s.n_stones[a] < s.n_stones[b]:
        a, b = b, a
    old, new = s.liberty_class[b], s.liberty_class[a]
    if old != new:
        for i in range(len(s.words)):
            if old != 0:
                s.stones_by_liberties[c - 1, old - 1, i] &= ~s.stones[b, i]
            if new != 0:
                s.stones_by_liberties[c - 1, new - 1, i] |= s.stones[b, i]
    n = 0
    for i in range(len(s.words)):
        s.stones[a, i] |= s.stones[b, i]
        both = s.liberties[a, i] | s.liberties[b, i]
        s.liberties[a, i] = both
        n += popcount(both)
    s.n_liberties[a] = n
    s.n_stones[a] += s.n_stones[b]
    s.key[a] ^= s.key[b]
    relabel_chain(s, b, a)
    s.next_in_chain[a], s.next_in_chain[b] = s.next_in_chain[b], s.next_in_chain[a]
    return a


@inline_kernel
def _remove_chain(s: State, h: Any) -> None:
    """Remove chain h from the board; the chains around it gain its points as liberties."""
    c = s.colour[h]
    liberty_class = s.liberty_class[h]
    if liberty_class != 0:
        for i in range(len(s.words)):
            s.stones_by_liberties[c - 1, liberty_class - 1, i] &= ~s.stones[h, i]
    s.hash[0] ^= s.key[h]
    p = h
    while True:
        s.colour[p] = EMPTY
        w, b = p >> 6, bit(p)
        for k in range(4):
            q = s.neighbours[p, k]
            if s.colour[q] == 3 - c:
                g = s.chain_id[q]
                if s.liberties[g, w] & b == ZERO:
                    s.liberties[g, w] |= b
                    s.n_liberties[g] += 1
        p = s.next_in_chain[p]
        if p == h:
            break
    # A second round, because a chain may gain several liberties and should change its class once.
    while True:
        for k in range(4):
            q = s.neighbours[p, k]
            if s.colour[q] == 3 - c:
                g = s.chain_id[q]
                if s.liberty_class[g] != min(s.n_liberties[g], 3):
                    _update_liberty_class(s, 3 - c, g)
        p = s.next_in_chain[p]
        if p == h:
            break


@inline_kernel
def _new_chain(s: State, p: Any, c: Any) -> None:
    """Make a chain of the single stone p, already coloured c, in liberty class 0."""
    for i in range(len(s.words)):
        s.stones[p, i] = ZERO
        s.liberties[p, i] = ZERO
    s.stones[p, p >> 6] = bit(p)
    free = 0
    for k in range(4):
        q = s.neighbours[p, k]
        if s.colour[q] == EMPTY:
            s.liberties[p, q >> 6] |= bit(q)
            free += 1
    s.chain_id[p] = p
    s.next_in_chain[p] = p
    s.n_stones[p] = 1
    s.n_liberties[p] = free
    s.liberty_class[p] = 0
    s.key[p] = s.zobrist[c - 1, p]


@inline_kernel
def extend_chain(s: State, h: Any, p: Any) -> None:
    """Add the stone p, already coloured, to the chain h beside it, except to the chain's bit set of stones."""
    w, b = p >> 6, bit(p)
    s.liberties[h, w] &= ~b
    gained = -1
    for k in range(4):
        q = s.neighbours[p, k]
        if s.colour[q] == EMPTY:
            if s.liberties[h, q >> 6] & bit(q) == ZERO:
                gained += 1
            s.liberties[h, q >> 6] |= bit(q)
    s.n_liberties[h] += gained
    s.chain_id[p] = h
    s.next_in_chain[p] = s.next_in_chain[h]
    s.next_in_chain[h] = p
    s.n_stones[h] += 1


@inline_kernel
def _extend_with_stones(s: State, h: Any, p: Any, c: Any) -> None:
    """Add the stone p, already coloured c, to the chain h beside it, except for the liberty class.

    Making p a chain and merging the two would be shorter, but would read rows of words right after single words of them
    were written, which stalls the processor.
    """
    extend_chain(s, h, p)
    s.stones[h, p >> 6] |= bit(p)
    s.key[h] ^= s.zobrist[c - 1, p]


@inline_kernel
def _join_neighbours(s: State, p: Any, c: Any) -> Any:
    """Add the stone p, already coloured c, to the friendly chains beside it, or make it a chain. Return its chain."""
    me: Any = -1
    for k in range(4):
        q = s.neighbours[p, k]
        if s.colour[q] == c:
            h = np.int64(s.chain_id[q])
            if me < 0:
                me = h
                _extend_with_stones(s, me, p, c)
            elif h != me:
                s.liberties[h, p >> 6] &= ~bit(p)
                me = _merge_chains(s, c, me, h)
    if me < 0:
        me = np.int64(p)
        _new_chain(s, p, c)
    return me


@inline_kernel
def would_have_liberty(s: State, p: Any, c: Any) -> Any:
    """Return whether a stone of colour c on the empty point p would have a liberty after its captures."""
    for k in range(4):
        q = s.neighbours[p, k]
        cq = s.colour[q]
        if cq == EMPTY:
            return True
        if cq == c:
            if s.n_liberties[s.chain_id[q]] > 1:
                return True
        elif cq != WALL and s.n_liberties[s.chain_id[q]] == 1:
            return True
    return False


@inline_kernel
def has_own_neighbour(s: State, p: Any, c: Any) -> Any:
    """Return whether a stone of colour c is adjacent to p."""
    for k in range(4):
        if s.colour[s.neighbours[p, k]] == c:
            return True
    return False


@inline_kernel
def play(s: State, p: Any, c: Any, suicide: Any) -> Any:
    """Play colour c on point p without checking ko. Returns 0, or OCCUPIED or SUICIDE and changes nothing."""
    if s.colour[p] != EMPTY:
        return OCCUPIED
    if (
        suicide != SUICIDE_LEFT
        and not would_have_liberty(s, p, c)
        and (suicide == SUICIDE_FORBIDDEN or not has_own_neighbour(s, p, c))
    ):
        return SUICIDE
    s.colour[p] = c
    s.hash[0] ^= s.zobrist[c - 1, p]
    me = _join_neighbours(s, p, c)
    w, b = p >> 6, bit(p)
    captured = 0
    last_captured: Any = -1
    for k in range(4):
        q = s.neighbours[p, k]
        if s.colour[q] == 3 - c:
            h = np.int64(s.chain_id[q])
            if s.liberties[h, w] & b != ZERO:  # else an earlier neighbour was of the same chain
                s.liberties[h, w] &= ~b
                s.n_liberties[h] -= 1
                if s.n_liberties[h] == 0:
                    captured += s.n_stones[h]
                    last_captured = h
                    _remove_chain(s, h)
                elif s.n_liberties[h] < 3:
                    _update_liberty_class(s, 3 - c, h)
    liberty_class = s.liberty_class[me]
    if liberty_class != 0 and liberty_class == min(s.n_liberties[me], 3):
        # The merged chains are in the right set already, see `_merge_chains`.
        s.stones_by_liberties[c - 1, liberty_class - 1, w] |= b
    else:
        _update_liberty_class(s, c, me)
    s.scalars[KO_POINT] = last_captured if captured == 1 and s.n_stones[me] == 1 and s.n_liberties[me] == 1 else -1
    s.scalars[LAST_POINT] = p
    s.scalars[LAST_CAPTURED] = captured
    if s.n_liberties[me] == 0 and suicide == SUICIDE_REMOVED:
        _remove_chain(s, me)
        s.scalars[LAST_POINT] = -1
    return 0


@inline_kernel
def pass_turn(s: State) -> None:
    """Pass, which lifts the ban of simple ko and changes nothing else."""
    s.scalars[KO_POINT] = -1


@kernel
def rebuild_chains(s: State) -> None:
    """Rebuild everything from `s.colour`, which the caller has changed, as setup does. Nothing is captured.

    This lifts the ban of ko and forgets the last move. A chain without liberties stays, in liberty class 0.
    """
    n = s.neighbours.shape[0]
    for p in range(n):
        if s.colour[p] != EMPTY:
            s.colour[p] += 4  # not yet placed: counts as neither empty, friend nor enemy
    clear_totals(s)
    for p in range(n):
        if s.colour[p] > 4:
            s.colour[p] -= 4
            s.hash[0] ^= s.zobrist[s.colour[p] - 1, p]
            _join_neighbours(s, p, s.colour[p])
    for p in range(n):
        if s.colour[p] != EMPTY and s.chain_id[p] == p:
            count = 0
            for i in range(len(s.words)):
                count += popcount(s.liberties[p, i])
            s.n_liberties[p] = count
            s.liberty_class[p] = 0
            _update_liberty_class(s, s.colour[p], p)


@inline_kernel
def has_chain_without_liberties(s: State) -> Any:
    """Return whether a chain on the board has no liberty, which only setup can leave behind."""
    for p in range(s.neighbours.shape[0]):
        if s.colour[p] != EMPTY and s.n_liberties[s.chain_id[p]] == 0:
            return True
    return False


_BOARD = 0x9E3779B97F4A7C15


class PositionTables(NamedTuple):
    """Tables of a board of n points, and scratch memory of one thread."""

    keys: Hashes  # [2, n, 8] uint64, the key of a black or white stone on each point under each symmetry
    empty: Hashes  # [8] uint64, the hashes of the empty board
    images: npt.NDArray[np.int16]  # [8, n + 1]: `kifu.point.symmetries`
    colour: npt.NDArray[np.uint8]  # [n]: the board
    hashes: Hashes  # [8] uint64, its hashes


def position_tables(width: int, height: int) -> PositionTables:
    """Return tables with new scratch memory."""
    images = writable_view(symmetries(width, height))
    return PositionTables(
        *symmetry_keys(width, height), images, np.empty(width * height, np.uint8), np.empty(8, np.uint64)
    )


@functools.lru_cache(maxsize=64)
def symmetry_keys(width: int, height: int) -> tuple[Hashes, Hashes]:
    """Return the key of a stone of the first (0) or second (1) kind on each point under each symmetry: [2, n, 8].

    And the hashes of the empty board: [8]. All are uint64 and never change.
    """
    n = width * height
    keys = zobrist_keys(n)[:, symmetries(width, height)[:, :n]]  # [2, 8, n]
    sizes = [256 * width + height] * 4 + [256 * height + width] * 4
    empty = np.array([size * _BOARD % 2**64 for size in sizes], np.uint64)
    return np.ascontiguousarray(keys.transpose(0, 2, 1)), empty


@inline_kernel
def clear_stones(s: PositionTables) -> None:
    """Start from the empty board."""
    for p in range(s.colour.shape[0]):
        s.colour[p] = EMPTY
    for k in range(8):
        s.hashes[k] = s.empty[k]


@inline_kernel
def set_stone(s: PositionTables, p: Any, c: Any) -> None:
    """Put a stone of colour c on point p in place of what is there, or empty it."""
    before = np.int64(s.colour[p])
    if before != EMPTY:
        for k in range(8):
            s.hashes[k] ^= s.keys[before - 1, p, k]
    if c != EMPTY:
        for k in range(8):
            s.hashes[k] ^= s.keys[c - 1, p, k]
    s.colour[p] = c


@inline_kernel
def set_stones(s: PositionTables, board: State) -> None:
    """Put the stones of a board in place of what is there."""
    for p in range(s.colour.shape[0]):
        if s.colour[p] != board.colour[p]:
            set_stone(s, p, np.int64(board.colour[p]))


@inline_kernel
def lowest_hash(hashes: Any) -> Any:
    """Return the index of the lowest of eight hashes, of equal ones the first."""
    low = 0
    for k in range(1, 8):
        if hashes[k] < hashes[low]:
            low = k
    return low
