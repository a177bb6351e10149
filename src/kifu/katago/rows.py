"""One row of KataGo's training data, and many of them: arrays, their names, types and shapes, as of KataGo v1.17.2."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

SIDE = 19
POINTS = SIDE * SIDE
TARGETS = 80
"""Columns of globalTargetsNC."""

OLD_TARGETS = 64
"""As many as there were at first; KataGo's scripts take what has fewer than 80 for zero in the others."""


@dataclass(frozen=True, slots=True)
class KataArray:
    """One array of a file. shape: of a row."""

    field: str
    name: str
    kind: np.dtype[Any]
    shape: tuple[int, ...]
    needed: bool = True


ARRAYS = (
    KataArray("planes", "binaryInputNCHWPacked", np.dtype("|u1"), (22, (POINTS + 7) // 8)),
    KataArray("inputs", "globalInputNC", np.dtype("<f4"), (19,)),
    KataArray("policy", "policyTargetsNCMove", np.dtype("<i2"), (2, POINTS + 1)),
    KataArray("targets", "globalTargetsNC", np.dtype("<f4"), (TARGETS,)),
    KataArray("scores", "scoreDistrN", np.dtype("|i1"), (2 * POINTS + 120,)),
    KataArray("values", "valueTargetsNCHW", np.dtype("|i1"), (5, SIDE, SIDE)),
    KataArray("q", "qValueTargetsNCMove", np.dtype("<i2"), (3, POINTS + 1), False),
    KataArray("meta", "metadataInputNC", np.dtype("<f4"), (192,), False),
)
"""All arrays, in the order in which a file has them."""


class KataRows(NamedTuple):
    """N rows. docs/formats/katago-npz.md says what each number means.

    planes: [N, 22, 46] uint8, the bits of plane set katago22@1. inputs: [N, 19] float32, its numbers. policy: [N, 2,
    362] int16, counts for the move and for the one after it. targets: [N, 80] float32. scores: [N, 842] int8.
    values: [N, 5, 19, 19] int8. q: [N, 3, 362] int16, and meta: [N, 192] float32, None where a file has none.
    """

    planes: npt.NDArray[np.uint8]
    inputs: npt.NDArray[np.float32]
    policy: npt.NDArray[np.int16]
    targets: npt.NDArray[np.float32]
    scores: npt.NDArray[np.int8]
    values: npt.NDArray[np.int8]
    q: npt.NDArray[np.int16] | None = None
    meta: npt.NDArray[np.float32] | None = None

    @property
    def size(self) -> int:
        """How many rows there are."""
        return len(self.planes)

    def part(self, start: int, stop: int) -> KataRows:
        """Rows start to stop - 1, which share their memory with these."""
        return KataRows._make(None if array is None else array[start:stop] for array in self)


def join_rows(parts: Sequence[KataRows]) -> KataRows:
    """The rows of all parts, of which there is at least one; all have the same arrays."""
    if len(parts) == 1:
        return parts[0]
    return KataRows._make(None if arrays[0] is None else np.concatenate(arrays) for arrays in zip(*parts))


_PIECE = 1024
"""Rows compressed at one go; without such bounds files would be 1 % smaller."""


def piece_end(row: int, rows_per_file: int) -> int:
    """The row after the piece that a row is in: one ends where a file does, and after every 1,024 rows of a file."""
    within = row % rows_per_file
    return row - within + min(within - within % _PIECE + _PIECE, rows_per_file)


class Pieces:
    """Rows cut anew into pieces whose bounds depend on nothing but the number of the row, see `piece_end`."""

    def __init__(self, rows_per_file: int) -> None:
        self._rows_per_file = rows_per_file
        self._held: list[KataRows] = []
        self._rows = 0
        self._first = 0

    def add(self, rows: KataRows) -> Iterator[KataRows]:
        """Takes rows; yields each piece that is full."""
        at = 0
        while self._rows + rows.size - at >= (wanted := piece_end(self._first, self._rows_per_file) - self._first):
            until = at + wanted - self._rows
            self._held.append(rows.part(at, until))
            at = until
            yield from self.rest()
        if at < rows.size:
            self._held.append(rows.part(at, rows.size))
            self._rows += rows.size - at

    def pass_over(self, rows: int) -> None:
        """Notes a piece that was cut elsewhere. No rows are held."""
        assert piece_end(self._first, self._rows_per_file) == self._first + rows and not self._held
        self._first += rows

    def rest(self) -> Iterator[KataRows]:
        """Yields the rows that are in no piece yet, as one, unless there are none."""
        if self._held:
            piece = join_rows(self._held)
            self._held, self._rows = [], 0
            self._first += piece.size
            yield piece
