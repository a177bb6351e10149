"""Speed and memory of loaders, compared with a floor: the encoder alone, in the order of the corpus."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from corpus import Corpus
from figures import Figure, at_least, at_most
from processes import peak
from timing import Task, cores, in_turns, one_core

import kifu
from kifu.corpus.catalogue import open_catalogue
from kifu.corpus.ingest import ingest
from kifu.corpus.schema import GAME_COLUMNS, game_arrays
from kifu.datasets.epoch_plan import Output
from kifu.planes.encoder import Encoder
from kifu.planes.registry import find_plane_set
from kifu.records.games import concat

_ROWS = 1024

# Plane set, output, divisor of the timed part of an epoch, and target (M positions/s).
_PLANES: tuple[tuple[str, Output, int, float], ...] = (
    ("seven", "packed", 12, 1.5),
    ("seven", "uint8", 24, 0.6),
    ("agz17", "packed", 12, 0.8),
    ("alphago48", "packed", 24, 0.05),
)

_SHUFFLES: tuple[tuple[dict[str, Any], int], ...] = (
    ({"shuffle": None, "augment": False}, 12),
    ({"window": 1 << 19, "memory": 128 << 20}, 6),
    ({"window": 1 << 20}, 6),
    ({"shuffle": "global"}, 16),
    ({"shuffle": "global", "memory": 2 << 30}, 4),
)
"""Options, and the divisor of the timed part of an epoch; for a global shuffle, as much as fits into memory."""

_DRAIN = """
import sys, kifu
config = kifu.LoaderConfig(output=sys.argv[3], world_size=24)
for batch in kifu.load(sys.argv[1], sys.argv[2], config=config): pass
"""


def loader(corpus: Corpus, folder: Path, rounds: int) -> list[Figure]:
    """Time shuffled, augmented batches from a catalogue, on one core, with one rendering thread."""
    path = folder / "games.parquet"
    ingest(corpus.every or corpus.archives, path)
    figures = []
    with one_core():
        for planes, output, shares, asked in _PLANES:
            config = kifu.LoaderConfig(output=output, world_size=shares if corpus.judged else 1, jobs=1)
            given = kifu.load(path, planes, batch_size=_ROWS, config=config)
            encode, positions = _encoder(path, planes, given.positions)
            floor, loaded = in_turns(rounds, Task(encode), Task(_drain(given)))
            bare, reached = positions / floor.best / 1e6, given.positions / loaded.best / 1e6
            unit = "M positions/s"
            figures += [
                Figure(f"floor: encoder alone, {planes} packed, one core", bare, unit, floor),
                at_least(f"loader, {planes} {output}, one core", reached, unit, asked, loaded),
                Figure("against the floor", bare / reached, "x"),
            ]
        for options, shares in _SHUFFLES:
            config = kifu.LoaderConfig(world_size=shares if corpus.judged else 1, jobs=1, **options)
            given = kifu.load(path, "seven", batch_size=_ROWS, config=config)
            (times,) = in_turns(rounds, Task(_drain(given)))
            name = ", ".join(f"{key} {value}" for key, value in options.items())
            reached = given.positions / times.best / 1e6
            figures.append(Figure(f"loader, seven packed, {name}", reached, "M positions/s", times))
        figures += _mixture(path, folder, 6 if corpus.judged else 1, rounds)
    for planes, output in (("seven", "packed"), ("alphago48", "packed"), ("darkforest25", "float32")):
        command = [sys.executable, "-c", _DRAIN, str(path), planes, output]
        used = min(peak(command) for _ in range(2))  # the first one may have to compile kernels
        figures.append(at_most(f"peak memory of a loader of {planes} {output}, {cores()} threads", used, "MB", 1000))
    return figures


def _mixture(path: Path, folder: Path, shares: int, rounds: int) -> list[Figure]:
    """Time a mixture of two sources, and the report of an epoch's draws."""
    kifu.split(path, folder / "sets")
    whole = kifu.load(path, "seven", batch_size=_ROWS)
    proportions = {folder / "sets" / "train.parquet": 0.7, folder / "sets" / "test.parquet": 0.3}
    config = kifu.LoaderConfig(world_size=shares, jobs=1)
    given = kifu.load(proportions, "seven", batch_size=_ROWS, config=config)
    loaded, counted = in_turns(rounds, Task(_drain(given)), Task(whole.draws))
    return [
        Figure(
            "loader, seven packed, mixture 0.7 to 0.3", given.positions / loaded.best / 1e6, "M positions/s", loaded
        ),
        Figure("draws of an epoch", counted.best, "s", counted),
    ]


def _drain(given: kifu.Loader) -> Callable[[], None]:
    """Return a function that reads the same epoch each time."""

    def drain() -> None:
        for _ in given.epoch(given.epoch_number):
            pass

    return drain


def _encoder(path: Path, planes: str, positions: int) -> tuple[Callable[[], None], int]:
    """Return a function that encodes about `positions` positions, 16,384 at a time, and their exact number."""
    games = concat([game_arrays(batch) for batch in open_catalogue(path).batches(GAME_COLUMNS)])
    encoder = Encoder(find_plane_set(planes), 19, 19, False)
    plies = np.diff(games.move_offset)
    usable = np.flatnonzero(games.drop == 0)
    usable = usable[: np.searchsorted(np.cumsum(plies[usable]), positions) + 1]
    chunks = np.array_split(usable, plies[usable].sum() // 16_384 + 1)
    room = max(int(plies[rows].sum()) for rows in chunks)
    out, label = encoder.new_out(room), np.empty(room, np.int16)

    def encode() -> None:
        for rows in chunks:
            take = np.arange(plies[rows].sum())
            encoder.replay(games, rows, np.zeros((len(rows), 2), np.float32), None, take, out, {"move": label})

    return encode, int(plies[usable].sum())
