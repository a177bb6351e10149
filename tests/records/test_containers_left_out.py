"""Every route counts what is not read of every kind of container, by kind, compared with plain Python."""

import gzip
import json
import logging
import re
import tarfile
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kifu
import serializing
from commands import run
from kgs_archives import put, tarred, zipped
from kifu.convert import convert
from kifu.corpus import sources as corpus_sources
from kifu.corpus.catalogue import open_catalogue
from kifu.corpus.cleaning import load_cleaning_rules
from kifu.corpus.ingest import ingest
from kifu.corpus.sources import ShardReader, archive_shards, find_sources, hash_sources
from kifu.corpus.update import append
from kifu.errors import SourceError
from kifu.execution.executor import Executor
from kifu.point import POINT_MASK, WHITE_BIT
from kifu.recipes.pipeline import BuildOptions, ingest_sources
from kifu.records import _zip
from kifu.records.containers import blocks, find_containers, split_blocks
from kifu.records.detect import count_kinds, is_record_name
from kifu.records.games import LeftOut
from kifu.records.parse import summarize
from record_samples import OLF_LINE, SGF, TYGEM_LINE

OGS = b'{"game_id": 1, "width": 9, "height": 9, "players": {"moves": 1}, "moves": [[2, 2, 100]]}'
RECORDS = [
    SGF, b"\xef\xbb\xbf" + SGF, b"Subject: our game\n\n" + SGF, SGF + b"\n" + SGF + b"\n", b"( ; B [aa])",
    b"(GM[1]SZ[9];B[aa])", b"(;;B[aa])", OLF_LINE, TYGEM_LINE,
]  # fmt: skip
OTHERS = [
    b"",
    b"\n\n",
    b"(c) 1996; all rights reserved",
    b"; settings\n[core]\nx = 1\n",
    b"Hello (; nice to see you",
    b"[Settings]\nkey=value\n",
    b"2024-01-05 fixed a mistake\n",
    b"\\documentclass{article}",
    b'{"name": "package", "moves": 3, "list": {"moves": []}}',
    b'{"read": 12, "kept": 10, "value": "moves", "gamedata": null}',
    b'{"a": "\\"moves\\": [1]"}\n{"b": {"gamedata": {}}}\n',
    b"[]",
    b"\0\1\2\3",
]
STEMS = ["a", "b", "UPPER", "two.dots", "dir/c", "dir/sub/d", "._mac", "__MACOSX/e", "x.y/f", ".hidden"]
SUFFIXES = [
    ".sgf", ".SGF", ".sgfs", ".olf", ".txt", ".TXT", ".json", ".jsonl", "", ".pdf", ".PDF", ".zip", ".tar.gz", ".rar",
    ".exe", ".1", ".", ".a b", ".sgf.gz", ".txt.gz", ".log.xz", ".verylongextension", ".sgfx", ".index.old",
]  # fmt: skip
CERTAIN, DOUBTFUL = (".sgf", ".sgfs", ".olf"), (".txt", ".json", ".jsonl", "")


def naive_kind(name: str) -> str:
    base = name.lower().rpartition("/")[2]
    if base.startswith("._") or "__MACOSX" in name.split("/"):
        return "AppleDouble"
    pieces = base.split(".")
    kind = ""
    for piece in pieces[:0:-1]:
        if not re.fullmatch(r"[a-z0-9_+-]{1,12}", piece):
            break
        kind = f".{piece}{kind}"
        if kind not in (".gz", ".bz2", ".xz"):
            break
    stem = base[: len(base) - len(kind)]
    if kind and not stem:  # a hidden file
        kind = kind[kind.index(".", 1) :] if kind.count(".") > 1 else ""
    return kind or "without an extension"


def naive_is_read(name: str, data: bytes) -> bool:
    """Return whether a member is a record: by its name, and if that is doubtful, by its content."""
    base = name.lower().rpartition("/")[2]
    if naive_kind(name) == "AppleDouble":
        return False
    extension = "." + base.rpartition(".")[2] if "." in base else ""
    return extension in CERTAIN or (extension in DOUBTFUL and (data in RECORDS or data == OGS))


