"""Export of a net as ONNX, for onnxruntime and other programs; verified against the original before it is written."""

from __future__ import annotations

import base64
import copy
import importlib
import json
import logging
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from kifu.errors import KifuError, OutputError, RecipeError, first_line, missing_extras, printable
from kifu.io import hash_file, write_file
from kifu.katago.checkpoint import read_network
from kifu.katago.net import KataNet, net_file_of
from kifu.katago.net_file import SUFFIXES, Attention, Bottleneck, FeedForward, KataNetFile, is_kata_net, write_kata_net
from kifu.katago.net_onnx import INFO_PREFIX, INPUTS, OUTPUTS, KataOnnx
from kifu.learn import ONNX_SUFFIX
from kifu.learn.backends import onnx_session
from kifu.learn.inference import Net
from kifu.learn.net import net_file, open_net
from kifu.learn.net_format import METADATA_KEY, checksum_entry
from kifu.learn.networks import KataNetwork, Network, NetworkOutput
from kifu.learn.torch_backend import flush_denormals
from kifu.learn.torch_net import kata_net, net_bytes, read_net
from kifu.text import Report, format_bytes

_log = logging.getLogger(__name__)

_PACKAGES = ("onnx", "onnxscript", "onnxruntime")

HALF_SUFFIX = ".safetensors"
"""Suffix of a net whose matrices have 16 bits."""

TOLERANCE = 1e-4
"""Allowed difference of the exported net's outputs, absolute and relative."""


@dataclass(frozen=True, slots=True)
class ExportReport(Report):
    """The result of an export; `difference` is the largest difference of an output from the original's."""

    path: Path
    bytes: int
    outputs: tuple[str, ...]
    board: str
    difference: float

    def __str__(self) -> str:
        return (
            f"{printable(self.path)}: {format_bytes(self.bytes)}; planes of {self.board} -> {', '.join(self.outputs)};"
            f" equal to the original within {self.difference:.0e}"
        )


@dataclass(frozen=True)
class _Graph:
    """A network to be exported, which maps inputs to a tuple of outputs.

    Attributes:
        inputs: Returns random inputs by name for a batch size and a number of additional rows.
    """

    name: str
    module: nn.Module
    inputs: Callable[[int, int], dict[str, Tensor]]
    outputs: tuple[str, ...]
    board: str
    any_size: bool
    metadata: dict[str, str]


