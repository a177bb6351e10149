"""Estimates of players' ranks from their moves.

A net with the input "ranks" evaluates the positions before a player's moves once for each rank that the player might
have. The rank that is recorded for the player is replaced, so that it has no influence; that of the opponent is kept.
`kifu.learn.rank_calibration` turns the likelihoods into probabilities of ranks. See docs/rank.md.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kifu.config import parse_board
from kifu.corpus.schema import game_arrays, to_numpy
from kifu.datasets.global_inputs import CONDITION_COLUMNS, Conditions
from kifu.datasets.mmap_games import COLUMNS as LOADER_COLUMNS
from kifu.datasets.mmap_games import read_games
from kifu.errors import RecipeError, SourceError, printable
from kifu.execution.executor import count_jobs
from kifu.learn.positions import EvalPositions, PredictPositions
from kifu.learn.predict import MovePredictor
from kifu.learn.predictors import score_moves
from kifu.learn.rank_calibration import RankCalibration, rank_name, summarize
from kifu.planes.encoder import RATING_COLUMNS
from kifu.point import POINT_MASK, WHITE_BIT
from kifu.progress import ProgressFactory, silent
from kifu.records.paths import Paths, as_list
from kifu.report import Report

NAMES = ("black", "white")

COLUMNS = tuple(dict.fromkeys((*LOADER_COLUMNS, *CONDITION_COLUMNS, *NAMES, "canonical")))

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

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class PlayerGames:
    """S pairs of a game and one of its players.

    Attributes:
        rows: [S] rows of the catalogue; a game occurs twice if both players are wanted.
        white: [S] bool, the player's colour.
        player: [S] int64, number of the player.
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
        chosen = rows.take(pa.array(game))
        games = game_arrays(chosen)
        pair = np.repeat(np.arange(len(game)), np.diff(games.move_offset))
        wanted = np.arange(len(pair)) - games.move_offset[pair] < to_numpy(chosen["n_legal"])[pair]
        wanted &= ((games.moves & WHITE_BIT) != 0) == white[pair]
        wanted &= (games.moves & POINT_MASK) < width * height
        has_moves = np.bincount(pair[wanted], minlength=len(game)) > 0
        if not has_moves.any():
            raise SourceError("the players have no moves but passes")
        if not has_moves.all():
            return cls.select(rows, players, game[has_moves], white[has_moves])
        index = np.flatnonzero(wanted)
        positions = EvalPositions(chosen, games, width, height, index, pair[index], Conditions.from_rows(chosen))
        return cls(chosen, white == 1, players[game, white], positions)

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
        rank: The rank, such as "3d".
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
        warnings: Reasons not to trust the estimate.
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

    Args:
        games: S pairs of a game and a player.
        ratings: [R] ranks.
        jobs: Threads that encode planes; None for one per core.
        progress: Reports how far the evaluation is.

    Raises:
        FormatError: The net returns NaN, or a game differs from its row.
    """
    curves = np.empty((len(games), len(ratings)))
    with progress("rating", len(games.positions) * len(ratings), "positions") as bar:
        for k, rating in enumerate(ratings):
            positions = games.as_rank(rating)
            scores = score_moves(predictor, positions, legal=False, jobs=count_jobs(jobs), bar=bar)
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
        predictor: The net or engine of the calibration.
        sources: Catalogues, whose kept games are used, and archives, folders and records, which are cleaned by the
            rules "legal". Games on other boards than that of the calibration are left out.
        players: Names, exact, or in any case if that is unambiguous; empty for all players of a few games.
        jobs: Threads that encode planes; None for one per core.
        progress: Reports how far the evaluation is.

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
    known[known[:, 0] == known[:, 1]] = -1  # strangers, or one name on both sides, whose opponent's rank is its own
    game, white = np.nonzero(known >= 0)
    if not len(game):
        raise SourceError(f"{names[0]} has no game against another name")
    games = PlayerGames.select(rows, known, game, white)
    curves = rank_curves(predictor, games, calibration.ratings, jobs, progress)
    seen = np.isin(to_numpy(games.rows["canonical"]), predictor.games)
    found = np.unique(games.player)
    return [_estimate(names[k], games, curves, seen, np.flatnonzero(games.player == k), calibration) for k in found]


def _index_in(column: pa.Array, names: Sequence[str]) -> Indices:
    """Return the index of each name, -1 for others: [G] int64."""
    index = pc.fill_null(pc.index_in(column, pa.array(names, column.type)), -1)
    return to_numpy(index).astype(np.int64)


def _find_players(rows: pa.RecordBatch, players: Sequence[str]) -> list[str]:
    """Return the names of the players, or of all players, those with the most games first."""
    counts = pc.value_counts(pa.chunked_array([rows[name] for name in NAMES]).drop_null())
    games = dict(zip(counts.field("values").to_pylist(), counts.field("counts").to_pylist()))
    games.pop("", None)
    if not games:
        raise RecipeError("the games have no names of players")
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
    """Return the estimate of the player of the pairs `which`.

    Args:
        curves: [S, R] log-likelihoods.
        seen: [S] bool, games that the net was trained on.
    """
    curve, ranks = curves[which].sum(0), [rank_name(rating) for rating in calibration.ratings]
    posterior = calibration.posterior(curve[None])
    summary, probability = summarize(posterior, calibration.ratings), posterior[0].tolist()
    relative = (curve - curve.max()).tolist()
    medians = {key: float(np.nanmedian(each[which])) for key, each in games.properties().items() if _known(each[which])}
    medians["moves"] = float(games.moves[which].sum())
    warnings = [*_edge_warnings(probability, ranks), *_range_warnings(medians, calibration)]
    if summary.low[0] == 0 and summary.high[0] == len(ranks) - 1:
        warnings.append("the interval is the whole range of the calibration: the moves do not reveal the rank")
    if seen[which].any():
        warnings.append(f"the net was trained on or validated with {seen[which].sum():,} of {len(which):,} games")
    return RankEstimate(
        name,
        len(which),
        int(games.moves[which].sum()),
        ranks[summary.median[0]],
        ranks[summary.low[0]],
        ranks[summary.high[0]],
        float(summary.mean[0]),
        tuple(map(RankProbability, ranks, calibration.ratings, relative, probability)),
        tuple(warnings),
    )


def _known(values: Floats) -> bool:
    return not np.isnan(values).all()


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
    games = f"{estimate.games:,} game{'s' * (estimate.games != 1)}, {estimate.moves:,} moves"
    lines = [f"{estimate.player}: {estimate.rank}, 95 % interval {estimate.low} to {estimate.high} ({games})"]
    lines += [f"  {'rank':>4}  {'log-likelihood':>14}  probability"]
    lines += [
        f"  {each.rank:>4}  {each.log_likelihood:14.1f}  {each.probability:10.1%}  {'#' * round(40 * each.probability)}"
        for each in estimate.ranks
    ]
    lines += [f"  mean rating {estimate.mean:.1f}", *(f"  warning: {each}" for each in estimate.warnings)]
    return [line.rstrip() for line in lines]
