"""UGF and UGI, the records of Pandanet: sections of text, with a line for each move.

    [Header]
    Ver=UGF2,200
    Lang=SJIS
    Size=19
    Hdcp=0,6.50
    Winner=W,C
    CoordinateType=IGS
    PlayerW=YINNI,8d,,
    PlayerB=kaziwami,7d,,
    [Data]
    QP,B1,1,12
    DP,W1,2,7

The format was never published. docs/formats/ugf.md describes what is read and how disputed points are decided.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from kifu.errors import DropReason
from kifu.kernel import inline_kernel, kernel
from kifu.point import MAX_SIZE, NO_POINT, POINT_MASK, WHITE_BIT
from kifu.records._nodes import (
    LEFT,
    LETTER_B,
    LETTER_W,
    MAX_MOVES,
    MAX_SETUP,
    RIGHT,
    Int,
    byte,
    end_of_any_line,
    is_digit,
    is_letter,
    is_text,
    skip_bom,
    skip_space,
)
from kifu.records.detect import UGF
from kifu.records.games import (
    FIELD_LIMIT,
    NO_HANDICAP,
    Bytes,
    ParsedBlock,
    ParseWarning,
    RecordBlock,
    RecordFormat,
    SingleGame,
    assemble,
)
from kifu.records.meta import date_text, komi_text
from kifu.records.text import choose_codec

_A, _COMMA, _DOT = ord("A"), ord(","), ord(".")
_PASS_COLUMN = 24
"""The column Y. Stones of Y and Z are passes, unless the board has that column."""

_HEADER, _DATA, _OTHER, _NO_SECTION = range(4)
_COLOUR, _SHORTEST_MOVE = 3, 4
"""Within a line of a move, such as QP,B1,1,12."""

_MAX_DIGITS = 9


@inline_kernel
def _section_at(data: Bytes, i: Int, end: Int) -> int:
    """Return the section that begins with the line data[i:end], or _NO_SECTION."""
    if i == end or data[i] != LEFT:
        return _NO_SECTION
    if is_text(data, i, end, b"[Header]"):
        return _HEADER
    if is_text(data, i, end, b"[Data]"):
        return _DATA
    i += 1
    while i < end and is_letter(data[i]):
        i += 1
    return _OTHER if i < end and data[i] == RIGHT else _NO_SECTION


@kernel
def find_sections(data: Bytes, start: Int, stop: Int, found: npt.NDArray[np.int64]) -> None:
    """Find the header and the moves of a member; of several sections of one name, the first.

    Args:
        data: [N] uint8.
        found: [2, 2] int64, filled: start and end of [Header] and of [Data], after their names; `stop` if missing.
    """
    found[:] = stop
    section = _NO_SECTION
    i = skip_bom(data, start, stop)
    while i < stop:
        end = end_of_any_line(data, i, stop)
        begun = _section_at(data, skip_space(data, i, end), end)
        if begun != _NO_SECTION:
            if section <= _DATA:
                found[section, 1] = i
            section = begun if begun <= _DATA and found[begun, 0] == stop else _OTHER
            if section <= _DATA:
                found[section, 0] = min(end + 1, stop)
        i = end + 1


@inline_kernel
def _read_number(data: Bytes, i: Int, end: Int) -> tuple[Int, float]:
    """Read the number after the next comma: (position after it, its value), NaN if it is not one of up to 9 digits."""
    while i < end and data[i] != _COMMA:
        i += 1
    i = skip_space(data, i + 1, end)
    value, scale, digits = 0.0, 0.0, 0
    while i < end and (is_digit(data[i]) or (data[i] == _DOT and scale == 0)) and digits <= _MAX_DIGITS:
        if data[i] == _DOT:
            scale = 1.0
        else:
            value = value * 10 + byte(data, i) - 48
            scale *= 10
            digits += 1
        i += 1
    is_number = 0 < digits <= _MAX_DIGITS and (i >= end or data[i] == _COMMA or data[i] <= 32)
    return min(i, end), value / max(scale, 1.0) if is_number else np.nan


@inline_kernel
def _read_point(data: Bytes, i: Int, size: Int, is_from_below: bool) -> Int:
    x, y = byte(data, i) - _A, byte(data, i + 1) - _A
    if _PASS_COLUMN <= x <= _PASS_COLUMN + 1 and x >= size:
        return size * size
    y = size - 1 - y if is_from_below else y
    return y * size + x if 0 <= x < size and 0 <= y < size else NO_POINT


@inline_kernel
def _is_move(data: Bytes, i: Int, end: Int) -> Any:
    """Return whether a line that ends at `end` has a stone at `i`."""
    if end - i < _SHORTEST_MOVE or data[i] == _DOT or data[i + 2] != _COMMA:
        return False
    return data[i + _COLOUR] == LETTER_B or data[i + _COLOUR] == LETTER_W


_NOT_SKIPPED, _IN_TEXT, _IN_FIGURE = range(3)


@inline_kernel
def _skipping(data: Bytes, i: Int, end: Int, state: int) -> int:
    """Return which part, text or figure, includes what follows the line data[i:end], given that of the line."""
    if state != _NOT_SKIPPED:
        is_end = is_text(data, i, end, b".EndText" if state == _IN_TEXT else b".EndFig")
        return _NOT_SKIPPED if is_end else state
    if is_text(data, i, end, b".Text"):
        return _IN_TEXT
    return _IN_FIGURE if is_text(data, i, end, b".Fig") else _NOT_SKIPPED


@kernel
def read_moves(
    data: Bytes,
    start: Int,
    stop: Int,
    size: Int,
    is_from_below: bool,
    stones: npt.NDArray[np.uint16],
    seconds: npt.NDArray[np.float32],
) -> tuple[Int, Int, bool]:
    """Read the lines of [Data]: first the handicap stones, whose number is 0, then the moves.

    Args:
        data: [N] uint8.
        size: Side of the board, at most `MAX_SIZE`.
        stones: [M] uint16, filled with stones and moves; one for each 5 bytes, and one more, are enough.
        seconds: [M] float32, filled; NaN if missing.

    Returns:
        The number of handicap stones, at most MAX_SETUP + 1; the number of moves, at most MAX_MOVES + 1; whether the
        last line is cut off.
    """
    setup, moves, skipped, is_cut, i = 0, 0, _NOT_SKIPPED, False, start
    while i < stop and moves <= MAX_MOVES and setup <= MAX_SETUP:
        end = end_of_any_line(data, i, stop)
        at = skip_space(data, i, end)
        i = end + 1
        was_skipped = skipped != _NOT_SKIPPED
        skipped = _skipping(data, at, end, skipped)
        if was_skipped or not _is_move(data, at, end):
            is_cut = at < end == stop and is_letter(data[at])
            continue
        point = _read_point(data, at, size, is_from_below)
        after, number = _read_number(data, at + _COLOUR, end)
        after, used = _read_number(data, after, end)
        is_cut = end == stop and np.isnan(used)
        stones[setup + moves] = point | WHITE_BIT if data[at + _COLOUR] == LETTER_W else point
        seconds[setup + moves] = used
        if number == 0 and moves == 0:
            setup += 1
        else:
            moves += 1
    return setup, moves, is_cut or skipped != _NOT_SKIPPED


def read_ugf(block: RecordBlock) -> ParsedBlock:
    """Read the game of each member of a block. Never fails: unreadable members give rows with their `DropReason`.

    Time is linear in the bytes; memory is bounded by a few times the bytes. A game of more than 65,535 moves or 4,096
    handicap stones is `DropReason.TOO_LARGE`. The first 64 KiB of the header are read.
    """
    return assemble("ugf", block, [_read_member(block, k) for k in range(len(block))])


_DEFAULT_SIZE = "19"


def _read_member(block: RecordBlock, k: int) -> SingleGame:
    start, stop = int(block.start[k]), int(block.stop[k])
    found = np.empty((2, 2), np.int64)
    find_sections(block.data, start, stop, found)
    (first, last), (begin, end) = found.tolist()
    header = block.data[first : min(last, first + FIELD_LIMIT)].tobytes()
    values = _read_values(header.decode("latin-1"))  # numbers are ASCII in all character sets
    size, handicap = _number(values.get("Size", _DEFAULT_SIZE)), _number(values.get("Hdcp", "").partition(",")[0])
    drop = DropReason(block.drop[k]) or (DropReason.NO_RECORD if first == begin == stop else _drop_reason(values, size))
    if drop or size is None:
        return SingleGame(k, start, stop, drop=drop)
    stones = np.empty((end - begin) // (_SHORTEST_MOVE + 1) + 1, np.uint16)
    seconds = np.empty(len(stones), np.float32)
    is_from_below = values.get("CoordinateType", "").upper() == "IGS"
    placed, played, is_cut = read_moves(block.data, begin, end, size, is_from_below, stones, seconds)
    if placed > MAX_SETUP or played > MAX_MOVES:
        return SingleGame(k, start, stop, drop=DropReason.TOO_LARGE)
    codec = choose_codec(
        values.get("Lang", "").encode("latin-1") or None,
        header + block.data[end : min(stop, end + FIELD_LIMIT)].tobytes(),
    )
    setup, seconds = stones[:placed], seconds[placed : placed + played]
    is_point = (setup & POINT_MASK) < size * size
    warnings = {
        ParseWarning.TRUNCATED: is_cut or begin == stop,
        ParseWarning.SIZE_MISSING: "Size" not in values,
        ParseWarning.HANDICAP_TEXT: handicap is None and values.get("Hdcp"),
        ParseWarning.HANDICAP_ONE: handicap == 1,
        ParseWarning.BAD_SETUP_POINT: not np.all(is_point),
    }
    return SingleGame(
        member=k,
        start=start,
        stop=stop,
        width=size,
        height=size,
        moves=stones[placed : placed + played],
        setup=setup[is_point],
        handicap=NO_HANDICAP if handicap is None else handicap,
        fields=_text_fields(_read_values(header.decode(codec, "replace"))),
        codec=codec,
        seconds=seconds if np.any(seconds > 0) else None,  # many records have 0 throughout
        warnings=sum(warning for warning, is_found in warnings.items() if is_found),
    )


def _drop_reason(values: Mapping[str, str], size: int | None) -> DropReason:
    """Return why the game of a header cannot be read: it is encrypted, or the size is not within 1 to 25."""
    _, _, form = values.get("Crypt", "").partition(",")
    if values.get("Crypt") and not form.startswith("PLAIN"):
        return DropReason.UNREADABLE
    return DropReason.KEPT if size is not None and 1 <= size <= MAX_SIZE else DropReason.BAD_SIZE


def _number(text: str) -> int | None:
    match = re.fullmatch(r"\s*(-?[0-9]{1,4})\s*", text)
    return int(match[1]) if match else None


def _read_values(header: str) -> dict[str, str]:
    """Return the values of lines such as Size=19; of several with one key, the first."""
    values: dict[str, str] = {}
    for line in re.split("[\r\n]+", header):
        key, has_value, value = line.partition("=")
        if has_value:
            values.setdefault(key.strip(), value.strip())
    return values


_RULES = {"JPN": "Japanese", "CHN": "Chinese"}


def _text_fields(values: Mapping[str, str]) -> dict[str, str]:
    """Return the text fields in SGF's spelling; unknown spellings are kept."""
    rule = values.get("Rule", "")
    return {
        "black": _players(values, "B", 0),
        "white": _players(values, "W", 0),
        "black_rank": _players(values, "B", 1),
        "white_rank": _players(values, "W", 1),
        "result": _result(values.get("Winner", "")),
        "komi": _komi(values.get("Hdcp", "")),
        "date": date_text(values.get("Date", "").strip(",")),
        "time": _main_time(values.get("Ptime", "")),
        "rules": _RULES.get(rule, rule),
        "place": values.get("Place", ""),
        "title": values.get("Title", "").strip(","),
    }


