"""7z archives, made by py7zr or by hand."""

import functools
import io
import lzma
import struct
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

from lazy import lazy_import

py7zr = lazy_import("py7zr")

MAGIC = b"7z\xbc\xaf\x27\x1c"
COPY, LZMA2, PPMD = b"\x01\0", b"\x21\x21\1", b"\x23\3\4\1\5"
"""Coders of a folder; the size and value of their properties follow the last two."""

Member = tuple[str, bytes | None]
"""Name and content; None for a directory."""


def made(
    members: Iterable[tuple[str, bytes]],
    filters: Sequence[dict[str, Any]] | None = None,
    *,
    plain_header: bool = False,
    **options: Any,
) -> bytes:
    """Return an archive by py7zr. Its header is packed unless `plain_header` is set."""
    target = io.BytesIO()
    with py7zr.SevenZipFile(target, "w", filters=filters, **options) as archive:
        archive.set_encoded_header_mode(not plain_header)
        archive.set_encrypted_header(options.get("header_encryption", False))
        for name, data in members:
            archive.writestr(data, name)
    return target.getvalue()


@functools.cache
def codecs() -> dict[str, list[dict[str, Any]]]:
    lzma1, bcj = {"id": py7zr.FILTER_LZMA, "preset": 1}, {"id": py7zr.FILTER_X86}
    lzma2 = {"id": py7zr.FILTER_LZMA2, "preset": 1}
    return {
        "lzma": [lzma1],
        "lzma2": [lzma2],
        "bcj+lzma": [bcj, lzma1],
        "bcj+lzma2": [bcj, lzma2],
        "delta+lzma2": [{"id": py7zr.FILTER_DELTA, "dist": 1}, lzma2],
        "ppmd": [{"id": py7zr.FILTER_PPMD, "order": 6, "mem": 20}],
        "bzip2": [{"id": py7zr.FILTER_BZIP2}],
        "bcj+bzip2": [bcj, {"id": py7zr.FILTER_BZIP2}],
        "deflate": [{"id": py7zr.FILTER_DEFLATE}],
        "zstd": [{"id": py7zr.FILTER_ZSTD, "level": 3}],
        "brotli": [{"id": py7zr.FILTER_BROTLI, "level": 3}],
        "copy": [{"id": py7zr.FILTER_COPY}],
    }


def number(value: int) -> bytes:
    """Return a number as headers store it, in nine bytes if it has more than seven bits."""
    return bytes([value]) if value < 0x80 else b"\xff" + value.to_bytes(8, "little")


def entry(kind: int, data: bytes) -> bytes:
    return bytes([kind]) + number(len(data)) + data


def _bits(values: Iterable[bool]) -> bytes:
    text = "".join("01"[value] for value in values)
    return bytes(int(text[at : at + 8].ljust(8, "0"), 2) for at in range(0, len(text), 8))


def streams(
    packed: Sequence[int], folders: Sequence[tuple[bytes, int, Sequence[int]]], checksums: Sequence[int] | None = None
) -> bytes:
    """Return the description of packed streams of these sizes. folders: coder, size, and sizes of members of each."""
    text = b"\x06\0" + number(len(packed)) + b"\x09" + b"".join(map(number, packed)) + b"\0"
    text += b"\x07\x0b" + number(len(folders)) + b"\0" + b"".join(b"\1" + coder for coder, _, _ in folders)
    text += b"\x0c" + b"".join(number(size) for _, size, _ in folders) + b"\0"
    text += b"\x08\x0d" + b"".join(number(len(sizes)) for _, _, sizes in folders)
    text += b"\x09" + b"".join(number(size) for _, _, sizes in folders for size in sizes[:-1])
    if checksums is not None:
        text += b"\x0a\1" + struct.pack(f"<{len(checksums)}L", *checksums)
    return text + b"\0\0"


def files(members: Sequence[Member], names: bytes | None = None, more: bytes = b"") -> bytes:
    """Return the list of members. names: replaces their names; more: other properties."""
    empty = [not data for _, data in members]
    text = b"\x05" + number(len(members))
    text += entry(0x0E, _bits(empty)) + entry(0x0F, _bits(data is not None for _, data in members if not data))
    if names is None:
        names = b"".join(name.encode("utf-16-le", "surrogatepass") + b"\0\0" for name, _ in members)
    return text + entry(0x11, b"\0" + names) + more + b"\0"


def packed_with(header: bytes, content: bytes = b"") -> bytes:
    rest = struct.pack("<QQL", len(content), len(header), zlib.crc32(header))
    return MAGIC + b"\0\4" + struct.pack("<L", zlib.crc32(rest)) + rest + content + header


def raw_lzma2(data: bytes) -> bytes:
    return lzma.compress(data, lzma.FORMAT_RAW, filters=[{"id": lzma.FILTER_LZMA2, "preset": 1}])


def encoded(header: bytes) -> bytes:
    """Return an archive without content whose header is packed."""
    content = raw_lzma2(header)
    return packed_with(b"\x17" + streams([len(content)], [(LZMA2 + b"\x18", len(header), [len(header)])]), content)


def handmade(members: Sequence[Member], *, names: bytes | None = None, more: bytes = b"", solid: bool = True) -> bytes:
    """Return an archive without compression, in one folder or a folder for each member."""
    contents = [data for _, data in members if data]
    groups = ([contents] if solid else [[data] for data in contents]) if contents else []
    folders = [(COPY, sum(map(len, group)), [*map(len, group)]) for group in groups]
    described = streams([size for _, size, _ in folders], folders, [zlib.crc32(data) for data in contents])
    header = b"\1" + (b"\4" + described if contents else b"") + files(members, names, more) + b"\0"
    return packed_with(header, b"".join(contents))


def volumes(data: bytes, count: int) -> list[bytes]:
    size = -(-len(data) // count)
    return [data[at : at + size] for at in range(0, len(data), size)]
