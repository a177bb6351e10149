"""Directory trees: which records and archives lie in one, and its loose records as blocks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO, FileIO
from pathlib import Path

import numpy as np

from kifu.errors import Drop, SourceError
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

COMPRESSIONS = (b".gz", b".bz2", b".xz")
_ARCHIVES = (b".zip", b".tar", b".tgz", b".tbz", b".tbz2", b".txz", b".tar.gz", b".tar.bz2", b".tar.xz")
_FIRST_GUESS = 64 << 10  # bytes that one compressed record inflates to


@dataclass(frozen=True)
class Tree:
    """What a directory tree holds, in the order of the bytes of the paths below it, with / between their parts."""

    records: list[bytes]
    archives: list[Path]
    """Containers of their own: archives, files of lines (.olf), and indexes to such (.index)."""


def read_tree(root: Path) -> Tree:
    """Lists a directory tree by names alone, but for those .gz, .bz2 and .xz whose name does not say what is in them.

    Symbolic links are passed over, also those to files: what they point at lies elsewhere, or is listed anyway. Raises
    SourceError if a directory cannot be read.
    """
    files = []
    folders = [b""]
    top = os.fsencode(root)
    while folders:
        folder = folders.pop()
        try:
            with os.scandir(top + b"/" + folder) as entries:
                for entry in entries:
                    name = folder + b"/" + entry.name if folder else entry.name
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(name)
                    elif entry.is_file(follow_symlinks=False):
                        files.append(name)
        except OSError as error:
            raise SourceError(f"{os.fsdecode(top + b'/' + folder)}: {error.strerror}") from None
    files.sort()
    records = [name for name in files if name_says_record(without_compression(name))]
    archives = [root / os.fsdecode(name) for name in files if _is_archive(top, name)]
    return Tree(records, archives)


def without_compression(name: bytes) -> bytes:
    """A file's name without .gz, .bz2 or .xz at its end."""
    return name.rpartition(b".")[0] if name.lower().endswith(COMPRESSIONS) else name


def _is_archive(top: bytes, name: bytes) -> bool:
    if name.rpartition(b"/")[2].startswith(b"._"):
        return False
    plain = without_compression(name)
    if name.lower().endswith(_ARCHIVES) or name_says_lines(plain) or name_says_index(plain):
        return True
    if not name.lower().endswith(COMPRESSIONS) or name_says_record(plain):
        return False
    try:
        with FileIO(top + b"/" + name) as file:
            stream, _ = open_stream(file)
            head = np.zeros(HEADER, np.uint8)
            stream.fill(head.data)
    except OSError:
        return True  # reading it will tell
    return bool(stream.damage) or header_status(head, 0) == 1


def folder_blocks(root: Path, block_bytes: int) -> Iterator[Block]:
    """The loose records of a tree, several to a block. One that cannot be read becomes an empty row.

    Raises SourceError if there are none.
    """
    records = read_tree(root).records
    if not records:
        raise SourceError(f"{root}: no .sgf files in this directory")
    data, filled = np.empty(block_bytes, np.uint8), 0
    first, stops, drops = 0, list[int](), list[int]()
    for k, name in enumerate(records):
        content, drop = _read_record(os.fsencode(root) + b"/" + name)
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


def _read_record(path: bytes) -> tuple[Bytes, Drop]:
    """A loose record, inflated if it is compressed; empty with the reason if it cannot be read."""
    nothing = np.empty(0, np.uint8)
    try:
        with FileIO(path) as file:
            size = os.fstat(file.fileno()).st_size
            if size > MEMBER_LIMIT:
                return nothing, Drop.TOO_LARGE
            raw = file.read(size)
    except OSError:
        return nothing, Drop.UNREADABLE
    stream, compression = open_stream(BytesIO(raw))
    if not compression:
        return np.frombuffer(raw, np.uint8), Drop.KEPT
    head = np.empty(_FIRST_GUESS, np.uint8)
    content = read_whole(stream, head, stream.fill(head.data))
    if stream.damage:
        return nothing, Drop.UNREADABLE
    return (nothing, Drop.TOO_LARGE) if content is None else (content, Drop.KEPT)
