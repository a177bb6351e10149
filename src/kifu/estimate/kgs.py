"""What recipes take that draw games from whole archives of KGS: small archives with the sample's games are built."""

from __future__ import annotations

import io
import math
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import numpy as np

from kifu.datasets.dat import find_dat_layout
from kifu.datasets.manifest import Manifest, manifest_path
from kifu.estimate.reading import Speed
from kifu.estimate.sample import UNSURE, SamplePart
from kifu.recipes.kgs_index import Archive, parse_archive_name
from kifu.recipes.kgsgo import build
from kifu.recipes.kgsgo_jobs import load_archive
from kifu.recipes.schema import GameSet, KgsgoRecipe
from kifu.records.games import RecordBlock
from kifu.records.places import AnyPath

_SET = "sample"


@dataclass(frozen=True, slots=True)
class DrawnSample:
    """What came of building the sample's games.

    games, kept, examples, bytes: of the file that was made, and its manifest. error: the standard error of examples a
    game, as a share. load: seconds of reading the archives once. make: of all else. begin: seconds that the first build
    took longer than the next: kernels were loaded, or compiled.
    """

    games: int
    kept: int
    examples: int
    bytes: int
    error: float
    load: Speed
    make: Speed
    begin: float


def build_drawn(recipe: KgsgoRecipe, parts: Sequence[SamplePart], folder: Path, several: int) -> DrawnSample:
    """Builds the sample in the recipe's format, on one thread and on several. Raises as `build` does."""
    archives = [_write(part, folder / "archives") for part in parts]
    every = GameSet(title="the sample", file="sample.dat")
    changed = recipe.model_copy(update={"sets": {_SET: every}, "until": 9999})

    def run(jobs: int, some: Sequence[Path]) -> tuple[float, Manifest]:
        (folder / every.file).unlink(missing_ok=True)
        began = perf_counter()
        made = build(changed, some, folder, jobs=jobs)
        return perf_counter() - began, made[0].manifest

    begin = run(1, archives[:1])[0] - run(1, archives[:1])[0]
    one, manifest = run(1, archives)
    more = one if several == 1 else run(several, archives)[0]
    began = perf_counter()
    for path in archives:
        load_archive(path, _archive(path))
    load = perf_counter() - began
    make = max(one - reads_of(recipe) * load, 0.0)
    return DrawnSample(
        games=manifest.read,
        kept=manifest.kept,
        examples=manifest.examples,
        bytes=manifest.bytes + manifest_path(folder / every.file).stat().st_size,
        error=_error(parts, manifest),
        load=Speed.of(load, load * more / one, several),
        make=Speed.of(make, make * more / one, several),
        begin=max(begin, 0.0),
    )


def _error(parts: Sequence[SamplePart], manifest: Manifest) -> float:
    """By how much the parts differ in examples a game; 0 where all was looked at."""
    if all(part.weight == 1 for part in parts):
        return 0.0
    if len(manifest.archives) < 2:
        return UNSURE
    means = np.array([sum(origin.rows) / max(len(origin.rows), 1) for origin in manifest.archives])
    return float(means.std(ddof=1) / means.mean() / math.sqrt(len(means)))


def reads_of(recipe: KgsgoRecipe) -> int:
    """How often a set's archives are read: once more where the header says how many examples there are."""
    return 2 if find_dat_layout(recipe.format).header_bytes else 1


def _write(part: SamplePart, folder: Path) -> Path:
    """An archive of the part's records, which is named as KGS would."""
    blocks = [item for item in part.items if isinstance(item, RecordBlock)]
    members = [block.data[a:b].tobytes() for block in blocks for a, b in zip(block.start, block.stop)]
    whole = _archive(part.source.path)
    name = whole.stem.removesuffix(f"{whole.games}-") + f"{len(members)}-.tar.gz"
    folder.mkdir(exist_ok=True)
    with tarfile.open(folder / name, "w:gz", compresslevel=1) as file:
        entry = tarfile.TarInfo("games")
        entry.type = tarfile.DIRTYPE
        file.addfile(entry)
        for k, record in enumerate(members):
            entry = tarfile.TarInfo(f"games/{k}.sgf")
            entry.size = len(record)
            file.addfile(entry, io.BytesIO(record))
    return folder / name


def _archive(path: AnyPath) -> Archive:
    """What the name of an archive says that `find_archives` has found."""
    archive = parse_archive_name(path.name)
    assert archive is not None
    return archive