class _ExportModule(nn.Module):  # type: ignore[misc]  # torch may not be installed where types are checked
    """A network whose output is a tuple without the missing heads."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network

    def forward(self, planes: Tensor, globals: Tensor | None = None) -> tuple[Tensor, ...]:
        return tuple(each for each in self.network(planes, globals) if each is not None)


class _KataExportModule(nn.Module):  # type: ignore[misc]
    """A network of KataGo with the inputs and outputs of `kifu.katago.net_onnx`."""

    def __init__(self, net: KataNet) -> None:
        super().__init__()
        self.net = net

    def forward(
        self, planes: Tensor, globals: Tensor, metadata: Tensor, mask: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        """Evaluate positions; without metadata the mask takes their place."""
        numbers, mask = (None, metadata) if mask is None else (metadata.flatten(1), mask)
        raw = self.net.raw(planes, globals.flatten(1), numbers, mask)
        return tuple(each if each.ndim == 4 else each[:, :, None, None] for each in raw)


def export_net(source: str | Path, path: Path) -> ExportReport:
    """Write a net in the format that the suffix of the path names.

    Args:
        source: A net of kifu, as for `kifu.open_net`, or of KataGo.
        path: The file: ONNX; a net of half the size, whose matrices have 16 bits (.safetensors); or for a network of
            KataGo its own format (.bin.gz, .txt.gz).

    Raises:
        RecipeError: The net cannot be written in that format, or onnx is not installed.
    """
    if path.name.endswith(SUFFIXES):
        return _export_kata_file(read_network(source), path) if is_kata_net(source) else _export_kata(source, path)
    if path.suffix == HALF_SUFFIX and not is_kata_net(source):
        return _export_half(open_net(source), path)
    if path.suffix != ONNX_SUFFIX:
        raise RecipeError(f"{path} must end with {ONNX_SUFFIX}, {HALF_SUFFIX}, or {' or '.join(SUFFIXES)} for KataGo")
    if not is_kata_net(source):
        return export_onnx(open_net(source), path, net_file(source))
    return _export_graph(_kata_graph(read_network(source)), path)


def _export_half(net: Net, path: Path) -> ExportReport:
    """Write a net with matrices of 16 bits, and without the head that only training uses."""
    module = copy.deepcopy(net.module)
    module.next = None
    for value in module.parameters():
        if value.ndim > 1:
            value.data = value.data.half()
            if not value.isfinite().all():
                raise RecipeError(f"{path} cannot hold net {net.name}: 16 bits hold numbers up to 65,504 only")
    about = net.about.model_copy(update={"heads": tuple(head for head in net.about.heads if head != "next")})
    data = net_bytes(module, about, net.games)
    inputs = _random_inputs(net, 3, 0)
    with torch.inference_mode():
        output, rounded = net.module(*inputs.values()), module.float()(*inputs.values())
    outputs = {name: pair for name, *pair in zip(NetworkOutput._fields, output, rounded) if pair[0] is not None}
    difference = max(float((a - b).abs().max()) for a, b in outputs.values())
    write_file(path, data)
    board = "boards of any size" if net.any_size else _board(net)
    return ExportReport(path, len(data), tuple(outputs), board, difference)


def _export_kata_file(file: KataNetFile, path: Path) -> ExportReport:
    file.binary = path.name.endswith(".bin.gz")
    write_kata_net(path, file)
    return ExportReport(path, path.stat().st_size, ("policy", "result", "score", "ownership"), "any size", 0)


def export_run(directory: Path) -> None:
    """Write the ONNX file of a run's best net beside it unless it is there, and log if it cannot be written."""
    weights = net_file(directory)
    path = weights.with_suffix(ONNX_SUFFIX)
    if path.exists():
        return
    try:
        export_onnx(read_net(weights, directory.name), path, weights)
    except (KifuError, ImportError) as error:
        _log.info("only torch evaluates %s: %s", weights, first_line(error))


def export_onnx(net: Net, path: Path, weights: Path | None = None) -> ExportReport:
    """Write a net as ONNX and verify with onnxruntime that its outputs equal the original's.

    The input "planes" is [B, C, H, W] float32, the net's plane set including its rim; any B, and any H and W if the net
    supports all board sizes. A net with global inputs has a second input "globals", [B, G] float32, whose names the
    metadata list. The outputs are "policy", [B, moves] float32 logits, and if the net has these heads
    "value" and "ownership" as in `kifu.learn.networks.NetworkOutput`. The metadata describe the planes, see
    docs/prediction.md.

    Args:
        weights: The file of the net, for which `kifu.open_net` then opens the ONNX file if it lies beside it.

    Raises:
        RecipeError: Onnx is not installed.
    """
    metadata = _metadata(net) | ({} if weights is None else {"weights": hash_file(weights)})
    with torch.inference_mode():
        output: NetworkOutput = net.module(*_random_inputs(net, 2, 0).values())
    outputs = tuple(name for name, each in zip(NetworkOutput._fields, output) if each is not None)
    board = "boards of any size" if net.any_size else _board(net)
    module, inputs = _ExportModule(net.module).eval(), partial(_random_inputs, net)
    return _export_graph(_Graph(net.name, module, inputs, outputs, board, net.any_size, metadata), path)


_KATA_BOARD = 19
"""Size of the planes of KataGo's networks as ONNX, the largest board of its usual builds; smaller ones are masked."""


