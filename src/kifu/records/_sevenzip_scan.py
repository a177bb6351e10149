"""Compiled walks over the headers of 7z archives.

All return a position in the header, or -1 if the header is cut off or wrong.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kifu.kernel import inline_kernel, kernel
from kifu.records.games import Bytes

CODER_LIMIT = 8
"""Maximum number of coders of a folder, and of streams of a coder."""

SIZE_LIMIT = 1 << 62
"""No file is larger."""

_OUTPUT_LIMIT = 62  # of a folder, which fit the bits of an int64


@inline_kernel
def _number(data: Bytes, at: int) -> tuple[int, int]:
    """Return the number at data[at] and the position after it; (-1, -1) if it is cut off or too large.

    The leading one bits of its first byte count the little-endian bytes that follow; its other bits are the high part.
    """
    if at >= len(data):
        return -1, -1
    first, width = int(data[at]), 0
    while width < 8 and first & (0x80 >> width):
        width += 1
    if at + width >= len(data):
        return -1, -1
    value = first & (0x7F >> width)
    for i in range(at + width, at, -1):
        if value > SIZE_LIMIT >> 8:
            return -1, -1
        value = value * 256 + int(data[i])
    return value, at + width + 1


@kernel
def read_numbers(data: Bytes, at: int, out: npt.NDArray[np.int64]) -> int:
    """Read as many numbers as `out` has room for, from data[at] on; return the position after them, or -1."""
    for k in range(len(out)):
        out[k], at = _number(data, at)
        if at < 0:
            break
    return at


@kernel
def scan_folders(data: Bytes, at: int, out: npt.NDArray[np.int64]) -> int:
    """List folders, from data[at] on; return the position after them, or -1.

    Args:
        data: [N] uint8, the header.
        out: [F, 4] int64, filled: position; number of packed streams; number of outputs; index of the main output.
    """
    for k in range(len(out)):
        out[k, 0] = at
        coders, at = _number(data, at)
        if at < 0 or coders > CODER_LIMIT:
            return -1
        inputs, outputs = 0, 0
        for _coder in range(coders):
            if at >= len(data):
                return -1
            flags = int(data[at])
            at += 1 + max(flags & 0xF, 1)
            more_inputs, more_outputs, size = 1, 1, 0
            if flags & 0x10:
                more_inputs, at = _number(data, at)
                more_outputs, at = _number(data, at) if at >= 0 else (-1, -1)
            if flags & 0x20 and at >= 0:
                size, at = _number(data, at)
            if at < 0 or more_inputs > CODER_LIMIT or more_outputs > CODER_LIMIT or size > len(data) - at:
                return -1
            at += size
            inputs, outputs = inputs + more_inputs, outputs + more_outputs
        packed = inputs - outputs + 1
        if outputs < 1 or outputs > _OUTPUT_LIMIT or packed < 1:
            return -1
        bound = 0
        for i in range(2 * (outputs - 1)):
            value, at = _number(data, at)
            if at < 0:
                return -1
            if i % 2 and value < _OUTPUT_LIMIT:
                bound |= 1 << value
        for _stream in range(packed if packed > 1 else 0):
            _value, at = _number(data, at)
            if at < 0:
                return -1
        main = 0
        while bound >> main & 1:
            main += 1
        out[k, 1], out[k, 2], out[k, 3] = packed, outputs, main
    return at if at <= len(data) else -1


@kernel
def read_folder_sizes(
    data: Bytes, at: int, listed: npt.NDArray[np.int64], begin: npt.NDArray[np.int64], size: npt.NDArray[np.int64]
) -> int:
    """Read the sizes of folders, from data[at] on; return the position after them, or -1.

    Args:
        data: [N] uint8, the header.
        listed: [F, 4] int64, see `scan_folders`.
        begin: [F] int64, filled: position of the sizes of each folder.
        size: [F] int64, filled: size of its main output.
    """
    for k in range(len(listed)):
        begin[k] = at
        for output in range(listed[k, 2]):
            value, at = _number(data, at)
            if at < 0:
                return -1
            if output == listed[k, 3]:
                size[k] = value
    return at


@kernel
def divide_folders(
    data: Bytes,
    at: int,
    is_listed: bool,
    count: npt.NDArray[np.int64],
    unpacked: npt.NDArray[np.int64],
    out: npt.NDArray[np.int64],
) -> int:
    """Divide each folder into its members; the size of the last one is not listed.

    Args:
        data: [N] uint8, the header.
        is_listed: False if the header has no sizes, which is correct if no folder has several members.
        count: [F] int64, number of members of each folder.
        unpacked: [F] int64, size of each folder.
        out: [S, 3] int64, filled: folder, begin in the folder, and size of each member.

    Returns:
        The position after the sizes; -1 if they are cut off, or larger than the folders.
    """
    row = 0
    for f in range(len(count)):
        begin = 0
        for k in range(count[f]):
            size = unpacked[f] - begin
            if k < count[f] - 1:
                size = -1
                if is_listed:
                    size, at = _number(data, at)
                if size < 0 or size > unpacked[f] - begin:
                    return -1
            out[row, 0], out[row, 1], out[row, 2] = f, begin, size
            begin += size
            row += 1
    return at
