"""Estimates of players' ranks from their moves.

A net with the input "ranks" evaluates the positions before a player's moves once for each rank that the player might
have. The rank that is recorded for the player is replaced, so that it has no influence; that of the opponent is kept.
Likelihoods cannot be taken at face value: moves of a game depend on each other, players of a rank differ, and nets
confuse neighbouring ranks. `RankCalibration` corrects this with a few parameters, fitted on players whose ranks are
known. See docs/rank.md.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import torch
from pydantic import BaseModel, Field, model_validator
from torch import Tensor

from kifu.config import STRICT, BoardSize, Line, read_model
from kifu.corpus.schema import game_arrays, to_numpy
from kifu.datasets.global_inputs import CONDITION_COLUMNS, Conditions
from kifu.datasets.mmap_games import COLUMNS as LOADER_COLUMNS
from kifu.datasets.mmap_games import read_games
from kifu.errors import FormatError, RecipeError, SourceError, printable
from kifu.execution.executor import count_jobs
from kifu.learn import SUFFIX
from kifu.learn.net import net_file, net_hash
from kifu.learn.positions import EvalPositions, PredictPositions
from kifu.learn.predict import MovePredictor
from kifu.learn.predictors import score_moves
from kifu.planes.encoder import RATING_COLUMNS
from kifu.point import POINT_MASK, WHITE_BIT, parse_board
from kifu.progress import ProgressFactory, silent
from kifu.records.meta import Rank
from kifu.records.paths import Paths, as_list
from kifu.text import Report, counted

NAMES = ("black", "white")

COLUMNS = tuple(
    dict.fromkeys((*LOADER_COLUMNS, *CONDITION_COLUMNS, *NAMES, "black_program", "white_program", "canonical"))
)

PROPERTIES = {
    "handicap": "handicap",
    "opponent": "rank of the opponents, as rating",
    "year": "year",
    "seconds": "seconds per move",
    "moves": "moves of the player",
}
"""Properties of games by which `RankEstimate.warnings` compares them with those of the calibration, with titles."""

_MAX_PLAYERS = 20
"""Number of players that are estimated unless they are named."""

_MAX_EDGE = 0.25
"""Probability of the lowest or highest calibrated rank from which on the player may be outside of the range."""

CALIBRATION_SUFFIX = ".ranks.json"
"""Suffix of the calibration beside a net's file."""

CONFIDENCE = 0.95
"""Probability of the intervals."""

_MAX_RANKS = 49

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
_Row = Annotated[tuple[Annotated[float, Field(allow_inf_nan=False)], ...], Field(strict=False, max_length=_MAX_RANKS)]
_Range = Annotated[tuple[float, float], Field(strict=False)]


class RankErrors(BaseModel):
    """Errors of the estimates from a number of games, measured on players that the calibration was not fitted on.

    Each rank counts alike in `error`, `exact`, `within_one`, `coverage`, `expected_coverage` and `width`.
    """

    model_config = STRICT

    games: int
    """Number of games of each sample."""
    samples: int
    """Number of samples; a player with many games gives several without a common game."""
    players: int
    error: float
    """Mean absolute difference between the median estimate and the recorded rank, in ranks."""
    exact: float
    """Share of estimates that equal the recorded rank."""
    within_one: float
    """Share of estimates that differ from it by at most one rank."""
    coverage: float
    """Share of 95 % intervals that contain the recorded rank."""
    expected_coverage: float
    """Mean probability of the ranks in the intervals; it exceeds 95 % because ranks are whole numbers."""
    width: float
    """Mean number of ranks in an interval."""
    confusion: Annotated[tuple[Annotated[tuple[int, ...], Field(strict=False)], ...], Field(strict=False)]
    """Number of samples by recorded rank (rows) and median estimate (columns)."""


