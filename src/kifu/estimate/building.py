"""How fast data sets are made of a catalogue's games, and how large they are: the recipe builds some of the sample."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from time import perf_counter

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kifu.corpus._hashes import mix_words
from kifu.corpus.catalogue import CatalogueWriter, open_catalogue
from kifu.corpus.ingest import ingest
from kifu.corpus.schema import to_numpy
from kifu.corpus.splits import NO_SET
from kifu.datasets.formats import open as open_examples
from kifu.datasets.manifest import ExamplesManifest, manifest_path
from kifu.estimate.reading import Speed
from kifu.execution.bucket_sort import BucketSort
from kifu.execution.serialization import dump_results
from kifu.recipes.examples import build_examples
from kifu.recipes.olf_archive import build_archive
from kifu.recipes.pipeline import BuildReport
from kifu.recipes.schema import KINDS, ExamplesRecipe, OlfArchiveRecipe, SplitRecipe

BuildRecipe = SplitRecipe | OlfArchiveRecipe
"""Those that start from a catalogue."""

_FIRST = 32
"""Games of the build that goes before: it loads the kernels, and tells how many games can be afforded."""

_SECONDS = 1.5
_BYTES = 1 << 30
"""What the build that is measured takes at most, about. It has to be much: the first some hundred megabytes may go to
memory that files have just left, which is several times as quick as what comes after them."""

_SPREAD = 4096
"""Games of which a position each tells how large those of a shuffled set are."""

_DISK = 4
"""What it takes of the room on the disk at most: one part of so many."""


@dataclass(frozen=True, slots=True)
class BuiltSample:
    """What came of building some rows of the sample.

    rows: how many.  moves: of the kept games among them that are of the sets.  examples, bytes: of all sets.
    speed: of these rows.  aside, sorting: bytes that an example takes while it waits to be sorted, and the seconds that
    one thread takes to put it there and to fetch it; 0 of sets that are not shuffled.
    begin: seconds that the first build took longer than the next: kernels were loaded, or compiled.
    """

    rows: int
    moves: float
    examples: int
    bytes: int
    speed: Speed
    aside: float
    sorting: float
    begin: float


@dataclass(frozen=True, slots=True)
class _Once:
    examples: int
    bytes: int
    seconds: float


def build_sample(recipe: BuildRecipe, catalogue: Path, folder: Path, several: int) -> BuiltSample:
    """Builds some rows of a catalogue, as many as a second or two is enough for, on one thread and on several.

    several: how many threads. Raises as the builds do.
    """
    opened = open_catalogue(catalogue)
    rows = pa.Table.from_batches(opened.batches()).combine_chunks()
    about = dict(opened.metadata)
    few, path = folder / "few.parquet", folder / "some.parquet"
    _write(rows, min(_FIRST, len(rows)), few, about)
    first, second = (_build(recipe, few, folder / "built", 1) for _ in range(2))
    per_row = max(second.seconds, 1e-6) / _FIRST
    room = min(_BYTES, shutil.disk_usage(folder).free // _DISK) * _FIRST // max(second.bytes, 1)
    count = min(len(rows), max(_FIRST, min(int(_SECONDS / per_row), room)))
    _write(rows, count, path, about)
    one = _build(recipe, path, folder / "built", 1)
    more = one if several == 1 else _build(recipe, path, folder / "built", several)
    fixed = _beginning(second.seconds, one.seconds, min(_FIRST, len(rows)), count)
    size, aside, sorting = one.bytes / max(one.examples, 1), 0.0, 0.0
    if isinstance(recipe, ExamplesRecipe) and recipe.order == "shuffled":
        _write(rows, min(len(rows), _SPREAD), few, about)
        size, aside, sorting = _spread(recipe, few, folder / "built")
    moves = sum(moves for _, moves in moves_by_set(recipe, path, np.ones(count)).values())
    return BuiltSample(
        rows=count,
        moves=moves,
        examples=one.examples,
        bytes=round(one.examples * size),
        speed=Speed.of(one.seconds - fixed, max(more.seconds - fixed, 0.1 * more.seconds), several),
        aside=aside,
        sorting=sorting,
        begin=max(first.seconds - second.seconds, 0.0) + fixed,
    )


def _beginning(less: float, more: float, few: int, many: int) -> float:
    """What of two times does not depend on the number of games: at most three quarters of the shorter one."""
    if many <= few:
        return 0.0
    return min(max(less - (more - less) * few / (many - few), 0.0), 0.75 * less)


def _write(rows: pa.Table, count: int, path: Path, about: Mapping[str, object]) -> None:
    """Writes so many of the rows, drawn evenly, as a catalogue."""
    at = np.arange(count, dtype=np.int64) * len(rows) // max(count, 1)
    batches = rows.take(pa.array(at)).combine_chunks().to_batches()
    some = batches[0] if batches else pa.RecordBatch.from_pylist([], schema=rows.schema)
    with CatalogueWriter(path) as writer:
        writer.write(some)
        writer.commit(about)


def _build(recipe: BuildRecipe, source: Path, into: Path, jobs: int) -> _Once:
    """Makes the recipe's sets, or its archive, of a catalogue, and removes them again."""
    began = perf_counter()
    less = 0.0
    if isinstance(recipe, OlfArchiveRecipe):
        made = build_archive(recipe, [source], into, jobs=jobs).manifest
        took = perf_counter() - began
        ingest([source], into / "again.parquet", clean=recipe.clean, jobs=jobs)
        less = perf_counter() - began - took  # what is read is told apart from what is made of it
        examples, size = made.kept, sum(file.bytes for file in made.files)
    else:
        sets = resolve_name(KINDS[recipe.kind].build)(recipe, [source], into, jobs=jobs)
        took = perf_counter() - began
        examples, size = _sizes(sets)
    shutil.rmtree(into)
    return _Once(examples, size, max(took - less, 0.0))


