"""SGF, FF[1] to FF[4]: parse many records at once into flat arrays, and read the properties of one root.

The main line is read, which is the first child everywhere; variations are skipped. docs/leniency.md lists what the
parser tolerates. Source: https://www.red-bean.com/sgf/ (FF[4] and the earlier versions linked there).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from kifu.errors import DropReason
from kifu.kernel import kernel, writable_view
from kifu.point import POINT_MASK
from kifu.records import _nodes as n
from kifu.records._fields import TerritoryInput, collect_territory, find_territory, find_text_fields, root_values
from kifu.records._figures import (
    ABSOLUTE,
    BYO_YOMI,
    CANADIAN,
    CLOCKS,
    EVALUATIONS,
    UNKNOWN_OVERTIME,
    FigureInput,
    collect_figures,
    find_clocks,
)
from kifu.records._nodes import FULL, find_game, scan_members
from kifu.records._tokens import CLOSE, LEFT, SEMICOLON, Int, end_of_value, find_charset
from kifu.records.games import (
    FIELD_LIMIT,
    FIELDS,
    Bytes,
    GameArrays,
    MemberPiece,
    ParsedBlock,
    RecordBlock,
    TextFields,
    make_block,
)
from kifu.records.meta import parse_minutes, parse_overtime
from kifu.records.text import SINGLE, Charsets, canonical_value, charsets, choose_codec, escape

_MAX_ROOT_VALUES = 65_536

_CODEC_BYTES = 1 << 20

_SETUP_AT_ONCE = 1 << 20
"""Setup stones after which a piece of a member ends with its last game."""

_T = TypeVar("_T", bound=np.generic)


def as_block(members: Sequence[bytes], source: str = "") -> RecordBlock:
    """Return a block of records in memory, with empty names."""
    count = len(members)
    stop = np.cumsum([len(member) for member in members], dtype=np.int64).tolist()
    return make_block(
        source, _as_array(b"".join(members)), stop, list(range(count)), [b""] * count, [DropReason.KEPT] * count
    )


def _as_array(data: bytes) -> Bytes:
    return writable_view(np.frombuffer(data, np.uint8))


def scan(block: RecordBlock) -> GameArrays:
    """Read every game of a block. Never fails: unreadable games give rows with their `DropReason`.

    Each member gives at least one row, and one more for each further "(;" outside any game. Time is linear in the
    bytes; memory is bounded by a few times the bytes: a game of more than 65,535 moves or 4,096 setup stones
    (rectangles expanded) is `DropReason.TOO_LARGE`, and so is the rest of a member that contains games or setup stones
    too densely.
    """
    length = int(np.sum(block.stop - block.start))
    out = _new_output(block, len(block) + 64, length // 4 + 1, n.MAX_SETUP + length // 64)
    while scan_members(block.data, block.start, block.stop, block.drop, charsets(), out) == FULL:
        if out.state[n.GAMES] == len(out.rows):
            out = out._replace(rows=_longer(out.rows))
        else:
            out = out._replace(setup=_longer(out.setup), setup_ply=_longer(out.setup_ply))
    return to_game_arrays(out, block)


def _new_output(block: RecordBlock, rows: int, moves: int, setup: int) -> n.NodesOut:
    """Return empty arrays of these lengths for the scanner, and its initial state."""
    state = np.zeros(n.STATES, np.int64)
    state[n.CUT] = np.iinfo(np.int64).max
    if block.piece is not None:
        state[n.IN_MEMBER], state[n.MEMBER_BUDGET], state[n.MEMBER_BYTES] = block.piece
        state[n.POSITION] = block.start[0]
    return n.NodesOut(
        rows=np.empty((rows, n.COLUMNS), np.int64),
        moves=np.empty(moves, np.uint16),
        setup=np.empty(setup, np.uint16),
        setup_ply=np.empty(setup, np.uint16),
        state=state,
        seen=np.zeros(n.MAX_POINTS, np.int64),
    )


def find_pieces(block: RecordBlock, piece_bytes: int, games: int) -> Iterator[RecordBlock]:
    """Split a block of one SGF member between games, by scanning it. Nothing is copied.

    Args:
        block: The block. The member must not be dropped.
        piece_bytes: Bytes after which a piece ends with its last game.
    """
    out = _new_output(block, games, piece_bytes // 4 + n.MAX_MOVES + 2, n.MAX_SETUP + _SETUP_AT_ONCE)
    state, position = out.state, int(block.start[0])
    state[n.MEMBER_BYTES] = size = int(block.stop[0]) - position
    piece, status = None, FULL
    first_game, budget = 0, 0
    while status == FULL:
        state[n.CUT] = position + piece_bytes
        state[n.GAMES] = state[n.MOVES] = state[n.SETUP] = 0
        status = scan_members(block.data, block.start, block.stop, block.drop, charsets(), out)
        if piece is not None and state[n.GAMES] > 0:  # what follows the last game belongs to its piece
            yield replace(piece, stop=np.array([position], np.int64))
        if piece is None or state[n.GAMES] > 0:
            carry = MemberPiece(first_game, budget, size)
            piece = replace(block, start=np.array([position], np.int64), piece=carry)
        position, first_game, budget = (int(state[k]) for k in (n.POSITION, n.IN_MEMBER, n.MEMBER_BUDGET))
    assert piece is not None
    yield piece


def to_game_arrays(out: n.NodesOut, block: RecordBlock) -> GameArrays:
    """Return the scanner's output as games of the block."""
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
    """Return a copy of twice the length."""
    return np.concatenate((array, np.empty_like(array)))


