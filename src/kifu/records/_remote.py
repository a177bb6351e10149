"""Open files of remote storage: read sequentially with prefetch, at any position, or from a complete copy."""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from io import RawIOBase
from pathlib import Path
from types import TracebackType
from typing import Self

from kifu.records._store import FileRanges, Store, StoreError, WebRanges

PIECE_BYTES = 8 << 20
"""Size of a request: at 100 MB/s it takes 80 ms, against the 10 to 50 ms until a store answers."""

_PAGE_BYTES = 1 << 20
"""Size of the first request, since many files are only opened to detect their format, and of a page of a copy."""


class RemoteFile:
    """An open remote file, unbuffered like `FileIO`, but fetched in pieces, the next one ahead.

    A context manager: leaving it raises OSError if the file has changed and took more than one request.

    Attributes:
        size: Length in bytes.
    """

    def __init__(self, store: Store, size: int, require_unchanged: Callable[[], None]) -> None:
        """Open a file.

        Args:
            size: Its length in bytes.
            require_unchanged: Raises OSError if the file has changed.
        """
        self.size = size
        self._store, self._require_unchanged = store, require_unchanged
        self._position = 0
        self._piece, self._begin = b"", 0
        self._next: Future[bytes] | None = None
        self._thread = ThreadPoolExecutor(1)  # makes all requests
        self._ranges: FileRanges | WebRanges | None = None
        self._requests = 0
        self._copies: list[SparseCopy] = []

    def read(self, size: int, /) -> bytes:
        """Return at least one byte and at most `size`; none at the end."""
        return bytes(self._take(size))

    def readinto(self, view: memoryview, /) -> int:
        """Read into the beginning of a buffer, and return the number of bytes."""
        data = self._take(len(view))
        view[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Move to a position, counted from the beginning or the current position."""
        self._position = offset + (self._position if whence == os.SEEK_CUR else 0)
        return self._position

    def tell(self) -> int:
        """Return the position."""
        return self._position

    def _take(self, limit: int) -> memoryview:
        """Return the next bytes of the current piece, and move behind them."""
        if not self._begin <= self._position < self._begin + len(self._piece):
            self._load_piece()
        data = memoryview(b"")
        if self._position < self.size:
            data = memoryview(self._piece)[self._position - self._begin :][:limit]
        self._position += len(data)
        return data

    def _load_piece(self) -> None:
        """Load the piece that begins at the position; if it follows the last one, prefetch the next."""
        sequential = self._requests > 0 and self._position == self._begin + len(self._piece)
        stop = min(self._position + (PIECE_BYTES if self._requests else _PAGE_BYTES), self.size)
        if self._position >= stop:
            return
        if sequential and self._next is not None:
            self._piece = self._next.result()
        else:
            self._piece = self.fetch(self._position, stop)
        self._begin, self._next = self._position, None
        if sequential and stop < self.size:
            self._next = self._thread.submit(self._fetch, stop, min(stop + PIECE_BYTES, self.size))

    def fetch(self, begin: int, stop: int) -> bytes:
        """Return exactly these bytes, which are not kept. Raises OSError if the file has fewer."""
        return self._thread.submit(self._fetch, begin, stop).result()

    def sparse_copy(self) -> SparseCopy:
        """Return a copy of the file, which fetches bytes as long as the file is open."""
        copy = SparseCopy(self)
        self._copies.append(copy)
        if self._begin == 0 and self._piece:  # read to detect the format
            copy.store(self._piece, 0)
        return copy

    def _fetch(self, begin: int, stop: int) -> bytes:
        self._requests += 1
        return self._store.call(lambda: self._read_exactly(begin, stop))

    def _read_exactly(self, begin: int, stop: int) -> bytes:
        try:
            if self._ranges is None:
                self._ranges = self._store.ranges()
            data = self._ranges.read(begin, stop)
            if len(data) != stop - begin:
                raise StoreError(f"it ends at byte {begin + len(data):,} of {self.size:,}")
        except BaseException:
            self._close_ranges()
            raise
        return data

    @property
    def seekable(self) -> bool:
        """True unless the server is known not to support range requests."""
        return self._ranges is None or self._ranges.seekable

    def _close_ranges(self) -> None:
        if self._ranges is not None:
            self._ranges.close()
            self._ranges = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.shutdown(wait=error is None, cancel_futures=True)
        self._close_ranges()
        for copy in self._copies:
            copy.close()
        if error is None and self._requests > 1:
            self._require_unchanged()


class SparseCopy:
    """A copy of a remote file, which contains the bytes that were asked for.

    They are kept in an unnamed temporary file (in TMPDIR), and fetched once.

    Attributes:
        size: Length of the file in bytes.
    """

    def __init__(self, file: RemoteFile) -> None:
        """Prepare the copy, without fetching anything."""
        self._file = file
        self.size = file.size
        self._copy = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - closed by `close`
        os.ftruncate(self._copy.fileno(), file.size)
        self._present = bytearray(-(-file.size // _PAGE_BYTES))

    def fill(self, begin: int, view: memoryview) -> None:
        """Fill a buffer with the bytes from `begin` on, which the file must have. Raises OSError."""
        self._ensure(begin, begin + len(view))
        self._copy.seek(begin)
        while len(view):
            view = view[self._copy.readinto(view) :]

    def _ensure(self, begin: int, stop: int) -> None:
        """Fetch these bytes unless they are present. Raises OSError."""
        if not self._file.seekable:
            begin, stop = 0, self._file.size
        page, last = max(begin, 0) // _PAGE_BYTES, -(-min(stop, self._file.size) // _PAGE_BYTES)
        while (page := self._present.find(0, page, max(last, 0))) >= 0:
            end = self._present.find(1, page, last)
            end = min(page + PIECE_BYTES // _PAGE_BYTES, last if end < 0 else end)
            self.store(self._file.fetch(page * _PAGE_BYTES, min(end * _PAGE_BYTES, self._file.size)), page)

    def store(self, data: bytes, page: int) -> None:
        """Write whole pages, of which `page` is the first, or the end of the file. Raises OSError."""
        rest = memoryview(data)
        try:
            while len(rest):
                rest = rest[os.pwrite(self._copy.fileno(), rest, page * _PAGE_BYTES + len(data) - len(rest)) :]
        except OSError as error:
            raise _cannot_write(error) from None
        count = -(-len(data) // _PAGE_BYTES)
        self._present[page : page + count] = b"\1" * count

    def close(self) -> None:
        """Remove the copy."""
        self._copy.close()


class FullCopy:
    """A complete copy of a remote file.

    Attributes:
        path: A file that other processes see, too. None for an unnamed temporary file (in TMPDIR), which exists as long
            as this object.
    """

    def __init__(self, path: Path | None = None) -> None:
        """Refer to a complete copy, or create an empty unnamed one."""
        self.path = path
        self._file = None
        if path is None:
            self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - closed with this object
            weakref.finalize(self, self._file.close)

    def write(self, data: memoryview) -> None:
        """Append bytes to an unnamed copy. Raises OSError."""
        assert self._file is not None
        try:
            while len(data):
                data = data[self._file.write(data) :]
        except OSError as error:
            raise _cannot_write(error) from None

    def open(self) -> CopiedFile:
        """Open the copy. Raises OSError."""
        if self._file is not None:
            return CopiedFile(os.dup(self._file.fileno()))
        assert self.path is not None
        return CopiedFile(os.open(self.path, os.O_RDONLY | os.O_CLOEXEC))


def _cannot_write(error: OSError) -> StoreError:
    return StoreError(f"cannot write a copy to {tempfile.gettempdir()}: {error.strerror}")


class CopiedFile(RawIOBase):
    """An open copy, without a buffer; other threads may read the same copy.

    Attributes:
        size: Length in bytes.
    """

    def __init__(self, descriptor: int) -> None:
        """Take over the descriptor of an open file."""
        self._descriptor = descriptor
        self._position = 0
        self.size = os.fstat(descriptor).st_size

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, view: memoryview, /) -> int:  # type: ignore[override]
        """Read into the beginning of a buffer, and return the number of bytes."""
        count = os.preadv(self._descriptor, [view], self._position)
        self._position += count
        return count

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Move to a position, counted from the beginning or the current position."""
        self._position = offset + (self._position if whence == os.SEEK_CUR else 0)
        return self._position

    def tell(self) -> int:
        """Return the position."""
        return self._position

    def fill(self, begin: int, view: memoryview) -> None:
        """Fill a buffer with the bytes from `begin` on, which the file must have. Raises OSError."""
        self._position = begin
        while len(view):
            if not (count := self.readinto(view)):
                raise StoreError("its copy is truncated")
            view = view[count:]

    def close(self) -> None:
        """Close the file."""
        if not self.closed:
            os.close(self._descriptor)
        super().close()
