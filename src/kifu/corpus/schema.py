"""The columns of catalogues, one row per game, kept or dropped, and of annotations, and their conversion to NumPy.

docs/formats/catalogue.md and docs/annotation.md document the columns. Any change to them or to their meaning requires a
new version.
"""

from __future__ import annotations

import functools
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from datetime import date
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kifu.arrays import MoveArrays
from kifu.errors import DropReason, FormatError
from kifu.kernel import writable_view
from kifu.point import MAX_SIZE
from kifu.records.games import MAX_MOVES, NO_HANDICAP, GameArrays, ParseWarning

VERSION = 3
"""Version of the columns, stored in the Parquet metadata under `kifu.catalogue`."""

INDEX = "catalogue.json"
"""The name of the file that lists the partitions of a folder."""

POINTS = pa.list_(pa.field("element", pa.uint16(), nullable=False))

SECONDS = pa.list_(pa.field("element", pa.float32()))

EVALUATION = pa.struct({"win": pa.float32(), "loss": pa.float32(), "score": pa.float32(), "visits": pa.int32()})
"""The fields of an element of EVALUATIONS, which is null as a whole or has no nulls."""

EVALUATIONS = pa.list_(pa.field("element", EVALUATION))


def _field(name: str, kind: pa.DataType, nullable: bool = False) -> pa.Field:
    return pa.field(name, kind, nullable=nullable)


SCHEMA = pa.schema(
    [
        # identity
        _field("id", pa.uint64()),  # hash of all that the row records about the game, except its location
        _field("canonical", pa.uint64()),  # hash of setup and moves, see `kifu.corpus.hashes`
        _field("opening", pa.uint64()),  # the same hash of the opening; hash splits use it
        # location
        _field("archive", pa.string()),
        _field("member", pa.string()),
        _field("entry", pa.int32()),  # ordinal of the member in the archive, from 0
        _field("index", pa.int32()),  # ordinal of the game in the member, from 0; in line formats, of the line
        _field("format", pa.string()),  # sgf, olf or tygem: how the text columns are spelled
        _field("encoding", pa.string()),  # Python's name of the codec that decoded the text columns
        # board and conditions
        _field("width", pa.uint8()),
        _field("height", pa.uint8()),
        _field("rules", pa.string(), True),
        _field("komi", pa.float32(), True),
        _field("komi_text", pa.string(), True),
        _field("handicap", pa.int16(), True),
        # players
        _field("black", pa.string(), True),
        _field("white", pa.string(), True),
        _field("black_rank", pa.string(), True),  # as written
        _field("white_rank", pa.string(), True),
        _field("black_rating", pa.float32(), True),  # Schraudolph's scale: 30 kyu 2, 1 dan 32, 9 dan pro 49
        _field("white_rating", pa.float32(), True),
        _field("black_confirmed", pa.bool_(), True),  # null: unknown
        _field("white_confirmed", pa.bool_(), True),
        _field("black_pro", pa.bool_(), True),  # null: no rank
        _field("white_pro", pa.bool_(), True),
        _field("black_program", pa.bool_()),  # the name is that of a known program
        _field("white_program", pa.bool_()),
        _field("program", pa.string(), True),  # why, see `kifu.records.text.Programs.reason`; null: two people
        # event
        _field("date", pa.date32(), True),  # the first day; null unless a full date is recorded
        _field("year", pa.int16(), True),
        _field("date_text", pa.string(), True),
        _field("event", pa.string(), True),
        _field("round", pa.string(), True),
        _field("place", pa.string(), True),
        _field("title", pa.string(), True),
        _field("game_type", pa.string(), True),  # gtype of KataGo's games, such as normal, fork or handicap
        # result
        _field("winner", pa.string(), True),  # black, white, draw; null if void or unknown
        _field("margin", pa.float32(), True),  # points, where ending is score
        _field("ending", pa.string()),  # score, resign, time, forfeit, void, unknown
        _field("result_text", pa.string(), True),
        # time
        _field("main_minutes", pa.float32(), True),
        _field("time_text", pa.string(), True),
        _field("overtime", pa.string(), True),
        _field("overtime_kind", pa.string(), True),  # byo-yomi, canadian, fischer, simple; null if none or unknown
        _field("overtime_count", pa.int32(), True),  # periods, or moves of a Canadian period
        _field("overtime_seconds", pa.float32(), True),  # of a period, or per move
        # moves
        _field("to_play", pa.uint8()),  # PL: 1 black, 2 white, 0 unknown
        _field("setup", POINTS),  # point | 0x8000 white | 0x4000 emptied
        _field("setup_ply", POINTS),  # number of moves before each setup stone
        _field("root_setup", pa.uint16()),  # number of setup stones in the root node
        _field("moves", POINTS),  # point | 0x8000 white; a pass is width * height
        _field("n_moves", pa.int32()),  # moves in the record; more than len(moves) if the game was cut
        _field("n_legal", pa.int32()),  # number of legal moves before the first illegal one
        _field("territory", POINTS, True),  # point | 0x8000 white, ascending
        _field("move_seconds", SECONDS, True),  # time used for each move; null elements where unknown
        _field("evaluations", EVALUATIONS, True),  # White's view before each move; null elements for moves without
        # parsing and cleaning
        _field("repairs", pa.string(), True),  # names of `ParseWarning`, joined by commas
        _field("drop", pa.string(), True),  # name of the `DropReason` in lower case; null if kept
        _field("drop_detail", pa.string(), True),
    ]
)
"""Missing text is null, never empty. Lists are never null, except `territory`, `move_seconds` and `evaluations` where
the record has none.
"""

