"""Downloads of collections: read the index, choose files, and fetch them one after another."""

from __future__ import annotations

import hashlib
import os
import re
import struct
import tarfile
import time
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from io import BufferedReader, FileIO
from pathlib import Path
from typing import BinaryIO

from kifu.assets import sample_path
from kifu.download import Client, DownloadError, RetryableError, ServerBusyError, Transfer, empty, is_validator
from kifu.errors import OutputError, SourceError
from kifu.fetch.collections import (
    COLLECTIONS,
    LISTING_LIMIT,
    Collection,
    FileChoice,
    ListedFile,
    add_checksums,
    choose_files,
    parse_listing,
)
from kifu.io import (
    NO_LINK,
    NO_WAIT,
    cannot_write,
    lock_file,
    open_regular,
    read_small,
    require_no_link,
    require_regular,
    require_same,
    write_file,
)
from kifu.progress import Progress, ProgressFactory, Subtask, silent
from kifu.records._streams import open_stream
from kifu.registry import unknown
from kifu.retry import RetryPolicy
from kifu.text import Report, counted, format_bytes, hide_credentials

_UNPACKED_FACTOR = 16
"""Largest unpacked size, as a multiple of the largest size of a file, against decompression bombs."""

_DIRECTORY_LIMIT = 16 << 20
"""Largest directory of a zip file in bytes; zipfile takes some ten times as much memory for it."""

_CHUNK_BYTES = 1 << 20
_TAR_HEADER_BYTES = 512
_MAGIC = {"zip": b"PK\3\4", "gz": b"\x1f\x8b", "bz2": b"BZh", "xz": b"\xfd7zXZ\0", "7z": b"7z\xbc\xaf\x27\x1c"}
_SUFFIX = re.compile(r"\.(zip|7z|7z\.001|tar\.gz|tar\.bz2|gz|bz2|xz)\Z")
_POINTER = b"version https://git-lfs.github.com/spec/"
_7Z_HEADER = struct.Struct("<6s2sIQQI")
"""Magic, version, CRC of what follows, then the offset, size and CRC of the list of members."""

_DAMAGE = (EOFError, OSError, RuntimeError, ValueError, struct.error, zlib.error, zipfile.BadZipFile)
"""OSError: an offset before the file of a zip; RuntimeError: it is encrypted, or has an unknown compression."""

_PAUSE_S = 1.0
"""Seconds between two files, so that the publisher's server is not kept busy."""

_MAX_REASONS = 3
"""Reasons in the one line of an error."""


def kind_of(name: str) -> str:
    """Return the kind of a file by its name, such as "tar.gz" or "7z.001"; "" for one that cannot be checked."""
    match = _SUFFIX.search(name)
    return match[1] if match else ""


def find_damage(path: Path, kind: str, limit: int) -> str:
    """Return a line that says why a file is not a complete one of a kind (`kind_of`), or "".

    It is read to its end in bounded memory, verifying the checksums that it contains. Of a tar file only the first
    header is looked at, of a .7z only the list of members. limit: the largest size of such a file in bytes.
    """
    packing = kind.removesuffix(".001").rpartition(".")[2]
    with path.open("rb") as file:
        head = file.read(64)
    if head.startswith(_POINTER):
        return "a Git LFS pointer, not the file itself; get the file with 'git lfs pull' in a clone of the repository"
    if not kind:
        return ""
    if not head.startswith(_MAGIC[packing]):
        return f"not a {kind} archive: it begins with {head[:16]!r}"
    try:
        if packing == "zip":
            return _zip_damage(path, limit * _UNPACKED_FACTOR)
        if packing == "7z":
            return _7z_damage(path, kind)
        return _stream_damage(path, kind, limit * _UNPACKED_FACTOR)
    except _DAMAGE as error:
        reason = "it ends too early" if isinstance(error, EOFError) else " ".join(str(error).split())
        return f"not a complete {kind} archive: {reason or type(error).__name__}"


def differs(path: Path, checksum: str) -> bool:
    """Return whether a file differs from a checksum: "sha256:..." or "git:...", the SHA-1 of a git blob."""
    kind, _, expected = checksum.partition(":")
    with path.open("rb") as file:
        digest = hashlib.sha256() if kind == "sha256" else hashlib.sha1(usedforsecurity=False)
        if kind == "git":
            digest.update(b"blob %d\0" % path.stat().st_size)
        while piece := file.read(_CHUNK_BYTES):
            digest.update(piece)
    return digest.hexdigest() != expected


