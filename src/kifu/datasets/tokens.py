"""The format `tokens@1`: a directory of .npy files with the games of a set as tokens. Card: docs/formats/tokens.md."""

from __future__ import annotations

import mmap
import os
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, Self

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kifu.config import first_invalid
from kifu.datasets.formats import TOKENS_INDEX
from kifu.datasets.manifest import WriteReport
from kifu.datasets.npy import ArrayFile, open_array
from kifu.datasets.npz import HEADER_BYTES
from kifu.datasets.tokenizer import Tokenizer, Tokens
from kifu.errors import FormatError, GameError, RecipeError, SourceError
from kifu.io import AtomicDirectory, read_small
from kifu.records.games import GameArrays

FORMAT = "tokens@1"
_COLUMNS: dict[str, np.dtype[Any]] = {
    "tokens.npy": np.dtype("<u2"), "offsets.npy": np.dtype("<i8"), "games.npy": np.dtype("<u8"),
}  # fmt: skip
Numbers = npt.NDArray[np.integer[Any]]


class TokenIndex(BaseModel):
    """The index of a directory, see docs/formats/tokens.md."""

    model_config = ConfigDict(frozen=True)

    format: str
    games: Annotated[int, Field(ge=0, le=10**12)]
    tokens: Annotated[int, Field(ge=0, le=10**15)]
    width: int
    height: int
    pad: bool
    metadata: tuple[str, ...]
    vocabulary: tuple[str, ...]
    about: dict[str, Any]


@dataclass(frozen=True, eq=False)
class TokenGames:
    """The games of a set as tokens.

    Attributes:
        tokens: [T] uint16 of all games, one after another.
        offsets: [G + 1] int64. Game g is tokens[offsets[g]:offsets[g + 1]].
        games: [G] uint64, the `id` of each game in the catalogue.
    """

    tokenizer: Tokenizer
    tokens: Tokens
    offsets: npt.NDArray[np.int64]
    games: npt.NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.games)

    def __getitem__(self, game: int) -> Tokens:
        """Return the tokens of a game. Raises IndexError."""
        if not 0 <= game < len(self):
            raise IndexError(f"game must be within 0 to {len(self) - 1}, got {game}")
        return self.tokens[self.offsets[game] : self.offsets[game + 1]]

    def part(self, first: int, stop: int) -> TokenGames:
        """Return games `first` to `stop` - 1. Tokens are not copied."""
        offsets = self.offsets[first : stop + 1]
        tokens = self.tokens[offsets[0] : offsets[-1]]
        return TokenGames(self.tokenizer, tokens, offsets - offsets[0], self.games[first:stop])

    def decode(self) -> GameArrays:
        """Return boards, setup and moves of all games. Raises FormatError for a sequence that is not a game."""
        return self.tokenizer.decode_games(self.tokens, self.offsets)


@dataclass(frozen=True, eq=False)
class TokenRows:
    """B rows of L tokens.

    Attributes:
        tokens: [B, L] uint16.
        positions: [B, L] int32, index of each token in its game, from 0; 0 for padding.
        segment_ids: [B, L] int32, number of the token's game among those of the row, from 1; 0 for padding.
    """

    tokens: Tokens
    positions: npt.NDArray[np.int32]
    segment_ids: npt.NDArray[np.int32]


