"""Networks by name, classes of one's own ("module:Class"), initialization of weights, and sizes of networks.

Only `import_class` imports a module. `find_class` serves names from files: it finds classes of modules that are already
imported, so that no file decides which code runs.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import re
import sys
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, cast

import numpy as np
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from kifu.datasets.global_inputs import INPUTS, check_inputs
from kifu.errors import KifuError, RecipeError, first_line
from kifu.katago.net_file import KataNetFile
from kifu.katago.new_net import new_kata_net
from kifu.learn import Heads
from kifu.learn.networks import (
    LARGE_LAYERS,
    ClarkStorkey,
    DenseNetwork,
    KataNetwork,
    Maddison,
    Network,
    NetworkConfig,
    NetworkOutput,
    PointsResidual,
    Residual,
    SymmetricConv,
    SymmetricLinear,
)
from kifu.planes.encoder import FrameEncoder, find_encoder
from kifu.planes.registry import KATAGO22
from kifu.registry import unknown

_NAME = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):([A-Za-z_]\w*)", re.ASCII)

_OTHER_BOARD = 7, 5
"""Width and height of a board on which networks for any board size are checked, too."""


def is_class_name(name: str) -> bool:
    """Return True if a name is that of a class, "module:Class", not that of one of kifu's networks."""
    return ":" in name


def is_imported(name: str) -> bool:
    """Return True if the module of "module:Class" is imported."""
    return isinstance(sys.modules.get(name.partition(":")[0]), ModuleType)


def import_class(name: str) -> type[Network]:
    """Import the module of "module:Class" and return the class.

    The working directory is first on the path during the import, as it is for `python -m`.
    """
    module = _split(name)[0]
    sys.path.insert(0, "")
    try:
        importlib.import_module(module)
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
            raise RecipeError(
                f"net {name!r}: no module {error.name!r} in the working directory or on Python's path"
            ) from error
        raise RecipeError(f"net {name!r}: cannot import {module}: {_describe(error, module)}") from error
    finally:
        with contextlib.suppress(ValueError):  # the module may have changed the path
            sys.path.remove("")
    return find_class(name)


def find_class(name: str) -> type[Network]:
    """Return the class of "module:Class". Nothing is imported."""
    module_name, class_name = _split(name)
    if not is_imported(name):
        raise RecipeError(
            f"net {name!r}: module {module_name} is not imported; import it, or open the net as PATH@{name}"
        )
    cls = vars(sys.modules[module_name]).get(class_name)  # getattr might import
    if cls is None:
        raise RecipeError(f"net {name!r}: module {module_name} has no class {class_name!r}")
    if not (isinstance(cls, type) and issubclass(cls, Network)):
        raise RecipeError(f"net {name!r}: {class_name} is not a subclass of kifu.learn.networks.Network")
    if not isinstance(getattr(cls, "any_size", None), bool):
        raise RecipeError(f"net {name!r}: {class_name} must declare any_size = True or any_size = False")
    return cls


@dataclass(frozen=True, slots=True)
class Architecture:
    """A named network.

    Attributes:
        planes: The plane set that the source uses; the network accepts any other.
        description: Details, and readings where the source is ambiguous.
    """

    name: str
    title: str
    source: str
    planes: str
    cls: type[Network]
    arguments: tuple[Any, ...] = ()
    description: str = ""

    @property
    def inputs(self) -> tuple[str, ...]:
        """The global inputs that the network requires."""
        return ("colour",) if self.cls.by_colour else ()


_BOOK = "Pumperla and Ferguson 2019, chapter 7"

