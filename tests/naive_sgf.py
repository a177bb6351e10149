"""A naive SGF parser with regular expressions and lists: the reference for the compiled scanner."""

import re
from dataclasses import dataclass, field

from kifu.errors import DropReason
from kifu.point import ERASE_BIT, NO_POINT, WHITE_BIT
from kifu.records.game import Game, game_at
from kifu.records.games import NO_HANDICAP, GameArrays, ParseWarning
from kifu.records.sgf import as_block, read_block, scan
from kifu.records.text import codec_named

LETTERS = b"abcdefghijklmnopqrstuvwxyz"
SPACE = bytes(range(33))

START = re.compile(rb"(\((?!\0)[\0-\x20]*)?(;)([\0-\x20]*(?:GM|FF)\[)?")
NESTED_ROOT = re.compile(rb"\([\0-\x20]*;[\0-\x20]*(GM|FF)\[")
NAME = re.compile(rb"[A-Za-z][A-Za-z0-9]*")
VALUE = {
    "cp932": re.compile(rb"\[((?:[\\\x81-\x9f\xe0-\xff].|[^\\\]\x81-\x9f\xe0-\xff])*)\]", re.DOTALL),
    "cp950": re.compile(rb"\[((?:[\\\x81-\xff].|[^\\\]\x81-\xff])*)\]", re.DOTALL),
}
PLAIN_VALUE = re.compile(rb"\[((?:\\.|[^\\\]])*)\]", re.DOTALL)


@dataclass
class NaiveGame:
    start: int
    stop: int = 0
    width: int = 0
    height: int = 0
    moves: list[int] = field(default_factory=list)
    setup: list[tuple[int, int]] = field(default_factory=list)
    root_setup: int = 0
    to_play: int = 0
    handicap: int | None = None
    warnings: ParseWarning = field(default_factory=lambda: ParseWarning(0))
    drop: DropReason = DropReason.KEPT


def read_member(data: bytes) -> list[NaiveGame]:
    games: list[NaiveGame] = []
    at = 0
    while start := find_start(data, at):
        game = NaiveGame(start.start())
        if data[at : game.start].strip(SPACE):
            game.warnings |= ParseWarning.JUNK_BEFORE
        if games:
            game.warnings |= ParseWarning.LATER_GAME
        if start[1] is None:
            game.warnings |= ParseWarning.OPENING_MISSING
        read_game(data, start.end(2), game)
        games.append(game)
        at = game.stop
    return games or [NaiveGame(len(data), len(data), drop=DropReason.NO_RECORD)]


def find_start(data: bytes, at: int) -> re.Match[bytes] | None:
    return next((m for m in START.finditer(data, at) if m[1] is not None or m[3]), None)


def read_game(data: bytes, at: int, game: NaiveGame) -> None:
    nodes = split_nodes(data, at, game)
    read_root(nodes[0], game)
    if not game.drop:
        for number, node in enumerate(nodes):
            read_node(node, number == 0, game)


def split_nodes(data: bytes, at: int, game: NaiveGame) -> list[list[tuple[bytes, list[bytes]]]]:
    """Return the main line's nodes of the game whose first ; is before `at`: properties with their values."""
    nodes: list[list[tuple[bytes, list[bytes]]]] = [[]]
    values: list[bytes] | None = None
    depth, on_main_line, in_node = 1, True, True
    value_form = PLAIN_VALUE
    while depth and at < len(data):
        char = data[at : at + 1]
        if char == b"[":
            value = value_form.match(data, at)
            if value is None:
                at = len(data)
                break
            if values is not None:
                values.append(value[1])
                node = nodes[-1]
                is_first_ca = sum(len(v) for name, v in node if name == b"CA") == 1 and node[-1][0] == b"CA"
                if len(nodes) == 1 and is_first_ca:
                    value_form = VALUE.get(codec_named(value[1]) or "", PLAIN_VALUE)
            at = value.end()
            continue
        if char in b"()" and char == b"(" and NESTED_ROOT.match(data, at):
            break
        if on_main_line and in_node and (name := NAME.match(data, at)):
            values = []
            nodes[-1].append((plain_name(name[0], game), values))
            at = name.end()
            continue
        if char.strip(SPACE):
            values = None
        if char == b";" and on_main_line:
            nodes.append([])
            in_node = True
        elif char == b"(":
            in_node = False
            depth += 1
            if not on_main_line:
                game.warnings |= ParseWarning.VARIATIONS
        elif char == b")":
            on_main_line = False
            depth -= 1
        at += 1
    game.stop = at
    if depth:
        game.warnings |= ParseWarning.TRUNCATED
    return nodes


