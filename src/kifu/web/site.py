"""Catalogues, nets and reports of the web application, opened once."""

from __future__ import annotations

import contextlib
import os
import threading
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import orjson
import pyarrow as pa
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from kifu.arrays import Bools
from kifu.corpus.query import Database, check_condition, open_database, quoted
from kifu.corpus.schema import SCHEMA
from kifu.corpus.sources import find_sources
from kifu.errors import FormatError, GameError, RecipeError, SourceError, first_line
from kifu.io import read_small, utf8_name
from kifu.leaks.report import read_audit
from kifu.learn.results import read_evaluation, read_results
from kifu.point import max_handicap
from kifu.records.paths import file_version
from kifu.search.index import index_path
from kifu.search.searcher import Searcher
from kifu.web.api import BusyError, ChangedError, Deadline, NotFoundError, Params, WorkerPool

if TYPE_CHECKING:
    from kifu.learn.inference import Net
    from kifu.learn.review import Reviewer


_LISTS = {"setup", "setup_ply", "moves", "territory", "move_seconds", "evaluations"}
COLUMNS = tuple(name for name in SCHEMA.names if name not in _LISTS)
"""The columns of the table: all but lists. A column `row`, the number of the row from 0, precedes them."""

_CLOSING_SECONDS = 2.0

_SIZES = (9, 13, 19)
"""Sides of the boards on which to play, besides those of a net."""

_MAX_SELECTIONS = 16
"""Number of filters whose games are kept in memory."""


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("text must be printable")
    return text


Text = Annotated[str, Field(max_length=200), AfterValidator(_printable)]
"""A short text that a user typed."""


class Filter(BaseModel):
    """A choice of games, the same for lists, explorer and searches. Empty texts and None choose all.

    Attributes:
        q: Part of a player's name or an event, ignoring case.
        colour: The colour of this player; without `player` it has no effect.
        rating: Lowest rating (`kifu.Rank.rating`) of both players.
        archive: The archive of the record, exactly as in the catalogue.
        sql: A condition in SQL over the columns of a catalogue.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    q: Text = ""
    player: Text = ""
    colour: Literal["", "black", "white"] = ""
    year_from: Annotated[int, Field(ge=0, le=9999)] | None = None
    year_to: Annotated[int, Field(ge=0, le=9999)] | None = None
    rating: Annotated[float, Field(ge=0, le=60)] | None = None
    winner: Literal["", "black", "white", "draw", "none"] = ""
    handicap: Literal["", "none", "some"] = ""
    board: Annotated[str, Field(pattern=r"^$|^[0-9]{1,2}x[0-9]{1,2}$")] = ""
    archive: Annotated[str, Field(max_length=1000), AfterValidator(_printable)] = ""
    sql: Annotated[str, Field(max_length=2000)] = ""

    def conditions(self) -> list[str]:
        """Return SQL conditions, all of which must hold, without that of `sql`."""
        found = []
        if self.q:
            found.append(f"contains(words, {quoted(self.q.lower())})")
        if self.player:
            name = quoted(self.player.lower())
            colours = [self.colour] if self.colour else ["black", "white"]
            found.append(f"({' OR '.join(f'lower({colour}) = {name}' for colour in colours)})")
        if self.year_from is not None:
            found.append(f"year >= {self.year_from}")
        if self.year_to is not None:
            found.append(f"year <= {self.year_to}")
        if self.rating is not None:
            found.append(f"least(black_rating, white_rating) >= {self.rating}")
        if self.winner:
            found.append("winner IS NULL" if self.winner == "none" else f"winner = {quoted(self.winner)}")
        if self.handicap:
            found.append(f"coalesce(handicap, 0) {'> 1' if self.handicap == 'some' else '<= 1'}")
        if self.board:
            width, height = self.board.split("x")
            found.append(f"width = {int(width)} AND height = {int(height)}")
        if self.archive:
            found.append(f"archive = {quoted(self.archive)}")
        return found


class CatalogueParams(Params):
    """A catalogue, by its number from 0."""

    corpus: int = Field(0, ge=0, le=10_000)


class CorpusParams(CatalogueParams, Filter):
    """A choice of games of a catalogue."""

    @property
    def chosen(self) -> Filter:
        """The filter alone."""
        return Filter(**{name: getattr(self, name) for name in Filter.model_fields})


class GameTable:
    """The rows of a catalogue in DuckDB's memory, for many threads."""

    def __init__(self, database: Database) -> None:
        """Read the rows. `database` holds one catalogue."""
        columns = ", ".join(f'"{name}"' for name in COLUMNS)
        words = "lower(concat_ws(chr(10), black, white, event)) AS words"  # `Filter.q` is printable: in one of them
        database.create_table("summaries", f'SELECT row_number() OVER () - 1 AS "row", {columns}, {words} FROM games')
        self._database = database
        self.rows = int(database.rows("SELECT count(*) FROM summaries")[0][0])
        self._selections: OrderedDict[Filter, Bools | None] = OrderedDict()
        self._lock = threading.Lock()

    def query(self, sql: str, deadline: Deadline, found: pa.Table | None = None) -> list[tuple[Any, ...]]:
        """Return the rows of one SELECT statement over the table `summaries` and, if given, `found`.

        Raises RecipeError if it is invalid.
        """
        with self._database.cursor() as cursor, deadline.interrupting(cursor.interrupt):
            if found is not None:
                cursor.register("found", found)
            return cursor.rows(sql)

    def condition(self, chosen: Filter, deadline: Deadline) -> str:
        """Return the SQL condition of a filter.

        Raises RecipeError if its `sql` is not a condition, or not one that is bounded, see `Database.require_bounded`;
        TimeLimitError if that takes too long to find out.
        """
        found = chosen.conditions()
        if chosen.sql.strip():
            with self._database.cursor() as cursor, deadline.interrupting(cursor.interrupt):
                cursor.require_bounded(chosen.sql)
                check_condition(cursor, chosen.sql, "summaries")
            found.append(f"(\n{chosen.sql}\n)")
        return " AND ".join(found) or "true"

    def select(self, chosen: Filter, deadline: Deadline) -> Bools | None:
        """Return the games that a filter chooses, as `Searcher` takes them; None for all."""
        if chosen == Filter():
            return None
        with self._lock:
            if chosen in self._selections:
                self._selections.move_to_end(chosen)
                return self._selections[chosen]
        found = self.query(f'SELECT "row" FROM summaries WHERE {self.condition(chosen, deadline)}', deadline)
        rows = np.zeros(self.rows, np.bool_)
        rows[[row for (row,) in found]] = True
        with self._lock:
            self._selections[chosen] = rows
            while len(self._selections) > _MAX_SELECTIONS:
                self._selections.popitem(last=False)
        return rows

    def require_row(self, row: int) -> None:
        """Raise RecipeError unless the catalogue has a row."""
        if not 0 <= row < self.rows:
            raise RecipeError(f"row must be within 0 to {self.rows - 1:,}, got {row}")


