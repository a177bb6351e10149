"""Speed, size and memory of search indices, and times of searches.

    python benchmarks/searching.py CATALOGUE [PATTERNS]

runs each search once, so that its peak memory can be measured.
"""

from __future__ import annotations

import gzip
import json
import statistics
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from corpus import Corpus
from figures import Figure, at_least, at_most
from processes import KIFU, peak
from timing import Task, Times, in_turns, one_core

from kifu.corpus.catalogue import open_catalogue
from kifu.corpus.ingest import ingest
from kifu.corpus.schema import game_arrays
from kifu.go.replay import replay_all
from kifu.point import BLACK, WHITE
from kifu.search.build import build_index
from kifu.search.index import index_path
from kifu.search.notation import CELLS, parse_pattern
from kifu.search.pattern import BLACK_CELL, EMPTY_CELL, WHITE_CELL, Pattern, Rectangle
from kifu.search.position import Position
from kifu.search.searcher import Searcher

_STONES = {EMPTY_CELL: 0, BLACK_CELL: BLACK, WHITE_CELL: WHITE}
_GROUPS = {"full": "whole board", "corner": "corner", "side": "side", "center": "centre"}
_ASKED_MS = {"whole board": 2, "corner": 5, "side": 40, "centre": 250}

_COMMON = {
    "whole board": "/".join(["-" * 21, *["|" + "." * 19 + "|"] * 19, "-" * 21]),
    "corner": "+-------/|......./|......./|......./|...O.../|......./|..X..../|.......",
    "side": "--------/......../......../..X..X../......../........",
    "centre": "anchor: centre/.X./X.X/.X.",
}
"""Patterns to search without a reference."""


class Search(NamedTuple):
    """A search to time.

    Attributes:
        group: "whole board", "corner", "side" or "centre".
        pattern: The pattern.
        position: The same as a position, if it is the whole board without wildcards.
    """

    group: str
    pattern: Pattern
    position: Position | None


def load_searches(path: Path | None) -> list[Search]:
    """Return the patterns of a reference of libkombilo, or some common shapes without one."""
    if path is None:
        patterns = [(group, parse_pattern(text)) for group, text in _COMMON.items()]
    else:
        entries = json.loads(gzip.decompress(path.read_bytes()))["patterns"]
        patterns = [(_GROUPS[entry["type"]], _read_pattern(entry)) for entry in entries]
    return [Search(group, pattern, _position(group, pattern)) for group, pattern in patterns]


def _read_pattern(entry: dict[str, Any]) -> Pattern:
    width, height = entry["size"]
    colour = entry["next_to_move"]
    return Pattern(
        width,
        height,
        tuple(CELLS[cell] for cell in "".join(entry["rows"])),
        anchor="board" if entry["type"] == "full" else Rectangle(*entry["anchor"]),
        both_colours=not entry["fixed_color"],
        next_colour={"B": BLACK, "W": WHITE}[colour] if colour else None,
        actual_colour=True,
        last_ply=entry["move_limit"],
    )


def _position(group: str, pattern: Pattern) -> Position | None:
    if group != "whole board" or not set(pattern.cells) <= set(_STONES):
        return None
    stones = np.array([_STONES[cell] for cell in pattern.cells], np.uint8)
    return Position(pattern.width, pattern.height, stones)


def search(corpus: Corpus, folder: Path, rounds: int) -> list[Figure]:
    """Compare indexing with replaying the games, and searches with comparing each move once."""
    path = folder / "games.parquet"
    count = ingest(corpus.every or corpus.archives, path).read
    games = [game_arrays(batch) for batch in open_catalogue(path).batches()]

    def floor() -> None:
        for each in games:
            replay_all(each)

    with one_core():
        low, built = in_turns(rounds, Task(floor), Task(lambda: build_index(path, jobs=1), index_path(path).unlink))
    memory = peak([*KIFU, "explore", str(path), "--jobs", "1"])
    figures = [
        Figure(f"floor: replay of {count:,} games in memory, one core", count / low.best, "games/s", low),
        at_least("index of positions and stones, one core", count / built.best, "games/s", 15_000, built),
        Figure("the same, against the floor", built.best / low.best, "x"),
        at_most("index", index_path(path).stat().st_size / count, "bytes a game", 700),
        at_most("peak memory, the first search, one thread", memory, "MB", 400),
    ]
    figures += _searches(path, [each.moves for each in games], load_searches(corpus.patterns), rounds)
    command = ["env", "ARROW_DEFAULT_MEMORY_POOL=system", sys.executable, __file__, str(path)]
    command += [str(corpus.patterns)] if corpus.patterns else []
    return [*figures, at_most("peak memory, a process that runs all these searches", peak(command), "MB", 400)]


def _searches(path: Path, moves: list[Any], searches: list[Search], rounds: int) -> list[Figure]:
    """Time warm searches."""
    searcher = Searcher(path)
    positions = [each.position for each in searches if each.position is not None]

    def floor() -> None:
        for each in moves:
            np.count_nonzero(each == 72)

    with one_core():
        low, *times = in_turns(
            rounds,
            Task(floor),
            *(Task(partial(searcher.find, each.pattern)) for each in searches),
            *(Task(partial(searcher.explore, each)) for each in positions),
        )
    found, explored = times[: len(searches)], times[len(searches) :]
    figures = [Figure("floor: compare each move with a point, one core", low.best * 1e3, "ms", low)]
    for group, most in _ASKED_MS.items():
        of_group = [took for each, took in zip(searches, found) if each.group == group]
        figures.append(_median(f"{group}, median of {len(of_group)} patterns, one core", of_group, most))
    worst = max(found, key=lambda took: took.best)
    return [
        *figures,
        at_most("the slowest of all patterns", worst.best, "s", 1, worst),
        _median(f"explorer, median of {len(positions)} positions, one core", explored, 50),
        at_most("explorer, slowest position", max(took.best for took in explored) * 1e3, "ms", 50),
    ]


def _median(what: str, times: Sequence[Times], most: float) -> Figure:
    """Return the median of several searches in the best round."""
    clock, processor = (
        tuple(map(statistics.median, zip(*rounds)))
        for rounds in ([took.clock for took in times], [took.processor for took in times])
    )
    medians = Times(clock, processor)
    return at_most(what, medians.best * 1e3, "ms", most, medians)


def main() -> None:
    """Run each search once."""
    path, *reference = sys.argv[1:]
    searcher = Searcher(path)
    for each in load_searches(Path(reference[0]) if reference else None):
        searcher.find(each.pattern)
        if each.position is not None:
            searcher.explore(each.position)


if __name__ == "__main__":
    main()
