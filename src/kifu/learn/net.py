"""A trained net as one file: weights, what they are for, and which games they were learned from.

The file is in the safetensors format, which holds arrays and nothing that could run; what it is, is told in its
metadata as JSON. Its layout is `kifu-net@1`, see docs/formats/kifu-net.md.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from pydantic import BaseModel, Field, ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from kifu.assets import asset
from kifu.atomic_io import hash_file, write_file
from kifu.config import STRICT, Line
from kifu.errors import FormatError, KifuError, RecipeError, first_line
from kifu.learn import BEST, SUFFIX
from kifu.learn.nets import Heads, Network, make_net
from kifu.planes.encoder import Encoder, find_encoder
from kifu.progress import format_seconds

_KEY, _GAMES, _WEIGHT = "kifu-net", "games", "net."

_MOST_BYTES = 4 << 30

_FLOATS = (torch.float32, torch.float16, torch.bfloat16)
"""What weights may be kept as; all are read as float32."""


class NetMetadata(BaseModel):
    """What a net is, and how it came to be."""

    model_config = STRICT

    version: Literal[1] = 1
    """Of the layout of the file."""
    kifu: Line = Field(default_factory=lambda: version("kifu"))
    """The version that wrote it."""
    net: Line
    """Its architecture (`kifu nets`)."""
    planes: Line
    """The plane set that it reads, with its version."""
    width: Annotated[int, Field(ge=1, le=25)] = 19
    height: Annotated[int, Field(ge=1, le=25)] = 19
    """The board that it was trained on."""
    passes: bool = False
    """Whether a pass is one of its moves."""
    heads: Annotated[tuple[Heads, ...], Field(strict=False)] = ()
    """What it tells besides the policy."""
    recipe: dict[str, Any] = {}
    """The recipe of its training, all values told."""
    trained: dict[str, Any] = {}
    """What is known of the training: steps, positions, seconds, losses, sources, machine."""


@dataclass(frozen=True)
class Net:
    """A net that is ready to be asked.

    module: in evaluation mode; takes planes [B, C, H, W] float and returns `kifu.learn.nets.Told`.
    games: [K] uint64, rising: `canonical` of the catalogue for each game that it was learned from.
    name: for people; the file's name without its suffix, or the folder's.
    """

    module: Network
    about: NetMetadata
    games: npt.NDArray[np.uint64]
    name: str

    @cached_property
    def encoder(self) -> Encoder:
        """What draws its planes on the board that it was trained on."""
        return self.encoder_for(self.about.width, self.about.height)

    def encoder_for(self, width: int, height: int) -> Encoder:
        """What draws its planes on a board of that size. Raises RecipeError if the net cannot take it."""
        if (width, height) != (self.about.width, self.about.height) and not self.module.any_size:
            raise RecipeError(
                f"net {self.name} ({self.about.net}) takes {self.about.width} x {self.about.height} boards only,"
                f" not {width} x {height}"
            )
        return find_encoder(self.about.planes, width, height)


def net_bytes(module: Network, about: NetMetadata, games: npt.NDArray[np.uint64]) -> bytes:
    """The file of a net. games: [K] uint64, `canonical` of each game that it was learned from, in any order."""
    tensors = {_WEIGHT + name: value.contiguous().cpu() for name, value in module.state_dict().items()}
    tensors[_GAMES] = torch.from_numpy(np.unique(games).view(np.int64))
    data: bytes = save(tensors, {_KEY: about.model_dump_json()})
    return data


def save_net(path: Path, module: Network, about: NetMetadata, games: npt.NDArray[np.uint64]) -> None:
    """Writes a net's file, whole or not at all. Raises OutputError."""
    write_file(path, net_bytes(module, about, games))


def default_net_path() -> Path:
    """The small net that comes with kifu."""
    return Path(str(asset("nets", f"small{SUFFIX}")))


def open_net(path: str | os.PathLike[str] | None = None) -> Net:
    """The net in a file, or the best one of a run folder; without a path the one that comes with kifu.

    Nothing of the file is run or unpickled. Raises FormatError for a file that is no net, or whose weights do not fit
    the architecture that it names.
    """
    path = default_net_path() if path is None else Path(path)
    name = path.name if path.is_dir() else path.stem
    if path.is_dir():
        path = path / BEST
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise FormatError(f"{path} has more than {_MOST_BYTES >> 30} GiB; no net is so large")
        with safe_open(path, framework="pt") as file:
            about = _read_about(path, file.metadata())
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 - it is no mapping
    except OSError as error:
        raise FormatError(f"cannot read the net {path}: {error.strerror or first_line(error)}") from None
    except SafetensorError as error:
        raise FormatError(f"{path} is no net of kifu: {first_line(error)}") from None
    games = _read_games(path, tensors.pop(_GAMES, torch.empty(0, dtype=torch.int64)))
    return Net(_fill(path, about, tensors).eval(), about, games, name)