members = st.dictionaries(
    st.tuples(st.sampled_from(STEMS), st.sampled_from(SUFFIXES)).map("".join),
    st.sampled_from(RECORDS + OTHERS + [OGS]),
    max_size=12,
)


def expected(files: dict[str, bytes]) -> tuple[list[str], Counter[str]]:
    """Return the names of the members that are read, in order, and the counts of the others."""
    names = [name for name, data in files.items() if naive_is_read(name, data)]
    return names, Counter(naive_kind(name) for name in files if name not in names)


def with_folder(files: dict[str, bytes]) -> dict[str, bytes]:
    return {"folder/": b"", **files}


def folder(path: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        put(path / name, gzip.compress(data) if name.endswith(".gz") else data)
    return path


def read_members(path: Path, block_bytes: int) -> tuple[list[str], Counter[str]]:
    names, left_out = list[str](), Counter[str]()
    for block in blocks(path, block_bytes=block_bytes):
        names += [block.name(k) for k in range(len(block))]
        left_out += block.left_out
    return names, left_out


@given(files=members, rows_at_once=st.integers(1, 5), block_bytes=st.sampled_from([1, 300, 4 << 20]))
def test_members_are_read_or_counted(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes], rows_at_once: int, block_bytes: int
) -> None:
    path = tmp_path_factory.mktemp("left_out")
    with mock.patch.multiple(_zip, _ROWS_AT_ONCE=rows_at_once, _OTHERS_AT_ONCE=32 * rows_at_once):
        assert read_members(zipped(path / "a.zip", with_folder(files)), block_bytes) == expected(files)
        some = list(blocks(path / "a.zip", block_bytes=block_bytes))
        for first in range(len(some)):
            rest = list(blocks(path / "a.zip", block_bytes=block_bytes, first=first))
            assert [block.left_out for block in rest] == [block.left_out for block in some[first:]]
    assert read_members(tarred(path / "a.tar", with_folder(files)), block_bytes) == expected(files)


@given(files=members)
def test_files_of_a_folder_are_read_or_counted(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes]
) -> None:
    files = {name: data for name, data in files.items() if not name.endswith((".zip", ".tar.gz", ".xz"))}
    path = folder(tmp_path_factory.mktemp("left_out") / "tree", files | {"zz.sgf": SGF})
    plain = {name: name.removesuffix(".gz") for name in files}
    names = [*sorted(name for name in files if naive_is_read(plain[name], files[name])), "zz.sgf"]
    found = find_containers(path)
    left_out = Counter(found.left_out)
    read = list[str]()
    for container in found.paths:
        some, counts = read_members(container, 4 << 20)
        read += some if container == path else [str(container.relative_to(path))]
        left_out += counts
    assert sorted(read) == sorted(names)
    assert left_out == Counter(naive_kind(name) for name in files if name not in names)


@given(files=members)
def test_python_and_compiled_names_agree(files: dict[str, bytes]) -> None:
    """The functions that other containers use have the rules of the compiled ones."""
    names = [name.encode() for name in files if naive_is_read(name, SGF)]
    assert [name for name in (name.encode() for name in files) if is_record_name(name)] == names
    others = [name for name in files if name.encode() not in names]
    assert count_kinds(name.encode() for name in others) == Counter(map(naive_kind, others))


def test_links_and_devices_are_counted(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.DIRTYPE):
            info = tarfile.TarInfo("a.sgf")
            info.type, info.linkname = kind, "b.sgf"
            tar.addfile(info)
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        link = zipfile.ZipInfo("a.sgf")
        link.create_system, link.external_attr = 3, 0o120777 << 16
        archive.writestr(link, "b.sgf")
        archive.writestr("Kifu.index", "")  # read as an index
    assert read_members(tmp_path / "a.tar", 4 << 20) == ([], Counter({"link": 2, "special": 2}))
    assert read_members(tmp_path / "a.zip", 4 << 20) == ([], Counter({"link": 1}))


