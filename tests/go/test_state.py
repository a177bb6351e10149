"""The state of a board during replay: chains, liberties, hashes, and the undoing of moves."""

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiled import LARGEST, assert_state, bits, hash_after, play
from kifu.errors import DropReason, GameError
from kifu.go import state
from kifu.go.ladder import new_undo_stack, pop, push, reset_undo
from kifu.go.state import new_state, would_have_liberty
from kifu.kernel import kernel
from kifu.point import BLACK, WHITE
from naive import FORBIDDEN, LEFT, REMOVED, NaiveBoard

SIZES = st.one_of(
    st.tuples(st.integers(1, 5), st.integers(1, 5)),
    st.tuples(st.integers(1, LARGEST), st.integers(1, LARGEST)),
    st.sampled_from([(9, 9), (19, 19), (LARGEST, LARGEST)]),
)


def check_play(s, naive, point, colour):
    """One move on both boards, legal or not; simple ko is only noted by a State, so it is not refused here."""
    w = naive.width
    p = point[1] * w + point[0]
    why = naive.why_not(point, colour)
    if why == DropReason.KEPT and naive.suicide != LEFT:
        expected = 0
        for (x, y), c in naive.result(point, colour)[0].items():
            expected ^= int(s.zobrist[c - 1, y * w + x])
        assert int(hash_after(s, p, colour)) == expected
    assert play(s, p, colour, naive.suicide) == why
    if why == DropReason.KEPT:
        captured = naive.result(point, colour)[1]
        naive.play(point, colour)
        ko = naive.ko_point
        assert s.scalars[state.KO_POINT] == (-1 if ko is None else ko[1] * w + ko[0])
        assert s.scalars[state.LAST_POINT] == (p if point in naive.stones else -1)
        assert s.scalars[state.LAST_CAPTURED] == len(captured)
    assert_state(s, naive)


