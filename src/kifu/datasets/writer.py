"""The base class of all data set writers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from kifu.datasets.examples import Batch, Layout, concat


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file of a data set.

    Attributes:
        file: Its name, within the directory if the data set is one.
        blake3: BLAKE3 hash in hex.
    """

    file: str
    bytes: int
    blake3: str


@dataclass(frozen=True, slots=True)
class WriteReport:
    """A finished data set.

    Attributes:
        files: Its files in the order in which they were created.
    """

    examples: int
    files: tuple[WrittenFile, ...]


_GROUP_ROWS = 4096
"""Rows of a group, unless the format has groups of its own."""


class Rebatcher:
    """Regroups batches into groups of one size, so that a file does not depend on the sizes of the batches."""

    def __init__(self, layout: Layout, size: int) -> None:
        self._layout = layout
        self._size = size
        self._pending: list[Batch] = []
        self._rows = 0

    def add(self, batch: Batch) -> Iterator[Batch]:
        """Add rows, and yield each group that is full."""
        at = 0
        while self._rows + len(batch) - at >= self._size:
            until = at + self._size - self._rows
            yield self._concat([*self._pending, batch.slice(at, until)])
            at = until
        if at < len(batch):
            self._pending.append(batch.slice(at, len(batch)))
            self._rows += len(batch) - at

    def rest(self) -> Batch:
        """Return the rows that do not fill a group."""
        return self._concat(self._pending)

    def _concat(self, parts: list[Batch]) -> Batch:
        self._pending, self._rows = [], 0
        return concat(parts, self._layout)


class Writer(ABC):
    """Writes one data set, which appears under its name when `commit` returns. A context manager.

    Batches are prepared in any thread or process, and appended in order. The bytes depend on the examples and their
    order, not on how they are divided into batches.
    """

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.examples = 0

    @staticmethod
    def prepare(batch: Batch, layout: Layout) -> Any:
        """Convert a batch to the form that `append` takes; may run in any thread or process."""
        return batch

    @staticmethod
    def group_rows(layout: Layout) -> int:
        """Return the number of rows that `encode_group` takes."""
        return _GROUP_ROWS

    @classmethod
    def encode_group(cls, batch: Batch, layout: Layout) -> Any:
        """Convert a whole group, so that `append` has as little to do as possible; may run in any thread or process.

        Args:
            batch: `group_rows` rows, after a multiple of as many.
        """
        return cls.prepare(batch, layout)

    @abstractmethod
    def append(self, prepared: Any) -> None:
        """Append a result of `prepare` or `encode_group`.

        Raises:
            RecipeError: The format cannot hold these examples.
        """

    def write(self, batch: Batch) -> None:
        """Append examples. Raises what `append` raises."""
        self.append(self.prepare(batch, self.layout))

    @abstractmethod
    def commit(self, about: Mapping[str, Any]) -> WriteReport:
        """Finish the data set and give it its name.

        Args:
            about: Metadata to store in the data set, as JSON values.
        """

    def __enter__(self) -> Self:
        return self

    @abstractmethod
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
