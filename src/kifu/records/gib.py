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
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from kifu.errors import DropReason
from kifu.kernel import inline_kernel, kernel
from kifu.point import MAX_SIZE, NO_POINT, WHITE_BIT, fixed_handicap
from kifu.records._bytes import ESCAPE, LEFT, SPACE, Int, byte, end_of_any_line, is_digit, is_text, skip_bom, skip_space
from kifu.records.detect import GIB
from kifu.records.games import (
    FIELD_LIMIT,
    MAX_MOVES,
    NO_HANDICAP,
    Bytes,
    ParsedBlock,
    ParseWarning,
    RecordBlock,
    RecordFormat,
    SingleGame,
    assemble,
)
from kifu.records.meta import Rank, parse_date, result_text
from kifu.records.text import choose_codec, decodes

# The columns of a row of `find_games`: the member, the game's text, the end of its header, its lines of moves, ...
MEMBER, START, STOP, HEADER_STOP, LINES, LINES_STOP, WARNINGS, DROP, COLUMNS = range(9)

_GAMES_ALWAYS, _BYTES_PER_GAME = 64, 1024
"""A member may have this many games plus one for each kibibyte; the rest is one more row, `TOO_LARGE`."""

_SHORTEST_GAME = 4
"""Bytes: the mark of a header, and a line break."""

MAX_STONES = 9
"""The largest handicap whose stones are known."""

_E, _G, _H, _S = ord("E"), ord("G"), ord("H"), ord("S")
_NO_MARK, _HS, _HE, _GS, _GE, _VALUE, _OTHER_MARK = range(7)

_MAX_DIGITS = 6

_TRUNCATED, _JUNK_BEFORE, _OPENING_MISSING, _LATER_GAME = (
    int(ParseWarning[name]) for name in ("TRUNCATED", "JUNK_BEFORE", "OPENING_MISSING", "LATER_GAME")
)
_NO_RECORD, _TOO_LARGE = int(DropReason.NO_RECORD), int(DropReason.TOO_LARGE)


@inline_kernel
def _mark(data: Bytes, i: Int, stop: Int) -> int:
    """Return the mark of a line whose first byte other than white space is at `i`: one of the constants above."""
    if i >= stop or data[i] != ESCAPE:
        return _NO_MARK
    if stop - i >= 2 and data[i + 1] == LEFT:
        return _VALUE
    if stop - i >= 3 and data[i + 1] == _H:
        return _HS if data[i + 2] == _S else _HE if data[i + 2] == _E else _OTHER_MARK
    if stop - i >= 3 and data[i + 1] == _G:
        return _GS if data[i + 2] == _S else _GE if data[i + 2] == _E else _OTHER_MARK
    return _OTHER_MARK


@inline_kernel
def _open_game(row: npt.NDArray[np.int64], member: Int, start: Int, stop: Int, drop: Int) -> None:
    """Begin a game. The ends of its header and lines, not found yet, are `stop`; so is the start of the lines."""
    row[MEMBER], row[START], row[STOP], row[DROP] = member, start, stop, drop
    row[HEADER_STOP] = row[LINES] = row[LINES_STOP] = stop
    row[WARNINGS] = 0 if drop else _TRUNCATED


@inline_kernel
def _close_game(row: npt.NDArray[np.int64], stop: Int) -> None:
    """End a game where the next one begins."""
    for column in (STOP, HEADER_STOP, LINES, LINES_STOP):
        row[column] = min(row[column], stop)


@inline_kernel
def _continue_game(row: npt.NDArray[np.int64], mark: int, at: Int, end: Int, stop: Int) -> None:
    r"""Note the mark of the line data[at:end] of a game. Its moves end at any line that begins with a backslash."""
    if mark in (_HE, _GS):
        row[HEADER_STOP] = min(row[HEADER_STOP], at)
    if row[LINES] == stop and mark == _GS:
        row[LINES] = end
    elif row[LINES] < stop and row[LINES_STOP] == stop and mark != _NO_MARK:
        row[LINES_STOP] = at
        if mark == _GE:
            row[WARNINGS] &= ~_TRUNCATED


@inline_kernel
def _find_in_member(data: Bytes, start: Int, stop: Int, member: Int, rows: npt.NDArray[np.int64], first: Int) -> Int:
    """Find the games of one member, whose rows begin at `first`; return the end of its rows."""
    count = first
    most = _GAMES_ALWAYS + (stop - start) // _BYTES_PER_GAME
    junk = 0
    i = skip_bom(data, start, stop)
    while i < stop:
        end = end_of_any_line(data, i, stop)
        at = skip_space(data, i, end)
        i = end + 1
        mark = _mark(data, at, end)
        if mark == _HS or (count == first and mark in (_GS, _VALUE)):
            if count > first:
                _close_game(rows[count - 1], at)
            if count - first == most:
                _open_game(rows[count], member, at, stop, _TOO_LARGE)
                return count + 1
            _open_game(rows[count], member, at, stop, 0)
            rows[count, WARNINGS] |= (_LATER_GAME if count > first else junk) | (_OPENING_MISSING if mark != _HS else 0)
            count += 1
        elif at < end:
            junk = _JUNK_BEFORE
        if count > first:
            _continue_game(rows[count - 1], mark, at, end, stop)
    return count


