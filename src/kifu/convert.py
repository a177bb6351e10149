"""Game records of any kind into one file of another: lines of OLF, SGF as one collection, or SGF in a .zip."""

from __future__ import annotations

import bz2
import io
import os
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

import pyarrow as pa

from kifu.atomic_io import AtomicFile
from kifu.corpus.export import rows_to_olf, rows_to_sgf
from kifu.corpus.ingest import IngestItem, read_items
from kifu.corpus.rows import recorded_rows
from kifu.corpus.schema import drop_code
from kifu.corpus.sources import find_sources
from kifu.errors import DropReason, RecipeError
from kifu.execution.executor import ThreadExecutor
from kifu.progress import ProgressFactory, format_bytes, silent
from kifu.records.olf_writer import ExportFailure
from kifu.records.parse import parse_block
from kifu.records.programs import known_programs
from kifu.records.tygem import load_index

_ENDINGS = (".olf", ".olf.gz", ".olf.bz2", ".sgf", ".sgf.gz", ".sgf.bz2", ".zip")

_Spelling: TypeAlias = Literal["olf", "sgf"]

_Write: TypeAlias = Callable[[list[bytes]], None]

_DIGITS = 7
"""Of a member's name in a .zip, which is its number."""

_DATE = (1980, 1, 1, 0, 0, 0)
"""Of every member: the first that a .zip can tell."""

_UNIX = 3
"""The system that says what a member's attributes mean."""


@dataclass(slots=True)
class ConvertReport:
    """What became of the games; read == written + the sum of unsayable + the sum of drops."""

    read: int = 0
    written: int = 0
    unsayable: Counter[str] = field(default_factory=Counter)
    """By the name of the `ExportFailure`: games that the format cannot say."""
    drops: Counter[str] = field(default_factory=Counter)
    """By the name of the `DropReason`: games of which nothing could be read."""
    bytes: int = 0

    def __str__(self) -> str:
        parts = [f"{self.written:,} written"]
        parts += [f"{n:,} that cannot be said ({name.lower()})" for name, n in self.unsayable.most_common()]
        parts += [f"{n:,} {name.lower().replace('_', ' ')}" for name, n in self.drops.most_common()]
        return f"{self.read:,} games = {' + '.join(parts)}; {format_bytes(self.bytes)}"


class _Part(NamedTuple):
    """What a thread made of some games: their records, and why others have none."""

    records: list[bytes]
    read: int
    unsayable: Counter[str]
    drops: Counter[str]


def convert(
    sources: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    path: str | os.PathLike[str],
    *,
    jobs: int | None = None,
    progress: ProgressFactory = silent,
) -> ConvertReport:
    """Writes every game of the sources that can be said, in order; illegal moves are no hindrance.

    sources: as `kifu.corpus.ingest.ingest` takes them. path: ends in .olf (see docs/formats/olf.md) or .sgf (all games
    one after the other), also with .gz or .bz2 after it; or in .zip, with a member 0000001.sgf and so on for each game.
    Kept are the board, setup, main line and territory, and the root's words that a catalogue has columns for; comments,
    variations and other properties are not. jobs: threads; the bytes are the same for any number. Memory does not grow
    with the games, but for about 1 kB for each member of a .zip.
    Raises RecipeError for another ending, and SourceError, FormatError or OutputError; then there is no new file.
    """
    path = Path(path)
    spelling, open_file = _target(path)
    found = find_sources(sources)
    programs = known_programs()
    index = load_index([source.path for source in found if source.catalogue is None])

    def make(item: IngestItem) -> _Part:
        if isinstance(item.content, pa.RecordBatch):
            return _spell([item.content], spelling)
        read = parse_block(item.content, index)
        return _spell([recorded_rows(each, item.name, programs) for each in read], spelling)

    told = ConvertReport()
    with ThreadExecutor(jobs) as executor, progress("converting", None, "games") as bar, AtomicFile(path) as output:
        with open_file(output) as write:
            for part in executor.map(make, read_items(found)):
                write(part.records)
                told.read += part.read
                told.written += part.read - part.unsayable.total() - part.drops.total()
                told.unsayable += part.unsayable
                told.drops += part.drops
                bar.advance(part.read)
        output.commit()
        told.bytes = output.size
    return told


def _spell(batches: Iterable[pa.RecordBatch], spelling: _Spelling) -> _Part:
    records: list[bytes] = []
    read = 0
    unsayable, drops = Counter[str](), Counter[str]()
    for batch in batches:
        if spelling == "olf":
            lines = rows_to_olf(batch)
            records.append(lines.data.tobytes())
            why = lines.failure
        else:
            written, why = rows_to_sgf(batch)
            records += filter(None, written)
        read += len(batch)
        aside = why == ExportFailure.DROPPED
        drops.update(
            DropReason(drop_code(name)).name for name in batch.column("drop").filter(pa.array(aside)).to_pylist()
        )
        unsayable.update(ExportFailure(k).name for k in why[(why != ExportFailure.NONE) & ~aside].tolist())
    return _Part(records, read, unsayable, drops)


class _Compressor(Protocol):
    def compress(self, data: bytes, /) -> bytes: ...
    def flush(self) -> bytes: ...


class _Plain:
    """Nothing is done to the bytes."""

    def compress(self, data: bytes, /) -> bytes:
        return data

    def flush(self) -> bytes:
        return b""


class _File(io.RawIOBase):
    """An `AtomicFile` as a file that cannot be gone back in."""

    def __init__(self, output: AtomicFile) -> None:
        self._output = output

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        self._output.write(data)
        return len(data)


def _gzip() -> _Compressor:
    return zlib.compressobj(6, wbits=16 + zlib.MAX_WBITS)  # writes no time, unlike the gzip module


_COMPRESSORS: dict[str, Callable[[], _Compressor]] = {"": _Plain, ".gz": _gzip, ".bz2": bz2.BZ2Compressor}


@contextmanager
def _stream(output: AtomicFile, compression: str) -> Iterator[_Write]:
    """Record after record, compressed as one."""
    compressor = _COMPRESSORS[compression]()
    yield lambda records: output.write(compressor.compress(b"".join(records)))
    output.write(compressor.flush())


@contextmanager
def _zip(output: AtomicFile) -> Iterator[_Write]:
    """Each record a member."""
    count = 0

    def write(records: list[bytes]) -> None:
        nonlocal count
        for record in records:
            count += 1
            member = zipfile.ZipInfo(f"{count:0{_DIGITS}}.sgf", _DATE)
            member.compress_type, member.create_system, member.external_attr = zipfile.ZIP_DEFLATED, _UNIX, 0o644 << 16
            archive.writestr(member, record)

    with zipfile.ZipFile(_File(output), "w") as archive:
        yield write


def _target(path: Path) -> tuple[_Spelling, Callable[[AtomicFile], AbstractContextManager[_Write]]]:
    """How games are spelled in a file of this name, and what opens it for them. Raises RecipeError."""
    match = re.search(r"\.(?:zip|(olf|sgf)(\.gz|\.bz2)?)$", path.name.lower())
    if match is None:
        raise RecipeError(f"{path.name!r} ends in none of {', '.join(_ENDINGS)}")
    if match[1] is None:
        return "sgf", _zip
    return "olf" if match[1] == "olf" else "sgf", lambda output: _stream(output, match[2] or "")
