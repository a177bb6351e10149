"""`push` and `pop` compared with the naive board; `pop` restores everything."""

import numba
import numpy as np
import pytest

from compiled import bits, play
from kifu.go.ladder import new_undo_stack, pop, push, reset_undo
from kifu.go.state import new_state, would_have_liberty
from kifu.kernel import kernel
from naive import FORBIDDEN, NaiveBoard

pytestmark = pytest.mark.slow  # the kernels of ladders use it

SIZES = [(1, 5), (2, 3), (3, 3), (4, 4), (5, 5), (7, 6), (25, 25)]


@kernel
def start(s, t):
    reset_undo(s, t)


@kernel
def try_push(s, t, p, c):
    """Push a move if it is possible, and return whether it was."""
    if s.colour[p] != 0 or not would_have_liberty(s, np.int64(p), np.uint8(c)):
        return False
    push(s, t, np.int64(p), np.uint8(c))
    return True


@kernel
def undo(s, t):
    pop(s, t)


def everything(s):
    """Everything that a State stores about the stones on the board and the position."""
    stones = np.flatnonzero(s.colour[:-1])
    heads = np.unique(s.chain_id[stones])
    by_stone = [s.chain_id[stones], s.next_in_chain[stones]]
    by_chain = [s.n_stones, s.n_liberties, s.stones, s.liberties, s.key, s.liberty_class]
    return [
        a.tolist()
        for a in (s.colour, *by_stone, *(a[heads] for a in by_chain), s.stones_by_liberties, s.hash, s.scalars)
    ]


def assert_chains(s, naive):
    """Check what `push` maintains against the naive board."""
    w = naive.width
    for colour, stones, liberties in naive.chains():
        points = {y * w + x for x, y in stones}
        (head,) = {int(s.chain_id[p]) for p in points}
        ring = [head]
        while int(s.next_in_chain[ring[-1]]) != head:
            ring.append(int(s.next_in_chain[ring[-1]]))
        assert sorted(ring) == sorted(points)
        assert set(s.colour[ring].tolist()) == {colour}
        assert bits(s.liberties[head]) == {y * w + x for x, y in liberties}
        assert (s.n_stones[head], s.n_liberties[head]) == (len(stones), len(liberties))


@pytest.mark.nojit
@pytest.mark.parametrize(("width", "height"), SIZES)
def test_push_and_pop(width, height):
    """Random games, then random pushes and pops, back to the position after the game."""
    rng = np.random.default_rng([width, height])
    n = width * height
    near = int(rng.integers(n))
    t = new_undo_stack(100, len(new_state(width, height).words))
    for _ in range(3 if numba.config.DISABLE_JIT else 60):
        s, naive = new_state(width, height), NaiveBoard(width, height, "none", FORBIDDEN)

        def some_move():
            p = (near + int(rng.integers(-2, 3)) + width * int(rng.integers(-2, 3))) % n
            return p, (p % width, p // width), int(rng.integers(1, 3))

        for _ in range(int(rng.integers(40))):
            p, point, colour = some_move()
            if naive.why_not(point, colour) == 0:
                naive.play(point, colour)
                assert play(s, p, colour, FORBIDDEN) == 0
        start(s, t)
        assert t.ko[0] == s.scalars[0]
        before, share = [], rng.uniform(0, 0.5)
        for _ in range(80):
            if before and rng.random() < share:
                naive.stones, expected = before.pop()
                undo(s, t)
                assert everything(s) == expected
                continue
            p, point, colour = some_move()
            now = naive.stones, everything(s)
            legal = naive.why_not(point, colour) == 0
            assert try_push(s, t, p, colour) == legal
            if legal:
                before.append(now)
                naive.play(point, colour)
                ko = naive.ko_point
                assert t.ko[len(before)] == (-1 if ko is None else ko[1] * width + ko[0])
                assert_chains(s, naive)
        while before:
            naive.stones, expected = before.pop()
            undo(s, t)
            assert everything(s) == expected