def describe_net(path: Path) -> str:
    """What a net's file, or the best net of a run folder, says, as lines of text. Raises as `open_net`."""
    net = open_net(path)
    about, file = net.about, path / BEST if path.is_dir() else path
    boards = "any board" if net.module.any_size else f"{about.width} x {about.height} only"
    lines = [f"{file}: kifu-net@{about.version}, {about.net} on {about.planes}, {boards}"]
    lines += [f"  tells       {', '.join(['policy', *about.heads])}; a pass {'too' if about.passes else 'never'}"]
    lines += [f"  parameters  {sum(value.numel() for value in net.module.parameters()):,}"]
    lines += [f"  recipe      {_line(about.recipe.get('name'))}, by kifu {about.kifu}"]
    lines += [f"  learned     from {len(net.games):,} known games{_amount(about.trained)}"]
    lines += [f"  bytes       {file.stat().st_size:,}", f"  blake3      {hash_file(file)}"]
    return "\n".join(lines)


def _line(value: Any) -> str:
    """A value that a file gives, if it is a line to be shown."""
    return value if isinstance(value, str) and value.isprintable() and len(value) <= 80 else "not told"


def _amount(told: Mapping[str, Any]) -> str:
    """How long it was trained, and how far it came, if the file tells both as it should."""
    try:
        steps = f": {told['positions']:,} positions in {told['steps']:,} steps, {format_seconds(told['seconds'])}"
        figures = told["figures"]
        held = f"top-1 {figures['validation_top1']:.2%}, loss {figures['validation_loss']:.4f} nats"
    except (KeyError, TypeError, ValueError, OverflowError):
        return ""
    return f"{steps}\n  validation  {held}"


def _read_about(path: Path, metadata: Mapping[str, str] | None) -> NetMetadata:
    if not metadata or _KEY not in metadata:
        raise FormatError(f"{path} is a safetensors file, but no net of kifu: its metadata has no {_KEY!r}")
    try:
        return NetMetadata.model_validate(json.loads(metadata[_KEY]))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise FormatError(f"{path}: its metadata is not understood: {where}: {first['msg']}") from None
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path}: its metadata is no JSON: {first_line(error)}") from None


def _read_games(path: Path, games: torch.Tensor) -> npt.NDArray[np.uint64]:
    if games.dtype != torch.int64 or games.ndim != 1:
        raise FormatError(f"{path}: {_GAMES!r} is {games.dtype} of shape {list(games.shape)}, not a list of int64")
    found: npt.NDArray[np.uint64] = games.numpy().view(np.uint64)
    if np.any(found[1:] <= found[:-1]):
        raise FormatError(f"{path}: {_GAMES!r} does not rise")
    return found


def _make(about: NetMetadata) -> Network:
    encoder = find_encoder(about.planes, about.width, about.height)
    return make_net(
        about.net, encoder.planes, about.width, about.height, rim=encoder.plane_set.rim, passes=about.passes,
        heads=about.heads,
    )  # fmt: skip


def _fill(path: Path, about: NetMetadata, tensors: dict[str, torch.Tensor]) -> Network:
    """The network with these weights. Raises FormatError unless names, shapes and values fit."""
    found = {key.removeprefix(_WEIGHT): value for key, value in tensors.items()}
    try:
        with torch.device("meta"):  # so that a small file cannot ask for much memory
            wanted = _make(about).state_dict()
        _check(path, about, found, wanted)
        with torch.random.fork_rng(devices=[]):  # the weights that it draws are thrown away
            module = _make(about)
    except FormatError:
        raise
    except KifuError as error:
        raise FormatError(f"{path}: {error}") from None
    module.load_state_dict(found)
    return module


def _check(path: Path, about: NetMetadata, found: dict[str, torch.Tensor], wanted: dict[str, torch.Tensor]) -> None:
    if found.keys() != wanted.keys():
        odd = sorted(found.keys() ^ wanted.keys())[0]
        raise FormatError(f"{path}: {odd!r} is only in the {'file' if odd in found else 'net'} ({about.net})")
    for name, value in found.items():
        if value.shape != wanted[name].shape:
            shapes = f"{list(value.shape)}, not {list(wanted[name].shape)}"
            raise FormatError(f"{path}: {name} has the shape {shapes}, as {about.net} of {about.planes} needs")
        if value.dtype not in (_FLOATS if wanted[name].is_floating_point() else (wanted[name].dtype,)):
            raise FormatError(f"{path}: {name} is {value.dtype}, not {wanted[name].dtype}")
        if not torch.isfinite(value).all():
            raise FormatError(f"{path}: {name} has values that are no numbers")
