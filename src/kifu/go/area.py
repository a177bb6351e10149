"""The owner of each point: unconditionally alive chains, the regions they enclose, and areas under a tax.

Chains are found alive by Benson's algorithm ("Life in the game of Go", Information Sciences 10, 1976), in these terms:
a region of one side is a maximal connected set of points without stones of that side, some of them empty. It is vital
to a chain of that side if all its empty points are liberties of the chain (with suicide: if all its points touch the
chain, because the opponent could remove stones that block it). The pass-alive chains are the largest set of chains each
of which has two vital regions that touch no other chain.

Benson leaves open who owns the regions. That follows KataGo (Board::calculateArea and calculateIndependentLifeArea,
v1.17.2).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kifu.go.state import EMPTY, ZERO, State, bit, new_state
from kifu.kernel import inline_kernel, kernel
from kifu.point import BLACK, WHITE

# Marks in AreaWorkspace.region, below the numbers of regions
UNSEEN, OWN, OUTSIDE = -1, -2, -3


class AreaWorkspace(NamedTuple):
    """Results and scratch memory for the areas of a board of n points, for one thread.

    All but the first two arrays are for the regions of one side at a time, of which there are at most n.
    """

    # [2, W]: bit sets of Black and White: pass-alive stones and the regions that are certainly theirs
    alive: npt.NDArray[np.uint64]
    # [2, W]: bit sets: empty regions that touch stones of that side only, not all of them pass-alive
    enclosed: npt.NDArray[np.uint64]
    region: npt.NDArray[np.int16]  # [n + 1]: the number of each point's region, or a mark
    queue: npt.NDArray[np.int16]  # [n]: the points of all regions, one region after another
    start: npt.NDArray[np.int16]  # [n + 1]: where each region begins in `queue`
    vital: npt.NDArray[np.int16]  # [n, 4]: the chains that each region is vital to
    n_vital: npt.NDArray[np.uint8]  # [n]: how many these are
    narrow: npt.NDArray[np.bool_]  # [n]: whether at most one point of the region touches no stone of its side
    holds_stones: npt.NDArray[np.bool_]  # [n]: whether the region has stones of the opponent
    broken: npt.NDArray[np.bool_]  # [n]: whether the region touches chains that are not pass-alive
    n_regions: npt.NDArray[np.int16]  # [n]: by chain id, how many vital regions it has left


def new_area_workspace(width: int, height: int) -> AreaWorkspace:
    """Return a workspace for boards of one size. Raises GameError if width or height is not in 1..25."""
    n, words = width * height, len(new_state(width, height).words)
    return AreaWorkspace(
        alive=np.zeros((2, words), np.uint64), enclosed=np.zeros((2, words), np.uint64),
        region=np.zeros(n + 1, np.int16), queue=np.zeros(n, np.int16), start=np.zeros(n + 1, np.int16),
        vital=np.zeros((n, 4), np.int16), n_vital=np.zeros(n, np.uint8), narrow=np.zeros(n, np.bool_),
        holds_stones=np.zeros(n, np.bool_), broken=np.zeros(n, np.bool_), n_regions=np.zeros(n, np.int16),
    )  # fmt: skip


@inline_kernel
def _is_vital(s: State, a: AreaWorkspace, r: Any, h: Any, suicide: Any) -> Any:
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
    """Make region r of all points connected to the empty point `first`."""
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
    """Find the chains that region r is vital to; they all touch its first point."""
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
def _touches_mortal_chain(s: State, a: AreaWorkspace, r: Any) -> Any:
    """Return whether region r touches a chain of its side with fewer than two vital regions left."""
    for i in range(a.start[r], a.start[r + 1]):
        p = np.int64(a.queue[i])
        for k in range(4):
            q = s.neighbours[p, k]
            if a.region[q] == OWN and a.n_regions[s.chain_id[q]] < 2:
                return True
    return False


@inline_kernel
def _find_regions(s: State, a: AreaWorkspace, board: Any, c: Any, suicide: Any) -> Any:
    """Find the regions of colour c and the chains they are vital to. Return their number; 0 if c has no stone."""
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
def _add_region(a: AreaWorkspace, r: Any, out: Any) -> None:
    for i in range(a.start[r], a.start[r + 1]):
        p = np.int64(a.queue[i])
        out[p >> 6] |= bit(p)


@kernel
def _find_alive(s: State, a: AreaWorkspace, board: npt.NDArray[np.uint64], c: int, suicide: bool) -> None:
    """Fill a.alive and a.enclosed of colour c."""
    alive, enclosed = a.alive[c - 1], a.enclosed[c - 1]
    for i in range(len(s.words)):
        alive[i] = ZERO
        enclosed[i] = ZERO
    n = _find_regions(s, a, board, c, suicide)
    changed = True
    while changed:
        changed = False
        for r in range(n):
            if not a.broken[r] and _touches_mortal_chain(s, a, r):
                a.broken[r] = True
                for j in range(a.n_vital[r]):
                    a.n_regions[a.vital[r, j]] -= 1
                    changed = True
    for r in range(n):
        if a.broken[r]:
            if not a.holds_stones[r]:
                _add_region(a, r, enclosed)
            continue
        for j in range(a.n_vital[r]):
            for i in range(len(s.words)):
                alive[i] |= s.stones[a.vital[r, j], i]
        if a.narrow[r] or not a.holds_stones[r]:
            _add_region(a, r, alive)


@inline_kernel
def _enqueue(a: AreaWorkspace, tail: Any, p: Any) -> Any:
    """Append p to the queue if it has an owner and is not there yet, and return the new length."""
    if a.region[p] > 0:
        a.region[p] *= -1
        a.queue[tail] = p
        tail += 1
    return tail


@inline_kernel
def _apply_tax(s: State, a: AreaWorkspace, out: Any) -> None:
    """Remove empty points and opponent's stones from parts of areas that touch neutral points or hold stones in atari.

    Here a.region holds the owner of each point, negated once the point is known to lie in such a part.
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
                tail = _enqueue(a, tail, s.neighbours[p, k])
        elif s.colour[p] == owner and s.n_liberties[s.chain_id[p]] == 1:
            tail = _enqueue(a, tail, p)
    head = 0
    while head < tail:
        at = np.int64(a.queue[head])
        head += 1
        owner = -a.region[at]
        if s.colour[at] != owner:
            out[owner - 1, at >> 6] &= ~bit(at)
        for k in range(4):
            if a.region[s.neighbours[at, k]] == owner:
                tail = _enqueue(a, tail, s.neighbours[at, k])


