"""A naive SGF parser with regular expressions and lists: the reference for the compiled scanner."""

import re
from dataclasses import dataclass, field

from kifu.errors import DropReason
from kifu.point import ERASE_BIT, NO_POINT, WHITE_BIT
from kifu.records._sgf_tokens import GAME_INFO
from kifu.records.game import Game, game_at
from kifu.records.games import NO_HANDICAP, GameArrays, ParseWarning
from kifu.records.sgf import as_block, read_block, scan
from kifu.records.text import codec_named

LETTERS = b"abcdefghijklmnopqrstuvwxyz"
SPACE = bytes(range(33))

OPENING = re.compile(rb"\((?!\0)[\0-\x20]*;")
NO_OPENING = re.compile(rb";[\0-\x20]*(GM|FF)\[")
NO_SEMICOLON = re.compile(rb"\([\0-\x20]*(?=([A-Z]{1,2}[\0-\x20]*|[a-z]*[A-Z][a-z]*(?:[A-Z][a-z]*)?)(\[[^()]*))")
NESTED_ROOT = re.compile(rb"\([\0-\x20]*(;[\0-\x20]*)?(GM|FF)\[")
DOUBT = re.compile(rb"[\x80-\xff](\\|\][^\0-\x20;()\[A-Za-z])")
NAME = re.compile(rb"[A-Za-z][A-Za-z0-9]*")
PLAIN_VALUE = re.compile(rb"\[((?:\\.|[^\\\]])*)\]", re.DOTALL)
VALUES = {
    "plain": PLAIN_VALUE,
    "cp932": re.compile(rb"\[((?:[\\\x81-\x9f\xe0-\xff].|[^\\\]\x81-\x9f\xe0-\xff])*)\]", re.DOTALL),
    "cp950": re.compile(rb"\[((?:[\\\x81-\xff].|[^\\\]\x81-\xff])*)\]", re.DOTALL),
    "gb18030": re.compile(rb"\[((?:[\\\x81-\xff].|[^\\\]\x81-\xff])*)\]", re.DOTALL),
}
CHARACTER = {
    "cp932": rb"[\xa1-\xdf]|[\x81-\x9f\xe0-\xef\xfa-\xfc][\x40-\x7e\x80-\xfc]",
    "cp950": rb"[\x87-\xfe][\x40-\x7e\xa1-\xfe]",
    "gb18030": rb"[\x81-\xfe][0-9\x40-\x7e\x80-\xfe]",
}


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
    at, is_doubtful = 0, DOUBT.search(data) is not None
    while start := find_start(data, at):
        game = NaiveGame(start[0])
        if data[at : game.start].strip(SPACE):
            game.warnings |= ParseWarning.JUNK_BEFORE
        if games:
            game.warnings |= ParseWarning.LATER_GAME
        if data[game.start : game.start + 1] != b"(":
            game.warnings |= ParseWarning.OPENING_MISSING
        elif data[start[1] - 1 : start[1]] != b";":
            game.warnings |= ParseWarning.SEMICOLON_MISSING
        charset, is_other = charset_of(data, start[1], is_doubtful)
        if is_other:
            game.warnings |= ParseWarning.OTHER_CHARSET
        nodes = split_nodes(data, start[1], game, VALUES[charset])
        read_root(nodes[0], game)
        if not game.drop:
            for number, node in enumerate(nodes):
                read_node(node, number == 0, game)
        games.append(game)
        at = game.stop
    return games or [NaiveGame(len(data), len(data), drop=DropReason.NO_RECORD)]


def find_start(data: bytes, at: int) -> tuple[int, int] | None:
    """Return where the next game and its root's properties begin."""
    for start in range(at, len(data)):
        if found := OPENING.match(data, start):
            return start, found.end()
        if NO_OPENING.match(data, start):
            return start, start + 1
        found = NO_SEMICOLON.match(data, start)
        if found and found[2].count(b"[") >= 2 and 0 <= found[2].count(b"[") - found[2].count(b"]") <= 1:
            return start, found.end()
    return None


