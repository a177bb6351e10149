"""Shuffling quality of loaders, compared with a true permutation of all positions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from corpus import Corpus
from figures import Figure

import kifu
from kifu.corpus.catalogue import open_catalogue
from kifu.corpus.ingest import ingest
from kifu.corpus.schema import to_numpy

_ROWS = 4096
_POSITIONS = 2_000_000
"""Positions of the stream that are measured."""

_BATCH = 1024

_OPTIONS: tuple[dict[str, Any], ...] = (
    {"shuffle": None},
    {"window": 16_384},
    {},
    {"window": 1 << 20},
    {"shuffle": "global"},
)

Numbers = npt.NDArray[np.float64]


def shuffling(corpus: Corpus, folder: Path, rounds: int) -> list[Figure]:
    """Measure the stream for each shuffle option, and for NumPy's permutation of the same positions."""
    path = folder / "games.parquet"
    ingest(corpus.every or corpus.archives, path)
    ids, wins = _games(path)
    figures = []
    every = np.concatenate([batch.game for batch in kifu.load(path, "own", batch_size=_ROWS)])
    for options in _OPTIONS:
        given = kifu.load(path, "own", batch_size=_ROWS, config=kifu.LoaderConfig(**options))
        parts = islice(given, _POSITIONS // _ROWS)
        name = ", ".join(f"{key} {value}" for key, value in options.items()) or "window 131072 (default)"
        figures += _measures(name, np.concatenate([batch.game for batch in parts]), ids, wins)
    drawn = np.random.default_rng(0).permutation(every)[:_POSITIONS]
    return figures + _measures("a true permutation", drawn, ids, wins)


def _games(path: Path) -> tuple[npt.NDArray[np.uint64], Numbers]:
    """Return sorted game ids, and for each game whether White wins."""
    ids, wins = [], []
    for batch in open_catalogue(path).batches(("id", "winner")):
        ids.append(to_numpy(batch["id"]))
        wins.append(np.array([winner == "white" for winner in batch["winner"].to_pylist()], float))
    together = np.concatenate(ids)
    order = np.argsort(together)
    return together[order], np.concatenate(wins)[order]


def _measures(name: str, games: npt.NDArray[np.uint64], ids: npt.NDArray[np.uint64], values: Numbers) -> list[Figure]:
    """Measure a stream of games; `values` belong to `ids`."""
    stream = values[np.searchsorted(ids, games)]
    same = float(np.mean(games[1:] == games[:-1]))
    correlation = float(np.corrcoef(stream[1:], stream[:-1])[0, 1])
    batches = list(_batches(games))
    distinct = float(np.mean([len(np.unique(batch)) for batch in batches]))
    means = [float(values[np.searchsorted(ids, batch)].mean()) for batch in batches]
    spread = float(np.var(means) * _BATCH / np.var(stream))
    return [
        Figure(f"{name}: neighbours of one game", 100 * same, "%"),
        Figure(f"{name}: correlation of neighbours' results", abs(correlation), ""),
        Figure(f"{name}: games in a batch of {_BATCH:,}", distinct, "games"),
        Figure(f"{name}: variance of a batch's mean result", spread, "x that of independent draws"),
    ]


def _batches(games: npt.NDArray[np.uint64]) -> Iterator[npt.NDArray[np.uint64]]:
    for start in range(0, len(games) - _BATCH + 1, _BATCH):
        yield games[start : start + _BATCH]
