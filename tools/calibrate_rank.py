"""Calibrate the rank estimates of a net on players whose ranks are recorded; see docs/rank.md.

    python tools/calibrate_rank.py NET SOURCE... -o NET.ranks.json --ranks 10k-9d

The calibration is fitted on one half of the players, chosen by a hash of their names, and measured on the other half.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Tensor

from kifu.corpus.hashes import mix_words, text_hashes
from kifu.corpus.schema import to_numpy
from kifu.datasets.mmap_games import read_games
from kifu.errors import RecipeError, SourceError
from kifu.io import write_output
from kifu.learn.net import net_hash
from kifu.learn.predict import MovePredictor
from kifu.learn.predictors import open_predictor
from kifu.learn.rank import (
    COLUMNS,
    NAMES,
    Floats,
    Indices,
    PlayerGames,
    RankCalibration,
    RankErrors,
    check_rank_dependence,
    log_posterior,
    rank_curves,
    rank_name,
    summarize,
)
from kifu.planes.encoder import ratings_of
from kifu.point import parse_board
from kifu.progress import ProgressFactory, silent
from kifu.records.meta import Rank
from kifu.records.paths import Paths, as_list
from kifu.text import counted

_MIN_SPREAD = 0.2
_STEP_PENALTY = 5.0
"""Weight of the squared differences of the centres' steps from one rank, as of one sample; for ranks of few players."""

SAMPLE_GAMES = (1, 3, 10, 30)
"""Numbers of games of the samples that the calibration is fitted to and measured on."""

_SAMPLES = 4
"""Maximum number of samples of one size of a player at one rank."""

_CALIBRATION_COLUMNS = ("black_confirmed", "white_confirmed", "black_program", "white_program", "id")

_MIN_PLAYERS = 5
"""Smallest number of players of each calibrated rank, in either half."""

Bools = npt.NDArray[np.bool_]


def calibrate(
    predictor: MovePredictor,
    net: str | os.PathLike[str] | None,
    sources: Paths,
    ratings: Sequence[int],
    *,
    board: str = "19x19",
    per_rank: int = 600,
    jobs: int | None = None,
    progress: ProgressFactory = silent,
) -> RankCalibration:
    """Fit a calibration on one half of the players, chosen by a hash of their names, and measure it on the other half.

    Games that the net was trained on or validated with, doubtful ranks, programs and players without a name are left
    out. A player whose rank changes counts as several.

    Args:
        net: Its file, directory or command line, whose hash is stored.
        ratings: Consecutive ratings. The longest run of them with enough players is calibrated.
        per_rank: Maximum number of games of each rank.
        jobs: Threads that encode planes; None for one per core.
        progress: Reports how far the evaluation is.

    Raises:
        RecipeError: The net does not depend on ranks or does not support the board.
        SourceError: There are not enough games, or not enough players of two neighbouring ranks.
        FormatError: A catalogue is damaged, or the net returns NaN.
    """
    size = parse_board(board)
    check_rank_dependence(predictor, ratings, size)
    rows = read_games(as_list(sources), size, False, jobs, tuple(dict.fromkeys((*COLUMNS, *_CALIBRATION_COLUMNS))))
    players = np.stack([_player_hashes(rows[name]) for name in NAMES], 1)
    rating = _usable_ratings(rows, players, predictor.games)
    ratings = _ranks_with_players(rating, players, ratings)
    games = PlayerGames.select(rows, players.view(np.int64), *_choose_pairs(rows, rating, players, ratings, per_rank))
    curves = rank_curves(predictor, games, ratings, jobs, progress)
    recorded = games.positions.conditions.rating[np.arange(len(games)), games.white.astype(np.int64)]
    truth = recorded.astype(np.int64) - ratings[0]
    test = _is_test(games.player.view(np.uint64))
    samples = {count: _draw_samples(games.player, truth, ~test, count) for count in SAMPLE_GAMES}
    joined = [(_sum_curves(curves, group), truth[first]) for group, first in samples.values()]
    fitted = fit_calibration(np.concatenate([c for c, _ in joined]), ratings, np.concatenate([t for _, t in joined]))
    calibration = RankCalibration(
        net=predictor.name,
        net_hash=net_hash(net),
        board=board,
        ratings=ratings,
        temperature=fitted[0],
        spread=fitted[1],
        centres=fitted[2],
        ranges=_ranges(games, ~test),
        players=len(np.unique(games.player[~test])),
        games=int(np.count_nonzero(~test)),
    )
    return calibration.model_copy(update={"measured": tuple(_measure(calibration, games.player, truth, curves, test))})


