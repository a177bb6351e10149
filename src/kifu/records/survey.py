"""What is in a source: how many games, which are set aside and why, and what the reader had to forgive."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from kifu.errors import DropReason
from kifu.go.replay import replay_all
from kifu.go.rules import RECORDS, Rules
from kifu.records.containers import containers
from kifu.records.games import GameArrays, ParseWarning
from kifu.records.kinds import parse_blocks, records_units
from kifu.records.tygem import load_index

_NAMED = 20


@dataclass(slots=True)
class SourceSummary:
    """Counts over any number of games; read == kept + the sum of drops."""

    read: int = 0
    kept: int = 0
    moves: int = 0
    """Of the kept games, passes too."""
    bytes: int = 0
    """Of the records, as text."""
    drops: Counter[str] = field(default_factory=Counter)
    """By the name of the `DropReason`."""
    notes: Counter[str] = field(default_factory=Counter)
    """By the name of the `ParseWarning`."""
    sizes: Counter[str] = field(default_factory=Counter)
    """Of the kept games, by "19 x 19"."""
    dropped: list[tuple[str, str, DropReason, int]] = field(default_factory=list)
    """The first games set aside: (container, member, why, how many moves could be played)."""

    def add(self, games: GameArrays, rules: Rules, jobs: int) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32]]:
        """Counts some games; returns drop: [G] uint8 of `DropReason`, the reader's and the replay's, and ply: [G] int32."""
        drop, ply = replay_all(games, rules, jobs)
        drop = np.where(games.drop != DropReason.KEPT, games.drop, drop)
        kept = drop == DropReason.KEPT
        self.read += len(games)
        self.kept += int(kept.sum())
        self.moves += int(ply[kept].sum())
        self.drops.update({DropReason(k).name: int(n) for k, n in zip(*np.unique(drop[~kept], return_counts=True))})
        for note in ParseWarning:
            self.notes[str(note.name)] += int(np.count_nonzero(games.notes & note))
        sizes = np.stack([games.width[kept], games.height[kept]], 1)
        for (width, height), n in zip(*np.unique(sizes, axis=0, return_counts=True)):
            self.sizes[f"{width} x {height}"] += int(n)
        return drop, ply


def summarize(
    sources: str | os.PathLike[str] | Iterable[str | os.PathLike[str]], rules: Rules = RECORDS, jobs: int = 1
) -> SourceSummary:
    """Reads and replays every game of the sources. Raises SourceError as `kifu.read` does."""
    found = SourceSummary()
    paths = containers(sources)
    index = load_index(paths)
    for reading in (reading for block in records_units(paths) for reading in parse_blocks(block, index)):
        block, games = reading.block, reading.games
        found.bytes += int((block.stop - block.start).sum())
        drop, ply = found.add(games, rules, jobs)
        for g in np.flatnonzero(drop)[: _NAMED - len(found.dropped)]:
            found.dropped.append(
                (block.source, block.name(int(games.block_index[g])), DropReason(drop[g]), int(ply[g]))
            )
    return found