def read_block(block: RecordBlock) -> ParsedBlock:
    """Parse every game of a block: `scan`, `read_text_fields`, `read_territory` and `read_figures` in one."""
    games = scan(block)
    text_fields = read_text_fields(block, games)
    territory, territory_offset = read_territory(block, games)
    seconds, evaluations = read_figures(block, games, text_fields)
    first = np.searchsorted(games.block_index, games.block_index)  # of the same member, whose games are consecutive
    before = 0 if block.piece is None else block.piece.first_game
    return ParsedBlock(
        format="sgf",
        block=block,
        games=games,
        text_fields=text_fields,
        index=(np.arange(len(games)) - first + before).astype(np.int32),
        territory=territory,
        territory_offset=territory_offset,
        seconds=seconds,
        evaluations=evaluations,
    )


def read_text_fields(block: RecordBlock, games: GameArrays) -> TextFields:
    """Locate the text fields in the roots of games, dropped ones included.

    The first value of a property is used. One of more than `FIELD_LIMIT` bytes counts as missing.

    Args:
        games: Its games, as read by `scan`.
    """
    start = np.zeros((len(FIELDS), len(games)), np.int64)
    stop = np.zeros_like(start)
    find_text_fields(block.data, games.start, games.stop, charsets(), start, stop)
    return TextFields(block.data, start, stop)


def read_territory(block: RecordBlock, games: GameArrays) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.int64]]:
    """Read the final territory, TB and TW of the last node of the main line that has them; invalid values are skipped.

    Only games with "TB[" or "TW[" in their text that are not dropped are read. A game has no territory if its nodes
    list more points than its text has bytes, plus 1,250.

    Returns:
        (territory [T], offset [G + 1]), see `ParsedBlock`.
    """
    has_territory = np.empty(len(games), np.uint8)
    find_territory(block.data, games.start, games.stop, has_territory)
    width = np.where(games.drop == DropReason.KEPT, games.width, 0) * has_territory
    capacity = int((width.astype(np.int64) * games.height).sum())
    territory, offset = np.empty(capacity, np.uint16), np.zeros(len(games) + 1, np.int64)
    source = TerritoryInput(
        start=games.start,
        stop=games.stop,
        width=width,
        height=games.height,
        owners=np.empty(n.MAX_POINTS, np.uint8),
    )
    collect_territory(block.data, source, charsets(), offset, territory)
    return territory[: offset[-1]].copy(), offset


