"""What an audit can read: one class for each kind of file, and `open_set`, which knows them by their first bytes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from kifu.audit.jobs import SPAN, HashCatalogue, HashDat, HashExamples, RowSpan, Slice
from kifu.audit.positions import PositionHashes
from kifu.corpus.catalogue import is_catalogue, open_catalogue
from kifu.corpus.hashes import Hashes
from kifu.corpus.schema import drop_code, map_distinct, to_numpy
from kifu.datasets.dat import Dat
from kifu.datasets.examples import Batch
from kifu.datasets.formats import detect_format
from kifu.datasets.formats import open as open_examples
from kifu.datasets.manifest import ArchiveRows, manifest_path, read_manifest
from kifu.errors import DropReason, FormatError, SourceError
from kifu.execution.executor import Executor

_LONGEST = 1000
"""Moves of a game; those of longer ones are not foreseen: what a file says of its games is not believed."""

_BLOCK = 1 << 13
"""Rows read at a time."""


@dataclass(frozen=True, slots=True)
class SetPlace:
    """Where a game is: entry of an archive, game of that entry (both from 0), and its first row in the set."""

    archive: str
    entry: int
    index: int
    row: int

    def __str__(self) -> str:
        game = f", game {self.index + 1}" if self.index else ""
        return f"{self.archive}, entry {self.entry + 1}{game} (row {self.row})"


class AuditSet(Protocol):
    """A set of positions. Games have numbers from 0, in the order of the set.

    kind: what to call it. games: how many there are; None if the file does not tell which game a position is of.
    foreseen: about how many positions there are; it may be wrong.
    records: for each archive (by its BLAKE3), entries and numbers of the games drawn from it, [K] each; empty if not
        told that way.
    """

    @property
    def path(self) -> Path: ...
    @property
    def kind(self) -> str: ...
    @property
    def games(self) -> int | None: ...
    @property
    def foreseen(self) -> int: ...
    @property
    def records(self) -> dict[str, tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]: ...

    def positions(self, crew: Executor) -> Iterator[PositionHashes]:
        """All positions, some at a time, in order. Raises FormatError."""

    def places(self, games: npt.NDArray[np.int64]) -> list[SetPlace]:
        """Where these games are: [K] int64, rising numbers. Raises FormatError."""


class CatalogueSet:
    """The games of a catalogue that are not set aside, replayed."""

    kind = "catalogue"

    def __init__(self, path: Path) -> None:
        """Raises FormatError."""
        self.path = path
        self.games = self.foreseen = 0
        for batch in open_catalogue(path).batches(("drop", "n_moves")):
            kept = map_distinct(batch["drop"], drop_code, np.uint8) == DropReason.KEPT
            self.games += int(np.count_nonzero(kept))
            self.foreseen += int(np.clip(to_numpy(batch["n_moves"])[kept], 0, _LONGEST).sum())
        self.records: dict[str, tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]] = {}

    def positions(self, crew: Executor) -> Iterator[PositionHashes]:
        units = open_catalogue(self.path).shards()
        before = accumulate((unit.rows for unit in units), initial=0)
        return crew.run(HashCatalogue(), map(Slice, units, before))

    def places(self, games: npt.NDArray[np.int64]) -> list[SetPlace]:
        found: list[SetPlace] = []
        first = 0
        for batch in open_catalogue(self.path).batches(("archive", "entry", "index")):
            lo, hi = np.searchsorted(games, (first, first + len(batch)))
            if lo < hi:
                rows = games[lo:hi]
                some = batch.take(rows - first)
                named = zip(some["archive"].to_pylist(), to_numpy(some["entry"]), to_numpy(some["index"]), rows)
                found += [SetPlace(archive, int(entry), int(index), int(row)) for archive, entry, index, row in named]
            first += len(batch)
        return found


class DatSet:
    """The rows of a dat1 or dat2 file; its manifest, if there is one beside it, tells their games."""

    def __init__(self, path: Path) -> None:
        """Raises SourceError, and FormatError, also for a manifest that is damaged or of another file."""
        self.path = path
        self._dat = Dat(path)
        self.kind, self.foreseen = self._dat.format.name, len(self._dat)
        manifest = read_manifest(path)
        self._archives: list[ArchiveRows] | None = None
        if manifest is not None:
            if (manifest.format, manifest.examples, manifest.bytes) != (self.kind, len(self._dat), self._dat.bytes):
                raise FormatError(f"{manifest_path(path)} tells of another file than {path}")
            self._archives = manifest.archives
        self._rows = np.array([n for archive in self._archives or () for n in archive.rows], np.int64)
        self._stop = np.cumsum(self._rows)

    @property
    def games(self) -> int | None:
        return None if self._archives is None else len(self._rows)

    @property
    def records(self) -> dict[str, tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
        parts: dict[str, list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]] = {}
        first = 0
        for archive in self._archives or ():
            member = np.array(archive.member, np.int64)
            given = np.flatnonzero(archive.rows)
            parts.setdefault(archive.blake3, []).append((member[given], first + given))
            first += len(member)
        return {
            key: (np.concatenate([entry for entry, _ in some]), np.concatenate([game for _, game in some]))
            for key, some in parts.items()
        }

    def positions(self, crew: Executor) -> Iterator[PositionHashes]:
        stops = None if self._archives is None else self._stop
        job = HashDat(self.path, self.kind, tuple(self._dat.spans), stops)
        return crew.run(job, RowSpan(0, len(self._dat)).blocks(SPAN))

    def places(self, games: npt.NDArray[np.int64]) -> list[SetPlace]:
        archives = self._archives or []
        stop = np.cumsum([len(archive.member) for archive in archives])
        found = []
        for game in games.tolist():
            k = int(np.searchsorted(stop, game, side="right"))
            entry = archives[k].member[game - int(stop[k]) + len(archives[k].member)]
            found.append(SetPlace(archives[k].archive, entry, 0, int(self._stop[game] - self._rows[game])))
        return found


class ExamplesSet:
    """The rows of another data set, whose planes tell the stones of both sides on 19 x 19; it does not tell games."""

    games: int | None = None

    def __init__(self, path: Path, kind: str) -> None:
        """Raises SourceError, and FormatError, also for planes that do not tell whose stones are where."""
        self.path, self.kind = path, kind
        self.records: dict[str, tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]] = {}
        self._examples = open_examples(path)
        layout = self._examples.layout
        self.foreseen = len(self._examples)
        sides = {side: [k for k, whose in layout.stone_planes() if whose == side] for side in ("own", "opp")}
        self._own, self._opp = tuple(sides["own"]), tuple(sides["opp"])
        if not (self._own and self._opp) or (layout.width, layout.height) != (19, 19):
            raise FormatError(
                f"{path}: planes of {layout.plane_set} do not tell the mover's and other stones on 19 x 19"
            )
        self._ids, self._number = np.empty(0, np.uint64), np.empty(0, np.int32)

    def positions(self, crew: Executor) -> Iterator[PositionHashes]:
        layout = self._examples.layout
        job = HashExamples(self.path, layout, self._own, self._opp, self._ids, self._number)
        return crew.run(job, RowSpan(0, len(self._examples)).blocks(SPAN))

    def places(self, games: npt.NDArray[np.int64]) -> list[SetPlace]:
        return []


class KataSet(ExamplesSet):
    """KataGo's training rows, which tell their games by hashes. Two sets that have a hash in common have its game."""

    def __init__(self, path: Path, kind: str) -> None:
        """Reads all rows once for their games. Raises SourceError, FormatError."""
        super().__init__(path, kind)
        ids, first = _first_rows(self._examples.batches(_BLOCK))
        told = ids != 0
        self._ids, first = ids[told], first[told]
        order = np.argsort(first)
        self._number = np.empty(len(order), np.int32)
        """Of each game of `_ids`, by its first row."""
        self._number[order] = np.arange(len(order))
        self._first = first[order]
        self.games = len(order) if len(order) or not self.foreseen else None
        if len(order):
            self.records = {"game hash": (self._ids.view(np.int64), self._number.astype(np.int64))}

    def places(self, games: npt.NDArray[np.int64]) -> list[SetPlace]:
        return [SetPlace(self.path.name, game, 0, int(self._first[game])) for game in games.tolist()]


