r"""GIB, the records of Tygem, eWeiqi and the Tom client: a header of named values, and a line for each move.

    \HS
    \[GAMEBLACKNAME=osun (13K)\]
    \[GAMEINFOMAIN=GBKIND:0,GTIME:300-15-3,GRLT:0,ZIPSU:785,GONGJE:65,LINE:19\]
    \HE
    \GS
    INI 0 1 0 &4
    STO 0 2 1 15 3
    \GE

The format was never published. docs/formats/gib.md describes what is read and how disputed points are decided;
docs/leniency.md lists what the reader tolerates.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from kifu.errors import DropReason
from kifu.point import BLACK, MAX_SIZE, NO_POINT, WHITE, WHITE_BIT, fixed_handicap
from kifu.records.detect import GIB
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
from kifu.records.meta import komi_text, parse_date, parse_komi, result_text
from kifu.records.ranks import Rank
from kifu.records.text import choose_codec, decodes

_SIZE = 19

MAX_STONES = 9
"""The largest handicap whose stones are known."""

_BLANKS = bytes(c for c in range(33) if c not in b"\r\n")
_BOM = b"\xef\xbb\xbf"
_MARK = re.compile(rb"\\(\[|HS|HE|GS|GE)?")
_WORD = rb"[\0-\t\v\f\x0e- ]++([^\0- ]++)"
_LINE = re.compile(
    rb"(?<=[\r\n])[\0-\t\v\f\x0e- ]*+(STO|SKI|INI)(?![^\0- ])"
    rb"(?:" + 2 * _WORD.replace(b"(", b"").replace(b")", b"") + _WORD + rb"(?:" + 2 * _WORD + rb")?)?[^\r\n]*+"
)
"""A line, with the third to fifth word after its first."""
_NUMBERS = {b"%d" % number: number for number in range(MAX_SIZE)}

_NO_STONES = np.empty(0, np.uint16)
_SETUP = {n: np.array(fixed_handicap(n, _SIZE, _SIZE), np.uint16) for n in range(2, MAX_STONES + 1)}
"""Black's stones on 19 x 19 by handicap."""

_NO_GAME = SingleGame(member=0, start=0, stop=0)


def read_gib(block: RecordBlock) -> ParsedBlock:
    r"""Read every game of a block. Never fails: unreadable members give rows with their `DropReason`.

    Each \HS at the start of a line begins a game. Its moves are the lines STO and SKI between \GS and \GE, its handicap
    stones those of the line INI. Time is linear in the bytes; memory is bounded by a few times the bytes: a game of
    more than 65,535 moves is `DropReason.TOO_LARGE`, and so is the rest of a member that has more games than its
    bytes / 1,024 + 64. The first 64 KiB of a header are read.
    """
    return read_members("gib", block, _find_games, _read_game)


@dataclass(slots=True)
class _Span:
    """The text of a game: [start:stop], with the ends of its header and its lines of moves, None until one is found."""

    start: int
    stop: int
    opened: bool
    header_stop: int | None = None
    lines: int | None = None
    lines_stop: int | None = None
    closed: bool = False


def _find_games(text: bytes) -> Iterator[_Span]:
    r"""Yield the games of a member: each begins at a line \HS, the first one also at \GS or \[."""
    span = None
    for mark in _MARK.finditer(text):
        at, kind = mark.start(), mark[1]
        if not _begins_line(text, at):
            continue
        if kind == b"HS" or (span is None and kind in (b"GS", b"[")):
            if span is not None:
                span.stop = at
                yield span
            span = _Span(at, len(text), kind == b"HS")
        if span is None:
            continue
        if kind in (b"HE", b"GS") and span.header_stop is None:
            span.header_stop = at
        if kind == b"GS" and span.lines is None:
            span.lines = mark.end()
        elif span.lines is not None and span.lines_stop is None:
            span.lines_stop, span.closed = at, kind == b"GE"
    if span is not None:
        yield span


def _begins_line(text: bytes, at: int) -> bool:
    while at and text[at - 1] in _BLANKS:
        at -= 1
    return not at or text[at - 1] in b"\r\n" or (at == len(_BOM) and text.startswith(_BOM))


def _read_game(text: bytes, span: _Span, warnings: ParseWarning) -> SingleGame:
    """Return a game, whose `start` and `stop` are places in the text."""
    start, stop = span.start, span.stop
    header = _read_header(text[start : stop if span.header_stop is None else span.header_stop])
    size, handicap = header.width, header.handicap
    if not span.opened:
        warnings |= ParseWarning.OPENING_MISSING
    if not span.closed:
        warnings |= ParseWarning.TRUNCATED
    if not 1 <= size <= MAX_SIZE:
        return replace(header, start=start, stop=stop, width=0, handicap=NO_HANDICAP, drop=DropReason.BAD_SIZE)
    moves: list[int] = []
    if span.lines is not None:
        end = stop if span.lines_stop is None else span.lines_stop
        moves, handicap = _read_lines(text, span.lines, end, size, handicap, is_cut=not span.closed)
    if len(moves) > MAX_MOVES:
        return replace(header, start=start, stop=stop, width=0, handicap=NO_HANDICAP, drop=DropReason.TOO_LARGE)
    if handicap > MAX_STONES:
        handicap, warnings = NO_HANDICAP, warnings | ParseWarning.HANDICAP_TEXT
    elif handicap == 1:
        warnings |= ParseWarning.HANDICAP_ONE
    return replace(
        header, start=start, stop=stop, height=size, moves=np.array(moves, np.uint16),
        setup=_SETUP.get(handicap, _NO_STONES) if size == _SIZE else _NO_STONES, handicap=handicap, warnings=warnings,
    )  # fmt: skip


