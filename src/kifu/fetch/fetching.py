"""Downloads of collections: read the index, choose files, and fetch them one after another."""

from __future__ import annotations

import os
import time
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from kifu.assets import sample_path
from kifu.atomic_io import write_file
from kifu.errors import OutputError, SourceError
from kifu.fetch._download import FileDownload
from kifu.fetch._http import Client, DownloadError, ServerBusyError
from kifu.fetch._listing import LISTING_LIMIT, ListedFile, add_checksums, parse_listing
from kifu.fetch.choice import FileChoice, choose_files
from kifu.fetch.collections import COLLECTIONS, Collection
from kifu.files import read_small
from kifu.progress import Progress, ProgressFactory, silent
from kifu.registry import unknown
from kifu.retry import RetryPolicy
from kifu.text import Report, counted, format_bytes

_PAUSE_S = 1.0
"""Seconds between two files, so that the publisher's server is not kept busy."""

_MAX_REASONS = 3
"""Reasons in the one line of an error."""


@dataclass(slots=True)
class FetchReport(Report):
    """The outcome for each file, by name.

    Attributes:
        fetched: Files that were downloaded, or with `dry_run` would be.
        received: Bytes of files that came over the network.
        size: Bytes of the files in `fetched` as far as the index lists them.
        unknown: Number of files in `fetched` whose size the index does not list.
    """

    fetched: list[str] = field(default_factory=list)
    present: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    received: int = 0
    size: int = 0
    unknown: int = 0

    def __str__(self) -> str:
        fetched = f"{counted(len(self.fetched), 'file')} fetched ({format_bytes(self.received)})"
        text = f"{fetched}, {len(self.present)} there already"
        return f"{text}, {len(self.failed)} failed" if self.failed else text


class FetchError(SourceError):
    """Raised if some files were not fetched; `report` lists them, and those that were."""

    def __init__(self, report: FetchReport) -> None:
        self.report = report
        reasons = [f"{name}: {reason}" for name, reason in list(report.failed.items())[:_MAX_REASONS]]
        if len(report.failed) > _MAX_REASONS:
            reasons.append(f"and {len(report.failed) - _MAX_REASONS} more")
        wanted = len(report.failed) + len(report.fetched)
        super().__init__(f"{len(report.failed)} of {wanted} files were not fetched: {'; '.join(reasons)}")


def list_files(
    collection: str,
    choice: FileChoice | None = None,
    *,
    index: str | os.PathLike[str] | None = None,
    policy: RetryPolicy | None = None,
    progress: ProgressFactory = silent,
) -> list[ListedFile]:
    """Return the chosen files of a collection, by default all that the index lists.

    Args:
        collection: A name in `COLLECTIONS`.
        index: An http or https address or a file, instead of the index in `COLLECTIONS`.

    Raises:
        SourceError: The index cannot be had, or no file is chosen.
        RecipeError: The collection is unknown.
    """
    found = _collection(collection)
    files, _ = _read_index(Client(policy or RetryPolicy()), found, index, progress)
    return choose_files(collection, files, choice or FileChoice())


