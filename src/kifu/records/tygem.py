"""TYGEM's games as they were published: one line a game, its number and its moves; and an index that tells the rest.

    885492098<tab>;B[pd];W[dp];B[pq] ...
    842008471<tab>C2016.01.01 00:02<tab>white<tab>...<tab>W+Resign<tab>154<tab>30/3 5m

Lines and index are files of their own, joined by the games' numbers. docs/formats/tygem.md is the card; what the
readers forgive is listed in docs/leniency.md. Source: https://github.com/yenw/computer-go-dataset, README.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kifu.errors import SourceError
from kifu.records import _nodes as n
from kifu.records import _tygem as t
from kifu.records._scan import BYTES_A_GAME
from kifu.records.containers import index_files
from kifu.records.games import FIELDS, MEMBER_LIMIT, Bytes, ParsedBlock, RecordBlock, TextFields
from kifu.records.meta import Result
from kifu.records.places import AnyPath
from kifu.records.sgf import to_game_arrays

_SPANS = {
    "black": t.BLACK,
    "white": t.WHITE,
    "result": t.RESULT,
    "date": t.DATE,
    "time": t.TIME,
    "overtime": t.OVERTIME,
}

_NO_BYTES = np.empty(0, np.uint8)


@dataclass(frozen=True, slots=True)
class TygemIndex:
    """What one or several index files tell of games.

    data: [N] uint8, the files' text.
    ids: [R] int64, rising: the games' numbers. Of two rows with one number the first counts.
    start, stop: [R] int64: row r is data[start[r]:stop[r]].
    bad_lines: how many lines of the files were no rows, or went on after one.
    """

    data: Bytes
    ids: npt.NDArray[np.int64]
    start: npt.NDArray[np.int64]
    stop: npt.NDArray[np.int64]
    bad_lines: int

    def __len__(self) -> int:
        return len(self.ids)


def read_index(data: Bytes) -> TygemIndex:
    """The rows of an index. Never fails: lines that are none are counted. data: [N] uint8, kept by the index."""
    room = len(data) // t.SHORTEST_ROW + 1
    ids, start, stop = (np.empty(room, np.int64) for _ in range(3))
    rows, bad = t.index_rows(data, ids, start, stop)
    ids, first = np.unique(ids[:rows], return_index=True)
    return TygemIndex(data, ids, start[first], stop[first], int(bad))


def load_index(containers: Sequence[AnyPath]) -> TygemIndex | None:
    """All index files among the containers, as one; None if there are none.

    Taken by name, .index in any case: files, also in .gz, .bz2 or .xz, and members of .zip archives. Tar archives are
    not looked into, as that would be to read them whole. Raises SourceError if one of the files cannot be read or is
    damaged, or if all together are over 256 MiB.
    """
    parts: list[Bytes] = []
    size = 0
    for container in containers:
        for part in index_files(container):
            size += len(part) + 1
            if size > MEMBER_LIMIT:
                raise SourceError(f"{container}: the TYGEM indexes take over {MEMBER_LIMIT:,} bytes together")
            parts += [part, np.array([ord("\n")], np.uint8)]
    return read_index(np.concatenate(parts)) if parts else None


def read_tygem(block: RecordBlock, index: TygemIndex | None) -> ParsedBlock:
    """Reads every line of a block. Never fails: what can't be read gives a row with its `DropReason`.

    Each line is a row, but for empty ones and those that begin with #; a member without any gives one row. The moves
    stand as they are recorded, on 19 x 19. A line that is no game is `DropReason.UNREADABLE`; one of over 1 MiB or 65,535
    moves is `DropReason.TOO_LARGE`, and so is all that follows where a member has more lines than its bytes / 32 + 16.

    index: where the words come from; a game that it does not tell of has none, and so have all without an index.
    """
    length = int(np.sum(block.stop - block.start))
    out = n.NodesOut(
        rows=np.empty((length // BYTES_A_GAME + (t.GAMES_ALWAYS + 1) * len(block), t.COLUMNS), np.int64),
        moves=np.empty(length // 4 + 1, np.uint16),
        setup=np.empty(0, np.uint16),
        setup_ply=np.empty(0, np.uint16),
        state=np.zeros(n.STATES, np.int64),
        seen=np.empty(0, np.int64),
    )
    t.read_lines(block.data, block.start, block.stop, block.drop, out)
    games = to_game_arrays(out, block)
    rows = out.rows[: len(games)]
    line = rows[:, t.LINE].astype(np.int32)
    line[games.block_index == 0] += block.first_line
    return ParsedBlock(
        format="tygem",
        block=block,
        games=games,
        text_fields=_text_fields(rows[:, t.ID], index),
        index=line,
        territory=np.empty(0, np.uint16),
        territory_offset=np.zeros(len(games) + 1, np.int64),
    )


def _text_fields(ids: npt.NDArray[np.int64], index: TygemIndex | None) -> TextFields:
    start, stop = np.zeros((2, len(FIELDS), len(ids)), np.int64)
    if index is None or not len(index):
        return TextFields(_NO_BYTES, start, stop)
    at = np.minimum(np.searchsorted(index.ids, ids), len(index) - 1)
    found = index.ids[at] == ids
    spans = np.empty((2, t.SPANS, len(ids)), np.int64)
    t.index_spans(index.data, np.where(found, index.start[at], 0), np.where(found, index.stop[at], 0), *spans)
    rows, columns = [FIELDS.index(name) for name in _SPANS], list(_SPANS.values())
    start[rows], stop[rows] = spans[0, columns], spans[1, columns]
    return TextFields(index.data, start, stop)


def count_unindexed(reading: ParsedBlock) -> int:
    """How many games of a reading no index tells of."""
    date = FIELDS.index("date")
    told = reading.text_fields.stop[date] > reading.text_fields.start[date]
    return int(np.count_nonzero(~told & (reading.games.drop == 0)))


_TIME = re.compile(r"(\d{1,5})m")
_OVERTIME = re.compile(r"(\d{1,5})/(\d{1,5})")
_DATE = re.compile(r"(\d{4})\.(\d\d)\.(\d\d)( .*)?")


def parse_time(text: str) -> float | None:
    """Main time in minutes: "5m" is 5.0; None for anything else."""
    match = _TIME.fullmatch(text)
    return float(match[1]) if match else None


def parse_overtime(text: str) -> str | None:
    """Overtime as SGF records spell it: "30/3", three periods of 30 seconds, is "3x30 byo-yomi"."""
    match = _OVERTIME.fullmatch(text)
    return f"{int(match[2])}x{int(match[1])} byo-yomi" if match else None


def to_sgf_properties(texts: Mapping[str, str]) -> dict[str, str | None]:
    """The words of a game, by their names in FIELDS, decoded, as root properties of an SGF record, in its spelling.

    What is spelled otherwise than we know is left as it is.
    """
    date, minutes = _DATE.fullmatch(texts["date"]), parse_time(texts["time"])
    result = Result.parse(texts["result"])
    return {
        "PB": texts["black"] or None,
        "PW": texts["white"] or None,
        "RE": (texts["result"] or None) if result == Result() else str(result),
        "DT": "-".join(date.group(1, 2, 3)) if date else texts["date"] or None,
        "TM": (texts["time"] or None) if minutes is None else f"{minutes * 60:.12g}",
        "OT": parse_overtime(texts["overtime"]) or texts["overtime"] or None,
    }
