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
from itertools import islice

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
    assemble,
)
from kifu.records.meta import date_text, komi_text, result_text
from kifu.records.ranks import Rank
from kifu.records.text import choose_codec

_MOVE = re.compile(rb"(?:\A|(?<=[\r\n]))[\0-\t\v\f\x0e- ]*PM[^\r\n]{2}([BW][^\r\n]{2})[^\r\n]*")
"""A line of a move, such as PMABBREER: its colour and point. The last two letters repeat the point."""

_CUT_LINE = re.compile(rb"(?:\A|(?<=[\r\n]))[\0-\t\v\f\x0e- ]*P[^\r\n]{0,7}\Z")


def _to_moves(words: list[bytes], size: int) -> npt.NDArray[np.uint16]:
    """Return [N] uint16 from colours and points: B is the first column and the uppermost row; AA is a pass."""
    colour, x, y = np.frombuffer(b"".join(words), np.uint8).reshape(-1, 3).T.astype(np.int64)
    x, y = x - ord("B"), y - ord("B")
    point = np.where((np.minimum(x, y) >= 0) & (np.maximum(x, y) < size), y * size + x, NO_POINT)
    point[(x == -1) & (y == -1)] = size * size
    return (point | np.where(colour == ord("W"), WHITE_BIT, 0)).astype(np.uint16)


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
    text = data[start:stop].data
    lines = list(islice(_MOVE.finditer(text), MAX_MOVES + 1))
    first, last = (lines[0].start(), lines[-1].end()) if lines else (stop - start, stop - start)
    header = bytes(text[: min(first, FIELD_LIMIT)]).removeprefix(b"\xef\xbb\xbf")
    values = _read_lines(header.decode("latin-1"))  # numbers are ASCII in all character sets
    size, handicap = _number(values.get("size", "")), _number(values.get("handicap", ""))
    side = _DEFAULT_SIZE if size is None else size
    if drop == DropReason.KEPT and size is None and not lines:
        drop = DropReason.NO_RECORD
    elif drop == DropReason.KEPT and not 1 <= side <= MAX_SIZE:
        drop = DropReason.BAD_SIZE
    if drop != DropReason.KEPT:
        return SingleGame(k, start, stop, drop=drop)
    if len(lines) > MAX_MOVES:
        return SingleGame(k, start, stop, drop=DropReason.TOO_LARGE)
    codec, fields = _read_text(header, bytes(text[last : last + FIELD_LIMIT]), handicap)
    found = {
        ParseWarning.TRUNCATED: (lines and _CUT_LINE.search(text, lines[-1].start())) or "komi" not in values,
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
        moves=_to_moves([line[1] for line in lines], side),
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