NAMES = pa.dictionary(pa.int8(), pa.string())
"""The type of columns of names in annotations."""

ANNOTATION_SCHEMA = pa.schema(
    [
        pa.field("game", pa.uint64(), nullable=False),
        pa.field("ply", pa.int32(), nullable=False),
        pa.field("move", pa.uint16(), nullable=False),
        pa.field("colour", NAMES, nullable=False),
        pa.field("net", NAMES, nullable=False),
        pa.field("probability", pa.float32()),
        pa.field("log_probability", pa.float32()),
        pa.field("rank", pa.uint16()),
        pa.field("entropy", pa.float32()),
        pa.field("top_move", pa.uint16()),
        pa.field("top_probability", pa.float32()),
        pa.field("value", pa.float32()),
        pa.field("lead", pa.float32()),
        pa.field("lead_stdev", pa.float32()),
        pa.field("ownership", pa.binary()),
    ]
)
"""The columns of annotations, Parquet files with one row per net and move, which `kifu annotate` writes."""

ANNOTATION_VERSION = 2

MOVE_COLUMNS = ("move_seconds", "evaluations")
"""Columns with one element for each move, or null."""

_VALUES = {
    "winner": ("black", "white", "draw"),
    "ending": ("score", "resign", "time", "forfeit", "void", "unknown"),
    "overtime_kind": ("byo-yomi", "canadian", "fischer", "simple"),
}
"""The allowed values of columns of few texts."""

_MAX_NUMBER = 1e18
_LIMITS = {
    **dict.fromkeys(("komi", "margin", "main_minutes", "black_rating", "white_rating"), (-_MAX_NUMBER, _MAX_NUMBER)),
    "date": (date(1, 1, 1), date(9999, 12, 31)),
    **dict.fromkeys(("entry", "index"), (0, 2**31 - 1)),
    **dict.fromkeys(("width", "height"), (0, MAX_SIZE)),
    **dict.fromkeys(("n_moves", "n_legal"), (0, MAX_MOVES)),
    "to_play": (0, 2),
    "overtime_count": (1, 2**31 - 1),
    "overtime_seconds": (0, _MAX_NUMBER),
    "move_seconds": (0, _MAX_NUMBER),
    "win": (0, 1),
    "loss": (0, 1),
    "score": (-_MAX_NUMBER, _MAX_NUMBER),
    "visits": (0, 2**31 - 1),
}
"""Smallest and largest allowed value of columns, elements and fields whose type has others, too; NaN is not allowed."""

