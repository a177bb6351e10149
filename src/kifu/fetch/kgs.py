"""The archives of KGS: those that the index page lists, those that are wanted, and their parallel download."""

from __future__ import annotations

import os
import queue
import re
import threading
import time
from collections.abc import Collection
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

from kifu.assets import sample_path
from kifu.atomic_io import write_file
from kifu.errors import OutputError, RecipeError, SourceError
from kifu.fetch._download import Download
from kifu.fetch._http import Client, DownloadError, absolute_url
from kifu.files import read_small
from kifu.progress import Progress, ProgressFactory, format_bytes, silent
from kifu.recipes.kgs_index import KINDS, PAGE_LIMIT, Archive, parse_index
from kifu.registry import unknown
from kifu.report import Report
from kifu.retry import RetryPolicy

KGS_INDEX = "https://u-go.net/gamerecords/"

_MAX_REASONS = 3
"""Reasons in the one line of an error."""
_STOP_TIMEOUT_S = 1.0
"""Time for the threads to end after an interrupt; one that waits for a server ends with the process."""


@dataclass(slots=True)
class FetchReport(Report):
    """The outcome for each archive, by file name.

    Attributes:
        fetched: archives that were downloaded, or with `dry_run` would be.
        present: archives that were there already.
        failed: reasons by name.
        received: bytes of archives that came over the network.
    """

    fetched: list[str] = field(default_factory=list)
    present: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    received: int = 0

    def __str__(self) -> str:
        plural = "" if len(self.fetched) == 1 else "s"
        text = (
            f"{len(self.fetched)} archive{plural} fetched ({format_bytes(self.received)}), "
            f"{len(self.present)} there already"
        )
        return f"{text}, {len(self.failed)} failed" if self.failed else text


class FetchError(SourceError):
    """Raised if some archives were not fetched; `report` lists them, and those that were."""

    def __init__(self, report: FetchReport) -> None:
        self.report = report
        reasons = [f"{name}: {reason}" for name, reason in list(report.failed.items())[:_MAX_REASONS]]
        if len(report.failed) > _MAX_REASONS:
            reasons.append(f"and {len(report.failed) - _MAX_REASONS} more")
        wanted = len(report.failed) + len(report.fetched)
        super().__init__(f"{len(report.failed)} of {wanted} archives were not fetched: {'; '.join(reasons)}")


def parse_years(text: str) -> set[int]:
    """Parse years and ranges of years such as "2001-2014,2016". Raises RecipeError for anything else."""
    years: set[int] = set()
    for piece in text.split(","):
        match = re.fullmatch(r"\s*([0-9]{4})\s*(?:-\s*([0-9]{4})\s*)?", piece)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last:
            raise RecipeError(f"{piece.strip()!r} in {text!r} is not a year or a range of years, as in 2001-2014,2016")
        years.update(range(first, last + 1))
    return years


def fetch_kgs(
    into: str | os.PathLike[str],
    *,
    years: Collection[int] | None = None,
    index: str | os.PathLike[str] = KGS_INDEX,
    jobs: int = 4,
    kind: str = "tar.gz",
    policy: RetryPolicy | None = None,
    dry_run: bool = False,
    progress: ProgressFactory = silent,
) -> FetchReport:
    """Download the archives that the index page links.

    The proxy that the environment names is used (http_proxy, https_proxy, no_proxy). An archive that cannot be fetched
    does not stop the others. After an interrupt (KeyboardInterrupt), only .part files are left.

    Args:
        into: the folder, created if necessary.
        years: only archives of these years; None for all.
        index: an http or https address or a file, whose relative links are taken as those of `KGS_INDEX`.
        jobs: downloads at a time.
        kind: "tar.gz", "tar.bz2" or "zip".
        policy: timeouts and retries.
        dry_run: only read the index page and list the archives.
        progress: reports progress.

    Raises:
        FetchError: some archives could not be fetched.
        SourceError: the index page cannot be had or has no archive of these years, or `into` is not writable.
        OutputError: a temporary file is a symbolic link, or was removed or replaced.
        RecipeError: an argument is out of range.
    """
    if kind not in KINDS:
        raise unknown("kind of archive", kind, KINDS)
    if jobs < 1:
        raise RecipeError(f"jobs must be >= 1, got {jobs}")
    client = Client(policy or RetryPolicy(), jobs)
    page, base = _index_page(client, os.fspath(index), progress)
    archives = _of_years(page, years, os.fspath(index))
    folder, report = Path(into), FetchReport()
    try:
        if not dry_run:
            folder.mkdir(parents=True, exist_ok=True)
        downloads: list[Download] = []
        for archive in archives:
            target = folder / f"{archive.stem}.{kind}"
            if target.exists():
                report.present.append(target.name)
            elif kind in archive.links:
                downloads.append(Download(client, target, kind, *_link(base, archive.links[kind])))
            else:
                report.failed[target.name] = "the index page has no link to it"
        if dry_run:
            report.fetched += [download.target.name for download in downloads]
        elif downloads:
            with progress("fetching from KGS", len(downloads), "archives") as bar:
                _run(client, downloads, jobs, bar, report)
    except (SourceError, OutputError):
        raise
    except OSError as error:
        raise SourceError(f"{error.filename or folder}: {error.strerror}") from None
    if report.failed:
        raise FetchError(report)
    return report


