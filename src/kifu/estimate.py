"""Estimates of an ingest or a build: games, positions, time, memory and disk, before it is run.

The real job runs on a sample of the sources; its counts, sizes and times are extrapolated. Memory is a model, which
docs/scale.md compares with real runs. Duplicates cannot be foreseen from a sample.

Sources of one kind are cut into at most 12 groups of about the same size, and the source in the middle of each is
sampled. A standard error follows from how much the samples of one kind differ from each other.
"""

from __future__ import annotations

import io
import json
import math
import os
import shutil
import tarfile
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from itertools import islice, pairwise
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kifu.corpus.catalogue import CatalogueWriter, RowShard, open_catalogue, read_shard
from kifu.corpus.cleaning import CleaningRules, load_cleaning_rules
from kifu.corpus.duplicates import MAX_IDS, RANGE_GAMES
from kifu.corpus.ingest import IngestItem, IngestJob, ingest, mark_duplicates
from kifu.corpus.rows import Rows
from kifu.corpus.schema import to_numpy
from kifu.corpus.sources import Content, Source, find_sources
from kifu.corpus.splits import NO_SET
from kifu.datasets.dat import find_dat_layout
from kifu.datasets.formats import find_writer
from kifu.datasets.manifest import data_set_files, manifest_path
from kifu.datasets.writer import Writer
from kifu.errors import RecipeError, SourceError
from kifu.execution.executor import ThreadExecutor, count_jobs
from kifu.execution.serialization import dump_results
from kifu.recipes.example_jobs import CHUNK_BYTES, FILE_CHUNKS, SortExamples
from kifu.recipes.examples import WINDOW_BYTES
from kifu.recipes.kgs_index import Archive, find_archives, parse_archive_name, read_index
from kifu.recipes.kgsgo_jobs import load_archive
from kifu.recipes.pipeline import CATALOGUE, CatalogueInput, build
from kifu.recipes.sampling import Sampler
from kifu.recipes.schema import ExamplesRecipe, GameSet, KgsgoRecipe, OlfArchiveRecipe, SplitRecipe
from kifu.records.games import RecordBlock
from kifu.records.paths import AnyPath, Paths, as_list
from kifu.records.sample import estimated_size, read_sample
from kifu.records.tygem import load_index
from kifu.text import format_bytes, format_seconds

SAMPLE_BYTES = 6 << 20
"""Bytes of the sources that are read, about: some 15,000 games."""

_GROUPS = 12
_MIN_BYTES = 64 << 10  # read of each sampled source
_ROW_BYTES, _SLICE_ROWS, _SCANNED_ROWS = 400, 512, 1 << 18  # of catalogues: about; taken at once; gone through at most
_UNSURE = 0.125  # standard error, as a share, of a speed, and of a kind with one sample
_FEW_GAMES, _SPREAD_GAMES = 32, 4096  # of the first build; of the build that measures the size of shuffled examples
_BUILD_SECONDS, _BUILD_BYTES = 1.5, 1 << 30  # of the timed build, about: first pages of a file are written too fast
_DISK_BYTES = 3 << 30  # written to see how fast the disk is in the long run, before a build of more than twice as much

# The model of memory, in bytes: Python with its libraries and kernels; a thread; a row group being written.
_BASE, _PER_THREAD, _WRITER = 285_000_000, 30_000_000, 60_000_000
# Of a game: its id and hashes while duplicates are sought, its place in a draw; of a move of an archive of KGS.
_PER_ID, _PER_HASHES, _PER_GAME, _PER_MOVE = 22, 40, 120, 6
_EXPANSION = 170  # bytes of records of kgsgo per byte of an archive, about
_PACKED_BYTES = 1024  # of a row of KataGo's, or a line of OLF, before it is compressed, about


