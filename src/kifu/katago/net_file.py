"""KataGo's network files, `.bin.gz` and `.txt.gz`, versions 8 to 17: read and written from one description.

Each class of this module lists the words and arrays of one part of the file, in order. `read_kata_net` and
`write_kata_net` follow the same lists, so that a file of KataGo's exporter survives both to the byte. Sizes that
must agree, such as the channels of a convolution and of the norm after it, share a name in `Dims`.

Format: cpp/neuralnet/desc.cpp of KataGo v1.17.2; see docs/katago-nets.md.
"""

from __future__ import annotations

import gzip
import math
import os
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from io import BufferedReader, BytesIO
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, BinaryIO, ClassVar, NamedTuple, TypeAlias, cast, get_args, get_origin, get_type_hints

import numpy as np
from isal import igzip, isal_zlib

from kifu.arrays import Floats
from kifu.errors import FormatError, first_line
from kifu.io import open_regular, write_file

SUFFIXES, CHECKPOINT = (".bin.gz", ".txt.gz"), ".ckpt"
"""Suffixes of KataGo's network files, and of the checkpoints of its training (`kifu.katago.checkpoint`).

Uncompressed network files are read, too, but their names are too common to tell.
"""

MIN_VERSION, MAX_VERSION = 8, 17
"""Versions of the format that take KataGo's inputs of version 7."""

MAX_PARAMETERS = 1 << 28
"""Maximum number of floats of a file, 1 GiB. KataGo's largest published nets have about 200 million."""

MAX_SIZE = 1 << 14
"""Maximum of every size in a file, such as a number of channels."""

MAX_BLOCKS = 2048
"""Maximum number of blocks of a file, with those inside others."""

_MAX_COUNT, _MAX_KERNEL, _MAX_WORD = 512, 19, 128

_MAX_DEPTH = 4
"""Maximum number of nested bottleneck blocks inside each other."""

_CHUNK = 1 << 20
_SMALL_CHUNK = 1 << 14
_WORD, _TOKEN = re.compile(rb"\s*(\S+)"), re.compile(rb"\s*(\S)")
_ARRAY = b"@BIN@"

# isal's type stubs declare it as an instance.
_INFLATE_ERROR = cast("type[Exception]", isal_zlib.error)

Known: TypeAlias = dict[str, int]
"""Sizes and options of the part of a file that is being read, by name."""


class Dims:
    """Sizes: names, numbers or products such as "3*pooled"; a name without a value gets the size that is found."""

    def __init__(self, *names: str) -> None:
        self.names = names


class When(NamedTuple):
    """The condition under which a field is in the file, and its value otherwise."""

    condition: Callable[[Known], bool]
    otherwise: Callable[[Known], Any] = lambda _: None


_SIZES = range(1, MAX_SIZE + 1)
Size: TypeAlias = Annotated[int, _SIZES]
Side: TypeAlias = Annotated[int, range(1, _MAX_KERNEL + 1)]


def since(version: int, otherwise: Callable[[Known], Any] = lambda _: 0) -> When:
    """Return the condition that the file has at least this version."""
    return When(lambda known: known["version"] >= version, otherwise)


def where(**values: int) -> When:
    """Return the condition that fields before it have these values."""
    return When(lambda known: all(known[name] == value for name, value in values.items()))


@dataclass
class Conv:
    """A convolution without bias, zero padded to keep the size of the board."""

    name: str
    height: Side
    width: Side
    inputs: Size
    outputs: Size
    dilation_y: Side
    dilation_x: Side
    weights: Annotated[Floats, Dims("height", "width", "inputs", "outputs")]


@dataclass
class Weights:
    """A matrix [inputs, outputs], a vector that is added, or another array; its sizes precede it in the file."""

    name: str
    array: Floats


@dataclass
class BatchNorm:
    """A batch norm with fixed statistics, or a bias stored as one."""

    name: str
    channels: Size
    epsilon: float
    has_scale: bool
    has_bias: bool
    mean: Annotated[Floats, Dims("channels")]
    variance: Annotated[Floats, Dims("channels")]
    scale: Annotated[Floats | None, Dims("channels"), where(has_scale=1)] = None
    bias: Annotated[Floats | None, Dims("channels"), where(has_bias=1)] = None


