"""OLF, the one-line format of Schraudolph's archive: parse many lines at once into flat arrays.

docs/formats/olf.md describes the format: its fields, and the decisions where its own description is silent. The writer
is `kifu.records.olf_writer`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from kifu.point import BLACK, WHITE
from kifu.records import _olf as o
from kifu.records.games import FIELDS, GameArrays, ParsedBlock, RecordBlock, TextFields
from kifu.records.meta import Rank, Result, komi_text

if TYPE_CHECKING:
    pass


def read_olf(block: RecordBlock) -> ParsedBlock:
    """Read every line of a block's members as a game. Never fails: unreadable lines give rows with their `DropReason`.

    Each member gives at least one row; blank lines and comments (#) give none. `GameArrays.start` and `stop` enclose
    the line without surrounding white space. Handicap stones are setup of the root, see `GameArrays`. Text fields are
    as the line spells them, see `parse_rating` and the like; OLF's placeholders for missing values (?, the rating 0, a
    date of zeros) count as missing.

    Time is linear in the bytes; memory is bounded by a few times the bytes: a line of more than 1 MiB or 65,535 moves
    is `DropReason.TOO_LARGE`, and so is the rest of a member that contains lines too densely.
    """
    length = int(np.sum(block.stop - block.start))
    count = o.count_rows(block.data, block.start, block.stop)
    out = o.OlfOut(
        rows=np.empty((count, o.COLUMNS), np.int64),
        field_start=np.zeros((len(FIELDS), count), np.int64),
        field_stop=np.zeros((len(FIELDS), count), np.int64),
        moves=np.empty(length // 2 + 1, np.uint16),
        setup=np.empty(length // 2 + 1, np.uint16),
        territory=np.empty(length // 2 + 1, np.uint16),
        state=np.zeros(o.STATES, np.int64),
        fields=np.zeros((o.LINE_FIELDS, 2), np.int64),
        seen=np.zeros(o.POINTS, np.int64),
        area=np.zeros(o.POINTS, np.int64),
    )
    o.read_members(block.data, block.start, block.stop, block.drop, out)
    total = out.state[o.GAMES]
    rows = out.rows[:total]
    member = rows[:, o.MEMBER_ROW]
    setup_offset = np.concatenate(([0], rows[:, o.SETUP_END]))
    games = GameArrays(
        width=rows[:, o.WIDTH].astype(np.uint8),
        height=rows[:, o.HEIGHT].astype(np.uint8),
        moves=out.moves[: out.state[o.MOVES]].copy(),
        move_offset=np.concatenate(([0], rows[:, o.MOVE_END])),
        setup=out.setup[: out.state[o.SETUP]].copy(),
        setup_ply=np.zeros(out.state[o.SETUP], np.uint16),
        setup_offset=setup_offset,
        root_setup=np.diff(setup_offset).astype(np.uint16),
        to_play=np.zeros(total, np.uint8),
        handicap=rows[:, o.HANDICAP].astype(np.int16),
        warnings=rows[:, o.WARNINGS].astype(np.uint32),
        drop=rows[:, o.DROP].astype(np.uint8),
        member=block.member[member],
        block_index=member.astype(np.int32),
        start=rows[:, o.START].copy(),
        stop=rows[:, o.STOP].copy(),
    )
    line = rows[:, o.LINE].astype(np.int32)
    line[member == 0] += block.first_line
    return ParsedBlock(
        format="olf",
        block=block,
        games=games,
        text_fields=TextFields(block.data, out.field_start[:, :total], out.field_stop[:, :total]),
        index=line,
        territory=out.territory[: out.state[o.AREA]].copy(),
        territory_offset=np.concatenate(([0], rows[:, o.TERRITORY_END])),
    )


# Parsers of the fields. Each returns None, or an unknown Result, for text without a known meaning.

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)")
MAX_NUMBER_LENGTH = 20  # characters of a number

BY_TIME, BY_RESIGNATION = "888.8", "999.9"


def _parse_number(text: str) -> float | None:
    return float(text) if len(text) <= MAX_NUMBER_LENGTH and text.isascii() and _NUMBER.fullmatch(text) else None


def parse_name(text: str) -> str:
    """Return a player's name, in which each _ stands for a space."""
    return text.replace("_", " ")


def parse_rating(text: str) -> tuple[float | None, bool | None]:
    """Parse a rating.

    Returns:
        (rating on the archive's scale, True if it is confirmed, else None). "35.0" is confirmed, "35" is not. (None,
        None) for 0 and below, which is no rating.
    """
    rating = _parse_number(text)
    if rating is None or rating <= 0:
        return None, None
    return rating, True if "." in text else None


def parse_result(text: str) -> Result:
    """Parse points, positive if Black won, with 888.8 for a win on time and 999.9 for a resignation; 0 is a draw."""
    value = _parse_number(text)
    if value is None or abs(value) > float(BY_RESIGNATION):
        return Result()
    if value == 0:
        return Result.parse("0")
    winner = BLACK if value > 0 else WHITE
    if abs(value) == float(BY_TIME):
        return Result(winner, "time")
    if abs(value) == float(BY_RESIGNATION):
        return Result(winner, "resign")
    return Result(winner, "score", abs(value))


def parse_komi(text: str) -> float | None:
    """Parse the points for White. Taken as they are, unlike those of an SGF record."""
    return _parse_number(text)


def parse_time(text: str) -> float | None:
    """Parse the main time in minutes; 0 is none."""
    minutes = _parse_number(text)
    return None if minutes is None or minutes < 0 else minutes


def parse_date(text: str) -> str | None:
    """Return the date as in SGF: "1996-03-12", or "1996-03" or "1996" if the rest is zeros.

    Any other text is returned as it is; None for a date without a year.
    """
    match = re.fullmatch(r"(\d{4})-(\d\d)-(\d\d)", text)
    if match is None:
        return text or None
    year, month, day = match.groups()
    if year == "0000":
        return None
    if month == "00":
        return year
    return f"{year}-{month}" if day == "00" else text


def to_sgf_properties(texts: Mapping[str, str]) -> dict[str, str | None]:
    """Return decoded text fields as root properties of SGF, in its spelling.

    Args:
        texts: Text by field name, all of FIELDS.
    """
    result, komi, minutes = parse_result(texts["result"]), parse_komi(texts["komi"]), parse_time(texts["time"])
    return {
        "PB": parse_name(texts["black"]) or None,
        "BR": _rank_text(texts["black_rank"]),
        "PW": parse_name(texts["white"]) or None,
        "WR": _rank_text(texts["white_rank"]),
        "RE": None if result == Result() else str(result),
        "KM": None if komi is None else komi_text(komi),
        "DT": parse_date(texts["date"]),
        "TM": None if minutes is None else f"{minutes * 60:.12g}",
    }


def _rank_text(text: str) -> str | None:
    rating, confirmed = parse_rating(text)
    rank = None if rating is None else Rank.from_rating(rating, confirmed)
    return None if rank is None else str(rank)
