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
from collections.abc import Iterator, Mapping
from itertools import chain, islice, pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kifu.errors import DropReason
from kifu.point import MAX_SIZE, NO_POINT, POINT_MASK, WHITE_BIT
from kifu.records._bytes import MAX_SETUP
from kifu.records.detect import UGF
from kifu.records.games import (
    FIELD_LIMIT,
    MAX_MOVES,
    NO_HANDICAP,
    ParsedBlock,
    ParseWarning,
    RecordBlock,
    RecordFormat,
    SingleGame,
    read_members,
)
from kifu.records.meta import date_text, komi_text
from kifu.records.text import choose_codec

_SPACE = rb"[\0-\t\v\f\x0e- ]*+"
_LINE = rb"(?:\A(?:\xef\xbb\xbf)?|(?<=[\r\n]))" + _SPACE
_NUMBER = rb"(?:," + _SPACE + rb"(?:([0-9]*\.?[0-9]*)(?=[,\0- ]|\Z))?[^,\r\n]*)?"
_SECTION = re.compile(_LINE + rb"\[(?:Header\]|Data\]|[A-Za-z]*\])")
_HEADER = re.compile(_LINE + rb"\[Header\][^\r\n]*[\r\n]?")
_LATER_HEADER = re.compile(rb"\[Header\][\0-\t\v\f\x0e- ]*+[\r\n]")
_DATA = re.compile(_LINE + rb"\[Data\][^\r\n]*[\r\n]?")
_MOVE = re.compile(_LINE + rb"([^.\r\n][^\r\n],[BW])[^,\r\n]*" + 2 * _NUMBER)
"""The point and the colour of a line such as QP,B1,1,12, its number and seconds. Handicap stones have the number 0."""

_ENDING = rb".*?[\r\n]" + _SPACE + rb"\.End"
_SKIPPED = re.compile(
    _LINE + rb"\.(?:Text" + _ENDING + rb"Text|Fig" + _ENDING + rb"Fig|(?:Text|Fig)(?P<cut>.*\Z))[^\r\n]*", re.DOTALL
)
"""A comment or a figure among the moves."""

_PASS_COLUMN = 24
"""The column Y. Stones of Y and Z are passes, unless the board has that column."""

_MAX_DIGITS = 9
_WHITE_SPACE = bytes(range(33))


def _find_section(text: bytes, name: re.Pattern[bytes]) -> tuple[int, int]:
    """Return start and end of the first section of a name, without its name; the end of the text if it is missing."""
    found = name.search(text)
    if found is None:
        return len(text), len(text)
    following = _SECTION.search(text, found.end())
    return found.end(), following.start() if following else len(text)


def _to_numbers(words: list[bytes | None]) -> npt.NDArray[np.float64]:
    """Return [N] float64; NaN for what is not a number of up to 9 digits."""
    digits = [len(word) - word.count(b".") if word else 0 for word in words]
    return np.array([word if 0 < n <= _MAX_DIGITS else b"nan" for word, n in zip(words, digits)], "S").astype(
        np.float64
    )


def _to_moves(words: list[bytes], size: int, is_from_below: bool) -> npt.NDArray[np.uint16]:
    """Return [N] uint16 from words such as QP,B."""
    x, y, _, colour = np.frombuffer(b"".join(words), np.uint8).reshape(-1, 4).T.astype(np.int64)
    x, y = x - ord("A"), y - ord("A")
    y = size - 1 - y if is_from_below else y
    point = np.where((np.minimum(x, y) >= 0) & (np.maximum(x, y) < size), y * size + x, NO_POINT)
    point[(x >= size) & (x >= _PASS_COLUMN) & (x <= _PASS_COLUMN + 1)] = size * size
    return (point | np.where(colour == ord("W"), WHITE_BIT, 0)).astype(np.uint16)


class _Moves(NamedTuple):
    """The lines of [Data].

    Attributes:
        setup: [S] uint16, handicap stones; those before the first move whose number is 0.
        moves: [M] uint16.
        seconds: [M] float32, NaN if missing.
    """

    setup: npt.NDArray[np.uint16]
    moves: npt.NDArray[np.uint16]
    seconds: npt.NDArray[np.float32]
    is_cut: bool


