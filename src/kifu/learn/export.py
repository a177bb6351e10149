"""A net as ONNX, for programs that have no torch; checked against the original before it is given its name."""

from __future__ import annotations

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

from kifu.atomic_io import write_file
from kifu.errors import OutputError, RecipeError, first_line
from kifu.learn.net import Net
from kifu.learn.nets import Network, NetworkOutput
from kifu.progress import format_bytes

TOLERANCE = 1e-4
"""By how much answers may differ from the original's, absolutely and in proportion."""


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written.  difference: the largest one from the original's answers that the check found."""

    path: Path
    bytes: int
    outputs: tuple[str, ...]
    board: str
    difference: float

    def __str__(self) -> str:
        """One line."""
        return (
            f"{self.path}: {format_bytes(self.bytes)}; planes of {self.board} -> {', '.join(self.outputs)};"
            f" as the original within {self.difference:.0e}"
        )


class _Plain(nn.Module):  # type: ignore[misc]  # torch may not be installed where types are checked
    """The network with what it does not tell left out."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network

    def forward(self, planes: Tensor) -> tuple[Tensor, ...]:
        return tuple(each for each in self.network(planes) if each is not None)


def export_onnx(net: Net, path: Path) -> Exported:
    """Writes a net as ONNX, and checks with onnxruntime that it answers as the original does.

    Input "planes": [B, C, H, W] float32, the net's plane set on the board with its rim; any B, and any H and W if the
    net takes boards of any size. Outputs "policy": [B, moves] float32 logits, and if the net has them "value" and
    "ownership" as in `kifu.learn.nets.Told`. Its metadata say what the planes are: docs/prediction.md.
    Raises RecipeError if onnx is not installed, OutputError if the file cannot be made, answers otherwise, or cannot
    be written.
    """
    _require_onnx()
    outputs, model = _convert(net)
    data: bytes = model.SerializeToString()
    difference = _check(net, data, outputs)
    write_file(path, data)
    board = "boards of any size" if net.module.any_size else _board(net)
    return Exported(path, len(data), outputs, board, difference)


def _board(net: Net) -> str:
    return f"{net.about.width}x{net.about.height}"


def _require_onnx() -> None:
    for name in ("onnx", "onnxscript", "onnxruntime"):
        try:
            importlib.import_module(name)
        except ModuleNotFoundError:
            raise RecipeError(f"the export as ONNX needs {name}, which pip install 'kifu[onnx]' brings") from None


def _convert(net: Net) -> tuple[tuple[str, ...], Any]:
    """The names of the outputs, and the model, in memory."""
    module = _Plain(net.module).eval()
    planes = _some_planes(net, 2, 0)
    with torch.inference_mode():
        told: NetworkOutput = net.module(planes)
    outputs = tuple(name for name, each in zip(NetworkOutput._fields, told) if each is not None)
    free = ("batch", None, "height", "width") if net.module.any_size else ("batch",)
    shape = {k: torch.export.Dim(name) for k, name in enumerate(free) if name}
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)  # it warns that torchvision is not there
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*LeafSpec", FutureWarning)  # torch 2.13 uses what it deprecates
            program = torch.onnx.export(
                module, (planes,), dynamo=True, verbose=False, input_names=["planes"], output_names=list(outputs),
                dynamic_shapes={"planes": shape},
            )  # fmt: skip
    except torch.onnx.OnnxExporterError as error:
        raise OutputError(f"torch cannot write net {net.name} ({net.about.net}) as ONNX: {first_line(error)}") from None
    finally:
        log.setLevel(level)
    model = program.model_proto
    _clean(model)
    for key, value in _metadata(net).items():
        model.metadata_props.add(key=key, value=value)
    return outputs, model


def _clean(model: Any) -> None:
    """Takes off what the exporter notes for its makers: from which lines of which files each node comes."""
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
        "any_board": json.dumps(net.module.any_size),
        "rim": str(net.encoder.plane_set.rim),
        "passes": json.dumps(about.passes),
    }


def _some_planes(net: Net, batch: int, wider: int) -> Tensor:
    """[batch, C, H, W] of 0 and 1, drawn from a seed, for a board with `wider` rows and twice as many columns more."""
    planes, height, width = net.encoder.shape
    bits = np.random.default_rng(batch).random((batch, planes, height + wider, width + 2 * wider)) < 0.3
    return torch.from_numpy(bits.astype(np.float32))


def _check(net: Net, data: bytes, outputs: Sequence[str]) -> float:
    """The largest difference from the original's answers. Raises OutputError if one is too large."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    most = 0.0
    for batch, wider in ((1, 0), (3, 0), (2, 1)) if net.module.any_size else ((1, 0), (3, 0)):
        planes = _some_planes(net, batch, wider)
        with torch.inference_mode():
            told = [each.numpy() for each in net.module(planes) if each is not None]
        found: list[npt.NDArray[np.float32]] = session.run(None, {"planes": planes.numpy()})
        for name, ours, its in zip(outputs, told, found, strict=True):
            if ours.shape != its.shape or not np.allclose(its, ours, rtol=TOLERANCE, atol=TOLERANCE):
                raise OutputError(
                    f"net {net.name} as ONNX answers another {name} than the original; nothing is written"
                )
            most = max(most, float(np.abs(ours - its).max(initial=0)))
    return most
