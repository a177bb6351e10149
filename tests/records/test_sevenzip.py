"""7z archives are read like tar and zip archives, whole or in volumes, with bounded memory."""

import hashlib
import json
import random
import struct
import subprocess
import sys
import threading
from collections import Counter
from itertools import chain, islice
from pathlib import Path

import pytest

import kifu
from commands import run
from http_server import Site
from kgs_archives import records
from kifu.corpus import sources
from kifu.corpus.sources import find_sources, hash_sources
from kifu.errors import DropReason, SourceError
from kifu.execution.executor import Executor
from kifu.io import hash_file
from kifu.records import _sevenzip
from kifu.records.containers import blocks, count_blocks, find_containers
from kifu.records.paths import AnyPath, as_path
from marks import slow, thorough
from sevenzips import (
    COPY,
    LZMA2,
    PPMD,
    codecs,
    encoded,
    entry,
    files,
    handmade,
    made,
    number,
    packed_with,
    raw_lzma2,
    streams,
    volumes,
)

SGF = b"(;GM[1]FF[4]SZ[19];B[pd];W[dp])"
GAMES = [(f"games/{k:03}.sgf", game) for k, game in enumerate(records(40))]

Row = tuple[int, str, bytes, int]


def read(path: AnyPath, block_bytes: int = 1 << 20) -> list[Row]:
    return [
        (int(block.member[k]), block.name(k), block.data[block.start[k] : block.stop[k]].tobytes(), int(block.drop[k]))
        for block in blocks(path, block_bytes=block_bytes)
        for k in range(len(block))
    ]


def put(folder: Path, data: bytes, name: str = "games.7z") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def refusal(path: Path) -> str:
    with pytest.raises(SourceError) as raised:
        read(path)
    message = str(raised.value)
    assert message.isprintable()
    return message.removeprefix(f"{path}: ")


@pytest.mark.parametrize("name", [*slow("Pro2.7z"), "made-lzma1-x86.7z"])
def test_samples_match_their_references(shared: Path, name: str) -> None:
    listed = json.loads((shared / "reference/formats/7z.json").read_text("utf-8"))["files"]
    (reference,) = (each for each in listed if each["file"].endswith(f"/{name}"))
    rows = read(shared / "data/formats/7z" / name)
    assert len(rows) == reference["files_unpacked"]
    assert sum(len(data) for _, _, data, _ in rows) == reference["unpacked"]
    for row, first in zip(rows, reference["first_members"]):
        assert (row[1], hashlib.sha256(row[2]).hexdigest()) == (first["name"], first["sha256"])
    digest = hashlib.sha256()
    for _, member, data, _ in rows:
        digest.update(member.encode() + b"\0" + hashlib.sha256(data).digest())
    assert digest.hexdigest() == reference["sha256_of_name0digest_in_order"]
    games = list(kifu.read(shared / "data/formats/7z" / name))
    assert len(games) == len(rows)
    assert all(not game.drop and len(game.moves) for game in games)


METHODS = ["lzma", "lzma2", "bcj+lzma", "bcj+lzma2", "delta+lzma2", "ppmd", "bzip2", "bcj+bzip2", "deflate", "zstd"]


@pytest.mark.parametrize(
    "method",
    [
        *(each for each in METHODS if each != "ppmd"),
        "brotli",
        "copy",
        pytest.param("ppmd", marks=pytest.mark.subprocess),
    ],
)
def test_all_methods(tmp_path: Path, method: str) -> None:
    members = [*GAMES, ("noise.sgf", random.Random(1).randbytes(200_000)), ("zeros.sgf", bytes(300_000))]
    path = put(tmp_path, made(members + GAMES, codecs()[method]))
    expected = [(k, name, data, 0) for k, (name, data) in enumerate(members + GAMES)]
    assert read(path) == expected
    assert read(path, 5000) == expected


@pytest.mark.subprocess
def test_damaged_ppmd_is_an_error(tmp_path: Path) -> None:
    """Its decoder crashes on some damaged data, so it runs in a process of its own."""
    data = made(GAMES, codecs()["ppmd"], plain_header=True)
    for seed in range(4):
        draw = random.Random(seed)
        damaged = bytearray(data)
        for at in draw.choices(range(40, 1000), k=3):
            damaged[at] ^= draw.randrange(1, 256)
        assert refusal(put(tmp_path, bytes(damaged))).startswith("the 7z is damaged")


