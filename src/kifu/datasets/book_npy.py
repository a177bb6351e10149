"""The format `book-npy@1`: the chunks that the data processor of "Deep Learning and the Game of Go" reads.

Its card: docs/formats/book-npy.md.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections.abc import Mapping
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kifu.datasets._folder import HEADER_BYTES, FolderWriter, check_array, read_index
from kifu.datasets.examples import Batch, Dataset, Layout, join, store
from kifu.datasets.writer import WriteReport
from kifu.errors import FormatError, RecipeError, SourceError

CHUNK = 1024
"""Examples in a file, but for an archive's last one."""

_KIND = np.dtype("<f8")
_NOT_PLAIN = re.compile(r"[^\w.+-]", re.ASCII)
_SHAPE = re.compile(rb"\((\d{1,4}),")


class BookNpyWriter(FolderWriter):
    """Writes a book-npy@1 folder. Batches have `runs`, and the games of an archive stand together."""

    format = "book-npy@1"

    def __init__(self, path: Path, layout: Layout, examples: int = 0) -> None:
        """The folder's name is the type of data, "train" or "test", that the book's files have in their names.

        examples: taken as by other writers, and not needed. Raises RecipeError for a layout that the book's files
        cannot hold, OutputError.
        """
        check_layout(layout)
        self._suffix = path.name
        self._archive: str | None = None
        self._chunks: dict[str, int] = {}
        self._held: list[Batch] = []
        super().__init__(path, layout)

    def append(self, prepared: Batch) -> None:
        if prepared.runs is None:
            raise RecipeError(f"{self.format} has its examples archive by archive, so they cannot be shuffled")
        if np.any(prepared.labels["move"] == self.layout.no_point):
            raise RecipeError(f"{self.format} has no passes")
        at = 0
        for archive, rows in zip(prepared.runs.archive, prepared.runs.rows.tolist()):
            if archive != self._archive:
                self._flush(1)
                self._archive = archive
            self._held.append(prepared.part(at, at + rows))
            at += rows
            self._flush(CHUNK)
        self.examples += len(prepared)

    def _flush(self, least: int) -> None:
        """Writes the rows that are held in files of up to CHUNK rows, as long as there are `least` of them."""
        if sum(map(len, self._held)) < least or self._archive is None:
            return
        rows = join(self._held, self.layout)
        done = 0
        while len(rows) - done >= least:
            self._write(rows.part(done, min(done + CHUNK, len(rows))))
            done += CHUNK
        self._held = [rows.part(done, len(rows))]

    def _write(self, rows: Batch) -> None:
        base = chunk_base(self._archive or "", self._suffix)
        chunk = self._chunks.get(base, 0)
        self._chunks[base] = chunk + 1
        planes, moves = rows.ready(self.layout), rows.labels["move"].astype(np.int64)
        if self.layout.first_row == "top":
            planes, moves = planes[:, :, ::-1], self.layout.flipped(moves)
        for name, shape, values in (("features", self.layout.shape, planes), ("labels", (), moves)):
            self._begin(f"{base}_{name}_{chunk}.npy", _KIND, shape, len(rows)).append(values)
        self._finish()

    def commit(self, about: Mapping[str, Any]) -> WriteReport:
        self._flush(1)
        return super().commit(about)


def check_layout(layout: Layout) -> None:
    """Raises RecipeError for a layout that the book's files cannot hold."""
    labels = ", ".join(label.name for label in layout.labels)
    if labels != "move":
        raise RecipeError(f"{BookNpyWriter.format} holds the label move alone, not {labels}")


def chunk_base(archive: str, kind: str) -> str:
    """What the names of an archive's files begin with: "KGS-2006-19-10388-train" for "KGS-2006-19-10388-.tar.gz".

    kind: of data, "train" here. Whatever a file's name should not have becomes _.
    """
    plain = _NOT_PLAIN.sub("_", archive.replace(".tar.gz", "")[:150] + kind[:50])
    return "_" + plain[1:] if plain.startswith(".") else plain


class _Chunk(NamedTuple):
    features: Path
    labels: Path
    rows: int


class BookNpy(Dataset):
    """A book-npy@1 folder. Each read opens the files that it needs."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Raises SourceError or FormatError. Headers and sizes are checked, values when they are read."""
        self.path = Path(path)
        index = read_index(self.path)
        self.layout, self.examples, self.about = index.layout, index.examples, index.about
        try:
            check_layout(self.layout)
        except RecipeError as error:
            raise FormatError(f"{self.path}: {error}") from None
        if len(index.files) % 2:
            raise FormatError(f"{self.path} has {len(index.files)} files, no pairs of features and labels")
        self._chunks = [self._chunk(*pair) for pair in zip(index.files[::2], index.files[1::2])]
        self._first = [0, *accumulate(chunk.rows for chunk in self._chunks)]
        if self._first[-1] != self.examples:
            raise FormatError(f"{self.path} has {self._first[-1]:,} examples, and {self.examples:,} by its index")

    def _chunk(self, features: str, labels: str) -> _Chunk:
        path = self.path / labels
        try:
            with path.open("rb") as file:
                told = _SHAPE.search(file.read(HEADER_BYTES))
        except OSError as error:
            raise SourceError(f"{path} cannot be read: {error.strerror}") from None
        rows = int(told[1]) if told else 0
        if not 1 <= rows <= CHUNK:
            raise FormatError(f"{path} does not begin as an array of 1 to {CHUNK} numbers does")
        check_array(path, _KIND, (rows,))
        check_array(self.path / features, _KIND, (rows, *self.layout.shape))
        return _Chunk(self.path / features, path, rows)

    def read(self, start: int, stop: int) -> Batch:
        if not self._first:
            raise ValueError(f"{self.path} is closed")
        parts = []
        while start < stop:
            k = bisect_right(self._first, start) - 1
            until = min(stop, self._first[k + 1])
            parts.append(self._part(self._chunks[k], start - self._first[k], until - self._first[k]))
            start = until
        return join(parts, self.layout)

    def _part(self, chunk: _Chunk, start: int, stop: int) -> Batch:
        rows = stop - start
        planes: npt.NDArray[Any] = _read(chunk.features, start, (rows, *self.layout.shape))
        labels = _read(chunk.labels, start, (rows,))
        with np.errstate(invalid="ignore"):  # what is no number is told below
            moves = labels.astype(np.int64)
        if np.any(labels != moves) or np.any((moves < 0) | (moves >= self.layout.no_point)):
            raise FormatError(f"{chunk.labels} has labels that are not within 0 to {self.layout.no_point - 1}")
        if not self.layout.real:
            ones = planes == 1
            if np.any(planes != ones):
                raise FormatError(f"{chunk.features} has values that are neither 0 nor 1")
            planes = ones
        if self.layout.first_row == "top":
            planes, moves = planes[:, :, ::-1], self.layout.flipped(moves)
        named = {"move": moves.astype(self.layout.labels[0].kind)}
        return Batch(store(planes, self.layout), named, np.zeros(rows, np.uint64), np.full(rows, -1, np.int32))

    def close(self) -> None:
        self._first = []


def _read(path: Path, start: int, shape: tuple[int, ...]) -> npt.NDArray[np.float64]:
    """Rows of an array from row `start` on."""
    count = int(np.prod(shape))
    try:
        values = np.fromfile(path, _KIND, count, offset=HEADER_BYTES + start * count // shape[0] * _KIND.itemsize)
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror}") from None
    if len(values) != count:
        raise FormatError(f"{path} has become shorter")
    return values.reshape(shape)