@dataclass
class TipNorm:
    """The RMS norm after the last block: of each point, or if `spatial`, of the whole board."""

    name: str
    channels: Size
    epsilon: float
    spatial: bool
    groups: Annotated[int, range(1)]
    scale: Annotated[Floats, Dims("channels")]
    bias: Annotated[Floats, Dims("channels")]


@dataclass
class PointNorm:
    """An RMS norm of the channels of each point."""

    name: str
    channels: Size
    epsilon: float
    scale: Annotated[Floats, Dims("channels")]


ACTIVATIONS = ("ACTIVATION_IDENTITY", "ACTIVATION_RELU", "ACTIVATION_MISH", "ACTIVATION_SILU")


@dataclass
class Activation:
    """An activation function, one of `ACTIVATIONS`."""

    name: str
    kind: Annotated[str, since(11, lambda _: "ACTIVATION_RELU")] = "ACTIVATION_RELU"

    def __post_init__(self) -> None:
        if self.kind not in ACTIVATIONS:
            raise FormatError(f"unknown activation {self.kind}")


@dataclass
class ResidualLayers:
    """A residual block: norm, activation and convolution, twice."""

    WORD: ClassVar[str] = "ordinary_block"
    name: str
    norm1: Annotated[BatchNorm, Dims("channels")]
    act1: Activation
    conv1: Annotated[Conv, Dims("channels", "inner")]
    norm2: Annotated[BatchNorm, Dims("inner")]
    act2: Activation
    conv2: Annotated[Conv, Dims("inner", "channels")]


@dataclass
class Pooling:
    """A residual block whose first convolution has a second one beside it that is pooled to biases."""

    WORD: ClassVar[str] = "gpool_block"
    name: str
    norm1: Annotated[BatchNorm, Dims("channels")]
    act1: Activation
    conv1: Annotated[Conv, Dims("channels", "inner")]
    pooled_conv: Annotated[Conv, Dims("channels", "pooled")]
    pooled_norm: Annotated[BatchNorm, Dims("pooled")]
    pooled_act: Activation
    pooled_bias: Annotated[Weights, Dims("3*pooled", "inner")]
    norm2: Annotated[BatchNorm, Dims("inner")]
    act2: Activation
    conv2: Annotated[Conv, Dims("inner", "channels")]


