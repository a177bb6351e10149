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
from dataclasses import replace
from io import FileIO
from itertools import islice

import numpy as np

from kifu.errors import DropReason, SourceError
from kifu.records._remote import RemoteFile
from kifu.records._streams import Stream, open_stream, read_whole
from kifu.records._tar import HEADER, header_status, tar_blocks
from kifu.records._tokens import LINE_LIMIT, count_lines, first_game_line, last_line_end, next_line
from kifu.records._zip import count_zip_blocks, zip_blocks
from kifu.records.detect import OLF, SGF, TYGEM, detect, name_says_index, name_says_record
from kifu.records.directory import COMPRESSIONS, directory_blocks, list_directory, strip_compression
from kifu.records.games import Bytes, RecordBlock, make_block
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
        yield from islice(directory_blocks(path, block_bytes), first, None)
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
        tree = list_directory(path)
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
    if name_says_index(strip_compression(os.fsencode(path.name))):
        return
    stream, compression = open_stream(file)
    data = np.empty(max(block_bytes, HEADER), np.uint8)
    filled = stream.fill(data.data)
    name = os.fsencode(path.name)
    if compression:
        name = strip_compression(name)
    if _is_tar(name, data, filled):
        yield from tar_blocks(str(path), stream, data, filled, block_bytes)
    elif filled and name.lower().endswith(b".zip"):  # with something before the archive, or cut off
        yield from zip_blocks(str(path), file, block_bytes)
    elif (kind := _kind(name, data, filled)) in (OLF, TYGEM):
        yield from line_blocks(str(path), name, kind, stream, data, filled)
    elif kind == SGF:
        yield _single(path, name, stream, data, filled)


def _kind(name: bytes, data: Bytes, filled: int) -> int:
    """What a file is that is no archive, by what it begins with, one of `kifu.records.detect`."""
    return int(detect(make_block("", data, [filled], [0], [name], [DropReason.KEPT]))[0])


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
            name = strip_compression(os.fsencode(path.name)) if compression else os.fsencode(path.name)
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
    is_index = name_says_index(strip_compression(name))
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


def read_blocks(containers: Iterable[AnyPath], block_bytes: int = BLOCK_BYTES) -> Iterator[RecordBlock]:
    """All blocks of the containers, with large files of lines cut into several: what threads share the work by.

    Raises SourceError as `kifu.records.containers.blocks` does.
    """
    for container in containers:
        yield from split_large_blocks(blocks(container, block_bytes=block_bytes), block_bytes)


def split_large_blocks(found: Iterable[RecordBlock], block_bytes: int = BLOCK_BYTES) -> Iterator[RecordBlock]:
    """The same members, with large files of lines cut into several blocks."""
    for block in found:
        yield from split_lines(block, block_bytes)


def line_blocks(source: str, name: bytes, kind: int, stream: Stream, data: Bytes, filled: int) -> Iterator[RecordBlock]:
    """A file of lines whose first bytes are data[:filled] and whose rest `stream` gives, as blocks of that length.

    All but the last end with a line. One line over `LINE_LIMIT` is a block of its own, cut there: the reader drops it.
    Raises SourceError at the end if the stream is damaged; the line that it broke off in is lost.
    """
    size, line, given = len(data), 0, False
    while filled:
        ended = filled < len(data)
        stop = last_line_end(data, 0, filled)
        if ended and not stream.damage:
            stop = filled
        elif stop == 0 and not ended and filled <= LINE_LIMIT:
            data, filled = _refilled(stream, data[:filled], min(4 * filled, LINE_LIMIT + 1))
            continue
        elif stop == 0 and not ended:
            stop = LINE_LIMIT + 1
        block = _content(_one(source, name, kind, data, stop, line))
        if len(block.data) and block.start[0] < block.stop[0]:
            given = True
            yield block
        line += count_lines(data, 0, stop)
        if ended:
            break
        tail = data[stop:filled]
        if data[stop - 1] != ord("\n"):
            tail = _after_line(stream, tail)
            line += 1
        data, filled = _refilled(stream, tail, size)
    if not given and not stream.damage:
        yield _one(source, name, kind, np.empty(0, np.uint8), 0, 0)
    if stream.damage:
        raise SourceError(f"{source}: {stream.damage}")


def _one(source: str, name: bytes, kind: int, data: Bytes, stop: int, line: int) -> RecordBlock:
    return replace(make_block(source, data[:stop], [stop], [0], [name], [DropReason.KEPT]), first_line=line, kind=kind)


def _content(block: RecordBlock) -> RecordBlock:
    """A block of one member of lines, without the empty lines and comments that it begins with."""
    start, stop = int(block.start[0]), int(block.stop[0])
    first = first_game_line(block.data, start, stop)
    passed = count_lines(block.data, start, first)
    return replace(block, start=np.array([first], np.int64), first_line=block.first_line + passed)


def _refilled(stream: Stream, tail: Bytes, size: int) -> tuple[Bytes, int]:
    """A new buffer of at least `size` bytes that begins with `tail`, and how many bytes of it are filled."""
    data = np.empty(max(size, len(tail)), np.uint8)
    data[: len(tail)] = tail
    return data, len(tail) + stream.fill(data.data[len(tail) :])


def _after_line(stream: Stream, tail: Bytes) -> Bytes:
    """Reads on to the end of a line -> the bytes after it that were read with it."""
    while True:
        at = np.flatnonzero(tail == ord("\n"))
        if len(at):
            return tail[at[0] + 1 :]
        tail = np.empty(LINE_LIMIT, np.uint8)
        tail = tail[: stream.fill(tail.data)]
        if not len(tail):
            return tail


def split_lines(block: RecordBlock, block_bytes: int) -> Iterator[RecordBlock]:
    """The same members, each file of lines that is larger than `block_bytes` in several blocks: nothing is copied."""
    done = 0
    large = np.flatnonzero(block.stop - block.start > block_bytes).tolist()
    kinds = detect(block) if large else ()
    for k in large:
        if kinds[k] not in (OLF, TYGEM):
            continue
        if done < k:
            yield block.part(done, k)
        yield from _cut(replace(block.part(k, k + 1), kind=int(kinds[k])), block_bytes)
        done = k + 1
    if done < len(block):
        yield block.part(done, len(block))


def _cut(block: RecordBlock, block_bytes: int) -> Iterator[RecordBlock]:
    """A block of one member, in several; a line that is longer than `block_bytes` stays whole."""
    start, stop, line = int(block.start[0]), int(block.stop[0]), block.first_line
    given = False
    while start < stop:
        end = min(start + block_bytes, stop)
        if end < stop:
            end = last_line_end(block.data, start, end)
        if end == start:
            end = next_line(block.data, start, stop)
        some = replace(block, start=np.array([start], np.int64), stop=np.array([end], np.int64), first_line=line)
        part = _content(some)
        if part.start[0] < part.stop[0]:
            given = True
            yield part
        line += count_lines(block.data, start, end)
        start = end
    if not given:
        yield replace(block, start=block.stop)
