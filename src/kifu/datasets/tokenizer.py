"""Games as sequences of tokens, for transformers: the vocabulary of `tokens@1`. Card: docs/formats/tokens.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kifu.corpus.schema import PLAYED_COLUMNS, move_arrays, to_numpy
from kifu.datasets.token_metadata import DEFAULT_METADATA, METADATA
from kifu.errors import FormatError, RecipeError
from kifu.kernel import kernel
from kifu.point import ERASE_BIT, MAX_SIZE, POINT_MASK, WHITE_BIT, check_size, symmetries, to_gtp
from kifu.registry import unknown

PASS, PADDING, BEGIN, END, BLACK_STONE, WHITE_STONE, EMPTY_POINT, BLACK_TO_PLAY, WHITE_TO_PLAY = range(9)
"""Tokens after those of the points of the board."""

_SPECIAL = (
    "pass", "padding", "begin", "end", "black stone", "white stone", "empty point", "black to play", "white to play",
)  # fmt: skip

Tokens = npt.NDArray[np.uint16]


class TokenGame(NamedTuple):
    """A game that was decoded from tokens; points, setup and moves are those of the catalogue's columns.

    Attributes:
        metadata: The values of the prefix by field.
        width: Width of the board.
        height: Height of the board.
        setup: [S] uint16.
        setup_ply: [S] uint16.
        moves: [M] uint16.
    """

    metadata: dict[str, str]
    width: int
    height: int
    setup: npt.NDArray[np.uint16]
    setup_ply: npt.NDArray[np.uint16]
    moves: npt.NDArray[np.uint16]


@dataclass(frozen=True)
class Tokenizer:
    """Converts games to tokens and back.

    Attributes:
        width: Width of the board, 1 to 25.
        height: Height of the board.
        pad: Include smaller square boards, in the upper left corner; requires the metadata "board".
        metadata: Fields of the prefix, keys of `METADATA`; tokens are always in the order of `METADATA`.
    """

    width: int = 19
    height: int = 19
    pad: bool = False
    metadata: tuple[str, ...] = DEFAULT_METADATA

    def __post_init__(self) -> None:
        """Raise GameError for a board that is too large, RecipeError for other invalid values."""
        check_size(self.width, self.height)
        for name in self.metadata:
            if name not in METADATA:
                raise unknown("metadata", name, METADATA)
            if self.metadata.count(name) > 1:
                raise RecipeError(f"metadata {name!r} is listed twice")
        if self.pad and "board" not in self.metadata:
            raise RecipeError("pad requires the metadata 'board', which tells the boards apart")

    @property
    def points(self) -> int:
        """The number of points of the board; the token of a pass."""
        return self.width * self.height

    @property
    def padding(self) -> int:
        """The token of padding."""
        return self.points + PADDING

    @cached_property
    def fields(self) -> tuple[str, ...]:
        """The fields of the prefix, in order."""
        return tuple(name for name in METADATA if name in self.metadata)

    @cached_property
    def first_tokens(self) -> dict[str, int]:
        """The token of the first value of each field, whether the prefix has the field or not."""
        first, tokens = self.points + len(_SPECIAL), {}
        for name, field in METADATA.items():
            tokens[name] = first
            first += len(field.values)
        return tokens

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The name of each token, such as "Q16", "pass" or "komi 6.5"."""
        points = (to_gtp(point, self.width, self.height) for point in range(self.points))
        facts = (f"{name} {value}" for name, field in METADATA.items() for value in field.values)
        return (*points, *_SPECIAL, *facts)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the catalogue that `encode` and `fits` need."""
        facts = (column for name in self.fields for column in METADATA[name].columns)
        return tuple(dict.fromkeys((*PLAYED_COLUMNS, "n_legal", *facts)))

    @cached_property
    def symmetry_tables(self) -> Tokens:
        """[8 * S, V] uint16: row 8 * b + k holds each token under symmetry k (see `kifu.point.symmetries`).

        b is 0 without `pad`, else the index of the game's board among the values of "board". If the board is not
        square, rows with k >= 4 change nothing.
        """
        boards = range(1, MAX_SIZE + 2 if self.pad else 2)
        tables = np.tile(np.arange(len(self.names), dtype=np.uint16), (len(boards), 8, 1))
        for b, size in enumerate(boards):
            smaller = self.pad and size <= min(self.width, self.height)
            width, height = (size, size) if smaller else (self.width, self.height)
            y, x = np.divmod(np.arange(width * height), width)
            point = y * self.width + x
            for k in range(8 if width == height else 4):
                tables[b, k, point] = point[symmetries(width, height)[k, :-1]]
        return tables.reshape(-1, len(self.names))

    def fits(self, rows: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        """Return whether the board of each row of the catalogue is one of the tokenizer's, [G] bool."""
        width, height = to_numpy(rows["width"]), to_numpy(rows["height"])
        fits: npt.NDArray[np.bool_] = (width == self.width) & (height == self.height)
        if self.pad:
            fits |= (width == height) & (width <= min(self.width, self.height))
        return fits

    def encode(self, rows: pa.RecordBatch, chosen: npt.NDArray[np.int64]) -> tuple[Tokens, npt.NDArray[np.int64]]:
        """Return the tokens of games, up to their first illegal move.

        Args:
            rows: Rows of the catalogue with `columns`.
            chosen: [G] rows that `fits` allows.

        Returns:
            tokens: [T] uint16 of all games, one after another.
            ends: [G] int64, the end of each game in `tokens`.

        Raises:
            FormatError: A row contradicts itself.
        """
        games, plies = move_arrays(rows), to_numpy(rows["n_legal"])
        prefix = np.empty((len(rows), len(self.fields)), np.uint16)
        for k, name in enumerate(self.fields):
            prefix[:, k] = self.first_tokens[name] + METADATA[name].codes(rows)
        entries = sum(np.diff(offset)[chosen].sum() for offset in (games.move_offset, games.setup_offset))
        tokens = np.empty(int(2 * entries) + len(chosen) * (2 + len(self.fields)), np.uint16)
        ends = np.empty(len(chosen), np.int64)
        _write_tokens(
            chosen, games.width, games.height, games.moves, games.move_offset, games.setup, games.setup_ply,
            games.setup_offset, plies, prefix, self.width, self.points, tokens, ends,
        )  # fmt: skip
        return tokens[: ends[-1] if len(ends) else 0], ends

    def decode(self, tokens: Sequence[int] | npt.NDArray[Any]) -> TokenGame:
        """Return the game of a sequence that begins with "begin". What follows "end" is ignored.

        Raises:
            FormatError: The sequence is not a game. Whether its moves are legal is not checked.
        """
        reader = _Reader(self, [int(token) for token in tokens])
        reader.within(self.points + BEGIN, self.points + BEGIN + 1, "begin")
        metadata = {}
        for name in self.fields:
            values, first = METADATA[name].values, self.first_tokens[name]
            metadata[name] = values[reader.within(first, first + len(values), name) - first]
        side = metadata["board"].partition("x")[0] if self.pad else ""
        width, height = (int(side), int(side)) if side.isdigit() else (self.width, self.height)
        if width > self.width or height > self.height:
            raise FormatError(f"board must be at most {self.width}x{self.height}, got {metadata['board']}")
        return reader.moves(metadata, width, height)