@dataclass
class Attention:
    """Self-attention of all points with rotary position embeddings, fixed or learned."""

    WORD: ClassVar[str] = "transformer_attention_block"
    name: str
    heads: Size
    kv_heads: Size
    query_size: Size
    value_size: Size
    rotary: bool
    learned: bool
    norm: Annotated[PointNorm, Dims("channels")]
    query: Annotated[Weights, Dims("channels", "heads*query_size")]
    key: Annotated[Weights, Dims("channels", "kv_heads*query_size")]
    value: Annotated[Weights, Dims("channels", "kv_heads*value_size")]
    output: Annotated[Weights, Dims("heads*value_size", "channels")]
    frequencies: Annotated[Weights | None, Dims("kv_heads", "pairs", "2"), where(rotary=1, learned=1)] = None
    """Learned rotary frequencies [key heads, pairs, (x, y)]."""
    theta_name: Annotated[str | None, where(rotary=1, learned=0)] = None
    theta: Annotated[float | None, where(rotary=1, learned=0)] = None
    """The base of fixed rotary frequencies."""

    def __post_init__(self) -> None:
        if self.heads % self.kv_heads or (self.rotary and self.query_size % 2):
            raise FormatError(
                f"{self.heads} heads of size {self.query_size} with {self.kv_heads} key heads cannot be attention"
            )
        if self.frequencies is not None and self.frequencies.array.shape != (self.kv_heads, self.query_size // 2, 2):
            raise FormatError(f"rotary frequencies have the wrong shape {list(self.frequencies.array.shape)}")


@dataclass
class FeedForward:
    """Two matrices with SiLU between them, gated by a third."""

    WORD: ClassVar[str] = "transformer_ffn_block"
    name: str
    size: Annotated[Size, Dims("channels")]
    inner: Size
    gated: bool
    norm: Annotated[PointNorm, Dims("channels")]
    linear1: Annotated[Weights, Dims("channels", "inner")]
    gate: Annotated[Weights | None, Dims("channels", "inner"), where(gated=1)]
    linear2: Annotated[Weights, Dims("inner", "channels")]


@dataclass
class Bottleneck:
    """A 1 x 1 convolution down, blocks, and a 1 x 1 convolution up."""

    WORD: ClassVar[str] = "nested_bottleneck_block"
    name: str
    count: Annotated[int, range(1, _MAX_COUNT + 1)]
    norm1: Annotated[BatchNorm, Dims("channels")]
    act1: Activation
    conv1: Annotated[Conv, Dims("channels", "inner")]
    blocks: Annotated[list[Block], Dims("inner")]
    norm2: Annotated[BatchNorm, Dims("inner")]
    act2: Activation
    conv2: Annotated[Conv, Dims("inner", "channels")]


Block: TypeAlias = ResidualLayers | Pooling | Attention | FeedForward | Bottleneck
_BLOCKS: Mapping[str, type[Block]] = {block.WORD: block for block in get_args(Block)}


@dataclass
class MetadataEncoder:
    """Three matrices from the 192 numbers of `kifu.katago.metadata` to biases of the first features."""

    name: str
    inputs: Annotated[int, range(192, 193)]
    linear1: Annotated[Weights, Dims("inputs", "first")]
    bias1: Annotated[Weights, Dims("first")]
    act1: Activation
    linear2: Annotated[Weights, Dims("first", "second")]
    bias2: Annotated[Weights, Dims("second")]
    act2: Activation
    linear3: Annotated[Weights, Dims("second", "channels")]


@dataclass
class Trunk:
    """The trunk. The sizes after `channels` are informative: each layer has its own."""

    name: str
    count: Annotated[int, range(1, _MAX_COUNT + 1)]
    channels: Size
    inner_channels: Size
    regular_channels: Size
    dilated_channels: Annotated[int, range(-MAX_SIZE, MAX_SIZE + 1)]
    pooled_channels: Size
    tip_kind: Annotated[int, range(2), since(15)]
    unused: Annotated[list[int], Dims("5"), since(15, lambda _: [])]
    conv: Annotated[Conv, Dims("22", "channels")]
    globals: Annotated[Weights, Dims("19", "channels")]
    encoder: Annotated[MetadataEncoder | None, where(encoder_version=1)]
    blocks: Annotated[list[Block], Dims("channels")]
    batch_norm: Annotated[BatchNorm | None, Dims("channels"), where(tip_kind=0)]
    rms_norm: Annotated[TipNorm | None, Dims("channels"), where(tip_kind=1)]
    act: Activation


def _policies(known: Known) -> int:
    """Return the number of policies before version 17, where it is stated."""
    return 4 if known["version"] == 16 else 2 if known["version"] >= 12 else 1


@dataclass
class PolicyLayers:
    """The policies of points and pass: the first is that of the next move, the second an optimistic one."""

    name: str
    policies: Annotated[int, range(1, 5), since(17, _policies)]
    unused: Annotated[list[int], Dims("3"), since(17, lambda _: [])]
    conv: Annotated[Conv, Dims("channels", "inner")]
    pooled_conv: Annotated[Conv, Dims("channels", "pooled")]
    pooled_norm: Annotated[BatchNorm, Dims("pooled")]
    pooled_act: Activation
    pooled_bias: Annotated[Weights, Dims("3*pooled", "inner")]
    norm: Annotated[BatchNorm, Dims("inner")]
    act: Activation
    points: Annotated[Conv, Dims("inner", "policies")]
    pass_: Annotated[Weights, Dims("3*pooled", "pass_inner")]
    pass_bias: Annotated[Weights | None, Dims("pass_inner"), since(15, lambda _: None)]
    pass_act: Annotated[Activation | None, since(15, lambda _: None)]
    pass_linear2: Annotated[Weights | None, Dims("pass_inner", "policies"), since(15, lambda _: None)]

    def __post_init__(self) -> None:
        if self.pass_linear2 is None and self.pass_.array.shape[1] != self.policies:
            raise FormatError(f"{self.name} has {self.policies} policies, but {self.pass_.array.shape[1]} of the pass")


@dataclass
class ValueLayers:
    """Win, loss and no result; the numbers about the score; ownership."""

    name: str
    unused: Annotated[list[int], Dims("3"), since(17, lambda _: [])]
    conv: Annotated[Conv, Dims("channels", "pooled")]
    norm: Annotated[BatchNorm, Dims("pooled")]
    act: Activation
    linear: Annotated[Weights, Dims("3*pooled", "inner")]
    bias: Annotated[Weights, Dims("inner")]
    act2: Activation
    results: Annotated[Weights, Dims("inner", "3")]
    result_bias: Annotated[Weights, Dims("3")]
    scores: Annotated[Weights, Dims("inner", "scores")]
    score_bias: Annotated[Weights, Dims("scores")]
    ownership: Annotated[Conv, Dims("pooled", "1")]

    def __post_init__(self) -> None:
        if self.score_bias.array.size not in (4, 6):
            raise FormatError(f"{self.name} must have 4 or 6 numbers about the score, got {self.score_bias.array.size}")


@dataclass
class KataNetFile:
    """The contents of a network file of KataGo.

    Attributes:
        td_score: Like the next six, the factor of a number about the score or of its error.
        encoder_version: 1 for a human-style net, which takes metadata (`kifu.katago.metadata`), else 0.
        suicide_areas: 1 if it expects planes 18 and 19 as if suicide were legal under all rules.
    """

    name: str
    version: Annotated[int, range(MIN_VERSION, MAX_VERSION + 1)]
    planes: Annotated[int, range(22, 23)]
    inputs: Annotated[int, range(19, 20)]
    td_score: Annotated[float, since(13, lambda _: 20.0)]
    score_mean: Annotated[float, since(13, lambda _: 20.0)]
    score_stdev: Annotated[float, since(13, lambda _: 20.0)]
    lead: Annotated[float, since(13, lambda _: 20.0)]
    variance_time: Annotated[float, since(13, lambda _: 40.0)]
    value_error: Annotated[float, since(13, lambda _: 0.25)]
    score_error: Annotated[float, since(13, lambda _: 30.0)]
    encoder_version: Annotated[int, range(2), since(15)]
    suicide_areas: Annotated[int, range(2), since(15)]
    unused: Annotated[list[int], Dims("6"), since(15, lambda _: [])]
    trunk: Trunk
    policy: PolicyLayers
    value: ValueLayers
    binary: bool = field(default=True, metadata={"stored": False})

    def __repr__(self) -> str:
        return f"<KataNetFile {self.name}: version {self.version}, {self.parameters:,} parameters>"

    @property
    def parameters(self) -> int:
        """The number of trained parameters: all floats but the statistics of batch norms."""
        return sum(array.size for array in trained_arrays(self))

    @property
    def is_human(self) -> bool:
        """True if it takes metadata, such as ranks."""
        return self.encoder_version > 0


def is_kata_net(path: str | os.PathLike[str]) -> bool:
    """Return True if the name is that of a network file of KataGo, or for an ONNX file, if its metadata are."""
    name = os.fspath(path).lower()
    if not name.endswith(".onnx"):
        return name.endswith((*SUFFIXES, CHECKPOINT))
    from kifu.katago.net_onnx import read_kata_entries  # loads pydantic

    return bool(read_kata_entries(path))


def read_kata_net(path: str | os.PathLike[str]) -> KataNetFile:
    """Read a network file of KataGo; gzip and the kind of its arrays are recognized.

    The memory is that of the arrays, at most `MAX_PARAMETERS` floats. Raises FormatError if the file is missing,
    damaged, too large, or not a network file of a supported version.
    """
    name = os.fspath(path)
    try:
        with open_regular(path) as file:
            zipped = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            with cast("BinaryIO", igzip.open(file) if zipped else BufferedReader(file)) as stream:  # type: ignore[no-untyped-call]
                return parse_kata_net(stream)
    except FormatError as error:
        raise FormatError(f"{name} is not a network file of KataGo: {error}") from None
    except EOFError:
        raise FormatError(f"{name} is truncated") from None
    except OSError as error:
        raise FormatError(f"cannot read the network file {name}: {error.strerror or first_line(error)}") from None
    except (zlib.error, _INFLATE_ERROR) as error:
        raise FormatError(f"{name} is damaged: {first_line(error)}") from None


def parse_kata_net(stream: BinaryIO) -> KataNetFile:
    """Read an uncompressed network file. Raises FormatError, EOFError, or what the stream raises."""
    reader = _WordReader(stream)
    net: KataNetFile = _read_record(KataNetFile, reader, {})
    reader.finish()
    net.binary = reader.binary
    return net


def write_kata_net(path: Path, net: KataNetFile) -> None:
    """Write a network file atomically, compressed if the name ends with .gz."""
    data = kata_net_bytes(net)
    write_file(path, gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)


def kata_net_bytes(net: KataNetFile) -> bytes:
    """Return the uncompressed contents of a network file."""
    parts: list[bytes] = []
    _write_record(net, net.binary, parts, {})
    return b"".join(parts)


def structure_text(net: KataNetFile) -> str:
    """Return the words of a network file without its arrays."""
    parts: list[bytes] = []
    _write_record(net, None, parts, {})
    return b"".join(parts).decode()


def parse_structure(text: str) -> KataNetFile:
    """Return a network with the structure of `structure_text`, whose weights are 0 and take no memory."""
    try:
        reader = _StructureReader(BytesIO(text.encode()))
        net: KataNetFile = _read_record(KataNetFile, reader, {})
        reader.finish()
    except EOFError:
        raise FormatError("the structure of a network is truncated") from None
    return net


class _Field(NamedTuple):
    """A field of a record: its type, range, names of `Dims`, and `When`."""

    name: str
    type: Any
    range: range | None = None
    dims: tuple[str, ...] = ()
    when: When | None = None


@cache
def fields_of(record: Any) -> list[_Field]:
    """Return the fields of a record that are in the file, in order."""
    hints = get_type_hints(record, globals(), include_extras=True)
    return [_parse_hint(each.name, hints[each.name]) for each in fields(record) if each.metadata.get("stored", True)]


def _parse_hint(name: str, hint: Any) -> _Field:
    base, *extras = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    options = [option for option in get_args(base) if option is not type(None)]
    base = options[0] if get_origin(base) is UnionType else base
    found = {type(extra): extra for extra in extras}
    dims = found[Dims].names if Dims in found else ()
    return _Field(name, get_origin(base) or base, found.get(range), dims, found.get(When))


_INHERITED = ("version", "encoder_version", "channels")
"""Names of sizes and options that parts of a part see."""


def _read_record(record: Any, reader: _WordReader, outer: Known, depth: int = 0) -> Any:
    known = {name: outer[name] for name in _INHERITED if name in outer}
    values: dict[str, Any] = {}
    for each in fields_of(record):
        if each.when is not None and not each.when.condition(known):
            value = each.when.otherwise(known)
        elif each.type is list:
            value = _read_list(each, reader, known, depth)
        elif each.type is np.ndarray:
            value = reader.array([size_of(name, known) for name in each.dims])
        elif each.type is Weights:
            value = _read_weights(each.dims, reader, known)
        elif is_dataclass(each.type):
            value = _read_record(each.type, reader, known, depth)
            if each.dims:
                _check_sizes(value, each.dims, known)
        else:
            value = _read_value(each, reader)
        if isinstance(value, int):
            known[each.name] = value
            if each.dims:
                _unify(each.dims[0], value, known, each.name)
        values[each.name] = value
    return record(**values)


def _read_list(each: _Field, reader: _WordReader, known: Known, depth: int) -> list[Any]:
    """Read the blocks of a trunk or a nested bottleneck, or words that must be 0."""
    if each.name == "unused":
        return [_read_value(_Field("an unused word", int, range(1)), reader) for _ in range(int(each.dims[0]))]
    if depth > _MAX_DEPTH:
        raise FormatError(f"nested bottlenecks must be at most {_MAX_DEPTH} deep")
    inner = known | {"channels": size_of(each.dims[0], known)}
    blocks = []
    for _ in range(known["count"]):
        word = reader.word()
        if word not in _BLOCKS:
            raise FormatError(f"unknown block {word!r}")
        reader.blocks += 1
        if reader.blocks > MAX_BLOCKS:
            raise FormatError(f"more than {MAX_BLOCKS:,} blocks")
        blocks.append(_read_record(_BLOCKS[word], reader, inner, depth + 1))
    return blocks


def _read_weights(dims: tuple[str, ...], reader: _WordReader, known: Known) -> Weights:
    """Read a name, sizes that fit the layers around it, and an array."""
    name, size = reader.word(), _Field("size", int, _SIZES)
    shape = [_read_value(size, reader) for _ in dims]
    for dim, count in zip(dims, shape):
        _unify(dim, count, known, name)
    return Weights(name, reader.array(shape))


def _read_value(each: _Field, reader: _WordReader) -> Any:
    """Read a word: a text, a number in its range, or a positive float."""
    word, allowed = reader.word(), each.range or range(2)
    if each.type is str:
        return word
    try:
        if each.type is float:
            value: float = float(word)
            if 0 < value < math.inf:
                return value
        elif re.fullmatch(r"-?\d{1,9}", word, re.ASCII) and int(word) in allowed:
            return each.type(int(word))
    except ValueError:
        pass
    limits = "a positive number" if each.type is float else f"{allowed[0]} to {allowed[-1]}"
    raise FormatError(f"{each.name} must be {limits}, got {word!r}")


def size_of(dim: str, known: Known) -> int:
    """Return a size of `Dims`."""
    return math.prod(int(name) if name.isdigit() else known[name] for name in dim.split("*"))


def _check_sizes(layer: Any, dims: tuple[str, ...], known: Known) -> None:
    """Check the sizes of a layer against those that are known, and add the others."""
    sizes = [each.name for each in fields_of(layer.__class__) if each.range == _SIZES]
    for dim, attribute in zip(dims, sizes, strict=True):
        _unify(dim, getattr(layer, attribute), known, layer.name)


def _unify(dim: str, size: int, known: Known, layer: str) -> None:
    product, unknown = 1, None
    for name in dim.split("*"):
        if name.isdigit() or name in known:
            product *= size_of(name, known)
        else:
            unknown = name
    if unknown is None and size == product:
        return
    if unknown is not None and size % product == 0:
        known[unknown] = size // product
        return
    raise FormatError(f"{layer} has size {size}, which does not fit the layers around it ({dim})")


def _write_record(record: Any, binary: bool | None, out: list[bytes], outer: Known) -> None:
    known = {name: outer[name] for name in _INHERITED if name in outer}
    for each in fields_of(record.__class__):
        value = getattr(record, each.name)
        if isinstance(value, int):
            known[each.name] = value
        if each.when is not None and not each.when.condition(known):
            continue
        if isinstance(value, np.ndarray):
            out.append(_array_bytes(value, binary))
        elif isinstance(value, list):
            for item in value:
                if isinstance(item, int):
                    out.append(b"%d\n" % item)
                else:
                    out.append(item.WORD.encode() + b"\n")
                    _write_record(item, binary, out, known)
        elif isinstance(value, Weights):
            sizes = "".join(f"{size}\n" for size in value.array.shape)
            out += [f"{value.name}\n{sizes}".encode(), _array_bytes(value.array, binary)]
        elif is_dataclass(value):
            _write_record(value, binary, out, known)
        else:
            out.append(f"{int(value) if isinstance(value, bool) else value}\n".encode())


def _array_bytes(array: Floats, binary: bool | None) -> bytes:
    """Return an array as bytes, as text or, if `binary` is None, nothing."""
    if binary is None:
        return b""
    if binary:
        return _ARRAY + array.astype("<f4").tobytes() + b"\n"
    # The shortest text of a float32 reads as the same float32.
    return " ".join(map(str, array.ravel())).encode() + b"\n"


def trained_arrays(record: Any) -> Iterator[Floats]:
    """Yield the arrays of a record but the statistics of batch norms."""
    for each in fields_of(record.__class__):
        value = getattr(record, each.name)
        if isinstance(value, np.ndarray) and each.name not in ("mean", "variance"):
            yield value
        for item in value if isinstance(value, list) else [value]:
            if is_dataclass(item):
                yield from trained_arrays(item)


class _WordReader:
    """Reads words and arrays from a stream, with limits. binary: whether arrays are bytes; the first one decides."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream, self._buffer, self._at = stream, b"", 0
        self._floats, self._first = MAX_PARAMETERS, True
        self.binary, self.blocks = True, 0

    def word(self) -> str:
        while True:
            match = _WORD.match(self._buffer, self._at)
            if match is not None and match.end() < len(self._buffer):
                break
            if match is not None and len(match[1]) > _MAX_WORD:
                raise FormatError(f"a word has more than {_MAX_WORD} bytes")
            if not self._fill():
                if match is None:
                    raise EOFError
                break
        self._at = match.end()
        if not (len(match[1]) <= _MAX_WORD and match[1].isascii() and (word := match[1].decode()).isprintable()):
            raise FormatError("a word is too long or not printable ASCII")
        return word

    def count(self, shape: list[int]) -> int:
        """Return the size of the next array, and add it to those before. Raises FormatError."""
        count = math.prod(shape)
        self._floats -= count
        if self._floats < 0:
            raise FormatError(f"more than {MAX_PARAMETERS:,} parameters")
        return count

    def array(self, shape: list[int]) -> Floats:
        """Return the next array, finite float32."""
        count = self.count(shape)
        while not (start := _TOKEN.match(self._buffer, self._at)):
            if not self._fill():
                raise EOFError
        binary = self._buffer[start.start(1) : start.end()] == b"@"
        if self._first:
            self.binary, self._first = binary, False
        if binary != self.binary:
            raise FormatError("arrays must be all bytes or all text")
        self._at = start.start(1)
        array = self._bytes(count) if binary else self._text(count)
        if not np.isfinite(array).all():
            raise FormatError("NaN or infinite weights")
        return array.reshape(shape)

    def finish(self) -> None:
        """Check that nothing but white space follows, and the checksum of gzip."""
        self._buffer = self._buffer[self._at :]
        if self._buffer.strip() or self._stream.read(_CHUNK).strip():
            raise FormatError("it goes on after the value head")

    def _bytes(self, count: int) -> Floats:
        while len(self._buffer) - self._at < len(_ARRAY):
            if not self._fill():
                raise EOFError
        self._at += len(_ARRAY)
        if self._buffer[self._at - len(_ARRAY) : self._at] != _ARRAY:
            raise FormatError("an array does not begin with @BIN@")
        parts = [self._buffer[self._at : self._at + 4 * count]]
        self._at += len(parts[0])
        missing = 4 * count - len(parts[0])
        while missing:
            parts.append(self._stream.read(min(missing, _CHUNK)))
            missing -= len(parts[-1])
            if not parts[-1]:
                raise EOFError
        return np.frombuffer(b"".join(parts), "<f4").astype(np.float32, copy=False)

    def _text(self, count: int) -> Floats:
        parts: list[Floats] = []
        while count:
            end = max(self._buffer.rfind(space) for space in (b" ", b"\n", b"\t", b"\r"))
            words = self._buffer[self._at : max(end, self._at)].split(None, count)
            rest = words.pop() if len(words) > count else b""
            try:
                parts.append(np.array(words, np.bytes_).astype(np.float32))
            except ValueError as error:
                raise FormatError(f"an array has a word that is no number: {first_line(error)}") from None
            count -= len(words)
            self._at = end - len(rest) if count == 0 else max(end, self._at)
            if count and len(self._buffer) - self._at > _MAX_WORD:
                raise FormatError(f"a word has more than {_MAX_WORD} bytes")
            if count and not self._fill():
                raise EOFError
        return np.concatenate(parts)

    def _fill(self) -> bool:
        """Read more into the buffer, without white space in front; return False at the end of the stream."""
        more = self._stream.read(_SMALL_CHUNK)
        self._buffer, self._at = (self._buffer[self._at :] + more).lstrip(), 0
        return bool(more)


class _StructureReader(_WordReader):
    """Reads words; arrays are 0 and are not in the stream."""

    def array(self, shape: list[int]) -> Floats:
        self.count(shape)
        return np.broadcast_to(np.float32(0), shape)
