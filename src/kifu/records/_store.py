"""Access to remote storage through fsspec: metadata of files, and their bytes range by range.

Every failure is an OSError whose `strerror` is one line for the user, without the URL or a secret in it. All requests
have a timeout and a bounded number of attempts, for HTTP those set here, for other stores those of their libraries.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import time
from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import Any, TypeAlias, TypeVar

from kifu.errors import first_line
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

    def ranges(self) -> FileRanges | WebRanges:
        """Open a file to read byte ranges of it."""
        return WebRanges(self._files, self._path) if self.is_web else FileRanges(self._files, self._path)


def _open_store(url: str, protocol: str) -> tuple[Any, str]:
    """Return the file system of fsspec for a URL, and its name for the path."""
    import fsspec

    options: dict[str, Any] = {"use_listings_cache": False}  # a file may change between two requests
    if protocol in ("http", "https"):
        options["client_kwargs"] = {
            "timeout": _timeout(_REQUEST_TIMEOUT_S),
            "auto_decompress": False,
            "trust_env": True,
        }
        options["headers"] = _HEADERS
    elif protocol in ("gs", "gcs"):
        logging.getLogger("gcsfs").addHandler(_SILENT)  # it logs tracebacks of failures, which it raises as well
    elif protocol in ("s3", "s3a"):
        options["config_kwargs"] = {"retries": {"mode": "standard", "max_attempts": _POLICY.attempts}}
    found: tuple[Any, str] = fsspec.url_to_fs(url, **{**options, **fsspec.config.conf.get(protocol, {})})
    return found


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


def etag_of(info: Info) -> dict[str, str]:
    """Return the metadata that changes with the content of a file."""
    return {name: str(info[name]) for name in _ETAG_KEYS if name in info}


def is_same(before: Info, now: Info) -> bool:
    """Return whether a file is unchanged, as far as its metadata shows.

    The modification time counts only without a version: MinIO lists it in milliseconds, for a single file in seconds.
    """
    old, new = etag_of(before), etag_of(now)
    both = old.keys() & new.keys()
    compared = both & {"size", *_VERSIONS} if both & {*_VERSIONS} else both
    return all(old[name] == new[name] for name in compared)


class FileRanges:
    """Byte ranges of a file through fsspec's file object, which fetches only what is asked for.

    The one of S3 asks for the version first, and then returns bytes of that version only.

    Attributes:
        seekable: A range costs no more than its bytes, wherever it is.
    """

    seekable = True

    def __init__(self, files: Any, path: str) -> None:
        self._file = files.open(path, "rb", cache_type="none")

    def read(self, begin: int, stop: int) -> bytes:
        """Return these bytes, fewer at the end of the file."""
        self._file.seek(begin)
        data: bytes = self._file.read(stop - begin)
        return data

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class WebRanges:
    """Byte ranges of a file over HTTP. If the server does not support them, the file is read from its beginning.

    fsspec's own file object would take into memory whatever a server sends instead of a range.
    """

    seekable = True

    def __init__(self, files: Any, path: str) -> None:
        self._files, self._path = files, path
        self._response: Any = None
        self._position = 0

    def read(self, begin: int, stop: int) -> bytes:
        """Return these bytes, fewer at the end of the file."""
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
        """Close the file."""
        if self._response is not None:
            self._response.close()
            self._response = None
