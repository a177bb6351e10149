"""Speed, output size and memory of ingesting; speed of hashes, duplicates and OLF lines."""

from __future__ import annotations

import gzip
from collections import deque
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import orjson
import py7zr
from corpus import Corpus
from figures import Figure, at_least, at_most
from made_ogs import write_dump
from processes import KIFU, peak
from throughput import inflate, write
from timing import Task, cores, in_turns, one_core

from kifu.convert import convert
from kifu.corpus.catalogue import open_catalogue
from kifu.corpus.cleaning import load_cleaning_rules
from kifu.corpus.duplicates import find_clusters
from kifu.corpus.export import rows_to_olf
from kifu.corpus.hashes import hash_games
from kifu.corpus.ingest import ingest
from kifu.corpus.schema import game_arrays
from kifu.records.containers import blocks, read_blocks
from kifu.records.ogs import read_ogs
from kifu.records.olf import read_olf
from kifu.records.sgf import as_block, read_block

_TIMES = 10
_OGS_GAMES = _SEVENZIP_GAMES = 20_000


def _archives(corpus: Corpus) -> tuple[Path, ...]:
    return corpus.every or corpus.archives


def catalogue(corpus: Corpus, folder: Path, rounds: int) -> list[Figure]:
    """Compare ingesting with its lower bound: inflating the same archives and writing as many bytes."""
    archives, path, floor_file = _archives(corpus), folder / "games.parquet", folder / ".floor.part"
    report = ingest(archives, path, jobs=1)

    def floor() -> None:
        inflate(archives)
        write(floor_file, report.bytes)

    with one_core():
        low, legal, training = in_turns(
            rounds,
            Task(floor, floor_file.unlink),
            Task(lambda: ingest(archives, path, jobs=1), path.unlink),
            Task(lambda: ingest(archives, path, clean=load_cleaning_rules("training"), jobs=1), path.unlink),
        )
    games = f"{report.read:,} games"
    return [
        Figure(f"floor: inflate {len(archives)} archives with isal, write {report.bytes:,} bytes", low.best, "s", low),
        at_least(f"ingest ({games}), one core", report.read / legal.best, "games/s", 20_000, legal),
        Figure("ingest, one core, against the floor", legal.best / low.best, "x"),
        Figure("ingest --clean training, one core", report.read / training.best, "games/s", training),
        at_most("catalogue", report.bytes / report.read, "bytes a game", 450),
    ]


def duplicates(corpus: Corpus, folder: Path, rounds: int) -> list[Figure]:
    """Time canonical hashes of games in memory, and clusters of a catalogue."""
    path = folder / "games.parquet"
    count = ingest(_archives(corpus), path).read
    batches = [game_arrays(batch) for batch in open_catalogue(path).batches()]
    with one_core():
        hashed, clustered = in_turns(
            rounds, Task(lambda: [hash_games(games) for games in batches]), Task(lambda: find_clusters([path]))
        )
    path.unlink()
    return [
        Figure(f"canonical hashes of {count:,} games, one core", hashed.best, "s", hashed),
        Figure("duplicates and beginnings among them, one core", clustered.best, "s", clustered),
        at_most("hashes and duplicates", hashed.best + clustered.best, "s", 2),
    ]


def olf(corpus: Corpus, folder: Path, rounds: int) -> list[Figure]:
    """Time writing OLF from rows in memory, and reading OLF from memory."""
    path, lines = folder / "games.parquet", folder / "games.olf"
    ingest(_archives(corpus), path)
    count = convert(path, lines).written
    batches = list(open_catalogue(path).batches())
    in_memory = list(blocks(lines))
    with one_core():
        read, written = in_turns(
            rounds,
            Task(lambda: [read_olf(block) for block in in_memory]),
            Task(lambda: [rows_to_olf(batch) for batch in batches]),
        )
    size = lines.stat().st_size
    path.unlink()
    lines.unlink()
    return [
        at_least(f"OLF read ({count:,} games, {size:,} bytes), one core", count / read.best, "games/s", 100_000, read),
        at_least("OLF written, one core", count / written.best, "games/s", 50_000, written),
    ]


