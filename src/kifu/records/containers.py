"""Containers of records: directories, zip and tar archives, compressed files, line files and single records.

They lie on this machine or at a URL, see `kifu.records.paths`. Nothing is unpacked to disk, and no name from an archive
is ever used as a path. The format of a file is decided by its first bytes; its name
only helps if they cannot tell. Archives within archives are not opened. Time is linear in the inflated size, and memory
bounded by a few times the size of a block or of the largest member, whatever the headers of an archive claim.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import stat
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kifu.errors import DropReason, SourceError, first_line, printable
from kifu.io import hash_bytes
from kifu.kernel import inline_kernel, kernel
from kifu.records._bytes import (
    COLON,
    LEFT,
    LINE_FEED,
    LINE_LIMIT,
    OPEN,
    Int,
    count_lines,
    first_game_line,
    last_line_end,
    next_line,
    skip_lines,
)
from kifu.records._sevenzip import MAGIC, SevenZipError, count_sevenzip_blocks, locate_header, sevenzip_blocks
from kifu.records._streams import ByteStream, RandomFile, open_stream, read_at, read_whole
from kifu.records._tar import HEADER, header_status, tar_blocks
from kifu.records._zip import count_zip_blocks, zip_blocks
from kifu.records.detect import LINE_FORMATS, SGF, TYGEM_INDEX, detect, is_index_name, is_recognized, keep_records
from kifu.records.directory import directory_blocks, list_directory, strip_compression
from kifu.records.games import UNREADABLE, Bytes, LeftOut, RecordBlock, describe_left_out, groups, make_block
from kifu.records.paths import AnyPath, LocalFile, Paths, Remote, StoreError, as_list, as_path, open_file
from kifu.records.sgf import find_pieces

_FIRST_VOLUME, _FIRST_NUMBER = re.compile(r"\.001\Z"), re.compile(r"001(?=\Z|[?#])")


BLOCK_BYTES = 4 << 20

GAMES_AT_ONCE = 16_384
"""Maximum number of games in a part; 4 MiB hold about 2,000 games of KGS, but 131,072 of the shortest ones."""

_RECTANGLES_AT_ONCE = 4_096
"""Maximum number of rectangles such as aa:ss in a part, each of which can be 625 setup stones."""

_G, _M, _F, _LOWER, _A, _Z = ord("G"), ord("M"), ord("F"), 0x20, ord("a"), ord("z")


class Volumes:
    """The volumes of an archive as one file, without a buffer."""

    def __init__(self, files: Sequence[RandomFile]) -> None:
        self._files = files
        self._ends = np.cumsum([file.size for file in files]).tolist()
        self.size = int(self._ends[-1])
        self._position = 0

    def seek(self, offset: int, _whence: int = os.SEEK_SET, /) -> int:
        """Move to a position from the beginning."""
        self._position = offset
        return offset

    def readinto(self, view: memoryview, /) -> int:
        """Read into the beginning of a buffer, and return the number of bytes, 0 only at the end."""
        at = bisect_right(self._ends, self._position)
        if at == len(self._files):
            return 0
        file = self._files[at]
        file.seek(self._position - (self._ends[at] - file.size))
        count = file.readinto(view[: self._ends[at] - self._position]) or 0
        self._position += count
        return count


def volume_paths(path: AnyPath) -> list[AnyPath]:
    """Return the files of a container: the path itself, and if it is the first volume of a 7z, also the others.

    Raises OSError if a file cannot be read, or a volume is missing.
    """
    volumes = [path]
    if not _FIRST_VOLUME.search(path.name):
        return volumes
    with open_file(path) as file:
        if read_at(file, 0, len(MAGIC)).tobytes() != MAGIC:
            return volumes
        try:
            begin, size, _ = locate_header(file)
        except SevenZipError:  # which reading raises again
            return volumes
        missing = begin + size - file.size
    while missing > 0:
        name = _FIRST_NUMBER.sub(f"{len(volumes) + 1:03}", os.fspath(path), count=1)
        volume = path.volume(name) if isinstance(path, Remote) else Path(name)
        try:
            found = volume.stat().st_size
        except OSError:
            found = 0
        if not found:
            raise StoreError(f"volume {volume.name} is missing or empty")
        missing -= found
        volumes.append(volume)
    return volumes


@contextmanager
def open_volumes(path: AnyPath, file: LocalFile) -> Iterator[LocalFile | Volumes]:
    """Open the other files of an open container, and join them, see `volume_paths`. Raises OSError."""
    with ExitStack() as stack:
        others: list[LocalFile] = []
        for volume in volume_paths(path)[1:]:
            others.append(open_file(volume))
            stack.enter_context(others[-1])
        yield Volumes([file, *others]) if others else file


_ZIP_MAGIC = (b"PK\3\4", b"PK\5\6")
_SUPPORTED = (
    "directories, .zip, .tar, .7z, .gz, .bz2, .xz, .sgf, .sgfs, .gib, .ngf, .ugf, .ugi, .olf, TYGEM lines, OGS .json"
)


def blocks(source: str | os.PathLike[str], *, block_bytes: int = BLOCK_BYTES, first: int = 0) -> Iterator[RecordBlock]:
    """Yield the records of one container, several to a block, in its order.

    A container is one of these:

    - A directory tree: its loose records, also in .gz, .bz2 or .xz, numbered in the byte order of their paths. A loose
      record is a file named .sgf, .sgfs, .gib, .ngf, .ugf or .ugi, ignoring case; or a file named .json or .txt, or
      without an extension, whose content is a record. Archives and files of lines in the tree are separate containers,
      which `containers` finds.
    - A .zip, a .7z (also in volumes) or a .tar (also in .gz, .bz2 or .xz): the members with such names, and .olf and
      .jsonl. Other members and directories are skipped but count in `RecordBlock.member`.
    - A single file of any name (also in .gz, .bz2 or .xz) whose content is a record, or which has a name that only
      records have. Lines come in several blocks, cut between lines, with one `RecordBlock.member`. A TYGEM index
      contains no records, see `kifu.records.tygem.load_index`.

    What is not read counts in `RecordBlock.left_out`, apart from the files that `containers` leaves out.

    A member over 256 MiB becomes an empty row with `DropReason.TOO_LARGE`; one that the archive or the file system
    cannot deliver, with `DropReason.UNREADABLE`. An archive without records gives no block.

    Args:
        block_bytes: Maximum bytes of members and archive headers in a block, unless a single member or line is larger.
            The blocks depend only on the container and this number.
        first: Number of blocks to skip. Those of a .zip are not inflated; all others have to be read nevertheless, but
            for folders of a .7z that end in them.

    Raises:
        SourceError: The container does not exist, is of an unknown kind, is an empty file or a directory without
            records; and, after all complete records, if it is damaged or truncated or cannot be read on.
    """
    path = as_path(source)
    if _is_directory(path):
        yield from islice(directory_blocks(path, block_bytes), first, None)
        return
    try:
        with open_file(path) as file:
            yield from _file_blocks(path, file, block_bytes, first)
    except SourceError:
        raise
    except OSError as error:  # not those that the caller raises between blocks
        raise SourceError(f"{path}: {error.strerror or first_line(error)}") from None


class _MemoryFile(BytesIO):
    """A file in memory as containers read it; `size` is its length."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.size = len(data)


