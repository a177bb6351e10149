"""What writers of all formats have in common: batches are made ready in any thread or process, and appended."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast

from kifu.datasets.examples import Batch, Layout, join

if TYPE_CHECKING:
    from kifu.execution.serialization import Parcel


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """One file of a data set; file: its name, within the folder if there is one."""

    file: str
    bytes: int
    blake3: str


@dataclass(frozen=True, slots=True)
class WriteReport:
    """A data set as it was written."""

    examples: int
    files: tuple[WrittenFile, ...]


class Rebatcher:
    """Batches cut anew into groups of one size, so that a file does not depend on how they came."""

    def __init__(self, layout: Layout, size: int) -> None:
        self._layout = layout
        self._size = size
        self._held: list[Batch] = []
        self._rows = 0

    def add(self, batch: Batch) -> Iterator[Batch]:
        """Takes rows; yields each group that is full."""
        at = 0
        while self._rows + len(batch) - at >= self._size:
            until = at + self._size - self._rows
            yield self._taken([*self._held, batch.part(at, until)])
            at = until
        if at < len(batch):
            self._held.append(batch.part(at, len(batch)))
            self._rows += len(batch) - at

    def rest(self) -> Batch:
        """The rows that no full group has."""
        return self._taken(self._held)

    def _taken(self, parts: list[Batch]) -> Batch:
        self._held, self._rows = [], 0
        return join(parts, self._layout)


class Writer(ABC):
    """Writes one data set, which has its name only once `commit` has returned. A context manager.

    The bytes depend on the examples and their order only, not on how batches divide them.
    """

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.examples = 0

    @staticmethod
    def prepare(batch: Batch, layout: Layout) -> Any:
        """What `append` writes; may be made in any thread, and in another process."""
        return batch

    @staticmethod
    def pack(prepared: Any) -> Parcel:
        """What `prepare` made, as it travels between processes."""
        return cast(Batch, prepared).pack()

    @staticmethod
    def unpack(parcel: Parcel) -> Any:
        """The reverse of `pack`."""
        return Batch.unpack(parcel)

    @abstractmethod
    def append(self, prepared: Any) -> None:
        """Appends what `prepare` made. Raises OutputError."""

    def write(self, batch: Batch) -> None:
        """Appends examples. Raises OutputError."""
        self.append(self.prepare(batch, self.layout))

    @abstractmethod
    def commit(self, about: Mapping[str, Any]) -> WriteReport:
        """Ends the data set and gives it its name. about: what it says about how it came to be, as JSON values."""

    def __enter__(self) -> Self:
        return self

    @abstractmethod
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
