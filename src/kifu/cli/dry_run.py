"""The result of --dry-run: the inputs and outputs of a command, which were checked, and an estimate of its work."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kifu.cli.app import Outcome, echo
from kifu.errors import OutputError, join_lines
from kifu.text import Report

_SHOWN = 10
"""Number of inputs or outputs that are listed as text."""


@dataclass(frozen=True)
class Plan(Report):
    """The inputs and outputs of a command, and a report that estimates its work, if there is one."""

    reads: tuple[str, ...]
    writes: tuple[str, ...]
    estimate: Any = None

    @classmethod
    def of(cls, reads: Sequence[object], writes: Sequence[Path], estimate: Any = None) -> Plan:
        """Return a plan. Raises OutputError if an output cannot be written."""
        for path in writes:
            _check_writable(path)
        return cls(tuple(map(str, reads)), tuple(map(str, writes)), estimate)

    @classmethod
    def of_sources(cls, sources: Sequence[str], writes: Sequence[Path], estimate: Any = None) -> Plan:
        """Return a plan that reads sources. Raises SourceError, FormatError, OutputError."""
        from kifu.corpus.sources import count_left_out, find_sources

        found = find_sources(sources)
        count_left_out(found).log_listed()
        return cls.of([source.path for source in found], writes, estimate)

    @classmethod
    def of_catalogues(cls, catalogues: Sequence[str | Path], writes: Sequence[Path]) -> Plan:
        """Return a plan that reads catalogues. Raises FormatError, OutputError."""
        from kifu.corpus.catalogue import open_catalogue

        return cls.of([f"{found.path}: {found.rows:,} games" for found in map(open_catalogue, catalogues)], writes)

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
    existing = next(parent for parent in (path.absolute(), *path.absolute().parents) if parent.exists())
    is_no_folder = existing != path.absolute() and not existing.is_dir()
    if is_no_folder or not os.access(existing, os.W_OK):
        reason = os.strerror(errno.ENOTDIR if is_no_folder else errno.EACCES)
        raise OutputError(f"cannot write {path}: {reason}")
