"""Atomic files and directories: written under a temporary name, counted and hashed, then renamed."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType

from blake3 import blake3

from kifu.errors import OutputError
from kifu.files import hash_bytes


class AtomicFile:
    """An atomic file, renamed into place by `commit()`.

    Until then it is ".NAME.part" in the same directory, which one process at a time may hold, and which the next run
    overwrites if this one is killed. A context manager: leaving it uncommitted removes what was written. All methods
    raise OutputError, which names the file, if they cannot write.

    Files are hashed with BLAKE3 because SHA-256 would take longer than making them (1.7 against 6 GB/s on one core).

    Attributes:
        path: the final path.
        size: bytes so far, including the header.
    """

    def __init__(self, path: Path, header: bytes = b"") -> None:
        """Create the temporary file, and the directory if necessary.

        Args:
            path: the final path.
            header: first bytes of the file; `commit` may replace them by others of the same length.
        """
        self.path = path
        self._part = temp_path(path)
        self._header = header
        self._hash = blake3(header)
        self.size = len(header)
        self._file = -1
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            self._file = os.open(self._part, os.O_RDWR | os.O_CREAT, 0o666)
            if not self._lock():
                raise OutputError(f"{path} is being written by another process")
            # Truncate only if necessary: ext4 takes a truncated file for one that is being replaced, and flushes all of
            # it when it is closed.
            if os.fstat(self._file).st_size:
                os.ftruncate(self._file, 0)
            os.lseek(self._file, len(header), os.SEEK_SET)  # `commit` writes it
        except OutputError:
            self._close()
            raise
        except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
            self._close()
            raise self._error(error) from None

    def _lock(self) -> bool:
        """Lock the file. Returns False if another process holds it."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Its last holder may have renamed or removed the file that was opened here.
            return os.path.samestat(os.fstat(self._file), self._part.stat())
        except (BlockingIOError, FileNotFoundError):
            return False

    def write(self, data: bytes | memoryview) -> None:
        """Append all of `data`."""
        view = memoryview(data)
        self._hash.update(view)
        self.size += len(view)
        try:
            while len(view):
                view = view[os.write(self._file, view) :]
        except OSError as error:
            raise self._error(error) from None

    def adopt(self) -> None:
        """Adopt what another library has written to `temp_path(path)` as the content."""
        try:
            self.size = os.fstat(self._file).st_size
            self._hash = self._hash_all()
        except OSError as error:
            raise self._error(error) from None

    def commit(self, header: bytes | None = None) -> str:
        """Rename the file into place.

        Args:
            header: the final header, if it differs from the first; the file is then read again to hash it.

        Returns:
            The BLAKE3 hash in hex.
        """
        final = self._header if header is None else header
        assert len(final) == len(self._header)
        try:
            if final:
                os.pwrite(self._file, final, 0)
            if final != self._header:
                self._hash = self._hash_all()
            if os.fstat(self._file).st_size != self.size:
                raise OutputError(f"{self._part} changed while it was written")
            self._part.replace(self.path)
        except OutputError:
            raise
        except OSError as error:
            raise self._error(error) from None
        self._close()
        return self._hash.hexdigest()

    def _hash_all(self) -> blake3:
        os.lseek(self._file, 0, os.SEEK_SET)
        return hash_bytes(lambda buffer: os.readv(self._file, [buffer]))

    def _error(self, error: OSError | ValueError) -> OutputError:
        return cannot_write(self.path, error)

    def _close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> AtomicFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file >= 0:
            with contextlib.suppress(OSError):  # the next run overwrites it
                self._part.unlink()
            self._close()


