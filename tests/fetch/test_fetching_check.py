"""The check that a downloaded file is complete, before it is renamed."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import lzma
import random
import re
from itertools import count
from pathlib import Path

import pytest

from collection_sites import POINTER, seven_zip
from http_server import tar_gz, zipped
from kifu.fetch import fetching

TAR = gzip.decompress(tar_gz("check"))
LIMIT = 4 << 30


WHOLE = {
    "tar.gz": gzip.compress(TAR, 1),
    "tar.bz2": bz2.compress(TAR, 1),
    "gz": gzip.compress(b'{"game_id": 1}\n' * 999, 1),
    "xz": lzma.compress(b"(;GM[1];B[pd])\n" * 999),
    "zip": zipped(),
    "7z": seven_zip(),
    "7z.001": seven_zip()[:90],
}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("2025-01-01sgfs.tar.bz2", "tar.bz2"),
        ("KGS-2006-19-1-.tar.gz", "tar.gz"),
        ("sample-1k.json.gz", "gz"),
        ("all.sgf.xz", "xz"),
        ("9d.7z", "7z"),
        ("1d.7z.001", "7z.001"),
        ("1d.7z.002", ""),
        ("2003-09", ""),
        ("a.zip\n", ""),
    ],
)
def test_kinds_by_name(name: str, kind: str) -> None:
    assert fetching.kind_of(name) == kind


@pytest.mark.parametrize(
    ("kind", "body", "reason"),
    [
        *((kind, body, "") for kind, body in WHOLE.items()),
        *((kind, body[:-1], "") for kind, body in WHOLE.items() if kind == "7z.001"),
        ("tar.gz", gzip.compress(TAR[:5000]) + gzip.compress(TAR[5000:]) + bytes(100), ""),
        ("tar.gz", gzip.compress(TAR) + b"more" * 9, "the compressed data is damaged"),
        ("tar.gz", gzip.compress(TAR)[:-1], "ends too early"),
        ("tar.gz", gzip.compress(TAR)[:-8] + bytes(8), "the compressed data is damaged"),
        ("tar.gz", gzip.compress(b"hello" * 1000), "there is no tar file in it"),
        ("tar.gz", gzip.compress(b"hello"), "there is no tar file in it"),
        ("tar.gz", gzip.compress(b""), "there is no tar file in it"),
        ("tar.gz", bz2.compress(TAR), "it begins with b'BZh"),
        ("tar.gz", b"", "it begins with b''"),
        ("tar.bz2", bz2.compress(TAR)[:-1], "ends too early"),
        ("tar.bz2", bz2.compress(TAR)[:5000] + b"x" + bz2.compress(TAR)[5001:], "the compressed data is damaged"),
        ("tar.bz2", b"BZhello", "its header is damaged"),
        ("gz", WHOLE["gz"][:-9], "ends too early"),
        ("xz", WHOLE["xz"][:-9], "ends too early"),
        ("xz", WHOLE["xz"][:40] + b"x" + WHOLE["xz"][41:], "the compressed data is damaged"),
        ("zip", zipped()[:-1], "not a zip file"),
        ("zip", zipped()[:60] + b"x" + zipped()[61:], "member 'kgs/0.sgf' is damaged|while decompressing"),
        ("zip", zipped() + b"x" * 70_000, "not a zip file"),
        ("7z", WHOLE["7z"][:-1], "it has 184 bytes, and its header says 185"),
        ("7z", WHOLE["7z"] + b"x", "it has 186 bytes, and its header says 185"),
        ("7z", WHOLE["7z"][:-1] + b"x", "its list of members is damaged"),
        ("7z", WHOLE["7z"][:20] + b"x" + WHOLE["7z"][21:], "its header is damaged"),
        ("7z", WHOLE["7z"][:20], "a buffer of 32 bytes"),
        ("7z", b"<html>no</html>", "not a 7z archive: it begins with b'<html>no</html>'"),
        ("7z.001", WHOLE["7z.001"][:20] + b"x" + WHOLE["7z.001"][21:], "its header is damaged"),
        ("7z.001", b"Not Found", "not a 7z.001 archive: it begins with b'Not Found'"),
        ("7z", POINTER, "^a Git LFS pointer, not the file itself; get the file with 'git lfs pull' in a clone"),
        ("", POINTER, "^a Git LFS pointer"),
        ("", b"anything", ""),
    ],
    ids=count(),  # gzip writes the time
)
def test_check_of_a_file(tmp_path: Path, kind: str, body: bytes, reason: str) -> None:
    (tmp_path / "file").write_bytes(body)
    said = fetching.find_damage(tmp_path / "file", kind, LIMIT)
    assert re.search(reason, said) if reason else said == ""
    assert not said or said.startswith((f"not a {kind} archive", f"not a complete {kind}", "a Git LFS pointer"))


@pytest.mark.parametrize("kind", WHOLE)
def test_any_bytes_are_checked_without_another_exception(tmp_path: Path, kind: str) -> None:
    draw = random.Random(kind)
    for _ in range(150):
        body = bytearray(WHOLE[kind])
        for _ in range(draw.randint(1, 3)):
            body[draw.choice([draw.randrange(4, len(body)), -draw.randint(1, min(len(body), 200))])] = draw.choice(
                [0, 255, draw.randrange(256)]
            )
        (tmp_path / "file").write_bytes(body)
        assert "\n" not in fetching.find_damage(tmp_path / "file", kind, LIMIT)


@pytest.mark.parametrize("kind", ["tar.gz", "tar.bz2", "gz", "xz", "zip"])
def test_a_file_that_unpacks_to_too_much_is_refused(tmp_path: Path, kind: str) -> None:
    bomb = {
        "tar.gz": gzip.compress(bytes(3 << 20)),
        "tar.bz2": bz2.compress(bytes(3 << 20)),
        "gz": gzip.compress(bytes(3 << 20)),
        "xz": lzma.compress(bytes(3 << 20)),
        "zip": zipped(),
    }
    (tmp_path / "file").write_bytes(bomb[kind])
    assert fetching.find_damage(tmp_path / "file", kind, 100) == "it unpacks to more than the 1,600 bytes allowed"


def test_a_long_directory_of_a_zip_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(zipped())
    monkeypatch.setattr(fetching, "_DIRECTORY_LIMIT", 100)
    assert "its list of members has more than the 100 bytes allowed" in fetching.find_damage(
        tmp_path / "file", "zip", LIMIT
    )


def test_checksums(tmp_path: Path) -> None:
    """The SHA-1 of a git blob is that of `git hash-object`."""
    (tmp_path / "file").write_bytes(b"hello\n")
    assert not fetching.differs(tmp_path / "file", "git:ce013625030ba8dba906f756967f9e9ca394464a")
    assert not fetching.differs(tmp_path / "file", f"sha256:{hashlib.sha256(b'hello' + bytes([10])).hexdigest()}")
    (tmp_path / "file").write_bytes(b"hellp\n")
    assert fetching.differs(tmp_path / "file", "git:ce013625030ba8dba906f756967f9e9ca394464a")
    assert fetching.differs(tmp_path / "file", f"sha256:{hashlib.sha256(b'hello' + bytes([10])).hexdigest()}")
