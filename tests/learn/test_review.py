"""Losses and problems against leads that are known."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import kifu
from commands import is_error, run
from kifu.learn.evaluation import Evaluation
from kifu.learn.review import Reviewer, compare_moves, find_problem, write_problems
from kifu.point import BLACK, POINT_MASK, WHITE, WHITE_BIT


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


def test_problems_are_mistakes_and_are_written() -> None:
    columns = "bdfhj"
    moves = "".join(f";{'BW'[k % 2]}[{columns[k % 5]}{'bcdefg'[k // 5]}]" for k in range(30))
    game = kifu.read_sgf(f"(;SZ[19]PB[a]PW[b]BR[3d]{moves})".encode())
    ledger = Ledger({9: 0.5, 17: 0.3, 18: 0.1, 5: 0.04})
    problem = find_problem(ledger, game, seed=1)
    assert problem is not None
    played = int(game.moves[len(problem.game)] & POINT_MASK)
    assert problem[1:] == (BLACK if len(problem.game) % 2 == 0 else WHITE, [18, 17], played, 18 - played % 19)
    assert find_problem(ledger, game, seed=1) == problem
    assert find_problem(Ledger({2: 0.9}), kifu.read_sgf(moves.replace("b", "c").join(("(;", ")")).encode()), 1) is None
    text = write_problems([problem])
    assert (text.count(b"TE[1]"), text.count(b"BM[1]")) == (2, 1)
    (written,) = kifu.read_games(text)
    assert (written.board(0).stones == problem.game.board().stones).all()
    assert (written.to_play, int(written.moves[0] & POINT_MASK)) == (problem.to_play, 18)


def test_problems_require_a_net_whose_points_hold(tmp_path: Path) -> None:
    kifu.ingest(kifu.sample_path(), tmp_path / "games.parquet")
    output = tmp_path / "problems.sgf"
    is_error(run("problems", tmp_path / "games.parquet", "-o", output), "points of net human", "--net KATAGO.bin.gz")
    assert not output.exists()