def plain_name(name: bytes, game: NaiveGame) -> bytes:
    if re.search(rb"[a-z]", name):
        game.warnings |= ParseWarning.LOWER_CASE_NAME
    if re.search(rb"[0-9]", name):
        return b"?"
    return re.sub(rb"[a-z]", b"", name) or name.upper()


def number(text: bytes) -> int | None:
    text = text.strip(SPACE)
    return int(text) if re.fullmatch(rb"[+-]?[0-9]{1,4}", text) else None


def read_root(node: list[tuple[bytes, list[bytes]]], game: NaiveGame) -> None:
    first = [(name, values[0]) for name, values in node if values]
    for value in [value.strip(SPACE) for name, value in first if name == b"SZ"]:
        if not value or game.width or game.drop:
            continue
        sides = [number(side) for side in value.split(b":", 1)]
        if all(side is not None and 1 <= side <= 25 for side in sides):
            game.width, game.height = sides[0], sides[-1]
        else:
            game.drop = DropReason.BAD_SIZE
        if len(sides) == 2 and sides[0] == sides[1] and sides[0] is not None:
            game.warnings |= ParseWarning.SIZE_PAIR
    if not game.width and not game.drop:
        game.width = game.height = 19
        game.warnings |= ParseWarning.SIZE_MISSING
    if any(name == b"GM" and value.strip(SPACE) and number(value) != 1 for name, value in first):
        game.drop = DropReason.NOT_GO
    handicaps = [value for name, value in first if name == b"HA"]
    if handicaps:
        game.handicap = number(handicaps[0])
        if game.handicap is None:
            game.warnings |= ParseWarning.HANDICAP_TEXT
        if game.handicap == 1:
            game.warnings |= ParseWarning.HANDICAP_ONE
    for name, value in first:
        if name == b"PL":
            game.to_play = {b"B": 1, b"b": 1, b"1": 1, b"W": 2, b"w": 2, b"2": 2}.get(
                value.strip(SPACE)[:1], game.to_play
            )
    charsets = [value for name, value in first if name == b"CA"]
    if charsets and codec_named(charsets[0]) is None:
        game.warnings |= ParseWarning.BAD_CHARSET


def read_node(node: list[tuple[bytes, list[bytes]]], in_root: bool, game: NaiveGame) -> None:
    ply = len(game.moves)
    kinds: dict[int, int] = {}
    forked = []
    if any(name in (b"AB", b"AW", b"AE") and values for name, values in node):
        for own, setup in ((b"B", b"AB"), (b"W", b"AW")):
            given = [values for name, values in node if name == own and values]
            several = [values for values in given if len(values) > 1]
            if several:
                move(given[0][0].strip(SPACE), game)  # for its warnings
                game.warnings |= ParseWarning.MANY_MOVE_VALUES
                game.warnings |= ParseWarning.TWO_MOVES_IN_NODE if len(given) > 1 else ParseWarning(0)
                forked.append((setup, several[-1]))
                node = [(name, [] if name == own else values) for name, values in node]
    for name, values in [*node, *forked]:
        bits = {b"AB": 0, b"AW": WHITE_BIT, b"AE": ERASE_BIT}.get(name)
        if bits is None:
            continue
        if values and not in_root:
            game.warnings |= ParseWarning.SETUP_AFTER_ROOT
        for value in values:
            for point in points(value.strip(SPACE), game):
                if kinds.get(point, bits) != bits and in_root:
                    game.warnings |= ParseWarning.SETUP_TWICE
                if kinds.get(point) != bits:
                    game.setup.append((ply, point | bits))
                kinds[point] = bits
    if in_root:
        game.root_setup = len(game.setup)
    found = []
    for name, bits in ((b"B", 0), (b"W", WHITE_BIT)):
        given = [values for other, values in node if other == name and values]
        if any(len(values) > 1 for values in given):
            game.warnings |= ParseWarning.MANY_MOVE_VALUES
        if given:
            found.append(move(given[0][0].strip(SPACE), game) | bits)
        if len(given) > 1:
            game.warnings |= ParseWarning.TWO_MOVES_IN_NODE
    if found:
        game.moves.append(found[0])
        if in_root:
            game.warnings |= ParseWarning.MOVE_IN_ROOT
    if len(found) > 1:
        game.warnings |= ParseWarning.TWO_MOVES_IN_NODE


