"""Nets in torch: their files in the safetensors format, and their networks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from safetensors.torch import save

from kifu.checksums import room_for_checksum, with_checksum
from kifu.errors import FormatError, KifuError, RecipeError
from kifu.io import write_file
from kifu.katago.net_file import KataNetFile, parse_structure
from kifu.learn.inference import Net
from kifu.learn.net_format import METADATA_KEY, NetMetadata, kata_metadata, open_net_file, parse_metadata
from kifu.learn.networks import KataNetwork, Network, NetworkConfig
from kifu.learn.registry import find_net, import_net, is_class_name, is_imported, make_net_for
from kifu.planes.encoder import find_encoder
from kifu.planes.registry import KATAGO22

_GAMES, _WEIGHT_PREFIX = "games", "net."

_FLOATS = (torch.float32, torch.float16, torch.bfloat16)
"""Accepted dtypes of weights; all are read as float32."""


def net_bytes(module: Network, about: NetMetadata, games: npt.NDArray[np.uint64]) -> bytes:
    """Return a net's file. games: [K] uint64, canonical hashes of those trained or validated with, in any order."""
    tensors = {_WEIGHT_PREFIX + name: value.contiguous().cpu() for name, value in module.state_dict().items()}
    tensors[_GAMES] = torch.from_numpy(np.unique(games).view(np.int64))
    return with_checksum(save(tensors, {METADATA_KEY: room_for_checksum(about.model_dump_json())}))


def save_net(path: Path, module: Network, about: NetMetadata, games: npt.NDArray[np.uint64]) -> None:
    """Write a net's file atomically; arguments as for `net_bytes`."""
    write_file(path, net_bytes(module, about, games))


def read_net(path: Path, name: str, class_name: str | None = None, *, imported: bool = True) -> Net:
    """Return the net of a file in the safetensors format, see `kifu.learn.net.open_net`.

    Raises FormatError if the file is not a net, or its weights do not fit its architecture.

    Args:
        class_name: Class of the network, "module:Class", which is imported; None for the one that the file names.
        imported: False permits a class whose module is not imported, so that the net can be described.
    """
    with open_net_file(path, "pt") as file:
        about = parse_metadata(path, file.metadata())
        weights = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 - not a mapping
    games = _read_games(path, weights.pop(_GAMES, torch.empty(0, dtype=torch.int64)))
    weights = {key.removeprefix(_WEIGHT_PREFIX): value for key, value in weights.items()}
    if class_name is not None:
        about = about.model_copy(update={"net": import_net(class_name).name})
    if not imported and is_class_name(about.net) and not is_imported(about.net):
        size = sum(value.numel() for value in weights.values())
        return Net(about, games, name, False, size, lambda: _load_network(path, about, weights), unchecked=True)
    return net_of(_load_network(path, about, weights).eval(), about, games, name)


def net_of(module: Network, about: NetMetadata, games: npt.NDArray[np.uint64], name: str) -> Net:
    """Return a network in torch as a net."""
    parameters = sum(value.numel() for value in module.parameters())
    return Net(about, games, name, module.any_size, parameters, lambda: module, has_points=about.has_points)


_OPTIONAL_WEIGHTS = {"value", "score", "ownership", "next", "globals", "pass_"}
"""Parts of the names of weights that depend on heads, inputs and passes."""


def copy_weights(net: Net, network: Network, name: str, planes: str) -> None:
    """Copy the weights of a net into a network of the same architecture and planes.

    Weights of heads, inputs or passes that the net lacks, or has with other shapes, stay as they are. Raises
    RecipeError if the net has another architecture, other planes, or another board.
    """
    about = net.about
    if (about.net, about.planes) != (name, planes):
        raise RecipeError(
            f"init_from: {net.name} is {about.net} on {about.planes}; the recipe requires {name} on {planes}"
        )
    old, new = net.module.state_dict(), network.state_dict()
    fitting = {key: old[key] for key in new if key in old and old[key].shape == new[key].shape}
    for key in new.keys() - fitting.keys():
        if _OPTIONAL_WEIGHTS.isdisjoint(key.split(".")):
            shape = list(old[key].shape) if key in old else None
            raise RecipeError(
                f"init_from: weight {key} of {name} has shape {shape} in {net.name}, {list(new[key].shape)} in the"
                " recipe's net"
            )
    network.load_state_dict(new | fitting)


def _read_games(path: Path, games: torch.Tensor) -> npt.NDArray[np.uint64]:
    if games.dtype != torch.int64 or games.ndim != 1:
        raise FormatError(f"{path}: {_GAMES!r} must be a list of int64, got {games.dtype} {list(games.shape)}")
    hashes: npt.NDArray[np.uint64] = games.numpy().view(np.uint64)
    if np.any(hashes[1:] <= hashes[:-1]):
        raise FormatError(f"{path}: {_GAMES!r} is not ascending")
    return hashes


def _make_network(about: NetMetadata, weights: dict[str, torch.Tensor]) -> Network:
    encoder, file = find_encoder(about.planes, about.width, about.height), None
    if find_net(about.net).cls is KataNetwork:
        file = parse_structure(about.structure)
        if file.parameters > sum(value.numel() for value in weights.values()):
            raise FormatError(f"the structure of {about.net} has {file.parameters:,} parameters, more than the file")
    return make_net_for(about.net, encoder, passes=about.passes, heads=about.heads, inputs=about.inputs, file=file)


def _load_network(path: Path, about: NetMetadata, weights: dict[str, torch.Tensor]) -> Network:
    """Return the network with these weights. Raise FormatError unless names, shapes and values fit."""
    try:
        with torch.device("meta"):  # so that a small file cannot demand much memory
            expected = _make_network(about, weights).state_dict()
        _check_weights(about, weights, expected)
        with torch.random.fork_rng(devices=[]):  # the random initial weights are overwritten
            module = _make_network(about, weights)
    except KifuError as error:
        raise FormatError(f"{path}: {error}") from None
    module.load_state_dict(weights)
    return module


def _check_weights(about: NetMetadata, weights: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    if weights.keys() != expected.keys():
        odd = sorted(weights.keys() ^ expected.keys())[0]
        problem = f"unexpected weight {odd!r}" if odd in weights else f"missing weight {odd!r}"
        raise FormatError(f"{problem} for {about.net}")
    for name, value in weights.items():
        if value.shape != expected[name].shape:
            shapes = f"must have shape {list(expected[name].shape)}, got {list(value.shape)}"
            raise FormatError(f"{name} of {about.net} on {about.planes} {shapes}")
        if value.dtype not in (_FLOATS if expected[name].is_floating_point() else (expected[name].dtype,)):
            raise FormatError(f"{name} must be {expected[name].dtype}, got {value.dtype}")
        if not torch.isfinite(value).all():
            raise FormatError(f"{name} has NaN or infinite values")


def kata_net(file: KataNetFile) -> Net:
    """Return a network file of KataGo as a net."""
    about = kata_metadata(file.is_human)
    config = NetworkConfig(
        KATAGO22.planes, about.width, about.height, 0, True, about.heads, about.inputs, len(KATAGO22.inputs)
    )
    return net_of(KataNetwork(config, file).eval(), about, np.empty(0, np.uint64), file.name)
