"""Decoded text fields as Arrow arrays: equal to those of `Game`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kifu.errors import DropReason
from kifu.records.containers import blocks
from kifu.records.decode import decode
from kifu.records.games import FIELDS, ParsedBlock, TextFields
from kifu.records.sgf import as_block, read_block
from naive_text_fields import TEXT_PIECES, compare_text
from record_samples import TRAPS_FOLDER

COMPILED = not numba.config.DISABLE_JIT


@pytest.mark.nojit
def test_text_of_the_traps() -> None:
    decoded = compare_text(read_block(as_block([path.read_bytes() for path in sorted(TRAPS_FOLDER.glob("*.sgf"))])))
    assert {"gb18030", "cp950", "cp949", "cp932", "euc_jp", "cp1252", "utf_8"} == set(decoded.encoding.to_pylist())


VALUES = [
    *(b"", b" ", b"\0\n\t", b"Ann", b" Ann\r\nB ", b"a\0b\x1b", b"a\\]b\\\\", b"\\\n", b"\\ ", b"x\\", b"_", b"\x7f"),
    *("柯洁".encode(), "\u3000".encode(), "ü".encode(), "柯\\]".encode(), "柯洁".encode()[:-1], "\ufeffx".encode()),
    *(
        "柯洁".encode("gb18030"), "許功也".encode("big5"), "ソ表".encode("cp932"), "ü".encode("latin-1"),
        "井山裕太".encode("iso2022_jp"), b"\xff", b"\xed\xa0\x80",
    ),
]  # fmt: skip
CHARSETS = [
    *(b"", b"UTF-8", b"utf8", b"GB2312", b"gb18030", b"Big5", b"Shift_JIS", b"shift_jis_2004", b"EUC-KR", b"latin1"),
    *(b"ISO-8859-15", b"ascii", b"no-such", b"\xff", b"utf-8-sig", b"koi8-r", b"U\\TF-8", b"ISO-2022-JP"),
]


@pytest.mark.nojit
@given(
    st.lists(
        st.tuples(
            st.sampled_from([None, *CHARSETS]),
            st.lists(
                st.tuples(st.sampled_from(["PB", "PW", "RE", "EV", "C", "GN"]), st.sampled_from(VALUES)), max_size=5
            ),
            st.sampled_from([b"", b"C[later \xff]", b"C[\xe6\x9f\xaf]"]),
        ),
        max_size=6,
    )
)
def test_text_of_made_up_games(games: list[tuple[bytes | None, list[tuple[str, bytes]], bytes]]) -> None:
    records = []
    for ca, properties, later in games:
        root = b"" if ca is None else b"CA[" + ca + b"]"
        root += b"".join(name.encode() + b"[" + value + b"]" for name, value in properties)
        records.append(b"(;GM[1]" + root + b";" + later + b")")
    compare_text(read_block(as_block(records)))


@given(st.lists(st.one_of(st.sampled_from(TEXT_PIECES), st.binary(max_size=5)), max_size=40).map(b"".join))
def test_text_of_any_bytes(data: bytes) -> None:
    compare_text(read_block(as_block([b"(;PB[" + data, data])))


def test_charset_names_beside_utf8() -> None:
    """`decode` checks whole arrays for UTF-8, `Game` its own text; both must agree."""
    texts = ["é", "柯洁", "신진서", "ソ", "\U00020000"]
    compare_text(read_block(as_block([b"(;CA[%b]PB[%b])" % (ca, t.encode()) for ca in CHARSETS for t in texts])))


def test_text_of_dropped_games() -> None:
    block = as_block([b"", b"(;GM[2]PB[Ann]EV[\xff\xfe])", b"(;SZ[30]PW[\xb0\xa2])"])
    block.drop[0] = DropReason.UNREADABLE
    decoded = compare_text(read_block(block))
    assert decoded.text["black"].to_pylist() == [None, "Ann", None]


def test_no_games() -> None:
    decoded = compare_text(read_block(as_block([])))
    assert len(decoded.encoding) == 0
    assert all(len(strings) == 0 for strings in decoded.text.values())


@pytest.mark.slow
def test_text_of_real_games(shared: Path) -> None:
    for path in [*sorted((shared / "data/wild").iterdir()), shared / "data/kgs/KGS-2017_05-19-847-.tar.gz"]:
        for block in blocks(path, block_bytes=(4 << 20) if COMPILED else 20_000):
            compare_text(read_block(block))
            if not COMPILED:
                break


# Other formats


def parsed_block(kind: str, games: list[dict[str, bytes]]) -> ParsedBlock:
    """Return a parsed block of lines with only the fields that `decode` reads."""
    values = [game.get(field, b"") for field in FIELDS for game in games]
    ends = np.cumsum([0, *map(len, values)], dtype=np.int64)
    shape = len(FIELDS), len(games)
    data = np.frombuffer(bytearray(b"".join(values) + b"."), np.uint8)
    words = TextFields(data, ends[:-1].reshape(shape), ends[1:].reshape(shape))
    return replace(read_block(as_block([b""] * len(games))), format=kind, text_fields=words)


@pytest.mark.nojit
def test_lines_have_no_escapes_and_separate_charsets() -> None:
    games = [
        {"black": b"a\\]b_c", "result": b"\\"},
        {"black": "聂卫平".encode("gb18030"), "white": "马晓春".encode("gb18030"), "event": "决赛".encode("gb18030")},
        {"black": "柯洁".encode(), "white": b"\xe6\x9f"},
        {"black": "柯洁".encode(), "white": b" "},
    ]
    decoded = decode(parsed_block("tygem", games))
    assert decoded.encoding.to_pylist() == ["utf_8", "gb18030", "utf_8", "utf_8"]
    assert decoded.text["black"].to_pylist() == ["a\\]b_c", "聂卫平", "柯洁", "柯洁"]
    assert decoded.text["white"].to_pylist() == [None, "马晓春", "\ufffd", None]
    assert decoded.text["result"].to_pylist() == ["\\", None, None, None]


def test_underscores_in_names_of_olf_are_spaces() -> None:
    games = [{"black": b"Go_Seigen", "white": b"_", "result": b"a_b"}, {"white": "ソ_表".encode("cp932")}]
    decoded = decode(parsed_block("olf", games))
    assert decoded.text["black"].to_pylist() == ["Go Seigen", None]
    assert decoded.text["white"].to_pylist() == [None, "ソ 表"]
    assert decoded.text["result"].to_pylist() == ["a_b", None]
