"""The directory where results of shards wait as files until they are asked for, and survive an interrupted run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from uuid import uuid4

from kifu.atomic_io import remove_file
from kifu.errors import OutputError
from kifu.folders import cannot_write, locked_folder

SPILL_SUFFIX = ".spill"
"""Suffix of files that results refer to, after 32 hexadecimal digits; see `Executor.spill_dir`."""

_COMPLETE = re.compile(r"\d+-\d+-([0-9a-f]{32})\.results")
_OURS = re.compile(r".*\.(results|copy)(\.part)?|lease-[0-9a-f]{32}|[0-9a-f]{32}\.spill")
_COPY = re.compile(r"[0-9a-f]{32}\.copy")


def copy_name(key: str) -> str:
    """Return the file name for the copy of a source. key: 32 hexadecimal digits, a hash of its address and version."""
    return f"{key}.copy"


class StagingDir:
    """A staging directory, locked by one caller at a time.

    A context manager: leaving it removes the directory, unless an error is the reason and it holds complete results,
    with which the next run resumes. Files of others in it are left alone.

    Attributes:
        lease: A file that exists while the directory is locked; nodes check that they see it.
    """

    def __init__(self, path: Path) -> None:
        """Lock the directory, creating it if necessary.

        Raises:
            OutputError: The directory is not writable, or another process holds it.
        """
        self.path = path
        self.lease = path / f"lease-{uuid4().hex}"
        with ExitStack() as stack:
            stack.enter_context(locked_folder(path, path))
            try:
                files = list(self._files())
                self._complete = {match[1]: file for file in files if (match := _COMPLETE.fullmatch(file.name))}
                for file in files:
                    if _COMPLETE.fullmatch(file.name) or _COPY.fullmatch(file.name):
                        continue
                    if not (self._complete and file.suffix == SPILL_SUFFIX):  # complete results may refer to them
                        remove_file(file)
                self.lease.touch(exist_ok=False)
            except OutputError:
                raise
            except OSError as error:
                raise cannot_write(path, error) from None
            self._stack = stack.pop_all()

    def _files(self) -> Iterator[Path]:
        return (file for file in list(self.path.iterdir()) if _OURS.fullmatch(file.name))

    def file(self, run: int, number: int, key: str) -> tuple[Path, bool]:
        """Return the file for the results of a shard, and whether an earlier run has completed it.

        Args:
            run: The number of the run, and.
            number: Of the shard in it. They only serve people who look: an earlier caller may have had other runs.
            key: 32 hexadecimal digits, a hash of all that the results depend on. Files whose key is never asked for
                are removed at the end.

        Raises:
            OutputError: The file cannot be renamed.
        """
        path = self.path / f"{run}-{number:06}-{key}.results"
        complete = self._complete.pop(key, None)
        if complete is not None:
            try:
                complete.replace(path)
            except OSError as error:
                raise cannot_write(path, error) from None
        return path, complete is not None

    def __enter__(self) -> StagingDir:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self._stack, suppress(OSError):  # the directory may be what went wrong; what stays is for the next run
            if kind is not None and any(_COMPLETE.fullmatch(file.name) for file in self._files()):
                self.lease.unlink(missing_ok=True)
                return
            for file in self._files():
                file.unlink()
            self.path.rmdir()