def point_of(text: bytes, game: NaiveGame) -> tuple[int, int] | None:
    x, y = LETTERS.find(text[:1]), LETTERS.find(text[1:])
    return (x, y) if len(text) == 2 and 0 <= x < game.width and 0 <= y < game.height else None


def move(value: bytes, game: NaiveGame) -> int:
    if value == b"":
        return game.width * game.height
    if point := point_of(value, game):
        return point[1] * game.width + point[0]
    if value == b"tt" and game.width <= 19 and game.height <= 19:
        game.warnings |= ParseWarning.PASS_AS_TT
        return game.width * game.height
    if value.lower() in (b"pass", b"--"):
        game.warnings |= ParseWarning.PASS_AS_WORD
        return game.width * game.height
    return NO_POINT


def points(value: bytes, game: NaiveGame) -> list[int]:
    if not value:
        return []
    first, last = (value.split(b":", 1) * 2)[:2]
    left_top, right_bottom = point_of(first, game), point_of(last, game)
    if left_top and right_bottom:
        (left, top), (right, bottom) = left_top, right_bottom
        if left <= right and top <= bottom:
            return [y * game.width + x for y in range(top, bottom + 1) for x in range(left, right + 1)]
    game.warnings |= ParseWarning.BAD_SETUP_POINT
    return []


def games_of(data: bytes) -> list[Game]:
    """Return the games, dropped ones included."""
    parsed = read_block(as_block([data]))
    return [game_at(parsed, g) for g in range(len(parsed.games))]


def compare_with_naive(data: bytes) -> None:
    games, expected = scan(as_block([data])), read_member(data)
    if DropReason.TOO_LARGE in games.drop:  # the naive parser has no limits
        return
    found = [naive_of(games, g) for g in range(len(games))]
    for game in expected:
        if game.drop:  # the warnings up to there are undefined
            game.warnings = ParseWarning(0)
            game.moves, game.setup, game.root_setup = [], [], 0
    assert found == expected


def naive_of(games: GameArrays, g: int) -> NaiveGame:
    setup = slice(games.setup_offset[g], games.setup_offset[g + 1])
    drop = DropReason(games.drop[g])
    return NaiveGame(
        start=games.start[g],
        stop=games.stop[g],
        width=games.width[g],
        height=games.height[g],
        moves=games.moves[games.move_offset[g] : games.move_offset[g + 1]].tolist(),
        setup=list(zip(games.setup_ply[setup].tolist(), games.setup[setup].tolist())),
        root_setup=games.root_setup[g],
        to_play=games.to_play[g],
        handicap=None if games.handicap[g] == NO_HANDICAP else games.handicap[g],
        warnings=ParseWarning(0) if drop else ParseWarning(int(games.warnings[g])),
        drop=drop,
    )


PIECES = [
    *(b"(", b")", b";", b"[", b"]", b"\\", b":", b" ", b"\n", b"x", b"B", b"W", b"3", b"\x83", b"\xff"),
    *(b"(;", b"(;GM[1]", b";FF[4]", b"GM[2]", b"SZ[9]", b"SZ[5:4]", b"SZ[", b"HA[2]", b"HA[ 1]", b"PL[W]"),
    *(b";B[bb]\n", b";W[cc]", b"W[aa]", b"B[", b"[]", b"[tt]", b"White[dd]", b"b[ee]", b"aa", b"tt", b"zz"),
    *(b"[--]", b"[ PASS]", b"pass"),
    *(b"AB[", b"AE[aa:bb]", b"AW[ab][ba]", b"AB[bb:aa]", b"CA[big5]", b"CA[Shift_JIS]", b"CA[utf-8]", b"CA[x]"),
    *(b"PB[\x83]]", b"C[\xa4]]", b"C[\x83\\]]", b"C[\\]]"),
]