def memory_blocks(data: bytes, name: str) -> Iterator[RecordBlock]:
    """Yield the records of a file in memory, as `blocks` does; of its name only the extension has an effect.

    Raises SourceError if the file is empty, damaged or of an unknown kind.
    """
    ending = re.search(r"\.[a-z]{1,6}\Z", name.lower())
    path = Path("the file" + (ending[0] if ending else ""))
    try:
        yield from _file_blocks(path, _MemoryFile(data), BLOCK_BYTES, 0)  # type: ignore[arg-type]
    except SourceError:
        raise
    except OSError as error:
        raise SourceError(f"{path}: {error.strerror or error}") from None


def containers(sources: Paths) -> list[AnyPath]:
    """Return the containers of `sources`, in the order in which `blocks` should read them; see `find_containers`.

    Logs what is left out of directories. Raises SourceError if a source does not exist, or is a directory without any.
    """
    found = list_containers(sources, left_out := LeftOut())
    left_out.log_listed()
    return found


def list_containers(sources: Paths, left_out: LeftOut) -> list[AnyPath]:
    """Return the containers of `sources`, and announce them to the counts."""
    found = [find_containers(as_path(source)) for source in as_list(sources)]
    for each in found:
        for path in each.paths:
            first = path is each.paths[0]  # it stands for the directory
            left_out.expect(str(path), str(each.source), each.left_out if first else Counter())
    return [path for each in found for path in each.paths]


