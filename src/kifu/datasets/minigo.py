"""The format `minigo@1`: minigo's training examples, TFRecord files compressed by zlib. See docs/formats/minigo.md.

TensorFlow is not needed: the records, their checksums and the protocol buffers in them are decoded here.
"""

from __future__ import annotations

import functools
from math import isqrt
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kifu.datasets.chunks import RECORD_LIMIT, Chunks, DecodedChunk, Decoder, new_rows
from kifu.datasets.examples import Layout
from kifu.errors import FormatError
from kifu.kernel import inline_kernel, kernel
from kifu.point import BLACK, MAX_SIZE, WHITE
from kifu.records._nodes import is_text
from kifu.records.games import Bytes

PLANES = 17
_BLACK_PLANE = 16

_HEAD = 12
"""Bytes before the data of a record: its length (uint64), and the masked checksum of that."""

_INCOMPLETE, _BAD_LENGTH_CRC, _TOO_LONG, _BAD_CRC, _NO_EXAMPLE, _MISSING, _BAD_SIZE, _BAD_PLANES, _BAD_SIDE = range(
    1, 10
)
_BAD_STONES, _BAD_OUTCOME = 10, 11
_ERRORS = {
    0: "",
    _INCOMPLETE: "",
    _BAD_LENGTH_CRC: "has a length with a wrong checksum",
    _TOO_LONG: f"is longer than {RECORD_LIMIT:,} bytes",
    _BAD_CRC: "has a wrong checksum",
    _NO_EXAMPLE: "is not a tf.train.Example",
    _MISSING: "lacks one of the features x and pi (bytes) and outcome (a float)",
    _BAD_SIZE: "has features x and pi that do not have 17 N * N and 4 (N * N + 1) bytes for the board of the file",
    _BAD_PLANES: "has a feature x with values other than 0 and 1",
    _BAD_SIDE: "has a plane 16 that is neither all 0 nor all 1, as in files whose feature x is not row, column, plane",
    _BAD_STONES: "has a point with stones of both sides",
    _BAD_OUTCOME: "has an outcome other than 1, 0 and -1",
}


