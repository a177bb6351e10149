"""The loader of sequences: shuffled, augmented and resumable batches of tokens, packed to one length.

An epoch is all games in shuffled order, one after another. Packed rows cut this stream of tokens into pieces of one
length; rows of packing "game" hold one game each. The rows are divided among the ranks, and batches are consecutive
rows. Everything follows from the games, the options, the seed and the epoch number.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
from blake3 import blake3

from kifu.config import parse_board
from kifu.datasets.epoch_plan import DEFAULT_CONFIG, LoaderConfig
from kifu.datasets.order import SYMMETRY, UNIT_ORDER, hash_key, hash_numbers, permutation
from kifu.datasets.token_metadata import DEFAULT_METADATA
from kifu.datasets.token_sources import join_tokens, read_tokens
from kifu.datasets.tokenizer import Tokenizer, Tokens
from kifu.datasets.tokens import TokenGames, is_tokens
from kifu.errors import FormatError, RecipeError
from kifu.kernel import kernel
from kifu.records.paths import Paths, as_list, as_path
from kifu.registry import check_choice

Packing = Literal["packed", "game"]

_STATE_VERSION = 1
"""Version of the dictionaries of `TokenLoader.state_dict`."""


@dataclass(frozen=True, slots=True)
class TokenBatch:
    """B rows of L tokens.

    Attributes:
        tokens: [B, L] uint16.
        positions: [B, L] int32, index of each token in its game, from 0; 0 for padding.
        segment_ids: [B, L] int32, number of the token's game among those of the row, from 1; 0 for padding. Tokens
            belong to the same game if theirs are equal.
        lengths: [B] int32, number of tokens of each row without padding.
        game: [B] uint64, `id` in the catalogue of each row's first game.
    """

    tokens: Tokens
    positions: npt.NDArray[np.int32]
    segment_ids: npt.NDArray[np.int32]
    lengths: npt.NDArray[np.int32]
    game: npt.NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.tokens)


@dataclass(frozen=True, slots=True)
class _Epoch:
    """The games of an epoch.

    Attributes:
        order: [G] int32, the games in order.
        ends: [G + 1] int64, where the tokens of each begin in the stream.
        symmetry: [G] uint8, symmetry of each game, by its number.
    """

    number: int
    order: npt.NDArray[np.int32]
    ends: npt.NDArray[np.int64]
    symmetry: npt.NDArray[np.uint8]


class TokenLoader:
    """Batches of tokens, epoch after epoch; `kifu.load_tokens` returns one.

    Iterating yields one epoch of `TokenBatch`, and the next loop yields the next epoch in another order. If a loop ends
    early, the next loop starts the epoch again; `state_dict` returns where it stopped.
    """

    def __init__(self, data: TokenGames, length: int, batch_size: int, packing: Packing, config: LoaderConfig) -> None:
        """Make a loader at the start of epoch 0.

        Args:
            packing: See `load_tokens`.
            config: Seed, shuffling, augmentation and ranks; the other options have no effect.

        Raises:
            RecipeError: An option is invalid.
        """
        for name, value in (("length", length), ("batch_size", batch_size)):
            if value < 1:
                raise RecipeError(f"{name} must be >= 1, got {value}")
        check_choice("packing", packing, get_args(Packing))
        if config.order != DEFAULT_CONFIG.order:
            raise RecipeError(f"order of tokens must be {DEFAULT_CONFIG.order!r}, got {config.order!r}")
        self._data, self._config = data, config
        self._length, self._batch_size, self._packing = length, batch_size, packing
        self._start = self._current = (0, 0)
        self._epoch: _Epoch | None = None

    def __repr__(self) -> str:
        return (
            f"<TokenLoader: {len(self._data):,} games, {len(self._data.tokens):,} tokens, batches of "
            f"{self._batch_size:,} x {self._length:,}, epoch {self._start[0]}, batch {self._start[1]}>"
        )

    @property
    def tokenizer(self) -> Tokenizer:
        """The vocabulary, and the conversion of tokens to games."""
        return self._data.tokenizer

    @property
    def epoch_number(self) -> int:
        """The epoch of the next loop."""
        return self._start[0]

    def __len__(self) -> int:
        """Return the number of batches of a whole epoch that this rank delivers."""
        low, high = self._share()
        return -(-(high - low) // self._batch_size)

    def __iter__(self) -> Generator[TokenBatch]:
        number, first = self._current = self._start
        epoch, (low, high) = self._plan(number), self._share()
        for k in range(first, len(self)):
            start = low + k * self._batch_size
            self._current = (number, k + 1)
            yield self._batch(epoch, start, min(start + self._batch_size, high))
        self._start = self._current = (number + 1, 0)

    def set_epoch(self, epoch: int) -> None:
        """Start the next loop at the beginning of an epoch. Raises RecipeError for negative numbers."""
        _check_count("epoch", epoch)
        self._start = self._current = (epoch, 0)

    def state_dict(self) -> dict[str, Any]:
        """Return where the last loop stands, as JSON values for `load_state_dict`; it is the same for all ranks."""
        return {"version": _STATE_VERSION, "epoch": self._current[0], "batch": self._current[1], "of": self._identity}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where a loader of the same games and options stood.

        Args:
            state: The result of `state_dict`, of any rank.

        Raises:
            RecipeError: The state is of other games, or of other options.
        """
        try:
            version, epoch, batch, of = (state[key] for key in ("version", "epoch", "batch", "of"))
            if version != _STATE_VERSION:
                raise RecipeError(f"state version {version!r} is not supported, only version {_STATE_VERSION}")
            for key, value in self._identity.items():
                if of[key] != value:
                    raise RecipeError(f"the state is of another loader: {key} was {of[key]!r}, and is {value!r}")
        except (KeyError, TypeError):
            raise RecipeError(f"not a state of a loader of tokens: {str(state)[:80]}") from None
        _check_count("epoch", epoch)
        _check_count("batch", batch)
        self._start = self._current = (epoch, batch)

    @cached_property
    def _identity(self) -> dict[str, Any]:
        """The games and options that determine the batches, as JSON values."""
        config, data = self._config, self._data
        return {
            "seed": config.seed,
            "shuffle": config.shuffle is not None,
            "augment": config.augment,
            "drop_last": config.drop_last,
            "world_size": config.world_size,
            "length": self._length,
            "batch_size": self._batch_size,
            "packing": self._packing,
            "tokens": len(data.tokens),
            "games": blake3(data.games.view(np.uint8).data).update(data.offsets.view(np.uint8).data).hexdigest(),
        }

    @property
    def _rows(self) -> int:
        """The number of rows of an epoch, of all ranks."""
        return len(self._data) if self._packing == "game" else -(-len(self._data.tokens) // self._length)

    def _share(self) -> tuple[int, int]:
        """Return the first row of this rank, and the one after its last."""
        config, rows = self._config, self._rows
        low, high = (rows * rank // config.world_size for rank in (config.rank, config.rank + 1))
        if config.drop_last:
            high = low + rows // config.world_size // self._batch_size * self._batch_size
        return low, high

    def _plan(self, number: int) -> _Epoch:
        """Return the games of an epoch, which are kept for the next call."""
        if self._epoch is None or self._epoch.number != number:
            self._epoch = None  # frees the memory of the previous epoch
            config, data, games = self._config, self._data, len(self._data)
            order = np.arange(games, dtype=np.int32)
            if config.shuffle is not None:
                order = permutation(hash_key(config.seed, number, UNIT_ORDER), games)
            ends = np.zeros(games + 1, np.int64)
            np.cumsum(np.diff(data.offsets)[order], out=ends[1:])
            symmetry = np.zeros(games, np.uint8)
            if config.augment:
                bits = 3 if self.tokenizer.width == self.tokenizer.height else 2
                hashes = hash_numbers(np.arange(games), hash_key(config.seed, number, SYMMETRY))
                symmetry = (hashes >> np.uint64(64 - bits)).astype(np.uint8)
            self._epoch = _Epoch(number, order, ends, symmetry)
        return self._epoch

    def _batch(self, epoch: _Epoch, start: int, stop: int) -> TokenBatch:
        """Return rows of an epoch. Raises FormatError for tokens that are not in the vocabulary."""
        data, tokenizer, length = self._data, self.tokenizer, self._length
        if self._packing == "game":
            first, last = epoch.ends[start:stop], epoch.ends[start + 1 : stop + 1]
            last = np.minimum(last, first + length)
        else:
            first = np.arange(start, stop) * length
            last = np.minimum(first + length, epoch.ends[-1])
        tokens = np.empty((len(first), length), np.uint16)
        positions, segment_ids = (np.empty((len(first), length), np.int32) for _ in range(2))
        lengths, games = np.empty(len(first), np.int32), np.empty(len(first), np.int64)
        bad = _fill_rows(
            data.tokens, data.offsets, epoch.order, epoch.ends, epoch.symmetry, tokenizer.symmetry_tables,
            tokenizer.first_tokens["board"] if tokenizer.pad else -1, tokenizer.padding, first, last,
            tokens, positions, segment_ids, lengths, games,
        )  # fmt: skip
        if bad >= 0:
            raise FormatError(f"game {bad} of the tokens has a token that is not in the vocabulary, or no board")
        return TokenBatch(tokens, positions, segment_ids, lengths, data.games[games])


@kernel
def _fill_rows(  # noqa: PLR0913 - kernel
    tokens: Any, offsets: Any, order: Any, ends: Any, symmetry: Any, tables: Any, first_board: Any, padding: Any,
    first: Any, last: Any, out: Any, positions: Any, segment_ids: Any, lengths: Any, games: Any,
) -> Any:  # fmt: skip
    """Fill rows of tokens.

    Args:
        tokens: [T] uint16, of games with at least two tokens.
        offsets: [G + 1] int64, of the games.
        order: [G] int32, the games in the order of the stream.
        ends: [G + 1] int64, where each begins in the stream.
        symmetry: [G] uint8, by game.
        tables: [8 * S, V] uint16, see `Tokenizer.symmetry_tables`.
        first: [B] int64, where each row begins in the stream.
        last: [B] int64, where it ends.
        out: [B, L] uint16, receives the tokens.
        positions: [B, L] int32, receives the index in the game.
        segment_ids: [B, L] int32, receives the number of the game in the row, from 1.
        lengths: [B] int32, receives the number of tokens without padding.
        games: [B] int64, receives the first game of each row.
    """
    for b in range(first.shape[0]):
        low, high = 0, order.shape[0]  # the game with the first token: the last u with ends[u] <= first[b]
        while low + 1 < high:
            middle = (low + high) // 2
            if ends[middle] <= first[b]:
                low = middle
            else:
                high = middle
        u, at, segment = low, 0, 0
        games[b] = order[u]
        stream = first[b]
        while stream < last[b]:
            g = order[u]
            position, start = stream - ends[u], offsets[g] + stream - ends[u]
            row = np.int64(symmetry[g])
            if first_board >= 0:
                row += 8 * (np.int64(tokens[offsets[g] + 1]) - first_board)
                if row < 0 or row >= tables.shape[0]:
                    return g
            to = tables[row]
            count = min(ends[u + 1], last[b]) - stream
            segment += 1
            for i in range(count):
                token = np.int64(tokens[start + i])
                if token >= to.shape[0]:
                    return g
                out[b, at + i] = to[token]
                positions[b, at + i] = position + i
                segment_ids[b, at + i] = segment
            at += count
            stream += count
            u += 1
        lengths[b] = at
        for i in range(at, out.shape[1]):
            out[b, i] = padding
            positions[b, i] = 0
            segment_ids[b, i] = 0
    return -1


def _check_count(name: str, value: Any) -> None:
    if not isinstance(value, int) or value < 0:
        raise RecipeError(f"{name} must be an integer >= 0, got {value!r}")


def load_tokens(
    sources: Paths,
    length: int = 512,
    *,
    batch_size: int = 64,
    packing: Packing = "packed",
    board: str | None = None,
    pad: bool | None = None,
    metadata: tuple[str, ...] | None = None,
    config: LoaderConfig = DEFAULT_CONFIG,
) -> TokenLoader:
    """Return a loader of batches of tokens from data sets of tokens, or from catalogues, archives and records.

    A data set of tokens is mapped into memory. Several ones, and games, are first written to an unnamed temporary file,
    at two bytes a token.

    Args:
        sources: Directories that `kifu build tokens` has written, all with the same board and metadata; or games, as
            `kifu.load` takes them.
        batch_size: Rows of a batch; the last batch of an epoch may have fewer.
        packing: "packed" cuts the games of an epoch, one after another, into rows, so that each token is delivered once
            and only the last row has padding; "game" delivers one game a row, cut or padded to the length.
        board: Of games: size of the board, by default "19x19"; games on other boards are skipped.
        pad: Of games: include smaller square boards, in the upper left corner.
        metadata: Of games: fields of the prefix, see docs/formats/tokens.md.
        config: `seed`, `shuffle` (None keeps the order of the source), `augment`, `drop_last`, `rank` and `world_size`
            apply; `jobs` only to reading games.

    Returns:
        A loader at the start of epoch 0.

    Raises:
        RecipeError: An option is invalid, or the data sets differ.
        SourceError: A source cannot be read, or has no game on such a board.
        FormatError: A catalogue or data set is damaged.
        OutputError: There is no disk space for the games.
    """
    paths = as_list(sources)
    locations = [as_path(path) for path in paths]
    sets = [path for path in locations if isinstance(path, Path) and is_tokens(path)]
    if len(sets) < len(paths):
        if sets:
            other = next(path for path in locations if path not in sets)
            raise RecipeError(f"{other} is not a data set of tokens, but {sets[0]} is")
        tokenizer = Tokenizer(*parse_board(board or "19x19"), bool(pad), metadata or DEFAULT_METADATA)
        return TokenLoader(read_tokens(paths, tokenizer, config.jobs), length, batch_size, packing, config)
    if (board, pad, metadata) != (None, None, None):
        raise RecipeError(f"board, pad and metadata apply to games only, but {paths[0]} is a data set of tokens")
    return TokenLoader(join_tokens(sets), length, batch_size, packing, config)