NETS: dict[str, Architecture] = {net.name: net for net in (
    Architecture(
        "book-small", "4 convolutions and a hidden layer", _BOOK, "one-plane@1", DenseNetwork,
        (((48, 7), (32, 5), (32, 5), (32, 5)), 512),
        """Four convolutions, 48 of 7 x 7 and 3 times 32 of 5 x 5, and a hidden layer of 512.

        As printed in section 7.3; the size of the hidden layer is from `dlgo/networks/small.py` of the book's
        repository. Each layer is followed by ReLU. There is no dropout, which the chapter only recommends.
        """,
    ),
    Architecture(
        "book-medium", "5 convolutions and a hidden layer", _BOOK, "seven@1", DenseNetwork,
        (((64, 5), (64, 5), (64, 3), (64, 3), (64, 3)), 512),
        """Five convolutions, 2 times 64 of 5 x 5 and 3 times 64 of 3 x 3, and a hidden layer of 512.

        The chapter mentions it without printing it; the layers are from `dlgo/networks/medium.py`. Each layer is
        followed by ReLU. There is no dropout.
        """,
    ),
    Architecture(
        "book-large", "7 convolutions and a hidden layer", _BOOK, "seven@1", DenseNetwork, (LARGE_LAYERS, 1024),
        """Seven convolutions, 64 of 7 x 7, then 64, 64, 48, 48, 32 and 32 of 5 x 5, and a hidden layer of 1024.

        The chapter mentions it without printing it; the layers are from `dlgo/networks/large.py`. Each layer is
        followed by ReLU. There is no dropout. The convolutions are those of Clark and Storkey's best network, without
        its symmetries.
        """,
    ),
    Architecture(
        "blog", "3 wide convolutions, 2 layers with dropout", "Trencseni 2019, a blog post", "one-plane@1",
        DenseNetwork, (((32, 9), (32, 7), (32, 5)), None, 0.5),
        """Three convolutions of 32 filters, 9 x 9, 7 x 7 and 5 x 5, and a hidden layer with one unit per point.

        As printed in the post: half of the hidden units are dropped during training, and so is half of the logits,
        which are then 0. The post's `log_softmax` is part of the loss here. The post reports "1M+ parameters"; there
        are 4.4 million.
        """,
    ),
    Architecture(
        "clark-storkey", "7 convolutions with the board's symmetries, one layer on the whole board",
        "Clark and Storkey 2014, arXiv:1412.3409", "clark8@1", ClarkStorkey, (), ClarkStorkey.__doc__ or "",
    ),
    Architecture(
        "maddison", "12 convolutions, a bias for each point, an output for each colour to move",
        "Maddison et al. 2014, arXiv:1412.6564", "maddison36@2", Maddison, (), Maddison.__doc__ or "",
    ),
)}  # fmt: skip
"""Networks of fixed width and depth by name. Residual networks of any size are named like `RESIDUAL`."""

RESIDUAL, KATA = "b6c64", "kata-b6c96"

KATAGO = "katago"
"""The network of a file of KataGo, which a recipe names as `init_from`."""

_PLANES = "seven+last5@1"
"""Plane set of residual networks, and of networks of one's own unless another one is given."""

_RESIDUAL = re.compile(r"(kata-)?b([1-9]\d{0,5})c([1-9]\d{0,5})(?(1)(nbt|tf|)|(p|))")
_MAX_BLOCKS, _CHANNELS, _MAX_WEIGHTS = 99, range(2, 1025), 1 << 28


def find_net(name: str) -> Architecture:
    """Return the network with a name, or of a class "module:Class" whose module is imported."""
    if name in NETS:
        return NETS[name]
    if is_class_name(name):
        cls = find_class(name)
        source = f"module {cls.__module__}"
        return Architecture(name, "a network of one's own", source, _PLANES, cls, (), cls.__doc__ or "")
    match = _RESIDUAL.fullmatch(name)
    if match is None and name != KATAGO:
        raise unknown("net", name, [*NETS, RESIDUAL, KATA], " with any numbers")
    blocks, channels = (int(match[2]), int(match[3])) if match else (1, 2)
    if blocks > _MAX_BLOCKS or channels not in _CHANNELS or 18 * blocks * channels**2 > _MAX_WEIGHTS:
        raise RecipeError(
            f"net {name!r} is too large or too small: bNcM allows at most {_MAX_BLOCKS} blocks, {_CHANNELS[0]} to"
            f" {_CHANNELS[-1]} channels and {_MAX_WEIGHTS >> 20} Mi weights"
        )
    if match is None or match[1]:
        return Architecture(
            name, "a network of KataGo; kata-bNcM has N blocks of M channels", "Wu 2019, arXiv:1902.10565",
            KATAGO22.name, cast("type[Network]", KataNetwork), (blocks, channels, match[4]) if match else (),
            KataNetwork.__doc__ or "",
        )  # fmt: skip
    cls = PointsResidual if match[5] else Residual
    return Architecture(
        name, "residual blocks, some of which see the whole board; bNcM has N blocks of M channels",
        "He et al. 2016, arXiv:1603.05027; Wu 2019, arXiv:1902.10565", _PLANES, cls, (blocks, channels),
        cls.__doc__ or "",
    )  # fmt: skip


