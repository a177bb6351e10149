"""Directory trees: list their records and archives, and read loose records as blocks."""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from io import BytesIO
from itertools import chain
from pathlib import Path

import numpy as np

from kifu.errors import DropReason, SourceError
from kifu.io import READ_ONLY, require_regular
from kifu.records._bytes import LINE_LIMIT
from kifu.records._streams import open_stream, read_whole
from kifu.records._tar import HEADER, header_status
from kifu.records.detect import (
    LINE_FORMATS,
    RECORD_EXTENSIONS,
    detect,
    is_line_name,
    is_recognized,
    is_record_name,
    is_system_name,
    keep_records,
    left_out_kind,
)
from kifu.records.games import MEMBER_LIMIT, Bytes, RecordBlock, make_block
from kifu.records.paths import CHANGED, AnyPath, Remote, local_paths, open_file

COMPRESSIONS = (b".gz", b".bz2", b".xz")
_INITIAL_SIZE = 64 << 10  # initial buffer for a compressed record, in bytes
_HEAD = 4 << 10  # bytes that tell whether a file without an extension has a game on each line
_LINE_START = re.compile(rb"(?:\xef\xbb\xbf)?[\0-\x20]*[0-9{#]")  # how formats of lines begin
_SPECIAL = "special"
_EMPTY: Bytes = np.empty(0, np.uint8)


@dataclass(frozen=True, slots=True)
class LooseRecords:
    """The loose records of a directory tree, or a consecutive part of them. Can be pickled.

    A part can be read without listing the tree again, and each record keeps its number if others appear or disappear.
    """

    root: AnyPath
    first: int  # number of records of the tree before these
    names: list[bytes] = field(repr=False)  # paths below the root with / between their parts, in byte order
    remote: list[Remote] = field(repr=False)  # with their metadata; empty on this machine

    def __len__(self) -> int:
        return len(self.names)

    def part(self, begin: int, stop: int) -> LooseRecords:
        """Return the records from index `begin` up to, but not including, `stop`."""
        return LooseRecords(self.root, self.first + begin, self.names[begin:stop], self.remote[begin:stop])

    def paths(self) -> Iterator[AnyPath]:
        """Yield the path or URL of each record."""
        if isinstance(self.root, Remote):
            yield from self.remote
        else:
            yield from (self.root / os.fsdecode(name) for name in self.names)


@dataclass(frozen=True)
class DirectoryTree:
    """The contents of a directory tree, in the byte order of the paths below it.

    Archives are all separate containers: also files of lines (.olf, .jsonl, and those without an extension that begin
    with a line of a game) and TYGEM indexes (.index). `left_out` counts all other files by extension, and links to
    files that the tree has already.
    """

    records: LooseRecords
    archives: list[AnyPath]
    left_out: Counter[str]


def list_directory(root: AnyPath) -> DirectoryTree:
    """List a directory tree by names.

    Files whose names do not reveal whether they are separate containers are opened, and their first bytes read: those
    without an extension, .jsonl, and .gz, .bz2 and .xz with another name before it.

    Symbolic links are followed, but not to a file or directory that the tree already has, by itself or by an earlier
    link. A linked file has the name and the place of its link.
    """
    if isinstance(root, Remote):
        try:
            remote = root.files()
        except OSError as error:
            raise SourceError(f"{root}: {error.strerror}") from None
        return _sort_files(root, remote, remote.__getitem__, Counter())
    names, left_out = _walk(os.fsencode(root))
    return _sort_files(root, sorted(names), lambda name: root / os.fsdecode(name), left_out)


def _sort_files(
    root: AnyPath, names: Iterable[bytes], path_of: Callable[[bytes], AnyPath], left_out: Counter[str]
) -> DirectoryTree:
    records, volumes = list[bytes](), list[bytes]()
    archives: list[AnyPath] = []
    first_volumes = set[bytes]()
    for name in names:
        kind = _kind_by_name(name)
        if kind is _Kind.DOUBTFUL:
            kind = _kind_by_content(name, path_of(name))
        if kind is _Kind.RECORD:
            records.append(name)
        elif kind is _Kind.CONTAINER:
            archives.append(path_of(name))
            first_volumes.add(name.rpartition(b".")[0])
        elif kind is _Kind.VOLUME:
            volumes.append(name)
        elif kind is _Kind.OTHER:
            left_out[left_out_kind(name)] += 1
    left_out.update(left_out_kind(name) for name in volumes if name.rpartition(b".")[0] not in first_volumes)
    remote = [path for path in map(path_of, records) if isinstance(path, Remote)]
    return DirectoryTree(LooseRecords(root, 0, records, remote), archives, left_out)


