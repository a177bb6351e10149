"""A naive SGF parser with regular expressions and lists: the reference for the compiled scanner."""

import itertools
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
OF_A_ROOT = {*GAME_INFO, "AP", "CA", "FF", "GM", "ST", "SZ"}
SEARCHED = 4096  # bytes in which the end of a value is sought

BLANKS = re.compile(rb"[\0-\x20,]*")
SPACES = re.compile(rb"[\0-\x20]*")
OPENING = re.compile(rb"\((?!\0)[\0-\x20]*;")
NO_OPENING = re.compile(rb";[\0-\x20]*(GM|FF)\[")
NO_SEMICOLON = re.compile(rb"\([\0-\x20]*(?=([A-Z]{1,2}[\0-\x20]*|[a-z]*[A-Z][a-z]*(?:[A-Z][a-z]*)?)(\[[^()]*))")
ANOTHER_ROOT = re.compile(rb"\([\0-\x20]*(;[\0-\x20]*)?(GM|FF)\[")
ROOT_VALUE = re.compile(rb"[\0-\x20]*([A-Za-z]*)[\0-\x20]*\[[^][\\\0-\x1f]*\]")
SEMICOLON = re.compile(rb";|\xef\xbc\x9b|\xa3\xbb")
NODE_END = re.compile(rb"[()]|\Z|" + SEMICOLON.pattern)
DOUBT = re.compile(rb"[\x80-\xff](\\|\][^\0-\x20;()\[A-Za-z])")
NAME = re.compile(rb"[A-Za-z][A-Za-z0-9]*")
LEAD = {"plain": rb"", "cp932": rb"\x81-\x9f\xe0-\xff", "cp950": rb"\x81-\xff", "gb18030": rb"\x81-\xff"}
JAPANESE = rb"\x1b\$[\x21-\x7e]*(?=\x1b)"  # of ISO-2022-JP
UNITS = {charset: rb"%s|[\\%s].|[^\]]" % (JAPANESE, lead) for charset, lead in LEAD.items()}  # of a value
UNIT = {charset: re.compile(unit + rb"|\]", re.DOTALL) for charset, unit in UNITS.items()}
VALUES = {charset: re.compile(rb"\[((?>%s)*+)\]" % unit, re.DOTALL) for charset, unit in UNITS.items()}
CHARACTER = {
    "cp932": rb"[\xa1-\xdf]|[\x81-\x9f\xe0-\xef\xfa-\xfc][\x40-\x7e\x80-\xfc]",
    "cp950": rb"[\x87-\xfe][\x40-\x7e\xa1-\xfe]",
    "gb18030": rb"[\x81-\xfe][0-9\x40-\x7e\x80-\xfe]",
}

Node = list[tuple[bytes, list[bytes]]]


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

    def warn(self, warning: ParseWarning, is_set: object = True) -> None:
        self.warnings |= warning if is_set else ParseWarning(0)


def read_member(data: bytes) -> list[NaiveGame]:
    games: list[NaiveGame] = []
    at, is_doubtful = 0, DOUBT.search(data) is not None
    while start := find_start(data, at):
        game, is_open = NaiveGame(start[0]), data[start[0] : start[0] + 1] == b"("
        charset, is_other = charset_of(data, start[1], is_doubtful)
        game.warn(ParseWarning.JUNK_BEFORE, data[at : game.start].strip(SPACE))
        game.warn(ParseWarning.LATER_GAME, games)
        game.warn(ParseWarning.OPENING_MISSING, not is_open)
        game.warn(ParseWarning.SEMICOLON_MISSING, is_open and data[start[1] - 1 : start[1]] != b";")
        game.warn(ParseWarning.OTHER_CHARSET, is_other)
        nodes = Reader(data, start[1], game, charset).read()
        read_root(nodes, game)
        if game.drop:
            game.warnings = ParseWarning(0)  # up to there they are undefined
        else:
            for number, node in enumerate(nodes):
                read_node(node, number == 0, game)
        games.append(game)
        at = game.stop
    return games or [NaiveGame(len(data), len(data), drop=DropReason.NO_RECORD)]


