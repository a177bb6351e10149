"""Evaluation of nets on the moves of games that they have not seen; see docs/evaluation.md."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kifu.corpus.schema import to_numpy
from kifu.datasets.global_inputs import CONDITION_COLUMNS
from kifu.datasets.labels import UNKNOWN, LabelPositions, find_label, label_values
from kifu.datasets.mmap_games import COLUMNS, read_games
from kifu.datasets.position_filter import PositionFilter
from kifu.datasets.sources import CatalogueSource, ExampleSpec, open_datasets
from kifu.errors import RecipeError, SourceError
from kifu.execution.executor import count_jobs
from kifu.files import utf8_name
from kifu.learn.breakdown import RANK_COLUMNS, score_breakdowns
from kifu.learn.examples import NAME_COLUMNS, select_examples
from kifu.learn.hardware import default_device, supported_precision
from kifu.learn.net import Net
from kifu.learn.positions import EvalPositions
from kifu.learn.predict import MovePredictor
from kifu.learn.predictors import AnyPredictor, as_predictor, common_board, replay_planes, unique_names
from kifu.learn.results import EvalOptions, Evaluation, NetResult, OnOverlap, unknown_games
from kifu.learn.score_moves import score_moves
from kifu.learn.scores import MoveScores, calibrate, differences, mean_entropy, score, value_error
from kifu.progress import ProgressFactory, silent
from kifu.records.paths import Paths, as_list, as_path
from kifu.text import counted

_COLUMNS = (*RANK_COLUMNS, *NAME_COLUMNS, *CONDITION_COLUMNS, "canonical", "winner")


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
    learned = int(np.any(trained_on, axis=0).sum())
    results = _summarize(predictors, trained_on, positions, scores, options.seed)
    return Evaluation(
        kifu=version("kifu"),
        board="{}x{}".format(*board),
        sources=tuple(utf8_name(as_path(path).name) for path in paths),
        games_hash=str(source.fingerprint()["source"]),
        games=len(np.unique(positions.game)),
        positions=len(positions),
        learned=learned,
        options=options,
        remarks=(*_overlap_remarks(learned, options.overlap), *unknown_games(results)),
        nets=results,
        examples=select_examples(predictors, positions, scores[0], legal=options.legal, seed=options.seed),
    )


def _overlap_remarks(learned: int, overlap: OnOverlap) -> list[str]:
    """Return the warning about games that the nets have seen."""
    if not learned:
        return []
    seen = counted(learned, "game")
    if overlap == "keep":
        return [
            f"NOT A TEST: a net was trained on or validated with {seen} of these (rotated, mirrored or not). The"
            " figures are too good."
        ]
    return [f"Left out: {seen} that a net was trained on or validated with (rotated, mirrored or not)."]


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
            name=name,
            description=predictor.description,
            known_games=len(predictor.games),
            learned=int(known.sum()),
            score=score(moves, game, seed),
            calibration=calibrate(moves, game, seed),
            entropy=mean_entropy(moves, game, seed),
            value=value_error(moves.value, result, white, game, seed) if predictor.has_value and known_result else None,
            by=groups,
            to_first=None if moves is scores[0] else differences(moves, scores[0], game, seed),
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
                f"{net.name} was trained on or validated with {known.sum():,} of {counted(len(known), 'game')}"
                " (rotated, mirrored or not); --overlap drop leaves them out, --overlap keep keeps them and says so"
            )
    if overlap == "drop":
        rows = rows.filter(pa.array(~np.any(trained_on, axis=0)))
    if not len(rows):
        raise SourceError(f"no game is left: the nets have seen all of {counted(len(trained_on[0]), 'game')}")
    return rows


def _sample_positions(positions: EvalPositions, options: EvalOptions) -> EvalPositions:
    """Return the positions to evaluate. Raise SourceError if there are none."""
    if not len(positions):
        raise SourceError(
            f"the games have no positions to evaluate: {counted(len(positions.games), 'game')} of passes only"
        )
    if options.positions is None or options.positions >= len(positions):
        return positions
    rng = np.random.default_rng(options.seed)
    return positions.take(np.sort(rng.choice(len(positions), options.positions, replace=False, shuffle=False)))
