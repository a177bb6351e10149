"""KataGo's networks as ONNX: metadata, inputs and outputs, as KataGo 1.17.3 and later read and write them.

Source: docs/ONNX_Model_Files.md of KataGo, version 1 of that format.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from io import SEEK_CUR, BytesIO
from typing import Annotated, Any, BinaryIO

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kifu.arrays import Floats
from kifu.config import first_invalid
from kifu.errors import FormatError
from kifu.io import open_regular

PREFIX, INFO_PREFIX = "katago.", "katago.info."
"""Prefixes of keys; a reader must understand those with the first one only."""

INPUTS = ("InputSpatial", "InputGlobal", "InputMeta", "InputMask")
"""Names of the inputs in order; only human-style nets have the third."""

OUTPUTS = ("OutputPolicyPass", "OutputPolicy", "OutputValue", "OutputScoreValue", "OutputOwnership")

_MAX_FIELDS, _MAX_ENTRY = 1000, 1 << 16

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0, le=1 << 14)]


class KataOnnx(BaseModel):
    """The metadata of an ONNX file, whose keys are the aliases after `PREFIX`; fields as in `KataNetFile`.

    Attributes:
        width: Size of the planes; smaller boards are embedded in their upper left corner.
        exact: True if boards must fill the planes.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    metadata_version: Annotated[int, Field(ge=1, le=1, alias="metadataVersion")]
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,96}$")]
    version: Annotated[int, Field(ge=8, le=17, alias="modelVersion")]
    planes: Annotated[int, Field(ge=22, le=22, alias="numInputChannels")]
    inputs: Annotated[int, Field(ge=19, le=19, alias="numInputGlobalChannels")]
    metadata: Annotated[Count, Field(alias="numInputMetaChannels")]
    policies: Annotated[int, Field(ge=1, le=4, alias="numPolicyChannels")]
    results: Annotated[int, Field(ge=3, le=3, alias="numValueChannels")]
    scores: Annotated[int, Field(ge=4, le=6, alias="numScoreValueChannels")]
    ownerships: Annotated[int, Field(ge=1, le=1, alias="numOwnershipChannels")]
    encoder_version: Annotated[int, Field(ge=0, le=1, alias="metaEncoderVersion")] = 0
    suicide_areas: Annotated[bool, Field(alias="preferPassAliveUnderSuicideRules")] = False
    atari_territory: Annotated[bool, Field(alias="preferExcludeTerritoryAdjacentToAtari")] = False
    td_score: Annotated[Positive, Field(alias="postProcess.tdScoreMultiplier")] = 20.0
    score_mean: Annotated[Positive, Field(alias="postProcess.scoreMeanMultiplier")] = 20.0
    score_stdev: Annotated[Positive, Field(alias="postProcess.scoreStdevMultiplier")] = 20.0
    lead: Annotated[Positive, Field(alias="postProcess.leadMultiplier")] = 20.0
    variance_time: Annotated[Positive, Field(alias="postProcess.varianceTimeMultiplier")] = 40.0
    value_error: Annotated[Positive, Field(alias="postProcess.shorttermValueErrorMultiplier")] = 0.25
    score_error: Annotated[Positive, Field(alias="postProcess.shorttermScoreErrorMultiplier")] = 30.0
    output_scale: Annotated[Positive, Field(alias="postProcess.outputScaleMultiplier")] = 1.0
    width: Annotated[int, Field(ge=2, le=64, alias="build.nnXLen")]
    height: Annotated[int, Field(ge=2, le=64, alias="build.nnYLen")]
    exact: Annotated[bool, Field(alias="build.requireExactNNLen")]
    scale8: Annotated[bool, Field(alias="build.scale8Applied")] = False
    channels_last: Annotated[bool, Field(alias="build.transformerNHWC")] = False
    head_nodes: Annotated[str, Field(alias="fp32Nodes.trunkTipAndHead")] = ""
    norm_nodes: Annotated[str, Field(alias="fp32Nodes.rmsNorm")] = ""

    @property
    def is_human(self) -> bool:
        """True if it takes metadata, such as ranks."""
        return self.encoder_version > 0

    def entries(self) -> dict[str, str]:
        """Return the metadata as they are stored."""
        values = self.model_dump(by_alias=True, exclude_unset=True)
        return {PREFIX + key: str(value).lower() if value is True or value is False else str(value)
                for key, value in values.items()}  # fmt: skip

    def feed(self, planes: Floats, globals: Floats) -> dict[str, Any]:
        """Return the inputs of planes [B, 22, H, W] of `katago22@1` and globals [B, 19], + 192 if human-style."""
        count, _, height, width = planes.shape
        if height > self.height or width > self.width or (self.exact and (height, width) != (self.height, self.width)):
            raise FormatError(f"its planes are {self.width} x {self.height}, the board is {width} x {height}")
        spatial = np.zeros((count, self.planes, self.height, self.width), np.float32)
        spatial[:, :, :height, :width] = planes
        inputs = {"InputSpatial": spatial, "InputGlobal": globals[:, : self.inputs, None, None]}
        if self.is_human:
            inputs["InputMeta"] = globals[:, self.inputs :, None, None]
        return inputs | {"InputMask": spatial[:, :1].copy()}

    def decode(self, outputs: Mapping[str, Floats], globals: Floats, height: int, width: int) -> dict[str, Floats]:
        """Return outputs by their names in `kifu.learn.networks.NetworkOutput`, scaled as by `KataNet`."""
        scaled = {name: outputs[name] * np.float32(self.output_scale) for name in OUTPUTS}
        count = len(globals)
        points = scaled["OutputPolicy"][:, 0, :height, :width].reshape(count, -1)
        policy = np.concatenate((points, scaled["OutputPolicyPass"][:, :1].reshape(count, 1)), 1)
        result = scaled["OutputValue"].reshape(count, 3)
        result[(globals[:, 6] != 0) & (globals[:, 9] == 0), 2] = -np.inf  # each game has a result
        result = np.exp(result - result.max(1, keepdims=True))
        result /= result.sum(1, keepdims=True)
        scores, share = scaled["OutputScoreValue"].reshape(count, -1), 1 - result[:, 2]
        mean, stdev = scores[:, 0] * self.score_mean, np.logaddexp(0, scores[:, 1]) * self.score_stdev
        spread = np.sqrt(np.maximum(share * (mean**2 + stdev**2) - (share * mean) ** 2, 0))
        return {
            "policy": policy, "value": result[:, 0] - result[:, 1],
            "ownership": np.tanh(scaled["OutputOwnership"][:, 0, :height, :width].reshape(count, -1)),
            "score": np.stack((share * scores[:, 2] * self.lead, spread), 1).astype(np.float32),
        }  # fmt: skip


