"""Evaluation of batches of planes by a network: the single implementation of legality, symmetries and softmax."""

from __future__ import annotations

import copy
import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from kifu.datasets.global_inputs import InputPositions, encode_inputs
from kifu.learn import Precision
from kifu.learn.hardware import supported_precision
from kifu.learn.net import Net
from kifu.learn.nets import NetworkOutput
from kifu.point import symmetries as symmetry_maps


class BatchOutput(NamedTuple):
    """The evaluation of B positions, on the network's device.

    Attributes:
        log_probs: [B, moves] float32, natural logarithms of the moves' probabilities; -inf for illegal moves, and for
            all moves of a position without a legal one.
        value: [B] float32 or None.
        ownership: [B, points] float32 or None.
    """

    log_probs: Tensor
    value: Tensor | None
    ownership: Tensor | None


class _SymmetryMaps(NamedTuple):
    """Index tables for S symmetries on a device.

    Attributes:
        sources: [S][frame points] the point of the planes that each point of the transformed planes shows.
        targets: [S][moves] the place of each move in the transformed policy.
    """

    sources: list[Tensor]
    targets: list[Tensor]


class BatchEvaluator:
    """Evaluates batches of planes with a network."""

    def __init__(
        self,
        net: Net,
        *,
        device: torch.device | None = None,
        symmetries: bool = False,
        precision: Precision = "float32",
    ) -> None:
        """Prepare a network.

        Args:
            net: The net; it is not modified.
            device: Evaluate a copy of the network on this device; None evaluates the network itself where it is.
            symmetries: Average over the 8 symmetries of the board (4 if it is not square).
            precision: "bfloat16" is faster for large batches and accurate to two or three digits; on devices without
                instructions for it, "float32" is used.
        """
        self.net, self.symmetries = net, symmetries
        self._module, self._memory_format = net.module, torch.contiguous_format
        if device is not None:
            self._memory_format = torch.channels_last
            self._module = copy.deepcopy(net.module).to(device, memory_format=torch.channels_last).eval()
        self.device = next(self._module.parameters()).device
        self._bfloat16 = supported_precision(precision, self.device) == "bfloat16"
        self._maps: dict[tuple[int, ...], _SymmetryMaps] = {}

    def global_inputs(self, at: InputPositions) -> Tensor | None:
        """Return the global inputs of positions, [B, G] float32; None for a net without any."""
        inputs = self.net.about.inputs
        return torch.from_numpy(encode_inputs(inputs, at)) if inputs else None

    def evaluate(
        self, planes: Tensor, globals: Tensor | None, width: int, height: int, legal: Tensor | None = None
    ) -> BatchOutput:
        """Evaluate a batch.

        Args:
            planes: [B, C, height + 2 rim, width + 2 rim] float32.
            globals: [B, G] float32, see `global_inputs`; None for a net without any.
            legal: [B, points + 1] bool, restricts the probabilities to these moves; None allows all.
        """
        planes, globals = planes.to(self.device), None if globals is None else globals.to(self.device)
        frame_height, frame_width = planes.shape[2:]
        maps = self._symmetry_maps(width, height, frame_width, frame_height)
        # TensorFloat-32 is switched off, so that figures agree between machines.
        exact = torch.backends.cudnn.flags(enabled=True, allow_tf32=False, fp32_precision="ieee")
        with torch.inference_mode(), exact:
            if not self.symmetries:
                return self._evaluate_symmetry(planes, globals, legal, maps, 0)
            outputs = [self._evaluate_symmetry(planes, globals, legal, maps, k) for k in range(len(maps.sources))]
            log_probs, values, ownerships = zip(*outputs)
            return BatchOutput(
                torch.stack(log_probs).logsumexp(0) - math.log(len(outputs)),
                None if values[0] is None else torch.stack(values).mean(0),
                None if ownerships[0] is None else torch.stack(ownerships).mean(0),
            )

    def _evaluate_symmetry(
        self, planes: Tensor, globals: Tensor | None, legal: Tensor | None, maps: _SymmetryMaps, k: int
    ) -> BatchOutput:
        """Evaluate the transformed board and transform the result back."""
        if k:
            planes = planes.flatten(2)[..., maps.sources[k]].view_as(planes)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self._bfloat16):
            output: NetworkOutput = self._module(planes.contiguous(memory_format=self._memory_format), globals)
        target = maps.targets[k]
        policy = output.policy.float()
        moves = policy.shape[1]
        policy = policy[:, target[:moves]]
        if legal is None:
            log_probs = policy.log_softmax(1)
        else:
            mask = legal[:, :moves]
            log_probs = policy.masked_fill(~mask, -torch.inf).log_softmax(1)
            log_probs = log_probs.masked_fill(~mask, -torch.inf)  # NaN where no move is legal
        value = None if output.value is None else output.value.float()
        ownership = None if output.ownership is None else output.ownership.float()[:, target[:-1]]
        return BatchOutput(log_probs, value, ownership)

    def _symmetry_maps(self, width: int, height: int, frame_width: int, frame_height: int) -> _SymmetryMaps:
        key = (width, height, frame_width, frame_height)
        if key not in self._maps:
            count = (8 if width == height else 4) if self.symmetries else 1
            frame, board = symmetry_maps(frame_width, frame_height), symmetry_maps(width, height)
            self._maps[key] = _SymmetryMaps(
                [torch.from_numpy(np.argsort(frame[k, :-1])).to(self.device) for k in range(count)],
                [torch.from_numpy(board[k].astype(np.int64)).to(self.device) for k in range(count)],
            )
        return self._maps[key]
