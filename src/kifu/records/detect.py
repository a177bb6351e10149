"""Detect the format of members: by their first bytes, and by name only where the bytes cannot tell."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kifu.kernel import inline_kernel, kernel
from kifu.records._tokens import (
    HASH,
    LEFT,
    LINE_FEED,
    OPEN,
    RIGHT,
    SEMICOLON,
    SPACE,
    Int,
    end_of_line,
    is_digit,
    is_letter,
    read_id,
    skip_bom,
    skip_space,
)
from kifu.records.games import Bytes, RecordBlock

_B, _C, _W, _DASH = ord("B"), ord("C"), ord("W"), ord("-")
_P, _M = ord("P"), ord("M")
_QUOTE, _BACKSLASH, _LEFT_BRACE, _RIGHT_BRACE = ord('"'), ord("\\"), ord("{"), ord("}")
_SLASH, _DOT, _UNDERSCORE = 0x2F, 0x2E, 0x5F
_LOWER = 0x20

_LONGEST_SECTION, _NGF_HEADER = 64, 4096
"""Bytes in which the name of a section of UGF ends, and in which the first move of NGF begins."""

SGF, OLF, TYGEM, TYGEM_INDEX, GIB, NGF, UGF, OGS, OGS_LINES = range(9)

LINE_FORMATS = (OLF, TYGEM, OGS_LINES)
"""The formats with one game per line, whose files may be divided between lines."""


@inline_kernel
def _base(names: Bytes, begin: int, end: int) -> int:
    """Return where the last part of the name names[begin:end] begins; `end` for an AppleDouble file.

    AppleDouble files (._game.sgf, which macOS adds to its archives) are never records.
    """
    base = end
    while base > begin and names[base - 1] != _SLASH:
        base -= 1
    return end if end - base >= 2 and names[base] == _DOT and names[base + 1] == _UNDERSCORE else base


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
def _kind_by_name(names: Bytes, begin: int, end: int) -> int:
    """Return the format that the extension of a name stands for; SGF for any other."""
    if has_extension(names, begin, end, b"olf"):
        return OLF
    if has_extension(names, begin, end, b"gib"):
        return GIB
    if has_extension(names, begin, end, b"ngf"):
        return NGF
    if has_extension(names, begin, end, b"ugf") or has_extension(names, begin, end, b"ugi"):
        return UGF
    if has_extension(names, begin, end, b"jsonl"):
        return OGS_LINES
    return OGS if has_extension(names, begin, end, b"json") else SGF


@inline_kernel
def is_record_member(names: Bytes, begin: int, end: int) -> bool:
    """Return whether the name names[begin:end] of an archive member is that of a record or a file of records.

    That is so if the last part of the name ends in .sgf or .olf, ignoring case, or has no extension.
    """
    base = _base(names, begin, end)
    for i in range(base, end):
        if names[i] == _DOT:
            return has_extension(names, base, end, b"sgf") or has_extension(names, base, end, b"olf")
    return base < end


@inline_kernel
def is_index_member(names: Bytes, begin: int, end: int) -> bool:
    """Return whether the name of an archive member is that of a TYGEM index: .index, ignoring case."""
    return has_extension(names, _base(names, begin, end), end, b"index")


def is_record_name(name: bytes) -> bool:
    """Return whether a file is a record by its name: .sgf, ignoring case, and not an AppleDouble file."""
    return _name_ends(name, b".sgf")


def is_olf_name(name: bytes) -> bool:
    """Return whether a file is one of OLF lines by its name."""
    return _name_ends(name, b".olf")


def is_index_name(name: bytes) -> bool:
    """Return whether a file is a TYGEM index by its name."""
    return _name_ends(name, b".index")


def _name_ends(name: bytes, extension: bytes) -> bool:
    return name.lower().endswith(extension) and not name.rpartition(b"/")[2].startswith(b"._")


@inline_kernel
def is_date(data: Bytes, i: Int, stop: Int) -> bool:
    """Return whether a line of OLF begins at `i`: dddd-dd-dd and a space."""
    if stop - i < 11 or data[i + 10] != SPACE:
        return False
    for k in range(10):
        if k in (4, 7):
            if data[i + k] != _DASH:
                return False
        elif not is_digit(data[i + k]):
            return False
    return True


@inline_kernel
def _json_kind(data: Bytes, i: Int, stop: Int) -> Int:
    """Return OGS_LINES if a JSON object begins and ends in the line at `i`, else OGS."""
    depth, in_string = 0, False
    while i < stop and data[i] != LINE_FEED:
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
def _is_section(data: Bytes, i: Int, stop: Int) -> Any:
    """Return whether a line such as [Header] begins at `i`."""
    end = end_of_line(data, i, min(stop, i + _LONGEST_SECTION))
    i += 1
    first = i
    while i < end and is_letter(data[i]):
        i += 1
    return i > first and i < end and data[i] == RIGHT and skip_space(data, i + 1, end) == end


@inline_kernel
def _is_ngf(data: Bytes, i: Int, stop: Int) -> bool:
    """Return whether a line within the next 4 KiB begins with PM, two letters, B or W, and four letters."""
    stop = min(stop, i + _NGF_HEADER)
    while i < stop:
        if stop - i >= 9 and data[i] == _P and data[i + 1] == _M and (data[i + 4] == _B or data[i + 4] == _W):
            letters = 0
            for k in range(2, 9):
                letters += is_letter(data[i + k])
            if letters == 7:
                return True
        i = end_of_line(data, i, stop) + 1
    return False


@inline_kernel
def detect_text(data: Bytes, i: Int, stop: Int, otherwise: Int) -> Int:
    """Return a format, or `otherwise`, by the first lines that are neither empty nor comments."""
    i = skip_space(data, skip_bom(data, i, stop), stop)
    while i < stop and data[i] == HASH:
        i = skip_space(data, end_of_line(data, i, stop), stop)
    if i == stop:
        return otherwise
    c = data[i]
    after = skip_space(data, i + 1, stop)
    if c == SEMICOLON or (c == OPEN and after < stop and data[after] == SEMICOLON):
        return SGF
    if c == _LEFT_BRACE:
        return _json_kind(data, i, stop)
    if c == _BACKSLASH:
        return GIB
    if c == LEFT and _is_section(data, i, stop):
        return UGF
    if _is_ngf(data, i, stop):
        return NGF
    if c == OPEN:
        return SGF
    if is_date(data, i, stop):
        return OLF
    after, _ = read_id(data, i, stop)
    if after < 0:
        return otherwise
    if after + 1 < stop and data[after] == _C and is_digit(data[after + 1]):
        return TYGEM_INDEX
    return TYGEM if after == stop or data[after] == SEMICOLON or data[after] == LINE_FEED else otherwise


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
        kind[k] = detect_text(data, start[k], stop[k], _kind_by_name(names, name_offset[k], name_offset[k + 1]))


def detect(block: RecordBlock) -> npt.NDArray[np.uint8]:
    """Return the format of each member of a block: [K] uint8, one of SGF, OLF, TYGEM and TYGEM_INDEX."""
    if block.kind is not None:
        return np.full(len(block), block.kind, np.uint8)
    kind = np.empty(len(block), np.uint8)
    detect_members(block.data, block.start, block.stop, block.names, block.name_offset, kind)
    return kind
