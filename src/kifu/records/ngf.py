"""NGF, the records of WBaduk and Cyberoro: twelve lines of a header, and a line for each move.

    Rated game
    19
    LQC         9DP
    CYY         9DP
    www.cyberoro.com
    0
    0
    7
    20170316 [09:37]
    5
    Black wins by 0.5!
    333
    PMABBREER
    PMACWEEEE

The format was never published. docs/formats/ngf.md describes what is read and how disputed points are decided.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain, islice, pairwise

import numpy as np
import numpy.typing as npt

from kifu.errors import DropReason
from kifu.point import MAX_SIZE, NO_POINT, WHITE_BIT, fixed_handicap, max_handicap
from kifu.records.detect import NGF
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
from kifu.records.meta import date_text, komi_text, result_text
from kifu.records.ranks import Rank
from kifu.records.text import choose_codec

_MOVE = re.compile(rb"(?:\A|(?<=[\r\n]))[\0-\t\v\f\x0e- ]*PM[^\r\n]{2}([BW][^\r\n]{2})[^\r\n]*")
"""A line of a move, such as PMABBREER: its colour and point. The last two letters repeat the point."""

_BLANKS, _LINE, _END = rb"[\0-\t\v\f\x0e- ]*+", rb"[^\r\n]{0,199}+", rb"(?:\r\n|[\r\n])"
_NUMBER, _WHOLE_MOVE = _BLANKS + rb"-?[0-9]{1,3}" + _BLANKS + _END, rb"PM[A-Z]{2}[BW][A-Z]{4}"
_HEADER = re.compile(
    rb"(?:\A|(?<=[\r\n\]])|(?<=" + _WHOLE_MOVE + rb"))(?!" + _BLANKS + _WHOLE_MOVE + rb")"
    rb"(?:(?<!\])" + _LINE + _END + _NUMBER + 3 * (_LINE + _END) + 3 * _NUMBER + _BLANKS + rb"[0-9]{4}"
    rb"|(?:\xef\xbb\xbf)?(?:GI" + _LINE + _END + rb"){6}GI" + _NUMBER + rb")"
)
"""The lines of a header up to the date or the size, in the two dialects. Its title may follow a move in one line, so
the length of lines is limited.
"""

_CUT_LINE = re.compile(rb"(?:\A|(?<=[\r\n]))[\0-\t\v\f\x0e- ]*P[^\r\n]{0,7}\Z")


def _to_moves(words: list[bytes], size: int) -> npt.NDArray[np.uint16]:
    """Return [N] uint16 from colours and points: B is the first column and the uppermost row; AA is a pass."""
    colour, x, y = np.frombuffer(b"".join(words), np.uint8).reshape(-1, 3).T.astype(np.int64)
    x, y = x - ord("B"), y - ord("B")
    point = np.where((np.minimum(x, y) >= 0) & (np.maximum(x, y) < size), y * size + x, NO_POINT)
    point[(x == -1) & (y == -1)] = size * size
    return (point | np.where(colour == ord("W"), WHITE_BIT, 0)).astype(np.uint16)


def read_ngf(block: RecordBlock) -> ParsedBlock:
    """Read every game of a block. Never fails: unreadable members give rows with their `DropReason`.

    Time is linear in the bytes; memory is bounded by a few times the bytes. A game of more than 65,535 moves is
    `DropReason.TOO_LARGE`, and so is the rest of a member with more games than its bytes / 1,024 + 64. The first 64 KiB
    before the moves, and after them, are read as text.
    """
    return read_members("ngf", block, _find_games, _read_game)


_DEFAULT_SIZE = 19
_LINES = ("title", "size", "white", "black", "place", "handicap", "", "komi", "date", "time", "result")
_GI_LINES = ("title", "white", "black", "", "", "date", "size", "handicap", "", "komi")
"""The lines of the header, in the two dialects. White comes first; in the second one this is unproven."""


def _find_games(text: bytes) -> Iterator[slice]:
    """Yield the places of the games: each begins with its header; a part of a game may precede the first one."""
    headers = (header.start() for header in _HEADER.finditer(text))
    first = next(headers, len(text))
    before = text[:first]
    is_game = _MOVE.search(before) or _number(_read_lines(before[:FIELD_LIMIT].decode("latin-1")).get("size", ""))
    for start, stop in pairwise(chain([0] * bool(is_game), [first] * (first < len(text)), headers, [len(text)])):
        yield slice(start, stop)


def _read_game(text: bytes, place: slice, warnings: ParseWarning) -> SingleGame:
    start, stop = place.start, place.stop
    text = text[place]
    whole = _HEADER.match(text)
    lines = list(islice(_MOVE.finditer(text, whole.end() if whole else 0), MAX_MOVES + 1))
    first, last = (lines[0].start(), lines[-1].end()) if lines else (len(text), len(text))
    header = text[: min(first, FIELD_LIMIT)].removeprefix(b"\xef\xbb\xbf")
    values = _read_lines(header.decode("latin-1"))  # numbers are ASCII in all character sets
    size, handicap = _number(values.get("size", "")), _number(values.get("handicap", ""))
    side = _DEFAULT_SIZE if size is None else size
    if not 1 <= side <= MAX_SIZE:
        return SingleGame(0, start, stop, warnings=warnings, drop=DropReason.BAD_SIZE)
    if len(lines) > MAX_MOVES:
        return SingleGame(0, start, stop, warnings=warnings, drop=DropReason.TOO_LARGE)
    codec, fields = _read_text(header, text[last : last + FIELD_LIMIT], handicap)
    found = {
        ParseWarning.TRUNCATED: (lines and _CUT_LINE.search(text, lines[-1].start())) or "komi" not in values,
        ParseWarning.SIZE_MISSING: size is None,
        ParseWarning.HANDICAP_TEXT: handicap is None and values.get("handicap"),
        ParseWarning.HANDICAP_ONE: handicap == 1,
    }
    return SingleGame(
        member=0, start=start, stop=stop, width=side, height=side, moves=_to_moves([line[1] for line in lines], side),
        setup=_setup(handicap or 0, side), handicap=NO_HANDICAP if handicap is None else handicap, fields=fields,
        codec=codec, warnings=sum((warning for warning, is_found in found.items() if is_found), warnings),
    )  # fmt: skip


def _setup(handicap: int, size: int) -> npt.NDArray[np.uint16]:
    """Return Black's handicap stones; none for 1, and none for a number without fixed points."""
    has_stones = 2 <= handicap <= max_handicap(size, size)
    return np.array(fixed_handicap(handicap, size, size) if has_stones else [], np.uint16)


