"""Naive functions that find and decode text fields, for one game at a time, from its text alone."""

import math

import numpy as np
import pyarrow as pa

import naive_figures
from kifu.point import WHITE_BIT
from kifu.records._sgf_tokens import GAME_INFO
from kifu.records.decode import Decoded, decode
from kifu.records.game import Game, game_at
from kifu.records.games import FIELDS, ParsedBlock, RecordBlock
from kifu.records.sgf import NAMES as SGF_NAMES
from kifu.records.sgf import read_block, root_properties
from naive_sgf import DOUBT, PIECES, SPACE, NaiveGame, Reader, charset_of, find_start, points, squeeze

_SGF = ("PB", "PW", "BR", "WR", "RE", "KM", "DT", "TM", "OT", "RU", "EV", "RO", "PC", "GN", "CA", "TC", "TT")
NAMES = dict(zip(FIELDS, _SGF))
NIHON_KIIN = {b"KO": b"KM", b"RD": b"DT", b"TE": b"EV", b"LC": b"TC", b"LT": b"TT"}


def nodes_of(record: bytes) -> list[list[tuple[bytes, list[bytes]]]]:
    start = find_start(record, 0)
    if start is None:
        return [[]]
    charset, _ = charset_of(record, start[1], DOUBT.search(record) is not None)
    return Reader(record, start[1], NaiveGame(0), charset).read()


def text_fields(record: bytes) -> dict[str, bytes]:
    """Return the first value in the root of each field that has one, else the first one of a later node."""
    first, *later = nodes_of(record)
    root = [
        (n if n in (b"KO", b"TE") and len(value) < 2 and value.isascii() else NIHON_KIIN.get(n, n), [value])
        for n, values in first
        for value in values
    ]
    found = {field: [v for n, values in root if n == name.encode() for v in values] for field, name in NAMES.items()}
    fields = {field: values[0] for field, values in found.items() if values}
    for name, values in (each for node in later for each in node if each[0].decode() in GAME_INFO):
        for field in (field for field, each in NAMES.items() if each.encode() == name):
            fields[field] = fields.get(field) or next(filter(None, values), b"")
    fox = (value for n, values in root for value in values if n == b"AP" and value.startswith(b"foxwq"))
    fields["server"] = next(fox, b"")
    kind = naive_figures.game_type(first)
    return fields if kind is None else fields | {"game_type": kind}


def territory(record: bytes, width: int, height: int) -> list[int]:
    board = NaiveGame(0, width=width, height=height)
    for node in reversed(nodes_of(record)):
        owner = {}
        for name, values in node:
            if name in (b"TB", b"TW"):
                for value in values:
                    owner.update(dict.fromkeys(points(squeeze(value), board), name))
        if any(name in (b"TB", b"TW") and values for name, values in node):
            return [point | (WHITE_BIT if owner[point] == b"TW" else 0) for point in sorted(owner)]
    return []


def text(game: Game, field: str) -> str | None:
    said = game.text(NAMES[field])
    return said if said.strip(SPACE.decode()) else None


def text_fields_of(parsed: ParsedBlock, g: int) -> dict[str, bytes]:
    spans = zip(FIELDS, parsed.text_fields.start[:, g].tolist(), parsed.text_fields.stop[:, g].tolist())
    return {field: parsed.text_fields.data[start:stop].tobytes() for field, start, stop in spans if stop > start}


def territory_of(parsed: ParsedBlock, g: int) -> list[int]:
    return parsed.territory[parsed.territory_offset[g] : parsed.territory_offset[g + 1]].tolist()


def compare_text_fields(block: RecordBlock) -> ParsedBlock:
    parsed = read_block(block)
    games = parsed.games
    for g in range(len(games)):
        record = block.data[games.start[g] : games.stop[g]].tobytes()
        found = text_fields_of(parsed, g)
        assert found == {field: value for field, value in text_fields(record).items() if value}
        compare_figures(parsed, g, record)
        for field in ("game_type", "server"):
            found.pop(field, None)
        properties = root_properties(record)
        assert found == {
            field: properties[name][0] for field, name in zip(FIELDS, SGF_NAMES) if properties.get(name, (b"",))[0]
        }
        expected = [] if games.drop[g] else territory(record, int(games.width[g]), int(games.height[g]))
        assert territory_of(parsed, g) == expected
    return parsed


def compare_figures(parsed: ParsedBlock, g: int, record: bytes) -> None:
    moves = slice(parsed.games.move_offset[g], parsed.games.move_offset[g + 1])
    nodes, count = nodes_of(record), moves.stop - moves.start
    wants_clocks = any(values and name in (b"BL", b"WL") for node in nodes for name, values in node)
    expected = naive_figures.seconds(nodes, text_fields(record))[:count] if wants_clocks else [math.nan] * count
    if parsed.seconds is not None:
        np.testing.assert_array_equal(parsed.seconds[moves], np.array(expected, np.float32))
    else:
        assert parsed.games.drop[g] or not wants_clocks
    is_katago = naive_figures.game_type(nodes[0]) is not None
    figures = naive_figures.evaluations(nodes)[:count] if is_katago else [[math.nan] * 4] * count
    if parsed.evaluations is not None:
        np.testing.assert_array_equal(parsed.evaluations[moves], np.array(figures, np.float32).reshape(count, 4))
    else:
        assert parsed.games.drop[g] or not is_katago


TEXT_PIECES = [
    *PIECES,
    *naive_figures.FIGURE_PIECES,
    *(b"PB[Ann]", b"PW[\xe6\x9f\xaf]", b"PlayerBlack[b]", b"RE", b"re[0]", b"KM[]", b"CA", b"P1B[x]", b"PBW[x]"),
    *(b"KO[6]", b"KO[6.5]", b"KO[]", b"TE[1]", b"TE[Cup]", b"RD[2024-05-06]", b"LT[30]", b"LC[5]"),
    *(b"AP[x]", b"AP[foxwq]", b"KM[50]", b"KM[6.\n5]"),
    *(b"TB[aa]", b"TW[aa:bb]", b"TB[]", b"TB", b"TW[", b";TW[bb][ab]", b"tb[aa]", b"TB [aa]", b"TW[zz]"),
]


def compare_text(parsed: ParsedBlock) -> Decoded:
    decoded = decode(parsed)
    games = [game_at(parsed, g) for g in range(len(parsed.games))]
    assert list(decoded.text) == [field for field in FIELDS if field != "charset"]
    for field, strings in decoded.text.items():
        strings.validate(full=True)
        if field not in NAMES:
            continue
        assert strings.type == pa.string()
        assert strings.to_pylist() == [text(game, field) for game in games]
    assert decoded.encoding.to_pylist() == [game.codec for game in games]
    return decoded