class RankCalibration(BaseModel):
    """The parameters that turn likelihoods of moves under one net into probabilities of ranks.

    Players of rank y play moves that look like those of rank s with a probability proportional to
    exp(-((s - centres[y]) / spread)^2 / 2), and the likelihood of their moves is that of the net for rank s to the
    power 1 / temperature.
    """

    model_config = STRICT

    version: Literal[1] = 1
    """Version of the file layout."""
    kifu: Line = Field(default_factory=lambda: version("kifu"))
    """Version of kifu that wrote the file."""
    net: Line
    """Name of the net."""
    net_hash: Line
    """BLAKE3 of the net's file."""
    board: BoardSize
    """Board size of the games."""
    ratings: Annotated[tuple[Annotated[int, Field(ge=1, le=49)], ...], Field(strict=False, min_length=2, max_length=49)]
    """[R] the calibrated ranks as ratings (`Rank.rating`), consecutive."""
    temperature: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    """Number of moves that carry as much information as one independent move."""
    spread: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    """Standard deviation between players of one rank, in ranks of the net."""
    centres: _Row
    """[R] the rank of the net that players of each rank resemble most; ascending."""
    ranges: dict[Line, _Range] = {}
    """1st and 99th percentile of properties of the games of the calibration (`kifu.learn.rank.PROPERTIES`)."""
    players: int = 0
    """Number of players on which it was fitted."""
    games: int = 0
    """Number of their games; one of two such players counts twice."""
    measured: Annotated[tuple[RankErrors, ...], Field(strict=False)] = ()
    """Errors on other players."""

    @model_validator(mode="after")
    def _require_order(self) -> RankCalibration:
        if any(after != before + 1 for before, after in zip(self.ratings, self.ratings[1:])):
            raise ValueError("ratings must be consecutive")
        if len(self.centres) != len(self.ratings) or np.any(np.diff(self.centres) <= 0):
            raise ValueError("centres must ascend, one for each rating")
        return self

    def __repr__(self) -> str:
        low, high = rank_name(self.ratings[0]), rank_name(self.ratings[-1])
        return f"<RankCalibration of {self.net}: {low} to {high} on {self.board}, {self.players:,} players>"

    def posterior(self, curves: Floats) -> Floats:
        """Return [S, R] probabilities of equally frequent ranks, given log-likelihoods of S samples in nats."""
        temperature, spread, centres = (
            torch.tensor(value, dtype=torch.float64) for value in (self.temperature, self.spread, self.centres)
        )
        posterior: Floats = (
            log_posterior(torch.from_numpy(curves), self.ratings, temperature, spread, centres).exp().numpy()
        )
        return posterior


def summarize(posterior: Floats, ratings: tuple[int, ...]) -> tuple[Indices, Indices, Indices, Floats]:
    """Return [S] medians, first and last ranks of the intervals, as indices of ranks, and mean ratings.

    An interval leaves at most half of 5 % on either side.
    """
    total, tail = posterior.cumsum(1), (1 - CONFIDENCE) / 2
    median, low, high = (np.argmax(total >= bound - 1e-12, axis=1) for bound in (0.5, tail, 1 - tail))
    return median, low, high, posterior @ np.array(ratings, np.float64)


def log_posterior(
    curves: Tensor, ratings: tuple[int, ...], temperature: Tensor, spread: Tensor, centres: Tensor
) -> Tensor:
    """Return the logarithms of `RankCalibration.posterior`."""
    resembled = torch.tensor(ratings, dtype=torch.float64)
    kernel = (-((resembled - centres[:, None]) / spread).square() / 2).log_softmax(1)
    likelihood = ((curves / temperature)[:, None] + kernel).logsumexp(2)
    return likelihood.log_softmax(1)


def rank_name(rating: int) -> str:
    """Return a rank such as 3d for its rating."""
    return str(Rank.from_rating(rating))


def open_calibration(path: str | os.PathLike[str] | None, net: str | os.PathLike[str] | None) -> RankCalibration:
    """Open a calibration file.

    Args:
        path: The file; None for the one beside the net.

    Raises:
        FormatError: The file is not a calibration, or is that of another net.
    """
    if path is None:
        file = net_file(net)
        path = file.with_name(file.name.removesuffix(SUFFIX) + CALIBRATION_SUFFIX)
    path = Path(path)
    if not path.exists():
        raise FormatError(
            f"there is no calibration {path}; no packaged net has one, as their moves depend on ranks too little: take"
            " a human-style net of KataGo, and calibrate it as docs/rank.md shows"
        )
    calibration = read_model(RankCalibration, path, "a calibration of ranks", 1 << 20)
    if calibration.net_hash != net_hash(net):
        raise FormatError(f"{path} is the calibration of another net, {calibration.net}")
    return calibration


