"""Decode the text fields of many games into Arrow arrays, with nulls for missing text.

Nearly all text is ASCII or UTF-8 without escapes, whose bytes are copied in whole arrays. Only other text is decoded
value by value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kifu.records._fields import BEYOND_ASCII, BLANK, ESCAPED, NOT_UTF8, byte_kinds, gather
from kifu.records.games import FIELDS, Bytes, ParsedBlock, TextFields
from kifu.records.sgf import root_codec, root_properties
from kifu.records.text import detect_codec, keeps_utf8, unescape

_CHARSET = FIELDS.index("charset")
_PLAYERS = ("black", "white")
_UTF8 = "utf_8"
_WHITE_SPACE = bytes(range(33))  # as in the SGF scanner, control characters included

_Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Decoded:
    """The decoded text of G games.

    Attributes:
        text: Field -> [G] strings, for all of `FIELDS` except "charset". Null if the field is missing, empty, or white
            space only (control characters count as such). White space around other text is kept.
        encoding: [G] strings, never null: Python's codec by which the game was decoded; "utf_8" for ASCII.
    """

    text: Mapping[str, pa.StringArray]
    encoding: pa.StringArray


def decode(parsed: ParsedBlock) -> Decoded:
    """Decode the text fields of a block, as `Game.text` does. Bytes outside a game's charset become U+FFFD.

    SGF is decoded by the codec of its record (`Game.codec`) and unescaped. Text that a reader has decoded stays as it
    is. Other formats have neither escapes nor a charset: a game is read as UTF-8 if all its text is valid, else by the
    detected charset; in OLF a "_" in a player's name is a space.
    """
    text_fields = parsed.text_fields
    kinds = np.empty(text_fields.start.shape, np.uint8)
    byte_kinds(text_fields.data, text_fields.start.ravel(), text_fields.stop.ravel(), kinds.ravel())
    codecs = _sgf_codecs(parsed, kinds[_CHARSET]) if parsed.format == "sgf" else _codecs(text_fields, kinds)
    needs_decoding = kinds & (NOT_UTF8 | ESCAPED if parsed.format == "sgf" else NOT_UTF8) != 0
    needs_decoding[:, list(codecs)] = True
    needs_decoding &= kinds & BLANK == 0
    text = {}
    for f, field in enumerate(FIELDS):
        if f == _CHARSET:
            continue
        replacements = {
            g: _decode_value(parsed, f, g, codecs.get(g, _UTF8)) for g in np.flatnonzero(needs_decoding[f]).tolist()
        }
        blank = kinds[f] & BLANK != 0
        blank[[g for g, value in replacements.items() if not value.strip(_WHITE_SPACE)]] = True
        valid, offset, data = _buffers(text_fields, f, blank, replacements)
        text[field] = pa.StringArray.from_buffers(len(blank), offset, data, valid)
    if parsed.format == "olf":
        text.update({field: _spaced(text[field]) for field in _PLAYERS})
    if parsed.codecs is not None:
        codecs = dict(enumerate(parsed.codecs))
    return Decoded(text, _encoding(codecs, len(parsed.index)))


def _sgf_codecs(parsed: ParsedBlock, charset_kind: Bytes) -> dict[int, str]:
    """Return game -> codec for all games that are not certain to be UTF-8.

    The charset is that of all values of a root. It is UTF-8 if the whole record is, unless CA names a double-byte
    charset.
    """
    games, data = parsed.games, parsed.block.data
    whole = np.empty(len(games), np.uint8)
    byte_kinds(data, games.start, games.stop, whole)
    doubtful = whole & NOT_UTF8 != 0
    if (whole & BEYOND_ASCII).any():
        doubtful |= (whole & BEYOND_ASCII != 0) & ~_keep_utf8(parsed.text_fields, charset_kind)
    records = ((g, data[games.start[g] : games.stop[g]].tobytes()) for g in np.flatnonzero(doubtful).tolist())
    return {g: root_codec(root_properties(record)) for g, record in records}


def _keep_utf8(text_fields: TextFields, charset_kind: Bytes) -> _Mask:
    """Return [G] whether the CA of each game keeps UTF-8 text as it is. Each distinct CA is checked once."""
    names = pa.Array.from_buffers(
        pa.binary(), len(charset_kind), _buffers(text_fields, _CHARSET, charset_kind & BLANK != 0, {})
    ).dictionary_encode("encode")
    keeps = np.array([keeps_utf8(name) for name in names.dictionary.to_pylist()], bool)
    of_game: npt.NDArray[np.int32] = names.indices.to_numpy()
    return keeps[of_game]


def _codecs(text_fields: TextFields, kinds: Bytes) -> dict[int, str]:
    """Return game -> codec for the games of other formats whose text is not UTF-8."""
    rows = np.flatnonzero(np.bitwise_or.reduce(kinds, axis=0) & NOT_UTF8)
    return {g: detect_codec(b"\n".join(_raw(text_fields, f, g) for f in range(len(FIELDS)))) for g in rows.tolist()}


def _raw(text_fields: TextFields, f: int, g: int) -> bytes:
    return text_fields.data[text_fields.start[f, g] : text_fields.stop[f, g]].tobytes()


def _decode_value(parsed: ParsedBlock, f: int, g: int, codec: str) -> bytes:
    """Return one value as UTF-8."""
    value = _raw(parsed.text_fields, f, g).decode(codec, "replace")
    return (unescape(value) if parsed.format == "sgf" else value).encode("utf-8", "replace")


def _buffers(
    text_fields: TextFields, f: int, blank: _Mask, replacements: Mapping[int, bytes]
) -> list[pa.Buffer | None]:
    """Return the buffers of an Arrow array of field f: validity, offsets, data.

    Args:
        blank: [G] True where it is null.
    """
    size = np.where(blank, 0, text_fields.stop[f] - text_fields.start[f])
    replaced = np.zeros(len(size), np.uint8)
    for g, value in replacements.items():
        size[g] = 0 if blank[g] else len(value)
        replaced[g] = 1
    offset = np.zeros(len(size) + 1, np.int32)
    np.cumsum(size, out=offset[1:])
    data = np.empty(offset[-1], np.uint8)
    gather(text_fields.data, text_fields.start[f], replaced, offset, data)
    for g, value in replacements.items():
        if not blank[g]:
            data[offset[g] : offset[g + 1]] = np.frombuffer(value, np.uint8)
    valid = pa.py_buffer(np.packbits(~blank, bitorder="little")) if blank.any() else None
    return [valid, pa.py_buffer(offset), pa.py_buffer(data)]


def _spaced(names: pa.StringArray) -> pa.StringArray:
    """Replace "_" by a space in player names of OLF; a name of nothing else becomes null."""
    spaced = pc.replace_substring(names, "_", " ")
    return pc.if_else(pc.equal(pc.utf8_trim(spaced, " "), ""), None, spaced)


def _encoding(codecs: Mapping[int, str], count: int) -> pa.StringArray:
    names = sorted({_UTF8, *codecs.values()})
    code = np.full(count, names.index(_UTF8), np.int32)
    code[list(codecs)] = [names.index(codec) for codec in codecs.values()]
    return pa.DictionaryArray.from_arrays(code, names).cast(pa.string())
