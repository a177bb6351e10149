"""How much memory a run takes at its peak: a model, whose constants are compared with real runs in docs/scale.md."""

from __future__ import annotations

from kifu.corpus.cleaning import CleaningRules
from kifu.corpus.duplicates import MAX_IDS, RANGE_GAMES
from kifu.recipes.example_jobs import CHUNK_BYTES
from kifu.recipes.examples import WINDOW_BYTES

_BASE = 285_000_000
"""Python with numpy, numba, Arrow and DuckDB, and the kernels."""

_THREAD = 30_000_000
"""What a thread has of its own, and the items that wait for it."""

_WRITER = 60_000_000
"""A catalogue's row group, as it comes and as it is compressed."""

_SEEN = 22
"""The id of a game, while exact copies are looked for: of `MAX_IDS` games at a time."""

_COMPARED = 40
"""The hashes of a game, while the same games are looked for: of `RANGE_GAMES` games at a time."""

_WINDOW = 3 * WINDOW_BYTES
"""What is sorted at one go: as it comes, in order, and on its way to the file."""

_GAME = 120
"""Where the examples of a game come from, until the manifest is written; of shuffled ones nothing."""

_MOVE = 6
"""A move of an archive of KGS, which is read whole, while the next one is."""


def memory_of_ingest(jobs: int, games: float, clean: CleaningRules) -> int:
    """In bytes."""
    writers = 2 if clean.duplicates == "games" else 1  # what waits until all games are known is written, too
    seen = 0 if clean.duplicates == "keep" else _SEEN * min(games, MAX_IDS)
    compared = _COMPARED * min(games, RANGE_GAMES) if clean.duplicates == "games" else 0
    return round(_BASE + jobs * _THREAD + writers * _WRITER + seen + compared)


def memory_of_build(jobs: int, games: float, expansion: float, shuffled: bool) -> int:
    """In bytes. games: of the largest set. expansion: how many times as large they are written as packed."""
    waiting = 1 if jobs == 1 else 2 * jobs + 1
    sets = _WINDOW if shuffled else waiting * CHUNK_BYTES * max(expansion, 1) + _GAME * games
    return round(_BASE + jobs * _THREAD + sets)


def memory_of_drawing(jobs: int, largest: float, games: float) -> int:
    """Of a recipe that draws from archives of KGS, in bytes. largest: moves of the largest archive; games: of a set."""
    return round(_BASE + jobs * _THREAD + _MOVE * largest + _GAME * games)
