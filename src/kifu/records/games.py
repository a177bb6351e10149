"""Many records, many games, as flat arrays: the form in which rooms hand them on and kernels take them.

A container yields `RecordBlock`s (bytes of whole members, side by side in one buffer); the scanner turns a block into
`GameArrays`. Nothing here is made once per game.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from enum import IntFlag
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]

NO_HANDICAP = -32768
"""`GameArrays.handicap` of a game without HA, or with one that is no number (then with `ParseWarning.HANDICAP_TEXT`)."""

TO_PLAY_UNSET = 0

MEMBER_LIMIT = 256 << 20
"""Bytes. A larger member is not read: it becomes an empty row with `DropReason.TOO_LARGE`."""

FormatName: TypeAlias = Literal["sgf", "olf", "tygem"]

FIELDS = (
    "black", "white", "black_rank", "white_rank", "result", "komi", "date", "time", "overtime", "rules", "event",
    "round", "place", "title", "charset", "periods", "period_seconds",
)  # fmt: skip
"""What a game may say in words: PB, PW, BR, WR, RE, KM, DT, TM, OT, RU, EV, RO, PC, GN and CA of SGF, in this order;
and TC and TT, by which Fox tells its overtime."""


@dataclass(frozen=True, slots=True)
class RecordBlock:
    """Some members of one container, whole, in their order there.

    data: [N] uint8, may hold other bytes between the members (archive headers). Never written to.
    start, stop: [K] int64: member k is data[start[k]:stop[k]].
    member: [K] int32: its ordinal in the container, counting everything the container lists, folders too, from 0.
    names, name_offset: [..] uint8, [K + 1] int64: member k's raw name is names[name_offset[k]:name_offset[k + 1]].
    drop: [K] uint8: a `DropReason` where the member could not be delivered (then it is empty), else 0.
    source: the container's path, as the user would recognise it.
    first_line: how many lines of its first member went before, in earlier blocks; 0 unless the member is a file of lines.
    kind: what all its members are, one of `kifu.records.detect`; None if nobody has looked yet.
    """

    source: str
    data: Bytes
    start: npt.NDArray[np.int64]
    stop: npt.NDArray[np.int64]
    member: npt.NDArray[np.int32]
    names: Bytes
    name_offset: npt.NDArray[np.int64]
    drop: npt.NDArray[np.uint8]
    first_line: int = 0
    kind: int | None = None

    def __len__(self) -> int:
        return len(self.start)

    def name(self, k: int) -> str:
        """Member k's name for people: UTF-8 where it is that, else with the bytes escaped."""
        raw = self.names[self.name_offset[k] : self.name_offset[k + 1]].tobytes()
        return raw.decode("utf-8", "backslashreplace")

    def part(self, first: int, last: int) -> RecordBlock:
        """Members first to last - 1 only."""
        at = self.name_offset[first : last + 1]
        return replace(
            self,
            start=self.start[first:last],
            stop=self.stop[first:last],
            member=self.member[first:last],
            names=self.names[at[0] : at[-1]],
            name_offset=at - at[0],
            drop=self.drop[first:last],
            first_line=self.first_line if first == 0 else 0,
        )


def make_block(
    source: str, data: Bytes, stop: list[int], members: list[int], names: list[bytes], drops: list[int]
) -> RecordBlock:
    """A block whose members lie in `data` one after the other, member k up to stop[k]."""
    ends: npt.NDArray[np.int64] = np.array([0, *stop], np.int64)
    return RecordBlock(
        source=source,
        data=data,
        start=ends[:-1].copy(),
        stop=ends[1:].copy(),
        member=np.array(members, np.int32),
        names=np.frombuffer(bytearray(b"".join(names)), np.uint8),
        name_offset=np.cumsum([0, *map(len, names)], dtype=np.int64),
        drop=np.array(drops, np.uint8),
    )


class ParseWarning(IntFlag):
    """What the reader forgave in a record, or passed over. Each is told in docs/leniency.md."""

    TRUNCATED = 1 << 0  # the record ends before its last )
    JUNK_BEFORE = 1 << 1  # bytes that are no white space before (;
    VARIATIONS = 1 << 2  # lines beside the main one were skipped
    SIZE_MISSING = 1 << 3  # no SZ: 19 x 19
    SIZE_PAIR = 1 << 4  # SZ[19:19]: a square board written as a pair, which FF[4] forbids
    HANDICAP_TEXT = 1 << 5  # HA is not a whole number: read as absent
    TWO_MOVES_IN_NODE = 1 << 6  # B and W in one node: B is taken; or twice the same: the first is
    MANY_MOVE_VALUES = 1 << 7  # B[dd][pp]: the first value is taken
    SETUP_AFTER_ROOT = 1 << 8  # AB, AW, AE in a later node than the root
    SETUP_TWICE = 1 << 9  # one point in two of the root's AB, AW and AE (twice in one of them says nothing new)
    PASS_AS_TT = 1 << 10  # tt for a pass on a board up to 19 x 19
    LOWER_CASE_NAME = 1 << 11  # lower-case letters in a property name (as FF[1] to FF[3] write them)
    BAD_SETUP_POINT = 1 << 12  # a setup value that is no point or rectangle of the board: passed over
    HANDICAP_ONE = 1 << 13  # HA[1]
    BAD_CHARSET = 1 << 14  # CA names no character set that we know
    MOVE_IN_ROOT = 1 << 15  # B or W in the first node
    LATER_GAME = 1 << 16  # not the first game of its member
    OPENING_MISSING = 1 << 17  # the record begins with its root's ;, without the ( before it
    PASS_AS_WORD = 1 << 18  # a move value that says pass or -- in letters, as early servers wrote it
    CUT = 1 << 19  # the moves from an illegal one on were taken off, by a corpus's rules of cleaning; no reader's doing


