"""The registry of record formats, and the parsing of blocks in any of them.

`kifu.records.detect` recognizes the formats; each has a parser in a module of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from kifu.errors import DropReason
from kifu.go.replay import replay_all
from kifu.go.rules import RECORD_RULES, Rules
from kifu.records import gib, ngf, ogs, olf, sgf, tygem, ugf
from kifu.records.containers import find_containers, read_blocks
from kifu.records.detect import GIB, NGF, OGS, OGS_LINES, OLF, SGF, TYGEM, TYGEM_INDEX, UGF, detect
from kifu.records.games import GameArrays, LeftOut, ParsedBlock, ParseWarning, RecordBlock
from kifu.records.paths import Paths, as_list, as_path
from kifu.records.tygem import TygemIndex, load_index
from kifu.registry import Registry

PROPERTIES = {
    "PB": "black", "BR": "black_rank", "PW": "white", "WR": "white_rank", "RE": "result", "KM": "komi", "DT": "date",
    "TM": "time", "OT": "overtime", "RU": "rules", "EV": "event", "RO": "round", "PC": "place", "GN": "title",
}  # fmt: skip
"""The root's text properties in the order in which they are written, and their `kifu.records.games.FIELDS`."""


def name_properties(texts: Mapping[str, str]) -> dict[str, str | None]:
    """Return text fields that are in SGF's spelling as root properties."""
    return {name: texts[field] or None for name, field in PROPERTIES.items()}


@dataclass(frozen=True, slots=True)
class RecordFormat:
    """A format of game records.

    `read` returns the games of a block, given the TYGEM index of the sources, which only TYGEM needs.
    `to_sgf_properties` converts the decoded text fields of a game, by name, to root properties in SGF's spelling, which
    most readers use.
    """

    kinds: tuple[int, ...]  # its constants in `kifu.records.detect`
    read: Callable[[RecordBlock, tygem.TygemIndex | None], ParsedBlock]
    to_sgf_properties: Callable[[Mapping[str, str]], Mapping[str, str | None]] = name_properties


RECORD_FORMATS: Registry[RecordFormat] = Registry(
    "record format",
    {
        "sgf": RecordFormat((SGF,), lambda block, index: sgf.read_block(block)),
        "olf": RecordFormat((OLF,), lambda block, index: olf.read_olf(block), olf.to_sgf_properties),
        "ogs": RecordFormat((OGS, OGS_LINES), lambda block, index: ogs.read_ogs(block)),
        "tygem": RecordFormat((TYGEM,), tygem.read_tygem, tygem.to_sgf_properties),
        "gib": RecordFormat((GIB,), lambda block, index: gib.read_gib(block)),
        "ngf": RecordFormat((NGF,), lambda block, index: ngf.read_ngf(block)),
        "ugf": RecordFormat((UGF,), lambda block, index: ugf.read_ugf(block)),
    },
)
"""Record formats by name, which is `ParsedBlock.format` and the column `format` of a catalogue."""


_MAX_LISTED = 20


def parse_block(block: RecordBlock, index: TygemIndex | None) -> Iterator[ParsedBlock]:
    """Yield the games of a block, in its order: one `ParsedBlock` for each run of members of one format.

    A TYGEM index among the members contains no games and is skipped; `index` is that of the sources, see
    `kifu.records.tygem`.
    """
    if not len(block):
        return
    formats = {kind: each for each in RECORD_FORMATS.values() for kind in each.kinds}
    kinds = detect(block)
    cuts = [0, *(np.flatnonzero(np.diff(kinds)) + 1).tolist(), len(kinds)]
    for first, last in pairwise(cuts):
        if kinds[first] == TYGEM_INDEX:
            continue
        part = block if last - first == len(block) else block.part(first, last)
        yield formats[int(kinds[first])].read(part, index)


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


def summarize(sources: Paths, rules: Rules = RECORD_RULES, jobs: int = 1) -> SourceSummary:
    """Read and replay every game of the sources. Raises SourceError as `kifu.read` does."""
    summary, left_out = SourceSummary(), LeftOut()
    found = [find_containers(as_path(source)) for source in as_list(sources)]
    for each in found:
        each.announce(left_out)
    paths = [path for each in found for path in each.paths]
    index = load_index(paths)
    for block in read_blocks(paths):
        left_out.add(block.source, len(block), block.left_out)
        for parsed in parse_block(block, index):
            summary.add_parsed(parsed, rules, jobs)
    left_out.log()
    summary.left_out = left_out.total()
    return summary