@dataclass(frozen=True, slots=True)
class PlayerGames:
    """S pairs of a game and one of its players.

    Attributes:
        rows: [S] rows of the catalogue; a game occurs twice if both players are among them.
        white: [S] bool, the player's colour.
        positions: The positions before the player's moves, without passes; `game` is the pair.
    """

    rows: pa.RecordBatch
    white: npt.NDArray[np.bool_]
    player: Indices
    positions: EvalPositions

    def __len__(self) -> int:
        return len(self.white)

    @classmethod
    def select(cls, rows: pa.RecordBatch, players: Indices, game: Indices, white: Indices) -> PlayerGames:
        """Return pairs, without those whose player has no move.

        Args:
            rows: [G] rows of the catalogue with `COLUMNS`, on boards of one size.
            players: [G, 2] numbers of Black and White.
            game: [P] row of each pair.
            white: [P] 1 for White, 0 for Black.

        Raises:
            SourceError: No player has a move.
        """
        width, height = (int(to_numpy(rows[name][:1])[0]) for name in ("width", "height"))
        rows_of_pairs = rows.take(pa.array(game))
        games = game_arrays(rows_of_pairs)
        pair = np.repeat(np.arange(len(game)), np.diff(games.move_offset))
        selected = np.arange(len(pair)) - games.move_offset[pair] < to_numpy(rows_of_pairs["n_legal"])[pair]
        selected &= ((games.moves & WHITE_BIT) != 0) == white[pair]
        selected &= (games.moves & POINT_MASK) < width * height
        has_moves = np.bincount(pair[selected], minlength=len(game)) > 0
        if not has_moves.any():
            raise SourceError("the players have no moves but passes")
        if not has_moves.all():
            return cls.select(rows, players, game[has_moves], white[has_moves])
        index, conditions = np.flatnonzero(selected), Conditions.from_rows(rows_of_pairs)
        positions = EvalPositions(rows_of_pairs, games, width, height, index, pair[index], conditions)
        return cls(rows_of_pairs, white == 1, players[game, white], positions)

    @property
    def moves(self) -> Indices:
        """[S] number of moves of the player."""
        return np.bincount(self.positions.game, minlength=len(self)).astype(np.int64)

    def properties(self) -> dict[str, Floats]:
        """Return the `PROPERTIES` of the pairs, [S], NaN where unknown."""
        known, pair = self.positions.conditions, np.arange(len(self))
        values = (known.handicap, known.rating[pair, 1 - self.white], known.year, known.seconds, self.moves)
        return dict(zip(PROPERTIES, (each.astype(np.float64) for each in values), strict=True))

    def as_rank(self, rating: float) -> EvalPositions:
        """Return the positions with a rank of the player instead of the recorded one, also in `rows`."""
        conditions = self.positions.conditions.with_ranks(self.white, rating)
        rows = self.rows
        for k, name in enumerate(RATING_COLUMNS):
            column = pa.array(conditions.rating[:, k], pa.float32(), from_pandas=True)
            rows = rows.set_column(rows.schema.get_field_index(name), name, column)
        return replace(self.positions, rows=rows, conditions=conditions)


@dataclass(frozen=True, slots=True)
class RankProbability:
    """One rank of an estimate.

    Attributes:
        log_likelihood: Log-likelihood of the moves under the net for this rank, minus that of the likeliest rank; nats.
        probability: Probability of the rank if all calibrated ranks were equally frequent.
    """

    rank: str
    rating: int
    log_likelihood: float
    probability: float


@dataclass(frozen=True)
class RankEstimate(Report):
    """The estimated rank of a player.

    Attributes:
        low: First rank of the interval, which holds the player's rank with a probability of at least 95 %.
    """

    player: str
    games: int
    moves: int
    rank: str
    low: str
    high: str
    mean: float
    ranks: tuple[RankProbability, ...]
    warnings: tuple[str, ...]

    def __repr__(self) -> str:
        return printable(f"<RankEstimate of {self.player}: {self.rank}, {self.low} to {self.high}>")