class Containers(NamedTuple):
    """The containers of a source, and the number of all other files of a directory, see `DirectoryTree`."""

    source: AnyPath
    paths: list[AnyPath]
    left_out: Counter[str]


def find_containers(source: AnyPath) -> Containers:
    """Find the containers of a file or directory.

    A file stays as it is. A directory becomes itself, if there are loose records in its tree, followed by each archive,
    file of lines and TYGEM index in the tree, in the byte order of their paths. Symbolic links are followed, see
    `kifu.records.directory.list_directory`.

    Raises SourceError if the source does not exist, or is a directory without any.
    """
    if not _is_directory(source):
        return Containers(source, [source], Counter())
    tree = list_directory(source)
    if not tree.records and not tree.archives:
        note = f"; {describe_left_out(tree.left_out)}" if tree.left_out else ""
        note += f"; name its catalogues, such as {source}/*.parquet" if ".parquet" in tree.left_out else ""
        raise SourceError(f"{source}: no game records and no archives in this directory{note}")
    return Containers(source, [source, *tree.archives] if tree.records else tree.archives, tree.left_out)


def _is_directory(path: AnyPath) -> bool:
    """Return whether the path is a directory, and raise SourceError unless it is a directory or a file."""
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


def _file_blocks(path: AnyPath, file: LocalFile, block_bytes: int, first: int) -> Iterator[RecordBlock]:
    head = file.read(len(MAGIC))
    file.seek(0)
    if head[:4] in _ZIP_MAGIC:
        all_blocks = zip_blocks(str(path), file, block_bytes, first=first)
    elif head == MAGIC:
        with open_volumes(path, file) as volumes:
            yield from map(keep_records, sevenzip_blocks(str(path), volumes, block_bytes, first=first))
        return
    else:
        all_blocks = islice(_stream_blocks(path, file, block_bytes), first, None)
    yield from map(keep_records, all_blocks)


def _stream_blocks(path: AnyPath, file: LocalFile, block_bytes: int) -> Iterator[RecordBlock]:
    if is_index_file(path):
        return
    stream, name, data, filled = _open_stream(path, file, block_bytes)
    if _is_tar(name, data, filled):
        yield from tar_blocks(str(path), stream, data, filled, block_bytes)
    elif filled and name.lower().endswith(b".zip"):  # with other bytes before the archive, or truncated
        yield from zip_blocks(str(path), file, block_bytes)
    elif (kind := _detect_file(name, data, filled)) in LINE_FORMATS and is_recognized(name, data[:filled]):
        yield from line_blocks(str(path), name, kind, stream, data, filled)
    elif kind != TYGEM_INDEX:
        yield _single_record(path, name, stream, data, filled)


def _open_stream(path: AnyPath, file: LocalFile, block_bytes: int) -> tuple[ByteStream, bytes, Bytes, int]:
    """Return the content of a file, its name without compression, a buffer with its first bytes, and their number."""
    stream, compression = open_stream(file)
    data = np.empty(max(block_bytes, HEADER), np.uint8)
    name = os.fsencode(path.name)
    return stream, strip_compression(name) if compression else name, data, stream.fill(data.data)


def _read_whole(path: AnyPath, stream: ByteStream, data: Bytes, filled: int) -> Bytes | None:
    """Return all of a file, None if it is over 256 MiB. Raises SourceError if it is damaged."""
    content = read_whole(stream, data, filled)
    if stream.damage:
        raise SourceError(f"{path}: {stream.damage}")
    return content


