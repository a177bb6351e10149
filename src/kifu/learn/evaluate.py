"""Evaluation of nets on the moves of games that they have not seen; see docs/evaluation.md."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kifu.corpus.schema import to_numpy
from kifu.datasets.global_inputs import CONDITION_COLUMNS
from kifu.datasets.labels import UNKNOWN, LabelPositions, find_label, label_values
from kifu.datasets.mmap_games import COLUMNS, read_games
from kifu.datasets.position_filter import PositionFilter
from kifu.datasets.sources import CatalogueSource, ExampleSpec, open_datasets
from kifu.errors import RecipeError, SourceError, printable
from kifu.execution.executor import count_jobs
from kifu.learn.breakdown import RANK_COLUMNS, score_breakdowns
from kifu.learn.examples import NAME_COLUMNS, Example, select_examples
from kifu.learn.hardware import Precision, default_device, supported_precision
from kifu.learn.net import Net
from kifu.learn.positions import EvalPositions
from kifu.learn.predict import MovePredictor
from kifu.learn.predictors import AnyPredictor, as_predictor, common_board, replay_planes, unique_names
from kifu.learn.score_moves import score_moves
from kifu.learn.scores import (
    Calibration,
    Interval,
    MoveScores,
    Score,
    ValueScore,
    by_measure,
    calibrate,
    differences,
    mean_entropy,
    score,
    value_error,
)
from kifu.progress import ProgressFactory, silent
from kifu.records.paths import Paths, as_list, as_path
from kifu.registry import check_choice

OnOverlap = Literal["refuse", "drop", "keep"]

_COLUMNS = (*RANK_COLUMNS, *NAME_COLUMNS, *CONDITION_COLUMNS, "canonical", "winner")

_DIGITS = 6
"""Decimal places of numbers in JSON."""


@dataclass(frozen=True, slots=True)
class EvalOptions:
    """Selection of positions, and settings of the nets.

    Attributes:
        board: Board size of the games, such as "19x19"; None for the size that the first net was trained on.
        legal: Restrict probabilities to legal moves.
        symmetries: Average probabilities over the 8 symmetries of the board (4 if it is not square).
        passes: Include positions before a pass; published figures exclude them.
        per_game: Maximum number of positions of each game, drawn at random.
        positions: Maximum number of positions in total, drawn at random.
        seed: Seed of these draws and of the bootstrap.
        precision: "float32", whose figures agree between machines but for the last digits, or "bfloat16", which is
            faster and accurate to two or three digits; the options of an `Evaluation` have the one that was used, see
            `kifu.learn.hardware.supported_precision`.
        overlap: What to do about games that a net was trained on or validated with, also if rotated, mirrored or with
            colours swapped: "refuse" raises RecipeError, "drop" leaves them out for all nets, "keep" keeps them. Every
            output reports games that were dropped or kept.
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

    def __post_init__(self) -> None:
        check_choice("precision", self.precision, get_args(Precision))
        check_choice("overlap", self.overlap, get_args(OnOverlap))
        if self.positions is not None and self.positions < 1:
            raise RecipeError(f"positions must be >= 1, got {self.positions}")


@dataclass(frozen=True)
class NetResult:
    """The results of one net.

    Attributes:
        name: Name of the net, unique within the evaluation.
        description: What it is, such as "b4c64 on alphago48@1".
        known_games: Number of games it is known to be trained on or validated with; 0 if unknown.
        learned: Number of these among the games to evaluate, whether they were dropped or not.
        entropy: Mean entropy of the probabilities, in nats.
        value: Errors of the values; None without a value head, or if no game has a result.
        by: Scores by breakdown (`kifu.learn.breakdown.BREAKDOWNS`) and group.
        to_first: Differences to the first net on the same positions by measure; None for the first net.
    """

    name: str
    description: str
    known_games: int
    learned: int
    score: Score
    calibration: Calibration
    entropy: Interval
    value: ValueScore | None
    by: dict[str, dict[str, Score]]
    to_first: dict[str, Interval] | None

    def __repr__(self) -> str:
        score = self.score
        return printable(f"<NetResult of {self.name}: top-1 {score.top1.value:.2%}, {score.nll.value:.4f} nats>")