def fetch(
    collection: str,
    into: str | os.PathLike[str],
    choice: FileChoice,
    *,
    index: str | os.PathLike[str] | None = None,
    policy: RetryPolicy | None = None,
    dry_run: bool = False,
    progress: ProgressFactory = silent,
) -> FetchReport:
    """Download files of a collection, one after another.

    The proxy that the environment names is used (http_proxy, https_proxy, no_proxy). A file that cannot be fetched
    does not stop the others, unless the server asks for a long pause. After an interrupt (KeyboardInterrupt), only
    .part files, which are resumed, and their .part.etag are left.

    Args:
        collection: A name in `COLLECTIONS`.
        index: An http or https address or a file, instead of the index in `COLLECTIONS`.
        dry_run: Only read the index and list the files.

    Raises:
        FetchError: Some files could not be fetched.
        SourceError: The index cannot be had, no file is chosen, or `into` is not writable.
        OutputError: A temporary file is a symbolic link, or was removed or replaced.
    """
    found = _collection(collection)
    client = Client(policy or RetryPolicy())
    files, base = _read_index(client, found, index, progress)
    folder, report = Path(into), FetchReport()
    downloads = []
    for file in choose_files(collection, files, choice):
        target = folder / file.name
        if target.exists():
            report.present.append(file.name)
        else:
            downloads.append(FileDownload(client, file, target, base, found.limit))
    report.unknown = sum(download.file.size is None for download in downloads)
    report.size = sum(download.file.size or 0 for download in downloads)
    if dry_run:
        report.fetched += [download.file.name for download in downloads]
    elif downloads:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with progress(f"fetching {collection}", len(downloads), "files") as bar:
                _run(downloads, bar, report)
        except (SourceError, OutputError):
            raise
        except OSError as error:
            raise SourceError(f"{error.filename or folder}: {error.strerror}") from None
    if report.failed:
        raise FetchError(report)
    return report


def fetch_sample(into: str | os.PathLike[str], *, dry_run: bool = False) -> FetchReport:
    """Write the bundled archive to a folder.

    Raises:
        OutputError: The archive cannot be written.
    """
    source = sample_path()
    target = Path(into) / source.name
    if target.exists():
        return FetchReport(present=[target.name])
    if not dry_run:
        write_file(target, source.read_bytes())
    size = source.stat().st_size
    return FetchReport(fetched=[target.name], received=size, size=size)


def _collection(name: str) -> Collection:
    if name not in COLLECTIONS:
        raise unknown("collection", name, ("sample", *COLLECTIONS))
    return COLLECTIONS[name]


def _read_index(
    client: Client, collection: Collection, index: str | os.PathLike[str] | None, progress: ProgressFactory
) -> tuple[list[ListedFile], str]:
    """Return the files that the index lists, and the address that leads to them, "" for an index that is a file."""
    address = os.fspath(index) if index is not None else collection.index
    is_local = "://" not in address
    try:
        if is_local:
            page = read_small(address, LISTING_LIMIT)
        else:
            page = _read_page(client, "", address, progress)
        base = collection.index if is_local else address
        files, sums = parse_listing(page, base, collection, is_local=is_local)
        if sums and not is_local:
            files = add_checksums(files, _read_page(client, address, sums, progress))
    except SourceError as error:
        raise SourceError(f"{address}: {error}") from None
    except DownloadError as failure:
        hint = "; --index gives another address" if index is None else ""
        raise SourceError(f"the index {address}: {failure}{hint}") from None
    except OSError as error:
        raise SourceError(f"the index {address}: {error.strerror}") from None
    return files, "" if is_local else address


def _read_page(client: Client, base: str, link: str, progress: ProgressFactory) -> bytes:
    def attempt() -> bytes:
        page = bytearray()
        with closing(client.open(base, link)) as response:
            for chunk in client.chunks(response):
                bar.advance(len(chunk))
                page += chunk
                if len(page) > LISTING_LIMIT:
                    raise DownloadError(f"it has more than the {LISTING_LIMIT:,} bytes allowed")
        return bytes(page)

    with progress(f"reading {link}", None, "bytes") as bar:
        return client.retry(attempt, bar.log)


def _run(downloads: list[FileDownload], bar: Progress, report: FetchReport) -> None:
    """Run the downloads and report on each. Raises the first error that is not a DownloadError."""
    busy: ServerBusyError | None = None
    for number, download in enumerate(downloads):
        try:
            if busy is not None:
                raise busy
            if number:
                time.sleep(_PAUSE_S)
            download.run(bar)
        except DownloadError as error:
            busy = error if isinstance(error, ServerBusyError) else None
            report.failed[download.file.name] = str(error)
            bar.log(f"{download.file.name}: {error}")
        else:
            report.fetched.append(download.file.name)
            bar.advance()
        report.received += download.received
