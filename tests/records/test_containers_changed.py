"""Archives that change while they are read, and tars that go on after their end mark."""

import gzip
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kgs_archives import tar_of, tarred, zipped
from kifu.errors import SourceError
from kifu.records.containers import blocks
from record_samples import OLF_LINE

RECORDS = [b"(;SZ[9]C[%s])" % random.Random(k).randbytes(3000).hex().encode() for k in range(300)]


def make(path: Path) -> None:
    if path.suffix == ".zip":
        zipped(path, RECORDS)
    elif path.suffix == ".olf":
        path.write_bytes(OLF_LINE * 20_000)
    else:
        path.write_bytes(gzip.compress(tar_of(RECORDS), 1) if path.suffix == ".gz" else tar_of(RECORDS))


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def rewrite(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2] + bytes(len(data) - len(data) // 2))


def touch(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"")
    os.utime(path)


def replace(path: Path) -> None:
    shutil.copy(path, path.with_name("copy"))
    path.with_name("copy").replace(path)


@pytest.mark.parametrize("change", [truncate, rewrite, touch, replace, Path.unlink])
@pytest.mark.parametrize("name", ["a.zip", "a.tar", "a.tar.gz", "a.olf"])
def test_a_change_is_reported(tmp_path: Path, name: str, change: Callable[[Path], None]) -> None:
    make(path := tmp_path / name)
    reading = blocks(path, block_bytes=20_000)
    next(reading)
    change(path)
    with pytest.raises(SourceError) as error:
        for _ in reading:
            pass
    assert str(error.value) == f"{path}: it changed while it was read"


def test_a_loose_record_that_grows_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.sgf"
    path.write_bytes(RECORDS[0])
    fstat = os.fstat

    def grow(file: int) -> os.stat_result:
        status = fstat(file)
        with path.open("ab") as more:
            more.write(b"x")
        return status

    monkeypatch.setattr("kifu.records.directory.os.fstat", grow)
    with pytest.raises(SourceError, match=r"a\.sgf: it changed while it was read$"):
        list(blocks(tmp_path))


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("hole", [512, 100 << 10])
def test_zero_bytes_inside_a_tar_are_reported(tmp_path: Path, hole: int, packed: bool) -> None:
    path = tarred(tmp_path / "a.tar", RECORDS[:4])
    one = 512 + (len(RECORDS[0]) + 511) // 512 * 512
    data = path.read_bytes()
    data = data[: 2 * one] + bytes(hole) + data[2 * one :]
    path.write_bytes(gzip.compress(data) if packed else data)
    found = []
    with pytest.raises(SourceError) as error:
        found += [bytes(block.data[a:b]) for block in blocks(path) for a, b in zip(block.start, block.stop)]
    assert str(error.value) == f"{path}: the tar goes on after its end mark at byte {2 * one}"


@pytest.mark.parametrize("padding", [0, 512, 10_240, 5 << 20])
def test_zero_bytes_after_a_tar_are_padding(tmp_path: Path, padding: int) -> None:
    path = tarred(tmp_path / "a.tar", RECORDS[:4])
    path.write_bytes(path.read_bytes().rstrip(b"\0") + bytes(1024 + 512 - 3 + padding))
    assert sum(len(block) for block in blocks(path)) == 4
