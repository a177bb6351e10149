"""Files and folders of other storage, by fsspec: what a store says of them, and their bytes in large pieces.

Whatever goes wrong is an OSError whose `strerror` is one line for the user, without the URL or anything secret in it.
No answer is waited for without end, nor a question repeated without end: that much of http is set here, while the
libraries for other stores see to it themselves.
"""

from __future__ import annotations

import errno
import mmap
import os
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from http import HTTPStatus
from types import TracebackType
from typing import Any, Self, TypeAlias, TypeVar

from kifu.errors import first_line

T = TypeVar("T")

Info: TypeAlias = dict[str, Any]
"""What a store says of a file or folder: "type", "size", and more by the store."""

PIECE = 8 << 20
"""Bytes asked for at once: at 100 MB/s, 80 ms, beside which the 10 to 50 ms until a store answers are little."""

_GRAIN = 1 << 20
"""The first piece of a file, which often is looked at only for what the file is."""

_CHUNK = 256 << 10
_TRIES = 3
_WAIT = 1.0
"""Seconds before the second try, twice as many before the third."""

_CONNECT, _SILENCE, _REQUEST = 15.0, 60.0, 600.0
"""Seconds within which a connection, the next byte, and all of a piece have to come by http."""

_MARKS = ("size", "ETag", "etag", "generation", "LastModified", "Last-Modified", "last_modified", "mtime")
"""What tells a file from a later one of the same name; no store gives all of them."""

_CHANGED = "it changed while it was read"

_TRANSIENT = (408, 425, 429)
"""Answers that may be others later, as all from 500 on may."""


class StoreError(OSError):
    """What a store did not give, and why: one line for the user."""

    def __init__(self, reason: str) -> None:
        super().__init__(errno.EIO, reason)


class Store:
    """Where one URL leads."""

    def __init__(self, url: str) -> None:
        """Raises OSError if there is no such kind of storage, or its library is missing."""
        protocol = url.partition("://")[0].lower()
        self.is_web = protocol in ("http", "https")
        self._names_secrets = "@" in url or "?" in url
        self._files, self._path = self.ask(lambda: _open_store(url, protocol))
        self._has_ranges: bool | None = None

    def ask(self, question: Callable[[], T]) -> T:
        """What a call of fsspec returns, which is made again if that may help."""
        tries = _TRIES if self.is_web else 1
        for left in reversed(range(tries)):
            try:
                return question()
            except Exception as error:  # each of fsspec's stores raises what its own library does
                if not left or _is_final(error):
                    raise error if isinstance(error, StoreError) else StoreError(self._reason(error)) from None
                time.sleep(_WAIT * (tries - left))
        raise AssertionError

    def _reason(self, error: BaseException) -> str:
        cause = error.__cause__
        if isinstance(error, FileNotFoundError) and cause is not None:
            return self._reason(cause)  # by http nothing is found, whatever the matter is
        status = getattr(error, "status", None)
        if isinstance(status, int) and status != HTTPStatus.NOT_FOUND:
            return f"the server answered {status}{_PHRASES.get(status, '')}"
        if isinstance(error, ImportError):
            return f"{first_line(error)}; pip install 'kifu[cluster]' brings fsspec, with what s3:// and http:// take"
        for kind, reason in _REASONS:
            if isinstance(error, kind) or status == HTTPStatus.NOT_FOUND:
                return reason
        if isinstance(error, OSError) and error.errno == errno.EBUSY:  # so says s3fs
            return _CHANGED
        if isinstance(error, OSError) and error.errno and error.errno in errno.errorcode and error.errno != errno.EIO:
            return os.strerror(error.errno)
        # What aiohttp says may hold the URL, and so may what others say of it.
        if type(error).__module__.startswith("aiohttp") or self._names_secrets:
            return f"the connection failed ({type(error).__name__})"
        return str(getattr(error, "strerror", None) or first_line(error))

    def info(self) -> Info:
        return dict(self.ask(lambda: self._files.info(self._path)))

    def files(self) -> list[tuple[str, Info]]:
        """All files in a folder and in those in it: the path from here, and what the store says of each."""
        root = self._path.rstrip("/") + "/"
        found = self.ask(lambda: self._files.find(self._path, detail=True))
        return [
            (name[len(root) :], info)
            for name, info in found.items()
            if info["type"] == "file" and name.startswith(root) and not name.endswith("/")
        ]

    def whole(self, size: int) -> bytes:
        """All of a file that is said to be as long."""
        data: bytes = self.ask(lambda: self._files.cat_file(self._path))
        if len(data) != size:
            raise StoreError(f"{len(data):,} bytes came, not the {size:,} that it was to have")
        return data

    def open(self, size: int, streamed: bool) -> Any:
        """fsspec's own file, which fetches no more than it is asked for. streamed: all of it at once, by http."""
        if streamed:
            return self._files.open(self._path, "rb", size=size, block_size=0, timeout=_patience(None))
        if self.is_web:
            return self._files.open(self._path, "rb", size=size, block_size=PIECE, cache_type="none")
        # Of S3 it looks at the size by itself, and then gives bytes of the file that it saw only.
        return self._files.open(self._path, "rb", block_size=PIECE, cache_type="none")

    def has_ranges(self, size: int) -> bool:
        """Whether any part of a file can be asked for. A server of http that cannot gives all of it, or an error."""
        if not self.is_web or size <= _GRAIN:
            return True
        if self._has_ranges is None:
            self._has_ranges = self.ask(lambda: self._gives_last_byte(size))
        return self._has_ranges

    def _gives_last_byte(self, size: int) -> bool:
        with self.open(size, streamed=False) as source:
            source.seek(size - 1)
            try:
                return len(source.read(1)) == 1
            except ValueError:
                return False


