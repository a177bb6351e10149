"""Rows brought together by range of a key, in bounded memory: what does not fit waits on the disk.

So examples are sorted that are more than memory holds, and positions compared: none has to do with those of another
range. Keys are hashes. Whoever has seen all of them can say nothing of their order but by looking at all, so that each
row is written and read once, or twice where there are more ranges than files may be open at a time.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kifu.errors import OutputError
from kifu.execution.serialization import decode, encode

Columns: TypeAlias = dict[str, npt.NDArray[Any]]
"""N rows: arrays [N, ...] by name."""

_FAN_BITS = 7
"""Rows are divided by so many bits of the key at a time: 128 files are open."""

_MOST_BITS = 32
"""Rows that are equal in so many bits stay together, however many they are."""

_TOGETHER = 32 << 20
"""Bytes of rows that are divided at one go: a file is written some hundred kilobytes at a time."""


class BucketSort:
    """Takes rows in any order, and gives them back once: ranges of their keys from the lowest on. A context manager.

    A range's rows come in the order in which they were added.
    """

    def __init__(self, key: str, most: int, folder: Path, expected: int = 0, *, above: int = 0) -> None:
        """key: the column of keys, [N] uint64. most: so many rows a range has at most, and are held at a time, unless
        more of them have the highest 32 bits of the key in common. folder: where the others wait, in files without
        names. expected: about how many rows there will be; where they are more, they are divided once more.
        above: so many of the highest bits are the same for all.
        """
        self._key, self._most, self._folder, self._above = key, most, folder, above
        self._expected = expected
        self._held: list[Columns] = []
        self._bytes = self._rows = self._bits = 0
        self._stack = ExitStack()
        self._parts: list[_Part] = []

    def add(self, rows: Columns) -> None:
        """Takes rows; the arrays are kept. Raises OutputError."""
        self._hold(rows)
        self._rows += len(rows[self._key])
        if not self._parts and self._rows > self._most and self._above < _MOST_BITS:
            self._begin()

    def _hold(self, rows: Columns) -> None:
        self._held.append(rows)
        self._bytes += sum(values.nbytes for values in rows.values())
        if self._parts and self._bytes >= _TOGETHER:
            self._divide()

    def __iter__(self) -> Iterator[Columns]:
        """Raises OutputError."""
        if not self._parts:
            if self._held:
                yield self._taken()
            return
        self._divide()
        while self._parts:
            part, above = self._parts.pop(0), self._above + self._bits
            with part.spool, BucketSort(self._key, self._most, self._folder, part.rows, above=above) as within:
                for rows in part.spool.read():
                    within.add(rows)
                yield from within

    def _taken(self) -> Columns:
        """The rows that are held, as one."""
        whole = self._held[0]
        if len(self._held) > 1:
            whole = {name: np.concatenate([rows[name] for rows in self._held]) for name in whole}
        self._held, self._bytes = [], 0
        return whole

    def _begin(self) -> None:
        """From now on rows go to the disk, and so do those that are held."""
        wanted = max(self._expected, self._rows) // self._most
        self._bits = min(max(wanted.bit_length(), 1), _FAN_BITS)
        self._parts = [_Part(self._stack.enter_context(SpillFile(self._folder))) for _ in range(1 << self._bits)]
        before = self._held[::-1]
        self._held, self._bytes = [], 0
        while before:
            self._hold(before.pop())

    def _divide(self) -> None:
        """Writes the rows that are held to the files of their ranges."""
        if not self._held:
            return
        rows = self._taken()
        which = (rows[self._key] << np.uint64(self._above) >> np.uint64(64 - self._bits)).astype(np.uint8)
        order = np.argsort(which, kind="stable")
        ends = np.searchsorted(which[order], np.arange(len(self._parts) + 1))
        for k in np.flatnonzero(np.diff(ends)).tolist():
            chosen = order[ends[k] : ends[k + 1]]
            self._parts[k].spool.write({name: values[chosen] for name, values in rows.items()})
            self._parts[k].rows += len(chosen)

    def __enter__(self) -> BucketSort:
        return self

    def __exit__(self, *exception: Any) -> None:
        self._parts = []
        self._stack.__exit__(*exception)


@dataclass(slots=True)
class _Part:
    """Those of one range, on the disk."""

    spool: SpillFile
    rows: int = 0


class SpillFile:
    """Results on disk, in a temporary file without a name. A context manager."""

    def __init__(self, folder: Path) -> None:
        """Open the file in a folder. Raises OutputError."""
        self._folder = folder
        self._count = 0
        try:
            self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - closed by __exit__
        except OSError as error:
            raise self._error(error) from None

    def write(self, value: Any) -> None:
        """Append a value, which can be pickled. Raises OutputError."""
        try:
            for piece in encode(value):
                self._file.write(piece)
        except OSError as error:
            raise self._error(error) from None
        self._count += 1

    def read(self) -> Iterator[Any]:
        """Yield all values in order. Nothing can be written afterwards. Raises OutputError if the disk is full."""
        try:
            self._file.seek(0)
        except OSError as error:
            raise self._error(error) from None
        for _ in range(self._count):
            yield decode(self._file)

    def _error(self, error: OSError) -> OutputError:
        return OutputError(f"cannot spill to {self._folder}: {error.strerror}")

    def __enter__(self) -> SpillFile:
        return self

    def __exit__(self, *exception: object) -> None:
        with suppress(OSError):  # buffered data may not fit on a full disk
            self._file.close()
