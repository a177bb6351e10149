"""Sources of records: local paths, and URLs (s3://, gs://, http://, https:// and all others of fsspec).

A source is a `Path` or a `Remote`. `os.fspath` of either is text from which `as_path` restores it, also in another
process. `str()` is a display form with credentials removed.

A remote file is copied once into the user's cache, and read there. The copy is used again as long as the store reports
the same version of the file.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, NamedTuple, TypeAlias, TypeVar
from urllib.parse import unquote

from blake3 import blake3

from kifu.errors import OutputError, SourceError, first_line
from kifu.execution.executor import Executor
from kifu.io import NO_LINK, AtomicFile, hash_file, lock_file, open_regular, private_folder, temp_path, user_cache
from kifu.progress import Subtask
from kifu.retry import RetryPolicy, with_phrase
from kifu.text import hide_credentials

_log = logging.getLogger(__name__)

T = TypeVar("T")

Info: TypeAlias = dict[str, Any]
"""The metadata of a file or folder: "type", "size", and more, depending on the store."""

Version: TypeAlias = dict[str, str]
"""Values that change with the content of a file, as far as its store reports any."""

_POLICY = RetryPolicy(attempts=3)
_SILENT = logging.NullHandler()
_COPIES = 16  # made at the same time

_ETAGS, _TIMES = ("ETag", "etag", "generation"), ("LastModified", "Last-Modified", "last_modified", "mtime")
"""Metadata that changes with the content of a file; no store has all of it."""

CHANGED = "it changed while it was read"


class StoreError(OSError):
    """A request that failed, with the reason in one line."""

    def __init__(self, reason: str) -> None:
        super().__init__(errno.EIO, reason)


class _Store:
    """The store of fsspec behind a URL. All methods raise StoreError."""

    def __init__(self, url: str) -> None:
        protocol = url.partition("://")[0].lower()
        self._names_secrets = "@" in url or "?" in url
        self._files, self._path = self._call(lambda: _open_store(url, protocol))

    def _call(self, call: Callable[[], T]) -> T:
        try:
            return call()
        except StoreError:
            raise
        except Exception as error:  # the stores of fsspec raise what their own libraries raise
            raise StoreError(self._reason(error)) from None

    def _reason(self, error: BaseException) -> str:
        if isinstance(error, FileNotFoundError) and error.__cause__ is not None:
            return self._reason(error.__cause__)  # a missing bucket
        status = getattr(error, "status", None) or getattr(error, "code", None)  # of gcsfs
        if isinstance(status, int) and status != 404:
            return f"the server answered {with_phrase(status)}"
        if isinstance(error, ImportError):
            return f"{first_line(error)}; pip install 'kifu[cluster]' brings fsspec, with what s3:// and gs:// take"
        for kind, reason in _REASONS:
            if isinstance(error, kind) or status == 404:
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
        return dict(self._call(lambda: self._files.info(self._path)))

    def files(self) -> list[tuple[str, Info]]:
        """Return all files in the tree of a folder: relative paths, and the metadata needed later.

        The rest of the metadata would take more memory than the names.
        """
        root = self._path.rstrip("/") + "/"
        found = self._call(lambda: self._files.find(self._path, detail=True))
        return [
            (name[len(root) :], {key: info[key] for key in ("type", "size", *_ETAGS, *_TIMES) if key in info})
            for name, info in found.items()
            if info["type"] == "file" and name.startswith(root) and not name.endswith("/")
        ]

    def get(self, path: Path, size: int) -> None:
        from fsspec.callbacks import Callback

        def check(_: object, received: int, **_options: object) -> None:
            if received > size:
                raise StoreError(f"more came than the {size:,} bytes announced")

        self._call(lambda: self._files.get_file(self._path, str(path), callback=Callback(hooks={"limit": check})))
        if (received := path.stat().st_size) != size:
            raise StoreError(f"it ends at byte {received:,} of {size:,}")


def _open_store(url: str, protocol: str) -> tuple[Any, str]:
    import fsspec

    options: dict[str, Any] = {"use_listings_cache": False}  # a file may change between two requests
    if protocol in ("gs", "gcs"):
        logging.getLogger("gcsfs").addHandler(_SILENT)  # it logs tracebacks of failures, which it raises as well
    elif protocol in ("s3", "s3a"):
        options["config_kwargs"] = {"retries": {"mode": "standard", "max_attempts": _POLICY.attempts}}
    store: tuple[Any, str] = fsspec.url_to_fs(url, **{**options, **fsspec.config.conf.get(protocol, {})})
    return store


_REASONS: tuple[tuple[type[Exception], str], ...] = (
    (FileNotFoundError, "no such file or folder"),
    (PermissionError, "access is denied"),
    (TimeoutError, "no answer in time"),
)


def _version(info: Info) -> Version:
    """Return size and ETags, else size and times: those of MinIO have milliseconds, but only in a listing."""
    keys = next((keys for keys in (_ETAGS, _TIMES) if any(key in info for key in keys)), ())
    return {key: str(info[key]) for key in ("size", *keys) if key in info}


class _Copy(NamedTuple):
    version: Version
    size: int
    blake3: str


def _copy_file(url: str, info: Info | None, expected: _Copy | None) -> tuple[Path, _Copy]:
    """Return the path of a copy in the user's cache. Raises OSError.

    Args:
        info: Metadata of the file; None for HTTP, of which one request gets metadata and content.
        expected: The copy that another process of this run has; then a file with other bytes has changed.
    """
    caches = private_folder([user_cache() / "kifu"])
    folder = caches and private_folder([caches / "sources"])
    if folder is None:
        raise StoreError(f"cannot write a copy to {user_cache()}; XDG_CACHE_HOME names another folder")
    path = folder / blake3(url.encode("utf-8", "surrogateescape")).hexdigest(16)
    try:
        with _open_notes(path.with_suffix(".json")) as notes:
            known = copy = _read_notes(notes, path)
            if copy is None or copy != expected:
                copy = _fetch(url, info, path, copy)
            if copy != known:
                notes.seek(0)
                notes.write(json.dumps(copy).encode())
                notes.truncate()
    except StoreError:
        raise
    except (OSError, OutputError) as error:
        raise StoreError(f"cannot write a copy to {folder}: {getattr(error, 'strerror', None) or error}") from None
    if expected is not None and copy.blake3 != expected.blake3:
        raise StoreError(CHANGED)
    return path, copy


@contextmanager
def _open_notes(path: Path) -> Iterator[BinaryIO]:
    """Open or create the file with the notes on a copy. One thread or process holds it; the others wait."""
    flags = os.O_RDWR | os.O_CREAT | NO_LINK
    with open(path, "r+b", opener=lambda name, _: os.open(name, flags, 0o600)) as file:
        lock_file(file.fileno(), wait=True)
        try:
            yield file
        finally:
            file.flush()
            if file.seek(0, os.SEEK_END) == 0:
                path.unlink(missing_ok=True)


def _read_notes(notes: BinaryIO, path: Path) -> _Copy | None:
    """Return the notes on a copy; None if it is missing or has another size."""
    with suppress(ValueError, TypeError, OSError):
        copy = _Copy(*json.loads(notes.read()))
        if path.stat().st_size == copy.size:
            return copy
    return None


def _fetch(url: str, info: Info | None, path: Path, copy: _Copy | None) -> _Copy:
    """Copy a file to `path`, unless the intact copy there is of the same version, or has the same bytes."""
    if copy is not None and hash_file(path) != copy.blake3:
        copy = None
    if copy is not None and info is not None and len(copy.version) > 1 and copy.version == _version(info):
        return copy
    with AtomicFile(path) as output:
        if info is not None:
            version = _fetch_stored(url, info, temp_path(path))
        elif fetched := _fetch_web(url, copy, temp_path(path)):
            version = fetched
        else:
            assert copy is not None
            return copy
        output.adopt()
        digest = output.digest().hex()
        if copy is None or digest != copy.blake3:
            output.commit()
        return _Copy(version, output.size, digest)


def _fetch_web(url: str, copy: _Copy | None, part: Path) -> Version | None:
    """Write a file at an HTTP address to `part` and return its version; None if it is that of the copy."""
    from kifu.download import Client, DownloadError, Transfer

    def begin(_validator: str, size: int | None) -> None:
        if size is None:  # truncation would go unnoticed
            raise DownloadError("the server does not report its size")
        _require_room(part, size)

    client, known = Client(_POLICY), copy.version.get("validator", "") if copy is not None else ""
    transfer = Transfer(client, "", url, sys.maxsize, known=known, begin=begin)
    try:
        with part.open("r+b") as file:
            fetched = client.retry(lambda: transfer.attempt(file, Subtask()), _log.info)
    except DownloadError as error:
        raise StoreError(str(error)) from None
    return {"validator": transfer.validator} if fetched else None


def _fetch_stored(url: str, info: Info, part: Path) -> Version:
    version, size = _version(info), info.get("size")
    if size is None:
        raise StoreError("the server does not report its size")
    _require_room(part, size)
    store = _Store(url)
    store.get(part, size)
    if _version(store.info()) != version:
        raise StoreError(CHANGED)
    return version


def _require_room(part: Path, size: int) -> None:
    free = shutil.disk_usage(part.parent).free
    if size > free:
        raise StoreError(f"a copy takes {size:,} bytes, but {part.parent} has room for {free:,}")


_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_WEB = re.compile(r"https?://", re.IGNORECASE)


class Remote:
    """A file or folder at a URL. Its store is asked only when necessary, and once.

    Picklable, and an `os.PathLike` that is not a path of this machine. In another process, it stands for the same
    bytes if it was copied before.
    """

    _copy: _Copy | None = None
    _local: tuple[Path, tuple[int, ...]] | None = None

    def __init__(self, url: str, info: Info | None = None) -> None:
        self._url = url
        self._volumes: dict[str, Remote] = {}
        if info is not None:
            self._info = info  # replaces the cached property

    def __fspath__(self) -> str:
        """Return the URL with credentials."""
        return self._url

    def __str__(self) -> str:
        return hide_credentials(self._url)

    def __repr__(self) -> str:
        return f"Remote({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Remote) and self._url == other._url

    def __hash__(self) -> int:
        return hash(self._url)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_local"}

    @property
    def _is_web(self) -> bool:
        return _WEB.match(self._url) is not None

    @property
    def name(self) -> str:
        """The last component of the URL."""
        last = str(self).rstrip("/").rpartition("/")[2]
        return unquote(last) if self._is_web else last

    @cached_property
    def _info(self) -> Info:
        return _Store(self._url).info()

    def is_dir(self) -> bool:
        """Return whether it is a folder. Raises OSError, also if it does not exist, except for HTTP."""
        if self._is_web and str(self).endswith("/"):
            raise StoreError("http has no folders: name the files one by one")
        return not self._is_web and bool(self._info["type"] == "directory")

    def listed_size(self) -> int:
        """Return its size, for HTTP that of its copy. Raises OSError."""
        return self.stat().st_size if self._is_web else int(self._info.get("size") or 0)

    def volume(self, url: str) -> Remote:
        """Return another file, which is read together with this one."""
        return self._volumes.setdefault(url, Remote(url))

    def local(self) -> Path:
        """Return the path of a complete copy in the user's cache. Raises OSError."""
        if self._local is None:
            path, self._copy = _copy_file(self._url, None if self._is_web else self._info, self._copy)
            self._local = path, file_version(path.stat())
        path, version = self._local
        if file_version(path.stat()) != version:
            raise StoreError(CHANGED)
        return path

    def stat(self) -> os.stat_result:
        """Return the status of its copy. Raises OSError."""
        return self.local().stat()

    def files(self) -> dict[bytes, Remote]:
        """Return all files in the tree of a folder by relative path, sorted by its bytes. Raises OSError."""
        root = self._url.rstrip("/")
        files = {os.fsencode(name): Remote(f"{root}/{name}", info) for name, info in _Store(self._url).files()}
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


def local_paths(paths: Sequence[AnyPath]) -> Iterator[Path]:
    """Yield the local paths of files in order; several remote ones are copied at a time. Raises SourceError."""
    if not any(isinstance(path, Remote) for path in paths):
        yield from map(Path, paths)
        return
    with Executor(_COPIES) as executor:
        yield from executor.map(_local_path, paths, prefetch=_COPIES)


def _local_path(path: AnyPath) -> Path:
    try:
        return path.local() if isinstance(path, Remote) else path
    except OSError as error:
        raise SourceError(f"{path}: {error.strerror}") from None


def name_below(root: AnyPath, path: AnyPath) -> str:
    """Return the display name of a file in a folder: its relative path with "/"; for the folder itself its name."""
    if path == root:
        return path.resolve().name if isinstance(path, Path) else path.name
    if isinstance(path, Path):
        return path.relative_to(root).as_posix()
    return str(path)[len(str(root).rstrip("/")) + 1 :]


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


def open_file(path: AnyPath) -> LocalFile:
    """Open a file, or the copy of a remote one, without a buffer; see `LocalFile`. Raises OSError."""
    return LocalFile(path.local() if isinstance(path, Remote) else path)
