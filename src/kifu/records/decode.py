"""The words of many games as text: Arrow arrays, with a null where nothing is said.

Nearly all words are ASCII or UTF-8 without escapes; their bytes are copied as they lie, in whole arrays. Only the
others are looked at one by one.
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
_WHITE_SPACE = bytes(range(33))  # as SGF's reader sees it: control characters, too

_Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Decoded:
    """What G games say.

    text: field -> [G] strings, for all of `FIELDS` but "charset". Null where the field is missing, empty, or white
        space only (control characters count as such). White space around other text is kept.
    encoding: [G] strings, never null: Python's name of the codec that the game was decoded by; "utf_8" for ASCII.
    """

    text: Mapping[str, pa.StringArray]
    encoding: pa.StringArray


def decode(reading: ParsedBlock) -> Decoded:
    """What the games of a block say, as `Game.text` has it. Bytes that are not of a game's charset become U+FFFD.

    SGF is decoded by the codec of its record (`Game.codec`) and its escapes are undone. Other formats have no escapes
    and name no charset: a game is read as UTF-8 if all its words are, else by what they look like together; in OLF a
    "_" in a player's name is a space.
    """
    words = reading.text_fields
    kinds = np.empty(words.start.shape, np.uint8)
    byte_kinds(words.data, words.start.ravel(), words.stop.ravel(), kinds.ravel())
    codecs = _sgf_codecs(reading, kinds[_CHARSET]) if reading.format == "sgf" else _codecs(words, kinds)
    odd = kinds & (NOT_UTF8 | ESCAPED if reading.format == "sgf" else NOT_UTF8) != 0
    odd[:, list(codecs)] = True
    odd &= kinds & BLANK == 0
    text = {}
    for f, field in enumerate(FIELDS):
        if f == _CHARSET:
            continue
        said = {g: _say(reading, f, g, codecs.get(g, _UTF8)) for g in np.flatnonzero(odd[f]).tolist()}
        blank = kinds[f] & BLANK != 0
        blank[[g for g, value in said.items() if not value.strip(_WHITE_SPACE)]] = True
        valid, offset, data = _buffers(words, f, blank, said)
        text[field] = pa.StringArray.from_buffers(len(blank), offset, data, valid)
    if reading.format == "olf":
        text.update({field: _spaced(text[field]) for field in _PLAYERS})
    return Decoded(text, _encoding(codecs, len(reading.index)))


def _sgf_codecs(reading: ParsedBlock, charset_kind: Bytes) -> dict[int, str]:
    """Game -> codec, for all games but such that are surely UTF-8.

    A charset is that of all values of a root. It is UTF-8 if the whole record is, unless CA names a double-byte set.
    """
    games, data = reading.games, reading.block.data
    whole = np.empty(len(games), np.uint8)
    byte_kinds(data, games.start, games.stop, whole)
    doubtful = whole & NOT_UTF8 != 0
    if (whole & BEYOND_ASCII).any():
        doubtful |= (whole & BEYOND_ASCII != 0) & ~_keep_utf8(reading.text_fields, charset_kind)
    records = ((g, data[games.start[g] : games.stop[g]].tobytes()) for g in np.flatnonzero(doubtful).tolist())
    return {g: root_codec(root_properties(record)) for g, record in records}


def _keep_utf8(words: TextFields, charset_kind: Bytes) -> _Mask:
    """[G] whether the CA of each game leaves UTF-8 as it is. Each name of a charset is asked for once."""
    names = pa.Array.from_buffers(
        pa.binary(), len(charset_kind), _buffers(words, _CHARSET, charset_kind & BLANK != 0, {})
    ).dictionary_encode("encode")
    keeps = np.array([keeps_utf8(name) for name in names.dictionary.to_pylist()], bool)
    of_game: npt.NDArray[np.int32] = names.indices.to_numpy()
    return keeps[of_game]


def _codecs(words: TextFields, kinds: Bytes) -> dict[int, str]:
    """Game -> codec, for the games of other formats whose words are not UTF-8."""
    rows = np.flatnonzero(np.bitwise_or.reduce(kinds, axis=0) & NOT_UTF8)
    return {g: detect_codec(b"\n".join(_raw(words, f, g) for f in range(len(FIELDS)))) for g in rows.tolist()}


def _raw(words: TextFields, f: int, g: int) -> bytes:
    return words.data[words.start[f, g] : words.stop[f, g]].tobytes()


def _say(reading: ParsedBlock, f: int, g: int, codec: str) -> bytes:
    """One value, as UTF-8."""
    value = _raw(reading.text_fields, f, g).decode(codec, "replace")
    return (unescape(value) if reading.format == "sgf" else value).encode("utf-8", "replace")


def _buffers(words: TextFields, f: int, blank: _Mask, said: Mapping[int, bytes]) -> list[pa.Buffer | None]:
    """The buffers of an Arrow array of field f: validity, offsets, data.

    blank: [G] where it is null.  said: row -> what stands there in place of the record's own bytes.
    """
    size = np.where(blank, 0, words.stop[f] - words.start[f])
    replaced = np.zeros(len(size), np.uint8)
    for g, value in said.items():
        size[g] = 0 if blank[g] else len(value)
        replaced[g] = 1
    offset = np.zeros(len(size) + 1, np.int32)
    np.cumsum(size, out=offset[1:])
    data = np.empty(offset[-1], np.uint8)
    gather(words.data, words.start[f], replaced, offset, data)
    for g, value in said.items():
        if not blank[g]:
            data[offset[g] : offset[g + 1]] = np.frombuffer(value, np.uint8)
    valid = pa.py_buffer(np.packbits(~blank, bitorder="little")) if blank.any() else None
    return [valid, pa.py_buffer(offset), pa.py_buffer(data)]


def _spaced(names: pa.StringArray) -> pa.StringArray:
    """Names of OLF: "_" is a space, and nothing but such is no name."""
    spaced = pc.replace_substring(names, "_", " ")
    return pc.if_else(pc.equal(pc.utf8_trim(spaced, " "), ""), None, spaced)


def _encoding(codecs: Mapping[int, str], count: int) -> pa.StringArray:
    names = sorted({_UTF8, *codecs.values()})
    code = np.full(count, names.index(_UTF8), np.int32)
    code[list(codecs)] = [names.index(codec) for codec in codecs.values()]
    return pa.DictionaryArray.from_arrays(code, names).cast(pa.string())