READER_REASONS = (
    DropReason.NO_RECORD,
    DropReason.NOT_GO,
    DropReason.BAD_SIZE,
    DropReason.TOO_LARGE,
    DropReason.UNREADABLE,
)
"""Reasons that only a reader can give; such a game has neither moves nor setup."""

PLAYED_COLUMNS = ("width", "height", "setup", "setup_ply", "root_setup", "moves")
"""The columns that `move_arrays` needs."""

OVERTIME_COLUMNS = ("overtime_kind", "overtime_count", "overtime_seconds")
"""The fields of `kifu.records.meta.Overtime`; null without an overtime, or for one that could not be parsed."""

GAME_COLUMNS = (*PLAYED_COLUMNS, "entry", "handicap", "to_play", "repairs", "drop")
"""The columns that `game_arrays` needs."""


def check_version(path: os.PathLike[str] | str, version: str) -> None:
    """Raise FormatError unless a catalogue has the version of these columns."""
    if version != str(VERSION):
        raise FormatError(
            f"{path} is a catalogue of version {version}; this kifu reads version {VERSION}: ingest its sources again"
        )


def check_limits(name: str, column: pa.Array) -> None:
    """Raise FormatError if a value of a column is out of its range."""
    import pyarrow.compute as pc  # slow to load; records are read without it

    if name == "evaluations":
        elements = column.flatten()
        for field, values in zip(EVALUATION.names, elements.flatten()):
            if values.null_count > elements.null_count:
                raise FormatError(f"{name} must not contain nulls in {field}")
            check_limits(field, values)
        return
    if name in _VALUES:
        for value in pc.unique(column).to_pylist():
            if value not in (None, *_VALUES[name]):
                raise FormatError(f"{name} must be one of {', '.join(_VALUES[name])}, got {value[:80]!r}")
    if name not in _LIMITS:
        return
    if pa.types.is_list(column.type):
        column = column.flatten()
    low, high = (pa.scalar(limit, column.type) for limit in _LIMITS[name])
    allowed = pc.and_(pc.greater_equal(column, low), pc.less_equal(column, high))  # False for NaN
    if pc.all(allowed).as_py() is False:  # nulls are ignored
        bad = column.filter(pc.invert(allowed)).cast(pa.int32() if pa.types.is_date(column.type) else column.type)[0]
        days = " days since 1970" if pa.types.is_date(column.type) else ""
        raise FormatError(f"{name} must be within {_LIMITS[name][0]} to {_LIMITS[name][1]}, got {bad}{days}")


def move_arrays(batch: pa.RecordBatch) -> MoveArrays:
    """Return boards, setup and moves of some rows, which have at least PLAYED_COLUMNS.

    Numeric columns, list values and the offsets of large lists share Arrow's memory. Raises FormatError if a row
    contradicts itself.
    """
    moves, move_offset = list_to_numpy(batch.column("moves"))
    setup, setup_offset = list_to_numpy(batch.column("setup"))
    setup_ply, ply_offset = list_to_numpy(batch.column("setup_ply"))
    root_setup = to_numpy(batch.column("root_setup"))
    width, height = to_numpy(batch.column("width")), to_numpy(batch.column("height"))
    if not np.array_equal(setup_offset, ply_offset) or np.any(root_setup > np.diff(setup_offset)):
        raise FormatError("setup, setup_ply and root_setup of a row have inconsistent lengths")
    row_start = np.zeros(len(setup_ply) + 1, np.bool_)
    row_start[setup_offset] = True
    if np.any((setup_ply[1:] < setup_ply[:-1]) & ~row_start[1:-1]):
        raise FormatError("setup_ply of a row is not ascending")
    return MoveArrays(width, height, moves, move_offset, setup, setup_ply, setup_offset, root_setup)


