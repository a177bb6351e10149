"""Sources of records: local paths, and URLs (s3://, gs://, http://, https:// and all others of fsspec).

A source is a `Path` or a `Remote`, which has the methods of a path that readers need and raises OSError where a path
does. `os.fspath` of either is text from which `as_path` restores it, also in another process. `str()` is a display form
with credentials removed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from functools import cached_property
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NamedTuple, TypeAlias
from urllib.parse import unquote

from kifu.errors import SourceError
from kifu.files import open_regular
from kifu.records._remote import CHANGED, CopiedFile, FullCopy, Info, RemoteFile, Store, StoreError, etag_of, is_same

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
        """Refer to a URL, with its metadata if they are known already."""
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
        return etag_of(self._info)

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

        The first request may have been made by another process, from which this object was sent.
        """
        if not is_same(self._info, self._store.info()):
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
    """An open regular file of this machine, without a buffer.

    A context manager: leaving it raises OSError if the file has changed, also in place of another error.

    Attributes:
        size: Length in bytes, when it was opened.
    """

    def __init__(self, path: Path) -> None:
        """Open a file. Raises OSError."""
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
