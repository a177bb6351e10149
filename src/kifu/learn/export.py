"""Export of a net as ONNX, for onnxruntime and other programs; verified against the original before it is written."""

from __future__ import annotations

import base64
import importlib
import json
import logging
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from kifu.errors import KifuError, OutputError, first_line, missing_extras, printable
from kifu.io import hash_file, write_file
from kifu.learn import ONNX_SUFFIX
from kifu.learn.net import net_file
from kifu.learn.net_format import METADATA_KEY, Net, checksum_entry
from kifu.learn.nets import Network, NetworkOutput
from kifu.learn.torch_net import read_net
from kifu.text import Report, format_bytes

_log = logging.getLogger(__name__)

_PACKAGES = ("onnx", "onnxscript", "onnxruntime")

TOLERANCE = 1e-4
"""Allowed difference of the exported net's outputs, absolute and relative."""


@dataclass(frozen=True, slots=True)
class ExportReport(Report):
    """The result of an export.

    Attributes:
        difference: Largest difference of an output from the original's.
    """

    path: Path
    bytes: int
    outputs: tuple[str, ...]
    board: str
    difference: float

    def __str__(self) -> str:
        """Return one line."""
        return (
            f"{printable(self.path)}: {format_bytes(self.bytes)}; planes of {self.board} -> {', '.join(self.outputs)};"
            f" equal to the original within {self.difference:.0e}"
        )


class _ExportModule(nn.Module):  # type: ignore[misc]  # torch may not be installed where types are checked
    """A network whose output is a tuple without the missing heads."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network

    def forward(self, planes: Tensor, globals: Tensor | None = None) -> tuple[Tensor, ...]:
        return tuple(each for each in self.network(planes, globals) if each is not None)


def export_run(directory: Path) -> ExportReport | None:
    """Write the ONNX file of a run's best net beside it, and log if it cannot be written."""
    weights = net_file(directory)
    try:
        return export_onnx(read_net(weights, directory.name), weights.with_suffix(ONNX_SUFFIX), weights)
    except (KifuError, ImportError) as error:
        _log.info("only torch evaluates %s: %s", weights, first_line(error))
        return None


def export_onnx(net: Net, path: Path, weights: Path | None = None) -> ExportReport:
    """Write a net as ONNX and verify with onnxruntime that its outputs equal the original's.

    The input "planes" is [B, C, H, W] float32, the net's plane set including its rim; any B, and any H and W if the net
    supports all board sizes. A net with global inputs has a second input "globals", [B, G] float32, whose names the
    metadata list. The outputs are "policy", [B, moves] float32 logits, and if the net has these heads
    "value" and "ownership" as in `kifu.learn.nets.NetworkOutput`. The metadata describe the planes, see
    docs/prediction.md.

    Args:
        weights: The file of the net, for which `kifu.open_net` then opens the ONNX file if it lies beside it.

    Raises:
        RecipeError: Onnx is not installed.
    """
    with missing_extras():
        for name in _PACKAGES:
            importlib.import_module(name)
    outputs, model = _convert(net)
    for key, value in (_metadata(net) | ({} if weights is None else {"weights": hash_file(weights)})).items():
        model.metadata_props.add(key=key, value=value)
    data: bytes = model.SerializeToString()
    data += checksum_entry(data)
    difference = _check_outputs(net, data, outputs)
    write_file(path, data)
    board = "boards of any size" if net.any_size else _board(net)
    return ExportReport(path, len(data), outputs, board, difference)


def _board(net: Net) -> str:
    return f"{net.about.width}x{net.about.height}"


