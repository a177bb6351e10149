"""Synthetic examples for tests: layouts, random batches, and comparisons of data sets."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from kifu.datasets.examples import CODES, Batch, Dataset, GameRuns, LabelSpec, Layout, concat, pack_planes
from kifu.datasets.formats import find_format, formats_of, open_writer

FORMATS = list(formats_of("examples"))
MOVE = LabelSpec("move", "int16", (), "the next move")


def layout_for(name: str, width: int = 5, height: int = 4, planes: int = 3, **changes: Any) -> Layout:
    """Return a layout that the format supports, with further labels if possible."""
    labels = [MOVE]
    if find_format(name).labels:
        labels.append(LabelSpec("result", "int8", (), "who wins"))
        labels.append(LabelSpec("ranks", "float32", (2,), "ratings"))
    reported = {
        "plane_set": "made up", "plane_names": tuple(f"plane {k}" for k in range(planes)), "real": False,
        "width": width, "height": height, "rim": 0, "first_row": "top", "labels": tuple(labels),
    }  # fmt: skip
    return Layout(**(reported | changes))


def random_batch(layout: Layout, rows: int, seed: int = 0, runs: bool = True) -> Batch:
    """Return random examples; games have five rows except the last one, archives have four games."""
    rng = np.random.default_rng(seed)
    if layout.real:
        planes = rng.choice(np.array([-1, 0, 1, 0.25], np.float32), (rows, layout.planes, layout.points))
    else:
        planes = pack_planes(rng.integers(0, 2, (rows, *layout.shape), np.uint8), layout)
    labels = {}
    for label in layout.labels:
        if label.name in CODES:
            labels[label.name] = rng.choice(CODES[label.name], (rows, *label.shape)).astype(label.np_dtype)
        elif label.name == "move":
            labels["move"] = rng.integers(0, layout.pass_label, rows).astype(label.np_dtype)
        else:
            labels[label.name] = rng.integers(-9, 9, (rows, *label.shape)).astype(label.np_dtype)
    game = np.repeat(rng.integers(0, 2**64, rows // 5 + 1, np.uint64), 5)[:rows]
    ply = (np.arange(rows) % 5).astype(np.int32)
    counts = np.diff(np.append(np.arange(0, rows, 5), rows))
    names = [f"folder/{k}.sgf" for k in range(len(counts))]
    archives = [f"KGS-20{k // 4:02}-19-4-.tar.gz" for k in range(len(counts))]
    return Batch(planes, labels, game, ply, GameRuns(archives, names, counts) if runs else None)


def cut(batch: Batch, *cuts: int) -> list[Batch]:
    """Return the batch in pieces, each with its runs."""
    bounds = [0, *cuts, len(batch)]
    pieces = []
    for start, stop in pairwise(bounds):
        piece = batch.slice(start, stop)
        if batch.runs is not None:
            ends = np.cumsum(batch.runs.rows)
            rows = np.minimum(ends, stop) - np.maximum(ends - batch.runs.rows, start)
            some = np.flatnonzero(rows > 0)
            runs = GameRuns([batch.runs.archive[k] for k in some], [batch.runs.member[k] for k in some], rows[some])
            piece = Batch(piece.planes, piece.labels, piece.game, piece.ply, runs)
        pieces.append(piece)
    return pieces


def write(name: str, path: Path, layout: Layout, *batches: Batch, about: dict[str, Any] | None = None, **reported: Any):
    with open_writer(name, path, layout, **reported) as writer:
        for batch in batches:
            writer.write(batch)
        return writer.commit(about or {})


def assert_same(data: Dataset, batch: Batch, has_provenance: bool) -> None:
    """Assert that a data set holds these rows, with their games and plies if has_provenance."""
    assert len(data) == len(batch)
    found = concat(list(data.batches(7)), data.layout)
    assert np.array_equal(found.planes, batch.planes)
    assert found.labels.keys() == batch.labels.keys()
    for key, values in batch.labels.items():
        assert np.array_equal(found.labels[key], values)
        assert found.labels[key].dtype == values.dtype
    if has_provenance:
        assert np.array_equal(found.game, batch.game)
        assert np.array_equal(found.ply, batch.ply)
    else:
        assert not found.game.any()
        assert np.all(found.ply == -1)


def bytes_of(path: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in sorted(path.iterdir())} if path.is_dir() else {"": path.read_bytes()}
