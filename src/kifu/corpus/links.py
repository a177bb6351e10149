"""Links between games: which games of a corpus must not fall on two sides of a split. docs/audit.md lists the rules.

Each game has keys, and games with a key in common are linked. All keys are the same for all symmetries of a game, also
with colours swapped:

    late        each position with at least LATE_STONES stones (`position@1` of `kifu.corpus.positions`)
    final       the position after the last move, with either side to move, equal to any position of another game
    similar     the stones of a game by number, passes left out, in classes: stone i of n is in class
                i % min(8, n * 3 // 20 + 1). Each class, with n, is a key. If fewer stones differ than there are
                classes, one class is equal: 15 % of up to 54 stones, seven of more. So are the classes within stones
                24 to 71, 72 to 119 and so on, without n: of these 48 stones, seven may differ
    opening     the column `opening`, for a split only

Late, similar and opening keys, and final positions with at least BOARD_STONES stones, make clusters. The final position
of a shorter game occurs in others by chance, and in thousands of games if it has few stones; such links are listed and
tie no clusters. Time is linear in the number of moves.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kifu.arrays import Hashes, Indices, MoveArrays
from kifu.corpus.catalogue import open_catalogue
from kifu.corpus.hashes import HashState, begin, hash_setup, lowest, make_hash_state, mix, mix_words, root, step
from kifu.corpus.positions import Workspace, clear_hashes, new_workspace, track_setup, track_stone
from kifu.corpus.schema import PLAYED_COLUMNS, drop_codes, move_arrays, to_numpy
from kifu.errors import DropReason
from kifu.execution.range_sort import Columns, RangeSort
from kifu.go.replay import GameMoves, ReplayArrays, game_moves, replay_arrays, replay_game
from kifu.go.rules import RECORD_RULES, History, new_history
from kifu.go.state import State, new_state
from kifu.kernel import inline_kernel, kernel
from kifu.point import MAX_SIZE, POINT_MASK, WHITE_BIT

Games: TypeAlias = "str | os.PathLike[str] | pa.RecordBatch"
"""A catalogue, or rows of one with its columns `opening` and PLAYED_COLUMNS; without `drop`, none is dropped."""

LATE_STONES = 50
"""Unrelated games share positions with fewer stones."""

BOARD_STONES = 30
"""Final positions with fewer stones tie no clusters."""

MIN_STONES = 20
"""Games with fewer stones are equal, or beginnings of others, by chance. A split keeps even these together."""

ROWS = 1 << 24
"""Keys in memory at a time, at 40 bytes each. The others wait in the temporary directory, at 12 bytes each."""

MAX_HITS = 256
"""Maximum number of games, per set, that are listed as containing the final position of a short game."""

_CLASSES, _WINDOW = 8, 48
_EARLY, _FINAL, _SHORT, _LATE = range(4)
"""The kinds of keys: positions that link to final ones only, final ones with and below BOARD_STONES, and all others."""

_OPENING = np.uint64(0x6F70656E696E67)
_TABLE_ROWS = 1 << 13
_FINAL_WORDS = 1 << 16
_BATCH = 1 << 14


class _LinkKeys(NamedTuple):
    """Keys of some games.

    Attributes:
        key: [N] uint64.
        game: [N] uint32, the row of the game in the corpus, times 4, plus the kind of the key.
        used: [1] int64, the number of keys so far.
        late: The number of stones from which positions are late keys.
        least: The number of stones below which games have no final and no similar keys.
    """

    key: Hashes
    game: npt.NDArray[np.uint32]
    used: Indices
    late: int
    least: int


class _Context(NamedTuple):
    """The context of a replay; row: of the game in the corpus."""

    workspace: Workspace
    keys: _LinkKeys
    row: int


@inline_kernel
def _add(keys: _LinkKeys, key: Any, row: Any, kind: Any) -> None:
    at = keys.used[0]
    keys.key[at] = key
    keys.game[at] = row << 2 | kind
    keys.used[0] = at + 1


@inline_kernel
def _add_position(context: _Context, s: State, game: GameMoves, t: Any, p: Any, c: Any) -> None:
    stones = context.workspace.n_stones[0]
    if stones > 0:
        kind = _LATE if stones >= context.keys.late else _EARLY
        _add(context.keys, mix(lowest(context.workspace.hashes[c - 1])), context.row, kind)


@kernel
def _add_positions(
    s: State, history: History, ws: Workspace, games: ReplayArrays, game_index: Any, rules: Any, first_row: Any,
    keys: _LinkKeys,
) -> None:  # fmt: skip
    for i in range(game_index.shape[0]):
        g = game_index[i]
        game = game_moves(games, g)
        context = _Context(ws, keys, first_row + g)
        clear_hashes(ws)
        why, _ = replay_game(
            s, history, game, game.moves.shape[0], rules, track_setup, _add_position, track_stone, context
        )
        stones = ws.n_stones[0]
        if why == 0 and stones >= keys.least and game.moves.shape[0] > 0:
            kind = _FINAL if stones >= BOARD_STONES else _SHORT
            for colour in range(2):
                _add(keys, mix(lowest(ws.hashes[colour])), first_row + g, kind)


@inline_kernel
def _salted(h: Any, salt: Any) -> Any:
    return mix(lowest(h) ^ mix(np.uint64(salt)))


@kernel
def _add_similar(s: HashState, game_index: Any, first_row: Any, scratch: Any, keys: _LinkKeys) -> None:
    """Add the classes of stones; scratch: [17, 8] uint64."""
    window, whole, board = scratch[:8], scratch[8:16], scratch[16]
    for i in range(game_index.shape[0]):
        g = game_index[i]
        start, stop = s.move_offset[g], s.move_offset[g + 1]
        stones, first_colour = 0, np.int64(0)
        for t in range(start, stop):
            if (s.moves[t] & POINT_MASK) < s.points[g]:
                if stones == 0:
                    first_colour = np.int64(s.moves[t]) & WHITE_BIT
                stones += 1
        if stones < keys.least:
            continue
        begin(s, g)
        hash_setup(s, g, first_colour, s.setup_offset[g], 0xFFFF)
        classes = min(_CLASSES, stones * 3 // 20 + 1)
        for k in range(8):
            board[k] = s.symmetry_hashes[k]
            for each in range(classes):
                window[each, k] = board[k]
                whole[each, k] = board[k]
        done = 0
        for t in range(start, stop):
            p = np.int64(s.moves[t]) & POINT_MASK
            if p >= s.points[g]:
                continue
            colour = (np.int64(s.moves[t]) ^ first_colour) >> 15
            row = s.base[g] + colour * s.points[g] + p
            each = done % classes
            for k in range(8):
                window[each, k] = step(window[each, k], s.table[row, k])
            done += 1
            if done % _WINDOW == _WINDOW // 2 or done == stones:
                if done % _WINDOW == _WINDOW // 2 and done > _WINDOW:
                    for each in range(classes):
                        _add(keys, _salted(window[each], done + each), first_row + g, _LATE)
                for each in range(classes):
                    for k in range(8):
                        whole[each, k] = step(whole[each, k], window[each, k])
                        window[each, k] = board[k]
        for each in range(classes):
            _add(keys, _salted(whole[each], stones << 20 | each), first_row + g, _LATE)


class _Table(NamedTuple):
    """A hash table of keys.

    Attributes:
        key: [S] uint64, S a power of 2; 0 is a free slot.
        game: [S] uint32, the first game with the key, as in `_LinkKeys`.
        hits: [S] int64, the number of games that were listed for a short game.
        sets: [S] uint64, the sets of these games as a bit set.
    """

    key: Hashes
    game: npt.NDArray[np.uint32]
    hits: Indices
    sets: Hashes


@inline_kernel
def _slot(table: _Table, key: Any) -> Any:
    """Return the slot that the key is in or would be in."""
    mask = np.uint64(table.key.shape[0] - 1)
    slot = (key >> np.uint64(20)) & mask
    while table.key[slot] != np.uint64(0) and table.key[slot] != key:
        slot = (slot + np.uint64(1)) & mask
    return np.int64(slot)


@inline_kernel
def unite(parent: Any, a: Any, b: Any) -> None:
    """Join the trees of a and b in a union-find forest; the lowest element is the root."""
    a, b = root(parent, a), root(parent, b)
    parent[max(a, b)] = min(a, b)


@inline_kernel
def _final_bit(key: Any) -> tuple[Any, Any]:
    """Return the word and the bit of a key in the bit set `finals`."""
    return np.int64(key >> np.uint64(20)) & (_FINAL_WORDS - 1), np.uint64(1) << (key >> np.uint64(36) & np.uint64(63))


@kernel
def _mark_finals(keys: Any, games: Any, finals: Any) -> None:
    """Add final positions to the bit set `finals`, [_FINAL_WORDS] uint64."""
    for i in range(keys.shape[0]):
        if games[i] & 3 in (_FINAL, _SHORT):
            word, bit = _final_bit(keys[i])
            finals[word] |= bit


@kernel
def _group(keys: Any, games: Any, finals: Any, at: Any, keys_out: Any, games_out: Any) -> None:
    """Group keys by their lowest bits, without early positions that are no final ones.

    at: [parts] int64, where the next key of each part goes, updated. With empty outputs, keys are only counted.
    """
    mask = np.uint64(at.shape[0] - 1)
    for i in range(keys.shape[0]):
        if games[i] & 3 == _EARLY:
            word, bit = _final_bit(keys[i])
            if not finals[word] & bit:
                continue
        part = np.int64(keys[i] & mask)
        if keys_out.shape[0] > 0:
            keys_out[at[part]] = keys[i]
            games_out[at[part]] = games[i]
        at[part] += 1


@kernel
def _link(keys: Any, games: Any, table: _Table, bounds: Any, max_hits: Any, parent: Any, hits: Any) -> Any:
    """Unite the games with equal keys, and list those that contain the final position of a short game.

    hits: [N, 2] uint32, filled with the rows of each short game and of another one, of games with equal final positions
    the first. Returns their number.
    """
    count: Any = 0
    for slot in range(table.key.shape[0]):
        table.key[slot] = 0
    for final in range(2):
        for i in range(keys.shape[0]):
            kind, row = games[i] & 3, np.int64(games[i] >> 2)
            if (kind in (_FINAL, _SHORT)) != (final == 0):
                continue
            slot = _slot(table, keys[i])
            if table.key[slot] == np.uint64(0):
                if kind != _EARLY:
                    table.key[slot] = keys[i]
                    table.game[slot] = games[i]
                    table.hits[slot] = 0
                    table.sets[slot] = 0
                continue
            other = np.int64(table.game[slot] >> 2)
            if kind != _EARLY or (table.game[slot] & 3) == _FINAL:
                unite(parent, row, other)
                if kind == _SHORT and row != other:
                    hits[count, 0] = row
                    hits[count, 1] = other
                    count += 1
                continue
            number: Any = 0
            while row >= bounds[number + 1]:
                number += 1
            bit = np.uint64(1) << np.uint64(number & 63)
            if row != other and (table.hits[slot] < max_hits or not table.sets[slot] & bit):
                table.hits[slot] += 1
                table.sets[slot] |= bit
                hits[count, 0] = other
                hits[count, 1] = row
                count += 1
    return count


@kernel
def _settle(starts: Any, hits: Any, max_hits: Any, parent: Any, single: Any) -> None:
    """Unite each short game with the cluster of all games that contain its final position, if that is one cluster.

    starts: [T + 1] int64, where the hits of each of T short games begin. single: [T] bool, zeros, filled.
    """
    changed = True
    while changed:
        changed = False
        for i in range(single.shape[0]):
            if single[i] or starts[i + 1] - starts[i] >= max_hits:
                continue
            own, other = root(parent, hits[starts[i], 0]), np.int64(-1)
            one: Any = True
            for k in range(starts[i], starts[i + 1]):
                found = root(parent, hits[k, 1])
                if found != own and found != other:
                    one = one and other < 0
                    other = found
            if one:
                if other >= 0:
                    unite(parent, own, other)
                single[i] = True
                changed = True


@kernel
def _roots(parent: Any) -> None:
    for i in range(parent.shape[0]):
        parent[i] = parent[parent[i]]  # parents come before their children


@dataclass(frozen=True, slots=True)
class Links:
    """Linked games among G rows of catalogues, counted through all of them.

    Attributes:
        first: [G] int64, the first game of each game's cluster; its own row if it is alone, or dropped.
        short: [H, 2] int64, in ascending order: a game whose final position has fewer than BOARD_STONES stones, and a
            game of another cluster that contains it; or, for each other game with that final position, the first one.
    """

    first: Indices
    short: Indices


def read_rows(games: Games, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield some columns of all rows; `drop` may be missing."""
    if not isinstance(games, pa.RecordBatch):
        yield from open_catalogue(games).batches(columns)
        return
    present = games.select([name for name in columns if name in games.schema.names])
    for start in range(0, len(games), _BATCH):
        yield present.slice(start, _BATCH)


