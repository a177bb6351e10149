"""A trained net as one file: weights, metadata, and the games that it was trained on or validated with.

The file is in the safetensors format, which holds arrays and no code. The metadata are JSON. The layout is
`kifu-net@1`, see docs/formats/kifu-net.md.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from pydantic import BaseModel, Field, ValidationError
from safetensors.torch import save

from kifu.assets import asset
from kifu.config import STRICT, Line, first_invalid
from kifu.errors import FormatError, KifuError, RecipeError, first_line, join_lines, printable
from kifu.io import hash_file, write_file
from kifu.learn import BEST, METADATA_KEY, PACKAGED, SUFFIX, open_net_file, split_class
from kifu.learn.nets import Heads, Network
from kifu.learn.registry import import_net, is_class_name, is_imported, make_net
from kifu.planes.encoder import Encoder, find_encoder
from kifu.text import format_seconds

_GAMES, _WEIGHT_PREFIX = "games", "net."

_FLOATS = (torch.float32, torch.float16, torch.bfloat16)
"""Accepted dtypes of weights; all are read as float32."""


class NetMetadata(BaseModel):
    """Description and origin of a net."""

    model_config = STRICT

    version: Literal[1] = 1
    """Version of the file layout."""
    kifu: Line = Field(default_factory=lambda: version("kifu"))
    """Version of kifu that wrote the file."""
    net: Line
    """Architecture (`kifu nets`)."""
    planes: Line
    """Plane set with its version."""
    width: Annotated[int, Field(ge=1, le=25)] = 19
    height: Annotated[int, Field(ge=1, le=25)] = 19
    """Board that it was trained on."""
    passes: bool = False
    """True if it predicts passes."""
    heads: Annotated[tuple[Heads, ...], Field(strict=False)] = ()
    """Outputs besides the policy."""
    inputs: Annotated[tuple[Line, ...], Field(strict=False)] = ()
    """Global inputs (`kifu.datasets.global_inputs.INPUTS`)."""
    recipe: dict[str, Any] = {}
    """Complete recipe of its training."""
    trained: dict[str, Any] = {}
    """Steps, positions, seconds, figures, sources and machine of its training."""

    def __repr__(self) -> str:
        return f"<NetMetadata: {self.net} on {self.planes}, {self.width} x {self.height}, by kifu {self.kifu}>"


@dataclass(frozen=True)
class Net:
    """A net that is ready for inference.

    Attributes:
        module: The network in evaluation mode, see `kifu.learn.nets.Network.forward`.
        games: [K] uint64, ascending canonical hashes of the catalogue games that it was trained on or validated with.
        name: Display name: the file's name without its suffix, or the directory's.
    """

    module: Network
    about: NetMetadata
    games: npt.NDArray[np.uint64]
    name: str

    def __repr__(self) -> str:
        about = self.about
        parameters = sum(value.numel() for value in self.module.parameters())
        board = f"{about.width} x {about.height}"
        sizes = f"{parameters:,} parameters, {len(self.games):,} known games"
        return f"<Net {printable(self.name)}: {about.net} on {about.planes}, {board}, {sizes}>"

    @cached_property
    def encoder(self) -> Encoder:
        """The encoder for the board that it was trained on."""
        return self.encoder_for(self.about.width, self.about.height)

    def encoder_for(self, width: int, height: int) -> Encoder:
        """Return the encoder for a board size.

        Raises:
            RecipeError: The net does not support the board size.
        """
        if (width, height) != (self.about.width, self.about.height) and not self.module.any_size:
            raise RecipeError(
                f"net {self.name} ({self.about.net}) supports {self.about.width} x {self.about.height} boards only,"
                f" got {width} x {height}"
            )
        return find_encoder(self.about.planes, width, height)


def net_bytes(module: Network, about: NetMetadata, games: npt.NDArray[np.uint64]) -> bytes:
    """Return the contents of a net's file.

    Args:
        games: [K] uint64, canonical hashes of the games that it was trained on or validated with, in any order.
    """
    tensors = {_WEIGHT_PREFIX + name: value.contiguous().cpu() for name, value in module.state_dict().items()}
    tensors[_GAMES] = torch.from_numpy(np.unique(games).view(np.int64))
    data: bytes = save(tensors, {METADATA_KEY: about.model_dump_json()})
    return data


def save_net(path: Path, module: Network, about: NetMetadata, games: npt.NDArray[np.uint64]) -> None:
    """Write a net's file atomically; arguments as for `net_bytes`."""
    write_file(path, net_bytes(module, about, games))


