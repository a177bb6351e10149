"""Calibration of rank estimates: the model that turns likelihoods of moves into probabilities of ranks.

A net with the input "ranks" gives the likelihood of a player's moves for each rank that the player might have. These
likelihoods cannot be taken at face value: moves of a game depend on each other, players of a rank differ, and nets
confuse neighbouring ranks. `RankCalibration` corrects this with a few parameters, fitted on players whose ranks are
known; see docs/rank.md.
"""

from __future__ import annotations

import json
import os
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from blake3 import blake3
from pydantic import BaseModel, Field, ValidationError, model_validator
from torch import Tensor

from kifu.config import STRICT, BoardSize, Line
from kifu.errors import FormatError, RecipeError, first_line
from kifu.files import hash_file, read_small
from kifu.learn import SUFFIX
from kifu.learn.net import net_file
from kifu.records.meta import Rank

CALIBRATION_SUFFIX = ".ranks.json"
"""Suffix of the calibration beside a net's file."""

CONFIDENCE = 0.95
"""Probability of the intervals."""

_MAX_BYTES = 1 << 20
_MAX_RANKS = 49
_MIN_SPREAD = 0.2
_STEP_PENALTY = 5.0
"""Weight of the squared differences of the centres' steps from one rank, as of one sample; for ranks of few players."""

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
    """BLAKE3 of the net's file, or of the command line of an engine."""
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
        """Return the probabilities of the ranks, [S, R], if all ranks were equally frequent.

        Args:
            curves: [S, R] log-likelihood of the moves of S samples, in nats, for each rating.
        """
        temperature, spread, centres = (
            torch.tensor(value, dtype=torch.float64) for value in (self.temperature, self.spread, self.centres)
        )
        found = _log_posterior(torch.from_numpy(curves), self.ratings, temperature, spread, centres)
        result: Floats = found.exp().numpy()
        return result


class Summary(NamedTuple):
    """Summaries of S distributions over R ranks, as indices of ranks but for the mean.

    Attributes:
        median: [S] int64.
        low: [S] int64, first rank of the interval.
        high: [S] int64, last rank of the interval.
        mean: [S] float64, mean rating.
    """

    median: Indices
    low: Indices
    high: Indices
    mean: Floats


def summarize(posterior: Floats, ratings: tuple[int, ...]) -> Summary:
    """Return medians, means, and intervals that leave at most half of 5 % on either side."""
    total, tail = posterior.cumsum(1), (1 - CONFIDENCE) / 2
    median, low, high = (np.argmax(total >= bound - 1e-12, axis=1) for bound in (0.5, tail, 1 - tail))
    return Summary(median, low, high, posterior @ np.array(ratings, np.float64))


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
        found = _log_posterior(likelihoods, ratings, temperature, spread, centres)
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
    found = summarize(posterior, calibration.ratings)
    count = np.bincount(truth, minlength=ranks)
    weight = 1 / count[truth] / np.count_nonzero(count)
    total = np.pad(posterior.cumsum(1), ((0, 0), (1, 0)))
    row = np.arange(len(truth))
    away = abs(found.median - truth)
    confusion = np.bincount(truth * ranks + found.median, minlength=ranks * ranks).reshape(ranks, ranks)
    return RankErrors(
        games=games,
        samples=len(truth),
        players=players,
        error=float(weight @ away),
        exact=float(weight @ (away == 0)),
        within_one=float(weight @ (away <= 1)),
        coverage=float(weight @ ((found.low <= truth) & (truth <= found.high))),
        expected_coverage=float(weight @ (total[row, found.high + 1] - total[row, found.low])),
        width=float(weight @ (found.high - found.low + 1)),
        confusion=tuple(tuple(each) for each in confusion.tolist()),
    )


def _log_posterior(
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
        lines += ["", f"Recorded rank (down) and estimate (across), {each.games} game{'s' * (each.games != 1)}:"]
        lines += [" " * 5 + "".join(f"{name:>5}" for name in ranks)]
        lines += [f"{name:>5}" + "".join(f"{n or '.':>5}" for n in row) for name, row in zip(ranks, each.confusion)]
    return "\n".join(lines)


def net_hash(net: str | os.PathLike[str] | None) -> str:
    """Return the BLAKE3 hash of a net's file, or of an engine's command line.

    Raises:
        FormatError: The file cannot be read.
    """
    path = net_file(net)
    try:
        return hash_file(path) if path.exists() else blake3(os.fsencode(str(net))).hexdigest()
    except OSError as error:
        raise FormatError(f"cannot read the net {path}: {error.strerror}") from None


def open_calibration(path: str | os.PathLike[str] | None, net: str | os.PathLike[str] | None) -> RankCalibration:
    """Open a calibration file.

    Args:
        path: The file; None for the one beside the net.
        net: The net or engine, as for `kifu.learn.predictors.open_predictor`.

    Raises:
        FormatError: The file is not a calibration, or is that of another net.
    """
    path = _default_path(net) if path is None else Path(path)
    try:
        values: Any = json.loads(read_small(path, _MAX_BYTES))
        calibration = RankCalibration.model_validate(values)
    except FileNotFoundError:
        raise FormatError(
            f"there is no calibration {path}; kifu rank --calibrate writes one for a net with the input ranks"
        ) from None
    except OSError as error:
        raise FormatError(f"cannot read the calibration {path}: {error.strerror}") from None
    except ValidationError as error:
        first = error.errors()[0]
        location = ".".join(str(part) for part in first["loc"])
        raise FormatError(f"{path} is not a calibration of ranks: {location}: {first['msg']}") from None
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path} is not JSON: {first_line(error)}") from None
    if calibration.net_hash != net_hash(net):
        raise FormatError(f"{path} is the calibration of another net, {calibration.net}")
    return calibration


def _default_path(net: str | os.PathLike[str] | None) -> Path:
    """Return the path of the calibration beside a net's file."""
    path = net_file(net)
    return path.with_name(path.name.removesuffix(SUFFIX) + CALIBRATION_SUFFIX)
