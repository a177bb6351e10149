"""Losses and problems against leads that are known."""

import json
from collections import defaultdict
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pytest

import kifu
from commands import is_error, run
from evaluators import RankedScript, people_catalogue, script_problems
from kifu.errors import FormatError, OutputError
from kifu.learn import review
from kifu.learn.evaluation import Evaluation
from kifu.learn.positions import NetPositions
from kifu.learn.review import Reviewer, compare_moves
from kifu.point import BLACK, POINT_MASK, WHITE, WHITE_BIT
from kifu.records.ranks import Rank


class Ledger(Reviewer):
    """Leads as the sum of the points of moves: each move on column x is worth x points. Likely moves are in row 1."""

    def __init__(self, likely: dict[int, float], points: bool = True) -> None:
        self.likely, self.net = likely, SimpleNamespace(has_points=points)  # type: ignore[assignment]

    def evaluate(self, game, lines, ranks=(None, None)):
        found = []
        for line in lines:
            moves = (line[:-1] & POINT_MASK).astype(int)
            signs = np.where(line[:-1] & WHITE_BIT, -1, 1)
            policy = np.full(game.width * game.height, 1e-5, np.float32)
            policy[list(self.likely)] = list(self.likely.values())
            policy[moves] = 0
            lead = float((signs * (moves % game.width)).sum())
            colour = WHITE if line[-1] & WHITE_BIT else BLACK
            sign = 1 if colour == BLACK else -1
            score = np.array([sign * lead, 0]) if self.net.has_points else None
            with np.errstate(divide="ignore"):
                found.append(Evaluation(np.log(policy), np.uint8(colour), sign * np.tanh(lead), score=score))
        return found


@pytest.mark.parametrize("points", [True, False])
def test_losses_are_against_the_best_of_the_likely_moves_and_the_one_played(points: bool) -> None:
    """The likeliest move, on column 3, is not the best one; rare moves, such as that on column 5, do not count."""
    game = kifu.read_sgf(b"(;SZ[9];B[ib];W[ab];B[bc];W[ic];B[hh];W[ce];B[if])")
    ledger, lead, losses = Ledger({3: 0.5, 7: 0.3, 1: 0.1, 5: 0.02}, points), 0, []
    played = [int(word & POINT_MASK) for word in game.moves]
    for ply, (found, move) in enumerate(zip(compare_moves(ledger, game, range(8)), [*played, None], strict=True)):
        compared = [3, 7, 1] if move is None else [3, 7, 1, move]
        best = max(compared, key=lambda each: each % 9) if points else 3
        assert (next(iter(found.after)), set(found.after), found.played) == (best, set(compared), move)
        value = lead + (-1) ** ply * (best % 9)  # of a position, that after its best move
        best = found.best.seen_from(BLACK)
        assert (best.value, None if best.score is None else best.score[0]) == (
            np.tanh(value),
            value if points else None,
        )
        losses.append(found.loss(move))
        lead += (-1) ** ply * ((move or 0) % 9)
    assert losses == ([0, 7, 6, 0, 0, 5, 0, None] if points else [None] * 8)


PAIRS = ("7d/10k", "9d/15k")


def expected(net: RankedScript, positions: NetPositions) -> dict[tuple[int, int, str], dict[str, Any]]:
    """Return the problems by game, ply and ranks, one move after another."""
    assert positions.rows is not None
    ids, found = positions.rows["id"].to_pylist(), {}
    ratings = {pair: [Rank.parse_rating(each) for each in pair.split("/")] for pair in PAIRS}
    for game, ply in zip(positions.game.tolist(), positions.ply.tolist(), strict=True):
        compared = {*net.policy(None, ply), *(c for each in ratings.values() for r in each for c in net.policy(r, ply))}
        right = [column for column in sorted(compared, reverse=True) if max(compared) - column <= 1]
        for pair, (strong, weak) in ratings.items():
            chances = [sum(net.policy(rating, ply).get(column, 0) for column in right) for rating in (strong, weak)]
            likeliest = net.policy(weak, ply)
            mistake = max(likeliest, key=lambda column: likeliest[column])
            if chances[0] < 0.6 or chances[1] > 0.25 or max(compared) - mistake < 2:
                continue
            line = right[:1]
            for later in range(ply + 1, ply + 5):
                left = {c: share for c, share in net.policy(strong, later).items() if c not in line}
                line += [max(left, key=lambda column: left[column])] if left else []
            found[ids[game], ply, pair] = {
                "strong": pytest.approx(chances[0]), "weak": pytest.approx(chances[1]), "loss": max(compared) - mistake,
                "answers": [19 + c for c in right], "mistake": 19 + mistake, "line": [19 + c for c in line],
            }  # fmt: skip
    return found


