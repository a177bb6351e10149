"""Endpoints of nets: lines, predictions, the analysis of games, play, plane sets."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from typing import Annotated, Any

import numpy as np
from pydantic import Field
from starlette.routing import Route

from kifu.corpus.export import rows_to_games
from kifu.errors import GameError, RecipeError
from kifu.go.rules import Rules
from kifu.katago.inputs import encode_katago
from kifu.katago.rules import KataRules
from kifu.learn.evaluation import Evaluation
from kifu.learn.review import MAX_COMPARED, Ranks, Reviewer, compare_moves, line_of, read_problems
from kifu.planes.encoder import encode
from kifu.planes.registry import PLANE_SETS, define
from kifu.play.player import DEFAULT_KOMI, RESIGN, GameSession, NetEvaluator, Player, score_points
from kifu.point import BLACK, MAX_SIZE, POINT_MASK, WHITE, WHITE_BIT, fixed_handicap, max_handicap
from kifu.records.game import Game, write_sgf
from kifu.records.ranks import Rank
from kifu.web.api import Deadline, Download, NotFoundError, Params, endpoint
from kifu.web.games import game_info
from kifu.web.positions import MAX_MOVES, Line
from kifu.web.site import CatalogueParams, Site

_MAX_SHOWN, _MIN_SHOWN = 60, 0.001
"""Largest number of moves of a prediction, and the smallest probability of one."""

_MAX_ANALYSED, _BATCH, _PART_SECONDS = 400, 4, 0.5
"""Number of moves of a game that are analysed, of positions between two checks of the time, and seconds of a part."""

_PROBLEMS = 10
"""Number of problems that are listed at a time."""

_NONE = [None, None]

ShortText = Annotated[str, Field(max_length=40)]
Komi = Annotated[float | None, Field(ge=-1000, le=1000, allow_inf_nan=False)]


class LineParams(Params):
    """A line under rules of legal moves, see `Rules.named`."""

    line: Line
    rules: ShortText = "records"


class NetParams(LineParams):
    """A net, by its number from 0, and the conditions that it is given.

    `komi` is in points for White, `rules` are spelled as in records; None and "" are unknown.
    """

    net: int = Field(0, ge=0, le=1000)
    komi: Komi = None
    handicap: int | None = Field(None, ge=0, le=100)
    rules: ShortText = ""
    year: int | None = Field(None, ge=1, le=9999)

    def game(self) -> Game:
        """Return the line as a game with these conditions."""
        year = None if self.year is None else f"{self.year:04}"
        return self.line.to_game(self.handicap, KM=_komi(self.komi), RU=self.rules or None, DT=year)


class ReviewParams(NetParams):
    """A game that a net reviews; ranks such as "3d" or "".

    An analysis starts at the position after `first` moves, and compares the move played with `moves` likely ones.
    """

    black_rank: ShortText = ""
    white_rank: ShortText = ""
    first: int = Field(0, ge=0, le=MAX_MOVES)
    moves: int = Field(MAX_COMPARED, ge=0, le=MAX_COMPARED)

    @property
    def ratings(self) -> Ranks:
        """Ratings of Black and White."""
        return _rating(self.black_rank), _rating(self.white_rank)


class PredictParams(ReviewParams):
    """The position of a line after `ply` moves; `ownership` asks for that of the points, too."""

    ply: int = Field(0, ge=0, le=MAX_MOVES)
    ownership: bool = False


def _komi(points: float | None) -> str | None:
    return None if points is None else f"{points:g}"


def _rating(text: str) -> float | None:
    return Rank.parse_rating(text) if text else None


def _reviewed(site: Site, params: ReviewParams) -> tuple[Reviewer, Game]:
    """Return the net and the game of a request. Raises RecipeError if the net does not take the ranks; GameError."""
    reviewer = site.net(params.net)
    reviewer.net.check_ranks(*params.ratings)
    game = params.game()
    if isinstance(params, PredictParams) and params.ply > len(game):
        raise GameError(f"ply must be 0 to {len(game)}, got {params.ply}")
    return reviewer, game


def predict(site: Site, params: PredictParams) -> dict[str, Any]:
    """Return a net's evaluation of one position.

    Returns:
        {"policy": [[point, probability]] in descending order, points only; "pass": probability, None if the net does
        not predict passes; "ownership": of each point, from -1 for White to 1 for Black, or None; "played":
        [probability, choice] of the next move of the line, or None; "to_play": colour}.
    """
    reviewer, game = _reviewed(site, params)
    (found,) = reviewer.evaluate(game, [line_of(game, params.ply)], params.ratings)
    points, policy = game.width * game.height, found.policy
    best = np.argsort(-policy[:points], kind="stable")[:_MAX_SHOWN]
    ownership = found.seen_from(BLACK).ownership if params.ownership else None
    return {
        "policy": [[int(point), float(policy[point])] for point in best if policy[point] > _MIN_SHOWN],
        "pass": found.probability(points),
        "ownership": None if ownership is None else ownership.round(2).tolist(),
        "played": _played(found, int(game.moves[params.ply] & POINT_MASK) if params.ply < len(game) else None),
        "to_play": int(found.side),
    }


def _played(found: Evaluation, move: int | None) -> list[Any] | None:
    """Return probability and choice of a move; None without a move, or if the net does not predict it."""
    probability = None if move is None else found.probability(move)
    return [probability, found.choice(move)] if move is not None and probability else None


def _black(found: Evaluation) -> list[float | None]:
    """Return the probability that Black wins and the points by which Black leads, None without such a value."""
    black = found.seen_from(BLACK)
    return [
        None if black.value is None else (1 + float(black.value)) / 2,
        None if black.score is None else float(black.score[0]),
    ]


def candidates(site: Site, params: PredictParams, deadline: Deadline) -> dict[str, Any]:
    """Return the evaluation of a position and of the likely moves and the next one of the line in it.

    Returns:
        {"win": probability that Black wins, "lead": points by which Black leads, "loss": points that the next move of
        the line loses, each None without such a value; "moves": [[move, "win", "lead"]], see `ComparedMoves`}.
    """
    reviewer, game = _reviewed(site, params)
    (found,) = compare_moves(reviewer, game, [params.ply], params.ratings)
    moves = [[move, *_black(after)] for move, after in found.after.items()]
    win, lead = _black(found.best)
    return {"win": win, "lead": lead, "loss": found.loss(found.played), "moves": moves}


def analyse(site: Site, params: ReviewParams, deadline: Deadline) -> dict[str, Any]:
    """Return a net's evaluation of a part of a line, up to `_MAX_ANALYSED` moves, as far as `_PART_SECONDS` suffice.

    Returns:
        {"total": number of positions, one more than of moves; "rows": [[probability, choice, win, lead, best,
        best_probability, loss]]}: from position `first` on, the move played and its place among the choices, as in
        `predict`; the values of `candidates`; the best move and its probability. None without such a value.
    """
    reviewer, game = _reviewed(site, params)
    total = min(len(game), _MAX_ANALYSED) + 1
    count = params.moves if reviewer.net.has_points else min(params.moves, 1)
    rows: list[list[Any]] = []
    for start in range(params.first, total, _BATCH):
        for each in compare_moves(reviewer, game, range(start, min(start + _BATCH, total)), params.ratings, count):
            played, best = _played(each.before, each.played), next(iter(each.after), None)
            share = None if best is None else each.before.probability(best) or None
            rows.append([*(played or _NONE), *_black(each.best), best, share, each.loss(each.played)])
        if deadline.seconds - deadline.left > _PART_SECONDS:
            break
    return {"total": total, "rows": rows}


class ProblemsParams(CatalogueParams):
    """Problems of a catalogue for two ranks such as "7d/10k", "" for the first two: those after `first` easier ones."""

    ranks: ShortText = ""
    first: int = Field(0, ge=0, le=10**9)


def list_problems(site: Site, params: ProblemsParams, deadline: Deadline) -> dict[str, Any]:
    """Return some problems, see `read_problems`.

    Returns:
        {"ranks": [[two ranks, number of problems]]; "problems": [their columns, and "row"; "game": `game_info`; "line":
        `Line.to_json` with the moves before the position, too]}.
    """
    corpus = site.corpus(params.corpus)
    problems = read_problems(corpus.searcher.catalogue.path)
    counts = Counter(each["ranks"] for each in problems)
    ranks = params.ranks or next(iter(counts), "")
    chosen = [each for each in problems if each["ranks"] == ranks][params.first : params.first + _PROBLEMS]
    ids = ", ".join(str(each["game"]) for each in chosen) or "NULL"
    rows = corpus.table.query(f'SELECT id, min("row") FROM summaries WHERE id IN ({ids}) GROUP BY id', deadline)
    row_of, found = dict(rows), []
    for each in (each for each in chosen if each["game"] in row_of):
        row, ply = row_of[each["game"]], each["ply"]
        (game,) = rows_to_games(corpus.searcher.record(row))
        bits = np.arange(len(each["line"]), dtype=np.uint16) % 2 * WHITE_BIT ^ game.moves[ply] & WHITE_BIT
        moves = np.concatenate([game.moves[:ply], np.array(each["line"], np.uint16) | bits])
        line = Line.of_game(replace(game, moves=moves))
        found.append(each | {"row": row, "game": game_info(game), "line": line.to_json()})
    return {"ranks": list(counts.items()), "problems": found}


_RESIGN = 0.05
"""Winning probability below which a net resigns at its third move in a row."""


class StartParams(Params):
    """A new game; the stones of a `handicap` are on the fixed points, see `max_handicap`."""

    net: int = Field(0, ge=0, le=1000)
    size: int = Field(19, ge=2, le=MAX_SIZE)
    handicap: int = Field(0, ge=0, le=9)


class PlayParams(NetParams):
    """A request for a move of a player of a `rank` such as "3d" or "". `temperature` and `seed` are as for `Player`."""

    rank: ShortText = ""
    opponent: ShortText = ""
    temperature: float = Field(0.0, ge=0, le=10, allow_inf_nan=False)
    rules: ShortText = "chinese"
    seed: int | None = Field(None, ge=0, le=2**53)


class ScoreParams(NetParams):
    """A finished game, to be scored by `rules` (`Rules.named`) with `komi` points for White.

    `dead` are the points of dead stones; None for those that are dead by the net's ownership, if it has it.
    """

    rules: ShortText = "chinese"
    dead: Annotated[list[Annotated[int, Field(ge=0, lt=MAX_SIZE**2)]], Field(max_length=MAX_SIZE**2)] | None = None


class RecordParams(LineParams):
    """A game to save, see `NetParams`."""

    komi: float = Field(DEFAULT_KOMI, ge=-1000, le=1000, allow_inf_nan=False)
    rules: ShortText = "chinese"
    handicap: int = Field(0, ge=0, le=100)
    black_rank: ShortText = ""
    white_rank: ShortText = ""
    black: str = Field("", max_length=200)
    white: str = Field("", max_length=200)
    result: ShortText = ""


def start(site: Site, params: StartParams) -> dict[str, Any]:
    """Return the `Line.to_json` of a new game.

    Raises RecipeError if the net does not support the board, or the board not the handicap.
    """
    size, stones = params.size, params.handicap
    site.net(params.net).net.check_board(size, size)
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
    net, rules = site.net(params.net).net, Rules.named(params.rules)
    mover, opponent = _rating(params.rank), _rating(params.opponent)
    evaluator = NetEvaluator(net, rules=params.rules, rating=mover, opponent=opponent)
    resign = _RESIGN if evaluator.has_value else None
    player = Player(evaluator, temperature=params.temperature, resign=resign, seed=params.seed)
    game, plies = params.game(), len(params.line.moves)
    net.check_board(game.width, game.height)
    for ply in range(plies % 2 if plies < 4 else plies - 4, plies + 1, 2):
        session = GameSession.from_game(game, ply, rules=rules)
        colour = session.board.to_play
        evaluation = evaluator.evaluate(session, colour)
        move = player.choose(session, colour, evaluation)
    value = None if evaluation.value is None else float(evaluation.value)
    return {"move": None if move == RESIGN else move, "value": value}


def score(site: Site, params: ScoreParams) -> dict[str, Any]:
    """Return the score of the final position: of territory by Japanese and Korean rules, else of area.

    Returns:
        {"area": for each point its owner, 0 for neither; "dead": the points of dead stones; "judged": True if the net
        found them; "black", "white": points of each, komi and White's points for handicap stones included; "result"}.
    """
    rules = KataRules.parse(params.rules)
    session = GameSession.from_game(params.game(), len(params.line.moves), rules=Rules.named(params.rules))
    board, judged = session.board, None
    dead = np.zeros(board.pass_move, np.bool_)
    if params.dead is not None:
        dead[[point for point in params.dead if point < board.pass_move]] = True
        dead &= board.stones.ravel() > 0
    else:
        judged = NetEvaluator(site.net(params.net).net, rules=params.rules).judge_dead(session)
        dead = dead if judged is None else judged
    owners, black, white_points = score_points(board, dead, territory=rules.scoring == "territory")
    white = white_points + (DEFAULT_KOMI if params.komi is None else params.komi) + rules.bonus(params.handicap or 0)
    margin = black - white
    return {
        "area": owners.tolist(), "dead": np.flatnonzero(dead).tolist(), "judged": judged is not None,
        "black": black, "white": white,
        "result": "0" if margin == 0 else f"{'B' if margin > 0 else 'W'}+{abs(margin):g}",
    }  # fmt: skip


def save_record(params: RecordParams) -> Download:
    """Return a game as an SGF record."""
    game = params.line.to_game(
        params.handicap, AP="kifu", PB=params.black or None, PW=params.white or None, BR=params.black_rank or None,
        WR=params.white_rank or None, KM=f"{params.komi:g}", RU=params.rules.capitalize(), RE=params.result or None,
    )  # fmt: skip
    return Download(write_sgf(game), "application/x-go-sgf", "game.sgf")


class PlanesParams(LineParams):
    """The position after `ply` moves, and the full name of a published plane set; others would have to be compiled.

    Ranks such as "3d", komi in points for White, and rules as in records; "" and None are unknown.
    """

    ply: int = Field(0, ge=0, le=MAX_MOVES)
    planes: ShortText
    black_rank: ShortText = ""
    white_rank: ShortText = ""
    rules: ShortText = ""
    komi: Komi = None


def plane_sets() -> list[dict[str, Any]]:
    """Return the published plane sets: [{"name", "title", "planes": their number}]."""
    return [{"name": each.name, "title": each.title, "planes": each.planes} for each in PLANE_SETS.values()]


def encode_position(params: PlanesParams) -> dict[str, Any]:
    """Return the planes of a position as `kifu.encode` makes them.

    Raises NotFoundError if there is no such plane set; GameError if the position has no legal move, or the plane set
    does not support it.

    Returns:
        {"name", "title", "first_row", "padding"} of the plane set, see `PlaneSet`; "features": [{"name", "definition",
        "planes": their number}]; "planes": [{"name": description, "values": [H, W]}]; "inputs": [{"name", "value"}],
        the numbers beside.
    """
    plane_set = PLANE_SETS.get(params.planes)
    if plane_set is None:
        raise NotFoundError(f"there is no plane set {params.planes!r}")
    line = params.line
    board = line.board(params.ply)
    if params.ply < len(line.moves):
        board.to_play = WHITE if line.moves[params.ply] & WHITE_BIT else 3 - WHITE
    elif not params.ply and line.to_play:
        board.to_play = line.to_play
    legal = np.flatnonzero(board.legal()[: board.pass_move])
    if not len(legal):
        raise GameError("the player to move has no legal move, so the position has no example")
    # A position is encoded before a move; any legal one serves.
    word = int(legal[0]) | (WHITE_BIT if board.to_play == WHITE else 0)
    moves = [*line.moves[: params.ply], word]
    game = line.model_copy(update={"moves": moves}).to_game(
        None, BR=params.black_rank or None, WR=params.white_rank or None, RU=params.rules or None,
        KM=_komi(params.komi),
    )  # fmt: skip
    inputs: list[dict[str, Any]] = []
    if plane_set.inputs:
        planes, numbers, _ = encode_katago(game)
        inputs = [{"name": name, "value": float(value)} for name, value in zip(plane_set.inputs, numbers[-1])]
    else:
        planes, _ = encode(game, params.planes)
    if not len(planes):
        raise GameError(f"plane set {plane_set.name} omits this position")
    return {
        **{name: getattr(plane_set, name) for name in ("name", "title", "first_row", "padding")},
        "features": [
            {"name": each.name, "definition": define(each), "planes": len(each.planes)} for each in plane_set.features
        ],
        "planes": [
            {"name": name, "values": values} for name, values in zip(plane_set.plane_names, planes[-1].tolist())
        ],
        "inputs": inputs,
    }


def nets_routes(site: Site) -> list[Route]:
    """Return the routes of this module."""

    def show_line(params: LineParams, deadline: Deadline) -> dict[str, Any]:
        return params.line.to_json(Rules.named(params.rules))

    return [
        endpoint("/api/line", LineParams, show_line, site.quick, method="POST"),
        endpoint("/api/predict", PredictParams, lambda params, _: predict(site, params), site.predict, method="POST"),
        endpoint("/api/analyse", ReviewParams, partial(analyse, site), site.predict, method="POST"),
        endpoint("/api/candidates", PredictParams, partial(candidates, site), site.predict, method="POST"),
        endpoint("/api/problems", ProblemsParams, partial(list_problems, site), site.quick),
        endpoint("/api/start", StartParams, lambda params, _: start(site, params), site.predict),
        endpoint("/api/play", PlayParams, lambda params, _: reply(site, params), site.predict, method="POST"),
        endpoint("/api/score", ScoreParams, lambda params, _: score(site, params), site.predict, method="POST"),
        endpoint("/api/record", RecordParams, lambda params, _: save_record(params), site.quick, method="POST"),
        endpoint("/api/plane-sets", Params, lambda params, _: plane_sets(), site.quick),
        endpoint("/api/planes", PlanesParams, lambda params, _: encode_position(params), site.search, method="POST"),
    ]
