"""A naive parser of the games and moves of GIB, line by line; values of a header come from the parser itself."""

import re
from dataclasses import dataclass, field
from typing import Any

from kifu.errors import DropReason
from kifu.point import NO_POINT, WHITE_BIT
from kifu.records.games import FIELDS, NO_HANDICAP, ParsedBlock, ParseWarning
from kifu.records.gib import read_gib
from kifu.records.sgf import as_block

SPACE = bytes(range(33))
STONES = [288, 72, 60, 300, 180, 174, 186, 294, 66]  # dp pd dd pp jj dj pj jp jd
SETUP = {2: "01", 3: "012", 4: "0123", 5: "01234", 6: "012356", 7: "0123564", 8: "01235678", 9: "012356784"}


@dataclass
class NaiveGame:
    """The expected reading of a game; also of NGF and UGF."""

    drop: DropReason = DropReason.KEPT
    size: int = 0
    handicap: int = NO_HANDICAP
    setup: list[int] = field(default_factory=list)
    moves: list[int] = field(default_factory=list)
    warnings: ParseWarning = field(default_factory=lambda: ParseWarning(0))
    seconds: list[float] | None = None


def kept(*moves: int, **changes: Any) -> NaiveGame:
    """Return the reading of a whole game on 19 x 19 without handicap, with some changes."""
    return NaiveGame(**{"size": 19, "handicap": 0, "moves": list(moves)} | changes)


def games_of(parsed: ParsedBlock, member: int = 0) -> list[NaiveGame]:
    """Return the rows of a member as the naive parser does."""
    games, found = parsed.games, []
    for g in range(len(games)):
        if games.block_index[g] == member:
            assert games.width[g] == games.height[g]
            found.append(
                NaiveGame(
                    DropReason(games.drop[g]),
                    int(games.width[g]),
                    int(games.handicap[g]),
                    games.setup[games.setup_offset[g] : games.setup_offset[g + 1]].tolist(),
                    games.moves[games.move_offset[g] : games.move_offset[g + 1]].tolist(),
                    ParseWarning(int(games.warnings[g])),
                )
            )
    return found


def texts_of(parsed: ParsedBlock, g: int = 0) -> dict[str, str]:
    """Return the text fields of game g that are not empty."""
    fields = parsed.text_fields
    texts = [fields.data[a:b].tobytes().decode() for a, b in zip(fields.start[:, g], fields.stop[:, g])]
    return {name: text for name, text in zip(FIELDS, texts) if text}


def read_member(data: bytes) -> list[NaiveGame]:
    most = 64 + len(data) // 1024
    lines = re.split(rb"[\r\n]", data.removeprefix(b"\xef\xbb\xbf"))
    groups: list[list[bytes]] = []
    junk = False
    for k, line in enumerate(lines):
        line = line.lstrip(SPACE) + (b"\n" if k + 1 < len(lines) else b"")
        if line.startswith(b"\\HS") or (not groups and line.startswith((b"\\GS", b"\\["))):
            groups.append([])
        if groups:
            groups[-1].append(line)
        else:
            junk |= bool(line.strip(SPACE))
    found = [read_game(lines) for lines in groups]
    if found and junk:
        found[0].warnings |= ParseWarning.JUNK_BEFORE
    for game in found[1:]:
        game.warnings |= ParseWarning.LATER_GAME
    if len(found) > most:
        found[most:] = [NaiveGame(DropReason.TOO_LARGE)]
    for game in found:
        if game.drop:
            game.warnings = ParseWarning(0)
    return found or [NaiveGame(DropReason.NO_RECORD)]


