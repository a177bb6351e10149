"""The result of --dry-run: the inputs and outputs of a command, which were checked, and an estimate."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kifu.cli.app import Outcome
from kifu.errors import OutputError, join_lines
from kifu.report import Report
from kifu.text import format_bytes

if TYPE_CHECKING:
    from kifu.estimate import Estimate

_SHOWN = 10
"""Number of inputs or outputs that are listed as text."""


@dataclass(frozen=True)
class TransferSize:
    """The amount of data to download.

    Attributes:
        known: Bytes, as far as the index lists them.
        unknown: Number of files whose size the index does not list.
        present: Number of files that are there already.
    """

    known: int
    unknown: int
    present: int = 0

    def __str__(self) -> str:
        """Return the line of a dry run."""
        there = f"; there already: {count_files(self.present)}" if self.present else ""
        return f"to download: {self.text()}{there}"

    def text(self) -> str:
        """Return the bytes, and the files of unknown size."""
        parts = [format_bytes(self.known)] if self.known or not self.unknown else []
        parts += [f"{count_files(self.unknown)} of unknown size"] if self.unknown else []
        return " and ".join(parts)


@dataclass(frozen=True)
class Plan(Report):
    """The inputs and outputs of a command.

    Attributes:
        estimate: The cost, if it can be estimated.
    """

    reads: tuple[str, ...]
    writes: tuple[str, ...]
    estimate: Estimate | TransferSize | None = None

    @classmethod
    def of(cls, reads: Sequence[object], writes: Sequence[Path], cost: Estimate | TransferSize | None = None) -> Plan:
        """Return a plan. Raises OutputError if an output cannot be written."""
        for path in writes:
            _check_writable(path)
        return cls(tuple(map(str, reads)), tuple(map(str, writes)), cost)

    @classmethod
    def of_sources(cls, sources: Sequence[str], writes: Sequence[Path], cost: Estimate | None = None) -> Plan:
        """Return a plan that reads sources. Raises SourceError, FormatError, OutputError."""
        from kifu.corpus.sources import count_left_out, find_sources

        found = find_sources(sources)
        count_left_out(found).log_listed()
        return cls.of([source.path for source in found], writes, cost)

    @classmethod
    def of_catalogues(cls, catalogues: Sequence[str | Path], writes: Sequence[Path]) -> Plan:
        """Return a plan that reads catalogues. Raises FormatError, OutputError."""
        from kifu.corpus.catalogue import open_catalogue

        opened = [open_catalogue(path) for path in catalogues]
        return cls.of([f"{each.path}: {each.rows:,} games" for each in opened], writes)

    @classmethod
    def of_build(
        cls, recipe: Any, sources: Sequence[str], folder: Path, sets: Sequence[str] | None, jobs: int | None
    ) -> Plan:
        """Return the plan of a build. Raises RecipeError, SourceError, FormatError, OutputError."""
        from kifu.estimate import estimate
        from kifu.recipes.pipeline import output_names, select_sets

        selected = select_sets(recipe, sets)
        writes = [folder / name for name in output_names(selected)]
        return cls.of_sources(sources, writes, estimate(sources, selected, jobs=jobs))

    def __str__(self) -> str:
        lines = [*_list_paths("reads", self.reads), *_list_paths("writes", self.writes)]
        lines += [] if self.estimate is None else str(self.estimate).splitlines()
        return join_lines([*lines, "dry run: nothing was written"])

    def outcome(self) -> Outcome:
        """Return the outcome of a command that was given --dry-run."""
        return Outcome(str(self), self)


def count_files(files: int) -> str:
    """Return a number of files as text: "1 file"."""
    return f"{files:,} file{'' if files == 1 else 's'}"


def _list_paths(verb: str, paths: Sequence[str]) -> list[str]:
    more = [f"  and {len(paths) - _SHOWN:,} more"] if len(paths) > _SHOWN else []
    return [f"{verb}:" if paths else f"{verb}: nothing", *(f"  {path}" for path in paths[:_SHOWN]), *more]


def _check_writable(path: Path) -> None:
    """Raise OutputError unless the path, or its nearest existing parent, can be written."""
    at = path.absolute()
    while not at.exists():
        at = at.parent
    if at != path.absolute() and not at.is_dir():
        raise OutputError(f"cannot write {path}: {os.strerror(errno.ENOTDIR)}")
    if not os.access(at, os.W_OK):
        raise OutputError(f"cannot write {path}: {os.strerror(errno.EACCES)}")
