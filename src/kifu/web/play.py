"""Endpoints of play: replies of nets, scores, records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field
from starlette.routing import Route

from kifu.errors import GameError, RecipeError
from kifu.go.rules import Rules
from kifu.play.player import DEFAULT_KOMI, GameSession
from kifu.point import MAX_SIZE, WHITE, fixed_handicap, max_handicap
from kifu.records.game import write_sgf
from kifu.web.analysis import NetParams, ShortText
from kifu.web.api import Download, Params, endpoint
from kifu.web.lines import Line
from kifu.web.site import Site

if TYPE_CHECKING:
    from kifu.learn.predict import MovePredictor

_SIZES = (9, 13, 19)
"""Sides of the boards that are offered, besides that of a net."""

_RESIGN = 0.05
"""Winning probability below which a net resigns at its third move in a row."""


class BoardsParams(Params):
    """A net to play against.

    Attributes:
        net: Number of the net, from 0.
    """

    net: int = Field(0, ge=0, le=1000)


class StartParams(BoardsParams):
    """A new game.

    Attributes:
        handicap: Handicap stones on the fixed points, see `max_handicap`.
    """

    size: int = Field(19, ge=2, le=MAX_SIZE)
    handicap: int = Field(0, ge=0, le=9)


class PlayParams(NetParams):
    """A request for a move.

    Attributes:
        temperature: As for `Player`.
        seed: Seed of the sampling; None for a random one.
    """

    temperature: float = Field(0.0, ge=0, le=10, allow_inf_nan=False)
    rules: ShortText = "chinese"
    seed: int | None = Field(None, ge=0, le=2**53)


class ScoreParams(Params):
    """A finished game.

    Attributes:
        komi: Points for White.
        rules: The rules of legal moves. Scoring is by area under all of them.
    """

    line: Line
    komi: float = Field(DEFAULT_KOMI, ge=-1000, le=1000, allow_inf_nan=False)
    rules: ShortText = "chinese"


class RecordParams(ScoreParams):
    """A game to save."""

    handicap: int = Field(0, ge=0, le=100)
    black: str = Field("", max_length=200)
    white: str = Field("", max_length=200)
    result: ShortText = ""


def list_boards(site: Site, params: BoardsParams) -> list[dict[str, int]]:
    """Return the boards for play against a net: [{"size": side, "handicap": largest}], the smallest first.

    Raises:
        RecipeError: If the net supports no square board.
    """
    predictor = site.net(params.net).predictor
    sizes = [size for size in sorted({*_SIZES, *predictor.board}) if _is_supported(predictor, size)]
    if not sizes:
        predictor.check_board(_SIZES[-1], _SIZES[-1])
    return [{"size": size, "handicap": max_handicap(size, size)} for size in sizes]


def _is_supported(predictor: MovePredictor, size: int) -> bool:
    try:
        predictor.check_board(size, size)
    except (GameError, RecipeError):
        return False
    return True


def start(site: Site, params: StartParams) -> dict[str, Any]:
    """Return the `Line.to_json` of a new game.

    Raises:
        RecipeError: If the net does not support the board, or the board not the handicap.
    """
    size, stones = params.size, params.handicap
    site.net(params.net).predictor.check_board(size, size)
    if stones > max_handicap(size, size):
        raise RecipeError(f"handicap must be 0 to {max_handicap(size, size)} on {size} x {size}, got {stones}")
    setup = fixed_handicap(stones, size, size) if stones > 1 else []
    line = Line(
        width=size, height=size, setup=list(setup), setup_ply=[0] * len(setup),
        moves=[], to_play=WHITE if setup else 0,
    )  # fmt: skip
    return line.to_json()


def reply(site: Site, params: PlayParams) -> dict[str, Any]:
    """Return {"move": a point, a pass or None for a resignation; "value": of the player to move, or None}.

    A player resigns at its third hopeless move in a row, so its two moves before are evaluated again.
    """
    net, rules = site.net(params.net), Rules.named(params.rules)
    mover, opponent = params.ratings
    from kifu.play.player import RESIGN, NetEvaluator, Player  # imports torch, which takes seconds

    evaluator = NetEvaluator(net.predictor, rules=params.rules, rank=mover, opponent=opponent)
    resign = _RESIGN if evaluator.has_value else None
    player = Player(evaluator, temperature=params.temperature, resign=resign, seed=params.seed)
    game, plies = params.game(), len(params.line.moves)
    net.predictor.check_board(game.width, game.height)
    with net.lock:
        for ply in range(plies % 2 if plies < 4 else plies - 4, plies + 1, 2):
            session = GameSession.from_game(game, ply, rules=rules)
            colour = session.board.to_play
            evaluation = evaluator.evaluate(session, colour)
            move = player.choose(session, colour, evaluation)
    return {"move": None if move == RESIGN else move, "value": evaluation.value}


def score(params: ScoreParams) -> dict[str, Any]:
    """Return the area score of the final position, all stones being alive.

    Returns:
        {"area": for each point its owner, 0 for neither; "black", "white": points of each, komi included; "result"}.
    """
    session = GameSession.from_game(
        params.line.to_game(), len(params.line.moves), rules=Rules.named(params.rules), default_komi=params.komi
    )
    board = session.board
    area = board.stones.ravel()
    for region, owners in board.empty_regions():
        if len(owners) == 1:
            area[region] = next(iter(owners))
    black, white = np.bincount(area, minlength=3)[1:].tolist()
    margin = board.area_score() - params.komi
    result = "0" if margin == 0 else f"{'B' if margin > 0 else 'W'}+{abs(margin):g}"
    return {"area": area.tolist(), "black": black, "white": white + params.komi, "result": result}


def save_record(params: RecordParams) -> Download:
    """Return a game as an SGF record."""
    game = params.line.to_game(
        None, params.handicap, AP="kifu", PB=params.black or None, PW=params.white or None, KM=f"{params.komi:g}",
        RU=params.rules.capitalize(), RE=params.result or None,
    )  # fmt: skip
    return Download(write_sgf(game), "application/x-go-sgf", "game.sgf")


def play_routes(site: Site) -> list[Route]:
    """Return the routes of this module."""
    return [
        endpoint("/api/boards", BoardsParams, lambda params, _: list_boards(site, params), site.quick),
        endpoint("/api/start", StartParams, lambda params, _: start(site, params), site.predict),
        endpoint("/api/play", PlayParams, lambda params, _: reply(site, params), site.predict, method="POST"),
        endpoint("/api/score", ScoreParams, lambda params, _: score(params), site.quick, method="POST"),
        endpoint("/api/record", RecordParams, lambda params, _: save_record(params), site.quick, method="POST"),
    ]
