"""Targets of training: lead and ownership that a net gives for positions of games, read from annotations."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from kifu.corpus.parquet import check_annotation, open_parquet
from kifu.corpus.schema import to_numpy
from kifu.datasets.mmap_games import OWNERS_COLUMN, TARGET, TARGETS_COLUMN, select_rows
from kifu.errors import FormatError, SourceError

_COLUMNS = ["game", "ply", "lead", "lead_stdev", "ownership"]


def join_targets(rows: pa.RecordBatch, paths: Sequence[str], points: int) -> pa.RecordBatch:
    """Return the games that have targets, with these in a column, [G] lists in the order of plies.

    Raises SourceError if no game has one, and FormatError if a file is no annotation with points on this board.

    Args:
        rows: Games with column "id".
        paths: Annotations (`kifu.corpus.schema.ANNOTATION_SCHEMA`). Of several rows for a position the first counts.
        points: Number of points of the board.
    """
    table = pa.concat_tables([_read(Path(path), points) for path in paths]).combine_chunks()
    ids, game, ply = to_numpy(rows["id"]), to_numpy(table["game"]), to_numpy(table["ply"])
    order = np.argsort(ids, kind="stable")
    row = order[np.searchsorted(ids, game, sorter=order).clip(max=len(ids) - 1)]
    known = np.flatnonzero(ids[row] == game)
    key = row[known] << 32 | ply[known]
    key, first = np.unique(key, return_index=True)
    if not len(key):
        raise SourceError(f"none of the {len(ids):,} games has targets in {', '.join(paths)}")
    found = table.take(pa.array(known[first]))
    counts = np.bincount(key >> 32, minlength=len(ids))
    ends = np.append(0, np.cumsum(counts))
    targets = pa.StructArray.from_arrays([found[name].combine_chunks() for name in _COLUMNS[1:4]], fields=list(TARGET))
    owners = pa.array(np.frombuffer(b"".join(found["ownership"].to_pylist()), np.int8))
    joined = rows.append_column(TARGETS_COLUMN, pa.LargeListArray.from_arrays(pa.array(ends), targets))
    joined = joined.append_column(OWNERS_COLUMN, pa.LargeListArray.from_arrays(pa.array(ends * points), owners))
    return select_rows(joined, counts > 0)


def _read(path: Path, points: int) -> pa.Table:
    """Return the rows of an annotation that have points."""
    check_annotation(path)
    with open_parquet(path) as file:
        table = file.read(_COLUMNS).drop_null()
    sizes = {len(each) for each in table["ownership"].unique().to_pylist()[:1]}
    if sizes != {points}:
        raise FormatError(f"{path} has no ownership of {points} points: annotate --points on this board")
    return table