def _detect_file(name: bytes, data: Bytes, filled: int) -> int:
    return int(detect(make_block("", data, [filled], [0], [name], [DropReason.KEPT]))[0])


def _is_tar(name: bytes, data: Bytes, filled: int) -> bool:
    if filled < HEADER:
        return False
    status = header_status(data, 0)
    return status == 1 or (status == 0 and name.lower().endswith((b".tar", b".tgz", b".tbz", b".tbz2", b".txz")))


def _single_record(path: AnyPath, name: bytes, stream: ByteStream, data: Bytes, filled: int) -> RecordBlock:
    content = _read_whole(path, stream, data, filled)
    if not is_recognized(name, data[:filled] if content is None else content):
        if filled == 0:
            raise SourceError(f"{path}: the file is empty")
        raise SourceError(f"{path}: neither an archive nor a game record in a supported format ({_SUPPORTED})")
    if content is None:
        return make_block(str(path), np.empty(0, np.uint8), [0], [0], [name], [DropReason.TOO_LARGE])
    return make_block(str(path), content, [len(content)], [0], [name], [DropReason.KEPT])


def count_blocks(path: AnyPath, *, block_bytes: int = BLOCK_BYTES) -> tuple[int, bool]:
    """Return the number of blocks of a container, and whether any block can be read without the others (a .zip).

    The number is exact for a .zip and a .7z; an estimate for a tar or a line file, from the part of the file that its
    first block takes; and 1 for all others and for unreadable files, whose error is raised on reading. Takes no longer
    than reading two blocks.
    """
    try:
        if _is_directory(path):
            return 1, False
        with open_file(path) as file:
            head = file.read(len(MAGIC))
            if head[:4] in _ZIP_MAGIC:
                return count_zip_blocks(file, block_bytes), True
            if head == MAGIC:
                with open_volumes(path, file) as volumes:
                    return count_sevenzip_blocks(volumes, block_bytes), False
            file.seek(0)
            _, name, data, filled = _open_stream(path, file, block_bytes)
            is_divided = _is_tar(name, data, filled) or _detect_file(name, data, filled) in LINE_FORMATS
            if filled < len(data) or not is_divided:
                return 1, False
            return math.ceil(file.size / file.tell()), False
    except OSError:
        return 1, False


def is_index_file(path: AnyPath) -> bool:
    """Return whether a file is a TYGEM index by its name."""
    return is_index_name(strip_compression(os.fsencode(path.name)))


def index_files(source: AnyPath) -> Iterator[Bytes]:
    """Yield the content of each TYGEM index that a container is, or contains if it is a .zip, by the name .index.

    A damaged archive is not reported here but when its records are read. Raises SourceError if an index cannot be read,
    is damaged or larger than 256 MiB.
    """
    is_index = is_index_file(source)
    if _is_directory(source):
        return
    try:
        with open_file(source) as file:
            if is_index:
                stream, _, data, filled = _open_stream(source, file, BLOCK_BYTES)
                if (content := _read_whole(source, stream, data, filled)) is None:
                    raise SourceError(f"{source}: {DropReason.TOO_LARGE.reason}")
                yield content
            elif file.read(4) in _ZIP_MAGIC:
                for block in _until_damage(zip_blocks(str(source), file, BLOCK_BYTES, indexes=True)):
                    for k in range(len(block)):
                        if block.drop[k]:
                            raise SourceError(f"{source}: {block.name(k)}: {DropReason(block.drop[k]).reason}")
                        yield block.data[block.start[k] : block.stop[k]]
    except SourceError:
        raise
    except OSError as error:
        if is_index:  # of others, reading their records reports it
            raise SourceError(f"{source}: {error.strerror}") from None


def _until_damage(blocks: Iterator[RecordBlock]) -> Iterator[RecordBlock]:
    with contextlib.suppress(SourceError):
        yield from blocks


def read_blocks(containers: Iterable[AnyPath], block_bytes: int = BLOCK_BYTES) -> Iterator[RecordBlock]:
    """Yield all blocks of the containers, large ones split: the units by which threads share the work."""
    for container in containers:
        yield from split_blocks(readable_blocks(container, block_bytes=block_bytes), block_bytes)