class Minigo(Chunks):
    """Training examples of minigo."""

    plane_set = "agz17-minigo@1"

    @staticmethod
    def find_decoder(path: Path, head: Bytes) -> Decoder:
        """Return the decoder of a file; see `Chunks.find_decoder`."""
        spans = np.zeros((3, 2), np.int64)
        error, _ = _locate_first(head, crc_tables(), spans)
        if error == _INCOMPLETE:
            raise FormatError(f"{path} ends within record 0")
        size = isqrt(max(int(spans[1, 1] - spans[1, 0]) // 4 - 1, 0))
        if not error and not 1 <= size <= MAX_SIZE:
            error = _BAD_SIZE
        if error:
            raise FormatError(f"{path}: record 0 {_ERRORS[error]}")
        return Decoder("TFRecord", size, _decode)


def is_minigo(head: bytes) -> bool:
    """Return whether the first bytes of a file, inflated, are the head of a record."""
    if len(head) < _HEAD:
        return False
    data = np.frombuffer(head, np.uint8)
    return int(masked_crc(data, 0, 8, crc_tables())) == int.from_bytes(head[8:_HEAD], "little")


def _decode(data: Bytes, limit: int, layout: Layout) -> DecodedChunk:
    rows = new_rows(min(limit, len(data) // (PLANES * layout.points) + 1), layout)
    outcome = np.empty(len(rows.winner), "<f4")
    used, count, error = _parse(
        data, crc_tables(), np.empty((3, 2), np.int64), layout.width, rows.planes, rows.policy.view(np.uint8),
        outcome[:, None].view(np.uint8), rows.to_play,
    )  # fmt: skip
    right = np.isin(outcome[:count], (-1, 0, 1))
    if not right.all():
        error, count = _BAD_OUTCOME, int(np.argmin(right))
    rows.winner[:count] = outcome[:count]
    return used, rows.take(slice(count)), _ERRORS[error]


# Checksums


@functools.cache
def crc_tables() -> npt.NDArray[np.int64]:
    """Return [8, 256]: the CRC-32C of each byte, followed by 0 to 7 zero bytes."""
    table = np.arange(256)
    for _ in range(8):
        table = table >> 1 ^ (table & 1) * 0x82F63B78
    tables = [table]
    for _ in range(7):
        tables.append(tables[-1] >> 8 ^ table[tables[-1] & 0xFF])
    return np.array(tables)


@kernel
def masked_crc(data: Any, first: Any, last: Any, tables: Any) -> Any:
    """Return the checksum of data[first:last] as TFRecord stores it; see `crc_tables`."""
    return _masked(data, first, last, tables)


@inline_kernel
def _masked(data: Any, first: Any, last: Any, tables: Any) -> Any:
    """Return the checksum of data[first:last] as TFRecord stores it: rotated, plus a constant."""
    crc: Any = np.int64(0xFFFFFFFF)
    at = first
    while at + 8 <= last:  # eight bytes at a time, each through a table of its own
        crc = (
            tables[7, data[at] ^ crc & 0xFF]
            ^ tables[6, data[at + 1] ^ crc >> 8 & 0xFF]
            ^ tables[5, data[at + 2] ^ crc >> 16 & 0xFF]
            ^ tables[4, data[at + 3] ^ crc >> 24]
            ^ tables[3, data[at + 4]]
            ^ tables[2, data[at + 5]]
            ^ tables[1, data[at + 6]]
            ^ tables[0, data[at + 7]]
        )
        at += 8
    while at < last:
        crc = crc >> 8 ^ tables[0, (crc ^ data[at]) & 0xFF]
        at += 1
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


@inline_kernel
def _little_endian(data: Any, at: Any, count: Any) -> Any:
    value = 0
    for k in range(count):
        value |= int(data[at + k]) << 8 * k
    return value


# Protocol buffers


_BYTES, _FLOATS = 1 << 3 | 2, 2 << 3 | 2
"""The keys of fields 1 and 2 with a length: an entry's key and value, and a feature's list of bytes and of floats."""

_FIXED32 = 1 << 3 | 5
_MAX_SHIFT = 56


@inline_kernel
def _varint(data: Any, at: Any, stop: Any) -> Any:
    """Return a number and the position after it; -1 if it is not within the data or above 2**56."""
    value = shift = 0
    while at < stop and shift < _MAX_SHIFT:
        byte = int(data[at])
        value |= (byte & 127) << shift
        at += 1
        if byte < 128:
            return value, at
        shift += 7
    return 0, -1


@inline_kernel
def _field(data: Any, at: Any, stop: Any) -> Any:
    """Return the key of the field at `at`, -1 if it is malformed, and where its value begins and ends."""
    key, at = _varint(data, at, stop)
    if at < 0:
        return -1, 0, 0
    wire, first = key & 7, at
    if wire == 2:
        length, first = _varint(data, at, stop)
        last = first + length
    elif wire == 5 or wire == 1:
        last = first + (4 if wire == 5 else 8)
    elif wire == 0:
        while at < stop and at < first + 9 and data[at] >= 128:
            at += 1
        last = at + 1
    else:
        return -1, 0, 0
    if first < 0 or last > stop:
        return -1, 0, 0
    return key, first, last


@inline_kernel
def _find(data: Any, at: Any, stop: Any, wanted: Any, other: Any) -> Any:
    """Return the last field with one of two keys, as `_field` does; key 0 if both are missing, -1 if malformed."""
    found, begin, end = 0, at, at
    while at < stop:
        key, first, at = _field(data, at, stop)
        if key < 0:
            return -1, 0, 0
        if key in (wanted, other):
            found, begin, end = key, first, at
    return found, begin, end


@inline_kernel
def _feature_index(data: Any, first: Any, last: Any) -> Any:
    """Return 0 for the name x, 1 for pi, 2 for outcome, -1 for others."""
    length = last - first
    if length == 1 and is_text(data, first, last, b"x"):
        return 0
    if length == 2 and is_text(data, first, last, b"pi"):
        return 1
    return 2 if length == 7 and is_text(data, first, last, b"outcome") else -1


@inline_kernel
def _example(data: Any, at: Any, stop: Any, spans: Any) -> Any:
    """Fill spans [3, 2] with the first values of the features x, pi and outcome. Returns an error, or 0."""
    for k in range(3):
        spans[k, 0] = spans[k, 1] = 0
    key, at, stop = _find(data, at, stop, _BYTES, _BYTES)
    while key > 0 and at < stop:
        key, first, last = _field(data, at, stop)
        at = last
        if key != _BYTES:
            continue
        named, name, name_end = _find(data, first, last, _BYTES, _BYTES)
        valued, value, value_end = _find(data, first, last, _FLOATS, _FLOATS)
        if named < 0 or valued < 0:
            return _NO_EXAMPLE
        k = _feature_index(data, name, name_end)
        if named == 0 or valued == 0 or k < 0:
            continue
        kind, value, value_end = _find(data, value, value_end, _BYTES, _FLOATS)
        if kind == _BYTES:
            kind, value, value_end = _find(data, value, value_end, _BYTES, _BYTES)
        elif kind == _FLOATS:
            kind, value, value_end = _find(data, value, value_end, _BYTES, _FIXED32)
        if kind < 0:
            return _NO_EXAMPLE
        spans[k, 0], spans[k, 1] = value, value_end
    if key < 0:
        return _NO_EXAMPLE
    for k in range(3):
        if spans[k, 0] == spans[k, 1]:
            return _MISSING
    return _MISSING if spans[2, 1] - spans[2, 0] != 4 else 0


@inline_kernel
def _locate(data: Any, at: Any, tables: Any, spans: Any) -> Any:
    """Check the record at `at`, and fill spans [3, 2]: see `_example`. Returns an error, or 0, and its end."""
    n = data.shape[0]
    if n - at < _HEAD:
        return _INCOMPLETE, at
    if _masked(data, at, at + 8, tables) != _little_endian(data, at + 8, 4):
        return _BAD_LENGTH_CRC, at
    length = _little_endian(data, at, 8)
    if length < 0 or length > RECORD_LIMIT - _HEAD - 4:
        return _TOO_LONG, at
    first, last = at + _HEAD, at + _HEAD + length
    if last + 4 > n:
        return _INCOMPLETE, at
    if _masked(data, first, last, tables) != _little_endian(data, last, 4):
        return _BAD_CRC, at
    return _example(data, first, last, spans), last + 4


@kernel
def _locate_first(data: Any, tables: Any, spans: Any) -> Any:
    return _locate(data, 0, tables, spans)


@inline_kernel
def _pack(data: Any, first: Any, planes: Any, points: Any) -> Any:
    """Pack the bytes of feature x, points by planes, into planes [17, bytes], which are 0. Returns an error, or 0."""
    at = first
    for p in range(points):
        bit = 0x80 >> (p & 7)
        for c in range(PLANES):
            value = data[at]
            at += 1
            if value == 0:
                continue
            if value != 1:
                return _BAD_PLANES
            planes[c, p >> 3] = np.uint8(planes[c, p >> 3] | bit)
    for c in range(0, _BLACK_PLANE, 2):
        for b in range(planes.shape[1]):
            if planes[c, b] & planes[c + 1, b]:
                return _BAD_STONES
    black = data[first + _BLACK_PLANE]
    for p in range(points):
        if data[first + PLANES * p + _BLACK_PLANE] != black:
            return _BAD_SIDE
    return 0


@kernel
def _parse(data: Any, tables: Any, spans: Any, size: Any, planes: Any, policy: Any, outcome: Any, to_play: Any) -> Any:
    """Decode complete records from the start of some bytes, as many as fit the arrays of `ChunkRows`.

    Args:
        policy: [N, 4 * (size * size + 1)] uint8, the bytes of floats.
    """
    at = 0
    points = size * size
    for row in range(to_play.shape[0]):
        error, last = _locate(data, at, tables, spans)
        if error:
            return at, row, error
        x, pi = spans[0, 0], spans[1, 0]
        if spans[0, 1] - x != PLANES * points or spans[1, 1] - pi != policy.shape[1]:
            return at, row, _BAD_SIZE
        for c in range(PLANES):
            for b in range(planes.shape[2]):
                planes[row, c, b] = 0
        error = _pack(data, x, planes[row], points)
        if error:
            return at, row, error
        for k in range(policy.shape[1]):
            policy[row, k] = data[pi + k]
        for k in range(4):
            outcome[row, k] = data[spans[2, 0] + k]
        to_play[row] = BLACK if planes[row, _BLACK_PLANE, 0] else WHITE
        at = last
    return at, to_play.shape[0], 0