@kernel
def _write_tokens(  # noqa: PLR0913 - kernel
    chosen: Any, width: Any, height: Any, moves: Any, move_offset: Any, setup: Any, setup_ply: Any, setup_offset: Any,
    plies: Any, prefix: Any, frame_width: Any, frame_points: Any, tokens: Any, ends: Any,
) -> None:  # fmt: skip
    """Write the tokens of games; see `Tokenizer.encode`.

    Args:
        chosen: [K] int64, games.
        width: [G] uint8, like the next six as in `kifu.records.games.MoveArrays`.
        height: [G] uint8.
        moves: [M] uint16.
        move_offset: [G + 1] int64.
        setup: [S] uint16.
        setup_ply: [S] uint16.
        setup_offset: [G + 1] int64.
        plies: [G] int32, number of moves to write.
        prefix: [G, F] uint16, tokens of the prefix.
        frame_width: Width of the tokenizer's board.
        frame_points: Its number of points.
        tokens: uint16, receives the tokens. Long enough for two for each move and setup stone, and 2 + F for each game.
        ends: [K] int64, receives the end of each game in `tokens`.
    """
    at = 0
    for r in range(chosen.shape[0]):
        g = chosen[r]
        w, points = np.int64(width[g]), np.int64(width[g]) * np.int64(height[g])
        tokens[at] = frame_points + BEGIN
        at += 1
        for k in range(prefix.shape[1]):
            tokens[at] = prefix[g, k]
            at += 1
        first, n = move_offset[g], min(np.int64(plies[g]), move_offset[g + 1] - move_offset[g])
        s, last = setup_offset[g], setup_offset[g + 1]
        white_next = False
        t = 0
        while t <= n:
            while s < last and setup_ply[s] <= t:
                word = np.int64(setup[s])
                point = word & POINT_MASK
                if point < points:
                    kind = EMPTY_POINT if word & ERASE_BIT else WHITE_STONE if word & WHITE_BIT else BLACK_STONE
                    tokens[at] = frame_points + kind
                    tokens[at + 1] = point // w * frame_width + point % w
                    at += 2
                s += 1
            if t < n:
                word = np.int64(moves[first + t])
                point = word & POINT_MASK
                white = (word & WHITE_BIT) != 0
                if point > points:
                    break
                if white != white_next:
                    tokens[at] = frame_points + (WHITE_TO_PLAY if white else BLACK_TO_PLAY)
                    at += 1
                tokens[at] = frame_points if point == points else point // w * frame_width + point % w
                at += 1
                white_next = not white
            t += 1
        tokens[at] = frame_points + END
        at += 1
        ends[r] = at


