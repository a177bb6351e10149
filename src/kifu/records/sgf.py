"""SGF, FF[1] to FF[4]: parse many records at once into flat arrays, and read and write the properties of a root.

The main line is read, which is the first child everywhere; variations are skipped. docs/leniency.md lists what the
parser tolerates. Source: https://www.red-bean.com/sgf/ (FF[4] and the earlier versions linked there).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt

from kifu.errors import DropReason
from kifu.kernel import inline_kernel, kernel, writable_view
from kifu.point import POINT_MASK
from kifu.records import _bytes as raw
from kifu.records import _sgf as scanner
from kifu.records import _sgf_figures as figures
from kifu.records._bytes import MAX_POINTS, MAX_SETUP, SPACE, Int, to_game_arrays
from kifu.records._sgf_charset import PROGRESS, READINGS
from kifu.records._sgf_tokens import GAME_INFO, NAME_C, is_info, name_key, next_value
from kifu.records.detect import SGF
from kifu.records.games import (
    FIELD_LIMIT,
    FIELDS,
    MAX_MOVES,
    NO_HANDICAP,
    Bytes,
    GameArrays,
    MemberPiece,
    ParsedBlock,
    ParseWarning,
    Properties,
    RecordBlock,
    RecordFormat,
    TextFields,
    make_block,
)
from kifu.records.text import canonical_value, charsets, escape

Spans = npt.NDArray[np.int64]

NAMES = ("PB", "PW", "BR", "WR", "RE", "KM", "DT", "TM", "OT", "RU", "EV", "RO", "PC", "GN", "CA", "TC", "TT")
"""SGF's names of the first of `kifu.records.games.FIELDS`."""

_WITH_NUMBERS = frozenset(("BR", "WR", "RE", "KM", "TM", "OT", "TC", "TT"))
"""Properties whose numbers a program may have wrapped."""

_NO_FIELD = 255
_FIRST_KEY, _LAST_KEY = name_key("AA"), name_key("ZZ")
_FIELD = np.full(_LAST_KEY - _FIRST_KEY + 1, _NO_FIELD, np.uint8)  # by the key of a name minus that of AA
_FIELD[[name_key(name) - _FIRST_KEY for name in NAMES]] = np.arange(len(NAMES))
# Nihon Ki-in writes komi, date, event and overtime under names of its own.
_NIHON_KIIN = {"KO": "KM", "RD": "DT", "TE": "EV", "LC": "TC", "LT": "TT"}
_FIELD[[name_key(name) - _FIRST_KEY for name in _NIHON_KIIN]] = [NAMES.index(name) for name in _NIHON_KIIN.values()]
_KO, _TE = name_key("KO"), name_key("TE")  # KO[] and TE[1] or TE[2] annotate moves
_AP, _HD, _FOX = name_key("AP"), name_key("HD"), tuple(b"foxwq")
_FIELD[_AP - _FIRST_KEY] = FIELDS.index("server")
_COMMA = ord(",")
_GAME_TYPE = FIELDS.index("game_type")
_START, _TYPE = tuple(b"startTurnIdx="), tuple(b"gtype=")
_KEPT, _HANDICAP_TEXT = int(DropReason.KEPT), int(ParseWarning.HANDICAP_TEXT)

_MAX_ROOT_VALUES = 65_536

_SETUP_AT_ONCE = 1 << 20
"""Setup stones after which a piece of a member ends with its last game."""

# Properties that the writer derives from the arrays, or always writes in one form.
_DERIVED = frozenset(("FF", "GM", "CA", "SZ", "PL", "B", "W", "AB", "AW", "AE"))


@kernel
def list_values(data: Bytes, properties: Properties, g: Int, every: bool, spans: Spans) -> Int:
    """List the values of the root of game g, and those of `GAME_INFO` in later nodes. Return their number.

    Args:
        data: [N] uint8.
        every: Whether all values of later nodes are listed.
        spans: [V, 3] int64, filled as far as it has space: row of the property, start and end of the value.
    """
    count, stop, charset = 0, properties.stop[g], properties.charset[g]
    for k in range(properties.offset[g], properties.offset[g + 1]):
        if every or k < properties.root[g] or is_info(properties.rows[k, scanner.KEY]):
            i, end = scanner.first_value(properties, g, k)
            while end < stop:
                if count < len(spans):
                    spans[count, 0], spans[count, 1], spans[count, 2] = k, i, end
                count += 1
                i, end = next_value(data, end, stop, charset)
    return count