def ogs(corpus: Corpus, folder: Path, rounds: int) -> list[Figure]:
    """Compare reading OGS lines in memory with orjson, and time ingesting them."""
    dump, path = folder / "ogs.jsonl.gz", folder / "ogs.parquet"
    write_dump(dump, _archives(corpus), _OGS_GAMES)
    in_memory = list(read_blocks([dump]))
    lines = gzip.decompress(dump.read_bytes()).splitlines()

    def floor() -> None:
        for line in lines:
            orjson.loads(line)

    with one_core():
        low, read, ingested = in_turns(
            rounds,
            Task(floor),
            Task(lambda: [read_ogs(block) for block in in_memory]),
            Task(lambda: ingest(dump, path, jobs=1), path.unlink),
        )
    dump.unlink()
    size = sum(map(len, lines))
    return [
        Figure(
            f"floor: orjson.loads of {len(lines):,} OGS lines, {size:,} bytes", len(lines) / low.best, "games/s", low
        ),
        at_least("OGS JSON lines read, one core", len(lines) / read.best, "games/s", 10_000, read),
        at_least("ingest of OGS JSON lines, one core", len(lines) / ingested.best, "games/s", 10_000, ingested),
    ]


def sevenzip(corpus: Corpus, folder: Path, rounds: int) -> list[Figure]:
    """Compare reading a solid 7z archive with py7zr's extraction into memory."""
    path = folder / "games.7z"
    members, size = _write_sevenzip(path, _archives(corpus))

    def extract() -> None:
        with py7zr.SevenZipFile(path) as archive:
            archive.extract(factory=py7zr.io.BytesIOFactory(size))

    with one_core():
        low, read = in_turns(rounds, Task(extract), Task(lambda: deque(blocks(path), maxlen=0)))
    command = [*KIFU, "ingest", str(path), "-o", str(folder / "games.parquet"), "--jobs", "1"]
    return [
        Figure(f"floor: py7zr extracts {members:,} games, {size:,} bytes, LZMA2", low.best, "s", low),
        at_most("7z blocks, one core, against the floor", read.best / low.best, "x", 1.2, read),
        at_most("peak memory, kifu ingest of the 7z, one thread", peak(command), "MB", 600),
    ]


def _write_sevenzip(path: Path, archives: Sequence[Path]) -> tuple[int, int]:
    """Pack records into one solid block; return their number and bytes."""
    members = size = 0
    with py7zr.SevenZipFile(path, "w", filters=[{"id": py7zr.FILTER_LZMA2, "preset": 1}]) as archive:
        for block in read_blocks(archives):
            for k in range(min(len(block), _SEVENZIP_GAMES - members)):
                content = block.data[block.start[k] : block.stop[k]].tobytes()
                archive.writestr(content, f"games/{members}.sgf")
                members, size = members + 1, size + len(content)
    return members, size


def sgfs(corpus: Corpus, folder: Path, rounds: int) -> list[Figure]:
    """Compare parsing a .sgfs with the figures of each move, and the same SGF without KataGo's comment on the root."""
    blocks_read = [read_block(block) for path in _archives(corpus)[:1] for block in blocks(path)]
    moves = b";B[pd]C[0.44 0.56 0.00 -1.4 v=640 weight=1.00];W[dp]C[0.45 0.55 0.00 -1.3 v=640 weight=1.00]"
    lengths = [length for parsed in blocks_read for length in np.diff(parsed.games.move_offset).tolist()]
    games = [b"(;FF[4]GM[1]SZ[19]KM[7.5]RE[W+R]%s" + moves * (length // 2) + b")\n" for length in lengths]
    evaluated, plain = (
        as_block([b"".join(games).replace(b"%s", comment)])
        for comment in (b"C[startTurnIdx=0,initTurnNum=0,gameHash=00,gtype=normal]", b"C[]")
    )
    with one_core():
        without, read = in_turns(rounds, Task(lambda: read_block(plain)), Task(lambda: read_block(evaluated)))
    speeds = [len(block.data) / times.best / 1e6 for block, times in ((plain, without), (evaluated, read))]
    return [
        Figure(f"SGF with comments parsed ({len(plain.data):,} bytes), one core", speeds[0], "MB/s", without),
        Figure(".sgfs with evaluations parsed, one core", speeds[1], "MB/s", read),
    ]


def catalogue_memory(corpus: Corpus, folder: Path, rounds: int) -> list[Figure]:
    """Measure the peak memory of `kifu ingest` for all archives, and for ten links to each."""
    archives, copies = _archives(corpus), folder / "copies"
    copies.mkdir()
    links = [copies / f"{k}-{archive.name}" for k in range(_TIMES) for archive in archives]
    for k, link in enumerate(links):
        link.symlink_to(archives[k % len(archives)].resolve())

    def measure(sources: Sequence[Path], rules: str) -> Figure:
        command = [*KIFU, "ingest", *map(str, sources), "-o", str(folder / "games.parquet"), "--clean", rules]
        what = f"peak memory, kifu ingest --clean {rules} of {len(sources)} archives, {cores()} threads"
        return at_most(what, peak([*command, "--jobs", str(cores())]), "MB", 600)

    return [measure(sources, rules) for rules in ("legal", "training") for sources in (archives, links)]