def find_links(catalogues: Sequence[Games], *, split: bool = False, rows: int = ROWS) -> Links:
    """Find the links among all games of several catalogues that are not dropped.

    Raises OutputError if the temporary directory is full.

    Args:
        split: For a split: link games that share late positions, those with equal openings, those of less than
            MIN_STONES, and short games with the cluster of all games that contain their final position, if that is one
            cluster. An audit compares late positions by itself.
    """
    counts = (len(each) if isinstance(each, pa.RecordBatch) else open_catalogue(each).rows for each in catalogues)
    bounds = np.cumsum([0, *counts], dtype=np.int64)
    parent = np.arange(bounds[-1])
    if split:
        bounds = bounds[[0, -1]]
    max_hits = MAX_HITS if len(bounds) <= 65 else len(parent)
    parts = [np.empty((0, 2), np.int64)]
    with RangeSort("key", rows, Path(tempfile.gettempdir()), 256 * len(parent)) as sort:
        for key, game in _all_keys(catalogues, split):
            sort.add({"key": key, "game": game})
        for pieces in sort.pieces():
            parts.append(_link_rows(pieces, bounds, max_hits, parent))
    hits = np.concatenate(parts)
    hits = hits[np.lexsort((hits[:, 1], hits[:, 0]))]
    if split:
        starts = np.append(np.flatnonzero(np.diff(hits[:, 0], prepend=-1)), len(hits))
        _settle(starts, hits, max_hits, parent, np.zeros(len(starts) - 1, np.bool_))
    _roots(parent)
    apart = parent[hits[:, 0]] != parent[hits[:, 1]]
    return Links(parent, hits[apart | np.isin(hits[:, 1], hits[apart, 0])])