def _measure(
    calibration: RankCalibration, player: Indices, truth: Indices, curves: Floats, test: Bools
) -> Iterator[RankErrors]:
    """Yield the errors on the test players for each number of games of which there are samples."""
    for count in SAMPLE_GAMES:
        group, first = _draw_samples(player, truth, test, count)
        if len(first):
            players = len(np.unique(player[first]))
            yield measure_errors(calibration, _sum_curves(curves, group), truth[first], count, players)


def _player_hashes(names: pa.Array) -> npt.NDArray[np.uint64]:
    """Return a hash of each name, ignoring case; 0 for missing names."""
    texts = pc.dictionary_encode(pc.fill_null(names, ""))
    distinct = pc.utf8_lower(pc.utf8_trim_whitespace(texts.dictionary.cast(pa.string())))
    with np.errstate(over="ignore"):
        hashes = mix_words(text_hashes(distinct))
    hashes[to_numpy(pc.equal(distinct, ""))] = 0
    result: npt.NDArray[np.uint64] = hashes[to_numpy(texts.indices)]
    return result


def _is_test(players: npt.NDArray[np.uint64]) -> Bools:
    """Return which players the calibration is measured on: about one half."""
    result: Bools = (players & np.uint64(1)) == 1
    return result


def _usable_ratings(
    rows: pa.RecordBatch, players: npt.NDArray[np.uint64], seen: npt.NDArray[np.uint64]
) -> npt.NDArray[np.float32]:
    """Return the ratings of Black and White [G, 2], NaN for players and games that `calibrate` leaves out."""
    doubtful = np.stack([to_numpy(pc.equal(rows[f"{name}_confirmed"], False).fill_null(False)) for name in NAMES], 1)
    programs = np.stack([to_numpy(rows[f"{name}_program"]) for name in NAMES], 1)
    known = np.isin(to_numpy(rows["canonical"]), seen)[:, None] | (players[:, :1] == players[:, 1:])
    return np.where(doubtful | programs | (players == 0) | known, np.float32(np.nan), ratings_of(rows))


def _ranks_with_players(
    rating: npt.NDArray[np.float32], players: npt.NDArray[np.uint64], ratings: Sequence[int]
) -> tuple[int, ...]:
    """Return the longest run of the ratings with enough players in either half. Raises SourceError."""
    runs: list[list[int]] = [[]]
    for value in ratings:
        found = np.unique(players[rating == value])
        if min(np.bincount(_is_test(found), minlength=2)) >= _MIN_PLAYERS:
            runs[-1].append(value)
        else:
            runs.append([])
    longest = max(runs, key=len)
    if len(longest) < 2:
        wanted = f"{rank_name(ratings[0])} to {rank_name(ratings[-1])}"
        raise SourceError(
            f"the calibration requires at least {2 * _MIN_PLAYERS} players of each of two neighbouring ranks from"
            f" {wanted}, whose games the net has not seen"
        )
    return tuple(longest)


