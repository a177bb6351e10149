"""A net's prediction for one position of a game, as text, JSON and a heat map on the board."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kifu.errors import join_lines, printable
from kifu.go.board import Board
from kifu.learn.evaluation import Evaluation
from kifu.learn.inference import Net
from kifu.learn.positions import NetPositions
from kifu.point import NO_POINT, POINT_MASK, WHITE, to_gtp
from kifu.records.game import Game
from kifu.report.games import SelectedGame, board_after
from kifu.viz.boards import draw_board, notebook_svg, save

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_DIGITS = 6
"""Decimal places of probabilities in JSON."""

_MOVES_PER_LINE = 3
"""Moves in one line above a picture; fewer on a narrow board."""


@dataclass(frozen=True)
class MovePrediction:
    """A net's prediction after some moves of a game.

    Attributes:
        evaluation: Of this one position.
        best: The most likely moves in descending order.
        played: The game's next move, or None at the end of the game.
    """

    net: str
    shown: SelectedGame
    plies: int
    board: Board
    evaluation: Evaluation
    best: tuple[int, ...]
    played: int | None

    def __repr__(self) -> str:
        best = ", ".join(f"{self.name(move)} {self.policy[move]:.1%}" for move in self.best)
        return printable(f"<MovePrediction of {self.net} {_after(self)}: {best}>")

    def _repr_svg_(self) -> str | None:
        """Return the heat map as an SVG picture, for notebooks; None without matplotlib."""
        return notebook_svg(lambda: draw_heatmap(self))

    @property
    def game(self) -> Game:
        """The game."""
        return self.shown.game

    @property
    def policy(self) -> npt.NDArray[np.float32]:
        """[moves] float32, probabilities of the legal moves; the last one is the pass, if the net predicts passes."""
        return self.evaluation.policy

    def to_json(self) -> str:
        """Return the prediction with all probabilities in the format of docs/prediction.md."""
        game, found = self.game, self.evaluation
        points = game.width * game.height
        values: dict[str, Any] = {
            "net": self.net,
            "game": str(game),
            "move": self.plies,
            "to_play": _side(self).lower(),
            "policy": _rows(self.policy[:points], game),
            "pass": _rounded(found.probability(points)),
            "best": [_entry(self, move) for move in self.best],
            "played": None if self.played is None else _entry(self, self.played),
            "value": None if found.value is None else _rounded(float(found.value)),
            "ownership": None if found.ownership is None else _rows(found.ownership, game),
        }
        if found.score is not None:
            values |= dict(zip(("lead", "score_stdev"), map(_rounded, found.score.tolist())))
        return json.dumps(values) + "\n"

    def name(self, move: int) -> str:
        """Return the GTP name of a move."""
        return to_gtp(move, self.game.width, self.game.height)


def predict_move(
    net: Net,
    shown: SelectedGame,
    move: int | None,
    top: int = 5,
    *,
    rating: float | None = None,
    opponent: float | None = None,
) -> MovePrediction:
    """Predict the next move of a game.

    Args:
        move: Number of moves to play before; None for all, or as many as are legal.
        rating: Rating (`kifu.Rank.rating`) of the side to move; None for the player's own.
        opponent: Rating of its opponent; None for the opponent's own.

    Raises:
        GameError: There is no such move.
        RecipeError: The net does not support the board size, or does not take ranks.
    """
    game, plies = shown.game, shown.plies if move is None else move
    board = board_after(game, plies)
    positions = NetPositions.from_games([game], [plies])
    found = net.evaluate(positions, rank=rating, opponent=opponent)[0]
    best = found.top(top)[0]
    point = int(game.moves[plies] & POINT_MASK) if plies < len(game) else NO_POINT
    board.to_play = int(positions.to_play[0])
    played = None if point == NO_POINT else point
    return MovePrediction(net.name, shown, plies, board, found, tuple(best[best >= 0].tolist()), played)


def describe(prediction: MovePrediction) -> str:
    """Return the game, the board, the likeliest moves with their probabilities, and the move played, as text."""
    game, board = prediction.game, prediction.board
    lines = [str(game), *prediction.shown.remarks, "", *str(board).splitlines()]
    lines += [f"{_after(prediction)}; {_side(prediction)} to play", ""]
    width = max((len(prediction.name(move)) for move in prediction.best), default=0)
    for k, move in enumerate(prediction.best, 1):
        lines.append(f"{k}  {prediction.name(move):<{width}}  {prediction.policy[move]:6.1%}")
    lines += ["", f"played: {_played(prediction)}"] if prediction.played is not None else []
    win = _win_probability(prediction)
    lines += [f"{_side(prediction)}'s probability of winning: {win:.0%}"] if win is not None else []
    if prediction.evaluation.score is not None:
        lead, stdev = prediction.evaluation.score.tolist()
        lines.append(f"{_side(prediction)}'s lead: {lead:+.1f} points (standard deviation {stdev:.1f})")
    return join_lines(lines)


def _after(prediction: MovePrediction) -> str:
    return f"after {prediction.plies} of {len(prediction.game)} moves"


def _side(prediction: MovePrediction) -> str:
    return "White" if prediction.board.to_play == WHITE else "Black"


def _win_probability(prediction: MovePrediction) -> float | None:
    value = prediction.evaluation.value
    return None if value is None else (float(value) + 1) / 2


def _played(prediction: MovePrediction) -> str:
    played = prediction.played
    assert played is not None
    found = prediction.evaluation
    probability = found.probability(played)
    if probability is None:
        return f"{prediction.name(played)} (not predicted by this net)"
    if not found.legal[played]:
        return f"{prediction.name(played)} (illegal)"
    return f"{prediction.name(played)} {probability:.1%}, choice {found.choice(played)}"


def _entry(prediction: MovePrediction, move: int) -> dict[str, Any]:
    return {"move": prediction.name(move), "p": _rounded(prediction.evaluation.probability(move))}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, _DIGITS)


def _rows(values: npt.NDArray[np.float32], game: Game) -> list[list[float]]:
    rows: list[list[float]] = values.astype(np.float64).round(_DIGITS).reshape(game.height, game.width).tolist()
    return rows


def color_strength(policy: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return the strength of each point's colour, [points]: the root of its probability, 0 below the uniform one.

    The square root keeps the fifth-best move visible beside a very likely one.
    """
    return np.where(policy * policy.size > 1, np.sqrt(policy), np.float32(0))


