"""TYGEM's lines and index against their slow twins, on traps, noise and the real files."""

from __future__ import annotations

import bz2
import gzip
import random
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive_tygem as naive
from kifu.errors import DropReason, SourceError
from kifu.point import NO_POINT, WHITE_BIT
from kifu.records import tygem
from kifu.records._tokens import LINE_LIMIT
from kifu.records.containers import blocks
from kifu.records.games import FIELDS, NO_HANDICAP, ParsedBlock, ParseWarning
from kifu.records.sgf import as_block
from kifu.records.tygem import TygemIndex, count_unindexed, load_index, read_index, read_tygem, to_sgf_properties
from naive_tygem import NaiveLine

ROW = "842008471\tC2016.01.01 00:02\t白\twhite(P)\t2\t黑(P)\tblack(P)\t0\tW+Resign\t154\t30/3 5m"
WORDS = {
    "black": "黑(P)",
    "white": "白",
    "result": "W+Resign",
    "date": "2016.01.01 00:02",
    "time": "5m",
    "overtime": "30/3",
}

PIECES = [
    b"885492098\t", b"7\t", b";B[pd]", b";W[dp]", b";B[]", b";W[tt]", b";B[zz]", b";W[ pd ]", b";", b"B", b"[", b"]",
    b"\n", b"\r\n", b"#", b" ", b"\t", b";C[x]", b"(", b"\xef\xbb\xbf", b"1234567890123456789\t", b";B[Pass]", b"\0",
]  # fmt: skip

INDEX_PIECES = [
    ROW.encode(), b"\n", b"\r\n", b"\t", b"\tC", b"7", b"7\tC", b" ", b"30/3 5m", b"30/3 5m7\tC", b"\t" * 10, b"x",
    b"\xef\xbb\xbf", b"\xff", b"9\tC2016.01.01 00:02\ta\tb\t0\tc\td\t1\tB+0.5\t200\t10/3 0m",
]  # fmt: skip


def lines_of(reading: ParsedBlock, k: int = 0) -> list[NaiveLine]:
    """The rows of member k, as the twin gives them but for the numbers, which a reading does not keep."""
    games, found = reading.games, []
    for g in np.flatnonzero(games.block_index == k).tolist():
        moves = games.moves[games.move_offset[g] : games.move_offset[g + 1]].tolist()
        drop = DropReason(games.drop[g])
        text = reading.block.data[games.start[g] : games.stop[g]].tobytes()
        found.append(NaiveLine(int(reading.index[g]), text, -1, moves, ParseWarning(int(games.warnings[g])), drop))
    return found


def compare_with_naive(members: list[bytes]) -> None:
    block = as_block(members)
    reading = read_tygem(block, None)
    assert reading.games.width.tolist() == [0 if drop else 19 for drop in reading.games.drop]
    for k, data in enumerate(members):
        expected = naive.read_member(data)
        for row in expected:
            row.id = -1
            if row.drop:
                row.moves, row.warnings = [], ParseWarning(0)
            if row.drop in (DropReason.NO_RECORD, DropReason.TOO_LARGE) and not row.text:
                row.text = next(found.text for found in lines_of(reading, k) if found.line == row.line)
        assert lines_of(reading, k) == expected


def words_of(reading: ParsedBlock, g: int) -> dict[str, str]:
    words = reading.text_fields
    texts = [words.data[a:b].tobytes().decode() for a, b in zip(words.start[:, g], words.stop[:, g])]
    return {name: text for name, text in zip(FIELDS, texts) if text}


TRAPS = {
    b"": [(DropReason.NO_RECORD, [], ParseWarning(0))],
    b"\n\n# only a comment\n": [(DropReason.NO_RECORD, [], ParseWarning(0))],
    b"1\t;B[pd];W[]\n": [(DropReason.KEPT, [72, 361 | WHITE_BIT], ParseWarning(0))],
    b"1\t;B[pd];W[dp]": [(DropReason.KEPT, [72, 288 | WHITE_BIT], ParseWarning(0))],
    b"1\t;B[pd];W[dp]\r\n2\t;W[aa]\r\n": [
        (DropReason.KEPT, [72, 288 | WHITE_BIT], ParseWarning(0)),
        (DropReason.KEPT, [0 | WHITE_BIT], ParseWarning(0)),
    ],
    b"1\t;B[aa];B[ba]\n": [(DropReason.KEPT, [0, 1], ParseWarning(0))],
    b"\xef\xbb\xbf1\t;B[aa]": [(DropReason.KEPT, [0], ParseWarning(0))],
    b"1\t\n": [(DropReason.KEPT, [], ParseWarning(0))],
    b"1\t;B[aa];W[b": [(DropReason.KEPT, [0], ParseWarning.TRUNCATED)],
    b"1\t;B[aa];": [(DropReason.KEPT, [0], ParseWarning.TRUNCATED)],
    b"1\t;B[tt]": [(DropReason.KEPT, [361], ParseWarning.PASS_AS_TT)],
    b"1\t;B[zz];W[aa]": [(DropReason.KEPT, [NO_POINT, 0 | WHITE_BIT], ParseWarning(0))],
    b"1\t;B[aa]C[x]": [(DropReason.UNREADABLE, [], ParseWarning(0))],
    b"1\t;AB[aa]": [(DropReason.UNREADABLE, [], ParseWarning(0))],
    b"1 ;B[aa]\n2\t;B[aa]": [(DropReason.UNREADABLE, [], ParseWarning(0)), (DropReason.KEPT, [0], ParseWarning(0))],
    b"1234567890123456789\t;B[aa]": [(DropReason.UNREADABLE, [], ParseWarning(0))],
    b"\t;B[aa]": [(DropReason.UNREADABLE, [], ParseWarning(0))],
    b"1\t;B[aa]\n" * 30: [(DropReason.KEPT, [0], ParseWarning(0))] * 24 + [(DropReason.TOO_LARGE, [], ParseWarning(0))],
    b"1\t" + b";B[aa]" * 65_535: [(DropReason.KEPT, [0] * 65_535, ParseWarning(0))],
    b"1\t" + b";B[aa]" * 65_536: [(DropReason.TOO_LARGE, [], ParseWarning(0))],
    b"1\t;B[" + b"a" * LINE_LIMIT + b"]\n2\t;B[aa]": [
        (DropReason.TOO_LARGE, [], ParseWarning(0)),
        (DropReason.KEPT, [0], ParseWarning(0)),
    ],
}


