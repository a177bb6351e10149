"""The format `katago-npz@1`: a folder of KataGo's training files. Its card: docs/formats/katago-npz.md."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from kifu.datasets._zip_write import Compression, Member, Packed, pack, write_zip
from kifu.datasets.examples import Layout, Written, WrittenFile
from kifu.datasets.formats import INDEX
from kifu.datasets.katago_rows import ARRAYS, KataArray, KataRows, Pieces
from kifu.datasets.labels import find_label
from kifu.errors import RecipeError
from kifu.output import OutputFolder, cannot_write
from kifu.parallel import Crew
from kifu.planes.registry import KATAGO22

ROWS_PER_FILE = 20_000
"""As KataGo's own settings for self-play have it (maxRowsPerTrainFile)."""

MOST_ROWS_PER_FILE = 200_000
"""Of 8.4 kB each, so that a file that is not compressed stays below the 4 GiB of a plain zip."""

_PIECE = 1024
"""Rows compressed at one go; without such bounds files would be 1 % smaller."""

LAYOUT = Layout(
    KATAGO22.name, KATAGO22.plane_names, KATAGO22.real, 19, 19, KATAGO22.rim, KATAGO22.first_row,
    tuple(find_label(name, 19, 19) for name in ("move", "globals", "result")),
)  # fmt: skip
"""What a `KataNpz` gives as examples."""


class KataWriter:
    """Writes a katago-npz@1 folder, which has its name only once `commit` has returned. A context manager.

    The bytes depend on the rows and their order only, neither on how batches divide them nor on the number of threads.
    Memory is that of a few pieces of 1,024 rows (9 MB) for each thread.
    """

    def __init__(
        self,
        path: Path,
        *,
        rows_per_file: int = ROWS_PER_FILE,
        compression: Compression = "deflate",
        q: bool = True,
        meta: bool = False,
    ) -> None:
        """q, meta: whether there are qValueTargetsNCMove and metadataInputNC.

        KataGo's shuffle.py wants metadata only if it is told -include-meta, and then in all files.
        Raises RecipeError for rows_per_file beyond 1 to 200,000; OutputError.
        """
        if not 1 <= rows_per_file <= MOST_ROWS_PER_FILE:
            raise RecipeError(f"{rows_per_file} rows a file; there may be 1 to {MOST_ROWS_PER_FILE:,}")
        self.rows = 0
        self.arrays = tuple(each for each in ARRAYS if each.needed or {"q": q, "meta": meta}[each.field])
        self._rows_per_file, self._compression = rows_per_file, compression
        self._pieces = Pieces(_PIECE, rows_per_file)
        # shuffle.py takes a file with _ in its name for one that is not finished, and leaves it out.
        self._stem = re.sub(r"[^A-Za-z0-9+-]+", "-", path.name)
        self._members: list[Member] = []
        self._in_file = 0
        self._written: list[WrittenFile] = []
        self._folder = OutputFolder(path, INDEX)
        self._path = path

    def write(self, batches: Iterable[KataRows], crew: Crew) -> None:
        """Appends rows, compressed by the threads of the crew; may be called again and again.

        Types and shapes are those of `KataRows`, which numpy checks in part. Raises OutputError.
        """
        for piece in crew.map(self._pack, self._cut(batches)):
            self._append(*piece)

    def commit(self, about: Mapping[str, Any]) -> Written:
        """Ends the files and gives the folder its name. Raises OutputError.

        about: what the folder's index says about how it came to be, as JSON values.
        """
        for rest in self._pieces.rest():
            self._append(*self._pack(rest))
        self._end_file()
        self._folder.commit(
            {"format": "katago-npz@1", "examples": self.rows, "layout": asdict(LAYOUT), "about": dict(about)}
        )
        return Written(self.rows, tuple(self._written))

    def _cut(self, batches: Iterable[KataRows]) -> Iterator[KataRows]:
        for batch in batches:
            yield from self._pieces.add(batch)

    def _pack(self, rows: KataRows) -> tuple[int, list[Packed]]:
        def values(array: KataArray) -> Any:
            given = getattr(rows, array.field)
            return np.ascontiguousarray(given, array.kind).reshape(rows.size, *array.shape)

        return rows.size, [pack(values(array), self._compression) for array in self.arrays]

    def _append(self, rows: int, parts: list[Packed]) -> None:
        try:
            if not self._members:
                folder = self._path.parent
                self._members = [Member(f"{a.name}.npy", a.kind, a.shape, folder) for a in self.arrays]
            for member, part in zip(self._members, parts):
                member.append(part)
        except OSError as error:
            raise cannot_write(self._path, error) from None
        self._in_file += rows
        self.rows += rows
        if self._in_file == self._rows_per_file:
            self._end_file()

    def _end_file(self) -> None:
        if not self._members:
            return
        name = f"{self._stem}-{len(self._written) // 2:05}"
        with self._folder.file(f"{name}.npz") as output:
            write_zip(output, self._members, self._in_file, self._compression != "stored")
            self._written.append(WrittenFile(f"{name}.npz", output.size, output.commit()))
        with self._folder.file(f"{name}.json") as output:
            output.write(json.dumps({"num_rows": self._in_file}).encode())
            self._written.append(WrittenFile(f"{name}.json", output.size, output.commit()))
        self._close_members()
        self._in_file = 0

    def _close_members(self) -> None:
        for member in self._members:
            member.close()
        self._members = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close_members()
        self._folder.__exit__(kind, error, trace)