def _stream_damage(path: Path, kind: str, limit: int) -> str:
    scratch = memoryview(bytearray(_CHUNK_BYTES))
    with open_regular(path) as file:
        stream, compression = open_stream(file)
        if not compression:
            return f"not a complete {kind} archive: its header is damaged"
        unpacked = stream.fill(scratch)
        header = bytes(scratch[: min(unpacked, _TAR_HEADER_BYTES)])
        while count := stream.fill(scratch):
            unpacked += count
            if unpacked > limit:
                return f"it unpacks to more than the {limit:,} bytes allowed"
    if stream.damage:
        return f"not a complete {kind} archive: {stream.damage}"
    if kind.startswith("tar."):
        try:
            tarfile.TarInfo.frombuf(header, "utf-8", "surrogateescape")
        except tarfile.TarError:
            return f"not a {kind} archive: there is no tar file in it"
    return ""


def _7z_damage(path: Path, kind: str) -> str:
    """Check the header, and in a file that is not split the list of members, which is at the end."""
    size = path.stat().st_size
    with path.open("rb") as file:
        header = file.read(_7Z_HEADER.size)
        _, _, crc, offset, length, list_crc = _7Z_HEADER.unpack(header)
        if zlib.crc32(header[12:]) != crc:
            return f"not a complete {kind} archive: its header is damaged"
        if kind != "7z":
            return ""
        if size != _7Z_HEADER.size + offset + length:
            expected = _7Z_HEADER.size + offset + length
            return f"not a complete 7z archive: it has {size:,} bytes, and its header says {expected:,}"
        file.seek(-length, 2)
        crc_of_list = 0
        while piece := file.read(_CHUNK_BYTES):
            crc_of_list = zlib.crc32(piece, crc_of_list)
    return "" if crc_of_list == list_crc else "not a complete 7z archive: its list of members is damaged"


