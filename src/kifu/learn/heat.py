"""What a net says of one position of a game: as text, as JSON, and as a heat map on the board."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kifu.describe import SelectedGame
from kifu.go.board import Board
from kifu.learn.predict import Predictions, Predictor, PredictPositions
from kifu.point import NO_POINT, POINT_MASK, WHITE, to_gtp
from kifu.records.game import Game
from kifu.viz.boards import draw_board, printable, save

_DIGITS = 6
"""Of probabilities in JSON, after the point."""

_ON_A_LINE = 3
"""Moves that are listed on one line above a picture; fewer on a narrow board."""


@dataclass(frozen=True)
class Forecast:
    """What a net expects after `plies` moves of a game, beside what was played.

    best: moves, the likeliest first.  played: the game's next move, None if there is none, or none on the board.
    """

    net: str
    shown: SelectedGame
    plies: int
    board: Board
    answers: Predictions
    best: tuple[int, ...]
    played: int | None

    @property
    def game(self) -> Game:
        """The game asked about."""
        return self.shown.game

    @property
    def policy(self) -> npt.NDArray[np.float32]:
        """[moves] float32, of the legal moves; a pass is the last one, if the net knows passes."""
        policy: npt.NDArray[np.float32] = self.answers.policy[0]
        return policy

    def name(self, move: int) -> str:
        """The GTP name of a move."""
        return to_gtp(move, self.game.width, self.game.height)

    def chance(self, move: int) -> float | None:
        """The probability of a move; None of a pass that the net does not know."""
        return float(self.policy[move]) if move < len(self.policy) else None

    def place(self, move: int) -> int:
        """How many moves are likelier than this one, and one more."""
        return int(np.count_nonzero(self.policy > self.policy[move])) + 1


def forecast(predictor: Predictor, shown: SelectedGame, move: int | None, top: int = 5) -> Forecast:
    """What a net expects next in a game, after `move` moves; None: after all, or as many as can be played.

    top: how many moves are listed. Raises GameError and RecipeError as `PredictPositions.of_games` and `Predictor.ask`.
    """
    game, plies = shown.game, shown.plies if move is None else move
    positions = PredictPositions.of_games([game], [plies])
    answers = predictor.ask(positions)
    best = answers.top(top)[0][0]
    word = int(game.moves[plies] & POINT_MASK) if plies < len(game) else NO_POINT
    board = game.board(plies)
    board.to_play = int(positions.to_play[0])
    played = None if word == NO_POINT else word
    return Forecast(predictor.net.name, shown, plies, board, answers, tuple(best[best >= 0].tolist()), played)


def describe(told: Forecast) -> str:
    """The board, the best moves with their probabilities, and the one that was played; below the game's headline."""
    lines = [str(told.game), *told.shown.remarks, "", str(told.board), f"{_after(told)}; {_side(told)} to play", ""]
    names = max((len(told.name(move)) for move in told.best), default=0)
    for k, move in enumerate(told.best, 1):
        lines.append(f"{k}  {told.name(move):<{names}}  {told.policy[move]:6.1%}")
    lines += ["", f"played: {_played(told)}"] if told.played is not None else []
    lines += [f"{_side(told)}'s chance to win: {_wins(told):.0%}"] if _wins(told) is not None else []
    return "\n".join(lines)


def _after(told: Forecast) -> str:
    return f"after {told.plies} of {len(told.game)} moves"


def _side(told: Forecast) -> str:
    return "White" if told.board.to_play == WHITE else "Black"


def _wins(told: Forecast) -> float | None:
    """The probability that the side to move wins, if the net tells."""
    return None if told.answers.value is None else (float(told.answers.value[0]) + 1) / 2


def _played(told: Forecast) -> str:
    """The move that was played, and what the net thinks of it."""
    assert told.played is not None
    chance = told.chance(told.played)
    if chance is None:
        return f"{told.name(told.played)}, which the net does not know"
    if not told.answers.legal[0, told.played]:
        return f"{told.name(told.played)}, which the rules forbid"
    return f"{told.name(told.played)} {chance:.1%}, choice {told.place(told.played)}"


def to_json(told: Forecast) -> str:
    """The same, and all probabilities: see docs/prediction.md."""
    game, answers = told.game, told.answers
    points = game.width * game.height
    found: dict[str, Any] = {
        "net": told.net,
        "game": str(game),
        "move": told.plies,
        "to_play": _side(told).lower(),
        "policy": _rows(told.policy[:points], game),
        "pass": _rounded(told.chance(points)),
        "best": [_entry(told, move) for move in told.best],
        "played": None if told.played is None else _entry(told, told.played),
        "value": None if answers.value is None else _rounded(float(answers.value[0])),
        "ownership": None if answers.ownership is None else _rows(answers.ownership[0], game),
    }
    return json.dumps(found) + "\n"


def _entry(told: Forecast, move: int) -> dict[str, Any]:
    return {"move": told.name(move), "p": _rounded(told.chance(move))}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, _DIGITS)


def _rows(values: npt.NDArray[np.float32], game: Game) -> list[list[float]]:
    rows: list[list[float]] = values.astype(np.float64).round(_DIGITS).reshape(game.height, game.width).tolist()
    return rows


def strength(policy: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """How strongly points are coloured for their probabilities; nothing where the net expects less than chance would.

    The square root, so that the fifth-best move can still be seen beside a sure one.
    """
    return np.where(policy * policy.size > 1, np.sqrt(policy), np.float32(0))


def draw(told: Forecast, out: Path) -> None:
    """A heat map: the best moves numbered, the one that was played ringed, with the percentages above the board.

    Raises OutputError.
    """
    game = told.game
    title = [f"{' - '.join(printable(name) or '?' for name in game.players)}, {_after(told)}"]
    asked = f"{_side(told)} to play"
    title.append(asked if told.played is None else f"{asked}; played: {_played(told)}")
    listed = [f"{k}: {told.name(move)} {told.policy[move]:.1%}" for k, move in enumerate(told.best, 1)]
    most = min(_ON_A_LINE, 1 + game.width // 4)
    title += ["   ".join(listed[k : k + most]) for k in range(0, len(listed), most)]
    points = game.width * game.height
    last = int(game.moves[told.plies - 1] & POINT_MASK) if told.plies else points
    figure = draw_board(
        told.board.stones,
        title="\n".join(title),
        last=last,
        marks={move: str(k) for k, move in enumerate(told.best, 1) if move < points},
        ring=told.played,
        heat=strength(told.policy[:points]).reshape(game.height, game.width),
    )
    save(figure, out)
