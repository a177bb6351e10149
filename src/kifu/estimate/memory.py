"""How much memory a run takes at its peak: a model, whose constants are compared with real runs in docs/scale.md."""

from __future__ import annotations

from kifu.corpus.clean import Clean
from kifu.corpus.copies import MOST
from kifu.corpus.duplicates import RANGE

_BASE = 260_000_000
"""Python with numpy, numba and Arrow, the kernels, and a writer with its row group."""

_READING = 75_000_000
"""A thread that makes rows, with the blocks that wait before it and the rows that wait after."""

_DRAWING = 60_000_000
"""A thread that draws planes, with what it has drawn and what waits to be written."""

_SEEN = 22
"""The id of a game, while exact copies are looked for: of `MOST` games at a time."""

_COMPARED = 40
"""The hashes of a game, while the same games are looked for: of `RANGE` games at a time."""

_WINDOW = 3 * (128 << 20)
"""What is shuffled at one go: as it comes, in order, and on its way to the file."""

_PLY = 7
_GAME = 120
"""Where each example, and each game, of a set comes from, until the manifest is written; of shuffled ones nothing."""

_MOVE = 6
"""A move of an archive of KGS, which is read whole, while the next one is."""


def memory_of_ingest(jobs: int, games: float, clean: Clean) -> int:
    """In bytes."""
    seen = 0 if clean.duplicates == "keep" else _SEEN * min(games, MOST)
    compared = _COMPARED * min(games, RANGE) if clean.duplicates == "games" else 0
    return round(_BASE + jobs * _READING + seen + compared)


def memory_of_build(jobs: int, games: float, examples: float, shuffled: bool) -> int:
    """In bytes. games, examples: of the largest set."""
    return round(_BASE + jobs * _DRAWING + (_WINDOW if shuffled else _PLY * examples + _GAME * games))


def memory_of_drawing(jobs: int, largest: float, games: float) -> int:
    """Of a recipe that draws from archives of KGS, in bytes. largest: moves of the largest archive; games: of a set."""
    return round(_BASE + jobs * _DRAWING + _MOVE * largest + _GAME * games)
