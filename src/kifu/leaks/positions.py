"""Position hashes that are invariant under the symmetries of the board and under swapping the colours.

`position@1` is defined here and never changes. A position is the stones on the board, divided into those of the side
to move ("own") and the other side's; ko, prisoners and earlier moves do not count. With the keys of
`kifu.go.state.zobrist_keys(width * height)` and the symmetries of `kifu.point.symmetries(width, height)`, four of which
map a w x h board to h x w:

    hash under symmetry k = exclusive or of  (256 * width + height) * 0x9E3779B97F4A7C15 modulo 2**64, with the size of
                                             the mapped board,
                                             keys[0, symmetries[k, p]] for each own stone p,
                                             keys[1, symmetries[k, p]] for each other stone p
    hash                  = the minimum of the eight
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kifu.corpus.hashes import Hashes
from kifu.errors import DropReason
from kifu.go.replay import GameMoves, ReplayArrays, game_moves, replay_arrays, replay_game
from kifu.go.rules import RECORD_RULES, History, new_history
from kifu.go.state import EMPTY, LAST_CAPTURED, LAST_POINT, State, bit, new_state, popcount, symmetry_keys
from kifu.kernel import inline_kernel, kernel
from kifu.planes.packing import DAT2, Records
from kifu.point import MAX_SIZE
from kifu.records.games import GameArrays

_POINTS = 361
_WORDS = 6
ZERO = np.uint64(0)
ONE = np.uint64(1)


class _Workspace(NamedTuple):
    """Scratch memory of one thread for positions of one board size.

    Attributes:
        keys: [2, n, 8] uint64, the key of an own (0) or other (1) stone on each point under each symmetry.
        empty: [8] uint64, the hashes of the empty board.
        hashes: [2, 8] uint64, the hashes of the current position with Black (0) or White (1) to move.
        hashed: [n] uint8, the colours on the board that `hashes` are of.
        n_stones: [1] int64, the number of stones on it.
        words: [2, 6] uint64, own and other stones of a record as bit sets of the board.
    """

    keys: npt.NDArray[np.uint64]
    empty: npt.NDArray[np.uint64]
    hashes: npt.NDArray[np.uint64]
    hashed: npt.NDArray[np.uint8]
    n_stones: npt.NDArray[np.int64]
    words: npt.NDArray[np.uint64]


def _new_workspace(width: int, height: int) -> _Workspace:
    n = width * height
    keys, empty = symmetry_keys(width, height)
    return _Workspace(
        keys=keys,
        empty=empty,
        hashes=np.empty((2, 8), np.uint64),
        hashed=np.empty(n, np.uint8),
        n_stones=np.zeros(1, np.int64),
        words=np.empty((2, _WORDS), np.uint64),
    )


@inline_kernel
def _clear(ws: _Workspace) -> None:
    """Start from the empty board."""
    for k in range(8):
        ws.hashes[0, k] = ws.empty[k]
        ws.hashes[1, k] = ws.empty[k]
    for p in range(ws.hashed.shape[0]):
        ws.hashed[p] = EMPTY
    ws.n_stones[0] = 0


@inline_kernel
def _toggle(ws: _Workspace, p: Any, c: Any) -> None:
    """Add a stone of colour c at point p, or remove it."""
    own, other = np.int64(c) - 1, 2 - np.int64(c)
    for k in range(8):
        ws.hashes[0, k] ^= ws.keys[own, p, k]
        ws.hashes[1, k] ^= ws.keys[other, p, k]


@inline_kernel
def _update(s: State, ws: _Workspace) -> Any:
    """Update the hashes to the board s, whatever has changed. Returns the change in the number of stones."""
    more = 0
    for p in range(ws.hashed.shape[0]):
        if s.colour[p] != ws.hashed[p]:
            if ws.hashed[p] != EMPTY:
                _toggle(ws, p, ws.hashed[p])
                more -= 1
            if s.colour[p] != EMPTY:
                _toggle(ws, p, s.colour[p])
                more += 1
            ws.hashed[p] = s.colour[p]
    return more


@inline_kernel
def _lowest(hashes: Any) -> Any:
    low = hashes[0]
    for k in range(1, 8):
        low = min(low, hashes[k])
    return low


class _HashContext(NamedTuple):
    """The context of a replay.

    Attributes:
        hashes: [T] uint64, receives the hash before each move of the game.
        stones: [T] uint16, receives the number of stones before each move.
    """

    workspace: _Workspace
    hashes: npt.NDArray[np.uint64]
    stones: npt.NDArray[np.uint16]


@inline_kernel
def _hash_setup(context: _HashContext, s: State, game: GameMoves, first: Any, last: Any) -> None:
    context.workspace.n_stones[0] += _update(s, context.workspace)


@inline_kernel
def _store_hash(context: _HashContext, s: State, game: GameMoves, t: Any, p: Any, c: Any) -> None:
    context.hashes[t] = _lowest(context.workspace.hashes[c - 1])
    context.stones[t] = context.workspace.n_stones[0]


@inline_kernel
def _hash_stone(context: _HashContext, s: State, game: GameMoves, t: Any, p: Any, c: Any) -> None:
    ws = context.workspace
    if s.scalars[LAST_CAPTURED] == 0 and s.scalars[LAST_POINT] >= 0:
        _toggle(ws, p, c)
        ws.hashed[p] = c
        ws.n_stones[0] += 1
    else:
        ws.n_stones[0] += _update(s, ws)


@kernel
def _hash_games(  # noqa: PLR0913 - kernel
    s: State, history: History, ws: _Workspace, games: ReplayArrays, game_index: Any, rules: Any, hashes: Any,
    stones: Any, played: Any,
) -> None:  # fmt: skip
    """Fill, for games of the size of s, the hashes [M] uint64 and numbers of stones [M] uint16 before each move.

    played [G] int64 receives the number of possible moves of each game; entries of later moves are undefined.
    """
    for i in range(game_index.shape[0]):
        g = game_index[i]
        game = game_moves(games, g)
        first, last = games.move_offset[g], games.move_offset[g + 1]
        _clear(ws)
        context = _HashContext(ws, hashes[first:last], stones[first:last])
        _, played[g] = replay_game(
            s, history, game, last - first, rules, _hash_setup, _store_hash, _hash_stone, context
        )


@inline_kernel
def _record_hash(ws: _Workspace) -> Any:
    """Return the hash and the number of stones of the position in `words`."""
    for k in range(8):
        ws.hashes[0, k] = ws.empty[k]
    count = 0
    for side in range(2):
        for w in range(_WORDS):
            word = ws.words[side, w]
            while word != ZERO:
                low = word & (~word + ONE)
                word ^= low
                p = 64 * w + 63 - popcount(low - ONE)
                count += 1
                for k in range(8):
                    ws.hashes[0, k] ^= ws.keys[side, p, k]
    return _lowest(ws.hashes[0]), count


@inline_kernel
def _word_at(data: Any, i: Any) -> Any:
    """Return 64 bits of a row of bytes from bit i on; bit 0 is the highest bit of byte 0."""
    at, shift = i >> 3, np.uint64(i & 7)
    word = ZERO
    for k in range(8):
        word = word << np.uint64(8) | np.uint64(data[at + k])
    return word << shift | np.uint64(data[at + 8]) >> (np.uint64(8) - shift)


@kernel
def _hash_dat1(ws: _Workspace, data: Any, hashes: Any, stones: Any) -> None:
    """Fill hashes [n] uint64 and stones [n] uint16 of dat1 records, data [n, 365] uint8."""
    for row in range(data.shape[0]):
        for w in range(_WORDS):
            own, other = ZERO, ZERO
            for p in range(64 * w, min(64 * w + 64, _POINTS)):
                point = data[row, 4 + p]
                if point & 7:
                    own |= bit(p)
                elif point & 56:
                    other |= bit(p)
            ws.words[0, w], ws.words[1, w] = own, other
        hashes[row], stones[row] = _record_hash(ws)


@kernel
def _hash_dat2(ws: _Workspace, data: Any, hashes: Any, stones: Any) -> None:
    """Fill hashes [n] uint64 and stones [n] uint16 of dat2 records, data [n, 322] uint8."""
    for row in range(data.shape[0]):
        bits = data[row, 6:]
        for w in range(_WORDS):
            seen = ZERO
            for side in range(2):
                word = ZERO
                for plane in range(3 * side, 3 * side + 3):
                    word |= _word_at(bits, _POINTS * plane + 64 * w)
                if w == _WORDS - 1:
                    word &= ~ZERO << np.uint64(64 * _WORDS - _POINTS)
                ws.words[side, w] = word & ~seen
                seen = word
        hashes[row], stones[row] = _record_hash(ws)


@kernel
def _hash_stones(ws: _Workspace, sides: Any, hashes: Any, stones: Any) -> None:
    """Fill hashes [n] uint64 and stones [n] uint16 of boards, sides [n, points] uint8: 1 own stones, 2 others."""
    for row in range(sides.shape[0]):
        for k in range(8):
            ws.hashes[0, k] = ws.empty[k]
        count = 0
        for p in range(sides.shape[1]):
            side = sides[row, p]
            if side != 0:
                count += 1
                for k in range(8):
                    ws.hashes[0, k] ^= ws.keys[side - 1, p, k]
        hashes[row], stones[row] = _lowest(ws.hashes[0]), count


@dataclass(frozen=True, slots=True)
class PositionHashes:
    """The hashes of N positions.

    Attributes:
        hashes: [N] uint64.
        stones: [N] uint16, the number of stones on the board.
        game: [N] int32, the number of the game, or -1 if unknown.
    """

    hashes: Hashes
    stones: npt.NDArray[np.uint16]
    game: npt.NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.hashes)

    def select(self, mask: npt.NDArray[np.bool_]) -> PositionHashes:
        """Return the positions where `mask` [N] is true."""
        return PositionHashes(self.hashes[mask], self.stones[mask], self.game[mask])


def hash_positions(games: GameArrays) -> PositionHashes:
    """Hash the position before each move of the kept games; passes are moves too.

    A game ends before its first move or setup stone that no rules allow (`RECORD_RULES`). `PositionHashes.game` is the
    index in `games`.
    """
    hashes, stones = np.empty(len(games.moves), np.uint64), np.empty(len(games.moves), np.uint16)
    played = np.zeros(len(games), np.int64)
    size = games.width.astype(np.int64) * 256 + games.height
    kept = games.drop == DropReason.KEPT
    for key in np.unique(size[kept]):
        width, height = divmod(int(key), 256)
        if 1 <= width <= MAX_SIZE and 1 <= height <= MAX_SIZE:
            rows = np.flatnonzero(kept & (size == key))
            _hash_games(
                new_state(width, height), new_history(0), _new_workspace(width, height), replay_arrays(games), rows,
                RECORD_RULES.codes, hashes, stones, played,
            )  # fmt: skip
    moves = np.diff(games.move_offset)
    game = np.repeat(np.arange(len(games), dtype=np.int32), moves)
    ply = np.arange(len(game)) - np.repeat(games.move_offset[:-1], moves)
    return PositionHashes(hashes, stones, game).select(ply < played[game])


def hash_records(records: Records) -> tuple[Hashes, npt.NDArray[np.uint16]]:
    """Hash the positions of dat1 or dat2 records [n].

    Own stones are those in planes 0 to 2, other stones those in planes 3 to 5; a point in both is own.

    Returns:
        hashes [n] uint64 and stones [n] uint16.
    """
    hashes, stones = np.empty(len(records), np.uint64), np.empty(len(records), np.uint16)
    data = records.view(np.uint8).reshape(len(records), records.dtype.itemsize)
    (_hash_dat2 if records.dtype == DAT2 else _hash_dat1)(_new_workspace(19, 19), data, hashes, stones)
    return hashes, stones


def hash_boards(own: npt.NDArray[np.bool_], other: npt.NDArray[np.bool_]) -> tuple[Hashes, npt.NDArray[np.uint16]]:
    """Hash positions by their stones, [n, H, W] each; a point in both is own.

    Returns:
        hashes [n] uint64 and stones [n] uint16.
    """
    n, height, width = own.shape
    hashes, stones = np.empty(n, np.uint64), np.empty(n, np.uint16)
    sides = np.where(own, np.uint8(1), other.astype(np.uint8) << 1).reshape(n, height * width)
    _hash_stones(_new_workspace(width, height), sides, hashes, stones)
    return hashes, stones
