"""The columns of the catalogue: one row a game, kept and set aside alike. docs/formats/catalogue.md is its card.

A change of these columns, or of what one of them means, is a new version.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kifu.errors import DropReason, FormatError
from kifu.kernel import writable_view
from kifu.point import MAX_SIZE
from kifu.records.games import NO_HANDICAP, GameArrays, MoveArrays, ParseWarning

VERSION = 1
"""Stands in the file's own key-value metadata as `kifu.catalogue`."""

POINTS = pa.list_(pa.field("element", pa.uint16(), nullable=False))


def _field(name: str, kind: pa.DataType, nullable: bool = False) -> pa.Field:
    return pa.field(name, kind, nullable=nullable)


SCHEMA = pa.schema(
    [
        # which game this is
        _field("id", pa.uint64()),  # hash of all that the row says of the game, but for where it lies
        _field("canonical", pa.uint64()),  # hash of setup and moves, blind to symmetry, colours and last passes
        _field("opening", pa.uint64()),  # the same of its beginning only: what splits go by
        # where it lies
        _field("archive", pa.string()),
        _field("member", pa.string()),
        _field("entry", pa.int32()),  # the member's ordinal in the archive, from 0
        _field("index", pa.int32()),  # the game's ordinal in the member, from 0; in files of lines, the line's
        _field("format", pa.string()),  # sgf, olf, tygem: how the words below are spelled
        _field("encoding", pa.string()),  # Python's name of the codec that the words were decoded by
        # the board and the terms
        _field("width", pa.uint8()),
        _field("height", pa.uint8()),
        _field("rules", pa.string(), True),
        _field("komi", pa.float32(), True),
        _field("komi_text", pa.string(), True),
        _field("handicap", pa.int16(), True),
        # who
        _field("black", pa.string(), True),
        _field("white", pa.string(), True),
        _field("black_rank", pa.string(), True),  # as written
        _field("white_rank", pa.string(), True),
        _field("black_rating", pa.float32(), True),  # Schraudolph's scale: 30 kyu 2, 1 dan 32, 9 dan pro 49
        _field("white_rating", pa.float32(), True),
        _field("black_confirmed", pa.bool_(), True),  # null: the record does not say
        _field("white_confirmed", pa.bool_(), True),
        _field("black_pro", pa.bool_(), True),  # null: no rank
        _field("white_pro", pa.bool_(), True),
        _field("black_program", pa.bool_()),  # the name is one of a known program
        _field("white_program", pa.bool_()),
        # when and where
        _field("date", pa.date32(), True),  # the first day; null unless a full date is told
        _field("year", pa.int16(), True),
        _field("date_text", pa.string(), True),
        _field("event", pa.string(), True),
        _field("round", pa.string(), True),
        _field("place", pa.string(), True),
        _field("title", pa.string(), True),
        # how it ended
        _field("winner", pa.string(), True),  # black, white, draw; null if void or unknown
        _field("margin", pa.float32(), True),  # points, where ending is score
        _field("ending", pa.string()),  # score, resign, time, forfeit, void, unknown
        _field("result_text", pa.string(), True),
        # time
        _field("main_minutes", pa.float32(), True),
        _field("time_text", pa.string(), True),
        _field("overtime", pa.string(), True),
        # the game
        _field("to_play", pa.uint8()),  # PL: 1 black, 2 white, 0 not told
        _field("setup", POINTS),  # point | 0x8000 white | 0x4000 emptied
        _field("setup_ply", POINTS),  # how many moves come before each setup stone
        _field("root_setup", pa.uint16()),  # how many setup stones stand in the root
        _field("moves", POINTS),  # point | 0x8000 white; a pass is width * height
        _field("n_moves", pa.int32()),  # in the record; more than len(moves) if it was cut
        _field("n_legal", pa.int32()),  # how many can be played, from the first
        _field("territory", POINTS, True),  # point | 0x8000 white, rising
        # what was done about it
        _field("repairs", pa.string(), True),  # names of `Note`, joined by commas
        _field("drop", pa.string(), True),  # name of the `Drop` in lower case; null if kept
        _field("drop_detail", pa.string(), True),
    ]
)
"""Missing words are null, never empty. Lists are never null but `territory`, which is if the record tells none."""

READER_REASONS = (
    DropReason.NO_RECORD,
    DropReason.NOT_GO,
    DropReason.BAD_SIZE,
    DropReason.TOO_LARGE,
    DropReason.UNREADABLE,
)
"""What only a reader can say of a game; it has neither moves nor setup then."""

PLAYED_COLUMNS = ("width", "height", "setup", "setup_ply", "root_setup", "moves")
"""What `played_of` needs."""

GAME_COLUMNS = (*PLAYED_COLUMNS, "entry", "handicap", "to_play", "repairs", "drop")
"""What `games_of` needs."""


