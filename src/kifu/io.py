"""Files: regular ones, read within limits and hashed; atomic ones, written under a temporary name and then renamed.

Temporary names are predictable, so a symbolic link may have been planted there. Nothing is written through such a link.
A path that the user gives may contain links: those in its parents are followed, and its last part is replaced if it is
a link to a file or a directory, whose target stays as it is.

What differs between operating systems is here and in `kifu.process`. Windows (untested) can neither open directories
nor rename open files: there, nothing is locked, links that are planted during a run are not noticed, names are not
flushed, and kifu starts no programs.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import json
import logging
import os
import shutil
import stat
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from io import FileIO, RawIOBase
from pathlib import Path, PurePosixPath
from typing import Any

from blake3 import blake3

from kifu.checksums import BlockSums, add_checksum, is_intact, without_checksum
from kifu.errors import OutputError, printable
from kifu.text import format_bytes

_log = logging.getLogger(__name__)

NO_LINK, NO_WAIT, NO_TERMINAL = (getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_NOCTTY"))
"""Flags of `os.open`: refuse symbolic links, do not block on FIFOs, let no terminal control the process."""

_BINARY = getattr(os, "O_BINARY", 0)

READ_ONLY = os.O_RDONLY | NO_WAIT | getattr(os, "O_CLOEXEC", 0) | _BINARY
"""Flags of `os.open` to read the bytes of a file."""

_MAX_LINKS = 40
_WRITE_BYTES = 1 << 20
"""Maximum size of one write. For larger ones Linux takes huge pages, which a virtual machine may have to get back from
its host: twice the time.
"""


class _RefusedError(OSError):
    """A file that kifu does not read. Its text is the reason, without the number of the error."""

    def __str__(self) -> str:
        return str(self.strerror)


def open_regular(path: str | os.PathLike[str]) -> FileIO:
    """Open a regular file, without a buffer, to read its bytes.

    FIFOs, devices and sockets may block or never end, so they are refused without opening them. Raises OSError, whose
    `strerror` names the reason.
    """
    try:
        require_regular(Path(path).stat())
        descriptor = os.open(path, READ_ONLY)
    except ValueError:  # a NUL in the path
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from None
    try:
        require_regular(os.fstat(descriptor))  # it may have been replaced
        return FileIO(descriptor)
    except BaseException:
        os.close(descriptor)
        raise


_seeking = threading.Lock()


def read_at(descriptor: int, buffer: memoryview, position: int) -> int:
    """Read from a position of a file into a buffer. Returns the number of bytes; threads may share the file."""
    if sys.platform != "win32":
        return os.preadv(descriptor, [buffer], position)
    with _seeking:
        os.lseek(descriptor, position, os.SEEK_SET)
        data = os.read(descriptor, len(buffer))
    buffer[: len(data)] = data
    return len(data)


def bytes_at(descriptor: int, size: int, position: int) -> bytes:
    """Return at most `size` bytes from a position of a file, which threads may share."""
    data = bytearray(size)
    return bytes(data[: read_at(descriptor, memoryview(data), position)])


def write_at(descriptor: int, data: bytes | memoryview, position: int) -> int:
    """Write to a position of a file, which threads may share. Returns the number of bytes written."""
    if sys.platform != "win32":
        return os.pwrite(descriptor, data, position)
    with _seeking:
        os.lseek(descriptor, position, os.SEEK_SET)
        return os.write(descriptor, data)


def lock_file(descriptor: int, *, wait: bool = False) -> None:
    """Lock a file or directory until it is closed; on Windows, do nothing.

    Raises BlockingIOError if another process has locked it, unless `wait`. Warns if the file system has no locks.
    """
    if sys.platform != "win32":
        import fcntl

        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            raise
        except OSError as error:  # on some network file systems
            if not wait:
                _warn_of_locks(str(error.strerror))


@functools.cache  # once
def _warn_of_locks(reason: str) -> None:
    _log.warning("the output's file system cannot lock files (%s): let no two processes write the same output", reason)


_hiding = threading.Lock()


@contextlib.contextmanager
def hidden_file(name: str) -> Iterator[None]:
    """Hide a file of the working directory from a library that would read its settings there when it is imported."""
    with _hiding:
        exists = os.path.exists
        os.path.exists = lambda path: path != name and exists(path)
        try:
            yield
        finally:
            os.path.exists = exists


def skip_pandas() -> None:
    """Let Arrow convert arrays without pandas, whose import takes 0.2 s; `to_pandas` imports it later all the same."""
    import pyarrow as pa

    folders, sys.path = sys.path, []
    pa.array([None]).to_numpy(zero_copy_only=False)  # looks for pandas, if it has not been imported
    sys.path = folders


def require_regular(status: os.stat_result) -> None:
    """Raise OSError unless the status is that of a regular file."""
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(status.st_mode):
        raise _RefusedError(errno.EINVAL, "not a regular file")


def read_small(path: str | os.PathLike[str], limit: int = 64 << 20) -> bytes:
    """Return the content of a regular file of at most `limit` bytes, without the checksum of `add_checksum`.

    Raises OSError if the file cannot be read, is not a regular file, is larger, or has another checksum.
    """
    with open_regular(path) as file:
        if os.fstat(file.fileno()).st_size <= limit:
            data = file.read(limit + 1)
            while len(data) <= limit and (more := file.read(limit + 1 - len(data))):
                data += more
            if len(data) <= limit:
                if not is_intact(data):
                    raise _RefusedError(errno.EIO, "damaged: its bytes do not have its checksum")
                return without_checksum(data)
    raise _RefusedError(errno.EFBIG, f"larger than {limit:,} bytes")


def hash_file(path: Path) -> str:
    """Return the BLAKE3 hash of a file in hex. Raises OSError."""
    with open_regular(path) as file:
        return hash_bytes(file.readinto).hexdigest()


def hash_md5(path: Path) -> str:
    """Return the MD5 of a regular file in hex, which the files of 2015 were published with. Raises OSError."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def hash_bytes(read_into: Callable[[memoryview], int]) -> blake3:
    """Hash all bytes that the function reads. Pages of a memory map would count as memory of this process."""
    digest = blake3()
    buffer = memoryview(bytearray(1 << 20))
    while count := read_into(buffer):
        digest.update(buffer[:count])
    return digest


