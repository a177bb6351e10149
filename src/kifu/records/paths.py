"""Sources of records: local paths, and URLs (s3://, gs://, http://, https:// and all others of fsspec).

A source is a `Path` or a `Remote`, which has the methods of a path that readers need and raises OSError where a path
does. `os.fspath` of either is text from which `as_path` restores it, also in another process. `str()` is a display form
with credentials removed.

Remote files are opened through fsspec: read sequentially with prefetch, at any position, or from a copy.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import tempfile
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property
from http import HTTPStatus
from io import FileIO, RawIOBase
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self, TypeAlias, TypeVar
from urllib.parse import unquote

from kifu.errors import SourceError, first_line
from kifu.io import READ_ONLY, open_regular, read_at, write_at
from kifu.retry import RetryPolicy, is_transient, retry

T = TypeVar("T")

Info: TypeAlias = dict[str, Any]
"""The metadata of a file or folder: "type", "size", and more, depending on the store."""

_CHUNK_BYTES = 256 << 10
_POLICY = RetryPolicy(attempts=3)
_REQUEST_TIMEOUT_S = 600.0
"""For all of one range by HTTP."""
_ONCE = RetryPolicy(attempts=1)
_SILENT = logging.NullHandler()

_HEADERS = {"User-Agent": "kifu", "Accept-Encoding": "identity"}

_VERSIONS = ("ETag", "etag", "generation")
_ETAG_KEYS = ("size", *_VERSIONS, "LastModified", "Last-Modified", "last_modified", "mtime")
"""Metadata that changes with the content of a file; no store has all of it."""

CHANGED = "it changed while it was read"


class StoreError(OSError):
    """A request that failed, with the reason in one line."""

    def __init__(self, reason: str) -> None:
        super().__init__(errno.EIO, reason)


class Store:
    """The store behind a URL."""

    def __init__(self, url: str) -> None:
        """Open the store. Raises OSError if the protocol is unknown or its library is missing."""
        protocol = url.partition("://")[0].lower()
        self.is_web = protocol in ("http", "https")
        self._names_secrets = "@" in url or "?" in url
        self._files, self._path = self.call(lambda: _open_store(url, protocol))

    def call(self, call: Callable[[], T]) -> T:
        """Return the result of a call of fsspec, retried over HTTP. Raises StoreError."""
        try:
            return retry(call, _POLICY if self.is_web else _ONCE, lambda error: not _is_final(error))
        except StoreError:
            raise
        except Exception as error:  # the stores of fsspec raise what their own libraries raise
            raise StoreError(self._reason(error)) from None

    def _reason(self, error: BaseException) -> str:
        cause = error.__cause__
        if isinstance(error, FileNotFoundError) and cause is not None:
            return self._reason(cause)  # fsspec's HTTP store reports every failure as a missing file
        status = getattr(error, "status", None) or getattr(error, "code", None)  # of aiohttp, and of gcsfs
        if isinstance(status, int) and status != HTTPStatus.NOT_FOUND:
            return f"the server answered {status}{_PHRASES.get(status, '')}"
        if isinstance(error, ImportError):
            return f"{first_line(error)}; pip install 'kifu[cluster]' brings fsspec, with what s3:// and http:// take"
        for kind, reason in _REASONS:
            if isinstance(error, kind) or status == HTTPStatus.NOT_FOUND:
                return reason
        if isinstance(error, OSError) and error.errno == errno.EBUSY:  # raised by s3fs
            return CHANGED
        if isinstance(error, OSError) and str(error).startswith("Forbidden: "):  # raised by gcsfs, with the URL
            return "access is denied"
        if isinstance(error, OSError) and error.errno and error.errno in errno.errorcode and error.errno != errno.EIO:
            return os.strerror(error.errno)
        # Messages of aiohttp, and of others about such URLs, may contain the URL.
        if type(error).__module__.startswith("aiohttp") or self._names_secrets:
            return f"the connection failed ({type(error).__name__})"
        return str(getattr(error, "strerror", None) or first_line(error))

    def info(self) -> Info:
        """Request the metadata of the file or folder."""
        return dict(self.call(lambda: self._files.info(self._path)))

    def files(self) -> list[tuple[str, Info]]:
        """Return all files in the tree of a folder: relative paths, and the metadata needed later.

        The rest of the metadata would take more memory than the names.
        """
        root = self._path.rstrip("/") + "/"
        found = self.call(lambda: self._files.find(self._path, detail=True))
        return [
            (name[len(root) :], {key: info[key] for key in ("type", *_ETAG_KEYS) if key in info})
            for name, info in found.items()
            if info["type"] == "file" and name.startswith(root) and not name.endswith("/")
        ]

    def read_all(self, size: int) -> bytes:
        """Return the content of a file of a known size."""
        data: bytes = self.call(lambda: self._files.cat_file(self._path))
        if len(data) != size:
            raise StoreError(f"{len(data):,} bytes came, not the {size:,} expected")
        return data

    def ranges(self) -> _FileRanges | _WebRanges:
        """Open a file to read byte ranges of it."""
        return _WebRanges(self._files, self._path) if self.is_web else _FileRanges(self._files, self._path)


def _open_store(url: str, protocol: str) -> tuple[Any, str]:
    """Return the file system of fsspec for a URL, and its name for the path."""
    import fsspec

    options: dict[str, Any] = {"use_listings_cache": False}  # a file may change between two requests
    if protocol in ("http", "https"):
        timeout = _timeout(_REQUEST_TIMEOUT_S)
        options["client_kwargs"] = {"timeout": timeout, "auto_decompress": False, "trust_env": True}
        options["headers"] = _HEADERS
    elif protocol in ("gs", "gcs"):
        logging.getLogger("gcsfs").addHandler(_SILENT)  # it logs tracebacks of failures, which it raises as well
    elif protocol in ("s3", "s3a"):
        options["config_kwargs"] = {"retries": {"mode": "standard", "max_attempts": _POLICY.attempts}}
    store: tuple[Any, str] = fsspec.url_to_fs(url, **{**options, **fsspec.config.conf.get(protocol, {})})
    return store


def _timeout(total_s: float | None) -> Any:
    import aiohttp

    return aiohttp.ClientTimeout(
        total=total_s, sock_connect=_POLICY.connect_timeout_s, sock_read=_POLICY.read_timeout_s
    )


_REASONS: tuple[tuple[type[Exception], str], ...] = (
    (FileNotFoundError, "no such file or folder"),
    (PermissionError, "access is denied"),
    (TimeoutError, "no answer in time"),
)
_PHRASES = {status.value: f" ({status.phrase})" for status in HTTPStatus}


def _is_final(error: Exception) -> bool:
    """Return whether another attempt would fail in the same way."""
    if isinstance(error, FileNotFoundError) and isinstance(error.__cause__, Exception):
        return _is_final(error.__cause__)
    status = getattr(error, "status", None)
    if isinstance(status, int):
        return not is_transient(status)
    return isinstance(error, FileNotFoundError | PermissionError | ImportError | ValueError | NotImplementedError)


def _etag(info: Info) -> dict[str, str]:
    """Return the metadata that changes with the content of a file."""
    return {name: str(info[name]) for name in _ETAG_KEYS if name in info}


class _FileRanges:
    """Byte ranges of a file through fsspec's file object, which fetches only what is asked for.

    The one of S3 asks for the version first, and then returns bytes of that version only.
    """

    seekable = True  # a range costs no more than its bytes, wherever it is

    def __init__(self, files: Any, path: str) -> None:
        self._file = files.open(path, "rb", cache_type="none")

    def read(self, begin: int, stop: int) -> bytes:
        """Return these bytes, fewer at the end of the file."""
        self._file.seek(begin)
        data: bytes = self._file.read(stop - begin)
        return data

    def close(self) -> None:
        self._file.close()


class _WebRanges:
    """Byte ranges of a file over HTTP. If the server does not support them, the file is read from its beginning.

    fsspec's own file object would take into memory whatever a server sends instead of a range.
    """

    seekable = True

    def __init__(self, files: Any, path: str) -> None:
        self._files, self._path = files, path
        self._response: Any = None
        self._position = 0

    def read(self, begin: int, stop: int) -> bytes:
        if self._response is None or begin < self._position:
            self.close()
            self._request(begin, stop)
        for _ in self._chunks(begin - self._position):
            pass
        data = b"".join(self._chunks(stop - begin))
        if self.seekable:
            if self._response.read(1):
                raise StoreError("the server sends more than requested")
            self.close()
        return data

    def _request(self, begin: int, stop: int) -> None:
        headers = _HEADERS | {"Range": f"bytes={begin}-{stop - 1}"}
        self._response = self._files.open(
            self._path, "rb", size=stop, block_size=0, headers=headers, timeout=_timeout(None)
        )
        answer = self._response.r
        self.seekable = answer.status == HTTPStatus.PARTIAL_CONTENT
        self._position = begin if self.seekable else 0
        if self.seekable and not re.match(rf"bytes {begin}-", answer.headers.get("Content-Range", "")):
            raise StoreError("the server sends another range than requested")

    def _chunks(self, count: int) -> Iterator[bytes]:
        deadline = time.monotonic() + _REQUEST_TIMEOUT_S
        while count > 0 and (chunk := self._response.read(min(count, _CHUNK_BYTES))):
            if time.monotonic() > deadline:
                raise TimeoutError
            count -= len(chunk)
            self._position += len(chunk)
            yield chunk

    def close(self) -> None:
        if self._response is not None:
            self._response.close()
            self._response = None


PIECE_BYTES = 8 << 20
"""Size of a request: at 100 MB/s it takes 80 ms, against the 10 to 50 ms until a store answers."""

_PAGE_BYTES = 1 << 20
"""Size of the first request, since many files are only opened to detect their format, and of a page of a copy."""


class RemoteFile:
    """An open remote file, unbuffered like `FileIO`, but fetched in pieces, the next one ahead.

    A context manager: leaving it raises OSError if the file has changed and took more than one request.
    `require_unchanged` raises the error.
    """

    def __init__(self, store: Store, size: int, require_unchanged: Callable[[], None]) -> None:
        self.size = size
        self._store, self._require_unchanged = store, require_unchanged
        self._position = 0
        self._piece, self._begin = b"", 0
        self._next: Future[bytes] | None = None
        self._thread = ThreadPoolExecutor(1)  # makes all requests
        self._ranges: _FileRanges | _WebRanges | None = None
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
    """

    def __init__(self, file: RemoteFile) -> None:
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
                rest = rest[write_at(self._copy.fileno(), rest, page * _PAGE_BYTES + len(data) - len(rest)) :]
        except OSError as error:
            raise _cannot_write(error) from None
        count = -(-len(data) // _PAGE_BYTES)
        self._present[page : page + count] = b"\1" * count

    def close(self) -> None:
        """Remove the copy."""
        self._copy.close()


class FullCopy:
    """A complete copy of a remote file, at a path that other processes see, too.

    Without a path, it is an empty unnamed temporary file at first (in TMPDIR), which exists as long as this object.
    """

    def __init__(self, path: Path | None = None) -> None:
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
        return CopiedFile(os.open(self.path, READ_ONLY))


def _cannot_write(error: OSError) -> StoreError:
    return StoreError(f"cannot write a copy to {tempfile.gettempdir()}: {error.strerror}")


class CopiedFile(RawIOBase):
    """An open copy, without a buffer, which takes over a descriptor; other threads may read the same copy."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._position = 0
        self.size = os.fstat(descriptor).st_size

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, view: memoryview, /) -> int:  # type: ignore[override]
        """Read into the beginning of a buffer, and return the number of bytes."""
        count = read_at(self._descriptor, view, self._position)
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


_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_LOGIN = re.compile(r"(://)[^/]*@")
_WEB = re.compile(r"https?://", re.IGNORECASE)
_MAX_BYTES = 1 << 43
"""Larger than a file of any store."""


class Stat(NamedTuple):
    """The fields of `os.stat_result` that readers need."""

    st_size: int


class Remote:
    """A file or folder at a URL. Its store is asked only when necessary, and once.

    Immutable, picklable, and an `os.PathLike` that is not a path of this machine.
    """

    _copy: FullCopy | None = None

    def __init__(self, url: str, info: Info | None = None) -> None:
        self._url = url
        if info is not None:
            self._info = info  # replaces the cached property

    def __fspath__(self) -> str:
        """Return the URL with credentials."""
        return self._url

    def __str__(self) -> str:
        """Return the URL without user and password, and for HTTP without the query, which may hold a signature."""
        shown = re.split(r"[?#]", self._url)[0] if self.is_web else self._url
        return _LOGIN.sub(r"\1", shown)

    def __repr__(self) -> str:
        return f"Remote({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Remote) and self._url == other._url

    def __hash__(self) -> int:
        return hash(self._url)

    @property
    def is_web(self) -> bool:
        """True for an HTTP address, which has no folders."""
        return _WEB.match(self._url) is not None

    @property
    def name(self) -> str:
        """The last component of the URL."""
        last = str(self).rstrip("/").rpartition("/")[2]
        return unquote(last) if self.is_web else last

    @cached_property
    def _store(self) -> Store:
        return Store(self._url)

    @cached_property
    def _info(self) -> Info:
        return self._store.info()

    def __getstate__(self) -> dict[str, Any]:
        unnamed = self._copy is not None and self._copy.path is None
        left_out = ("_store", "_copy") if unnamed else ("_store",)
        return {name: value for name, value in vars(self).items() if name not in left_out}

    def is_dir(self) -> bool:
        """Return whether it is a folder. Raises OSError, also if it does not exist."""
        if self.is_web and str(self).endswith("/"):
            raise StoreError("http has no folders: name the files one by one")
        return bool(self._info["type"] == "directory")

    def stat(self) -> Stat:
        """Return its size. Raises OSError, also if the store does not report it: truncation would go unnoticed."""
        size = self._info.get("size")
        if size is None:
            raise StoreError("the server does not report its size")
        if not 0 <= size <= _MAX_BYTES:
            raise StoreError(f"the server reports a size of {size:,} bytes")
        return Stat(int(size))

    def etag(self) -> dict[str, str]:
        """Return the metadata that changes with its content, as far as the store has any. Raises OSError."""
        return _etag(self._info)

    @property
    def is_copied(self) -> bool:
        """True if the file is read from a copy."""
        return self._copy is not None

    def use_copy(self, copy: FullCopy) -> None:
        """Read the file from a complete copy from now on."""
        self._copy = copy

    def open(self, mode: Literal["rb"] = "rb") -> RemoteFile | CopiedFile:
        """Open the file, or its copy. Raises OSError."""
        if self._copy is not None:
            return self._copy.open()
        return RemoteFile(self._store, self.stat().st_size, self.require_unchanged)

    def require_unchanged(self) -> None:
        """Request the metadata again. Raises OSError if the file has changed since the first request.

        The first request may have been made by another process, from which this object was sent. The modification time
        counts only without a version: MinIO lists it in milliseconds, for a single file in seconds.
        """
        before, now = self.etag(), _etag(self._store.info())
        both = before.keys() & now.keys()
        compared = both & {"size", *_VERSIONS} if both & {*_VERSIONS} else both
        if any(before[name] != now[name] for name in compared):
            raise StoreError(CHANGED)

    def read_bytes(self) -> bytes:
        """Return the content of a small file, by one request. Raises OSError, also if its size is wrong."""
        return self._store.read_all(self.stat().st_size)

    def files(self) -> dict[bytes, Remote]:
        """Return all files in the tree of a folder by relative path, sorted by its bytes. Raises OSError."""
        root = self._url.rstrip("/")
        files = {os.fsencode(name): Remote(f"{root}/{name}", info) for name, info in self._store.files()}
        return dict(sorted(files.items()))


AnyPath: TypeAlias = Path | Remote

Paths: TypeAlias = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]
"""One or more paths or URLs, as functions of the API take them."""


def as_path(source: str | os.PathLike[str]) -> AnyPath:
    """Return a `Remote` for a URL, else a path. Nothing is opened yet. Raises SourceError if it is empty."""
    if isinstance(source, Remote):
        return source
    text = os.fspath(source)
    if not text:
        raise SourceError("a path is empty")
    return Remote(text) if _URL.match(text) else Path(text)


def as_list(paths: Paths) -> list[str | os.PathLike[str]]:
    """Return one or more paths or URLs as a list."""
    return [paths] if isinstance(paths, str | os.PathLike) else list(paths)


def name_below(root: AnyPath, path: AnyPath) -> str:
    """Return the display name of a file in a folder: its relative path with "/"; for the folder itself its name."""
    if path == root:
        return path.resolve().name if isinstance(path, Path) else path.name
    if isinstance(path, Path):
        return path.relative_to(root).as_posix()
    return str(path)[len(str(root).rstrip("/")) + 1 :]


def etag(path: AnyPath) -> Any:
    """Return JSON values that change with the content of a file. Raises OSError."""
    if isinstance(path, Remote):
        return path.etag()
    stat = path.stat()
    return [stat.st_size, stat.st_mtime_ns]


def file_version(status: os.stat_result) -> tuple[int, ...]:
    """Return numbers that change if a local file is replaced, or written to.

    The time of status changes is not among them: backups that set hard links change it.
    """
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


class LocalFile(FileIO):
    """An open regular file of this machine, without a buffer; `size` is its length when it was opened.

    A context manager: leaving it raises OSError if the file has changed, also in place of another error.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, opener=_open_descriptor)
        self._path = path
        self._version = file_version(status := os.fstat(self.fileno()))
        self.size = status.st_size

    def fill(self, begin: int, view: memoryview) -> None:
        """Fill a buffer with the bytes from `begin` on. Raises OSError, also if the file has fewer."""
        self.seek(begin)
        while len(view):
            if not (count := self.readinto(view)):
                raise StoreError(CHANGED)
            view = view[count:]

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        changed = False
        if error is None or isinstance(error, OSError):
            with suppress(OSError):
                changed = file_version(os.fstat(self.fileno())) != self._version
                changed |= not self._path.exists() or file_version(self._path.stat()) != self._version
        super().__exit__(kind, error, trace)
        if changed:
            raise StoreError(CHANGED) from None


def _open_descriptor(path: str, _flags: int) -> int:
    with open_regular(path) as file:
        return os.dup(file.fileno())


OpenFile: TypeAlias = LocalFile | RemoteFile | CopiedFile


def open_file(path: AnyPath) -> OpenFile:
    """Open a file without a buffer, which reports changes when it is left. Raises OSError."""
    return path.open() if isinstance(path, Remote) else LocalFile(path)
