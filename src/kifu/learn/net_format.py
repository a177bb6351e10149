"""The files of trained nets: weights, metadata, and the games that they were trained on or validated with.

There are two formats (docs/formats/kifu-net.md), and neither is executed, unpickled or imported:

- safetensors, which torch reads: to train further, to evaluate on a GPU, and for networks of one's own;
- ONNX, which onnxruntime evaluates without torch. `kifu train` and `kifu export` write it beside the other.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from blake3 import blake3
from pydantic import Field, ValidationError, model_validator

from kifu.checksums import CHECKSUM_KEY, is_intact
from kifu.config import Line, StrictModel, first_invalid
from kifu.errors import FormatError, first_line, missing_extras
from kifu.io import open_regular
from kifu.learn import MIX_SUFFIX, Heads
from kifu.planes.registry import KATAGO22

METADATA_KEY = "kifu-net"
"""Key of a net's metadata in the header of its file."""

_MAX_BYTES = 4 << 30
_MAX_HEADER_BYTES = 16 << 20


class NetMetadata(StrictModel):
    """Description and origin of a net."""

    version: Literal[1] = 1
    """Version of the file layout."""
    kifu: Line = Field(default_factory=lambda: version("kifu"))
    """Version of kifu that wrote the file."""
    net: Line
    """Architecture (`kifu list nets`)."""
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
    structure: Annotated[str, Field(max_length=1 << 20, exclude_if=lambda text: not text)] = ""
    """Layers of a network of KataGo, see `kifu.katago.net_file.structure_text`."""
    recipe: dict[str, Any] = Field(default={})
    """Complete recipe of its training."""
    trained: dict[str, Any] = Field(default={})
    """Steps, positions, seconds, figures, sources and machine of its training."""

    @property
    def has_points(self) -> bool:
        """True if its score and ownership hold in all positions: those of KataGo's nets, or learned from targets."""
        return bool(self.recipe.get("targets")) or (self.net == "katago" and not self.recipe)

    def __repr__(self) -> str:
        return f"<NetMetadata: {self.net} on {self.planes}, {self.width} x {self.height}, by kifu {self.kifu}>"


PHASES = ("opening", "middle", "endgame")
RANK_BANDS = ("kyu", "1-3 dan", "4-6 dan", "7 dan and stronger")
"""Phases of the game and ranks of the mover, which have weights of their own in a fitted mixture (kifu.learn.mix)."""

_Weights = Annotated[
    tuple[Annotated[float, Field(ge=-100, le=100, allow_inf_nan=False)], ...], Field(min_length=2, max_length=16)
]


class PoolWeights(StrictModel):
    """The weights of n nets in a log-linear pool."""

    common: _Weights
    """Weights of all positions."""
    phases: Annotated[tuple[_Weights, ...], Field(min_length=len(PHASES), max_length=len(PHASES))]
    """Weights that each of `PHASES` adds."""
    ranks: Annotated[tuple[_Weights, ...], Field(min_length=len(RANK_BANDS), max_length=len(RANK_BANDS))]
    """Weights that each of `RANK_BANDS` adds; unknown ranks add none."""

    @model_validator(mode="after")
    def _check_lengths(self) -> PoolWeights:
        if any(len(row) != len(self.common) for row in (*self.phases, *self.ranks)):
            raise ValueError("all rows must have the same number of weights")
        return self

    @classmethod
    def rows(cls) -> int:
        """Return the number of rows of a table."""
        return 1 + len(PHASES) + len(RANK_BANDS)

    @classmethod
    def of_table(cls, table: npt.NDArray[np.float64]) -> PoolWeights:
        """Return the weights of a table."""
        common, *others = (tuple(row) for row in table.tolist())
        return cls(common=common, phases=tuple(others[: len(PHASES)]), ranks=tuple(others[len(PHASES) :]))

    def table(self) -> npt.NDArray[np.float64]:
        """Return the weights [1 + phases + ranks, n]."""
        return np.array([self.common, *self.phases, *self.ranks])


class MixMember(StrictModel):
    """A net of a fitted mixture: packaged, or a file or run directory beside the mixture."""

    name: Annotated[str, Field(pattern=r"^[^/\\:@\x00-\x1f\x7f.][^/\\:@\x00-\x1f\x7f]*$", max_length=200)]
    blake3: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class MixFigures(StrictModel):
    """Figures on the positions of the fit: shares of moves found first, nats, and squared errors of values."""

    name: Line
    top1: float
    nll: float
    value: float | None