@pytest.mark.parametrize("data", TRAPS, ids=lambda data: repr(data[:40]))
def test_trap(data: bytes) -> None:
    reading = read_tygem(as_block([data]), None)
    assert [(row.drop, row.moves, row.warnings) for row in lines_of(reading)] == TRAPS[data]
    compare_with_naive([data])


@pytest.mark.nojit
def test_the_rows_of_several_members() -> None:
    members = [b"1\t;B[pd]\n\n# x\n  2\t;B[dd]\n", b"", b"(;B[aa])", b"5\t;W[aa]"]
    compare_with_naive(members)
    reading = read_tygem(as_block(members), read_index(np.frombuffer(bytearray(ROW.encode()), np.uint8)))
    games = reading.games
    assert reading.index.tolist() == [0, 3, 0, 0, 0]
    assert games.block_index.tolist() == games.member.tolist() == [0, 0, 1, 2, 3]
    assert games.handicap.tolist() == [NO_HANDICAP] * 5
    assert games.setup_offset.tolist() == reading.territory_offset.tolist() == [0] * 6
    assert count_unindexed(reading) == 3


@settings(max_examples=300, deadline=None)
@given(st.lists(st.lists(st.sampled_from(PIECES), max_size=40).map(b"".join), min_size=1, max_size=3))
def test_any_lines_are_read_as_the_slow_twin_reads_them(members: list[bytes]) -> None:
    compare_with_naive(members)


def index_of(data: bytes) -> TygemIndex:
    return read_index(np.frombuffer(bytearray(data), np.uint8))


def index_words(data: bytes) -> dict[int, dict[str, str]]:
    """What the games of an index are told, by number, found as for a game of that number."""
    index = index_of(data)
    lines = b"\n".join(b"%d\t;B[aa]" % number for number in index.ids.tolist())
    reading = read_tygem(as_block([lines + b"\n" + b" " * 40 * len(index)]), index)
    return {number: words_of(reading, g) for g, number in enumerate(index.ids.tolist())}


@pytest.mark.nojit
def test_a_row_of_the_index() -> None:
    assert index_words(ROW.encode()) == {842008471: WORDS}


INDEX_TRAPS = {
    "": (0, 0),
    "\ufeff" + ROW: (1, 0),
    ROW + "\r\n" + ROW.replace("842008471", "9"): (2, 0),
    ROW + ROW.replace("842008471", "9"): (1, 1),
    ROW + "\textra": (0, 1),
    ROW + "\n" + ROW.replace("W+R", "B+R"): (1, 0),
    "1\tC\t\t\t\t\t\t\t\t\t": (1, 0),
    "1\tC\t\t\t\t\t\t\t\t": (0, 1),
    "1\tD\t\t\t\t\t\t\t\t\t": (0, 1),
    "x" + ROW: (0, 1),
    ROW.replace("white", "w" * LINE_LIMIT): (0, 1),
    ROW.replace("30/3 5m", "30/3 5m9") + "\n": (1, 1),
    ROW.replace("30/3 5m", "unlimited"): (1, 0),
}


@pytest.mark.parametrize("text", INDEX_TRAPS, ids=lambda text: repr(text[-40:]))
def test_rows_and_bad_lines_of_an_index(text: str) -> None:
    index = index_of(text.encode())
    assert (len(index), index.bad_lines) == INDEX_TRAPS[text]
    compare_index_with_naive(text.encode())


def test_of_two_rows_with_one_number_the_first_counts() -> None:
    assert index_words((ROW + "\n" + ROW.replace("W+R", "B+R")).encode()) == {842008471: WORDS}


