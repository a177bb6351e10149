"""Damaged search indices, and what reads them."""

import random
from collections.abc import Callable
from pathlib import Path

from blake3 import blake3

from catalogues import GAMES, rows, write_catalogue
from fuzzing import Fuzzer, mutant
from kifu.search.build import build_index
from kifu.search.index import index_path
from kifu.search.pattern import Pattern
from kifu.search.searcher import Searcher

_JSON, _ARRAYS = 54, 4096
"""Where the JSON text and the arrays of an index begin."""

_PATTERNS = (
    Pattern(2, 2, (2, 1, 7, 1)),
    Pattern(2, 2, (2, 4, 7, 5), "corner", moves=()),
    Pattern(3, 1, (1, 2, 1), "side", consecutive=True, next_colour=1),
    Pattern(1, 1, (1,), "centre"),
)


def index_fuzzer(folder: Path) -> Fuzzer:
    path = write_catalogue(folder / "a.parquet", GAMES, crowded())
    build_index(path, jobs=1)
    seed = index_path(path).read_bytes()
    places = [(0, 2), (2, 1), (3, 0), (3, 3), (4, 0), (4, 2)]
    positions = [Searcher(path).position(row, ply) for row, ply in places]

    def check(data: bytes) -> None:
        index_path(path).write_bytes(data)
        searcher = Searcher(path)
        for pattern in _PATTERNS:
            searcher.find(pattern).continuations()
        for position in positions:
            searcher.explore(position).to_dict()
            searcher.find(position.to_pattern())

    return Fuzzer(damaged(seed), check)


def crowded() -> object:
    """Return games on 3 x 3 with many captures, among them one whose stones were set up later."""
    cycle = [1, 0 | 0x8000, 3, 4 | 0x8000, 9, 2 | 0x8000, 0, 9 | 0x8000]
    return rows(
        moves=[cycle, [*cycle[:3], 9 | 0x8000], []], width=[3] * 3, height=[3] * 3,
        setup=[[], [8, 7 | 0x8000, 8 | 0x4000], [4]], setup_ply=[[], [0, 2, 4], [0]],
    )  # fmt: skip


def damaged(seed: bytes) -> Callable[[random.Random], bytes]:
    """Return a function that draws mutants of an index. Most have the right size and a header that passes its check."""

    def make(draw: random.Random) -> bytes:
        length = int.from_bytes(seed[20:22], "little")
        text, arrays = seed[_JSON : _JSON + length], bytearray(seed[_ARRAYS:])
        kind = draw.random()
        if kind < 0.1:
            return mutant(draw, seed)
        if kind < 0.3:
            text = mutant(draw, text)[: _ARRAYS - _JSON]
        for at in draw.choices(range(len(arrays)), k=draw.randint(1, 12)):
            arrays[at] = draw.choice((0, 1, 127, 128, 255, draw.randrange(256)))
        checked = seed[18:20] + len(text).to_bytes(2, "little")
        header = seed[:18] + checked + blake3(checked + text).digest() + text
        return header.ljust(_ARRAYS, b"\0") + arrays

    return make
