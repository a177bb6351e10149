"""Regular files, opened without waiting, read within limits, hashed; directories that are created, held and locked."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from io import FileIO
from pathlib import Path
from typing import Literal, Protocol

from blake3 import blake3

from kifu.errors import OutputError


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


_held: list[tuple[str, int]] = []
"""Absolute paths and descriptors of the directories that this process holds."""


def make_folder(path: Path) -> None:
    """Create a directory if necessary, but not within a held one that was removed. Raises OutputError and OSError."""
    absolute = str(path.absolute())
    for folder, descriptor in tuple(_held):
        if f"{absolute}/".startswith(f"{folder}/"):
            try:
                same = os.path.samestat(Path(folder).stat(), os.fstat(descriptor))
            except FileNotFoundError:
                same = False
            if not same:
                raise was_changed(Path(folder))
    path.mkdir(parents=True, exist_ok=True)


@contextlib.contextmanager
def held_folder(path: Path, output: Path | None = None) -> Iterator[int]:
    """Hold a directory, creating it if necessary: if it is removed or replaced, files can no longer be written into it.

    Args:
        output: The output that it is a temporary directory of; it must not be a symbolic link then.
    """
    try:
        if output is not None:
            require_no_link(path)
        make_folder(path)
        nofollow = 0 if output is None else os.O_NOFOLLOW
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | nofollow)
    except OutputError:
        raise
    except (OSError, ValueError) as error:
        raise cannot_write(output or path, error) from None
    held = (str(path.absolute()), descriptor)
    _held.append(held)
    try:
        yield descriptor
    finally:
        _held.remove(held)
        os.close(descriptor)


@contextlib.contextmanager
def locked_folder(path: Path, output: Path | None = None) -> Iterator[int]:
    """Hold a directory as `held_folder` does, and lock it.

    Raises:
        OutputError: The directory cannot be created, or another process holds it.
    """
    with held_folder(path, output) as descriptor:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OutputError(f"{output or path} is being written by another process") from None
        except OSError as error:
            raise cannot_write(output or path, error) from None
        yield descriptor


def cannot_write(path: Path, error: OSError | ValueError) -> OutputError:
    """Return the OutputError for a file that cannot be written."""
    reason = getattr(error, "strerror", None) or str(error)
    if isinstance(error, FileExistsError):  # from mkdir, if a parent is a file
        reason = os.strerror(errno.ENOTDIR)
    return OutputError(f"cannot write {path}: {reason}")


def was_changed(path: Path) -> OutputError:
    """Return the OutputError for a file or directory that others removed or replaced."""
    return OutputError(f"{path} was removed or replaced while it was written")


def require_no_link(path: Path) -> None:
    """Raise OutputError if the temporary path is a symbolic link."""
    if path.is_symlink():
        raise OutputError(f"{path} is a symbolic link; remove it")


def require_size(path: Path, size: int | None = None) -> os.stat_result:
    """Return the status of a file that was just written. Raises OutputError if it is gone or has another size."""
    try:
        status = path.stat()
        require_regular(status)
    except OSError:
        raise was_changed(path) from None
    if size not in (None, status.st_size):
        raise was_changed(path)
    return status


def require_same(path: Path, status: os.stat_result) -> None:
    """Raise OutputError unless the path leads to the file with this status, and its size is the same."""
    try:
        now = path.lstat()
    except OSError:
        now = None
    if now is None or not os.path.samestat(now, status) or now.st_size != status.st_size:
        raise was_changed(path)
