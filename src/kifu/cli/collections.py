"""The work of `kifu fetch`: the collections, their files, and downloads."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from kifu.cli.app import Outcome, Plan, note_for_interrupt, progress
from kifu.errors import printable
from kifu.fetch.collections import COLLECTIONS, FileChoice, ListedFile
from kifu.records.paths import as_path
from kifu.text import counted, format_bytes


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


def list_all() -> Outcome:
    """Return the outcome of `kifu fetch`: the table of collections."""
    rows = [
        ("name", "contents", "size", "format", "publisher"),
        *((each.name, each.title, each.size, each.format, each.publisher) for each in COLLECTIONS.values()),
        ("sample", "the bundled archive", "320 games", "SGF in tar.gz", "kifu"),
    ]
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = [
        *("  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip() for row in rows),
        "",
        "kifu fetch NAME --list lists the files of a collection.",
        "docs/collections.md gives their addresses, terms of use, and what to cite.",
    ]
    return Outcome("\n".join(lines), list(COLLECTIONS.values()))


def list_one(collection: str, choice: FileChoice, index: str | None) -> Outcome:
    """Return the outcome of --list: the chosen files of a collection."""
    from kifu.fetch.fetching import list_files

    files = list_files(collection, choice, index=index, progress=progress)
    published = COLLECTIONS[collection]

    def show() -> None:
        from kifu.report.tables import cell, make_console, make_table, print_lines

        dated = any(file.date for file in files)
        foldered = len({file.folder for file in files}) > 1
        checked = any(file.checksum for file in published.files)
        columns = [
            ("name", "left"),
            ("size", "right"),
            *([("checksum", "left")] * checked),
            *([("date", "left")] * dated),
            *([("folder", "left")] * foldered),
        ]
        table = make_table(*columns)
        for file in files:
            size = "" if file.size is None else format_bytes(file.size)
            known = [file.checksum.partition(":")[0] or "none"] * checked
            table.add_row(*map(cell, [file.name, size, *known, *([file.date] * dated), *([file.folder] * foldered)]))
        terms = f"publisher: {published.publisher}; terms of use: {published.terms}"
        print_lines(make_console(), table, "", _total(files), terms)

    return Outcome(show, files)


def fetch(collection: str, output: Path, choice: FileChoice, index: str | None, *, dry_run: bool) -> Outcome:
    """Return the outcome of a download, or of its dry run."""
    from kifu.fetch import fetching

    if collection == "sample":
        report = fetching.fetch_sample(output, dry_run=dry_run)
    else:
        note_for_interrupt("the same command resumes")
        report = fetching.fetch(collection, output, choice, index=index, dry_run=dry_run, progress=progress)
    nets = collection in COLLECTIONS and COLLECTIONS[collection].files
    if dry_run:
        size = TransferSize(report.size, report.unknown, len(report.present))
        reads = [as_path(index)] if index else [] if nets or collection == "sample" else [COLLECTIONS[collection].index]
        return Plan.of(reads, [output / name for name in report.fetched], size).outcome()
    folder = printable(shlex.quote(str(output)))
    follow = f"kifu predict GAME --net {folder}/NAME" if nets else f"kifu ingest {folder} -o games.parquet"
    return Outcome.of_output(output, f"{report}\nnext: {follow}", report)


def _total(files: list[ListedFile]) -> str:
    size = TransferSize(sum(file.size or 0 for file in files), sum(file.size is None for file in files))
    return size.text() if size.unknown == len(files) else f"{counted(len(files), 'file')}, {size.text()}"
