"""Whose each point is: chains that live even if their side always passes, what they enclose, and areas under a tax.

Chains are judged as by Benson ("Life in the game of Go", Information Sciences 10, 1976), in the words used here: a
region of one side is a connected set of points, some of them empty, where it has no stone, and as large as can be. It
is vital to a chain of that side all of whose empty points are liberties of the chain (with suicide: all of whose points
touch it, for there the other side could take stones off that block it). Pass-alive are the largest set of chains each
of which has two vital regions that no other chain touches.

How regions are then given away, which Benson leaves open, is KataGo's way (Board::calculateArea and
calculateIndependentLifeArea, v1.17.2).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kifu.go.state import BLACK, EMPTY, WHITE, ZERO, State, bit, new_state
from kifu.kernel import inline_kernel, kernel

# Marks in Areas.region, below the numbers of regions
UNSEEN, OWN, OUTSIDE = -1, -2, -3


class AreaWorkspace(NamedTuple):
    """Room to find the areas of a board of n points: for one thread.

    sure: [2, W] uint64 bit sets, of Black and White: pass-alive stones and the regions that are theirs for certain.
    loose: [2, W]: empty regions that touch stones of that side only, but not only pass-alive ones.
    The regions of one side, R at most n: region [n + 1] int16, the number of each point's region, or a mark.
    queue: [n] int16, the points of all regions, one region after another; start: [n + 1] int16, where each begins.
    vital: [n, 4] int16, the chains that a region is vital to; n_vital: [n] uint8.
    narrow, holds_stones, broken: [n] bool: is there one point of it at most that touches no stone of that side, has it
        stones of the other side, does it touch chains that are not pass-alive.
    n_regions: [n] uint8, by head of a chain, how many vital regions it has left.
    """

    sure: npt.NDArray[np.uint64]
    loose: npt.NDArray[np.uint64]
    region: npt.NDArray[np.int16]
    queue: npt.NDArray[np.int16]
    start: npt.NDArray[np.int16]
    vital: npt.NDArray[np.int16]
    n_vital: npt.NDArray[np.uint8]
    narrow: npt.NDArray[np.bool_]
    holds_stones: npt.NDArray[np.bool_]
    broken: npt.NDArray[np.bool_]
    n_regions: npt.NDArray[np.int16]


def new_area_workspace(width: int, height: int) -> AreaWorkspace:
    """Room for boards of this size. Raises GameError for a size that is not within 1 to 25."""
    n, words = width * height, len(new_state(width, height).words)
    return AreaWorkspace(
        sure=np.zeros((2, words), np.uint64),
        loose=np.zeros((2, words), np.uint64),
        region=np.zeros(n + 1, np.int16),
        queue=np.zeros(n, np.int16),
        start=np.zeros(n + 1, np.int16),
        vital=np.zeros((n, 4), np.int16),
        n_vital=np.zeros(n, np.uint8),
        narrow=np.zeros(n, np.bool_),
        holds_stones=np.zeros(n, np.bool_),
        broken=np.zeros(n, np.bool_),
        n_regions=np.zeros(n, np.int16),
    )


@inline_kernel
def _is_vital(s: State, a: AreaWorkspace, r: Any, h: Any, suicide: Any) -> Any:
    """Whether region r is vital to chain h."""
    for i in range(a.start[r], a.start[r + 1]):
        p = np.int64(a.queue[i])
        if s.colour[p] == EMPTY:
            if s.liberties[h, p >> 6] & bit(p) == ZERO:
                return False
        elif suicide:
            touches = False
            for k in range(4):
                q = s.neighbours[p, k]
                touches |= a.region[q] == OWN and s.chain_id[q] == h
            if not touches:
                return False
    return True


@inline_kernel
def _grow_region(s: State, a: AreaWorkspace, r: Any, first: Any) -> None:
    """Makes region r of all that is connected to the empty point `first`."""
    head = np.int64(a.start[r])
    tail = head + 1
    a.queue[head] = first
    a.region[first] = r
    inner = 0
    holds_stones = False
    while head < tail:
        p = np.int64(a.queue[head])
        head += 1
        holds_stones |= s.colour[p] != EMPTY
        touches = False
        for k in range(4):
            q = np.int64(s.neighbours[p, k])
            mark = a.region[q]
            if mark == UNSEEN:
                a.region[q] = r
                a.queue[tail] = q
                tail += 1
            touches |= mark == OWN
        if not touches:
            inner += 1
    a.start[r + 1] = tail
    a.narrow[r] = inner < 2
    a.holds_stones[r] = holds_stones


@inline_kernel
def _find_vital(s: State, a: AreaWorkspace, r: Any, suicide: Any) -> None:
    """Finds the chains that region r is vital to; they all touch its first point."""
    first = a.queue[a.start[r]]
    count = 0
    for k in range(4):
        q = s.neighbours[first, k]
        if a.region[q] == OWN:
            h = s.chain_id[q]
            known = False
            for j in range(count):
                known |= a.vital[r, j] == h
            if not known and _is_vital(s, a, r, h, suicide):
                a.vital[r, count] = h
                a.n_regions[h] += 1
                count += 1
    a.n_vital[r] = count
    a.broken[r] = False


@inline_kernel
def _touches_mortal(s: State, a: AreaWorkspace, r: Any) -> Any:
    """Whether region r touches a chain of its side that has not two vital regions left."""
    for i in range(a.start[r], a.start[r + 1]):
        p = np.int64(a.queue[i])
        for k in range(4):
            q = s.neighbours[p, k]
            if a.region[q] == OWN and a.n_regions[s.chain_id[q]] < 2:
                return True
    return False


@inline_kernel
def _find_regions(s: State, a: AreaWorkspace, board: Any, c: Any, suicide: Any) -> Any:
    """Finds the regions of colour c and what they are vital to. Returns how many there are; 0 if c has no stone."""
    n = s.neighbours.shape[0]
    stones = 0
    for p in range(n):
        own = s.colour[p] == c
        a.region[p] = OWN if own else UNSEEN
        stones += own
        a.n_regions[p] = 0
    a.region[n] = OUTSIDE
    if stones == 0:
        return 0
    r = 0
    a.start[0] = 0
    for p in range(n):
        if a.region[p] == UNSEEN and s.colour[p] == EMPTY and board[p >> 6] & bit(p) != ZERO:
            _grow_region(s, a, r, p)
            _find_vital(s, a, r, suicide)
            r += 1
    return r


@inline_kernel
def _mark(a: AreaWorkspace, r: Any, out: Any) -> None:
    """Adds the points of region r to a bit set."""
    for i in range(a.start[r], a.start[r + 1]):
        p = np.int64(a.queue[i])
        out[p >> 6] |= bit(p)


@kernel
def _judge(s: State, a: AreaWorkspace, board: npt.NDArray[np.uint64], c: int, suicide: bool) -> None:
    """Fills a.sure and a.loose of colour c."""
    sure, loose = a.sure[c - 1], a.loose[c - 1]
    for i in range(len(s.words)):
        sure[i] = ZERO
        loose[i] = ZERO
    n = _find_regions(s, a, board, c, suicide)
    changed = True
    while changed:
        changed = False
        for r in range(n):
            if not a.broken[r] and _touches_mortal(s, a, r):
                a.broken[r] = True
                for j in range(a.n_vital[r]):
                    a.n_regions[a.vital[r, j]] -= 1
                    changed = True
    for r in range(n):
        if a.broken[r]:
            if not a.holds_stones[r]:
                _mark(a, r, loose)
            continue
        for j in range(a.n_vital[r]):
            for i in range(len(s.words)):
                sure[i] |= s.stones[a.vital[r, j], i]
        if a.narrow[r] or not a.holds_stones[r]:
            _mark(a, r, sure)


@inline_kernel
def _taint(a: AreaWorkspace, tail: Any, p: Any) -> Any:
    """Puts the point p of somebody's area into the queue, unless it is there. Returns the new length."""
    if a.region[p] > 0:
        a.region[p] *= -1
        a.queue[tail] = p
        tail += 1
    return tail


