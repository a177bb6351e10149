"""The speed of reading training chunks of other programs, with inflating their files as the floor."""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
from figures import Figure
from timing import Task, in_turns, one_core

import kifu
from corpus import Corpus
from kifu.datasets import minigo
from kifu.datasets.examples import Dataset
from kifu.io import open_regular
from kifu.records._streams import inflated_stream

_ROWS = 8192
_BATCH = 1024
_MOVES = 40
"""Moves with a share of the policy, as after a search of some hundred visits."""

_CONFIG = kifu.LoaderConfig(shuffle=None, augment=False, output="uint8")


def chunks(corpus: Corpus, folder: Path, rounds: int) -> list[Figure]:
    """Measure on one core, with positions of an archive and random policies."""
    figures = []
    with one_core():
        for name, write in (("lz-chunks, version 1", _lz_text), ("lz-chunks, version 2", _lz_binary), ("minigo", _tf)):
            plane_set = "agz17-minigo" if name == "minigo" else "lz18"
            loader = kifu.load(corpus.archives[-1], plane_set, batch_size=_ROWS, config=_CONFIG)
            path = folder / "chunk"
            path.write_bytes(write(next(iter(loader)).planes))
            with kifu.open(path) as data:
                floor, times = in_turns(rounds, Task(_inflate(path)), Task(_read(data)))
                rows = len(data)
            figures.append(Figure(f"floor: {name}, inflated, one core", rows / floor.best / 1e6, "M rows/s", floor))
            figures.append(Figure(f"{name}, rows with labels, one core", rows / times.best / 1e6, "M rows/s", times))
    return figures


def _inflate(path: Path) -> Callable[[], None]:
    buffer = memoryview(bytearray(1 << 20))

    def run() -> None:
        with open_regular(path) as file:
            stream = inflated_stream(file)
            while stream is not None and stream.fill(buffer):
                pass

    return run


def _read(data: Dataset) -> Callable[[], None]:
    def run() -> None:
        for _ in data.batches(_BATCH):
            pass

    return run


def _policies(rows: int) -> npt.NDArray[np.float32]:
    """Return [rows, 362] random policies."""
    draw = np.random.default_rng(1)
    policy = np.zeros((rows, 362), np.float32)
    moves = draw.integers(0, 362, (rows, _MOVES))
    np.put_along_axis(policy, moves, draw.exponential(size=(rows, _MOVES)).astype(np.float32), 1)
    policy /= policy.sum(1, keepdims=True)
    return policy


def _lz_text(planes: npt.NDArray[np.uint8]) -> bytes:
    records = []
    for board, policy in zip(planes[:, :16, ::-1].reshape(-1, 16, 361), _policies(len(planes))):
        digits = np.packbits(board[:, :360], axis=1)
        lines = [f"{row.tobytes().hex()}{last}" for row, last in zip(digits, board[:, 360])]
        records.append("\n".join([*lines, "0", " ".join(f"{share:g}" for share in policy), "1\n"]))
    return gzip.compress("".join(records).encode())


def _lz_binary(planes: npt.NDArray[np.uint8]) -> bytes:
    bits = np.packbits(planes[:, :16, ::-1].reshape(len(planes), -1), axis=1)
    records = zip(_policies(len(planes)), bits)
    return gzip.compress(b"".join(struct.pack("<i", 1) + p.tobytes() + b.tobytes() + b"\0\1" for p, b in records))


def _tf(planes: npt.NDArray[np.uint8]) -> bytes:
    x = planes.transpose(0, 2, 3, 1)
    records = zip(x, _policies(len(planes)))
    return zlib.compress(b"".join(_tfrecord(each.tobytes(), policy.tobytes()) for each, policy in records))


def _tfrecord(x: bytes, pi: bytes) -> bytes:
    features = {b"x": _field(1, _field(1, x)), b"pi": _field(1, _field(1, pi))}
    features[b"outcome"] = _field(2, _field(1, struct.pack("<f", 1)))
    data = _field(1, b"".join(_field(1, _field(1, name) + _field(2, value)) for name, value in features.items()))
    length = struct.pack("<Q", len(data))
    return length + _crc(length) + data + _crc(data)


def _field(number: int, data: bytes) -> bytes:
    size = len(data)
    return bytes([number << 3 | 2, *([size & 127 | 128, size >> 7] if size > 127 else [size])]) + data


def _crc(data: bytes) -> bytes:
    crc = minigo.masked_crc(np.frombuffer(data, np.uint8), 0, len(data), minigo.crc_tables())
    return int(crc).to_bytes(4, "little")
