"""Naive parsers of TYGEM lines and indexes, with regular expressions for one line at a time."""

import re
from dataclasses import dataclass, field

import numpy as np

from kifu.errors import DropReason
from kifu.point import NO_POINT, WHITE_BIT
from kifu.records import tygem
from kifu.records._bytes import LINE_LIMIT
from kifu.records.games import FIELDS, ParsedBlock, ParseWarning
from kifu.records.sgf import as_block
from kifu.records.tygem import TygemIndex, read_tygem

LETTERS = b"abcdefghijklmnopqrstuvwxyz"
SPACE = bytes(range(33))
LINE = re.compile(rb"(\d{1,18})\t((?:;[BW]\[[^\]]*\][\0-\x20]*)*)(;(?:[BW](?:\[[^\]]*)?)?)?", re.DOTALL)
MOVE = re.compile(rb";([BW])\[([^\]]*)\]", re.DOTALL)
ROW_PATTERN = re.compile(rb"(\d{1,18})\t(C[^\t]*)" + rb"\t([^\t]*)" * 8 + rb"\t(\d+/\d+ \d+m(?=\d)|[^\t]*$)")

TOM_PATTERN = re.compile(
    rb"(\d{1,18})\t(\d{4}\.\d\d\.\d\d[^\t]*)" + rb"\t([^\t]*)" * 5 + rb"\t(\d+/\d+ \d+m(?=\d)|[^\t]*$)"
)


@dataclass
class NaiveLine:
    line: int
    text: bytes = b""
    id: int = -1
    moves: list[int] = field(default_factory=list)
    warnings: ParseWarning = field(default_factory=lambda: ParseWarning(0))
    drop: DropReason = DropReason.KEPT


def read_member(data: bytes) -> list[NaiveLine]:
    rows = []
    most = 16 + len(data) // 32
    data = data.removeprefix(b"\xef\xbb\xbf")
    for number, text in enumerate(data.split(b"\n")):
        text = text.lstrip(SPACE)
        if text and not text.startswith(b"#"):
            rows.append(read_line(number, text))
    if len(rows) > most:
        rows[most:] = [NaiveLine(rows[most].line, drop=DropReason.TOO_LARGE)]
    return rows or [NaiveLine(0, drop=DropReason.NO_RECORD)]


def read_line(number: int, text: bytes) -> NaiveLine:
    row = NaiveLine(number, text.rstrip(SPACE))
    if len(row.text) > LINE_LIMIT:
        row.drop = DropReason.TOO_LARGE
        return row
    named = re.match(rb"(\d{1,18})\t", text)
    row.id = int(named[1]) if named else -1
    match = LINE.fullmatch(row.text if row.text.count(b"\t") else row.text + b"\t") if named else None
    if match is None:
        row.drop = DropReason.UNREADABLE
        return row
    for colour, value in MOVE.findall(match[2]):
        row.moves.append(read_value(value.translate(None, SPACE), row) | (WHITE_BIT if colour == b"W" else 0))
    if match[3]:
        row.warnings |= ParseWarning.TRUNCATED
    if len(row.moves) > 65_535:
        return NaiveLine(number, row.text, row.id, drop=DropReason.TOO_LARGE)
    return row


def read_value(value: bytes, row: NaiveLine) -> int:
    if not value:
        return 361
    if value == b"tt":
        row.warnings |= ParseWarning.PASS_AS_TT
        return 361
    if value.lower() in (b"pass", b"--"):
        row.warnings |= ParseWarning.PASS_AS_WORD
        return 361
    x, y = (LETTERS.find(value[k : k + 1]) for k in (0, 1)) if len(value) == 2 else (-1, -1)
    return y * 19 + x if 0 <= x < 19 and 0 <= y < 19 else NO_POINT


def read_tygem_index(data: bytes) -> tuple[dict[int, dict[str, bytes]], int]:
    """Return the text fields of each row by its number, and the number of bad lines."""
    rows: dict[int, dict[str, bytes]] = {}
    bad = 0
    for text in data.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        text = text.rstrip(SPACE.replace(b"\t", b""))
        short = len(text) <= LINE_LIMIT
        match = (ROW_PATTERN.match(text) or TOM_PATTERN.match(text)) if short else None
        if text and (match is None or match.end() < len(text)):
            bad += 1
        if match:
            is_tom = match.re is TOM_PATTERN
            overtime, _, time = match[8 if is_tom else 11].partition(b" ")
            rows.setdefault(
                int(match[1]),
                {
                    "date": match[2] if is_tom else match[2][1:], "white": match[3], "black": match[4 if is_tom else 6],
                    "result": match[6 if is_tom else 9], "time": time, "overtime": overtime,
                    "komi": match[5] if is_tom else b"", "black_rank": b"9d" if is_tom else b"",
                    "white_rank": b"9d" if is_tom else b"",
                },
            )  # fmt: skip
    return rows, bad


