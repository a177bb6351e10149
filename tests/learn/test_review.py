"""Mistakes and problems against leads that are known."""

import numpy as np
import pytest

import kifu
from kifu.learn.review import PositionReview, Reviewer, find_losses, find_problem, write_problems
from kifu.point import BLACK, POINT_MASK, WHITE, WHITE_BIT


class Ledger(Reviewer):
    """Leads as the sum of the points of moves: each move on column x is worth x points; the best ones are likely."""

    def evaluate(self, game, lines, ranks=(None, None)):
        """Evaluate lines by their moves."""
        found = []
        for line in lines:
            moves = (line[:-1] & POINT_MASK).astype(int)
            signs = np.where(line[:-1] & WHITE_BIT, -1, 1)
            policy = np.tile(np.arange(game.width, dtype=np.float32), game.height) + 1
            policy[moves[moves < policy.size]] = 0
            if game.width == 19:
                policy[{None: [2, 9, 18, 20], 38.0: [5], 20.0: [7]}[ranks[0]]] = 9999
            lead = float((signs * (moves % game.width)).sum())
            colour = WHITE if line[-1] & WHITE_BIT else BLACK
            found.append(PositionReview(colour, policy / policy.sum(), 0.5, lead, None))
        return found


def test_losses_are_against_the_most_probable_moves() -> None:
    game = kifu.read_sgf(b"(;SZ[9];B[ia];W[ab];B[bc];W[ic];B[hh];W[ce];B[if])")
    assert find_losses(Ledger(None), game, range(7)) == [0, 8, 7, 0, 1, 6, 0]  # type: ignore[arg-type]


@pytest.mark.parametrize(("ranks", "right", "wrong"), [((38.0, 20.0), 5, 7), ((None, None), 18, 9)])
def test_problems_have_one_right_move_and_are_written(
    ranks: tuple[float | None, float | None], right: int, wrong: int
) -> None:
    points = [f"{x}{y}" for y in "bcdefg" for x in "bdfhj"]
    moves = "".join(f";{'BW'[k % 2]}[{point}]" for k, point in enumerate(points))
    game = kifu.read_sgf(f"(;SZ[19]PB[a]PW[b]BR[3d]{moves})".encode())
    problem = find_problem(Ledger(None), game, *ranks, seed=1)  # type: ignore[arg-type]
    assert problem is not None
    assert (problem.answer, problem.mistake) == (right, wrong)
    assert problem.loss == (None if ranks[0] else 9.0)
    assert find_problem(Ledger(None), game, *ranks, seed=1) == problem  # type: ignore[arg-type]
    (written,) = kifu.read_games(write_problems([problem]))
    assert (written.board(0).stones == problem.game.board().stones).all()
    assert (written.to_play, int(written.moves[0] & POINT_MASK)) == (problem.to_play, right)
