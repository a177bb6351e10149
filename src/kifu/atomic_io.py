"""How every file of ours reaches the disk: under a temporary name, counted and hashed, then renamed."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Literal, Protocol

from blake3 import blake3

from kifu.errors import OutputError


class AtomicFile:
    """A file in the making; it has its name only once `commit` has returned.

    Until then it is ".NAME.part" beside it, which only one process at a time may hold, and which the next run writes
    over if this one is killed. Use it as a context manager: leaving it uncommitted removes what was written.
    Every failure to write is an OutputError that names the file.

    BLAKE3 names the bytes because SHA-256 would take longer than making them (1.7 against 6 GB/s on one core).
    """

    def __init__(self, path: Path, header: bytes = b"") -> None:
        """header: what the file begins with; may still change when all the rest is written, but not in length."""
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
            # Only if there is something to cut: ext4 takes a file that was cut to nothing for one that is replaced,
            # and to close it then takes until all of it is on its way to the disk.
            if os.fstat(self._file).st_size:
                os.ftruncate(self._file, 0)
            os.lseek(self._file, len(header), os.SEEK_SET)  # `commit` writes it
        except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
            self._close()
            raise self._error(error) from None
        except OutputError:
            self._close()
            raise

    def _lock(self) -> bool:
        """Whether the file is ours alone from now on."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Who held the lock may just have renamed or removed the file that we opened; then it is not ours to cut.
            return os.path.samestat(os.fstat(self._file), self._part.stat())
        except (BlockingIOError, FileNotFoundError):
            return False

    def write(self, data: bytes | memoryview) -> None:
        """Appends all of `data`."""
        view = memoryview(data)
        self._hash.update(view)
        self.size += len(view)
        try:
            while len(view):
                view = view[os.write(self._file, view) :]
        except OSError as error:
            raise self._error(error) from None

    def adopt(self) -> None:
        """Takes what another library has written into `part_of(path)` for this file's content."""
        try:
            self.size = os.fstat(self._file).st_size
            self._hash = self._hash_all()
        except OSError as error:
            raise self._error(error) from None

    def commit(self, header: bytes | None = None) -> str:
        """Gives the file its name, and returns its BLAKE3 in hex.

        header: if it is not what was foreseen; the whole file is then read once for its hash.
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
        except OSError as error:
            raise self._error(error) from None
        self._close()
        return self._hash.hexdigest()

    def _hash_all(self) -> blake3:
        os.lseek(self._file, 0, os.SEEK_SET)
        return _hash_bytes(lambda buffer: os.readv(self._file, [buffer]))

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
            with contextlib.suppress(OSError):  # what cannot be removed is left for the next run, as after a kill
                self._part.unlink()
            self._close()


class AtomicDirectory:
    """A folder of files in the making; it has its name only once `commit` has returned.

    Until then it is ".NAME.part" beside it, under the same terms as an `AtomicFile`. It holds an index, a JSON object whose
    key "files" lists the others. An earlier folder of that name gives way to it if its own index lists all that is in
    it, so that nothing that somebody else put there is ever removed.
    """

    def __init__(self, path: Path, index: str) -> None:
        """index: the name of the file that lists the others. Raises OutputError."""
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
            for left in self._part.iterdir():  # by a run that was killed
                left.unlink()
        except BlockingIOError:
            self._close()
            raise OutputError(f"{path} is being written by another process") from None
        except (OSError, ValueError) as error:
            self._close()
            raise cannot_write(path, error) from None

    def file(self, name: str, header: bytes = b"") -> AtomicFile:
        """A file in the folder, to be committed by the caller before the folder is."""
        self._names.append(name)
        return AtomicFile(self._part / name, header)

    def commit(self, index: dict[str, object]) -> None:
        """Writes the index and gives the folder its name. index: what it says beside the files' names."""
        write_file(self._part / self._index, json.dumps({**index, "files": self._names}).encode() + b"\n")
        try:
            # The index goes first: what is left of a folder if this is interrupted is none.
            for name in (self._index, *self._require_ours()):
                self.path.joinpath(name).unlink(missing_ok=True)
            self._part.replace(self.path)
        except OSError as error:
            raise cannot_write(self.path, error) from None
        self._close()

    def _require_ours(self) -> list[str]:
        """The names of the files that are in the folder's place. Raises OutputError if one of them is not ours."""
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
                raise OutputError(f"{self.path} has {name} in it, which is no part of what was made there; remove it")
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
            shutil.rmtree(self._part, ignore_errors=True)  # what cannot be removed is left for the next run
            self._close()


def temp_path(path: Path) -> Path:
    """What a file or folder is called until it is whole."""
    return path.with_name(f".{path.name}.part")


def staging_dir(path: Path) -> Path:
    """Where what becomes a file or folder waits, beside it, while a cluster makes it (see `kifu.execution.executor.make_executor`).

    Absolute, because others than this process look for it.
    """
    whole = path.absolute()
    return whole.parent / f".{whole.name}.work"


def cannot_write(path: Path, error: OSError | ValueError) -> OutputError:
    """What to raise where a file cannot be written."""
    reason = getattr(error, "strerror", None) or str(error)
    if isinstance(error, FileExistsError):  # what mkdir says of a folder that is a file
        reason = os.strerror(errno.ENOTDIR)
    return OutputError(f"cannot write {path}: {reason}")


def write_file(path: Path, data: bytes | memoryview) -> None:
    """Writes a small file whole or not at all."""
    with AtomicFile(path) as output:
        output.write(data)
        output.commit()


def remove_file(path: Path) -> None:
    """Removes a file, if it is there. Raises OutputError."""
    try:
        path.unlink(missing_ok=True)
    except (OSError, ValueError) as error:
        raise OutputError(f"cannot remove {path}: {getattr(error, 'strerror', None) or error}") from None


class ReadableFile(Protocol):
    """What is needed of a path, or of what stands for one, to hash the file there."""

    def open(self, mode: Literal["rb"], /) -> AbstractContextManager[_Bytes]: ...


class _Bytes(Protocol):
    def readinto(self, buffer: memoryview, /) -> int: ...


def hash_file(path: ReadableFile) -> str:
    """The BLAKE3 of a file, in hex. Raises OSError."""
    with path.open("rb") as file:
        return _hash_bytes(file.readinto).hexdigest()


def _hash_bytes(read_into: Callable[[memoryview], int]) -> blake3:
    """Reads all that comes. Not by a memory map, whose pages would all count as this process's."""
    digest = blake3()
    buffer = memoryview(bytearray(1 << 20))
    while count := read_into(buffer):
        digest.update(buffer[:count])
    return digest


@contextlib.contextmanager
def locked_folder(path: Path) -> Iterator[None]:
    """A folder, made if need be, that only one process at a time may hold. Raises OutputError."""
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
