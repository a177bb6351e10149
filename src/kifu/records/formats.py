"""The registry of record formats. `kifu.records.detect` recognizes them; each has a parser in a module of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kifu.records import detect, gib, ngf, ogs, olf, sgf, tygem, ugf
from kifu.records.games import ParsedBlock, RecordBlock
from kifu.registry import Registry

PROPERTIES = {
    "PB": "black", "BR": "black_rank", "PW": "white", "WR": "white_rank", "RE": "result", "KM": "komi", "DT": "date",
    "TM": "time", "OT": "overtime", "RU": "rules", "EV": "event", "RO": "round", "PC": "place", "GN": "title",
}  # fmt: skip
"""The root's text properties in the order in which they are written, and their `kifu.records.games.FIELDS`."""


def name_properties(texts: Mapping[str, str]) -> dict[str, str | None]:
    """Return text fields that are in SGF's spelling as root properties.

    Args:
        texts: Text by field name, all of FIELDS.
    """
    return {name: texts[field] or None for name, field in PROPERTIES.items()}


@dataclass(frozen=True, slots=True)
class RecordFormat:
    """A format of game records.

    Attributes:
        kinds: Its constants in `kifu.records.detect`.
        read: Returns the games of a block, given the TYGEM index of the sources, which only TYGEM needs.
        to_sgf_properties: Converts the decoded text fields of a game, by name, to root properties in SGF's spelling,
            which most readers use.
    """

    kinds: tuple[int, ...]
    read: Callable[[RecordBlock, tygem.TygemIndex | None], ParsedBlock]
    to_sgf_properties: Callable[[Mapping[str, str]], Mapping[str, str | None]] = name_properties


RECORD_FORMATS: Registry[RecordFormat] = Registry(
    "record format",
    {
        "sgf": RecordFormat((detect.SGF,), lambda block, index: sgf.read_block(block)),
        "olf": RecordFormat((detect.OLF,), lambda block, index: olf.read_olf(block), olf.to_sgf_properties),
        "ogs": RecordFormat((detect.OGS, detect.OGS_LINES), lambda block, index: ogs.read_ogs(block)),
        "tygem": RecordFormat((detect.TYGEM,), tygem.read_tygem, tygem.to_sgf_properties),
        "gib": RecordFormat((detect.GIB,), lambda block, index: gib.read_gib(block)),
        "ngf": RecordFormat((detect.NGF,), lambda block, index: ngf.read_ngf(block)),
        "ugf": RecordFormat((detect.UGF,), lambda block, index: ugf.read_ugf(block)),
    },
)
"""Record formats by name, which is `ParsedBlock.format` and the column `format` of a catalogue."""
