"""Packed planes: bit sets of the board as bytes, the records of dat1 and dat2, and unpacking all of these to arrays."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import numpy.typing as npt

from kifu.arrays import Array, Bytes, Hashes, Ints
from kifu.go.state import ONE
from kifu.kernel import inline_kernel, kernel

Planes = Bytes
Labels = Ints
Records = npt.NDArray[np.void]

DAT1 = np.dtype([("mark", "S2"), ("row", "u1"), ("col", "u1"), ("planes", "u1", (19, 19))])
"""The record of kgsgo8: bit k of a point's byte is plane k."""

DAT2 = np.dtype([("mark", "S2"), ("label", "<i4"), ("bits", "u1", (316,))])
"""The record of kgsgo7: planes as bits, one after another, the first bit the highest of its byte."""

BYTE = np.uint64(0xFF)
_PLANE_BIT = (1 << np.arange(8)).astype(np.uint8).reshape(8, 1, 1)


# Writing


def spread_table() -> Hashes:
    """Return [256] uint64: each bit of a byte as a byte 0 or 1, the highest bit in the highest byte."""
    bits = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)  # [256, 8], highest bit first
    return bits.view(">u8")[:, 0].astype(np.uint64)


@inline_kernel
def put_word(out: Any, at: Any, word: Any) -> None:
    """Write a uint64 to out[at : at + 8], highest byte first; the compiler makes one store of it."""
    i = np.uint64(at)  # a signed index would be tested for being negative, byte by byte
    out[i] = np.uint8(word >> np.uint64(56) & BYTE)
    out[i + np.uint64(1)] = np.uint8(word >> np.uint64(48) & BYTE)
    out[i + np.uint64(2)] = np.uint8(word >> np.uint64(40) & BYTE)
    out[i + np.uint64(3)] = np.uint8(word >> np.uint64(32) & BYTE)
    out[i + np.uint64(4)] = np.uint8(word >> np.uint64(24) & BYTE)
    out[i + np.uint64(5)] = np.uint8(word >> np.uint64(16) & BYTE)
    out[i + np.uint64(6)] = np.uint8(word >> np.uint64(8) & BYTE)
    out[i + np.uint64(7)] = np.uint8(word & BYTE)


@inline_kernel
def put_plane(out: Any, at: Any, carry: Any, filled: Any, width: Any, words: Any, n: Any) -> Any:
    """Append the n bits of one plane to a stream of bits, highest bit first.

    The stream so far is whole words up to byte `at` of `out`, then `filled` bits, 0 to 63, the high ones of `carry`.
    words: the bit set of the plane; width: a tuple as long.
    """
    left = n
    shift, back = np.uint64(filled), np.uint64(63 - filled)
    for i in range(len(width)):
        word = words[i]
        if left >= 64:
            put_word(out, at, carry | word >> shift)
            at += 8
            carry = word << ONE << back  # two steps, since a shift by 64 is no shift
            left -= 64
        elif left > 0:
            carry |= word >> shift
            filled += left
            if filled >= 64:
                put_word(out, at, carry)
                at += 8
                filled -= 64
                carry = word << ONE << back
            left = 0
    return at, carry, filled


@inline_kernel
def pack_planes(words: Any, bits: Any, out: Any) -> None:
    """Write bit sets [C, W] to out [C, bytes] uint8, each plane from a byte of its own. words: a tuple of W."""
    for c in range(out.shape[0]):
        plane = out[c]
        for i in range(len(words)):
            at = 8 * i
            if at + 8 <= plane.shape[0]:
                put_word(plane, at, bits[c, i])
            else:
                for k in range(at, plane.shape[0]):
                    plane[k] = np.uint8(bits[c, i] >> np.uint64(56 - 8 * (k - at)) & BYTE)


# Reading


@functools.cache
def _unpack_table(dtype: np.dtype[Any], one: int) -> Array:
    """Return [256, 8]: each bit of a byte as a number, 0 or `one`, the highest bit first."""
    bits = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)
    table: Array = np.where(bits, dtype.type(one), dtype.type(0))
    return table


@kernel
def _unpack(packed: Any, table: Any, out: Any) -> None:
    points = out.shape[2]
    whole = points >> 3
    for b in range(packed.shape[0]):
        for c in range(packed.shape[1]):
            plane = out[b, c]
            for i in range(whole):
                bits = table[packed[b, c, i]]
                for k in range(8):
                    plane[8 * i + k] = bits[k]
            for p in range(8 * whole, points):
                plane[p] = table[packed[b, c, whole], p & 7]


def unpack(packed: Bytes, out: Array, one: int = 1) -> None:
    """Unpack planes into an array, in one thread and without holding the interpreter's lock.

    Raises ValueError if shapes or types do not match.

    Args:
        packed: [B, C, ceil(H * W / 8)] uint8.
        out: [B, C, H, W] of any dtype, contiguous; filled with 0 and `one`.
        one: Value of a set bit: with 0x3F80 an array of uint16 holds the bfloat16 numbers 0.0 and 1.0.
    """
    batch, planes, height, width = out.shape
    shape = batch, planes, (height * width + 7) // 8
    if packed.shape != shape or packed.dtype != np.uint8 or not out.flags.c_contiguous:
        raise ValueError(f"planes packed as {packed.dtype} {packed.shape} do not fit an array of {out.shape}")
    _unpack(packed, _unpack_table(out.dtype, one), out.reshape(batch, planes, height * width))


def unpack_dat1(records: Records, planes: Planes, labels: Labels) -> None:
    """Fill planes [n, 8, 19, 19] uint8 and labels [n] int32 from records [n] of DAT1."""
    # Twelve times as fast as np.unpackbits along this axis, and as without the copy that closes the gaps.
    points = np.ascontiguousarray(records["planes"])[:, None]
    np.bitwise_and(points, _PLANE_BIT, out=planes)
    np.not_equal(planes, 0, out=planes.view(np.bool_))
    np.multiply(records["row"], 19, out=labels, dtype=np.int32)
    labels += records["col"]


def unpack_dat2(records: Records, planes: Planes, labels: Labels) -> None:
    """Fill planes [n, 7, 19, 19] uint8 and labels [n] int32 from records [n] of DAT2."""
    planes[:] = np.unpackbits(records["bits"], axis=1, count=7 * 361).reshape(planes.shape)
    labels[:] = records["label"]
