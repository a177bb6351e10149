"""The archives of a recipe: found among the sources, listed as the index page lists them, read whole."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kifu.errors import DropReason, SourceError
from kifu.planes.kgsgo_games import has_handicap, refuse
from kifu.point import POINT_MASK
from kifu.recipes.kgs_index import PAGE_LIMIT, Archive, order_as_page, parse_archive_name, parse_index
from kifu.records.containers import blocks, containers
from kifu.records.games import Bytes, GameArrays, ParseWarning, concat
from kifu.records.places import AnyPath
from kifu.records.sgf import scan


@dataclass(frozen=True, slots=True)
class LoadedArchive:
    """One archive, read whole, with the first game of each member only, as the program of 2015 took them.

    drop: [G] uint8, why the program could not have used a game. handicap: [G] bool, whether it put up setup stones.
    names: [..] uint8, name_start, name_stop: [G] int64: the raw name of each game's member.
    """

    archive: Archive
    games: GameArrays
    drop: npt.NDArray[np.uint8]
    handicap: npt.NDArray[np.bool_]
    names: Bytes
    name_start: npt.NDArray[np.int64]
    name_stop: npt.NDArray[np.int64]

    def name(self, g: int) -> str:
        """The name of game g's member, for people."""
        raw = self.names[self.name_start[g] : self.name_stop[g]].tobytes()
        return raw.decode("utf-8", "backslashreplace")

    def rows(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Where the archive's games of these numbers (from 0) are: game i is member i + 1, after the folder's entry.

        Raises SourceError if the archive does not list that many.
        """
        first = np.flatnonzero(self.games.notes & ParseWarning.LATER_GAME == 0)
        member = self.games.member[first]
        at = np.minimum(np.searchsorted(member, numbers + 1), len(member) - 1)
        absent = numbers[member[at] != numbers + 1] if len(member) else numbers
        if len(absent):
            raise SourceError(
                f"archive {self.archive.stem} has no game as entry {absent[0] + 2}, though its name tells of "
                f"{self.archive.games:,} games (the first entry is to be their folder)"
            )
        return first[at]

    def foresee(self, rows: npt.NDArray[np.int64]) -> int:
        """How many examples the games `rows` give if all their moves can be played."""
        passes = np.concatenate(([0], np.cumsum(self.games.moves & POINT_MASK == 19 * 19, dtype=np.int32)))
        offset = self.games.move_offset
        stones = np.diff(offset - passes[offset])[rows]
        stones[~self.handicap[rows]] -= 1  # the first move, where there is one, is played but not written
        return int(np.maximum(stones, 0)[self.drop[rows] == DropReason.KEPT].sum())


def find_archives(sources: Iterable[str | os.PathLike[str]]) -> dict[Archive, AnyPath]:
    """The KGS archives among the sources, and in folders among them; of several files of one archive the first."""
    found: dict[Archive, AnyPath] = {}
    for path in containers(sources):
        archive = parse_archive_name(path.name)
        if archive is not None:
            found.setdefault(archive, path)
    if not found:
        raise SourceError("no archive among the sources is named as KGS does, like KGS-2006-19-10388-.tar.gz")
    return found


def read_index(index: str | os.PathLike[str] | None, found: Iterable[Archive]) -> list[Archive]:
    """The archives that an index page (a file) lists, in its order; without one those found, newest first."""
    if index is None:
        return order_as_page(found)
    try:
        with Path(index).open("rb") as file:
            return parse_index(file.read(PAGE_LIMIT + 1))
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
        raise SourceError(f"cannot read the index page {index}: {getattr(error, 'strerror', None) or error}") from None


def load_archive(path: AnyPath, archive: Archive) -> LoadedArchive:
    """Reads an archive whole; what stays is a few bytes a move. Raises SourceError."""
    parts: list[GameArrays] = []
    names: list[Bytes] = []
    starts: list[npt.NDArray[np.int64]] = []
    stops: list[npt.NDArray[np.int64]] = []
    base = 0
    for block in blocks(path):
        games = scan(block)
        parts.append(games)
        names.append(block.names)
        starts.append(block.name_offset[games.block_index] + base)
        stops.append(block.name_offset[games.block_index + 1] + base)
        base += len(block.names)
    if not parts:
        raise SourceError(f"{path}: no game records in this archive")
    games = concat(parts)
    return LoadedArchive(
        archive=archive,
        games=games,
        drop=refuse(games.width, games.height, games.handicap, games.notes, games.drop),
        handicap=has_handicap(games.handicap),
        names=np.concatenate(names),
        name_start=np.concatenate(starts),
        name_stop=np.concatenate(stops),
    )