MAX_BYTES = 16 << 20
"""Maximum size of a report."""


@dataclass(frozen=True, slots=True)
class ReportFile:
    """An open report."""

    name: str
    kind: Literal["evaluation", "benchmark", "audit"]
    values: dict[str, Any]


def open_report(path: str | os.PathLike[str]) -> ReportFile:
    """Read a report."""
    name = utf8_name(Path(path).name)
    try:
        content = orjson.loads(read_small(path, MAX_BYTES))
    except OSError as error:
        raise SourceError(f"cannot read {path}: {error.strerror or first_line(error)}") from None
    except ValueError as error:  # no JSON
        raise FormatError(f"{path}: {first_line(error)}") from None
    keys = content if isinstance(content, dict) else {}
    if "pairs" in keys:
        return ReportFile(name, "audit", read_audit(path).model_dump(mode="json"))
    if "nets" in keys:
        return ReportFile(name, "evaluation", read_evaluation(path).model_dump(mode="json"))
    if "sets" not in keys:
        raise FormatError(f"{path} is not a report of kifu evaluate, benchmark or audit")
    results = read_results(path)
    values = results.model_dump(mode="json")
    for each, of_set in zip(values["sets"], results.sets):
        each["remarks"] = of_set.remarks()
    return ReportFile(name, "benchmark", values)


@dataclass
class Corpus:
    """An open catalogue."""

    name: str
    searcher: Searcher
    table: GameTable
    versions: list[tuple[int, ...] | None]
    """Of its files when they were opened, see `file_version`."""

    @classmethod
    def open(cls, path: str | Path, stack: contextlib.ExitStack) -> Corpus:
        """Open a catalogue until the stack is closed."""
        searcher = Searcher(path)
        versions = _file_versions(searcher)
        table = GameTable(stack.enter_context(open_database(path)))
        corpus = cls(utf8_name(Path(path).name), searcher, table, versions)
        corpus.require_unchanged()
        return corpus

    def require_unchanged(self) -> None:
        """Raise ChangedError if a file was replaced or written to since it was opened."""
        if _file_versions(self.searcher) != self.versions:
            raise ChangedError(f"{self.name} has changed since kifu serve opened it; start kifu serve again")

    @property
    def indexed(self) -> bool:
        """True if all its files have a search index."""
        return all(index_path(file).exists() for file in self.searcher.catalogue.partitions)


