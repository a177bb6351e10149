"""The registry of record formats. `kifu.records.detect` recognizes them; each has a parser in a module of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kifu.records import detect, olf, sgf, tygem
from kifu.records.games import ParsedBlock, RecordBlock
from kifu.registry import Registry


@dataclass(frozen=True, slots=True)
class RecordFormat:
    """A format of game records.

    Attributes:
        kind: Its constant in `kifu.records.detect`.
        read: Returns the games of a block, given the TYGEM index of the sources, which only TYGEM needs.
        to_sgf_properties: Converts the decoded text fields of a game, by name, to root properties in SGF's spelling;
            None for SGF, whose text is kept as it is.
    """

    kind: int
    read: Callable[[RecordBlock, tygem.TygemIndex | None], ParsedBlock]
    to_sgf_properties: Callable[[Mapping[str, str]], Mapping[str, str | None]] | None = None


RECORD_FORMATS: Registry[RecordFormat] = Registry(
    "record format",
    {
        "sgf": RecordFormat(detect.SGF, lambda block, index: sgf.read_block(block)),
        "olf": RecordFormat(detect.OLF, lambda block, index: olf.read_olf(block), olf.to_sgf_properties),
        "tygem": RecordFormat(detect.TYGEM, tygem.read_tygem, tygem.to_sgf_properties),
    },
)
"""Record formats by name, which is `ParsedBlock.format` and the column `format` of a catalogue."""
