"""Files and folders of other storage, by fsspec: what a store says of them, and their bytes, part by part.

Whatever goes wrong is an OSError whose `strerror` is one line for the user, without the URL or anything secret in it.
No answer is waited for without end, nor a question repeated without end: that much of http is set here, while the
libraries for other stores see to it themselves.
"""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import Any, TypeAlias, TypeVar

from kifu.errors import first_line

T = TypeVar("T")

Info: TypeAlias = dict[str, Any]
"""What a store says of a file or folder: "type", "size", and more by the store."""

_CHUNK = 256 << 10
_TRIES = 3
_WAIT = 1.0
"""Seconds before the second try, twice as many before the third."""

_CONNECT, _SILENCE, _REQUEST = 15.0, 60.0, 600.0
"""Seconds within which a connection, the next byte, and all of a part have to come by http."""

_HEADERS = {"User-Agent": "kifu", "Accept-Encoding": "identity"}

_VERSIONS = ("ETag", "etag", "generation")
_MARKS = ("size", *_VERSIONS, "LastModified", "Last-Modified", "last_modified", "mtime")
"""What tells a file from a later one of the same name; no store gives all of them."""

CHANGED = "it changed while it was read"

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
            return CHANGED
        if isinstance(error, OSError) and error.errno and error.errno in errno.errorcode and error.errno != errno.EIO:
            return os.strerror(error.errno)
        # What aiohttp says may hold the URL, and so may what others say of it.
        if type(error).__module__.startswith("aiohttp") or self._names_secrets:
            return f"the connection failed ({type(error).__name__})"
        return str(getattr(error, "strerror", None) or first_line(error))

    def info(self) -> Info:
        return dict(self.ask(lambda: self._files.info(self._path)))

    def files(self) -> list[tuple[str, Info]]:
        """All files in a folder and in those in it: the path from here, and what has to be known of each.

        Stores say more, which would take more memory than the names where there are many.
        """
        root = self._path.rstrip("/") + "/"
        found = self.ask(lambda: self._files.find(self._path, detail=True))
        return [
            (name[len(root) :], {key: info[key] for key in ("type", *_MARKS) if key in info})
            for name, info in found.items()
            if info["type"] == "file" and name.startswith(root) and not name.endswith("/")
        ]

    def whole(self, size: int) -> bytes:
        """All of a file that is said to be as long."""
        data: bytes = self.ask(lambda: self._files.cat_file(self._path))
        if len(data) != size:
            raise StoreError(f"{len(data):,} bytes came, not the {size:,} that it was to have")
        return data

    def parts(self) -> FileParts | WebParts:
        """A file, to be read part by part."""
        return WebParts(self._files, self._path) if self.is_web else FileParts(self._files, self._path)


def _open_store(url: str, protocol: str) -> tuple[Any, str]:
    """The file system of fsspec for a URL, and what it calls the path."""
    import fsspec

    options: dict[str, Any] = {"use_listings_cache": False}  # nobody else may change what is asked for a second time
    if protocol in ("http", "https"):
        options["client_kwargs"] = {"timeout": _patience(_REQUEST), "auto_decompress": False, "trust_env": True}
        options["headers"] = _HEADERS
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


def is_same(before: Info, now: Info) -> bool:
    """Whether a file is the one that it was, as far as the store tells.

    Its time counts where no version is told of: MinIO lists it to the millisecond, and says one file's to the second.
    """
    old, new = marks_in(before), marks_in(now)
    both = old.keys() & new.keys()
    told = both & {"size", *_VERSIONS} if both & {*_VERSIONS} else both
    return all(old[name] == new[name] for name in told)


class FileParts:
    """Parts of a file by fsspec's own, which fetches no more than it is asked for.

    That of S3 looks at the file first, and then gives bytes of the same version only.
    """

    any_order = True
    """Whether a part costs no more than its bytes, wherever it is."""

    def __init__(self, files: Any, path: str) -> None:
        self._file = files.open(path, "rb", cache_type="none")

    def read(self, begin: int, stop: int) -> bytes:
        """These bytes; fewer if the file ends before."""
        self._file.seek(begin)
        data: bytes = self._file.read(stop - begin)
        return data

    def close(self) -> None:
        self._file.close()


class WebParts:
    """The same by http; of a server that gives no parts of files, from all of the file as it comes.

    fsspec's own takes into memory whatever a server sends in place of a part.
    """

    any_order = True

    def __init__(self, files: Any, path: str) -> None:
        self._files, self._path = files, path
        self._answer: Any = None
        self._at = 0

    def read(self, begin: int, stop: int) -> bytes:
        if self._answer is None or begin < self._at:
            self.close()
            self._ask(begin, stop)
        for _ in self._chunks(begin - self._at):
            pass
        data = b"".join(self._chunks(stop - begin))
        if self.any_order:
            if self._answer.read(1):
                raise StoreError("the server sends more than it was asked for")
            self.close()
        return data

    def _ask(self, begin: int, stop: int) -> None:
        headers = _HEADERS | {"Range": f"bytes={begin}-{stop - 1}"}
        self._answer = self._files.open(
            self._path, "rb", size=stop, block_size=0, headers=headers, timeout=_patience(None)
        )
        response = self._answer.r
        self.any_order = response.status == HTTPStatus.PARTIAL_CONTENT
        self._at = begin if self.any_order else 0
        if self.any_order and not re.match(rf"bytes {begin}-", response.headers.get("Content-Range", "")):
            raise StoreError("the server sends another part than it was asked for")

    def _chunks(self, count: int) -> Iterator[bytes]:
        """The next bytes, fewer at the end."""
        until = time.monotonic() + _REQUEST
        while count > 0 and (chunk := self._answer.read(min(count, _CHUNK))):
            if time.monotonic() > until:
                raise TimeoutError
            count -= len(chunk)
            self._at += len(chunk)
            yield chunk

    def close(self) -> None:
        if self._answer is not None:
            self._answer.close()
            self._answer = None
