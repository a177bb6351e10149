"""The compiled board: its arrays, and the kernels that change them by one stone.

A board is a `State`, a tuple of flat arrays that `new_state` makes once and that serves any number of games of its size
one after another. Chains are kept exactly: each has its stones and its liberties as bit sets, so that joining chains is
a few ORs and a liberty is never counted twice. Besides, the board keeps, at all times, six sets that plane kernels copy
out: the stones of either colour with one, two, and three or more liberties (`shades`).

A bit set is W words of 64 bits, first point in the highest bit of the first word, so that packed planes (which are
written highest bit first) are shifts of it. W is 6 up to 19 x 19 and 10 up to 25 x 25; it is handed on as a tuple of W
zeros, since the length of a tuple is a constant to the compiler, which then unrolls the loops over words.

Nothing here knows of ko but for the one point that simple ko forbids after each move (`KO_POINT`); legality under all
rules is in `kifu.go.rules`.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kifu.errors import DropReason
from kifu.kernel import inline_kernel, kernel
from kifu.point import BLACK, WHITE, check_size

EMPTY, WALL = 0, 3

# What `play` does with a stone that leaves its own chain without liberties.
SUICIDE_FORBIDDEN = 0  # refuses it
SUICIDE_REMOVED = 1  # takes the chain off; a single stone is refused even so, for it would change nothing
SUICIDE_LEFT = 2  # leaves it standing with no liberty, as the kgsgo program of 2015 did

# Indices of State.numbers
KO_POINT = 0  # the point that simple ko forbids to the side that did not move last; -1 if none
LAST_POINT = 1  # the stone played last; -1 before the first, or if it did not stay on the board
LAST_CAPTURED = 2  # how many stones it took
N_SCALARS = 3

OCCUPIED = int(DropReason.OCCUPIED)
SUICIDE = int(DropReason.SUICIDE)

ONE = np.uint64(1)
ZERO = np.uint64(0)


class State(NamedTuple):
    """A board of n = width * height points; index n of the arrays by point is the wall around it.

    words: W zeros.  near: [n, 4] uint16, the neighbours of each point, n where there is none.
    colour: [n + 1] uint8 of EMPTY, BLACK, WHITE, WALL.
    head: [n + 1] uint16, the chain that a stone belongs to, named by one of its stones.
    link: [n] uint16, the next stone of the same chain, in a ring.
    By chain (index head): n_stones, n_liberties [n] int16; stones, liberties [n, W] uint64 bit sets;
    key [n] uint64, the exclusive or of its stones' Zobrist keys; shade [n] uint8, where it stands in `shades`.
    shades: [2, 3, W] uint64: black and white stones of chains with 1, 2, 3+ liberties. Stones with none are in no set.
    zobrist: [2, n] uint64.  hash: [1] uint64, the exclusive or over all stones.  numbers: [N_NUMBERS] int64.
    """

    words: tuple[int, ...]
    neighbours: npt.NDArray[np.uint16]
    colour: npt.NDArray[np.uint8]
    chain_id: npt.NDArray[np.uint16]
    next_in_chain: npt.NDArray[np.uint16]
    n_stones: npt.NDArray[np.int16]
    n_liberties: npt.NDArray[np.int16]
    stones: npt.NDArray[np.uint64]
    liberties: npt.NDArray[np.uint64]
    key: npt.NDArray[np.uint64]
    liberty_class: npt.NDArray[np.uint8]
    stones_by_liberties: npt.NDArray[np.uint64]
    zobrist: npt.NDArray[np.uint64]
    hash: npt.NDArray[np.uint64]
    scalars: npt.NDArray[np.int64]


@functools.cache
def neighbour_table(width: int, height: int) -> npt.NDArray[np.uint16]:
    """[n, 4] uint16: the points left, right, above and below each point; n = width * height where there is none."""
    n = width * height
    y, x = np.divmod(np.arange(n), width)
    near = np.full((n, 4), n, np.uint16)
    for k, (dx, dy) in enumerate(((-1, 0), (1, 0), (0, -1), (0, 1))):
        inside = (x + dx >= 0) & (x + dx < width) & (y + dy >= 0) & (y + dy < height)
        near[inside, k] = ((y + dy) * width + x + dx)[inside]
    near.setflags(write=False)
    return near


@functools.cache
def zobrist_keys(n: int) -> npt.NDArray[np.uint64]:
    """[2, n] uint64: a key for each stone of each colour. Always the same keys, so that hashes may be stored."""
    keys = np.random.Generator(np.random.PCG64(20150408)).integers(0, 2**64, (2, 625), np.uint64, endpoint=False)
    keys = np.ascontiguousarray(keys[:, :n])
    keys.setflags(write=False)
    return keys


def new_state(width: int, height: int) -> State:
    """An empty board. Raises GameError for a size that is not within 1 to 25."""
    check_size(width, height)
    n = width * height
    words = 6 if n < 384 else 10  # the wall, point n, has a bit too
    state = State(
        words=(0,) * words,
        neighbours=neighbour_table(width, height),
        colour=np.zeros(n + 1, np.uint8),
        chain_id=np.zeros(n + 1, np.uint16),
        next_in_chain=np.zeros(n, np.uint16),
        n_stones=np.zeros(n, np.int16),
        n_liberties=np.zeros(n, np.int16),
        stones=np.zeros((n, words), np.uint64),
        liberties=np.zeros((n, words), np.uint64),
        key=np.zeros(n, np.uint64),
        liberty_class=np.zeros(n, np.uint8),
        stones_by_liberties=np.zeros((2, 3, words), np.uint64),
        zobrist=zobrist_keys(n),
        hash=np.zeros(1, np.uint64),
        scalars=np.full(N_SCALARS, -1, np.int64),
    )
    clear(state)
    return state


@inline_kernel
def bit(point: Any) -> Any:
    """The bit of a point within its word, which is word point >> 6."""
    return ONE << np.uint64(63 - (point & 63))


@inline_kernel
def popcount(x: Any) -> Any:
    """The number of bits set in a uint64. LLVM knows this loop and makes one instruction of it."""
    n = 0
    while x != ZERO:
        x &= x - ONE
        n += 1
    return n


@inline_kernel
def clear_totals(s: State) -> None:
    """Empties what is kept of the board as a whole: shades, hash, and the word of the last move."""
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
    """Takes everything off the board."""
    n = s.neighbours.shape[0]
    for p in range(n):
        s.colour[p] = EMPTY
    s.colour[n] = WALL
    clear_totals(s)


@inline_kernel
def _reshade(s: State, c: Any, h: Any) -> None:
    """Moves chain h of colour c into the set of `shades` that its liberties call for; shade 0 is no set."""
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
def relabel_chain(s: State, b: Any, name: Any) -> None:
    """Calls all stones of the ring of b by `name`."""
    q = np.int64(b)
    while True:
        s.chain_id[q] = name
        q = np.int64(s.next_in_chain[q])
        if q == b:
            break


@inline_kernel
def _join(s: State, c: Any, a: Any, b: Any) -> Any:
    """Makes one chain of a and b, which share no liberty that is taken, and returns its name.

    It stays shaded as the larger one was; the stones of the smaller one move there.
    """
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
def _lift(s: State, h: Any) -> None:
    """Takes chain h off the board; the chains around it gain its points as liberties."""
    c = s.colour[h]
    shade = s.liberty_class[h]
    if shade != 0:
        for i in range(len(s.words)):
            s.stones_by_liberties[c - 1, shade - 1, i] &= ~s.stones[h, i]
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
    # A second round, because a chain may gain several liberties and should change its shade once.
    while True:
        for k in range(4):
            q = s.neighbours[p, k]
            if s.colour[q] == 3 - c:
                g = s.chain_id[q]
                if s.liberty_class[g] != min(s.n_liberties[g], 3):
                    _reshade(s, 3 - c, g)
        p = s.next_in_chain[p]
        if p == h:
            break


@inline_kernel
def _found(s: State, p: Any, c: Any) -> None:
    """Makes the stone p, already coloured c, a chain of its own, in no set of `shades` yet."""
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
    """Adds the stone p, already coloured, to the chain h beside it, but not to the chain's bit set of stones."""
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
def _extend(s: State, h: Any, p: Any, c: Any) -> None:
    """Adds the stone p, already coloured c, to the chain h beside it; its shade is left for the caller.

    Word by word: to found p as a chain and join that would read rows of words right after single words of them were
    written, and a processor has to wait for those.
    """
    extend_chain(s, h, p)
    s.stones[h, p >> 6] |= bit(p)
    s.key[h] ^= s.zobrist[c - 1, p]