def import_net(name: str) -> Architecture:
    """Return the network with a name, as `find_net` does, after importing the module of "module:Class".

    For names from recipes, the command line and programs; never for names from other files.
    """
    if is_class_name(name):
        import_class(name)
    return find_net(name)


def make_net(
    name: str,
    planes: int,
    width: int = 19,
    height: int = 19,
    *,
    rim: int = 0,
    passes: bool = False,
    heads: Sequence[Heads] = (),
    inputs: Sequence[str] = (),
) -> Network:
    """Create a network, or one of an imported "module:Class", with random weights from torch's generator.

    Raises RecipeError if a name is unknown, the network is too large, or it does not take these inputs.

    Args:
        rim: Rows and columns by which the planes extend beyond the board on each side.
    """
    return _make_net(name, NetworkConfig(planes, width, height, rim, passes, heads, inputs), None)


def make_net_for(
    name: str,
    encoder: FrameEncoder,
    *,
    passes: bool = False,
    heads: Sequence[Heads] = (),
    inputs: Sequence[str] = (),
    file: KataNetFile | None = None,
) -> Network:
    """Create a network for an encoder, see `make_net`; `file` has layers and weights of KataGo instead of new ones."""
    size, plane_set = (encoder.width, encoder.height), encoder.plane_set
    config = NetworkConfig(
        encoder.planes, *size, plane_set.padding, passes, heads, inputs, numbers=len(plane_set.inputs)
    )
    return _make_net(name, config, file)


def _make_net(name: str, config: NetworkConfig, file: KataNetFile | None) -> Network:
    net, inputs = find_net(name), config.inputs
    check_inputs(inputs)
    if net.inputs and list(inputs) != list(net.inputs):
        raise RecipeError(f"net {name} has an output for each colour: inputs must be ['colour'], got {list(inputs)}")
    if inputs and not (net.inputs or net.cls.takes_inputs):
        raise RecipeError(f"net {name} takes planes only, but inputs are {', '.join(inputs)}")
    for head in ("next", "score"):
        if head in config.heads and not issubclass(net.cls, Residual | KataNetwork):
            raise RecipeError(f"net {name} has no head {head!r}; residual networks have, such as {RESIDUAL}")
    if net.cls is KataNetwork:
        return _make_kata_net(net, config, file)
    if net.cls is PointsResidual and not {"value", "ownership", "score", "colour", "komi"} <= {*config.heads, *inputs}:
        raise RecipeError(f"net {name} requires the heads value, ownership and score and the inputs colour and komi")
    if config.numbers:
        raise RecipeError(f"net {name} takes planes only, but these planes have {config.numbers} numbers beside")
    return _make_checked(net, config) if is_class_name(name) else net.cls(config, *net.arguments)


def _make_kata_net(net: Architecture, config: NetworkConfig, file: KataNetFile | None) -> KataNetwork:
    """Create a network of KataGo. Raises RecipeError if it does not fit its planes, moves or inputs."""
    name, human = net.name, list(config.inputs) in (["profile"], ["metadata"])
    if config.numbers != len(KATAGO22.inputs):
        raise RecipeError(f"net {name} requires the planes {KATAGO22.name}")
    if not config.passes:
        raise RecipeError(f"net {name} predicts passes; positions.passes must be true")
    if config.inputs and not human:
        raise RecipeError(f"net {name} takes the input 'profile' or 'metadata', got {', '.join(config.inputs)}")
    if file is None and not net.arguments:
        raise RecipeError(f"net {name} has the layers of a network file of KataGo, which init_from must name")
    if file is None:
        seed = int(torch.randint(2**62, (), device="cpu"))
        blocks, channels, kind = net.arguments
        file = new_kata_net(blocks, channels, kind, human, np.random.default_rng(seed))
    if file.is_human != human:
        allowed = "['profile'] or ['metadata']" if file.is_human else "empty"
        raise RecipeError(f"inputs of net {file.name} must be {allowed}, got {list(config.inputs)}")
    if "next" in config.heads and file.policy.policies < 2:
        raise RecipeError(f"head 'next' requires a network of KataGo of version 12 or later, got {file.version}")
    return KataNetwork(config, file)


