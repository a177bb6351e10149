"""The result of --dry-run: the inputs and outputs of a command, which were checked, and an estimate of its work."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kifu.cli.app import Outcome, echo
from kifu.errors import OutputError, join_lines
from kifu.text import Report, counted, format_bytes

if TYPE_CHECKING:
    from kifu.cli.estimate import Estimate
    from kifu.datasets.draws import Draws

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
        there = f"; there already: {counted(self.present, 'file')}" if self.present else ""
        return f"to download: {self.text()}{there}"

    def text(self) -> str:
        """Return the bytes, and the files of unknown size."""
        parts = [format_bytes(self.known)] if self.known or not self.unknown else []
        parts += [f"{counted(self.unknown, 'file')} of unknown size"] if self.unknown else []
        return " and ".join(parts)


@dataclass(frozen=True)
class Plan(Report):
    """The inputs and outputs of a command.

    Attributes:
        estimate: The size of the outputs, or the examples of the first epoch, if they are known.
    """

    reads: tuple[str, ...]
    writes: tuple[str, ...]
    estimate: Estimate | TransferSize | Draws | None = None

    @classmethod
    def of(
        cls, reads: Sequence[object], writes: Sequence[Path], cost: Estimate | TransferSize | Draws | None = None
    ) -> Plan:
        """Return a plan. Raises OutputError if an output cannot be written."""
        for path in writes:
            _check_writable(path)
        return cls(tuple(map(str, reads)), tuple(map(str, writes)), cost)

    @classmethod
    def of_sources(cls, sources: Sequence[str], writes: Sequence[Path], cost: Estimate | Draws | None = None) -> Plan:
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

    def outcome(self, show: Callable[[], object] | None = None) -> Outcome:
        """Return the outcome of a command that was given --dry-run; `show` prints the estimate, by default as text."""

        def show_all() -> None:
            echo(join_lines([*_list_paths("reads", self.reads), *_list_paths("writes", self.writes)]))
            if show is not None:
                show()
            elif self.estimate is not None:
                echo(str(self.estimate))
            echo("dry run: nothing was written")

        return Outcome(show_all, self)


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
