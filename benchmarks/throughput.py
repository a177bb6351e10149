"""Throughput from archives to data sets, in this process: the whole build, and each kernel."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
from corpus import Corpus
from figures import Figure, at_least, at_most
from isal import igzip_lib
from processes import build_command
from timing import Task, cores, in_turns, one_core

from kifu.datasets.manifest import Manifest
from kifu.go.replay import replay_all, replay_arrays
from kifu.go.state import new_state
from kifu.io import AtomicFile, temp_path
from kifu.planes import kgsgo
from kifu.recipes.kgs import parse_archive_name
from kifu.recipes.kgsgo import LoadedArchive, load_archive
from kifu.recipes.pipeline import build
from kifu.recipes.schema import load_recipe
from kifu.records.containers import blocks
from kifu.records.sgf import scan

_BUFFER = 1 << 20


def _build(corpus: Corpus, into: Path, jobs: int) -> Manifest:
    recipe = load_recipe("kgsgo-v2", corpus.overrides)
    (report,) = build(recipe, corpus.archives, into, sets=["trainall"], index=corpus.index, jobs=jobs)
    manifest: Manifest = report.manifest
    return manifest


def inflate(archives: Iterable[Path]) -> None:
    """Decompress the archives: the minimum of work to read them."""
    for path in archives:
        engine = igzip_lib.IgzipDecompressor(igzip_lib.DECOMP_GZIP)
        engine.decompress(path.read_bytes(), _BUFFER)
        while not engine.eof:
            engine.decompress(b"", _BUFFER)


def write(path: Path, size: int) -> None:
    """Write `size` zero bytes."""
    buffer = memoryview(bytes(_BUFFER))
    with path.open("wb", buffering=0) as file:
        while size:
            size -= file.write(buffer[:size])


def _touch_memory(path: Path, size: int) -> None:
    """Write `size` bytes and remove them, so that the system has the memory for them available.

    A virtual machine returns the pages of deleted files to its host after two seconds, and getting new ones takes
    longer than writing them: 1.3 to 3.5 s for 1.5 GB, against 0.3 s if they are still available.
    """
    write(path, size)
    path.unlink()


def whole_way(corpus: Corpus, folder: Path, rounds: int) -> list[Figure]:
    """Compare a build with the floor: decompress the same archives, then write the same number of bytes."""
    into, beside = folder / "built", folder / ".floor.part"
    manifest = _build(corpus, into, 1)
    shutil.rmtree(into)

    command = build_command(corpus.archives, into, corpus.overrides, "trainall", 1)
    waits: list[float] = []

    def prepare() -> None:
        _touch_memory(beside, manifest.bytes)
        waits.append(0.0)

    def floor() -> None:
        inflate(corpus.archives)
        write(beside, manifest.bytes)

    with one_core(), mock.patch("os.write", _stopwatch(os.write, waits)):
        low, built, process = in_turns(
            rounds,
            Task(floor, beside.unlink, prepare),
            Task(lambda: _build(corpus, into, 1), lambda: shutil.rmtree(into), prepare),
            Task(
                lambda: subprocess.run(command, check=True, capture_output=True), lambda: shutil.rmtree(into), prepare
            ),
        )
    writing = waits[4::3][built.clock.index(built.best)]  # the floor's come between, and the round that is not counted
    size = f"{manifest.examples:,} examples, {manifest.bytes:,} bytes"
    return [
        Figure(f"floor: inflate with isal, write {manifest.bytes:,} bytes", low.best, "s", low),
        Figure(f"whole way, kgsgo-v2 trainall ({size})", built.best, "s", built),
        Figure("of that, in write()", writing, "s"),
        at_least("whole way, one core", manifest.examples / built.best / 1e6, "M examples/s", 3, built),
        at_most("whole way, one core, against the floor", built.best / low.best, "x", 4),
        at_most("whole process of kifu build, against the build itself", process.best / built.best, "x", 1.6, process),
        at_most("whole process of kifu build, against the floor", process.best / low.best, "x", 4),
    ]


def _stopwatch(function: Callable[..., int], seconds: list[float]) -> Callable[..., int]:
    """Wrap a function so that the duration of each call is added to the last item of `seconds`."""

    def timed(*arguments: object) -> int:
        began = time.perf_counter()
        result = function(*arguments)
        seconds[-1] += time.perf_counter() - began
        return result

    return timed


class _Discarded(AtomicFile):
    """An atomic file that discards what is written, without a hash, and has zero bytes instead."""

    def write(self, data: bytes | memoryview) -> None:
        self.size += len(data)

    def commit(self, header: bytes | None = None) -> str:
        os.truncate(temp_path(self.path), self.size)
        return super().commit(header)


def threads(corpus: Corpus, folder: Path, rounds: int) -> list[Figure]:
    """Compare one thread with two, with the output discarded and written, and for the kernel alone."""
    if cores() < 2:
        return []
    into = folder / "built"
    loaded = _load(corpus)
    kernel = [_recorder(loaded), _recorder(loaded)]

    size = 0

    def make(jobs: int) -> None:
        nonlocal size
        size = _build(corpus, into, jobs).bytes

    def task(jobs: int) -> Task:
        return Task(lambda: make(jobs), lambda: shutil.rmtree(into))

    def written(jobs: int) -> Task:
        return replace(task(jobs), prepare=lambda: _touch_memory(folder / ".touched", size))

    with mock.patch("kifu.recipes.kgsgo.AtomicFile", _Discarded), ThreadPoolExecutor(2) as pool:
        bare_one, bare_two, one, two = in_turns(
            rounds,
            Task(lambda: [write_all() for write_all in kernel]),
            Task(lambda: list(pool.map(lambda write_all: write_all(), kernel))),
            task(1),
            task(2),
        )
    written_one, written_two = in_turns(rounds, written(1), written(2))
    return [
        Figure("ceiling: records kernel twice, two threads against one", bare_one.best / bare_two.best, "x", bare_two),
        Figure("one thread, output discarded", one.best, "s", one),
        Figure("two threads, output discarded", two.best, "s", two),
        at_least("two threads against one, output discarded", one.best / two.best, "x", 1.7),
        Figure("two threads against one, output written", written_one.best / written_two.best, "x", written_two),
    ]


def kernels(corpus: Corpus, folder: Path, rounds: int) -> list[Figure]:
    """Parse, replay, and write packed records from memory, compared with decompressing the archives."""
    in_memory = [block for path in corpus.archives for block in blocks(path)]
    size = sum(int((block.stop - block.start).sum()) for block in in_memory)
    games = [scan(block) for block in in_memory]
    moves = sum(len(each.moves) for each in games)
    write_all = _recorder(_load(corpus))
    examples = write_all()
    with one_core():
        inflated, parsed, replayed, recorded = in_turns(
            rounds,
            Task(lambda: inflate(corpus.archives)),
            Task(lambda: [scan(block) for block in in_memory]),
            Task(lambda: [replay_all(each) for each in games]),
            Task(write_all),
        )
    unit = "M positions/s"
    return [
        Figure("floor: inflate with isal", inflated.best, "s", inflated),
        at_least(f"SGF parse ({size:,} bytes), one core", size / parsed.best / 1e6, "MB/s", 500, parsed),
        at_least(f"replay ({moves:,} moves), one core", moves / replayed.best / 1e6, unit, 8, replayed),
        Figure("replay and v2 records into warm memory, one core", examples / recorded.best / 1e6, unit, recorded),
    ]


def _load(corpus: Corpus) -> list[LoadedArchive]:
    return [load_archive(path, archive) for path in corpus.archives if (archive := parse_archive_name(path.name))]


def _recorder(loaded: list[LoadedArchive]) -> Callable[[], int]:
    """Return a function that writes the records of all games, about 1 MB at a time, and counts them."""
    state, tables = new_state(19, 19), kgsgo.new_tables()
    chunks = []
    for archive in loaded:
        usable = np.flatnonzero(archive.drop == 0)
        games = replay_arrays(archive.games)
        placed = kgsgo.placed_stones(archive.games.root_setup, archive.handicap)
        chunks += [(games, placed, game_index) for game_index in np.array_split(usable, len(usable) // 16 + 1)]
    room = max(int(np.diff(games.move_offset)[game_index].sum()) for games, _, game_index in chunks)
    out, plies = np.empty(room * kgsgo.V2_BYTES, np.uint8), np.empty(room, np.uint16)

    def write_all() -> int:
        total = 0
        for games, placed, game_index in chunks:
            drop, examples = np.empty(len(game_index), np.uint8), np.empty(len(game_index), np.int32)
            buffers = kgsgo.RecordBuffers(out, plies, drop, examples)
            total += kgsgo.write_records(state, games, placed, game_index, kgsgo.V2, tables, buffers)
        return total

    return write_all
