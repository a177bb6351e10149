"""Bit sets of the board, written out as the bytes of packed planes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kifu.kernel import inline_kernel

ZERO = np.uint64(0)
ONE = np.uint64(1)
BYTE = np.uint64(0xFF)


def spread_table() -> npt.NDArray[np.uint64]:
    """[256] uint64: each bit of a byte as a byte of its own, 0 or 1, the highest bit in the highest byte."""
    bits = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)  # [256, 8], highest bit first
    return bits.view(">u8")[:, 0].astype(np.uint64)


@inline_kernel
def put_word(out: Any, at: Any, word: Any) -> None:
    """Writes a uint64 to out[at : at + 8], highest byte first; the compiler makes one store of it."""
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
    """Appends the n bits of one plane (words: its bit set) to a stream of bits, highest bit first.

    The stream so far: whole words up to byte `at` of out, then `filled` bits (0 to 63), the high ones of `carry`.
    Returns the new (at, carry, filled). width: a tuple as long as `words`.
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