@inline_kernel
def _settle(s: State, p: Any, c: Any) -> Any:
    """Gives the stone p, already coloured c, to the friendly chains beside it, or founds one. Returns its chain."""
    me: Any = -1
    for k in range(4):
        q = s.neighbours[p, k]
        if s.colour[q] == c:
            h = np.int64(s.chain_id[q])
            if me < 0:
                me = h
                _extend(s, me, p, c)
            elif h != me:
                s.liberties[h, p >> 6] &= ~bit(p)
                me = _join(s, c, me, h)
    if me < 0:
        me = np.int64(p)
        _found(s, p, c)
    return me


@inline_kernel
def would_have_liberty(s: State, p: Any, c: Any) -> Any:
    """Whether a stone of colour c on the empty point p would have a liberty once what it captures is gone."""
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
    """Whether a stone of colour c stands beside p."""
    for k in range(4):
        if s.colour[s.neighbours[p, k]] == c:
            return True
    return False


@inline_kernel
def play(s: State, p: Any, c: Any, suicide: Any) -> Any:
    """Plays a stone of colour c (BLACK or WHITE) on point p, which must be one of the board, not a pass.

    suicide: one of SUICIDE_*. Does not check ko. Returns 0, or OCCUPIED or SUICIDE, and then nothing has changed.
    """
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
    me = _settle(s, p, c)
    w, b = p >> 6, bit(p)
    captured = 0
    taken: Any = -1
    for k in range(4):
        q = s.neighbours[p, k]
        if s.colour[q] == 3 - c:
            h = np.int64(s.chain_id[q])
            if s.liberties[h, w] & b != ZERO:  # else an earlier neighbour was of the same chain
                s.liberties[h, w] &= ~b
                s.n_liberties[h] -= 1
                if s.n_liberties[h] == 0:
                    captured += s.n_stones[h]
                    taken = h
                    _lift(s, h)
                elif s.n_liberties[h] < 3:
                    _reshade(s, 3 - c, h)
    shade = s.liberty_class[me]
    if shade != 0 and shade == min(s.n_liberties[me], 3):
        s.stones_by_liberties[c - 1, shade - 1, w] |= (
            b  # what was joined to it is there already, or was moved by `_join`
        )
    else:
        _reshade(s, c, me)
    s.scalars[KO_POINT] = taken if captured == 1 and s.n_stones[me] == 1 and s.n_liberties[me] == 1 else -1
    s.scalars[LAST_POINT] = p
    s.scalars[LAST_CAPTURED] = captured
    if s.n_liberties[me] == 0 and suicide == SUICIDE_REMOVED:
        _lift(s, me)
        s.scalars[LAST_POINT] = -1
    return 0