def max_rows(start: npt.NDArray[np.int64], stop: npt.NDArray[np.int64]) -> int:
    """Return the most rows that `find_games` needs for members data[start:stop]."""
    size = stop - start
    games = np.minimum(_GAMES_ALWAYS + size // _BYTES_PER_GAME, size // _SHORTEST_GAME + 1)
    return int(np.sum(games + 1))


@kernel
def find_games(
    data: Bytes,
    start: npt.NDArray[np.int64],
    stop: npt.NDArray[np.int64],
    drop: npt.NDArray[np.uint8],
    rows: npt.NDArray[np.int64],
) -> Int:
    """Find the games of each member, at least one row for each.

    Args:
        data: [N] uint8, the members.
        start: [K] int64, start of each member.
        stop: [K] int64, end of each member.
        drop: [K] uint8, `DropReason` of each member.
        rows: [`max_rows`, COLUMNS] int64, filled.
    """
    count = 0
    for k in range(len(start)):
        found = _find_in_member(data, start[k], stop[k], k, rows, count)
        if found == count:
            _open_game(rows[count], k, start[k], stop[k], np.int64(drop[k]) if drop[k] else _NO_RECORD)
            found += 1
        count = found
    return count


@inline_kernel
def _is_word(data: Bytes, i: Int, stop: Int, word: bytes) -> bool:
    """Return whether a line that ends at `stop` has the word of three letters at `i`."""
    return is_text(data, i, stop, word) and (stop - i == 3 or data[i + 3] <= SPACE)


@inline_kernel
def _next_number(data: Bytes, i: Int, stop: Int) -> tuple[Int, Int]:
    """Read the word after `i`: (position after it, its value), -1 if it is not a number of up to 6 digits."""
    i = skip_space(data, i, stop)
    begin = i
    value: Int = np.int64(0)
    while i < stop and data[i] > SPACE:
        value = value * 10 + byte(data, i) - 48 if is_digit(data[i]) and value >= 0 and i - begin < _MAX_DIGITS else -1
        i += 1
    return i, value if i > begin else -1


@inline_kernel
def _third_number(data: Bytes, i: Int, stop: Int) -> tuple[Int, Int]:
    """Read the third number after `i`: (position after it, its value), -1 as for `_next_number`."""
    i, _ = _next_number(data, i, stop)
    i, _ = _next_number(data, i, stop)
    return _next_number(data, i, stop)


@inline_kernel
def _read_lines(
    data: Bytes, row: npt.NDArray[np.int64], size: Int, handicap: Int, moves: npt.NDArray[np.uint16], first: Int
) -> tuple[Int, Int]:
    """Read the lines of one game into moves[first:]; return the end of its moves and its handicap."""
    count, stop = first, row[LINES_STOP]
    has_ini, last = False, 0
    i = row[LINES]
    while i < stop:
        end = end_of_any_line(data, i, stop)
        at = skip_space(data, i, end)
        i = end + 1
        is_stone = _is_word(data, at, end, b"STO")
        if not has_ini and _is_word(data, at, end, b"INI"):
            _at, stones = _third_number(data, at + 3, end)
            has_ini = stones >= 0
            handicap = stones if has_ini else handicap
        if not is_stone and not _is_word(data, at, end, b"SKI"):
            continue
        colour = 3 - last if last else 2 if 2 <= handicap <= MAX_STONES else 1
        move = size * size
        if is_stone:
            at, recorded = _third_number(data, at + 3, end)
            at, x = _next_number(data, at, end)
            at, y = _next_number(data, at, end)
            if end == stop and row[WARNINGS] & _TRUNCATED and y in (-1, 1):  # a 1 may be the start of 10 to 18
                break
            is_valid = recorded in (1, 2) and 0 <= x < size and 0 <= y < size
            move = y * size + x if is_valid else NO_POINT
            colour = recorded if recorded in (1, 2) else colour
        if count - first == MAX_MOVES:
            row[DROP] = _TOO_LARGE
            return first, handicap
        moves[count] = move | WHITE_BIT if colour == 2 else move
        count += 1
        last = colour
    return count, handicap


@kernel
def read_moves(
    data: Bytes,
    rows: npt.NDArray[np.int64],
    size: npt.NDArray[np.int64],
    handicap: npt.NDArray[np.int64],
    moves: npt.NDArray[np.uint16],
    offset: npt.NDArray[np.int64],
) -> None:
    """Read the moves of all games, one after the other; a pass is by the side that did not move last.

    Args:
        data: [N] uint8.
        rows: [G, COLUMNS] int64, the games; those with too many moves are dropped.
        size: [G] int64, side of the board.
        handicap: [G] int64, stones by the header or NO_HANDICAP; replaced by those of the line INI, if there is one.
        moves: [M] uint16, filled; one for each four bytes of the games, and one more, are enough.
        offset: [G + 1] int64, filled: start and end of each game's moves.
    """
    offset[0] = 0
    for g in range(len(rows)):
        offset[g + 1] = offset[g]
        if rows[g, DROP] == 0:
            offset[g + 1], handicap[g] = _read_lines(data, rows[g], size[g], handicap[g], moves, offset[g])


_SIZE = 19


def read_gib(block: RecordBlock) -> ParsedBlock:
    r"""Read every game of a block. Never fails: unreadable members give rows with their `DropReason`.

    Each \HS at the start of a line begins a game. Its moves are the lines STO and SKI between \GS and \GE, its handicap
    stones those of the line INI. Time is linear in the bytes; memory is bounded by a few times the bytes: a game of
    more than 65,535 moves is `DropReason.TOO_LARGE`, and so is the rest of a member that has more games than its
    bytes / 1,024 + 64. The first 64 KiB of a header are read.
    """
    rows = np.empty((max_rows(block.start, block.stop), COLUMNS), np.int64)
    rows = rows[: find_games(block.data, block.start, block.stop, block.drop, rows)]
    headers = [_read_header(block.data[row[START] : row[HEADER_STOP]], row[DROP]) for row in rows]
    size = np.array([header.width for header in headers], np.int64)
    rows[(rows[:, DROP] == DropReason.KEPT) & ((size < 1) | (size > MAX_SIZE)), DROP] = DropReason.BAD_SIZE
    handicap = np.array([header.handicap for header in headers], np.int64)
    length = int(np.sum(block.stop - block.start))
    moves, offset = np.empty(length // 4 + 1, np.uint16), np.empty(len(rows) + 1, np.int64)
    read_moves(block.data, rows, size, handicap, moves, offset)
    member = rows[:, MEMBER]
    index = np.arange(len(rows)) - np.searchsorted(member, member)
    games = [
        _to_game(row, g, stones, moves[begin:end], header)
        for row, g, stones, begin, end, header in zip(
            rows.tolist(), index.tolist(), handicap.tolist(), offset[:-1].tolist(), offset[1:].tolist(), headers
        )
    ]
    return assemble("gib", block, games)


_NO_STONES = np.empty(0, np.uint16)
_SETUP = {n: np.array(fixed_handicap(n, _SIZE, _SIZE), np.uint16) for n in range(2, MAX_STONES + 1)}
"""Black's stones on 19 x 19 by handicap."""

_NO_GAME = SingleGame(member=0, start=0, stop=0)


def _to_game(
    row: list[int], index: int, handicap: int, moves: npt.NDArray[np.uint16], header: SingleGame
) -> SingleGame:
    """Return a game, given its row of `find_games`, its handicap by header and lines, and its header as a game."""
    size, warnings = header.width, row[WARNINGS]
    is_kept = row[DROP] == DropReason.KEPT
    if handicap > MAX_STONES:
        handicap, warnings = NO_HANDICAP, warnings | ParseWarning.HANDICAP_TEXT
    elif handicap == 1:
        warnings |= ParseWarning.HANDICAP_ONE
    return replace(
        header,
        member=row[MEMBER],
        start=row[START],
        stop=row[STOP],
        index=index,
        width=size if is_kept else 0,
        height=size if is_kept else 0,
        moves=moves,
        setup=_SETUP.get(handicap, _NO_STONES) if is_kept and size == _SIZE else _NO_STONES,
        handicap=handicap if is_kept else NO_HANDICAP,
        warnings=warnings if is_kept else 0,
        drop=DropReason(row[DROP]),
    )


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


def _read_header(header: Bytes, drop: int) -> SingleGame:
    """Return a game with the size, handicap and text of a header, [H] uint8, unless the scanner dropped it."""
    if drop != DropReason.KEPT:
        return _NO_GAME
    raw = header[:FIELD_LIMIT].tobytes()
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
    """Return the first value that is not empty."""
    return next((values[key] for key in keys if values.get(key)), "")


def _first_number(values: Mapping[str, str], *keys: str) -> int | None:
    """Return the first value that is a whole number."""
    return next((number for key in keys if (number := _number(values.get(key, ""))) is not None), None)


def _text_fields(values: Mapping[str, str]) -> dict[str, str]:
    """Return the text fields in SGF's spelling; unknown spellings are kept."""
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
        return ""
    return f"{tenths / 10:g}" if abs(tenths) < 1000 else f"{tenths / 10:.1f}"  # KM[100] would be read as hundredths


def _date(values: Mapping[str, str]) -> str:
    texts = [text for key in ("GAMEDATE", "GDATE", "C") if (text := values.get(key))]
    dates = (parse_date(text.replace(":", "-")) for text in texts)
    days = (date.first.isoformat() for date in dates if date and date.first)
    return next(days, texts[0] if texts else "")


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
