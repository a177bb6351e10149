"""Where records lie: paths of this machine, and URLs (s3://, gs://, http://, https:// and all others of fsspec).

A place is a `Path`, or a `Remote`, which has those of a path's methods that readers need, and raises OSError where a
path does. `os.fspath` of either gives the text that `place` makes it of again, in another process too; `str` gives what
people are shown, and what is written down: of a URL without what may be secret in it.
"""

from __future__ import annotations

import os
import re
from functools import cached_property
from io import FileIO
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias
from urllib.parse import unquote

from kifu.records._remote import RemoteFile
from kifu.records._store import CHANGED, Info, Store, StoreError, is_same, marks_in

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_LOGIN = re.compile(r"(://)[^/]*@")
_WEB = re.compile(r"https?://", re.IGNORECASE)
_LONGEST = 1 << 43  # bytes: more than any store takes for one file


class Stat(NamedTuple):
    """Of what a path's own tells, what readers need."""

    st_size: int


class Remote:
    """A file or folder at a URL; nothing is asked of its store before it has to be, and then only once.

    Immutable, to be pickled, and a `os.PathLike`, which is no path of this machine.
    """

    def __init__(self, url: str, info: Info | None = None) -> None:
        """info: if the store said it already."""
        self._url = url
        if info is not None:
            self._info = info  # in place of the property

    def __fspath__(self) -> str:
        """The URL, with all that may be secret in it."""
        return self._url

    def __str__(self) -> str:
        """The URL without user and password and, of http, without the query, which may hold a signature."""
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
        """Whether it is of http, where there are no folders."""
        return _WEB.match(self._url) is not None

    @property
    def name(self) -> str:
        """The last part of the URL, or all of it that there is."""
        last = str(self).rstrip("/").rpartition("/")[2]
        return unquote(last) if self.is_web else last

    @cached_property
    def _store(self) -> Store:
        return Store(self._url)

    @cached_property
    def _info(self) -> Info:
        return self._store.info()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_store"}

    def is_dir(self) -> bool:
        """Raises OSError, also if there is nothing."""
        if self.is_web and str(self).endswith("/"):
            raise StoreError("http has no folders: name the files one by one")
        return bool(self._info["type"] == "directory")

    def stat(self) -> Stat:
        """Raises OSError, also if the store does not say how long the file is: nobody could know if all of it came."""
        size = self._info.get("size")
        if size is None:
            raise StoreError("the server does not say how long it is")
        if not 0 <= size <= _LONGEST:
            raise StoreError(f"it is said to have {size:,} bytes")
        return Stat(int(size))

    def marks(self) -> dict[str, str]:
        """What tells it from a later file of this name, as far as the store says. Raises OSError."""
        return marks_in(self._info)

    def open(self, mode: Literal["rb"] = "rb") -> RemoteFile:
        """Raises OSError."""
        return RemoteFile(self._store, self.stat().st_size, self.require_same)

    def require_same(self) -> None:
        """Asks once more what tells the file from a later one. Raises OSError if that is no longer what it was when the
        store was first asked, be it by another process that this was sent from."""
        if not is_same(self._info, self._store.info()):
            raise StoreError(CHANGED)

    def read_bytes(self) -> bytes:
        """A small file, by one request. Raises OSError, also if it is not as long as it was said to be."""
        return self._store.whole(self.stat().st_size)

    def files(self) -> dict[bytes, Remote]:
        """All files of a folder's tree: by the path from here, in the order of its bytes. Raises OSError."""
        root = self._url.rstrip("/")
        found = {os.fsencode(name): Remote(f"{root}/{name}", info) for name, info in self._store.files()}
        return dict(sorted(found.items()))


AnyPath: TypeAlias = Path | Remote


def as_path(source: str | os.PathLike[str]) -> AnyPath:
    """What a source names: a `Remote` if it begins like a URL, else a path. Nothing is looked at yet."""
    if isinstance(source, Remote):
        return source
    text = os.fspath(source)
    return Remote(text) if _URL.match(text) else Path(text)


def name_below(root: AnyPath, found: AnyPath) -> str:
    """What to call that which was found in a folder: its path from there, with /; the folder itself: its last name."""
    if found == root:
        return found.resolve().name if isinstance(found, Path) else found.name
    if isinstance(found, Path):
        return found.relative_to(root).as_posix()
    return str(found)[len(str(root).rstrip("/")) + 1 :]


def marks_of(found: AnyPath) -> Any:
    """What tells a file from a later one of this name, as JSON values. Raises OSError."""
    if isinstance(found, Remote):
        return found.marks()
    told = found.stat()
    return [told.st_size, told.st_mtime_ns]


def open_file(found: AnyPath) -> FileIO | RemoteFile:
    """A file, unbuffered; leaving it as a context manager tells if it has changed. Raises OSError."""
    return found.open() if isinstance(found, Remote) else FileIO(found)