FILES = {
    "a.sgf": SGF, "b.txt": SGF.replace(b"pd", b"dd"), "c": SGF.replace(b"pd", b"qq"), "readme.txt": b"see (; below",
    "run.json": b'{"moves": 1}', "LICENSE": b"(c)", "book.pdf": b"%PDF", "more.zip": b"PK\3\4", "__MACOSX/._a.sgf": SGF,
}  # fmt: skip
LEFT = Counter({".txt": 1, ".json": 1, "without an extension": 1, ".pdf": 1, ".zip": 1, "AppleDouble": 1})
UNREADABLE = {"a.pdf": b"", "b.pdf": b"", "package.json": b"{}"}
PACKED = with_folder(FILES)
IN_FOLDER = {name: data for name, data in FILES.items() if name != "more.zip"}


def archives_in_a_folder(at: Path) -> Path:
    zipped(at / "a/in/a.zip", PACKED)
    return tarred(folder(at / "a", IN_FOLDER) / "b.tgz", PACKED).parent


MADE: dict[str, tuple[Callable[[Path], Path], int, Counter[str]]] = {
    "zip": (lambda at: zipped(at / "a.zip", PACKED), 3, LEFT),
    "tar": (lambda at: tarred(at / "a.tar", PACKED), 3, LEFT),
    "tar.gz": (lambda at: tarred(at / "a.tar.gz", PACKED), 3, LEFT),
    "folder": (lambda at: folder(at / "a", IN_FOLDER), 3, LEFT - Counter({".zip": 1})),
    "archives in a folder": (archives_in_a_folder, 9, LEFT + LEFT + LEFT - Counter({".zip": 1})),
    "only unreadable members": (lambda at: zipped(at / "a.zip", UNREADABLE), 0, Counter({".pdf": 2, ".json": 1})),
    "an archive without records in a folder": (
        lambda at: zipped(folder(at / "a", {"a.sgf": SGF}) / "b.zip", UNREADABLE).parent,
        1,
        Counter({".pdf": 2, ".json": 1}),
    ),
    "only unreadable files": (lambda at: folder(at / "a", UNREADABLE), 0, Counter({".pdf": 2, ".json": 1})),
    "an empty archive": (lambda at: zipped(at / "a.zip", {}), 0, Counter()),
}