class _BoundedReader(BufferedReader):
    """Refuses the one long read of zipfile, of the directory, whose length the file itself claims."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > _DIRECTORY_LIMIT:
            raise ValueError(f"its list of members has more than the {_DIRECTORY_LIMIT:,} bytes allowed")
        return super().read(size)


def _zip_damage(path: Path, limit: int) -> str:
    with _BoundedReader(FileIO(path)) as file, zipfile.ZipFile(file) as archive:
        if sum(member.file_size for member in archive.infolist()) > limit:
            return f"it unpacks to more than the {limit:,} bytes allowed"
        bad = archive.testzip()
    return "" if bad is None else f"not a complete zip archive: its member {bad!r} is damaged"


class FileDownload:
    """A file to be downloaded."""

    def __init__(self, client: Client, file: ListedFile, target: Path, base: str, limit: int) -> None:
        """Describe a download. base: address of the index, "" if it is a local file; limit: largest size in bytes."""
        self.file = file
        self.target = target
        self._client, self._limit = client, limit
        size = file.size if file.exact else None
        self._transfer = Transfer(client, base, file.link, limit, size=size, begin=self._write_validator)
        self._part_path = target.with_name(target.name + ".part")
        self._validator_path = target.with_name(target.name + ".part.etag")

    @property
    def received(self) -> int:
        """Bytes received over the network so far."""
        return self._transfer.received

    def run(self, bar: Progress) -> None:
        """Download, check and rename the file. Raises DownloadError if it cannot be downloaded."""
        with bar.subtask(self.target.name, "bytes") as subtask, self._locked() as file:
            if self.target.exists():  # written by another process in the meantime
                return
            with suppress(OSError, ValueError):  # the ETag or the date of the version that the .part file holds
                text = read_small(self._validator_path, 300).decode("ascii")
                self._transfer.validator = text if is_validator(text) else ""
            self._client.retry(
                lambda: self._attempt(file, subtask), lambda line: bar.log(f"{self.target.name}: {line}")
            )
            os.fsync(file.fileno())
            require_same(self._part_path, os.fstat(file.fileno()))
            self._part_path.replace(self.target)
            self._validator_path.unlink(missing_ok=True)

    def _attempt(self, file: BinaryIO, subtask: Subtask) -> None:
        self._transfer.attempt(file, subtask)
        reason = find_damage(self._part_path, kind_of(self.target.name), self._limit)
        if not reason and self.file.checksum and differs(self._part_path, self.file.checksum):
            reason = "it differs from the checksum that the publisher gives"
        if reason:
            empty(file)
            # Pieces of several responses may be of several versions; a body of unknown length may have been cut off.
            if not self._transfer.whole:
                raise RetryableError(f"{reason}; starting over", 0.0)
            raise DownloadError(reason)

    def _write_validator(self, validator: str, _total: int | None) -> None:
        if validator:
            write_file(self._validator_path, validator.encode())
        else:
            self._validator_path.unlink(missing_ok=True)

    @contextmanager
    def _locked(self) -> Iterator[BinaryIO]:
        """Open or create the .part file, which no other process holds; remove it at the end if it is empty."""
        require_no_link(self._part_path)
        with open(self._part_path, "r+b", opener=_open_own) as file:
            try:
                lock_file(file.fileno())
            except BlockingIOError:
                raise DownloadError("another process is fetching it") from None
            try:
                yield file
            finally:
                if file.seek(0, os.SEEK_END) == 0:
                    self._part_path.unlink(missing_ok=True)
                    self._validator_path.unlink(missing_ok=True)


def _open_own(path: str, flags: int) -> int:
    """Open or create a file for writing. Raises OutputError unless it is a regular file with one name."""
    descriptor = os.open(path, flags | os.O_CREAT | NO_LINK | NO_WAIT, 0o666)
    try:
        status = os.fstat(descriptor)
        require_regular(status)
        if status.st_nlink > 1:
            raise OutputError(f"{path} has another name (a hard link); remove it")
    except OSError as error:
        os.close(descriptor)
        raise cannot_write(Path(path), error) from None
    return descriptor


@dataclass(slots=True)
class FetchReport(Report):
    """The outcome for each file, by name.

    Attributes:
        fetched: Files that were downloaded, or with `dry_run` would be.
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
    """Return the chosen files of a collection, by default all that the index lists; see `fetch`."""
    files, _ = _read_index(Client(policy or RetryPolicy()), _collection(collection), index, progress)
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
        index: An http or https address or a file, instead of the index in `COLLECTIONS`.

    Raises:
        FetchError: Some files could not be fetched.
        SourceError: The index cannot be had, no file is chosen, or `into` is not writable.
        RecipeError: The collection is unknown.
        OutputError: A temporary file is a symbolic link, or was removed or replaced.
    """
    published, client = _collection(collection), Client(policy or RetryPolicy())
    files, base = _read_index(client, published, index, progress)
    folder, report = Path(into), FetchReport()
    downloads = []
    for file in choose_files(collection, files, choice):
        target = folder / file.name
        if target.exists():
            report.present.append(file.name)
        else:
            downloads.append(FileDownload(client, file, target, base, published.limit))
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
    """Write the bundled archive to a folder."""
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
    """Return the files that the index lists, and the address that leads to them, "" if no address was read."""
    if index is None and collection.files:
        return list(collection.files), ""
    address = os.fspath(index) if index is not None else collection.index
    is_local, shown = "://" not in address, hide_credentials(address)
    try:
        page = read_small(address, LISTING_LIMIT) if is_local else _read_page(client, "", address, progress)
        files, sums = parse_listing(page, collection.index if is_local else address, collection, is_local=is_local)
        if sums and not is_local:
            files = add_checksums(files, _read_page(client, address, sums, progress))
    except SourceError as error:
        raise SourceError(f"{shown}: {error}") from None
    except DownloadError as failure:
        hint = "; --index gives another address" if index is None else ""
        raise SourceError(f"the index {shown}: {failure}{hint}") from None
    except OSError as error:
        raise SourceError(f"the index {shown}: {error.strerror}") from None
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

    with progress(f"reading {hide_credentials(link)}", None, "bytes") as bar:
        return client.retry(attempt, bar.log)


def _run(downloads: list[FileDownload], bar: Progress, report: FetchReport) -> None:
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
