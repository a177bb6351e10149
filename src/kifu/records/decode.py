"""Decoding of text fields: the codec of each game, and Arrow arrays of its text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kifu.kernel import inline_kernel, kernel
from kifu.records._bytes import ESCAPE, LEFT, LINE_FEED, SPACE, Int, is_utf8
from kifu.records._sgf_tokens import end_of_value, find_game
from kifu.records.games import FIELD_LIMIT, FIELDS, Bytes, ParsedBlock, TextFields
from kifu.records.meta import FOX_KOMI
from kifu.records.sgf import NAMES, as_array, charset_of, decode_value, root_of
from kifu.records.text import STATEFUL, choose_codec, codec_named, detect_codec, keeps_utf8, simple_text

Spans = npt.NDArray[np.int64]
_Mask = npt.NDArray[np.bool_]

# Flags for the bytes of a value.
BLANK = 1  # empty or white space only
BEYOND_ASCII = 2
NOT_UTF8 = 4
ESCAPED = 8  # contains a backslash
BROKEN = 16  # contains white space other than spaces

_CODEC_BYTES = 1 << 20

_FIELD_CHARSET = FIELDS.index("charset")
_NAME_OF_FIELD = dict(enumerate(NAMES))
_PLAYERS = ("black", "white")
_UTF8 = "utf_8"
_WHITE_SPACE = bytes(range(33))  # as in the SGF scanner, control characters included


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


@inline_kernel
def byte_kind(data: Bytes, i: Int, stop: Int) -> Int:
    """Return the flags of data[i:stop]."""
    top, escaped, broken = np.uint8(0), False, False
    for c in data[i:stop]:  # a loop over a view is vectorized by the compiler
        top = max(top, c)
        escaped |= c == ESCAPE
        broken |= (c >= 9) & (c <= 13)
    kind = (BLANK if top <= SPACE else 0) | (ESCAPED if escaped else 0) | (BROKEN if broken else 0)
    if top >= 0x80:
        kind |= BEYOND_ASCII | (0 if is_utf8(data, i, stop) else NOT_UTF8)
    return kind


@kernel
def byte_kinds(data: Bytes, start: Spans, stop: Spans, kind: Bytes) -> None:
    """Compute the flags of each piece of the data. start, stop, kind: [K]."""
    for k in range(len(start)):
        kind[k] = byte_kind(data, start[k], stop[k])


@kernel
def copy_values(data: Bytes, charset: Int, out: Bytes) -> Int:
    r"""Copy the values beyond ASCII of the first game, each with a \n, until `out` is full. Return their bytes."""
    stop, count = len(data), 0
    _at, i, _junk = find_game(data, 0, stop)
    while i < stop:
        if data[i] == LEFT:
            end = end_of_value(data, i + 1, stop, charset)
            if end < stop and byte_kind(data, i + 1, end) & BEYOND_ASCII and count + end - i <= len(out):
                for k in range(i + 1, end):
                    out[count + k - i - 1] = data[k]
                out[count + end - i - 1] = LINE_FEED
                count += end - i
            i = end
        i += 1
    return count


@kernel
def gather(data: Bytes, start: Spans, skip: Bytes, offset: npt.NDArray[np.int32], out: Bytes) -> None:
    """Copy data[start[g] :] to out[offset[g] : offset[g + 1]] for all g, except where skip[g] is set."""
    for g in range(len(start)):
        if skip[g] == 0:
            first = start[g]
            for k in range(offset[g + 1] - offset[g]):
                out[offset[g] + k] = data[first + k]


def record_codec(record: bytes, properties: Mapping[str, Sequence[bytes]], charset: int | None = None) -> str:
    """Return Python's codec for the text of a record: by CA if it can be trusted, else detected.

    Only the first mebibyte of the root's text counts, without values of more than `FIELD_LIMIT` bytes, and 64 KiB of
    further text.

    Args:
        charset: The charset by which its values end; None if not known yet.
    """
    ca = properties.get("CA")
    values = (value for values in properties.values() for value in values if len(value) <= FIELD_LIMIT)
    sizes = accumulate(map(len, kept := list(values)))
    text = b"\n".join(v for v, s in zip(kept, sizes) if s <= _CODEC_BYTES)
    if text.isascii() and not (ca and codec_named(ca[0]) in STATEFUL):
        return "utf_8"
    data = as_array(record)
    out = np.empty(min(len(data), FIELD_LIMIT), np.uint8)
    further = copy_values(data, charset_of(record) if charset is None else charset, out)
    return choose_codec(ca[0] if ca else None, text, out[:further].tobytes())


def decode(parsed: ParsedBlock) -> Decoded:
    """Decode the text fields of a block, as `Game.text` does. Bytes outside a game's charset become U+FFFD.

    SGF is decoded by the codec of its record (`Game.codec`) and unescaped. Text that a reader has decoded stays as it
    is. Other formats have neither escapes nor a charset: a game is read as UTF-8 if all its text is valid, else by the
    detected charset; in OLF a "_" in a player's name is a space.
    """
    text_fields = parsed.text_fields
    kinds = np.empty(text_fields.start.shape, np.uint8)
    byte_kinds(text_fields.data, text_fields.start.ravel(), text_fields.stop.ravel(), kinds.ravel())
    codecs = _sgf_codecs(parsed, kinds[_FIELD_CHARSET]) if parsed.format == "sgf" else _codecs(text_fields, kinds)
    needs_decoding = kinds & (NOT_UTF8 | ESCAPED | BROKEN if parsed.format == "sgf" else NOT_UTF8) != 0
    needs_decoding[:, list(codecs)] = True
    needs_decoding &= kinds & BLANK == 0
    text = {}
    for f, field in enumerate(FIELDS):
        if f == _FIELD_CHARSET:
            continue
        replacements = {
            g: _decode_value(parsed, f, g, codecs.get(g, _UTF8)) for g in np.flatnonzero(needs_decoding[f]).tolist()
        }
        blank = kinds[f] & BLANK != 0
        blank[[g for g, value in replacements.items() if not value.strip(_WHITE_SPACE)]] = True
        valid, offset, data = _buffers(text_fields, f, blank, replacements)
        text[field] = pa.StringArray.from_buffers(len(blank), offset, data, valid)
    if parsed.format == "olf":
        import pyarrow.compute as pc

        for field in _PLAYERS:  # in which "_" stands for a space
            names = pc.replace_substring(text[field], "_", " ")
            text[field] = pc.if_else(pc.equal(pc.utf8_trim(names, " "), ""), None, names)
    if parsed.codecs is not None:
        codecs = dict(enumerate(parsed.codecs))
    return Decoded(text, _encoding(codecs, len(parsed.index)))


def _sgf_codecs(parsed: ParsedBlock, charset_kind: Bytes) -> dict[int, str]:
    """Return game -> codec for all games that are not certain to be UTF-8.

    The charset is that of all values of a root. It is UTF-8 if the whole record is, unless CA names a double-byte
    charset, or one of seven bits.
    """
    games, data = parsed.games, parsed.block.data
    whole = np.empty(len(games), np.uint8)
    byte_kinds(data, games.start, games.stop, whole)
    doubtful = whole & NOT_UTF8 != 0
    is_double_byte, is_stateful = _classify_charsets(parsed.text_fields, charset_kind)
    doubtful |= (whole & BEYOND_ASCII != 0) & is_double_byte | is_stateful
    assert parsed.properties is not None
    codecs = {}
    for g in np.flatnonzero(doubtful).tolist():
        record, root = data[games.start[g] : games.stop[g]].tobytes(), root_of(data, parsed.properties, g)
        codecs[g] = record_codec(record, root, int(parsed.properties.charset[g]))
    return codecs


def _classify_charsets(text_fields: TextFields, charset_kind: Bytes) -> tuple[_Mask, _Mask]:
    """Return [G] whether the CA of each game may change UTF-8 text, and ASCII. Each distinct CA is checked once."""
    names = pa.Array.from_buffers(
        pa.binary(), len(charset_kind), _buffers(text_fields, _FIELD_CHARSET, charset_kind & BLANK != 0, {})
    ).dictionary_encode("encode")
    of_game: npt.NDArray[np.int32] = names.indices.to_numpy()
    distinct = names.dictionary.to_pylist()
    is_double_byte = np.array([not keeps_utf8(name) for name in distinct], bool)
    is_stateful = np.array([bool(name) and codec_named(name) in STATEFUL for name in distinct], bool)
    return is_double_byte[of_game], is_stateful[of_game]


def _codecs(text_fields: TextFields, kinds: Bytes) -> dict[int, str]:
    rows = np.flatnonzero(np.bitwise_or.reduce(kinds, axis=0) & NOT_UTF8)
    return {g: detect_codec(b"\n".join(_raw(text_fields, f, g) for f in range(len(FIELDS)))) for g in rows.tolist()}


def _raw(text_fields: TextFields, f: int, g: int) -> bytes:
    return text_fields.data[text_fields.start[f, g] : text_fields.stop[f, g]].tobytes()


def _decode_value(parsed: ParsedBlock, f: int, g: int, codec: str) -> bytes:
    value = decode_value(_NAME_OF_FIELD.get(f, ""), _raw(parsed.text_fields, f, g), codec)
    return (simple_text(value) if parsed.format == "sgf" else value).encode("utf-8", "replace")


def _buffers(
    text_fields: TextFields, f: int, blank: _Mask, replacements: Mapping[int, bytes]
) -> list[pa.Buffer | None]:
    """Return the buffers of an Arrow array of field f: validity, offsets, data. blank: [G] True where it is null."""
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


def translate_fox(text: Mapping[str, pa.StringArray]) -> Mapping[str, pa.StringArray]:
    """Return text of SGF with Fox's overtime, TC[3]TT[30], and komi, KM[50] for half a point, as others spell them."""
    import pyarrow.compute as pc

    periods = pc.binary_join_element_wise(text["periods"], text["period_seconds"], "x")
    periods = pc.if_else(pc.equal(periods, "0x0"), None, periods)
    komi, is_fox = text["komi"], text["server"].is_valid()
    for hundredths, points in FOX_KOMI.items():
        komi = pc.if_else(pc.and_(is_fox, pc.equal(komi, hundredths)), points, komi)
    overtime = pc.coalesce(text["overtime"], pc.binary_join_element_wise(periods, "byo-yomi", " "))
    return {**text, "overtime": overtime, "komi": komi}


def _encoding(codecs: Mapping[int, str], count: int) -> pa.StringArray:
    names = sorted({_UTF8, *codecs.values()})
    code = np.full(count, names.index(_UTF8), np.int32)
    code[list(codecs)] = [names.index(codec) for codec in codecs.values()]
    return pa.DictionaryArray.from_arrays(code, names).cast(pa.string())
