"""Estimates from a sample, compared with real runs, for all kinds of sources."""

from __future__ import annotations

import io
import json
import random
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from commands import run
from kgs_archives import archive, record
from kifu import estimate as estimating
from kifu.convert import convert
from kifu.corpus.cleaning import load_cleaning_rules
from kifu.corpus.ingest import IngestReport, ingest
from kifu.corpus.sources import find_sources
from kifu.errors import RecipeError, SourceError
from kifu.estimate import Estimate, Range, SamplePart, draw_sample, estimate, standard_error
from kifu.execution.range_sort import RangeFile, write_ranges
from kifu.recipes import example_jobs, examples
from kifu.recipes.examples import build_examples
from kifu.recipes.pipeline import build
from kifu.recipes.schema import load_recipe
from kifu.records import _remote, sample
from kifu.records.containers import blocks
from kifu.records.parse import parse_block
from kifu.records.paths import as_path
from kifu.records.sample import read_sample
from web_store import web_store

ROOM = 24 << 10
"""Size of the sample in bytes: a fraction of the sources."""

THIRD = 1 / 3


def games(count: int, seed: int = 0) -> list[bytes]:
    """Return records of 40 to 160 moves; one in 20 ends with an illegal move."""
    draw = random.Random(seed)
    found = [record(f"{seed}-{k}", draw.randint(40, 160)).replace(b"SZ[19]", b"SZ[19]RE[B+R]") for k in range(count)]
    return [each[:-1] + b";B[aa];W[aa])" if k % 20 == 0 else each for k, each in enumerate(found)]


def tar(folder: Path, count: int = 900) -> Path:
    return archive(folder, games(count))


def zipped(folder: Path, count: int = 900) -> Path:
    return archive(folder, games(count), kind="zip")


def bzip(folder: Path) -> Path:
    return archive(folder, games(900), kind="tar.bz2")


def lines(folder: Path) -> Path:
    path = folder / "games.olf.gz"
    convert(tar(folder), path)
    return path


def one_file_in_zip(folder: Path) -> Path:
    convert(tar(folder), folder / "games.olf")
    with zipfile.ZipFile(folder / "lines.zip", "w", zipfile.ZIP_DEFLATED) as file:
        file.write(folder / "games.olf", "games.olf")
    return folder / "lines.zip"


