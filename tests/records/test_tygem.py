"""TYGEM lines and index against naive parsers, on traps, noise and the real files."""

from __future__ import annotations

import bz2
import gzip
import json
import random
import zipfile
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kifu
from kifu.errors import DropReason, SourceError
from kifu.point import NO_POINT, WHITE_BIT, to_sgf
from kifu.records import tygem
from kifu.records._bytes import LINE_LIMIT
from kifu.records.containers import blocks, find_containers, read_blocks
from kifu.records.detect import SGF, TYGEM, TYGEM_INDEX, detect
from kifu.records.games import FIELDS, NO_HANDICAP, ParseWarning
from kifu.records.parse import parse_block
from kifu.records.sgf import as_block
from kifu.records.tygem import load_index, read_tygem, read_tygem_index, to_sgf_properties
from naive_tygem import (
    INDEX_PIECES,
    ROW,
    TOM_ROW,
    TOM_WORDS,
    WORDS,
    compare_index_with_naive,
    compare_with_naive,
    index_of,
    index_words,
    lines_of,
    text_fields_of,
)


def count_unindexed(parsed):
    date = FIELDS.index("date")
    spans = parsed.text_fields
    return int(((spans.stop[date] <= spans.start[date]) & (parsed.games.drop == 0)).sum())


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
    parsed = read_tygem(as_block([data]), None)
    assert [(row.drop, row.moves, row.warnings) for row in lines_of(parsed)] == TRAPS[data]
    compare_with_naive([data])


@pytest.mark.nojit
def test_the_rows_of_several_members() -> None:
    members = [b"1\t;B[pd]\n\n# x\n  2\t;B[dd]\n", b"", b"(;B[aa])", b"5\t;W[aa]"]
    compare_with_naive(members)
    parsed = read_tygem(as_block(members), read_tygem_index(np.frombuffer(bytearray(ROW.encode()), np.uint8)))
    games = parsed.games
    assert parsed.index.tolist() == [0, 3, 0, 0, 0]
    assert games.block_index.tolist() == games.member.tolist() == [0, 0, 1, 2, 3]
    assert games.handicap.tolist() == [NO_HANDICAP] * 5
    assert games.setup_offset.tolist() == parsed.territory_offset.tolist() == [0] * 6
    assert count_unindexed(parsed) == 3


@pytest.mark.nojit
def test_index_rows() -> None:
    both = index_words(f"{TOM_ROW}\n{ROW}\n".encode())
    assert both == {354460: TOM_WORDS, 842008471: WORDS}
    texts = [TOM_ROW, TOM_ROW.replace(".09", "-09"), "354460\t;B[aa]"]
    assert detect(as_block([text.encode() for text in texts])).tolist() == [TYGEM_INDEX, SGF, TYGEM]


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
    TOM_ROW + TOM_ROW: (1, 1),
    TOM_ROW + "\textra": (0, 1),
    TOM_ROW.replace("\t6.5", ""): (0, 1),
    TOM_ROW.replace("2003.09.25", "2003.09"): (0, 1),
    "1\t2003.09.25\t\t\t\t\t\t": (1, 0),
    "1\t2003.09.25\t\t\t\t\t": (0, 1),
}


@pytest.mark.parametrize("text", INDEX_TRAPS, ids=lambda text: repr(text[-40:]))
def test_index_traps(text: str) -> None:
    index = index_of(text.encode())
    assert (len(index), index.bad_lines) == INDEX_TRAPS[text]
    compare_index_with_naive(text.encode())


def test_first_of_two_index_rows_is_used() -> None:
    assert index_words((ROW + "\n" + ROW.replace("W+R", "B+R")).encode()) == {842008471: WORDS}


@given(st.lists(st.sampled_from(INDEX_PIECES), max_size=30).map(b"".join))
def test_index_matches_naive_parser(data: bytes) -> None:
    compare_index_with_naive(data)


def test_index_is_found_by_name(tmp_path: Path) -> None:
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
    assert index is not None
    assert index.ids.tolist() == [7, 8, 9, 842008471]
    assert load_index([tmp_path / "no.sgf", tmp_path]) is None
    assert [len(list(blocks(tmp_path / name))) for name in names] == [0, 0, 0, 1, 1]


def test_unreadable_index_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cut = tmp_path / "cut.index.gz"
    cut.write_bytes(gzip.compress(random.Random(1).randbytes(999))[:-20])
    with pytest.raises(SourceError, match="ends too early"):
        load_index([cut])
    with zipfile.ZipFile(tmp_path / "in.zip", "w") as archive:
        archive.writestr("x.index", ROW)
    damaged = tmp_path / "in.zip"
    damaged.write_bytes(damaged.read_bytes().replace(b"Resign", b"resign"))
    with pytest.raises(SourceError, match=r"x\.index: unreadable: "):
        load_index([damaged])
    damaged.write_bytes(damaged.read_bytes()[:-5])  # reported when its records are read
    assert load_index([damaged]) is None
    with pytest.raises(SourceError, match="No such file"):
        load_index([tmp_path / "none.index"])
    monkeypatch.setattr(tygem, "MEMBER_LIMIT", 50)
    (tmp_path / "a.index").write_text(ROW)
    with pytest.raises(SourceError, match="larger than 50 bytes in total"):
        load_index([tmp_path / "a.index"])


