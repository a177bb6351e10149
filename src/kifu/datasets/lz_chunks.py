"""The format `lz-chunks@1`: training chunks of Leela Zero, versions 1 and 2. See docs/formats/lz-chunks.md."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kifu.datasets.chunks import ChunkRows, Chunks, DecodedChunk, Decoder, new_rows
from kifu.datasets.examples import Layout
from kifu.errors import FormatError
from kifu.kernel import inline_kernel, kernel
from kifu.point import BLACK, WHITE
from kifu.records.games import Bytes

SIDE = 19
_POINTS = SIDE * SIDE
_PLANES = 16
"""Planes of a record: the boards now and 7 times before, first the mover's stones, then the opponent's."""

_DIGITS = _POINTS // 4
_ROW_MASK = 0xFFFFFFFF & ~((1 << 32 - SIDE) - 1)
"""The highest 19 of 32 bits."""

_LINE = re.compile(rb"[0-9a-fA-F]{90}[01]\r?\n")
_DEBUG = re.compile(rb"2\r?\n")

_V2 = np.dtype(
    [("version", "<i4"), ("policy", "<f4", _POINTS + 1), ("planes", "u1", 722), ("white", "u1"), ("won", "u1")]
)
_PLANES_AT = 4 + 4 * (_POINTS + 1)
_VERSION = (1).to_bytes(4, "little")


class LzChunks(Chunks):
    """Training chunks of Leela Zero."""

    plane_set = "lz18@1"

    @staticmethod
    def find_decoder(path: Path, head: Bytes) -> Decoder:
        """Return the decoder of a file; see `Chunks.find_decoder`."""
        decoder = find_decoder(head.tobytes())
        if decoder is not None:
            return decoder
        if _DEBUG.match(head.tobytes()):
            raise FormatError(f"{path} is a debug file of Leela Zero, which has no positions")
        raise FormatError(f"{path} is not a training chunk of Leela Zero, version 1 or 2")


def is_lz_chunk(head: bytes) -> bool:
    """Return whether the first bytes of a file, inflated, are those of a chunk, or of the debug file beside it."""
    return find_decoder(head) is not None or _DEBUG.match(head) is not None


def find_decoder(head: bytes) -> Decoder | None:
    """Return the decoder for a file that begins with these bytes; None if it is no chunk."""
    if _LINE.match(head):
        return Decoder("v1", SIDE, _decode_text, b"\n")
    return Decoder("v2", SIDE, _decode_binary) if head.startswith(_VERSION) else None


# Version 1: text


_BAD_PLANE, _BAD_SIDE, _BAD_NUMBER, _BAD_COUNT, _BAD_WINNER = range(1, 6)
_ERRORS = {
    0: "",
    _BAD_PLANE: "has a plane that is not 90 hexadecimal digits, then 0 or 1",
    _BAD_SIDE: "has a side to move other than 0 (Black) and 1 (White)",
    _BAD_NUMBER: "has a probability that is not a number",
    _BAD_COUNT: f"does not have {_POINTS + 1} probabilities",
    _BAD_WINNER: "has a winner other than 1 and -1",
}

_NEWLINE, _RETURN, _SPACE, _TAB = 10, 13, 32, 9
_PLUS, _MINUS, _DOT, _ZERO, _NINE = 43, 45, 46, 48, 57
_MAX_DIGITS = 18
_MAX_EXPONENT = 400


@functools.cache
def _tables() -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.float64]]:
    """Return the value of each hexadecimal digit, 255 for other bytes, [256] uint8; and powers of 10, [401] float64."""
    digits = np.full(256, 255, np.uint8)
    for value, digit in enumerate("0123456789abcdef"):
        digits[[ord(digit), ord(digit.upper())]] = value
    return digits, np.array([float(f"1e{k}") for k in range(_MAX_EXPONENT + 1)])


def _decode_text(data: Bytes, limit: int, layout: Layout) -> DecodedChunk:
    rows = new_rows(min(limit, len(data) // (_PLANES * (_DIGITS + 1))), layout)
    digits, powers = _tables()
    used, count, error = _parse_v1(data, digits, powers, np.empty(49, np.uint8), *rows)
    return used, rows.take(slice(count)), _ERRORS[error]


@inline_kernel
def _copy_plane(bits: Any, first: Any, plane: Any) -> None:
    """Fill a plane [46], of which row 0 is the top, from 361 bits from bit `first` on, of which it is the bottom.

    The first bit is the highest of its byte. Up to three bytes after the last one are read.
    """
    for b in range(plane.shape[0]):
        plane[b] = 0
    for y in range(SIDE):
        i, p = first + SIDE * y, SIDE * (SIDE - 1 - y)
        at, to = i >> 3, p >> 3
        word = int(bits[at]) << 24 | int(bits[at + 1]) << 16 | int(bits[at + 2]) << 8 | int(bits[at + 3])
        word = (word << (i & 7) & _ROW_MASK) >> (p & 7)
        for k in range(4):
            if to + k < plane.shape[0]:
                plane[to + k] = np.uint8(int(plane[to + k]) | word >> (24 - 8 * k) & 0xFF)


@inline_kernel
def _set_mover(planes: Any, white: Any) -> None:
    """Fill the last two planes: ones if Black, and if White is to move."""
    for colour in range(2):
        plane = planes[_PLANES + colour]
        for b in range(plane.shape[0]):
            plane[b] = 0xFF if colour == white else 0
        plane[plane.shape[0] - 1] &= 0x80  # the last point


@inline_kernel
def _line_end(data: Any, at: Any) -> Any:
    """Return the position after the line break at `at`; 0 without one, -1 if the data ends."""
    if at < data.shape[0] and data[at] == _RETURN:
        at += 1
    if at >= data.shape[0]:
        return -1
    return at + 1 if data[at] == _NEWLINE else 0


@inline_kernel
def _number(data: Any, at: Any, powers: Any) -> Any:
    """Return the number at `at`, and the position after it: the size of the data if that ends, 0 without a number.

    Infinity becomes NaN.
    """
    n = data.shape[0]
    negative = data[at] == _MINUS
    if negative or data[at] == _PLUS:
        at += 1
    value, exponent, digits, leading, after_dot = 0.0, 0, 0, 0, False
    if at < n and (data[at] | 32) in (105, 110):  # inf, nan, nan(ind)
        while at < n and data[at] > _SPACE:
            at += 1
        return np.nan, at
    while at < n and (_ZERO <= data[at] <= _NINE or (data[at] == _DOT and not after_dot)):
        if data[at] == _DOT:
            after_dot = True
        else:
            digits += 1
            leading += value == 0
            if digits - leading < _MAX_DIGITS:
                value = value * 10 + (int(data[at]) - _ZERO)
                exponent -= after_dot
            else:
                exponent += not after_dot
        at += 1
    if digits == 0:
        return 0.0, n if at >= n else 0
    if at < n and data[at] | 32 == 101:  # e
        at += 1
        sign, stated = 1, 0
        if at < n and (data[at] == _MINUS or data[at] == _PLUS):
            sign = -1 if data[at] == _MINUS else 1
            at += 1
        if at >= n or not _ZERO <= data[at] <= _NINE:
            return 0.0, n if at >= n else 0
        while at < n and _ZERO <= data[at] <= _NINE:
            stated = min(10 * stated + int(data[at]) - _ZERO, _MAX_EXPONENT)
            at += 1
        exponent += sign * stated
    power = powers[min(abs(exponent), _MAX_EXPONENT)]
    value = value / power if exponent < 0 else value * power  # correctly rounded up to 15 digits
    return -value if negative else value, at


@kernel
def _parse_v1(
    data: Any, digits: Any, powers: Any, bits: Any, planes: Any, policy: Any, to_play: Any, winner: Any
) -> Any:
    """Decode complete records from the start of some bytes, as many as fit the arrays of `ChunkRows`."""
    n = data.shape[0]
    used = at = 0
    for row in range(winner.shape[0]):
        while at < n and data[at] in (_NEWLINE, _RETURN):  # at the end of the file
            at += 1
        used = at
        if n - at < _PLANES * (_DIGITS + 2):
            return used, row, 0
        for c in range(_PLANES):
            if at + _DIGITS >= n:
                return used, row, 0
            wrong = 0
            for k in range(_DIGITS // 2):
                high, low = int(digits[data[at + 2 * k]]), int(digits[data[at + 2 * k + 1]])
                bits[k] = np.uint8((high << 4 | low) & 0xFF)
                wrong |= high | low
            last = int(digits[data[at + _DIGITS]])
            if wrong > 15 or last > 1:
                return used, row, _BAD_PLANE
            bits[_DIGITS // 2] = np.uint8(last << 7)
            _copy_plane(bits, 0, planes[row, c])
            at = _line_end(data, at + _DIGITS + 1)
            if at <= 0:
                return used, row, 0 if at < 0 else _BAD_PLANE
        if at >= n:
            return used, row, 0
        white = np.int64(digits[data[at]])
        if white > 1:
            return used, row, _BAD_SIDE
        _set_mover(planes[row], white)
        to_play[row] = WHITE if white else BLACK
        at = _line_end(data, at + 1)
        if at <= 0:
            return used, row, 0 if at < 0 else _BAD_SIDE
        at, error = _parse_policy(data, at, powers, policy[row])
        if error or at >= n:
            return used, row, error
        value, at = _number(data, at, powers)
        if at >= n:
            return used, row, 0
        if at == 0 or not (value == 1 or value == -1):
            return used, row, _BAD_WINNER
        winner[row] = np.int8(-value) if white else np.int8(value)
        while at < n and (data[at] == _SPACE or data[at] == _TAB):
            at += 1
        at = _line_end(data, at)
        if at <= 0:
            return used, row, 0 if at < 0 else _BAD_WINNER
    return at, winner.shape[0], 0


@inline_kernel
def _parse_policy(data: Any, at: Any, powers: Any, policy: Any) -> Any:
    """Read a line of probabilities. Returns the position after it, the size of the data if it ends, and an error."""
    n = data.shape[0]
    i = 0
    while at < n and data[at] != _NEWLINE:
        if data[at] == _SPACE or data[at] == _TAB or data[at] == _RETURN:
            at += 1
            continue
        if i == policy.shape[0]:
            return at, _BAD_COUNT
        if data[at] == _ZERO and at + 1 < n and data[at + 1] == _SPACE:  # most are
            policy[i if i == _POINTS else i + SIDE * (SIDE - 1 - 2 * (i // SIDE))] = 0
            at += 2
            i += 1
            continue
        value, at = _number(data, at, powers)
        if at == 0 or (at < n and data[at] > _SPACE):
            return at, (_BAD_NUMBER if at < n else 0)
        policy[i if i == _POINTS else i + SIDE * (SIDE - 1 - 2 * (i // SIDE))] = value
        i += 1
    if at < n and i < policy.shape[0]:
        return at, _BAD_COUNT
    return min(at + 1, n), 0


# Version 2: binary


def _decode_binary(data: Bytes, limit: int, layout: Layout) -> DecodedChunk:
    count = min(limit, len(data) // _V2.itemsize)
    records = data[: count * _V2.itemsize].view(_V2)
    right = (records["version"] == 1) & (records["white"] <= 1) & (records["won"] <= 1)
    error = "" if right.all() else "does not begin with 1, or has a side or a winner other than 0 and 1"
    records = records[: count if right.all() else int(np.argmin(right))]
    planes = np.empty((len(records), *layout.packed_shape), np.uint8)
    _unpack_v2(records.view(np.uint8).reshape(-1, _V2.itemsize), records["white"], planes)
    policy = records["policy"].copy()
    policy[:, :_POINTS] = policy[:, :_POINTS].reshape(-1, SIDE, SIDE)[:, ::-1].reshape(-1, _POINTS)
    white = records["white"] != 0
    rows = ChunkRows(
        planes,
        policy,
        np.where(white, WHITE, BLACK).astype(np.uint8),
        np.where(white == (records["won"] != 0), -1, 1).astype(np.int8),
    )
    return len(records) * _V2.itemsize, rows, error


@kernel
def _unpack_v2(records: Any, white: Any, planes: Any) -> None:
    """Fill planes [N, 18, 46] from records [N, 2176], in which 16 planes are bits, one after another."""
    for row in range(planes.shape[0]):
        for c in range(_PLANES):
            _copy_plane(records[row], 8 * _PLANES_AT + c * _POINTS, planes[row, c])
        _set_mover(planes[row], white[row])