@inline_kernel
def _take_tax(s: State, a: AreaWorkspace, out: Any) -> None:
    """Takes out of both areas what is empty, or a stone of the other side, in parts that touch neutral points or atari.

    a.region holds the owner of each point here, negative once it is known to lie in such a part.
    """
    n = s.neighbours.shape[0]
    for p in range(n):
        w, b = p >> 6, bit(p)
        a.region[p] = BLACK if out[0, w] & b != ZERO else WHITE if out[1, w] & b != ZERO else 0
    a.region[n] = 0
    tail = 0
    for p in range(n):
        owner = abs(a.region[p])
        if owner == 0:
            for k in range(4):
                tail = _taint(a, tail, s.neighbours[p, k])
        elif s.colour[p] == owner and s.n_liberties[s.chain_id[p]] == 1:
            tail = _taint(a, tail, p)
    head = 0
    while head < tail:
        at = np.int64(a.queue[head])
        head += 1
        owner = -a.region[at]
        if s.colour[at] != owner:
            out[owner - 1, at >> 6] &= ~bit(at)
        for k in range(4):
            if a.region[s.neighbours[at, k]] == owner:
                tail = _taint(a, tail, s.neighbours[at, k])


@kernel
def find_areas(
    s: State, a: AreaWorkspace, board: npt.NDArray[np.uint64], suicide: bool, taxed: bool, out: npt.NDArray[np.uint64]
) -> None:
    """Fills out: [2, W] uint64, bit sets of what is Black's area and what is White's.

    A side owns what is certainly its own (`AreaWorkspace.sure`), then the empty regions that touch only its stones, then stones
    that nobody owns yet. So stones in regions of the other side that is alive there are dead, and all others live.
    board: [W] uint64 bit set, the points that the board has; the frame of `s` may have more, which have no neighbours.
    suicide: whether chains of two or more stones may take themselves off.
    taxed: leaves each side only its stones in parts of its area that are seki: those that touch a neutral point, or
        hold a stone of the owner in atari (tax "seki" and "all" of `kifu.katago.rules`).
    Stones without a liberty, which only setup leaves, must not be there.
    """
    _judge(s, a, board, BLACK, suicide)
    _judge(s, a, board, WHITE, suicide)
    for i in range(len(s.words)):
        black = (a.sure[0, i] | a.loose[0, i]) & ~a.sure[1, i]
        white = a.sure[1, i] | a.loose[1, i] & ~a.sure[0, i]
        out[0, i] = (
            black
            | (s.stones_by_liberties[0, 0, i] | s.stones_by_liberties[0, 1, i] | s.stones_by_liberties[0, 2, i])
            & ~white
        )
        out[1, i] = (
            white
            | (s.stones_by_liberties[1, 0, i] | s.stones_by_liberties[1, 1, i] | s.stones_by_liberties[1, 2, i])
            & ~black
        )
    if taxed:
        _take_tax(s, a, out)
