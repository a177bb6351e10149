"""The check that a downloaded archive is complete, before it is renamed."""

from __future__ import annotations

import bz2
import gzip
import random
import re
from itertools import count
from pathlib import Path

import pytest

from http_server import tar_gz, zipped
from kifu.fetch import _download

TAR = gzip.decompress(tar_gz("check"))


@pytest.mark.parametrize(
    ("kind", "body", "reason"),
    [
        ("tar.gz", gzip.compress(TAR), ""),
        ("tar.gz", gzip.compress(TAR[:5000]) + gzip.compress(TAR[5000:]) + bytes(100), ""),
        ("tar.gz", gzip.compress(TAR) + b"more" * 9, "Not a gzipped file"),
        ("tar.gz", gzip.compress(TAR)[:-1], "it ends too early"),
        ("tar.gz", gzip.compress(TAR)[:-8] + bytes(8), "CRC check failed"),
        ("tar.gz", gzip.compress(b"hello" * 1000), "there is no tar file in it"),
        ("tar.gz", gzip.compress(b"hello"), "there is no tar file in it"),
        ("tar.gz", gzip.compress(b""), "there is no tar file in it"),
        ("tar.gz", bz2.compress(TAR), "it begins with b'BZh"),
        ("tar.gz", b"", "it begins with b''"),
        ("tar.bz2", bz2.compress(TAR), ""),
        ("tar.bz2", bz2.compress(TAR)[:-1], "it ends too early"),
        ("tar.bz2", bz2.compress(TAR)[:5000] + b"x" + bz2.compress(TAR)[5001:], "Invalid data stream"),
        ("zip", zipped(), ""),
        ("zip", zipped()[:-1], "not a zip file"),
        ("zip", zipped()[:60] + b"x" + zipped()[61:], "member 'kgs/0.sgf' is damaged|while decompressing"),
        ("zip", zipped() + b"x" * 70_000, "not a zip file"),
    ],
    ids=count(),  # gzip writes the time
)
def test_check_of_an_archive(tmp_path: Path, kind: str, body: bytes, reason: str) -> None:
    (tmp_path / "file").write_bytes(body)
    said = _download.find_damage(tmp_path / "file", kind)
    assert re.search(reason, said) if reason else said == ""
    assert not said or said.startswith((f"not a {kind} archive", f"not a complete {kind}"))


@pytest.mark.parametrize("kind", ["tar.gz", "tar.bz2", "zip"])
def test_any_bytes_are_checked_without_another_exception(tmp_path: Path, kind: str) -> None:
    whole = {"tar.gz": gzip.compress(TAR, 1), "tar.bz2": bz2.compress(TAR, 1), "zip": zipped()}[kind]
    draw = random.Random(kind)
    for _ in range(150):
        body = bytearray(whole)
        for _ in range(draw.randint(1, 3)):
            body[draw.choice([draw.randrange(4, len(body)), -draw.randint(1, 200)])] = draw.choice(
                [0, 255, draw.randrange(256)]
            )
        (tmp_path / "file").write_bytes(body)
        assert "\n" not in _download.find_damage(tmp_path / "file", kind)


def test_archives_that_unpack_to_too_much_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind, body in (("tar.gz", gzip.compress(TAR)), ("tar.bz2", bz2.compress(TAR)), ("zip", zipped())):
        (tmp_path / "file").write_bytes(body)
        monkeypatch.setattr(_download, "UNPACKED_LIMIT", 3000)
        assert _download.find_damage(tmp_path / "file", kind) == "it unpacks to more than the 3,000 bytes allowed"
        monkeypatch.undo()
    monkeypatch.setattr(_download, "_DIRECTORY_LIMIT", 100)
    assert "its list of members has more than the 100 bytes allowed" in _download.find_damage(tmp_path / "file", "zip")
