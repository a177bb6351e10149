"""Inspection of data sets: counts, hashes, plane averages, and a comparison with the manifest."""

from __future__ import annotations

import hashlib
import pkgutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kifu.datasets.dat import Dat
from kifu.datasets.examples import Dataset, LabelSpec
from kifu.datasets.formats import Format, detect_format
from kifu.datasets.formats import open as open_dataset
from kifu.datasets.manifest import Manifest, data_set_files, manifest_path, origins_path, read_manifest
from kifu.errors import FormatError, SourceError
from kifu.files import hash_file, open_regular

_BLOCK = 256
"""Examples at a time; their planes fit into a cache."""

_BATCH = 1 << 14


@dataclass(frozen=True, slots=True)
class DatInspection:
    """The result of `inspect_dat`.

    Attributes:
        segments: Number of concatenated files; 1 for a file as it was written.
        md5: MD5 hash in hex.
        blake3: BLAKE3 hash in hex.
        mean_points: For each plane, the mean number of points set in an example; 0.0 without examples.
        mean_stones: Mean number of stones in an example.
        ko_share: Share of the examples with a point set in plane 6, 0 to 1.
        distinct_labels: Number of points, out of 361, that are the label of an example.
        manifest: The manifest beside the file; None if it is missing or damaged.
    """

    path: Path
    format: Format
    examples: int
    segments: int
    bytes: int
    md5: str
    blake3: str
    mean_points: tuple[float, ...]
    mean_stones: float
    ko_share: float
    distinct_labels: int
    manifest: Manifest | None
    problems: tuple[str, ...]


def inspect_dat(path: str | Path) -> DatInspection:
    """Read a whole dat1 or dat2 file, once per hash and once for its planes.

    Raises:
        SourceError: The file cannot be read.
        FormatError: The file is damaged.
    """
    path = Path(path)
    with Dat(path) as dat:
        points = np.zeros(dat.dat_layout.planes, np.int64)
        labels = np.zeros(361, np.int64)
        stones = shared = with_ko = 0
        for start in range(0, len(dat), _BLOCK):
            planes, moves = dat[start : start + _BLOCK]
            by_plane = planes.sum(axis=0, dtype=np.uint16).sum(axis=(1, 2), dtype=np.int64)
            occupied = int(np.count_nonzero(np.bitwise_or.reduce(planes[:, :6], axis=1)))
            points += by_plane
            stones += occupied
            shared += int(by_plane[:6].sum()) - occupied
            with_ko += int(planes[:, 6].any(axis=(1, 2)).sum())
            labels += np.bincount(moves, minlength=361)
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
    return DatInspection(
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
    """Return one line per fact of the file that differs from its manifest."""
    facts = {"format": dat.format.name, "examples": len(dat), "bytes": dat.bytes, "blake3": blake3}
    name, origins = manifest_path(dat.path).name, origins_path(dat.path)
    lines = [
        f"{name} lists {key} {str(getattr(manifest, key))[:80]}; the file has {fact}"
        for key, fact in facts.items()
        if getattr(manifest, key) != fact
    ]
    if manifest.origins is not None and (not origins.is_file() or hash_file(origins) != manifest.origins.blake3):
        lines.append(f"{origins.name} is missing, or its hash differs from the one in {name}")
    return lines


def _hashes(path: Path) -> tuple[str, str]:
    """Return MD5 and BLAKE3 in hex. Raises SourceError."""
    try:
        with open_regular(path) as file:
            md5 = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False))
        return md5.hexdigest(), hash_file(path)
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror}") from None


def inspect_examples(path: Path) -> list[str]:
    """Read every row of a data set of examples, and return counts and checks as lines of text.

    Raises:
        SourceError: It cannot be read.
        FormatError: It is damaged, or its files differ from those that its manifest lists.
    """
    format = detect_format(path)
    if format is None:
        raise FormatError(f"{path} is not a data set")
    with open_dataset(path) as data:
        lines = pkgutil.resolve_name(format.inspect)(data) if format.inspect else _dataset_lines(format, data)
        return [*lines, *manifest_lines(path, format.name, len(data))]


def _dataset_lines(format: Format, data: Dataset) -> list[str]:
    layout = data.layout
    games = np.empty(0, np.uint64)
    for batch in data.batches(_BATCH):
        games = np.union1d(games, batch.game)
    planes, height, width = layout.shape
    padding = f", {layout.rim} around the board" if layout.rim else ""
    return [
        f"{data.path}: {format.name}, {format.title}",
        f"  examples    {len(data):,}" + (f" of {len(games):,} games" if format.has_provenance else ""),
        f"  planes      {layout.plane_set}: {planes} of {width} x {height}{padding}, row 0 is the {layout.first_row}",
        *(f"  {'labels' if k == 0 else '':<11} {line}" for k, line in enumerate(map(_label_line, layout.labels))),
    ]


def manifest_lines(path: Path, format: str, examples: int) -> list[str]:
    """Compare a data set with its manifest and summarize the manifest. Raises FormatError if they differ."""
    manifest = read_manifest(path)
    if manifest is None:
        return ["  manifest    none"]
    name = manifest_path(path).name
    if (manifest.format, manifest.examples) != (format, examples):
        raise FormatError(
            f"{name} lists {manifest.examples:,} examples in {manifest.format}; {path} has {examples:,} in {format}"
        )
    for found, file in data_set_files(path, manifest):
        if not found.is_file() or hash_file(found) != file.blake3:
            raise FormatError(f"{path}: the hash of {file.file} differs from the one in {name}")
    drops = "".join(f", {reason} {count:,}" for reason, count in manifest.drops.items())
    return [
        f"  bytes       {manifest.bytes:,}",
        f"  manifest    recipe {manifest.recipe.get('name')}, set {manifest.set}, kifu {manifest.kifu}; "
        f"{manifest.read:,} games = {manifest.kept:,} kept, {manifest.elsewhere:,} elsewhere{drops}; "
        "its hashes are right",
    ]


def _label_line(label: LabelSpec) -> str:
    shape = f" x {label.shape[0]}" if label.shape else ""
    return f"{label.name}, {label.dtype}{shape}: {label.meaning[:200]}"
