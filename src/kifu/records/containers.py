"""Everything that records come in: directories, zip and tar archives, compressed files, single records.

They lie on this machine or at a URL, see `kifu.records.places`.
Containers are read in place, nothing is unpacked to disk, and no name found in an archive is ever used as a path.
What a file is, is decided by its first bytes; its name only helps where they cannot tell. Archives in archives are not
followed. Time is linear in the inflated size, and memory bounded by a few times the size of a block or of the largest
member, whatever an archive says of itself.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import stat
from collections.abc import Iterable, Iterator
from io import FileIO
from itertools import islice

import numpy as np

from kifu.errors import DropReason, SourceError
from kifu.records._folder import COMPRESSIONS, folder_blocks, read_tree, without_compression
from kifu.records._kinds import OLF, SGF, TYGEM, kinds_in
from kifu.records._lines import line_blocks
from kifu.records._members import make_block, name_says_index, name_says_record
from kifu.records._remote import RemoteFile
from kifu.records._streams import Stream, open_stream, read_whole
from kifu.records._tar import HEADER, header_status, tar_blocks
from kifu.records._zip import count_zip_blocks, zip_blocks
from kifu.records.games import Bytes, RecordBlock
from kifu.records.places import AnyPath, Remote, as_path, open_file

_RECORD_START = re.compile(rb"\(\s*;")
_JUNK_LIMIT = 64 << 10  # bytes within which a file of another name must start a record to be taken for one

_NO_ZIPS = (*COMPRESSIONS, b".tar", b".tgz", b".tbz", b".tbz2", b".txz", b".sgf", b".olf")

BLOCK_BYTES = 4 << 20


def blocks(source: str | os.PathLike[str], *, block_bytes: int = BLOCK_BYTES, first: int = 0) -> Iterator[RecordBlock]:
    """The records of one container, several to a block, in its order and as they lie there.

    A container is

    - a directory tree: its loose records, which are the files named .sgf, in any case, and those with .gz, .bz2
      or .xz after it. They are ordered by the bytes of their paths, and numbered in that order. Archives
      and .olf files in the tree are containers of their own, which `containers` finds; symbolic links are not followed;
    - a .zip or .tar (also in .gz, .bz2 or .xz): the members named .sgf or .olf, in any case, or without an extension.
      The others are passed over, but count in `RecordBlock.member`, as folders do;
    - a file of its own (also in .gz, .bz2 or .xz), if it is named .sgf or .olf, if a record starts in its first 64 KiB,
      or if it begins with a line of OLF or TYGEM. Lines come in several blocks, cut between them, with one
      `RecordBlock.member`; an index of TYGEM games holds none, see `kifu.records.tygem.load_index`.

    block_bytes: how many bytes of members and archive headers a block holds at most, unless one member alone, or one
    line, is larger. What the blocks are depends on the container and this number only.
    first: how many blocks to pass over: those of a .zip are not inflated, all others are read but for that.

    A member over 256 MiB becomes an empty row with `DropReason.TOO_LARGE`; one that its archive or the file system cannot
    give, with `DropReason.UNREADABLE`. Raises SourceError if the container does not exist, is of no known kind, is an empty
    file or a directory without records; and, after all that is whole was given out, if it is damaged or cut off, or if
    the system cannot read on. An archive without records gives no block.
    """
    path = as_path(source)
    if _is_folder(path):
        yield from islice(folder_blocks(path, block_bytes), first, None)
        return
    try:
        with open_file(path) as file:
            yield from _file_blocks(path, file, block_bytes, first)
    except OSError as error:  # from opening or reading only: what the caller raises between blocks does not pass here
        raise SourceError(f"{path}: {error.strerror}") from None


def containers(sources: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> list[AnyPath]:
    """What to call `blocks` with, one after the other, to read all of `sources`, each a file or a directory.

    A file stays as it is. A directory becomes itself, if there are loose records in its tree, and then each archive,
    .olf file and .index of TYGEM games in the tree, ordered by the bytes of their paths. Raises SourceError if a source
    does not exist, or is a directory without any of these.
    """
    found: list[AnyPath] = []
    for source in [sources] if isinstance(sources, str | os.PathLike) else sources:
        path = as_path(source)
        if not _is_folder(path):
            found.append(path)
            continue
        tree = read_tree(path)
        if not tree.records and not tree.archives:
            raise SourceError(f"{path}: no .sgf files and no archives in this directory, nor .olf files")
        found += [path, *tree.archives] if tree.records else tree.archives
    return found


def _is_folder(path: AnyPath) -> bool:
    """Whether it is a folder, or else a file. Raises SourceError if it is neither."""
    try:
        if isinstance(path, Remote):
            return path.is_dir()
        mode = path.stat().st_mode
    except OSError as error:
        raise SourceError(f"{path}: {error.strerror}") from None
    except ValueError:  # a NUL in it
        raise SourceError(f"{str(path)!r}: no such file or directory") from None
    if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
        raise SourceError(f"{path}: neither a file nor a directory")
    return stat.S_ISDIR(mode)


def _file_blocks(path: AnyPath, file: FileIO | RemoteFile, block_bytes: int, first: int) -> Iterator[RecordBlock]:
    head = file.read(4)
    file.seek(0)
    if head in (b"PK\3\4", b"PK\5\6"):
        yield from zip_blocks(str(path), file, block_bytes, first=first)
    else:
        yield from islice(_stream_blocks(path, file, block_bytes), first, None)


def _stream_blocks(path: AnyPath, file: FileIO | RemoteFile, block_bytes: int) -> Iterator[RecordBlock]:
    """The blocks of a file that does not begin as a zip does."""
    if name_says_index(without_compression(os.fsencode(path.name))):
        return
    stream, compression = open_stream(file)
    data = np.empty(max(block_bytes, HEADER), np.uint8)
    filled = stream.fill(data.data)
    name = os.fsencode(path.name)
    if compression:
        name = without_compression(name)
    if _is_tar(name, data, filled):
        yield from tar_blocks(str(path), stream, data, filled, block_bytes)
    elif filled and name.lower().endswith(b".zip"):  # with something before the archive, or cut off
        yield from zip_blocks(str(path), file, block_bytes)
    elif (kind := _kind(name, data, filled)) in (OLF, TYGEM):
        yield from line_blocks(str(path), name, kind, stream, data, filled)
    elif kind == SGF:
        yield _single(path, name, stream, data, filled)


def _kind(name: bytes, data: Bytes, filled: int) -> int:
    """What a file is that is no archive, by what it begins with, one of `kifu.records._kinds`."""
    return int(kinds_in(make_block("", data, [filled], [0], [name], [DropReason.KEPT]))[0])


def _is_tar(name: bytes, data: Bytes, filled: int) -> bool:
    if filled < HEADER:
        return False
    status = header_status(data, 0)
    return status == 1 or (status == 0 and name.lower().endswith((b".tar", b".tgz", b".tbz", b".tbz2", b".txz")))


def _single(path: AnyPath, name: bytes, stream: Stream, data: Bytes, filled: int) -> RecordBlock:
    """A block of the one record that a file is."""
    content = read_whole(stream, data, filled)
    if stream.damage:
        raise SourceError(f"{path}: {stream.damage}")
    if not name_says_record(name):
        if filled == 0:
            raise SourceError(f"{path}: the file is empty")
        if not _RECORD_START.search(data[: min(filled, _JUNK_LIMIT)].data):
            kinds = "a directory, .zip, .tar, .gz, .bz2, .xz, .sgf, .olf and TYGEM's lines"
            raise SourceError(f"{path}: neither an archive nor a game record that is known here ({kinds} are)")
    if content is None:
        return make_block(str(path), np.empty(0, np.uint8), [0], [0], [name], [DropReason.TOO_LARGE])
    return make_block(str(path), content, [len(content)], [0], [name], [DropReason.KEPT])


def count_blocks(source: str | os.PathLike[str], *, block_bytes: int = BLOCK_BYTES) -> tuple[int, bool]:
    """How many blocks a container has, and whether it is a .zip, any of whose blocks can be read without the others.

    That is the number for a .zip, a guess for a tar and for a file of lines, by what its first block takes of the file,
    and 1 for all else, also for what cannot be read: reading it tells why. It takes no longer than to read two blocks.
    """
    path = as_path(source)
    try:
        if _is_folder(path):
            return 1, False
        with open_file(path) as file:
            if file.read(4) in (b"PK\3\4", b"PK\5\6"):
                return count_zip_blocks(file, block_bytes), True
            file.seek(0)
            stream, compression = open_stream(file)
            data = np.empty(max(block_bytes, HEADER), np.uint8)
            filled = stream.fill(data.data)
            name = without_compression(os.fsencode(path.name)) if compression else os.fsencode(path.name)
            if filled < len(data) or not (_is_tar(name, data, filled) or _kind(name, data, filled) in (OLF, TYGEM)):
                return 1, False
            return math.ceil(path.stat().st_size / file.tell()), False
    except (OSError, SourceError):
        return 1, False


def index_files(source: AnyPath) -> Iterator[Bytes]:
    """The content of each index of TYGEM games that a container is, or holds if it is a .zip: by the name .index.

    What is named as a record or another archive is not opened, as that takes a while at a URL. Raises SourceError if
    one cannot be read, is damaged or over 256 MiB. A damaged archive is not told of here: reading its records does it.
    """
    name = os.fsencode(source.name)
    is_index = name_says_index(without_compression(name))
    if _is_folder(source) or (name.lower().endswith(_NO_ZIPS) and not is_index):
        return
    try:
        with open_file(source) as file:
            if is_index:
                yield _whole(source, file)
            elif file.read(4) in (b"PK\3\4", b"PK\5\6"):
                for block in _until_damage(zip_blocks(str(source), file, BLOCK_BYTES, indexes=True)):
                    for k in range(len(block)):
                        if block.drop[k]:
                            raise SourceError(f"{source}: {block.name(k)}: {DropReason(block.drop[k]).reason}")
                        yield block.data[block.start[k] : block.stop[k]]
    except OSError as error:
        raise SourceError(f"{source}: {error.strerror}") from None


def _until_damage(found: Iterator[RecordBlock]) -> Iterator[RecordBlock]:
    with contextlib.suppress(SourceError):
        yield from found


def _whole(path: AnyPath, file: FileIO | RemoteFile) -> Bytes:
    """All of a file, inflated if it is compressed. Raises SourceError if that is damaged or over 256 MiB."""
    stream, _ = open_stream(file)
    data = np.empty(BLOCK_BYTES, np.uint8)
    content = read_whole(stream, data, stream.fill(data.data))
    if stream.damage:
        raise SourceError(f"{path}: {stream.damage}")
    if content is None:
        raise SourceError(f"{path}: {DropReason.TOO_LARGE.reason}")
    return content
