"""Regular files: opened without waiting, read within limits, hashed."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from contextlib import AbstractContextManager
from io import FileIO
from pathlib import Path
from typing import Literal, Protocol

from blake3 import blake3


class _RefusedError(OSError):
    """A file that kifu does not read. Its text is the reason, without the number of the error."""

    def __str__(self) -> str:
        return str(self.strerror)


def open_regular(path: str | os.PathLike[str]) -> FileIO:
    """Open a regular file, without a buffer, to read its bytes.

    FIFOs, devices and sockets may block or never end, so they are refused without opening them.

    Raises:
        OSError: The file cannot be opened, or is not a regular file; its `strerror` names the reason.
    """
    try:
        require_regular(Path(path).stat())
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except ValueError:  # a NUL in the path
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from None
    try:
        require_regular(os.fstat(descriptor))  # it may have been replaced
        return FileIO(descriptor)
    except BaseException:
        os.close(descriptor)
        raise


def require_regular(status: os.stat_result) -> None:
    """Raise OSError unless the status is that of a regular file."""
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(status.st_mode):
        raise _RefusedError(errno.EINVAL, "not a regular file")


def read_small(path: str | os.PathLike[str], limit: int = 64 << 20) -> bytes:
    """Return the content of a regular file.

    Args:
        limit: Maximum size in bytes.

    Raises:
        OSError: The file cannot be read, is not a regular file, or is larger than the limit.
    """
    with open_regular(path) as file:
        if os.fstat(file.fileno()).st_size <= limit:
            data = file.read(limit + 1)
            while len(data) <= limit and (more := file.read(limit + 1 - len(data))):
                data += more
            if len(data) <= limit:
                return data
    raise _RefusedError(errno.EFBIG, f"larger than {limit:,} bytes")


class ReadableFile(Protocol):
    """An object that opens itself, such as `kifu.records.paths.Remote`."""

    def open(self, mode: Literal["rb"], /) -> AbstractContextManager[_Bytes]:
        """Open the file to read its bytes."""


class _Bytes(Protocol):
    def readinto(self, buffer: memoryview, /) -> int: ...


def hash_file(path: Path | ReadableFile) -> str:
    """Return the BLAKE3 hash of a file in hex. Raises OSError."""
    with open_regular(path) if isinstance(path, Path) else path.open("rb") as file:
        return hash_bytes(file.readinto).hexdigest()


def hash_bytes(read_into: Callable[[memoryview], int]) -> blake3:
    """Hash all bytes that the function reads. Pages of a memory map would count as memory of this process."""
    digest = blake3()
    buffer = memoryview(bytearray(1 << 20))
    while count := read_into(buffer):
        digest.update(buffer[:count])
    return digest


def utf8_name(name: str | bytes) -> str:
    r"""Return a file name as text that can be stored: bytes that are not UTF-8 become \xff and the like."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")
