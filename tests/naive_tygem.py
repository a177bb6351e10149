"""The slow twins of the readers of TYGEM's lines and index: regular expressions over one line at a time."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from kifu.errors import DropReason
from kifu.point import NO_POINT, WHITE_BIT
from kifu.records._tokens import LINE_LIMIT
from kifu.records.games import ParseWarning

LETTERS = b"abcdefghijklmnopqrstuvwxyz"
SPACE = bytes(range(33))
LINE = re.compile(rb"(\d{1,18})\t((?:;[BW]\[[^\]]*\][\0-\x20]*)*)(;(?:[BW](?:\[[^\]]*)?)?)?", re.DOTALL)
MOVE = re.compile(rb";([BW])\[([^\]]*)\]", re.DOTALL)
ROW = re.compile(rb"(\d{1,18})\t(C[^\t]*)" + rb"\t([^\t]*)" * 8 + rb"\t(\d+/\d+ \d+m(?=\d)|[^\t]*$)")


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
        row.moves.append(read_value(value.strip(SPACE), row) | (WHITE_BIT if colour == b"W" else 0))
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


def read_index(data: bytes) -> tuple[dict[int, dict[str, bytes]], int]:
    """The words of each row by its number, and how many lines were none or went on."""
    rows: dict[int, dict[str, bytes]] = {}
    bad = 0
    for text in data.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        text = text.rstrip(SPACE.replace(b"\t", b""))
        match = ROW.match(text) if len(text) <= LINE_LIMIT else None
        if text and (match is None or match.end() < len(text)):
            bad += 1
        if match:
            overtime, _, time = match[11].partition(b" ")
            rows.setdefault(
                int(match[1]),
                {
                    "date": match[2][1:],
                    "white": match[3],
                    "black": match[6],
                    "result": match[9],
                    "time": time,
                    "overtime": overtime,
                },
            )
    return rows, bad
