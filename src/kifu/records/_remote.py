"""Files of other storage, opened: read in large pieces, or mapped as far as they are needed."""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self

from kifu.records._store import FileParts, Store, StoreError, WebParts

PIECE = 8 << 20
"""Bytes asked for at once: at 100 MB/s, 80 ms, beside which the 10 to 50 ms until a store answers are little."""

_GRAIN = 1 << 20
"""The first piece of a file, which often is looked at only for what the file is."""


class RemoteFile:
    """An open file of another storage: unbuffered, as `FileIO` is, but fetched in pieces, the next one in advance.

    A context manager: leaving it raises OSError if the file is no longer what it was, and took more than one request.
    """

    def __init__(self, store: Store, size: int, require_same: Callable[[], None]) -> None:
        """require_same: raises OSError if the file is no longer what it was."""
        self.size = size
        self._store, self._require_same = store, require_same
        self._at = 0
        self._piece, self._begin = b"", 0
        self._next: Future[bytes] | None = None
        self._thread = ThreadPoolExecutor(1)  # all requests are made in it
        self._parts: FileParts | WebParts | None = None
        self._requests = 0
        self._copies: list[SparseCopy] = []

    def read(self, size: int, /) -> bytes:
        """At least one byte, at most `size`; none at the end."""
        return bytes(self._at_hand(size))

    def readinto(self, view: memoryview, /) -> int:
        """As `read`, into the beginning of `view`."""
        piece = self._at_hand(len(view))
        view[: len(piece)] = piece
        return len(piece)

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """As of any file, but not from its end."""
        self._at = offset + (self._at if whence == os.SEEK_CUR else 0)
        return self._at

    def tell(self) -> int:
        return self._at

    def _at_hand(self, most: int) -> memoryview:
        """The bytes that come next, as far as they are here, and passes over them."""
        if not self._begin <= self._at < self._begin + len(self._piece):
            self._turn()
        found = memoryview(self._piece)[self._at - self._begin :][:most] if self._at < self.size else memoryview(b"")
        self._at += len(found)
        return found

    def _turn(self) -> None:
        """Goes on to the piece that begins where the file is read."""
        follows = self._requests > 0 and self._at == self._begin + len(self._piece)
        stop = min(self._at + (PIECE if self._requests else _GRAIN), self.size)
        if self._at >= stop:
            return
        if follows and self._next is not None:
            self._piece = self._next.result()
        else:
            self._piece = self.fetch(self._at, stop)
        self._begin, self._next = self._at, None
        if follows and stop < self.size:
            self._next = self._thread.submit(self._fetch, stop, min(stop + PIECE, self.size))

    def fetch(self, begin: int, stop: int) -> bytes:
        """These bytes, all of them, which the file must have, and which are not kept."""
        return self._thread.submit(self._fetch, begin, stop).result()

    def copy(self) -> SparseCopy:
        """A mapping of it, which gets no more bytes once the file is left."""
        copy = SparseCopy(self)
        self._copies.append(copy)
        if self._begin == 0 and self._piece:  # it was looked at to tell what the file is
            copy.keep(self._piece, 0)
        return copy

    def _fetch(self, begin: int, stop: int) -> bytes:
        self._requests += 1
        return self._store.ask(lambda: self._exactly(begin, stop))

    def _exactly(self, begin: int, stop: int) -> bytes:
        try:
            if self._parts is None:
                self._parts = self._store.parts()
            data = self._parts.read(begin, stop)
            if len(data) != stop - begin:
                raise StoreError(f"it ends at byte {begin + len(data):,}, where it was to have {self.size:,}")
        except BaseException:
            self._close_parts()
            raise
        return data

    @property
    def any_order(self) -> bool:
        """Whether parts of it can be asked for in any order, as far as is known by now."""
        return self._parts is None or self._parts.any_order

    def _close_parts(self) -> None:
        if self._parts is not None:
            self._parts.close()
            self._parts = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.shutdown(wait=error is None, cancel_futures=True)
        self._close_parts()
        for copy in self._copies:
            copy.close()
        if error is None and self._requests > 1:
            self._require_same()


class SparseCopy:
    """A mapping as long as a file of another storage, with those of its bytes in it that were asked for.

    They are kept in a file without a name among the system's temporary ones (TMPDIR), and fetched once.
    """

    def __init__(self, file: RemoteFile) -> None:
        self._file = file
        self._copy = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - `close` does
        os.ftruncate(self._copy.fileno(), file.size)
        self._here = bytearray(-(-file.size // _GRAIN))
        self.data = mmap.mmap(self._copy.fileno(), 0, access=mmap.ACCESS_READ)

    def need(self, begin: int, stop: int) -> None:
        """Fetches what is not here of these bytes, which may reach beyond the file. Raises OSError."""
        if not self._file.any_order:
            begin, stop = 0, self._file.size
        grain, last = max(begin, 0) // _GRAIN, -(-min(stop, self._file.size) // _GRAIN)
        while (grain := self._here.find(0, grain, max(last, 0))) >= 0:
            end = self._here.find(1, grain, last)
            end = min(grain + PIECE // _GRAIN, last if end < 0 else end)
            self.keep(self._file.fetch(grain * _GRAIN, min(end * _GRAIN, self._file.size)), grain)

    def keep(self, data: bytes, grain: int) -> None:
        """Puts whole grains, or the last of all, where they belong. grain: the first of them. Raises OSError."""
        rest = memoryview(data)
        try:
            while len(rest):
                rest = rest[os.pwrite(self._copy.fileno(), rest, grain * _GRAIN + len(data) - len(rest)) :]
        except OSError as error:
            raise StoreError(f"no room for a copy in {tempfile.gettempdir()}: {error.strerror}") from None
        count = -(-len(data) // _GRAIN)
        self._here[grain : grain + count] = b"\1" * count

    def close(self) -> None:
        """What is here stays, as long as the mapping is used."""
        self._copy.close()