def packaged_net(name: str = PACKAGED[0]) -> Path:
    """Return the path of a net that is packaged with kifu."""
    return Path(str(asset("nets", name + SUFFIX)))


def _find_net(path: str | os.PathLike[str] | None) -> tuple[Path, str | None]:
    """Return the path of a net, and the class that its name ends with; `path` as for `open_net`."""
    text, class_name = (PACKAGED[0], None) if path is None else split_class(os.fspath(path))
    packaged = text in PACKAGED and (path is None or not Path(text).exists())
    return packaged_net(text) if packaged else Path(text), class_name


def net_file(path: str | os.PathLike[str] | None = None) -> Path:
    """Return the file that `open_net` opens."""
    file, _ = _find_net(path)
    return file / BEST if file.is_dir() else file


def open_net(path: str | os.PathLike[str] | None = None) -> Net:
    """Open a net. Nothing in the file is executed, unpickled or imported.

    Args:
        path: A file, or a run directory for its best net; the name of a packaged net ("small" or "human"), unless there
            is such a path; None for "small". A net of a class of one's own requires that the program has imported its
            module, or "PATH@module:Class", which imports it.

    Raises:
        FormatError: The file is not a net, or its weights do not fit the architecture that it names, or that is a class
            whose module is not imported.
        RecipeError: The class that `path` names is missing or invalid.
    """
    path, class_name = _find_net(path)
    file = _read_net(path)
    if class_name is not None:
        file = file._replace(about=file.about.model_copy(update={"net": import_net(class_name).name}))
    return Net(_load_network(file).eval(), file.about, file.games, path.name if path.is_dir() else path.stem)


class _NetFile(NamedTuple):
    """The contents of a net's file."""

    path: Path
    about: NetMetadata
    weights: dict[str, torch.Tensor]
    games: npt.NDArray[np.uint64]


def _read_net(path: Path) -> _NetFile:
    """Read a net's file without creating the network. Raises FormatError."""
    if path.is_dir():
        path = path / BEST
    with open_net_file(path, "pt") as file:
        about = _read_metadata(path, file.metadata())
        tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 - not a mapping
    games = _read_games(path, tensors.pop(_GAMES, torch.empty(0, dtype=torch.int64)))
    return _NetFile(path, about, {key.removeprefix(_WEIGHT_PREFIX): value for key, value in tensors.items()}, games)


AnyNet: TypeAlias = Net | str | os.PathLike[str]
"""A net, or the path of one."""


def as_net(net: AnyNet | None) -> Net:
    """Return a net as it is, or open its path as `open_net` does. Raises FormatError."""
    return net if isinstance(net, Net) else open_net(net)


def describe_net(path: Path) -> str:
    """Return the metadata of a net's file, or of a run directory's best net, as lines of text.

    Nothing is imported: without the class of the network, its weights are counted, but not checked.
    """
    net = _read_net(path)
    file, about = net.path, net.about
    if is_class_name(about.net) and not is_imported(about.net):
        boards = f"trained on {about.width} x {about.height}"
        size = f"{sum(value.numel() for value in net.weights.values()):,} with buffers; class not imported"
    else:
        module = _load_network(net)
        boards = "any board" if module.any_size else f"{about.width} x {about.height} only"
        size = f"{sum(value.numel() for value in module.parameters()):,}"
    lines = [f"{file}: kifu-net@{about.version}, {about.net} on {about.planes}, {boards}"]
    passes = "with passes" if about.passes else "without passes"
    lines += [f"  outputs     {', '.join([f'policy {passes}', *about.heads])}"]
    lines += [f"  inputs      {', '.join(about.inputs)}"] if about.inputs else []
    lines += [f"  parameters  {size}"]
    recipe = about.recipe.get("name")
    lines += [f"  recipe      {recipe[:80] if isinstance(recipe, str) else 'unknown'}, by kifu {about.kifu}"]
    length, *validation = _training_summary(about.trained)
    lines += [f"  training    {len(net.games):,} known games{length}", *validation]
    lines += [f"  bytes       {file.stat().st_size:,}", f"  blake3      {hash_file(file)}"]
    return join_lines(lines)