def fetch_sample(into: str | os.PathLike[str], *, dry_run: bool = False) -> FetchReport:
    """Write the bundled archive to a folder.

    Args:
        into: the folder, created if necessary.
        dry_run: only list the archive.

    Raises:
        OutputError: the archive cannot be written.
    """
    source = sample_path()
    target = Path(into) / source.name
    if target.exists():
        return FetchReport(present=[target.name])
    if not dry_run:
        write_file(target, source.read_bytes())
    return FetchReport(fetched=[target.name], received=source.stat().st_size)


def _of_years(page: bytes, years: Collection[int] | None, index: str) -> list[Archive]:
    try:
        archives = parse_index(page)
    except SourceError as error:
        raise SourceError(f"{index}: {error}") from None
    chosen = [archive for archive in archives if years is None or archive.year in years]
    if not chosen:
        available = sorted({archive.year for archive in archives})
        wanted = f"{min(years)} to {max(years)}" if years else "no years"
        raise SourceError(f"{index} has no archive of {wanted}, but of years from {available[0]} to {available[-1]}")
    return chosen


def _index_page(client: Client, index: str, progress: ProgressFactory) -> tuple[bytes, str]:
    """Return the page and its address, "" for a file."""
    if "://" not in index:
        try:
            return read_small(index, PAGE_LIMIT), ""
        except OSError as error:
            raise SourceError(f"the index page {index}: {error.strerror}") from None

    def attempt() -> bytes:
        page = bytearray()
        with closing(client.open(index, "", 0)) as response:
            for chunk in client.chunks(response):
                bar.advance(len(chunk))
                page += chunk
                if len(page) > PAGE_LIMIT:
                    break  # `parse_index` refuses it
        return bytes(page)

    with progress(f"reading {index}", None, "bytes") as bar:
        try:
            return client.retry(attempt, bar.log), index
        except DownloadError as failure:
            raise SourceError(f"the index page {index}: {failure}") from None


def _link(base: str, link: str) -> tuple[str, str]:
    """Return the address of the page, "" for a file, and a link in it, which in a file is relative to KGS_INDEX."""
    if not base:
        with suppress(DownloadError):  # the download will fail
            link = absolute_url(KGS_INDEX, link)
    return base, link


def _run(client: Client, downloads: list[Download], jobs: int, bar: Progress, report: FetchReport) -> None:
    """Run all downloads, `jobs` at a time, and report on each. Raises the first error that is not a DownloadError."""
    todo: queue.SimpleQueue[Download] = queue.SimpleQueue()
    for download in downloads:
        todo.put(download)
    done: queue.SimpleQueue[tuple[Download, BaseException | None]] = queue.SimpleQueue()

    def work() -> None:
        while not client.stop.is_set():
            try:
                download = todo.get_nowait()
            except queue.Empty:
                return
            try:
                download.run(bar)
                done.put((download, None))
            except BaseException as error:
                done.put((download, error))

    # Daemon threads, not an executor: Python would wait at exit for a server that may be silent for a minute.
    threads = [threading.Thread(target=work, name="kifu fetch", daemon=True) for _ in range(min(jobs, len(downloads)))]
    for thread in threads:
        thread.start()
    reasons: dict[Download, DownloadError] = {}
    try:
        for _ in downloads:
            download, error = done.get()
            if isinstance(error, DownloadError):
                reasons[download] = error
                bar.log(f"{download.target.name}: {error}")
            elif error:
                raise error
            else:
                bar.advance()
    finally:
        client.stop.set()
        deadline = time.monotonic() + _STOP_TIMEOUT_S
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
    for download in downloads:  # in the order of the page
        report.received += download.received
        if download in reasons:
            report.failed[download.target.name] = str(reasons[download])
        else:
            report.fetched.append(download.target.name)
