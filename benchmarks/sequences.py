"""Speed of builds of tokens, and of packing them, compared with a floor: copying the same tokens."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
from corpus import Corpus
from figures import Figure, at_least
from timing import Task, in_turns, one_core

import kifu
from kifu.corpus.ingest import ingest
from kifu.datasets.tokens import TokenGames, open_tokens, pack_tokens

_LENGTH, _ROWS = 1024, 64
_REPEATS = 4
"""Epochs of a timed loop, and copies of the floor."""


def tokens(corpus: Corpus, folder: Path, rounds: int) -> list[Figure]:
    """Time a build from a catalogue, and shuffled, augmented rows of 1,024 tokens, on one core."""
    path, into = folder / "games.parquet", folder / "built"
    ingest(corpus.every or corpus.archives, path)
    recipe = kifu.load_recipe("tokens", ["clean=legal"]).model_copy(update={"split": None})

    def build() -> None:
        kifu.build(recipe, path, into, jobs=1)

    with one_core():
        (built,) = in_turns(rounds, Task(build, lambda: shutil.rmtree(into)))
        build()
        data = open_tokens(into / "all")
        count = len(data.tokens) * _REPEATS / 1e6
        copied, taken, packed, bare = in_turns(
            rounds,
            Task(lambda: _copy(data.tokens)),
            Task(_take(data.tokens, data.offsets)),
            Task(_pack(data, augment=True)),
            Task(_pack(data, augment=False)),
        )
    unit, shape = "M tokens/s", f"rows of {_LENGTH:,}"
    return [
        Figure(
            f"build of {len(data):,} games, {len(data.tokens):,} tokens, one core", len(data) / built.best, "games/s"
        ),
        Figure("floor: copy the tokens in order, one core", count / copied.best, unit, copied),
        Figure("floor: numpy.take, game by game in another order", count / taken.best, unit, taken),
        at_least(f"tokens packed to {shape}, shuffled and augmented, one core", count / packed.best, unit, 5, packed),
        Figure("tokens packed, shuffled", count / bare.best, unit, bare),
    ]


def _copy(source: np.ndarray) -> None:
    out = np.empty(_LENGTH * _ROWS, source.dtype)
    for _ in range(_REPEATS):
        for first in range(0, len(source), len(out)):
            part = source[first : first + len(out)]
            out[: len(part)] = part


def _take(source: np.ndarray, offsets: np.ndarray) -> Callable[[], None]:
    """Return a function that takes the tokens of each game, in another order, by their indices."""
    games = np.random.default_rng(0).permutation(len(offsets) - 1)
    lengths = np.diff(offsets)[games]
    first = np.repeat(offsets[games] - (np.cumsum(lengths) - lengths), lengths)
    order, out = first + np.arange(len(source)), np.empty(_LENGTH * _ROWS, source.dtype)

    def take() -> None:
        for _ in range(_REPEATS):
            for first in range(0, len(source), len(out)):
                part = order[first : first + len(out)]
                np.take(source, part, out=out[: len(part)], mode="clip")

    return take


def _pack(data: TokenGames, augment: bool) -> Callable[[], None]:
    """Return a function that packs some epochs."""

    def pack() -> None:
        for epoch in range(_REPEATS):
            rng = np.random.default_rng(epoch)
            order, symmetry = rng.permutation(len(data)), rng.integers(0, 8, len(data))
            for first in range(0, len(data), 4096):
                games = slice(first, first + 4096)
                pack_tokens(data, order[games], _LENGTH, symmetry[games] if augment else None)

    return pack