def compare_index_with_naive(data: bytes) -> None:
    rows, bad = naive.read_index(data)
    index = index_of(data)
    assert index.bad_lines == bad
    assert index.ids.tolist() == sorted(rows)
    spans = {}
    reading = read_tygem(as_block([b"%d\t" % number + b" " * 40 for number in index.ids.tolist()]), index)
    for g, number in enumerate(index.ids.tolist()):
        words = reading.text_fields
        at = {name: FIELDS.index(name) for name in WORDS}
        spans[number] = {name: words.data[words.start[f, g] : words.stop[f, g]].tobytes() for name, f in at.items()}
    assert spans == rows


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(INDEX_PIECES), max_size=30).map(b"".join))
def test_any_index_is_read_as_the_slow_twin_reads_it(data: bytes) -> None:
    compare_index_with_naive(data)


def test_an_index_is_found_by_its_name(tmp_path: Path) -> None:
    other = ROW.replace("842008471", "9")
    (tmp_path / "Kifu.index").write_text(ROW)
    (tmp_path / "more.INDEX.gz").write_bytes(gzip.compress(other.encode()))
    (tmp_path / "b.index.bz2").write_bytes(bz2.compress(ROW.replace("842008471", "7").encode()))
    with zipfile.ZipFile(tmp_path / "in.zip", "w") as archive:
        archive.writestr("folder/x.index", ROW.replace("842008471", "8"))
        archive.writestr("folder/._x.index", ROW.replace("842008471", "6"))
        archive.writestr("2016-07", "5\t;B[aa]")
    (tmp_path / "no.sgf").write_text("(;B[aa])")
    names = ["Kifu.index", "more.INDEX.gz", "b.index.bz2", "in.zip", "no.sgf"]
    index = load_index([tmp_path / name for name in names])
    assert index is not None and index.ids.tolist() == [7, 8, 9, 842008471]
    assert load_index([tmp_path / "no.sgf", tmp_path]) is None
    assert [len(list(blocks(tmp_path / name))) for name in names] == [0, 0, 0, 1, 1]


def test_an_index_that_cannot_be_read_is_an_error_of_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cut = tmp_path / "cut.index.gz"
    cut.write_bytes(gzip.compress(random.Random(1).randbytes(999))[:-20])
    with pytest.raises(SourceError, match="ends too early"):
        load_index([cut])
    with zipfile.ZipFile(tmp_path / "in.zip", "w") as archive:
        archive.writestr("x.index", ROW)
    damaged = tmp_path / "in.zip"
    damaged.write_bytes(damaged.read_bytes().replace(b"Resign", b"resign"))
    with pytest.raises(SourceError, match=r"x\.index: cannot be read"):
        load_index([damaged])
    damaged.write_bytes(damaged.read_bytes()[:-5])  # reading its records will tell
    assert load_index([damaged]) is None
    with pytest.raises(SourceError, match="No such file"):
        load_index([tmp_path / "none.index"])
    monkeypatch.setattr(tygem, "MEMBER_LIMIT", 50)
    (tmp_path / "a.index").write_text(ROW)
    with pytest.raises(SourceError, match="larger than 50 bytes in total"):
        load_index([tmp_path / "a.index"])


def test_words_in_the_spelling_of_sgf() -> None:
    assert to_sgf_properties(WORDS) == {
        "PB": "黑(P)",
        "PW": "白",
        "RE": "W+R",
        "DT": "2016-01-01",
        "TM": "300",
        "OT": "3x30 byo-yomi",
    }
    odd = {"black": "", "white": "x", "result": "?!", "date": "1.1.2016", "time": "long", "overtime": "30"}
    assert to_sgf_properties(odd) == {"PB": None, "PW": "x", "RE": "?!", "DT": "1.1.2016", "TM": "long", "OT": "30"}
    assert set(to_sgf_properties(dict.fromkeys(odd, "")).values()) == {None}


def test_the_real_lines_and_their_index(shared: Path) -> None:
    index = load_index(sorted((shared / "data/tygem").glob("*.zip")))
    assert index is not None
    assert (len(index), index.bad_lines) == (167_085, 1)  # one line goes on with the half of a later one
    (block,) = blocks(shared / "data/tygem/2016-07.zip", block_bytes=64 << 20)
    reading = read_tygem(block, index)
    assert len(reading.games) == 11_365
    assert not reading.games.drop.any() and not reading.games.warnings.any()
    assert count_unindexed(reading) == 0
    assert reading.index.tolist() == list(range(11_365))
    assert words_of(reading, 11_364) == {
        "black": "*保龄神童",
        "white": "Monster(P)",
        "result": "B+Resign",
        "date": "2016.07.31 23:59",
        "time": "0m",
        "overtime": "10/3",
    }
    compare_with_naive([block.data[block.start[0] : block.stop[0]].tobytes()[: 2 << 20]])


def test_white_stands_first_in_the_index(shared: Path) -> None:
    """AlphaGo, as Magister on this server, lost none of its 60 games; it is the first of the two players here."""
    index = load_index([shared / "data/tygem/Kifu2016.zip"])
    words = words_of(read_tygem(as_block([b"922008829\t"]), index), 0)
    assert (words["white"], words["result"]) == ("Magister(P)", "W+0.5")