def _make_checked(net: Architecture, config: NetworkConfig) -> Network:
    """Create a network of a class of one's own, and check its outputs for two positions. Raises RecipeError."""
    name, cls = net.name, cast("Any", net.cls)  # the constructor of a subclass takes the configuration only
    with _described(name, "be created"):
        network: Network = cls(config)
    sizes = [(config.width, config.height), *([_OTHER_BOARD] if cls.any_size else [])]
    network.eval()
    for width, height in sizes:
        with torch.no_grad(), _described(name, f"evaluate positions of {width} x {height}"):
            planes = torch.ones(2, config.planes, height + 2 * config.rim, width + 2 * config.rim)
            output = network(planes, torch.zeros(2, config.global_size) if config.inputs else None)
        _check_output(name, output, config, width * height)
    network.train()
    return network


def _check_output(name: str, output: object, config: NetworkConfig, points: int) -> None:
    """Raise RecipeError unless the output for two positions has the right shapes and is finite."""
    if not isinstance(output, NetworkOutput):
        raise RecipeError(f"net {name!r} must return a NetworkOutput, got {type(output).__name__}")
    shapes = {"policy": (2, points + config.passes), "value": (2,), "ownership": (2, points)}
    for key, values in output._asdict().items():
        shape = tuple(values.shape) if isinstance(values, torch.Tensor) else None
        expected = shapes[key] if key == "policy" or key in config.heads else None
        if shape != expected:
            text = "be None" if expected is None else f"have shape {list(expected)}"
            raise RecipeError(
                f"net {name!r}: {key} of two positions with {points} points must {text}, got"
                f" {values if shape is None else list(shape)}"
            )
        if shape is not None and not values.is_meta and not bool(values.isfinite().all()):
            raise RecipeError(f"net {name!r}: {key} is NaN or infinite for planes of ones")


@contextlib.contextmanager
def _described(name: str, action: str) -> Iterator[None]:
    """Raise any error of a network's code as a RecipeError with the line."""
    try:
        yield
    except KifuError:
        raise
    except Exception as error:
        raise RecipeError(f"net {name!r} cannot {action}: {_describe(error, _split(name)[0])}") from error


def _describe(error: BaseException, module: str) -> str:
    """Return one line with the error and the last line of the module's package that led to it."""
    package = module.partition(".")[0]
    lines = [
        f" ({frame.f_code.co_filename}, line {line})"
        for frame, line in traceback.walk_tb(error.__traceback__)
        if str(frame.f_globals.get("__name__")).partition(".")[0] == package
    ]
    return f"{type(error).__name__}: {first_line(error)}{''.join(lines[-1:])}"


def _split(name: str) -> tuple[str, str]:
    """Return module and class of a name. Raise RecipeError if it is malformed."""
    match = _NAME.fullmatch(name)
    if match is None:
        raise RecipeError(f"net {name!r} must be a module and a class, such as my_module:MyNet")
    return match[1], match[2]


INITIALIZATIONS = {
    "torch": "torch's default: uniform to 1 / sqrt(fan-in), biases too",
    "glorot-uniform": "Glorot and Bengio 2010, Keras' default: uniform to sqrt(6 / (fan-in + fan-out)), biases 0",
    "he-normal": "He et al. 2015, for ReLU: normal with standard deviation sqrt(2 / fan-in), biases 0",
}
"""Names with their descriptions."""

_INITIALIZED = (nn.Conv2d, nn.Linear, SymmetricConv, SymmetricLinear)


@torch.no_grad()  # type: ignore[untyped-decorator]
def initialize(module: nn.Module, name: str) -> None:
    """Reinitialize the weights of all convolutions and linear layers in place from torch's generator.

    Parameters of norms stay as they are. "torch" changes nothing, because `make_net` already initializes that way.
    """
    if name not in INITIALIZATIONS:
        raise unknown("init", name, INITIALIZATIONS)
    if name == "torch":
        return
    for layer in module.modules():
        if isinstance(layer, _INITIALIZED):
            fan_in, fan_out = _fans(layer)
            if name == "he-normal":
                layer.weight.normal_(0, (2 / fan_in) ** 0.5)
            else:
                bound = (6 / (fan_in + fan_out)) ** 0.5
                layer.weight.uniform_(-bound, bound)
            if layer.bias is not None:
                layer.bias.zero_()


