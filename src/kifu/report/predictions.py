"""A net's prediction for one position of a game, as text, JSON and a heat map on the board."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kifu.errors import join_lines, printable
from kifu.learn.evaluation import Evaluation
from kifu.learn.inference import Net
from kifu.point import NO_POINT, POINT_MASK, WHITE, to_gtp
from kifu.records.game import Game
from kifu.report.games import SelectedGame, board_after
from kifu.viz.boards import draw_board

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DIGITS = 6
"""Decimal places of probabilities in JSON."""

_MOVES_PER_LINE = 3
"""Moves in one line above a picture; fewer on a narrow board."""


def predict_move(
    net: Net, shown: SelectedGame, move: int | None, *, rating: float | None = None, opponent: float | None = None
) -> tuple[int, Evaluation]:
    """Return the number of moves before a position of a game, and its evaluation.

    Raises GameError if there is no such move; RecipeError if the net does not support the board size, or does not take
    ranks.

    Args:
        move: Number of moves to play before; None for all, or as many as are legal.
        rating: Rating (`kifu.Rank.rating`) of the side to move; None for the player's own.
        opponent: Rating of its opponent; None for the opponent's own.
    """
    plies = shown.plies if move is None else move
    board_after(shown.game, plies)
    return plies, net.evaluate(shown.game, [plies], rank=rating, opponent=opponent)[0]


def prediction_to_dict(net: str, game: Game, plies: int, found: Evaluation, top: int) -> dict[str, Any]:
    """Return the evaluation of a position with all probabilities in the format of docs/prediction.md."""
    points, played = game.width * game.height, _played(game, plies)

    def rounded(value: Any) -> float | None:
        return None if value is None else round(float(value), _DIGITS)

    def rows(values: npt.NDArray[np.float32] | None) -> Any:
        return None if values is None else values.astype(float).round(_DIGITS).reshape(game.height, game.width).tolist()

    def entry(move: int) -> dict[str, Any]:
        return {"move": to_gtp(move, game.width, game.height), "p": rounded(found.probability(move))}

    values = {
        "net": net, "game": str(game), "move": plies, "to_play": _side(found).lower(),
        "policy": rows(found.policy[:points]), "pass": rounded(found.probability(points)),
        "best": [entry(move) for move in _best(found, top)], "played": None if played is None else entry(played),
        "value": rounded(found.value), "ownership": rows(found.ownership),
    }  # fmt: skip
    return values | ({} if found.score is None else dict(zip(("lead", "score_stdev"), map(rounded, found.score))))


def describe(shown: SelectedGame, plies: int, found: Evaluation, top: int) -> str:
    """Return the game, the board, the likeliest moves with their probabilities, and the move played, as text."""
    game, side, policy = shown.game, _side(found), found.policy
    board = game.board(plies)
    board.to_play = int(found.side)
    lines = [str(game), *shown.remarks, "", *str(board).splitlines()]
    lines += [f"{_after(game, plies)}; {side} to play", ""]
    best = {to_gtp(move, game.width, game.height): policy[move] for move in _best(found, top)}
    width = max(map(len, best), default=0)
    lines += [f"{k}  {name:<{width}}  {chance:6.1%}" for k, (name, chance) in enumerate(best.items(), 1)]
    lines += ["", f"played: {played}"] if (played := _played_text(game, plies, found)) else []
    if found.value is not None:
        lines.append(f"{side}'s probability of winning: {(float(found.value) + 1) / 2:.0%}")
    if found.score is not None:
        lead, stdev = found.score.tolist()
        lines.append(f"{side}'s lead: {lead:+.1f} points (standard deviation {stdev:.1f})")
    return join_lines(lines)


def _best(found: Evaluation, top: int) -> list[int]:
    moves: list[int] = found.top(top)[0].tolist()
    return [move for move in moves if move >= 0]


def _after(game: Game, plies: int) -> str:
    return f"after {plies} of {len(game)} moves"


def _side(found: Evaluation) -> str:
    return "White" if found.side == WHITE else "Black"


def _played(game: Game, plies: int) -> int | None:
    """Return the next move; None at the end of the game, and for a move off the board."""
    point = int(game.moves[plies] & POINT_MASK) if plies < len(game) else NO_POINT
    return None if point == NO_POINT else point


def _played_text(game: Game, plies: int, found: Evaluation) -> str | None:
    played = _played(game, plies)
    if played is None:
        return None
    name, probability = to_gtp(played, game.width, game.height), found.probability(played)
    if probability is None:
        return f"{name} (not predicted by this net)"
    return f"{name} {probability:.1%}, choice {found.choice(played)}" if found.legal[played] else f"{name} (illegal)"


def color_strength(policy: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return the strength of each point's colour, [points]: the root of its probability, 0 below the uniform one.

    The square root keeps the fifth-best move visible beside a very likely one.
    """
    return np.where(policy * policy.size > 1, np.sqrt(policy), np.float32(0))


def draw_heatmap(game: Game, plies: int, found: Evaluation, top: int = 5) -> Figure:
    """Draw a heat map: the likeliest moves numbered, the move played ringed, the percentages above the board."""
    best, played, points = _best(found, top), _played_text(game, plies, found), game.width * game.height
    title = [f"{' - '.join(printable(name or '?') for name in game.players)}, {_after(game, plies)}"]
    title.append(f"{_side(found)} to play" + (f"; played: {played}" if played else ""))
    names = [f"{k}: {to_gtp(move, game.width, game.height)} {found.policy[move]:.1%}" for k, move in enumerate(best, 1)]
    per_line = min(_MOVES_PER_LINE, 1 + game.width // 4)
    title += ["   ".join(names[k : k + per_line]) for k in range(0, len(names), per_line)]
    return draw_board(
        game.board(plies).stones,
        title="\n".join(title),
        last=int(game.moves[plies - 1] & POINT_MASK) if plies else points,
        marks={move: str(k) for k, move in enumerate(best, 1) if move < points},
        ring=_played(game, plies),
        heat=color_strength(found.policy[:points]).reshape(game.height, game.width),
    )