def _walk(top: bytes) -> tuple[list[bytes], Counter[str]]:
    """Return the paths of all files below a local directory, and the number of all other entries by kind.

    Links come last, so that a file that also lies in the tree keeps its own name.
    """
    files, links, directories = list[bytes](), list[bytes](), list[bytes]()
    left_out = Counter[str]()
    pending = [b""]
    while pending:
        directory = pending.pop()
        directories.append(directory)
        with _scan(top, directory) as entries:
            for entry in entries:
                name = directory + b"/" + entry.name if directory else entry.name
                if entry.is_symlink():
                    links.append(name)
                elif entry.is_dir(follow_symlinks=False):
                    pending.append(name)
                elif entry.is_file(follow_symlinks=False):
                    files.append(name)
                else:
                    left_out[_SPECIAL] += 1
    if links:
        readable = chain(directories, filter(_is_readable_name, files))
        seen = {_identity(status) for name in readable if (status := _stat(top + b"/" + name))}
        files += _follow(top, links, seen, left_out)
    return files, left_out


def _follow(top: bytes, links: list[bytes], seen: set[tuple[int, int]], left_out: Counter[str]) -> Iterator[bytes]:
    pending = sorted(links, reverse=True)
    while pending:
        name = pending.pop()
        status = _stat(top + b"/" + name)
        if status is None:
            left_out["with a broken link"] += 1
            continue
        is_directory = stat.S_ISDIR(status.st_mode)
        if is_directory or _is_readable_name(name):
            if _identity(status) in seen:
                left_out["already read by another name"] += 1
                continue
            seen.add(_identity(status))
        if is_directory:
            with _scan(top, name) as entries:
                pending += sorted((name + b"/" + entry.name for entry in entries), reverse=True)
        elif stat.S_ISREG(status.st_mode):
            yield name
        else:
            left_out[_SPECIAL] += 1


def _stat(path: bytes) -> os.stat_result | None:
    """Return the status of the file at the end of all links; None if there is no such file."""
    try:
        return Path(os.fsdecode(path)).stat()
    except OSError:
        return None


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


@contextmanager
def _scan(top: bytes, directory: bytes) -> Iterator[Iterator[os.DirEntry[bytes]]]:
    """Open a directory below `top`. Raises SourceError."""
    try:
        with os.scandir(top + b"/" + directory) as entries:
            yield entries
    except OSError as error:
        raise SourceError(f"{os.fsdecode(top + b'/' + directory)}: {error.strerror}") from None


def strip_compression(name: bytes) -> bytes:
    """Return a file's name without a final .gz, .bz2 or .xz."""
    return name.rpartition(b".")[0] if name.lower().endswith(COMPRESSIONS) else name


def _is_readable_name(name: bytes) -> bool:
    return _kind_by_name(name) is not _Kind.OTHER


class _Kind(Enum):
    """The use of a file in a directory tree.

    VOLUME is a part of a multi-volume archive other than the first, with which it is read. DOUBTFUL depends on the
    content.
    """

    RECORD, CONTAINER, VOLUME, DOUBTFUL, OTHER = range(1, 6)


_KIND_OF_EXTENSION = dict.fromkeys(RECORD_EXTENSIONS, _Kind.RECORD) | {
    b"olf": _Kind.CONTAINER, b"jsonl": _Kind.DOUBTFUL, b"index": _Kind.CONTAINER, b"zip": _Kind.CONTAINER,
    b"tar": _Kind.CONTAINER, b"tgz": _Kind.CONTAINER, b"tbz": _Kind.CONTAINER, b"tbz2": _Kind.CONTAINER,
    b"txz": _Kind.CONTAINER, b"7z": _Kind.CONTAINER,
}  # fmt: skip
_COMPRESSED_CONTAINERS = (b".tar", b".olf", b".index")


