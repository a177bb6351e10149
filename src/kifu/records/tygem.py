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
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kifu.errors import DropReason, SourceError
from kifu.kernel import inline_kernel, kernel
from kifu.point import WHITE_BIT
from kifu.records import _bytes as n
from kifu.records._bytes import Int
from kifu.records._sgf import plain_moves, read_move
from kifu.records.containers import index_files
from kifu.records.detect import TYGEM
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
_ID, _COLUMNS = n.LINE_COLUMNS, n.LINE_COLUMNS + 1

_SIZE = 19

_COLUMN_FIELDS = (
    ("", "date", "white", "", "", "black", "", "", "result", "", "time"),
    ("", "date", "white", "black", "komi", "result", "", "time"),
)
"""The text fields in the columns of an index row: TYGEM's, then Tom's. Overtime precedes the time in its column."""

_ROW = re.compile(
    rb"^(?:(\d{1,18})\t(?:C[^\t\n]*+(?:\t[^\t\n]*+){8}|\d{4}\.\d\d\.\d\d[^\t\n]*+(?:\t[^\t\n]*+){5})\t"
    rb"(?:\d+/\d+ \d+m(?=(\d))|[^\t\n]*+$)|[^\n]*[\t!-\xff][^\n]*+)",
    re.MULTILINE,
)
"""A row of an index, or another line that is not empty. A row ends after "5m" if digits follow: the beginning of
another row, which is not reliable.
"""

_OVERTIME, _RANKS = FIELDS.index("overtime"), [FIELDS.index("black_rank"), FIELDS.index("white_rank")]
_BLANKS = bytes({*range(33)} - {n.TAB})

_RANK = b"9d"
"""The rank of all players of Tom, which is not in the index."""

_TRUNCATED = int(ParseWarning.TRUNCATED)
_KEPT, _TOO_LARGE, _UNREADABLE = int(DropReason.KEPT), int(DropReason.TOO_LARGE), int(DropReason.UNREADABLE)

_NO_BYTES = np.empty(0, np.uint8)


