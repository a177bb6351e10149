"""The slow twins of what finds and decodes the words of records: one game at a time, from its text alone."""

from __future__ import annotations

from kifu.point import WHITE_BIT
from kifu.records.game import Game
from kifu.records.games import FIELDS
from naive_sgf import SPACE, NaiveGame, find_start, points, split_nodes

_SGF = ("PB", "PW", "BR", "WR", "RE", "KM", "DT", "TM", "OT", "RU", "EV", "RO", "PC", "GN", "CA", "TC", "TT")
NAMES = dict(zip(FIELDS, _SGF))


def nodes_of(record: bytes) -> list[list[tuple[bytes, list[bytes]]]]:
    start = find_start(record, 0)
    return split_nodes(record, start.end(2), NaiveGame(0)) if start else [[]]


def words(record: bytes) -> dict[str, bytes]:
    """Field -> its first value in the root, for the fields that have one."""
    root = nodes_of(record)[0]
    found = {field: [v for name, values in root if name == NAMES[field].encode() for v in values] for field in FIELDS}
    return {field: values[0] for field, values in found.items() if values}


def territory(record: bytes, width: int, height: int) -> list[int]:
    board = NaiveGame(0, width=width, height=height)
    for node in reversed(nodes_of(record) if b"TB[" in record or b"TW[" in record else []):
        owner = {}
        for name, values in node:
            if name in (b"TB", b"TW"):
                for value in values:
                    owner.update(dict.fromkeys(points(value.strip(SPACE), board), name))
        if any(name in (b"TB", b"TW") and values for name, values in node):
            return [point | (WHITE_BIT if owner[point] == b"TW" else 0) for point in sorted(owner)]
    return []


def text(game: Game, field: str) -> str | None:
    said = game.text(NAMES[field])
    return said if said.strip(SPACE.decode()) else None
