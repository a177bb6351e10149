"""The published games of TYGEM and Tom: one line per game with its number and moves, and an index with everything else.

    885492098<tab>;B[pd];W[dp];B[pq] ...
    842008471<tab>C2016.01.01 00:02<tab>white<tab>...<tab>W+Resign<tab>154<tab>30/3 5m
    354460<tab>2003.09.25 20:21<tab>white<tab>black<tab>6.5<tab>B+0.5<tab>321<tab>30/3 5m

Lines and index are separate files, joined by the games' numbers. A row of 11 columns is TYGEM's, one of 8 is Tom's.
docs/formats/tygem.md describes the formats; docs/leniency.md lists what the parsers tolerate.
Source: https://github.com/yenw/computer-go-dataset, README.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kifu.errors import DropReason, SourceError
from kifu.kernel import inline_kernel, kernel
from kifu.point import WHITE_BIT
from kifu.records import _bytes as raw
from kifu.records._bytes import Int
from kifu.records._sgf import plain_moves, read_move
from kifu.records.containers import index_files
from kifu.records.detect import TYGEM, is_dotted_date
from kifu.records.games import (
    FIELDS,
    MAX_MOVES,
    MEMBER_LIMIT,
    Bytes,
    ParsedBlock,
    ParseWarning,
    RecordBlock,
    RecordFormat,
    TextFields,
)
from kifu.records.meta import result_text
from kifu.records.paths import AnyPath

# Columns of a row after those of `line_rows`: the game's number, or -1.
_ID, _COLUMNS = raw.LINE_COLUMNS, raw.LINE_COLUMNS + 1

_SIZE = 19

_DATE, _TIME, _OVERTIME, _BLACK_RANK, _WHITE_RANK = (
    FIELDS.index(name) for name in ("date", "time", "overtime", "black_rank", "white_rank")
)
_COLUMN_FIELDS = (
    ("", "date", "white", "", "", "black", "", "", "result", "", "time"),
    ("", "date", "white", "black", "komi", "result", "", "time", "", "", ""),
)
"""The text fields in the columns of an index row: TYGEM's, then Tom's. Overtime precedes the time in its column."""

_FIELD_OF = np.array([[FIELDS.index(name) if name else -1 for name in names] for names in _COLUMN_FIELDS])
_DATE_COLUMN, _LAST_COLUMN = 1, (10, 7)

_RANK = b"9d"
"""The rank of all players of Tom, which is not in the index."""

_SHORTEST_ROW = 12
"""Bytes: a digit, ten tabs, a C."""

_SLASH, _LETTER_C, _LETTER_M = ord("/"), ord("C"), ord("m")

_TRUNCATED = int(ParseWarning.TRUNCATED)
_KEPT, _TOO_LARGE, _UNREADABLE = int(DropReason.KEPT), int(DropReason.TOO_LARGE), int(DropReason.UNREADABLE)

_NO_BYTES = np.empty(0, np.uint8)


@dataclass(frozen=True, slots=True)
class TygemIndex:
    """The rows of one or several index files.

    Attributes:
        data: [N] uint8. The files' text, followed by "9d", the rank of Tom's players.
        ids: [R] int64, ascending. The games' numbers. The first of several rows with one number is used.
        start, stop: [R] int64. Row r is data[start[r]:stop[r]].
        bad_lines: Number of lines that are not rows, or contain more after one.
    """

    data: Bytes
    ids: npt.NDArray[np.int64]
    start: npt.NDArray[np.int64]
    stop: npt.NDArray[np.int64]
    bad_lines: int

    def __len__(self) -> int:
        return len(self.ids)


def read_tygem_index(data: Bytes) -> TygemIndex:
    """Return the rows of an index. Never fails: lines that are not rows are counted. data: [N] uint8."""
    capacity = len(data) // _SHORTEST_ROW + 1
    ids, start, stop = (np.empty(capacity, np.int64) for _ in range(3))
    rows, bad = _index_rows(data, ids, start, stop)
    ids, first = np.unique(ids[:rows], return_index=True)
    data = np.concatenate([data, np.frombuffer(_RANK, np.uint8)])
    return TygemIndex(data, ids, start[first], stop[first], int(bad))


def load_index(containers: Sequence[AnyPath]) -> TygemIndex | None:
    """Return all index files among the containers as one index; None if there are none.

    Index files are recognized by name, .index, ignoring case: files, also in .gz, .bz2 or .xz, and members of .zip
    archives. Tar archives are not searched, as that would require reading them whole. Raises SourceError if one of the
    files cannot be read or is damaged, or all together are larger than 256 MiB.
    """
    parts: list[Bytes] = []
    size = 0
    for container in containers:
        for part in index_files(container):
            size += len(part) + 1
            if size > MEMBER_LIMIT:
                raise SourceError(f"{container}: the TYGEM indexes are larger than {MEMBER_LIMIT:,} bytes in total")
            parts += [part, np.array([ord("\n")], np.uint8)]
    return read_tygem_index(np.concatenate(parts)) if parts else None


def read_tygem(block: RecordBlock, index: TygemIndex | None = None) -> ParsedBlock:
    """Read every line of a block. Never fails: unreadable lines give rows with their `DropReason`.

    Each line is a row, except for empty ones and comments (#); a member without any gives one row. Moves are on 19 x
    19. A line that is not a game is `DropReason.UNREADABLE`; one of more than 1 MiB or 65,535 moves is
    `DropReason.TOO_LARGE`, and so is the rest of a member that has more lines than its bytes / 32 + 16.

    Args:
        index: The source of the text fields. Games that are not in it have none.
    """
    rows = raw.line_rows(block, np.ones(len(block), np.bool_), _COLUMNS)
    moves, setup = np.empty(int(np.sum(block.stop - block.start)) // 4 + 1, np.uint16), np.empty(0, np.uint16)
    _read_lines(block.data, block.stop, rows, moves)
    return ParsedBlock(
        format="tygem", block=block, games=raw.to_game_arrays(block, rows, moves, setup, setup),
        text_fields=_text_fields(rows[:, _ID], index), index=rows[:, raw.LINE].astype(np.int32),
        territory=np.empty(0, np.uint16), territory_offset=np.zeros(len(rows) + 1, np.int64),
    )  # fmt: skip


def _text_fields(ids: npt.NDArray[np.int64], index: TygemIndex | None) -> TextFields:
    start, stop = np.zeros((2, len(FIELDS), len(ids)), np.int64)
    if index is None or not len(index):
        return TextFields(_NO_BYTES, start, stop)
    at = np.minimum(np.searchsorted(index.ids, ids), len(index) - 1)
    is_indexed = index.ids[at] == ids
    _index_spans(
        index.data, np.where(is_indexed, index.start[at], 0), np.where(is_indexed, index.stop[at], 0), start, stop
    )
    return TextFields(index.data, start, stop)


_TIME_PATTERN = re.compile(r"(\d{1,5})m")
_OVERTIME_PATTERN = re.compile(r"(\d{1,5})/(\d{1,5})")
_DATE_PATTERN = re.compile(r"(\d{4})\.(\d\d)\.(\d\d)( .*)?")


def parse_time(text: str) -> float | None:
    """Parse a main time in minutes: "5m" is 5.0; None for anything else."""
    match = _TIME_PATTERN.fullmatch(text)
    return float(match[1]) if match else None


def parse_overtime(text: str) -> str | None:
    """Return an overtime as SGF spells it: "30/3", three periods of 30 seconds, becomes "3x30 byo-yomi"."""
    match = _OVERTIME_PATTERN.fullmatch(text)
    return f"{int(match[2])}x{int(match[1])} byo-yomi" if match else None


def to_sgf_properties(texts: Mapping[str, str]) -> dict[str, str | None]:
    """Return decoded text fields as root properties of SGF, in its spelling. Unknown spellings are kept."""
    date, minutes = _DATE_PATTERN.fullmatch(texts["date"]), parse_time(texts["time"])
    return {
        "PB": texts["black"] or None,
        "PW": texts["white"] or None,
        "RE": result_text(texts["result"]) or texts["result"] or None,
        "DT": "-".join(date.group(1, 2, 3)) if date else texts["date"] or None,
        "KM": texts["komi"] or None,
        "BR": texts["black_rank"] or None,
        "WR": texts["white_rank"] or None,
        "TM": (texts["time"] or None) if minutes is None else f"{minutes * 60:.12g}",
        "OT": parse_overtime(texts["overtime"]) or texts["overtime"] or None,
    }


@inline_kernel
def _read_moves(
    data: Bytes, i: Int, stop: Int, row: npt.NDArray[np.int64], moves: npt.NDArray[np.uint16], count: Int
) -> Int:
    """Read ;B[pd];W[dp] .. up to the end of the line, and return the count of all moves.

    A move truncated at the end is left out; anything else is no game.
    """
    while i < stop:
        i, count = plain_moves(data, i, stop, row, moves, count)
        if data[i] != raw.SEMICOLON:
            row[raw.DROP] = _UNREADABLE
            return count
        at = i + 1
        black = at < stop and data[at] == raw.LETTER_B
        if at < stop and not black and data[at] != raw.LETTER_W:
            row[raw.DROP] = _UNREADABLE
            return count
        at += 1
        if at < stop and data[at] != raw.LEFT:
            row[raw.DROP] = _UNREADABLE
            return count
        end = at + 1
        while end < stop and data[end] != raw.RIGHT:
            end += 1
        if end >= stop:
            row[raw.WARNINGS] |= _TRUNCATED
            return count
        if count - row[raw.MOVE_END] == MAX_MOVES:
            row[raw.DROP] = _TOO_LARGE
            return count
        move = read_move(data, at + 1, end, row)
        moves[count] = move if black else move | WHITE_BIT
        count += 1
        i = raw.skip_space(data, end + 1, stop)
    return count


@kernel
def _read_lines(
    data: Bytes, stop: npt.NDArray[np.int64], rows: npt.NDArray[np.int64], moves: npt.NDArray[np.uint16]
) -> None:
    """Read the line of each row.

    data: [N] uint8, the members; stop: [K] int64, their ends; rows: as of `line_rows`; moves: [M] uint16, filled.
    """
    count = 0
    for g in range(len(rows)):
        row = rows[g]
        row[_ID], row[raw.MOVE_END] = -1, count
        if row[raw.DROP] == _KEPT:
            row[raw.WIDTH] = row[raw.HEIGHT] = _SIZE
            # The tab after the number may be white space at the end of the line.
            i, row[_ID] = raw.read_id(data, row[raw.START], min(row[raw.STOP] + 1, stop[row[raw.MEMBER_ROW]]))
            if i < 0:
                row[raw.DROP] = _UNREADABLE
            else:
                count = _read_moves(data, i, row[raw.STOP], row, moves, count)
            if row[raw.DROP] != _KEPT:
                count = row[raw.MOVE_END]
                row[raw.WIDTH] = row[raw.HEIGHT] = row[raw.WARNINGS] = 0
            row[raw.MOVE_END] = count


@inline_kernel
def _number_end(data: Bytes, i: Int, stop: Int) -> Int:
    """Return the position after the digits at `i`; -1 if there are none."""
    begin = i
    while i < stop and raw.is_digit(data[i]):
        i += 1
    return i if i > begin else -1


@inline_kernel
def _time_end(data: Bytes, i: Int, stop: Int) -> Int:
    """Return the position after "30/3 5m", the last field of a row; -1 if it is not of that form."""
    for mark in (_SLASH, raw.SPACE, _LETTER_M):
        i = _number_end(data, i, stop)
        if i < 0 or i == stop or data[i] != mark:
            return -1
        i += 1
    return i


@inline_kernel
def _row_format(data: Bytes, i: Int, stop: Int) -> Int:
    """Return 0 for TYGEM and 1 for Tom, by the date at `i`; -1 for neither."""
    if i < stop and data[i] == _LETTER_C:
        return 0
    return 1 if is_dotted_date(data, i, stop) else -1


@inline_kernel
def _row_end(data: Bytes, i: Int, stop: Int) -> Int:
    """Return the end of the row at `i`, in a line that ends at `stop`; -1 if it is not a row of the index.

    A row ends after "5m" if digits follow: the beginning of another row, which is not reliable.
    """
    i, _ = raw.read_id(data, i, stop)
    row_format = _row_format(data, i, stop) if i >= 0 else -1
    if row_format < 0:
        return -1
    for _field in range(_DATE_COLUMN, _LAST_COLUMN[row_format]):
        while i < stop and data[i] != raw.TAB:
            i += 1
        if i == stop:
            return -1
        i += 1
    end = _time_end(data, i, stop)
    if end >= 0 and end < stop and raw.is_digit(data[end]):
        return end
    while i < stop:
        if data[i] == raw.TAB:
            return -1
        i += 1
    return stop


@kernel
def _index_rows(
    data: Bytes, ids: npt.NDArray[np.int64], start: npt.NDArray[np.int64], stop: npt.NDArray[np.int64]
) -> tuple[Int, Int]:
    """List the rows of an index.

    data: [N] uint8, the text. ids, start and stop: [R] int64, filled with the games' numbers and the ends of the rows;
    R is one entry per `_SHORTEST_ROW` bytes of data.
    """
    rows, bad = 0, 0
    i = raw.skip_bom(data, 0, len(data))
    while i < len(data):
        end = raw.end_of_line(data, i, len(data))
        last = end
        while last > i and data[last - 1] <= raw.SPACE and data[last - 1] != raw.TAB:
            last -= 1
        at = _row_end(data, i, last) if last - i <= raw.LINE_LIMIT else -1
        if at >= 0:
            _after, ids[rows] = raw.read_id(data, i, last)
            start[rows], stop[rows] = i, at
            rows += 1
        if at != last and last > i:
            bad += 1
        i = end + 1
    return rows, bad


@kernel
def _index_spans(
    data: Bytes,
    row_start: npt.NDArray[np.int64],
    row_stop: npt.NDArray[np.int64],
    start: npt.NDArray[np.int64],
    stop: npt.NDArray[np.int64],
) -> None:
    """Locate the text fields of each row.

    data: [N] uint8, the text. row_start, row_stop: [G] int64; empty rows have no text fields. start, stop:
    [len(FIELDS), G] int64, zeros, filled.
    """
    for g in range(len(row_start)):
        i, end = row_start[g], row_stop[g]
        if i == end:
            continue
        after, _ = raw.read_id(data, i, end)
        row_format = _row_format(data, after, end)
        if row_format == 1:
            for rank in (_BLACK_RANK, _WHITE_RANK):
                start[rank, g], stop[rank, g] = len(data) - len(_RANK), len(data)
        for column in range(_LAST_COLUMN[row_format] + 1):
            begin = i
            while i < end and data[i] != raw.TAB:
                i += 1
            field = _FIELD_OF[row_format, column]
            if field == _DATE and row_format == 0 and begin < i:
                begin += 1  # after TYGEM's C
            elif field == _TIME:
                middle = begin
                while middle < i and data[middle] != raw.SPACE:
                    middle += 1
                start[_OVERTIME, g], stop[_OVERTIME, g] = begin, middle
                begin = min(middle + 1, i)
            if field >= 0:
                start[field, g], stop[field, g] = begin, i
            i += 1


FORMAT = RecordFormat((TYGEM,), read_tygem, to_sgf_properties)
