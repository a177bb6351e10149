"""Numbers that any correct rules engine must reproduce: Go's perft.

Legal positions: Tromp and Farneback, "Combinatorics of Go"; OEIS A094777 for square boards. The other counts were each
made by at least one program written for them, and agree with sgfmill's and KataGo's boards where these could be asked.
The long ones are marked slow: `pytest tests/go/test_rules_counts.py -m slow -s`, which also prints nodes per second.
"""

import math
from pathlib import Path

import numpy as np
import pytest

import counting
from kifu.go.board import Board
from kifu.go.rules import Rules
from kifu.point import BLACK, WHITE, symmetries

# width, height, legal positions, plays without and with suicide of several stones (single-stone suicide never; no ko)
LEGAL = [
    (1, 1, 1, 0, 0),
    (1, 2, 5, 8, 12),
    (1, 3, 15, 36, 42),
    (1, 4, 41, 128, 144),
    (2, 2, 57, 184, 192),
    (2, 3, 489, 2_220, 2_312),
    (2, 4, 4_125, 24_456, 25_608),
    (3, 3, 12_675, 83_502, 86_200),
    (3, 4, 321_689, 2_795_884, 2_873_612),
    (4, 4, 24_318_165, 279_281_840, 285_531_024),
]
PERFT = [
    case for path in sorted(Path(__file__).with_name("perft").glob("*.perft")) for case in counting.read_perft(path)
]
QUICK = 1_000_000  # sequences; more are for the slow run


def check_closure(width, height, positions, tame, plays):
    found = counting.closure(width, height, positions)
    assert found.totals[counting.POSITIONS] == positions
    assert found.totals[counting.PLAYS] - found.totals[counting.SUICIDES] == tame
    assert found.totals[counting.PLAYS] == plays
    assert found.totals[counting.DISAGREEMENTS] == 0, "legality or the hash foretold is not what playing gives"
    # Each stone in atari is taken by exactly one move of the enemy, or is one of several that one move takes.
    assert found.totals[counting.CAPTURED] == sum(found.by_liberties[:1])
    return found


@pytest.mark.parametrize(
    "row", [*LEGAL[:8], pytest.param(LEGAL[8], marks=pytest.mark.slow)], ids=lambda row: f"{row[0]}x{row[1]}"
)
def test_every_legal_position_is_reached(row):
    check_closure(*row)


@pytest.mark.nojit
@pytest.mark.parametrize("row", LEGAL[:5], ids=lambda row: f"{row[0]}x{row[1]}")
def test_every_legal_position_is_reached_without_the_compiler(row):
    check_closure(*row)


@pytest.mark.exhaustive
def test_every_legal_position_of_4x4():
    check_closure(*LEGAL[9])


@pytest.mark.parametrize(
    ("size", "by_liberties", "kos"), [(2, [88, 40], 0), (3, [23_496, 28_836, 13_624, 2_760, 384, 12], 768)]
)
def test_liberties_and_kos_over_all_positions(size, by_liberties, kos):
    found = counting.closure(size, size)
    assert found.by_liberties == by_liberties
    assert found.totals[counting.KOS] == kos


@pytest.mark.parametrize(("size", "classes", "colour_blind"), [(2, 13, 8), (3, 1_824, 924)])
def test_positions_that_differ_under_symmetry(size, classes, colour_blind):
    n = size * size
    colours = counting.closure(size, size).colours(n)
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
    """By sgfmill's scorer."""
    scores = dict.fromkeys(range(-9, 10), 0)
    for colours in counting.closure(3, 3).colours(9):
        board = Board(3)
        board.setup(np.flatnonzero(colours == BLACK), np.flatnonzero(colours == WHITE))
        scores[board.area_score()] += 1
    half = [510, 0, 0, 288, 318, 614, 885, 1254, 1598]
    assert list(scores.values()) == [*half, 1741, *half[::-1]]


@pytest.mark.parametrize("case", PERFT, ids=lambda case: case.id)
def test_perft(case):
    counting.check_perft(case, QUICK)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "case", [case for case in PERFT if max(case.counts.values()) > QUICK], ids=lambda case: case.id
)
def test_deep_perft(case):
    counting.check_perft(case, max(case.counts.values()))


@pytest.mark.nojit
@pytest.mark.parametrize("case", [case for case in PERFT if case.width * case.height <= 9], ids=lambda case: case.id)
def test_perft_without_the_compiler(case):
    counting.check_perft(case, 600)


def test_four_moves_by_formula():
    """All sequences of four points, less White's suicides in a corner between two stones that Black has just put."""
    for size in (2, 3, 4, 5):
        n = size * size
        assert counting.perft(size, size, Rules("simple", False), 4)[4] == math.perm(n, 4) - 8 * (n - 3)
    assert [case.counts[4] for case in PERFT if case.id == "9x9-simple"] == [math.perm(81, 4) - 8 * 78]


@pytest.mark.parametrize(("width", "suicide", "games"), [(1, True, 1), (2, True, 9), (2, False, 9), (3, True, 907)])
def test_whole_games_under_positional_superko(width, suicide, games):
    """Simple paths from the empty board, where either player may move since the other may pass. Tromp and Farneback."""
    assert sum(counting.perft(width, 1, Rules("positional", suicide), 3**width, either=True)) == games


@pytest.mark.exhaustive
def test_whole_games_of_1x4():
    counts = counting.perft(4, 1, Rules("positional", False), 42, either=True)
    assert sum(counts) == 719_178_893
    assert counts[41:] == [0, 0]  # each of the 41 positions at most once


def test_a_wrong_count_is_told_by_first_move():
    """The failure names the depth, and shows each first move with the count below it."""
    case = counting.PerftCase("wrong", 1, 2, Rules("simple", True), {1: 2, 2: 3})
    with pytest.raises(AssertionError) as failure:
        counting.check_perft(case, QUICK)
    reported = str(failure.value)
    assert "wrong: depth 2: 2 sequences, not 3" in reported
    assert reported.count("below") == 2
    assert "(X)" in reported
