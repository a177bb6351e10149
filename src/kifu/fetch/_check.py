"""The check that a downloaded file is what its name says, and complete."""

from __future__ import annotations

import hashlib
import re
import struct
import tarfile
import zipfile
import zlib
from io import BufferedReader, FileIO
from pathlib import Path

from kifu.files import open_regular
from kifu.records._streams import open_stream

_UNPACKED_FACTOR = 16
"""Largest unpacked size, as a multiple of the largest size of a file, against decompression bombs."""

_DIRECTORY_LIMIT = 16 << 20
"""Largest directory of a zip file in bytes; zipfile takes some ten times as much memory for it."""

_CHUNK_BYTES = 1 << 20
_TAR_HEADER_BYTES = 512
_MAGIC = {"zip": b"PK\3\4", "gz": b"\x1f\x8b", "bz2": b"BZh", "xz": b"\xfd7zXZ\0", "7z": b"7z\xbc\xaf\x27\x1c"}
_SUFFIX = re.compile(r"\.(zip|7z|7z\.001|tar\.gz|tar\.bz2|gz|bz2|xz)\Z")
_POINTER = b"version https://git-lfs.github.com/spec/"
_7Z_HEADER = struct.Struct("<6s2sIQQI")
"""Magic, version, CRC of what follows, then the offset, size and CRC of the list of members."""

_DAMAGE = (
    EOFError,
    OSError,  # zipfile: an offset before the file
    RuntimeError,  # zipfile: encrypted, or an unknown compression
    ValueError,
    struct.error,
    zlib.error,
    zipfile.BadZipFile,
)


def kind_of(name: str) -> str:
    """Return the kind of a file by its name, such as "tar.gz" or "7z.001"; "" for one that cannot be checked."""
    match = _SUFFIX.search(name)
    return match[1] if match else ""


def find_damage(path: Path, kind: str, limit: int) -> str:
    """Read a file to its end in bounded memory, verifying the checksums that it contains.

    Args:
        kind: See `kind_of`. Of a tar file only the first header is looked at, of a .7z only the list of members.
        limit: The largest size of such a file in bytes.

    Returns:
        A line that says why it is not a complete file of that kind, or "".
    """
    packing = kind.removesuffix(".001").rpartition(".")[2]
    with path.open("rb") as file:
        head = file.read(64)
    if head.startswith(_POINTER):
        return "a Git LFS pointer, not the file itself; get the file with 'git lfs pull' in a clone of the repository"
    if not kind:
        return ""
    if not head.startswith(_MAGIC[packing]):
        return f"not a {kind} archive: it begins with {head[:16]!r}"
    try:
        if packing == "zip":
            return _zip_damage(path, limit * _UNPACKED_FACTOR)
        if packing == "7z":
            return _7z_damage(path, kind)
        return _stream_damage(path, kind, limit * _UNPACKED_FACTOR)
    except _DAMAGE as error:
        reason = "it ends too early" if isinstance(error, EOFError) else " ".join(str(error).split())
        return f"not a complete {kind} archive: {reason or type(error).__name__}"


def differs(path: Path, checksum: str) -> bool:
    """Return whether a file differs from a checksum: "sha256:..." or "git:...", the SHA-1 of a git blob."""
    kind, _, expected = checksum.partition(":")
    with path.open("rb") as file:
        digest = hashlib.sha256() if kind == "sha256" else hashlib.sha1(usedforsecurity=False)
        if kind == "git":
            digest.update(b"blob %d\0" % path.stat().st_size)
        while piece := file.read(_CHUNK_BYTES):
            digest.update(piece)
    return digest.hexdigest() != expected


def _stream_damage(path: Path, kind: str, limit: int) -> str:
    scratch = memoryview(bytearray(_CHUNK_BYTES))
    with open_regular(path) as file:
        stream, found = open_stream(file)
        if not found:
            return f"not a complete {kind} archive: its header is damaged"
        unpacked = stream.fill(scratch)
        header = bytes(scratch[: min(unpacked, _TAR_HEADER_BYTES)])
        while count := stream.fill(scratch):
            unpacked += count
            if unpacked > limit:
                return f"it unpacks to more than the {limit:,} bytes allowed"
    if stream.damage:
        return f"not a complete {kind} archive: {stream.damage}"
    if kind.startswith("tar."):
        try:
            tarfile.TarInfo.frombuf(header, "utf-8", "surrogateescape")
        except tarfile.TarError:
            return f"not a {kind} archive: there is no tar file in it"
    return ""


def _7z_damage(path: Path, kind: str) -> str:
    """Check the header, and in a file that is not split the list of members, which is at the end."""
    size = path.stat().st_size
    with path.open("rb") as file:
        header = file.read(_7Z_HEADER.size)
        _, _, crc, offset, length, list_crc = _7Z_HEADER.unpack(header)
        if zlib.crc32(header[12:]) != crc:
            return f"not a complete {kind} archive: its header is damaged"
        if kind != "7z":
            return ""
        if size != _7Z_HEADER.size + offset + length:
            expected = _7Z_HEADER.size + offset + length
            return f"not a complete 7z archive: it has {size:,} bytes, and its header says {expected:,}"
        file.seek(-length, 2)
        found = 0
        while piece := file.read(_CHUNK_BYTES):
            found = zlib.crc32(piece, found)
    return "" if found == list_crc else "not a complete 7z archive: its list of members is damaged"


class _BoundedReader(BufferedReader):
    """Refuses the one long read of zipfile, of the directory, whose length the file itself claims."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > _DIRECTORY_LIMIT:
            raise ValueError(f"its list of members has more than the {_DIRECTORY_LIMIT:,} bytes allowed")
        return super().read(size)


def _zip_damage(path: Path, limit: int) -> str:
    with _BoundedReader(FileIO(path)) as file, zipfile.ZipFile(file) as archive:
        if sum(member.file_size for member in archive.infolist()) > limit:
            return f"it unpacks to more than the {limit:,} bytes allowed"
        bad = archive.testzip()
    return "" if bad is None else f"not a complete zip archive: its member {bad!r} is damaged"