def find_start(data: bytes, at: int) -> tuple[int, int] | None:
    """Return where the next game and its root's properties begin."""
    for start in range(at, len(data)):
        if found := OPENING.match(data, start):
            if not is_smiley(data, found.end()):
                return start, found.end()
        elif NO_OPENING.match(data, start):
            return start, start + 1
        found = NO_SEMICOLON.match(data, start)
        if found and found[2].count(b"[") >= 2 and 0 <= found[2].count(b"[") - found[2].count(b"]") <= 1:
            return start, found.end()
    return None


def is_smiley(data: bytes, at: int) -> bool:
    """Return whether a (; that ends there begins no game."""
    text = data[at:].lstrip(SPACE)
    if text[:1] == b"(" and begins_another(data, len(data) - len(text)):
        return True
    if root := re.match(rb"\([\0-\x20]*;[\0-\x20]*([A-Za-z]+)[\0-\x20]*\[", text):
        return plain_name(root[1]).decode() in OF_A_ROOT
    if text[:1] in (b";", b")", b"(") or re.match(rb"[A-Za-z][A-Za-z0-9]*[\0-\x20]*\[", text):
        return False
    return re.match(rb"[^()]*[A-Z]\[", text) is None


def begins_another(data: bytes, at: int) -> bool:
    return ANOTHER_ROOT.match(data, at) is not None or begins_in_a_line(data, at)


def begins_in_a_line(data: bytes, at: int) -> bool:
    """Return whether another game begins there, even within a value."""
    opening = OPENING.match(data, at)
    if opening is None or data[:at].rstrip(b" \t")[-1:] not in (b"\r", b"\n"):
        return False
    at, name = opening.end(), b""
    for _ in range(16):
        value = ROOT_VALUE.match(data, at)
        if value is None or not (name or value[1]):
            return False
        name, at = plain_name(value[1]) if value[1] else name, value.end()
        if name in (b"GM", b"FF"):
            return True
    return False


def charset_of(data: bytes, root: int, is_doubtful: bool) -> tuple[str, bool]:
    """Return the key of `VALUES` for the game whose root's properties begin there, and whether CA names another one."""
    if data.isascii():
        return "plain", False
    node = Reader(data[: root + 4096], root, NaiveGame(0), "plain").read()[0]
    found = [values[0] for name, values in node if name == b"CA" and values]
    declared = codec_named(found[0]) if found else None
    declared = "cp932" if declared and re.match("shift_?jis", declared) else declared
    declared = "cp950" if declared == "big5hkscs" else declared if declared in VALUES else "plain"
    is_paired = declared in ("cp932", "cp950")
    if not (is_doubtful or is_paired):
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
    if text.decode(errors="ignore").encode() == text:
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
            stop = value.end() if value else limit
            cut = [k for k in range(before, stop) if data[k : k + 1] == b"(" and begins_in_a_line(data, k)]
            if cut and depth:
                at, depth, end = cut[0], 0, cut[0] if end is None else end
                continue
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
            if depth and begins_another(data, before):
                end, depth = before if end is None else end, 0
            depth += 1
            kind = "node"
        elif char in b");" and depth:
            depth -= char == b")"
            end = at if not depth and end is None else end
            kind = "node"
        elif name := NAME.match(data, before):
            at = name.end()
            rest = data[at:].lstrip(SPACE)[:1]
            kind = "name" if depth and rest in (b"", b"[") else "junk"
        elif not char.strip(SPACE):
            kind = last
        junk += kind == "junk" != last
        last = kind
    return 2 * values - 4 * junk + (end is not None), end, chars, bad


@dataclass(eq=False)
class Property:
    name: bytes
    is_direct: bool  # the name directly follows ; ] ( or a line break
    after_text: bool  # in its node
    values: list[bytes] = field(default_factory=list)
    stop: int = 0  # of the last value

    def is_move(self) -> bool:
        return self.name in (b"B", b"W") and bool(self.values)


@dataclass
class FoundNode:
    properties: list[Property] = field(default_factory=list)
    has_text: bool = False


