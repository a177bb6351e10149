"""Directory trees: which records and archives lie in one, and its loose records as blocks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from io import BytesIO, FileIO
from pathlib import Path

import numpy as np

from kifu.errors import DropReason, SourceError
from kifu.execution.executor import ThreadExecutor
from kifu.records._streams import open_stream, read_whole
from kifu.records._tar import HEADER, header_status
from kifu.records.detect import name_says_index, name_says_lines, name_says_record
from kifu.records.games import MEMBER_LIMIT, Bytes, RecordBlock, make_block
from kifu.records.places import AnyPath, Remote, open_file

COMPRESSIONS = (b".gz", b".bz2", b".xz")
_ARCHIVES = (b".zip", b".tar", b".tgz", b".tbz", b".tbz2", b".txz", b".tar.gz", b".tar.bz2", b".tar.xz")
_FIRST_GUESS = 64 << 10  # bytes that one compressed record inflates to
_REQUESTS = 16  # records that are fetched from other storage at a time
_NOTHING: Bytes = np.empty(0, np.uint8)


@dataclass(frozen=True, slots=True)
class LooseRecords:
    """The loose records of a directory tree, or some that follow one another, as they were found; can be pickled.

    Whoever reads them need not look through the tree, and each of them keeps its number whatever becomes of the others.
    """

    root: AnyPath
    first: int
    """How many records of the tree come before them."""

    names: list[bytes] = field(repr=False)
    """The paths below the root, with / between their parts, in the order of their bytes."""

    remote: list[Remote] = field(repr=False)
    """Where they are on other storage, with what that says of them; none if they are on this machine."""

    def __len__(self) -> int:
        return len(self.names)

    def part(self, begin: int, stop: int) -> LooseRecords:
        """Those from number `begin` of these to the one before `stop`."""
        return LooseRecords(self.root, self.first + begin, self.names[begin:stop], self.remote[begin:stop])

    def places(self) -> Iterator[AnyPath]:
        """Where they are."""
        if isinstance(self.root, Remote):
            yield from self.remote
        else:
            yield from (self.root / os.fsdecode(name) for name in self.names)


@dataclass(frozen=True)
class DirectoryTree:
    """What a directory tree holds, in the order of the bytes of the paths below it."""

    records: LooseRecords
    archives: list[AnyPath]
    """Containers of their own: archives, files of lines (.olf), and indexes to such (.index)."""


def list_directory(root: AnyPath) -> DirectoryTree:
    """Lists a directory tree by names alone, but for those .gz, .bz2 and .xz whose name does not say what is in them.

    Symbolic links are passed over, also those to files: what they point at lies elsewhere, or is listed anyway. Raises
    SourceError if a directory cannot be read.
    """
    if isinstance(root, Remote):
        try:
            remote = root.files()
        except OSError as error:
            raise SourceError(f"{root}: {error.strerror}") from None
        records = _records_in(remote)
        return DirectoryTree(
            LooseRecords(root, 0, records, [remote[name] for name in records]),
            _archives_in(remote, remote.__getitem__),
        )
    names = sorted(_walk(os.fsencode(root)))
    archives = _archives_in(names, lambda name: root / os.fsdecode(name))
    return DirectoryTree(LooseRecords(root, 0, _records_in(names), []), archives)


def _records_in(names: Iterable[bytes]) -> list[bytes]:
    return [name for name in names if name_says_record(strip_compression(name))]


def _archives_in(names: Iterable[bytes], at: Callable[[bytes], AnyPath]) -> list[AnyPath]:
    """at: where a file of this name is."""
    told = ((name, _says_archive(name)) for name in names)
    return [at(name) for name, says in told if says or (says is None and _holds_tar(at(name)))]


def _walk(top: bytes) -> Iterator[bytes]:
    """The paths of all files below a directory of this machine."""
    folders = [b""]
    while folders:
        folder = folders.pop()
        try:
            with os.scandir(top + b"/" + folder) as entries:
                for entry in entries:
                    name = folder + b"/" + entry.name if folder else entry.name
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(name)
                    elif entry.is_file(follow_symlinks=False):
                        yield name
        except OSError as error:
            raise SourceError(f"{os.fsdecode(top + b'/' + folder)}: {error.strerror}") from None


def strip_compression(name: bytes) -> bytes:
    """A file's name without .gz, .bz2 or .xz at its end."""
    return name.rpartition(b".")[0] if name.lower().endswith(COMPRESSIONS) else name


