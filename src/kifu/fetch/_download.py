"""The download of one archive, and the check that it is complete."""

from __future__ import annotations

import bz2
import lzma
import os
import re
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from io import BufferedReader, FileIO
from pathlib import Path
from typing import BinaryIO, cast

import urllib3
from isal import igzip, igzip_lib

from kifu.errors import OutputError
from kifu.fetch._http import CancelledError, Client, DownloadError, RetryableError
from kifu.files import require_regular
from kifu.folders import cannot_write, require_no_link, require_same
from kifu.progress import Progress, Subtask

try:
    import fcntl
except ImportError:  # Windows, where a file that another process has open cannot be replaced anyway
    fcntl = None  # type: ignore[assignment]

SIZE_LIMIT = 4 << 30
"""Largest size of an archive in bytes. The largest of KGS has some 10 million."""

UNPACKED_LIMIT = 64 << 30
"""Largest unpacked size in bytes, against decompression bombs."""

_DIRECTORY_LIMIT = 16 << 20
"""Largest directory of a zip file in bytes; zipfile takes some ten times as much memory for it."""

_CHUNK_BYTES = 1 << 20
_TAR_HEADER_BYTES = 512
_MAGIC = {"zip": b"PK\3\4", "tar.gz": b"\x1f\x8b", "tar.bz2": b"BZh"}

_TOO_LARGE = f"it has more than the {SIZE_LIMIT:,} bytes allowed"

_CONTENT_RANGE = re.compile(r"bytes (?:([0-9]{1,15})-[0-9]{1,15}|\*)/(?:([0-9]{1,15})|\*)")

_DAMAGE = (
    EOFError,
    OSError,  # bz2: bad data; zipfile: an offset before the file
    RuntimeError,  # zipfile: encrypted, or an unknown compression
    ValueError,
    struct.error,
    cast(type[Exception], igzip_lib.IsalError),  # isal's stubs declare an instance
    zlib.error,
    lzma.LZMAError,
    zipfile.BadZipFile,
)


class Download:
    """An archive to be downloaded.

    Attributes:
        target: the file that it becomes.
        received: bytes received over the network so far.
    """

    def __init__(self, client: Client, target: Path, kind: str, base: str, link: str) -> None:
        """Describe a download.

        Args:
            client: makes the requests.
            target: the file that the archive becomes.
            kind: "tar.gz", "tar.bz2" or "zip".
            base: address that the link may be relative to.
            link: address of the archive.
        """
        self.target = target
        self.received = 0
        self._client, self._kind, self._base, self._link = client, kind, base, link
        self._part_path = target.with_name(target.name + ".part")

    def run(self, bar: Progress) -> None:
        """Download, check and rename the archive.

        Raises:
            DownloadError: it cannot be downloaded.
            CancelledError: the run was cancelled.
            OSError: the file cannot be written.
        """
        with bar.subtask(self.target.name, "bytes") as subtask, _locked(self._part_path) as file:
            if self.target.exists():  # written by another process in the meantime
                return
            self._client.retry(
                lambda: self._attempt(file, subtask), lambda line: bar.log(f"{self.target.name}: {line}")
            )
            os.fsync(file.fileno())
            if self._client.stop.is_set():
                raise CancelledError
            require_same(self._part_path, os.fstat(file.fileno()))
            self._part_path.replace(self.target)

    def _attempt(self, file: BinaryIO, subtask: Subtask) -> None:
        """Append what the server sends to the file, and check all of it."""
        old = file.seek(0, os.SEEK_END)
        with closing(self._client.open(self._base, self._link, old)) as response:
            extent = _extent(response, old)
            if extent is None:
                _empty(file)
                raise RetryableError(f"the server cannot resume at byte {old:,}; starting over", 0.0)
            begin, total = extent
            if total is not None and total > SIZE_LIMIT:
                raise DownloadError(_TOO_LARGE)
            if begin < old:
                _empty(file)
            subtask.restart(begin, total)
            if response.status != 416:
                self._receive(response, file, begin, total, subtask)
        file.flush()
        reason = find_damage(self._part_path, self._kind)
        if reason:
            _empty(file)
            # Pieces of several responses may be of several versions; a body of unknown length may have been cut off.
            if begin or total is None:
                raise RetryableError(f"{reason}; starting over", 0.0)
            raise DownloadError(reason)

    def _receive(
        self, response: urllib3.BaseHTTPResponse, file: BinaryIO, begin: int, total: int | None, subtask: Subtask
    ) -> None:
        size, limit = begin, SIZE_LIMIT if total is None else total
        for chunk in self._client.chunks(response):
            size += len(chunk)
            self.received += len(chunk)
            if size > limit:
                _empty(file)
                raise DownloadError(_TOO_LARGE if total is None else f"more came than the {total:,} bytes announced")
            file.write(chunk)
            subtask.advance(len(chunk))
        if total is not None and size < total:
            raise RetryableError(f"only {size:,} of {total:,} bytes came")