class Reader:
    """One pass over a game, by the rules of docs/leniency.md."""

    def __init__(self, data: bytes, at: int, game: NaiveGame, charset: str) -> None:
        self.data, self.at, self.game, self.charset = data, at, game, charset
        self.has_long_names = False
        if (second := re.compile(rb"[\0-\x20]*;").match(data, at)) and self.is_of_a_root(second.end()):
            self.at = second.end()
        self.at = self.after(BLANKS, self.at)
        first = NAME.match(data, self.at)
        self.has_long_names = first is not None and re.search(rb"[a-z]", first[0]) is not None
        self.nodes = [FoundNode()]
        self.values: list[bytes] | None = None  # of the last property
        self.depth = 1  # of parentheses
        self.opened: list[bool] = []  # parentheses since the last node: whether each is text
        self.on_main_line = self.in_node = True
        self.is_closed = self.had_variation = False
        self.after_text = False

    def skip_text(self) -> None:
        self.game.warn(ParseWarning.TEXT_SKIPPED)
        self.values, self.after_text = None, True
        if self.on_main_line:
            self.nodes[-1].has_text = True

    def read(self) -> list[Node]:
        while self.depth and self.at < len(self.data) and not begins_another(self.data, self.at):
            self.step()
            self.at = self.after(BLANKS, self.at) if self.depth else self.at
        self.game.stop = self.at
        self.game.warn(ParseWarning.TRUNCATED, self.depth > 0)
        return [part for node in self.nodes for part in self.split(node)]

    def split(self, node: FoundNode) -> list[Node]:
        """Return a node for each move."""
        found = node.properties
        if any(each.name in (b"AB", b"AW", b"AE") and each.values for each in found):
            for each in [each for each in found if each.is_move() and len(each.values) > 1]:
                each.name = b"fork " + each.name  # its stones are setup
                self.game.warn(ParseWarning.MANY_MOVE_VALUES)
        moves = [k for k, each in enumerate(found) if each.is_move()]
        starts = [0]
        for before, k in itertools.pairwise(moves if all(len(found[k].values) == 1 for k in moves) else []):
            is_splittable = node is not self.nodes[0] or len(starts) > 1 or self.only_moves_follow(found[k].stop)
            if found[k].name != found[before].name and not found[k].after_text and is_splittable:
                self.game.warn(ParseWarning.TWO_MOVES_IN_NODE)
                starts.append(k)
        return [self.clean(node, found[start:stop]) for start, stop in itertools.pairwise([*starts, len(found)])]

    def only_moves_follow(self, at: int) -> bool:
        """Return whether a move, a node or a parenthesis follows a value, or nothing."""
        at = self.after(BLANKS, at)
        if name := NAME.match(self.data, at):
            return plain_name(name[0]) in (b"B", b"W")
        return NODE_END.match(self.data, at) is not None

    def clean(self, node: FoundNode, part: list[Property]) -> Node:
        """Return the properties of a part with a move, without further moves, and what is likely text."""
        part = [each for each in part if each.values]
        if node.has_text and len(node.properties) <= 256:
            direct = {each.name for each in part if each.is_direct}
            part = [each for each in part if each.is_direct or each.name not in direct]
        moves = [each for each in part if each.is_move()]
        self.game.warn(ParseWarning.MOVE_SKIPPED, len(moves) > 1)
        self.game.warn(ParseWarning.MANY_MOVE_VALUES, any(len(each.values) > 1 for each in moves))
        kept = sorted((each for each in part if each not in moves[1:]), key=lambda each: b"fork" in each.name)
        return [(each.name.replace(b"fork ", b"A"), each.values) for each in kept]

    def step(self) -> None:
        char = self.data[self.at : self.at + 1]
        if char == b"[":
            self.read_value()
        elif semicolon := SEMICOLON.match(self.data, self.at):
            self.at = semicolon.end()
            self.values, self.after_text = None, False
            if self.on_main_line:
                self.start_node()
        elif char == b"(" and self.on_main_line and self.in_node and not self.opens_node(self.at):
            self.at += 1
            self.opened = [each for each in self.opened if not each] + [True]
            self.skip_text()
        elif char == b"(":
            self.at += 1
            self.values, self.after_text = None, False
            self.opened = [each for each in self.opened if not each] + [False]
            self.in_node = self.is_closed = False
            self.depth += 1
            self.game.warn(ParseWarning.VARIATIONS, not self.on_main_line)
        elif char == b")":
            self.at += 1
            self.close()
        elif self.on_main_line and (name := NAME.match(self.data, self.at)):
            self.at = name.end()
            self.read_name(name)
        else:
            self.at += 1
            if self.on_main_line or self.is_closed or not re.match(rb"[A-Za-z0-9]", char):
                self.skip_text()

    def start_node(self) -> None:
        self.nodes.append(FoundNode())
        self.had_variation |= not all(self.opened)
        self.in_node, self.opened = True, []

    def is_of_a_root(self, at: int) -> bool:
        at = self.after(BLANKS, at)
        name = NAME.match(self.data, at)
        return name is not None and self.is_name(at) and plain_name(name[0]).decode() in OF_A_ROOT

    def after(self, blanks: re.Pattern[bytes], at: int) -> int:
        return blanks.match(self.data, at).end()

    def is_name(self, at: int) -> bool:
        """Return whether a name with a value begins there."""
        name = re.compile(rb"([A-Za-z][A-Za-z0-9]*)([\0-\x20]*)\[").match(self.data, at)
        if name and re.search(rb"[a-z]", name[1]) and not self.has_long_names:
            return self.data[at - 1 : at] in (b"]", b";", b"(") and not name[2]
        return name is not None

    def opens_node(self, at: int) -> bool:
        at = self.after(SPACES, at + 1)
        return NODE_END.match(self.data, at) is not None or self.is_name(at)

    def sgf_follows(self, at: int) -> bool:
        at = self.after(BLANKS, at)
        char = self.data[at : at + 1]
        if char == b")":
            return re.compile(rb"[\0-\x20]*\]").match(self.data, at + 1) is None
        if char == b"(":
            return self.opens_node(at)
        return char == b"[" or NODE_END.match(self.data, at) is not None or self.is_name(at)

    def read_value(self) -> None:
        if self.values is None if self.on_main_line else self.is_closed:
            self.skip_text()
            self.opened = [each for each in self.opened if not each]
        begin, at, brackets = self.at + 1, self.at + 1, 0
        parentheses: list[bool] = []  # for each open one, whether it begins with (;
        while self.data[at : at + 1] != b"]":
            unit = UNIT[self.charset].match(self.data, at)
            if unit is None or begins_in_a_line(self.data, at):
                self.at = at
                return
            brackets += (unit[0] == b"[") - (unit[0] == b"\\]" and brackets > 0)
            self.count(parentheses, unit)
            at = unit.end()
        follows = self.sgf_follows(at + 1)
        char = self.data[self.after(BLANKS, at + 1) :][:1]
        if brackets and (any(parentheses) or char == b"(" or (parentheses and char == b")")):
            follows = False
        self.after_text = False
        is_first = not self.on_main_line or self.values == []
        end, self.at = at, at + 1
        if (brackets and (is_first or char != b"[")) or not follows:
            later = self.find_end(at, brackets, follows, parentheses if brackets else [])
            if later is not None:
                self.at = later + 1
                if brackets and is_first:
                    end = later
                    self.game.warn(ParseWarning.UNESCAPED_BRACKET)
            elif brackets and is_first:
                self.game.warn(ParseWarning.UNESCAPED_BRACKET, re.search(rb"[A-Z]\[", self.data[begin:end]))
        last = self.nodes[-1].properties[-1] if self.values is not None else None
        if last:
            last.values.append(self.data[begin:end])
            last.stop = self.at
        if self.at > end + 1:
            if last and is_first and not last.is_direct:
                self.nodes[-1].properties.pop()
            elif last:
                last.after_text = True
            self.skip_text()

    def count(self, parentheses: list[bool], unit: re.Match[bytes]) -> None:
        if unit[0] == b"(":
            parentheses.append(OPENING.match(self.data, unit.start()) is not None)
        elif unit[0] == b")" and parentheses:
            parentheses.pop()

    def find_end(self, first: int, brackets: int, followed: bool, parentheses: list[bool]) -> int | None:
        """Return the later `]` that ends a value whose first one stands at `first`."""
        own = [True] + [False] * (brackets - 1) if brackets else []  # for each open bracket, whether it is the value's
        at, last = first + 1, b"]"
        while at < min(len(self.data), first + SEARCHED):
            unit = UNIT[self.charset].match(self.data, at)
            char = unit[0]
            self.count(parentheses, unit)
            if char == b"[":
                own.append(False)
            elif char == b"]":
                if (not own or own.pop()) and self.sgf_follows(at + 1):
                    return at
            elif char == b"(":
                if begins_another(self.data, at) or (followed and parentheses[-1]):
                    return None
            elif char == b";":
                is_node = last == b"]" or (not brackets and self.is_name(self.after(SPACES, at + 1)))
                if followed or (is_node and not any(parentheses)):
                    return None
            if char.strip(SPACE):
                last = char
            at = unit.end()
        return None

    def read_name(self, name: re.Match[bytes]) -> None:
        is_name = self.is_name(name.start())
        if self.opened and not self.in_node and is_name:
            self.game.warn(ParseWarning.SEMICOLON_MISSING)
            self.start_node()
        elif not self.in_node or not (is_name or self.at == len(self.data)):
            self.skip_text()
            return
        is_direct = self.data[name.start() - 1 : name.start()] in (b";", b"]", b"(", b"\r", b"\n")
        self.game.warn(ParseWarning.LOWER_CASE_NAME, is_name and re.search(rb"[a-z]", name[0]))
        found = Property(plain_name(name[0]), is_direct, self.nodes[-1].has_text)
        self.nodes[-1].properties.append(found)
        self.values, self.after_text = found.values, False
        self.opened = []

    def close(self) -> None:
        self.values = None
        at = self.after(SPACES, self.at)
        may_go_on = self.depth == 1 and (len(self.nodes) == 1 or not self.is_of_a_root(at))
        is_before_property = self.is_name(at) and (may_go_on or self.after_text)
        is_text = self.opened.pop() if self.on_main_line and self.opened else None
        is_before_bracket = self.data[self.after(SPACES, self.at) :][:1] == b"]"
        if is_text or (is_text is None and self.on_main_line and (is_before_property or is_before_bracket)):
            self.skip_text()
            return
        self.after_text = False
        self.depth -= 1
        if is_text is not None:
            self.game.warn(ParseWarning.EMPTY_VARIATION)
        elif self.depth or not self.goes_on():
            self.on_main_line, self.is_closed = False, True
        else:
            self.depth = 1
            self.game.warn(ParseWarning.CLOSED_EARLY)
            if self.had_variation:
                self.on_main_line, self.is_closed = False, True

    def goes_on(self) -> bool:
        """Skip text up to a node that follows the last parenthesis. Return whether there is one."""
        text = re.compile(rb"[^(]*").match(self.data, self.at)
        for semicolon in SEMICOLON.finditer(self.data, self.at, text.end() if text else 0):
            at = self.after(SPACES, semicolon.end())
            if not self.is_name(at):
                continue
            if self.is_of_a_root(at):
                return False
            if b"[" in self.data[self.at : at]:
                self.game.warn(ParseWarning.CLOSED_EARLY | ParseWarning.TEXT_SKIPPED)
                return False
            self.at = semicolon.end()
            self.start_node()
            return True
        return False


