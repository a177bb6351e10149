"""SGF, FF[1] to FF[4]: many records at once into flat arrays, one record's root properties, and a writer.

The main line is read, which is the first child everywhere; variations are skipped. What the reader forgives is listed
in docs/leniency.md. Source: https://www.red-bean.com/sgf/ (FF[4] and the earlier versions linked there).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from kifu.errors import DropReason
from kifu.kernel import writable_view
from kifu.point import POINT_MASK
from kifu.records import _nodes as n
from kifu.records._fields import collect_territory, find_territory, find_text_fields, root_values
from kifu.records._scan import FULL, scan_members
from kifu.records.games import FIELDS, Bytes, GameArrays, ParsedBlock, RecordBlock, TextFields, make_block
from kifu.records.text import canonical_value, charsets, choose_codec, escape

_T = TypeVar("_T", bound=np.generic)


def as_block(members: Sequence[bytes], source: str = "") -> RecordBlock:
    """A block of records that are in memory already. Their names are empty."""
    count = len(members)
    stop = np.cumsum([len(member) for member in members], dtype=np.int64).tolist()
    return make_block(
        source, _as_array(b"".join(members)), stop, list(range(count)), [b""] * count, [DropReason.KEPT] * count
    )


def _as_array(data: bytes) -> Bytes:
    return writable_view(np.frombuffer(data, np.uint8))


def scan(block: RecordBlock) -> GameArrays:
    """Reads every game of a block. Never fails: what can't be read gives a row with its `DropReason`.

    Each member gives at least one row, and one more for each further "(;" outside any game. Time is linear in the
    bytes; memory is bounded by a few times the bytes: a game of over 65,535 moves or 4,096 setup stones (rectangles
    expanded) is `DropReason.TOO_LARGE`, and so is all that follows where a member packs games, or setup stones, too densely.
    """
    length = int(np.sum(block.stop - block.start))
    out = n.NodesOut(
        rows=np.empty((len(block) + 64, n.COLUMNS), np.int64),
        moves=np.empty(length // 4 + 1, np.uint16),
        setup=np.empty(n.MAX_SETUP + length // 64, np.uint16),
        setup_ply=np.empty(n.MAX_SETUP + length // 64, np.uint16),
        state=np.zeros(n.STATES, np.int64),
        seen=np.zeros(n.MAX_POINTS, np.int64),
    )
    while scan_members(block.data, block.start, block.stop, block.drop, charsets(), out) == FULL:
        if out.state[n.GAMES] == len(out.rows):
            out = out._replace(rows=_longer(out.rows))
        else:
            out = out._replace(setup=_longer(out.setup), setup_ply=_longer(out.setup_ply))
    return to_game_arrays(out, block)


def to_game_arrays(out: n.NodesOut, block: RecordBlock) -> GameArrays:
    """What a reader filled `out` with, as games of the block."""
    rows = out.rows[: out.state[n.GAMES]]
    member = rows[:, n.MEMBER_ROW]
    return GameArrays(
        width=rows[:, n.WIDTH].astype(np.uint8),
        height=rows[:, n.HEIGHT].astype(np.uint8),
        moves=out.moves[: out.state[n.MOVES]].copy(),
        move_offset=np.concatenate(([0], rows[:, n.MOVE_END])),
        setup=out.setup[: out.state[n.SETUP]].copy(),
        setup_ply=out.setup_ply[: out.state[n.SETUP]].copy(),
        setup_offset=np.concatenate(([0], rows[:, n.SETUP_END])),
        root_setup=rows[:, n.ROOT_SETUP].astype(np.uint16),
        to_play=rows[:, n.TO_PLAY].astype(np.uint8),
        handicap=rows[:, n.HANDICAP].astype(np.int16),
        warnings=rows[:, n.WARNINGS].astype(np.uint32),
        drop=rows[:, n.DROP].astype(np.uint8),
        member=block.member[member],
        block_index=member.astype(np.int32),
        start=rows[:, n.START].copy(),
        stop=rows[:, n.STOP].copy(),
    )


def _longer(array: npt.NDArray[_T]) -> npt.NDArray[_T]:
    """A copy of twice the length."""
    return np.concatenate((array, np.empty_like(array)))


def read_block(block: RecordBlock) -> ParsedBlock:
    """Every game of a block with what it says: `scan`, `read_words` and `read_territory` in one."""
    games = scan(block)
    territory, territory_offset = read_territory(block, games)
    first = np.searchsorted(games.block_index, games.block_index)  # of the same member: they lie in its order
    return ParsedBlock(
        format="sgf",
        block=block,
        games=games,
        text_fields=read_text_fields(block, games),
        index=(np.arange(len(games)) - first).astype(np.int32),
        territory=territory,
        territory_offset=territory_offset,
    )


def read_text_fields(block: RecordBlock, games: GameArrays) -> TextFields:
    """What the roots of games say, also of those set aside. games: as `scan` read them from the block.

    Of a property's values the first counts, as for `Game.raw`.
    """
    start = np.zeros((len(FIELDS), len(games)), np.int64)
    stop = np.zeros_like(start)
    find_text_fields(block.data, games.start, games.stop, charsets(), start, stop)
    return TextFields(block.data, start, stop)


def read_territory(block: RecordBlock, games: GameArrays) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.int64]]:
    """The territory that the records tell: (territory [T], offset [G + 1]), see `ParsedBlock`.

    It is that of the last node of the main line that has TB or TW; a point in both belongs to the one that comes
    later. Values that are no point or rectangle of the board are passed over. Games are looked at only if they spell it
    "TB[" or "TW[" somewhere, and are not set aside. One is taken to have none where the games of its member together
    tell more points than the member has bytes and 16,384.
    """
    told = np.empty(len(games), np.uint8)
    find_territory(block.data, games.start, games.stop, told)
    width = np.where(games.drop == DropReason.KEPT, games.width, 0) * told
    budget = block.stop - block.start + 4 * n.MAX_SETUP
    most = min(int((width.astype(np.int64) * games.height).sum()), int(budget.sum()))
    territory, offset = np.empty(most, np.uint16), np.zeros(len(games) + 1, np.int64)
    collect_territory(
        block.data,
        games.start,
        games.stop,
        width,
        games.height,
        games.block_index,
        budget,
        charsets(),
        np.empty(n.MAX_POINTS, np.uint8),
        offset,
        territory,
    )
    return territory[: offset[-1]].copy(), offset


def root_properties(record: bytes) -> dict[str, tuple[bytes, ...]]:
    """The properties of the first node of the first game in `record`: name -> values, as found, escapes and all.

    Names are brought to FF[4]'s form: their capitals only; or if there are none, or digits, all as capitals. Properties
    come in the record's order; one that is there twice has the values of both. {} if there is no game.
    """
    data = _as_array(record)
    spans = np.empty((64, 4), np.int64)
    count = root_values(data, charsets(), spans)
    if count > len(spans):
        spans = np.empty((count, 4), np.int64)
        root_values(data, charsets(), spans)
    found: dict[str, list[bytes]] = {}
    for name_start, name_stop, start, stop in spans[:count].tolist():
        name = record[name_start:name_stop].decode("ascii")
        plain = re.sub("[a-z]", "", name) if re.search("[A-Z]", name) and name.isalpha() else name.upper()
        found.setdefault(plain, []).append(record[start:stop])
    return {name: tuple(values) for name, values in found.items()}


def root_codec(properties: Mapping[str, Sequence[bytes]]) -> str:
    """Python's name of the charset that a root's text is in: by CA if it can be believed, else detected."""
    ca = properties.get("CA")
    return choose_codec(ca[0] if ca else None, b"\n".join(value for values in properties.values() for value in values))


# Properties that the writer makes from the arrays, or writes in one form always.
_OWN = frozenset(("FF", "GM", "CA", "SZ", "PL", "B", "W", "AB", "AW", "AE"))


def plain_properties(properties: Mapping[str, Sequence[bytes]], codec: str) -> dict[str, tuple[str, ...]]:
    """The root's properties as the writer gives them, but for those that it makes from the game's arrays."""
    return {
        name: tuple(canonical_value(value.decode(codec, "replace")) for value in values)
        for name, values in properties.items()
        if name not in _OWN
    }


def make_record(width: int, height: int, handicap: int | None, properties: Mapping[str, str | None]) -> bytes:
    """A record of a root only, for a game that comes from elsewhere than SGF; its stones and moves are not told.

    handicap, properties: as for `root_texts`.
    """
    return format_root(width, height, text_properties(handicap, properties)) + b")"


def text_properties(handicap: int | None, properties: Mapping[str, str | None]) -> dict[str, tuple[str, ...]]:
    """The properties of a root, in normal form, for a game that comes from elsewhere than SGF.

    properties: name -> what it says in plain text; None is left out. They are written in this order, HA (if handicap
    is not None) last. FF, GM, CA, SZ and HA must not be among them.
    """
    told: dict[str, tuple[str, ...]] = {name: (escape(text),) for name, text in properties.items() if text is not None}
    return told if handicap is None else told | {"HA": (str(handicap),)}


def format_root(width: int, height: int, properties: Mapping[str, Sequence[str]]) -> bytes:
    """The root of a record, up to its stones. properties: name -> values, which are in normal form."""
    size = str(width) if width == height else f"{width}:{height}"
    text = "".join(name + "".join(f"[{value}]" for value in values) for name, values in properties.items())
    return f"(;FF[4]GM[1]CA[UTF-8]SZ[{size}]{text}".encode("utf-8", "replace")


def final_setup(setup: npt.NDArray[np.uint16]) -> dict[int, int]:
    """Setup entries of one node -> what each point becomes: 0 black, 2 white, 1 empty. The last word counts."""
    return dict(zip((setup & POINT_MASK).tolist(), (setup >> 14).tolist()))
