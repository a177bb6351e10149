"""Rows brought together by range of a key, in bounded memory: what does not fit waits on the disk.

So examples are sorted that are more than memory holds, and positions compared: none has to do with those of another
range. Keys are hashes. Whoever has seen all of them can say nothing of their order but by looking at all, so that each
row is written and read once, or twice where there are more ranges than files may be open at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kifu.parcels import ParcelSpool

Columns: TypeAlias = dict[str, npt.NDArray[Any]]
"""N rows: arrays [N, ...] by name."""

_FAN_BITS = 7
"""Rows are divided by so many bits of the key at a time: 128 files are open."""

_MOST_BITS = 32
"""Rows that are equal in so many bits stay together, however many they are."""

_BUFFER = 256 << 10
"""Bytes of a range that are written at one go."""


class Ranges:
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
        self._rows = self._bits = 0
        self._stack = ExitStack()
        self._parts: list[_Part] = []

    def add(self, rows: Columns) -> None:
        """Takes rows; the arrays are kept. Raises OutputError."""
        self._rows += len(rows[self._key])
        if self._parts:
            self._divide(rows)
            return
        self._held.append(rows)
        if self._rows > self._most and self._above < _MOST_BITS:
            self._begin()
            while self._held:
                self._divide(self._held.pop(0))

    def __iter__(self) -> Iterator[Columns]:
        """Raises OutputError where a range is divided once more."""
        if self._held:
            whole = _joined(self._held)
            self._held.clear()
            yield whole
        while self._parts:
            part, above = self._parts.pop(0), self._above + self._bits
            with part.spool, Ranges(self._key, self._most, self._folder, part.rows, above=above) as within:
                for rows in part.all():
                    within.add(rows)
                yield from within

    def _begin(self) -> None:
        """From now on rows go to the disk."""
        wanted = max(self._expected, self._rows) // self._most
        self._bits = min(max(wanted.bit_length(), 1), _FAN_BITS)
        spools = [self._stack.enter_context(ParcelSpool(self._folder)) for _ in range(1 << self._bits)]
        self._parts = [_Part(spool) for spool in spools]

    def _divide(self, rows: Columns) -> None:
        which = (rows[self._key] << np.uint64(self._above) >> np.uint64(64 - self._bits)).astype(np.uint8)
        order = np.argsort(which, kind="stable")
        ends = np.searchsorted(which[order], np.arange(len(self._parts) + 1))
        for k in np.flatnonzero(np.diff(ends)).tolist():
            chosen = order[ends[k] : ends[k + 1]]
            self._parts[k].add({name: values[chosen] for name, values in rows.items()}, len(chosen))

    def __enter__(self) -> Ranges:
        return self

    def __exit__(self, *exception: Any) -> None:
        self._parts = []
        self._stack.__exit__(*exception)


class _Part:
    """Rows of one range, most of them on the disk."""

    def __init__(self, spool: ParcelSpool) -> None:
        self.spool = spool
        self.rows = 0
        self._held: list[Columns] = []
        self._bytes = 0

    def add(self, rows: Columns, count: int) -> None:
        self._held.append(rows)
        self.rows += count
        self._bytes += sum(values.nbytes for values in rows.values())
        if self._bytes >= _BUFFER:
            self.spool.write(_joined(self._held))
            self._held, self._bytes = [], 0

    def all(self) -> Iterator[Columns]:
        """Its rows, once."""
        yield from self.spool.parcels()
        yield from self._held


def _joined(parts: Sequence[Columns]) -> Columns:
    if len(parts) == 1:
        return parts[0]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