def plain_name(name: bytes) -> bytes:
    if re.search(rb"[0-9]", name):
        return b"?"
    return re.sub(rb"[a-z]", b"", name) or name.upper()


def number(text: bytes) -> int | None:
    text = text.strip(SPACE).translate(None, b"\r\n")
    return int(text) if re.fullmatch(rb"[+-]?[0-9]{1,4}", text) else None


def read_root(nodes: list[Node], game: NaiveGame) -> None:
    first = [(name, values[0]) for name, values in nodes[0] if values]
    for node in nodes:
        given = [values[0].strip(SPACE) for name, values in node if name == b"SZ"]
        game.warn(ParseWarning.INFO_AFTER_ROOT, given and node is not nodes[0])
        if any(given):
            read_size(next(filter(None, given)), game)
        if any(given) or any(name in (b"B", b"W", b"AB", b"AW", b"AE") for name, _ in node):
            break
    if not game.width and not game.drop:
        game.width = game.height = 19
        game.warn(ParseWarning.SIZE_MISSING)
    if any(name == b"GM" and value.strip(SPACE) and number(value) != 1 for name, value in first):
        game.drop = DropReason.NOT_GO
    handicaps = [value for name, value in first if name == b"HA"] or [value for name, value in first if name == b"HD"]
    if handicaps:
        read_handicap(handicaps[0], game)
    for name, value in first:
        if name == b"PL" and (colour := re.match(rb"[\0-\x20]*(?:([Bb1])|([Ww2]))", value)):
            game.to_play = colour.lastindex
    charsets = [value for name, value in first if name == b"CA"]
    game.warn(ParseWarning.BAD_CHARSET, charsets and codec_named(charsets[0]) is None)


