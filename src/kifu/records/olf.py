"""OLF, the one-line format of Schraudolph's archive: many lines at once into flat arrays, and many games into lines.

docs/formats/olf.md is the format's card: its fields, and what was decided where its description is silent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from kifu.point import BLACK, WHITE
from kifu.records import _olf as o
from kifu.records.games import FIELDS, GameArrays, ParsedBlock, RecordBlock, TextFields
from kifu.records.meta import Rank, Result

if TYPE_CHECKING:
    pass


def read_olf(block: RecordBlock) -> ParsedBlock:
    """Reads every line of a block's members as a game. Never fails: what can't be read gives a row with its `DropReason`.

    Each member gives at least one row; lines without a word, or with a # before the first, give none. Games.start and
    stop enclose the line without the white space around it. Handicap stones are setup of the root, see `GameArrays`. Words
    are as the line spells them, see `parse_rating` and the like; what OLF says by a word of its own for nothing (?, the
    rating 0, a date of zeros) is not told.

    Time is linear in the bytes; memory is bounded by a few times the bytes: a line of over 1 MiB or 65,535
    moves is `DropReason.TOO_LARGE`, and so is all that follows where a member packs lines too densely.
    """
    length = int(np.sum(block.stop - block.start))
    count = o.count_rows(block.data, block.start, block.stop)
    out = o.OlfOut(
        rows=np.empty((count, o.COLUMNS), np.int64),
        word_start=np.zeros((len(FIELDS), count), np.int64),
        word_stop=np.zeros((len(FIELDS), count), np.int64),
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
        text_fields=TextFields(block.data, out.word_start[:, :total], out.word_stop[:, :total]),
        index=line,
        territory=out.territory[: out.state[o.AREA]].copy(),
        territory_offset=np.concatenate(([0], rows[:, o.TERRITORY_END])),
    )


# What the fields say. Each takes a field as text and returns None, or an unknown Result, where it says nothing we know.

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)")
MAX_NUMBER_LENGTH = 20  # characters of a number

BY_TIME, BY_RESIGNATION = "888.8", "999.9"


def _parse_number(text: str) -> float | None:
    return float(text) if len(text) <= MAX_NUMBER_LENGTH and text.isascii() and _NUMBER.fullmatch(text) else None


def parse_name(text: str) -> str:
    """A player's name: each _ stands for a space."""
    return text.replace("_", " ")


def parse_rating(text: str) -> tuple[float | None, bool | None]:
    """-> (rating on the archive's scale, True if it is confirmed; None: that is not said). "35.0" is confirmed.

    (None, None) for 0 and below, which is no rating.
    """
    rating = _parse_number(text)
    if rating is None or rating <= 0:
        return None, None
    return rating, True if "." in text else None


def parse_result(text: str) -> Result:
    """Points, positive where Black won, with 888.8 for a win on time and 999.9 for a resignation; 0 is a draw."""
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
    """Points for White. Taken as it stands, unlike an SGF record's."""
    return _parse_number(text)


def parse_time(text: str) -> float | None:
    """The main time in minutes; 0 is none."""
    minutes = _parse_number(text)
    return None if minutes is None or minutes < 0 else minutes


def parse_date(text: str) -> str | None:
    """The date as SGF writes it: "1996-03-12", or "1996-03" or "1996" where zeros stand for what is not known.

    Anything else is returned as it is; None for a date without a year.
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
    """The words of a game, by their names in FIELDS, decoded, as root properties of an SGF record, in its spelling."""
    result, komi, minutes = parse_result(texts["result"]), parse_komi(texts["komi"]), parse_time(texts["time"])
    return {
        "PB": parse_name(texts["black"]) or None,
        "BR": _rank_text(texts["black_rank"]),
        "PW": parse_name(texts["white"]) or None,
        "WR": _rank_text(texts["white_rank"]),
        "RE": None if result == Result() else str(result),
        # A whole number of 100 and more would be read as Fox's hundredfold.
        "KM": None if komi is None else f"{komi:.12g}" if abs(komi) < 100 else f"{komi:.2f}",
        "DT": parse_date(texts["date"]),
        "TM": None if minutes is None else f"{minutes * 60:.12g}",
    }


def _rank_text(text: str) -> str | None:
    rating, confirmed = parse_rating(text)
    rank = None if rating is None else Rank.from_rating(rating, confirmed)
    return None if rank is None else str(rank)