class _Reader:
    """Reads the tokens of one game."""

    def __init__(self, tokenizer: Tokenizer, words: list[int]) -> None:
        self._tokenizer, self._words, self._at = tokenizer, words, 0

    def within(self, first: int, stop: int, expected: str) -> int:
        """Return the next token, which must be within `first` to `stop` - 1. Raises FormatError."""
        token = self._words[self._at] if self._at < len(self._words) else -1
        if not first <= token < stop:
            names = self._tokenizer.names
            found = "the end" if token < 0 else names[token] if token < len(names) else str(token)
            raise FormatError(f"token {self._at} must be {expected}, got {found}")
        self._at += 1
        return token

    def moves(self, metadata: dict[str, str], width: int, height: int) -> TokenGame:
        """Return the game whose prefix has been read. Raises FormatError."""
        points = self._tokenizer.points
        setup, plies, moves = list[int](), list[int](), list[int]()
        colour = 0
        bits = {points + BLACK_STONE: 0, points + WHITE_STONE: WHITE_BIT, points + EMPTY_POINT: ERASE_BIT}
        colours = {points + BLACK_TO_PLAY: 0, points + WHITE_TO_PLAY: WHITE_BIT}
        while self._at < len(self._words):
            token = self.within(0, points + WHITE_TO_PLAY + 1, "a move, a stone or the end")
            if token == points + END:
                break
            if token in bits:
                setup.append(self._point(self.within(0, points, "a point"), width, height) | bits[token])
                plies.append(len(moves))
                continue
            if token in colours:
                colour = colours[token]
                token = self.within(0, points + 1, "a move")
            elif token > points:
                raise FormatError(f"token {self._at - 1} must be a move, a stone or the end, got {self._name(token)}")
            moves.append((width * height if token == points else self._point(token, width, height)) | colour)
            colour ^= WHITE_BIT
        arrays = (np.array(values, np.uint16) for values in (setup, plies, moves))
        return TokenGame(metadata, width, height, *arrays)

    def _point(self, token: int, width: int, height: int) -> int:
        """Return a point of the tokenizer's board as one of the game's. Raises FormatError."""
        y, x = divmod(token, self._tokenizer.width)
        if x >= width or y >= height:
            raise FormatError(f"token {self._at - 1} must be on a {width} x {height} board, got {self._name(token)}")
        return y * width + x

    def _name(self, token: int) -> str:
        return self._tokenizer.names[token]
