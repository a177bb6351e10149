"""Which rows of a corpus are set aside because another game of it is the same: what only the whole corpus can tell."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kifu.corpus.catalogue import by_value, drop_code, numbers, open_catalogue
from kifu.corpus.copies import exact_duplicates
from kifu.corpus.duplicates import find_clusters
from kifu.corpus.rows import with_drop
from kifu.errors import DropReason
from kifu.execution.executor import Executor

COPIES = (DropReason.DUPLICATE, DropReason.SAME_GAME, DropReason.CUT_OFF)
"""What a verdict says; other reasons have been found before."""


class DuplicateFlags(NamedTuple):
    """The K rows that are set aside. row: [K] int64, rising. drop: [K] uint8 of COPIES. of: [K] uint64, the id of the
    game that stays in its stead, which is told of those that are not equal in all fields."""

    row: npt.NDArray[np.int64]
    drop: npt.NDArray[np.uint8]
    of: npt.NDArray[np.uint64]

    def within(self, first: int, stop: int) -> DuplicateFlags:
        """What it says of some rows, which are counted from 0 then."""
        some = slice(*np.searchsorted(self.row, [first, stop]))
        return DuplicateFlags(self.row[some] - first, self.drop[some], self.of[some])

    def applied(self, batch: pa.RecordBatch, first: int) -> pa.RecordBatch:
        """The rows of a catalogue from `first` on, set aside as told."""
        some = self.within(first, first + len(batch))
        if not len(some.row):
            return batch
        drop = by_value(batch.column("drop"), drop_code, np.uint8)
        drop[some.row] = some.drop
        detail = batch.column("drop_detail").to_pylist()
        told = some.drop != DropReason.DUPLICATE
        for row, of in zip(some.row[told].tolist(), some.of[told].tolist()):
            detail[row] = f"of game {of:016x}"
        return with_drop(batch, drop, pa.array(detail, pa.string()))


def judge_copies(paths: Sequence[str | os.PathLike[str]], first: int, rule: str, crew: Executor) -> DuplicateFlags:
    """What the rule `kifu.corpus.clean.Clean.duplicates` says of the rows of these catalogues from `first` on.

    Rows are counted through all catalogues; those of the verdict from `first`. Earlier ones stay what they are: of two
    games of which one is earlier, and either could stay, only a later one is ever set aside; if the earlier one is the
    shorter, both stay. Raises FormatError.
    """
    none = np.empty(0, np.int64)
    if rule == "keep":
        return DuplicateFlags(none, none.astype(np.uint8), none.astype(np.uint64))
    equal = exact_duplicates(paths)
    row, drop, of = equal, np.full(len(equal), DropReason.DUPLICATE, np.uint8), np.zeros(len(equal), np.uint64)
    if rule == "games":
        bounds = np.cumsum([0, *(open_catalogue(path).rows for path in paths)])
        found = find_clusters(paths, crew)
        rows = found.row + bounds[found.source]
        gone = (found.relation != DropReason.KEPT) & (rows >= first) & ~np.isin(rows, equal)
        row, drop = np.append(row, rows[gone]), np.append(drop, found.relation[gone])
        of = np.append(of, ids_of(paths, rows[found.stays[gone]]))
    order = np.argsort(row)
    return DuplicateFlags(row[order], drop[order], of[order]).within(first, np.iinfo(np.int64).max)


def ids_of(paths: Sequence[str | os.PathLike[str]], rows: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """The ids of some rows of catalogues, counted through all of them. Raises FormatError."""
    order, ids, start = np.argsort(rows), np.empty(len(rows), np.uint64), 0
    for path in paths:
        for batch in open_catalogue(path).batches(("id",)):
            some = order[slice(*np.searchsorted(rows, [start, start + len(batch)], sorter=order))]
            ids[some] = numbers(batch.column("id"))[rows[some] - start]
            start += len(batch)
    return ids
