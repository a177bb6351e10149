"""Shards of sources: the same games in the same order for any executor and division."""

import bz2
import gzip
import lzma
import pickle
import random
import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

import serializing
from commands import run
from kgs_archives import BROKEN, put, records, tar_of, zipped
from kifu.assets import config_names
from kifu.corpus import ingest as ingesting
from kifu.corpus import sources as corpus_sources
from kifu.corpus.cleaning import load_cleaning_rules
from kifu.corpus.ingest import IngestReport, ingest
from kifu.corpus.sources import (
    ArchiveShard,
    ShardReader,
    archive_shards,
    find_sources,
    source_shards,
)
from kifu.corpus.update import append
from kifu.errors import DropReason, KifuError, SourceError
from kifu.records import _streams
from kifu.records.containers import BLOCK_BYTES, blocks, split_blocks
from kifu.records.containers import read_blocks as shares_of
from kifu.records.games import RecordBlock
from kifu.records.paths import as_path
from marks import slow
from naive_tygem import INDEX
from record_samples import OLF_LINE, TYGEM_LINE

BLOCK = 8 << 10


@pytest.fixture(autouse=True)
def small() -> Iterator[None]:
    """Blocks of 8 KiB, two of them a unit, even of small archives."""
    with (
        mock.patch.dict(blocks.__kwdefaults__ or {}, block_bytes=BLOCK),
        mock.patch.dict(corpus_sources.count_blocks.__kwdefaults__ or {}, block_bytes=BLOCK),
        mock.patch.object(split_blocks, "__defaults__", (BLOCK,)),
        mock.patch.object(_streams, "_CHUNK", 1000),
        mock.patch.object(corpus_sources, "_SMALL_BYTES", 1000),
        mock.patch.object(corpus_sources, "_SHARD_BLOCKS", 2),
    ):
        yield


def noisy(seed: int, count: int) -> list[bytes]:
    rng = random.Random(seed)
    words = (rng.randbytes(rng.randrange(2000)).hex() for _ in range(count))
    return [b"(;GM[1]SZ[9]GC[%s];B[aa];W[bb])" % word.encode() for word in words]


def lines(line: bytes, count: int) -> bytes:
    return b"# one line a game\n" + b"".join(line if k % 7 else b"\n" + line for k in range(count))


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Of each kind of container one that has many blocks, or would if it could be cut."""
    top = tmp_path_factory.mktemp("kinds")
    tar = tar_of(noisy(1, 300))
    folder = top / "folder"
    for k, data in enumerate(noisy(3, 20)):
        put(folder / f"{k}.sgf", data)
    return {
        "tar": put(top / "a.tar", tar),
        "tar.gz": put(top / "a.tar.gz", gzip.compress(tar)),
        "tar.bz2": put(top / "a.tbz", bz2.compress(tar)),
        "tar.xz": put(top / "a.txz", lzma.compress(tar)),
        "zip": zipped(top / "a.zip", {f"{k}.sgf": data for k, data in enumerate(noisy(2, 100))}),
        "folder": folder,
        "olf": put(top / "a.olf", lines(OLF_LINE, 2_000)),
        "olf.gz": put(top / "b.olf.gz", gzip.compress(lines(OLF_LINE, 2_000))),
        "tygem": zipped(top / "2016-07.zip", {"2016-07": lines(TYGEM_LINE, 900), "2016-08": TYGEM_LINE}),
        "sgf": put(top / "many.sgf", b"\n".join(noisy(4, 40))),
    }


KINDS = ("tar", "tar.gz", "tar.bz2", "tar.xz", "zip", "folder", "olf", "olf.gz", "tygem", "sgf")


def content_of(found: Iterator[Any]) -> list[Any]:
    return [
        (
            block.source,
            [(block.name(k), block.data[block.start[k] : block.stop[k]].tobytes()) for k in range(len(block))],
            (block.member.tolist(), block.drop.tolist(), block.first_line, block.kind),
        )
        for block in found
    ]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(2))
def test_shards_are_the_whole_in_order(kinds: dict[str, Path], kind: str, seed: int) -> None:
    """Wherever it is cut; the slices read one after the other from one open archive, or in any order."""
    path, rng = kinds[kind], random.Random(seed)
    whole = content_of(shares_of([path], BLOCK))
    count = sum(1 for _ in blocks(path))
    cuts = [0, *sorted(rng.sample(range(1, count + 3), min(count + 2, 4)))]
    cut = [ArchiveShard(path, first, stop - first) for first, stop in pairwise(cuts)]
    cut.append(ArchiveShard(path, cuts[-1], None))
    one = ShardReader()
    assert [block for unit in cut for block in content_of(one.read(unit))] == whole
    parts = {k: content_of(one.read(cut[k])) for k in rng.sample(range(len(cut)), len(cut))}
    assert [block for k in range(len(cut)) for block in parts[k]] == whole


@pytest.mark.parametrize("kind", KINDS)
def test_consecutive_shards_reuse_the_open_archive(kinds: dict[str, Path], kind: str) -> None:
    path = kinds[kind]
    cut = list(archive_shards(path))
    if kind == "folder":
        assert [(unit.first, len(unit)) for unit in cut] == [(0, 20)]
        assert content_of(ShardReader().read(cut[0])) == content_of(blocks(path, block_bytes=BLOCK_BYTES))
        return
    assert cut[0].first == 0
    assert cut[-1].blocks is None
    assert [(unit.path, unit.first + (unit.blocks or 0)) for unit in cut[:-1]] == [
        (path, after.first) for after in cut[1:]
    ]
    count = sum(1 for _ in blocks(path))
    if kind == "zip":
        assert len(cut) == -(-count // 2) > 8
    elif kind in ("tar", "tar.gz", "olf"):
        assert 4 <= len(cut) <= 8
        sizes = [sum(1 for _ in ShardReader().read(unit)) for unit in cut]
        assert max(sizes) <= 2 * count / len(cut) + 2  # what the guess is for: none has much more to do
    elif kind in ("tygem", "sgf"):  # of the others, which are small, the size says little
        assert len(cut) == 1
    assert [block for unit in cut for block in content_of(ShardReader().read(unit))] == content_of(
        shares_of([path], BLOCK)
    )


@pytest.fixture(scope="module")
def loose(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of 300 records in folders of their own, some compressed, broken or alike."""
    top = tmp_path_factory.mktemp("loose") / "loose"
    some = [*records(140, 1), *BROKEN.values(), *records(20, 1)]
    some += noisy(7, 300 - len(some))
    for k, data in enumerate(some):
        name, data = (f"{k}.sgf", data) if k % 5 else (f"{k}.sgf.gz", gzip.compress(data, mtime=0))
        put(top / str(k % 7) / name, data)
    return top