def _all_keys(catalogues: Sequence[Games], split: bool) -> Iterator[tuple[Hashes, npt.NDArray[np.uint32]]]:
    first = 0
    for games in catalogues:
        for batch in read_rows(games, (*PLAYED_COLUMNS, "drop", "opening")):
            kept = np.arange(len(batch))
            if "drop" in batch.schema.names:
                kept = kept[drop_codes(batch) == DropReason.KEPT]
            yield game_keys(move_arrays(batch), kept, first, split)
            if split:
                opening = to_numpy(batch["opening"])[kept]
                yield mix_words(opening ^ _OPENING), (first + kept << 2 | _LATE).astype(np.uint32)
            first += len(batch)


def game_keys(games: MoveArrays, kept: Indices, first: int, split: bool) -> tuple[Hashes, npt.NDArray[np.uint32]]:
    """Return the keys of some games, see `_LinkKeys`; kept: their indices. first: the row of the first of all games."""
    limits = (LATE_STONES, 1) if split else (1 << 30, MIN_STONES)
    moves = np.diff(games.move_offset)[kept]
    bound = int((moves + 2 + _CLASSES * (1 + moves // _WINDOW)).sum())
    keys = _LinkKeys(np.empty(bound, np.uint64), np.empty(bound, np.uint32), np.zeros(1, np.int64), *limits)
    size = games.width.astype(np.int64)[kept] * 256 + games.height[kept]
    with np.errstate(over="ignore"):
        for each in np.unique(size):
            width, height = divmod(int(each), 256)
            if 1 <= width <= MAX_SIZE and 1 <= height <= MAX_SIZE:
                _add_positions(
                    new_state(width, height), new_history(0), new_workspace(width, height), replay_arrays(games),
                    kept[size == each], RECORD_RULES.codes, first, keys,
                )  # fmt: skip
        _add_similar(make_hash_state(games), kept, first, np.empty((17, 8), np.uint64), keys)
    return keys.key[: keys.used[0]], keys.game[: keys.used[0]]


def _link_rows(pieces: list[Columns], bounds: Indices, max_hits: int, parent: Indices) -> Indices:
    """Link the games of a range of keys in `parent`, and return the hits: [H, 2], see `_link`. Empties `pieces`."""
    rows = sum(len(piece["key"]) for piece in pieces)
    finals, at = np.zeros(_FINAL_WORDS, np.uint64), np.zeros(1 << (rows // _TABLE_ROWS).bit_length(), np.int64)
    keys, games = np.empty(0, np.uint64), np.empty(0, np.uint32)
    for piece in pieces:
        _mark_finals(piece["key"], piece["game"], finals)
    for piece in pieces:
        _group(piece["key"], piece["game"], finals, at, keys, games)
    starts = np.cumsum([0, *at])
    at, keys, games = starts[:-1].copy(), np.empty(starts[-1], np.uint64), np.empty(starts[-1], np.uint32)
    pieces.reverse()
    while pieces:
        piece = pieces.pop()
        _group(piece["key"], piece["game"], finals, at, keys, games)
    most = int(np.diff(starts).max())
    tables = [np.empty(1 << (2 * most).bit_length(), dtype) for dtype in (np.uint64, np.uint32, np.int64, np.uint64)]
    found, hits = np.empty((most, 2), np.uint32), [np.empty((0, 2), np.int64)]
    for start, stop in pairwise(starts.tolist()):
        table = _Table._make(column[: 1 << (2 * (stop - start)).bit_length()] for column in tables)
        count = _link(keys[start:stop], games[start:stop], table, bounds, max_hits, parent, found)
        hits.append(found[:count].astype(np.int64))
    return np.concatenate(hits)