def _read_lines(text: bytes, begin: int, stop: int, size: int, handicap: int, *, is_cut: bool) -> tuple[list[int], int]:
    """Return the moves of a game, and its handicap. A pass is by the side that did not move last."""
    moves: list[int] = []
    has_ini, last = False, 0
    for line in _LINE.finditer(text, begin, stop):
        word, third, fourth, fifth = line.groups()
        number = _NUMBERS.get(third, -1) if third in _NUMBERS else _to_number(third)
        if word == b"INI":
            if not has_ini and number >= 0:
                has_ini, handicap = True, number
            continue
        colour = 3 - last if last else WHITE if 2 <= handicap <= MAX_STONES else BLACK
        move = size * size
        if word == b"STO":
            x = _NUMBERS[fourth] if fourth in _NUMBERS else _to_number(fourth)
            y = _NUMBERS[fifth] if fifth in _NUMBERS else _to_number(fifth)
            if is_cut and y in (-1, 1) and line.end() == stop:  # a 1 may be the start of 10 to 18
                break
            colour = number if number in (BLACK, WHITE) else colour
            move = y * size + x if number == colour and 0 <= x < size and 0 <= y < size else NO_POINT
        moves.append(move | WHITE_BIT if colour == WHITE else move)
        if len(moves) > MAX_MOVES:
            break
        last = colour
    return moves, handicap


def _to_number(word: bytes | None) -> int:
    return int(word) if word and word.isdigit() and len(word) <= 6 else -1


_KIND = re.compile(rb"\\\[GIBOKIND=\s{0,9}(\w{1,9})", re.ASCII)
_CHARSETS = {b"korea": b"euc-kr", b"china": b"gb18030", b"taiwan": b"big5", b"global": b"utf-8"}
_THREE_BYTES = re.compile(rb"[\xe0-\xef][\x80-\xbf]{2}")


def _choose_codec(header: bytes) -> str:
    """Return Python's codec for a header: by GIBOKIND, else detected.

    Valid UTF-8 with characters of three bytes is UTF-8 under any GIBOKIND: other text is not valid by chance.
    """
    kind = _KIND.search(header)
    charset = _CHARSETS.get(kind[1].lower()) if kind else None
    if charset and _THREE_BYTES.search(header) and decodes(header, "utf_8"):
        charset = None
    return choose_codec(charset, header)


_CONTROLS = re.compile("[\0-\x1f]+")
_SECTIONS = ("GAMEINFOMAIN", "GAMEINFOSUB", "WUSERINFO", "BUSERINFO")
_INFO = re.compile(r"(?:^|,)\s*([A-Z]{2,8}):(.*?)(?=,\s*[A-Z]{2,8}:|$)", re.DOTALL)
_TAG = re.compile(
    r"(?:^|,)\s*(?:([SRDGWZTC])(?=-?\d)|([ILMNABJK]):)(.*?)(?=,\s*(?:[SRDGWZTC]-?\d|[ILMNABJK]:)|$)", re.DOTALL
)


def _read_header(header: bytes) -> SingleGame:
    raw = header[:FIELD_LIMIT]
    codec = _choose_codec(raw)
    values = _read_values(raw.decode(codec, "replace"))
    size, handicap = (_number(values.get(key, "")) for key in ("LINE", "R"))
    return replace(
        _NO_GAME,
        width=_SIZE if size is None else size,
        handicap=NO_HANDICAP if handicap is None or handicap < 0 else handicap,
        fields=_text_fields(values),
        codec=codec,
    )


def _read_values(text: str) -> dict[str, str]:
    r"""Return the values of a header: those of \[KEY=value\], and those within its compound values by their own keys.

    The first of several values with one key is used.
    """
    values: dict[str, str] = {}
    for piece in _CONTROLS.sub(" ", text).split("\\[")[1:]:
        key, _, rest = piece.partition("=")
        value, end, _ = rest.partition("\\]")
        if end:
            values.setdefault(key, value.strip())
    for section in _SECTIONS:
        for key, value in _INFO.findall(values.get(section, "")):
            values.setdefault(key, value.strip())
    for number, name, value in _TAG.findall(values.get("GAMETAG", "")):
        values.setdefault(number or name, value.strip())
    return values


def _number(text: str) -> int | None:
    return int(text) if re.fullmatch("-?[0-9]{1,5}", text) else None


def _first(values: Mapping[str, str], *keys: str) -> str:
    return next((values[key] for key in keys if values.get(key)), "")


def _first_number(values: Mapping[str, str], *keys: str) -> int | None:
    return next((number for key in keys if (number := _number(values.get(key, ""))) is not None), None)


