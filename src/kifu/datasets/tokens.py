"""The format `tokens@1`: games as sequences of tokens, for transformers. Card: docs/formats/tokens.md.

`Tokenizer` is the vocabulary; a directory of .npy files holds the games of a set.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kifu.arrays import Array, Bools, Hashes, Indices, Ints
from kifu.checksums import BlockChecks
from kifu.config import first_invalid
from kifu.corpus.schema import PLAYED_COLUMNS, map_distinct, move_arrays, to_numpy
from kifu.datasets.formats import TOKENS_INDEX
from kifu.datasets.manifest import WriteReport, block_checks
from kifu.datasets.npy import ArrayFile, open_array
from kifu.datasets.npz import HEADER_BYTES
from kifu.errors import FormatError, GameError, RecipeError, SourceError
from kifu.io import AtomicDirectory, read_small
from kifu.kernel import kernel
from kifu.point import ERASE_BIT, MAX_SIZE, POINT_MASK, WHITE_BIT, check_size, symmetries, to_gtp
from kifu.records.games import NO_HANDICAP, GameArrays
from kifu.records.ranks import Rank
from kifu.registry import unknown

_RULES = {
    "jap": "japanese", "kor": "korean", "chi": "chinese", "aga": "aga", "bga": "aga", "french": "aga",
    "nz": "new zealand", "new zealand": "new zealand", "ing": "ing", "goe": "ing", "tromp": "tromp-taylor",
}  # fmt: skip
"""Beginnings of RU in lower case, and the rules that they name."""

_MARGINS = (2, 5, 10, 20, 40)
_MAX_KOMI = 10
_TOP_RATING = 49
_FIRST_YEAR, _LAST_YEAR = 1960, 2049

_UNKNOWN = "unknown"


def _board_codes(rows: pa.RecordBatch) -> Indices:
    width, height = (to_numpy(rows[name]).astype(np.int64) for name in ("width", "height"))
    return np.where((width == height) & (width > 0), width - 1, MAX_SIZE)


def _rules_codes(rows: pa.RecordBatch) -> Indices:
    values = METADATA["rules"].values

    def code(text: str | None) -> int:
        found = (text or "").strip().lower()
        named = (rules for start, rules in _RULES.items() if found.startswith(start))
        return values.index(next(named, "other") if found else _UNKNOWN)

    return map_distinct(rows["rules"], code, np.int64)


def _handicap_codes(rows: pa.RecordBatch) -> Indices:
    column = rows["handicap"]
    stones = to_numpy(pc.fill_null(column, 0)).astype(np.int64)
    return np.where(_known(column), np.where((stones >= 0) & (stones <= 9), stones, 10), 11)


def _komi_codes(rows: pa.RecordBatch) -> Indices:
    column = rows["komi"]
    halves = to_numpy(pc.fill_null(column, 0.0)).astype(np.float64) * 2
    usual = (np.abs(halves) <= 2 * _MAX_KOMI) & (halves == np.round(halves))
    code = np.where(usual, halves + 2 * _MAX_KOMI, 4 * _MAX_KOMI + 1)
    return np.where(_known(column), code, 4 * _MAX_KOMI + 2).astype(np.int64)


def _rank_codes(name: str) -> Callable[[pa.RecordBatch], Indices]:
    def codes(rows: pa.RecordBatch) -> Indices:
        rating = np.clip(to_numpy(pc.fill_null(rows[name], 0.0)), 0, _TOP_RATING).astype(np.int64)
        return np.where(rating >= 1, rating - 1, _TOP_RATING)

    return codes


def _year_codes(rows: pa.RecordBatch) -> Indices:
    column = rows["year"]
    year = np.clip(to_numpy(pc.fill_null(column, 0)).astype(np.int64), _FIRST_YEAR - 1, _LAST_YEAR + 1)
    return np.where(_known(column), year - (_FIRST_YEAR - 1), _LAST_YEAR - _FIRST_YEAR + 3)


def _result_codes(rows: pa.RecordBatch) -> Indices:
    values = METADATA["result"].values
    return map_distinct(rows["winner"], lambda winner: values.index(winner or _UNKNOWN), np.int64)


def _ending_codes(rows: pa.RecordBatch) -> Indices:
    values, column = METADATA["ending"].values, rows["margin"]
    codes = map_distinct(rows["ending"], lambda ending: values.index(ending or _UNKNOWN), np.int64)
    bins = np.searchsorted(_MARGINS, np.abs(to_numpy(pc.fill_null(column, 0.0))), side="left")
    score = values.index("score")
    return np.where((codes == score) & _known(column), score + 1 + bins, codes)


def _known(column: pa.Array) -> Bools:
    valid: Bools = column.is_valid().to_numpy(zero_copy_only=False)
    return valid


class MetadataField(NamedTuple):
    """A fact that a token of the prefix states. codes: returns [G] int64, each row's index in `values`."""

    values: tuple[str, ...]
    columns: tuple[str, ...]
    codes: Callable[[pa.RecordBatch], Indices]