def _training_summary(trained: Mapping[str, Any]) -> list[str]:
    """Return the length of the training and a line about its validation, or [""] if the metadata are incomplete."""
    try:
        seconds = format_seconds(trained["seconds"])
        length = f": {trained['positions']:,} positions in {trained['steps']:,} steps, {seconds}"
        figures = trained["figures"]
        validation = f"top-1 {figures['validation_top1']:.2%}, loss {figures['validation_loss']:.4f} nats"
        validation += " with raw weights" if figures.get("averaged") == 0 else ""
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
        return [""]
    return [length, f"  validation  {validation}"]


_OPTIONAL_WEIGHTS = ("value", "ownership", "globals", "pass_")
"""First parts of the names of weights that depend on heads, inputs and passes."""


def copy_weights(net: Net, network: Network, name: str, planes: str) -> None:
    """Copy the weights of a net into a network of the same architecture and planes.

    Weights of heads, inputs or passes that the net lacks, or has with other shapes, stay as they are.

    Raises:
        RecipeError: The net has another architecture, other planes, or another board.
    """
    about = net.about
    if (about.net, about.planes) != (name, planes):
        raise RecipeError(
            f"init_from: {net.name} is {about.net} on {about.planes}; the recipe requires {name} on {planes}"
        )
    old, new = net.module.state_dict(), network.state_dict()
    fitting = {key: old[key] for key in new if key in old and old[key].shape == new[key].shape}
    for key in new.keys() - fitting.keys():
        if key.partition(".")[0] not in _OPTIONAL_WEIGHTS:
            shape = list(old[key].shape) if key in old else None
            raise RecipeError(
                f"init_from: weight {key} of {name} has shape {shape} in {net.name}, {list(new[key].shape)} in the"
                " recipe's net"
            )
    network.load_state_dict(new | fitting)


def _read_metadata(path: Path, metadata: Mapping[str, str]) -> NetMetadata:
    try:
        return NetMetadata.model_validate(json.loads(metadata[METADATA_KEY]))
    except ValidationError as error:
        raise FormatError(f"{path}: invalid metadata: {first_invalid(error)}") from None
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path}: the metadata is not JSON: {first_line(error)}") from None


def _read_games(path: Path, games: torch.Tensor) -> npt.NDArray[np.uint64]:
    if games.dtype != torch.int64 or games.ndim != 1:
        raise FormatError(f"{path}: {_GAMES!r} must be a list of int64, got {games.dtype} {list(games.shape)}")
    hashes: npt.NDArray[np.uint64] = games.numpy().view(np.uint64)
    if np.any(hashes[1:] <= hashes[:-1]):
        raise FormatError(f"{path}: {_GAMES!r} is not ascending")
    return hashes


def _make_network(about: NetMetadata) -> Network:
    encoder = find_encoder(about.planes, about.width, about.height)
    return make_net(
        about.net, encoder.planes, about.width, about.height, rim=encoder.plane_set.padding, passes=about.passes,
        heads=about.heads, inputs=about.inputs,
    )  # fmt: skip


def _load_network(file: _NetFile) -> Network:
    """Return the network with these weights. Raise FormatError unless names, shapes and values fit."""
    path, about, weights, _ = file
    try:
        with torch.device("meta"):  # so that a small file cannot demand much memory
            expected = _make_network(about).state_dict()
        _check_weights(path, about, weights, expected)
        with torch.random.fork_rng(devices=[]):  # the random initial weights are overwritten
            module = _make_network(about)
    except FormatError:
        raise
    except KifuError as error:
        raise FormatError(f"{path}: {error}") from None
    module.load_state_dict(weights)
    return module


def _check_weights(
    path: Path, about: NetMetadata, weights: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]
) -> None:
    if weights.keys() != expected.keys():
        odd = sorted(weights.keys() ^ expected.keys())[0]
        problem = f"unexpected weight {odd!r}" if odd in weights else f"missing weight {odd!r}"
        raise FormatError(f"{path}: {problem} for {about.net}")
    for name, value in weights.items():
        if value.shape != expected[name].shape:
            shapes = f"must have shape {list(expected[name].shape)}, got {list(value.shape)}"
            raise FormatError(f"{path}: {name} of {about.net} on {about.planes} {shapes}")
        if value.dtype not in (_FLOATS if expected[name].is_floating_point() else (expected[name].dtype,)):
            raise FormatError(f"{path}: {name} must be {expected[name].dtype}, got {value.dtype}")
        if not torch.isfinite(value).all():
            raise FormatError(f"{path}: {name} has NaN or infinite values")