class MixFile(StrictModel):
    """A fitted mixture of nets."""

    format: Literal["kifu-mix@1"] = "kifu-mix@1"
    kifu: Line = Field(default_factory=lambda: version("kifu"))
    """Version of kifu that wrote the file."""
    members: Annotated[tuple[MixMember, ...], Field(min_length=2, max_length=16)]
    policy: PoolWeights
    value: PoolWeights | None
    positions: Annotated[int, Field(ge=1)]
    accounts: Annotated[int, Field(ge=0)]
    """Number of players whose moves it was fitted on."""
    figures: tuple[MixFigures, ...]
    """Of each net, of the mixture with equal weights and of the fitted one."""
    games: str
    """Base64 of the canonical hashes of the games that it was fitted on, little-endian."""

    @model_validator(mode="after")
    def _check_members(self) -> MixFile:
        for weights in (self.policy, self.value):
            if weights is not None and len(weights.common) != len(self.members):
                raise ValueError(f"{len(weights.common)} weights for {len(self.members)} nets")
        if any(member.name.endswith(MIX_SUFFIX) for member in self.members):
            raise ValueError("a member must not be a mixture")
        self.known_games()
        return self

    def known_games(self) -> npt.NDArray[np.uint64]:
        """Return [K] uint64, the canonical hashes of the games that it was fitted on. Raises ValueError."""
        try:
            return np.frombuffer(base64.b64decode(self.games, validate=True), "<u8").astype(np.uint64)
        except binascii.Error as error:
            raise ValueError(f"games: {error}") from None


def kata_metadata(human: bool) -> NetMetadata:
    """Return the metadata of a network file of KataGo, which has none."""
    inputs = ("metadata",) if human else ()
    return NetMetadata(
        net="katago", planes=KATAGO22.name, passes=True, heads=("value", "ownership", "score"), inputs=inputs
    )


def read_onnx(path: Path) -> bytes:
    """Return an ONNX file. Raise FormatError if it is missing or damaged."""
    try:
        with open_regular(path) as file:
            if os.fstat(file.fileno()).st_size > _MAX_BYTES:
                raise FormatError(f"{path} has more than {_MAX_BYTES >> 30} GiB, too large for a net")
            data = file.readall()
    except OSError as error:
        raise FormatError(f"cannot read the net {path}: {error.strerror or first_line(error)}") from None
    end = len(data) - len(checksum_entry(b""))
    if data[max(end, 0) :].startswith(checksum_entry(b"")[:-64]) and data[end:] != checksum_entry(data[:end]):
        raise FormatError(f"{path} is damaged: its bytes do not have the checksum at its end")
    return data


def checksum_entry(data: bytes) -> bytes:
    """Return the bytes that append the hash of an ONNX model to its metadata, in protobuf (field 14 of ModelProto).

    The value of CHECKSUM_KEY, the last entry, is the hash of all bytes before this entry.
    """
    key, value = CHECKSUM_KEY.encode(), blake3(data).hexdigest().encode()
    entry = b"\x0a%c%b\x12%c%b" % (len(key), key, len(value), value)
    return b"\x72%c%b" % (len(entry), entry)


def parse_metadata(path: Path, metadata: Mapping[str, str]) -> NetMetadata:
    """Return the metadata in the header of a net's file. Raise FormatError unless they are valid."""
    try:
        values = json.loads(metadata[METADATA_KEY])
        if isinstance(values, dict):
            values.pop(CHECKSUM_KEY, None)
        return NetMetadata.model_validate(values)
    except ValidationError as error:
        raise FormatError(f"{path}: invalid metadata: {first_invalid(error)}") from None
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path}: the metadata is not JSON: {first_line(error)}") from None


@contextmanager
def open_net_file(path: Path, framework: str) -> Iterator[Any]:
    """Open a net's file in the safetensors format, with arrays of a framework, "pt" or "numpy".

    Raises FormatError if the file is missing, too large or not a net.
    """
    with missing_extras():
        from safetensors import SafetensorError, safe_open
    try:
        _check_file(path)
        with safe_open(path, framework=framework) as file:
            if METADATA_KEY not in (file.metadata() or {}):
                raise FormatError(f"{path} is not a net of kifu: its safetensors metadata has no {METADATA_KEY!r}")
            yield file
    except OSError as error:
        raise FormatError(f"cannot read the net {path}: {error.strerror or first_line(error)}") from None
    except SafetensorError as error:
        raise FormatError(f"{path} is not a net of kifu: {first_line(error)}") from None


def _check_file(path: Path) -> None:
    """Raise FormatError for a file that is damaged or too large for a net, or whose header is. Raises OSError."""
    with open_regular(path) as file:
        size, start = os.fstat(file.fileno()).st_size, file.read(8)
        header = int.from_bytes(start, "little")
        if size > _MAX_BYTES:
            raise FormatError(f"{path} has more than {_MAX_BYTES >> 30} GiB, too large for a net")
        if size > header > _MAX_HEADER_BYTES:
            raise FormatError(f"{path} is not a net of kifu: its header has more than {_MAX_HEADER_BYTES >> 20} MiB")
        if not is_intact(start + file.readall()):
            raise FormatError(f"{path} is damaged: its bytes do not have its checksum")