def is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def charset_of(data: bytes, root: int, is_doubtful: bool) -> tuple[str, bool]:
    """Return the key of `VALUES` for the game whose root's properties begin there, and whether CA names another one."""
    node = split_nodes(data[: root + 4096], root, NaiveGame(0), PLAIN_VALUE)[0]
    found = [values[0] for name, values in node if name == b"CA" and values]
    declared = codec_named(found[0]) if found else None
    declared = "cp932" if declared and re.match("shift_?jis", declared) else declared
    declared = "cp950" if declared == "big5hkscs" else declared if declared in VALUES else "plain"
    is_paired = declared in ("cp932", "cp950")
    if data.isascii() or not (is_doubtful or is_paired):
        return "plain", False
    length = 64
    ends, limit = list[int](), root
    while not ends and limit < len(data):
        length *= 2
        limit = min(root + length, len(data))
        ends = [end for charset in VALUES if (end := measure(data, root, limit, charset)[1]) is not None]
    limit = data.find(b"(", min(ends)) if ends else -1
    text = data[root : limit if limit >= 0 else len(data)]
    if text.isascii() or not (is_paired or DOUBT.search(text)):
        return "plain", False
    if is_utf8(text):
        return "plain", is_paired
    fitting = {}
    for charset in VALUES:
        score, _, chars, bad = measure(data, root, root + len(text), charset)
        if bad * (4 if charset == declared else 20) <= chars:
            fitting[charset] = score, charset == declared
    charset = max(fitting, key=fitting.__getitem__)
    return charset, charset != declared and (is_paired or charset != "plain")


def measure(data: bytes, root: int, limit: int, charset: str) -> tuple[int, int | None, int, int]:
    """Return the score of a reading by a charset, the end of the game, and the number of all and of bad characters."""
    at, depth, end, last = root, 1, None, "node"
    values, junk, chars, bad = 0, 0, 0, 0
    while at < limit:
        char = data[at : at + 1]
        before, at = at, at + 1
        kind = "junk"
        if char == b"[":
            value = VALUES[charset].match(data, before, limit)
            if value is None:
                break
            at = value.end()
            if last in ("name", "value"):
                kind = "value"
                values += 1
                if charset != "plain":
                    good = re.findall(CHARACTER[charset] + rb"|[\x80-\xff]|[\0-\x7f]", value[1], re.DOTALL)
                    chars += sum(each >= b"\x80" for each in good)
                    bad += sum(each >= b"\x80" and not re.fullmatch(CHARACTER[charset], each) for each in good)
        elif char == b"(":
            if depth and NESTED_ROOT.match(data, before):
                end, depth = before if end is None else end, 0
            depth += 1
            kind = "node"
        elif char in b");" and depth:
            depth -= char == b")"
            end = at if not depth and end is None else end
            kind = "node"
        elif name := re.compile(rb"[A-Za-z][A-Za-z0-9]*").match(data, before):
            at = name.end()
            rest = data[at:].lstrip(SPACE)[:1]
            kind = "name" if depth and rest in (b"", b"[") else "junk"
        elif not char.strip(SPACE):
            kind = last
        junk += kind == "junk" != last
        last = kind
    return 2 * values - 4 * junk + (end is not None), end, chars, bad


