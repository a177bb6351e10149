"""What there is at KGS, what of it is wanted, and several downloads at a time."""

from __future__ import annotations

import os
import queue
import re
import threading
import time
from collections.abc import Collection
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from kifu.errors import RecipeError, SourceError
from kifu.fetch._client import Client, Failure, Patience
from kifu.fetch._transfer import Transfer
from kifu.progress import Progress, ProgressFactory, format_bytes, silent
from kifu.recipes.kgs_index import KINDS, PAGE_LIMIT, Archive, parse_index

KGS_INDEX = "https://u-go.net/gamerecords/"

_TOLD = 3
"""So many reasons are told in the one line of an error."""
_LAST_WAIT = 1.0
"""Seconds in which the threads may end after an interrupt; one that waits for a server ends with the process."""


@dataclass(slots=True)
class FetchReport:
    """What became of each archive, by the names of the files."""

    fetched: list[str] = field(default_factory=list)
    present: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    """The reason by name."""
    received: int = 0
    """Bytes of archives that came over the network."""

    def __str__(self) -> str:
        text = (
            f"{len(self.fetched)} archives fetched ({format_bytes(self.received)}), {len(self.present)} there already"
        )
        return f"{text}, {len(self.failed)} failed" if self.failed else text


class FetchError(SourceError):
    """Some archives were not fetched; the others were. `report` tells which."""

    def __init__(self, report: FetchReport) -> None:
        self.report = report
        told = [f"{name}: {reason}" for name, reason in list(report.failed.items())[:_TOLD]]
        if len(report.failed) > _TOLD:
            told.append(f"and {len(report.failed) - _TOLD} more")
        wanted = len(report.failed) + len(report.fetched)
        super().__init__(f"{len(report.failed)} of {wanted} archives were not fetched: {'; '.join(told)}")


def parse_years(text: str) -> set[int]:
    """Reads "2001-2014,2016": years and ranges of years. Raises RecipeError for anything else."""
    years: set[int] = set()
    for piece in text.split(","):
        match = re.fullmatch(r"\s*([0-9]{4})\s*(?:-\s*([0-9]{4})\s*)?", piece)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last:
            raise RecipeError(f"{piece.strip()!r} in {text!r} is no year or range of years, as in 2001-2014,2016")
        years.update(range(first, last + 1))
    return years


def fetch_kgs(
    into: str | os.PathLike[str],
    *,
    years: Collection[int] | None = None,
    index: str | os.PathLike[str] = KGS_INDEX,
    jobs: int = 4,
    kind: str = "tar.gz",
    patience: Patience | None = None,
    progress: ProgressFactory = silent,
) -> FetchReport:
    """Fetches the archives that the index page links, into the folder `into`, which is made if it does not exist.

    years: only the archives of these years. index: an http or https address, or a file; links that are not absolute
    are taken as those of `KGS_INDEX` if it is a file. jobs: downloads at a time. kind: one of `kgs_index.KINDS`.
    The proxy that the environment names is used (http_proxy, https_proxy, no_proxy).

    An archive that can't be fetched keeps no other from being fetched; at the end FetchError tells of those. Raises
    SourceError if the index page can't be had or names no archive of these years, and if `into` can't be written to;
    RecipeError for an argument that does not fit. Interrupted (KeyboardInterrupt), it leaves nothing but .part files.
    """
    if kind not in KINDS:
        raise RecipeError(f"{kind!r} is no kind of archive; there are {', '.join(KINDS)}")
    if jobs < 1:
        raise RecipeError(f"{jobs} downloads at a time are too few: at least 1")
    client = Client(patience or Patience(), jobs)
    page, base = _index_page(client, os.fspath(index), progress)
    archives = _of_years(page, years, os.fspath(index))
    folder, report = Path(into), FetchReport()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        waiting: list[Transfer] = []
        for archive in archives:
            target = folder / f"{archive.stem}.{kind}"
            if target.exists():
                report.present.append(target.name)
            elif kind in archive.links:
                waiting.append(Transfer(client, target, kind, base, archive.links[kind]))
            else:
                report.failed[target.name] = "the index page has no link to it"
        if waiting:
            with progress("fetching from KGS", len(waiting), "archives") as bar:
                _run(client, waiting, jobs, bar, report)
    except OSError as error:
        raise SourceError(f"{error.filename or folder}: {error.strerror}") from None
    if report.failed:
        raise FetchError(report)
    return report


def _of_years(page: bytes, years: Collection[int] | None, index: str) -> list[Archive]:
    try:
        archives = parse_index(page)
    except SourceError as error:
        raise SourceError(f"{index}: {error}") from None
    chosen = [archive for archive in archives if years is None or archive.year in years]
    if not chosen:
        there = sorted({archive.year for archive in archives})
        wanted = f"{min(years)} to {max(years)}" if years else "no years"
        raise SourceError(f"{index} has no archive of {wanted}, but of years from {there[0]} to {there[-1]}")
    return chosen


def _index_page(client: Client, index: str, progress: ProgressFactory) -> tuple[bytes, str]:
    """The page and the address that its links are relative to."""
    if "://" not in index:
        try:
            with Path(index).open("rb") as file:
                return file.read(PAGE_LIMIT + 1), KGS_INDEX
        except OSError as error:
            raise SourceError(f"the index page {index}: {error.strerror}") from None

    def attempt() -> bytes:
        page = bytearray()
        with closing(client.open(index, "", 0)) as response:
            for chunk in client.chunks(response):
                bar.advance(len(chunk))
                page += chunk
                if len(page) > PAGE_LIMIT:
                    break  # for parse_index to refuse
        return bytes(page)

    with progress(f"reading {index}", None, "bytes") as bar:
        try:
            return client.persist(attempt, bar.say), index
        except Failure as failure:
            raise SourceError(f"the index page {index}: {failure}") from None


def _run(client: Client, waiting: list[Transfer], jobs: int, bar: Progress, report: FetchReport) -> None:
    """Runs all transfers, `jobs` at a time, and reports on each. Raises the first error that is no Failure."""
    todo: queue.SimpleQueue[Transfer] = queue.SimpleQueue()
    for transfer in waiting:
        todo.put(transfer)
    ended: queue.SimpleQueue[tuple[Transfer, BaseException | None]] = queue.SimpleQueue()

    def work() -> None:
        while not client.stop.is_set():
            try:
                transfer = todo.get_nowait()
            except queue.Empty:
                return
            try:
                transfer.run(bar)
                ended.put((transfer, None))
            except BaseException as error:
                ended.put((transfer, error))

    # Not an executor: Python waits for its threads at exit, and thus for a server that may say nothing for a minute.
    threads = [threading.Thread(target=work, name="kifu fetch", daemon=True) for _ in range(min(jobs, len(waiting)))]
    for thread in threads:
        thread.start()
    reasons: dict[Transfer, Failure] = {}
    try:
        for _ in waiting:
            transfer, error = ended.get()
            if isinstance(error, Failure):
                reasons[transfer] = error
                bar.say(f"{transfer.target.name}: {error}")
            elif error:
                raise error
            else:
                bar.advance()
    finally:
        client.stop.set()
        deadline = time.monotonic() + _LAST_WAIT
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
    for transfer in waiting:  # in the page's order, not as they ended
        report.received += transfer.received
        if transfer in reasons:
            report.failed[transfer.target.name] = str(reasons[transfer])
        else:
            report.fetched.append(transfer.target.name)
