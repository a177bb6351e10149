"""Sample records and archives that several tests read."""

import bz2
import functools
import gzip
import io
import lzma
import tarfile
import zipfile
from dataclasses import replace
from pathlib import Path

from kifu.records.games import RecordBlock

TRAPS_FOLDER = Path(__file__).parents[1] / "records" / "traps"
"""SGF records named after their traps."""


OLF_LINE = b"1996-03-12 a 20 b 21.0 19:19 30 3.5 5.5 h-0 PDdp\n"


TYGEM_LINE = b"885492098\t;B[pd];W[dp];B[pq];W[dc];B[fq]\n"


SGF_RECORD = b"(;GM[1]FF[4]SZ[19];B[pd];W[dp])"


@functools.cache
def small_archives() -> dict[str, bytes]:
    tar = pax_entry((b"path", b"renamed.sgf")) + tar_entry(b"a.sgf", SGF * 20) + TAIL
    return {
        "tar": tar,
        "tar.gz": gzip.compress(tar),
        "tar.bz2": bz2.compress(tar),
        "tar.xz": lzma.compress(tar),
        "zip": one_member_zip(SGF * 20),
        "stored.zip": one_member_zip(SGF, zipfile.ZIP_STORED),
    }


SGF = b"(;GM[1]FF[4]SZ[19];B[pd];W[dp])"


def tar_entry(name: bytes, data: bytes = b"", kind: bytes = b"0", changes: tuple[tuple[int, bytes], ...] = ()) -> bytes:
    """Return a hand-written header, changed before its checksum is computed, and content."""
    header = bytearray(tarfile.TarInfo("x").tobuf(tarfile.USTAR_FORMAT))
    header[0:100] = name.ljust(100, b"\0")
    header[124:136] = b"%011o\0" % len(data)
    header[156:157] = kind
    for at, new in changes:
        header[at : at + len(new)] = new
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header) + data + bytes(-len(data) % 512)


def pax_entry(*records: tuple[bytes, bytes], kind: bytes = b"x") -> bytes:
    """Return a pax header; each record starts with its length."""
    data = b""
    for key, value in records:
        length = len(key) + len(value) + 3
        length += len(str(length + len(str(length))))
        data += b"%d %s=%s\n" % (length, key, value)
    return tar_entry(b"pax", data, kind)


END = bytes(1024)


TAIL = tar_entry(b"tail.sgf", SGF) + END


def one_member_zip(data: bytes = SGF, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        archive.writestr("a.sgf", data)
        archive.writestr("tail.sgf", SGF, zipfile.ZIP_DEFLATED)
    return file.getvalue()


def some_members(block: RecordBlock, which: list[int]) -> RecordBlock:
    """Return a block that holds some of its members, the bytes of the others between them."""
    columns = {name: getattr(block, name)[which] for name in ("start", "stop", "member", "drop")}
    return replace(block, name_offset=block.name_offset[: len(which) + 1], **columns)
