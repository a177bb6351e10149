"""Compare containers with Python's tarfile and zipfile, and test damaged, hostile and unusual ones."""

import bz2
import errno
import gzip
import io
import lzma
import os
import random
import struct
import tarfile
import tracemalloc
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kifu
from kgs_archives import put
from kifu.errors import DropReason, SourceError
from kifu.records import _streams
from kifu.records.containers import blocks, containers, find_containers
from kifu.records.games import RecordBlock, describe_left_out
from kifu.records.paths import LocalFile
from record_samples import END, OLF_LINE, SGF, TAIL, one_member_zip, pax_entry, small_archives, tar_entry

Row = tuple[int, bytes, bytes, int]  # ordinal, name, content, drop

SIZES = (4096, 100_000, 16 << 20)


def rows_of(some: list[RecordBlock]) -> list[Row]:
    return [
        (
            int(block.member[k]),
            block.names[block.name_offset[k] : block.name_offset[k + 1]].tobytes(),
            block.data[block.start[k] : block.stop[k]].tobytes(),
            int(block.drop[k]),
        )
        for block in some
        for k in range(len(block))
    ]


def read(path: Path, block_bytes: int = 16 << 20) -> list[Row]:
    return rows_of(list(blocks(path, block_bytes=block_bytes)))


def read_until_error(path: Path, block_bytes: int = 16 << 20) -> tuple[list[Row], str]:
    delivered: list[RecordBlock] = []
    try:
        for block in blocks(path, block_bytes=block_bytes):
            delivered.append(block)
    except SourceError as error:
        return rows_of(delivered), str(error)
    return rows_of(delivered), ""


def is_record(name: bytes, data: bytes) -> bool:
    base = name.rpartition(b"/")[2].lower()
    if not base or base.startswith(b"._"):
        return False
    return base.endswith(b".sgf") or ((b"." not in base or base.endswith(b".txt")) and SGF in data)


def content(k: int, size: int) -> bytes:
    return random.Random(k).randbytes(size)


def member_content(k: int, name: str, size: int) -> bytes:
    return (SGF + content(k, size))[:size] if name in ("games/noextension", "games/one.txt") else content(k, size)


NAMES_AND_SIZES = [
    ("games/a.sgf", 700),
    ("games/empty.sgf", 0),
    ("games/UPPER.SGF", 512),
    ("README.txt", 1000),
    ("games/noextension", 513),
    ("games/one.txt", 514),
    ("LICENSE", 100),
    ("games/.DS_Store", 6148),
    ("games/._a.sgf", 163),
    ("games/two.dots.sgf", 511),
    ("games/version 2.0", 80),
    ("games/" + "d" * 90 + "/" + "f" * 60 + ".sgf", 1500),
    ("games/名人戦.sgf", 300),
    ("games/\udcc3\udce3\udcc8\udccb.sgf", 310),
    ("games/large.sgf", 20_000),
    ("games/later.sgf", 900),
]