def game_arrays(batch: pa.RecordBatch) -> GameArrays:
    """Return the games of some rows, which have at least GAME_COLUMNS; moves and numeric columns share Arrow's memory.

    `start` and `stop` are 0, `block_index` is the row.
    """
    rows, played = len(batch), move_arrays(batch)
    return GameArrays(
        **{field.name: getattr(played, field.name) for field in fields(played)},
        to_play=to_numpy(batch.column("to_play")), handicap=to_numpy(batch.column("handicap").fill_null(NO_HANDICAP)),
        warnings=map_distinct(batch.column("repairs"), warnings_from_text, np.uint32), drop=drop_codes(batch),
        member=to_numpy(batch.column("entry")), block_index=np.arange(rows, dtype=np.int32),
        start=np.zeros(rows, np.int64), stop=np.zeros(rows, np.int64),
    )  # fmt: skip


def list_to_numpy(column: pa.ListArray | pa.LargeListArray) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """Return a list column without nulls as (values, offsets [G + 1] int64 into them)."""
    if not len(column):
        return writable_view(column.values.to_numpy()[:0]), np.zeros(1, np.int64)
    offsets = column.offsets.to_numpy().astype(np.int64, copy=False)
    values = column.values.to_numpy()[offsets[0] : offsets[-1]]
    return writable_view(values), writable_view(offsets - offsets[0] if offsets[0] else offsets)


def to_numpy(column: pa.Array) -> npt.NDArray[Any]:
    """Return a numeric column without nulls as an array that shares Arrow's memory where possible."""
    return writable_view(column.to_numpy(zero_copy_only=False))


def check_move_columns(batch: pa.RecordBatch, first: int) -> None:
    """Raise FormatError if the numbers and lists that describe the moves of a row contradict each other.

    Only present columns count. first: the number of the first row, for the message.
    """

    def check(name: str, values: npt.NDArray[Any], low: Any, high: Any) -> None:
        wrong = np.flatnonzero((values < low) | (values > high))
        if len(wrong):
            k = int(wrong[0])
            least, most = (int(np.broadcast_to(limit, values.shape)[k]) for limit in (low, high))
            allowed = f"{least:,}" + (f" to {most:,}" if most > least else "")
            raise FormatError(f"{name} of row {first + k:,} must be {allowed}, got {values[k]:,}")

    names = batch.schema.names
    counts = {name: to_numpy(batch[name]) for name in ("n_moves", "n_legal") if name in names}
    if "moves" in names:
        moves = to_numpy(batch["moves"].value_lengths())
        check("length of moves", moves, 0, MAX_MOVES)
        for name in (name for name in MOVE_COLUMNS if name in names):
            lengths = batch[name].value_lengths().fill_null(-1).to_numpy()
            check(f"length of {name}", np.where(lengths < 0, moves, lengths), moves, moves)
        is_cut = "repairs" not in names or map_distinct(
            batch["repairs"], lambda text: "cut" in (text or "").split(","), np.bool_
        )
        check("n_moves", counts.get("n_moves", moves), moves, np.where(is_cut, MAX_MOVES, moves))
        check("n_legal", counts.get("n_legal", moves), 0, moves)
    elif len(counts) == 2:
        check("n_legal", counts["n_legal"], 0, counts["n_moves"])


def move_lists(values: pa.Array, offsets: npt.NDArray[np.int64], kind: pa.ListType) -> pa.ListArray:
    """Return one of MOVE_COLUMNS: lists of one element for each move, null if all elements of a game are null.

    The elements of game g are values[offsets[g]:offsets[g + 1]]; kind is SECONDS or EVALUATIONS.
    """
    valid = values.is_valid().to_numpy(zero_copy_only=False)
    known = np.diff(np.append(0, np.cumsum(valid))[offsets]) > 0
    lengths = np.diff(offsets)
    if not known.all():
        values = values.filter(pa.array(np.repeat(known, lengths)))
    ends = np.append(0, np.cumsum(np.where(known, lengths, 0))).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(ends), values, type=kind, mask=pa.array(~known))