def test_sgf_properties() -> None:
    empty = dict.fromkeys(TOM_WORDS, "")
    assert {name: text for name, text in to_sgf_properties(empty | WORDS).items() if text is not None} == {
        "PB": "黑(P)",
        "PW": "白",
        "RE": "W+R",
        "DT": "2016-01-01",
        "TM": "300",
        "OT": "3x30 byo-yomi",
    }
    tom = to_sgf_properties(TOM_WORDS)
    assert (tom["KM"], tom["BR"], tom["WR"], tom["DT"], tom["TM"]) == ("6.5", "9d", "9d", "2003-09-25", "1200")
    odd = empty | {"black": "", "white": "x", "result": "?!", "date": "1.1.2016", "time": "long", "overtime": "30"}
    found = {name: text for name, text in to_sgf_properties(odd).items() if text is not None}
    assert found == {"PW": "x", "RE": "?!", "DT": "1.1.2016", "TM": "long", "OT": "30"}
    assert set(to_sgf_properties(empty).values()) == {None}


@pytest.mark.slow
def test_real_lines_and_index(shared: Path) -> None:
    index = load_index(sorted((shared / "data/tygem").glob("*2016*.zip")))
    assert index is not None
    assert (len(index), index.bad_lines) == (167_085, 1)  # one line continues with half of a later one
    (block,) = blocks(shared / "data/tygem/2016-07.zip", block_bytes=64 << 20)
    parsed = read_tygem(block, index)
    assert len(parsed.games) == 11_365
    assert not parsed.games.drop.any()
    assert not parsed.games.warnings.any()
    assert count_unindexed(parsed) == 0
    assert parsed.index.tolist() == list(range(11_365))
    assert text_fields_of(parsed, 11_364) == {
        "black": "*保龄神童",
        "white": "Monster(P)",
        "result": "B+Resign",
        "date": "2016.07.31 23:59",
        "time": "0m",
        "overtime": "10/3",
    }
    compare_with_naive([block.data[block.start[0] : block.stop[0]].tobytes()[: 2 << 20]])


def test_white_comes_first_in_the_index(shared: Path) -> None:
    """AlphaGo, as Magister on this server, lost none of its 60 games; it is the first player here."""
    index = load_index([shared / "data/tygem/Kifu2016.zip"])
    words = text_fields_of(read_tygem(as_block([b"922008829\t"]), index), 0)
    assert (words["white"], words["result"]) == ("Magister(P)", "W+0.5")


def test_tom_matches_its_reference(shared: Path, tmp_path: Path) -> None:
    """The folder as it is published is one source."""
    listed = json.loads((shared / "reference/formats/tom.json").read_text("utf-8"))["files"]
    folder = shared / "data/formats/tom"
    index = load_index(find_containers(folder).paths)
    assert index is not None
    assert (len(index), index.bad_lines) == (len(listed), 0)
    games = {}
    parts = (part for block in read_blocks(find_containers(folder).paths) for part in parse_block(block, index))
    for parsed in parts:
        assert parsed.format == "tygem"
        assert count_unindexed(parsed) == 0
        for g in range(len(parsed.games)):
            line = parsed.block.data[parsed.games.start[g] : parsed.games.stop[g]].tobytes()
            games[int(line.split(b"\t")[0])] = (parsed, g)
    assert len(games) == len(listed)
    for reference in listed:
        number = int(reference["file"].partition("#")[2])
        parsed, g = games[number]
        arrays = parsed.games
        moves = arrays.moves[arrays.move_offset[g] : arrays.move_offset[g + 1]].tolist()
        colours = ["W" if move & WHITE_BIT else "B" for move in moves]
        points = [to_sgf(move & ~WHITE_BIT, 19) for move in moves]
        assert [f"{c} {p}".strip() for c, p in zip(colours, points)] == [each.strip() for each in reference["moves"]]
        words = text_fields_of(parsed, g)
        for name in ("black", "white", "date", "result"):
            assert words[name] == reference[name]
        assert float(words["komi"]) == reference["komi"]
        assert [words["black_rank"], words["white_rank"]] == reference["ranks"]
        sgf = to_sgf_properties(dict.fromkeys(TOM_WORDS, "") | words)
        minutes, periods = reference["time"]
        assert sgf["TM"] == str(60 * int(minutes.removesuffix(" min")))
        assert sgf["OT"] == periods.replace("x ", "x").replace(" sec", " byo-yomi")
    report = kifu.ingest(folder, tmp_path / "tom.parquet")
    assert (report.read, report.unparsed) == (len(listed), {})
    table = pq.read_table(tmp_path / "tom.parquet", columns=["black_rank", "white_rank", "komi"]).to_pydict()
    assert {*table["black_rank"], *table["white_rank"]} == {"9d"}
    assert {*table["komi"]} == {6.5, 7.5}