def draw(prediction: MovePrediction, path: Path) -> None:
    """Draw a heat map into a .svg or .png file, see `draw_heatmap`."""
    save(draw_heatmap(prediction), path)


def draw_heatmap(prediction: MovePrediction) -> Figure:
    """Draw a heat map: the likeliest moves numbered, the move played ringed, the percentages above the board."""
    game = prediction.game
    title = [f"{' - '.join(printable(name or '?') for name in game.players)}, {_after(prediction)}"]
    to_play = f"{_side(prediction)} to play"
    title.append(to_play if prediction.played is None else f"{to_play}; played: {_played(prediction)}")
    best = [f"{k}: {prediction.name(move)} {prediction.policy[move]:.1%}" for k, move in enumerate(prediction.best, 1)]
    per_line = min(_MOVES_PER_LINE, 1 + game.width // 4)
    title += ["   ".join(best[k : k + per_line]) for k in range(0, len(best), per_line)]
    points = game.width * game.height
    last = int(game.moves[prediction.plies - 1] & POINT_MASK) if prediction.plies else points
    return draw_board(
        prediction.board.stones,
        title="\n".join(title),
        last=last,
        marks={move: str(k) for k, move in enumerate(prediction.best, 1) if move < points},
        ring=prediction.played,
        heat=color_strength(prediction.policy[:points]).reshape(game.height, game.width),
    )