def move_arrays(batch: pa.RecordBatch) -> MoveArrays:
    """What is played in the games of some rows. Numbers, those within lists and the offsets of large lists are Arrow's
    own buffers, not copies.

    batch: with PLAYED_COLUMNS at least, as `Catalogue.batches` gives it.
    Raises FormatError if a row contradicts itself.
    """
    moves, move_offset = list_to_numpy(batch.column("moves"))
    setup, setup_offset = list_to_numpy(batch.column("setup"))
    setup_ply, ply_offset = list_to_numpy(batch.column("setup_ply"))
    root_setup = to_numpy(batch.column("root_setup"))
    width, height = to_numpy(batch.column("width")), to_numpy(batch.column("height"))
    if not np.array_equal(setup_offset, ply_offset) or np.any(root_setup > np.diff(setup_offset)):
        raise FormatError("setup, setup_ply and root_setup of a row do not fit together")
    begins = np.zeros(len(setup_ply) + 1, np.bool_)
    begins[setup_offset] = True
    if np.any((setup_ply[1:] < setup_ply[:-1]) & ~begins[1:-1]):
        raise FormatError("setup_ply of a row does not rise")
    if np.any(width > MAX_SIZE) or np.any(height > MAX_SIZE):
        raise FormatError(f"a board of a row is larger than {MAX_SIZE} x {MAX_SIZE}")
    return MoveArrays(width, height, moves, move_offset, setup, setup_ply, setup_offset, root_setup)


def game_arrays(batch: pa.RecordBatch) -> GameArrays:
    """The games of some rows as kernels take them; moves and numbers are Arrow's own buffers, not copies.

    batch: with GAME_COLUMNS at least, as `Catalogue.batches` gives it. start, stop are 0; block_index is the row.
    Raises FormatError if a row contradicts itself.
    """
    rows, played = len(batch), move_arrays(batch)
    return GameArrays(
        **{field.name: getattr(played, field.name) for field in fields(played)},
        to_play=to_numpy(batch.column("to_play")),
        handicap=to_numpy(pc.fill_null(batch.column("handicap"), NO_HANDICAP)),
        warnings=map_distinct(batch.column("repairs"), warnings_from_text, np.uint32),
        drop=map_distinct(batch.column("drop"), drop_code, np.uint8),
        member=to_numpy(batch.column("entry")),
        block_index=np.arange(rows, dtype=np.int32),
        start=np.zeros(rows, np.int64),
        stop=np.zeros(rows, np.int64),
    )


def list_to_numpy(column: pa.ListArray | pa.LargeListArray) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """A list column without nulls as (values, offsets [G + 1] int64 into them)."""
    if not len(column):
        return writable_view(column.values.to_numpy()[:0]), np.zeros(1, np.int64)
    offsets = column.offsets.to_numpy().astype(np.int64, copy=False)
    values = column.values.to_numpy()[offsets[0] : offsets[-1]]
    return writable_view(values), writable_view(offsets - offsets[0] if offsets[0] else offsets)


def to_numpy(column: pa.Array) -> npt.NDArray[Any]:
    """A column of numbers without nulls as an array."""
    return writable_view(column.to_numpy(zero_copy_only=False))


def map_distinct(column: pa.Array, meaning: Callable[[str | None], Any], kind: type[np.generic]) -> npt.NDArray[Any]:
    """meaning(text) of each row, called once for each distinct text; null is None."""
    coded = column.dictionary_encode(null_encoding="encode")
    table = np.array([meaning(text) for text in coded.dictionary.to_pylist()], kind)
    return table[coded.indices.to_numpy()] if len(column) else np.empty(0, kind)


def warnings_from_text(repairs: str | None) -> int:
    """The `ParseWarning`s of a row's `repairs`. Raises FormatError for a name that is none."""
    try:
        return sum(int(ParseWarning[name.upper()]) for name in {*repairs.split(",")}) if repairs else 0
    except KeyError as error:
        raise FormatError(f"unknown repair {error.args[0].lower()!r}") from None


def warnings_to_text(notes: int) -> str | None:
    """The names of some `ParseWarning`s, as `repairs` has them; None for none."""
    return ",".join(str(note.name).lower() for note in ParseWarning if notes & note) or None


def drop_code(drop: str | None) -> int:
    """The `DropReason` of a row. Raises FormatError for a name that is none."""
    try:
        return int(DropReason[drop.upper()]) if drop is not None else int(DropReason.KEPT)
    except KeyError:
        raise FormatError(f"unknown reason {drop!r} to drop a game") from None


def drop_name(drop: int) -> str | None:
    """What column `drop` says for a `DropReason`."""
    return DropReason(drop).name.lower() if drop else None


_DROP_NAMES = pa.array([drop_name(k) if k in set(DropReason) else None for k in range(256)], pa.string())


def drop_names(drop: npt.NDArray[np.uint8]) -> pa.StringArray:
    """Return column `drop` of rows. drop: [G] uint8 of `DropReason`."""
    return _DROP_NAMES.take(pa.array(drop))


def with_drop(
    columns: Mapping[str, pa.Array] | pa.RecordBatch, drop: npt.NDArray[np.uint8], detail: pa.StringArray
) -> pa.RecordBatch:
    """Rows of the catalogue, whose columns `drop` and `drop_detail` are these. drop: [G] uint8 of `DropReason`."""
    last = {"drop": drop_names(drop), "drop_detail": detail}
    return pa.RecordBatch.from_arrays(
        [last[name] if name in last else columns[name] for name in SCHEMA.names], schema=SCHEMA
    )