def split_nodes(
    data: bytes, at: int, game: NaiveGame, value_form: re.Pattern[bytes]
) -> list[list[tuple[bytes, list[bytes]]]]:
    """Return the main line's nodes of the game whose properties begin at `at`: properties with their values."""
    nodes: list[list[tuple[bytes, list[bytes]]]] = [[]]
    values: list[bytes] | None = None
    depth, opened = 1, 0  # parentheses; those since the last node
    on_main_line, in_node, is_closed = True, True, False
    while depth and at < len(data):
        char = data[at : at + 1]
        if char == b"[":
            if values is None if on_main_line else is_closed:
                game.warnings |= ParseWarning.TEXT_SKIPPED
            value = value_form.match(data, at)
            if value is None:
                at = len(data)
                break
            if values is not None:
                values.append(value[1])
            at = value.end()
            continue
        if char == b"(" and NESTED_ROOT.match(data, at):
            break
        if on_main_line and (name := NAME.match(data, at)):
            at = name.end()
            follows = data[at:].lstrip(SPACE)[:1]
            if not in_node and opened and follows == b"[":
                game.warnings |= ParseWarning.SEMICOLON_MISSING
                nodes.append([])
                in_node, opened = True, 0
            elif not in_node or follows not in (b"", b"["):
                game.warnings |= ParseWarning.TEXT_SKIPPED
            values = None
            if in_node:
                values = []
                nodes[-1].append((plain_name(name[0], game), values))
            continue
        if char.strip(SPACE):
            values = None
        if char == b";" and on_main_line:
            nodes.append([])
            in_node, opened = True, 0
        elif char == b"(":
            in_node = is_closed = False
            depth += 1
            opened += 1
            if not on_main_line:
                game.warnings |= ParseWarning.VARIATIONS
        elif char == b")":
            depth -= 1
            if on_main_line and opened and not in_node:
                opened -= 1
                game.warnings |= ParseWarning.EMPTY_VARIATION
            else:
                on_main_line, is_closed = False, True
        elif char.strip(SPACE) and (on_main_line or is_closed or not re.match(rb"[A-Za-z0-9;]", char)):
            game.warnings |= ParseWarning.TEXT_SKIPPED
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
    handicaps = [value for name, value in first if name == b"HA"] or [value for name, value in first if name == b"HD"]
    if handicaps:
        read_handicap(handicaps[0], game)
    for name, value in first:
        if name == b"PL":
            game.to_play = {b"B": 1, b"b": 1, b"1": 1, b"W": 2, b"w": 2, b"2": 2}.get(
                value.strip(SPACE)[:1], game.to_play
            )
    charsets = [value for name, value in first if name == b"CA"]
    if charsets and codec_named(charsets[0]) is None:
        game.warnings |= ParseWarning.BAD_CHARSET


def read_handicap(value: bytes, game: NaiveGame) -> None:
    game.handicap = number(value)
    if game.handicap is None:
        game.warnings |= ParseWarning.HANDICAP_TEXT
    if game.handicap == 1:
        game.warnings |= ParseWarning.HANDICAP_ONE


def read_node(node: list[tuple[bytes, list[bytes]]], in_root: bool, game: NaiveGame) -> None:
    ply = len(game.moves)
    kinds: dict[int, int] = {}
    forked = []
    if any(name in (b"AB", b"AW", b"AE") and values for name, values in node):
        for own, setup in ((b"B", b"AB"), (b"W", b"AW")):
            given = [values for name, values in node if name == own and values]
            several = [values for values in given if len(values) > 1]
            if several:
                move(squeeze(given[0][0]), game)  # for its warnings
                game.warnings |= ParseWarning.MANY_MOVE_VALUES
                game.warnings |= ParseWarning.TWO_MOVES_IN_NODE if len(given) > 1 else ParseWarning(0)
                forked.append((setup, several[-1]))
                node = [(name, [] if name == own else values) for name, values in node]
    for name, values in [*node, *forked]:
        if values and not in_root and name.decode() in GAME_INFO:
            game.warnings |= ParseWarning.INFO_AFTER_ROOT
            if name == b"HA" and game.handicap is None and not game.warnings & ParseWarning.HANDICAP_TEXT:
                read_handicap(values[0], game)
        bits = {b"AB": 0, b"AW": WHITE_BIT, b"AE": ERASE_BIT}.get(name)
        if bits is None:
            continue
        if values and not in_root:
            game.warnings |= ParseWarning.SETUP_AFTER_ROOT
        for value in values:
            for point in points(squeeze(value), game):
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
            found.append(move(squeeze(given[0][0]), game) | bits)
        if len(given) > 1:
            game.warnings |= ParseWarning.TWO_MOVES_IN_NODE
    if found:
        game.moves.append(found[0])
        if in_root:
            game.warnings |= ParseWarning.MOVE_IN_ROOT
    if len(found) > 1:
        game.warnings |= ParseWarning.TWO_MOVES_IN_NODE


def squeeze(value: bytes) -> bytes:
    """Remove white space, and backslashes before line breaks."""
    return re.sub(rb"\\(?=[\r\n])", b"", value).translate(None, SPACE)


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
    if value.lower() in (b"pass", b"--", b"``"):
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
    *(b"PB[\x83]]", b"C[\xa4]]", b"C[\x83\\]]", b"C[\\]]", b"C[\x95\\];", b"\xe9\x9f]", b"\xc3\xa9\\", b"\x81\x308"),
    *(b"()", b"(GM[1]SZ[9]", b"(B[cc]", b"(AW [gg]", b"(GaMe[1]b[aa]", b"[``]", b"[c\nc]", b";PB[x]HA[3]", b"CA[gbk]"),
]