def _fans(layer: nn.Module) -> tuple[int, int]:
    """Return fan-in and fan-out; tied weights count as often as they are used."""
    if isinstance(layer, SymmetricConv | SymmetricLinear):
        fan_in, fan_out = layer.fans
        return fan_in, fan_out
    field = layer.weight[0, 0].numel()
    return layer.weight.shape[1] * field, layer.weight.shape[0] * field


@dataclass(frozen=True, slots=True)
class NetworkCount:
    """The size of a network.

    Attributes:
        flops: Floating-point operations of all convolutions and matrix products in the forward pass for one position.
            A multiply-add counts as two.
        layers: Name, kind, shape of the output, parameters and operations of each layer with weights.
    """

    parameters: int
    flops: int
    layers: tuple[tuple[str, str, tuple[int, ...], int, int], ...]


def count_net(name: str, planes: str, width: int = 19, height: int = 19) -> NetworkCount:
    """Count the parameters and operations of a network with a policy without pass, without computing anything."""
    encoder = find_encoder(planes, width, height)
    with torch.device("meta"):
        found = find_net(name)
        net = make_net_for(name, encoder, passes=found.cls is KataNetwork, inputs=found.inputs).eval()
    device = next(net.parameters()).device  # networks of KataGo are made on the CPU
    position = torch.ones(1, *encoder.shape, device=device)
    globals_ = torch.zeros(1, net.config.global_size, device=device)
    layers: list[tuple[str, str, tuple[int, ...], int, int]] = []
    counter = FlopCounterMode(display=False)

    def count_layer(layer: nn.Module, _: Any, out: torch.Tensor | tuple[torch.Tensor, ...]) -> None:
        """Attribute the operations since the previous layer to this one."""
        flops = counter.get_total_flops() - sum(earlier[-1] for earlier in layers)
        parameters = sum(weight.numel() for weight in layer.parameters(recurse=False))
        shape = (out[0] if isinstance(out, tuple) else out).shape[1:]
        layers.append((names[layer] or "net", type(layer).__name__, tuple(shape), parameters, flops))

    names = {layer: layer_name for layer_name, layer in net.named_modules() if [*layer.parameters(recurse=False)]}
    handles = [layer.register_forward_hook(count_layer) for layer in names]
    with counter, torch.no_grad():
        net(position, globals_)
    for handle in handles:
        handle.remove()
    parameters = sum(weight.numel() for weight in net.parameters())
    return NetworkCount(parameters, counter.get_total_flops(), tuple(layers))


def net_line(name: str, planes: str | None = None, width: int = 19, height: int = 19) -> str:
    """Return one line with the size, description and source of a network, by default on the planes of its source."""
    net = find_net(name)
    count = count_net(name, planes or net.planes, width, height)
    return f"{_short(count.parameters)} parameters, {_short(count.flops)} FLOPs; {net.title} ({net.source})"


def net_card(name: str, planes: str | None = None, width: int = 19, height: int = 19) -> str:
    """Return a page of Markdown with the description and layers of a network, whose class is imported."""
    net = import_net(name)
    count = count_net(name, planes or net.planes, width, height)
    rows = [
        f"| {layer} | {kind} | {' x '.join(map(str, shape))} | {parameters:,} | {flops:,} |"
        for layer, kind, shape, parameters, flops in count.layers
    ]
    inputs = [f"- `{key}`: {each.title}" for key, each in INPUTS.items()]
    return "\n".join([
        f"# {name}", "", f"{net.title}. Source: {net.source}.", "", inspect.cleandoc(net.description), "",
        *(["Global inputs that a recipe may list:", "", *inputs, ""] if net.cls.takes_inputs else []),
        f"On planes {planes or net.planes} of {width} x {height}, for one position:", "",
        "| layer | kind | output | parameters | FLOPs |", "|---|---|---|---:|---:|", *rows,
        f"| total | | | {count.parameters:,} | {count.flops:,} |", "",
    ])  # fmt: skip


def _short(number: int) -> str:
    """Return a number with at most three digits and a unit prefix."""
    for size, letter in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if number >= size:
            return f"{number / size:.{1 if number < 100 * size else 0}f} {letter}"
    return str(number)