@kernel
def find_areas(
    s: State, a: AreaWorkspace, board: npt.NDArray[np.uint64], suicide: bool, taxed: bool, out: npt.NDArray[np.uint64]
) -> None:
    """Find the areas of both sides.

    A side owns what is certainly its own (`AreaWorkspace.alive`), then the empty regions that touch only its stones,
    then stones that have no owner yet. So stones within regions of an opponent that is alive there are dead, and all
    others live.

    Args:
        s: The position, without stones that have no liberty, which only setup leaves.
        board: [W] uint64, bit set of the points of the game's board; the frame of `s` may have more points, without
            neighbours.
        suicide: Whether chains of two or more stones may remove themselves.
        taxed: Leave each side only its stones in those parts of its area that are seki: that touch a neutral point, or
            hold a stone of the owner in atari (the taxes "seki" and "all" of `kifu.katago.rules`).
        out: [2, W] uint64, filled with the bit sets of Black's and White's area.
    """
    _find_alive(s, a, board, BLACK, suicide)
    _find_alive(s, a, board, WHITE, suicide)
    for i in range(len(s.words)):
        black = (a.alive[0, i] | a.enclosed[0, i]) & ~a.alive[1, i]
        white = a.alive[1, i] | a.enclosed[1, i] & ~a.alive[0, i]
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
        _apply_tax(s, a, out)