def check_rank_dependence(predictor: MovePredictor, ratings: Sequence[int], board: tuple[int, int]) -> None:
    """Raise RecipeError or GameError unless the predictions for an empty board of this size depend on the rank."""
    predictor.check_board(*board)
    unknown = Conditions.unknown(2)
    rating = np.array([[ratings[0], np.nan], [ratings[-1], np.nan]], np.float32)
    empty = np.empty(0, np.uint16)
    positions = PredictPositions.from_moves([empty, empty], *board, conditions=replace(unknown, rating=rating))
    low, high = predictor.predict(positions).policy
    if np.allclose(low, high, rtol=1e-4, atol=0):  # equal inputs give results that differ by rounding
        raise RecipeError(f'net {predictor.name} does not depend on ranks; its recipe needs inputs = ["ranks", ...]')


def rank_curves(
    predictor: MovePredictor, games: PlayerGames, ratings: Sequence[int], jobs: int | None, progress: ProgressFactory
) -> Floats:
    """Return the log-likelihood of the players' moves for each rank, [S, R], in nats.

    Raises:
        FormatError: The net returns NaN, or a game differs from its row.
    """
    curves = np.empty((len(games), len(ratings)))
    with progress("rating", len(games.positions) * len(ratings), "positions") as bar:
        for k, rating in enumerate(ratings):
            positions = games.as_rank(rating)
            scores = score_moves(predictor, positions, legal=False, jobs=count_jobs(jobs), advance=bar.advance)
            curves[:, k] = -np.bincount(positions.game, scores.nll, len(games))
    return curves


def estimate_ranks(
    predictor: MovePredictor,
    sources: Paths,
    calibration: RankCalibration,
    players: Sequence[str] = (),
    *,
    jobs: int | None = None,
    progress: ProgressFactory = silent,
) -> list[RankEstimate]:
    """Estimate the ranks of players from their moves.

    Args:
        sources: Catalogues, whose kept games are used, and archives, folders and records, which are cleaned by the
            rules "legal". Games on other boards than that of the calibration are left out.
        players: Names, exact, or in any case if that is unambiguous; empty for all players of a few games but programs.
        jobs: Threads that encode planes; None for one per core.

    Returns:
        The estimates in the order of `players`, or with the most games first.

    Raises:
        RecipeError: A player is not found or ambiguous, there are too many players, or the net ignores ranks.
        SourceError: There are no such games.
        FormatError: A catalogue is damaged, or the net returns NaN.
    """
    board = parse_board(calibration.board)
    check_rank_dependence(predictor, calibration.ratings, board)
    rows = read_games(as_list(sources), board, False, jobs, COLUMNS)
    names = _find_players(rows, players)
    known = np.stack([_index_in(rows[name], names) for name in NAMES], 1)
    known[known[:, 0] == known[:, 1]] = -1  # no player, or one name on both sides
    game, white = np.nonzero(known >= 0)
    if not len(game):
        raise SourceError(f"{names[0]} has no game against another name")
    games = PlayerGames.select(rows, known, game, white)
    curves = rank_curves(predictor, games, calibration.ratings, jobs, progress)
    seen = np.isin(to_numpy(games.rows["canonical"]), predictor.games)
    return [
        _estimate(names[k], games, curves, seen, np.flatnonzero(games.player == k), calibration)
        for k in np.unique(games.player)
    ]


def _index_in(column: pa.Array, names: Sequence[str]) -> Indices:
    """Return the index of each name, -1 for others: [G] int64."""
    index = pc.fill_null(pc.index_in(column, pa.array(names, column.type)), -1)
    return to_numpy(index).astype(np.int64)


def _find_players(rows: pa.RecordBatch, players: Sequence[str]) -> list[str]:
    """Return the names of the players, or of all people, those with the most games first."""
    people = rows if players else {name: rows[name].filter(pc.invert(rows[f"{name}_program"])) for name in NAMES}
    counts = pc.value_counts(pa.chunked_array([people[name] for name in NAMES]).drop_null())
    games = dict(zip(counts.field("values").to_pylist(), counts.field("counts").to_pylist()))
    games.pop("", None)
    if not games:
        raise RecipeError("the games have no names of people; name programs with --player")
    if players:
        return list(dict.fromkeys(_find_player(list(games), player) for player in players))
    names = sorted(games, key=lambda name: (-games[name], name))
    if len(names) > _MAX_PLAYERS:
        most = ", ".join(f"{name} ({games[name]:,})" for name in names[:_MAX_PLAYERS])
        raise RecipeError(f"the games have {len(names):,} players; name some with --player. Most games: {most}")
    return names


