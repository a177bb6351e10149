"""Results of evaluations and benchmarks: what the commands compute, write as JSON and read again."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

import numpy as np
import numpy.typing as npt
from pydantic import Field, InstanceOf

from kifu.config import BoardSize, Line, StrictModel, read_model
from kifu.datasets.global_inputs import Imitated
from kifu.errors import RecipeError, printable
from kifu.learn import Precision
from kifu.learn.scores import Calibration, Drift, Interval, Score, ValueScore, pool_sets
from kifu.registry import check_choice
from kifu.text import counted, json_text

OnOverlap = Literal["refuse", "drop", "keep"]

ExampleKind = Literal["missed", "undecided", "correct"]
"""missed: another move is the most likely, in descending order of its probability. undecided: the move played is the
second most likely, and nearly as likely as the first. correct: the most likely move, played with high confidence."""

Count = Annotated[int, Field(ge=0)]


class _Model(StrictModel):
    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return self.model_dump(mode="json")

    def to_json(self) -> str:
        return json_text(self.to_dict())


@dataclass(frozen=True, slots=True)
class EvalOptions:
    """Selection of positions, and settings of the nets.

    Attributes:
        board: Board size of the games, such as "19x19"; None for the size that the first net was trained on.
        passes: Include positions before a pass; published figures exclude them.
        per_game: Maximum number of positions of each game, drawn at random.
        positions: Maximum number of positions in total, drawn at random.
        seed: Seed of these draws and of the bootstrap.
        precision: "float32", whose figures agree between machines but for the last digits, or "bfloat16", which is
            faster and accurate to two or three digits; the options of an `EvalResults` have the one that was used, see
            `kifu.learn.torch_backend.supported_precision`.
        overlap: What to do about games that a net was trained on or validated with, also if rotated, mirrored or with
            colours swapped: "refuse" raises RecipeError, "drop" leaves them out for all nets, "keep" keeps them. Every
            output reports games that were dropped or kept.
        server: See `kifu.learn.inference.Net`.
    """

    board: str | None = None
    legal: bool = False
    symmetries: bool = False
    passes: bool = False
    per_game: int | None = None
    positions: int | None = None
    seed: int = 0
    precision: Precision = "float32"
    overlap: OnOverlap = "refuse"
    server: Imitated | None = None

    def __post_init__(self) -> None:
        check_choice("precision", self.precision, get_args(Precision))
        check_choice("overlap", self.overlap, get_args(OnOverlap))
        if self.positions is not None and self.positions < 1:
            raise RecipeError(f"positions must be >= 1, got {self.positions}")


class LikelyMove(_Model):
    """A move in GTP notation and its probability."""

    move: str
    probability: float


class ExampleAnswer(_Model):
    """The prediction of a net for an example; `choice` is the place of the move played, 1 for the most likely."""

    net: str
    probability: float
    choice: Count
    best: tuple[LikelyMove, ...]


@dataclass(frozen=True, slots=True)
class ExampleBoard:
    """The board of an example.

    Attributes:
        stones: [H, W] uint8: 0 empty, 1 black, 2 white.
        policy: [moves] float32, probabilities of the first net.
    """

    stones: npt.NDArray[np.uint8]
    last: int | None
    played: int
    policy: npt.NDArray[np.float32]


class Example(_Model):
    """A position that was selected by the prediction of the first net.

    Attributes:
        board: For pictures; JSON does not have it.
    """

    kind: ExampleKind
    players: tuple[str, str]
    ranks: tuple[str, str]
    date: str
    location: str
    number: Annotated[int, Field(ge=1)]
    to_play: Literal["black", "white"]
    played: str
    answers: tuple[ExampleAnswer, ...]
    board: InstanceOf[ExampleBoard] | None = Field(default=None, exclude=True, repr=False)


class NetResult(_Model):
    """The results of one net.

    Attributes:
        known_games: Number of games it is known to be trained on or validated with; 0 if unknown.
        learned: Number of these among the games to evaluate, whether they were dropped or not.
        value: Errors of the values; None without a value head, or if no game has a result.
        by: Scores by breakdown (`kifu.learn.evaluate.BREAKDOWNS`) and group.
        to_first: Differences to the first net on the same positions by measure; None for the first net.
    """

    name: str
    description: str
    known_games: Count
    learned: Count
    score: Score
    calibration: Calibration
    entropy: Interval
    value: ValueScore | None
    by: dict[str, dict[str, Score]]
    to_first: dict[str, Interval] | None

    def __repr__(self) -> str:
        score = self.score
        return printable(f"<NetResult of {self.name}: top-1 {score.top1.value:.2%}, {score.nll.value:.4f} nats>")


class EvalResults(_Model):
    """The results of one or more nets on the same positions; its JSON is described in docs/evaluation.md.

    Attributes:
        games_hash: BLAKE3 of the games and their positions.
        learned: Number of games that a net was trained on or validated with; they are left out if `options.overlap` is
            "drop".
        remarks: Warnings that must accompany the figures: training games, and nets whose games are unknown.
    """

    version: Literal[3] = 3
    kifu: Line
    board: BoardSize
    sources: tuple[str, ...]
    games_hash: str
    games: Count
    positions: Count
    learned: Count
    options: EvalOptions
    remarks: tuple[str, ...]
    nets: Annotated[tuple[NetResult, ...], Field(min_length=1)]
    examples: tuple[Example, ...]

    def __repr__(self) -> str:
        nets = ", ".join(f"{net.name} top-1 {net.score.top1.value:.2%}" for net in self.nets)
        return printable(f"<EvalResults: {nets}; {self.headline()}>")

    def headline(self) -> str:
        """Return one line with the positions and options."""
        notes = ["legal moves only"] if self.options.legal else []
        notes += ["averaged over the symmetries of the board"] if self.options.symmetries else []
        notes += ["passes included"] if self.options.passes else []
        board = self.board.replace("x", " x ")
        return "; ".join([f"{self.positions:,} positions of {counted(self.games, 'game')} on {board}", *notes])


class NetScores(_Model):
    """The results of a net on a benchmark set.

    Attributes:
        known_games: Number of games that it is known to be trained on or validated with; 0 if unknown.
        seen: Number of these that are in the set.
        drift: Drift between windows by measure; empty if there are too few windows.
        by: Scores by breakdown, "rank", "player" (people, programs) and "window", and group.
        to_first: Differences to the first net on the same positions by measure; None for the first net.
    """

    name: Line
    description: Line
    symmetries: bool
    known_games: Count
    seen: Count
    score: Score | None = None
    drift: dict[str, Drift] = Field(default={})
    by: dict[str, dict[Line, Score]] = Field(default={})
    to_first: dict[str, Interval] | None = None

    @property
    def label(self) -> str:
        """The name, marked if it is averaged over the symmetries."""
        return f"{self.name}, symmetries" if self.symmetries else self.name


class SetResults(_Model):
    """The results of nets on the same positions of a benchmark set.

    Attributes:
        present: Number of these that the sources hold.
        used: Number of these that no net has seen.
    """

    name: Line
    title: Line
    digest: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    window: Line
    games: Count
    present: Count
    used: Count
    positions: Count
    nets: tuple[NetScores, ...]

    def remarks(self) -> list[str]:
        """Return warnings that must accompany the figures: missing games, seen games, nets whose games are unknown."""
        remarks = []
        if self.used < self.games:
            absent, seen = self.games - self.present, self.present - self.used
            remarks.append(
                f"INCOMPLETE: {self.used:,} of {self.games:,} games; {absent:,} are not in the sources, and a net was"
                f" trained on or validated with {seen:,}."
            )
        return remarks + unknown_games([net for net in self.nets if not net.symmetries])


class BenchmarkResults(_Model):
    """The results of `kifu evaluate --set`, in the format of docs/benchmark.md."""

    version: Literal[2] = 2
    kifu: Line
    sets: tuple[SetResults, ...]

    def pooled(self) -> dict[str, dict[str, Drift]]:
        """Return the means over the complete sets by label of a net and measure, see `pool_sets`."""
        scores: dict[str, list[Score]] = {}
        for results in self.sets:
            for net in results.nets:
                if net.score is not None and results.used == results.games:
                    scores.setdefault(net.label, []).append(net.score)
        return {label: pooled for label, of_net in scores.items() if (pooled := pool_sets(of_net))}

    def __repr__(self) -> str:
        nets = ", ".join(f"{each.name}: {each.used:,} of {each.games:,} games" for each in self.sets)
        return f"<BenchmarkResults: {nets}>"


def unknown_games(nets: Sequence[NetResult | NetScores]) -> list[str]:
    """Return a warning for each net whose training games are unknown."""
    return [
        f"The training games of {net.name} are unknown; they may be among these." for net in nets if not net.known_games
    ]


def read_evaluation(path: str | os.PathLike[str]) -> EvalResults:
    """Read a file that `kifu evaluate --json` wrote."""
    return read_model(EvalResults, path, "results of kifu evaluate")


def read_results(path: str | os.PathLike[str]) -> BenchmarkResults:
    """Read a file that `kifu evaluate --set --json` wrote."""
    return read_model(BenchmarkResults, path, "results of kifu evaluate --set")
