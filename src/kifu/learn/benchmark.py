"""Benchmark of nets on fixed positions of named sets of games; see docs/benchmark.md."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import date
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kifu.corpus._hashes import mix_words
from kifu.corpus.schema import game_arrays, to_numpy
from kifu.datasets.global_inputs import CONDITION_COLUMNS, Conditions
from kifu.datasets.mmap_games import COLUMNS, read_games
from kifu.datasets.sources import open_datasets
from kifu.errors import RecipeError, SourceError, printable
from kifu.execution.executor import count_jobs
from kifu.learn.benchmark_sets import BenchmarkSet, load_set, set_names
from kifu.learn.breakdown import BREAKDOWNS, RANK_COLUMNS, Groups
from kifu.learn.drift import measure_drift
from kifu.learn.positions import EvalPositions
from kifu.learn.predict import MovePredictor
from kifu.learn.predictors import open_predictor, unique_names
from kifu.learn.results import BenchmarkResults, NetScores, SetResults
from kifu.learn.score_moves import score_moves
from kifu.learn.scores import MoveScores, differences, score, score_groups
from kifu.point import POINT_MASK
from kifu.progress import ProgressFactory, silent
from kifu.records.paths import Paths, as_list, as_path

BOARD = (19, 19)

PER_GAME = 15
"""Number of positions of each game."""

_SEED = 0
"""Seed of the bootstrap."""

_COLUMNS = tuple(dict.fromkeys((*COLUMNS, *RANK_COLUMNS, *CONDITION_COLUMNS, "canonical", "date")))


def benchmark(
    nets: Sequence[str | os.PathLike[str]],
    sources: Paths,
    sets: Sequence[str] = (),
    *,
    symmetries: bool = False,
    jobs: int | None = None,
    progress: ProgressFactory = silent,
) -> BenchmarkResults:
    """Measure how well nets predict the moves of fixed positions of benchmark sets.

    Games that a net was trained on or validated with are left out for all nets.

    Args:
        nets: Nets, as for `kifu.learn.predictors.open_predictor`.
        sources: Catalogues, archives, folders and records that hold the games of the sets, in any order.
        sets: Names of benchmark sets; by default those with a game in the sources.
        symmetries: Also measure each net averaged over the symmetries of the board.
        jobs: Threads that encode planes; None for one per core.
        progress: Reports how far the benchmark is.

    Raises:
        RecipeError: A set does not exist, a net does not support 19 x 19, or a source is a data set.
        SourceError: The sources hold no game of the sets.
        FormatError: A catalogue or net is damaged, or a net returns NaN.
    """
    chosen = list({each.name: each for each in map(load_set, sets or set_names())}.values())
    entrants = _open(nets, symmetries)
    paths = as_list(sources)
    rows = _read_rows(paths, chosen, jobs)
    parts = [(each, _rows_of(rows, each)) for each in chosen]
    if not any(len(part) for _, part in parts):
        names = ", ".join(str(as_path(path)) for path in paths)[:200]
        raise SourceError(f"{names} holds no game of {', '.join(each.name for each in chosen)}")
    return BenchmarkResults(
        kifu=version("kifu"),
        sets=tuple(
            _benchmark_set(each, part, entrants, count_jobs(jobs), progress)
            for each, part in parts
            if sets or len(part)
        ),
    )


class _Entrant(NamedTuple):
    name: str
    symmetries: bool
    predictor: MovePredictor


def _open(nets: Sequence[str | os.PathLike[str]], symmetries: bool) -> list[_Entrant]:
    """Open each net, and once more to be averaged over the symmetries."""
    predictors = [open_predictor(net) for net in nets]
    for predictor in predictors:
        predictor.check_board(*BOARD)
    entrants = []
    for net, predictor, name in zip(nets, predictors, unique_names(predictors)):
        entrants.append(_Entrant(printable(name)[:200], False, predictor))
        if symmetries:
            entrants.append(_Entrant(printable(name)[:200], True, open_predictor(net, symmetries=True)))
    return entrants


def _read_rows(
    paths: Sequence[str | os.PathLike[str]], chosen: Sequence[BenchmarkSet], jobs: int | None
) -> pa.RecordBatch:
    """Return the rows of the games of the sets, each once and in ascending order of their canonical hashes.

    Of several rows of one game that with the smallest id is kept, so that the order of the sources does not matter.
    """
    if open_datasets(paths) is not None:
        raise RecipeError(f"{paths[0]} is a data set; a benchmark requires games: catalogues, archives, records")
    wanted = np.unique(np.concatenate([each.keys()[:, 0] for each in chosen]))
    rows = read_games(paths, BOARD, False, jobs, _COLUMNS, lambda batch: np.isin(to_numpy(batch["canonical"]), wanted))
    canonical = to_numpy(rows["canonical"])
    order = np.lexsort((to_numpy(rows["id"]), canonical))
    _, first = np.unique(canonical[order], return_index=True)
    return rows.take(pa.array(order[first]))


def _rows_of(rows: pa.RecordBatch, each: BenchmarkSet) -> pa.RecordBatch:
    return rows.filter(pa.array(np.isin(to_numpy(rows["canonical"]), each.keys()[:, 0])))


def fixed_positions(rows: pa.RecordBatch) -> EvalPositions:
    """Return up to PER_GAME positions of each game, none before a pass.

    They are the plies with the smallest mix(canonical ^ mix(ply)), where `kifu.corpus.hashes` defines mix, so that they
    depend on the game alone.

    Args:
        rows: [G] games.
    """
    games = game_arrays(rows)
    start = games.move_offset
    game = np.repeat(np.arange(len(rows)), np.diff(start))
    ply = np.arange(len(game)) - start[game]
    eligible = ((games.moves & POINT_MASK) < BOARD[0] * BOARD[1]) & (ply < to_numpy(rows["n_legal"])[game])
    key = mix_words(to_numpy(rows["canonical"])[game] ^ mix_words(ply.astype(np.uint64)))
    order = np.lexsort((key, ~eligible, game))
    # The order keeps each game's moves together, so that ply is also the rank among them.
    chosen = np.sort(order[(ply < PER_GAME) & eligible[order]])
    return EvalPositions(rows, games, *BOARD, chosen, game[chosen], Conditions.from_rows(rows))


def _benchmark_set(
    each: BenchmarkSet, rows: pa.RecordBatch, entrants: Sequence[_Entrant], jobs: int, progress: ProgressFactory
) -> SetResults:
    seen = [np.isin(to_numpy(rows["canonical"]), entrant.predictor.games) for entrant in entrants]
    used = rows.filter(pa.array(~np.any(seen, axis=0)))
    positions = fixed_positions(used)
    with progress(each.name, len(positions) * len(entrants), "positions") as bar:
        scores = [
            score_moves(entrant.predictor, positions, legal=False, jobs=jobs, bar=bar)
            for entrant in entrants
            if len(positions)
        ]
    window = _windows(used, each)
    return SetResults(
        name=each.name,
        title=each.title,
        digest=each.digest,
        window=each.windows,
        games=each.games,
        present=len(rows),
        used=len(used),
        positions=len(positions),
        nets=tuple(
            NetScores(
                name=entrant.name,
                description=printable(entrant.predictor.description)[:200],
                symmetries=entrant.symmetries,
                known_games=len(entrant.predictor.games),
                seen=int(known.sum()),
                **(_summarize(scores[k], scores[0], positions, window) if scores else {}),
            )
            for k, (entrant, known) in enumerate(zip(entrants, seen))
        ),
    )


def _windows(rows: pa.RecordBatch, each: BenchmarkSet) -> Groups:
    """Return the window of each game: a month, a week by its Monday, or a day; "unknown" without a date."""
    known = rows["date"].is_valid().to_numpy(zero_copy_only=False)
    days = pc.fill_null(rows["date"], date(1970, 1, 1)).to_numpy(zero_copy_only=False).astype("M8[D]")
    if each.windows == "month":
        days = days.astype("M8[M]")
    elif each.windows == "week":
        days -= (days.astype(np.int64) + 3) % 7  # day 0 was a Thursday
    names, group = np.unique(np.where(known, days.astype(str), "unknown"), return_inverse=True)
    return Groups(names.tolist(), group.astype(np.int64))


def _summarize(moves: MoveScores, first: MoveScores, positions: EvalPositions, window: Groups) -> dict[str, Any]:
    """Return the fields of `NetScores` that depend on the moves."""
    game = np.unique(positions.game, return_inverse=True)[1]
    total = score(moves, game, _SEED)
    known = np.array([name != "unknown" for name in window.names])[window.group]
    ranks = BREAKDOWNS["rank"][1](positions)
    return {
        "score": total,
        "drift": measure_drift(moves, game, np.where(known, window.group, -1), total),
        "by": {
            "rank": score_groups(moves, game, ranks.group, ranks.names, _SEED),
            "window": score_groups(moves, game, window.group[positions.game], window.names, _SEED),
        },
        "to_first": None if moves is first else differences(moves, first, game, _SEED),
    }