@dataclass(frozen=True, slots=True)
class MoveArrays:
    """What a replay needs of G games, and what of their setup stands in the root: see `GameArrays`."""

    width: npt.NDArray[np.uint8]
    height: npt.NDArray[np.uint8]
    moves: npt.NDArray[np.uint16]
    move_offset: npt.NDArray[np.int64]
    setup: npt.NDArray[np.uint16]
    setup_ply: npt.NDArray[np.uint16]
    setup_offset: npt.NDArray[np.int64]
    root_setup: npt.NDArray[np.uint16]


@dataclass(frozen=True, slots=True)
class GameArrays(MoveArrays):
    """G games read from one block (or several, see `concat`), in its order. Every member gives at least one row.

    width, height: [G] uint8; 0 where unreadable.
    moves: [M] uint16: point | WHITE_BIT; a pass is width * height; NO_POINT where the value is no point of the board
        (a game with one keeps drop == 0: what a bad move means is for the replay to say).
    move_offset: [G + 1] int64: game g's moves are moves[move_offset[g]:move_offset[g + 1]].
    setup: [S] uint16: point | WHITE_BIT or ERASE_BIT, one entry a stone (rectangles expanded), in the record's order;
        a point that one node gives twice to the same of AB, AW, AE has one entry.
    setup_ply: [S] uint16: how many moves come before the stone is set up (not decreasing within a game).
    setup_offset: [G + 1] int64.
    root_setup: [G] uint16: how many of the game's setup entries stand in its root node.
    to_play: [G] uint8: PL of the root as BLACK or WHITE, else TO_PLAY_UNSET.
    handicap: [G] int16: HA, or NO_HANDICAP.
    warnings: [G] uint32 of `ParseWarning`.
    drop: [G] uint8 of `DropReason`: reader's reasons only. A game that has one has neither moves nor setup.
    member: [G] int32: the member's ordinal in its container.
    block_index: [G] int32: the member's row in its block.
    start, stop: [G] int64: the game's own text within the block's data, from its "(" to after its ")"; empty if none.
    """

    to_play: npt.NDArray[np.uint8]
    handicap: npt.NDArray[np.int16]
    warnings: npt.NDArray[np.uint32]
    drop: npt.NDArray[np.uint8]
    member: npt.NDArray[np.int32]
    block_index: npt.NDArray[np.int32]
    start: npt.NDArray[np.int64]
    stop: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.width)


@dataclass(frozen=True, slots=True)
class TextFields:
    """The words of G games, as found: escapes, spelling and charset are those of the record's format.

    data: [N] uint8, in which the values lie. Never written to.
    start, stop: [F, G] int64, F = len(FIELDS): field f of game g is data[start[f, g]:stop[f, g]]; empty if it is not
        told.
    """

    data: Bytes
    start: npt.NDArray[np.int64]
    stop: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ParsedBlock:
    """G games of one block, all in one record format, with what they say in words.

    games: for each row its board, moves, setup; see there.
    text_fields: see `TextFields`.
    index: [G] int32: the game's ordinal among the games of its member, from 0; in formats of lines, its line there.
    territory: [T] uint16: point | WHITE_BIT, rising by point, of the final territory, where the record tells it.
    territory_offset: [G + 1] int64: game g's territory is territory[territory_offset[g]:territory_offset[g + 1]].
    """

    format: FormatName
    block: RecordBlock
    games: GameArrays
    text_fields: TextFields
    index: npt.NDArray[np.int32]
    territory: npt.NDArray[np.uint16]
    territory_offset: npt.NDArray[np.int64]


def concat(parts: Sequence[GameArrays]) -> GameArrays:
    """The rows of all parts, in order. start, stop and block_index still refer to each part's own block."""
    columns = {
        field.name: np.concatenate([getattr(_NO_GAMES, field.name)] + [getattr(part, field.name) for part in parts])
        for field in fields(GameArrays)
        if field.name not in ("move_offset", "setup_offset")
    }
    return GameArrays(
        **columns,
        move_offset=_concat_offsets([part.move_offset for part in parts]),
        setup_offset=_concat_offsets([part.setup_offset for part in parts]),
    )


def _concat_offsets(parts: list[npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
    counts = [np.zeros(1, np.int64)] + [np.diff(part) for part in parts]
    return np.cumsum(np.concatenate(counts))


_NO_GAMES = GameArrays(
    width=np.empty(0, np.uint8),
    height=np.empty(0, np.uint8),
    moves=np.empty(0, np.uint16),
    move_offset=np.zeros(1, np.int64),
    setup=np.empty(0, np.uint16),
    setup_ply=np.empty(0, np.uint16),
    setup_offset=np.zeros(1, np.int64),
    root_setup=np.empty(0, np.uint16),
    to_play=np.empty(0, np.uint8),
    handicap=np.empty(0, np.int16),
    warnings=np.empty(0, np.uint32),
    drop=np.empty(0, np.uint8),
    member=np.empty(0, np.int32),
    block_index=np.empty(0, np.int32),
    start=np.empty(0, np.int64),
    stop=np.empty(0, np.int64),
)
