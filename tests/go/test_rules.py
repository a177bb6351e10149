"""Ko, superko and suicide: whole games by the compiled rules against the naive board, and the cases in the books."""

import itertools
import math
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiled import LARGEST, assert_state
from kifu.errors import DropReason, IllegalMove, RecipeError
from kifu.go import rules as rl
from kifu.go import state
from kifu.go.board import Board
from kifu.go.rules import NAMED, RECORD_RULES, Rules, add_all, enlarged, new_history
from kifu.kernel import inline_kernel, kernel
from kifu.point import BLACK, WHITE, parse_gtp, symmetries
from naive import FORBIDDEN, REMOVED, NaiveBoard

# Indices of the totals of `_closure`
POSITIONS, PLAYS, SUICIDES, CAPTURED, KOS, DISAGREEMENTS, N_TOTALS = range(7)


@inline_kernel
def _put(s, code, powers):
    """Sets the board to the position of that code: digit p in base 3 is the colour of point p."""
    for p in range(powers.shape[0]):
        s.colour[p] = code // powers[p] % 3
    state.rebuild_chains(s)


@kernel
def _closure(s, history, powers, seen, queue, totals, by_liberties):
    """Plays every move of both colours, suicides too, from every position that this reaches from the empty board.

    seen: [3**n / 8] uint8, one bit a code.  queue: the codes, first come first served, as many as there is room for.
    by_liberties: [n + 1], how many stones have so many liberties.  Returns 0, or -1 if the queue is full.
    """
    n = powers.shape[0]
    seen[0] |= 1
    queue[0] = 0
    tail = 1
    at = 0
    while at < tail:
        code = np.int64(queue[at])
        at += 1
        _put(s, code, powers)
        for p in range(n):
            if s.colour[p] != state.EMPTY:
                by_liberties[s.n_liberties[s.chain_id[p]]] += 1
        for c in range(1, 3):
            for p in range(n):
                allowed = rl.illegal_reason(s, history, p, c, rl.KO_NONE, state.SUICIDE_REMOVED) == 0
                tame = rl.illegal_reason(s, history, p, c, rl.KO_NONE, state.SUICIDE_FORBIDDEN) == 0
                expected = rl.hash_after(s, p, c) if allowed else s.hash[0]
                played = state.play(s, p, np.uint8(c), state.SUICIDE_REMOVED) == 0
                if played != allowed or s.hash[0] != expected:
                    totals[DISAGREEMENTS] += 1
                if not played:
                    continue
                if tame == (s.scalars[state.LAST_POINT] < 0):
                    totals[DISAGREEMENTS] += 1
                totals[PLAYS] += 1
                totals[SUICIDES] += s.scalars[state.LAST_POINT] < 0
                totals[CAPTURED] += s.scalars[state.LAST_CAPTURED]
                totals[KOS] += s.scalars[state.KO_POINT] >= 0
                after = 0
                for q in range(n):
                    after += s.colour[q] * powers[q]
                if not seen[after >> 3] & (1 << (after & 7)):
                    seen[after >> 3] |= 1 << (after & 7)
                    if tail == queue.shape[0]:
                        return -1
                    queue[tail] = after
                    tail += 1
                _put(s, code, powers)
    totals[POSITIONS] = tail
    return 0


class Closure(NamedTuple):
    codes: np.ndarray  # [positions] uint32
    totals: dict[int, int]
    by_liberties: list[int]  # [most liberties that a stone has]: stones with 1, 2, ... liberties

    def colours(self, n):
        """[positions, n]: the colour of each point."""
        return self.codes[:, None] // 3 ** np.arange(n) % 3