@dataclass(frozen=True, slots=True)
class Range:
    """An estimated number and its 95 % interval."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, value: float, error: float) -> Range:
        """Return a range from a standard error, as a share of the value."""
        return cls(value, value * max(1 - 2 * error, 0.0), value * (1 + 2 * error))

    def __str__(self) -> str:
        """Return a known number in full, an estimated one with three digits."""
        if self.low == self.high:
            return f"{self.value:,.0f}"
        value, low, high = (f"{round(x, min(3 - len(f'{x:.0f}'), 0)):,.0f}" for x in (self.value, self.low, self.high))
        return f"about {value} ({low} to {high})"


@dataclass(frozen=True, slots=True)
class EstimateStep:
    """A step of a run.

    Attributes:
        memory: Peak, in bytes.
        disk: Bytes of the files that stay.
        temporary: Bytes that are needed besides until the step is done.
    """

    name: str
    seconds: Range
    memory: int
    disk: Range
    temporary: int


@dataclass(frozen=True, slots=True)
class SetSize:
    """A data set: its name, its number of examples and its size in bytes."""

    name: str
    examples: Range
    bytes: Range


@dataclass(frozen=True, slots=True)
class Estimate:
    """The result of `estimate`.

    Attributes:
        sources, bytes: Number and size of the sources.
        jobs, cores: Threads of the run, and cores of this machine. Time for more threads is extrapolated.
        games, kept: Games, and those that the cleaning rules keep, not counting duplicates.
        positions: Moves of the kept games, with passes.
        steps, sets: The steps of the run, and the data sets that it builds.
        startup: Seconds until libraries and kernels are loaded, or compiled.
    """

    sources: int
    bytes: int
    jobs: int
    cores: int
    games: Range
    kept: Range
    positions: Range
    steps: tuple[EstimateStep, ...]
    sets: tuple[SetSize, ...]
    startup: float
    sampled_games: int
    seconds: float = 0.0

    def to_json(self) -> str:
        """Return the estimate as one JSON object."""
        return json.dumps(asdict(self), indent=1) + "\n"

    def __str__(self) -> str:
        lines = [
            f"{self.sources:,} source{'s' * (self.sources != 1)}, {format_bytes(self.bytes)}: {self.games} games",
            f"kept: {self.kept} games, {self.positions} positions",
        ]
        for step in self.steps:
            seconds = f"{format_seconds(step.seconds.low)} to {format_seconds(step.seconds.high)}"
            temporary = f" and {format_bytes(step.temporary)} until it is done" if step.temporary else ""
            sizes = f"{format_bytes(step.memory)} of memory, {format_bytes(round(step.disk.value))} on disk{temporary}"
            lines.append(f"{step.name}, jobs {self.jobs}: {seconds}, {sizes}")
        lines += [f"  {s.name}: {s.examples} examples, {format_bytes(round(s.bytes.value))}" for s in self.sets]
        sample = f"estimated from {self.sampled_games:,} games in {format_seconds(self.seconds)}"
        return "\n".join([*lines, f"{sample}; startup takes {format_seconds(self.startup)}"])


def estimate(
    sources: Paths,
    recipe: Any = None,
    *,
    clean: CleaningRules | None = None,
    jobs: int | None = None,
    sample_bytes: int = SAMPLE_BYTES,
) -> Estimate:
    """Estimate what `ingest`, or the build of a recipe, takes.

    Args:
        sources: As `ingest`, or the build, takes them.
        recipe: A recipe of data sets or of an archive; None for `ingest`.
        clean: Cleaning rules of `ingest`, by default "legal". A recipe has its own.
        jobs: Number of threads of the run, by default one per core.
        sample_bytes: Bytes of the sources that are read, about.

    Raises:
        RecipeError: The recipe trains a network, or cleaning rules are given besides a recipe.
        SourceError, FormatError, OutputError: As the run itself does.
    """
    began = perf_counter()
    if not isinstance(recipe, SplitRecipe | OlfArchiveRecipe | KgsgoRecipe | None):
        raise RecipeError(f"recipe {recipe.name} trains a network; only builds of data sets can be estimated")
    if recipe is not None and clean is not None:
        raise RecipeError(f"recipe {recipe.name} has its own cleaning rules; give no others")
    given = as_list(sources)
    with tempfile.TemporaryDirectory(prefix="kifu-estimate-") as folder:
        if isinstance(recipe, KgsgoRecipe):
            result = _estimate_kgsgo(recipe, given, count_jobs(jobs), sample_bytes, Path(folder))
        else:
            result = _estimate_catalogue(recipe, clean, given, count_jobs(jobs), sample_bytes, Path(folder))
    return replace(result, seconds=perf_counter() - began)


def _duration(work: float, serial: float, jobs: int, error: float, disk: float = 0.0) -> Range:
    """Return the time of work measured in seconds on `_threads(jobs)`, with a part that one thread does alone.

    It is at least `disk`, the seconds that the disk takes.
    """
    threads = _threads(jobs)
    seconds = max(work * threads / jobs + serial / jobs, serial, disk)
    return Range.of(seconds, math.hypot(error, _UNSURE))


def _disk_seconds(size: float, folder: Path) -> float:
    """Return how long the disk takes to write so many bytes; 0 for small sizes, and without space to try.

    Memory, and the disks of virtual machines, take the first gigabytes faster than the others.
    """
    if size < 2 * _DISK_BYTES or shutil.disk_usage(folder).free < 2 * _DISK_BYTES:
        return 0.0
    piece, times = os.urandom(1 << 20), [perf_counter()]
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        for _ in range(3):
            for _ in range(_DISK_BYTES // 3 // len(piece)):
                file.write(piece)
            times.append(perf_counter())
    return times[-1] - times[0] + (size / _DISK_BYTES - 1) * 3 * (times[-1] - times[-2])


def _threads(jobs: int) -> int:
    return min(jobs, count_jobs(None))


# The sample.


@dataclass(frozen=True, slots=True)
class SamplePart:
    """The sample of one source.

    Attributes:
        kind: Parts of one kind are compared with each other.
        items: Blocks of records, or batches of rows.
        size: Approximate size in bytes of its kind.
        weight: Factor from the sample to what it represents, at least 1.
        seconds: Time to read all that it stands for.
    """

    source: Source
    kind: str
    items: list[Content]
    size: float
    weight: float
    seconds: float


def draw_sample(sources: Iterable[Source], sample_bytes: int) -> list[SamplePart]:
    """Read about `sample_bytes` of the sources, or all if they are smaller. Raises SourceError, FormatError."""
    kinds: defaultdict[str, list[tuple[Source, RowShard | None, int]]] = defaultdict(list)
    for source in sources:
        if source.catalogue is not None:
            shards = [shard for shard in source.catalogue.shards() if shard.rows]
            kinds["catalogue"] += [(source, shard, shard.rows * _ROW_BYTES) for shard in shards]
        else:
            kind = "folder" if source.path.is_dir() else source.path.name[source.path.name.rfind(".") :].lower()
            kinds[kind].append((source, None, max(estimated_size(source.path), 1)))
    total = sum(size for candidates in kinds.values() for _, _, size in candidates)
    parts = []
    for kind, candidates in kinds.items():
        groups = list(_groups([size for *_, size in candidates], len(candidates) if total <= sample_bytes else _GROUPS))
        for k, group_size in groups:
            (source, shard, size), wanted = candidates[k], max(sample_bytes * group_size // total, _MIN_BYTES)
            items, share, seconds = _read(source, shard, wanted, _SCANNED_ROWS // len(groups))
            weight = group_size / size / share
            parts.append(SamplePart(source, kind, items, size * share, weight, seconds * group_size / size))
    return parts


def _groups(sizes: Sequence[int], most: int) -> Iterator[tuple[int, int]]:
    """Yield the index of the source in the middle of each of at most `most` groups, and the size of the group."""
    ends = np.cumsum(sizes)
    bounds: Sequence[int] = range(len(sizes) + 1)
    if len(sizes) > most:
        cuts = np.searchsorted(ends, ends[-1] * np.arange(1, most) / most) + 1
        bounds = np.unique([0, *cuts, len(sizes)]).tolist()
    for low, high in pairwise(np.append(0, ends)[list(bounds)].tolist()):
        yield int(np.searchsorted(ends, (low + high) / 2)), high - low


def _read(source: Source, shard: RowShard | None, wanted: int, scanned: int) -> tuple[list[Content], float, float]:
    """Return the sampled items of a source, the share of it that they are, and the seconds to read all of it."""
    if shard is None:
        sample = read_sample(source.path, wanted)
        return [*sample.blocks], sample.share, sample.seconds
    slices = -(-(wanted // _ROW_BYTES) // _SLICE_ROWS)
    stop = max(min(scanned, shard.rows) // _SLICE_ROWS, slices)  # skipping rows of a row group saves no time
    items = list(islice(read_shard(shard, size=_SLICE_ROWS), stop // slices // 2, stop, stop // slices))
    return [*items], sum(map(len, items)) / shard.rows, 0.0


def standard_error(parts: Sequence[SamplePart], counts: npt.NDArray[np.float64]) -> float:
    """Return the standard error of a total, as a share of it; counts: [P], by part. 0 if all was sampled."""
    total = float(sum(part.weight * count for part, count in zip(parts, counts)))
    variance = 0.0
    for kind in {part.kind for part in parts}:
        mine = [(part, count) for part, count in zip(parts, counts) if part.kind == kind]
        density = np.array([count / part.size for part, count in mine])
        spread = float(density.std(ddof=1)) if len(mine) > 1 else _UNSURE * float(density[0])
        unseen = sum((part.weight * part.size) ** 2 * (1 - 1 / part.weight) for part, _ in mine)
        variance += unseen * spread**2
    error = math.sqrt(variance) / total if total else 0.0
    return error if error > 1e-9 else 0.0  # rounding


# Ingests, and builds from catalogues.


class _Sample:
    """The sample as a catalogue. games, kept, moves: [P] float64 by part; part: [G], the part of each row."""

    def __init__(self, parts: list[SamplePart], path: Path) -> None:
        self.parts, self.path = parts, path
        self.part = np.empty(0, np.int64)
        self.games = self.kept = self.moves = np.zeros(len(parts))
        self.startup = 0.0

    def copy(self, metadata: dict[str, Any]) -> None:
        """Write the rows of catalogues as they are."""
        with CatalogueWriter(self.path) as writer:
            for part in self.parts:
                for batch in part.items:
                    assert isinstance(batch, pa.RecordBatch)
                    writer.write(batch)
            writer.commit(metadata)
        self._count([np.full(sum(map(len, part.items)), k) for k, part in enumerate(self.parts)])

    def ingest(self, clean: CleaningRules, job: IngestJob, threads: int) -> float:
        """Ingest the sample and return the seconds that it took."""
        items = [(k, IngestItem(part.source.name, item)) for k, part in enumerate(self.parts) for item in part.items]
        first, second = (self._ingest(items[:1], clean, job, 1) for _ in range(2))
        self.startup = max(first - second, 0.0)
        return min(self._ingest(items, clean, job, threads) for _ in range(2))

    def _ingest(self, items: list[tuple[int, IngestItem]], clean: CleaningRules, job: IngestJob, threads: int) -> float:
        part = [np.empty(0, np.int64)]

        def rows() -> Iterator[Rows]:
            for (k, _), made in zip(items, executor.map(job.process, [item for _, item in items])):
                part.extend(np.full(len(each.drop), k) for each in made.rows)
                yield from made.rows

        began = perf_counter()
        with ThreadExecutor(threads) as executor, CatalogueWriter(self.path) as writer:
            with closing(mark_duplicates(rows(), clean, executor, self.path)) as batches:
                for batch in batches:
                    writer.write(batch)
            writer.commit({"clean": clean.model_dump(mode="json")})
        seconds = perf_counter() - began
        self._count(part)
        return seconds

    def _count(self, part: list[npt.NDArray[np.int64]]) -> None:
        self.part = np.concatenate(part)
        batches = list(open_catalogue(self.path).batches(("drop", "n_legal")))
        if not batches:
            names = dict.fromkeys(part.source.name for part in self.parts)
            raise SourceError(f"{', '.join(names) or 'the sources'}: no game records to estimate from")
        columns = pa.Table.from_batches(batches).combine_chunks()
        kept = columns["drop"].is_null().to_numpy().astype(np.float64)
        moves = kept * columns["n_legal"].to_numpy()
        self.games, self.kept, self.moves = (
            np.bincount(self.part, weights, len(self.parts)).astype(np.float64) for weights in (None, kept, moves)
        )

    def total(self, counts: npt.NDArray[np.float64]) -> Range:
        weights = [part.weight for part in self.parts]
        return Range.of(float(np.dot(weights, counts)), standard_error(self.parts, counts))

    def size(self, games: float) -> float:
        """Return the size in bytes of a catalogue of so many games like these: those of a file without rows remain."""
        sample = open_catalogue(self.path)
        with CatalogueWriter(self.path.with_name("one.parquet")) as writer:
            for batch in islice(sample.batches(), 1):
                writer.write(batch.slice(0, 1))
            writer.commit(sample.metadata)
            fixed = writer.size
        own = max(self.path.stat().st_size - fixed, 0)
        return fixed + own * games / max(sample.rows, 1)


def _estimate_catalogue(
    recipe: Any, clean: CleaningRules | None, given: list[Any], jobs: int, sample_bytes: int, folder: Path
) -> Estimate:
    sources = find_sources(given)
    sample = _Sample(draw_sample(sources, sample_bytes), folder / "sample.parquet")
    clean = clean or (recipe and recipe.clean) or load_cleaning_rules("legal")
    steps: list[EstimateStep] = []
    sets: list[SetSize] = []
    if _uses_catalogues(recipe, sources):
        sample.copy({"clean": clean.model_dump(mode="json")})
    else:
        began = perf_counter()
        job = IngestJob(clean, load_index([source.path for source in sources if source.catalogue is None]))
        reading = sum(part.seconds for part in sample.parts) + perf_counter() - began
        seconds = sample.ingest(clean, job, _threads(jobs))
        games, error = sample.total(sample.games), standard_error(sample.parts, sample.games)
        seconds *= games.value / max(sample.games.sum(), 1.0)
        size = sample.size(games.value)
        temporary = round(size) if clean.duplicates == "games" else 0
        memory = _BASE + jobs * _PER_THREAD + _WRITER * (2 if clean.duplicates == "games" else 1)
        memory += 0 if clean.duplicates == "keep" else _PER_ID * round(min(games.value, MAX_IDS))
        memory += _PER_HASHES * round(min(games.value, RANGE_GAMES)) if clean.duplicates == "games" else 0
        duration = _duration(seconds, reading, jobs, error)
        steps.append(EstimateStep("ingest", duration, memory, Range.of(size, error), temporary))
    startup = sample.startup
    if recipe is not None:
        step, sets, more = _estimate_build(recipe, sample, jobs, folder)
        steps.append(step)
        startup += more
    return Estimate(
        sources=len(sources),
        bytes=sum(s.catalogue.file_bytes() if s.catalogue else estimated_size(s.path) for s in sources),
        jobs=jobs,
        cores=count_jobs(None),
        games=sample.total(sample.games),
        kept=sample.total(sample.kept),
        positions=sample.total(sample.moves),
        steps=tuple(steps),
        sets=tuple(sets),
        startup=startup,
        sampled_games=int(sample.games.sum()),
    )


def _uses_catalogues(recipe: Any, sources: list[Source]) -> bool:
    """Return whether the build takes the games as the catalogues have them, see `kifu.recipes.pipeline`."""
    if not isinstance(recipe, SplitRecipe):
        return False
    rules = None if recipe.clean is None else recipe.clean.model_dump(mode="json")
    return all(each.catalogue and rules in (None, each.catalogue.metadata.get("clean")) for each in sources)


@dataclass(frozen=True, slots=True)
class _Built:
    """A build of some rows of the sample: games, moves of those of the sets, examples, bytes and seconds."""

    games: int
    moves: float
    examples: int
    bytes: int
    seconds: float


def _estimate_build(recipe: Any, sample: _Sample, jobs: int, folder: Path) -> tuple[EstimateStep, list[SetSize], float]:
    """Return the step, the sets, and the seconds until kernels were loaded."""
    first, few = (_build_rows(recipe, sample.path, _FEW_GAMES, 1, folder) for _ in range(2))
    most = min(_BUILD_BYTES, shutil.disk_usage(folder).free // 4) * few.games // max(few.bytes, 1)
    games = max(few.games, min(int(_BUILD_SECONDS * few.games / max(few.seconds, 1e-6)), most))
    built = _build_rows(recipe, sample.path, games, _threads(jobs), folder)
    bytes_each, spilled_each = built.bytes / max(built.examples, 1), 0.0
    shuffled = isinstance(recipe, ExamplesRecipe) and recipe.order == "shuffled"
    if shuffled:
        bytes_each, spilled_each = _shuffled_bytes(recipe, sample.path, folder)
    error = standard_error(sample.parts, sample.moves)
    weight = np.array([part.weight for part in sample.parts])[sample.part]
    totals = _count_sets(recipe, sample.path, weight)
    sets = []
    for name, (_, moves) in totals.items():
        examples = Range.of(moves * built.examples / max(built.moves, 1), error)
        sets.append(SetSize(name, examples, Range.of(examples.value * bytes_each, error)))
    packed = recipe.layout().packed_bytes if isinstance(recipe, ExamplesRecipe) else _PACKED_BYTES
    spilled = sum(s.examples.value for s in sets if s.examples.value * packed > WINDOW_BYTES)
    chunks: float = (1 if jobs == 1 else 2 * jobs + 1) * CHUNK_BYTES
    if isinstance(recipe, ExamplesRecipe) and find_writer(recipe.format).prepare is not Writer.prepare:
        chunks *= max(bytes_each / packed, 1)  # otherwise the writer expands a few examples at a time
    if shuffled:
        chunks = max(2 * WINDOW_BYTES, jobs * 3 * FILE_CHUNKS * CHUNK_BYTES)
    memory = _BASE + jobs * _PER_THREAD + chunks
    disk = Range.of(sum(each.bytes.value for each in sets), error)
    seconds = built.seconds * sample.total(sample.games).value / max(built.games, 1)
    duration = _duration(seconds, 0.0, jobs, error, _disk_seconds(disk.value, folder))
    step = EstimateStep(f"build {recipe.name}", duration, round(memory), disk, round(spilled * spilled_each))
    return step, sets, max(first.seconds - few.seconds, 0.0)


def _build_rows(recipe: Any, catalogue: Path, games: int, threads: int, folder: Path) -> _Built:
    """Build the recipe from some rows of a catalogue, drawn evenly, and remove what was built."""
    opened, source, into = open_catalogue(catalogue), folder / "rows.parquet", folder / "built"
    rows = pa.Table.from_batches(opened.batches()).combine_chunks()
    games = min(games, len(rows))
    with CatalogueWriter(source) as writer:
        for batch in rows.take(pa.array(np.arange(games) * len(rows) // max(games, 1))).combine_chunks().to_batches():
            writer.write(batch)
        writer.commit(dict(opened.metadata))
    if isinstance(recipe, OlfArchiveRecipe):  # its games have been read in the step before
        ingest([source], into / CATALOGUE, clean=recipe.clean, jobs=threads)
    began = perf_counter()
    manifests = [report.manifest for report in build(recipe, [source], into, jobs=threads)]
    seconds = perf_counter() - began
    examples = sum(m.kept if isinstance(recipe, OlfArchiveRecipe) else m.examples for m in manifests)
    size = sum(file.bytes for manifest in manifests for file in manifest.files) + sum(
        each.stat().st_size for each in into.glob("*.manifest.*")
    )
    shutil.rmtree(into)
    moves = sum(moves for _, moves in _count_sets(recipe, source, np.ones(games)).values())
    return _Built(games, moves, examples, size, seconds)


def _shuffled_bytes(recipe: ExamplesRecipe, catalogue: Path, folder: Path) -> tuple[float, float]:
    """Return the bytes of a shuffled example in its file, and while it waits to be sorted.

    One position per game is drawn: among many games, few of one are close together, so there is less to compress.
    """
    one = recipe.model_copy(update={"positions": replace(recipe.positions, per_game=1)})
    built = _build_rows(one, catalogue, _SPREAD_GAMES, 1, folder)
    shards = CatalogueInput.of(open_catalogue(folder / "rows.parquet")).shards
    with ThreadExecutor(1) as executor:
        chunks = [c for name in one.default_sets() for c in executor.run(SortExamples(one, name), shards)]
    spilled = sum(len(dump_results([chunk.columns()])) for chunk in chunks)
    return built.bytes / max(built.examples, 1), spilled / max(sum(len(chunk.keys) for chunk in chunks), 1)


def _count_sets(recipe: Any, catalogue: Path, weight: npt.NDArray[np.float64]) -> dict[str, tuple[float, float]]:
    """Return the weighted games and moves of each set that the recipe builds; weight: [G], of each row."""
    split = recipe.split if isinstance(recipe, SplitRecipe) else None
    names = recipe.all_sets() if isinstance(recipe, SplitRecipe) else ["archive"]
    built = recipe.default_sets() if isinstance(recipe, SplitRecipe) else names
    totals = {name: (0.0, 0.0) for name in names if name in built}
    at = 0
    for batch in open_catalogue(catalogue).batches():
        codes = np.zeros(len(batch), np.int64) if split is None else split.codes(batch).copy()
        codes[batch["drop"].is_valid().to_numpy(zero_copy_only=False)] = NO_SET
        weights = weight[at : at + len(batch)]
        for name, (games, moves) in totals.items():
            mine = np.where(codes == names.index(name), weights, 0.0)
            totals[name] = games + float(mine.sum()), moves + float((mine * to_numpy(batch["n_legal"])).sum())
        at += len(batch)
    return totals


# Builds that draw games from the archives of KGS.


def _estimate_kgsgo(recipe: KgsgoRecipe, given: list[Any], jobs: int, sample_bytes: int, folder: Path) -> Estimate:
    """Build small archives of the sampled games; the names of the real ones tell how many games they hold."""
    paths = find_archives(given)
    began = perf_counter()
    sampler = Sampler(recipe, read_index(None, paths))
    selected = {name: sampler.select(name) for name in recipe.default_sets()}
    drawing = perf_counter() - began
    wanted = {each.archive for selections in selected.values() for each in selections}
    sources = [Source(path, archive.name, None) for archive, path in paths.items() if archive in wanted]
    room = min(_BUILD_BYTES, shutil.disk_usage(folder).free // 4)
    parts = draw_sample(sources, min(sample_bytes, room // _EXPANSION))
    archives = [_write_archive(part, folder / "archives") for part in parts]
    whole = GameSet(title="the sample", file="sample.dat")
    changed = recipe.model_copy(update={"sets": {"sample": whole}, "until": 9999})

    def timed(some: list[Path]) -> tuple[float, Any]:
        folder.joinpath(whole.file).unlink(missing_ok=True)
        began = perf_counter()
        (report,) = build(changed, some, folder, jobs=_threads(jobs))
        return perf_counter() - began, report.manifest

    startup = max(timed(archives[:1])[0] - timed(archives[:1])[0], 0.0)
    seconds, manifest = timed(archives)
    began = perf_counter()
    for path in archives:
        load_archive(path, _archive_of(path))
    reads = 2 if find_dat_layout(recipe.format).header_bytes else 1  # once more to count the examples
    loading = min(reads * (perf_counter() - began) / _threads(jobs), seconds)
    written = data_set_files(folder / whole.file, manifest)
    size = sum(file.bytes for _, file in written) + manifest_path(folder / whole.file).stat().st_size
    means = np.array([each.rows / max(each.games, 1) for each in manifest.archives])
    error = float(means.std(ddof=1) / means.mean() / math.sqrt(len(means))) if len(means) > 1 else _UNSURE
    error = 0.0 if all(part.weight == 1 for part in parts) else error
    sets: list[SetSize] = []
    work = 0.0
    for name, selections in selected.items():
        share = sum(len(each.games) for each in selections) / max(manifest.read, 1)
        loaded = sum(each.archive.games for each in selections) / max(manifest.read, 1)
        sets.append(SetSize(name, Range.of(share * manifest.examples, error), Range.of(share * size, error)))
        work += loading * loaded + (seconds - loading) * share
    games = sum(archive.games for archive in wanted)
    positions = manifest.examples / max(manifest.read, 1)
    largest = _PER_MOVE * positions * max((archive.games for archive in wanted), default=0)
    largest += _PER_GAME * max((sum(len(each.games) for each in some) for some in selected.values()), default=0)
    memory = round(_BASE + jobs * _PER_THREAD + largest)
    disk = Range.of(sum(each.bytes.value for each in sets), error)
    return Estimate(
        sources=len(paths),
        bytes=sum(map(estimated_size, paths.values())),
        jobs=jobs,
        cores=count_jobs(None),
        games=Range.of(games, 0.0),
        kept=Range.of(games * manifest.kept / max(manifest.read, 1), error),
        positions=Range.of(games * positions, error),
        steps=(EstimateStep(f"build {recipe.name}", _duration(work, drawing, jobs, error), memory, disk, 0),),
        sets=tuple(sets),
        startup=startup,
        sampled_games=manifest.read,
    )


def _write_archive(part: SamplePart, folder: Path) -> Path:
    """Write a sample's records as an archive that is named as on KGS."""
    blocks = [item for item in part.items if isinstance(item, RecordBlock)]
    members = [block.data[a:b].tobytes() for block in blocks for a, b in zip(block.start, block.stop)]
    archive = _archive_of(part.source.path)
    path = folder / (archive.stem.removesuffix(f"{archive.games}-") + f"{len(members)}-.tar.gz")
    folder.mkdir(exist_ok=True)
    with tarfile.open(path, "w:gz", compresslevel=1) as file:
        entry = tarfile.TarInfo("games")
        entry.type = tarfile.DIRTYPE
        file.addfile(entry)
        for k, record in enumerate(members):
            entry = tarfile.TarInfo(f"games/{k}.sgf")
            entry.size = len(record)
            file.addfile(entry, io.BytesIO(record))
    return path


def _archive_of(path: AnyPath) -> Archive:
    archive = parse_archive_name(path.name)
    assert archive is not None  # `find_archives` has found it
    return archive