def read_figures(
    block: RecordBlock, games: GameArrays, text_fields: TextFields
) -> tuple[npt.NDArray[np.float32] | None, npt.NDArray[np.float32] | None]:
    """Read the figures of moves: seconds from BL, WL, OB and OW (docs/clocks.md), evaluations from KataGo's comments.

    Only games with "BL[" or "WL[" in their text, or with KataGo's comment on the root, are read.

    Returns:
        (seconds [M], evaluations [M, 4]), see `ParsedBlock`.
    """
    wanted = np.where(text_fields.start[FIELDS.index("game_type")] > 0, np.uint8(EVALUATIONS), np.uint8(0))
    find_clocks(block.data, games.start, games.stop, wanted)
    wanted[games.drop != DropReason.KEPT] = 0
    limits = np.zeros((len(games), 4))
    rows = [FIELDS.index(name) for name in ("time", "overtime", "periods", "period_seconds")]
    for g in np.flatnonzero(wanted & CLOCKS).tolist():
        spans = zip(text_fields.start[rows, g].tolist(), text_fields.stop[rows, g].tolist())
        limits[g] = _time_limits(*(block.data[start:stop].tobytes() for start, stop in spans))
    has_clocks, has_evaluations = (bool((wanted & figure).any()) for figure in (CLOCKS, EVALUATIONS))
    seconds = np.full(len(games.moves) if has_clocks else 0, np.nan, np.float32)
    evaluations = np.full((len(games.moves) if has_evaluations else 0, 4), np.nan, np.float32)
    source = FigureInput(
        start=games.start,
        stop=games.stop,
        move_offset=games.move_offset,
        wanted=wanted,
        main=limits[:, 0].copy(),
        kind=limits[:, 1].astype(np.uint8),
        limit=limits[:, 2].astype(np.int64),
        period=limits[:, 3].copy(),
        clock=np.empty((2, 2)),
        state=np.empty((2, 3)),
        node=np.empty(3, np.int64),
    )
    if wanted.any():
        collect_figures(block.data, source, charsets(), seconds, evaluations)
    return seconds if has_clocks else None, evaluations if has_evaluations else None


@lru_cache(maxsize=4096)
def _time_limits(time: bytes, overtime: bytes, periods: bytes, period_seconds: bytes) -> tuple[float, int, int, float]:
    """Return (seconds of main time or NaN, kind of overtime, its count, length of a period in seconds)."""
    minutes = parse_minutes(time.decode("utf-8", "replace"))
    main = math.nan if minutes is None else 60 * minutes
    text = overtime.decode("utf-8", "replace").strip()
    if not text and periods.strip(b"0 "):
        text = f"{periods.decode('utf-8', 'replace')}x{period_seconds.decode('utf-8', 'replace')}"
    limit = parse_overtime(text)
    if limit is None:
        return main, UNKNOWN_OVERTIME if text else ABSOLUTE, 0, 0.0
    kind = {"byo-yomi": BYO_YOMI, "canadian": CANADIAN}.get(limit.kind, UNKNOWN_OVERTIME)
    return main, kind, limit.count, limit.seconds


def root_properties(record: bytes) -> dict[str, tuple[bytes, ...]]:
    """Return the root's properties of the first game in `record`: name -> values, as found, with their escapes.

    Names are converted to FF[4]: only their capitals are kept; names without capitals, or with digits, become upper
    case. Properties are in the record's order; a repeated one has the values of all its occurrences. Only the first
    65,536 values of the root are read. {} if there is no game.
    """
    data = _as_array(record)
    spans = np.empty((64, 4), np.int64)
    count = min(root_values(data, charsets(), spans), _MAX_ROOT_VALUES)
    if count > len(spans):
        spans = np.empty((count, 4), np.int64)
        root_values(data, charsets(), spans)
    values_of: dict[str, list[bytes]] = {}
    for name_start, name_stop, start, stop in spans[:count].tolist():
        name = record[name_start:name_stop].decode("ascii")
        plain = re.sub("[a-z]", "", name) if re.search("[A-Z]", name) and name.isalpha() else name.upper()
        values_of.setdefault(plain, []).append(record[start:stop])
    return {name: tuple(values) for name, values in values_of.items()}