@inline_kernel
def find_text(data: Bytes, i: Int, stop: Int, text: tuple[int, ...]) -> Int:
    """Return the position after the first occurrence of a text in data[i:stop], or -1."""
    for k in range(i, stop - len(text) + 1):
        j = 0
        while j < len(text) and data[k + j] == text[j]:
            j += 1
        if j == len(text):
            return k + j
    return -1


@inline_kernel
def find_game_type(data: Bytes, i: Int, stop: Int) -> tuple[Int, Int]:
    """Locate gtype's value in a root comment of KataGo: (start, end), equal if missing; (0, 0) without startTurnIdx."""
    if find_text(data, i, stop, _START) < 0:
        return 0, 0
    at = find_text(data, i, stop, _TYPE)
    if at < 0:
        return i, i
    end = at
    while end < stop and data[end] > SPACE and data[end] != _COMMA:
        end += 1
    return at, end


@kernel
def find_text_fields(data: Bytes, properties: Properties, field_start: Spans, field_stop: Spans, wanted: Bytes) -> None:
    """Locate the first value of each of `NAMES` in the roots of games; one larger than `FIELD_LIMIT` is empty.

    A value of `GAME_INFO` in a later node counts if no earlier node has one. Field game_type is located by
    `find_game_type`; its start is 0 only for games that are not KataGo's.

    Args:
        data: [N] uint8.
        field_start, field_stop: [F, G] int64, initially zeros, filled.
        wanted: [G] uint8, filled: bits CLOCKS, EVALUATIONS and TERRITORY of the figures that the main line has.
    """
    for g in range(len(properties.start)):
        stop, charset = properties.stop[g], properties.charset[g]
        found = 0
        for k in range(properties.offset[g], properties.offset[g + 1]):
            key, in_root = np.int64(properties.rows[k, scanner.KEY]), k < properties.root[g]
            if key in (figures.NAME_BL, figures.NAME_WL):
                found |= figures.CLOCKS
            elif key in (figures.NAME_TB, figures.NAME_TW):
                found |= figures.TERRITORY
            elif (in_root and key == NAME_C) or is_info(key) or (in_root and _FIRST_KEY <= key <= _LAST_KEY):
                i, end = scanner.first_value(properties, g, k)
                while end < stop:
                    if key == NAME_C:
                        if field_start[_GAME_TYPE, g] == 0:
                            field_start[_GAME_TYPE, g], field_stop[_GAME_TYPE, g] = find_game_type(data, i, end)
                    else:
                        field = np.int64(_FIELD[key - _FIRST_KEY])
                        is_other = key in (_KO, _TE) and (end == i or (end - i == 1 and data[i] < 0x80))
                        is_other |= key == _AP and not raw.is_text(data, i, end, _FOX)
                        if field != _NO_FIELD and (
                            field_start[field, g] == 0 and not is_other
                            if in_root
                            else field_start[field, g] == field_stop[field, g]
                        ):
                            field_start[field, g], field_stop[field, g] = i, end if end - i <= FIELD_LIMIT else i
                    i, end = next_value(data, end, stop, charset)
        wanted[g] = found | (figures.EVALUATIONS if field_start[_GAME_TYPE, g] > 0 else 0)


def as_block(members: Sequence[bytes]) -> RecordBlock:
    """Return a block of records in memory, with empty names."""
    count = len(members)
    stop = np.cumsum([len(member) for member in members], dtype=np.int64).tolist()
    data = as_array(b"".join(members))
    return make_block("", data, stop, list(range(count)), [b""] * count, [DropReason.KEPT] * count)


def as_array(data: bytes) -> Bytes:
    """Return bytes as an array [N] uint8 for kernels, without copying them."""
    return writable_view(np.frombuffer(data, np.uint8))


def scan(block: RecordBlock, one_move: bool = False) -> GameArrays:
    """Read every game of a block. Never fails: unreadable games give rows with their `DropReason`.

    Each member gives at least one row, and one more for each further "(;" outside any game. Time is linear in the
    bytes; memory is bounded by a few times the bytes: a game of more than 65,535 moves, 4,096 setup stones
    (rectangles expanded) or 1,048,576 properties is `DropReason.TOO_LARGE`, and so is the rest of a member that
    contains games or setup stones too densely.

    Args:
        one_move: Of B and W in one node use B only, as the program of 2015 did.
    """
    return scan_properties(block, one_move)[0]


