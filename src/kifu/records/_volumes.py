"""The volumes of 7z archives, joined."""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import numpy as np

from kifu.records._sevenzip import MAGIC, SevenZipFile, locate_header, read_at
from kifu.records._sevenzip_header import SevenZipError
from kifu.records._store import StoreError
from kifu.records.paths import AnyPath, OpenFile, as_path, open_file

_FIRST_VOLUME, _FIRST_NUMBER = re.compile(r"\.001\Z"), re.compile(r"001(?=\Z|[?#])")


class Volumes:
    """The volumes of an archive as one file, without a buffer.

    Attributes:
        size: Length in bytes.
    """

    def __init__(self, files: Sequence[SevenZipFile]) -> None:
        """Join open files."""
        self._files = files
        self._ends = np.cumsum([file.size for file in files]).tolist()
        self.size = int(self._ends[-1])
        self._position = 0

    def seek(self, offset: int, _whence: int = os.SEEK_SET, /) -> int:
        """Move to a position from the beginning."""
        self._position = offset
        return offset

    def readinto(self, view: memoryview, /) -> int:
        """Read into the beginning of a buffer, and return the number of bytes, 0 only at the end."""
        at = bisect_right(self._ends, self._position)
        if at == len(self._files):
            return 0
        file = self._files[at]
        file.seek(self._position - (self._ends[at] - file.size))
        count = file.readinto(view[: self._ends[at] - self._position]) or 0
        self._position += count
        return count


def volume_paths(path: AnyPath) -> list[AnyPath]:
    """Return the files of a container: the path itself, and if it is the first volume of a 7z, also the others.

    Raises:
        OSError: If a file cannot be read, or a volume is missing.
    """
    volumes = [path]
    if not _FIRST_VOLUME.search(path.name):
        return volumes
    with open_file(path) as file:
        if read_at(file, 0, len(MAGIC)).tobytes() != MAGIC:
            return volumes
        try:
            begin, size, _ = locate_header(file)
        except SevenZipError:  # which reading raises again
            return volumes
        missing = begin + size - file.size
    while missing > 0:
        volume = as_path(_FIRST_NUMBER.sub(f"{len(volumes) + 1:03}", os.fspath(path), count=1))
        try:
            found = volume.stat().st_size
        except OSError:
            found = 0
        if not found:
            raise StoreError(f"volume {volume.name} is missing or empty")
        missing -= found
        volumes.append(volume)
    return volumes


@contextmanager
def open_volumes(path: AnyPath, file: OpenFile) -> Iterator[OpenFile | Volumes]:
    """Open the other files of an open container, and join them, see `volume_paths`. Raises OSError."""
    with ExitStack() as stack:
        others: list[OpenFile] = []
        for volume in volume_paths(path)[1:]:
            others.append(open_file(volume))
            stack.enter_context(others[-1])
        yield Volumes([file, *others]) if others else file