@inline_kernel
def pass_turn(s: State) -> None:
    """A pass lifts the ban of simple ko, and changes nothing else."""
    s.scalars[KO_POINT] = -1


@kernel
def rebuild_chains(s: State) -> None:
    """Founds all chains anew from `s.colour`, which the caller has changed, as setup does: nothing is captured.

    Lifts the ban of ko and forgets which stone was played last. A chain without liberties stays, in no set of `shades`.
    """
    n = s.neighbours.shape[0]
    for p in range(n):
        if s.colour[p] != EMPTY:
            s.colour[p] += 4  # waiting: neither empty nor friend nor enemy
    clear_totals(s)
    for p in range(n):
        if s.colour[p] > 4:
            s.colour[p] -= 4
            s.hash[0] ^= s.zobrist[s.colour[p] - 1, p]
            _settle(s, p, s.colour[p])
    for p in range(n):
        if s.colour[p] != EMPTY and s.chain_id[p] == p:
            count = 0
            for i in range(len(s.words)):
                count += popcount(s.liberties[p, i])
            s.n_liberties[p] = count
            s.liberty_class[p] = 0
            _reshade(s, s.colour[p], p)


__all__ = [
    "BLACK",
    "EMPTY",
    "KO_POINT",
    "LAST_CAPTURED",
    "LAST_POINT",
    "SUICIDE_FORBIDDEN",
    "SUICIDE_LEFT",
    "SUICIDE_REMOVED",
    "WALL",
    "WHITE",
    "State",
    "bit",
    "clear",
    "clear_totals",
    "extend_chain",
    "has_own_neighbour",
    "neighbour_table",
    "new_state",
    "pass_turn",
    "play",
    "popcount",
    "rebuild_chains",
    "relabel_chain",
    "would_have_liberty",
    "zobrist_keys",
]
