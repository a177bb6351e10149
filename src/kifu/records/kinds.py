"""Blocks of any sources as readings: each member in the format that it is in, found by its first bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

import numpy as np

from kifu.records import sgf
from kifu.records._kinds import OLF, TYGEM, TYGEM_INDEX, kinds_in
from kifu.records._lines import split_lines
from kifu.records.containers import BLOCK_BYTES, blocks
from kifu.records.games import RecordBlock
from kifu.records.olf import read_olf
from kifu.records.places import AnyPath
from kifu.records.tygem import TygemIndex, read_tygem
from kifu.records.words import ParsedBlock


def parse_blocks(block: RecordBlock, index: TygemIndex | None) -> Iterator[ParsedBlock]:
    """The games of a block, in its order: one reading for each run of members of one format.

    An index of TYGEM games among them holds no games and gives none. index: see `kifu.records.tygem`.
    """
    kinds = kinds_in(block)
    cuts = [0, *(np.flatnonzero(np.diff(kinds)) + 1).tolist(), len(kinds)]
    for first, last in pairwise(cuts):
        part = block if last - first == len(block) else block.part(first, last)
        if kinds[first] == OLF:
            yield read_olf(part)
        elif kinds[first] == TYGEM:
            yield read_tygem(part, index)
        elif kinds[first] != TYGEM_INDEX:
            yield sgf.read_block(part)


def records_units(containers: Iterable[AnyPath], block_bytes: int = BLOCK_BYTES) -> Iterator[RecordBlock]:
    """All blocks of the containers, with large files of lines cut into several: what threads share the work by.

    Raises SourceError as `kifu.records.containers.blocks` does.
    """
    for container in containers:
        yield from split_large_blocks(blocks(container, block_bytes=block_bytes), block_bytes)


def split_large_blocks(found: Iterable[RecordBlock], block_bytes: int = BLOCK_BYTES) -> Iterator[RecordBlock]:
    """The same members, with large files of lines cut into several blocks."""
    for block in found:
        yield from split_lines(block, block_bytes)
