"""Search the games of a catalogue: patterns, positions and their continuations."""

from __future__ import annotations

import difflib
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kifu.arrays import Bools, MoveArrays
from kifu.corpus.catalogue import RowShard, open_catalogue, read_shard
from kifu.corpus.schema import PLAYED_COLUMNS, SCHEMA, move_arrays
from kifu.errors import GameError, RecipeError
from kifu.execution.executor import Executor
from kifu.progress import ProgressFactory, silent
from kifu.search.continuations import (
    INFO_COLUMNS,
    UNKNOWN_YEAR,
    GameInfo,
    Occurrences,
    add_occurrences,
    distinct_years,
    game_info,
    new_tally,
    tabulate,
)
from kifu.search.index import SearchIndex, index_path, open_index
from kifu.search.match import (
    MatchArrays,
    NextMoves,
    find_board,
    hit_occurrences,
    late_rows,
    match_games,
    pattern_position,
)
from kifu.search.pattern import Pattern
from kifu.search.position import Position, game_position
from kifu.search.results import Exploration, HitCollector, Hits, hit_table, sort_hits
from kifu.search.store import GameBatch, GameStore, RowGroup, take_game, take_rows
from kifu.text import Report

_Result = TypeVar("_Result")

_FoundHits = tuple[MatchArrays, GameInfo, int]
"""Hits in consecutive games, results and years of these, and the row of the first one in the catalogue."""

_MAX_SUMMARIES = 1000
"""Number of games that `Searcher.games` describes at most."""

_PLAYER_COLUMNS = ("black", "white")

_SIMILAR = 5
"""Number of similar names that are suggested."""

_MAX_NAMES = 20_000
"""Number of distinct names, the most frequent ones, that are compared with an unknown one."""

_NAME_ROWS = 65_536
"""Rows that are read at a time."""

_SUMMARY_COLUMNS = {
    "black": "black", "black_rank": "black_rank", "white": "white", "white_rank": "white_rank", "date_text": "date",
    "year": "year", "event": "event", "result_text": "result", "n_moves": "moves",
}  # fmt: skip
"""Columns of a catalogue and the fields of `GameSummary` that hold them."""


@dataclass(frozen=True, slots=True)
class GameSummary(Report):
    """A short description of a game; fields are None if they are not recorded."""

    row: int
    black: str | None
    black_rank: str | None
    white: str | None
    white_rank: str | None
    date: str | None
    year: int | None
    event: str | None
    result: str | None
    moves: int


