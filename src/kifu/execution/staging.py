"""Where the results of units wait, as files, until they are asked for; and what of them an interrupted run has left."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from uuid import uuid4

from kifu.atomic_io import cannot_write, locked_folder, remove_file

_WHOLE = re.compile(r"\d+-\d+-([0-9a-f]{32})\.parcels")
_OURS = re.compile(r".*\.parcels(\.part)?|caller-[0-9a-f]{32}")


class StagingDir:
    """A folder that one caller at a time holds. A context manager: leaving it removes the folder, unless an error is
    the reason and there are results in it, with which the next run goes on. What is not ours in it is let alone."""

    def __init__(self, path: Path) -> None:
        """Raises OutputError if the folder cannot be written to, or is held."""
        self.path = path
        self.mark = path / f"caller-{uuid4().hex}"
        """A file that is there as long as the folder is held, by which others can tell that they see this folder."""
        self._left: dict[str, Path] = {}
        """By key, see `file`: whole files that an earlier run has left."""
        with ExitStack() as lock:
            lock.enter_context(locked_folder(path))
            try:
                self._look_through()
                self.mark.touch()
            except OSError as error:
                raise cannot_write(path, error) from None
            self._lock = lock.pop_all()

    def _look_through(self) -> None:
        """Notes the whole files that an earlier run has left, and removes the others."""
        for found in self._files():
            if match := _WHOLE.fullmatch(found.name):
                self._left[match[1]] = found
            else:
                remove_file(found)

    def _files(self) -> Iterator[Path]:
        return (found for found in list(self.path.iterdir()) if _OURS.fullmatch(found.name))

    def file(self, run: int, number: int, key: str) -> tuple[Path, bool]:
        """The file for the results of a unit, and whether it is there already. Raises OutputError.

        run, number: which run of this caller it is, and which unit of the run: only for people who look. key: 32
        hexadecimal digits that follow from all that the results follow from. An earlier caller may have had other runs
        before: a data set that it finished is not made again. What has a key that nobody asks for goes at the end.
        """
        path = self.path / f"{run}-{number:06}-{key}.parcels"
        left = self._left.pop(key, None)
        if left is not None:
            try:
                left.replace(path)
            except OSError as error:
                raise cannot_write(path, error) from None
        return path, left is not None

    def __enter__(self) -> StagingDir:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock, suppress(OSError):  # the folder may be what went wrong; what stays is for the next run
            whole = [found for found in self._files() if _WHOLE.fullmatch(found.name)]
            if kind is not None and whole:
                self.mark.unlink(missing_ok=True)
                return
            for found in self._files():
                found.unlink()
            self.path.rmdir()