@dataclass(frozen=True)
class Evaluation:
    """The results of one or more nets on the same positions.

    Attributes:
        board: Width and height of the boards.
        games_hash: BLAKE3 of the games and their positions.
        games: Number of games with an evaluated position.
        learned: Number of games that a net was trained on or validated with; they are left out if `options.overlap` is
            "drop".
    """

    options: EvalOptions
    board: tuple[int, int]
    sources: tuple[str, ...]
    games_hash: str
    games: int
    positions: int
    learned: int
    nets: tuple[NetResult, ...]
    examples: tuple[Example, ...]

    def __repr__(self) -> str:
        nets = ", ".join(f"{net.name} top-1 {net.score.top1.value:.2%}" for net in self.nets)
        return printable(f"<Evaluation: {nets}; {self.headline()}>")

    def remarks(self) -> list[str]:
        """Return warnings that must accompany the figures: training games, and nets whose games are unknown."""
        remarks = []
        if self.learned and self.options.overlap == "keep":
            remarks.append(
                f"NOT A TEST: a net was trained on or validated with {_games(self.learned)} of these (rotated, mirrored"
                " or not). The figures are too good."
            )
        elif self.learned:
            remarks.append(
                f"Left out: {_games(self.learned)} that a net was trained on or validated with (rotated, mirrored or"
                " not)."
            )
        remarks += [
            f"The training games of {net.name} are unknown; they may be among these."
            for net in self.nets
            if not net.known_games
        ]
        return remarks

    def headline(self) -> str:
        """Return one line with the positions and options."""
        width, height = self.board
        notes = ["legal moves only"] if self.options.legal else []
        notes += ["averaged over the symmetries of the board"] if self.options.symmetries else []
        notes += ["passes included"] if self.options.passes else []
        return "; ".join([f"{self.positions:,} positions of {_games(self.games)} on {width} x {height}", *notes])

    def to_json(self) -> str:
        """Return all results in the format of docs/evaluation.md."""
        options = self.options
        values: dict[str, Any] = {
            "version": 1,
            "kifu": version("kifu"),
            "board": "{}x{}".format(*self.board),
            "sources": list(self.sources),
            "games_hash": self.games_hash,
            "games": self.games,
            "positions": self.positions,
            "terms": {
                name: getattr(options, name)
                for name in ("legal", "symmetries", "passes", "per_game", "positions", "seed", "precision")
            },
            "overlap": {"games": self.learned, "done": options.overlap},
            "remarks": self.remarks(),
            "nets": [_net_to_json(net) for net in self.nets],
            "examples": [example.to_json() for example in self.examples],
        }
        return json.dumps(values, allow_nan=False) + "\n"


def _games(count: int) -> str:
    return f"{count:,} game{'' if count == 1 else 's'}"


def _net_to_json(net: NetResult) -> dict[str, Any]:
    return {
        "name": net.name,
        "net": net.description,
        "known_games": net.known_games,
        "learned": net.learned,
        "score": _score_to_json(net.score),
        "calibration": {
            "error": _rounded(net.calibration.error),
            "bins": [
                {
                    "from": round(each.start, _DIGITS),
                    "to": round(each.stop, _DIGITS),
                    "positions": each.positions,
                    "sure": round(each.confidence, _DIGITS),
                    "right": _rounded(each.accuracy),
                }
                for each in net.calibration.bins
            ],
        },
        "entropy": _rounded(net.entropy),
        "value": None if net.value is None else _value_to_json(net.value),
        "by": {
            name: {group: _score_to_json(each) for group, each in groups.items()} for name, groups in net.by.items()
        },
        "to_first": None if net.to_first is None else {key: _rounded(each) for key, each in net.to_first.items()},
    }


def _value_to_json(value: ValueScore) -> dict[str, Any]:
    measures = {"squared": value.squared, "bias_black": value.black, "bias_white": value.white}
    return {"positions": value.positions, "games": value.games} | {
        name: None if math.isnan(interval.value) else _rounded(interval) for name, interval in measures.items()
    }


def _score_to_json(score: Score) -> dict[str, Any]:
    measures = {name: _rounded(interval) for name, interval in by_measure(score).items()}
    return {"positions": score.positions, "games": score.games, **measures}


def _rounded(interval: Interval) -> list[float]:
    return [round(part, _DIGITS) for part in interval]