def user_cache() -> Path:
    """Return the user's folder of caches, which may not exist; a relative XDG_CACHE_HOME is ignored."""
    folder = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return folder if folder.is_absolute() else Path("~/.cache").expanduser()


def private_folder(folders: Iterable[Path]) -> Path | None:
    """Return the first folder that this user alone can write to, created if necessary; None without any."""
    for folder in folders:
        with contextlib.suppress(OSError):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            status = folder.stat()
            # On Windows the user's profile is protected by access control lists, which are not checked.
            alone = sys.platform == "win32" or (status.st_uid == os.geteuid() and not status.st_mode & 0o022)
            if alone and os.access(folder, os.W_OK):
                return folder
    return None


def utf8_name(name: str | bytes) -> str:
    r"""Return a file name as text that can be stored: bytes that are not UTF-8 become \xff and the like."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


_held: list[tuple[str, int]] = []
"""Absolute paths and descriptors of the directories that this process holds."""


def make_folder(path: Path) -> list[Path]:
    """Create a directory if necessary, but not within a held one that was removed. Raises OutputError and OSError.

    Returns the directories that did not exist, the deepest first, for `remove_empty`.
    """
    absolute = str(path.absolute())
    for folder, descriptor in tuple(_held):
        if f"{absolute}/".startswith(f"{folder}/") and not _leads_to(Path(folder), descriptor):
            raise was_changed(Path(folder))
    missing = [each for each in (path, *path.parents) if not each.exists()]
    path.mkdir(parents=True, exist_ok=True)
    return missing


def _leads_to(path: Path, descriptor: int, *, follow: bool = True) -> bool:
    try:
        return os.path.samestat(path.stat(follow_symlinks=follow), os.fstat(descriptor))
    except (FileNotFoundError, NotADirectoryError):
        return False


def remove_empty(folders: Iterable[Path]) -> None:
    """Remove those directories that are empty, the deepest first: no output is left, nor directories made for one."""
    for folder in folders:
        with contextlib.suppress(OSError):
            folder.rmdir()


@contextlib.contextmanager
def held_folder(path: Path, output: Path | None = None) -> Iterator[int]:
    """Hold a directory, creating it if necessary: if it is removed or replaced, files can no longer be written into it.

    If it is a temporary directory of an output, it must not be a symbolic link. If it was created and is empty in the
    end, it is removed.
    """
    with writing(output or path):
        if output is not None:
            require_no_link(path)
        made = make_folder(path)
    if sys.platform == "win32":
        yield 0
        return
    with writing(output or path):
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | (0 if output is None else NO_LINK))
    held = (str(path.absolute()), descriptor)
    _held.append(held)
    try:
        yield descriptor
    finally:
        _held.remove(held)
        remove_empty(made[not _leads_to(path, descriptor) :])
        os.close(descriptor)


@contextlib.contextmanager
def locked_folder(path: Path, output: Path | None = None) -> Iterator[int]:
    """Hold a directory as `held_folder` does, and lock it.

    Raises OutputError if the directory cannot be created, or another process holds it.
    """
    with held_folder(path, output) as descriptor:
        try:
            lock_file(descriptor)
        except BlockingIOError:
            raise OutputError(f"{output or path} is being written by another process") from None
        yield descriptor


def cannot_write(path: Path, error: OSError | ValueError) -> OutputError:
    """Return the OutputError for a file that cannot be written; an OutputError stays as it is."""
    if isinstance(error, OutputError):
        return error
    reason = getattr(error, "strerror", None) or str(error)
    if isinstance(error, FileExistsError):  # from mkdir, if a parent is a file
        reason = os.strerror(errno.ENOTDIR)
    return OutputError(f"cannot write {path}: {reason}")


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Raise errors of the system, and those for invalid paths, as `cannot_write`."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise cannot_write(path, error) from None


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


def require_room(folder: Path, size: float) -> None:
    """Raise OutputError if the disk of a folder, which need not exist, has less room than an output takes."""
    with writing(folder):
        free = shutil.disk_usage(next(each for each in (folder, *folder.absolute().parents) if each.exists())).free
    if size > free:
        raise OutputError(
            f"the output takes {format_bytes(round(size))}, but {folder} has room for {format_bytes(free)}"
        )


def keep_output(path: Path, overwrite: bool, *, own: bool = True, same: bool | None = None) -> bool:
    """Return True if an output is to be left as it is, False if it is to be written; see docs/untrusted.md, Writing.

    Raises OutputError if it is not `own`, or not the `same` and `overwrite` is False.

    Args:
        own: kifu has written the present file or folder.
        same: It is intact, and made from the inputs and options of this run; None if unknown.
    """
    with writing(path):
        if not path.exists() or not (any(path.iterdir()) if path.is_dir() else path.stat().st_size):
            return False
    if not own:
        raise OutputError(f"{path} exists and is not an intact output of kifu; remove it, or choose another name")
    if not (same or overwrite):
        other = "" if same is None else ", made from other inputs or options or by another version"
        raise OutputError(f"{path} exists{other}; --overwrite replaces it")
    if same:
        _log.info("%s was there already", printable(path))
    return bool(same)


class AtomicFile:
    """An atomic file, renamed into place by `commit()`.

    Until then it is ".NAME.part" in the same directory, which one process at a time may hold, and which the next run
    removes if this one is killed. A context manager: leaving it uncommitted removes what was written. All methods raise
    OutputError, which names the file, if they cannot write. Only regular files are replaced, and the new file has the
    permissions of the old one.

    Files are hashed with BLAKE3 because SHA-256 would take longer than making them (1.7 against 6 GB/s on one core).
    `size` counts the bytes so far, including the header; `sums` has their CRC-32, which costs an eighth of that.
    """

    status: os.stat_result

    def __init__(self, path: Path, header: bytes = b"") -> None:
        """Create the temporary file, and the directory if necessary.

        `header` holds the first bytes of the file; `commit` may replace them by others of the same length.
        """
        self.path = path
        self._part = temp_path(path)
        self._header = header
        self._hash = blake3(header)
        self.sums = BlockSums()
        self.sums.update(header)
        self.size = len(header)
        self._file = -1
        self._made: list[Path] = []
        try:
            self._made = make_folder(path.parent)
            mode = _replaced_mode(path)
            self._remove_part()
            self._open(os.O_CREAT | os.O_EXCL)
            if mode is not None and sys.platform != "win32":
                os.fchmod(self._file, mode)
            os.lseek(self._file, len(header), os.SEEK_SET)  # `commit` writes it
        except BaseException as error:
            if isinstance(error, OutputError):  # the file may be another process's
                self._close()
                raise
            self.__exit__()
            if isinstance(error, OSError | ValueError):  # ValueError: a zero byte in the name
                raise cannot_write(path, error) from None
            with contextlib.suppress(OSError):
                self._remove_part()  # where an interrupt came before its descriptor was assigned
            self._close()
            raise

    def _remove_part(self) -> None:
        """Remove the temporary file, if there is one. Raises OutputError if another process holds it."""
        with contextlib.suppress(FileNotFoundError):
            require_no_link(self._part)
            require_regular(self._part.lstat())
            self._open(0)
            if sys.platform == "win32":
                self._close()
            self._part.unlink()
            self._close()

    def _open(self, flags: int) -> None:
        try:
            self._file = os.open(self._part, flags | os.O_RDWR | NO_LINK | _BINARY | NO_WAIT, 0o666)
            lock_file(self._file)
        except (BlockingIOError, FileExistsError):
            raise self._in_use() from None
        if not self._is_in_place():  # its last holder has renamed or removed it
            raise self._in_use()

    def _is_in_place(self) -> bool:
        return _leads_to(self._part, self._file, follow=False)

    def _in_use(self) -> OutputError:
        return OutputError(f"{self.path} is being written by another process")

    def write(self, data: bytes | memoryview) -> None:
        """Append all of `data`."""
        view = memoryview(data)
        self._hash.update(view)
        self.sums.update(view)
        self.size += len(view)
        try:
            while len(view):
                view = view[os.write(self._file, view[:_WRITE_BYTES]) :]
        except OSError as error:
            raise cannot_write(self.path, error) from None

    def digest(self) -> bytes:
        """Return the BLAKE3 of all bytes so far."""
        return self._hash.digest()

    def adopt(self) -> None:
        """Adopt what another library has written to `temp_path(path)` as the content."""
        with writing(self.path):
            self.size = os.fstat(self._file).st_size
            self._hash = self._hash_all()

    def commit(self, header: bytes | None = None) -> str:
        """Rename the file into place, once its bytes are on the disk. Returns their BLAKE3 hash in hex.

        A final header that differs from the first takes another reading of the file to hash it.
        """
        final = self._header if header is None else header
        assert len(final) == len(self._header)
        with writing(self.path):
            if final:
                write_at(self._file, final, 0)
            if final != self._header:
                self._hash = self._hash_all()
            self.check()
            self.status = os.fstat(self._file)
            os.fsync(self._file)
            if sys.platform == "win32":
                self._close()
            self._part.replace(self.path)
            _sync_folder(self.path.parent)
        self._close()
        return self._hash.hexdigest()

    def check(self) -> None:
        """Raise OutputError if others removed, replaced or changed the temporary file."""
        if not self._is_in_place():
            raise was_changed(self._part)
        if os.fstat(self._file).st_size != self.size:
            raise OutputError(f"{self._part} changed while it was written")

    def _hash_all(self) -> blake3:
        os.lseek(self._file, 0, os.SEEK_SET)
        self.sums = BlockSums()
        file = FileIO(self._file, closefd=False)

        def read_into(buffer: memoryview) -> int:
            count = file.readinto(buffer)
            self.sums.update(buffer[:count])
            return count

        return hash_bytes(read_into)

    def _close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        remove_empty(self._made)

    def __enter__(self) -> AtomicFile:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file >= 0:
            with contextlib.suppress(OSError):  # the next run removes it
                if self._is_in_place():
                    if sys.platform == "win32":
                        self._close()
                    self._part.unlink()
            self._close()


class AtomicStream(RawIOBase):
    """An `AtomicFile` as a write-only stream, whose end does not commit the file."""

    def __init__(self, output: AtomicFile) -> None:
        self._output = output

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: Any, /) -> int:
        """Append all of `data`, and return its size."""
        self._output.write(data)
        return len(data)


class AtomicDirectory:
    """An atomic directory of files, renamed into place by `commit()`.

    Until then it is ".NAME.part", under the same terms as an `AtomicFile`. It contains an index, a JSON object whose
    key "files" lists the others by their paths within the directory. An existing directory is replaced only if its own
    index lists all of its files, so files of the user are never removed. Both are swapped in one step where the file
    system can; the old one is ".NAME.old" while it is removed.
    """

    def __init__(self, path: Path, index: str) -> None:
        """Create the temporary directory. Raises OutputError if it cannot be written, or contains other files."""
        self.path = path
        self._index = index
        self._part = temp_path(path)
        self._files: dict[str, AtomicFile] = {}
        self._lock = contextlib.ExitStack()
        self._descriptor = -1
        try:
            self._list_files(path)
            self._descriptor = self._lock.enter_context(locked_folder(self._part, path))
            for left in self._part.iterdir():  # of a run that was killed
                if left.is_dir() and not left.is_symlink():
                    shutil.rmtree(left)
                else:
                    left.unlink()
            old = self._part.with_suffix(".old")
            if old.is_symlink() or old.exists():
                self._remove(old)
            if path.is_dir() and sys.platform != "win32":
                os.fchmod(self._descriptor, stat.S_IMODE(path.stat().st_mode))
        except BaseException as error:
            self._close()
            raise cannot_write(path, error) if isinstance(error, OSError | ValueError) else error from None

    def file(self, name: str, header: bytes = b"") -> AtomicFile:
        """Return a new file at a path within the directory, which the caller commits before the directory."""
        self._files[name] = AtomicFile(self._part / name, header)
        return self._files[name]

    def encode_index(self, index: dict[str, object]) -> bytes:
        """Return the index that `commit(index)` will write if no further file is added."""
        return add_checksum(json.dumps({**index, "files": [name for name in self._files if name != self._index]}))

    def commit(self, index: dict[str, object]) -> None:
        """Write the index, with these keys besides "files", and rename the directory into place."""
        encoded = self.encode_index(index)
        with self.file(self._index) as output:
            output.write(encoded)
            output.commit()
        old = self._part.with_suffix(".old")
        with writing(self.path):
            for name, file in self._files.items():
                require_same(self._part / name, file.status)
            if self.path.is_symlink():
                self.path.unlink()
            if not self._list_files(self.path):
                self._part.replace(self.path)
            elif _swap(self._part, self.path):
                self._part.rename(old)
            else:
                self.path.rename(old)
                self._part.replace(self.path)
            _sync_folder(self.path.parent)
            self._remove(old)
        self._close()

    def _list_files(self, folder: Path) -> list[str]:
        """Return the paths within an existing directory. Raises OutputError if its index lacks one of them."""
        if folder.is_symlink() or not folder.exists():
            return []
        if not folder.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        names = sorted(entry.relative_to(folder).as_posix() for entry in folder.rglob("*"))
        try:
            listed = json.loads(read_small(folder / self._index))["files"]
            known = {self._index, *listed, *(str(parent) for name in listed for parent in PurePosixPath(name).parents)}
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            known = set()
        for name in names:
            if name not in known:
                raise OutputError(f"{folder} contains {name}, which its index does not list; remove it")
        return names

    def _remove(self, folder: Path) -> None:
        """Remove a replaced directory, its index last: without it, the next run would take it for one of the user."""
        require_no_link(folder)
        names = [name for name in self._list_files(folder) if name != self._index]
        for path in map(folder.joinpath, reversed(names)):  # files before their directories
            if path.is_dir() and not path.is_symlink():
                path.rmdir()
            else:
                path.unlink()
        if folder.exists():
            (folder / self._index).unlink(missing_ok=True)
            folder.rmdir()

    def _close(self) -> None:
        self._descriptor = -1
        self._lock.close()

    def __enter__(self) -> AtomicDirectory:
        return self

    def __exit__(self, *_: object) -> None:
        if self._descriptor >= 0:
            with contextlib.suppress(OSError):  # the next run empties it
                if sys.platform == "win32" or os.path.samestat(self._part.lstat(), os.fstat(self._descriptor)):
                    shutil.rmtree(self._part)
            self._close()


def _sync_folder(folder: Path) -> None:
    if sys.platform == "win32":
        return
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except PermissionError:  # files can be made in it, but not listed
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


def _swap(one: Path, other: Path) -> bool:
    """Exchange two directories in one step. Return False if the operating or file system cannot."""
    if sys.platform == "win32":
        return False
    import ctypes  # only here, to keep the start of commands short

    libc = ctypes.CDLL(None, use_errno=True)
    paths = [os.fsencode(path) for path in (one, other)]
    if sys.platform == "darwin":
        failed = libc.renamex_np(*paths, ctypes.c_uint(2))  # RENAME_SWAP
    elif hasattr(libc, "renameat2"):
        failed = libc.renameat2(-100, paths[0], -100, paths[1], ctypes.c_uint(2))  # AT_FDCWD, RENAME_EXCHANGE
    else:
        return False
    if failed and (code := ctypes.get_errno()) not in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):
        raise OSError(code, os.strerror(code))
    return not failed


def temp_path(path: Path) -> Path:
    """Return the temporary path of an atomic file or directory."""
    return path.with_name(f".{path.name}.part")


def work_dir(path: Path) -> Path:
    """Return the hidden folder beside an output for unfinished work: absolute, since other processes use it as well."""
    absolute = path.absolute()
    return absolute.parent / f".{absolute.name}.work"


def write_file(path: Path, data: bytes | memoryview) -> None:
    """Write a small file atomically."""
    with AtomicFile(path) as output:
        output.write(data)
        output.commit()


def write_output(path: Path, data: bytes) -> None:
    """Write a small file that the user named.

    FIFOs, character devices and open files such as /dev/stdout are written to; other paths as by `write_file`.
    """
    with writing(path):
        descriptor = _open_stream(path)
        if descriptor is None:
            write_file(path, data)
            return
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)


def _open_stream(path: Path) -> int | None:
    """Open a FIFO, a character device or an open file of this process. Returns None for any other path."""
    if (number := _own_descriptor(path)) is not None:
        sys.stdout.flush()
        return os.dup(number)
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode):
        return os.open(path, os.O_WRONLY | NO_TERMINAL)
    return None


def _own_descriptor(path: Path) -> int | None:
    """Return the number of the open file that a path such as /dev/stdout or /dev/fd/3 leads to, or None."""
    for _ in range(_MAX_LINKS):
        if not path.is_symlink():
            break
        folder = path.parent.resolve()
        if folder == Path("/proc/self/fd").resolve():
            return int(path.name)
        path = folder / path.readlink()
    return None


def _replaced_mode(path: Path) -> int | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    require_regular(status)
    if _own_descriptor(path) is not None:
        raise OSError(errno.EINVAL, "not a regular file")
    return stat.S_IMODE(status.st_mode) & 0o777


def append_to(path: Path, data: bytes) -> None:
    """Append to a file that `write_file` has made, in one write. Raises OutputError."""
    with writing(path):
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | _BINARY | NO_LINK | NO_WAIT)
        with os.fdopen(descriptor, "ab") as file:
            require_regular(os.fstat(descriptor))
            file.write(data)


def remove_file(path: Path) -> None:
    """Remove a file if it exists. Raises OutputError."""
    try:
        path.unlink(missing_ok=True)
    except (OSError, ValueError) as error:
        raise OutputError(f"cannot remove {path}: {getattr(error, 'strerror', None) or error}") from None