@pytest.mark.nojit
@given(SIZES, st.sampled_from([FORBIDDEN, REMOVED, LEFT]), st.data())
def test_random_play_keeps_everything_exact(size, suicide, data):
    """Moves clump around a few points, so that chains join, die, and take themselves off."""
    width, height = size
    s, naive = state.new_state(width, height), NaiveBoard(width, height, "none", suicide)
    near = data.draw(st.integers(0, width * height - 1))
    for _ in range(data.draw(st.integers(1, 60))):
        p = (near + data.draw(st.integers(-2, 2)) + width * data.draw(st.integers(-2, 2))) % (width * height)
        check_play(s, naive, (p % width, p // width), data.draw(st.sampled_from([BLACK, WHITE])))


@pytest.mark.nojit
@pytest.mark.parametrize("suicide", [FORBIDDEN, REMOVED, LEFT])
@pytest.mark.parametrize(("width", "height"), [(1, 1), (1, 7), (2, 2), (3, 2), (4, 4), (5, 5), (7, 6)])
def test_full_boards(width, height, suicide):
    """Random moves until little is empty, where big chains are captured: what short games seldom reach."""
    rng = np.random.default_rng([width, height, suicide])
    s, naive = state.new_state(width, height), NaiveBoard(width, height, "none", suicide)
    for _ in range(8 * width * height):
        point = (int(rng.integers(width)), int(rng.integers(height)))
        check_play(s, naive, point, int(rng.integers(1, 3)))


@pytest.mark.nojit
@given(SIZES, st.data())
def test_founding_all_chains_is_the_same_as_playing_them(size, data):
    """From any colours, legal or not; then play goes on, and the same State serves the next game."""
    width, height = size
    s, naive = state.new_state(width, height), NaiveBoard(width, height, "none", LEFT)
    for _ in range(2):
        state.clear(s)
        naive.set_up(dict.fromkeys(naive.points(), 0))
        for _ in range(2):
            some = data.draw(st.lists(st.sampled_from(naive.points()), max_size=30))
            changes = {point: data.draw(st.integers(0, 2)) for point in some}
            for (x, y), colour in changes.items():
                s.colour[y * width + x] = colour
            state.rebuild_chains(s)
            naive.set_up(changes)
            assert_state(s, naive)
            assert s.scalars.tolist() == [-1, -1, 0]
            for point in some[:5]:
                check_play(s, naive, point, data.draw(st.sampled_from([BLACK, WHITE])))


@pytest.mark.nojit
@pytest.mark.parametrize("fresh", [state.clear, state.rebuild_chains])
def test_a_new_position_has_no_ko(fresh):
    """Neither the next game on the same State, nor stones set up, know of a ko taken before."""
    s = state.new_state(4, 3)
    for p, colour in [(1, BLACK), (2, WHITE), (4, BLACK), (7, WHITE), (9, BLACK), (10, WHITE), (5, WHITE), (6, BLACK)]:
        assert play(s, p, colour, FORBIDDEN) == 0
    assert s.scalars.tolist() == [5, 6, 1]
    fresh(s)
    assert s.scalars.tolist() == [-1, -1, 0]


@pytest.mark.nojit
@pytest.mark.parametrize(
    ("width", "height"),
    [(19, 19), (20, 19), *[pytest.param(*size, marks=pytest.mark.slow) for size in [(25, 25), (25, 16)]]],
)
@pytest.mark.parametrize("colour", [BLACK, WHITE])
def test_the_largest_chain(width, height, colour):
    """One chain of all points but one has one liberty, in whichever word of its set, and is taken whole."""
    s = state.new_state(width, height)
    n = width * height
    for hole in (0, 63, 64, n // 2, n - 1):
        s.colour[:n] = colour
        s.colour[hole] = state.EMPTY
        state.rebuild_chains(s)
        head = s.chain_id[(hole + 1) % n]
        assert (s.n_stones[head], s.n_liberties[head]) == (n - 1, 1)
        assert bits(s.liberties[head]) == {hole}
        assert play(s, hole, colour, FORBIDDEN) == DropReason.SUICIDE
        assert play(s, hole, 3 - colour, FORBIDDEN) == 0
        assert s.scalars.tolist() == [-1, hole, n - 1]
        assert np.flatnonzero(s.colour[:n]).tolist() == [hole]


@pytest.mark.nojit
def test_words_follow_the_size():
    """Six words to 19 x 19 and below 384 points; the wall, point n, has its bit even on the largest board."""
    for width, height, words in [(1, 1, 6), (19, 19, 6), (20, 19, 6), (24, 16, 10), (25, 25, 10)]:
        s = state.new_state(width, height)
        assert len(s.words) == words
        assert width * height < 64 * words


@pytest.mark.nojit
@pytest.mark.parametrize(("width", "height"), [(0, 19), (26, 19), (19, 0), (19, 26), (-1, 5)])
def test_impossible_sizes(width, height):
    with pytest.raises(GameError, match=f"board size {width} x {height} is not within 1 to 25"):
        state.new_state(width, height)


@pytest.mark.nojit
def test_zobrist_keys_never_change():
    """Hashes are stored, so the keys are part of the format. They are also distinct."""
    keys = state.zobrist_keys(625)
    assert [hex(key) for key in keys[:, 0]] == ["0xafc4acefbbf30419", "0xebd52746bffe6a47"]
    assert len(np.unique(keys)) == keys.size
    assert 0 not in keys
    assert np.array_equal(state.zobrist_keys(361), keys[:, :361])


UNDO_SIZES = [(1, 5), (2, 3), (3, 3), (4, 4), (5, 5), (7, 6), (25, 25)]


@kernel
def start(s, t):
    reset_undo(s, t)


@kernel
def try_push(s, t, p, c):
    if s.colour[p] != 0 or not would_have_liberty(s, np.int64(p), np.uint8(c)):
        return False
    push(s, t, np.int64(p), np.uint8(c))
    return True


@kernel
def undo(s, t):
    pop(s, t)


def everything(s):
    stones = np.flatnonzero(s.colour[:-1])
    heads = np.unique(s.chain_id[stones])
    by_stone = [s.chain_id[stones], s.next_in_chain[stones]]
    by_chain = [s.n_stones, s.n_liberties, s.stones, s.liberties, s.key, s.liberty_class]
    return [
        a.tolist()
        for a in (s.colour, *by_stone, *(a[heads] for a in by_chain), s.stones_by_liberties, s.hash, s.scalars)
    ]


def assert_chains(s, naive):
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


@pytest.mark.slow
@pytest.mark.nojit
@pytest.mark.parametrize(("width", "height"), UNDO_SIZES)
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