class Searcher:
    """Searches a catalogue, with the indices of its files where there are any.

    Decoded games stay in memory, up to 200 MB, for later searches. Dropped games are never searched. Methods may be
    called from any thread, also at the same time.
    """

    def __init__(self, path: str | os.PathLike[str], use_index: bool = True) -> None:
        """Open a catalogue and its indices, which only speed up searches.

        Raises FormatError if it is not a catalogue, or an index is damaged, of another version or of another file.
        """
        self.catalogue = open_catalogue(path)
        files = list(self.catalogue.partitions)
        self._indices = [open_index(file) if use_index and index_path(file).exists() else None for file in files]
        self._starts = np.append(0, np.cumsum([*self.catalogue.partitions.values()])).tolist()
        self._store = GameStore(self.catalogue, self._indices)

    def select(self, where: str | None = None, player: str | None = None, colour: str | None = None) -> Bools | None:
        """Choose games to search.

        Args:
            where: A condition in SQL over the columns of the catalogue, see docs/queries.md; requires duckdb.

        Returns:
            [rows] bool; None if nothing was asked for, which means all games.

        Raises:
            RecipeError: The condition is invalid, or a colour is given without a player.
        """
        if colour is not None and (player is None or colour not in _PLAYER_COLUMNS):
            raise RecipeError(f"colour must be black or white and requires a player, got {colour!r}")
        rows = None
        if where is not None:
            from kifu.corpus.query import select_games  # requires duckdb

            rows = select_games(self.catalogue, where)
        if player is not None:
            named = self._select_player(player, [name for name in _PLAYER_COLUMNS if colour in (None, name)])
            rows = named if rows is None else rows & named
        return rows

    def _select_player(self, player: str, columns: list[str]) -> Bools:
        lower_name = pc.utf8_lower(pa.scalar(player.strip()))
        parts = [np.empty(0, np.bool_)]
        for batch in self.catalogue.batches(columns, size=_NAME_ROWS):
            equal = [pc.fill_null(pc.equal(pc.utf8_lower(column), lower_name), False) for column in batch.columns]
            parts.append(np.logical_or.reduce([column.to_numpy(zero_copy_only=False) for column in equal]))
        return np.concatenate(parts)

    def similar_players(self, player: str) -> list[str]:
        """Return names of players that resemble an unknown one, the most similar first, at most 5."""
        counts: Counter[str] = Counter()
        for batch in self.catalogue.batches(_PLAYER_COLUMNS, size=_NAME_ROWS):
            for column in batch.columns:
                for pair in pc.value_counts(column.drop_null()).to_pylist():
                    counts[pair["values"]] += pair["counts"]
        lower_name = player.strip().lower()
        names: dict[str, str] = {}
        for name, _ in counts.most_common(_MAX_NAMES):
            names.setdefault(name.lower(), name)
        parts = [name for lower, name in names.items() if lower_name and lower_name in lower]
        close = [names[lower] for lower in difflib.get_close_matches(lower_name, names, _SIMILAR)]
        return list(dict.fromkeys([*close, *parts]))[:_SIMILAR]

    def find(
        self, pattern: Pattern, games: Bools | None = None, *, jobs: int | None = 1, progress: ProgressFactory = silent
    ) -> Hits:
        """Find a pattern.

        Args:
            games: [rows] bool, the games to search, as from `select`; all by default.

        Raises:
            RecipeError: `games` has another length, or `jobs` is below 1.
            OutputError: There are more than 64 MB of hits, and the temporary directory is full.
        """
        rows = self._checked(games)
        position, indexed = pattern_position(pattern), []
        if position is not None:
            remaining = np.ones(self.catalogue.rows, np.bool_) if rows is None else rows.copy()
            for index, first, stop in self._indexed():
                hits, unsure = find_board(index, pattern, position)
                if rows is not None:
                    hits = hits.take(rows[first:stop][hits.game])
                remaining[first:stop] &= unsure
                indexed.append((hits, index.info(), first))
            rows = remaining

        def find_in(batch: GameBatch, within: Bools | None) -> _FoundHits:
            return match_games(batch.games, batch.traces, pattern, within), batch.info, batch.first

        tally = new_tally(pattern.width * pattern.height, self._years)
        with_hits = 0
        with HitCollector() as collector:
            for hits, info, first in chain(indexed, self._search(find_in, rows, jobs, progress)):
                add_occurrences(tally, hit_occurrences(hits, pattern), info, first)
                with_hits += int(np.count_nonzero(np.diff(hits.game, prepend=-1)))
                collector.add(hit_table(hits, first))
            table = sort_hits(collector.table()) if indexed else collector.table()
        return Hits(self.catalogue.path, with_hits, tally, pattern, table)

    def explore(
        self,
        position: Position | tuple[int, int],
        games: Bools | None = None,
        *,
        jobs: int | None = 1,
        progress: ProgressFactory = silent,
    ) -> Exploration:
        """Count the continuations of a position of the whole board, in any orientation.

        With an index, this takes milliseconds for positions within the indexed plies. Others are searched like
        patterns, but only in games that may have so few stones at a later ply. Raises RecipeError if there is no such
        game, `games` has another length, or `jobs` is below 1.

        Args:
            position: The position, or a row of the catalogue, from 0, and a ply of its game.
            games: [rows] bool, the games to search, as from `select`; all by default.
        """
        if isinstance(position, tuple):
            position = self.position(*position)
        rows, moves = self._checked(games), NextMoves(position)
        tally = new_tally(position.width * position.height, self._years)
        remaining, with_position = np.ones(self.catalogue.rows, np.bool_) if rows is None else rows.copy(), 0
        for index, first, stop in self._indexed():
            with_position += moves.add_entries(tally, index, remaining[first:stop], first)
            remaining[first:stop] &= late_rows(index, position)
        pattern = position.to_pattern(both_colours=False)

        def find_in(batch: GameBatch, within: Bools | None) -> tuple[Occurrences, GameInfo, int]:
            hits = match_games(batch.games, batch.traces, pattern, within)
            return moves.of_hits(hits, batch.games, batch.traces), batch.info, batch.first

        for occurrences, info, first in self._search(find_in, remaining, jobs, progress):
            add_occurrences(tally, occurrences, info, first)
            with_position += len(occurrences.row)
        continuations = tabulate(tally, position.width, tenuki=False)
        return Exploration(self.catalogue.path, with_position, tally, position, continuations)

    def position(self, row: int, ply: int) -> Position:
        """Return the position after `ply` moves of the game in a row, from 0. Raises RecipeError if missing."""
        return self.positions([(row, ply)])[0]

    def positions(self, plies: Sequence[tuple[int, int]]) -> list[Position]:
        """Return positions of games, see `position`."""
        rows = {row for row, _ in plies}
        games = {row: cached for row in rows if (cached := self._store.cached(row)) is not None}
        missing = np.array(sorted(rows - games.keys()), np.int64)
        unread = iter(missing.tolist())
        for batch in self._read_rows(missing, PLAYED_COLUMNS):
            games |= {next(unread): (move_arrays(batch), g) for g in range(len(batch))}
        positions = []
        for row, ply in plies:
            try:
                positions.append(game_position(*games[row], ply))
            except GameError as error:
                raise RecipeError(f"row {row}: {error}") from None
        return positions

    def moves(self, row: int) -> MoveArrays:
        """Return the moves of the game in a row, from 0, as arrays of one game. Raises RecipeError if missing."""
        if (cached := self._store.cached(row)) is not None:
            return take_game(*cached)
        (batch,) = self._read_rows(np.array([row]), PLAYED_COLUMNS)
        return move_arrays(batch)

    def record(self, row: int) -> pa.RecordBatch:
        """Return a row of the catalogue, from 0, with all columns."""
        (batch,) = self._read_rows(np.array([row]), SCHEMA.names)
        return batch

    def games(self, rows: Sequence[int]) -> list[GameSummary]:
        """Describe the games in up to 1,000 rows, in any order. Raises RecipeError for more, or a missing row."""
        if len(rows) > _MAX_SUMMARIES:
            raise RecipeError(f"at most {_MAX_SUMMARIES:,} games can be described, got {len(rows):,}")
        distinct = np.unique(np.array(rows, np.int64))
        batches = self._read_rows(distinct, [*_SUMMARY_COLUMNS])
        values = [value for batch in batches for value in batch.to_pylist()]
        by_row = {
            row: GameSummary(row, **{_SUMMARY_COLUMNS[name]: value for name, value in columns.items()})
            for row, columns in zip(distinct.tolist(), values)
        }
        return [by_row[row] for row in rows]

    @cached_property
    def _years(self) -> npt.NDArray[np.int16]:
        parts = [np.array([UNKNOWN_YEAR], np.int16)]
        for part, (path, rows) in enumerate(self.catalogue.partitions.items()):
            if (index := self._indices[part]) is not None:
                parts.append(distinct_years(index.info()))
            else:
                for batch in read_shard(RowShard(str(path), 0, rows), INFO_COLUMNS):
                    parts.append(distinct_years(game_info(batch)))
        return np.unique(np.concatenate(parts))

    def _indexed(self) -> Iterator[tuple[SearchIndex, int, int]]:
        """Yield the indices, and the first row of each and that after its last one in the catalogue."""
        for index, first, stop in zip(self._indices, self._starts, self._starts[1:]):
            if index is not None:
                yield index, first, stop

    def _checked(self, games: Bools | None) -> Bools | None:
        if games is not None and (games.dtype != np.bool_ or games.shape != (self.catalogue.rows,)):
            raise RecipeError(f"games must be bool ({self.catalogue.rows},), got {games.dtype} {games.shape}")
        return games

    def _search(
        self,
        function: Callable[[GameBatch, Bools | None], _Result],
        rows: Bools | None,
        jobs: int | None,
        progress: ProgressFactory,
    ) -> Iterator[_Result]:
        """Yield function(batch, games to search) for all batches with such games, in order; None stands for all."""

        def search(group: RowGroup) -> list[_Result]:
            results = []
            for batch in self._store.batches(group):
                within = batch.kept if rows is None else batch.kept & rows[batch.first :][: len(batch.kept)]
                if within.any():
                    results.append(function(batch, None if within.all() else within))
            return results

        groups = [group for group in self._store.groups if rows is None or rows[group.start : group.stop].any()]
        if not groups:
            return  # without a report of progress
        total = sum(group.shard.rows for group in groups)
        with Executor(jobs) as executor, progress("searching", total, "games") as bar:
            for group, results in zip(groups, executor.map(search, groups)):
                yield from results
                bar.advance(group.shard.rows)

    def _read_rows(self, rows: npt.NDArray[np.int64], columns: Sequence[str]) -> list[pa.RecordBatch]:
        """Return rows of the catalogue, which ascend; row groups without any are not read."""
        if len(rows) and not 0 <= rows[0] <= rows[-1] < self.catalogue.rows:
            bad = rows[0] if rows[0] < 0 else rows[-1]
            raise RecipeError(f"the catalogue has rows 0 to {self.catalogue.rows - 1:,}, got {bad}")
        return list(take_rows(self._store.groups, rows, columns))
