"""Directory trees: which records and archives lie in one, and its loose records as blocks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BytesIO, FileIO
from pathlib import Path

import numpy as np

from kifu.errors import Drop, SourceError
from kifu.parallel import Crew
from kifu.records._members import (
    MEMBER_LIMIT,
    make_block,
    name_says_index,
    name_says_lines,
    name_says_record,
)
from kifu.records._streams import open_stream, read_whole
from kifu.records._tar import HEADER, header_status
from kifu.records.games import Block, Bytes
from kifu.records.places import Place, Remote, open_file

COMPRESSIONS = (b".gz", b".bz2", b".xz")
_ARCHIVES = (b".zip", b".tar", b".tgz", b".tbz", b".tbz2", b".txz", b".tar.gz", b".tar.bz2", b".tar.xz")
_FIRST_GUESS = 64 << 10  # bytes that one compressed record inflates to
_REQUESTS = 16  # records that are fetched from other storage at a time
_NOTHING: Bytes = np.empty(0, np.uint8)


@dataclass(frozen=True)
class Tree:
    """What a directory tree holds, in the order of the bytes of the paths below it, with / between their parts."""

    records: list[bytes]
    archives: list[Place]
    """Containers of their own: archives, files of lines (.olf), and indexes to such (.index)."""
    at: Callable[[bytes], Place]
    """Where the file of such a path is."""


def read_tree(root: Place) -> Tree:
    """Lists a directory tree by names alone, but for those .gz, .bz2 and .xz whose name does not say what is in them.

    Symbolic links are passed over, also those to files: what they point at lies elsewhere, or is listed anyway. Raises
    SourceError if a directory cannot be read.
    """
    if isinstance(root, Remote):
        try:
            remote = root.files()
        except OSError as error:
            raise SourceError(f"{root}: {error.strerror}") from None
        return _sort_out(list(remote), remote.__getitem__)
    return _sort_out(sorted(_walk(os.fsencode(root))), lambda name: root / os.fsdecode(name))


def _sort_out(names: list[bytes], at: Callable[[bytes], Place]) -> Tree:
    """at: where a file of this name is."""
    records = [name for name in names if name_says_record(without_compression(name))]
    told = ((name, _says_archive(name)) for name in names)
    return Tree(records, [at(name) for name, says in told if says or (says is None and _holds_tar(at(name)))], at)


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


def without_compression(name: bytes) -> bytes:
    """A file's name without .gz, .bz2 or .xz at its end."""
    return name.rpartition(b".")[0] if name.lower().endswith(COMPRESSIONS) else name


def _says_archive(name: bytes) -> bool | None:
    """Whether a file is a container of its own by its name; None if that can't tell."""
    if name.rpartition(b"/")[2].startswith(b"._"):
        return False
    plain = without_compression(name)
    if name.lower().endswith(_ARCHIVES) or name_says_lines(plain) or name_says_index(plain):
        return True
    return None if name.lower().endswith(COMPRESSIONS) and not name_says_record(plain) else False


def _holds_tar(path: Place) -> bool:
    """Whether a compressed file is a tar, or is damaged: reading it will tell."""
    try:
        with open_file(path) as file:
            stream, _ = open_stream(file)
            head = np.zeros(HEADER, np.uint8)
            stream.fill(head.data)
    except OSError:
        return True
    return bool(stream.damage) or header_status(head, 0) == 1


def folder_blocks(root: Place, block_bytes: int) -> Iterator[Block]:
    """The loose records of a tree, several to a block. One that cannot be read becomes an empty row.

    Raises SourceError if there are none, or if a store of another machine does not give one of them.
    """
    tree = read_tree(root)
    records = tree.records
    if not records:
        raise SourceError(f"{root}: no .sgf files in this directory")
    data, filled = np.empty(block_bytes, np.uint8), 0
    first, stops, drops = 0, list[int](), list[int]()
    for k, (content, drop) in enumerate(_read_records(root, tree)):
        if filled + len(content) > len(data):
            if stops:
                members = list(range(first, k))
                yield make_block(str(root), data[:filled], stops, members, records[first:k], drops)
            data, filled = np.empty(max(block_bytes, len(content)), np.uint8), 0
            first, stops, drops = k, [], []
        data[filled : filled + len(content)] = content
        filled += len(content)
        stops.append(filled)
        drops.append(drop)
    members = list(range(first, len(records)))
    yield make_block(str(root), data[:filled], stops, members, records[first:], drops)


def _read_records(root: Place, tree: Tree) -> Iterator[tuple[Bytes, Drop]]:
    """The loose records of a tree, in order; those of other storage several at a time, for each takes a while."""
    if isinstance(root, Path):
        yield from (_read_record(os.fsencode(root) + b"/" + name) for name in tree.records)
        return
    with Crew(_REQUESTS) as crew:
        yield from crew.map(_fetch_record, map(tree.at, tree.records), ahead=_REQUESTS)


def _read_record(path: bytes) -> tuple[Bytes, Drop]:
    """A loose record, inflated if it is compressed; empty with the reason if it cannot be read."""
    try:
        with FileIO(path) as file:
            size = os.fstat(file.fileno()).st_size
            raw = None if size > MEMBER_LIMIT else file.read(size)
    except OSError:
        return _NOTHING, Drop.UNREADABLE
    return _content(raw)


def _fetch_record(record: Place) -> tuple[Bytes, Drop]:
    """The same of other storage. Raises SourceError if that does not give it, which is no fault of the record's."""
    try:
        return _content(None if record.stat().st_size > MEMBER_LIMIT else record.read_bytes())
    except OSError as error:
        raise SourceError(f"{record}: {error.strerror}") from None


def _content(raw: bytes | None) -> tuple[Bytes, Drop]:
    """What is in a file of a record. raw: None if it is too large."""
    if raw is None:
        return _NOTHING, Drop.TOO_LARGE
    stream, compression = open_stream(BytesIO(raw))
    if not compression:
        return np.frombuffer(raw, np.uint8), Drop.KEPT
    head = np.empty(_FIRST_GUESS, np.uint8)
    content = read_whole(stream, head, stream.fill(head.data))
    if stream.damage:
        return _NOTHING, Drop.UNREADABLE
    return (_NOTHING, Drop.TOO_LARGE) if content is None else (content, Drop.KEPT)
