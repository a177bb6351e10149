"""Build rows and catalogues for tests from the columns that matter."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from kifu.corpus.catalogue import CatalogueWriter
from kifu.corpus.schema import SCHEMA

_SAME: dict[str, Any] = {
    "archive": "games.zip", "index": 0, "format": "sgf", "encoding": "utf-8", "width": 19, "height": 19,
    "black_program": False, "white_program": False, "ending": "unknown", "to_play": 0, "setup": [], "setup_ply": [],
    "root_setup": 0, "moves": [],
}  # fmt: skip


def rows(**columns: Sequence[Any]) -> pa.RecordBatch:
    """Return rows of SCHEMA from at least one column; all have one length.

    Other columns have the values of an empty record: 19 x 19, no moves, no names, no result, null where allowed. id,
    canonical, opening and entry count the rows from 0; n_moves and n_legal follow from moves.
    """
    unknown = set(columns) - set(SCHEMA.names)
    assert not unknown, unknown
    count = len(next(iter(columns.values())))
    values: dict[str, Sequence[Any]] = {name: [value] * count for name, value in _SAME.items()}
    values |= dict.fromkeys(("id", "canonical", "opening", "entry"), range(count))
    values |= {"member": [f"{i}.sgf" for i in range(count)]} | columns
    lengths = [len(moves) for moves in values["moves"]]
    values = {"n_moves": lengths, "n_legal": lengths} | values
    arrays = [pa.array(values.get(field.name, [None] * count), field.type) for field in SCHEMA]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def write_catalogue(path: Path, *batches: pa.RecordBatch, about: Mapping[str, Any] | None = None) -> Path:
    with CatalogueWriter(path) as writer:
        for batch in batches:
            writer.write(batch)
        writer.commit(about or {})
    return path


GAMES = rows(
    moves=[[0, 1 | 0x8000, 361], [], [72 | 0x8000]],
    setup=[[], [3, 4 | 0x8000, 5 | 0x4000], []],
    setup_ply=[[], [0, 0, 0], []],
    root_setup=[0, 2, 0],
    handicap=[None, 2, 0],
    repairs=[None, "truncated,cut", "pass_as_tt"],
    drop=[None, "ko", None],
    komi=[6.5, None, -100.0],
    komi_text=["6.50", None, "-100.00"],
    black=["柯洁", None, "a"],
    move_seconds=[[1.5, None, 0.0], None, None],
    evaluations=[None, None, [{"win": 0.25, "loss": 0.75, "score": -3.5, "visits": 600}]],
)


def table(**changed: pa.Array) -> pa.Table:
    columns = {name: changed.get(name, GAMES.column(name)) for name in SCHEMA.names}
    return pa.table(columns)
