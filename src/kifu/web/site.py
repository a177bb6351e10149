"""Catalogues, nets and reports of the web application, opened once."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kifu.corpus.sources import find_sources
from kifu.errors import RecipeError
from kifu.files import utf8_name
from kifu.records.paths import file_version
from kifu.search.index import index_path
from kifu.search.searcher import Searcher
from kifu.web.api import ChangedError, Deadline, Lane, NotFoundError
from kifu.web.game_table import GameTable
from kifu.web.report_files import open_report

if TYPE_CHECKING:
    from kifu.learn.predict import MovePredictor


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
        """Open a catalogue until the stack is closed.

        Raises:
            FormatError: If it is not a catalogue.
        """
        searcher = Searcher(path)
        versions = _file_versions(searcher)
        table = stack.enter_context(GameTable.open(path))
        corpus = cls(utf8_name(Path(path).name), searcher, table, versions)
        corpus.require_unchanged()
        return corpus

    def require_unchanged(self) -> None:
        """Raise ChangedError if a file was replaced or written to since it was opened."""
        if _file_versions(self.searcher) != self.versions:
            raise ChangedError(f"{self.name} has changed since kifu serve opened it; start kifu serve again")

    @property
    def indexed(self) -> bool:
        """True if `kifu index` has indexed all its files."""
        return all(index_path(file).exists() for file in self.searcher.catalogue.partitions)


@dataclass
class ServedNet:
    """A net or an engine.

    Attributes:
        name: Display name, distinct within the site.
        predictor: Predicts moves; called by one thread at a time, see `lock`.
        takes_ranks: True if it takes the ranks of the players.
        lock: Held while `predictor` works.
    """

    name: str
    predictor: MovePredictor
    takes_ranks: bool
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)


class Site:
    """Catalogues and nets, and the bounds on concurrent work.

    Attributes:
        background: Runs work besides requests, one after another, at first `opening`.
        unhurried: The deadline of this work, which `stop` ends.
        opening: The opening of nets and engines, which takes seconds and goes on after the constructor.
        reports: The reports of nets and sets.
        records: The path of each source of records, by the name that the column `archive` gives it.
        quick: The lane of requests of milliseconds.
        search: The lane of searches for patterns.
        filters: The lane of all requests with a condition in SQL, which others never wait for.
    """

    def __init__(
        self,
        catalogues: Sequence[str | Path],
        nets: Sequence[str | None] = (),
        reports: Sequence[str | Path] = (),
        records: Sequence[str | Path] = (),
    ) -> None:
        """Open all of them.

        Args:
            nets: Nets and engines as for `open_predictor`; None for the packaged net.
            reports: Files that `kifu evaluate`, `kifu benchmark` and `kifu audit` wrote with `--json`.
            records: The archives and folders that the catalogues were made from.

        Raises:
            FormatError: If a file is not a catalogue, not a net or not a report.
            SourceError: If a report or a source of records cannot be read.
            RecipeError: If no catalogue is given.
        """
        if not catalogues:
            raise RecipeError("at least one catalogue is required")
        if nets:
            from kifu.learn.net_header import check_net  # needs kifu[learn]

            for net in filter(None, nets):
                check_net(net)
        self.records = {each.name: each.path for each in find_sources(records) if each.catalogue is None}
        self.reports = [open_report(path) for path in reports]
        self._stack = contextlib.ExitStack()
        self.corpora = [Corpus.open(path, self._stack) for path in catalogues]
        self.background, self.unhurried = ThreadPoolExecutor(1), Deadline(3600.0)
        self.opening: Future[list[ServedNet]] = self.background.submit(_open_nets, nets)
        self.filters = Lane(2, waiting=16)
        self.quick, self.explore, self.search = (
            Lane(count, seconds=seconds, filters=self.filters) for count, seconds in ((4, 10), (2, 20), (2, 20))
        )
        self.predict = Lane(1, seconds=30)

    @property
    def nets(self) -> list[ServedNet]:
        """The nets and engines, as soon as all are open.

        Raises:
            FormatError: If a file is not a net.
            RecipeError: If the program of an engine was not found.
        """
        return self.opening.result()

    def stop(self) -> None:
        """Interrupt all requests and accept none from now on."""
        self.unhurried.end()
        for lane in (self.quick, self.explore, self.search, self.filters, self.predict):
            lane.stop()

    def close(self) -> None:
        """Wait for the work in the background, then close all catalogues."""
        self.background.shutdown(cancel_futures=True)
        self._stack.close()

    def corpus(self, number: int) -> Corpus:
        """Return a catalogue by its number, from 0. Raises NotFoundError; ChangedError if its files have changed."""
        if not 0 <= number < len(self.corpora):
            raise NotFoundError(f"there is no catalogue {number}; they are numbered from 0 to {len(self.corpora) - 1}")
        self.corpora[number].require_unchanged()
        return self.corpora[number]

    def net(self, number: int) -> ServedNet:
        """Return a net by its number, from 0. Raises NotFoundError."""
        if not 0 <= number < len(self.nets):
            raise NotFoundError(f"there is no net {number}; the server was started with {len(self.nets)}")
        return self.nets[number]

    def about(self) -> dict[str, Any]:
        """Return catalogues and nets as JSON values; "nets" is None until all are open.

        Raises:
            KifuError: If a net could not be opened.
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
        return [
            {
                "name": each.name,
                "description": each.predictor.description,
                "board": each.predictor.board,
                "passes": each.predictor.passes,
                "has_value": each.predictor.has_value,
                "takes_ranks": each.takes_ranks,
            }
            for each in self.nets
        ]


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


def _open_nets(nets: Sequence[str | None]) -> list[ServedNet]:
    """Open nets and engines. The imports take most of the time."""
    if not nets:
        return []
    from kifu.learn.predictors import open_predictor, takes_ranks, unique_names

    predictors = [open_predictor(net) for net in nets]
    return [ServedNet(name, each, takes_ranks(each)) for name, each in zip(unique_names(predictors), predictors)]