def _says_archive(name: bytes) -> bool | None:
    """Whether a file is a container of its own by its name; None if that can't tell."""
    if name.rpartition(b"/")[2].startswith(b"._"):
        return False
    plain = strip_compression(name)
    if name.lower().endswith(_ARCHIVES) or name_says_lines(plain) or name_says_index(plain):
        return True
    return None if name.lower().endswith(COMPRESSIONS) and not name_says_record(plain) else False


def _holds_tar(path: AnyPath) -> bool:
    """Whether a compressed file is a tar, or is damaged: reading it will tell."""
    try:
        with open_file(path) as file:
            stream, _ = open_stream(file)
            head = np.zeros(HEADER, np.uint8)
            stream.fill(head.data)
    except OSError:
        return True
    return bool(stream.damage) or header_status(head, 0) == 1


def directory_blocks(root: AnyPath, block_bytes: int) -> Iterator[RecordBlock]:
    """All loose records of a tree, as `record_blocks` gives them. Raises SourceError also if there are none."""
    records = list_directory(root).records
    if not records:
        raise SourceError(f"{root}: no .sgf files in this directory")
    return record_blocks(records, block_bytes)


def record_blocks(records: LooseRecords, block_bytes: int) -> Iterator[RecordBlock]:
    """Loose records, several to a block. One that cannot be read becomes an empty row.

    There must be some. Raises SourceError if a store of another machine does not give one of them.
    """
    data, filled = np.empty(block_bytes, np.uint8), 0
    first, stops, drops = 0, list[int](), list[int]()
    for k, (content, drop) in enumerate(_read_records(records)):
        if filled + len(content) > len(data):
            if stops:
                yield _block(records.part(first, k), data[:filled], stops, drops)
            data, filled = np.empty(max(block_bytes, len(content)), np.uint8), 0
            first, stops, drops = k, [], []
        data[filled : filled + len(content)] = content
        filled += len(content)
        stops.append(filled)
        drops.append(drop)
    yield _block(records.part(first, len(records)), data[:filled], stops, drops)


def _block(records: LooseRecords, data: Bytes, stops: list[int], drops: list[int]) -> RecordBlock:
    members = list(range(records.first, records.first + len(records)))
    return make_block(str(records.root), data, stops, members, records.names, drops)


def _read_records(records: LooseRecords) -> Iterator[tuple[Bytes, DropReason]]:
    """The records, in order; those of other storage several at a time, for each takes a while."""
    if isinstance(records.root, Path):
        top = os.fsencode(records.root)
        yield from (_read_record(top + b"/" + name) for name in records.names)
        return
    with ThreadExecutor(_REQUESTS) as executor:
        yield from executor.map(_fetch_record, records.remote, prefetch=_REQUESTS)


def _read_record(path: bytes) -> tuple[Bytes, DropReason]:
    """A loose record, inflated if it is compressed; empty with the reason if it cannot be read."""
    try:
        with FileIO(path) as file:
            size = os.fstat(file.fileno()).st_size
            raw = None if size > MEMBER_LIMIT else file.read(size)
    except OSError:
        return _NOTHING, DropReason.UNREADABLE
    return _content(raw)


def _fetch_record(record: AnyPath) -> tuple[Bytes, DropReason]:
    """The same of other storage. Raises SourceError if that does not give it, which is no fault of the record's."""
    try:
        return _content(None if record.stat().st_size > MEMBER_LIMIT else record.read_bytes())
    except OSError as error:
        raise SourceError(f"{record}: {error.strerror}") from None


def _content(raw: bytes | None) -> tuple[Bytes, DropReason]:
    """What is in a file of a record. raw: None if it is too large."""
    if raw is None:
        return _NOTHING, DropReason.TOO_LARGE
    stream, compression = open_stream(BytesIO(raw))
    if not compression:
        return np.frombuffer(raw, np.uint8), DropReason.KEPT
    head = np.empty(_FIRST_GUESS, np.uint8)
    content = read_whole(stream, head, stream.fill(head.data))
    if stream.damage:
        return _NOTHING, DropReason.UNREADABLE
    return (_NOTHING, DropReason.TOO_LARGE) if content is None else (content, DropReason.KEPT)
