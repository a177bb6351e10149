"""The parsing of blocks in any record format. `kifu.records.detect` lists and recognizes the formats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from kifu.errors import DropReason
from kifu.go.replay import replay_all
from kifu.go.rules import RECORD_RULES, Rules
from kifu.records.containers import list_containers, read_blocks
from kifu.records.detect import RECORD_FORMATS, TYGEM, TYGEM_INDEX, detect
from kifu.records.games import NO_HANDICAP, GameArrays, LeftOut, ParsedBlock, ParseWarning, RecordBlock
from kifu.records.paths import Paths
from kifu.records.tygem import TygemIndex, load_index, read_tygem

_MAX_LISTED = 20


def parse_block(block: RecordBlock, index: TygemIndex | None) -> Iterator[ParsedBlock]:
    """Yield the games of a block, in its order: one `ParsedBlock` for each run of members of one format.

    A TYGEM index among the members contains no games and is skipped; `index` is that of the sources, see
    `kifu.records.tygem`.
    """
    if not len(block):
        return
    formats = {kind: record_format for record_format in RECORD_FORMATS.values() for kind in record_format.kinds}
    kinds = detect(block)
    for first, last in pairwise([0, *(np.flatnonzero(np.diff(kinds)) + 1).tolist(), len(kinds)]):
        if kinds[first] == TYGEM_INDEX:
            continue
        part = block if last - first == len(block) else block.part(first, last)
        parsed = read_tygem(part, index) if kinds[first] == TYGEM else formats[int(kinds[first])].read(part)
        yield replace(parsed, games=_without_impossible_handicaps(parsed.games))


def _without_impossible_handicaps(games: GameArrays) -> GameArrays:
    """Treat handicaps below 0 and of more than a quarter of the points as text that is not a number."""
    most = np.maximum(games.width.astype(np.int64) * games.height // 4, 1)
    wrong = (games.handicap != NO_HANDICAP) & ((games.handicap < 0) | (games.handicap > most))
    wrong &= games.drop == DropReason.KEPT
    if not wrong.any():
        return games
    handicap, warnings = games.handicap.copy(), games.warnings.copy()
    handicap[wrong] = NO_HANDICAP
    warnings[wrong] |= np.uint32(ParseWarning.HANDICAP_TEXT)
    return replace(games, handicap=handicap, warnings=warnings)


@dataclass(slots=True)
class SourceSummary:
    """Counts over any number of games; read == kept + the sum of drops.

    `dropped` lists the first dropped games: container, member, reason, number of moves that could be played.
    """

    read: int = 0
    kept: int = 0
    moves: int = 0
    bytes: int = 0
    drops: Counter[str] = field(default_factory=Counter)  # by the name of their `DropReason`
    warnings: Counter[str] = field(default_factory=Counter)  # games by the name of the `ParseWarning`
    sizes: Counter[str] = field(default_factory=Counter)  # kept games by board size, such as "19 x 19"
    dropped: list[tuple[str, str, DropReason, int]] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)  # files and members that are not read, by kind

    def add(self, games: GameArrays, rules: Rules, jobs: int) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32]]:
        """Count some games.

        Returns drop: [G] of `DropReason`, of the parser or the replay; and ply: [G], the moves that were played.
        """
        drop, ply = replay_all(games, rules, jobs)
        drop = np.where(games.drop != DropReason.KEPT, games.drop, drop)
        kept = drop == DropReason.KEPT
        self.read += len(games)
        self.kept += int(kept.sum())
        self.moves += int(ply[kept].sum())
        self.drops.update({DropReason(k).name: int(n) for k, n in zip(*np.unique(drop[~kept], return_counts=True))})
        for warning in ParseWarning:
            self.warnings[str(warning.name)] += int(np.count_nonzero(games.warnings & warning))
        sizes = np.stack([games.width[kept], games.height[kept]], 1)
        for (width, height), n in zip(*np.unique(sizes, axis=0, return_counts=True)):
            self.sizes[f"{width} x {height}"] += int(n)
        return drop, ply

    def add_parsed(self, parsed: ParsedBlock, rules: Rules, jobs: int) -> None:
        """Count the games of a block, and list those that are dropped."""
        block, games = parsed.block, parsed.games
        self.bytes += int((block.stop - block.start).sum())
        drop, ply = self.add(games, rules, jobs)
        for g in np.flatnonzero(drop)[: _MAX_LISTED - len(self.dropped)]:
            self.dropped.append((block.source, block.name(int(games.block_index[g])), DropReason(drop[g]), int(ply[g])))


def summarize(sources: Paths, jobs: int = 1) -> SourceSummary:
    """Read and replay every game of the sources. Raises SourceError as `kifu.read` does."""
    summary, left_out = SourceSummary(), LeftOut()
    paths = list_containers(sources, left_out)
    index = load_index(paths)
    for block in left_out.count(read_blocks(paths)):
        for parsed in parse_block(block, index):
            summary.add_parsed(parsed, RECORD_RULES, jobs)
    left_out.log()
    summary.left_out = left_out.total()
    return summary
