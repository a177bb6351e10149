"""The reading of a record in plain Python values, to write expectations of GIB, NGF and UGF with."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kifu.errors import DropReason
from kifu.point import WHITE_BIT
from kifu.records.games import FIELDS, NO_HANDICAP, ParsedBlock, ParseWarning, RecordBlock
from kifu.records.sgf import as_block

W, PASS = WHITE_BIT, 361
STONES = [288, 72, 60, 300, 180, 174, 186, 294, 66]  # dp pd dd pp jj dj pj jp jd
SETUP = {2: "01", 3: "012", 4: "0123", 5: "01234", 6: "012356", 7: "0123564", 8: "01235678", 9: "012356784"}


@dataclass
class Reading:
    """The expected reading of a game. seconds: None if there are none."""

    drop: DropReason = DropReason.KEPT
    size: int = 0
    handicap: int = NO_HANDICAP
    setup: list[int] = field(default_factory=list)
    moves: list[int] = field(default_factory=list)
    warnings: ParseWarning = field(default_factory=lambda: ParseWarning(0))
    seconds: list[float] | None = None


def kept(*moves: int, **changes: Any) -> Reading:
    """Return the reading of a whole game on 19 x 19 without handicap, with some changes."""
    return Reading(**{"size": 19, "handicap": 0, "moves": list(moves)} | changes)


def readings(parsed: ParsedBlock, member: int = 0) -> list[Reading]:
    games, found = parsed.games, []
    for g in np.flatnonzero(games.block_index == member):
        assert games.width[g] == games.height[g]
        moves = slice(games.move_offset[g], games.move_offset[g + 1])
        seconds = None if parsed.seconds is None else parsed.seconds[moves]
        found.append(
            Reading(
                DropReason(games.drop[g]),
                int(games.width[g]),
                int(games.handicap[g]),
                games.setup[games.setup_offset[g] : games.setup_offset[g + 1]].tolist(),
                games.moves[moves].tolist(),
                ParseWarning(int(games.warnings[g])),
                None if seconds is None or np.isnan(seconds).all() else seconds.tolist(),
            )
        )
    return found


def texts_of(parsed: ParsedBlock, g: int = 0) -> dict[str, str]:
    fields = parsed.text_fields
    texts = [fields.data[a:b].tobytes().decode() for a, b in zip(fields.start[:, g], fields.stop[:, g])]
    return {name: text for name, text in zip(FIELDS, texts) if text}


def check_members(read: Callable[[RecordBlock], ParsedBlock], members: list[bytes]) -> None:
    """Check that each member gives a row, and the same rows alone as in a block."""
    parsed = read(as_block(members))
    for k, data in enumerate(members):
        alone = readings(read(as_block([data])))
        assert alone
        assert repr(readings(parsed, k)) == repr(alone)  # NaN differs from itself
