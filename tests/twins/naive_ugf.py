"""A plain reader of UGF's sections and moves, to compare with the compiled one."""

import math
import re
from dataclasses import replace

import numpy as np

from kifu.errors import DropReason
from kifu.point import MAX_SIZE, NO_POINT, WHITE_BIT
from kifu.records.games import NO_HANDICAP, ParseWarning
from kifu.records.sgf import as_block
from kifu.records.ugf import read_ugf
from naive_gib import NaiveGame, games_of

SPACE = bytes(range(33))
NO_WARNING = ParseWarning(0)

PIECES = [
    b"[Header]", b"[Data]", b"[Figure]", b"[Remote]", b"[x", b"Size=19", b"Size=9", b"Size=26", b"Size=", b"Lang=SJIS",
    b"Lang=UTF8", b"Crypt=1,PLAIN_UGF_FILE,READ_WRITE", b"Crypt=9666,XX", b"Hdcp=2,0,50", b"Hdcp=1,0", b"Hdcp=x",
    b"CoordinateType=IGS", b"CoordinateType=JPN", b"PlayerB=\x8eR\x89\xba,9d,0,", b"DP,B1,0,0", b"PD,W1,0,3",
    b"PP,W1,1,35", b"CN,B1,2,7.5", b"YA,B1,3,1", b"ZZ,W1,4,", b"ZZ,B1", b"??,W2,5,x", b"AA,B", b"AS,W1,7,1234567890",
    b"Q",
    b".Text,1", b".EndText", b".Fig,2,1,1,19,19,x,1,0", b".EndFig", b".#,16,16,A", b"\n", b"\r\n", b"\r", b" ", b"\0",
    b"\xef\xbb\xbf", b"# a comment", b"=", b",",
]  # fmt: skip


def read_naive(data: bytes) -> NaiveGame:
    """Read a member; without its text fields."""
    sections = split_sections(data)
    if not sections:
        return NaiveGame(DropReason.NO_RECORD)
    lines = re.split("[\r\n]", sections.get(b"[Header]", b"").decode("latin-1"))
    pairs = (re.split("=", line, maxsplit=1) for line in lines)
    values: dict[str, str] = {}
    for pair in pairs:
        if len(pair) == 2:
            values.setdefault(pair[0].strip(), pair[1].strip())
    crypt = values.get("Crypt", "")
    if crypt and not crypt.split(",", 1)[-1].startswith("PLAIN"):
        return NaiveGame(DropReason.UNREADABLE)
    size = number(values.get("Size", "19"))
    if size is None or not 1 <= size <= MAX_SIZE:
        return NaiveGame(DropReason.BAD_SIZE)
    handicap = number(values.get("Hdcp", "").split(",")[0].strip())
    game = NaiveGame(size=size, handicap=NO_HANDICAP if handicap is None else handicap)
    game.warnings |= ParseWarning.HANDICAP_TEXT if handicap is None and values.get("Hdcp") else 0
    game.warnings |= ParseWarning.HANDICAP_ONE if handicap == 1 else 0
    game.warnings |= 0 if "Size" in values else ParseWarning.SIZE_MISSING
    read_lines(game, sections.get(b"[Data]"), values.get("CoordinateType", "").upper() == "IGS")
    if len(game.moves) > 65_535 or len(game.setup) > 4096:
        return NaiveGame(DropReason.TOO_LARGE)
    if any(point & 0x3FFF >= size * size for point in game.setup):
        game.warnings |= ParseWarning.BAD_SETUP_POINT
        game.setup = [point for point in game.setup if point & 0x3FFF < size * size]
    return game


def number(text: str) -> int | None:
    return int(text) if re.fullmatch("-?[0-9]{1,4}", text) else None


def split_sections(data: bytes) -> dict[bytes, bytes]:
    """Return the content of the first [Header] and the first [Data]."""
    sections: dict[bytes, bytes] = {}
    name = b""
    for line in re.findall(rb"[^\r\n]*[\r\n]|[^\r\n]+$", data.removeprefix(b"\xef\xbb\xbf")):
        text = line.rstrip(b"\r\n").lstrip(SPACE)
        known = next((each for each in (b"[Header]", b"[Data]") if text.startswith(each)), None)
        if known or re.match(rb"\[[A-Za-z]*\]", text):
            name = b"" if known is None or known in sections else known
            if name:
                sections[name] = b""
        elif name:
            sections[name] += line
    if name and not sections[name]:  # the record ends with the name: it is cut off
        del sections[name]
    return sections


def read_lines(game: NaiveGame, data: bytes | None, is_from_below: bool) -> None:
    skipped = b""
    used: list[float] = []
    cut = data is None
    for line in re.findall(rb"[^\r\n]*[\r\n]|[^\r\n]+$", data or b""):
        text = line.rstrip(b"\r\n").lstrip(SPACE)
        is_last = not line.endswith((b"\r", b"\n"))
        match = re.match(rb"([^.].),([BW])([^,]*)(?:,([^,]*))?(?:,([^,]*))?", text, re.DOTALL)
        if skipped:
            cut = is_last and text[:1].isalpha()
            skipped = b"" if text.startswith(skipped) else skipped
            continue
        skipped = b".EndText" if text.startswith(b".Text") else b".EndFig" if text.startswith(b".Fig") else b""
        if match is None:
            cut = is_last and text[:1].isalpha()
            continue
        point = read_point(match[1], game.size, is_from_below) | (WHITE_BIT if match[2] == b"W" else 0)
        seconds = decimal(match[5])
        cut = is_last and math.isnan(seconds)
        if decimal(match[4]) == 0 and not game.moves:
            game.setup.append(point)
        else:
            game.moves.append(point)
            used.append(seconds)
    game.seconds = used if any(second > 0 for second in used) else None
    game.warnings |= ParseWarning.TRUNCATED if cut or skipped else 0


def decimal(text: bytes | None) -> float:
    match = re.match(rb"([0-9]*(?:\.[0-9]*)?)(?:[\0-\x20]|$)", (text or b"").lstrip(SPACE))
    digits = len(match[1].replace(b".", b"")) if match else 0
    return float(match[1]) if match and 0 < digits <= 9 else math.nan


def read_point(text: bytes, size: int, is_from_below: bool) -> int:
    x, y = text[0] - ord("A"), text[1] - ord("A")
    if x in (24, 25) and x >= size:
        return size * size
    y = size - 1 - y if is_from_below else y
    return y * size + x if 0 <= x < size and 0 <= y < size else NO_POINT


def compare_with_naive(members: list[bytes]) -> None:
    """Check that the reader and the naive one agree on a block of these members."""
    parsed = read_ugf(as_block(members))
    games = parsed.games
    assert games.block_index.tolist() == list(range(len(members)))
    for g, data in enumerate(members):
        expected = read_naive(data)
        (game,) = games_of(parsed, g)
        assert replace(game, seconds=expected.seconds) == expected, data
        seconds = [] if parsed.seconds is None else parsed.seconds[slice(*games.move_offset[g : g + 2])].tolist()
        np.testing.assert_allclose(
            seconds or [math.nan] * len(game.moves), expected.seconds or [math.nan] * len(game.moves), rtol=1e-6
        )
