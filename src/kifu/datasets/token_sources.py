"""The sources of a loader of tokens: data sets of tokens, or games that are converted when the loader is made."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kifu.corpus.schema import to_numpy
from kifu.datasets.mmap_games import read_games, spill_arrays
from kifu.datasets.tokenizer import Tokenizer, Tokens
from kifu.datasets.tokens import TokenGames, open_tokens
from kifu.errors import RecipeError

_ROWS = 8192
"""Games that are converted to tokens at a time."""

_Part = tuple[Tokens, npt.NDArray[np.int64], npt.NDArray[np.uint64]]
"""Tokens of games, the end of each game, and their ids."""


def join_tokens(paths: Sequence[Path]) -> TokenGames:
    """Return the games of one or more data sets of tokens.

    Raises:
        RecipeError: Their boards or metadata differ.
        SourceError: A file cannot be read.
        FormatError: A data set is damaged.
        OutputError: There is no disk space for several data sets.
    """
    opened = [open_tokens(path) for path in paths]
    first = opened[0]
    if len(opened) == 1:
        return first
    for path, each in zip(paths, opened):
        if each.tokenizer != first.tokenizer:
            raise RecipeError(f"{path} has {each.tokenizer}, but {paths[0]} has {first.tokenizer}")
    return _spill(first.tokenizer, ((each.tokens, each.offsets[1:], each.games) for each in opened))


def read_tokens(sources: Sequence[str | os.PathLike[str]], tokenizer: Tokenizer, jobs: int | None) -> TokenGames:
    """Return the kept games of catalogues, archives and records, see `read_games`. Raises what that raises."""
    board = (tokenizer.width, tokenizer.height)
    rows = read_games(sources, board, tokenizer.pad, jobs, (*tokenizer.columns, "id"), tokenizer.fits)

    def parts() -> Iterator[_Part]:
        for first in range(0, len(rows), _ROWS):
            batch = rows.slice(first, _ROWS)
            yield *tokenizer.encode(batch, np.arange(len(batch))), to_numpy(batch["id"])

    return _spill(tokenizer, parts())


def _spill(tokenizer: Tokenizer, parts: Iterable[_Part]) -> TokenGames:
    """Return games in memory-mapped temporary files."""

    def columns() -> Iterator[tuple[npt.NDArray[Any], ...]]:
        end = 0
        yield np.empty(0, np.uint16), np.zeros(1, np.int64), np.empty(0, np.uint64)
        for tokens, ends, games in parts:
            yield tokens, ends + end, games
            end += len(tokens)

    return TokenGames(tokenizer, *spill_arrays(columns(), (np.uint16, np.int64, np.uint64)))