def test_each_method_is_tested() -> None:
    assert [*METHODS, "brotli", "copy"] == list(codecs())


@pytest.mark.parametrize("solid", [True, False])
def test_members_that_are_not_records_count(tmp_path: Path, solid: bool) -> None:
    members = [
        ("games", None), ("games/a.sgf", SGF), ("README.md", b"text"), ("games/empty.sgf", b""),
        ("games/._a.sgf", b"junk"), ("games/b.SGF", SGF * 2), ("empty.md", b""), ("c.sgf", None), ("d.sgf", SGF * 3),
    ]  # fmt: skip
    expected = [
        (1, "games/a.sgf", SGF, 0),
        (3, "games/empty.sgf", b"", 0),
        (5, "games/b.SGF", SGF * 2, 0),
        (8, "d.sgf", SGF * 3, 0),
    ]
    path = put(tmp_path, handmade(members, solid=solid))
    for block_bytes in (1, 100, 1 << 20):
        assert read(path, block_bytes) == expected
        left_out = sum((block.left_out for block in blocks(path, block_bytes=block_bytes)), Counter())
        assert left_out == {".md": 2, "AppleDouble": 1}
        count = count_blocks(path, block_bytes=block_bytes)
        assert count == (len(list(blocks(path, block_bytes=block_bytes))), False)
        for first in range(count[0] + 2):
            found = [block.name(0) for block in blocks(path, block_bytes=block_bytes, first=first)]
            assert found == [block.name(0) for block in blocks(path, block_bytes=block_bytes)][first:]


def test_archives_without_records(tmp_path: Path) -> None:
    for data in (packed_with(b""), handmade([]), handmade([("a", None), ("b.sgf", None)]), made([])):
        assert read(put(tmp_path, data)) == []
    assert count_blocks(put(tmp_path, made([]))) == (0, False)
    (block,) = blocks(put(tmp_path, handmade([("README.md", b"text")])))
    assert (len(block), block.left_out) == (0, {".md": 1})


def test_names_are_never_paths(tmp_path: Path) -> None:
    names = [
        "../../x.sgf", "/etc/x.sgf", "C:\\x.sgf", "a/../a.sgf", "\u56f2\u7881.sgf", "\ud800.sgf", "x" * 70_000 + ".sgf",
    ]  # fmt: skip
    path = put(tmp_path, handmade([(name, SGF) for name in [*names, "same.sgf", "same.sgf"]]))
    found = [row[1] for row in read(path)]
    assert found[:3] == ["../../x.sgf", "/etc/x.sgf", "C:/x.sgf"]
    assert found[5:] == ["\\xed\\xa0\\x80.sgf", names[6], "same.sgf", "same.sgf"]
    assert [entry.name for entry in tmp_path.iterdir()] == ["games.7z"]
    nul = put(tmp_path, handmade([("a.sgf\0b.sgf", SGF)]))
    assert refusal(nul) == "the 7z is damaged: its header has 2 names for 1 members"
    odd = put(tmp_path, handmade([("a.sgf", SGF)], names=b"a\0\0"))
    assert refusal(odd) == "the 7z is damaged: its header has names that are not UTF-16"


def test_links_are_left_out(tmp_path: Path) -> None:
    attributes = struct.pack("<2L", 0o120777 << 16 | 0x8000, 0o100644 << 16 | 0x8000)
    path = put(tmp_path, handmade([("link.sgf", b"a.sgf"), ("a.sgf", SGF)], more=entry(0x15, b"\1\0" + attributes)))
    assert read(path) == [(1, "a.sgf", SGF, 0)]
    assert [block.left_out for block in blocks(path)] == [{"link": 1}]
    some = entry(0x15, b"\0\x40\0" + attributes[:4])  # of the second member only
    assert [row[1] for row in read(put(tmp_path, handmade([("a.sgf", SGF), ("b.sgf", SGF)], more=some)))] == ["a.sgf"]