def _find_player(names: list[str], player: str) -> str:
    if player in names:
        return player
    matches = [name for name in names if name.casefold() == player.casefold()]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise RecipeError(f"player {player!r} is ambiguous: {', '.join(matches)}")
    near = difflib.get_close_matches(player, names, 5, 0.5)
    raise RecipeError(f"there is no player {player!r}" + (f"; similar names: {', '.join(near)}" if near else ""))


def _estimate(
    name: str, games: PlayerGames, curves: Floats, seen: npt.NDArray[np.bool_], which: Indices,
    calibration: RankCalibration,
) -> RankEstimate:  # fmt: skip
    """Return the estimate of the player of the pairs `which`, given [S, R] log-likelihoods and [S] games trained on."""
    curve, ranks = curves[which].sum(0), [rank_name(rating) for rating in calibration.ratings]
    posterior = calibration.posterior(curve[None])
    (median, low, high, mean), probability = summarize(posterior, calibration.ratings), posterior[0].tolist()
    relative = (curve - curve.max()).tolist()
    values = {name: of_games[which] for name, of_games in games.properties().items()}
    medians = {name: float(np.nanmedian(some)) for name, some in values.items() if not np.isnan(some).all()}
    medians["moves"] = float(games.moves[which].sum())
    warnings = [*_edge_warnings(probability, ranks), *_range_warnings(medians, calibration)]
    if low[0] == 0 and high[0] == len(ranks) - 1:
        warnings.append("the interval is the whole range of the calibration: the moves do not reveal the rank")
    programs = np.where(games.white, *(to_numpy(games.rows[f"{side}_program"]) for side in ("white", "black")))
    if programs[which].any():
        warnings.append("the player is a program, the games of the calibration are those of people")
    if seen[which].any():
        warnings.append(f"the net was trained on or validated with {seen[which].sum():,} of {len(which):,} games")
    return RankEstimate(
        name,
        len(which),
        int(games.moves[which].sum()),
        ranks[median[0]],
        ranks[low[0]],
        ranks[high[0]],
        float(mean[0]),
        tuple(map(RankProbability, ranks, calibration.ratings, relative, probability)),
        tuple(warnings),
    )


def _edge_warnings(probability: Sequence[float], ranks: Sequence[str]) -> list[str]:
    """Return a warning for each end of the range that is likely."""
    ends = ((0, "weaker", "lowest"), (-1, "stronger", "highest"))
    return [
        f"the player may be {word} than {ranks[end]}, the {which} rank of the calibration"
        for end, word, which in ends
        if probability[end] >= _MAX_EDGE
    ]


def _range_warnings(medians: dict[str, float], calibration: RankCalibration) -> list[str]:
    """Return a warning for each property of the games that is unusual for the calibration."""
    warnings = []
    for name, (low, high) in calibration.ranges.items():
        value = medians.get(name)
        if name == "moves" and value is not None and value < low:
            warnings.append(f"too few moves: {value:.0f}, the games of the calibration have {low:.0f} to {high:.0f}")
        elif name != "moves" and value is not None and not low <= value <= high:
            title = PROPERTIES.get(name, name)
            warnings.append(f"{title}: median {value:g}, the games of the calibration have {low:g} to {high:g}")
    return warnings


def describe_estimates(estimates: Sequence[RankEstimate]) -> str:
    """Return estimates as lines of text, with a chart of the distribution of each."""
    return "\n\n".join("\n".join(_lines(each)) for each in estimates)


def _lines(estimate: RankEstimate) -> list[str]:
    games = f"{counted(estimate.games, 'game')}, {estimate.moves:,} moves"
    lines = [f"{estimate.player}: {estimate.rank}, 95 % interval {estimate.low} to {estimate.high} ({games})"]
    lines += [f"  {'rank':>4}  {'log-likelihood':>14}  probability"]
    lines += [
        f"  {each.rank:>4}  {each.log_likelihood:14.1f}  {each.probability:10.1%}  {'#' * round(40 * each.probability)}"
        for each in estimate.ranks
    ]
    lines += [f"  mean rating {estimate.mean:.1f}", *(f"  warning: {each}" for each in estimate.warnings)]
    return [line.rstrip() for line in lines]
