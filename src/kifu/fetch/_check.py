"""Whether a downloaded archive is whole: read to its end in bounded memory, checksums verified, nothing kept."""

from __future__ import annotations

import bz2
import lzma
import struct
import tarfile
import zipfile
import zlib
from io import BufferedReader, FileIO
from pathlib import Path
from typing import cast

from isal import igzip, igzip_lib

UNPACKED_LIMIT = 64 << 30
"""An archive that unpacks to more bytes is refused: it was made to waste the reader's time."""

_DIRECTORY_LIMIT = 16 << 20
"""The most bytes of a zip file's list of members, of which zipfile makes some ten times as many in memory."""

_CHUNK = 1 << 20
_TAR_HEADER = 512
_MAGIC = {"zip": b"PK\3\4", "tar.gz": b"\x1f\x8b", "tar.bz2": b"BZh"}

_DAMAGE = (
    EOFError,
    OSError,  # bz2: bad data; zipfile: an offset before the file
    RuntimeError,  # zipfile: encrypted, or an unknown compression
    ValueError,
    struct.error,
    cast(type[Exception], igzip_lib.IsalError),  # which isal's own stubs call an instance
    zlib.error,
    lzma.LZMAError,
    zipfile.BadZipFile,
)


def damage(path: Path, kind: str) -> str:
    """Why the file at `path` is no whole archive of `kind` (one of `kgs_index.KINDS`), in one line; "" if it is one.

    Does not look at the members of a tar file, but for its first header. Raises OSError if there is no such file.
    """
    with path.open("rb") as file:
        head = file.read(16)
    if not head.startswith(_MAGIC[kind]):
        return f"what came is no {kind} archive: it begins with {head!r}"
    try:
        return _zip_damage(path) if kind == "zip" else _tar_damage(path, kind)
    except _DAMAGE as error:
        reason = "it ends too early" if isinstance(error, EOFError) else " ".join(str(error).split())
        return f"what came is no whole {kind} archive: {reason or type(error).__name__}"


def _tar_damage(path: Path, kind: str) -> str:
    opened = igzip.IGzipFile(path, "rb") if kind == "tar.gz" else bz2.BZ2File(path, "rb")  # type: ignore[no-untyped-call]
    with opened as stream:
        header = stream.read(_TAR_HEADER)
        unpacked = len(header)
        while piece := stream.read(_CHUNK):
            unpacked += len(piece)
            if unpacked > UNPACKED_LIMIT:
                return f"it unpacks to more than the {UNPACKED_LIMIT:,} bytes allowed"
    try:
        tarfile.TarInfo.frombuf(header, "utf-8", "surrogateescape")
    except tarfile.TarError:
        return f"what came is no {kind} archive: no tar file is in it"
    return ""


class _ShortReads(BufferedReader):
    """Refuses the one long read that zipfile does, of the list of members, as long as the file says it is."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > _DIRECTORY_LIMIT:
            raise ValueError(f"its list of members has more than the {_DIRECTORY_LIMIT:,} bytes allowed")
        return super().read(size)


def _zip_damage(path: Path) -> str:
    with _ShortReads(FileIO(path)) as file, zipfile.ZipFile(file) as archive:
        if sum(member.file_size for member in archive.infolist()) > UNPACKED_LIMIT:
            return f"it unpacks to more than the {UNPACKED_LIMIT:,} bytes allowed"
        bad = archive.testzip()
    return "" if bad is None else f"what came is no whole zip archive: its member {bad!r} is damaged"