def root_codec(properties: Mapping[str, Sequence[bytes]]) -> str:
    """Return Python's codec for the text of a root: by CA if it can be trusted, else detected.

    Only the first mebibyte of text counts, without values of more than `FIELD_LIMIT` bytes.
    """
    ca = properties.get("CA")
    values = (value for values in properties.values() for value in values if len(value) <= FIELD_LIMIT)
    sizes = accumulate(map(len, kept := list(values)))
    return choose_codec(ca[0] if ca else None, b"\n".join(v for v, s in zip(kept, sizes) if s <= _CODEC_BYTES))


# Properties that the writer derives from the arrays, or always writes in one form.
_DERIVED = frozenset(("FF", "GM", "CA", "SZ", "PL", "B", "W", "AB", "AW", "AE"))


def plain_properties(properties: Mapping[str, Sequence[bytes]], codec: str) -> dict[str, tuple[str, ...]]:
    """Return the root's properties in canonical form, without those that the writer derives from the game's arrays."""
    return {
        name: tuple(canonical_value(value.decode(codec, "replace")) for value in values)
        for name, values in properties.items()
        if name not in _DERIVED
    }


def make_record(width: int, height: int, handicap: int | None, properties: Mapping[str, str | None]) -> bytes:
    """Return a record of a root only, without stones and moves, for a game from another format than SGF.

    Args:
        handicap: HA; None if unknown.
        properties: As for `text_properties`.
    """
    return format_root(width, height, text_properties(handicap, properties)) + b")"


def text_properties(handicap: int | None, properties: Mapping[str, str | None]) -> dict[str, tuple[str, ...]]:
    """Return root properties in canonical form, for a game from another format than SGF.

    Args:
        handicap: HA, written last; None if unknown.
        properties: Name -> plain text, in the order of writing; None is left out. Must not contain FF, GM, CA, SZ and
            HA.
    """
    texts: dict[str, tuple[str, ...]] = {name: (escape(text),) for name, text in properties.items() if text is not None}
    return texts if handicap is None else texts | {"HA": (str(handicap),)}


def format_root(width: int, height: int, properties: Mapping[str, Sequence[str]]) -> bytes:
    """Return the root of a record, up to its stones.

    Args:
        properties: Name -> values in canonical form.
    """
    size = str(width) if width == height else f"{width}:{height}"
    text = "".join(name + "".join(f"[{value}]" for value in values) for name, values in properties.items())
    return f"(;FF[4]GM[1]CA[UTF-8]SZ[{size}]{text}".encode("utf-8", "replace")


def final_setup(setup: npt.NDArray[np.uint16]) -> dict[int, int]:
    """Return the effect of one node's setup entries: point -> 0 black, 2 white, 1 empty. The last entry wins."""
    return dict(zip((setup & POINT_MASK).tolist(), (setup >> 14).tolist()))


@kernel
def _find_nodes(data: Bytes, ca: Bytes, charsets: Charsets, starts: npt.NDArray[np.int64]) -> Int:
    """Fill the positions of the ; of the main line's nodes, and of its end. Return the number of nodes."""
    stop = len(data)
    _at, i, _junk = find_game(data, 0, stop)
    charset = find_charset(ca, 0, len(ca), charsets) if len(ca) > 0 else SINGLE
    count = 0
    while i < stop and data[i] != CLOSE:
        if data[i] == SEMICOLON:
            starts[count] = i
            count += 1
        elif data[i] == LEFT:
            i = end_of_value(data, i + 1, stop, charset)
        i += 1
    starts[count] = min(i, stop)
    return count


def split_nodes(record: bytes) -> list[bytes]:
    """Return the text of each node of the main line of the first game, from its ; up to the next one."""
    ca = root_properties(record).get("CA", (b"",))[0]
    starts = np.empty(record.count(b";") + 1, np.int64)
    data, ca_bytes = (writable_view(np.frombuffer(text, np.uint8)) for text in (record, ca))
    count = _find_nodes(data, ca_bytes, charsets(), starts)
    cuts = starts[: count + 1].tolist()
    return [record[start:stop] for start, stop in pairwise(cuts)]