@dataclass(frozen=True, slots=True)
class TygemIndex:
    """The rows of one or several index files.

    Attributes:
        data: [N] uint8. The files' text.
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
    """Return the rows of an index. Never fails: lines that are not rows are counted.

    Args:
        data: [N] uint8.
    """
    text, bom = data.tobytes(), 3 * data[:3].tobytes().startswith(b"\xef\xbb\xbf")
    rows, bad = array("q"), 0
    for line in _ROW.finditer(text[bom:]):
        number, more = line.groups()
        row = line[0] if more else line[0].rstrip(_BLANKS)
        is_row = number is not None and len(row) <= n.LINE_LIMIT
        bad += not is_row or more is not None
        if is_row:
            rows.extend((int(number), bom + line.start(), bom + line.start() + len(row)))
    ids, start, stop = np.frombuffer(rows, np.int64).reshape(-1, 3).T
    ids, first = np.unique(ids, return_index=True)
    return TygemIndex(data, ids, start[first], stop[first], bad)


def load_index(containers: Sequence[AnyPath]) -> TygemIndex | None:
    """Return all index files among the containers as one index; None if there are none.

    Index files are recognized by name, .index, ignoring case: files, also in .gz, .bz2 or .xz, and members of .zip
    archives. Tar archives are not searched, as that would require reading them whole.

    Raises:
        SourceError: One of the files cannot be read or is damaged, or all together are larger than 256 MiB.
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
    rows = n.line_rows(block, np.ones(len(block), np.bool_), _COLUMNS)
    moves, setup = np.empty(int(np.sum(block.stop - block.start)) // 4 + 1, np.uint16), np.empty(0, np.uint16)
    _read_lines(block.data, block.stop, rows, moves)
    return ParsedBlock(
        format="tygem",
        block=block,
        games=n.to_game_arrays(block, rows, moves, setup, setup),
        text_fields=_text_fields(rows[:, _ID], index),
        index=rows[:, n.LINE].astype(np.int32),
        territory=np.empty(0, np.uint16),
        territory_offset=np.zeros(len(rows) + 1, np.int64),
    )


def _text_fields(ids: npt.NDArray[np.int64], index: TygemIndex | None) -> TextFields:
    start, stop = np.zeros((2, len(FIELDS), len(ids)), np.int64)
    if index is None or not len(index):
        return TextFields(_NO_BYTES, start, stop)
    at = np.minimum(np.searchsorted(index.ids, ids), len(index) - 1)
    indexed = np.flatnonzero(index.ids[at] == ids)
    rows = [index.data[a:b] for a, b in zip(index.start[at[indexed]].tolist(), index.stop[at[indexed]].tolist())]
    text = np.concatenate([*rows, np.frombuffer(_RANK, np.uint8)])
    ends = np.cumsum([0, *map(len, rows)])
    tabs, spaces = np.flatnonzero(text == n.TAB), np.append(np.flatnonzero(text == n.SPACE), len(text))
    first_tab = np.searchsorted(tabs, ends[:-1])
    is_tom = text[tabs[first_tab] + 1] != ord("C")
    for of_tom, names in enumerate(_COLUMN_FIELDS):
        chosen = np.flatnonzero(is_tom == of_tom)
        games, tab, end = indexed[chosen], first_tab[chosen], ends[chosen + 1]
        for column, name in enumerate(names):
            begin, stop_at = tabs[tab + column - 1] + 1, end if name == "time" else tabs[tab + column]
            if name == "time":  # the last column, after the overtime and a space
                middle = np.minimum(spaces[np.searchsorted(spaces, begin)], end)
                start[_OVERTIME, games], stop[_OVERTIME, games] = begin, middle
                begin = np.minimum(middle + 1, end)
            if name:
                field = FIELDS.index(name)
                start[field, games], stop[field, games] = begin + (name == "date" and not of_tom), stop_at
        if of_tom:
            start[_RANKS, games[:, None]], stop[_RANKS, games[:, None]] = len(text) - len(_RANK), len(text)
    return TextFields(text, start, stop)


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
        if data[i] != n.SEMICOLON:
            row[n.DROP] = _UNREADABLE
            return count
        at = i + 1
        black = at < stop and data[at] == n.LETTER_B
        if at < stop and not black and data[at] != n.LETTER_W:
            row[n.DROP] = _UNREADABLE
            return count
        at += 1
        if at < stop and data[at] != n.LEFT:
            row[n.DROP] = _UNREADABLE
            return count
        end = at + 1
        while end < stop and data[end] != n.RIGHT:
            end += 1
        if end >= stop:
            row[n.WARNINGS] |= _TRUNCATED
            return count
        if count - row[n.MOVE_END] == MAX_MOVES:
            row[n.DROP] = _TOO_LARGE
            return count
        move = read_move(data, at + 1, end, row)
        moves[count] = move if black else move | WHITE_BIT
        count += 1
        i = n.skip_space(data, end + 1, stop)
    return count


@kernel
def _read_lines(
    data: Bytes, stop: npt.NDArray[np.int64], rows: npt.NDArray[np.int64], moves: npt.NDArray[np.uint16]
) -> None:
    """Read the line of each row.

    Args:
        data: [N] uint8, the members.
        stop: [K] int64, end of each member.
        rows: Those of `line_rows`.
        moves: [M] uint16, filled.
    """
    count = 0
    for g in range(len(rows)):
        row = rows[g]
        row[_ID], row[n.MOVE_END] = -1, count
        if row[n.DROP] == _KEPT:
            row[n.WIDTH] = row[n.HEIGHT] = _SIZE
            # The tab after the number may be white space at the end of the line.
            i, row[_ID] = n.read_id(data, row[n.START], min(row[n.STOP] + 1, stop[row[n.MEMBER_ROW]]))
            if i < 0:
                row[n.DROP] = _UNREADABLE
            else:
                count = _read_moves(data, i, row[n.STOP], row, moves, count)
            if row[n.DROP] != _KEPT:
                count = row[n.MOVE_END]
                row[n.WIDTH] = row[n.HEIGHT] = row[n.WARNINGS] = 0
            row[n.MOVE_END] = count


FORMAT = RecordFormat((TYGEM,), read_tygem, to_sgf_properties)