def readable_blocks(container: AnyPath, **options: int) -> Iterator[RecordBlock]:
    """Yield `blocks`, and for a local file that is damaged or cannot be opened a last one, which leaves it out.

    Raises SourceError for folders and remote files.
    """
    try:
        yield from blocks(container, **options)
    except SourceError as error:
        if isinstance(container, Remote) or not container.is_file():  # or it was removed
            raise
        reason = str(error).removeprefix(f"{printable(container)}: ")
        empty = make_block(str(container), np.empty(0, np.uint8), [], [], [], [])
        yield replace(empty, left_out=Counter({UNREADABLE + reason: 1}))


def line_blocks(
    source: str, name: bytes, kind: int, stream: ByteStream, data: Bytes, filled: int
) -> Iterator[RecordBlock]:
    """Yield a line file as blocks of the length of `data`, a buffer whose first `filled` bytes begin the file.

    Every block but the last ends at a line end. A line over `LINE_LIMIT` is a separate block, truncated there; the
    parser drops it. Raises SourceError at the end, if the stream is damaged; the line that is cut off there is lost.
    """
    size, line, yielded = len(data), 0, False
    while filled:
        ended = filled < len(data)
        stop = last_line_end(data, 0, filled)
        if ended and not stream.damage:
            stop = filled
        elif stop == 0 and not ended and filled <= LINE_LIMIT:
            data, filled = _refill(stream, data[:filled], min(4 * filled, LINE_LIMIT + 1))
            continue
        elif stop == 0 and not ended:
            stop = LINE_LIMIT + 1
        block = skip_leading_comments(_line_block(source, name, kind, data, stop, line))
        if len(block.data) and block.start[0] < block.stop[0]:
            yielded = True
            yield block
        line += count_lines(data, 0, stop)
        if ended:
            break
        tail = data[stop:filled]
        if data[stop - 1] != ord("\n"):
            tail = _skip_line(stream, tail)
            line += 1
        data, filled = _refill(stream, tail, size)
    if not yielded and not stream.damage:
        yield _line_block(source, name, kind, np.empty(0, np.uint8), 0, 0)
    if stream.damage:
        raise SourceError(f"{source}: {stream.damage}")


def _line_block(source: str, name: bytes, kind: int, data: Bytes, stop: int, line: int) -> RecordBlock:
    return replace(make_block(source, data[:stop], [stop], [0], [name], [DropReason.KEPT]), first_line=line, kind=kind)


def _refill(stream: ByteStream, tail: Bytes, size: int) -> tuple[Bytes, int]:
    """Return a new buffer of at least `size` bytes that begins with `tail`, and the number of bytes it holds."""
    data = np.empty(max(size, len(tail)), np.uint8)
    data[: len(tail)] = tail
    return data, len(tail) + stream.fill(data.data[len(tail) :])


def _skip_line(stream: ByteStream, tail: Bytes) -> Bytes:
    """Read to the end of a line and return the bytes that were read after it."""
    while True:
        at = np.flatnonzero(tail == ord("\n"))
        if len(at):
            return tail[at[0] + 1 :]
        tail = np.empty(LINE_LIMIT, np.uint8)
        tail = tail[: stream.fill(tail.data)]
        if not len(tail):
            return tail


def hash_container(path: AnyPath) -> dict[str, Any]:
    """Hash a file, volumes of a .7z as one. Returns the keys bytes and blake3. Raises OSError."""
    with open_file(path) as file, open_volumes(path, file) as volumes:
        return {"bytes": volumes.size, "blake3": hash_bytes(volumes.readinto).hexdigest()}


def split_blocks(blocks: Iterable[RecordBlock], block_bytes: int = BLOCK_BYTES) -> Iterator[RecordBlock]:
    """Yield the same members, with large blocks split, see `split_block`.

    What is left out of a block comes before it, in a block without members.
    """
    for block in blocks:
        if block.left_out:
            yield replace(block.part(0, 0), left_out=block.left_out)
        if len(block):
            yield from split_block(block if not block.left_out else replace(block, left_out=Counter()), block_bytes)