def test_large_members_are_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_sevenzip, "MEMBER_LIMIT", 100)
    path = put(tmp_path, made([("a.sgf", SGF), ("large.sgf", bytes(101)), ("b.sgf", bytes(100))]))
    large = (1, "large.sgf", b"", int(DropReason.TOO_LARGE))
    assert read(path) == [(0, "a.sgf", SGF, 0), large, (2, "b.sgf", bytes(100), 0)]


@pytest.mark.parametrize("count", [2, 7])
def test_volumes(tmp_path: Path, count: int) -> None:
    data = made(GAMES)
    paths = [put(tmp_path, part, f"a.7z.{k + 1:03}") for k, part in enumerate(volumes(data, count))]
    whole = put(tmp_path, data, "whole.7z")
    assert read(paths[0]) == read(whole)
    assert find_containers(tmp_path).paths == [paths[0], whole]
    with Executor(1) as executor:
        joined, single = (each.info for each in hash_sources(find_sources([paths[0], whole]), executor))
    assert (joined["bytes"], joined["blake3"]) == (len(data), hash_file(whole))
    assert joined | {"name": ""} == single | {"name": ""}
    alone = put(tmp_path, data, "alone.7z.001")
    assert read(alone) == read(whole)
    paths[-1].unlink()
    assert refusal(paths[0]) == f"volume a.7z.{count:03} is missing or empty"
    put(tmp_path, b"", f"a.7z.{count:03}")
    assert refusal(paths[0]) == f"volume a.7z.{count:03} is missing or empty"


def test_encrypted_archives_are_refused(tmp_path: Path) -> None:
    encrypted = "the 7z is encrypted, which is not supported"
    assert refusal(put(tmp_path, made(GAMES[:3], password="secret"))) == encrypted
    assert refusal(put(tmp_path, made(GAMES[:3], password="secret", header_encryption=True))) == encrypted


def test_truncated_archives_are_refused(tmp_path: Path) -> None:
    data = made(GAMES[:2])
    for size in range(7, len(data)):
        assert refusal(put(tmp_path, data[:size])).startswith("the 7z is cut off"), size
    assert refusal(put(tmp_path, data[:40])) == f"the 7z is cut off: it should have {len(data)} bytes, and has 40"


@pytest.mark.slow
def test_damage_is_one_line(tmp_path: Path) -> None:
    data = made(GAMES[:2])
    expected = read(put(tmp_path, data))
    refused = 0
    for at in range(8, len(data)):  # after the minor version
        path = put(tmp_path, data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :])
        try:
            assert read(path) == expected  # the end mark of LZMA2 is not needed
        except SourceError as error:
            refused += str(error).startswith(f"{path}: the 7z is damaged")
    assert refused > len(data) - 40
    assert refusal(put(tmp_path, data[:6] + b"\1" + data[7:])) == "version 1 of 7z is not supported"
    plain = handmade(GAMES[:3])
    at = plain.index(GAMES[1][1])
    path = put(tmp_path, plain[:at] + b"x" + plain[at + 1 :])
    (block,) = islice(blocks(path), 1)
    assert [block.name(k) for k in range(len(block))] == ["games/000.sgf"]
    assert refusal(path) == "the 7z is damaged: games/001.sgf does not match its checksum"


HUGE = 1 << 60


