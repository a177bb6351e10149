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
from typing import Any

import numpy as np
import numpy.typing as npt

from kifu.errors import DropReason
from kifu.kernel import inline_kernel, kernel
from kifu.point import MAX_SIZE, NO_POINT, WHITE_BIT, fixed_handicap, max_handicap
from kifu.records._nodes import LETTER_B, LETTER_W, MAX_MOVES, Int, byte, end_of_any_line, skip_space
from kifu.records.detect import NGF
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
from kifu.records.meta import Rank, date_text, komi_text, result_text
from kifu.records.text import choose_codec

_P, _M, _A = ord("P"), ord("M"), ord("A")

# Within a line of a move, such as PMABBREER. Its last two letters repeat the point.
_COLOUR, _X, _Y, _MOVE_LENGTH, _LINE_LENGTH = 4, 5, 6, 7, 9


@inline_kernel
def _is_move(data: Bytes, i: Int, end: Int) -> Any:
    """Return whether a line that ends at `end` has a move at `i`."""
    if end - i < _MOVE_LENGTH or data[i] != _P or data[i + 1] != _M:
        return False
    return data[i + _COLOUR] == LETTER_B or data[i + _COLOUR] == LETTER_W


@inline_kernel
def _read_point(data: Bytes, i: Int, size: Int) -> Int:
    """Return the point of the move at `i`: B is the first column and the uppermost row; AA is a pass."""
    x, y = byte(data, i + _X) - _A - 1, byte(data, i + _Y) - _A - 1
    if x == -1 and y == -1:
        return size * size
    return y * size + x if 0 <= x < size and 0 <= y < size else NO_POINT


@kernel
def find_moves(data: Bytes, start: Int, stop: Int) -> Int:
    """Return the start of the first line of data[start:stop] that has a move, or `stop`."""
    i = start
    while i < stop:
        end = end_of_any_line(data, i, stop)
        if _is_move(data, skip_space(data, i, end), end):
            return i
        i = end + 1
    return stop


@kernel
def read_moves(data: Bytes, start: Int, stop: Int, size: Int, moves: npt.NDArray[np.uint16]) -> tuple[Int, Int, bool]:
    """Read the moves of data[start:stop].

    Args:
        data: [N] uint8.
        size: Side of the board, at most `MAX_SIZE`.
        moves: [M] uint16, filled; one for each 8 bytes, and one more, are enough.

    Returns:
        The number of moves, at most MAX_MOVES + 1; the end of the last one; whether the last line is cut off.
    """
    count, last, is_cut, i = 0, start, False, start
    while i < stop and count <= MAX_MOVES:
        end = end_of_any_line(data, i, stop)
        at = skip_space(data, i, end)
        i = end + 1
        is_cut = end == stop and 0 < end - at < _LINE_LENGTH and data[at] == _P
        if _is_move(data, at, end):
            point = _read_point(data, at, size)
            moves[count] = point | WHITE_BIT if data[at + _COLOUR] == LETTER_W else point
            count += 1
            last = end
    return count, last, is_cut


def read_ngf(block: RecordBlock) -> ParsedBlock:
    """Read the game of each member of a block. Never fails: unreadable members give rows with their `DropReason`.

    Time is linear in the bytes; memory is bounded by a few times the bytes. A game of more than 65,535 moves is
    `DropReason.TOO_LARGE`. The first 64 KiB before the moves, and after them, are read as text.
    """
    return assemble("ngf", block, [_read_member(block, k) for k in range(len(block))])


_DEFAULT_SIZE = 19
_LINES = ("title", "size", "white", "black", "place", "handicap", "", "komi", "date", "time", "result")
_GI_LINES = ("title", "white", "black", "", "", "date", "size", "handicap", "", "komi")
"""The lines of the header, in the two dialects. White comes first; in the second one this is unproven."""


def _read_member(block: RecordBlock, k: int) -> SingleGame:
    data, start, stop, drop = block.data, int(block.start[k]), int(block.stop[k]), DropReason(block.drop[k])
    first = find_moves(data, start, stop)
    header = data[start : min(first, start + FIELD_LIMIT)].tobytes().removeprefix(b"\xef\xbb\xbf")
    values = _read_lines(header.decode("latin-1"))  # numbers are ASCII in all character sets
    size, handicap = _number(values.get("size", "")), _number(values.get("handicap", ""))
    side = _DEFAULT_SIZE if size is None else size
    if drop == DropReason.KEPT and size is None and first == stop:
        drop = DropReason.NO_RECORD
    elif drop == DropReason.KEPT and not 1 <= side <= MAX_SIZE:
        drop = DropReason.BAD_SIZE
    if drop != DropReason.KEPT:
        return SingleGame(k, start, stop, drop=drop)
    moves = np.empty((stop - first) // (_MOVE_LENGTH + 1) + 1, np.uint16)
    count, last, is_cut = read_moves(data, first, stop, side, moves)
    if count > MAX_MOVES:
        return SingleGame(k, start, stop, drop=DropReason.TOO_LARGE)
    codec, fields = _read_text(header, data[last : min(stop, last + FIELD_LIMIT)].tobytes(), handicap)
    found = {
        ParseWarning.TRUNCATED: is_cut or "komi" not in values,
        ParseWarning.SIZE_MISSING: size is None,
        ParseWarning.HANDICAP_TEXT: handicap is None and values.get("handicap"),
        ParseWarning.HANDICAP_ONE: handicap == 1,
    }
    return SingleGame(
        member=k,
        start=start,
        stop=stop,
        width=side,
        height=side,
        moves=moves[:count],
        setup=_setup(handicap or 0, side),
        handicap=NO_HANDICAP if handicap is None else handicap,
        fields=fields,
        codec=codec,
        warnings=sum(warning for warning, is_found in found.items() if is_found),
    )


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