def read_game(lines: list[bytes]) -> NaiveGame:
    end = next((k for k, line in enumerate(lines) if line.startswith((b"\\HE", b"\\GS"))), len(lines))
    first = next((k + 1 for k, line in enumerate(lines) if line.startswith(b"\\GS")), len(lines))
    last = next((k for k in range(first, len(lines)) if lines[k].startswith(b"\\")), len(lines))
    is_open = lines[0].startswith(b"\\HS")
    text = (b"" if is_open else b"\\HS\n") + b"".join(lines[:end]) + b"\n\\GS\n\\GE"
    (header,) = games_of(read_gib(as_block([text])))
    game = NaiveGame(header.drop, header.size)
    if not is_open:
        game.warnings |= ParseWarning.OPENING_MISSING
    if last == len(lines) or not lines[last].startswith(b"\\GE"):
        game.warnings |= ParseWarning.TRUNCATED
    stones = 99 if ParseWarning.HANDICAP_TEXT in header.warnings else header.handicap
    read_lines(game, lines[first:last], stones)
    return game


def read_lines(game: NaiveGame, lines: list[bytes], stones: int) -> None:
    if game.drop:
        return
    has_ini, colour = False, 0
    for line in lines:
        row = re.split(b"[\0-\x20]+", line.strip(SPACE))
        if row[0] == b"INI" and not has_ini and number(row, 3) >= 0:
            has_ini, stones = True, number(row, 3)
        if row[0] not in (b"STO", b"SKI"):
            continue
        colour = 3 - colour if colour else 2 if 2 <= stones <= 9 else 1
        point = game.size**2
        if row[0] == b"STO":
            recorded, x, y = (number(row, k) for k in (3, 4, 5))
            if ParseWarning.TRUNCATED in game.warnings and not line.endswith(b"\n") and y in (-1, 1):
                break
            is_valid = recorded in (1, 2) and 0 <= x < game.size and 0 <= y < game.size
            point = y * game.size + x if is_valid else NO_POINT
            colour = recorded if recorded in (1, 2) else colour
        game.moves.append(point | WHITE_BIT if colour == 2 else point)
    if len(game.moves) > 65_535:
        game.drop, game.size, game.moves = DropReason.TOO_LARGE, 0, []
        return
    game.handicap = stones if stones <= 9 else NO_HANDICAP
    if stones > 9:
        game.warnings |= ParseWarning.HANDICAP_TEXT
    elif stones == 1:
        game.warnings |= ParseWarning.HANDICAP_ONE
    if game.size == 19:
        game.setup = [STONES[int(k)] for k in SETUP.get(stones, "")]


def number(row: list[bytes], k: int) -> int:
    return int(row[k]) if k < len(row) and re.fullmatch(rb"\d{1,6}", row[k]) else -1


def compare_with_naive(members: list[bytes]) -> None:
    parsed = read_gib(as_block(members))
    for k, data in enumerate(members):
        assert games_of(parsed, k) == read_member(data)


PIECES = [
    b"\\HS\n", b"\\HE\n", b"\\GS\n", b"\\GE\n", b"\\RS\n", b"\\[", b"\\]\n", b"\\[GAMETAG=R3,G65,W3\\]\n",
    b"\\[GAMEINFOMAIN=GRLT:0,ZIPSU:35,LINE:9\\]\n", b"\\[GAMEINFOMAIN=LINE:26\\]", b"\\[GIBOKIND=Korea\\]\n",
    b"\\[GAMEBLACKNAME=\xb1\xe8 (9\xb4\xdc)\\]\n", b"INI 0 1 0 &4\n", b"INI 0 1 2 &4\n", b"INI 0 1 10 &4", b"INI\n",
    b"2 1 0\n", b"STO 0 2 1 3 15\n", b"STO 0 3 2 15 3 \r\n", b"STO 0 4 1 18 1", b"STO 0 5 2 19 3\n", b"STO 0 6 3 1 1\n",
    b"STO 1", b"SKI 0 7\n", b"SKI\n", b"REM 0 212 -1 -1 0 1 \n", b"\n", b"\r", b"\0", b" ", b"7", b"-1", b"x",
    b"\xef\xbb\xbf", b"\xff", b"1234567\n", b"SKIP\n",
]  # fmt: skip
