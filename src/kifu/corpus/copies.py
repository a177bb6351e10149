"""Which games of a corpus are equal to an earlier one in all fields: those whose id was met before.

Ids take 11 to 22 bytes each in memory. So that this has an end, they are kept of some millions of games only; what
comes after those is looked through once all games lie in a file, by ranges of the ids' hashes.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from kifu.corpus import _hashes
from kifu.corpus.catalogue import by_value, drop_code, numbers, open_catalogue
from kifu.corpus.hashes import Hashes
from kifu.errors import DropReason

MOST = 1 << 22
"""Ids that are kept in memory at a time: they take 64 MB."""


class IdSet:
    """The ids met so far, in 11 to 22 bytes each once there are many."""

    def __init__(self, most: int | None = None) -> None:
        """most: how many are kept, at most; None: all."""
        self._table = np.zeros(1 << 10, np.uint64)  # 0 is a free slot
        self._salt = _salt()
        self._used = 0
        self._zero = False
        self._most = most
        self.full = False
        """Whether no more are kept: then a new id is one that is none of those, if it was met later or not."""

    def __len__(self) -> int:
        return self._used + self._zero

    def add(self, ids: Hashes) -> npt.NDArray[np.bool_]:
        """Adds ids: [G] uint64; returns [G] bool: whether each was met for the first time, also among these.

        Adds none of them, nor any later ones, if it is full or would hold more than it may afterwards.
        """
        self.full |= self._most is not None and len(self) + len(ids) > self._most
        zero = ids == 0
        new = np.zeros(len(ids), np.bool_)
        new[~zero] = self._put(ids[~zero])
        if zero.any() and not self._zero:
            new[zero if self.full else np.argmax(zero)] = True
            self._zero = not self.full
        return new

    def _put(self, keys: Hashes) -> npt.NDArray[np.bool_]:
        size = len(self._table)
        while not self.full and 4 * (self._used + len(keys)) > 3 * size:
            size *= 2
        if size > len(self._table):
            before, self._table = self._table[self._table != 0], np.zeros(size, np.uint64)
            self._look_up(before)
        new = self._look_up(keys)
        self._used += 0 if self.full else int(new.sum())
        return new

    def _look_up(self, keys: Hashes) -> npt.NDArray[np.bool_]:
        new = np.empty(len(keys), np.bool_)
        with np.errstate(over="ignore"):
            _hashes.look_up(self._table, self._salt, keys, new, not self.full)
        return new


def _salt() -> Hashes:
    """[1] uint64 that nobody can foresee, to be mixed into ids before they are hashed."""
    return np.frombuffer(bytearray(os.urandom(8)), np.uint64)


def exact_duplicates(paths: Sequence[str | os.PathLike[str]], *, most: int = MOST) -> npt.NDArray[np.int64]:
    """The rows of these catalogues, counted through all of them, whose id an earlier one has; rising.

    Games that are set aside are none of either. most: of how many games ids are kept in memory at a time, about; for
    each so many games the ids are read once. It changes no result. Raises FormatError.
    """
    ranges = np.uint64(max(-(-sum(open_catalogue(path).rows for path in paths) // most), 1))
    salt = _salt()
    found = [np.empty(0, np.int64)]
    for number in range(int(ranges)):
        seen, start = IdSet(), 0
        for path in paths:
            for batch in open_catalogue(path).batches(("id", "drop")):
                ids = numbers(batch["id"])
                place = (_hashes.mix_words(ids ^ salt) >> np.uint64(32)) * ranges >> np.uint64(32)
                kept = by_value(batch["drop"], drop_code, np.uint8) == DropReason.KEPT
                rows = np.flatnonzero(kept & (place == number))
                found.append(start + rows[~seen.add(ids[rows])])
                start += len(batch)
    return np.sort(np.concatenate(found))