def bombs() -> dict[str, tuple[bytes, str]]:
    """Archives that claim more than they have, and a part of their refusals."""
    members = [("a.sgf", SGF), ("b.sgf", SGF)]
    listed = b"\1\4" + streams([len(SGF)], [(COPY, len(SGF), [len(SGF)])])
    ppmd = PPMD + struct.pack("<BL", 6, 0xFFFFFFFF)
    lzma2 = LZMA2 + bytes([40])

    def packed(coder: bytes, size: int, sizes: list[int], content: bytes = b"") -> bytes:
        described = streams([len(content)], [(coder, size, sizes)])
        return packed_with(b"\1\4" + described + files(members[: len(sizes)]) + b"\0", content)

    zeros = raw_lzma2(bytes(1 << 20))
    return {
        "members": (packed_with(listed + b"\5" + number(HUGE) + b"\0\0"), "the number 1,152,921,504,606,846,976"),
        "a million nameless members": (encoded(b"\1\5" + number(1 << 20) + b"\0\0"), "members for 0 contents"),
        "folders": (packed_with(b"\1\4\7\x0b" + number(HUGE)), "the number 1,152,921,504,606,846,976"),
        "coders": (
            encoded(b"\1\4\7\x0b" + number(1 << 20) + b"\0" + (b"\x08" + COPY * 8 + bytes(14)) * (1 << 18)),
            "is cut off, or has wrong sizes",
        ),
        "streams": (packed_with(b"\1\4\6\0" + number(1 << 20) + b"\x09"), "its header is cut off"),
        "members of a folder": (
            packed_with(b"\1\4" + streams([0], [(COPY, 0, [])])[:-4] + number(HUGE) + b"\0\0\0"),
            "more than 2,097,152 members",
        ),
        "dictionary": (
            packed(lzma2, 1 << 40, [9, (1 << 40) - 9]),
            "requires 4,096 MiB of memory, the limit is 512 MiB",
        ),
        "model": (packed(ppmd, 100, [100]), "requires 4,095 MiB of memory, the limit is 512 MiB"),
        "header": (
            packed_with(b"\x17" + streams([9], [(LZMA2 + b"\x18", HUGE, [HUGE])]), bytes(9)),
            "the header of the 7z has 1,152,921,504,606,846,976 bytes, the limit is 67,108,864",
        ),
        "member": (packed(LZMA2 + b"\x18", 2 << 20, [1 << 20, 1 << 20], zeros), "cannot be unpacked"),
        "large member": (packed(LZMA2 + b"\x18", HUGE + 9, [HUGE, 9], zeros), "cannot be unpacked"),
        "header in itself": (packed_with(b"\x17" * 40), "an entry of type 23 in place of"),
    }


@pytest.mark.parametrize("name", list(bombs()))
def test_claims_are_checked(tmp_path: Path, name: str) -> None:
    data, part = bombs()[name]
    assert part in refusal(put(tmp_path, data))


@pytest.mark.subprocess
def test_zeros_are_fed_to_ppmd_for_a_bounded_time(tmp_path: Path) -> None:
    """Its decoder is given zeros once the data ends."""
    content = made([("a.sgf", SGF)], codecs()["ppmd"], plain_header=True)
    packed = content[32 : content.index(b"\1\4\6")]
    coder = PPMD + struct.pack("<BL", 6, 1 << 20)
    described = streams([len(packed)], [(coder, 1 << 40, [1 << 28, (1 << 40) - (1 << 28)])])
    header = b"\1\4" + described + files([("a.sgf", b"x"), ("b.sgf", b"x")]) + b"\0"
    assert refusal(put(tmp_path, packed_with(header, packed)))


PEAK = """
import resource, sys
from kifu.errors import SourceError
from kifu.records.containers import blocks

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10

next(blocks(sys.argv[1]))
before = peak()
try:
    read = sum(int((block.stop - block.start).sum()) for block in blocks(sys.argv[2]))
except SourceError:
    read = -1
print(read, peak() - before)
"""


def peak_of(path: Path, small: Path) -> tuple[int, int]:
    """Return the bytes of all records, -1 if they end with an error, and by how many MiB the peak of memory grows."""
    done = subprocess.run([sys.executable, "-c", PEAK, small, path], capture_output=True, text=True, check=True)
    read, grown = map(int, done.stdout.split())
    return read, grown


@pytest.mark.subprocess
@pytest.mark.parametrize("method", [*slow("zstd", "lzma2", "bcj+lzma", "bzip2", "deflate"), *thorough("ppmd")])
def test_memory_does_not_grow_with_the_archive(tmp_path: Path, method: str) -> None:
    small = put(tmp_path, made(GAMES, codecs()[method]), "small.7z")
    piece = bytes(8 << 20)
    members = [(f"{k}.{'sgf' if k % 2 else 'txt'}", piece) for k in range(40)]
    read, grown = peak_of(put(tmp_path, made(members, codecs()[method])), small)
    assert read == 20 * len(piece)
    assert grown < 80