def closure(width, height, room=1 << 20):
    n = width * height
    totals, by_liberties = np.zeros(N_TOTALS, np.int64), np.zeros(n + 1, np.int64)
    queue, seen = np.zeros(room, np.uint32), np.zeros(3**n // 8 + 1, np.uint8)
    status = _closure(
        state.new_state(width, height), rl.new_history(0), 3 ** np.arange(n), seen, queue, totals,
        by_liberties,
    )  # fmt: skip
    assert status == 0
    assert by_liberties[0] == 0
    assert np.bitwise_count(seen).sum() == totals[POSITIONS]
    return Closure(queue[: totals[POSITIONS]], dict(enumerate(totals.tolist())), np.trim_zeros(by_liberties).tolist())


@inline_kernel
def _unremember(history, situation):
    """Undoes the last `remember`, which found the situation new: no later one can have been put past its slot."""
    history.stamps[rl._slot(history, situation)] = 0
    history.scalars[rl.COUNT] -= 1


@kernel
def _perft(s, history, ko, suicide, either, root, depth, colours, numbers, hashes, tried, counts):
    """Counts the sequences of moves from the board as it is, Black first, without passes: counts[d] of length d.

    either: whether both colours may move in every position, as passes would let them.  root: the one first move to
    follow, or -1.  The last move of the longest sequences is not played, only counted.
    By depth: colours [depth, n + 1], numbers and hashes, to go back to; tried [depth], the last move tried there.
    """
    n = s.neighbours.shape[0]
    d = 0
    tried[0] = -1 if root < 0 else root - 1
    for p in range(n):
        colours[0, p] = s.colour[p]
    for i in range(state.N_SCALARS):
        numbers[0, i] = s.scalars[i]
    while True:
        first, last = (0, 2 * n) if either else (n * (d & 1), n * (d & 1) + n)
        here = max(tried[d] + 1, first)
        if d == 0 and root >= 0:
            last = root + 1
        while here < last and rl.illegal_reason(s, history, here % n, 1 + here // n, ko, suicide) != 0:
            here += 1
        tried[d] = here
        if here < last and d == depth - 1:
            counts[depth] += 1
        elif here < last:
            hashes[d] = s.hash[0]
            rl.make_move(s, history, here % n, np.uint8(1 + here // n), ko, suicide)
            d += 1
            counts[d] += 1
            tried[d] = -1
            for p in range(n):
                colours[d, p] = s.colour[p]
            for i in range(state.N_SCALARS):
                numbers[d, i] = s.scalars[i]
        elif d == 0:
            return
        else:
            d -= 1
            for p in range(n):
                s.colour[p] = colours[d, p]
            state.rebuild_chains(s)
            for i in range(state.N_SCALARS):
                s.scalars[i] = numbers[d, i]
            if ko >= rl.KO_POSITIONAL:
                _unremember(history, rl.situation_hash(hashes[d], 1 + tried[d] // n, ko))


def perft(width, height, rules, depth, either=False, root=-1):
    """[depth + 1]: how many sequences of each length there are; one of length 0."""
    counts = np.zeros(depth + 1, np.int64)
    counts[0] = 1
    _perft(
        state.new_state(width, height), rl.new_history(depth), *rules.codes, either, root, depth,
        np.zeros((depth, width * height + 1), np.uint8), np.zeros((depth, state.N_SCALARS), np.int64),
        np.zeros(depth, np.uint64), np.zeros(depth, np.int64), counts,
    )  # fmt: skip
    return counts.tolist()


class PerftCase(NamedTuple):
    """An entry of a .perft file: `id`, `board`, `rules`, and how many sequences of each length there are."""

    id: str
    width: int
    height: int
    rules: rl.Rules
    counts: dict[int, int]


def read_perft(path: Path):
    """The entries of a file, each begun by its `id`. # begins a comment."""
    cases = []
    for line in path.read_text().splitlines():
        match line.partition("#")[0].split():
            case []:
                pass
            case ["id", name]:
                entry = {"id": name, "counts": {}}
                cases.append(entry)
            case ["board", size]:
                entry["width"], entry["height"] = map(int, size.split("x"))
            case ["rules", ko, suicide]:
                ko, suicide = ko.removeprefix("ko="), suicide.removeprefix("suicide=")
                entry["rules"] = rl.Rules(ko, {"yes": True, "no": False}[suicide])
            case ["perft", depth, count]:
                entry["counts"][int(depth)] = int(count)
            case _:
                raise ValueError(f"{path.name}: {line!r}")
    return [PerftCase(**entry) for entry in cases]


def check_perft(case: PerftCase, limit: int):
    """Compares the counts up to `limit`; prints the speed, and on failure the count below every first move."""
    wanted = {depth: count for depth, count in case.counts.items() if count <= limit}
    deepest = max(wanted)
    start = time.perf_counter()
    got = perft(case.width, case.height, case.rules, deepest)
    seconds = time.perf_counter() - start
    print(f"{case.id}: depth {deepest}, {sum(got):,} nodes, {sum(got) / seconds / 1e6:.1f} million a second")
    if wrong := [depth for depth, count in wanted.items() if got[depth] != count]:
        depth = wrong[0]
        lines = [f"{case.id}: depth {depth}: {got[depth]:,} sequences, not {wanted[depth]:,}"]
        board = Board(case.width, case.height, rules=case.rules)
        for p in np.flatnonzero(board.legal()[:-1]).tolist():
            after = board.copy()
            after.play(p)
            below = perft(case.width, case.height, case.rules, depth, root=p)[depth]
            lines += [str(after), f"point {p}: {below:,} below"]
        raise AssertionError("\n".join(lines))


ALL_RULES = [Rules(ko, suicide) for ko in ("none", "simple", "positional", "situational") for suicide in (False, True)]
SMALL = st.tuples(st.integers(1, 4), st.integers(1, 3))  # where games repeat themselves soon
ANY = st.tuples(st.integers(1, LARGEST), st.integers(1, LARGEST))


def assert_same(board, naive, colour):
    w = naive.width
    assert_state(board._state, naive)
    allowed = [naive.why_not(point, colour) == DropReason.KEPT for point in naive.points()]
    assert board.legal(colour).tolist() == [*allowed, True]
    assert board.captures == naive.taken
    expected = None
    if naive.ko_point and naive.ko_player == board.to_play and naive.ko != "none":
        expected = naive.ko_point[1] * w + naive.ko_point[0]
    assert board.ko == expected
    liberties = np.zeros((naive.height, w), int)
    for _, stones, free in naive.chains():
        for x, y in stones:
            liberties[y, x] = len(free)
    assert np.array_equal(board.liberties, liberties)


def play_both(board, naive, move, colour):
    p = board.pass_move if move is None else move[1] * naive.width + move[0]
    why = naive.why_not(move, colour)
    if why == DropReason.KEPT:
        board.play(p, colour)
        naive.play(move, colour)
    else:
        with pytest.raises(IllegalMove) as error:
            board.play(p, colour)
        assert (error.value.ply, error.value.move, error.value.reason) == (board.ply, p, why)


def random_game(board, naive, rng, moves):
    points = naive.points()
    for _ in range(moves):
        colour = board.to_play if rng.random() < 0.9 else BLACK + WHITE - board.to_play
        kind = rng.random()
        if kind < 0.02:
            point = points[int(rng.integers(len(points)))]
            new = int(rng.integers(3))
            before = dict(naive.stones)
            naive.stones = {p: c for p, c in {**before, point: new}.items() if c}
            sound = all(free for _, _, free in naive.chains())
            naive.stones = before
            if sound:  # a board refuses the others, see test_board.py
                naive.set_up({point: new})
                p = point[1] * naive.width + point[0]
                board.setup(**{("empty", "black", "white")[new]: [p]})
        elif kind < 0.1:
            play_both(board, naive, None, colour)
        else:
            legal = np.flatnonzero(board.legal(colour)[:-1])
            anywhere = kind < 0.2 or not len(legal)
            p = int(rng.integers(len(points))) if anywhere else int(rng.choice(legal))
            play_both(board, naive, points[p], colour)
        assert_same(board, naive, colour)


@pytest.mark.nojit
@pytest.mark.parametrize("rules", ALL_RULES, ids=lambda rules: f"{rules.ko}-{'suicide' if rules.suicide else 'tame'}")
@given(st.one_of(SMALL, SMALL, SMALL, ANY), st.integers(0, 2**32))
def test_random_games_under_all_rules(rules, size, seed):
    board, naive = Board(*size, rules=rules), NaiveBoard(*size, rules.ko, REMOVED if rules.suicide else FORBIDDEN)
    random_game(board, naive, np.random.default_rng(seed), 30)


def test_random_games_do_repeat_themselves():
    """The test above would prove little of superko if it never came up."""
    banned = set()
    for rules, seed in itertools.product(ALL_RULES, range(8)):
        naive = NaiveBoard(3, 2, rules.ko, REMOVED if rules.suicide else FORBIDDEN)
        rng = np.random.default_rng(seed)
        board = Board(3, 2, rules=rules)
        for _ in range(40):
            for point in naive.points():
                banned.add((rules.ko, naive.why_not(point, board.to_play)))
            legal = np.flatnonzero(board.legal())
            p = int(rng.choice(legal))
            play_both(board, naive, None if p == board.pass_move else naive.points()[p], board.to_play)
    assert {ko for ko, why in banned if why == DropReason.SUPERKO} == {"positional", "situational"}
    assert {ko for ko, why in banned if why == DropReason.KO} == {"simple", "positional", "situational"}


KO_SHAPE = """
. X O . .
X O . O .
. X O . .
. . . . .
"""


@pytest.mark.parametrize("ko", ["simple", "positional", "situational"])
def test_a_ko_may_not_be_retaken_at_once(ko):
    board = Board.parse(KO_SHAPE, rules=Rules(ko))
    board.play("C3")
    assert board.ko == parse_gtp("B3", 5, 4)
    assert not board.is_legal("B3")
    with pytest.raises(IllegalMove, match="an immediate ko recapture") as error:
        board.play("B3")
    assert error.value.reason == DropReason.KO
    board.play("E1")
    assert board.ko is None
    board.play("A1")
    board.play("B3")  # a ko threat later
    assert board.ko == parse_gtp("C3", 5, 4)


def test_without_a_ko_rule_it_may():
    board = Board.parse(KO_SHAPE, rules=Rules("none"))
    board.play("C3")
    assert board.ko is None
    board.play("B3")


def test_the_ban_is_on_the_other_player_only():
    """The side that captured may fill the ko by playing twice in a row."""
    board = Board.parse(KO_SHAPE)
    board.play("C3", BLACK)
    assert not board.is_legal("B3", WHITE)
    assert board.is_legal("B3", BLACK)
    assert board.ko is not None
    board.to_play = BLACK
    assert board.ko is None
    board.play("B3", BLACK)


@pytest.mark.parametrize(
    ("ko", "why"),
    [("simple", DropReason.KEPT), ("positional", DropReason.SUPERKO), ("situational", DropReason.SUPERKO)],
)
def test_a_ko_retaken_after_two_passes(ko, why):
    """Passes lift the ban of simple ko; superko sees that Black has had to move in that position before."""
    board = Board.parse(KO_SHAPE, rules=Rules(ko))
    board.play("C3")
    board.pass_()
    board.pass_()
    assert board.is_legal(board.pass_move)
    check(board, "B3", why)


@pytest.mark.parametrize(
    ("ko", "why"), [("simple", DropReason.KEPT), ("positional", DropReason.SUPERKO), ("situational", DropReason.KEPT)]
)
def test_sending_two_returning_one(ko, why):
    """White plays A3, Black takes two, White takes one back: the stones are as before, but now Black is to move."""
    board = Board.parse(". O . O\nX X O O\n. . . .", to_play=WHITE, rules=Rules(ko))
    before = board.stones
    board.play("A3")
    board.play("C3")
    assert board.captures == {BLACK: 2, WHITE: 0}
    assert board.ko is None
    check(board, "B3", why)
    assert np.array_equal(board.stones, before) == (why == DropReason.KEPT)


def check(board, move, why):
    if why == DropReason.KEPT:
        board.play(move)
    else:
        with pytest.raises(IllegalMove) as error:
            board.play(move)
        assert error.value.reason == why


def test_superko_forgets_what_was_before_a_setup():
    """And a copy of the board remembers what the board does."""
    board = Board.parse(KO_SHAPE, rules=Rules("positional"))
    board.play("C3")
    board.pass_()
    board.pass_()
    twin = board.copy()
    assert np.array_equal(twin.legal(), board.legal())
    assert not twin.is_legal("B3")
    board.setup(black=["E1"])
    board.setup(empty=["E1"])
    assert np.array_equal(board.stones, twin.stones)
    assert board.is_legal("B3")
    assert not twin.is_legal("B3")


def test_suicide():
    board = Board.parse(". X O\nX X O\nO O .", rules=Rules("simple", suicide=True))
    board.play("A3")  # three black stones and this one: no liberty is left to them
    assert board.stones.tolist() == [[0, 0, 2], [0, 0, 2], [2, 2, 0]]
    assert board.captures == {BLACK: 0, WHITE: 4}
    assert "(" not in str(board)
    tame = Board.parse(". X O\nX X O\nO O .", rules=Rules("simple", suicide=False))
    assert not tame.is_legal("A3")
    assert tame.is_legal("A3", WHITE)
    alone = Board.parse(". O\nO .")
    with pytest.raises(IllegalMove, match="suicide"):
        alone.play("A2")


def test_history_grows_and_keeps_all():
    history, rng = new_history(0), np.random.default_rng(3)
    keys = rng.integers(0, 2**64, 300, np.uint64)
    keys[::2] = keys[::2] & ~np.uint64(0xFFFF)  # crowded into few slots
    for count in range(len(keys)):
        if 2 * count + 2 > len(history.slots):
            history = enlarged(history)
        add_all(history, keys[count : count + 1])
        assert history.scalars[1] == count + 1 <= len(history.slots) // 2
    kept = history.slots[history.stamps == history.scalars[0]]
    assert sorted(kept.tolist()) == sorted(keys.tolist())


def test_named_rules():
    assert Rules() == RECORD_RULES == Rules.named("records")
    assert Rules.named("Tromp-Taylor") == Rules("positional", suicide=True)
    assert {name: (rules.ko, rules.suicide) for name, rules in NAMED.items()}["new-zealand"] == ("situational", True)
    with pytest.raises(RecipeError, match="unknown rule set 'ing'; available: records, japanese, korean, chinese"):
        Rules.named("ing")
    with pytest.raises(RecipeError, match="ko rule 'super' is none of none, simple, positional, situational"):
        Rules("super")


# width, height, legal positions, plays without and with suicide of several stones (single-stone suicide never; no ko)
LEGAL = [
    (1, 1, 1, 0, 0), (1, 2, 5, 8, 12), (1, 3, 15, 36, 42), (1, 4, 41, 128, 144), (2, 2, 57, 184, 192),
    (2, 3, 489, 2_220, 2_312), (2, 4, 4_125, 24_456, 25_608), (3, 3, 12_675, 83_502, 86_200),
    (3, 4, 321_689, 2_795_884, 2_873_612), (4, 4, 24_318_165, 279_281_840, 285_531_024),
]  # fmt: skip
PERFT = [case for path in sorted(Path(__file__).with_name("perft").glob("*.perft")) for case in read_perft(path)]
QUICK = 1_000_000  # sequences; more are for the slow run


@pytest.mark.parametrize(
    ("width", "height", "positions", "tame", "plays"),
    [
        *(pytest.param(*row, marks=pytest.mark.nojit) for row in LEGAL[:5]), *LEGAL[5:8],
        pytest.param(*LEGAL[8], marks=pytest.mark.slow), pytest.param(*LEGAL[9], marks=pytest.mark.exhaustive),
    ],
)  # fmt: skip
def test_every_legal_position_is_reached(width, height, positions, tame, plays):
    found = closure(width, height, positions)
    assert found.totals[POSITIONS] == positions
    assert found.totals[PLAYS] - found.totals[SUICIDES] == tame
    assert found.totals[PLAYS] == plays
    assert found.totals[DISAGREEMENTS] == 0, "legality or the hash foretold is not what playing gives"
    # Each stone in atari is taken by exactly one move of the enemy, or is one of several that one move takes.
    assert found.totals[CAPTURED] == sum(found.by_liberties[:1])


@pytest.mark.parametrize(
    ("size", "by_liberties", "kos"), [(2, [88, 40], 0), (3, [23_496, 28_836, 13_624, 2_760, 384, 12], 768)]
)
def test_liberties_and_kos_over_all_positions(size, by_liberties, kos):
    found = closure(size, size)
    assert found.by_liberties == by_liberties
    assert found.totals[KOS] == kos


@pytest.mark.parametrize(("size", "classes", "colour_blind"), [(2, 13, 8), (3, 1_824, 924)])
def test_positions_that_differ_under_symmetry(size, classes, colour_blind):
    n = size * size
    colours = closure(size, size).colours(n)
    images = [np.empty_like(colours) for _ in range(8)]
    for image, landing in zip(images, symmetries(size, size)[:, :-1]):
        image[:, landing] = colours
    swap = np.array([0, WHITE, BLACK])
    least = np.min([image @ 3 ** np.arange(n) for image in images], axis=0)
    swapped = np.min([swap[image] @ 3 ** np.arange(n) for image in images], axis=0)
    assert len(np.unique(least)) == classes
    assert len(np.unique(np.minimum(least, swapped))) == colour_blind


@pytest.mark.slow
def test_area_scores_of_all_3x3_positions():
    scores = dict.fromkeys(range(-9, 10), 0)
    for colours in closure(3, 3).colours(9):
        board = Board(3)
        board.setup(np.flatnonzero(colours == BLACK), np.flatnonzero(colours == WHITE))
        scores[board.area_score()] += 1
    half = [510, 0, 0, 288, 318, 614, 885, 1254, 1598]
    assert list(scores.values()) == [*half, 1741, *half[::-1]]


@pytest.mark.parametrize("case", PERFT, ids=lambda case: case.id)
def test_perft(case):
    check_perft(case, QUICK)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "case", [case for case in PERFT if max(case.counts.values()) > QUICK], ids=lambda case: case.id
)
def test_deep_perft(case):
    check_perft(case, max(case.counts.values()))


@pytest.mark.nojit
@pytest.mark.parametrize("case", [case for case in PERFT if case.width * case.height <= 9], ids=lambda case: case.id)
def test_perft_without_the_compiler(case):
    check_perft(case, 600)


def test_four_moves_by_formula():
    """All sequences of four points, less White's suicides in a corner between two stones that Black has just put."""
    for size in (2, 3, 4, 5):
        n = size * size
        assert perft(size, size, Rules("simple", False), 4)[4] == math.perm(n, 4) - 8 * (n - 3)
    assert [case.counts[4] for case in PERFT if case.id == "9x9-simple"] == [math.perm(81, 4) - 8 * 78]


@pytest.mark.parametrize(("width", "suicide", "games"), [(1, True, 1), (2, True, 9), (2, False, 9), (3, True, 907)])
def test_whole_games_under_positional_superko(width, suicide, games):
    """Simple paths from the empty board, where either player may move since the other may pass. Tromp and Farneback."""
    assert sum(perft(width, 1, Rules("positional", suicide), 3**width, either=True)) == games


@pytest.mark.exhaustive
def test_whole_games_of_1x4():
    counts = perft(4, 1, Rules("positional", False), 42, either=True)
    assert sum(counts) == 719_178_893
    assert counts[41:] == [0, 0]  # each of the 41 positions at most once


def test_a_wrong_count_is_told_by_first_move():
    """The failure names the depth, and shows each first move with the count below it."""
    case = PerftCase("wrong", 1, 2, Rules("simple", True), {1: 2, 2: 3})
    with pytest.raises(AssertionError) as failure:
        check_perft(case, QUICK)
    reported = str(failure.value)
    assert "wrong: depth 2: 2 sequences, not 3" in reported
    assert reported.count("below") == 2
    assert "(X)" in reported