_RANKS = (*(str(Rank.from_rating(rating)) for rating in range(1, _TOP_RATING + 1)), _UNKNOWN)

METADATA = {
    "board": MetadataField(
        (*(f"{n}x{n}" for n in range(1, MAX_SIZE + 1)), "not square"), ("width", "height"), _board_codes
    ),
    "rules": MetadataField((*dict.fromkeys(_RULES.values()), "other", _UNKNOWN), ("rules",), _rules_codes),
    "handicap": MetadataField((*map(str, range(10)), "other", _UNKNOWN), ("handicap",), _handicap_codes),
    "komi": MetadataField(
        (*(f"{k / 2:g}" for k in range(-2 * _MAX_KOMI, 2 * _MAX_KOMI + 1)), "other", _UNKNOWN), ("komi",), _komi_codes
    ),
    "black_rank": MetadataField(_RANKS, ("black_rating",), _rank_codes("black_rating")),
    "white_rank": MetadataField(_RANKS, ("white_rating",), _rank_codes("white_rating")),
    "year": MetadataField(
        (f"before {_FIRST_YEAR}", *map(str, range(_FIRST_YEAR, _LAST_YEAR + 1)), f"after {_LAST_YEAR}", _UNKNOWN),
        ("year",),
        _year_codes,
    ),
    "result": MetadataField(("black", "white", "draw", _UNKNOWN), ("winner",), _result_codes),
    "ending": MetadataField(
        (
            "resign", "time", "forfeit", "void", _UNKNOWN,
            "score", *(f"score up to {margin}" for margin in _MARGINS), f"score over {_MARGINS[-1]}",
        ),
        ("ending", "margin"),
        _ending_codes,
    ),
}  # fmt: skip
"""The fields of a prefix by name, in their order. Released values never change."""

DEFAULT_METADATA = ("rules", "komi", "black_rank", "white_rank", "result")


PASS, PADDING, BEGIN, END, BLACK_STONE, WHITE_STONE, EMPTY_POINT, BLACK_TO_PLAY, WHITE_TO_PLAY = range(9)
"""Tokens after those of the points of the board."""

_SPECIAL = (
    "pass", "padding", "begin", "end", "black stone", "white stone", "empty point", "black to play", "white to play",
)  # fmt: skip

Tokens = npt.NDArray[np.uint16]