def move_seconds_array(column: pa.Array) -> npt.NDArray[np.float32]:
    """Return the elements of column `move_seconds`, [M]; NaN for null."""
    return to_numpy(column.flatten().fill_null(float("nan")))


def evaluations_array(column: pa.Array) -> npt.NDArray[np.float32]:
    """Return the elements of column `evaluations`, [M, 4] in the order of EVALUATION; NaN for null."""
    fields = [values.cast(pa.float32(), safe=False) for values in column.flatten().flatten()]
    return np.stack([to_numpy(values.fill_null(float("nan"))) for values in fields], axis=1)


def map_distinct(column: pa.Array, function: Callable[[str | None], Any], dtype: type[np.generic]) -> npt.NDArray[Any]:
    """Map a function over a text column, calling it once per distinct value, None for null. Returns [G] values."""
    encoded = column.dictionary_encode(null_encoding="encode")
    table = np.array([function(text) for text in encoded.dictionary.to_pylist()], dtype)
    return table[encoded.indices.to_numpy()] if len(column) else np.empty(0, dtype)


def warnings_from_text(text: str | None) -> int:
    """Return the `ParseWarning` bits that a value of column `repairs` names. Raises FormatError for unknown names."""
    try:
        return sum(int(ParseWarning[name.upper()]) for name in {*text.split(",")}) if text else 0
    except KeyError as error:
        raise FormatError(f"unknown repair {error.args[0].lower()!r}") from None


def warnings_to_text(bits: int) -> str | None:
    """Return the names of `ParseWarning` bits as column `repairs` holds them, None for 0."""
    return ",".join(str(warning.name).lower() for warning in ParseWarning if bits & warning) or None


def count_repairs(texts: Iterable[tuple[str | None, int]]) -> Counter[str]:
    """Return the number of games by repair, from values of column `repairs` and their counts."""
    counts = Counter[str]()
    for text, count in texts:
        counts.update(dict.fromkeys(text.split(","), count) if text else {})
    return counts


def drop_code(name: str | None) -> int:
    """Return the `DropReason` that a value of column `drop` names. Raises FormatError if the name is unknown."""
    try:
        return int(DropReason[name.upper()]) if name is not None else int(DropReason.KEPT)
    except KeyError:
        raise FormatError(f"unknown drop reason {name!r}") from None


def drop_codes(batch: pa.RecordBatch) -> npt.NDArray[np.uint8]:
    """Return column `drop` as [G] `DropReason` values. Raises as `drop_code`."""
    return map_distinct(batch.column("drop"), drop_code, np.uint8)


def drop_name(code: int) -> str | None:
    """Return the value of column `drop` for a `DropReason`, None for KEPT."""
    return DropReason(code).name.lower() if code else None


@functools.cache  # not at import: pyarrow imports pandas, if it is installed, to make its first array of a list
def _all_drop_names() -> pa.StringArray:
    return pa.array([drop_name(k) if k in set(DropReason) else None for k in range(256)], pa.string())


def drop_names(drop: npt.NDArray[np.uint8]) -> pa.StringArray:
    """Return column `drop` for [G] uint8 values of `DropReason`."""
    return _all_drop_names().take(pa.array(drop))


def count_drops(drop: npt.NDArray[np.uint8]) -> Counter[str]:
    """Return the number of dropped games by the name of their `DropReason`, in the order of the codes."""
    codes, counts = np.unique(drop[drop != DropReason.KEPT], return_counts=True)
    return Counter({DropReason(code).name: int(count) for code, count in zip(codes, counts)})


def with_drop(
    columns: Mapping[str, pa.Array] | pa.RecordBatch, drop: npt.NDArray[np.uint8], detail: pa.StringArray
) -> pa.RecordBatch:
    """Return rows of the catalogue with `drop`, given as [G] `DropReason` values, and `drop_detail` replaced."""
    replaced = {"drop": drop_names(drop), "drop_detail": detail}
    return pa.RecordBatch.from_arrays(
        [replaced[name] if name in replaced else columns[name] for name in SCHEMA.names], schema=SCHEMA
    )