def collection(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "all.sgf"
    path.write_bytes(b"\n".join(games(900)))
    return path


def loose(folder: Path) -> Path:
    path = folder / "loose"
    path.mkdir(parents=True)
    for k, game in enumerate(games(900)):
        path.joinpath(f"{k}.sgf").write_bytes(game)
    return path


def catalogue(folder: Path) -> Path:
    ingest(tar(folder), folder / "games.parquet")
    return folder / "games.parquet"


def parts(folder: Path) -> Path:
    assert run("ingest", several(folder), "-o", folder / "games").code == 0
    return folder / "games"


def several(folder: Path) -> Path:
    """Write 30 archives of two formats and of different sizes into one directory."""
    for k in range(30):
        archive(folder / "many", games(20 + 2 * k, seed=k), year=2000 + k, kind=("tar.gz", "zip")[k % 2])
    return folder / "many"


SOURCES = [
    catalogue,
    several,
    *(
        pytest.param(kind, marks=pytest.mark.slow)
        for kind in (tar, zipped, bzip, lines, one_file_in_zip, collection, loose)
    ),
]


LOOSE = list(enumerate(games(400)))


def near(value: float, truth: float) -> bool:
    return abs(value - truth) <= THIRD * truth


def check_counts(result: Estimate, truth: IngestReport) -> None:
    """Check that counts and the size of the catalogue are within a third of the real ones."""
    assert near(result.games.value, truth.read), (result.games, truth.read)
    assert near(result.kept.value, truth.kept), (result.kept, truth.kept)
    assert near(result.positions.value, truth.moves), (result.positions, truth.moves)
    assert near(result.steps[0].disk.value, truth.bytes), (result.steps[0].disk, truth.bytes)
    for each in (result.games, result.kept, result.positions, result.steps[0].seconds, result.steps[0].disk):
        assert 0 < each.low <= each.value <= each.high
    assert result.steps[0].memory > 100_000_000


@pytest.mark.parametrize("kind", SOURCES)
def test_estimates_of_an_ingest(kind: Callable[[Path], Path], tmp_path: Path) -> None:
    source = kind(tmp_path)
    result = estimate(source, jobs=1, sample_bytes=ROOM)
    truth = ingest(source, tmp_path / "new.parquet")
    assert result.sampled_games < truth.read or kind in (bzip, one_file_in_zip)  # of which less cannot be read
    check_counts(result, truth)


@pytest.mark.parametrize("kind", SOURCES)
def test_a_source_sampled_whole_is_exact(kind: Callable[[Path], Path], tmp_path: Path) -> None:
    source = kind(tmp_path)
    result = estimate(source, jobs=1)
    truth = ingest(source, tmp_path / "new.parquet")
    for found, count in ((result.games, truth.read), (result.kept, truth.kept), (result.positions, truth.moves)):
        assert found == Range(count, count, count)
    assert abs(result.steps[0].disk.value - truth.bytes) < 0.1 * truth.bytes


def test_cleaning_rules(tmp_path: Path) -> None:
    source, rules = several(tmp_path), load_cleaning_rules("legal", ["min_moves=100", 'duplicates="games"'])
    result = estimate(source, clean=rules, jobs=1, sample_bytes=ROOM)
    truth = ingest(source, tmp_path / "new.parquet", clean=rules)
    assert 0.2 < truth.kept / truth.read < 0.8
    check_counts(result, truth)
    step = result.steps[0]
    assert step.temporary == round(step.disk.value)  # the games wait in a file until all have been seen


@pytest.mark.parametrize("order", [pytest.param("corpus", marks=pytest.mark.slow), "shuffled"])
@pytest.mark.parametrize("kind", [several, catalogue])
def test_estimates_of_a_build(kind: Callable[[Path], Path], order: str, tmp_path: Path) -> None:
    source = kind(tmp_path)
    recipe = load_recipe("book-seven", ['format="npy"', f'order="{order}"', "positions={per_game=10}"])
    result = estimate(source, recipe, jobs=1, sample_bytes=ROOM)
    built = build_examples(recipe, [source], tmp_path / "built")
    assert [each.name for each in result.sets] == [each.path.name for each in built]
    for each, truth in zip(result.sets, built):
        assert near(each.examples.value, truth.manifest.examples) or each.name != "train"
        assert near(each.bytes.value, sum(file.bytes for file in truth.manifest.files)) or each.name != "train"
    total = sum(each.examples.value for each in result.sets)
    assert near(total, sum(each.manifest.examples for each in built))
    assert len(result.steps) == 1 + (kind is several)  # a catalogue is taken as it is


def test_temporary_disk_space_of_a_shuffle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Examples that do not fit into one window wait on disk."""
    waited: list[int] = []

    def watched(folder: Path, *arguments: Any) -> RangeFile:
        file = write_ranges(folder, *arguments)
        waited.append((folder / file.name).stat().st_size)
        return file

    monkeypatch.setattr(example_jobs, "write_ranges", watched)
    for module in (examples, estimating):
        monkeypatch.setattr(module, "WINDOW_BYTES", 1 << 20)
    source = several(tmp_path)
    recipe = load_recipe("book-seven", ['format="npy"', 'order="shuffled"', "positions={per_game=10}"])
    result = estimate(source, recipe, jobs=1, sample_bytes=ROOM)
    waited.clear()
    build_examples(recipe, [source], tmp_path / "built", sets=["train"])
    assert waited
    assert near(result.steps[1].temporary, sum(waited))
    few = load_recipe("book-seven", ['format="npy"', 'order="shuffled"', "positions={per_game=1}"])
    assert estimate(source, few, jobs=1, sample_bytes=ROOM).steps[1].temporary == 0


def test_estimates_of_a_kgsgo_build(tmp_path: Path) -> None:
    folder = tmp_path / "kgs"
    for year in (2001, 2002, 2003):
        archive(folder, games(600, seed=year), year=year)
    recipe = load_recipe("kgsgo-v2", ["sets.train10k.games=200", "sets.test.games=20"])
    result = estimate(folder, recipe, jobs=1, sample_bytes=ROOM)
    built = build(recipe, [folder], tmp_path / "built")
    assert result.sampled_games < 1800
    assert result.games == Range(1800, 1800, 1800)  # as the archives' names say
    for each, truth in zip(result.sets, built, strict=True):
        assert near(each.examples.value, truth.manifest.examples)
        assert near(each.bytes.value, truth.manifest.bytes)


def test_estimates_of_an_olf_archive(tmp_path: Path) -> None:
    source, recipe = tar(tmp_path, 300), load_recipe("olf-archive")
    result = estimate(source, recipe, jobs=1)
    assert result.sets[0].examples.value == result.kept.value
    assert [step.name for step in result.steps] == ["ingest", "build olf-archive"]


def test_the_real_archives(shared: Path, tmp_path: Path) -> None:
    months = sorted((shared / "data" / "kgs").glob("KGS-2016_*.tar.gz"))
    result = estimate(months, jobs=1, sample_bytes=600_000)
    truth = ingest(months, tmp_path / "new.parquet")
    assert result.sampled_games < truth.read / 3
    check_counts(result, truth)


def test_a_partitioned_catalogue(tmp_path: Path) -> None:
    result = estimate(parts(tmp_path), load_recipe("book-seven", ["positions={per_game=1}"]), jobs=1, sample_bytes=ROOM)
    whole = sum(20 + 2 * k for k in range(30))
    assert result.games == Range(whole, whole, whole)
    assert result.sampled_games <= whole
    assert [step.name for step in result.steps] == ["build book-seven"]


def test_archives_at_urls(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    path = tar(tmp_path)
    fsspec.filesystem("memory").pipe(f"/plan/{path.name}", path.read_bytes())
    here, there = (estimate(source, jobs=1, sample_bytes=ROOM) for source in (path, "memory://plan"))
    assert (there.games, there.kept, there.positions) == (here.games, here.kept, here.positions)


def test_invalid_arguments(tmp_path: Path) -> None:
    source = tar(tmp_path, 20)
    with pytest.raises(RecipeError, match="trains a network"):
        estimate(source, load_recipe("quick-cpu"))
    with pytest.raises(RecipeError, match="has its own cleaning rules"):
        estimate(source, load_recipe("agz17"), clean=load_cleaning_rules("legal"))
    with pytest.raises(SourceError):
        estimate(tmp_path / "nothing.zip")
    with pytest.raises(SourceError, match="named as KGS does"):
        estimate(collection(tmp_path), load_recipe("kgsgo-v2"))


def test_a_damaged_source_fails(tmp_path: Path) -> None:
    whole = tar(tmp_path, 20)
    cut = tmp_path / "cut.tar.gz"
    cut.write_bytes(whole.read_bytes()[:-100])
    with pytest.raises(SourceError, match=r"cut\.tar\.gz"):
        estimate(cut)


def test_the_command(tmp_path: Path) -> None:
    source = tar(tmp_path, 100)
    done = run("estimate", source, "--jobs", 1)
    assert done.code == 0
    assert done.out.startswith("1 source, ")
    assert ": 100 games\nkept: 86 games, " in done.out
    result = json.loads(run("estimate", source, "--recipe", "book-seven", "--json", "-").out)
    assert [step["name"] for step in result["steps"]] == ["ingest", "build book-seven"]
    assert run("estimate", source, "--json", tmp_path / "plan.json", "--set", "min_moves=1000").code == 0
    written = json.loads(tmp_path.joinpath("plan.json").read_text())
    assert written["games"]["value"] == 100
    assert written["kept"]["value"] == 0
    failed = run("estimate", source, "--recipe", "agz17", "--clean", "training")
    assert failed.code == 2
    assert len(failed.err) == 1


# The sample.


@pytest.mark.parametrize("kind", [tar, zipped, lines, one_file_in_zip, collection, loose])
def test_the_share_of_a_records_sample(kind: Callable[[Path], Path], tmp_path: Path) -> None:
    path = kind(tmp_path)

    def count(found) -> int:
        return sum(len(reading.games) for block in found for reading in parse_block(block, None))

    whole = count(blocks(path))
    for room in (8 << 10, 40 << 10, 1 << 30):
        seen = read_sample(path, room)
        assert 0 < seen.share <= 1
        assert near(count(seen.blocks) / seen.share, whole)
    assert seen.share == 1
    assert count(seen.blocks) == whole


@pytest.mark.parametrize("name", ["..%2F..%2Fgames", "g%2F..%2F..%2F..%2Fgames", "%00games", "g" * 300])
def test_no_name_of_a_url_becomes_a_path(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("aiohttp")
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    path = tar(tmp_path)
    with web_store() as web:
        web.files[f"/{name}.tar.gz"] = path.read_bytes()
        seen = read_sample(as_path(f"{web.url}/{name}.tar.gz"), 8 << 10)
    assert 0 < seen.share < 1
    assert sum(map(len, seen.blocks)) > 0
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted([path.name, "temporary"])
    assert not list((tmp_path / "temporary").iterdir())


def behind_a_picture(folder: Path, size: int) -> Path:
    """Write an archive whose first member is not a record and takes `size` bytes of the file."""
    path = folder / "games.tar.gz"
    with tarfile.open(path, "w:gz") as made:
        for name, data in [("map.png", random.Random(1).randbytes(size)), *((f"{k}.sgf", g) for k, g in LOOSE)]:
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            made.addfile(entry, io.BytesIO(data))
    return path


def test_records_behind_another_member(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also at a URL, which is read in pieces."""
    pytest.importorskip("aiohttp")
    monkeypatch.setattr(_remote, "_PAGE_BYTES", 1024)
    monkeypatch.setattr(_remote, "PIECE_BYTES", 4096)
    path = behind_a_picture(tmp_path, 20_000)
    here = read_sample(path, 2000)
    with web_store() as web:
        web.files["/games.tar.gz"] = path.read_bytes()
        there = read_sample(as_path(f"{web.url}/games.tar.gz"), 2000)
    assert here.share == there.share == 32_000 / path.stat().st_size
    assert sum(map(len, here.blocks)) == sum(map(len, there.blocks)) > 0


def test_a_limit_to_the_search_for_a_first_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample, "_MAX_HEAD", 10_000)
    path = behind_a_picture(tmp_path, 20_000)
    with pytest.raises(SourceError, match=r"games\.tar\.gz: no game record in its first 10,000 bytes"):
        read_sample(path, 2000)
    assert read_sample(path, 30_000).blocks