def read_size(value: bytes, game: NaiveGame) -> None:
    sides = [number(side) for side in value.split(b":", 1)]
    if all(side is not None and 1 <= side <= 25 for side in sides):
        game.width, game.height = sides[0], sides[-1]
    else:
        game.drop = DropReason.BAD_SIZE
    game.warn(ParseWarning.SIZE_PAIR, len(sides) == 2 and sides[0] == sides[1] and sides[0] is not None)


def read_handicap(value: bytes, game: NaiveGame) -> None:
    game.handicap = number(value)
    game.warn(ParseWarning.HANDICAP_TEXT, game.handicap is None)
    game.warn(ParseWarning.HANDICAP_ONE, game.handicap == 1)


def read_node(node: Node, in_root: bool, game: NaiveGame) -> None:
    kinds: dict[int, int] = {}
    for name, values in node:
        if not in_root and name.decode() in GAME_INFO:
            game.warn(ParseWarning.INFO_AFTER_ROOT)
            if name == b"HA" and game.handicap is None and not game.warnings & ParseWarning.HANDICAP_TEXT:
                read_handicap(values[0], game)
        bits = {b"AB": 0, b"AW": WHITE_BIT, b"AE": ERASE_BIT}.get(name)
        if bits is None:
            continue
        game.warn(ParseWarning.SETUP_AFTER_ROOT, not in_root)
        for value in values:
            for point in points(squeeze(value), game):
                game.warn(ParseWarning.SETUP_TWICE, kinds.get(point, bits) != bits and in_root)
                if kinds.get(point) != bits:
                    game.setup.append((len(game.moves), point | bits))
                kinds[point] = bits
    if in_root:
        game.root_setup = len(game.setup)
    for name, values in node:
        if name in (b"B", b"W"):
            game.moves.append(move(squeeze(values[0]), game) | (WHITE_BIT if name == b"W" else 0))
            game.warn(ParseWarning.MOVE_IN_ROOT, in_root)


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
    is_tt = value == b"tt" and game.width <= 19 and game.height <= 19
    is_word = value.lower() in (b"pass", b"--", b"``")
    game.warn(ParseWarning.PASS_AS_TT, is_tt)
    game.warn(ParseWarning.PASS_AS_WORD, is_word)
    return game.width * game.height if is_tt or is_word else NO_POINT


