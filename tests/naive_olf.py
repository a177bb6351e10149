"""OLF read and written the slow way, line by line, from its card alone: the witness of `kifu.records.olf`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from kifu.errors import DropReason
from kifu.point import NO_POINT, WHITE_BIT
from kifu.records._tokens import LINE_LIMIT
from kifu.records.games import ParseWarning

LETTERS = "abcdefghijklmnopqrs"
NAMES = ("date", "black", "black_rank", "white", "white_rank", "size", "time", "result", "komi", "handicap")


@dataclass
class NaiveGame:
    index: int = 0
    start: int = 0
    stop: int = 0
    width: int = 0
    height: int = 0
    moves: list[int] = field(default_factory=list)
    setup: list[int] = field(default_factory=list)
    territory: list[int] = field(default_factory=list)
    handicap: int | None = None
    warnings: ParseWarning = field(default_factory=lambda: ParseWarning(0))
    drop: DropReason = DropReason.KEPT
    words: dict[str, bytes] = field(default_factory=dict)


def read_member(data: bytes) -> list[NaiveGame]:
    games: list[NaiveGame] = []
    at = 3 if data.startswith(b"\xef\xbb\xbf") else 0
    for number, line in enumerate(data[at:].split(b"\n")):
        words = [(match.start() + at, match.end() + at, match[0]) for match in re.finditer(rb"[^\0-\x20]+", line)]
        if words and not words[0][2].startswith(b"#"):
            game = NaiveGame(number, words[0][0], words[-1][1])
            game.drop = DropReason.TOO_LARGE
            if game.stop - game.start <= LINE_LIMIT:
                game.drop = read_fields(game, [word for _, _, word in words])
            if game.drop:
                game.moves, game.setup, game.territory = [], [], []
            games.append(game)
        at += len(line) + 1
    return games or [NaiveGame(start=len(data), stop=len(data), drop=DropReason.NO_RECORD)]


def read_fields(game: NaiveGame, fields: list[bytes]) -> DropReason:
    if len(fields) not in (11, 12):
        return DropReason.UNREADABLE
    for name, value in zip(NAMES, fields):
        nothing = {"date": rb"[0-]+|\?", "black_rank": rb"[0?]", "white_rank": rb"[0?]"}.get(name, rb"\?")
        if name not in ("size", "handicap") and not re.fullmatch(nothing, value):
            game.words[name] = value
    size = re.fullmatch(rb"[+]?(\d{1,4}):[+]?(\d{1,4})", fields[5])
    if size and 1 <= int(size[1]) <= 19 and 1 <= int(size[2]) <= 19:
        game.width, game.height = int(size[1]), int(size[2])
    handicap = re.fullmatch(rb"h-([+]?\d{1,4}|-0{1,4})", fields[9])
    if handicap:
        game.handicap = int(handicap[1]) or None
        if game.handicap == 1:
            game.warnings |= ParseWarning.HANDICAP_ONE
    else:
        game.warnings |= ParseWarning.HANDICAP_TEXT
    if not game.width:
        return DropReason.BAD_SIZE
    if len(fields[10]) // 2 > 65_535:
        return DropReason.TOO_LARGE
    area = fields[11] if len(fields) == 12 else b""
    for text in (fields[10].replace(b"-", b"", len(fields[10]) == 1), area):
        if not re.fullmatch(rb"([A-Za-z]{2})*", text):
            return DropReason.UNREADABLE
    game.moves = [] if fields[10] == b"-" else read_points(game, fields[10])
    colours = {entry & ~WHITE_BIT: entry for entry in read_points(game, area)}
    if any(point >= game.width * game.height for point in colours):
        return DropReason.OFF_BOARD
    game.territory = [colours[point] for point in sorted(colours)]
    take_handicap(game)
    return DropReason.KEPT


def read_points(game: NaiveGame, text: bytes) -> list[int]:
    points = []
    for first, second in zip(text[::2].decode(), text[1::2].decode()):
        x, y = LETTERS.find(first.lower()), LETTERS.find(second.lower())
        if first + second in ("TT", "tt"):
            point = game.width * game.height
        elif first.isupper() == second.isupper() and 0 <= x < game.width and 0 <= y < game.height:
            point = y * game.width + x
        else:
            point = NO_POINT
        points.append(point | (0 if first.isupper() else WHITE_BIT))
    return points


def take_handicap(game: NaiveGame) -> None:
    """Black stones at the head, parted by white passes, become setup; with them a last pass that White follows."""
    points, count = game.width * game.height, game.handicap or 0
    stones, passes = game.moves[0 : 2 * count - 1 : 2], game.moves[1 : 2 * count - 2 : 2]
    if count < 2 or len(stones) != count or len(set(stones)) != count or max(stones) >= points:
        return
    if set(passes) != {points | WHITE_BIT}:
        return
    game.setup, game.moves = stones, game.moves[2 * count - 1 :]
    if game.moves[:1] == [points | WHITE_BIT] and len(game.moves) > 1 and game.moves[1] & WHITE_BIT:
        del game.moves[0]


def write_line(words: list[str], game: NaiveGame) -> bytes:
    """words: the first ten fields. Asks nothing: whether the line says the game shows when it is read."""
    points = game.width * game.height
    play = [entry for stone in game.setup for entry in (stone, points | WHITE_BIT)][:-1] + game.moves
    parts = [*words, write_points(game, play) or "-"]
    if game.territory:
        parts.append(write_points(game, game.territory))
    return (" ".join(parts) + "\n").encode()


def write_points(game: NaiveGame, entries: list[int]) -> str:
    text = ""
    for entry in entries:
        y, x = divmod(entry & ~WHITE_BIT, game.width)
        pair = LETTERS[x] + LETTERS[y] if y < game.height else "tt"
        text += pair if entry & WHITE_BIT else pair.upper()
    return text