def _convert(net: Net) -> tuple[tuple[str, ...], Any]:
    """Return the names of the outputs, and the ONNX model."""
    module = _ExportModule(net.module).eval()
    inputs = _random_inputs(net, 2, 0)
    with torch.inference_mode():
        output: NetworkOutput = net.module(*inputs.values())
    outputs = tuple(name for name, each in zip(NetworkOutput._fields, output) if each is not None)
    dynamic = ("batch", None, "height", "width") if net.any_size else ("batch",)
    shape = {k: torch.export.Dim(name) for k, name in enumerate(dynamic) if name}
    shapes = {name: {k: shape[k] for k in shape if k < each.ndim} for name, each in inputs.items()}
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)  # it warns that torchvision is missing
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*LeafSpec", FutureWarning)  # torch 2.13 uses what it deprecates
            warnings.filterwarnings("ignore", ".*axis name: batch will not be used", UserWarning)  # both inputs have it
            program = torch.onnx.export(
                module, tuple(inputs.values()), dynamo=True, verbose=False, input_names=list(inputs),
                output_names=list(outputs), dynamic_shapes=shapes,
            )  # fmt: skip
    except torch.onnx.OnnxExporterError as error:
        raise OutputError(
            f"torch cannot export net {net.name} ({net.about.net}) as ONNX: {first_line(error)}"
        ) from None
    finally:
        log.setLevel(level)
    model = program.model_proto
    _strip(model)
    return outputs, model


def _strip(model: Any) -> None:
    """Remove the exporter's notes on the source lines of each node."""
    graph = model.graph
    for part in (graph.node, graph.value_info, graph.input, graph.output, graph.initializer, [graph, model]):
        for each in part:
            each.ClearField("metadata_props")
            each.ClearField("doc_string")


def _metadata(net: Net) -> dict[str, str]:
    about = net.about
    return {
        "kifu": version("kifu"),
        "net": about.net,
        "planes": about.planes,
        "plane_names": json.dumps(net.encoder.plane_set.plane_names),
        "board": _board(net),
        "any_board": json.dumps(net.any_size),
        "rim": str(net.encoder.plane_set.padding),
        "passes": json.dumps(about.passes),
        "inputs": json.dumps(about.inputs),
        "parameters": str(net.parameters),
        "games": base64.b64encode(net.games.astype("<u8").tobytes()).decode(),
        METADATA_KEY: about.model_dump_json(),
    }


def _random_inputs(net: Net, batch: int, extra: int) -> dict[str, Tensor]:
    """Return the inputs of a net by name for a board with `extra` more rows and 2 * `extra` more columns.

    The planes [batch, C, H, W] are random zeros and ones.
    """
    planes, height, width = net.encoder.shape
    bits = np.random.default_rng(batch).random((batch, planes, height + extra, width + 2 * extra)) < 0.3
    inputs = {"planes": torch.from_numpy(bits.astype(np.float32))}
    if net.about.inputs:
        inputs["globals"] = torch.randn(
            batch, net.module.config.global_size, generator=torch.Generator().manual_seed(batch)
        )
    return inputs


def _check_outputs(net: Net, data: bytes, outputs: Sequence[str]) -> float:
    """Return the largest difference from the original's outputs. Raise OutputError if it exceeds the tolerance."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    largest = 0.0
    for batch, extra in ((1, 0), (3, 0), (2, 1)) if net.any_size else ((1, 0), (3, 0)):
        inputs = _random_inputs(net, batch, extra)
        with torch.inference_mode():
            expected = [each.numpy() for each in net.module(*inputs.values()) if each is not None]
        try:
            exported: list[npt.NDArray[np.float32]] = session.run(None, {key: x.numpy() for key, x in inputs.items()})
        except Exception as error:  # of many kinds: a network may fix the size of the batch
            raise OutputError(
                f"the exported net {net.name} does not accept planes {list(inputs['planes'].shape)}; nothing written:"
                f" {' '.join(str(error).split())}"
            ) from error
        for name, original, other in zip(outputs, expected, exported, strict=True):
            if original.shape != other.shape or not np.allclose(other, original, rtol=TOLERANCE, atol=TOLERANCE):
                raise OutputError(f"{name} of the exported net {net.name} differs from the original; nothing written")
            largest = max(largest, float(np.abs(original - other).max(initial=0)))
    return largest
