"""What the containers share: which members are records, how large one may be, blocks made from lists."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kifu.kernel import inline_kernel
from kifu.records.games import Bytes, RecordBlock

MEMBER_LIMIT = 256 << 20
"""Bytes. A larger member is not read: it becomes an empty row with `Drop.TOO_LARGE`."""

_SLASH, _DOT, _UNDERSCORE = 0x2F, 0x2E, 0x5F
_LOWER = 0x20


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


def make_block(
    source: str, data: Bytes, stop: list[int], members: list[int], names: list[bytes], drops: list[int]
) -> RecordBlock:
    """A block whose members lie in `data` one after the other, member k up to stop[k]."""
    ends: npt.NDArray[np.int64] = np.array([0, *stop], np.int64)
    return RecordBlock(
        source=source,
        data=data,
        start=ends[:-1].copy(),
        stop=ends[1:].copy(),
        member=np.array(members, np.int32),
        names=np.frombuffer(bytearray(b"".join(names)), np.uint8),
        name_offset=np.cumsum([0, *map(len, names)], dtype=np.int64),
        drop=np.array(drops, np.uint8),
    )
