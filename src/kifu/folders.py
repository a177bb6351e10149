"""Outputs: directories that are created, held and locked, and checks of what was written."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from kifu.errors import OutputError
from kifu.files import require_regular

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
