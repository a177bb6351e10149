"""A plain reader of NGF's moves, to compare with the compiled one."""

import re
from dataclasses import replace

from kifu.errors import DropReason
from kifu.point import MAX_SIZE, NO_POINT, WHITE_BIT
from kifu.records.games import NO_HANDICAP, ParseWarning
from kifu.records.ngf import read_ngf
from kifu.records.sgf import as_block
from naive_gib import NaiveGame, games_of

SPACE = bytes(range(33))
NO_WARNING = ParseWarning(0)
MOVE = re.compile(rb"PM..([BW])(..)", re.DOTALL)

PIECES = [
    b"PMABBREER", b"PMACWEEEE", b"PMADBAAAA", b"PMAEWZZZZ", b"PMAFB", b"PM", b"P", b"\n", b"\r\n", b"\r", b" ", b"GI",
    b"19", b"9", b"26", b"0", b"1", b"2", b"9", b"x", b"Title", b"LQC         9DP", b"20170316 [09:37]",
    b"Black wins by 0.5!", b"GI1", "IDB[2] 黑中盘胜[EndTxt]".encode("gb18030"), b"\xef\xbb\xbf", b"\0", b"\xb0\xa1",
]  # fmt: skip


def read_naive(data: bytes) -> NaiveGame:
    """Read a member; without its text fields and handicap stones."""
    moves: list[bytes] = []
    before = len(data)
    at = 0
    cut = False
    for line in re.split(rb"[\r\n]", data):
        text = line.lstrip(SPACE)
        match = MOVE.match(text)
        if match:
            before = before if moves else at
            moves.append(match[1] + match[2])
        cut = bool(moves) and text.startswith(b"P") and len(text) < 9
        at += len(line) + 1
    header = [
        line.strip() for line in re.split("\r\n|\n|\r", data[:before].removeprefix(b"\xef\xbb\xbf").decode("latin-1"))
    ]
    is_gi = len(header) > 1 and header[0].startswith("GI") and header[1].startswith("GI")
    size_line, handicap_line, komi_line = (6, 7, 9) if is_gi else (1, 5, 7)
    size, handicap = (number(header, line, 2 * is_gi) for line in (size_line, handicap_line))
    if size is None and not moves:
        return NaiveGame(DropReason.NO_RECORD)
    side = 19 if size is None else size
    if not 1 <= side <= MAX_SIZE:
        return NaiveGame(DropReason.BAD_SIZE)
    if len(moves) > 65_535:
        return NaiveGame(DropReason.TOO_LARGE)
    warnings = ParseWarning.TRUNCATED if cut or len(header) <= komi_line else NO_WARNING
    if size is None:
        warnings |= ParseWarning.SIZE_MISSING
    if handicap is None and len(header) > handicap_line and header[handicap_line][2 * is_gi :].strip():
        warnings |= ParseWarning.HANDICAP_TEXT
    if handicap == 1:
        warnings |= ParseWarning.HANDICAP_ONE
    points = [point(move, side) for move in moves]
    handicap = NO_HANDICAP if handicap is None else handicap
    return NaiveGame(size=side, handicap=handicap, moves=points, warnings=warnings)


def number(header: list[str], line: int, skipped: int) -> int | None:
    text = header[line][skipped:].strip() if line < len(header) else ""
    return int(text) if re.fullmatch("-?[0-9]{1,4}", text) else None


def point(move: bytes, size: int) -> int:
    colour = WHITE_BIT if move[:1] == b"W" else 0
    x, y = move[1] - ord("B"), move[2] - ord("B")
    if x == y == -1:
        return size * size | colour
    return (y * size + x if 0 <= x < size and 0 <= y < size else NO_POINT) | colour


def compare_with_naive(members: list[bytes]) -> None:
    """Check that the reader and the naive one agree on a block of these members."""
    parsed = read_ngf(as_block(members))
    assert parsed.games.block_index.tolist() == list(range(len(members)))
    for g, data in enumerate(members):
        (game,) = games_of(parsed, g)
        assert replace(game, setup=[]) == read_naive(data), data
