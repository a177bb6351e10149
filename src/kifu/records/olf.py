"""OLF, the one-line format of Schraudolph's archive: many lines at once into flat arrays, and many games into lines.

docs/formats/olf.md is the format's card: its fields, and what was decided where its description is silent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from kifu.errors import DropReason
from kifu.point import BLACK, WHITE
from kifu.records import _olf as o
from kifu.records import _olf_write as w
from kifu.records.games import FIELDS, NO_HANDICAP, Bytes, GameArrays, ParsedBlock, RecordBlock, TextFields
from kifu.records.meta import Rank, Result

if TYPE_CHECKING:
    import pyarrow as pa


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
_LONGEST = 20  # characters of a number

_BY_TIME, _BY_RESIGNATION = "888.8", "999.9"


def _parse_number(text: str) -> float | None:
    return float(text) if len(text) <= _LONGEST and text.isascii() and _NUMBER.fullmatch(text) else None


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
    if value is None or abs(value) > float(_BY_RESIGNATION):
        return Result()
    if value == 0:
        return Result.parse("0")
    winner = BLACK if value > 0 else WHITE
    if abs(value) == float(_BY_TIME):
        return Result(winner, "time")
    if abs(value) == float(_BY_RESIGNATION):
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


# The writer


class ExportFailure(IntEnum):
    """Why a game cannot be said in OLF: a line would say less of it, or something else."""

    SAYABLE = 0
    SET_ASIDE = 1  # the reader of its record dropped it
    BOARD = 2  # not 1 to 19 points wide and high
    SETUP = 3  # other than as many black stones as the handicap says; or moves that look like a handicap's
    MOVES = 4  # one that is no point of the board, in the territory too; or more than a reader takes
    RESULT = 5  # void, unknown, forfeit, a winner without a margin, a margin of 0, 888.8, 999.9 or more
    TERMS = 6  # a handicap, date, rating, time or komi that its field cannot hold


@dataclass(frozen=True, slots=True)
class OlfFields:
    """What lines say of G games beside the play: columns of the catalogue, by the names that they have there.

    date: [G] date32.  year: [G] int16, told where there is no full date.  black, white: [G] string.
    black_rating, white_rating, main_minutes, margin, komi: [G] float32.  black_confirmed, white_confirmed: [G] bool.
    winner: [G] string: black, white, draw.  ending: [G] string: score, resign, time, or another.
    Null wherever it is not told.
    """

    date: pa.Array
    year: pa.Array
    black: pa.Array
    black_rating: pa.Array
    black_confirmed: pa.Array
    white: pa.Array
    white_rating: pa.Array
    white_confirmed: pa.Array
    main_minutes: pa.Array
    winner: pa.Array
    ending: pa.Array
    margin: pa.Array
    komi: pa.Array


@dataclass(frozen=True, slots=True)
class OlfLines:
    """The lines of G games.

    data: [N] uint8: the lines side by side, in UTF-8, each with its line end.
    offset: [G + 1] int64: game g's line is data[offset[g]:offset[g + 1]]; empty where there is none.
    why: [G] uint8 of `ExportFailure`: why there is none.
    """

    data: Bytes
    offset: npt.NDArray[np.int64]
    why: npt.NDArray[np.uint8]


_Codes: TypeAlias = npt.NDArray[np.int64]


def write_olf(
    games: GameArrays,
    words: OlfFields,
    territory: npt.NDArray[np.uint16],
    territory_offset: npt.NDArray[np.int64],
) -> OlfLines:
    """The games' lines. Reading one gives the same play, territory and words; or there is none, see `ExportFailure`.

    games, territory, territory_offset: as in `ParsedBlock`. What OLF has no word for is left out: PL, which of a handicap's
    stones stand in the root, whether a rating is doubted, a handicap of 0 as against none. White space, control
    characters and underscores in names come back as single spaces.
    """
    stones = np.where(games.handicap == NO_HANDICAP, 0, games.handicap)
    columns = [
        _spell(_date_text, words.date.view("int32"), words.year),
        _spell(_name_text, words.black),
        _spell(_rating_text, words.black_rating, words.black_confirmed),
        _spell(_name_text, words.white),
        _spell(_rating_text, words.white_rating, words.white_confirmed),
        _spell("{}:{}".format, games.width, games.height),
        _spell(_time_text, words.main_minutes),
        _spell(_result_text, words.winner, words.ending, words.margin),
        _spell(_komi_text, words.komi),
        _spell(_handicap_text, stones),
    ]
    texts = [text for spellings, _ in columns for text in spellings]
    first = np.cumsum([0, *(len(spellings) for spellings, _ in columns)])
    which = np.stack([codes + start for (_, codes), start in zip(columns, first)])
    sides = np.stack((games.width, games.height))
    unwritable = ((sides < 1) | (sides > o.MAX_SIZE)).any(axis=0)
    unsaid = np.array([text is None for text in texts], bool)[which]
    why = np.select(
        [games.drop != DropReason.KEPT, unwritable, unsaid[o.RESULT]],
        [ExportFailure.SET_ASIDE, ExportFailure.BOARD, ExportFailure.RESULT],
        np.where(unsaid.any(axis=0), ExportFailure.TERMS, ExportFailure.SAYABLE),
    ).astype(np.uint8)
    encoded = [text or b"" for text in texts]
    source = w.OlfSource(
        width=games.width,
        height=games.height,
        moves=games.moves,
        move_offset=games.move_offset,
        setup=games.setup,
        setup_ply=games.setup_ply,
        setup_offset=games.setup_offset,
        handicap=games.handicap,
        territory=territory,
        territory_offset=territory_offset,
        text=np.frombuffer(bytearray(b"".join(encoded)), np.uint8),
        text_offset=np.cumsum([0, *map(len, encoded)], dtype=np.int64),
        which=which,
    )
    offset = np.zeros(len(games) + 1, np.int64)
    w.measure(source, np.zeros(o.POINTS, np.int64), why, offset[1:])
    np.cumsum(offset, out=offset)
    lines = np.empty(offset[-1], np.uint8)
    w.fill(source, offset, lines)
    return OlfLines(lines, offset, why)


def _spell(function: Callable[..., str | None], *columns: Any) -> tuple[list[bytes | None], _Codes]:
    """-> (what `function` makes of each distinct combination of the columns' values, which of them is each row's)."""
    values, codes = zip(*map(_distinct, columns))
    shape = [max(len(part), 1) for part in values]
    found, which = np.unique(np.ravel_multi_index(codes, shape), return_inverse=True)
    rows = zip(*([part[k] for k in at.tolist()] for part, at in zip(values, np.unravel_index(found, shape))))
    texts = [function(*row) for row in rows]
    return [None if text is None else text.encode("utf-8", "replace") for text in texts], which.astype(np.int64)


def _distinct(column: Any) -> tuple[list[Any], _Codes]:
    """-> (the values of a NumPy or Arrow array, each once; which of them is each row's)."""
    if isinstance(column, np.ndarray):
        values, codes = np.unique(column, return_inverse=True)
        return values.tolist(), codes
    encoded = column.dictionary_encode("encode")
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy()


def _number_text(value: float, trim: Literal["-", "0"] = "-") -> str | None:
    """The shortest decimal that reads as the same float32."""
    text = np.format_float_positional(np.float32(value) + 0.0, trim=trim)
    return text if np.isfinite(value) and len(text) <= _LONGEST else None


def _date_text(days: int | None, year: int | None) -> str | None:
    """days: since 1970-01-01."""
    if days is None and year is None:
        return "0000-00-00"
    text = f"{year:04}-00-00" if days is None else str(np.datetime64(days, "D"))
    return text if re.fullmatch(r"(?!0000)\d{4}-\d\d-\d\d", text) else None


def _name_text(name: str | None) -> str:
    return "_".join(re.findall(r"[^\s_\x00-\x1f\x7f-\x9f]+", name or "")) or "?"


def _rating_text(rating: float | None, confirmed: bool | None) -> str | None:
    if rating is None:
        return "0"
    text = _number_text(rating, "0" if confirmed else "-")
    return text if text and rating > 0 and (confirmed or "." not in text) else None


def _time_text(minutes: float | None) -> str | None:
    if minutes is None:
        return "?"
    return _number_text(minutes) if minutes >= 0 else None


def _komi_text(komi: float | None) -> str | None:
    return "?" if komi is None else _number_text(komi)


def _result_text(winner: str | None, ending: str | None, margin: float | None) -> str | None:
    if winner == "draw" and ending == "score":
        return "0"
    if winner not in ("black", "white"):
        return None
    sign = "" if winner == "black" else "-"
    if ending != "score":
        value = {"time": _BY_TIME, "resign": _BY_RESIGNATION}.get(ending or "")
        return value and sign + value
    if margin is None or not 0 < margin < float(_BY_RESIGNATION):
        return None
    text = _number_text(margin)
    return None if text in (None, _BY_TIME, _BY_RESIGNATION) else f"{sign}{text}"


def _handicap_text(stones: int) -> str | None:
    return f"h-{stones}" if 0 <= stones <= 9999 else None
