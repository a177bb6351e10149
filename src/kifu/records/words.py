"""What records say in words, of many games at once: where each value lies in its buffer, still undecoded.

A reader finds them (`TextFields`); `kifu.records.decode` makes text of them, and `kifu.corpus` meaning.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from kifu.records.games import Bytes, GameArrays, RecordBlock

FormatName: TypeAlias = Literal["sgf", "olf", "tygem"]

FIELDS = (
    "black", "white", "black_rank", "white_rank", "result", "komi", "date", "time", "overtime", "rules", "event",
    "round", "place", "title", "charset", "periods", "period_seconds",
)  # fmt: skip
"""What a game may say in words: PB, PW, BR, WR, RE, KM, DT, TM, OT, RU, EV, RO, PC, GN and CA of SGF, in this order;
and TC and TT, by which Fox tells its overtime."""


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
    words: see `TextFields`.
    index: [G] int32: the game's ordinal among the games of its member, from 0; in formats of lines, its line there.
    territory: [T] uint16: point | WHITE_BIT, rising by point, of the final territory, where the record tells it.
    territory_offset: [G + 1] int64: game g's territory is territory[territory_offset[g]:territory_offset[g + 1]].
    """

    format: FormatName
    block: RecordBlock
    games: GameArrays
    words: TextFields
    index: npt.NDArray[np.int32]
    territory: npt.NDArray[np.uint16]
    territory_offset: npt.NDArray[np.int64]
