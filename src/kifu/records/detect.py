"""The record formats, and the detection of a member's: by its first bytes, by name only where they cannot tell."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from kifu.kernel import inline_kernel, kernel
from kifu.records import _bytes as raw
from kifu.records._bytes import Int, byte
from kifu.records._sgf_tokens import is_root
from kifu.records.games import Bytes, RecordBlock, RecordFormat
from kifu.registry import Registry

_B, _C, _W, _DASH = ord("B"), ord("C"), ord("W"), ord("-")
_P, _M = ord("P"), ord("M")
_QUOTE, _BACKSLASH, _LEFT_BRACE, _RIGHT_BRACE = ord('"'), ord("\\"), ord("{"), ord("}")
_SLASH, _DOT, _UNDERSCORE = 0x2F, 0x2E, 0x5F
_LOWER = 0x20

_EXTENSION = re.compile(rb".((\.[\w+-]{1,12})?\.(gz|bz2|xz)|\.[\w+-]{1,12})\Z", re.DOTALL)

_LONGEST_SECTION, _NGF_HEADER = 64, 4096
"""Bytes in which the name of a section of UGF ends, and in which the first move of NGF begins."""

SGF, OLF, TYGEM, TYGEM_INDEX, GIB, NGF, UGF, OGS, OGS_LINES = range(9)

RECORD_FORMATS: Registry[RecordFormat] = Registry(
    "record format",
    {name: f"kifu.records.{name}:FORMAT" for name in ("sgf", "olf", "ogs", "tygem", "gib", "ngf", "ugf")},
)
"""Record formats by name, which is `ParsedBlock.format` and the column `format` of a catalogue."""

LINE_FORMATS = (OLF, TYGEM, OGS_LINES)
"""The formats with one game per line, whose files may be divided between lines."""


_KINDS = {
    "sgf": SGF, "sgfs": SGF, "gib": GIB, "ngf": NGF, "ugf": UGF, "ugi": UGF, "olf": OLF, "jsonl": OGS_LINES,
    "json": OGS, "txt": SGF,
}  # fmt: skip
"""The extensions of records, and the format that each stands for if the first bytes cannot tell."""

_LINE_EXTENSIONS = (b"olf", b"jsonl")
_DOUBTFUL_EXTENSIONS = (b"jsonl", b"json", b"txt")
"""Extensions that other files have as well; as with names without an extension, the content decides."""

_NO_EXTENSION, _OTHER = -1, -2
_LONGEST_EXTENSION = 7  # whose letters fit an int64
_EXTENSIONS = [extension.encode() for extension in _KINDS]
RECORD_EXTENSIONS = [extension for extension in _EXTENSIONS if extension not in _LINE_EXTENSIONS]
"""The extensions of loose records in lower case; files of lines are separate containers."""

_KEYS = tuple(int.from_bytes(extension, "big") for extension in _EXTENSIONS)
_KIND_OF = tuple(_KINDS.values())
_DOUBTFUL = tuple(extension in _DOUBTFUL_EXTENSIONS for extension in _EXTENSIONS)

OTHER, OTHER_LINK, OTHER_SPECIAL = (ord(c) for c in "ols")
LINK = "link"
_REASONS = {b"l": LINK, b"s": "special"}

_JUNK_LIMIT = 64 << 10
"""Bytes within which a record must begin in a file or member of a doubtful name."""


@inline_kernel
def _base(names: Bytes, begin: int, end: int) -> int:
    """Return where the last part of the name names[begin:end] begins; `end` for files that only macOS reads.

    These are AppleDouble files (._game.sgf, __MACOSX/game.sgf), which macOS adds to its archives.
    """
    base = end
    while base > begin and names[base - 1] != _SLASH:
        base -= 1
    if end - base >= 2 and names[base] == _DOT and names[base + 1] == _UNDERSCORE:
        return end
    for i in range(begin, base):
        if (
            names[i] == _UNDERSCORE
            and (i == begin or names[i - 1] == _SLASH)
            and raw.is_text(names, i, end, b"__MACOSX/")
        ):
            return end
    return base


@inline_kernel
def has_extension(names: Bytes, begin: int, end: int, extension: bytes) -> bool:
    """Return whether a name ends in a dot and the extension, ignoring case; `extension` is in lower case."""
    at = end - len(extension)
    if at - 1 < begin or names[at - 1] != _DOT:
        return False
    for i in range(len(extension)):
        if names[at + i] | _LOWER != extension[i]:
            return False
    return True


@inline_kernel
def _without_compression(names: Bytes, begin: int, end: int) -> int:
    if has_extension(names, begin, end, b"gz") or has_extension(names, begin, end, b"xz"):
        return end - 3
    return end - 4 if has_extension(names, begin, end, b"bz2") else end


@inline_kernel
def _last_dot(names: Bytes, begin: int, end: int) -> int:
    """Return the position of the last dot of a name, or `begin` - 1."""
    dot = end - 1
    while dot >= begin and names[dot] != _DOT:
        dot -= 1
    return dot


@inline_kernel
def _extension_index(names: Bytes, begin: int, end: int) -> int:
    """Return the index of a name's extension in _KEYS, ignoring case; _NO_EXTENSION or _OTHER."""
    base = _base(names, begin, end)
    if base == end:
        return _OTHER
    dot = _last_dot(names, base, end)
    if dot < base:
        return _NO_EXTENSION
    if end - dot - 1 > _LONGEST_EXTENSION:
        return _OTHER
    key = 0
    for i in range(dot + 1, end):
        c = byte(names, i)
        key = key * 256 + (c + _LOWER if 65 <= c <= 90 else c)
    for k in range(len(_KEYS)):
        if key == _KEYS[k]:
            return k
    return _OTHER


