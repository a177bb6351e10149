"""What is in a data set: counts, hashes, the planes on average, and whether its manifest tells the truth."""

from __future__ import annotations

import hashlib
import pkgutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kifu.atomic_io import hash_file
from kifu.datasets.dat import Dat
from kifu.datasets.examples import Batch, LabelSpec, Layout
from kifu.datasets.formats import ExampleFormat, Format, detect_format
from kifu.datasets.formats import open as open_examples
from kifu.datasets.manifest import Manifest, manifest_path, read_examples_manifest, read_manifest
from kifu.errors import FormatError, SourceError

_BLOCK = 256  # examples at a time, few enough for a cache


@dataclass(frozen=True, slots=True)
class Inspection:
    """What `inspect_dat` finds in a file whose every record is sound."""

    path: Path
    format: Format
    examples: int
    segments: int
    """How many files were joined into this one; 1 for a file as it was written."""
    bytes: int
    md5: str
    blake3: str
    mean_points: tuple[float, ...]
    """By plane, how many of its 361 points are set in an example, on average; 0.0 in a file without examples."""
    mean_stones: float
    """Points of an example with a stone on them, on average."""
    ko_share: float
    """Share of the examples with a point set in plane 6, 0 to 1."""
    distinct_labels: int
    """How many of the 361 points are the label of an example."""
    manifest: Manifest | None
    """What lies beside the file under its name; None if nothing does, or if it cannot be read."""
    problems: tuple[str, ...]
    """One line for each thing that does not fit together; none in a sound data set."""


def inspect_dat(path: str | Path) -> Inspection:
    """Reads a whole dat1 or dat2 file, once for each hash and once for its planes. Raises what `Dat` raises."""
    path = Path(path)
    with Dat(path) as dat:
        points = np.zeros(dat.format.planes, np.int64)
        labels = np.zeros(361, np.int64)
        stones = shared = with_ko = 0
        for start in range(0, len(dat), _BLOCK):
            planes, played = dat[start : start + _BLOCK]
            by_plane = planes.sum(axis=0, dtype=np.uint16).sum(axis=(1, 2), dtype=np.int64)
            occupied = int(np.count_nonzero(np.bitwise_or.reduce(planes[:, :6], axis=1)))
            points += by_plane
            stones += occupied
            shared += int(by_plane[:6].sum()) - occupied
            with_ko += int(planes[:, 6].any(axis=(1, 2)).sum())
            labels += np.bincount(played, minlength=361)
    n = max(len(dat), 1)
    md5, blake3 = _hashes(path)
    problems = []
    if shared:
        problems.append(
            f"{shared:,} stones are in more than one of the planes 0 to 5, "
            "as in dat2 files that the kgsgo program made before December 2015"
        )
    manifest = None
    try:
        manifest = read_manifest(path)
    except FormatError as error:
        problems.append(str(error))
    if manifest is not None:
        problems += _contradictions(manifest, dat, blake3)
    return Inspection(
        path=path,
        format=dat.format,
        examples=len(dat),
        segments=dat.segments,
        bytes=dat.bytes,
        md5=md5,
        blake3=blake3,
        mean_points=tuple((points / n).tolist()),
        mean_stones=stones / n,
        ko_share=with_ko / n,
        distinct_labels=int(np.count_nonzero(labels)),
        manifest=manifest,
        problems=tuple(problems),
    )


def _contradictions(manifest: Manifest, dat: Dat, blake3: str) -> list[str]:
    """One line for each fact of the file that its manifest states otherwise."""
    facts = {"format": dat.format.name, "examples": len(dat), "bytes": dat.bytes, "blake3": blake3}
    return [
        f"{manifest_path(dat.path).name} says {key} {str(getattr(manifest, key))[:80]}; the file has {fact}"
        for key, fact in facts.items()
        if getattr(manifest, key) != fact
    ]


def _hashes(path: Path) -> tuple[str, str]:
    """MD5 and BLAKE3 in hex. Raises SourceError if the file went away since it was opened."""
    try:
        with path.open("rb") as file:
            md5 = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False))
        return md5.hexdigest(), hash_file(path)
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror}") from None


def inspect_examples(path: Path) -> list[str]:
    """Counts and checks of a data set of examples, as lines for people. Every row is read.

    Raises FormatError if anything is wrong, also if its files are not those that its manifest tells of.
    """
    found = detect_format(path)
    assert found is not None
    with open_examples(path) as data:
        if found.inspect:
            return [*pkgutil.resolve_name(found.inspect)(data), *_manifest_lines(path, found, len(data))]
        layout = data.layout
        games = np.empty(0, np.uint64)
        for batch in data.batches(1 << 14):
            games = np.union1d(games, batch.game)
            _check_moves(path, layout, batch)
        planes, height, width = layout.shape
        rim = f", {layout.rim} around the board" if layout.rim else ""
        lines = [
            f"{path}: {found.name}, {found.title}",
            f"  examples    {len(data):,}" + (f" of {len(games):,} games" if found.traced else ""),
            f"  planes      {layout.plane_set}: {planes} of {width} x {height}{rim}, row 0 is the {layout.first_row}",
            *(f"  {'labels' if k == 0 else '':<11} {each}" for k, each in enumerate(map(_spec_line, layout.labels))),
        ]
    return [*lines, *_manifest_lines(path, found, len(data))]


def _manifest_lines(path: Path, found: ExampleFormat, examples: int) -> list[str]:
    """What the manifest beside a data set says. Raises FormatError unless it is of this one."""
    manifest = read_examples_manifest(path)
    if manifest is None:
        return ["  manifest    none beside it"]
    if (manifest.format, manifest.examples) != (found.name, examples):
        raise FormatError(f"{manifest_path(path).name} tells of {manifest.examples:,} examples in {manifest.format}")
    for file in manifest.files:
        if hash_file(path / file.file if path.is_dir() else path) != file.blake3:
            raise FormatError(f"{path}: {file.file} is not what {manifest_path(path).name} tells of")
    drops = "".join(f", {name} {count:,}" for name, count in manifest.drops.items())
    return [
        f"  bytes       {sum(file.bytes for file in manifest.files):,}",
        f"  manifest    recipe {manifest.recipe.get('name')}, set {manifest.set}, kifu {manifest.kifu}; "
        f"{manifest.read:,} games = {manifest.kept:,} kept, {manifest.elsewhere:,} elsewhere{drops}; "
        "its hashes are right",
    ]


def _spec_line(label: LabelSpec) -> str:
    shape = f" x {label.shape[0]}" if label.shape else ""
    return f"{label.name}, {label.dtype}{shape}: {label.meaning[:200]}"


def _check_moves(path: Path, layout: Layout, batch: Batch) -> None:
    for name, values in batch.labels.items():
        if name == "move" and len(values) and not 0 <= values.min() <= values.max() <= layout.no_point:
            raise FormatError(f"{path} has moves from {values.min()} to {values.max()}, not 0 to {layout.no_point}")
