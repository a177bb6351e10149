"""Detect what members of containers are: by their first bytes, and by their names only where the bytes cannot tell."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kifu.kernel import inline_kernel, kernel
from kifu.records._tokens import (
    HASH,
    LINE_FEED,
    OPEN,
    SEMICOLON,
    SPACE,
    Int,
    end_of_line,
    is_digit,
    read_id,
    skip_bom,
    skip_space,
)
from kifu.records.games import Bytes, RecordBlock

_C, _DASH = ord("C"), ord("-")
_SLASH, _DOT, _UNDERSCORE = 0x2F, 0x2E, 0x5F
_LOWER = 0x20

SGF, OLF, TYGEM, TYGEM_INDEX = range(4)


@inline_kernel
def _base(names: Bytes, begin: int, end: int) -> int:
    """Where the last part of the name names[begin:end] begins; `end` if there is none, or if it is an AppleDouble file.

    Those (._game.sgf, which macOS adds to its archives) are no records, whatever they are called.
    """
    base = end
    while base > begin and names[base - 1] != _SLASH:
        base -= 1
    return end if end - base >= 2 and names[base] == _DOT and names[base + 1] == _UNDERSCORE else base


@inline_kernel
def has_extension(names: Bytes, begin: int, end: int, extension: bytes) -> bool:
    """Whether a name ends in a dot and the extension, which is given in small letters; in any case."""
    at = end - len(extension)
    if at - 1 < begin or names[at - 1] != _DOT:
        return False
    for i in range(len(extension)):
        if names[at + i] | _LOWER != extension[i]:
            return False
    return True


@inline_kernel
def is_record(names: Bytes, begin: int, end: int) -> bool:
    """Whether a member of an archive is taken for a record, or a file of them, by its name, names[begin:end].

    It is if the last part of the name ends in .sgf or .olf, in any case, or has no dot and so no extension.
    """
    base = _base(names, begin, end)
    for i in range(base, end):
        if names[i] == _DOT:
            return has_extension(names, base, end, b"sgf") or has_extension(names, base, end, b"olf")
    return base < end


@inline_kernel
def is_index(names: Bytes, begin: int, end: int) -> bool:
    """Whether a member of an archive is taken for an index of TYGEM games: .index, in any case."""
    return has_extension(names, _base(names, begin, end), end, b"index")


def name_says_record(name: bytes) -> bool:
    """The stricter test for files of a directory: .sgf, in any case, and no AppleDouble file."""
    return _name_ends(name, b".sgf")


def name_says_lines(name: bytes) -> bool:
    """Whether a file is one of OLF's lines by its name."""
    return _name_ends(name, b".olf")


def name_says_index(name: bytes) -> bool:
    """Whether a file is an index of TYGEM games by its name."""
    return _name_ends(name, b".index")


def _name_ends(name: bytes, extension: bytes) -> bool:
    return name.lower().endswith(extension) and not name.rpartition(b"/")[2].startswith(b"._")


@inline_kernel
def is_date(data: Bytes, i: Int, stop: Int) -> bool:
    """Whether a line of OLF begins at `i`: dddd-dd-dd and a space."""
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
def detect_text(data: Bytes, i: Int, stop: Int, otherwise: Int) -> Int:
    """By the first line that is neither empty nor a comment: SGF, OLF, TYGEM, TYGEM_INDEX, or `otherwise`."""
    i = skip_space(data, skip_bom(data, i, stop), stop)
    while i < stop and data[i] == HASH:
        i = skip_space(data, end_of_line(data, i, stop), stop)
    if i == stop:
        return otherwise
    if data[i] == OPEN or data[i] == SEMICOLON:
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
    """kind: [K] uint8, to be filled. Where the bytes cannot tell, a name that ends in .olf does; else it is SGF."""
    for k in range(len(start)):
        is_olf = has_extension(names, name_offset[k], name_offset[k + 1], b"olf")
        kind[k] = detect_text(data, start[k], stop[k], OLF if is_olf else SGF)


def detect(block: RecordBlock) -> npt.NDArray[np.uint8]:
    """[K] uint8: what each member of a block is."""
    if block.kind is not None:
        return np.full(len(block), block.kind, np.uint8)
    kind = np.empty(len(block), np.uint8)
    detect_members(block.data, block.start, block.stop, block.names, block.name_offset, kind)
    return kind