@inline_kernel
def is_record_member(names: Bytes, begin: int, end: int) -> bool:
    """Return whether an archive member may be a record or a file of records by its name, as `is_record_name` does."""
    return _extension_index(names, begin, end) != _OTHER


@inline_kernel
def list_other(names: Bytes, begin: int, end: int, reason: int, others: Bytes, at: int) -> int:
    """Append a member that is not read, names[begin:end], to a list for `count_listed`, and return the list's end.

    others: uint8, with room for the name and two more bytes.
    """
    others[at] = reason
    at += 1
    for i in range(begin, end if reason == OTHER else begin):
        if names[i] == 0:
            break
        others[at] = names[i]
        at += 1
    others[at] = 0
    return at + 1


@inline_kernel
def is_index_member(names: Bytes, begin: int, end: int) -> bool:
    """Return whether the name of an archive member is that of a TYGEM index: .index, ignoring case."""
    return has_extension(names, _base(names, begin, end), end, b"index")


def is_system_name(name: bytes) -> bool:
    """Return whether only macOS reads a file: AppleDouble files, also in __MACOSX."""
    directory, _, base = name.rpartition(b"/")
    return base.startswith(b"._") or (b"__MACOSX" in directory and b"__MACOSX" in directory.split(b"/"))


def _extension(name: bytes) -> bytes | None:
    """Return the extension of a file in lower case, b"" without one; None if only macOS reads the file."""
    if is_system_name(name):
        return None
    base = name.rpartition(b"/")[2]
    return base.rpartition(b".")[2].lower() or b"." if b"." in base else b""


def is_record_name(name: bytes) -> bool:
    """Return whether a file or an archive member may be a record, or a file of records, by its name.

    That is so if it ends in one of the extensions of records, ignoring case, or has no extension. Other files have
    doubtful names, too (.txt, .json, .jsonl, no extension): they are records only if their content is recognized.
    """
    extension = _extension(name)
    return extension == b"" or extension in _EXTENSIONS


def is_line_name(name: bytes) -> bool:
    """Return whether a file has one game per line by its name, and thus any size: .olf or .jsonl."""
    return _extension(name) in _LINE_EXTENSIONS


def is_index_name(name: bytes) -> bool:
    """Return whether a file is a TYGEM index by its name."""
    return _extension(name) == b"index"