def _open_store(url: str, protocol: str) -> tuple[Any, str]:
    """The file system of fsspec for a URL, and what it calls the path."""
    import fsspec

    options: dict[str, Any] = {"use_listings_cache": False}  # nobody else may change what is asked for a second time
    if protocol in ("http", "https"):
        options["client_kwargs"] = {"timeout": _patience(_REQUEST), "auto_decompress": False, "trust_env": True}
        options["headers"] = {"User-Agent": "kifu", "Accept-Encoding": "identity"}
    elif protocol in ("s3", "s3a"):
        options["config_kwargs"] = {"retries": {"mode": "standard", "max_attempts": _TRIES}}
    found: tuple[Any, str] = fsspec.url_to_fs(url, **{**options, **fsspec.config.conf.get(protocol, {})})
    return found


def _patience(whole: float | None) -> Any:
    """How long requests of http may take, in seconds. whole: from beginning to end."""
    import aiohttp

    return aiohttp.ClientTimeout(total=whole, sock_connect=_CONNECT, sock_read=_SILENCE)


_REASONS: tuple[tuple[type[Exception], str], ...] = (
    (FileNotFoundError, "no such file or folder"),
    (PermissionError, "access is denied"),
    (TimeoutError, "no answer in time"),
)
_PHRASES = {status.value: f" ({status.phrase})" for status in HTTPStatus}


def _is_final(error: Exception) -> bool:
    """Whether it would be no better the next time."""
    if isinstance(error, FileNotFoundError) and isinstance(error.__cause__, Exception):
        return _is_final(error.__cause__)
    status = getattr(error, "status", None)
    if isinstance(status, int):
        return status < 500 and status not in _TRANSIENT
    return isinstance(error, FileNotFoundError | PermissionError | ImportError | ValueError | NotImplementedError)


def marks_in(info: Info) -> dict[str, str]:
    """What tells a file from a later one of the same name."""
    return {name: str(info[name]) for name in _MARKS if name in info}


class RemoteFile:
    """An open file of another storage: unbuffered, as `FileIO` is, but fetched in pieces, the next one in advance.

    A context manager: leaving it raises OSError if the file is no longer what it was, and took more than one request.
    """

    def __init__(self, store: Store, size: int, look_again: Callable[[], bool]) -> None:
        """look_again: whether the file is still the same."""
        self.size = size
        self._store, self._look_again = store, look_again
        self._at = 0
        self._piece, self._begin = b"", 0
        self._next: Future[bytes] | None = None
        self._thread = ThreadPoolExecutor(1)  # fsspec's file is used in it only
        self._source: Any = None
        self._source_at = 0
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
        streamed = not self.has_ranges
        return self._store.ask(lambda: self._exactly(begin, stop, streamed))

    def _exactly(self, begin: int, stop: int, streamed: bool) -> bytes:
        try:
            if self._source is None or (streamed and self._source_at > begin):
                self._close_source()
                self._source = self._store.open(self.size, streamed)
                self._source_at = 0
            if streamed:
                self._skim(begin - self._source_at)
                data = self._skim(stop - begin, keep=True)
            else:
                self._source.seek(begin)
                data = self._source.read(stop - begin)
        except BaseException:
            self._close_source()
            raise
        if len(data) != stop - begin:
            self._close_source()
            raise StoreError(f"it ends at byte {begin + len(data):,}, where it was to have {self.size:,}")
        return data

    def _skim(self, count: int, keep: bool = False) -> bytes:
        """The next bytes of a stream, fewer at its end; without `keep` they are passed over."""
        until = time.monotonic() + _REQUEST
        kept = bytearray()
        while count > 0 and (chunk := self._source.read(min(count, _CHUNK))):
            if keep and time.monotonic() > until:
                raise TimeoutError
            count -= len(chunk)
            self._source_at += len(chunk)
            kept += chunk if keep else b""
        return bytes(kept)

    @property
    def has_ranges(self) -> bool:
        """Whether any part of it can be asked for."""
        return self._store.has_ranges(self.size)

    def _close_source(self) -> None:
        if self._source is not None:
            self._source.close()
            self._source = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.shutdown(wait=error is None, cancel_futures=True)
        self._close_source()
        for copy in self._copies:
            copy.close()
        if error is None and self._requests > 1 and not self._look_again():
            raise StoreError(_CHANGED)


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
        if not self._file.has_ranges:
            begin, stop = 0, self._file.size
        grain, last = max(begin, 0) // _GRAIN, -(-min(stop, self._file.size) // _GRAIN)
        while (grain := self._here.find(0, grain, max(last, 0))) >= 0:
            end = self._here.find(1, grain, last)
            end = min(grain + PIECE // _GRAIN, last if end < 0 else end)
            self.keep(self._file.fetch(grain * _GRAIN, min(end * _GRAIN, self._file.size)), grain)

    def keep(self, data: bytes, grain: int) -> None:
        """Puts whole grains, or the last of all, where they belong. grain: the first of them. Raises OSError."""
        try:
            os.pwrite(self._copy.fileno(), data, grain * _GRAIN)
        except OSError as error:
            raise StoreError(f"no room for a copy in {tempfile.gettempdir()}: {error.strerror}") from None
        count = -(-len(data) // _GRAIN)
        self._here[grain : grain + count] = b"\1" * count

    def close(self) -> None:
        """What is here stays, as long as the mapping is used."""
        self._copy.close()