def pack_tokens(data: TokenGames, games: Numbers, length: int, symmetry: Numbers | None = None) -> TokenRows:
    """Cut games, one after another, into rows of one length. Only the last row has padding.

    Args:
        games: [K], the games in order.
        length: Number of tokens of a row.
        symmetry: [K], the symmetry of each game, below 8 (below 4 unless the board is square); see
            `kifu.point.symmetries`.

    Raises:
        FormatError: A token is not in the vocabulary, or a game has no board.
    """
    tokenizer, first = data.tokenizer, data.offsets[games]
    sizes = data.offsets[np.add(games, 1)] - first
    total = int(sizes.sum())
    shape, game = (-(-total // length), length), np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    position = np.arange(total) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    tokens = data.tokens[np.repeat(first, sizes) + position]
    if symmetry is not None:
        tables = tokenizer.symmetry_tables
        boards = data.tokens[first + 1].astype(np.int64) - tokenizer.first_tokens["board"] if tokenizer.pad else 0
        table = symmetry + 8 * boards
        if tokens.max(initial=0) >= tables.shape[1] or not ((table >= 0) & (table < len(tables))).all():
            raise FormatError("the games have a token that is not in the vocabulary, or no board")
        tokens = tables[np.repeat(table, sizes), tokens]

    def rows(values: npt.NDArray[Any], padding: int) -> npt.NDArray[Any]:
        out = np.full(shape, padding, values.dtype)
        out.reshape(-1)[:total] = values
        return out

    segment = rows(game + 1, 0)
    segment = np.where(segment > 0, segment - segment[:, :1] + 1, 0)
    return TokenRows(rows(tokens, tokenizer.padding), rows(position.astype(np.int32), 0), segment)


class TokenWriter:
    """Writes a tokens@1 directory, which appears under its name when `commit` returns. A context manager."""

    def __init__(self, path: Path, tokenizer: Tokenizer) -> None:
        """Create the files. Raises OutputError."""
        self._tokenizer = tokenizer
        self._end = 0
        self._stack = ExitStack()
        with ExitStack() as stack:
            self._folder = stack.enter_context(AtomicDirectory(path, TOKENS_INDEX))
            self._files = [ArrayFile(self._folder, name, dtype, (), 0) for name, dtype in _COLUMNS.items()]
            for file in self._files:
                stack.callback(file.discard)
            self._files[1].append(np.zeros(1, np.int64))
            self._stack = stack.pop_all()

    def append(self, tokens: Tokens, ends: npt.NDArray[np.int64], games: npt.NDArray[np.uint64]) -> None:
        """Append games: the result of `Tokenizer.encode`, and the id of each game. Raises OutputError."""
        columns: tuple[npt.NDArray[Any], ...] = (tokens, ends + self._end, games)
        for file, values in zip(self._files, columns):
            file.append(values)
        self._end += len(tokens)

    def commit(self, about: Mapping[str, Any]) -> WriteReport:
        """Finish the directory and give it its name.

        Args:
            about: Metadata to store in the index, as JSON values.

        Returns:
            A report whose examples are games.
        """
        written, games = tuple(file.commit() for file in self._files), self._files[2].rows
        tokenizer = self._tokenizer
        self._folder.commit(
            {
                "format": FORMAT,
                "games": games,
                "tokens": self._end,
                "width": tokenizer.width,
                "height": tokenizer.height,
                "pad": tokenizer.pad,
                "metadata": tokenizer.fields,
                "vocabulary": tokenizer.names,
                "about": dict(about),
            }
        )
        return WriteReport(games, written)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)


def is_tokens(path: Path) -> bool:
    """Return whether a directory has the index of tokens@1."""
    return path.joinpath(TOKENS_INDEX).is_file()


def open_tokens(path: str | os.PathLike[str]) -> TokenGames:
    """Map a tokens@1 directory into memory. Tokens are not checked; all else is."""
    folder = Path(path)
    index, tokenizer = _read_index(folder)
    rows = (index.tokens, index.games + 1, index.games)
    tokens, offsets, games = (_map(folder / name, dtype, count) for (name, dtype), count in zip(_COLUMNS.items(), rows))
    shortest = 2 + len(tokenizer.fields)
    if offsets[0] != 0 or offsets[-1] != index.tokens or (np.diff(offsets) < shortest).any():
        raise FormatError(
            f"{folder / 'offsets.npy'} must ascend from 0 to {index.tokens:,} in steps of at least {shortest}"
        )
    return TokenGames(tokenizer, tokens, offsets, games)


def _read_index(folder: Path) -> tuple[TokenIndex, Tokenizer]:
    path = folder / TOKENS_INDEX
    try:
        index = TokenIndex.model_validate_json(read_small(path))
        tokenizer = Tokenizer(index.width, index.height, index.pad, index.metadata)
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror}") from None
    except ValidationError as error:
        raise FormatError(f"{path} is not an index of tokens: {first_invalid(error)}") from None
    except (GameError, RecipeError) as error:
        raise FormatError(f"{path} is not an index of tokens: {error}") from None
    if index.format != FORMAT:
        raise FormatError(f"{path} lists format {index.format[:80]!r}, expected {FORMAT!r}")
    if index.vocabulary != tokenizer.names:
        raise FormatError(f"{path} lists another vocabulary than that of {FORMAT}")
    return index, tokenizer


def _map(path: Path, dtype: np.dtype[Any], rows: int) -> npt.NDArray[Any]:
    with open_array(path, dtype, (rows,)) as file:
        return np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), dtype, offset=HEADER_BYTES)