def _text_fields(values: Mapping[str, str]) -> dict[str, str]:
    time, overtime = _time(values)
    return {
        "black": _name(values, "GAMEBLACKNAME", "GAMEBLACKNICK", "BID", "M", "BNICK", "B"),
        "white": _name(values, "GAMEWHITENAME", "GAMEWHITENICK", "WID", "I", "WNICK", "A"),
        "black_rank": _rank(values, "GAMEBLACKNAME", "BLV", "N", "GAMEBLACKLEVEL"),
        "white_rank": _rank(values, "GAMEWHITENAME", "WLV", "L", "GAMEWHITELEVEL"),
        "result": _result(values),
        "komi": _komi(values),
        "date": _date(values),
        "time": time,
        "overtime": overtime,
        "place": _first(values, "GAMEPLACE", "GPLC"),
        "title": _first(values, "GAMENAME", "GNAME"),
    }


_RANK_AFTER_NAME = re.compile(r"[(\uff08]([^()\uff08\uff09]{1,20})[)\uff09]$")


def _split_name(text: str) -> tuple[str, str]:
    """Return the name and the rank of "osun (13K)"; only a name if there is no rank."""
    match = _RANK_AFTER_NAME.search(text)
    return (text[: match.start()].rstrip(), match[1]) if match and Rank.parse(match[1]) else (text, "")


def _name(values: Mapping[str, str], name: str, *others: str) -> str:
    """Return a player's name. Ids and nicknames may be bytes read as UTF-16, so they come after clean values."""
    return _split_name(values.get(name, ""))[0] or _first(values, *others)


def _rank(values: Mapping[str, str], name: str, *codes: str) -> str:
    """Return a player's rank as recorded after the name, or else by its code: 0 is 18k, 18 is 1d, 27 is 1p."""
    if rank := _split_name(values.get(name, ""))[1]:
        return rank
    level = _first_number(values, *codes)
    if level is None or not 0 <= level < 36:
        return ""
    return f"{18 - level}k" if level < 18 else f"{level - 17}d" if level < 27 else f"{level - 26}p"


_RESULTS = {3: "B+R", 4: "W+R", 5: "B+F", 6: "W+F", 7: "B+T", 8: "W+T", 255: ""}


def _result(values: Mapping[str, str]) -> str:
    """Return the result by its code, or by the server's words if the code is missing or unknown."""
    code = _first_number(values, "GRLT", "W")
    if code in (0, 1):
        margin = _first_number(values, "ZIPSU", "GAMEZIPSU", "Z") or 0
        return f"{'W' if code else 'B'}+" + (f"{margin / 10:g}" if margin > 0 else "")
    if code in _RESULTS:
        return _RESULTS[code]
    words = values.get("GAMERESULT", "")
    return result_text(words) or words


def _komi(values: Mapping[str, str]) -> str:
    tenths = _first_number(values, "GONGJE", "GAMEGONGJE", "G")
    if tenths is None:
        words = parse_komi(re.split("[:\uff1a]", values.get("GAMECONDITION", ""))[-1])  # Even : Black 6.5 Dum
        return "" if words is None else komi_text(words)
    return f"{tenths / 10:g}" if abs(tenths) < 1000 else f"{tenths / 10:.1f}"  # KM[100] would be read as hundredths


def _date(values: Mapping[str, str]) -> str:
    texts = [text for key in ("GAMEDATE", "GDATE", "C") if (text := values.get(key))]
    dates = (parse_date(text.replace(":", "-")) for text in texts)
    return next((date.first.isoformat() for date in dates if date and date.first), texts[0] if texts else "")


_TIMES = tuple(
    (keys, re.compile(form, re.IGNORECASE))
    for keys, form in (
        (("GTIME",), r"(?P<main>[0-9]{1,7})-(?P<length>[0-9]{1,5})-(?P<periods>[0-9]{1,5})"),
        (("T",), r"(?P<length>[0-9]{1,5})-(?P<periods>[0-9]{1,5})-(?P<main>[0-9]{1,7})"),
        (
            ("GAMETIME", "GTIME"),
            r"[^0-9]*(?P<minutes>[0-9]{1,5})\s*(?:min|分|분)[^0-9]*"
            r"(?:(?P<length>[0-9]{1,5})\s*(?:sec|秒|초)[^0-9]*(?P<periods>[0-9]{1,5})[^0-9]*)?",
        ),
    )
)


def _time(values: Mapping[str, str]) -> tuple[str, str]:
    """Return the main time in seconds and the overtime; unknown words are the main time."""
    for keys, form in _TIMES:
        if match := form.fullmatch(_first(values, *keys)):
            parts = {name: int(number or 0) for name, number in match.groupdict().items()}
            main = parts.get("main", 60 * parts.get("minutes", 0))
            has_overtime = parts["length"] > 0 and parts["periods"] > 0
            return str(main), f"{parts['periods']}x{parts['length']} byo-yomi" if has_overtime else ""
    return _first(values, "GAMETIME", "GTIME"), ""


FORMAT = RecordFormat((GIB,), read_gib)
