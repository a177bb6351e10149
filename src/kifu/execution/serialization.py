"""Results on their way between processes: named arrays, Arrow batches and JSON values, in one file for each unit.

A file of parcels is our own and read by the same version only, but it may be cut off or lie on a damaged disk: lengths
are checked before memory is taken, and nothing in it is executed.

    b"kifu parcels 1\\n", then for each parcel
    8 bytes   length of the head, lowest byte first
    head      JSON: [{"name", "kind": "json", "value"} or {"name", "kind": "array", "dtype", "shape", "bytes"} or
              {"name", "kind": "batch", "bytes"}, ...]
    buffers   of those that have "bytes", in order: the array's bytes (compressed by LZ4, if they are many), or an Arrow
              stream of one batch (whose buffers are compressed so)
    at the end a length of 0, and 8 bytes: how many parcels there are
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from io import BytesIO
from math import prod
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np
import pyarrow as pa

from kifu.atomic_io import AtomicFile
from kifu.errors import FormatError, OutputError, first_line

Parcel: TypeAlias = dict[str, Any]
"""By name: arrays of numbers, Arrow batches, and JSON values."""

_MAGIC = b"kifu parcels 1\n"
_LZ4 = pa.Codec("lz4_raw")
_SMALL = 256
"""Bytes of an array that are not worth being compressed."""

_MOST = 1 << 34
"""A buffer that says it takes more bytes than this is not read."""


class ParcelWriter:
    """Writes parcels into a file, which has its name only once `commit` has returned. A context manager."""

    def __init__(self, path: Path) -> None:
        """Raises OutputError."""
        self._output = AtomicFile(path)
        self._count = 0
        self._output.write(_MAGIC)

    def write(self, parcel: Parcel) -> None:
        """Appends a parcel. Raises OutputError."""
        for piece in _pieces(parcel):
            self._output.write(piece)
        self._count += 1

    def commit(self) -> None:
        """Ends the file and gives it its name. Raises OutputError."""
        self._output.write(_end(self._count))
        self._output.commit()

    def __enter__(self) -> ParcelWriter:
        return self

    def __exit__(self, *exception: Any) -> None:
        self._output.__exit__(*exception)


class SpillFile:
    """Parcels set aside on the disk, in a file without a name, which nobody has to remove. A context manager."""

    def __init__(self, folder: Path) -> None:
        """Raises OutputError."""
        self._folder = folder
        self._count = 0
        try:
            self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - closed by __exit__
            self._file.write(_MAGIC)
        except OSError as error:
            raise self._error(error) from None

    def write(self, parcel: Parcel) -> None:
        """Appends a parcel. Raises OutputError."""
        try:
            for piece in _pieces(parcel):
                self._file.write(piece)
        except OSError as error:
            raise self._error(error) from None
        self._count += 1

    def parcels(self) -> Iterator[Parcel]:
        """All of them, in order; none can be written afterwards. Raises OutputError if the disk is full."""
        try:
            self._file.write(_end(self._count))
            self._file.seek(0)
        except OSError as error:
            raise self._error(error) from None
        yield from _parcels(self._file)

    def _error(self, error: OSError) -> OutputError:
        return OutputError(f"cannot set anything aside in {self._folder}: {error.strerror}")

    def __enter__(self) -> SpillFile:
        return self

    def __exit__(self, *exception: object) -> None:
        with suppress(OSError):  # what is still to be written has no place on a full disk
            self._file.close()


def _pieces(parcel: Parcel) -> list[bytes | memoryview]:
    """A parcel as bytes: its head, and its buffers."""
    head, buffers = [], []
    for name, value in parcel.items():
        told, buffer = _told(value)
        head.append({"name": name, **told})
        buffers += [] if buffer is None else [buffer]
    text = json.dumps(head).encode()
    return [len(text).to_bytes(8, "little") + text, *buffers]


def _end(count: int) -> bytes:
    return bytes(8) + count.to_bytes(8, "little")


def _told(value: Any) -> tuple[dict[str, Any], memoryview | None]:
    """What the head says of a value, and its buffer if it has one."""
    if isinstance(value, np.ndarray):
        data = np.ascontiguousarray(value).reshape(-1).view(np.uint8).data
        packed = memoryview(_LZ4.compress(data, asbytes=True)) if len(data) > _SMALL else data
        told = {"kind": "array", "dtype": value.dtype.str, "shape": value.shape, "bytes": len(packed)}
        return told, packed
    if isinstance(value, pa.RecordBatch):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, value.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as stream:
            stream.write_batch(value)
        packed = memoryview(sink.getvalue())
        return {"kind": "batch", "bytes": len(packed)}, packed
    return {"kind": "json", "value": value}, None


def read_parcels(path: Path) -> Iterator[Parcel]:
    """The parcels of a file, one after another. Raises FormatError if it is damaged or cut off."""
    try:
        with path.open("rb") as file:
            yield from _parcels(file)
    except (OSError, ValueError, KeyError, TypeError, OverflowError, MemoryError, pa.ArrowException) as error:
        raise FormatError(f"{path}: damaged: {first_line(error)}") from None


def pack_parcels(parcels: Iterable[Parcel]) -> bytes:
    """What a file of these parcels holds."""
    packed = [b"".join(_pieces(parcel)) for parcel in parcels]
    return b"".join([_MAGIC, *packed, _end(len(packed))])


def unpack_parcels(data: bytes) -> Iterator[Parcel]:
    """The reverse of `pack_parcels`. Does not tell what is wrong with bytes that it did not make."""
    return _parcels(BytesIO(data))


def _parcels(file: IO[bytes]) -> Iterator[Parcel]:
    if file.read(len(_MAGIC)) != _MAGIC:
        raise ValueError("no file of parcels")
    count = 0
    while length := int.from_bytes(_exactly(file, 8), "little"):
        head = json.loads(_exactly(file, length))
        yield {told["name"]: _value(told, file) for told in head}
        count += 1
    if int.from_bytes(_exactly(file, 8), "little") != count:
        raise ValueError("parcels are missing")


def _value(told: dict[str, Any], file: IO[bytes]) -> Any:
    if told["kind"] == "json":
        return told["value"]
    data = _exactly(file, told["bytes"])
    if told["kind"] == "batch":
        with pa.ipc.open_stream(data) as stream:
            return stream.read_next_batch()
    kind = np.dtype(told["dtype"])
    if kind.hasobject:
        raise ValueError(f"an array of {kind}")
    size = prod(told["shape"]) * kind.itemsize
    if not 0 <= size <= _MOST:
        raise ValueError(f"an array of {size:,} bytes")
    plain = _LZ4.decompress(data, size) if size > _SMALL else data
    return np.frombuffer(bytearray(plain), kind).reshape(told["shape"])


def _exactly(file: IO[bytes], count: int) -> bytes:
    if not 0 <= count <= _MOST:
        raise ValueError(f"{count:,} bytes")
    data = file.read(count)
    if len(data) < count:
        raise ValueError("it ends too early")
    return data


def write_parcels(path: Path, parcels: Iterable[Parcel]) -> None:
    """Writes a whole file of parcels. Raises OutputError."""
    with ParcelWriter(path) as writer:
        for parcel in parcels:
            writer.write(parcel)
        writer.commit()