def points(value: bytes, game: NaiveGame) -> list[int]:
    if not value:
        return []
    first, last = (value.split(b":", 1) * 2)[:2]
    left_top, right_bottom = point_of(first, game), point_of(last, game)
    if left_top and right_bottom:
        (left, top), (right, bottom) = left_top, right_bottom
        if left <= right and top <= bottom:
            return [y * game.width + x for y in range(top, bottom + 1) for x in range(left, right + 1)]
    game.warn(ParseWarning.BAD_SETUP_POINT)
    return []


def games_of(data: bytes) -> list[Game]:
    parsed = read_block(as_block([data]))
    return [game_at(parsed, g) for g in range(len(parsed.games))]


def compare_with_naive(data: bytes) -> None:
    games, expected = scan(as_block([data])), read_member(data)
    if DropReason.TOO_LARGE in games.drop:  # the naive parser has no limits
        return
    assert [naive_of(games, g) for g in range(len(games))] == expected


def naive_of(games: GameArrays, g: int) -> NaiveGame:
    setup = slice(games.setup_offset[g], games.setup_offset[g + 1])
    drop = DropReason(games.drop[g])
    return NaiveGame(
        **{name: getattr(games, name)[g] for name in ("start", "stop", "width", "height", "root_setup", "to_play")},
        moves=games.moves[games.move_offset[g] : games.move_offset[g + 1]].tolist(),
        setup=list(zip(games.setup_ply[setup].tolist(), games.setup[setup].tolist())),
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