def _first_rows(batches: Iterable[Batch]) -> tuple[Hashes, npt.NDArray[np.int64]]:
    """The games of rows, [K] uint64, rising, and the first row of each, [K].

    What comes is sorted into what is there once it is as much, so that all of it is sorted a few times only.
    """
    games, first = np.empty(0, np.uint64), np.empty(0, np.int64)
    new: list[tuple[Hashes, npt.NDArray[np.int64]]] = []
    waiting = row = 0
    for batch in batches:
        some, at = np.unique(batch.game, return_index=True)
        new.append((some, row + at))
        waiting, row = waiting + len(some), row + len(batch)
        if waiting > len(games):
            games, first = _sorted_in([(games, first), *new])
            new, waiting = [], 0
    return _sorted_in([(games, first), *new])


def _sorted_in(
    parts: Sequence[tuple[Hashes, npt.NDArray[np.int64]]],
) -> tuple[Hashes, npt.NDArray[np.int64]]:
    """Each game of these once, rising, with the row that comes first."""
    games, kept = np.unique(np.concatenate([games for games, _ in parts]), return_index=True)
    return games, np.concatenate([first for _, first in parts])[kept]


def open_set(path: str | os.PathLike[str]) -> AuditSet:
    """The set that a file holds. Raises SourceError if it cannot be read, FormatError if it is nothing we know."""
    path = Path(path)
    written = detect_format(path)
    if written is not None:
        if written.is_dat:
            return DatSet(path)
        return (KataSet if written.recipe_kind == "katago" else ExamplesSet)(path, written.name)
    if is_catalogue(path):
        return CatalogueSet(path)
    try:
        with path.open("rb") as file:
            head = file.read(8)
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
        raise SourceError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    marks = ", ".join(map(repr, (b"PAR1", b"GO", b"END", b"mlv2")))
    raise FormatError(f"{path} begins with {head!r}; a catalogue or data set begins with one of {marks}")