@inline_kernel
def is_date(data: Bytes, i: Int, stop: Int) -> bool:
    """Return whether a line of OLF begins at `i`: dddd-dd-dd and a space."""
    if stop - i < 11 or data[i + 10] != raw.SPACE:
        return False
    for k in range(10):
        if k in (4, 7):
            if data[i + k] != _DASH:
                return False
        elif not raw.is_digit(data[i + k]):
            return False
    return True


@inline_kernel
def is_dotted_date(data: Bytes, i: Int, stop: Int) -> bool:
    """Return whether the date of a row of Tom's index begins at `i`: dddd.dd.dd."""
    if stop - i < 10:
        return False
    for k in range(10):
        if k in (4, 7):
            if data[i + k] != _DOT:
                return False
        elif not raw.is_digit(data[i + k]):
            return False
    return True


@inline_kernel
def _json_kind(data: Bytes, i: Int, stop: Int) -> Int:
    """Return OGS_LINES if a JSON object begins and ends in the line at `i`, else OGS."""
    depth, in_string = 0, False
    while i < stop and data[i] != raw.LINE_FEED:
        c = data[i]
        if in_string:
            if c == _BACKSLASH:
                i += 1
            elif c == _QUOTE:
                in_string = False
        elif c == _QUOTE:
            in_string = True
        elif c == _LEFT_BRACE:
            depth += 1
        elif c == _RIGHT_BRACE:
            depth -= 1
            if depth == 0:
                return OGS_LINES
        i += 1
    return OGS


@inline_kernel
def _is_ogs(data: Bytes, i: Int, stop: Int) -> bool:
    """Return whether a JSON object has a game of OGS: "moves", a list or text, or "gamedata", an object.

    These are looked for among the keys of the objects that are not within another one. An object that begins a line
    is not, so that a damaged line hides no later one.
    """
    depth = 0
    while i < stop:
        c = data[i]
        if c == _QUOTE:
            first = i + 1
            i = first
            while i < stop and data[i] != _QUOTE and data[i] != raw.LINE_FEED:
                i += 2 if data[i] == _BACKSLASH else 1
            after = raw.skip_space(data, i + 1, stop)
            if depth == 1 and after < stop and data[after] == raw.COLON:
                after = raw.skip_space(data, after + 1, stop)
                value = data[after] if after < stop else raw.SPACE
                if raw.is_text(data, first, i, b"moves") and i - first == 5 and value in (raw.LEFT, _QUOTE):
                    return True
                if raw.is_text(data, first, i, b"gamedata") and i - first == 8 and value == _LEFT_BRACE:
                    return True
            if i < stop and data[i] == raw.LINE_FEED:
                i -= 1
        elif c == _LEFT_BRACE:
            depth += 1
        elif c == _RIGHT_BRACE:
            depth -= 1
        elif c == raw.LINE_FEED and i + 1 < stop and data[i + 1] == _LEFT_BRACE:
            depth = 0
        i += 1
    return False


@inline_kernel
def _is_section(data: Bytes, i: Int, stop: Int) -> Any:
    end = raw.end_of_line(data, i, min(stop, i + _LONGEST_SECTION))
    i += 1
    first = i
    while i < end and raw.is_letter(data[i]):
        i += 1
    return i > first and i < end and data[i] == raw.RIGHT and raw.skip_space(data, i + 1, end) == end


@inline_kernel
def _is_ngf(data: Bytes, i: Int, stop: Int) -> bool:
    """Return whether a line within the next 4 KiB begins with PM, two letters, B or W, and four letters."""
    stop = min(stop, i + _NGF_HEADER)
    while i < stop:
        if stop - i >= 9 and data[i] == _P and data[i + 1] == _M and (data[i + 4] == _B or data[i + 4] == _W):
            letters = 0
            for k in range(2, 9):
                letters += raw.is_letter(data[i + k])
            if letters == 7:
                return True
        i = raw.end_of_line(data, i, stop) + 1
    return False