class TokenGame(NamedTuple):
    """A game decoded from tokens, as in the catalogue's columns. metadata: the values of the prefix by field."""

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

    def fits(self, rows: pa.RecordBatch) -> Bools:
        """Return whether the board of each row of the catalogue is one of the tokenizer's, [G] bool."""
        width, height = to_numpy(rows["width"]), to_numpy(rows["height"])
        fits: Bools = (width == self.width) & (height == self.height)
        if self.pad:
            fits |= (width == height) & (width > 0) & (width <= min(self.width, self.height))
        return fits

    def encode(self, rows: pa.RecordBatch, chosen: Indices) -> tuple[Tokens, Indices]:
        """Return the tokens of games, up to their first illegal move.

        Raises FormatError if a row contradicts itself.

        Returns:
            tokens: [T] uint16 of all games, one after another.
            ends: [G] int64, the end of each game in `tokens`.
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

    def decode(self, tokens: Sequence[int] | Array) -> TokenGame:
        """Return the game of a sequence that begins with "begin". What follows "end" is ignored.

        Raises FormatError if the sequence is not a game. Whether its moves are legal is not checked.
        """
        words = np.clip(np.asarray(tokens, np.int64), -1, 65535).astype(np.uint16)  # -1 becomes 65535, no token either
        offsets = np.array([0, len(words)])
        games = self.decode_games(words, offsets)
        codes = self._prefix_codes(words, offsets)[0].tolist()
        metadata = {name: METADATA[name].values[code] for name, code in zip(self.fields, codes)}
        width, height = int(games.width[0]), int(games.height[0])
        return TokenGame(metadata, width, height, games.setup, games.setup_ply, games.moves)

    def decode_games(self, tokens: Tokens, offsets: Indices) -> GameArrays:
        """Return the games of G sequences, see `decode`. Game g is tokens[offsets[g]:offsets[g + 1]]."""
        count, codes = len(offsets) - 1, self._prefix_codes(tokens, offsets)
        size = codes[:, 0] + 1 if self.pad else np.full(count, MAX_SIZE + 1)
        width, height = (np.where(size <= MAX_SIZE, size, side).astype(np.uint8) for side in (self.width, self.height))
        if (too_large := (width > self.width) | (height > self.height)).any():
            board = METADATA["board"].values[codes[np.argmax(too_large), 0]]
            raise FormatError(f"board must be at most {self.width}x{self.height}, got {board}")
        moves, setup, setup_ply = (np.empty(len(tokens), np.uint16) for _ in range(3))
        move_offset, setup_offset = np.zeros(count + 1, np.int64), np.zeros(count + 1, np.int64)
        bad = _read_tokens(
            tokens, offsets, 1 + len(self.fields), self.width, self.points, width, height, moves, move_offset, setup,
            setup_ply, setup_offset,
        )  # fmt: skip
        if bad >= 0:
            game = int(np.searchsorted(offsets, bad, "right")) - 1
            raise FormatError(f"token {bad - offsets[game]} of game {game} is misplaced: {self._name(tokens[bad])}")
        setup, setup_ply = setup[: setup_offset[-1]], setup_ply[: setup_offset[-1]]
        number, zero = np.arange(count, dtype=np.int32), np.zeros(count, np.int64)
        return GameArrays(
            width, height, moves[: move_offset[-1]], move_offset, setup, setup_ply, setup_offset,
            root_setup=zero.astype(np.uint16), to_play=zero.astype(np.uint8),
            handicap=np.full(count, NO_HANDICAP, np.int16), warnings=zero.astype(np.uint32), drop=zero.astype(np.uint8),
            member=number, block_index=number, start=zero, stop=zero,
        )  # fmt: skip

    def _prefix_codes(self, tokens: Tokens, offsets: Indices) -> Indices:
        """Return the index of the value of each field, [G, F]. Raises FormatError."""
        names = ("begin", *self.fields)
        if offsets[0] < 0 or offsets[-1] > len(tokens):
            raise FormatError(f"offsets must be within 0 to {len(tokens)}, got {offsets[0]} to {offsets[-1]}")
        if (short := np.diff(offsets) < len(names)).any():
            game = int(np.argmax(short))
            length = int(offsets[game + 1] - offsets[game])
            raise FormatError(f"game {game} must begin with {len(names)} tokens before its moves, got {length}")
        first = np.array([self.points + BEGIN, *(self.first_tokens[name] for name in self.fields)])
        codes = tokens[offsets[:-1, None] + np.arange(len(names))] - first
        limits = np.array([1, *(len(METADATA[name].values) for name in self.fields)])
        if (wrong := (codes < 0) | (codes >= limits)).any():
            game, k = np.argwhere(wrong)[0].tolist()
            found = self._name(tokens[offsets[game] + k])
            raise FormatError(f"token {k} of game {game} must be {names[k]}, got {found}")
        prefix: Indices = codes[:, 1:]
        return prefix

    def _name(self, token: int) -> str:
        return self.names[token] if token < len(self.names) else str(token)


@kernel
def _write_tokens(  # noqa: PLR0913 - kernel
    chosen: Any, width: Any, height: Any, moves: Any, move_offset: Any, setup: Any, setup_ply: Any, setup_offset: Any,
    plies: Any, prefix: Any, frame_width: Any, frame_points: Any, tokens: Any, ends: Any
) -> None:  # fmt: skip
    """Write the tokens of games; see `Tokenizer.encode`. ends: [K] int64, receives each game's end in `tokens`."""
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


