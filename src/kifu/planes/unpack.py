"""Packed planes written out as numbers."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import numpy.typing as npt

from kifu.kernel import kernel


@functools.cache
def _table(dtype: np.dtype[Any], one: int) -> npt.NDArray[Any]:
    """[256, 8]: each bit of a byte as a number, 0 or `one`, the highest bit first."""
    bits = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)
    table: npt.NDArray[Any] = np.where(bits, dtype.type(one), dtype.type(0))
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


def unpack(packed: npt.NDArray[np.uint8], out: npt.NDArray[Any], one: int = 1) -> None:
    """Fills out [B, C, H, W], of any dtype and contiguous, from packed planes [B, C, ceil(H * W / 8)] uint8.

    Each number is 0 or `one`: with one=0x3F80 an array of uint16 holds bfloat16 numbers, 0.0 and 1.0.
    Raises ValueError if the shapes do not fit. One thread; the kernel lets others run.
    """
    batch, planes, height, width = out.shape
    if packed.shape != (batch, planes, (height * width + 7) // 8) or not out.flags.c_contiguous:
        raise ValueError(f"planes packed as {packed.shape} do not fit an array of {out.shape}")
    _unpack(packed, _table(out.dtype, one), out.reshape(batch, planes, height * width))
