"""One archive, from its address to its file."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import BinaryIO

import urllib3

from kifu.fetch._check import damage
from kifu.fetch._client import Again, Client, Failure, FetchStopped
from kifu.progress import Progress, Subtask

try:
    import fcntl
except ImportError:  # Windows, where a file that another process has open can't be replaced anyway
    fcntl = None  # type: ignore[assignment]

SIZE_LIMIT = 4 << 30
"""An archive of more bytes is refused. The largest of KGS has some 10 million."""

_TOO_LARGE = f"it has more than the {SIZE_LIMIT:,} bytes allowed"

_CONTENT_RANGE = re.compile(r"bytes (?:([0-9]{1,15})-[0-9]{1,15}|\*)/(?:([0-9]{1,15})|\*)")


class Transfer:
    """An archive of `kind` that is to become the file `target`; `link` may be relative to the address `base`."""

    def __init__(self, client: Client, target: Path, kind: str, base: str, link: str) -> None:
        self.target = target
        self.received = 0
        """Bytes that came over the network, so far."""
        self._client, self._kind, self._base, self._link = client, kind, base, link
        self._part_path = target.with_name(target.name + ".part")

    def run(self, bar: Progress) -> None:
        """Brings the file there. Raises Failure if that can't be done, Stopped, and OSError if the disk fails."""
        with bar.part(self.target.name, "bytes") as part, _locked(self._part_path) as file:
            if self.target.exists():  # by another process, just now
                return
            self._client.persist(lambda: self._attempt(file, part), lambda line: bar.say(f"{self.target.name}: {line}"))
            os.fsync(file.fileno())
            if self._client.stop.is_set():
                raise FetchStopped
            self._part_path.replace(self.target)

    def _attempt(self, file: BinaryIO, part: Subtask) -> None:
        """One try: goes on from the end of `file` with what the server gives, and checks the whole."""
        old = file.seek(0, os.SEEK_END)
        with closing(self._client.open(self._base, self._link, old)) as response:
            extent = _extent(response, old)
            if extent is None:
                _empty(file)
                raise Again(f"the server cannot go on from byte {old:,}; starting over", 0.0)
            begin, total = extent
            if total is not None and total > SIZE_LIMIT:
                raise Failure(_TOO_LARGE)
            if begin < old:
                _empty(file)
            part.restart(begin, total)
            if response.status != 416:
                self._receive(response, file, begin, total, part)
        file.flush()
        reason = damage(self._part_path, self._kind)
        if reason:
            _empty(file)
            # Pieces from several answers may be of several versions; without its length, a body may have been cut off.
            raise Again(f"{reason}; starting over", 0.0) if begin or total is None else Failure(reason)

    def _receive(
        self, response: urllib3.BaseHTTPResponse, file: BinaryIO, begin: int, total: int | None, part: Subtask
    ) -> None:
        size, limit = begin, SIZE_LIMIT if total is None else total
        for chunk in self._client.chunks(response):
            size += len(chunk)
            self.received += len(chunk)
            if size > limit:
                _empty(file)
                raise Failure(_TOO_LARGE if total is None else f"more came than the {total:,} bytes announced")
            file.write(chunk)
            part.advance(len(chunk))
        if total is not None and size < total:
            raise Again(f"only {size:,} of {total:,} bytes came")


def _extent(response: urllib3.BaseHTTPResponse, old: int) -> tuple[int, int | None] | None:
    """Where in the file, which has `old` bytes, the body belongs, and the size of the whole, if that is known.

    None if the answer does not go on from `old`. After a 416 the file is whole if this is not None.
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
    """A file to read and write that no other process has. Made if it is missing, removed at the end if it is empty."""
    with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "r+b") as file:
        if fcntl:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Failure("another process is fetching it") from None
            except OSError:  # a file system without locks
                pass
        try:
            yield file
        finally:
            if file.seek(0, os.SEEK_END) == 0:
                path.unlink(missing_ok=True)