def test_weights_add_up_to_all_sources(tmp_path: Path) -> None:
    found = find_sources(several(tmp_path))
    parts = draw_sample(found, ROOM)
    size = sum(source.path.stat().st_size for source in found)
    assert 16 <= len(parts) <= 24  # 12 of each kind, at most
    assert sum(part.weight * part.size for part in parts) == pytest.approx(size)
    assert all(part.weight >= 1 for part in parts)
    assert {part.kind for part in parts} == {".gz", ".zip"}


def part(kind: str, size: float, weight: float) -> SamplePart:
    return SamplePart(None, kind, [], size, weight, 0.0)  # type: ignore[arg-type]


def test_standard_error() -> None:
    draws = np.random.default_rng(0)
    assert standard_error([part("a", 10, 1), part("a", 20, 1)], np.array([1.0, 9.0])) == 0
    assert standard_error([part("a", 10, 5)], np.array([4.0])) == pytest.approx(0.125 * (4 / 5) ** 0.5)
    counts = draws.normal(100, 20, 400)
    few = standard_error([part("a", 1, 10)] * 25, counts[:25])
    many = standard_error([part("a", 1, 10)] * 400, counts)
    assert many == pytest.approx(few / 4, rel=0.3)
    assert many == pytest.approx(0.2 / 20 * 0.9**0.5, rel=0.2)
    mixed = standard_error([part("a", 1, 10)] * 4 + [part("b", 1, 10)] * 4, np.repeat([1.0, 9.0], 4))
    assert mixed == 0  # kinds may differ from each other


def test_time_of_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last third of what is tried counts for all that follows: three seconds, then one for each further MiB."""
    times = iter([0.0, 0.5, 1.0, 3.0])
    monkeypatch.setattr(estimating, "_DISK_BYTES", 6 << 20)
    monkeypatch.setattr(estimating, "perf_counter", lambda: next(times))
    assert estimating._disk_seconds((12 << 20) - 1, tmp_path) == 0
    assert estimating._disk_seconds(12 << 20, tmp_path) == 3 + 6
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(estimating, "_DISK_BYTES", 1 << 60)
    assert estimating._disk_seconds(1 << 62, tmp_path) == 0


def test_ranges_as_text() -> None:
    assert str(Range.of(1_234_567, 0)) == "1,234,567"
    assert str(Range.of(1_234_567, 0.05)) == "about 1,230,000 (1,110,000 to 1,360,000)"
    assert str(Range.of(87, 0.05)) == "about 87 (78 to 96)"


def test_a_folder_without_records_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("no game")
    done = run("estimate", tmp_path)
    assert done.code == 2
    assert done.err[-1] == f"kifu: {tmp_path.name}: no game records to estimate from"