def _sizes(sets: Sequence[BuildReport[ExamplesManifest]]) -> tuple[int, int]:
    """How many examples these sets have, and how many bytes with their manifests."""
    size = sum(file.bytes for each in sets for file in each.manifest.files)
    size += sum(manifest_path(each.path).stat().st_size for each in sets)
    return sum(each.manifest.examples for each in sets), size


def _spread(recipe: ExamplesRecipe, source: Path, into: Path) -> tuple[float, float, float]:
    """Bytes of an example of a shuffled set in its file; bytes while it waits to be sorted, with its key, and seconds.

    One position a game is drawn: where there are many games, few of one lie near each other, and there is less to
    compress than the games of a sample would make believe.
    """
    one = recipe.positions.model_copy(update={"per_game": 1})
    sets = build_examples(recipe.model_copy(update={"positions": one}), [source], into)
    examples, size = _sizes(sets)
    aside, seconds = 0, 0.0
    for each in sets:
        with open_examples(each.path) as opened:
            batch = opened.read(0, len(opened))
        aside += len(dump_results([batch.columns()])) + 8 * len(batch)
        began = perf_counter()
        with BucketSort("key", max(len(batch) // 2, 1), into.parent) as ranges:
            ranges.add(batch.columns() | {"key": mix_words(batch.game)})
            for _ in ranges:
                pass
        seconds += perf_counter() - began
    shutil.rmtree(into)
    return size / max(examples, 1), aside / max(examples, 1), seconds / max(examples, 1)


def moves_by_set(
    recipe: BuildRecipe, catalogue: Path, weight: npt.NDArray[np.float64]
) -> dict[str, tuple[float, float]]:
    """Of each set that the recipe builds, the kept games and their moves that those of a sample's catalogue stand for.

    weight: [G], of each row of it.
    """
    split = None if isinstance(recipe, OlfArchiveRecipe) else recipe.split
    names = ["archive"] if isinstance(recipe, OlfArchiveRecipe) else recipe.all_sets()
    found = np.zeros((len(names), 2))
    at = 0
    for batch in open_catalogue(catalogue).batches():
        codes = np.zeros(len(batch), np.int64) if split is None else split.codes(batch)
        codes[batch["drop"].is_valid().to_numpy(zero_copy_only=False)] = NO_SET
        mine = weight[at : at + len(batch)]
        for k in range(len(names)):
            ours = codes == k
            found[k] += mine[ours].sum(), (mine * to_numpy(batch["n_legal"]))[ours].sum()
        at += len(batch)
    built = names if isinstance(recipe, OlfArchiveRecipe) else recipe.default_sets()
    return {name: (float(games), float(moves)) for name, (games, moves) in zip(names, found) if name in built}