@inline_kernel
def detect_text(data: Bytes, i: Int, stop: Int, otherwise: Int) -> Int:
    """Return a format, or `otherwise`, by the first lines that are neither empty nor comments."""
    i = raw.skip_space(data, raw.skip_bom(data, i, stop), stop)
    while i < stop and data[i] == raw.HASH:
        i = raw.skip_space(data, raw.end_of_line(data, i, stop), stop)
    if i == stop:
        return otherwise
    c = data[i]
    after = raw.skip_space(data, i + 1, stop)
    if c == raw.SEMICOLON or (c == raw.OPEN and after < stop and data[after] == raw.SEMICOLON):
        return SGF
    if c == _LEFT_BRACE:
        return _json_kind(data, i, stop)
    if c == _BACKSLASH:
        return GIB
    if c == raw.LEFT and _is_section(data, i, stop):
        return UGF
    if _is_ngf(data, i, stop):
        return NGF
    if c == raw.OPEN:
        return SGF
    if is_date(data, i, stop):
        return OLF
    after, _ = raw.read_id(data, i, stop)
    if after < 0:
        return otherwise
    if (after + 1 < stop and data[after] == _C and raw.is_digit(data[after + 1])) or is_dotted_date(data, after, stop):
        return TYGEM_INDEX
    return TYGEM if after == stop or data[after] == raw.SEMICOLON or data[after] == raw.LINE_FEED else otherwise


@inline_kernel
def _begins_node(data: Bytes, i: Int, stop: Int, may_be_spaced: bool) -> Any:
    """Return whether a property, with or without white space before its value, or another node follows the ; of SGF."""
    i = raw.skip_space(data, i, stop)
    first = i
    while i < stop and raw.is_letter(data[i]):
        i += 1
    after = raw.skip_space(data, i, stop) if may_be_spaced else i
    return after < stop and data[after] == (raw.LEFT if i > first else raw.SEMICOLON)


@inline_kernel
def _has_sgf(data: Bytes, i: Int, stop: Int) -> bool:
    """Return whether SGF begins within the text: with a property or two nodes, as ( and ; also stand in prose."""
    i = raw.skip_space(data, raw.skip_bom(data, i, stop), stop)
    if i < stop and data[i] == raw.SEMICOLON and _begins_node(data, i + 1, stop, False):
        return True
    while i < stop:
        if data[i] == raw.OPEN:
            after = raw.skip_space(data, i + 1, stop)
            if after < stop and data[after] == raw.SEMICOLON and _begins_node(data, after + 1, stop, True):
                return True
            if is_root(data, after, stop, False):
                return True
        i += 1
    return False


@inline_kernel
def _has_text(data: Bytes, i: Int, stop: Int, text: bytes) -> bool:
    while i < stop:
        if data[i] == text[0] and raw.is_text(data, i, stop, text):
            return True
        i += 1
    return False


@inline_kernel
def _is_record(data: Bytes, i: Int, stop: Int) -> bool:
    """Return whether a member of a doubtful name is a record.

    Notes, settings and logs begin like some formats: with a section, a backslash, a parenthesis, or a date.
    """
    kind = detect_text(data, i, stop, _OTHER)
    head = min(stop, i + _JUNK_LIMIT)
    if kind in (OGS, OGS_LINES):
        return _is_ogs(data, i, stop)
    if kind == OLF:
        return _has_text(data, i, head, b" h-")
    if kind == UGF:
        return _has_text(data, i, head, b"[Data]")
    if kind == GIB:
        return _has_text(data, i, head, b"\\HS") or _has_text(data, i, head, b"\\GS")
    return kind in (TYGEM, NGF) or _has_sgf(data, i, head)


@kernel
def detect_members(
    data: Bytes,
    start: npt.NDArray[np.int64],
    stop: npt.NDArray[np.int64],
    names: Bytes,
    name_offset: npt.NDArray[np.int64],
    kind: npt.NDArray[np.uint8],
) -> None:
    """Detect the format of each member.

    If the bytes cannot tell, the name does; a member of any other name is SGF.

    Args:
        data: [N] uint8, the members.
        start: [K] int64, start of each member.
        stop: [K] int64, end of each member.
        names: uint8, the members' names.
        name_offset: [K + 1] int64, start and end of each name.
        kind: [K] uint8, filled in.
    """
    for k in range(len(start)):
        end = _without_compression(names, name_offset[k], name_offset[k + 1])
        extension = _extension_index(names, name_offset[k], end)
        kind[k] = detect_text(data, start[k], stop[k], _KIND_OF[extension] if extension >= 0 else SGF)