def _kata_graph(file: KataNetFile) -> _Graph:
    size, scores = _KATA_BOARD, file.value.score_bias.array.size
    # KataGo uses the name in names of files.
    name = re.sub(r"[^A-Za-z0-9_-]", "_", file.name)[:96]
    about = KataOnnx(
        metadata_version=1, name=name, version=file.version, planes=22, inputs=19, metadata=192 * file.is_human,
        policies=file.policy.policies, results=3, scores=scores, ownerships=1, encoder_version=file.encoder_version,
        suicide_areas=bool(file.suicide_areas), atari_territory=False, td_score=file.td_score,
        score_mean=file.score_mean, score_stdev=file.score_stdev, lead=file.lead, variance_time=file.variance_time,
        value_error=file.value_error, score_error=file.score_error, width=size, height=size, exact=False,
    )  # fmt: skip
    blocks = [*file.trunk.blocks]
    for block in blocks:
        blocks += block.blocks if isinstance(block, Bottleneck) else []
    convs = [file.trunk.conv]
    convs += (conv for b in blocks if not isinstance(b, Attention | FeedForward) for conv in (b.conv1, b.conv2))
    info = {
        "trunkSpatialConvDepth": str(sum((conv.height + conv.width - 2) / 4 for conv in convs)),
        "numParameters": str(file.parameters),
        "hasAnyTransformerBlocks": str(any(isinstance(b, Attention | FeedForward) for b in blocks)).lower(),
        "hasAnyNestedBottleneckBlocks": str(any(isinstance(b, Bottleneck) for b in blocks)).lower(),
    }
    metadata = about.entries() | {f"{INFO_PREFIX}arch.{key}": value for key, value in info.items()}

    def inputs(batch: int, extra: int) -> dict[str, Tensor]:
        random = torch.Generator().manual_seed(batch)
        planes = (torch.rand(batch, 22, size, size, generator=random) < 0.3).float()
        planes[:, 0] = 0
        for k, plane in enumerate(planes[:, 0]):  # boards of several sizes
            plane[: size - 3 * k, : size - 5 * k] = 1
        numbers = [torch.randn(batch, count, 1, 1, generator=random) for count in (19, about.metadata) if count]
        names = [name for name in INPUTS if name != "InputMeta" or file.is_human]
        return dict(zip(names, (planes * planes[:, :1], *numbers, planes[:, :1].clone()), strict=True))

    module = flush_denormals(_KataExportModule(KataNet(file))).eval()
    return _Graph(name, module, inputs, OUTPUTS, f"{size}x{size}, smaller ones masked", False, metadata)


def _export_graph(graph: _Graph, path: Path) -> ExportReport:
    with missing_extras():
        for name in _PACKAGES:
            importlib.import_module(name)
    model = _convert(graph)
    for key, value in graph.metadata.items():
        model.metadata_props.add(key=key, value=value)
    data: bytes = model.SerializeToString()
    data += checksum_entry(data)
    difference = _check_outputs(graph, data)
    write_file(path, data)
    return ExportReport(path, len(data), graph.outputs, graph.board, difference)


def _export_kata(source: str | Path, path: Path) -> ExportReport:
    """Write a network of KataGo that was trained here as a file, and verify that it gives the same outputs.

    What KataGo uses and training here does not teach gets the weights of what it does: the optimistic policy those of
    the policy, and the mean of the score those of the lead. Raises RecipeError if the net is another one.
    """
    net = open_net(source)
    if not isinstance(net.module, KataNetwork):
        raise RecipeError(f"only networks of KataGo can be written as {path.name}; net {net.name} is {net.about.net}")
    file = net_file_of(net.module.net)
    file.name = re.sub(r"[^!-~]", "_", net.name) or "net"
    points, pass_ = file.policy.points.weights, (file.policy.pass_linear2 or file.policy.pass_).array
    points[..., 1:2], pass_[:, 1:2] = points[..., :1], pass_[:, :1]
    if "score" in net.about.heads:
        scale = np.float32(file.lead / file.score_mean)
        for array in (file.value.scores.array, file.value.score_bias.array):
            array[..., 0] = scale * array[..., 2]
    inputs = _random_inputs(net, 3, 0)
    with torch.inference_mode():
        expected, written = (each.module(*inputs.values()) for each in (net, kata_net(file)))
    # With another mean, the deviation of the score is another one where a game may have no result.
    pairs = [(a, b) for a, b in zip(expected[:3], written) if a is not None]
    pairs += [] if expected.score is None else [(expected.score[:, 0], written.score[:, 0])]
    difference = max(float((a - b).abs().max()) for a, b in pairs)
    if not difference <= TOLERANCE:
        raise OutputError(f"the exported net {net.name} differs from the original; nothing written")
    return replace(_export_kata_file(file, path), difference=difference)