@pytest.mark.slow
@pytest.mark.parametrize(("where", "into"), [("here", "a.parquet"), *slow(("there", "parts"))])
@pytest.mark.usefixtures("cache")
def test_shards_of_loose_records_give_the_same_catalogue(
    loose: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, into: str
) -> None:
    source, path = loose if where == "here" else f"file://{loose}", tmp_path / "made" / into
    write = ingest if into == "a.parquet" else append

    def made(**engine: Any) -> dict[str, bytes]:
        write(source, path, clean=load_cleaning_rules("legal", ["duplicates=games"]), **engine)
        files = {str(file): file.read_bytes() for file in sorted(path.parent.rglob("*.parquet"))}
        shutil.rmtree(path.parent)
        return files

    (one,) = archive_shards(as_path(source))
    expected = made()
    monkeypatch.setattr(corpus_sources, "_LOOSE_RECORDS", 64)
    cut = list(archive_shards(as_path(source)))
    assert [name for unit in cut for name in unit.names] == one.names
    assert [len(unit) for unit in cut] == [64] * 4 + [44]
    assert made(jobs=2) == expected
    serializing.install(monkeypatch)
    assert made(engine=serializing.ENGINE) == expected
    assert serializing.SerializingExecutor.shards > len(cut)


def test_loose_records_keep_their_numbers_if_others_vanish(
    loose: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record that vanishes is dropped; a new one is ignored."""
    monkeypatch.setattr(corpus_sources, "_LOOSE_RECORDS", 64)
    top = tmp_path / "copy"
    shutil.copytree(loose, top)
    found = pickle.loads(pickle.dumps(list(source_shards(find_sources(top)))))
    (top / "0" / "0.sgf.gz").unlink()
    (top / "0" / "1.sgf").write_bytes(b"(;SZ[9])")
    whole = [block for _, shard in found for block in ShardReader().read(shard)]
    assert np.concatenate([block.member for block in whole]).tolist() == list(range(300))
    assert whole[0].name(0) == "0/0.sgf.gz"
    assert whole[0].drop[0] == DropReason.UNREADABLE
    assert b"0/1.sgf" not in found[0][1].names
    assert len(repr(found[0])) < 300


@pytest.mark.parametrize("kind", ["tar", "tar.gz", "zip"])
def test_damage_is_reported_by_its_shard_or_the_last(kinds: dict[str, Path], tmp_path: Path, kind: str) -> None:
    data = bytearray(kinds[kind].read_bytes())
    if kind == "zip":
        at = data.rfind(b"PK\1\2")
        data[at : at + 4] = b"nope"  # the last entry of its directory
    else:
        del data[len(data) * 2 // 3 :]
    path = put(tmp_path / kinds[kind].name, bytes(data))

    def read(reader: ShardReader | None) -> tuple[list[Any], set[str]]:
        given = [block for unit in archive_shards(path) for block in (reader or ShardReader()).read(unit)]
        return content_of(iter(given)), {kind for block in given for kind in block.left_out}

    expected = {kind for block in shares_of([path], BLOCK) for kind in block.left_out}
    assert read(None) == read(ShardReader())
    assert read(None)[1] == expected
    assert [kind.startswith("unreadable: ") for kind in expected] == [True]
    assert len(read(None)[0]) > 4


def test_unreadable_source_is_one_shard(tmp_path: Path) -> None:
    for path in (tmp_path / "missing.zip", put(tmp_path / "broken.zip", b"PK\3\4" + bytes(5000)), tmp_path):
        assert list(archive_shards(path)) == [ArchiveShard(path, 0, None)]


def test_reader_does_not_continue_after_an_error(kinds: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """A process of a cluster has one reader, and other units to make after one that failed."""
    path, reader = kinds["tar"], ShardReader()
    first, second, *_ = archive_shards(path)

    def lost(found: Iterator[RecordBlock]) -> Iterator[RecordBlock]:
        yield next(found)
        raise SourceError("connection lost")

    with monkeypatch.context() as patched:
        patched.setattr(corpus_sources, "split_blocks", lost)
        with pytest.raises(SourceError):
            list(reader.read(first))
    assert content_of(reader.read(second)) == content_of(ShardReader().read(second)) != []


# Real archives, in blocks of the size that they are always read in


def test_shards_of_real_archives(shared: Path) -> None:
    for name in ("kgs/KGS-2016_01-19-756-.tar.gz", "tygem/2016-07.zip", "wild/fox-pro-680.tar.gz"):
        path = shared / "data" / name
        with mock.patch.dict(blocks.__kwdefaults__ or {}, block_bytes=1 << 18):
            whole = content_of(shares_of([path], 1 << 18))
            cut = [ArchiveShard(path, 0, 1), ArchiveShard(path, 1, 3), ArchiveShard(path, 4, None)]
            with mock.patch.object(split_blocks, "__defaults__", (1 << 18,)):
                assert [block for unit in cut for block in content_of(ShardReader().read(unit))] == whole


# Catalogues


@pytest.fixture(scope="module")
def mix(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    top = tmp_path_factory.mktemp("mix")
    renamed = [data.replace(b"Black", b"Another player") for data in records(5, 2)]
    some = [*records(12, 1), *BROKEN.values(), *records(9, 2), *records(5, 1), *renamed]
    members = {f"{k}.sgf": data for k, data in enumerate(some)}
    unclear = [b"(;SZ[9]RE[not known %d]BR[who %d];B[aa])" % (k, k % 3) for k in range(30)]
    older = top / "older.parquet"
    ingest(zipped(top / "older.zip", {f"{k}.sgf": data for k, data in enumerate(records(8, 3))}), older)
    (top / "older.zip").unlink()
    return [
        put(top / "in" / "a.tar", tar_of(some)),
        zipped(top / "in" / "b.zip", members),
        put(top / "in" / "loose" / "c.sgf", b"\n".join(unclear)).parent,
        put(top / "in" / "d.olf", lines(OLF_LINE, 100)),
        zipped(top / "in" / "2016-07.zip", {"2016-07": TYGEM_LINE * 3}),
        zipped(top / "in" / "Kifu2016.zip", {"Kifu2016.index": INDEX}),
        older,
    ]


@pytest.mark.parametrize("rules", config_names("cleaning"))
def test_serialized_shards_give_the_same_catalogue(
    mix: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rules: str
) -> None:
    path, clean = tmp_path / "a.parquet", load_cleaning_rules(rules)
    made: list[tuple[IngestReport, bytes]] = []
    for jobs in (1, 2, 3):
        made.append((ingest(mix, path, clean=clean, jobs=jobs), path.read_bytes()))
        path.unlink()
    serializing.install(monkeypatch)
    made.append((ingest(mix, path, clean=clean, engine=serializing.ENGINE), path.read_bytes()))
    assert serializing.SerializingExecutor.shards > len(mix)
    assert made.count(made[0]) == 4
    assert made[0][0].unparsed.keys() == {"result_text", "black_rank"}
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("rule", ["fields", "games"])
@pytest.mark.parametrize("most", [1, 5, 20])
def test_spilled_ids_give_the_same_catalogue(
    mix: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: str, most: int
) -> None:
    path, clean = tmp_path / "a.parquet", load_cleaning_rules("legal", [f"duplicates={rule}"])
    expected = ingest(mix, path, clean=clean), path.read_bytes()
    assert expected[0].drops["DUPLICATE"] > 10
    assert (expected[0].drops["SAME_GAME"] > 3) == (rule == "games")
    monkeypatch.setattr(ingesting, "MAX_IDS", most)
    path.unlink()
    assert (ingest(mix, path, clean=clean, jobs=2), path.read_bytes()) == expected
    assert list(tmp_path.iterdir()) == [path]


def test_engine_option(mix: list[Path], tmp_path: Path) -> None:
    done = run("ingest", mix[0], "-o", tmp_path / "a.parquet", "--engine", "horses")
    assert (done.code, done.out) == (2, "")
    assert done.err == ["kifu: unknown engine 'horses'; did you mean 'threads'? available: threads, ray, ray=ADDRESS"]
    done = run("ingest", mix[0], "-o", tmp_path / "a.parquet", "--engine", "threads")
    assert done.code == 0


def test_missing_shard_is_reported(tmp_path: Path) -> None:
    unit = ("a", ArchiveShard(tmp_path / "missing", 0, None))
    with pytest.raises(KifuError, match="missing: No such file"):
        list(ShardReader().items(unit))
