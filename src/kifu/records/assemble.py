"""Assemble parsed blocks from games that are read one by one, as those of GIB, NGF, UGF and OGS are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from kifu.errors import DropReason
from kifu.records.games import (
    FIELDS,
    NO_HANDICAP,
    TO_PLAY_UNSET,
    GameArrays,
    ParsedBlock,
    RecordBlock,
    TextFields,
)

Points = npt.NDArray[np.uint16]

_NO_POINTS: Points = np.empty(0, np.uint16)


@dataclass(frozen=True, slots=True)
class SingleGame:
    """A game of a record block.

    Attributes:
        member: Row of its member in the block.
        start: Where its text begins in the block's data.
        index: Ordinal in its member; in formats of lines, its line number.
        width: Number of columns; 0 if dropped.
        height: Number of rows; 0 if dropped.
        moves: [M] uint16, see `GameArrays.moves`.
        setup: [S] uint16, the stones of the root, see `GameArrays.setup`.
        fields: Non-empty texts by name, of `FIELDS` up to title, in SGF's spelling.
        codec: Python's name of the codec that decoded them.
        seconds: [M] float32, see `ParsedBlock.seconds`.
        warnings: What the reader tolerated, as bits of `ParseWarning`.
        drop: Why the reader drops the game, which then has neither moves nor setup.
    """

    member: int
    start: int
    stop: int
    index: int = 0
    width: int = 0
    height: int = 0
    moves: Points = field(default_factory=lambda: _NO_POINTS)
    setup: Points = field(default_factory=lambda: _NO_POINTS)
    to_play: int = TO_PLAY_UNSET
    handicap: int = NO_HANDICAP
    fields: Mapping[str, str] = field(default_factory=dict)
    codec: str = "utf_8"
    seconds: npt.NDArray[np.float32] | None = None
    warnings: int = 0
    drop: DropReason = DropReason.KEPT


def assemble(record_format: str, block: RecordBlock, games: Sequence[SingleGame]) -> ParsedBlock:
    """Return games as a parsed block.

    Args:
        record_format: Its name in `kifu.records.formats.RECORD_FORMATS`.
        block: The block that they are from.
        games: At least one for each member, in the block's order.
    """
    members = np.array([game.member for game in games], np.int32)
    setup = [game.setup for game in games]
    arrays = GameArrays(
        width=np.array([game.width for game in games], np.uint8),
        height=np.array([game.height for game in games], np.uint8),
        moves=np.concatenate([_NO_POINTS, *(game.moves for game in games)]),
        move_offset=_offsets([len(game.moves) for game in games]),
        setup=np.concatenate([_NO_POINTS, *setup]),
        setup_ply=np.zeros(sum(map(len, setup)), np.uint16),
        setup_offset=_offsets([len(stones) for stones in setup]),
        root_setup=np.array([len(stones) for stones in setup], np.uint16),
        to_play=np.array([game.to_play for game in games], np.uint8),
        handicap=np.array([game.handicap for game in games], np.int16),
        warnings=np.array([game.warnings for game in games], np.uint32),
        drop=np.array([game.drop for game in games], np.uint8),
        member=block.member[members],
        block_index=members,
        start=np.array([game.start for game in games], np.int64),
        stop=np.array([game.stop for game in games], np.int64),
    )
    return ParsedBlock(
        format=record_format,
        block=block,
        games=arrays,
        text_fields=text_fields([game.fields for game in games]),
        index=np.array([game.index for game in games], np.int32),
        territory=_NO_POINTS,
        territory_offset=np.zeros(len(games) + 1, np.int64),
        codecs=[game.codec for game in games],
        seconds=_seconds(games),
    )


def _offsets(lengths: Sequence[int]) -> npt.NDArray[np.int64]:
    return np.cumsum([0, *lengths], dtype=np.int64)


def text_fields(games: Sequence[Mapping[str, str]]) -> TextFields:
    """Return the text fields of games, given their non-empty texts by name."""
    texts = [game.get(name, "").encode("utf-8", "replace") for name in FIELDS for game in games]
    ends = _offsets([len(text) for text in texts])
    data = np.frombuffer(bytearray(b"".join(texts)), np.uint8)
    return TextFields(data, ends[:-1].reshape(len(FIELDS), -1).copy(), ends[1:].reshape(len(FIELDS), -1).copy())


def _seconds(games: Sequence[SingleGame]) -> npt.NDArray[np.float32] | None:
    if all(game.seconds is None for game in games):
        return None
    unknown = (np.full(len(game.moves), np.nan, np.float32) for game in games)
    return np.concatenate([fill if game.seconds is None else game.seconds for game, fill in zip(games, unknown)])