@pytest.mark.parametrize("name", MADE)
def test_every_route_reports_the_same_counts(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, games, left_out = MADE[name]
    source = make(tmp_path / "in")
    caplog.set_level(logging.INFO)
    assert len(list(kifu.read(source))) == games
    messages = caplog.messages
    assert len(messages) == bool(left_out) + (name == "an archive without records in a folder")
    line = f"{source}: {'' if games else 'no game records; '}left out: {left_out.total()} files ("
    assert not left_out or any(message.startswith(line) for message in messages)
    assert (".zip" in left_out) == any(" .zip" in message for message in messages)

    serializing.install(monkeypatch)
    small = mock.patch.multiple(corpus_sources, _SMALL_BYTES=0, _SHARD_BLOCKS=1, _LOOSE_RECORDS=2)
    made = []
    for jobs, engine in ((1, "threads"), (3, "threads"), (2, serializing.ENGINE)):
        out = tmp_path / f"out{jobs}.parquet"
        with small, mock.patch.multiple(_zip, _ROWS_AT_ONCE=2, _OTHERS_AT_ONCE=64):
            report = ingest(source, out, jobs=jobs, engine=engine)
        assert (report.read, report.left_out) == (games, left_out)
        made.append(out.read_bytes())
    assert made[0] == made[1] == made[2]
    infos = open_catalogue(out).metadata["sources"]
    assert sum((Counter(info.get("left_out", {})) for info in infos), Counter()) == left_out

    for jobs, engine in ((1, "threads"), (2, serializing.ENGINE)):
        corpus = tmp_path / f"corpus{jobs}"
        appended = append(source, corpus, jobs=jobs, engine=engine)
        assert (appended.read, appended.left_out) == (games, left_out)
        infos = json.loads((corpus / "catalogue.json").read_text())["sources"]
        assert sum((Counter(info.get("left_out", {})) for info in infos), Counter()) == left_out
        assert open_catalogue(corpus).metadata["sources"] == infos
        caplog.clear()
        again = append(source, corpus, jobs=jobs, engine=engine)
        assert again.read == 0
        assert not any("no game records" in message for message in caplog.messages if games)

    converted = convert(source, tmp_path / "games.sgf", jobs=2)
    assert (converted.read, converted.left_out) == (games, left_out)
    summary = summarize(source)
    assert (summary.read, summary.left_out) == (games, left_out)


def test_catalogues_are_used_again_although_files_are_left_out(tmp_path: Path) -> None:
    source, rules = zipped(tmp_path / "a.zip", PACKED), load_cleaning_rules("legal")
    options = BuildOptions(Executor(1))
    hashed = hash_sources(find_sources(source), options.executor)
    ingest_sources(hashed, tmp_path / "a.parquet", rules, options)
    with mock.patch("kifu.corpus.ingest.CatalogueWriter", side_effect=AssertionError):
        assert ingest_sources(hashed, tmp_path / "a.parquet", rules, options).rows == 3


def test_commands_print_the_line(tmp_path: Path) -> None:
    source = zipped(tmp_path / "a.zip", PACKED)
    line = f"kifu: {source}: left out: 6 files ("
    for command in (["ingest", source, "-o", tmp_path / "a.parquet"], ["convert", source, "-o", tmp_path / "a.sgf"]):
        done = run(*command)
        assert done.code == 0
        assert [each for each in done.err if "left out" in each and each.startswith(line)]
    assert run("show", source).err[-1].startswith(line)
    assert "\n  left out    6 files (" in run("show", source).out
    assert "\n  left out    6 files (" in run("show", tmp_path / "a.parquet").out


@pytest.mark.parametrize("suffix", [".zip", ".tar"])
def test_shards_count_each_member_once(tmp_path: Path, suffix: str) -> None:
    files = {f"{k}.{('sgf', 'pdf', 'txt', 'doc')[k % 4]}": SGF if k % 4 == 0 else b"x" * k for k in range(400)}
    path = (zipped if suffix == ".zip" else tarred)(tmp_path / f"a{suffix}", files)
    wanted = Counter({".pdf": 100, ".txt": 100, ".doc": 100})
    for block_bytes in (600, 5_000):
        with mock.patch.multiple(_zip, _ROWS_AT_ONCE=7):
            whole = list(split_blocks(blocks(path, block_bytes=block_bytes), block_bytes))
        assert sum((block.left_out for block in whole), Counter()) == wanted
        assert all(not block.left_out or not len(block) for block in whole)
        assert sum(map(len, whole)) == 100
    with (
        mock.patch.multiple(corpus_sources, _SMALL_BYTES=0, _SHARD_BLOCKS=1),
        mock.patch.object(_zip, "_ROWS_AT_ONCE", 9),
    ):
        shards = list(archive_shards(path))
        assert len(shards) > 5 or suffix == ".tar"
        counts = [block.left_out for shard in shards for block in ShardReader().read(shard)]
    assert sum(counts, Counter()) == wanted


def test_kinds_are_bounded() -> None:
    left_out = LeftOut()
    for k in range(1_000):
        left_out.add("a.zip", 1, {f".{k}": 2})
    left_out.add("a.zip", 1, {".7": 1})
    assert len(left_out.total()) == 101
    assert left_out.total()["other kinds"] == 2 * 900
    assert left_out.total()[".7"] == 3
    assert left_out.total().total() == 2_001


def moves_of(game: kifu.Game) -> list[str]:
    points = (int(move) & POINT_MASK for move in game.moves)
    width, passes = game.width, game.width * game.height
    names = ["pass" if at == passes else f"{chr(97 + at % width)}{chr(97 + at // width)}" for at in points]
    return [f"{'W' if move & WHITE_BIT else 'B'} {name}" for move, name in zip(game.moves.tolist(), names)]


def test_archives_as_published_match_their_references(shared: Path, tmp_path: Path) -> None:
    """Professional is a .zip with a .txt of one SGF a line; KataGo publishes its .sgfs in daily .tar.bz2."""
    formats, references = shared / "data/formats", shared / "reference/formats"
    if not references.is_dir():
        pytest.skip(f"{references} is missing")
    daily = tmp_path / "2023-01-05sgfs.tar.bz2"
    with tarfile.open(daily, "w:bz2") as tar:
        tar.add(formats / "katago-sgfs/runOutputTests.sgfs", "2023-01-05/4A0C.sgfs")
        tar.add(formats / "professional/made-pro2000+.zip", "2023-01-05/nested.zip")
    for name, source in (("katago-sgfs", daily), ("professional", formats / "professional")):
        listed = json.loads((references / f"{name}.json").read_text("utf-8"))["files"]
        report = ingest(source, tmp_path / "a.parquet", overwrite=True)
        assert report.read == report.kept == len(listed) > 3
        assert report.left_out == ({".zip": 1} if name == "katago-sgfs" else {})
        rows = open_catalogue(tmp_path / "a.parquet").games()
        for game, row, wanted in zip(kifu.read(source), rows, listed, strict=True):
            assert moves_of(game) == moves_of(row) == wanted["moves"]
            assert game.players == (wanted["black"], wanted["white"])
            assert game.text("RE") == (wanted["result"] or "")
            assert game.text("GN") == wanted.get("game_name", "")
            assert game.text("DT") == ""  # a title may hold any date


UNREADABLE_FILES: dict[str, tuple[Callable[[Path], object], int]] = {
    "cut.tar.gz": (lambda at: at.write_bytes(tarred(at, {f"{k}.sgf": SGF for k in range(2000)}).read_bytes()[:-99]), 1),
    "cut.tar": (lambda at: at.write_bytes(tarred(at, {"a.sgf": SGF, "b.sgf": SGF}).read_bytes()[:1200]), 1),
    "cut.zip": (lambda at: at.write_bytes(zipped(at, {"a.sgf": SGF}).read_bytes()[:-9]), 0),
    "cut.7z": (lambda at: at.write_bytes(b"7z\xbc\xaf\x27\x1c" + bytes(40)), 0),
    "cut.olf.gz": (lambda at: at.write_bytes(gzip.compress(OLF_LINE)[:-9]), 1),
    "noise.tgz": (lambda at: at.write_bytes(bytes(range(1, 256)) * 9), 0),
    "empty.zip": (Path.touch, 0),
    "volume.7z.001": (lambda at: at.symlink_to("/proc/self/mem"), 0),
}


@pytest.mark.parametrize("name", UNREADABLE_FILES)
def test_an_unreadable_archive_costs_only_itself(tmp_path: Path, name: str) -> None:
    good = zipped(tmp_path / "in/good.zip", {"z.sgf": SGF.replace(b"pd", b"qq")})
    make, least = UNREADABLE_FILES[name]
    bad = good.with_name(name)
    make(bad)
    source, written = good.parent, []
    for jobs in (1, 3):
        report = ingest(source, tmp_path / f"{jobs}.parquet", clean="schraudolph", jobs=jobs)
        (kind,) = report.left_out
        assert kind.startswith(f"{bad}: unreadable: ")
        assert kind in str(report)
        assert report.read >= 1 + least
        written.append((tmp_path / f"{jobs}.parquet").read_bytes())
    assert written[0] == written[1]
    assert append(source, tmp_path / "corpus").left_out == convert(source, tmp_path / "a.sgf").left_out == {kind: 1}
    assert len(list(kifu.read(source))) == report.read
    done = run("ingest", source, "-o", tmp_path / "strict.parquet", "--strict")
    assert (done.code, (tmp_path / "strict.parquet").exists()) == (2, False)
    assert done.err[-1].startswith(f"kifu: {bad}: ")
    if not least:
        with pytest.raises(SourceError, match=name):
            ingest(bad, tmp_path / "alone.parquet")
        with pytest.raises(SourceError, match=name):
            list(kifu.read(bad))