def _board(net: Net) -> str:
    return f"{net.about.width}x{net.about.height}"


def _convert(graph: _Graph) -> Any:
    inputs = graph.inputs(2, 0)
    dynamic = ("batch", None, "height", "width") if graph.any_size else ("batch",)
    shape = {k: torch.export.Dim(name) for k, name in enumerate(dynamic) if name}
    shapes = tuple({k: shape[k] for k in shape if k < each.ndim} for each in inputs.values())
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)  # it warns that torchvision is missing
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*LeafSpec", FutureWarning)  # torch 2.13 uses what it deprecates
            warnings.filterwarnings("ignore", ".*axis name: batch will not be used", UserWarning)  # both inputs have it
            program = torch.onnx.export(
                graph.module, tuple(inputs.values()), dynamo=True, verbose=False, input_names=list(inputs),
                output_names=list(graph.outputs), dynamic_shapes=shapes,
            )  # fmt: skip
    except torch.onnx.OnnxExporterError as error:
        raise OutputError(f"torch cannot export net {graph.name} as ONNX: {first_line(error)}") from None
    finally:
        log.setLevel(level)
    model = program.model_proto
    parts = (model.graph.node, model.graph.value_info, model.graph.input, model.graph.output, model.graph.initializer)
    for each in chain(*parts, (model.graph, model)):  # the exporter's notes on the source lines of each node
        each.ClearField("metadata_props")
        each.ClearField("doc_string")
    _halve(model)
    return model


def _halve(model: Any) -> None:
    """Store matrices in 16 bits if that changes no number; onnxruntime widens them when it opens the file."""
    from onnx import helper, numpy_helper

    casts = []
    for initializer in model.graph.initializer:
        array = numpy_helper.to_array(initializer)
        half = array.astype(np.float16) if array.dtype == np.float32 and array.ndim > 1 else array
        if half is not array and np.array_equal(half.astype(np.float32), array):
            name = initializer.name
            initializer.CopyFrom(numpy_helper.from_array(half, f"{name}.half"))
            casts.append(helper.make_node("Cast", [f"{name}.half"], [name], to=1))
    nodes = [*casts, *model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend(nodes)


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
    if isinstance(net.module, KataNetwork):
        inputs["planes"][:, 0] = 1  # the board
    if size := net.module.config.global_size:
        inputs["globals"] = torch.randn(batch, size, generator=torch.Generator().manual_seed(batch))
    return inputs


def _check_outputs(graph: _Graph, data: bytes) -> float:
    """Return the largest difference from the original's outputs. Raise OutputError if it exceeds the tolerance."""
    session = onnx_session(data, threads=1)
    largest = 0.0
    for batch, extra in ((1, 0), (3, 0), (2, 1)) if graph.any_size else ((1, 0), (3, 0)):
        inputs = graph.inputs(batch, extra)
        with torch.inference_mode():
            expected = [each.numpy() for each in graph.module(*inputs.values())]
        try:
            exported: list[npt.NDArray[np.float32]] = session.run(None, {key: x.numpy() for key, x in inputs.items()})
        except Exception as error:  # of many kinds: a network may fix the size of the batch
            shape = list(next(iter(inputs.values())).shape)
            raise OutputError(
                f"the exported net {graph.name} does not accept planes {shape}; nothing written:"
                f" {' '.join(str(error).split())}"
            ) from error
        for name, original, other in zip(graph.outputs, expected, exported, strict=True):
            if original.shape != other.shape or not np.allclose(other, original, rtol=TOLERANCE, atol=TOLERANCE):
                raise OutputError(f"{name} of the exported net {graph.name} differs from the original; nothing written")
            largest = max(largest, float(np.abs(original - other).max(initial=0)))
    return largest
