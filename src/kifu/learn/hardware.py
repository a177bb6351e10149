"""The device of networks, and the precision in which it computes: bfloat16 where it has instructions for it."""

from __future__ import annotations

import functools
import logging

import torch

from kifu.learn import Precision

_CPU_CAPABILITIES = ("avx512_bf16", "amx_bf16", "bf16", "sve_bf16")
"""Names of `torch.cpu.get_capabilities` for products in bfloat16, of x86 and of ARM."""

_log = logging.getLogger(__name__)


def default_device() -> torch.device:
    """Return a GPU if there is one, or else the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def supported_precision(precision: Precision, device: torch.device) -> Precision:
    """Return the precision in which networks compute on a device where `precision` was asked for.

    Without instructions for bfloat16 torch emulates it, which takes several times as long as float32. A note is logged
    then.
    """
    if precision == "bfloat16" and not has_bfloat16(device.type):
        processor = "GPU" if device.type == "cuda" else "processor"
        _log.info("this %s has no instructions for bfloat16; networks compute in float32", processor)
        return "float32"
    return precision


@functools.cache
def has_bfloat16(device_type: str) -> bool:
    """Return True if products in bfloat16 are fast on devices of this type, such as "cpu" or "cuda"."""
    if device_type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if device_type == "cpu":
        # Only oneDNN has convolutions that use these instructions.
        found = torch.cpu.get_capabilities()
        return torch.backends.mkldnn.is_available() and any(found.get(name, False) for name in _CPU_CAPABILITIES)
    return True