def _extent(response: urllib3.BaseHTTPResponse, old: int) -> tuple[int, int | None] | None:
    """Return where in a file of `old` bytes the body begins, and the total size if known.

    None if the response does not continue at `old`. After a 416, any other value means that the file is complete.
    """
    length = response.length_remaining
    if response.status == 200:
        return 0, length
    match = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
    if not match:
        return None
    begin, total = (None if number is None else int(number) for number in match.groups())
    if response.status == 416:
        return (old, old) if total == old else None
    if total is None and length is not None:
        total = old + length
    return (old, total) if begin == old else None


def _empty(file: BinaryIO) -> None:
    file.seek(0)
    file.truncate()


@contextmanager
def _locked(path: Path) -> Iterator[BinaryIO]:
    """Open a file that no other process holds, creating it if necessary; remove it at the end if it is empty."""
    require_no_link(path)
    with open(path, "r+b", opener=_open_own) as file:
        if fcntl:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise DownloadError("another process is fetching it") from None
            except OSError:  # a file system without locks
                pass
        try:
            yield file
        finally:
            if file.seek(0, os.SEEK_END) == 0:
                path.unlink(missing_ok=True)


def _open_own(path: str, flags: int) -> int:
    """Open or create a file for writing. Raises OutputError unless it is a regular file with one name."""
    descriptor = os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    try:
        status = os.fstat(descriptor)
        require_regular(status)
        if status.st_nlink > 1:
            raise OutputError(f"{path} has another name (a hard link); remove it")
    except OutputError:
        os.close(descriptor)
        raise
    except OSError as error:
        os.close(descriptor)
        raise cannot_write(Path(path), error) from None
    return descriptor


def find_damage(path: Path, kind: str) -> str:
    """Read an archive to its end in bounded memory, verifying checksums.

    Args:
        path: the file.
        kind: "tar.gz", "tar.bz2" or "zip". Of a tar file only the first header is looked at.

    Returns:
        A line that says why it is not a complete archive of that kind, or "".

    Raises:
        OSError: the file cannot be opened.
    """
    with path.open("rb") as file:
        head = file.read(16)
    if not head.startswith(_MAGIC[kind]):
        return f"not a {kind} archive: it begins with {head!r}"
    try:
        return _zip_damage(path) if kind == "zip" else _tar_damage(path, kind)
    except _DAMAGE as error:
        reason = "it ends too early" if isinstance(error, EOFError) else " ".join(str(error).split())
        return f"not a complete {kind} archive: {reason or type(error).__name__}"


def _tar_damage(path: Path, kind: str) -> str:
    opened = igzip.IGzipFile(path, "rb") if kind == "tar.gz" else bz2.BZ2File(path, "rb")  # type: ignore[no-untyped-call]
    with opened as stream:
        header = stream.read(_TAR_HEADER_BYTES)
        unpacked = len(header)
        while piece := stream.read(_CHUNK_BYTES):
            unpacked += len(piece)
            if unpacked > UNPACKED_LIMIT:
                return f"it unpacks to more than the {UNPACKED_LIMIT:,} bytes allowed"
    try:
        tarfile.TarInfo.frombuf(header, "utf-8", "surrogateescape")
    except tarfile.TarError:
        return f"not a {kind} archive: there is no tar file in it"
    return ""


class _BoundedReader(BufferedReader):
    """Refuses the one long read of zipfile, of the directory, whose length the file itself claims."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > _DIRECTORY_LIMIT:
            raise ValueError(f"its list of members has more than the {_DIRECTORY_LIMIT:,} bytes allowed")
        return super().read(size)


def _zip_damage(path: Path) -> str:
    with _BoundedReader(FileIO(path)) as file, zipfile.ZipFile(file) as archive:
        if sum(member.file_size for member in archive.infolist()) > UNPACKED_LIMIT:
            return f"it unpacks to more than the {UNPACKED_LIMIT:,} bytes allowed"
        bad = archive.testzip()
    return "" if bad is None else f"not a complete zip archive: its member {bad!r} is damaged"
