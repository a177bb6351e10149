"""Changes between two versions of a published data set, found in memory that does not grow with the games.

Each game has its `id`, its `canonical` hash, and a hash of all values of its row or rows. Rows are grouped by ranges of
`canonical`, so that all versions of a game are compared with each other, and with no others.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kifu.atomic_io import AtomicFile
from kifu.corpus.catalogue import open_catalogue
from kifu.corpus.hashes import Hashes, mix_words, text_hashes
from kifu.corpus.parquet import TableWriter
from kifu.corpus.schema import to_numpy
from kifu.datasets.parquet import Parquet, ParquetWriter
from kifu.execution.bucket_sort import BucketSort, Columns
from kifu.progress import Progress

CHANGES_FILE = "changes.parquet"

CHANGES = pa.schema(
    [
        pa.field("change", pa.string(), False),  # added, removed, changed, moved
        pa.field("id", pa.uint64()),  # null if removed
        pa.field("previous_id", pa.uint64()),  # null if added
        pa.field("split", pa.string()),
        pa.field("previous_split", pa.string()),
    ]
)
"""The columns of CHANGES_FILE."""

_KEY = "key"
_MAX_ROWS = 1 << 21
"""Rows that are compared at a time, at about 100 bytes of memory each."""

_BATCH_ROWS = 4096
_NULL = np.uint64(0x9E6C63D0876A9A35)
_LIST = np.uint64(0xD1B54A32D192ED03)


@dataclass(frozen=True, slots=True)
class Changes:
    """Number of games by how they differ from the previous version.

    Attributes:
        removed: Games that are no longer there.
        changed: Games with the same moves (a data set: the same id) of which another value differs.
        moved: Games that are equal, but in another split.
        same: Games that are equal and in the same split.
    """

    previous: str
    added: int
    removed: int
    changed: int
    moved: int
    same: int


class VersionFiles(NamedTuple):
    """One version: the Parquet files of each split, and whether they are data sets, not catalogues."""

    splits: dict[str, list[Path]]
    examples: bool


def write_changes(previous: str, versions: Sequence[VersionFiles], output: AtomicFile, bar: Progress) -> Changes:
    """Compare two versions of one kind and write changes.parquet.

    Args:
        previous: The number of the previous version.
        versions: The previous and the new version.
        bar: Receives the number of rows read.

    Raises:
        FormatError: If a file is damaged.
        OutputError: If a file cannot be written.
    """
    names = list(dict.fromkeys(name for version in versions for name in version.splits))
    counts = dict.fromkeys(("added", "removed", "changed", "moved", "same"), 0)
    with (
        BucketSort(_KEY, _MAX_ROWS, Path(tempfile.gettempdir())) as buckets,
        TableWriter(output, CHANGES) as writer,
    ):
        for side, version in enumerate(versions):
            for name, files in version.splits.items():
                for rows in _read_games(files, version.examples):
                    count = len(rows[_KEY])
                    buckets.add(rows | _constant(count, side=side, split=names.index(name)))
                    bar.advance(count)
        for columns in buckets:
            rows = _merge_rows(columns) if versions[0].examples else columns
            old, new = (_Games.of(rows, side) for side in (0, 1))
            for change, before, after in _match(old, new):
                counts[change] += max(len(before), len(after))
                if change != "same":
                    writer.write(_table(change, old.take(before), new.take(after), names))
        writer.commit({"kifu.changes": {"previous": previous, **counts}})
    return Changes(previous, **counts)


def _constant(count: int, **values: int) -> Columns:
    return {name: np.full(count, value, np.int16) for name, value in values.items()}


def _read_games(files: Iterable[Path], examples: bool) -> Iterator[Columns]:
    """Yield key, id and content of games, or of the rows of data sets."""
    for path in files:
        if not examples:
            for batch in open_catalogue(path).batches(size=_BATCH_ROWS):
                yield {
                    _KEY: mix_words(to_numpy(batch["canonical"])),
                    "id": to_numpy(batch["id"]).copy(),
                    "content": row_hashes(batch),
                }
            continue
        with Parquet(path) as data:
            for rows in data.batches(_BATCH_ROWS):
                prepared = ParquetWriter.prepare(rows, data.layout)
                yield {_KEY: mix_words(rows.game), "id": rows.game.copy(), "content": row_hashes(prepared)}


def row_hashes(batch: pa.RecordBatch) -> Hashes:
    """Return a hash of all values of each row, with the names of their columns: [G] uint64."""
    states = np.zeros(len(batch), np.uint64)
    with np.errstate(over="ignore"):
        for name in sorted(batch.schema.names):
            states = mix_words(states ^ text_hashes(pa.array([name])) ^ _value_hashes(batch[name]))
    return states


def _value_hashes(column: pa.Array) -> Hashes:
    """Return a hash of each value of a column, with one value for all nulls."""
    kind = column.type
    if pa.types.is_fixed_size_list(kind):
        column = column.cast(pa.list_(kind.value_type))
        kind = column.type
    if pa.types.is_list(kind):
        values = _list_hashes(column)
    elif pa.types.is_struct(kind):
        values = np.zeros(len(column), np.uint64)
        for part in column.flatten():
            values = mix_words(values ^ _value_hashes(part))
    elif pa.types.is_fixed_size_binary(kind):
        values = _bytes_hashes(column)
    elif pa.types.is_boolean(kind) or pa.types.is_date32(kind):
        return _value_hashes(column.cast(pa.uint8() if pa.types.is_boolean(kind) else pa.int32()))
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind):
        numbers = np.ascontiguousarray(to_numpy(column.fill_null(0)))
        values = mix_words(numbers.view(f"u{numbers.itemsize}").astype(np.uint64))
    else:
        return text_hashes(column.cast(pa.string()))
    if column.null_count:
        values[column.is_null().to_numpy(zero_copy_only=False)] = _NULL
    return values


def _list_hashes(column: pa.ListArray) -> Hashes:
    """Return the sums of the hashes of elements, each mixed with its place in the list."""
    elements = _value_hashes(column.flatten())
    lengths = to_numpy(pc.list_value_length(column).fill_null(0)).astype(np.int64)
    ends = np.cumsum(lengths)
    place = np.arange(len(elements)) - np.repeat(ends - lengths, lengths)
    sums = np.append(np.uint64(0), np.cumsum(mix_words(elements ^ (place.astype(np.uint64) * _LIST))))
    values: Hashes = mix_words(sums[ends] - sums[ends - lengths] + lengths.astype(np.uint64))
    return values


def _bytes_hashes(column: pa.FixedSizeBinaryArray) -> Hashes:
    size = column.type.byte_width
    data = np.frombuffer(column.buffers()[1], np.uint8, len(column) * size, column.offset * size)
    words = np.zeros((len(column), -(-size // 8) * 8), np.uint8)
    words[:, :size] = data.reshape(-1, size)
    numbers = words.view("<u8")
    values: Hashes = mix_words(numbers ^ (np.arange(numbers.shape[1], dtype=np.uint64) * _LIST)).sum(1, dtype=np.uint64)
    return values


class _Games(NamedTuple):
    """G games of one version: id, content [G] uint64; split [G] int16; key [G] uint64."""

    id: Hashes
    content: Hashes
    split: npt.NDArray[np.int16]
    key: Hashes

    @classmethod
    def of(cls, rows: Columns, side: int) -> _Games:
        """Return the games of one side, 0 for the previous and 1 for the new version."""
        chosen = rows["side"] == side
        return cls(rows["id"][chosen], rows["content"][chosen], rows["split"][chosen], rows[_KEY][chosen])

    def take(self, chosen: npt.NDArray[np.int64]) -> _Games:
        """Return some of the games."""
        return _Games(self.id[chosen], self.content[chosen], self.split[chosen], self.key[chosen])


def _merge_rows(rows: Columns) -> Columns:
    """Merge the rows of each game and split: the sum of their contents, in which their order does not count."""
    order = np.lexsort((rows["id"], rows["split"], rows["side"]))
    rows = {name: values[order] for name, values in rows.items()}
    same = np.ones(len(order), np.bool_)
    for name in ("id", "split", "side"):
        same[1:] &= rows[name][1:] == rows[name][:-1]
    same[:1] = False
    first = np.flatnonzero(~same)
    return {name: values[first] for name, values in rows.items()} | {"content": np.add.reduceat(rows["content"], first)}


_Indices = npt.NDArray[np.int64]

_LEVELS: tuple[tuple[str, Callable[[_Games], Hashes]], ...] = (
    ("same", lambda games: games.content ^ mix_words(games.split.astype(np.uint64))),
    ("moved", lambda games: games.content),
    ("changed", lambda games: games.id),
    ("changed", lambda games: games.key),
)
"""The changes in the order in which games are paired, and the values in which the two games of a pair are equal."""


def _match(old: _Games, new: _Games) -> Iterator[tuple[str, _Indices, _Indices]]:
    """Yield the changes of a bucket, with the indices of their games in the previous and in the new version."""
    left_old, left_new = np.arange(len(old.id)), np.arange(len(new.id))
    for change, values in _LEVELS:
        first, second = _pairs(values(old.take(left_old)), values(new.take(left_new)))
        yield change, left_old[first], left_new[second]
        left_old, left_new = np.delete(left_old, first), np.delete(left_new, second)
    yield "removed", left_old, left_new[:0]
    yield "added", left_old[:0], left_new


def _pairs(old: Hashes, new: Hashes) -> tuple[_Indices, _Indices]:
    """Return the indices of equal values, each of which is used once; repeated values are paired in their order."""
    _, first, second = np.intersect1d(_numbered(old), _numbered(new), assume_unique=True, return_indices=True)
    return first.astype(np.int64), second.astype(np.int64)


def _numbered(values: Hashes) -> Hashes:
    """Return distinct hashes: of each value and the number of equal ones before it."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    repeat = np.empty(len(values), np.uint64)
    repeat[order] = np.arange(len(values)) - np.searchsorted(ordered, ordered)
    distinct: Hashes = mix_words(mix_words(values) + repeat)
    return distinct


def _table(change: str, old: _Games, new: _Games, names: Sequence[str]) -> pa.RecordBatch:
    """Return rows of CHANGES; one side has no games if games are added or removed."""
    count = max(len(old.id), len(new.id))
    splits = pa.array(names, pa.string())
    ids = [pa.array(games.id) if len(games.id) else pa.nulls(count, pa.uint64()) for games in (new, old)]
    sets = [
        splits.take(pa.array(games.split)) if len(games.id) else pa.nulls(count, pa.string()) for games in (new, old)
    ]
    return pa.RecordBatch.from_arrays([pa.array([change] * count, pa.string()), *ids, *sets], schema=CHANGES)