def _players(values: Mapping[str, str], side: str, part: int) -> str:
    """Return the name (part 0) or rank (1) of a side; in pair go those of both players, once if they are equal."""
    players = (values.get(f"Player{side}{number}", "").split(",") for number in ("", "2"))
    texts = (player[part].strip() for player in players if len(player) > part)
    return " & ".join(dict.fromkeys(text for text in texts if text))


_DECIMAL = re.compile(r"(-?[0-9]{1,5})(?:[.,]([0-9]{1,5}))?,?")


def _decimal(text: str) -> float | None:
    """Return a number with a decimal point or, as in some countries, a decimal comma; a comma may follow."""
    match = _DECIMAL.fullmatch(text.strip())
    return float(f"{match[1]}.{match[2] or 0}") if match else None


def _komi(hdcp: str) -> str:
    _, _, text = hdcp.partition(",")
    komi = _decimal(text)
    return text.strip(", ") if komi is None else komi_text(komi)


_WINNERS = {"D": "0", "O": "Void", "A": "", "P": "", "N": ""}
_CAUSES = {"C": "R", "T": "T", "N": "F", "F": "F", "": ""}


def _result(winner: str) -> str:
    """Return the result: jigo is a draw, and a game that both lose is void."""
    side, _, cause = (part.strip() for part in winner.partition(","))
    if side in _WINNERS:
        return _WINNERS[side]
    margin = _decimal(cause)
    if side not in ("B", "W") or (margin is None and cause not in _CAUSES):
        return winner
    return f"{side}+{margin:.12g}" if margin else f"{side}+{_CAUSES.get(cause, '')}"


def _main_time(ptime: str) -> str:
    """Return Black's main time in seconds: the minutes of J;240;10;60. 0 is unknown."""
    parts = ptime.partition(",")[0].split(";")
    minutes = _number(parts[1]) if len(parts) > 1 else None
    return str(60 * minutes) if minutes and minutes > 0 else ""


FORMAT = RecordFormat((UGF,), read_ugf)
