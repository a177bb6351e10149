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

from kifu.arrays import Hashes
from kifu.corpus.hashes import lowest
from kifu.errors import DropReason
from kifu.go.replay import GameMoves, ReplayArrays, game_moves, replay_arrays, replay_game
from kifu.go.rules import RECORD_RULES, History, new_history
from kifu.go.state import EMPTY, LAST_CAPTURED, LAST_POINT, State, new_state, symmetry_keys
from kifu.kernel import inline_kernel, kernel
from kifu.point import MAX_SIZE
from kifu.records.games import GameArrays


class Workspace(NamedTuple):
    """Scratch memory of one thread for positions of one board size.

    Attributes:
        keys: [2, n, 8] uint64, the key of an own (0) or other (1) stone on each point under each symmetry.
        empty: [8] uint64, the hashes of the empty board.
        hashes: [2, 8] uint64, the hashes of the current position with Black (0) or White (1) to move.
        hashed: [n] uint8, the colours on the board that `hashes` are of.
        n_stones: [1] int64, the number of stones on it.
    """

    keys: npt.NDArray[np.uint64]
    empty: npt.NDArray[np.uint64]
    hashes: npt.NDArray[np.uint64]
    hashed: npt.NDArray[np.uint8]
    n_stones: npt.NDArray[np.int64]


def new_workspace(width: int, height: int) -> Workspace:
    """Return scratch memory for boards of this size."""
    n = width * height
    keys, empty = symmetry_keys(width, height)
    return Workspace(
        keys=keys, empty=empty, hashes=np.empty((2, 8), np.uint64), hashed=np.empty(n, np.uint8),
        n_stones=np.zeros(1, np.int64),
    )  # fmt: skip


@inline_kernel
def clear_hashes(ws: Workspace) -> None:
    """Start from the empty board."""
    for k in range(8):
        ws.hashes[0, k] = ws.empty[k]
        ws.hashes[1, k] = ws.empty[k]
    for p in range(ws.hashed.shape[0]):
        ws.hashed[p] = EMPTY
    ws.n_stones[0] = 0


@inline_kernel
def _toggle(ws: Workspace, p: Any, c: Any) -> None:
    own, other = np.int64(c) - 1, 2 - np.int64(c)
    for k in range(8):
        ws.hashes[0, k] ^= ws.keys[own, p, k]
        ws.hashes[1, k] ^= ws.keys[other, p, k]


@inline_kernel
def _track_board(ws: Workspace, s: State) -> None:
    """Update the hashes to the board s, whatever has changed."""
    for p in range(ws.hashed.shape[0]):
        if s.colour[p] != ws.hashed[p]:
            if ws.hashed[p] != EMPTY:
                _toggle(ws, p, ws.hashed[p])
                ws.n_stones[0] -= 1
            if s.colour[p] != EMPTY:
                _toggle(ws, p, s.colour[p])
                ws.n_stones[0] += 1
            ws.hashed[p] = s.colour[p]


@inline_kernel
def track_setup(context: Any, s: State, game: GameMoves, first: Any, last: Any) -> None:
    """Update the hashes of `context.workspace`; an `on_setup` for `replay_game`."""
    _track_board(context.workspace, s)


@inline_kernel
def track_stone(context: Any, s: State, game: GameMoves, t: Any, p: Any, c: Any) -> None:
    """Update the hashes of `context.workspace`; an `after_stone` for `replay_game`."""
    ws = context.workspace
    if s.scalars[LAST_CAPTURED] == 0 and s.scalars[LAST_POINT] >= 0:
        _toggle(ws, p, c)
        ws.hashed[p] = c
        ws.n_stones[0] += 1
    else:
        _track_board(ws, s)


class _HashContext(NamedTuple):
    """The context of a replay; hashes [T] uint64 and stones [T] uint16 receive those before each move."""

    workspace: Workspace
    hashes: npt.NDArray[np.uint64]
    stones: npt.NDArray[np.uint16]


@inline_kernel
def _store_hash(context: _HashContext, s: State, game: GameMoves, t: Any, p: Any, c: Any) -> None:
    context.hashes[t] = lowest(context.workspace.hashes[c - 1])
    context.stones[t] = context.workspace.n_stones[0]


@kernel
def _hash_games(  # noqa: PLR0913 - kernel
    s: State, history: History, ws: Workspace, games: ReplayArrays, game_index: Any, rules: Any, hashes: Any,
    stones: Any, played: Any,
) -> None:  # fmt: skip
    """Fill, for games of the size of s, the hashes [M] uint64 and numbers of stones [M] uint16 before each move.

    played [G] int64 receives the number of possible moves of each game; entries of later moves are undefined.
    """
    for i in range(game_index.shape[0]):
        g = game_index[i]
        game = game_moves(games, g)
        first, last = games.move_offset[g], games.move_offset[g + 1]
        clear_hashes(ws)
        context = _HashContext(ws, hashes[first:last], stones[first:last])
        _, played[g] = replay_game(
            s, history, game, last - first, rules, track_setup, _store_hash, track_stone, context
        )


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
                new_state(width, height), new_history(0), new_workspace(width, height), replay_arrays(games), rows,
                RECORD_RULES.codes, hashes, stones, played,
            )  # fmt: skip
    moves = np.diff(games.move_offset)
    game = np.repeat(np.arange(len(games), dtype=np.int32), moves)
    ply = np.arange(len(game)) - np.repeat(games.move_offset[:-1], moves)
    return PositionHashes(hashes, stones, game).select(ply < played[game])
