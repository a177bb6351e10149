"""Convert game records of any format to one file: OLF lines, an SGF collection, or a .zip of SGF records."""

from __future__ import annotations

import bz2
import os
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from kifu.corpus.export import rows_to_olf, rows_to_sgf
from kifu.corpus.ingest import read_items
from kifu.corpus.rows import recorded_rows
from kifu.corpus.schema import drop_code
from kifu.corpus.sources import IngestItem, count_left_out, find_sources
from kifu.errors import DropReason, RecipeError
from kifu.execution.executor import Executor
from kifu.io import AtomicFile, AtomicStream, hash_file, keep_output, open_regular
from kifu.progress import ProgressFactory, silent
from kifu.records._streams import open_stream
from kifu.records.olf_writer import ExportFailure
from kifu.records.parse import parse_block
from kifu.records.paths import Paths
from kifu.records.text import known_programs
from kifu.records.tygem import load_index
from kifu.text import Report, format_bytes, format_drops

_SUFFIXES = (".olf", ".olf.gz", ".olf.bz2", ".sgf", ".sgf.gz", ".sgf.bz2", ".zip")

_TextFormat: TypeAlias = Literal["olf", "sgf"]

_Write: TypeAlias = Callable[[list[bytes]], None]

_BEGINNINGS = {
    "olf": re.compile(rb"\d{4}-\d\d-\d\d \S|\Z"),
    "sgf": re.compile(rb"\(;FF\[4\]GM\[1\]CA\[UTF-8\]SZ\[|\Z"),
    "zip": re.compile(rb"PK\x03\x04.{26}0000001\.sgf|PK\x05\x06", re.DOTALL),
}
"""Patterns of the beginnings of files that kifu has written; without games, compressed ones are empty."""

_DIGITS = 7
"""Digits of a member's name in a .zip."""

_DATE = (1980, 1, 1, 0, 0, 0)
"""The date of all members, the earliest that a .zip can store: the bytes must not depend on the time."""

_UNIX = 3
"""The .zip code for Unix file attributes."""


@dataclass(slots=True)
class ConvertReport(Report):
    """Counts of converted games; `read` == `written` + the sum of `failures` + the sum of `drops`.

    Attributes:
        failures: By the name of the `ExportFailure`, games that the format cannot represent.
        drops: By the name of the `DropReason`, games whose record could not be read.
        left_out: Number of files and of members of archives that are not read, by kind.
    """

    read: int = 0
    written: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    drops: Counter[str] = field(default_factory=Counter)
    bytes: int = 0
    left_out: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        parts = [f"{self.written:,} written"]
        parts += [f"{n:,} that cannot be written ({name.lower()})" for name, n in self.failures.most_common()]
        drops = format_drops(dict(self.drops.most_common()))
        return f"{self.read:,} games = {' + '.join(parts)}{drops}; {format_bytes(self.bytes)}"


class _Converted(NamedTuple):
    records: list[bytes]
    read: int
    failures: Counter[str]
    drops: Counter[str]
    container: str = ""
    left_out: Mapping[str, int] = MappingProxyType({})


def convert(
    sources: Paths,
    path: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    strict: bool = False,
    jobs: int | None = None,
    progress: ProgressFactory = silent,
) -> ConvertReport:
    """Write every game of the sources that the format can represent, in order, also those with illegal moves.

    Board, setup, main line, territory, and the root's text that the catalogue has columns for are written; comments,
    variations and other properties are not. Memory does not grow with the games, except for about 1 kB per member of a
    .zip.

    Args:
        path: Its suffix selects the format: .olf (see docs/formats/olf.md) or .sgf (all games in one collection), also
            followed by .gz or .bz2; or .zip, with members 0000001.sgf and so on.
        overwrite: Replace a file of other games (`kifu.io.keep_output`), which is known once all are converted.
        strict: Raise SourceError for a damaged archive, see `kifu.corpus.ingest.ingest`.
        jobs: Number of threads; the bytes do not depend on it.

    Raises:
        RecipeError: The path has another suffix.
        OutputError: The file cannot be written. In all cases no new file is left.
    """
    path = Path(path)
    text_format, open_file = _target(path)
    keep_output(path, True, own=_is_converted(path, text_format))  # raises early
    all_sources = find_sources(sources)
    programs = known_programs()
    index = load_index([source.path for source in all_sources if source.catalogue is None])

    def convert_item(item: IngestItem) -> _Converted:
        name, block = item
        if isinstance(block, pa.RecordBatch):
            return _convert_rows([block], text_format)
        batches = [recorded_rows(each, name, programs) for each in parse_block(block, index)]
        return _convert_rows(batches, text_format)._replace(container=block.source, left_out=block.left_out)

    report, left_out = ConvertReport(), count_left_out(all_sources, strict)
    with Executor(jobs) as executor, progress("converting", None, "games") as bar, AtomicFile(path) as output:
        with open_file(output) as write:
            for part in executor.map(convert_item, read_items(all_sources)):
                write(part.records)
                report.read += part.read
                report.written += part.read - part.failures.total() - part.drops.total()
                report.failures += part.failures
                report.drops += part.drops
                left_out.add(part.container, part.read, part.left_out)
                bar.advance(part.read)
        left_out.require_games(report.read)
        if not keep_output(path, overwrite, same=path.is_file() and hash_file(path) == output.digest().hex()):
            output.commit()
    report.bytes, report.left_out = output.size, left_out.total()
    left_out.log()
    return report


