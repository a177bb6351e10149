"""Detection of formats, runs of one format, and splitting of line files."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import random
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kifu
from commands import run
from kifu.errors import DropReason, SourceError
from kifu.records._bytes import LINE_LIMIT
from kifu.records.containers import blocks, containers, read_blocks, split_block
from kifu.records.detect import OLF, SGF, TYGEM, TYGEM_INDEX, detect
from kifu.records.games import ParsedBlock, RecordBlock
from kifu.records.parse import parse_block
from kifu.records.sgf import as_block
from naive_tygem import ROW
from record_samples import OLF_LINE, SGF_RECORD, TYGEM_LINE

FIRST_BYTES = {
    SGF_RECORD: SGF,
    b";GM[1]": SGF,
    b"\xef\xbb\xbf \r\n(;B[aa])": SGF,
    b"": SGF,
    b"From: a mail\n\n(;B[aa])": SGF,
    b"# no line follows\n": SGF,
    b"# (;B[aa])\n(;B[aa])": SGF,
    OLF_LINE: OLF,
    b"0000-00-00 a 0 b 0 19:19 0 0 0 h-0 AA": OLF,
    b"\n \n# comment\n\n# another\n" + OLF_LINE: OLF,
    b"\xef\xbb\xbf# comment\n" + OLF_LINE: OLF,
    b"1996-03-12,": SGF,
    b"1996-3-12 a": SGF,
    TYGEM_LINE: TYGEM,
    b"\xef\xbb\xbf" + TYGEM_LINE: TYGEM,
    b"1\t": TYGEM,
    b"1\t\n2\t;B[aa]": TYGEM,
    b"1\tB[aa]": SGF,
    b"1234567890123456789\t;B[aa]": SGF,
    b"1 ;B[aa]": SGF,
    ROW.encode(): TYGEM_INDEX,
    b"1\tCx": SGF,
    b"1": SGF,
}


@pytest.mark.nojit
def test_detection_by_first_bytes() -> None:
    assert dict(zip(FIRST_BYTES, detect(as_block(list(FIRST_BYTES))).tolist())) == FIRST_BYTES


@pytest.mark.parametrize(
    ("name", "data", "kind"),
    [
        ("a.olf", b"damaged\n" + OLF_LINE, OLF),
        ("a.OLF", b"", OLF),
        ("a.olf", SGF_RECORD, SGF),
        ("a.sgf", OLF_LINE, OLF),
    ],
)
def test_name_decides_only_if_bytes_cannot(tmp_path: Path, name: str, data: bytes, kind: int) -> None:
    formats = {SGF: "sgf", OLF: "olf"}
    with zipfile.ZipFile(tmp_path / "in.zip", "w") as archive:
        archive.writestr(name, data)
    (tmp_path / name).write_bytes(data)
    for source in (tmp_path / "in.zip", tmp_path / name):
        assert [parsed.format for block in blocks(source) for parsed in parse_block(block, None)] == [formats[kind]]


def test_runs_of_one_format_keep_their_order() -> None:
    members = [SGF_RECORD, OLF_LINE, OLF_LINE + OLF_LINE, ROW.encode(), TYGEM_LINE, b"?", SGF_RECORD, TYGEM_LINE]
    found = list(parse_block(as_block(members), None))
    assert [parsed.format for parsed in found] == ["sgf", "olf", "tygem", "sgf", "tygem"]
    assert [parsed.games.member.tolist() for parsed in found] == [[0], [1, 2, 2], [4], [5, 6], [7]]
    assert [parsed.index.tolist() for parsed in found] == [[0], [0, 0, 1], [0], [0, 0], [0]]  # lines, or games
    for parsed in found:
        members_of_rows = parsed.block.member[parsed.games.block_index]
        assert members_of_rows.tolist() == parsed.games.member.tolist()


def test_block_of_one_format_is_not_copied() -> None:
    block = as_block([SGF_RECORD] * 5)
    (parsed,) = parse_block(block, None)
    assert parsed.block is block


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "": lambda data: data, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress,
}  # fmt: skip


def rows_of(found: list[ParsedBlock]) -> list[tuple[int, bytes, int]]:
    return [
        (int(index), r.block.data[start:stop].tobytes(), int(drop))
        for r in found
        for index, start, stop, drop in zip(r.index, r.games.start, r.games.stop, r.games.drop)
    ]


def some_lines(seed: int, line: bytes, count: int) -> bytes:
    draw = random.Random(seed)
    kinds = [line, line.replace(b"\n", b"\r\n"), b"# " + b"x" * 50 + b"\n", b"\n", b"damaged\n", b" " + line]
    return line + b"".join(draw.choices(kinds, [9, 2, 2, 2, 1, 1], k=count)) + draw.choice([b"", line.strip()])


@pytest.mark.parametrize("line", [OLF_LINE, TYGEM_LINE])
@pytest.mark.parametrize("suffix", PACKED)
def test_line_files_are_split_between_lines(tmp_path: Path, suffix: str, line: bytes) -> None:
    data = some_lines(1, line, 900)
    path = tmp_path / f"2016-07{suffix}"
    path.write_bytes(PACKED[suffix](data))
    (whole,) = blocks(path)
    expected = rows_of(list(parse_block(whole, None)))
    assert len(expected) > 500
    assert {drop for _, _, drop in expected} == {DropReason.KEPT, DropReason.UNREADABLE}
    assert [data.split(b"\n")[at].strip() for at, _, _ in expected] == [text for _, text, _ in expected]
    for size in (700, 4096, 30_000):
        found = list(blocks(path, block_bytes=size))
        assert len(found) > 1 or size > len(data)
        assert all(len(block.data) <= size for block in found)
        assert rows_of([parsed for block in found for parsed in parse_block(block, None)]) == expected
        cut = [part for block in blocks(path) for part in split_block(block, size)]
        assert rows_of([parsed for block in cut for parsed in parse_block(block, None)]) == expected
        assert all(np.shares_memory(part.data, cut[0].data) for part in cut)


@given(
    st.lists(st.sampled_from([b"\n", b"#\n", b"# #\n", b" \n", b"x", b"\r\n", TYGEM_LINE, b"\0"]), max_size=30),
    st.integers(1, 60),
)
def test_splitting_keeps_every_game_line(pieces: list[bytes], size: int) -> None:
    data = TYGEM_LINE + b"".join(pieces)
    (whole,) = parse_block(as_block([data]), None)
    cut = list(split_block(as_block([data]), size))
    assert rows_of([parsed for block in cut for parsed in parse_block(block, None)]) == rows_of([whole])


def test_only_comments_give_one_row(tmp_path: Path) -> None:
    path = tmp_path / "a.olf"
    path.write_bytes(b"# x\n" * 9_000)
    found = [parsed for block in blocks(path, block_bytes=4096) for parsed in parse_block(block, None)]
    assert [(r.format, r.games.drop.tolist()) for r in found] == [("olf", [DropReason.NO_RECORD])]
    members = [part for block in blocks(path) for part in split_block(block, 100)]
    assert [r.games.drop.tolist() for block in members for r in parse_block(block, None)] == [[DropReason.NO_RECORD]]


@pytest.mark.parametrize("line", [OLF_LINE, TYGEM_LINE])
@pytest.mark.parametrize("size", [1000, LINE_LIMIT, 3 * LINE_LIMIT])
@pytest.mark.parametrize("length", [LINE_LIMIT - 10, LINE_LIMIT + 1, 5 * LINE_LIMIT])
def test_too_long_line_is_dropped_alone(tmp_path: Path, line: bytes, size: int, length: int) -> None:
    path = tmp_path / "lines"
    path.write_bytes(line * 3 + b"x" * length + b"\n" + line * 3)
    found = list(blocks(path, block_bytes=size))
    assert max(len(block.data) for block in found) <= max(size, LINE_LIMIT + 1)
    rows = rows_of([parsed for block in found for parsed in parse_block(block, None)])
    why = DropReason.TOO_LARGE if length > LINE_LIMIT else DropReason.UNREADABLE
    assert [(index, drop) for index, _, drop in rows] == [(0, 0), (1, 0), (2, 0), (3, why), (4, 0), (5, 0), (6, 0)]


def test_lines_before_damage_are_delivered(tmp_path: Path) -> None:
    path = tmp_path / "a.olf.gz"
    lines = b"".join(OLF_LINE.replace(b" a ", b" %d " % random.Random(k).getrandbits(200)) for k in range(9_000))
    path.write_bytes(gzip.compress(lines)[:-1000])
    delivered: list[RecordBlock] = []
    with pytest.raises(SourceError, match="ends too early"):
        delivered.extend(blocks(path, block_bytes=10_000))
    rows = rows_of([parsed for block in delivered for parsed in parse_block(block, None)])
    assert len(rows) > 1000
    assert {drop for _, _, drop in rows} == {0}


def test_large_archive_members_are_split(tmp_path: Path) -> None:
    lines = some_lines(2, OLF_LINE, 2_000)
    with tarfile.open(tmp_path / "in.tar", "w") as archive:
        for name, data in (("a.sgf", SGF_RECORD), ("b.olf", lines), ("c", TYGEM_LINE), ("d.txt", b"?")):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    found = list(read_blocks([tmp_path / "in.tar"], 16 << 10))
    assert len(found) > 4
    per_format = [(parsed.format, parsed.games.member.tolist()[0]) for b in found for parsed in parse_block(b, None)]
    assert per_format[0] == ("sgf", 0)
    assert per_format[-1] == ("tygem", 2)
    assert set(per_format[1:-1]) == {("olf", 1)}
    (whole,) = parse_block(as_block([lines]), None)
    parts = [parsed for block in found for parsed in parse_block(block, None) if parsed.format == "olf"]
    assert rows_of(parts) == rows_of([whole])


def test_line_files_in_a_directory_are_separate_containers(tmp_path: Path) -> None:
    for name, data in {
        "9x9/score/a.olf": OLF_LINE,
        "9x9/score/._a.olf": OLF_LINE,
        "b.OLF.gz": gzip.compress(OLF_LINE),
        "a.sgf": SGF_RECORD,
        "k.index": ROW.encode(),
        "2016-07": TYGEM_LINE,
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    found = containers(tmp_path)
    assert found == [tmp_path, *(tmp_path / name for name in ("2016-07", "9x9/score/a.olf", "b.OLF.gz", "k.index"))]
    formats = [parsed.format for block in read_blocks(found) for parsed in parse_block(block, None)]
    assert formats == ["sgf", "tygem", "olf", "olf"]


def test_games_of_lines_as_sgf(tmp_path: Path) -> None:
    (tmp_path / "a.olf").write_bytes(
        b"1996-03-12 J\xc3\xb6_B 32.0 w 0 9:9 2.5 -999.9 5.5 h-2 CCttGGtteeDD\n" + b"damaged\n"
    )
    (tmp_path / "Kifu.index").write_text(ROW)
    (tmp_path / "2016-01").write_bytes(b"842008471\t;B[pd];W[]\n7\t;B[aa]\n")
    olf, damaged, indexed, unindexed = kifu.read([tmp_path / "a.olf", tmp_path / "2016-01", tmp_path / "Kifu.index"])
    assert str(olf) == "Jö B [1d*] - w, W+R, 2 moves, 9 x 9, handicap 2, komi 5.5, 1996-03-12"
    assert (olf.text("TM"), olf.handicap, olf.setup.tolist(), olf.source) == (
        "150", 2, [20, 60], str(tmp_path / "a.olf"),
    )  # fmt: skip
    assert (damaged.drop, damaged.record, damaged.players) == (DropReason.UNREADABLE, b"", ("", ""))
    assert str(indexed) == "黑(P) - 白, W+R, 2 moves, 19 x 19, 2016-01-01"
    assert (indexed.text("TM"), indexed.text("OT")) == ("300", "3x30 byo-yomi")
    assert (unindexed.properties.keys(), unindexed.moves.tolist()) == ({"FF", "GM", "CA", "SZ"}, [0])
    for game in (olf, indexed, unindexed):
        assert kifu.read_sgf(kifu.write_sgf(game)) == game


def test_names_that_are_not_utf8_are_detected(tmp_path: Path) -> None:
    (tmp_path / "a.olf").write_bytes("1996-03-12 武宮正樹 0 小林光一 0 9:9 0 5 0 h-0 CC".encode("euc_jp"))
    (game,) = kifu.read(tmp_path / "a.olf")
    assert game.players == ("武宮正樹", "小林光一")


def test_commands_accept_line_files(tmp_path: Path) -> None:
    (tmp_path / "a.olf").write_bytes(OLF_LINE * 3 + b"damaged\n")
    (tmp_path / "2016-07").write_bytes(TYGEM_LINE)
    inspected = run("show", tmp_path / "a.olf")
    assert (inspected.code, inspected.err) == (0, [])
    assert inspected.out.splitlines()[0] == f"{tmp_path}/a.olf: 4 games = 3 kept + 1 unreadable"
    shown = run("show", tmp_path / "2016-07", "--move", "2")
    assert shown.code == 0
    assert "after 2 of 5 moves; next: Black Q3" in shown.out
    assert run("show", tmp_path / "2016-07").out.endswith("after all 5 moves\n")


BOUNDED = r"""
import re, sys
from pathlib import Path
from kifu.records.parse import summarize
found = summarize(sys.argv[1])
# The peak that getrusage reports includes that of the parent process.
peak = int(re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[1])
print(found.read, found.kept, found.moves, peak // 1024)
"""


@pytest.mark.subprocess
@pytest.mark.slow
@pytest.mark.parametrize("packed", [False, True])
def test_memory_does_not_grow_with_a_line_file(tmp_path: Path, packed: bool) -> None:
    """Read 300 MB of OLF, a million games of 120 moves, in a file or as an archive member (limit 256 MiB)."""
    points = [f"{x}{y}" for y in "abcdefghijklmnopqrs" for x in "abcdefghijklmnopqrs"][:120]
    moves = "".join(p.upper() if ply % 2 == 0 else p for ply, p in enumerate(points))
    line = OLF_LINE.replace(b"PDdp", moves.encode())
    games = (250 << 20 if packed else 300 << 20) // len(line)
    path = tmp_path / ("a.zip" if packed else "a.olf")
    if packed:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            archive.writestr("a.olf", line * games)
    else:
        with path.open("wb") as file:
            for _ in range(games // 1000):
                file.write(line * 1000)
        games -= games % 1000
    (tmp_path / "small.olf").write_bytes(line)
    for source in (tmp_path / "small.olf", path):  # the first one compiles the kernels, which takes memory too
        done = subprocess.run([sys.executable, "-c", BOUNDED, source], check=True, capture_output=True, text=True)
    read, kept, plies, peak = map(int, done.stdout.split())
    assert (read, kept, plies) == (games, games, 120 * games)
    assert peak < (500 if packed else 400)