@pytest.mark.slow
@pytest.mark.subprocess
def test_memory_for_many_members(tmp_path: Path) -> None:
    """A small archive, whose header unpacks to 5 MB."""
    count = 2_000_000
    header = b"\1\5" + number(count) + entry(0x0E, b"\xff" * (count // 8)) + entry(0x0F, b"\xff" * (count // 8))
    path = put(tmp_path, encoded(header + entry(0x11, b"\0" + bytes(2 * count)) + b"\0\0"))
    assert path.stat().st_size < 20_000
    assert peak_of(path, put(tmp_path, made(GAMES), "small.7z"))[1] < 300


def test_closing_early_leaves_nothing(tmp_path: Path) -> None:
    path = put(tmp_path, made(GAMES))
    before, descriptors = threading.enumerate(), len(list(Path("/proc/self/fd").iterdir()))
    found = blocks(path, block_bytes=1000)
    next(found)
    found.close()  # type: ignore[attr-defined]
    assert threading.enumerate() == before
    assert len(list(Path("/proc/self/fd").iterdir())) == descriptors


def test_every_command_reads_7z(tmp_path: Path) -> None:
    path = put(tmp_path, made(GAMES))
    catalogue = tmp_path / "games.parquet"
    assert run("ingest", path, "-o", catalogue).code == 0
    assert len(list(kifu.read(path))) == len(list(kifu.read(catalogue))) == len(GAMES)
    assert run("show", path, "--game", "3").code == 0
    assert run("convert", path, "-o", tmp_path / "all.olf").code == 0
    assert run("build", "agz17", path, "-o", tmp_path / "data", "--set", "clean=legal").code == 0
    folder = tmp_path / "folder"
    folder.mkdir()
    put(folder, path.read_bytes())
    (folder / "loose.sgf").write_bytes(SGF)
    assert [game.name for game in kifu.read(folder)][:2] == ["loose.sgf", "games/000.sgf"]


def test_without_py7zr(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(tmp_path, made(GAMES))
    monkeypatch.setitem(sys.modules, "py7zr.compressor", None)
    done = run("ingest", path, "-o", tmp_path / "games.parquet")
    assert (done.code, done.err[-1:]) == (2, ["kifu: py7zr is required: pip install 'kifu[7z]'"])


def test_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each shard, also one from the middle, can be read without the others."""
    monkeypatch.setattr(sources, "_SMALL_BYTES", 1000)
    monkeypatch.setattr(sources, "_SHARD_BLOCKS", 1)
    monkeypatch.setattr(sources, "count_blocks", lambda path: count_blocks(path, block_bytes=2000))
    monkeypatch.setattr(sources, "readable_blocks", lambda path, first: blocks(path, block_bytes=2000, first=first))
    for count in (1, 3):
        parts = volumes(made(GAMES), count)
        (path, *_) = [put(tmp_path, part, f"{count}.7z.{k + 1:03}") for k, part in enumerate(parts)]
        shards = list(sources.archive_shards(path))
        assert len(shards) == 5
        reader = sources.ShardReader()
        found = [[block.name(k) for block in reader.read(shard) for k in range(len(block))] for shard in shards]
        assert [*chain(*found)] == [name for name, _ in GAMES]
        middle = [block.name(k) for block in sources.ShardReader().read(shards[2]) for k in range(len(block))]
        assert middle == found[2] != []


@pytest.mark.usefixtures("cache")
def test_remote(site: Site, tmp_path: Path) -> None:
    data = made(GAMES)
    expected = read(put(tmp_path, data))
    site.files["/games.7z"] = data
    for k, part in enumerate(volumes(data, 3)):
        site.files[f"/games.7z.{k + 1:03}?signature=s3cr3t"] = part
    assert read(as_path(f"{site.url}/games.7z")) == expected
    assert read(as_path(f"{site.url}/games.7z.001?signature=s3cr3t")) == expected
    del site.files["/games.7z.003?signature=s3cr3t"]
    with pytest.raises(SourceError, match=r"volume games\.7z\.003 is missing or empty$"):
        read(as_path(f"{site.url}/games.7z.001?signature=s3cr3t"))