ROW = "842008471\tC2016.01.01 00:02\t白\twhite(P)\t2\t黑(P)\tblack(P)\t0\tW+Resign\t154\t30/3 5m"
INDEX = ROW.replace("842008471", "885492098").encode() + b"\n"


WORDS = {
    "black": "黑(P)", "white": "白", "result": "W+Resign", "date": "2016.01.01 00:02", "time": "5m", "overtime": "30/3",
}  # fmt: skip


TOM_ROW = "354460\t2003.09.25 20:21\t忧郁的孤影\t楚阳春\t6.5\tB+0.5\t321\t30/3 20m"


TOM_WORDS = {
    "black": "楚阳春", "white": "忧郁的孤影", "black_rank": "9d", "white_rank": "9d", "result": "B+0.5", "komi": "6.5",
    "date": "2003.09.25 20:21", "time": "20m", "overtime": "30/3",
}  # fmt: skip


PIECES = [
    b"885492098\t", b"7\t", b";B[pd]", b";W[dp]", b";B[]", b";W[tt]", b";B[zz]", b";W[ pd ]", b";", b"B", b"[", b"]",
    b"\n", b"\r\n", b"#", b" ", b"\t", b";C[x]", b"(", b"\xef\xbb\xbf", b"1234567890123456789\t", b";B[Pass]", b"\0",
]  # fmt: skip


INDEX_PIECES = [
    ROW.encode(), b"\n", b"\r\n", b"\t", b"\tC", b"7", b"7\tC", b" ", b"30/3 5m", b"30/3 5m7\tC", b"\t" * 10, b"x",
    TOM_ROW.encode(), b"\t2003.09.25", b"8\t2003.09.25 1\ta\tb\t6.5\tB+T\t1\t10/3 0m", b".",
    b"\xef\xbb\xbf", b"\xff", b"9\tC2016.01.01 00:02\ta\tb\t0\tc\td\t1\tB+0.5\t200\t10/3 0m",
]  # fmt: skip


def lines_of(parsed: ParsedBlock, k: int = 0) -> list[NaiveLine]:
    """Return the rows of member k as the naive parser does, without numbers, which are not kept."""
    games, found = parsed.games, []
    for g in np.flatnonzero(games.block_index == k).tolist():
        moves = games.moves[games.move_offset[g] : games.move_offset[g + 1]].tolist()
        drop = DropReason(games.drop[g])
        text = parsed.block.data[games.start[g] : games.stop[g]].tobytes()
        found.append(NaiveLine(int(parsed.index[g]), text, -1, moves, ParseWarning(int(games.warnings[g])), drop))
    return found


def compare_with_naive(members: list[bytes]) -> None:
    block = as_block(members)
    parsed = read_tygem(block, None)
    assert parsed.games.width.tolist() == [0 if drop else 19 for drop in parsed.games.drop]
    for k, data in enumerate(members):
        expected = read_member(data)
        for row in expected:
            row.id = -1
            if row.drop:
                row.moves, row.warnings = [], ParseWarning(0)
            if row.drop in (DropReason.NO_RECORD, DropReason.TOO_LARGE) and not row.text:
                row.text = next(found.text for found in lines_of(parsed, k) if found.line == row.line)
        assert lines_of(parsed, k) == expected


def text_fields_of(parsed: ParsedBlock, g: int) -> dict[str, str]:
    words = parsed.text_fields
    texts = [words.data[a:b].tobytes().decode() for a, b in zip(words.start[:, g], words.stop[:, g])]
    return {name: text for name, text in zip(FIELDS, texts) if text}


def index_of(data: bytes) -> TygemIndex:
    return tygem.read_tygem_index(np.frombuffer(bytearray(data), np.uint8))


def index_words(data: bytes) -> dict[int, dict[str, str]]:
    """Return the text fields of the index's games by number, found as for a game of that number."""
    index = index_of(data)
    lines = b"\n".join(b"%d\t;B[aa]" % number for number in index.ids.tolist())
    parsed = read_tygem(as_block([lines + b"\n" + b" " * 40 * len(index)]), index)
    return {number: text_fields_of(parsed, g) for g, number in enumerate(index.ids.tolist())}


def compare_index_with_naive(data: bytes) -> None:
    rows, bad = read_tygem_index(data)
    index = index_of(data)
    assert index.bad_lines == bad
    assert index.ids.tolist() == sorted(rows)
    spans = {}
    parsed = read_tygem(as_block([b"%d\t" % number + b" " * 40 for number in index.ids.tolist()]), index)
    for g, number in enumerate(index.ids.tolist()):
        words = parsed.text_fields
        at = {name: FIELDS.index(name) for name in TOM_WORDS}
        spans[number] = {name: words.data[words.start[f, g] : words.stop[f, g]].tobytes() for name, f in at.items()}
    assert spans == rows