def parse_kata_onnx(metadata: Mapping[str, str]) -> KataOnnx | None:
    """Return the metadata of a network of KataGo, None for other files. Raise FormatError unless they are valid."""
    if PREFIX + "metadataVersion" not in metadata:
        return None
    known = {
        key.removeprefix(PREFIX): value
        for key, value in metadata.items()
        if key.startswith(PREFIX) and not key.startswith(INFO_PREFIX)
    }
    try:
        return KataOnnx.model_validate(known)
    except ValidationError as error:
        raise FormatError(f"invalid metadata: {PREFIX}{first_invalid(error)}") from None


def read_kata_entries(path: str | os.PathLike[str]) -> dict[str, str]:
    """Return the metadata of an ONNX file that KataGo reads, {} for other files. The graph is not read."""
    try:
        with open_regular(path) as file:
            entries = [dict(_fields(BytesIO(data))) for number, data in _fields(file) if number == 14]
            found = {entry[1].decode(): entry.get(2, b"").decode() for entry in entries if 1 in entry}
    except (OSError, ValueError):
        return {}
    return {key: value for key, value in found.items() if key.startswith(PREFIX)}


def _fields(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yield the numbers and bytes of the fields of a protobuf message, but of long ones; stop where it is none."""
    for _ in range(_MAX_FIELDS):
        tag = _varint(file)
        if tag & 7 == 0:
            _varint(file)
            continue
        size = _varint(file)
        if tag & 7 != 2 or size < 0:
            return
        if size <= _MAX_ENTRY:
            yield tag >> 3, file.read(size)
        else:
            file.seek(size, SEEK_CUR)


def _varint(file: BinaryIO) -> int:
    """Return the next number, -1 at the end."""
    value = 0
    for shift in range(0, 63, 7):
        byte = file.read(1)
        if not byte:
            return -1
        value |= (byte[0] & 127) << shift
        if byte[0] < 128:
            return value
    return -1
