"""Networks in torch on any device."""

from __future__ import annotations

import copy
import functools
import logging
import math
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any

import numpy.typing as npt
import torch
from torch import Tensor, nn

from kifu.datasets.torch_data import unpack
from kifu.learn import Precision
from kifu.learn.networks import NetworkOutput

_log = logging.getLogger(__name__)

CPU = torch.device("cpu")

_CPU_CAPABILITIES = ("avx512_bf16", "amx_bf16", "bf16", "sve_bf16")
"""Names of `torch.cpu.get_capabilities` for products in bfloat16, of x86 and of ARM."""


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
        present = torch.cpu.get_capabilities()
        return torch.backends.mkldnn.is_available() and any(present.get(name, False) for name in _CPU_CAPABILITIES)
    return True


def flush_denormals(module: nn.Module) -> nn.Module:
    """Set the weights of a module to 0 that are denormal in float32, and return it.

    Many processors multiply by denormal numbers a hundred times more slowly. Weight decay has left whole channels of
    some networks of KataGo with such weights.
    """
    with torch.no_grad():
        for weights in module.parameters():
            weights[weights.abs() < torch.finfo(torch.float32).tiny] = 0
    return module


class TorchBackend:
    """A network in torch. Its arrays are tensors on its device."""

    def __init__(self, module: nn.Module, device: torch.device, precision: Precision = "float32") -> None:
        """Copy a network to a device.

        Args:
            precision: "bfloat16" is faster for large batches and accurate to two or three digits; on devices without
                instructions for it, "float32" is used.
        """
        self.device = device
        self._module = flush_denormals(copy.deepcopy(module)).to(device, memory_format=torch.channels_last).eval()
        self._bfloat16 = supported_precision(precision, device) == "bfloat16"

    @property
    def unpacks(self) -> bool:
        """True if packed planes are faster, because they are copied to another device."""
        return bool(self.device.type != "cpu")

    def array(self, values: npt.NDArray[Any]) -> Tensor:
        """Return an array as a tensor on the device."""
        return torch.from_numpy(values).to(self.device)

    def numpy(self, values: Tensor) -> npt.NDArray[Any]:
        """Return a tensor as an array."""
        array: npt.NDArray[Any] = values.cpu().numpy()
        return array

    def unpack(self, packed: Tensor, height: int, width: int) -> Tensor:
        """Return packed planes [B, C, bytes] as [B, C, height, width] float32."""
        return unpack(packed, height, width)

    def inference(self) -> AbstractContextManager[Any]:
        """Return the context of an evaluation, without gradients, and without TensorFloat-32, so that figures agree."""
        context = ExitStack()
        context.enter_context(torch.inference_mode())
        context.enter_context(torch.backends.cudnn.flags(enabled=True, allow_tf32=False, fp32_precision="ieee"))
        return context

    def run(self, planes: Tensor, globals: Tensor | None) -> dict[str, Tensor]:
        """Return the outputs of positions by their names in `NetworkOutput`."""
        planes = planes.to(self.device).contiguous(memory_format=torch.channels_last)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self._bfloat16):
            output: NetworkOutput = self._module(planes, None if globals is None else globals.to(self.device))
        return {name: value.float() for name, value in output._asdict().items() if value is not None}

    def log_softmax(self, policy: Tensor, legal: Tensor | None) -> Tensor:
        """Return log-probabilities [B, moves] of logits, -inf where `legal` is False."""
        if legal is None:
            return policy.log_softmax(1)
        log_probs = policy.masked_fill(~legal, -torch.inf).log_softmax(1)
        return log_probs.masked_fill(~legal, -torch.inf)  # NaN where no move is legal

    def log_mean(self, log_probs: Sequence[Tensor]) -> Tensor:
        """Return the logarithms of the mean of probabilities."""
        return torch.stack(tuple(log_probs)).logsumexp(0) - math.log(len(log_probs))