def _number(text: str) -> int | None:
    return int(text) if re.fullmatch("-?[0-9]{1,4}", text) else None


def _read_lines(text: str) -> dict[str, str]:
    """Return the values of a header by their names in _LINES."""
    lines = [line.strip() for line in re.split("\r\n|\n|\r", text)]
    if all(line.startswith("GI") for line in lines[:2]) and len(lines) > 1:
        return {name: line[2:].strip() for name, line in zip(_GI_LINES, lines)}
    return dict(zip(_LINES, lines))


def _read_text(before: bytes, after: bytes, handicap: int | None) -> tuple[str, dict[str, str]]:
    """Return the codec and the text fields of a game, given its text before and after the moves."""
    codec = choose_codec(None, before + b"\n" + after)
    values = _read_lines(before.decode(codec, "replace"))
    black, black_rank = _split_name(values.get("black", ""))
    white, white_rank = _split_name(values.get("white", ""))
    return codec, {
        "black": black,
        "white": white,
        "black_rank": black_rank,
        "white_rank": white_rank,
        "result": _result(values.get("result", "")) or _result_of_comment(after.decode(codec, "replace")),
        "komi": _komi(values.get("komi", ""), handicap),
        "date": date_text(values.get("date", "")),
        "time": _seconds(values.get("time", "")),
        "place": values.get("place", ""),
        "title": values.get("title", ""),
    }


_RANK_AFTER_NAME = re.compile(r"(.*\S)\s{2,}(\S.*)")


def _split_name(text: str) -> tuple[str, str]:
    """Return the name and the rank of "LQC         9DP"; of "Lee 9d", too, if the last word is a rank."""
    if match := _RANK_AFTER_NAME.fullmatch(text):
        return match[1], match[2]
    name, _, rank = text.rpartition(" ")
    return (name, rank) if name and Rank.parse(rank) else (text, "")


_MOVE_COUNT = re.compile(r"^\d{1,4}\s{0,9}[수手]\s{0,9}")
_COUNTS = re.compile(r">>|[(\uff08]")
_UNFINISHED = re.compile("progress|진행|对局中|對局中|対局中", re.IGNORECASE)


def _result(text: str) -> str:
    """Return a result as SGF spells it: "250수 흑7집승" is B+7. Unknown spellings are kept."""
    words = _COUNTS.split(_MOVE_COUNT.sub("", text, count=1), maxsplit=1)[0]
    return result_text(words) or ("" if _UNFINISHED.match(text) else text)


_COMMENT = re.compile(r"^IDB\[[0-9]{0,9}\](.*?)(?:\[EndTxt\]|$)", re.MULTILINE)


def _result_of_comment(text: str) -> str:
    """Return the result in the last comment after the moves, where the dialect GI has it."""
    comments = _COMMENT.findall(text.replace("\r", "\n"))
    return result_text(_COUNTS.split(comments[-1], maxsplit=1)[0]) if comments else ""


def _komi(text: str, handicap: int | None) -> str:
    """Return the komi: of a game without handicap, half a point more than the whole number recorded."""
    komi = _number(text)
    if komi is None:
        return text
    return komi_text(komi if handicap else komi + 0.5)


def _seconds(minutes: str) -> str:
    return str(60 * int(minutes)) if re.fullmatch("[0-9]{1,6}", minutes) else minutes


FORMAT = RecordFormat((NGF,), read_ngf)