def split_block(block: RecordBlock, block_bytes: int) -> Iterator[RecordBlock]:
    """Yield the same members in parts of at most `block_bytes` and `GAMES_AT_ONCE`. Nothing is copied.

    A member that exceeds these by itself comes in pieces: a file of lines is split between lines, SGF between games. A
    line or game that is larger than `block_bytes` stays whole.
    """
    kinds = detect(block)
    counts = np.zeros((len(block), 3), np.int64)
    _count_candidates(block.data, block.start, block.stop, kinds, counts)
    counts[:, 2] = block.stop - block.start
    limits = np.array([GAMES_AT_ONCE, _RECTANGLES_AT_ONCE, block_bytes])
    # A block is at most `block_bytes` unless a single member is larger.
    if (counts[:, :2].sum(0) <= limits[:2]).all() and (len(block) == 0 or counts[:, 2].max() <= block_bytes):
        yield block
        return
    for first, last in groups(counts, limits):
        part = block.part(first, last)
        if last - first > 1 or (counts[first] <= limits).all():
            yield part
        elif kinds[first] in LINE_FORMATS:
            yield from _split_lines(replace(part, kind=int(kinds[first])), block_bytes)
        elif kinds[first] == SGF and not part.drop[0]:
            yield from find_pieces(replace(part, kind=SGF), block_bytes, GAMES_AT_ONCE)
        else:
            yield part


@inline_kernel
def _is_letter(c: Int) -> Any:
    return (c | _LOWER) >= _A and (c | _LOWER) <= _Z


@kernel
def _count_candidates(
    data: Bytes,
    start: npt.NDArray[np.int64],
    stop: npt.NDArray[np.int64],
    kinds: npt.NDArray[np.uint8],
    counts: npt.NDArray[np.int64],
) -> None:
    """Count what can begin a game in each member, which has at most as many games, and what can be a rectangle.

    Fills the first two columns of counts: [K, 3] int64.
    """
    for k in range(len(start)):
        text = data[start[k] : stop[k]]
        games, rectangles = 1, 0
        if kinds[k] == SGF:
            second, third = text[1:], text[2:]
            for i in range(len(text)):  # these loops over views are vectorized by the compiler
                games += text[i] == OPEN
            for i in range(len(third)):
                root = ((text[i] == _G) & (second[i] == _M)) | ((text[i] == _F) & (second[i] == _F))
                games += root & (third[i] == LEFT)
            for i in range(len(third)):
                rectangles += (second[i] == COLON) & _is_letter(text[i]) & _is_letter(third[i])
        else:
            for i in range(len(text)):
                games += text[i] == LINE_FEED
        counts[k, 0], counts[k, 1] = games, rectangles


def skip_leading_comments(block: RecordBlock) -> RecordBlock:
    """Return a block of one line file without its leading empty lines and comments."""
    start, stop = int(block.start[0]), int(block.stop[0])
    first = first_game_line(block.data, start, stop)
    skipped = count_lines(block.data, start, first)
    return replace(block, start=np.array([first], np.int64), first_line=block.first_line + skipped)


def _split_lines(block: RecordBlock, block_bytes: int) -> Iterator[RecordBlock]:
    """Split a block of one file of lines; a line longer than `block_bytes` stays whole."""
    start, stop, line = int(block.start[0]), int(block.stop[0]), block.first_line
    yielded = False
    while start < stop:
        end = min(start + block_bytes, stop)
        if end < stop:
            end = last_line_end(block.data, start, end)
        if end == start:
            end = next_line(block.data, start, stop)
        end = skip_lines(block.data, start, end, GAMES_AT_ONCE)
        piece = replace(block, start=np.array([start], np.int64), stop=np.array([end], np.int64), first_line=line)
        part = skip_leading_comments(piece)
        if part.start[0] < part.stop[0]:
            yielded = True
            yield part
        line += count_lines(block.data, start, end)
        start = end
    if not yielded:
        yield replace(block, start=block.stop)