def _kind_by_name(name: bytes) -> _Kind:
    if is_system_name(name):
        return _Kind.OTHER
    stem, dot, extension = name.rpartition(b"/")[2].lower().rpartition(b".")
    if not dot:
        return _Kind.DOUBTFUL
    if kind := _KIND_OF_EXTENSION.get(extension):
        return kind
    if b"." + extension in COMPRESSIONS:
        if stem.endswith(_COMPRESSED_CONTAINERS):
            return _Kind.CONTAINER
        is_record = _KIND_OF_EXTENSION.get(stem.rpartition(b".")[2]) is _Kind.RECORD and b"." in stem
        return _Kind.RECORD if is_record else _Kind.DOUBTFUL
    if stem.endswith(b".7z") and extension.isdigit():
        return _Kind.CONTAINER if int(extension) == 1 else _Kind.VOLUME
    return _Kind.OTHER


def _kind_by_content(name: bytes, path: AnyPath) -> _Kind:
    """Return the use of a doubtful file. Reading a container reports its damage, and makes a row of a bad record."""
    plain = strip_compression(name)
    try:
        with open_file(path) as file:
            stream, compression = open_stream(file)
            head = np.empty(LINE_LIMIT if is_line_name(plain) else _HEAD, np.uint8)
            head = head[: stream.fill(head.data)]
    except OSError:
        return _Kind.RECORD if is_record_name(name) and not is_line_name(name) else _Kind.CONTAINER
    if compression and (stream.damage or (len(head) >= HEADER and header_status(head, 0) == 1)):
        return _Kind.CONTAINER
    if not is_record_name(plain):
        return _Kind.OTHER
    if not is_line_name(plain) and not _LINE_START.match(head.data):
        return _Kind.RECORD
    recognized = is_recognized(plain, head)
    if is_line_name(plain):
        return _Kind.CONTAINER if recognized else _Kind.OTHER
    block = make_block("", head, [len(head)], [0], [plain], [DropReason.KEPT])
    return _Kind.CONTAINER if recognized and detect(block)[0] in LINE_FORMATS else _Kind.RECORD


def directory_blocks(root: AnyPath, block_bytes: int) -> Iterator[RecordBlock]:
    """Yield all loose records of a tree, as `record_blocks` does. Raises SourceError, also if there are none."""
    records = list_directory(root).records
    if not records:
        raise SourceError(f"{root}: no game records in this directory")
    return record_blocks(records, block_bytes)


def record_blocks(records: LooseRecords, block_bytes: int) -> Iterator[RecordBlock]:
    """Yield loose records, at least one, several to a block. A record that cannot be read becomes an empty row.

    Files of doubtful names that are no records count in `RecordBlock.left_out`. Raises SourceError if remote storage
    fails to deliver a record.
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
    return keep_records(make_block(str(records.root), data, stops, members, records.names, drops))


def _read_records(records: LooseRecords) -> Iterator[tuple[Bytes, DropReason]]:
    if isinstance(records.root, Path):
        top = os.fsencode(records.root)
        yield from (_read_record(top + b"/" + name) for name in records.names)
    else:
        yield from (_read_record(os.fsencode(path)) for path in local_paths(records.remote))


def _read_record(path: bytes) -> tuple[Bytes, DropReason]:
    """Return a loose record, inflated if compressed; empty with the reason if it cannot be read."""
    try:
        file = os.open(path, READ_ONLY)  # it may have become a FIFO
    except OSError:
        return _EMPTY, DropReason.UNREADABLE
    try:
        status = os.fstat(file)
        require_regular(status)
        raw = None if status.st_size > MEMBER_LIMIT else os.read(file, status.st_size + 1)
        while raw is not None and len(raw) < status.st_size and (more := os.read(file, status.st_size - len(raw))):
            raw += more
    except OSError:
        return _EMPTY, DropReason.UNREADABLE
    finally:
        os.close(file)
    if raw is not None and len(raw) != status.st_size:
        raise SourceError(f"{os.fsdecode(path)}: {CHANGED}")
    return _content(raw)


def _content(raw: bytes | None) -> tuple[Bytes, DropReason]:
    """Return the content of a record file. raw: None if it is too large."""
    if raw is None:
        return _EMPTY, DropReason.TOO_LARGE
    stream, compression = open_stream(BytesIO(raw))
    if not compression:
        return np.frombuffer(raw, np.uint8), DropReason.KEPT
    head = np.empty(_INITIAL_SIZE, np.uint8)
    content = read_whole(stream, head, stream.fill(head.data))
    if stream.damage:
        return _EMPTY, DropReason.UNREADABLE
    return (_EMPTY, DropReason.TOO_LARGE) if content is None else (content, DropReason.KEPT)