@pytest.fixture
def people(tmp_path: Path) -> Path:
    return people_catalogue(tmp_path)


def search(people: Path, *pairs: str, **options: Any) -> tuple[dict[str, int], int]:
    counts, positions = review.find_problems(people, "values", "ranks", pairs, **options)
    return dict(counts), positions


def key(problem: dict[str, Any]) -> tuple[int, int, str]:
    return problem["game"], problem["ply"], problem["ranks"]


def test_problems_follow_the_rules(people: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    net = script_problems(monkeypatch)
    counts, searched = search(people, *PAIRS, count=10_000)
    positions = review._people(people, (net, net), None)  # type: ignore[arg-type]
    assert searched == len(positions) == 30 * 8  # of 31 games, one of which is a program's
    wanted, found = expected(net, positions), review.read_problems(people)
    assert {key(each): {name: each[name] for name in ("strong", "weak", "loss", "answers", "mistake", "line")}
            for each in found} == wanted  # fmt: skip
    assert counts == {pair: sum(each["ranks"] == pair for each in found) for pair in PAIRS}
    assert min(counts.values()) > 2
    assert any(len(each["answers"]) > 1 for each in found)
    for pair in PAIRS:
        chances = [each["weak"] for each in found if each["ranks"] == pair]
        assert chances == sorted(chances, reverse=True)


def test_two_pairs_of_ranks_never_have_opposite_answers(people: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The points decide, also where other ranks let other moves be compared."""
    script_problems(monkeypatch)
    found: dict[tuple[int, int], list[dict[str, Any]]] = defaultdict(list)
    for pair in ("7d/10k", "9d/10k", "9d/15k", "5d/5k"):
        search(people, pair, count=10_000, overwrite=True)
        for each in review.read_problems(people):
            found[key(each)[:2]].append(each)
    several = [each for each in found.values() if len(each) > 1]
    assert several
    for one, two in (pair for each in several for pair in combinations(each, 2)):
        assert not (one["mistake"] in two["answers"] and two["mistake"] in one["answers"])


def test_a_search_continues_to_the_same_bytes(people: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script_problems(monkeypatch)
    monkeypatch.setattr(review, "_PART", 16)
    path = review.problems_path(people)
    counts, searched = search(people, *PAIRS, count=1)
    assert min(counts.values()) >= 1
    assert searched < 240
    more = search(people, *PAIRS, count=3)
    assert more[1] >= searched
    continued = path.read_bytes()
    path.unlink()
    assert search(people, *PAIRS, count=3) == more
    assert path.read_bytes() == continued

    interrupted = review._find_problems
    monkeypatch.setattr(review, "_find_problems", mock.Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        search(people, *PAIRS, count=10_000)
    assert path.read_bytes() == continued
    monkeypatch.setattr(review, "_find_problems", interrupted)
    with pytest.raises(OutputError, match="--overwrite replaces it"):
        search(people, *PAIRS, count=3, where="white = 'w'")
    assert search(people, *PAIRS, count=3, where="black = 'b7'", overwrite=True)[1] == 8
    path.write_bytes(b"damaged")
    with pytest.raises(FormatError, match=r"people\.parquet\.problems"):
        review.read_problems(people)


def test_problems_command(people: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script_problems(monkeypatch)
    done = run("problems", people, "--net", "values", "--count", 2, "--json", "-")
    assert json.loads(done.out)["problems"]["7d/10k"] >= 2
    for pair in ("10k/7d", "7d/7d"):
        is_error(run("problems", people, "--ranks", pair), "the stronger one first", repr(pair))
    is_error(run("problems", people, "--ranks", "7d"), "a rank is 30k to 1k")
    kifu.ingest(kifu.sample_path(), tmp_path / "programs.parquet")
    is_error(run("problems", tmp_path / "programs.parquet"), "are games of programs")


def test_problems_require_a_net_whose_points_hold(people: Path) -> None:
    is_error(run("problems", people), "points of net human", "--net KATAGO.bin.gz")
    assert not review.problems_path(people).exists()
