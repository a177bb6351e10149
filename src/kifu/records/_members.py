"""What the containers share: which members are records, how large one may be, blocks made from lists."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kifu.kernel import inline_kernel
from kifu.records.games import Block, Bytes

MEMBER_LIMIT = 256 << 20
"""Bytes. A larger member is not read: it becomes an empty row with `Drop.TOO_LARGE`."""

_SLASH, _DOT, _UNDERSCORE = 0x2F, 0x2E, 0x5F
_S, _G, _F = 0x73, 0x67, 0x66
_LOWER = 0x20


@inline_kernel
def is_record(names: Bytes, begin: int, end: int) -> bool:
    """Whether a member of an archive is taken for a record by its name, names[begin:end].

    It is if the last part of the name ends in .sgf, in any case, or has no dot and so no extension. AppleDouble files
    (._game.sgf, which macOS adds to its archives) are none.
    """
    base = end
    while base > begin and names[base - 1] != _SLASH:
        base -= 1
    if base == end or (end - base >= 2 and names[base] == _DOT and names[base + 1] == _UNDERSCORE):
        return False
    for i in range(base, end):
        if names[i] == _DOT:
            return (
                end - base >= 4
                and names[end - 4] == _DOT
                and names[end - 3] | _LOWER == _S
                and names[end - 2] | _LOWER == _G
                and names[end - 1] | _LOWER == _F
            )
    return True


def name_says_record(name: bytes) -> bool:
    """The stricter test for files of a directory: .sgf, in any case, and no AppleDouble file."""
    return name.lower().endswith(b".sgf") and not name.rpartition(b"/")[2].startswith(b"._")


def make_block(
    source: str, data: Bytes, stop: list[int], members: list[int], names: list[bytes], drops: list[int]
) -> Block:
    """A block whose members lie in `data` one after the other, member k up to stop[k]."""
    ends: npt.NDArray[np.int64] = np.array([0, *stop], np.int64)
    return Block(
        source=source,
        data=data,
        start=ends[:-1].copy(),
        stop=ends[1:].copy(),
        member=np.array(members, np.int32),
        names=np.frombuffer(bytearray(b"".join(names)), np.uint8),
        name_offset=np.cumsum([0, *map(len, names)], dtype=np.int64),
        drop=np.array(drops, np.uint8),
    )
