"""A catalogue's folder while parts of it are being made: they have their names, and count, all at once or not at all.

Until then they lie in a hidden folder of it. What a run that was killed has left is removed by the next one that
writes; before that it counts for nothing, since the index does not list it.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, suppress
from itertools import chain, count
from pathlib import Path
from types import TracebackType
from typing import Any
from uuid import uuid4

from blake3 import blake3

from kifu.atomic_io import cannot_write, locked_folder, temp_path, write_file
from kifu.corpus.index import INDEX, PART_NAME, Index, has_index, read_index
from kifu.errors import OutputError

_HIDDEN = ".new-"
_NAMES = "names.json"
_ARCHIVE = re.compile(r"(\.(tar|tgz|tbz2?|txz|zip|7z|gz|bz2|xz|zst|sgf|olf|parquet))+$", re.IGNORECASE)


class CatalogueTransaction:
    """The folder, which only one process at a time may hold. A context manager: what was not committed is gone."""

    def __init__(self, path: Path, keep: bool = False) -> None:
        """keep: what was made stays if an error is the reason to leave, for a run that goes on from there.

        Raises OutputError, also if the folder has something else in it, or FormatError for a damaged index.
        """
        self.path = path
        self.index: Index | None = None
        self._keep = keep
        self._lock = ExitStack()
        self._lock.enter_context(locked_folder(path))
        try:
            self.index = read_index(path) if has_index(path) else None
            self._require_ours()
            for hidden in self._hidden():
                if (hidden / _NAMES).exists():
                    self._clear(hidden)
        except BaseException:
            self._leave()
            raise

    def _require_ours(self) -> None:
        """Raises OutputError if there is no index, but something else than a run that was killed has left."""
        for entry in self.path.iterdir() if self.index is None else ():
            hidden = entry.name.startswith(_HIDDEN) or entry == temp_path(self.path / INDEX)
            if not hidden and not self._left_over(entry):
                raise OutputError(f"{self.path} has {entry.name} in it, and is no catalogue; choose another folder")

    def _left_over(self, entry: Path) -> bool:
        """Whether it is what a run that was killed while it gave names has left."""
        return any(name.split("/")[0] == entry.name for hidden in self._hidden() for name in _named(hidden))

    def _hidden(self) -> list[Path]:
        return sorted(self.path.glob(f"{_HIDDEN}*"))

    def stage(self, identity: Any) -> Path:
        """The hidden folder for what is made from this, JSON values; as it was left, if it was kept.

        Raises OutputError.
        """
        key = f"{_HIDDEN}{blake3(json.dumps(identity, sort_keys=True).encode()).hexdigest(16)}-"
        try:
            kept = [hidden for hidden in self._hidden() if hidden.name.startswith(key)]
            for hidden in self._hidden():
                if hidden not in kept[:1]:
                    shutil.rmtree(hidden)
            # Another name each time: results of a cluster that tell of another folder's files are never taken for ours.
            staged = kept[0] if kept else self.path / f"{key}{uuid4().hex[:16]}"
            staged.mkdir(exist_ok=True)
        except OSError as error:
            raise cannot_write(self.path, error) from None
        return staged

    def new_name(self, name: str, taken: Iterable[str] = ()) -> str:
        """The name of a new folder within this one, see `free_name`. taken: more that others will have."""
        return free_name(name, [*taken, *(entry.name for entry in self.path.iterdir())])

    def commit(self, staged: Path, parts: Mapping[str, Path], index: Index) -> None:
        """Gives files in the hidden folder their names, and then the index its place; removes what is not listed in it.

        Raises OutputError, and then the catalogue is what it was.
        """
        before = [] if self.index is None else [part.path for part in self.index.parts]
        write_file(staged / _NAMES, json.dumps([*parts, *before]).encode())
        try:
            for name, made in parts.items():
                target = self.path / name
                target.parent.mkdir(parents=True, exist_ok=True)
                made.replace(target)
        except OSError as error:
            raise cannot_write(self.path, error) from None
        index.write(self.path)
        self.index = index
        self._clear(staged)

    def _clear(self, hidden: Path) -> None:
        """Removes a hidden folder, and files that were to have a name, or had one, and are not listed."""
        listed = set() if self.index is None else {part.path for part in self.index.parts}
        top = self.path.resolve()
        try:
            for name in _named(hidden):
                path = self.path / name
                if name not in listed and path.resolve().is_relative_to(top):
                    path.unlink(missing_ok=True)
                    _remove_empty(path.parent, self.path)
            shutil.rmtree(hidden)
        except OSError as error:
            raise OutputError(f"cannot remove what is no part of {self.path}: {error.strerror or error}") from None

    def _leave(self) -> None:
        if self.index is None:
            _remove_empty(self.path, self.path.parent)
        self._lock.close()

    def __enter__(self) -> CatalogueTransaction:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for hidden in self._hidden():
            if kind is None or not self._keep or (hidden / _NAMES).exists():
                with suppress(OutputError):  # what cannot be removed is left for the next run, as after a kill
                    self._clear(hidden)
        self._leave()


def free_name(name: str, taken: Iterable[str]) -> str:
    """A plain name, made of any name, that none of those taken is, on systems that mix up upper and lower case too."""
    plain = re.sub(r"[^A-Za-z0-9_.+-]+", "_", _ARCHIVE.sub("", name))[:100].strip(".") or "source"
    used = {each.casefold() for each in taken}
    return next(each for each in chain([plain], (f"{plain}-{k}" for k in count(2))) if each.casefold() not in used)


def _named(hidden: Path) -> list[str]:
    """The names that were to be given, or taken away, when a commit began; others than a part's are left out."""
    try:
        names = json.loads((hidden / _NAMES).read_bytes())
    except (OSError, ValueError, RecursionError):
        return []
    return [name for name in names if isinstance(name, str) and re.fullmatch(PART_NAME, name)]


def _remove_empty(folder: Path, top: Path) -> None:
    """Removes a folder, and those around it up to `top`, as far as they are empty."""
    while folder != top:
        try:
            folder.rmdir()
        except OSError:
            return
        folder = folder.parent