def _is_converted(path: Path, text_format: _TextFormat) -> bool:
    """Return True if a file begins like one of this format that kifu has written."""
    head = np.empty(64, np.uint8)
    try:
        with open_regular(path) as file:
            head = head[: open_stream(file)[0].fill(head.data)]
    except OSError:
        return False
    return _BEGINNINGS["zip" if path.suffix.lower() == ".zip" else text_format].match(head.tobytes()) is not None


def check_suffix(path: Path) -> None:
    """Raise RecipeError unless `convert` can write a file of this name."""
    _target(path)


def _convert_rows(batches: Iterable[pa.RecordBatch], text_format: _TextFormat) -> _Converted:
    records: list[bytes] = []
    read = 0
    failures, drops = Counter[str](), Counter[str]()
    for batch in batches:
        if text_format == "olf":
            lines = rows_to_olf(batch)
            records.append(lines.data.tobytes())
            failure = lines.failure
        else:
            written, failure = rows_to_sgf(batch)
            records += filter(None, written)
        read += len(batch)
        dropped = failure == ExportFailure.DROPPED
        drops.update(
            DropReason(drop_code(name)).name for name in batch.column("drop").filter(pa.array(dropped)).to_pylist()
        )
        failures.update(ExportFailure(k).name for k in failure[(failure != ExportFailure.NONE) & ~dropped].tolist())
    return _Converted(records, read, failures, drops)


@contextmanager
def _stream(output: AtomicFile, compression: str) -> Iterator[_Write]:
    """Write concatenated records, compressed as one stream."""
    if not compression:
        yield lambda records: output.write(b"".join(records))
        return
    # The gzip module would write the time.
    compressor = bz2.BZ2Compressor() if compression == ".bz2" else zlib.compressobj(6, wbits=16 + zlib.MAX_WBITS)
    yield lambda records: output.write(compressor.compress(b"".join(records)))
    output.write(compressor.flush())


@contextmanager
def _zip(output: AtomicFile) -> Iterator[_Write]:
    count = 0

    def write(records: list[bytes]) -> None:
        nonlocal count
        for record in records:
            count += 1
            member = zipfile.ZipInfo(f"{count:0{_DIGITS}}.sgf", _DATE)
            member.compress_type, member.create_system, member.external_attr = zipfile.ZIP_DEFLATED, _UNIX, 0o644 << 16
            archive.writestr(member, record)

    with zipfile.ZipFile(AtomicStream(output), "w") as archive:
        yield write


def _target(path: Path) -> tuple[_TextFormat, Callable[[AtomicFile], AbstractContextManager[_Write]]]:
    """Return the format of records in a file of this name, and the function that opens it. Raises RecipeError."""
    match = re.search(r"\.(?:zip|(olf|sgf)(\.gz|\.bz2)?)$", path.name.lower())
    if match is None:
        raise RecipeError(f"the name must end in {', '.join(_SUFFIXES)}, got {path.name!r}")
    if match[1] is None:
        return "sgf", _zip
    return "olf" if match[1] == "olf" else "sgf", lambda output: _stream(output, match[2] or "")