@kernel
def _read_tokens(  # noqa: PLR0913 - kernel
    tokens: Any, offsets: Any, prefix: Any, frame_width: Any, frame_points: Any, width: Any, height: Any, moves: Any,
    move_offset: Any, setup: Any, setup_ply: Any, setup_offset: Any
) -> Any:  # fmt: skip
    """Read the stones and moves of games; see `Tokenizer.decode_games`.

    Args:
        offsets: [G + 1] int64, of games with at least `prefix` tokens.
        width: [G] uint8, of the game's board, which is not larger.
        moves: [T] uint16, receives the moves.
        move_offset: [G + 1] int64, zeros; receives the offsets of the games in `moves`.
        setup: [T] uint16, receives the setup.
        setup_ply: [T] uint16, receives the number of moves before each stone.
        setup_offset: [G + 1] int64, zeros; receives the offsets of the games in `setup`.
    """
    m = s = 0
    for g in range(width.shape[0]):
        at, last = offsets[g] + prefix, offsets[g + 1]
        w, h = np.int64(width[g]), np.int64(height[g])
        first, colour = m, 0
        while at < last:
            token = np.int64(tokens[at])
            kind = token - frame_points
            if kind == END:
                break
            stone = BLACK_STONE <= kind <= EMPTY_POINT
            if stone or BLACK_TO_PLAY <= kind <= WHITE_TO_PLAY:
                if not stone:
                    colour = WHITE_BIT if kind == WHITE_TO_PLAY else 0
                if at + 1 == last:
                    return at
                at += 1
                token = np.int64(tokens[at])
            if token > frame_points or (stone and token == frame_points):
                return at
            point = w * h
            if token < frame_points:
                y, x = token // frame_width, token % frame_width
                if x >= w or y >= h:
                    return at
                point = y * w + x
            if stone:
                setup[s] = point | (ERASE_BIT if kind == EMPTY_POINT else WHITE_BIT if kind == WHITE_STONE else 0)
                setup_ply[s] = min(m - first, 65535)
                s += 1
            else:
                moves[m] = point | colour
                colour ^= WHITE_BIT
                m += 1
            at += 1
        move_offset[g + 1], setup_offset[g + 1] = m, s
    return -1


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
        offsets: [G + 1] int64. Game g is tokens[offsets[g]:offsets[g + 1]].
        games: [G] uint64, the `id` of each game in the catalogue.
    """

    tokenizer: Tokenizer
    tokens: Tokens
    offsets: Indices
    games: Hashes

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
    """B rows of L tokens, [B, L] uint16.

    Attributes:
        positions: [B, L] int32, index of each token in its game, from 0; 0 for padding.
        segment_ids: [B, L] int32, number of the token's game among those of the row, from 1; 0 for padding.
    """

    tokens: Tokens
    positions: Ints
    segment_ids: Ints


def pack_tokens(data: TokenGames, games: Numbers, length: int, symmetry: Numbers | None = None) -> TokenRows:
    """Cut games, one after another, into rows of one length. Only the last row has padding.

    Raises FormatError if a token is not in the vocabulary, or a game has no board.

    Args:
        symmetry: [K], the symmetry of each game, below 8 (below 4 unless the board is square); see
            `kifu.point.symmetries`.
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

    def rows(values: Array, padding: int) -> Array:
        out = np.full(shape, padding, values.dtype)
        out.reshape(-1)[:total] = values
        return out

    segment = rows(game + 1, 0)
    segment = np.where(segment > 0, segment - segment[:, :1] + 1, 0)
    return TokenRows(rows(tokens, tokenizer.padding), rows(position.astype(np.int32), 0), segment)


class TokenWriter(ExitStack):
    """Writes a tokens@1 directory, which appears under its name when `commit` returns. A context manager."""

    def __init__(self, path: Path, tokenizer: Tokenizer) -> None:
        super().__init__()
        self._tokenizer = tokenizer
        self._end = 0
        with ExitStack() as stack:
            self._folder = stack.enter_context(AtomicDirectory(path, TOKENS_INDEX))
            self._files = [ArrayFile(self._folder, name, dtype, (), 0) for name, dtype in _COLUMNS.items()]
            for file in self._files:
                stack.callback(file.discard)
            self._files[1].append(np.zeros(1, np.int64))
            self.push(stack.pop_all())

    def append(self, tokens: Tokens, ends: Indices, games: Hashes) -> None:
        """Append games: the result of `Tokenizer.encode`, and the id of each game. Raises OutputError."""
        columns: tuple[Array, ...] = (tokens, ends + self._end, games)
        for file, values in zip(self._files, columns):
            file.append(values)
        self._end += len(tokens)

    def commit(self, about: Mapping[str, Any]) -> WriteReport:
        """Finish the directory, with metadata as JSON values, and give it its name; reported examples are games."""
        written, games = tuple(file.commit() for file in self._files), self._files[2].rows
        tokenizer = self._tokenizer
        index = {name: getattr(tokenizer, name) for name in ("width", "height", "pad")}
        names = {"metadata": tokenizer.fields, "vocabulary": tokenizer.names, "about": dict(about)}
        self._folder.commit({"format": FORMAT, "games": games, "tokens": self._end, **index, **names})
        return WriteReport(games, written)


def is_tokens(path: Path) -> bool:
    """Return whether a directory has the index of tokens@1."""
    return path.joinpath(TOKENS_INDEX).is_file()


def open_tokens(path: str | os.PathLike[str]) -> TokenGames:
    """Map a tokens@1 directory into memory. All but the tokens is checked, and they are if there is a manifest."""
    folder = Path(path)
    index, tokenizer = _read_index(folder)
    rows = (index.tokens, index.games + 1, index.games)
    checks = block_checks(folder)
    tokens, offsets, games = (
        _map(folder / name, dtype, count, checks[name]) for (name, dtype), count in zip(_COLUMNS.items(), rows)
    )
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


def _map(path: Path, dtype: np.dtype[Any], rows: int, checks: BlockChecks) -> Array:
    with open_array(path, dtype, (rows,)) as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    checks.check(lambda size, at: memoryview(mapped)[at : at + size], 0, len(mapped))
    return np.frombuffer(mapped, dtype, offset=HEADER_BYTES)