def _choose_pairs(
    rows: pa.RecordBatch, rating: npt.NDArray[np.float32], players: npt.NDArray[np.uint64], ratings: tuple[int, ...],
    per_rank: int,
) -> tuple[Indices, Indices]:  # fmt: skip
    """Return games and colours: of each rank random players, of each player random games, sorted by both.

    Args:
        rows: [G] games.
        rating: [G, 2] ratings, NaN where not usable.
        players: [G, 2] hashes of the players.
    """
    game, white = np.nonzero((rating >= ratings[0]) & (rating <= ratings[-1]))
    rank, player = rating[game, white], players[game, white]
    with np.errstate(over="ignore"):
        noise = mix_words(to_numpy(rows["id"])[game])
    order = np.lexsort((noise, player, rank))
    most = min(max(SAMPLE_GAMES), max(per_rank // _MIN_PLAYERS, 1))
    order = order[_place_in_run(rank[order], player[order])[0] < most]
    order = order[_place_in_run(rank[order])[0] < per_rank]
    return game[order], white[order]


def _place_in_run(*keys: npt.NDArray[np.generic]) -> tuple[Indices, Indices]:
    """Return, for each of N rows, its place in the run of consecutive rows with equal keys, and the run's length."""
    rows = len(keys[0])
    is_first = np.ones(rows, np.bool_)
    is_first[1:] = np.any([key[1:] != key[:-1] for key in keys], axis=0)
    first = np.flatnonzero(is_first)
    length = np.diff(np.append(first, rows))
    return np.arange(rows) - np.repeat(first, length), np.repeat(length, length)


def _draw_samples(player: Indices, truth: Indices, which: Bools, games: int) -> tuple[Indices, Indices]:
    """Group pairs into samples of one player at one rank.

    Args:
        player: [S] players of the pairs, which are sorted by rank and player.
        truth: [S] index of the recorded rank.
        which: [S] pairs to use.

    Returns:
        [S] the sample of each pair, -1 for none, and [K] the first pair of each sample.
    """
    place, length = _place_in_run(truth, player)
    used = which & (place // games < np.minimum(length // games, _SAMPLES))
    first = np.flatnonzero(used & (place % games == 0))
    sample = np.cumsum(place % games == 0) - 1
    numbers = np.full(len(place), -1)
    numbers[used] = np.unique(sample[used], return_inverse=True)[1]
    return numbers, first


def _sum_curves(curves: Floats, sample: Indices) -> Floats:
    """Return the sums of the curves [S, R] of each sample: [K, R]."""
    used = sample >= 0
    return np.stack([np.bincount(sample[used], column) for column in curves[used].T], 1)


def _ranges(games: PlayerGames, which: Bools) -> dict[str, tuple[float, float]]:
    """Return the 1st and 99th percentile of the properties of some pairs, without those that are always unknown."""
    ranges = {}
    for name, values in games.properties().items():
        known = values[which & ~np.isnan(values)]
        if len(known):
            low, high = np.percentile(known, (1, 99)).tolist()
            ranges[name] = (low, high)
    return ranges


def fit_calibration(curves: Floats, ratings: tuple[int, ...], truth: Indices) -> tuple[float, float, tuple[float, ...]]:
    """Return temperature, spread and centres under which the recorded ranks are most probable.

    Each rank has the same weight, so that the probabilities hold for equally frequent ranks.

    Args:
        curves: [S, R] log-likelihoods of samples.
        ratings: [R] ratings.
        truth: [S] index of the recorded rank.
    """
    rank, likelihoods = torch.from_numpy(truth), torch.from_numpy(curves)
    count = torch.bincount(rank, minlength=len(ratings))
    weight = (1 / count[rank]) / (count > 0).sum()
    start = [1.0, 0.0, float(ratings[0]), *[float(np.log(np.e - 1))] * (len(ratings) - 1)]  # steps of one rank
    free = torch.tensor(start, dtype=torch.float64, requires_grad=True)

    def parameters() -> tuple[Tensor, Tensor, Tensor]:
        steps = torch.nn.functional.softplus(free[3:])
        return free[0].exp(), _MIN_SPREAD + free[1].exp(), free[2] + torch.cat([steps.new_zeros(1), steps.cumsum(0)])

    def loss() -> Tensor:
        optimiser.zero_grad()
        temperature, spread, centres = parameters()
        found = log_posterior(likelihoods, ratings, temperature, spread, centres)
        value: Tensor = -(weight * found.gather(1, rank[:, None])[:, 0]).sum()
        value = value + _STEP_PENALTY / len(rank) * (centres.diff() - 1).square().sum()
        value.backward()
        return value

    optimiser = torch.optim.LBFGS([free], max_iter=300, line_search_fn="strong_wolfe")
    optimiser.step(loss)
    with torch.no_grad():
        temperature, spread, centres = parameters()
    return float(temperature), float(spread), tuple(centres.tolist())


def measure_errors(
    calibration: RankCalibration, curves: Floats, truth: Indices, games: int, players: int
) -> RankErrors:
    """Return the errors of the estimates.

    Args:
        curves: [S, R] log-likelihoods of samples of that many games.
        truth: [S] index of the recorded rank.
        games: Number of games of each sample.
        players: Number of players of the samples.
    """
    posterior, ranks = calibration.posterior(curves), len(calibration.ratings)
    median, low, high, _ = summarize(posterior, calibration.ratings)
    count = np.bincount(truth, minlength=ranks)
    weight = 1 / count[truth] / np.count_nonzero(count)
    total = np.pad(posterior.cumsum(1), ((0, 0), (1, 0)))
    row = np.arange(len(truth))
    away = abs(median - truth)
    confusion = np.bincount(truth * ranks + median, minlength=ranks * ranks).reshape(ranks, ranks)
    return RankErrors(
        games=games,
        samples=len(truth),
        players=players,
        error=float(weight @ away),
        exact=float(weight @ (away == 0)),
        within_one=float(weight @ (away <= 1)),
        coverage=float(weight @ ((low <= truth) & (truth <= high))),
        expected_coverage=float(weight @ (total[row, high + 1] - total[row, low])),
        width=float(weight @ (high - low + 1)),
        confusion=tuple(tuple(each) for each in confusion.tolist()),
    )


def parse_ranks(text: str) -> tuple[int, ...]:
    """Return the consecutive ratings of ranks such as "10k-9d". Raises RecipeError."""
    ends = [Rank.parse(end) for end in text.split("-")]
    if len(ends) != 2 or None in ends:
        raise RecipeError(f"ranks must be like 10k-9d, got {text!r}")
    low, high = (end.rating for end in ends if end)
    if low >= high:
        raise RecipeError(f"ranks must ascend, such as 10k-9d, got {text!r}")
    return tuple(range(low, high + 1))


def describe_calibration(calibration: RankCalibration) -> str:
    """Return the parameters and measured errors of a calibration as lines of text."""
    ranks = [rank_name(rating) for rating in calibration.ratings]
    lines = [
        f"{calibration.net}: {ranks[0]} to {ranks[-1]}, fitted on {calibration.players:,} players and"
        f" {calibration.games:,} games",
        f"temperature {calibration.temperature:.2f}, spread {calibration.spread:.2f}, centres "
        + ", ".join(f"{centre:.1f}" for centre in calibration.centres),
        "On other players, each rank weighted alike:",
        "games  samples  players  error  exact  within 1  in the 95 % interval (expected)  ranks in it",
    ]
    lines += [
        f"{each.games:5}  {each.samples:7,}  {each.players:7,}  {each.error:5.2f}  {each.exact:5.0%}"
        f"  {each.within_one:8.0%}  {each.coverage:22.1%} ({each.expected_coverage:.1%})  {each.width:11.1f}"
        for each in calibration.measured
    ]
    for each in calibration.measured:
        lines += ["", f"Recorded rank (down) and estimate (across), {counted(each.games, 'game')}:"]
        lines += [" " * 5 + "".join(f"{name:>5}" for name in ranks)]
        lines += [f"{name:>5}" + "".join(f"{n or '.':>5}" for n in row) for name, row in zip(ranks, each.confusion)]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Calibrate a net and print the errors."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("net", help="a net with the input ranks, or its run directory; or an engine")
    parser.add_argument("sources", nargs="+", help="catalogues, archives, folders and records")
    parser.add_argument(
        "-o", "--output", type=Path, required=True, help="the calibration to write, such as net.ranks.json"
    )
    parser.add_argument("--ranks", default="10k-9d", help="ranks to calibrate (default: %(default)s)")
    parser.add_argument("--per-rank", type=int, default=600, help="games of each rank (default: %(default)s)")
    parser.add_argument("--board", default="19x19", help="size of the boards (default: %(default)s)")
    parser.add_argument("--precision", choices=("float32", "bfloat16"), default="float32")
    given = parser.parse_args(arguments)
    predictor = open_predictor(given.net, precision=given.precision)
    calibration = calibrate(
        predictor, given.net, given.sources, parse_ranks(given.ranks), board=given.board, per_rank=given.per_rank
    )
    write_output(given.output, calibration.model_dump_json(indent=1).encode())
    print(describe_calibration(calibration))


if __name__ == "__main__":
    main()