class Site:
    """Catalogues and nets, and the bounds on concurrent work.

    Attributes:
        background: Runs work besides requests, one after another, at first `opening`.
        opening: The opening of nets, which takes seconds and goes on after the constructor.
        records: The path of each source of records, by the name that the column `archive` gives it.
        filters: The pool of all requests with a condition in SQL, which others never wait for.
    """

    def __init__(
        self,
        catalogues: Sequence[str | Path],
        nets: Sequence[str | None] = (),
        reports: Sequence[str | Path] = (),
        records: Sequence[str | Path] = (),
    ) -> None:
        """Open all of them.

        Raises FormatError if a file is not a catalogue, not a net or not a report; RecipeError if no catalogue is
        given.

        Args:
            nets: Nets as for `open_net`; None for the packaged net.
            reports: Files that `kifu evaluate` and `kifu audit` wrote with `--json`.
            records: The archives and folders that the catalogues were made from.
        """
        if not catalogues:
            raise RecipeError("at least one catalogue is required")
        if nets:
            from kifu.learn.net import check_net

            for net in filter(None, nets):
                check_net(net)
        self.records = {each.name: each.path for each in find_sources(records) if each.catalogue is None}
        self.reports = [open_report(path) for path in reports]
        self._stack = contextlib.ExitStack()
        self.corpora = [Corpus.open(path, self._stack) for path in catalogues]
        self.background, self.startup = ThreadPoolExecutor(1), Deadline(3600.0)
        self.opening: Future[list[Reviewer]] = self.background.submit(_open_nets, nets)
        self.filters = WorkerPool(2, waiting=16)
        self.quick, self.explore, self.search = (
            WorkerPool(count, seconds=seconds, filters=self.filters) for count, seconds in ((4, 10), (2, 20), (2, 20))
        )
        self.predict = WorkerPool(1, seconds=30)

    @property
    def nets(self) -> list[Reviewer]:
        """The nets, as soon as all are open. Raises BusyError if that takes longer than a request may after the start.

        Later requests are refused at once, as each would hold up the next one by as long again.
        """
        elapsed = self.startup.seconds - self.startup.left
        try:
            return self.opening.result(max(self.predict.seconds - elapsed, 0))
        except TimeoutError:
            raise BusyError("the nets are still being opened; try again later") from None

    def stop(self) -> None:
        """Interrupt all requests and accept none from now on."""
        self.startup.end()
        for pool in (self.quick, self.explore, self.search, self.filters, self.predict):
            pool.stop()

    def close(self) -> None:
        """Interrupt all work, wait `_CLOSING_SECONDS` for that in the background, and close all catalogues."""
        self.stop()
        wait([self.background.submit(int)], _CLOSING_SECONDS)  # ends after all that was submitted before
        self.background.shutdown(wait=False, cancel_futures=True)
        self._stack.close()

    def corpus(self, number: int) -> Corpus:
        """Return a catalogue by its number, from 0. Raises NotFoundError; ChangedError if its files have changed."""
        if not 0 <= number < len(self.corpora):
            raise NotFoundError(f"there is no catalogue {number}; they are numbered from 0 to {len(self.corpora) - 1}")
        self.corpora[number].require_unchanged()
        return self.corpora[number]

    def net(self, number: int) -> Reviewer:
        """Return a net by its number, from 0. Raises NotFoundError."""
        if not 0 <= number < len(self.nets):
            raise NotFoundError(f"there is no net {number}; the server was started with {len(self.nets)}")
        return self.nets[number]

    def about(self) -> dict[str, Any]:
        """Return catalogues and nets as JSON values; "nets" is None until all are open.

        Raises KifuError if a net could not be opened.
        """
        return {
            "corpora": [
                {"name": each.name, "games": len(each.searcher.catalogue), "indexed": each.indexed}
                for each in self.corpora
            ],
            "nets": self.about_nets() if self.opening.done() else None,
        }

    def about_nets(self) -> list[dict[str, Any]]:
        """Return the nets as JSON values, as soon as all are open. Raises as `nets`."""
        names = ("description", "board", "passes", "has_value", "has_points", "takes_ranks")
        return [
            {"name": each.name, **{name: getattr(each.net, name) for name in names}, "boards": _boards(each.net)}
            for each in self.nets
        ]


def _boards(net: Net) -> list[dict[str, int]]:
    """Return the square boards for play against a net: [{"size": side, "handicap": largest}], the smallest first."""
    boards = []
    for size in sorted({*_SIZES, *net.board}):
        with contextlib.suppress(GameError, RecipeError):
            net.check_board(size, size)
            boards.append({"size": size, "handicap": max_handicap(size, size)})
    return boards


def _file_versions(searcher: Searcher) -> list[tuple[int, ...] | None]:
    """Return the versions of the files of a catalogue and of their search indices; None for one that is missing."""
    versions: list[tuple[int, ...] | None] = []
    catalogue = searcher.catalogue
    for file in [catalogue.path, *chain.from_iterable((file, index_path(file)) for file in catalogue.partitions)]:
        try:
            versions.append(file_version(file.stat()))
        except OSError:
            versions.append(None)
    return versions


def _open_nets(nets: Sequence[str | None]) -> list[Reviewer]:
    """Open nets. Each predicts once, so that no visitor waits for imports and the compilation of kernels."""
    if not nets:
        return []
    from kifu.learn.inference import unique_names
    from kifu.learn.net import open_net
    from kifu.learn.review import Reviewer, line_of
    from kifu.records.game import read_sgf

    opened = [open_net(net) for net in nets]
    reviewers = [Reviewer(net, name) for net, name in zip(opened, unique_names(opened))]
    for each in reviewers:
        width, height = each.net.board
        game = read_sgf(f"(;SZ[{width}:{height}];B[aa];W[bb])".encode())
        each.evaluate(game, [line_of(game, len(game))])
    return reviewers
