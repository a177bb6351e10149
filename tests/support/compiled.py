"""Kernels that only tests call, to reach what is compiled into others; and the check of a whole State."""

import numpy as np
from hypothesis import settings

from kifu.go import rules, state
from kifu.go.state import State
from kifu.kernel import kernel

LARGEST = 19 if settings.get_current_profile_name() == "default" else 25
"""Width and height of the largest boards of random games. More than 383 points compile all kernels once more."""


@kernel
def play(s, p, c, suicide):
    return state.play(s, np.int64(p), np.uint8(c), suicide)


@kernel
def hash_after(s, p, c):
    return rules.hash_after(s, np.int64(p), np.uint8(c))


def bits(row):
    return set(np.flatnonzero(np.unpackbits(row.astype(">u8").view(np.uint8))).tolist())


def ring(s: State, head: int):
    points, at = [head], int(s.next_in_chain[head])
    while at != head and len(points) <= len(s.next_in_chain):
        points.append(at)
        at = int(s.next_in_chain[at])
    return points


def assert_state(s: State, naive):
    """Everything that a State keeps is what the naive board finds by looking."""
    w, n = naive.width, naive.width * naive.height
    at = {y * w + x: colour for (x, y), colour in naive.stones.items()}
    assert s.colour.tolist() == [at.get(p, state.EMPTY) for p in range(n)] + [state.WALL]
    total, shades = 0, [[set(), set(), set()], [set(), set(), set()]]
    for colour, stones, liberties in naive.chains():
        stones, liberties = ({y * w + x for x, y in points} for points in (stones, liberties))
        heads = {int(s.chain_id[p]) for p in stones}
        assert len(heads) == 1
        head = heads.pop()
        assert bits(s.stones[head]) == stones == set(ring(s, head))
        assert len(ring(s, head)) == len(stones)
        assert bits(s.liberties[head]) == liberties
        assert (s.n_stones[head], s.n_liberties[head]) == (len(stones), len(liberties))
        key = 0
        for p in stones:
            key ^= int(s.zobrist[colour - 1, p])
        assert int(s.key[head]) == key
        total ^= key
        if liberties:
            shades[colour - 1][min(len(liberties), 3) - 1] |= stones
    assert [[bits(row) for row in rows] for rows in s.stones_by_liberties] == shades
    assert int(s.hash[0]) == total