def build_tar(format: int) -> bytes:
    """Return a tar with every kind of member that tarfile can write in this format."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=format, errors="surrogateescape") as tar:
        folder = tarfile.TarInfo("games")
        folder.type = tarfile.DIRTYPE
        tar.addfile(folder)
        for k, (name, size) in enumerate(NAMES_AND_SIZES):
            info = tarfile.TarInfo(name)
            info.size = size
            info.mtime = 1.5 if format == tarfile.PAX_FORMAT else 1
            tar.addfile(info, io.BytesIO(member_content(k, name, size)))
        for kind, name in ((tarfile.SYMTYPE, "link.sgf"), (tarfile.LNKTYPE, "hard.sgf"), (tarfile.FIFOTYPE, "fifo")):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "games/" + ("x" * 150 if format != tarfile.USTAR_FORMAT else "a.sgf")
            tar.addfile(info)
        if format != tarfile.USTAR_FORMAT:
            info = tarfile.TarInfo("/".join(["deep" * 20] * 12) + "/very long.sgf")
            info.size = 5000
            tar.addfile(info, io.BytesIO(content(99, 5000)))
    return file.getvalue()


def read_with_tarfile(path: Path) -> list[Row]:
    with tarfile.open(path, encoding="utf-8", errors="surrogateescape") as tar:
        rows = []
        for k, info in enumerate(tar.getmembers()):
            name = info.name.encode("utf-8", "surrogateescape")
            if info.isreg() and is_record(name, data := tar.extractfile(info).read()):  # type: ignore[union-attr]
                rows.append((k, name, data, 0))
        return rows


def read_with_zipfile(path: Path) -> list[Row]:
    with zipfile.ZipFile(path) as archive:
        rows = []
        for k, info in enumerate(archive.infolist()):
            name = info.orig_filename.encode("utf-8" if info.flag_bits & 0x800 else "cp437")
            if is_record(name, archive.read(info)):
                rows.append((k, name, archive.read(info), 0))
        return rows


# Tar


COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    "": lambda data: data, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress,
}  # fmt: skip
FORMATS = {"ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}


@pytest.mark.parametrize("suffix", COMPRESSORS)
@pytest.mark.parametrize("format", FORMATS)
def test_tar_matches_tarfile(tmp_path: Path, format: str, suffix: str) -> None:
    path = put(tmp_path / ("archive.tar" + suffix), COMPRESSORS[suffix](build_tar(FORMATS[format])))
    expected = read_with_tarfile(path)
    assert len(expected) == 11 + (format != "ustar")
    for block_bytes in SIZES:
        assert read(path, block_bytes) == expected


def test_format_is_detected_by_content(tmp_path: Path) -> None:
    data = build_tar(tarfile.GNU_FORMAT)
    expected = read_with_tarfile(put(tmp_path / "true.tar", data))
    for name in ("games.sgf", "games", "games.json", "games.zip", "games.tar.bz2"):
        assert read(put(tmp_path / name, data)) == expected
        assert read(put(tmp_path / name, gzip.compress(data))) == expected


ODD_TARS = {
    "base 256 size": tar_entry(b"a.sgf", SGF, changes=((124, b"\x80" + len(SGF).to_bytes(11, "big")),)),
    "size with spaces": tar_entry(b"a.sgf", SGF, changes=((124, b"%10o  " % len(SGF)),)),
    "old directory": tar_entry(b"folder/", kind=b"\0") + tar_entry(b"folder/a", SGF, kind=b"\0"),
    "no magic": tar_entry(b"a.sgf", SGF, kind=b"\0", changes=((257, bytes(88)),)),
    "contiguous file": tar_entry(b"a.sgf", SGF, kind=b"7"),
    "size of a link": tar_entry(b"l.sgf", kind=b"2", changes=((124, b"%011o\0" % 5000),)),
    "size of a folder": tar_entry(b"f/", kind=b"5", changes=((124, b"%011o\0" % 5000),)),
    "unknown type": tar_entry(b"volume.sgf", SGF, kind=b"M"),
    "pax path": pax_entry((b"path", b"renamed.sgf")) + tar_entry(b"a.txt", SGF),
    "pax size": pax_entry((b"size", b"%d" % len(SGF))) + tar_entry(b"a.sgf", SGF, changes=((124, b"%011o\0" % 0),)),
    "pax value with a line end": pax_entry((b"comment", b"\n11 path=b.c\n"), (b"size.x", b"9"), (b"path", b"a\nb.sgf"))
    + tar_entry(b"a.sgf", SGF),
    "solaris pax": pax_entry((b"path", b"renamed.sgf"), kind=b"X") + tar_entry(b"a.txt", SGF),
    "global pax": pax_entry((b"comment", b"whatever"), kind=b"g") + tar_entry(b"a.sgf", SGF),
    "gnu long name": tar_entry(b"././@LongLink", b"n" * 700 + b".sgf\0", b"L") + tar_entry(b"nnn", SGF),
    "gnu long link": tar_entry(b"././@LongLink", b"n" * 700 + b"\0", b"K") + tar_entry(b"l.sgf", kind=b"2"),
    "prefix": tar_entry(b"a.sgf", SGF, changes=((345, b"first/second"),)),
}


@pytest.mark.parametrize("name", ODD_TARS)
def test_odd_tars_match_tarfile(tmp_path: Path, name: str) -> None:
    path = put(tmp_path / "odd.tar", tar_entry(b"head.sgf", SGF) + ODD_TARS[name] + TAIL)
    expected = read_with_tarfile(path)
    assert read(path) == read(path, 1) == expected
    assert expected[-1][1] == b"tail.sgf"


def test_gnu_times_are_not_a_name_prefix(tmp_path: Path) -> None:
    gnu = tar_entry(b"a.sgf", SGF, changes=((257, b"ustar  \0"), (345, b"14720000000\0")))
    assert read(put(tmp_path / "gnu.tar", gnu + END)) == [(0, b"a.sgf", SGF, 0)]


def test_a_checksum_of_signed_bytes_is_accepted(tmp_path: Path) -> None:
    entry = bytearray(tar_entry(b"\xe9\xe8.sgf", SGF))
    signed = sum(byte - 256 * (byte > 127) for byte in entry[:148] + b" " * 8 + entry[156:512])
    entry[148:156] = b"%06o\0 " % signed
    assert read(put(tmp_path / "signed.tar", bytes(entry) + END)) == [(0, b"\xe9\xe8.sgf", SGF, 0)]


def test_sparse_members_are_unreadable(tmp_path: Path) -> None:
    more = bytearray(512)
    more[504] = 1
    old = tar_entry(b"old.sgf", SGF, b"S", changes=((257, b"ustar  \0"), (482, b"\1")))
    old = old[:512] + bytes(more) + bytes(512) + old[512:]
    new = pax_entry((b"GNU.sparse.major", b"1")) + tar_entry(b"new.sgf", SGF)
    path = put(tmp_path / "sparse.tar", old + new + TAIL)
    expected = [
        (0, b"old.sgf", b"", DropReason.UNREADABLE),
        (1, b"new.sgf", b"", DropReason.UNREADABLE),
        (2, b"tail.sgf", SGF, 0),
    ]
    assert read(path) == read(path, 1) == expected


def test_member_over_the_limit_is_not_read(tmp_path: Path) -> None:
    huge = 300 << 20
    path = tmp_path / "huge.tar"
    with path.open("wb") as file:  # a sparse file, which takes no disk space
        file.write(tar_entry(b"first.sgf", SGF))
        file.write(tar_entry(b"huge.sgf", changes=((124, b"%011o\0" % huge),)))
        file.seek(huge, os.SEEK_CUR)
        file.write(TAIL)
    rows, peak = traced(path, 1 << 20)
    assert rows == [(0, b"first.sgf", SGF, 0), (1, b"huge.sgf", b"", DropReason.TOO_LARGE), (2, b"tail.sgf", SGF, 0)]
    assert peak < 8 << 20


def traced(path: Path, block_bytes: int) -> tuple[list[Row], int]:
    read(path, block_bytes)  # compiles the kernels
    tracemalloc.start()
    try:
        rows = []
        for block in blocks(path, block_bytes=block_bytes):
            rows += rows_of([block])
        return rows, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


BAD_TARS = {
    "bad checksum": (tar_entry(b"b.sgf", SGF).replace(b"b.sgf", b"c.sgf"), "no valid tar header at byte 1024"),
    "no end mark": (b"", "the tar is cut off"),
    "half a header": (tar_entry(b"b.sgf", SGF)[:300], "the tar is cut off"),
    "half a member": (tar_entry(b"b.sgf", bytes(5000))[:4000], "the tar is cut off"),
    "negative size": (tar_entry(b"b.sgf", changes=((124, b"\xff" * 12),)) + END, "no valid tar header"),
    "size beyond all files": (
        tar_entry(b"b.sgf", changes=((124, b"\x80" + b"\x7f" * 11),)) + END,
        "no valid tar header",
    ),
    "size of no number": (tar_entry(b"b.sgf", changes=((124, b"12x45678901\0"),)) + END, "no valid tar header"),
    "endless name": (tar_entry(b"n", b"n" * (2 << 20), b"L") + tar_entry(b"b.sgf") + END, "no valid tar header"),
    "many names": (9 * tar_entry(b"n", b"name.sgf", b"L") + TAIL, "no valid tar header"),
    "endless sparse map": (
        tar_entry(b"s", b"", b"S", changes=((482, b"\1"),)) + (bytes(504) + b"\1" + bytes(7)) * 200 + TAIL,
        "no valid tar header",
    ),
    "name of nothing": (tar_entry(b"n", b"name", b"L") + END, "no valid tar header"),
    "pax without length": (tar_entry(b"x", b"path=a.sgf\n", b"x") + TAIL, "no valid tar header"),
    "pax length too long": (tar_entry(b"x", b"99 path=a.sgf\n", b"x") + TAIL, "no valid tar header"),
    "pax length too short": (tar_entry(b"x", b"3 path=a.sgf\n", b"x") + TAIL, "no valid tar header"),
    "pax length of 30 digits": (tar_entry(b"x", b"9" * 30 + b" path=a.sgf\n", b"x") + TAIL, "no valid tar header"),
    "pax without =": (tar_entry(b"x", b"8 path\n\n", b"x") + TAIL, "no valid tar header"),
    "pax size of no number": (tar_entry(b"x", b"11 size=-1\n", b"x") + TAIL, "no valid tar header"),
    "pax size beyond all files": (
        tar_entry(b"x", b"29 size=99999999999999999999\n", b"x") + TAIL,
        "no valid tar header",
    ),
}


@pytest.mark.parametrize("name", BAD_TARS)
def test_complete_members_of_a_bad_tar_precede_the_error(tmp_path: Path, name: str) -> None:
    bad, message = BAD_TARS[name]
    path = put(tmp_path / "bad.tar", tar_entry(b"a.sgf", SGF) + bad)
    for block_bytes in (512, 1 << 20):
        rows, error = read_until_error(path, block_bytes)
        assert rows == [(0, b"a.sgf", SGF, 0)]
        assert error.startswith(f"{path}: ")
        assert message in error


def test_empty_tar(tmp_path: Path) -> None:
    assert read(put(tmp_path / "empty.tar", bytes(10240))) == []
    assert read(put(tmp_path / "empty.tar.gz", gzip.compress(bytes(10240)))) == []


# Compressed streams


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz"])
def test_concatenated_streams(tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = build_tar(tarfile.GNU_FORMAT)
    pack = COMPRESSORS[suffix]
    parts = [pack(data[at : at + 3000]) for at in range(0, len(data), 3000)]
    expected = read_with_tarfile(put(tmp_path / "true.tar", data))
    path = put(tmp_path / ("parts.tar" + suffix), b"".join(parts))
    padded = put(tmp_path / ("padded.tar" + suffix), bytes(8).join(parts) + bytes(512))
    for chunk in (1, 7, 4096, 128 << 10):
        monkeypatch.setattr(_streams, "_CHUNK", chunk)
        assert read(path, 4096) == read(padded) == expected


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz"])
def test_trailing_bytes_are_damage(tmp_path: Path, suffix: str) -> None:
    data = build_tar(tarfile.GNU_FORMAT)
    path = put(tmp_path / ("trailing.tar" + suffix), COMPRESSORS[suffix](data) + b"\0\0trailing")
    rows, error = read_until_error(path)
    assert rows == read_with_tarfile(put(tmp_path / "true.tar", data))
    assert error


@pytest.mark.parametrize("name", ["archive.tar", "archive.tar.gz", "archive.tar.bz2", "archive.tar.xz"])
def test_truncated_tar(tmp_path: Path, name: str) -> None:
    plain = build_tar(tarfile.GNU_FORMAT)
    whole = COMPRESSORS[Path(name).suffix.replace(".tar", "")](plain)
    expected = read(put(tmp_path / name, whole))
    end_mark = len(plain.rstrip(b"\0")) // 512 * 512 + 512 + 512
    for cut in range(1, len(whole), 97 if name == "archive.tar.gz" else 997):
        rows, error = read_until_error(put(tmp_path / name, whole[:cut]), 4096)
        assert rows == expected[: len(rows)]
        assert bool(error) == (name != "archive.tar" or cut < end_mark)


def test_wrong_gzip_checksum_is_an_error(tmp_path: Path) -> None:
    data = bytearray(gzip.compress(build_tar(tarfile.GNU_FORMAT)))
    data[-8] ^= 1
    assert "checksum" in read_until_error(put(tmp_path / "bad.tar.gz", bytes(data)))[1]


def test_xz_with_a_huge_dictionary_is_rejected(tmp_path: Path) -> None:
    # A dictionary of 1.5 GiB, which the decoder would have to allocate.
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 4096}]
    data = bytearray(lzma.compress(SGF, filters=filters))
    at = data.index(b"\x21\x01\x00")  # LZMA2's id, the length of its properties, and the dictionary of 4 KiB
    data[at + 2] = 37
    header = 12  # where the block header starts; it ends with its own CRC-32
    size = (data[header] + 1) * 4
    data[header + size - 4 : header + size] = struct.pack("<L", zlib.crc32(data[header : header + size - 4]))
    with pytest.raises(SourceError, match="emory"):
        read(put(tmp_path / "bomb.sgf.xz", bytes(data)))


def test_memory_does_not_grow_with_the_archive(tmp_path: Path) -> None:
    entry = tar_entry(b"a.sgf", SGF * 2000)
    peaks = []
    for count in (100, 1_000):
        path = put(tmp_path / f"{count}.tar.gz", gzip.compress(entry * count + END, 1))
        tracemalloc.start()
        seen = sum(len(block) for block in blocks(path, block_bytes=1 << 20))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert seen == count
    assert max(peaks) < 8 << 20


# Zip


def build_zip(compression: int = zipfile.ZIP_DEFLATED, comment: bytes = b"") -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        archive.mkdir("games")
        for k, (name, size) in enumerate(NAMES_AND_SIZES):
            if "\udcc3" not in name:
                method = zipfile.ZIP_STORED if k % 3 == 0 else compression
                archive.writestr(name, member_content(k, name, size // 2) * 2, method)
        archive.writestr("__MACOSX/games/._a.sgf", b"junk")
        link = zipfile.ZipInfo("games/link.sgf")
        link.create_system, link.external_attr = 3, 0o120777 << 16
        archive.writestr(link, "../../etc/passwd")
        archive.comment = comment
    return file.getvalue()


def without_link(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row[1] != b"games/link.sgf"]


@pytest.mark.parametrize("comment", [b"", b"PK\5\6 in a comment"])
def test_zip_matches_zipfile(tmp_path: Path, comment: bytes) -> None:
    path = put(tmp_path / "archive.zip", build_zip(comment=comment))
    expected = without_link(read_with_zipfile(put(tmp_path / "plain.zip", build_zip())))
    assert len(expected) == 10
    for block_bytes in SIZES:
        assert read(path, block_bytes) == expected


def test_zip64_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 10)
    monkeypatch.setattr(zipfile, "ZIP_FILECOUNT_LIMIT", 2)
    data = build_zip()
    assert b"PK\6\6" in data
    assert b"PK\6\7" in data
    path = put(tmp_path / "large.zip", data)
    assert read(path) == without_link(read_with_zipfile(path))


def test_self_extracting_zip(tmp_path: Path) -> None:
    path = put(tmp_path / "installer.zip", b"MZ" + bytes(5000) + build_zip())
    assert read(path) == without_link(read_with_zipfile(path))


CENTRAL = b"PK\1\2"


def change_central(data: bytes, at: int, new: bytes) -> bytes:
    at += data.index(CENTRAL)
    return data[:at] + new + data[at + len(new) :]


BAD_MEMBERS = {
    "bzip2": (one_member_zip(method=zipfile.ZIP_BZIP2), DropReason.UNREADABLE),
    "lzma": (one_member_zip(method=zipfile.ZIP_LZMA), DropReason.UNREADABLE),
    "encrypted": (change_central(one_member_zip(), 8, b"\1"), DropReason.UNREADABLE),
    "bad checksum": (one_member_zip(method=zipfile.ZIP_STORED).replace(b"SZ[19]", b"SZ[13]", 1), DropReason.UNREADABLE),
    "no deflate": (change_central(one_member_zip(method=zipfile.ZIP_STORED), 10, b"\x08"), DropReason.UNREADABLE),
    "larger than declared": (change_central(one_member_zip(), 24, b"\x03\0\0\0"), DropReason.UNREADABLE),
    "smaller than declared": (change_central(one_member_zip(), 24, b"\xff\xff\0\0"), DropReason.UNREADABLE),
    "stored, of two sizes": (
        change_central(one_member_zip(method=zipfile.ZIP_STORED), 24, b"\x03\0\0\0"),
        DropReason.UNREADABLE,
    ),
    "behind the end": (change_central(one_member_zip(), 42, b"\xff\xff\xff\0"), DropReason.UNREADABLE),
    "not at a member": (change_central(one_member_zip(), 42, b"\7\0\0\0"), DropReason.UNREADABLE),
    "packed beyond the end": (change_central(one_member_zip(), 20, b"\xff\xff\0\0"), DropReason.UNREADABLE),
    "zip64 without its field": (change_central(one_member_zip(), 20, b"\xff\xff\xff\xff"), DropReason.UNREADABLE),
    "offset without its field": (change_central(one_member_zip(), 42, b"\xff\xff\xff\xff"), DropReason.UNREADABLE),
    "over 256 MiB": (change_central(one_member_zip(), 24, b"\1\0\0\x10"), DropReason.TOO_LARGE),
}


@pytest.mark.parametrize("name", BAD_MEMBERS)
def test_bad_zip_member(tmp_path: Path, name: str) -> None:
    data, reason = BAD_MEMBERS[name]
    assert read(put(tmp_path / "bad.zip", data)) == [(0, b"a.sgf", b"", reason), (1, b"tail.sgf", SGF, 0)]


def test_zip_bomb_takes_no_memory(tmp_path: Path) -> None:
    data = change_central(one_member_zip(bytes(64 << 20)), 24, b"\xff\xff\0\0")
    rows, peak = traced(put(tmp_path / "bomb.zip", data), 1 << 20)
    assert [row[3] for row in rows] == [DropReason.UNREADABLE, 0]
    assert peak < 8 << 20


def test_overlapping_zip_members_are_rejected(tmp_path: Path) -> None:
    data = one_member_zip(content(1, 1000))
    begin, end = data.index(CENTRAL), data.index(b"PK\5\6")
    size = data.index(CENTRAL, begin + 4) - begin
    entries = data[begin : begin + size] * 100
    record = bytearray(data[end:])
    struct.pack_into("<2H2L", record, 8, 100, 100, len(entries), begin)
    rows, error = read_until_error(put(tmp_path / "bomb.zip", data[:begin] + entries + bytes(record)))
    assert "overlap" in error
    assert 0 < len(rows) < 10


@pytest.mark.parametrize("name", ["archive.zip", "archive"])
def test_truncated_zip(tmp_path: Path, name: str) -> None:
    whole = build_zip()
    for cut in range(0, len(whole), 97):
        with pytest.raises(SourceError, match=r"cut off|empty|neither an archive"):
            read(put(tmp_path / name, whole[:cut]))


def test_bad_directory_entry_is_reported_after_earlier_members(tmp_path: Path) -> None:
    data = one_member_zip()
    at = data.rindex(CENTRAL)
    rows, error = read_until_error(put(tmp_path / "bad.zip", data[:at] + b"XX" + data[at + 2 :]))
    assert rows == [(0, b"a.sgf", SGF, 0)]
    assert f"no valid directory entry at byte {at}" in error


def test_multi_volume_zip_is_rejected(tmp_path: Path) -> None:
    data = bytearray(one_member_zip())
    data[data.index(b"PK\5\6") + 4] = 3
    with pytest.raises(SourceError, match="multi-volume"):
        read(put(tmp_path / "part.zip", bytes(data)))


@pytest.mark.slow
def test_zip_with_many_members(tmp_path: Path) -> None:
    count = 40_000
    path = tmp_path / "many.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for k in range(count):
            archive.writestr(f"{k:040d}.sgf", str(k))
    seen = rows_of(list(blocks(path, block_bytes=1 << 20)))
    assert seen == [(k, b"%040d.sgf" % k, b"%d" % k, 0) for k in range(count)]


# Directories


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    put(root / "b.sgf", b"b")
    put(root / "B.SGF", b"B")
    put(root / "b/inner.sgf.gz", gzip.compress(b"inner"))
    put(root / "b/inner.sgf.bz2", bz2.compress(b"inner 2"))
    put(root / "b/inner.sgf.XZ", lzma.compress(b"inner 3"))
    put(root / "b/misnamed.sgf", gzip.compress(b"misnamed"))
    put(root / "b.d/x.sgf", b"x")
    put(root / "b.d/cut.sgf.gz", gzip.compress(b"cut")[:-3])
    put(root / "empty.sgf", b"")
    put(root / "README.txt", b"(; see the games")
    put(root / "LICENSE", b"(c)")
    put(root / "run.json", b'{"moves": 1, "x": {"moves": []}}')
    put(root / "metrics.jsonl", b'{"loss": 1}\n')
    put(root / "noextension", b"mail\n(;SZ[19])")
    put(root / "one.txt", SGF)
    put(root / ".DS_Store", b"(;")
    put(root / "._b.sgf", b"junk")
    put(root / "notes.gz", gzip.compress(b"notes"))
    put(root / "z/archive.zip", one_member_zip())
    put(root / "a.tar.gz", gzip.compress(TAIL))
    put(root / "tarball.gz", gzip.compress(TAIL))
    (root / os.fsdecode(b"\xe9.sgf")).write_bytes(b"latin")
    (root / "link.sgf").symlink_to(root / "b.sgf")
    (root / "circle").symlink_to(root)
    (root / "nothing").mkdir()
    os.mkfifo(root / "fifo.sgf")
    return root


TREE_ROWS = [
    (b"B.SGF", b"B", 0),
    (b"b.d/cut.sgf.gz", b"", DropReason.UNREADABLE),
    (b"b.d/x.sgf", b"x", 0),
    (b"b.sgf", b"b", 0),
    (b"b/inner.sgf.XZ", b"inner 3", 0),
    (b"b/inner.sgf.bz2", b"inner 2", 0),
    (b"b/inner.sgf.gz", b"inner", 0),
    (b"b/misnamed.sgf", b"misnamed", 0),
    (b"empty.sgf", b"", 0),
    (b"noextension", b"mail\n(;SZ[19])", 0),
    (b"one.txt", SGF, 0),
    (b"\xe9.sgf", b"latin", 0),
]


def test_directory_yields_loose_records_in_path_order(tree: Path) -> None:
    names = sorted([row[0] for row in TREE_ROWS] + [b"LICENSE", b"README.txt", b"notes.gz", b"run.json"])
    expected = [(names.index(row[0]), *row) for row in TREE_ROWS]
    assert read(tree) == expected
    some = list(blocks(tree, block_bytes=5))
    assert rows_of(some) == expected
    assert all(len(block.data) <= max(5, *(block.stop - block.start)) for block in some if not block.left_out)
    assert len(some) > 4
    assert {block.source for block in some} == {str(tree)}


def test_containers_of_a_directory(tree: Path) -> None:
    archives = [tree / "a.tar.gz", tree / "tarball.gz", tree / "z/archive.zip"]
    assert containers(tree) == [tree, *archives]
    assert containers([str(tree), tree / "b.sgf"]) == [tree, *archives, tree / "b.sgf"]
    assert containers([tree / "z", tree / "b"]) == [tree / "z/archive.zip", tree / "b"]
    assert [read(path)[0][2] for path in archives] == [SGF] * 3


def test_files_that_are_left_out_of_a_directory_are_counted(tree: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    left_out = find_containers(tree).left_out
    assert left_out == {
        "already read by another name": 2, "without an extension": 1, ".jsonl": 1, "AppleDouble": 1, "special": 1,
    }  # fmt: skip
    read_later = sum((block.left_out for block in blocks(tree)), Counter())
    assert read_later == {".txt": 1, ".json": 1, ".gz": 1, "without an extension": 1}
    assert len(list(kifu.read(tree))) == len(TREE_ROWS) + 4
    (message,) = caplog.messages
    assert message == f"{tree}: {describe_left_out(left_out + read_later)}"
    counts = Counter({".pdf": 2000, ".tar.old": 3, ".gz": 2, "special": 1, ".a": 1, ".b": 1})
    line = "left out: 2,008 files (2,000 .pdf, 3 .tar.old, 2 .gz, 1 special, 1 .a, ...)"
    assert describe_left_out(counts) == line
    assert describe_left_out(counts + Counter({".zip": 1})) == line.replace("2,008", "2,009").replace(
        " ...", " 1 .zip, ..."
    )
    put(tree / "pdf/a.PDF", b"")
    with pytest.raises(SourceError, match=r"no archives .*; left out: 1 file \(1 \.pdf\)$"):
        containers(tree / "pdf")


def test_links_in_a_directory_are_followed_once(tmp_path: Path) -> None:
    store, root = tmp_path / "store", tmp_path / "tree"
    put(store / "2b9f", b"blob")
    put(store / "inner/game.sgf", b"inner")
    put(store / "inner/games.zip", one_member_zip())
    (store / "inner/up").symlink_to(store)
    (store / "inner/tree").symlink_to(root)
    os.mkfifo(store / "fifo")
    put(root / "b.sgf", b"b")
    put(root / "blob", SGF)
    links = {
        "a.sgf": root / "b.sgf",  # comes before its target, which keeps its name nevertheless
        "c.sgf": store / "2b9f",
        "d.sgf": store / "2b9f",
        "e.sgf": root / "blob",
        "f.sgf": tmp_path / "missing",
        "g.sgf": store / "fifo",
        "h": store / "inner",
        "i": store / "inner",
        "j.zip": store / "inner/games.zip",
        "k.sgf": root / "k.sgf",
        "up": tmp_path,
    }
    for name, target in links.items():
        (root / name).symlink_to(target)
    expected = [(b"b.sgf", b"b"), (b"blob", SGF), (b"c.sgf", b"blob"), (b"h/game.sgf", b"inner")]
    assert [row[1:3] for row in read(root)] == expected
    assert find_containers(root).paths == [root, root / "h/games.zip"]
    assert find_containers(root).left_out == {
        # a.sgf, d.sgf, e.sgf, h/tree, h/up/2b9f, h/up/fifo, h/up/inner, i, j.zip, up/store, up/tree
        "already read by another name": 11,
        "with a broken link": 2,
        "special": 1,
    }


def test_links_to_files_of_any_kind_are_followed_once(tmp_path: Path) -> None:
    store, root = tmp_path / "store", tmp_path / "tree"
    lines = b'{"width": 9, "moves": [[1, 1]]}\n'
    files = {"a.jsonl": lines, "b.7z.001": b"7z", "b.7z.002": b"", "c.txt": SGF, "d": OLF_LINE, "e.json": lines}
    for name, data in files.items():
        put(store / name, data)
    root.mkdir()
    links = {
        "1.jsonl": "a.jsonl", "1.txt": "a.jsonl", "2.7z.001": "b.7z.001", "2.7z.002": "b.7z.002",
        "3.7z.001": "b.7z.001", "3.7z.002": "b.7z.002", "4": "d", "4.olf": "d", "5": "c.txt", "5.sgf": "c.txt",
        "6.json": "e.json", "6.txt": "e.json", "7.7z.003": "e.json", "8.pdf": "c.txt",
    }  # fmt: skip
    for name, target in links.items():
        (root / name).symlink_to(store / target)
    (root / "loop").symlink_to(root)
    put(root / "9.7z.002", b"its first volume is missing")
    found = find_containers(root)
    assert found.paths == [root, *(root / name for name in ("1.jsonl", "2.7z.001", "4"))]
    assert found.left_out == {"already read by another name": 8, ".002": 1, ".pdf": 1}
    assert [row[1] for row in read(root)] == [b"5", b"6.json"]


def test_loose_record_over_the_limit_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kifu.records.directory.MEMBER_LIMIT", 1000)
    monkeypatch.setattr("kifu.records._streams.MEMBER_LIMIT", 1000)
    put(tmp_path / "a/a.sgf", bytes(1001))
    put(tmp_path / "a/b.sgf.gz", gzip.compress(bytes(1001)))
    put(tmp_path / "a/c.sgf.gz", gzip.compress(bytes(1000)))
    assert [(len(row[2]), row[3]) for row in read(tmp_path / "a")] == [
        (0, DropReason.TOO_LARGE),
        (0, DropReason.TOO_LARGE),
        (1000, 0),
    ]
    for block_bytes in (600, 2000):
        assert read(tmp_path / "a/a.sgf", block_bytes) == [(0, b"a.sgf", b"", DropReason.TOO_LARGE)]
        assert read(tmp_path / "a/b.sgf.gz", block_bytes) == [(0, b"b.sgf", b"", DropReason.TOO_LARGE)]
        assert read(tmp_path / "a/c.sgf.gz", block_bytes) == [(0, b"c.sgf", bytes(1000), 0)]


# Single files and unsupported files


@pytest.mark.parametrize("suffix", COMPRESSORS)
@pytest.mark.parametrize("size", [0, 1, 511, 512, 4096, 300_000])
def test_a_single_record_is_one_member(tmp_path: Path, size: int, suffix: str) -> None:
    data = content(size, size)
    path = put(tmp_path / ("game.sgf" + suffix), COMPRESSORS[suffix](data))
    assert read(path, 4096) == read(path) == [(0, b"game.sgf", data, 0)]


def test_file_with_another_name_is_a_record_if_one_starts_in_it(tmp_path: Path) -> None:
    for name in ("game.txt", "game", "game.gz"):
        assert read(put(tmp_path / name, b"From: a mail\n\n( ;SZ[19])"))[0][2:] == (b"From: a mail\n\n( ;SZ[19])", 0)
    assert read(put(tmp_path / "game.mgt.gz", gzip.compress(SGF))) == [(0, b"game.mgt", SGF, 0)]


NO_CONTAINERS = {
    "empty": (b"", "the file is empty"),
    "empty.gz": (gzip.compress(b""), "the file is empty"),
    "empty.tar": (b"", "the file is empty"),
    "text.txt": (b"no record in it", "neither an archive nor a game record"),
    "bytes.tar": (content(1, 3000), "neither an archive nor a game record"),
    "short.tar": (SGF[:1] * 100, "neither an archive nor a game record"),
    "zeros.sgz": (bytes(1024), "neither an archive nor a game record"),
    "cut.sgf.gz": (gzip.compress(SGF)[:-1], "ends too early"),
    "flipped.sgf.bz2": (bz2.compress(SGF)[:-1] + b"\0", "damaged"),
    "text.zip": (b"no zip", "no end record"),
}


@pytest.mark.parametrize("name", NO_CONTAINERS)
def test_error_for_an_unsupported_file(tmp_path: Path, name: str) -> None:
    data, message = NO_CONTAINERS[name]
    path = put(tmp_path / name, data)
    assert read_until_error(path)[1].startswith(f"{path}: ")
    with pytest.raises(SourceError, match=message):
        read(path)


def test_error_for_an_unreadable_path(tmp_path: Path) -> None:
    put(tmp_path / "file.sgf", SGF)
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "empty").mkdir()
    os.mkfifo(tmp_path / "fifo.sgf")
    cases = {
        "missing.zip": "No such file", "file.sgf/inner.sgf": "Not a directory", "loop": "symbolic links",
        "n" * 5000: "name too long", "nul\0.sgf": "no such file", "empty": "no game records",
        "fifo.sgf": "neither a file nor a directory",
    }  # fmt: skip
    for name, message in cases.items():
        for call in (read, containers):
            with pytest.raises(SourceError, match=message):
                call(tmp_path / name)


def test_explicit_symlink_is_followed(tmp_path: Path) -> None:
    put(tmp_path / "file.sgf", SGF)
    (tmp_path / "link").symlink_to("file.sgf")
    assert read(tmp_path / "link") == [(0, b"link", SGF, 0)]


# Arbitrary bytes


CONTAINER_NAMES = ["a.sgf", "a.tar", "a.tar.gz", "a.tgz", "a.zip", "a.gz", "a.bz2", "a.tar.xz", "a"]
MAGIC = [b"", b"PK\3\4", b"PK\5\6", b"\x1f\x8b\x08\0", b"BZh91AY&SY", b"\xfd7zXZ\0", b"(;"]
anything = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@anything
@given(name=st.sampled_from(CONTAINER_NAMES), magic=st.sampled_from(MAGIC), data=st.binary(max_size=2000))
def test_any_bytes_give_a_result_or_a_source_error(tmp_path: Path, name: str, magic: bytes, data: bytes) -> None:
    read_until_error(put(tmp_path / name, magic + data), 512)


@anything
@given(
    name=st.sampled_from(sorted(small_archives())),
    changes=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=4),
)
def test_damaged_archive_gives_a_result_or_a_source_error(
    tmp_path: Path, name: str, changes: list[tuple[float, int]]
) -> None:
    data = bytearray(small_archives()[name])
    for where, byte in changes:
        data[int(where * len(data))] = byte
    rows, _ = read_until_error(put(tmp_path / ("archive." + name), bytes(data)), 512)
    assert all(not row[2] or not row[3] for row in rows)
    assert sum(len(row[2]) for row in rows) <= len(SGF) * 21 + 2 * len(data)


# Real archives


def test_real_archive_matches_tarfile(shared: Path) -> None:
    path = shared / "data/kgs/KGS-2016_02-19-577-.tar.gz"
    expected = read_with_tarfile(path)
    assert len(expected) == 577
    assert expected[0][0] == 1
    assert read(path) == read(path, 100_000) == expected


def test_blocks_are_reproducible_and_bounded(tmp_path: Path) -> None:
    path = put(tmp_path / "archive.tar.gz", gzip.compress(build_tar(tarfile.PAX_FORMAT)))
    once, again = list(blocks(path, block_bytes=4096)), list(blocks(path, block_bytes=4096))
    assert len(once) > 5
    for one, other in zip(once, again, strict=True):
        assert np.array_equal(one.data, other.data)
        assert rows_of([one]) == rows_of([other])
        assert len(one.data) <= 4096 or len(one) <= 1
        assert one.source == str(path)
        assert [array.dtype.str for array in (one.data, one.start, one.stop, one.member)] == [
            "|u1", "<i8", "<i8", "<i4",
        ]  # fmt: skip
        assert [array.dtype.str for array in (one.names, one.name_offset, one.drop)] == ["|u1", "<i8", "|u1"]


def fail(*_: object, **__: object) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


class FailingFile(LocalFile):
    whole_reads = 0

    def _count(self) -> None:
        if self.whole_reads == 0:
            fail()
        self.whole_reads -= 1

    def read(self, size: int | None = -1, /) -> bytes:
        self._count()
        return super().read(size)

    def readinto(self, buffer: object, /) -> int | None:
        self._count()
        return super().readinto(buffer)  # type: ignore[arg-type]


@pytest.mark.parametrize("whole_reads", range(4))
@pytest.mark.parametrize("kind", ["games.tar", "games.tar.gz", "games.zip", "game.sgf", "game.sgf.bz2"])
def test_disk_failure_is_a_source_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, whole_reads: int
) -> None:
    path = tmp_path / kind
    if ".tar" in kind:
        with tarfile.open(path, "w:gz" if kind.endswith("gz") else "w") as file:
            entry = tarfile.TarInfo("a.sgf")
            entry.size = 1_000_000
            file.addfile(entry, io.BytesIO(random.Random(0).randbytes(entry.size)))
    elif kind.endswith(".zip"):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("a.sgf", SGF)
    else:
        path.write_bytes(bz2.compress(SGF) if kind.endswith("bz2") else SGF)
    monkeypatch.setattr(FailingFile, "whole_reads", whole_reads)
    monkeypatch.setattr("kifu.records.paths.LocalFile", FailingFile)
    rows, message = read_until_error(path, 4096)
    assert message == f"{path}: Input/output error"
    assert rows == []


@pytest.mark.parametrize(("excess", "drop"), [(0, 0), (-1, DropReason.UNREADABLE), (1, DropReason.UNREADABLE)])
def test_large_zip_member_must_match_its_size(tmp_path: Path, excess: int, drop: int) -> None:
    data = content(1, 100_000) * 30
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("large.sgf", data)
        archive.writestr("small.sgf", SGF)
    raw = path.read_bytes()
    at = raw.index(b"PK\1\2") + 24
    path.write_bytes(raw[:at] + struct.pack("<L", len(data) + excess) + raw[at + 4 :])
    assert read(path) == [(0, b"large.sgf", b"" if drop else data, drop), (1, b"small.sgf", SGF, 0)]
    path.write_bytes(raw[:999] + bytes([raw[999] ^ 1]) + raw[1000:])
    assert read(path) == [(0, b"large.sgf", b"", DropReason.UNREADABLE), (1, b"small.sgf", SGF, 0)]