def scan_properties(block: RecordBlock, one_move: bool = False) -> tuple[GameArrays, Properties]:
    """Return the games of a block as `scan` does, and the properties of their main lines."""
    length = int(np.sum(block.stop - block.start))
    properties = min(length // scanner.PROPERTY_BYTES, scanner.MAX_PROPERTIES + length // 16)
    out = new_output(block, len(block) + 64, length // 3 + 1, MAX_SETUP + length // 64, properties)
    out.state[scanner.ONE_MOVE] = one_move
    while scanner.scan_members(block.data, block.start, block.stop, block.drop, charsets(), out) == scanner.FULL:
        if out.state[scanner.GAMES] == len(out.rows):
            out = out._replace(rows=_longer(out.rows))
        elif out.state[scanner.SETUP] + MAX_SETUP > len(out.setup):
            out = out._replace(setup=_longer(out.setup), setup_ply=_longer(out.setup_ply))
        else:
            out = out._replace(properties=_longer(out.properties))
    rows = out.rows[: out.state[scanner.GAMES]]
    read_handicaps(block.data, rows, out.properties)
    games = to_game_arrays(block, rows, out.moves, out.setup, out.setup_ply)
    found = out.properties[: out.state[scanner.PROPERTIES]]
    root, charset = rows[:, scanner.ROOT_END].copy(), rows[:, scanner.CHARSET].copy()
    return games, Properties(found, np.append(0, rows[:, scanner.PROPERTY_END]), root, games.start, games.stop, charset)


@kernel
def read_handicaps(data: Bytes, rows: npt.NDArray[np.int64], properties: npt.NDArray[np.int32]) -> None:
    """Read HD, in which Cyberoro writes the handicap, of the roots without HA. rows: [G, SGF_COLUMNS], completed."""
    first = 0
    for row in rows:
        for k in range(first, row[scanner.ROOT_END]):
            has_none = row[raw.HANDICAP] == NO_HANDICAP and row[raw.WARNINGS] & _HANDICAP_TEXT == 0
            if has_none and properties[k, scanner.KEY] == _HD and row[raw.DROP] == _KEPT:
                start = row[raw.START]
                i, end = start + properties[k, scanner.VALUE], start + properties[k, scanner.VALUE_END]
                scanner.read_handicap(data, i, end, row)
        first = row[scanner.PROPERTY_END]


def new_output(block: RecordBlock, rows: int, moves: int, setup: int, properties: int) -> scanner.NodesOut:
    """Return empty arrays of these lengths for the scanner, and its initial state."""
    state = np.zeros(scanner.STATES, np.int64)
    state[scanner.CUT] = np.iinfo(np.int64).max
    if block.piece is not None:
        state[scanner.IN_MEMBER], state[scanner.MEMBER_BUDGET], state[scanner.MEMBER_BYTES] = block.piece
        state[scanner.POSITION] = block.start[0]
    return scanner.NodesOut(
        rows=np.empty((rows, scanner.SGF_COLUMNS), np.int64), moves=np.empty(moves, np.uint16),
        setup=np.empty(setup, np.uint16), setup_ply=np.empty(setup, np.uint16),
        properties=np.empty((properties, scanner.PROPERTY_COLUMNS), np.int32), state=state,
        seen=np.zeros(MAX_POINTS, np.int64), readings=np.empty((READINGS, PROGRESS), np.int64),
    )  # fmt: skip


def find_pieces(block: RecordBlock, piece_bytes: int, games: int) -> Iterator[RecordBlock]:
    """Split a block of one SGF member, not a dropped one, between games, by scanning it. Nothing is copied.

    A piece ends with its last game after `piece_bytes`.
    """
    moves, properties = (
        piece_bytes // 3 + MAX_MOVES + 2,
        piece_bytes // scanner.PROPERTY_BYTES + scanner.MAX_PROPERTIES + 1,
    )
    out = new_output(block, games, moves, MAX_SETUP + _SETUP_AT_ONCE, properties)
    state, position = out.state, int(block.start[0])
    state[scanner.MEMBER_BYTES] = size = int(block.stop[0]) - position
    piece, status = None, scanner.FULL
    first_game, budget = 0, 0
    while status == scanner.FULL:
        state[scanner.CUT] = position + piece_bytes
        state[scanner.GAMES] = state[scanner.MOVES] = state[scanner.SETUP] = state[scanner.PROPERTIES] = 0
        status = scanner.scan_members(block.data, block.start, block.stop, block.drop, charsets(), out)
        if piece is not None and state[scanner.GAMES] > 0:  # what follows the last game belongs to its piece
            yield replace(piece, stop=np.array([position], np.int64))
        if piece is None or state[scanner.GAMES] > 0:
            piece = replace(block, start=np.array([position], np.int64), piece=MemberPiece(first_game, budget, size))
        position, first_game, budget = (
            int(state[k]) for k in (scanner.POSITION, scanner.IN_MEMBER, scanner.MEMBER_BUDGET)
        )
    assert piece is not None
    yield piece


def _longer(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.concatenate((array, np.empty_like(array)))


def read_block(block: RecordBlock) -> ParsedBlock:
    """Parse every game of a block: moves, text fields, territory and the figures of moves.

    Text fields are those of dropped games, too. Seconds come from BL, WL, OB and OW (docs/clocks.md), evaluations from
    KataGo's comments. Territory is TB and TW of the last node of the main line that has them; invalid values are
    skipped. A game has no territory if this node lists more points than its text has bytes, plus 1,250. Only games
    that are not dropped have figures and territory.
    """
    games, properties = scan_properties(block)
    start = np.zeros((len(FIELDS), len(games)), np.int64)
    stop, wanted = np.zeros_like(start), np.empty(len(games), np.uint8)
    find_text_fields(block.data, properties, start, stop, wanted)
    text_fields = TextFields(block.data, start, stop)
    wanted[games.drop != DropReason.KEPT] = 0
    has_clocks, has_evaluations = wanted & figures.CLOCKS != 0, wanted & figures.EVALUATIONS != 0
    has_territory = wanted & figures.TERRITORY != 0
    seconds = evaluations = None
    if has_clocks.any():
        seconds = figures.read_seconds(games, properties, text_fields, has_clocks)
    if has_evaluations.any():
        evaluations = np.full((len(games.moves), 4), np.nan, np.float32)
        figures.collect_evaluations(block.data, properties, has_evaluations, games.move_offset, evaluations)
    points = games.width.astype(np.int64) * games.height
    territory, offset = np.empty(points[has_territory].sum(), np.uint16), np.zeros(len(games) + 1, np.int64)
    if has_territory.any():
        owners = np.empty(MAX_POINTS, np.uint8)
        size = games.width, games.height
        figures.collect_territory(block.data, properties, has_territory, *size, owners, territory, offset)
    first = np.searchsorted(games.block_index, games.block_index)  # of the same member, whose games are consecutive
    before = 0 if block.piece is None else block.piece.first_game
    return ParsedBlock(
        format="sgf", block=block, games=games, text_fields=text_fields,
        index=(np.arange(len(games)) - first + before).astype(np.int32), territory=territory[: offset[-1]].copy(),
        territory_offset=offset, seconds=seconds, evaluations=evaluations, properties=properties,
    )  # fmt: skip


def root_properties(record: bytes) -> dict[str, tuple[bytes, ...]]:
    """Return the root's properties of the first game in `record`: name -> values, as found, with their escapes.

    Names are converted to FF[4]: only their capitals are kept; names without capitals, or with digits, become upper
    case; those of Nihon Ki-in are replaced (`_NIHON_KIIN`). Properties are in the record's order; a repeated one has
    the values of all its occurrences. Those of `GAME_INFO` that the root lacks follow from later nodes of the main
    line. Only the first 65,536 values are read. {} if there is no game.
    """
    return root_of(as_array(record), scan_properties(as_block([record]))[1], 0)


def root_of(data: Bytes, properties: Properties, g: int) -> dict[str, tuple[bytes, ...]]:
    """Return the `root_properties` of game g of a block."""
    values_of: dict[str, list[bytes]] = {}
    for k, name, start, stop in _named_values(data, properties, g, False):
        value = data[start:stop].tobytes()
        if k < properties.root[g]:
            if name not in ("KO", "TE") or len(value) > 1 or not value.isascii():
                name = _NIHON_KIIN.get(name, name)
            values_of.setdefault(name, []).append(value)
        elif not values_of.get(name, [b""])[0]:
            values_of[name] = [value]
    if "HD" in values_of:
        values_of.setdefault("HA", values_of.pop("HD"))
    return {name: tuple(values) for name, values in values_of.items()}


def node_properties(record: bytes) -> Iterator[tuple[int, dict[str, list[bytes]]]]:
    """Yield the end and the properties (name -> values) of each node on the main line of the first game in a record.

    Nodes of a move only are left out, and the values after the first 65,536.
    """
    data, properties = as_array(record), scan_properties(as_block([record]))[1]
    values = _named_values(data, properties, 0, True)
    for _node, group in groupby(values, lambda value: properties.rows[value[0], scanner.NODE]):
        values_of: dict[str, list[bytes]] = {}
        for _k, name, start, stop in group:
            values_of.setdefault(name, []).append(record[start:stop])
        yield stop + 1, values_of


def _named_values(data: Bytes, properties: Properties, g: int, every: bool) -> Iterator[tuple[int, str, int, int]]:
    """Yield (row of the property, its name, start, end) of the values of `list_values`."""
    spans = np.empty((64, 3), np.int64)
    count = list_values(data, properties, g, every, spans)
    if count > len(spans):
        spans = np.empty((min(count, _MAX_ROOT_VALUES), 3), np.int64)
        list_values(data, properties, g, every, spans)
    for k, start, stop in spans[:count].tolist():
        key = int(properties.rows[k, scanner.KEY])
        first = int(properties.start[g] + properties.rows[k, scanner.VALUE])
        yield k, key.to_bytes(2, "big").strip(b"\0").decode() if key else _name_before(data, first), start, stop


def _name_before(data: Bytes, value: int) -> str:
    """Return the name, in capitals, of a property without a key, given where its first value starts."""
    stop = value - 1
    while data[stop - 1] <= SPACE:
        stop -= 1
    start = stop
    while start > 0 and chr(data[start - 1]).isalnum() and data[start - 1] < 0x80:
        start -= 1
    name = data[start:stop].tobytes().decode().lstrip("0123456789")
    return re.sub("[a-z]", "", name) if re.search("[A-Z]", name) and name.isalpha() else name.upper()


def charset_of(record: bytes) -> int:
    """Return the charset by which the values of the first game in a record end."""
    return int(scan_properties(as_block([record]))[1].charset[0])


def is_simple_text(name: str) -> bool:
    """Return whether FF[4] makes the values of a property one line of text, in which all white space is spaces."""
    return name in NAMES or (name in GAME_INFO and name != "GC")


def decode_value(name: str, value: bytes, codec: str) -> str:
    """Return the text of a property's value with its escapes, but without line breaks within numbers."""
    text = value.decode(codec, "replace")
    return re.sub(r"(?<=[\d.,])[\r\n]{1,2}(?=[\d.,])", "", text) if name in _WITH_NUMBERS else text


def plain_properties(properties: Mapping[str, Sequence[bytes]], codec: str) -> dict[str, tuple[str, ...]]:
    """Return the root's properties in canonical form, without HA[0] and what the writer derives from the arrays."""
    plain = {}
    for name, values in properties.items():
        if name in _DERIVED or (name == "HA" and re.fullmatch(rb"\s*[+-]?0+\s*", values[0])):
            continue
        texts = [canonical_value(decode_value(name, value, codec)) for value in values]
        plain[name] = tuple(re.sub("[\t-\r]", " ", text) if is_simple_text(name) else text for text in texts)
    return plain


def make_record(width: int, height: int, handicap: int | None, properties: Mapping[str, str | None]) -> bytes:
    """Return a record of a root only, without stones and moves, for a game from another format than SGF.

    `handicap` is HA, None if unknown; properties are as for `text_properties`.
    """
    return format_root(width, height, text_properties(handicap, properties)) + b")"


def text_properties(handicap: int | None, properties: Mapping[str, str | None]) -> dict[str, tuple[str, ...]]:
    """Return root properties in canonical form, for a game from another format than SGF.

    Args:
        handicap: HA, written last; None if unknown. 0 is left out: FF[4] allows only 2 and more.
        properties: Name -> plain text, in the order of writing; None is left out. Must not contain FF, GM, CA, SZ and
            HA.
    """
    texts: dict[str, tuple[str, ...]] = {name: (escape(text),) for name, text in properties.items() if text is not None}
    return texts | {"HA": (str(handicap),)} if handicap else texts


def format_root(width: int, height: int, properties: Mapping[str, Sequence[str]]) -> bytes:
    """Return the root of a record, up to its stones. properties: name -> values in canonical form."""
    size = str(width) if width == height else f"{width}:{height}"
    text = "".join(name + "".join(f"[{value}]" for value in values) for name, values in properties.items())
    return f"(;FF[4]GM[1]CA[UTF-8]SZ[{size}]{text}".encode("utf-8", "replace")


def final_setup(setup: npt.NDArray[np.uint16]) -> dict[int, int]:
    """Return the effect of one node's setup entries: point -> 0 black, 2 white, 1 empty. The last entry wins."""
    return dict(zip((setup & POINT_MASK).tolist(), (setup >> 14).tolist()))


FORMAT = RecordFormat((SGF,), read_block)
