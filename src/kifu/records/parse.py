"""Parse blocks in any record format, and summarize whole sources."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from kifu.errors import DropReason
from kifu.go.replay import replay_all
from kifu.go.rules import RECORD_RULES, Rules
from kifu.records import sgf
from kifu.records.containers import containers, read_blocks
from kifu.records.detect import OLF, TYGEM, TYGEM_INDEX, detect
from kifu.records.games import GameArrays, ParsedBlock, ParseWarning, RecordBlock
from kifu.records.olf import read_olf
from kifu.records.tygem import TygemIndex, load_index, read_tygem

_NAMED = 20


def parse_block(block: RecordBlock, index: TygemIndex | None) -> Iterator[ParsedBlock]:
    """The games of a block, in its order: one reading for each run of members of one format.

    An index of TYGEM games among them holds no games and gives none. index: see `kifu.records.tygem`.
    """
    kinds = detect(block)
    cuts = [0, *(np.flatnonzero(np.diff(kinds)) + 1).tolist(), len(kinds)]
    for first, last in pairwise(cuts):
        part = block if last - first == len(block) else block.part(first, last)
        if kinds[first] == OLF:
            yield read_olf(part)
        elif kinds[first] == TYGEM:
            yield read_tygem(part, index)
        elif kinds[first] != TYGEM_INDEX:
            yield sgf.read_block(part)


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
    warnings: Counter[str] = field(default_factory=Counter)
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
            self.warnings[str(note.name)] += int(np.count_nonzero(games.warnings & note))
        sizes = np.stack([games.width[kept], games.height[kept]], 1)
        for (width, height), n in zip(*np.unique(sizes, axis=0, return_counts=True)):
            self.sizes[f"{width} x {height}"] += int(n)
        return drop, ply


def summarize(
    sources: str | os.PathLike[str] | Iterable[str | os.PathLike[str]], rules: Rules = RECORD_RULES, jobs: int = 1
) -> SourceSummary:
    """Reads and replays every game of the sources. Raises SourceError as `kifu.read` does."""
    found = SourceSummary()
    paths = containers(sources)
    index = load_index(paths)
    for reading in (reading for block in read_blocks(paths) for reading in parse_block(block, index)):
        block, games = reading.block, reading.games
        found.bytes += int((block.stop - block.start).sum())
        drop, ply = found.add(games, rules, jobs)
        for g in np.flatnonzero(drop)[: _NAMED - len(found.dropped)]:
            found.dropped.append(
                (block.source, block.name(int(games.block_index[g])), DropReason(drop[g]), int(ply[g]))
            )
    return found