def detect(block: RecordBlock) -> npt.NDArray[np.uint8]:
    """Return the format of each member of a block: [K] uint8, one of the constants above."""
    if block.kind is not None:
        return np.full(len(block), block.kind, np.uint8)
    kind = np.empty(len(block), np.uint8)
    detect_members(block.data, block.start, block.stop, block.names, block.name_offset, kind)
    return kind


@kernel
def _find_others(
    data: Bytes,
    start: npt.NDArray[np.int64],
    stop: npt.NDArray[np.int64],
    drop: npt.NDArray[np.uint8],
    names: Bytes,
    name_offset: npt.NDArray[np.int64],
    doubtful_only: bool,
    is_other: npt.NDArray[np.bool_],
) -> None:
    """Find the members that are no records by their names and contents: is_other, [K] bool.

    data: [N] uint8, with the members at start and stop: [K] int64; name_offset: [K + 1] int64, of their names; drop:
    [K] uint8, members with a reason are not judged.
    """
    for k in range(len(start)):
        end = _without_compression(names, name_offset[k], name_offset[k + 1])
        extension = _extension_index(names, name_offset[k], end)
        if extension >= 0:
            judged = _DOUBTFUL[extension]
        else:
            judged = extension == _NO_EXTENSION or not doubtful_only
        is_other[k] = judged and drop[k] == 0 and not _is_record(data, start[k], stop[k])


def is_recognized(name: bytes, data: Bytes) -> bool:
    """Return whether a file is a record by its first bytes, or by a name that only records have."""
    length = np.array([0, len(data)], np.int64)
    names = np.frombuffer(name, np.uint8)
    is_other = np.empty(1, np.bool_)
    offset = np.array([0, len(names)], np.int64)
    _find_others(data, length[:1], length[1:], np.zeros(1, np.uint8), names, offset, False, is_other)
    return not is_other[0]


def keep_records(block: RecordBlock) -> RecordBlock:
    """Return a block without the members whose doubtful names and contents are not those of records.

    They count in `RecordBlock.left_out`. A member that could not be read stays, as it may be a record.
    """
    is_other = np.empty(len(block), np.bool_)
    _find_others(block.data, block.start, block.stop, block.drop, block.names, block.name_offset, True, is_other)
    if block.kind is not None or not is_other.any():
        return block
    at, keep = block.name_offset, ~is_other
    left_out = (block.names[at[k] : at[k + 1]].tobytes() for k in np.flatnonzero(is_other))
    return replace(
        block, start=block.start[keep], stop=block.stop[keep], member=block.member[keep],
        names=block.names[np.repeat(keep, np.diff(at))], name_offset=np.cumsum(np.append(0, np.diff(at)[keep])),
        drop=block.drop[keep], left_out=block.left_out + count_kinds(left_out),
    )  # fmt: skip


def left_out_kind(name: bytes) -> str:
    """Return the kind by which a file or member that is not read is counted: its extension, mostly."""
    if is_system_name(name):
        return "AppleDouble"
    extension = _EXTENSION.search(name.rpartition(b"/")[2].lower())
    return extension[1].decode("ascii") if extension else "without an extension"


def count_kinds(names: Iterable[bytes]) -> Counter[str]:
    """Return the number of files or members that are not read, by `left_out_kind`."""
    return Counter(map(left_out_kind, names))


def count_listed(others: Bytes) -> Counter[str]:
    """Return the number of members in a list of `list_other`, by `left_out_kind`."""
    return Counter(_REASONS.get(entry) or left_out_kind(entry[1:]) for entry in others.tobytes().split(b"\0")[:-1])