def evaluate(
    nets: AnyPredictor | Sequence[AnyPredictor],
    sources: Paths,
    options: EvalOptions = EvalOptions(),
    *,
    jobs: int | None = None,
    progress: ProgressFactory = silent,
) -> Evaluation:
    """Measure how well nets predict the moves of games: top-1, 3 and 5, likelihood, calibration, and examples.

    Args:
        nets: One net or engine, or several to compare on the same positions: opened, or named as for
            `kifu.learn.predictors.open_predictor`. The options do not apply to predictors that are open already.
        sources: Catalogues, whose kept games are used, and archives, folders and records, which are cleaned by the
            rules "legal".
        options: Selection of positions, and settings of the nets.
        jobs: Threads that encode planes; None for one per core.
        progress: Reports how far the evaluation is.

    Raises:
        RecipeError: An option does not fit the nets, a net has seen one of the games, or a source is a data set.
        SourceError: There are no such games.
        FormatError: A catalogue or net is damaged, or a net returns NaN.
    """
    options = replace(options, precision=supported_precision(options.precision, default_device()))
    opened = [nets] if isinstance(nets, str | os.PathLike | Net) or not isinstance(nets, Sequence) else nets
    predictors = [as_predictor(net, symmetries=options.symmetries, precision=options.precision) for net in opened]
    board = common_board(predictors, options.board)
    _check_passes(predictors, options)
    paths = as_list(sources)
    if open_datasets(paths) is not None:
        raise RecipeError(f"{paths[0]} is a data set; an evaluation requires games: catalogues, archives, records")
    rows = read_games(paths, board, False, jobs, (*COLUMNS, *_COLUMNS))
    trained_on = [np.isin(to_numpy(rows["canonical"]), predictor.games) for predictor in predictors]
    rows = _handle_overlap(rows, predictors, trained_on, options.overlap)
    position_filter = PositionFilter(passes=options.passes, per_game=options.per_game)
    source = CatalogueSource(
        rows, ExampleSpec(replay_planes(predictors), board, labels=("move",), filter=position_filter)
    )
    positions = _sample_positions(EvalPositions.from_source(source, rows, options.seed), options)
    with progress("evaluating", len(positions) * len(predictors), "positions") as bar:
        scores = [
            score_moves(predictor, positions, legal=options.legal, jobs=count_jobs(jobs), bar=bar)
            for predictor in predictors
        ]
    return Evaluation(
        options,
        board,
        tuple(as_path(path).name for path in paths),
        str(source.fingerprint()["source"]),
        len(np.unique(positions.game)),
        len(positions),
        int(np.any(trained_on, axis=0).sum()),
        _summarize(predictors, trained_on, positions, scores, options.seed),
        select_examples(predictors, positions, scores[0], legal=options.legal, seed=options.seed),
    )


def _summarize(
    predictors: Sequence[MovePredictor],
    trained_on: Sequence[npt.NDArray[np.bool_]],
    positions: EvalPositions,
    scores: Sequence[MoveScores],
    seed: int,
) -> tuple[NetResult, ...]:
    """Return the result of each net, given the scores of its moves."""
    game = np.unique(positions.game, return_inverse=True)[1]
    by = score_breakdowns(positions, scores, game, seed)
    ply, board = positions.ply.astype(np.int32), (positions.width, positions.height)
    at = LabelPositions(positions.rows, positions.games, positions.game, ply, *board)
    spec = find_label("result", *board)
    result, white = label_values([spec], at)["result"], at.white_to_play
    known_result = bool((result != UNKNOWN).any())
    return tuple(
        NetResult(
            name,
            predictor.description,
            len(predictor.games),
            int(known.sum()),
            score(moves, game, seed),
            calibrate(moves, game, seed),
            mean_entropy(moves, game, seed),
            value_error(moves.value, result, white, game, seed) if predictor.has_value and known_result else None,
            groups,
            None if moves is scores[0] else differences(moves, scores[0], game, seed),
        )
        for name, predictor, known, moves, groups in zip(unique_names(predictors), predictors, trained_on, scores, by)
    )


def _check_passes(predictors: Sequence[MovePredictor], options: EvalOptions) -> None:
    """Raise RecipeError if passes are included and a net does not predict them."""
    for predictor in predictors:
        if options.passes and not predictor.passes:
            raise RecipeError(
                f"net {predictor.name} does not predict passes; positions before a pass cannot be included"
            )


def _handle_overlap(
    rows: pa.RecordBatch, nets: Sequence[MovePredictor], trained_on: Sequence[npt.NDArray[np.bool_]], overlap: OnOverlap
) -> pa.RecordBatch:
    """Return the games to evaluate.

    Args:
        rows: [G] games.
        trained_on: [G] bool for each net.
    """
    for net, known in zip(nets, trained_on):
        if known.any() and overlap == "refuse":
            raise RecipeError(
                f"{net.name} was trained on or validated with {known.sum():,} of {_games(len(known))} (rotated,"
                " mirrored or not); --overlap drop leaves them out, --overlap keep keeps them and says so"
            )
    if overlap == "drop":
        rows = rows.filter(pa.array(~np.any(trained_on, axis=0)))
    if not len(rows):
        raise SourceError(f"no game is left: the nets have seen all of {_games(len(trained_on[0]))}")
    return rows


def _sample_positions(positions: EvalPositions, options: EvalOptions) -> EvalPositions:
    """Return the positions to evaluate. Raise SourceError if there are none."""
    if not len(positions):
        raise SourceError(f"the games have no positions to evaluate: {_games(len(positions.games))} of passes only")
    if options.positions is None or options.positions >= len(positions):
        return positions
    rng = np.random.default_rng(options.seed)
    return positions.take(np.sort(rng.choice(len(positions), options.positions, replace=False, shuffle=False)))
