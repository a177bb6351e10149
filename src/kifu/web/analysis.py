"""Endpoints of nets: lines, predictions, the analysis of games."""

from __future__ import annotations

from collections import OrderedDict
from typing import Annotated, Any

import numpy as np
from pydantic import Field
from starlette.routing import Route

from kifu.go.rules import Rules
from kifu.learn.positions import PredictPositions
from kifu.point import BLACK, POINT_MASK, WHITE, WHITE_BIT
from kifu.records.game import Game
from kifu.records.meta import Rank
from kifu.web.api import Deadline, Params, endpoint
from kifu.web.lines import MAX_MOVES, Line
from kifu.web.site import Site

_MAX_SHOWN, _MIN_SHOWN = 60, 0.001
"""Largest number of moves of a prediction, and the smallest probability of one."""

_MAX_ANALYSED, _BATCH = 400, 32
"""Number of positions of a game that are analysed, and of those between two checks of the time."""

_MAX_CACHED = 16
"""Number of analyses that are kept."""

ShortText = Annotated[str, Field(max_length=40)]
Komi = Annotated[float | None, Field(ge=-1000, le=1000, allow_inf_nan=False)]


class LineParams(Params):
    """A line under rules of legal moves.

    Attributes:
        rules: A name of `Rules.named`.
    """

    line: Line
    rules: ShortText = "records"


class NetParams(Params):
    """A net and the conditions that it is given.

    Attributes:
        net: Number of the net, from 0.
        rank: Rank of the player to move, such as "3d"; "" if unknown.
        komi: Points for White; None if unknown.
        rules: The rules as in records; "" if unknown.
        year: Year of the game; None if unknown.
    """

    line: Line
    net: int = Field(0, ge=0, le=1000)
    rank: ShortText = ""
    opponent: ShortText = ""
    komi: Komi = None
    handicap: int | None = Field(None, ge=0, le=100)
    rules: ShortText = ""
    year: int | None = Field(None, ge=1, le=9999)

    def game(self, ply: int | None = None) -> Game:
        """Return the first `ply` moves, by default all, as a game with these conditions."""
        return self.line.to_game(
            ply,
            self.handicap,
            KM=None if self.komi is None else f"{self.komi:g}",
            RU=self.rules or None,
            DT=None if self.year is None else f"{self.year:04}",
        )

    @property
    def ratings(self) -> tuple[float | None, float | None]:
        """Ratings of the player to move and of the opponent."""
        mover, opponent = (Rank.parse_rating(text) if text else None for text in (self.rank, self.opponent))
        return mover, opponent


class PredictParams(NetParams):
    """A position of a line.

    Attributes:
        ply: Number of moves before the position.
    """

    ply: int = Field(0, ge=0, le=MAX_MOVES)


def _positions(site: Site, params: NetParams, plies: list[int]) -> PredictPositions:
    """Return the positions after some numbers of moves. Raises RecipeError if the net does not take the ranks."""
    from kifu.learn.predictors import check_ranks  # imports torch, which takes seconds

    check_ranks(site.net(params.net).predictor, *params.ratings)
    games = [params.game(ply) for ply in plies]
    moves = params.line.moves
    known = all(ply < len(moves) for ply in plies)
    to_play = [WHITE if moves[ply] & WHITE_BIT else BLACK for ply in plies] if known else None
    return PredictPositions.from_games(games, plies, to_play=to_play).with_ranks(*params.ratings)


def predict(site: Site, params: PredictParams) -> dict[str, Any]:
    """Return a net's evaluation of one position.

    Returns:
        {"policy": [[point, probability]] in descending order, points only; "pass": probability, None if the net does
        not predict passes; "value": expected result for the player to move, or None; "to_play": colour}.
    """
    positions, net = _positions(site, params, [params.ply]), site.net(params.net)
    with net.lock:
        predicted = net.predictor.predict(positions)
    points = params.line.width * params.line.height
    policy = predicted.policy[0]
    best = np.argsort(-policy[:points], kind="stable")[:_MAX_SHOWN]
    return {
        "policy": [[int(point), float(policy[point])] for point in best if policy[point] > _MIN_SHOWN],
        "pass": float(policy[points]) if len(policy) > points else None,
        "value": None if predicted.value is None else float(predicted.value[0]),
        "to_play": int(positions.to_play[0]),
    }


def analyse(site: Site, params: NetParams, deadline: Deadline) -> dict[str, Any]:
    """Return a net's evaluation of each move of a line, up to `_MAX_ANALYSED`.

    Returns:
        {"log_prob", "rank", "value", "best", "best_probability"}: for each move its log-probability, its rank among the
        legal moves, the expected result for the player to move, the most probable move and its probability. None where
        the net predicts no such move or value.
    """
    moves = np.array(params.line.moves[:_MAX_ANALYSED], np.int64) & POINT_MASK
    net = site.net(params.net)
    found: dict[str, list[Any]] = {key: [] for key in ("log_prob", "rank", "value", "best", "best_probability")}
    for start in range(0, len(moves), _BATCH):
        deadline.check()
        played = moves[start : start + _BATCH]
        positions = _positions(site, params, list(range(start, start + len(played))))
        with net.lock:
            predicted = net.predictor.predict(positions)
        best, probability = predicted.top(1)
        for k, move in enumerate(played.tolist()):
            policy = predicted.policy[k]
            known = move < len(policy) and policy[move] > 0
            found["log_prob"].append(float(np.log(policy[move])) if known else None)
            found["rank"].append(1 + int((policy > policy[move]).sum()) if known else None)
            found["value"].append(None if predicted.value is None else float(predicted.value[k]))
            found["best"].append(int(best[k, 0]))
            found["best_probability"].append(float(probability[k, 0]))
    return found


def analysis_routes(site: Site) -> list[Route]:
    """Return the routes of this module."""
    cache: OrderedDict[str, dict[str, Any]] = OrderedDict()

    def analyse_cached(params: NetParams, deadline: Deadline) -> dict[str, Any]:
        """Return a kept analysis or a new one; the lane runs one at a time."""
        key = params.model_dump_json()
        answer = cache.pop(key, None) or analyse(site, params, deadline)
        cache[key] = answer
        while len(cache) > _MAX_CACHED:
            cache.popitem(last=False)
        return answer

    def show_line(params: LineParams, deadline: Deadline) -> dict[str, Any]:
        """Return `Line.to_json`."""
        return params.line.to_json(Rules.named(params.rules))

    return [
        endpoint("/api/line", LineParams, show_line, site.quick, method="POST"),
        endpoint("/api/predict", PredictParams, lambda params, _: predict(site, params), site.predict, method="POST"),
        endpoint("/api/analyse", NetParams, analyse_cached, site.predict, method="POST"),
    ]
