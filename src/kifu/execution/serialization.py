"""Results of jobs as bytes: pickle protocol 5, with the buffers of arrays and Arrow batches out of band.

A file of results is written and read by the same version of kifu. It may be cut off or damaged: each result has a
checksum, which is verified before it is unpickled. It may also have been planted by the author of the directory that
the output goes to, so only types that cannot do any harm are unpickled.

    the line "kifu results 1", then for each result
    8 bytes   number of buffers, lowest byte first: the pickle stream, then the buffers it refers to
    for each buffer, 8 bytes of stored size and 8 of plain size; where they differ, the buffer is compressed with LZ4
    the buffers
    32 bytes  BLAKE3 of all of the above
    at the end 8 zero bytes, and 8 bytes: the number of results
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Iterable, Iterator
from dataclasses import is_dataclass
from enum import Enum
from io import BytesIO
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
from blake3 import blake3

from kifu.errors import FormatError, first_line
from kifu.io import AtomicFile

_MAGIC = b"kifu results 1\n"
_LZ4 = pa.Codec("lz4_raw")
_MIN_COMPRESSED = 256
_MAX_BUFFER = 1 << 34
_PACKAGES = {"kifu"}
"""Packages whose records a pickle may contain."""

_CONSTRUCTORS = {
    ("numpy._core.numeric", "_frombuffer"),
    ("numpy", "dtype"),
    ("numpy", "ndarray"),
    ("numpy._core.multiarray", "scalar"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("collections", "Counter"),
    ("collections", "OrderedDict"),
    ("datetime", "date"),
    ("builtins", "set"),
    ("builtins", "frozenset"),
    ("builtins", "range"),
    ("builtins", "slice"),
}
"""Functions of other packages that a pickle may call, by module and name."""

DAMAGE = (
    OSError,
    ValueError,
    EOFError,
    MemoryError,
    AttributeError,
    ImportError,
    pickle.UnpicklingError,
    pa.ArrowException,
)
"""Exceptions that `decode` raises for damaged data."""


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        """Send Arrow data as IPC streams: its own pickles of a slice hold everything that the slice was cut from."""
        if isinstance(value, pa.RecordBatch):
            return _read_batch, (pickle.PickleBuffer(_write_batch(value)),)
        if isinstance(value, pa.Array):
            return _read_array, (pickle.PickleBuffer(_write_batch(pa.record_batch([value], ["values"]))),)
        return NotImplemented


class _Unpickler(pickle.Unpickler):
    """Loads the records of kifu (dataclasses, named tuples, enumerations) and arrays, and calls nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        constructor = super().find_class(module, name) if module.partition(".")[0] in _PACKAGES else None
        if (module, name) in _CONSTRUCTORS or constructor in (_read_batch, _read_array) or _is_record(constructor):
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"{module}.{name} is not part of a result")


def _is_record(kind: Any) -> bool:
    return isinstance(kind, type) and (
        is_dataclass(kind) or issubclass(kind, Enum) or (issubclass(kind, tuple) and hasattr(kind, "_fields"))
    )


def _write_batch(batch: pa.RecordBatch) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return sink.getvalue()


def _read_batch(data: Any) -> pa.RecordBatch:
    with pa.ipc.open_stream(data) as stream:
        return stream.read_next_batch()


def _read_array(data: Any) -> pa.Array:
    return _read_batch(data).column(0)


def encode(value: Any) -> list[bytes | memoryview]:
    """Return a result as pieces to be written one after another. They may refer to the memory of the result."""
    out_of_band: list[pickle.PickleBuffer] = []
    stream = BytesIO()
    _Pickler(stream, 5, buffer_callback=out_of_band.append).dump(value)
    plain: list[memoryview] = [stream.getbuffer(), *(buffer.raw() for buffer in out_of_band)]
    stored = [_compress(buffer) for buffer in plain]
    sizes = [size for pair in zip(stored, plain) for size in map(len, pair)]
    pieces: list[bytes | memoryview] = [struct.pack(f"<{1 + len(sizes)}Q", len(plain), *sizes), *stored]
    digest = blake3()
    for piece in pieces:
        digest.update(piece)
    return [*pieces, digest.digest()]


def _compress(buffer: memoryview) -> memoryview:
    if len(buffer) < _MIN_COMPRESSED:
        return buffer
    packed = memoryview(_LZ4.compress(buffer, asbytes=True))
    return packed if len(packed) < len(buffer) else buffer


def decode(file: IO[bytes]) -> Any:
    """Read what `encode` returned. Arrays are writable. Raises EOFError at the end marker, ValueError for damage."""
    head = _read_exactly(file, 8)
    (count,) = struct.unpack("<Q", head)
    if not count:
        raise EOFError
    head += _read_exactly(file, 16 * count)
    sizes = struct.unpack(f"<{2 * count}Q", head[8:])
    stored = [_read_exactly(file, size) for size in sizes[::2]]
    digest = blake3(head)
    for buffer in stored:
        digest.update(buffer)
    if _read_exactly(file, 32) != digest.digest():
        raise ValueError("its checksum is wrong")
    plain = [_LZ4.decompress(b, n, asbytes=True) if len(b) != n else b for b, n in zip(stored, sizes[1::2])]
    return _Unpickler(BytesIO(plain[0]), buffers=map(bytearray, plain[1:])).load()


def _read_exactly(file: IO[bytes], size: int) -> bytes:
    if size > _MAX_BUFFER:
        raise ValueError(f"a buffer of {size:,} bytes")
    data = file.read(size)
    if len(data) < size:
        raise ValueError("it ends too early")
    return data


def _encode_all(results: Iterable[Any]) -> Iterator[bytes | memoryview]:
    count = 0
    yield _MAGIC
    for result in results:
        yield from encode(result)
        count += 1
    yield struct.pack("<2Q", 0, count)


def write_results(path: Path, results: Iterable[Any]) -> None:
    """Write a file of results; each is written before the next one is asked for. Raises OutputError."""
    with AtomicFile(path) as output:
        for piece in _encode_all(results):
            output.write(piece)
        output.commit()


def read_results(path: Path) -> Iterator[Any]:
    """Yield the results in a file. Raises FormatError if it is damaged or cut off."""
    try:
        with path.open("rb") as file:
            yield from _decode_all(file)
    except DAMAGE as error:
        raise FormatError(f"{path}: damaged: {first_line(error)}") from None


def dump_results(results: Iterable[Any]) -> bytes:
    """Return the content of a file of these results."""
    stream = BytesIO()
    for piece in _encode_all(results):  # copied one by one: the memory of a result may be used for the next one
        stream.write(piece)
    return stream.getvalue()


def load_results(data: bytes) -> Iterator[Any]:
    """Yield the results that `dump_results` was given."""
    return _decode_all(BytesIO(data))


def _decode_all(file: IO[bytes]) -> Iterator[Any]:
    if file.read(len(_MAGIC)) != _MAGIC:
        raise ValueError("not a file of results")
    count = 0
    while True:
        try:
            result = decode(file)
        except EOFError:
            break
        yield result
        count += 1
    if _read_exactly(file, 8) != count.to_bytes(8, "little"):
        raise ValueError("results are missing")
