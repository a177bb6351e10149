"""The speed of KataGo's inputs, with a replay under the same rules as the floor, and of whole training files."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
from corpus import Corpus
from figures import Figure, at_least
from timing import Task, in_turns, one_core

from kifu.corpus.catalogue import CatalogueWriter, open_catalogue
from kifu.corpus.ingest import ingest
from kifu.corpus.schema import game_arrays
from kifu.katago.select import KatagoRecipe
from kifu.planes.encoder import find_encoder
from kifu.recipes.pipeline import build
from kifu.recipes.schema import load_recipe

_GAMES, _FILE_GAMES = 2000, 300
"""Games that are encoded, and games that files are made of."""

_ASKED = 0.08
"""Million rows per second. KataGo's C++ makes 0.047 packed (-O3 -march=native), nine tenths of the time in ladders."""


def katago(corpus: Corpus, folder: Path, rounds: int) -> list[Figure]:
    """Measure on one core."""
    path = folder / "games.parquet"
    ingest([corpus.archives[-1]], path)
    with one_core():
        follow, encode, positions = _tasks(path)
        floor, encoded = in_turns(rounds, Task(follow), Task(encode))
        rate, floor_rate = positions / encoded.best / 1e6, positions / floor.best / 1e6
        unit = "M rows/s"
        figures = [
            Figure("floor: games followed by KataGo's rules, one core", floor_rate, unit, floor),
            at_least("KataGo's rows, packed, with globals, one core", rate, unit, _ASKED, encoded),
        ]
        some = _first_games(path, folder / "some.parquet")
        for compression in ("stored", "fast", "deflate"):
            build, rows = _build(some, folder / "kata", compression)
            (times,) = in_turns(min(rounds, 3), Task(build))
            what = f"KataGo's files, {compression}, one core"
            figures.append(Figure(what, rows / times.best / 1e6, unit, times))
    return figures


def _tasks(path: Path) -> tuple[Callable[[], None], Callable[[], None], int]:
    """Return functions that follow the first games and that encode all their positions, and the number of positions."""
    batch = next(open_catalogue(path).batches(size=_GAMES))
    games = game_arrays(batch)
    encoder = find_encoder("katago22", pad=True)
    context = encoder.context(batch)
    rows = np.flatnonzero((games.drop == 0) & (context.drop == 0))
    plies = np.diff(games.move_offset)[rows]
    chunks = np.array_split(rows, max(plies.sum() // 16_384, 1))
    capacity = max(int(np.diff(games.move_offset)[some].sum()) for some in chunks)
    planes, labels = encoder.new_out(capacity), encoder.new_labels(capacity)

    def run(wanted: bool) -> None:
        for some in chunks:
            moves = int(np.diff(games.move_offset)[some].sum())
            take = np.arange(moves) if wanted else np.full(moves, -1)
            encoder.replay(games, some, context.values[some], None, take, planes, labels)

    return lambda: run(False), lambda: run(True), int(plies.sum())


def _first_games(path: Path, into: Path) -> Path:
    """Write a catalogue of the first games of another."""
    with CatalogueWriter(into) as writer:
        writer.write(next(open_catalogue(path).batches(size=_FILE_GAMES)))
        writer.commit({})
    return into


def _build(some: Path, into: Path, compression: str) -> tuple[Callable[[], object], int]:
    """Return a function that makes files of these games, and the number of rows."""
    recipe = load_recipe("katago", ['split={kind="hash", sets={all=1.0}}', f"compression={compression}"])
    assert isinstance(recipe, KatagoRecipe)

    def make_files() -> int:
        shutil.rmtree(into, ignore_errors=True)
        (built,) = build(recipe, some, into, jobs=1)
        examples: int = built.manifest.examples
        return examples

    rows = make_files()
    return make_files, rows