def _read_moves(text: bytes, size: int, is_from_below: bool) -> _Moves:
    """Return the first moves and handicap stones, one more than a game may have at most."""
    is_cut = any(skipped["cut"] is not None for skipped in _SKIPPED.finditer(text))
    text = _SKIPPED.sub(b"", text)
    lines = list(islice(_MOVE.finditer(text), MAX_SETUP + MAX_MOVES + 1))
    words = _to_moves([line[1] for line in lines], size, is_from_below)
    numbers, seconds = (_to_numbers([line[k] for line in lines]) for k in (2, 3))
    placed = int(np.argmin([*(numbers == 0), False]))
    last = text[max(text.rfind(b"\n"), text.rfind(b"\r")) + 1 :]
    is_cut |= bool(np.isnan(seconds[-1])) if _MOVE.match(last) else last.lstrip(_WHITE_SPACE)[:1].isalpha()
    return _Moves(words[:placed], words[placed:], seconds[placed:].astype(np.float32), is_cut)


def read_ugf(block: RecordBlock) -> ParsedBlock:
    """Read every game of a block. Never fails: unreadable members give rows with their `DropReason`.

    Time is linear in the bytes; memory is bounded by a few times the bytes. A game of more than 65,535 moves or 4,096
    handicap stones is `DropReason.TOO_LARGE`, and so is the rest of a member with more games than its bytes / 1,024 +
    64. The first 64 KiB of the header are read.
    """
    return read_members("ugf", block, _find_games, _read_game)


_DEFAULT_SIZE = "19"


def _find_games(text: bytes) -> Iterator[slice]:
    """Yield the places of the games: each but the first begins with its [Header]."""
    first = _HEADER.search(text)
    if first or _DATA.search(text):
        later = (h.start() for h in _LATER_HEADER.finditer(text, first.end() if first else len(text)))
        for start, stop in pairwise(chain([0], later, [len(text)])):
            yield slice(start, stop)


def _read_game(text: bytes, place: slice, warnings: ParseWarning) -> SingleGame:
    start, stop = place.start, place.stop
    text = text[place]
    (first, last), (begin, end) = (_find_section(text, name) for name in (_HEADER, _DATA))
    header = text[first : min(last, first + FIELD_LIMIT)]
    values = _read_values(header.decode("latin-1"))  # numbers are ASCII in all character sets
    size, handicap = _number(values.get("Size", _DEFAULT_SIZE)), _number(values.get("Hdcp", "").partition(",")[0])
    drop = DropReason.NO_RECORD if first == begin == len(text) else _drop_reason(values, size)
    if drop or size is None:
        return SingleGame(0, start, stop, warnings=warnings, drop=drop)
    read = _read_moves(text[begin:end], size, values.get("CoordinateType", "").upper() == "IGS")
    if len(read.setup) > MAX_SETUP or len(read.moves) > MAX_MOVES:
        return SingleGame(0, start, stop, warnings=warnings, drop=DropReason.TOO_LARGE)
    codec = choose_codec(values.get("Lang", "").encode("latin-1") or None, header + text[end : end + FIELD_LIMIT])
    is_point = (read.setup & POINT_MASK) < size * size
    found = {
        ParseWarning.TRUNCATED: read.is_cut or begin == len(text),
        ParseWarning.SIZE_MISSING: "Size" not in values,
        ParseWarning.HANDICAP_TEXT: handicap is None and values.get("Hdcp"),
        ParseWarning.HANDICAP_ONE: handicap == 1,
        ParseWarning.BAD_SETUP_POINT: not np.all(is_point),
    }
    return SingleGame(
        member=0,
        start=start,
        stop=stop,
        width=size,
        height=size,
        moves=read.moves,
        setup=read.setup[is_point],
        handicap=NO_HANDICAP if handicap is None else handicap,
        fields=_text_fields(_read_values(header.decode(codec, "replace"))),
        codec=codec,
        seconds=read.seconds if np.any(read.seconds > 0) else None,  # many records have 0 throughout
        warnings=sum((warning for warning, is_found in found.items() if is_found), warnings),
    )


def _drop_reason(values: Mapping[str, str], size: int | None) -> DropReason:
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