class AtomicDirectory:
    """An atomic directory of files, renamed into place by `commit()`.

    Until then it is ".NAME.part", under the same terms as an `AtomicFile`. It contains an index, a JSON object whose
    key "files" lists the others. An existing directory is replaced only if its own index lists all of its files, so
    files of the user are never removed.

    Attributes:
        path: the final path.
    """

    def __init__(self, path: Path, index: str) -> None:
        """Create the temporary directory.

        Args:
            path: the final path.
            index: file name of the index.

        Raises:
            OutputError: the directory cannot be written, or contains other files.
        """
        self.path = path
        self._index = index
        self._part = temp_path(path)
        self._names: list[str] = []
        self._lock = -1
        try:
            self._require_ours()
            self._part.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self._part, os.O_RDONLY | os.O_DIRECTORY)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for left in self._part.iterdir():  # of a run that was killed
                left.unlink()
        except BlockingIOError:
            self._close()
            raise OutputError(f"{path} is being written by another process") from None
        except OutputError:
            raise
        except (OSError, ValueError) as error:
            self._close()
            raise cannot_write(path, error) from None

    def file(self, name: str, header: bytes = b"") -> AtomicFile:
        """Return a new file in the directory, which the caller commits before the directory."""
        self._names.append(name)
        return AtomicFile(self._part / name, header)

    def commit(self, index: dict[str, object]) -> None:
        """Write the index, with these keys besides "files", and rename the directory into place."""
        write_file(self._part / self._index, json.dumps({**index, "files": self._names}).encode() + b"\n")
        try:
            # Without its index, a directory that is only partly removed counts as no data set.
            for name in (self._index, *self._require_ours()):
                self.path.joinpath(name).unlink(missing_ok=True)
            self._part.replace(self.path)
        except OutputError:
            raise
        except OSError as error:
            raise cannot_write(self.path, error) from None
        self._close()

    def _require_ours(self) -> list[str]:
        """Return the names of the files in an existing directory. Raises OutputError if its index lacks one of them."""
        if not self.path.exists():
            return []
        found = sorted(entry.name for entry in self.path.iterdir())
        try:
            listed = json.loads(self.path.joinpath(self._index).read_bytes())["files"]
            known: Iterable[str] = [self._index, *listed]
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            known = []
        for name in found:
            if name not in known:
                raise OutputError(f"{self.path} contains {name}, which its index does not list; remove it")
        return found

    def _close(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def __enter__(self) -> AtomicDirectory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lock >= 0:
            shutil.rmtree(self._part, ignore_errors=True)  # the next run overwrites it
            self._close()


def temp_path(path: Path) -> Path:
    """Return the temporary path of an atomic file or directory."""
    return path.with_name(f".{path.name}.part")


def staging_dir(path: Path) -> Path:
    """Return the staging directory for an output file or directory (see `kifu.execution.executor.make_executor`).

    It is absolute, because other processes use it as well.
    """
    absolute = path.absolute()
    return absolute.parent / f".{absolute.name}.work"


def cannot_write(path: Path, error: OSError | ValueError) -> OutputError:
    """Return the OutputError for a file that cannot be written."""
    reason = getattr(error, "strerror", None) or str(error)
    if isinstance(error, FileExistsError):  # from mkdir, if a parent is a file
        reason = os.strerror(errno.ENOTDIR)
    return OutputError(f"cannot write {path}: {reason}")


def write_file(path: Path, data: bytes | memoryview) -> None:
    """Write a small file atomically."""
    with AtomicFile(path) as output:
        output.write(data)
        output.commit()


def remove_file(path: Path) -> None:
    """Remove a file if it exists. Raises OutputError."""
    try:
        path.unlink(missing_ok=True)
    except (OSError, ValueError) as error:
        raise OutputError(f"cannot remove {path}: {getattr(error, 'strerror', None) or error}") from None


@contextlib.contextmanager
def locked_folder(path: Path) -> Iterator[None]:
    """Lock a directory, creating it if necessary. Raises OutputError if another process holds it."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except (OSError, ValueError) as error:
        raise cannot_write(path, error) from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise OutputError(f"{path} is being written by another process") from None
    finally:
        os.close(lock)
