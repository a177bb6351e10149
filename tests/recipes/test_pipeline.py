"""Builds from small archives: the bytes, the manifest, what is made again, and what a bad game or archive costs."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import json
import random
import shutil
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from blake3 import blake3

import kifu
from commands import tree
from kgs_archives import BROKEN, archive, members, record, records
from kifu.corpus import ingest as ingesting
from kifu.corpus import sources, update
from kifu.corpus.ingest import ingest
from kifu.corpus.sources import CHANGED
from kifu.datasets.dat import find_dat_layout
from kifu.datasets.manifest import find_origin, manifest_path, origins_path, read_game_rows, read_manifest
from kifu.errors import OutputError, RecipeError, SourceError
from kifu.progress import silent
from kifu.recipes import kgsgo, olf_archive, pipeline
from kifu.recipes.kgs import Sampler, order_as_page, parse_archive_name
from kifu.recipes.kgsgo import load_archive
from kifu.recipes.pipeline import build
from kifu.recipes.schema import load_recipe
from marks import slow
from naive_kgsgo import examples_of
from slow_writer import SETTINGS

FEW = ("sets.test.games=10", "sets.train10k.games=12")
RECIPES = {version: load_recipe(f"kgsgo-v{version}", FEW) for version in (1, 2)}
SETS = ["test", "train10k", "trainall", "archives"]
GAMES = {2001: records(12, 1), 2002: records(9, 2), 2003: [*records(8, 3), record("no plies", 0), record("all", 361)]}


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder = tmp_path_factory.mktemp("source")
    for year, games in GAMES.items():
        archive(folder, games, year=year)
    return folder


def archives_of(folder):
    return order_as_page(parse_archive_name(path.name) for path in folder.iterdir())


twin = functools.cache(examples_of)


def expected_bytes(version, selections, games=GAMES):
    """The file that the program would have made of the selected games, each through the slow twin."""
    examples = []
    for drawn, numbers in selections.items():
        for number in numbers.tolist():
            examples += [example.data for example in twin(games[drawn.year][number], version)]
    layout = find_dat_layout(RECIPES[version].format)
    return layout.header(len(examples)) + b"".join(examples) + layout.end


def make(source, into, version=2, **options):
    return build(RECIPES[version], [source], into, **({"sets": ["test"], "overwrite": True} | options))


# The bytes


@pytest.mark.slow
@pytest.mark.parametrize("version", [1, 2])
def test_every_set_is_what_the_program_would_make(source, tmp_path, version):
    sampler = Sampler(RECIPES[version], archives_of(source))
    results = build(RECIPES[version], [source], tmp_path, sets=SETS, jobs=1)
    assert [built.path.name for built in results[:3]] == [RECIPES[version].sets[name].file for name in SETS[:3]]
    assert all(built.fresh for built in results)
    for name, built in zip(SETS[:3], results[:3]):
        assert built.path.read_bytes() == expected_bytes(version, sampler.select(name)), name
        assert built.manifest == read_manifest(built.path)
        assert built.manifest.set == name
    for built, (whole, numbers) in zip(results[3:], sampler.select("archives").items(), strict=True):
        assert built.path.name == whole.stem + ("v2.dat" if version == 2 else ".dat")
        assert built.path.read_bytes() == expected_bytes(version, {whole: numbers})
    assert sorted(tree(tmp_path)) == sorted(
        path.name for built in results for path in (built.path, manifest_path(built.path), origins_path(built.path))
    )


@pytest.mark.parametrize(("version", "chunk"), [(1, 1), (2, 30_000), (2, 1 << 20)])
def test_threads_and_chunks_make_no_difference(source, tmp_path, monkeypatch, version, chunk):
    one = tmp_path / "one"
    build(RECIPES[version], [source], one, sets=SETS, jobs=1)
    monkeypatch.setattr(kgsgo, "_CHUNK_BYTES", chunk)
    for jobs in (1, 7):
        build(RECIPES[version], [source], tmp_path / f"{jobs}", sets=SETS, jobs=jobs)
        assert tree(tmp_path / f"{jobs}") == tree(one)


def test_containers_make_no_difference(source, tmp_path):
    make(source, tmp_path / "tar.gz")
    for kind in ("zip", "tar.bz2"):
        for year, games in GAMES.items():
            archive(tmp_path / "source" / kind, games, year=year, kind=kind)
        make(tmp_path / "source" / kind, tmp_path / kind)
        name = RECIPES[2].sets["test"].file
        assert (tmp_path / kind / name).read_bytes() == (tmp_path / "tar.gz" / name).read_bytes()


def test_sources_may_be_files_in_any_order(source, tmp_path):
    make(source, tmp_path / "folder")
    paths = sorted(source.iterdir())
    build(RECIPES[2], paths, tmp_path / "files", sets=["test"])
    build(RECIPES[2], [*paths[::-1], source, paths[0]], tmp_path / "again", sets=["test"])
    assert tree(tmp_path / "folder") == tree(tmp_path / "files") == tree(tmp_path / "again")


def test_of_two_files_of_one_archive_the_first_is_read(source, tmp_path):
    other = archive(tmp_path / "other", records(12, 99), kind="zip")
    chosen = dict([Sampler(RECIPES[2], archives_of(source)).select("archives").popitem()])
    for name, order, games in (("a", [other, source], records(12, 99)), ("b", [source, other], GAMES[2001])):
        built = build(RECIPES[2], order, tmp_path / name, sets=["archives"])[-1]
        assert built.path.read_bytes() == expected_bytes(2, chosen, {2001: games})


def page(folder, years):
    names = {year: f"KGS-{year}-19-{len(games)}-" for year, games in GAMES.items()}
    links = (
        f'<a href="https://example.org/{names[year]}.{kind}">x</a>' for year in years for kind in ("zip", "tar.gz")
    )
    path = folder / "page.html"
    path.write_text("<html>" + "\n".join(links))
    return path


def test_an_index_page_gives_the_order(source, tmp_path):
    make(source, tmp_path / "without")
    make(source, tmp_path / "same", index=page(tmp_path, [2003, 2002, 2001]))
    make(source, tmp_path / "other", index=page(tmp_path, [2001, 2002, 2003]))
    assert tree(tmp_path / "without") == tree(tmp_path / "same") != tree(tmp_path / "other")


def test_an_index_page_gives_the_archives(source, tmp_path):
    """Archives that it does not list are not drawn from; one that it lists must be there."""
    recipe = load_recipe("kgsgo-v2", ["sets.test.games=12"])
    (built,) = build(recipe, [source], tmp_path, sets=["test"], index=page(tmp_path, [2001]))
    assert [rows.archive for rows in built.manifest.archives] == ["KGS-2001-19-12-"]
    assert built.manifest.read == 12
    only = source / "KGS-2001-19-12-.tar.gz"
    with pytest.raises(SourceError) as caught:
        build(recipe, [only], tmp_path, sets=["trainall"], index=page(tmp_path, [2003, 2002, 2001]))
    assert str(caught.value) == (
        "2 of the 3 archives that the sets draw from are missing: KGS-2002-19-9-, KGS-2003-19-10-"
    )


def test_later_years_only_if_asked_for(source, tmp_path):
    late = tmp_path / "late"
    archive(late, records(5, 5), year=2015)
    results = {}
    for until in (2014, 2015):
        recipe = load_recipe("kgsgo-v2", [*FEW, f"until={until}"])
        (built,) = build(recipe, [source, late], tmp_path / str(until), sets=["trainall"])
        results[until] = {rows.archive for rows in built.manifest.archives}
    assert results[2015] - results[2014] == {"KGS-2015-19-5-"}
    assert len(results[2014]) == 3


def test_a_recipe_of_one_s_own(source, tmp_path):
    (tmp_path / "mine.toml").write_text(
        'name = "mine"\ntitle = "mine"\nformat = "dat1"\nseed = 3\nuntil = 2002\n'
        '[sets.one]\ntitle = "one"\nfile = "one.bin"\ngames = 3\n'
        '[sets.whole]\ntitle = "whole"\nfile = "year {archive}.bin"\n'
    )
    results = build(load_recipe(str(tmp_path / "mine.toml")), [source], tmp_path / "into")
    assert [built.path.name for built in results] == [
        "one.bin",
        "year KGS-2003-19-10-.bin",
        "year KGS-2002-19-9-.bin",
        "year KGS-2001-19-12-.bin",
    ]
    assert results[0].manifest.read == 3


# The manifest


@pytest.mark.parametrize("version", [1, 2])
def test_every_row_has_its_origin(source, tmp_path, version):
    (built,) = make(source, tmp_path, version, sets=["trainall"])
    layout = find_dat_layout(built.manifest.format)
    data = built.path.read_bytes()
    years = {f"KGS-{year}-19-{len(games)}-": games for year, games in GAMES.items()}
    rows = random.Random(version).sample(range(built.manifest.examples), 200)
    for row in [0, built.manifest.examples - 1, *rows]:
        origin = find_origin(built.manifest, built.path, row)
        game = years[origin.archive][origin.member - 1]
        (example,) = (example for example in twin(game, version) if example.ply == origin.ply)
        at = layout.header_bytes + row * layout.record_bytes
        assert data[at : at + layout.record_bytes] == example.data


def test_what_the_manifest_says(source, tmp_path):
    (built,) = make(source, tmp_path, sets=["trainall"])
    m, data = built.manifest, built.path.read_bytes()
    assert m.adds_up()
    assert (m.read, m.kept, m.drops, m.dropped) == (21, 21, {}, [])
    assert (m.kifu, m.file, m.format, m.plane_set) == (
        importlib.metadata.version("kifu"), "kgsgo-trainall-v2.dat", "dat2@1", "kgsgo7@1",
    )  # fmt: skip
    assert m.recipe == RECIPES[2].model_dump()
    assert m.blake3 == blake3(data).hexdigest()
    assert m.bytes == len(data)
    assert {each.archive: each.blake3 for each in m.archives} == {
        path.name.removesuffix(".tar.gz"): blake3(path.read_bytes()).hexdigest() for path in source.iterdir()
    }
    with kifu.open(built.path) as dat:
        assert len(dat) == m.examples
    assert sorted(m.sources, key=lambda each: each["name"]) == [
        {"name": path.name, "bytes": path.stat().st_size, "blake3": blake3(path.read_bytes()).hexdigest()}
        for path in sorted(source.iterdir())
    ]
    assert m.origins is not None
    assert m.origins.bytes == origins_path(built.path).stat().st_size
    assert len(manifest_path(built.path).read_bytes()) < 3000


# What is made again


def test_a_second_run_makes_nothing(source, tmp_path):
    first = make(source, tmp_path, sets=SETS)
    before = {path: path.stat() for path in tmp_path.iterdir()}
    again = make(source, tmp_path, sets=SETS)
    assert [built.fresh for built in again] == [False] * len(first)
    assert [(b.path, b.manifest) for b in again] == [(b.path, b.manifest) for b in first]
    for path, stat in before.items():
        assert (path.stat().st_mtime_ns, path.stat().st_ino) == (stat.st_mtime_ns, stat.st_ino)


def test_a_second_run_makes_what_is_missing(source, tmp_path):
    make(source, tmp_path, sets=["test"])
    results = make(source, tmp_path, sets=["test", "train10k", "test"])
    assert [built.fresh for built in results] == [False, True, False]


def replaced(path, change):
    path.write_bytes(change(path.read_bytes()))


FOREIGN = {
    "a foreign file": lambda dat, manifest: (dat.write_bytes(b"foreign"), manifest.unlink()),
    "a foreign file of its own size": lambda dat, manifest: (replaced(dat, bytes), manifest.unlink()),
    "no manifest": lambda dat, manifest: manifest.unlink(),
    "no JSON": lambda dat, manifest: replaced(manifest, lambda data: data[:-20]),
    "other games": lambda dat, manifest: replaced(manifest, lambda data: data.replace(b'"games":1', b'"games":2')),
    "a foreign manifest": lambda dat, manifest: (manifest.write_bytes(b"mine"), dat.unlink()),
    "a folder": lambda dat, manifest: (manifest.unlink(), manifest.mkdir()),
}
SPOILS = {
    "no file": lambda dat, manifest: dat.unlink(),
    "a longer file": lambda dat, manifest: replaced(dat, lambda data: data + b"x"),
    "a shorter file": lambda dat, manifest: replaced(dat, lambda data: data[:-1]),
    "no origins": lambda dat, manifest: origins_path(dat).unlink(),
    "a longer file of origins": lambda dat, manifest: replaced(origins_path(dat), lambda data: data + b"x"),
    "a part of a killed run": lambda dat, manifest: (dat.rename(dat.with_name(f".{dat.name}.part")), manifest.unlink()),
}


@pytest.mark.parametrize("spoil", SPOILS)
def test_what_is_spoilt_is_made_again(source, tmp_path, spoil):
    (built,) = make(source, tmp_path)
    good = tree(tmp_path)
    SPOILS[spoil](built.path, manifest_path(built.path))
    assert tree(tmp_path) != good
    (again,) = make(source, tmp_path)
    assert again.fresh
    assert tree(tmp_path) == good


@pytest.mark.parametrize("spoil", FOREIGN)
def test_what_is_foreign_is_never_replaced(source, tmp_path, spoil):
    (built,) = make(source, tmp_path)
    FOREIGN[spoil](built.path, manifest_path(built.path))
    before = tree(tmp_path)
    with pytest.raises(OutputError, match="exists and is not an intact output of kifu"):
        make(source, tmp_path)
    assert tree(tmp_path) == before


def test_a_changed_archive_is_read_again(tmp_path):
    archive(tmp_path / "source", records(12, 1))
    (first,) = make(tmp_path / "source", tmp_path / "into")
    archive(tmp_path / "source", records(12, 7))
    (second,) = make(tmp_path / "source", tmp_path / "into")
    assert second.fresh
    assert second.manifest.blake3 != first.manifest.blake3
    assert second.path.read_bytes() == expected_bytes(
        2, Sampler(RECIPES[2], archives_of(tmp_path / "source")).select("test"), {2001: records(12, 7)}
    )


def test_another_recipe_or_index_is_built_anew(source, tmp_path):
    """Also where the same archives come out in the same order, with other games."""
    mine, over = tmp_path / "mine", tmp_path / "over"
    (first,) = make(source, over)
    for k, (override, years) in enumerate(
        [("seed=1", None), ("seed=0", [2001, 2002, 2003]), ("seed=0", [2003, 2001, 2002]), ("seed=0", None)]
    ):
        recipe, index = load_recipe("kgsgo-v2", [*FEW, override]), page(tmp_path, years) if years else None
        (built,) = build(recipe, [source], mine / str(k), sets=["test"], index=index)
        (again,) = build(recipe, [source], over, sets=["test"], index=index, overwrite=True)
        assert again.fresh
        assert tree(over) == tree(mine / str(k))
        assert again.manifest == built.manifest
    assert again.manifest == first.manifest


# What a bad game or archive costs


@pytest.mark.parametrize("version", [1, 2])
def test_a_bad_game_costs_only_itself(tmp_path, version):
    games = [game for k, bad in enumerate(BROKEN.values()) for game in (record(k), bad)]
    source = archive(tmp_path / "source", games)
    (built,) = build(RECIPES[version], [source], tmp_path / "into", sets=["archives"])
    m = built.manifest
    assert [(d.reason, d.member, d.name, d.archive) for d in m.dropped] == [
        (reason, 2 * k + 2, f"kgs-19-2001/{2 * k + 1:05}.sgf", "KGS-2001-19-20-") for k, reason in enumerate(BROKEN)
    ]
    assert (m.read, m.kept, m.drops) == (20, 10, dict.fromkeys(sorted(BROKEN), 1))
    assert m.adds_up()
    good = archive(tmp_path / "good", games[::2], listed=10)
    first = built.path.read_bytes()
    (alone,) = build(RECIPES[version], [good], tmp_path / "into", sets=["archives"], overwrite=True)
    assert first == alone.path.read_bytes()


def test_only_bad_games(tmp_path):
    source = archive(tmp_path, list(BROKEN.values()))
    with pytest.raises(RecipeError, match="kgsgo-v1 uses none of these games: 0 examples, 3 bytes; 10 games = 0 kept"):
        build(RECIPES[1], [source], tmp_path / "into", sets=["archives"])
    assert not (tmp_path / "into").exists()
    good = archive(tmp_path, records(2), year=2002)
    one, two = build(RECIPES[2], [source, good], tmp_path / "into", sets=["archives"])
    two = min(one, two, key=lambda each: each.manifest.examples)
    assert two.path.read_bytes() == find_dat_layout("dat2").header(0) + b"END"
    assert (two.manifest.examples, two.manifest.kept, two.manifest.read) == (0, 0, 10)
    with kifu.open(two.path) as dat:
        assert len(dat) == 0


def refused(tmp_path, match, error=SourceError, **options):
    with pytest.raises(error, match=match) as caught:
        build(RECIPES[2], [tmp_path / "source"], tmp_path / "into", **({"sets": ["archives"]} | options))
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "into").exists() or tree(tmp_path / "into") == {}


def test_archives_shorter_than_their_name_says(tmp_path):
    archive(tmp_path / "source", records(3), listed=4)
    refused(tmp_path, "archive KGS-2001-19-4-: entry 5 is not a game, but by its name the archive holds 4 games")


def test_longer_archives_are_fine(tmp_path):
    source = archive(tmp_path, records(3), listed=2)
    chosen = Sampler(RECIPES[2], [parse_archive_name(source.name)]).select("archives")
    (built,) = build(RECIPES[2], [source], tmp_path / "into", sets=["archives"])
    assert built.path.read_bytes() == expected_bytes(2, chosen, {2001: records(3)})


@pytest.mark.parametrize("kind", ["tar.gz", "zip", "tar.bz2"])
@pytest.mark.parametrize(
    "damage",
    [lambda data: data[: len(data) // 2], lambda data: b"", lambda data: b"garbage" * 500, lambda data: data[:100]],
    ids=["half", "empty", "garbage", "head"],
)
def test_archives_that_can_not_be_read(tmp_path, kind, damage):
    good = archive(tmp_path / "source", records(5, 1), year=2005)
    bad = archive(tmp_path / "source", records(40, 2, 200), kind=kind)
    replaced(bad, damage)
    refused(tmp_path, bad.name, sets=["trainall"], jobs=1)
    refused(tmp_path, bad.name, sets=["trainall"], jobs=2)
    assert good.exists()


def test_what_was_built_before_stays(tmp_path):
    """Sets that were whole before a bad archive stopped the run are there, with their manifests."""
    archive(tmp_path / "source", records(5, 1), year=2005)
    bad = archive(tmp_path / "source", records(5, 2), year=2004)
    replaced(bad, lambda data: data[:50])
    with pytest.raises(SourceError, match=bad.name):
        make(tmp_path / "source", tmp_path / "into", sets=["archives"])
    name = "KGS-2005-19-5-v2.dat"
    assert sorted(tree(tmp_path / "into")) == [name, f"{name}.manifest.json", f"{name}.manifest.parquet"]


def test_no_archives(tmp_path):
    (tmp_path / "source").mkdir()
    (tmp_path / "into").mkdir()
    refused(tmp_path, "no game records and no archives in this directory")
    (tmp_path / "source" / "game.sgf").write_bytes(record(0))
    refused(tmp_path, "no archive among the sources is named as KGS does, like KGS-2006-19-10388-.tar.gz")
    with pytest.raises(SourceError, match="no archive among the sources"):
        build(RECIPES[2], [], tmp_path / "into")
    with pytest.raises(SourceError, match="nix: No such file"):
        build(RECIPES[2], [tmp_path / "nix"], tmp_path / "into")


@pytest.mark.parametrize(("cache", "match"), [(0, "No such file"), (1 << 20, CHANGED)])
def test_an_archive_that_goes_away(source, tmp_path, monkeypatch, cache, match):
    """Between the look into the folder and the second reading, which small archives do not need."""

    @contextmanager
    def vanish(label, total, unit):
        for path in (tmp_path / "source").iterdir():
            path.unlink()
        with silent(label, total, unit) as bar:
            yield bar

    monkeypatch.setattr(kgsgo, "_CACHE_BYTES", cache)
    archive(tmp_path / "source", GAMES[2001])
    refused(tmp_path, match, progress=vanish)


@pytest.mark.parametrize(("cache", "passes"), [(0, 4), (1 << 20, 1)])
def test_archives_that_fit_into_the_cache_are_read_once(source, tmp_path, monkeypatch, cache, passes):
    """Without it, each set counts their examples before it writes them."""
    read = []
    monkeypatch.setattr(kgsgo, "_CACHE_BYTES", cache)
    monkeypatch.setattr(kgsgo, "load_archive", lambda *of: read.append(of[0]) or load_archive(*of))
    make(source, tmp_path, sets=["trainall", "archives"], jobs=1)
    assert sorted(read) == sorted(passes * list(source.iterdir()))


@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("nix", "cannot read the index page .*nix: No such file"),
        ("folder", "Is a directory"),
        ("a\0b", r"a\\x00b: No such file"),
    ],
)
def test_index_pages_that_are_no_files(source, tmp_path, name, match):
    (tmp_path / "folder").mkdir()
    with pytest.raises(SourceError, match=match):
        make(source, tmp_path / "into", index=f"{tmp_path}/{name}")


def test_index_pages_of_other_things(source, tmp_path):
    (tmp_path / "page.html").write_text("<html>nothing")
    with pytest.raises(SourceError, match="the index page has no link to an archive"):
        make(source, tmp_path / "into", index=tmp_path / "page.html")


def test_sets_that_are_not_there(source, tmp_path):
    for names, hint in ((["tset"], "did you mean 'test'? "), (["test", ""], "")):
        with pytest.raises(RecipeError) as caught:
            make(source, tmp_path / "into", sets=names)
        assert str(caught.value) == (
            f"recipe kgsgo-v2: unknown set {names[-1]!r}; {hint}available: test, train10k, trainall, archives"
        )
    assert not (tmp_path / "into").exists()


def test_too_few_games(source, tmp_path):
    with pytest.raises(RecipeError, match="set 'test' takes 32 games, but 31 are left"):
        build(load_recipe("kgsgo-v2", ["sets.test.games=32"]), [source], tmp_path / "into", sets=["test"])
    assert not (tmp_path / "into").exists()


@pytest.mark.parametrize("jobs", [0, -1])
def test_no_jobs(source, tmp_path, jobs):
    with pytest.raises(RecipeError, match=f"jobs must be >= 1, got {jobs}"):
        make(source, tmp_path / "into", jobs=jobs)


@pytest.mark.parametrize("jobs", [1, 2])
def test_progress_adds_up(source, tmp_path, jobs):
    said = []

    class Counts:
        def advance(self, n=1):
            said[-1][2] += n

    @contextmanager
    def count(label, total, unit):
        assert unit == "games"
        said.append([label, total, 0])
        yield Counts()

    make(source, tmp_path, sets=["test", "trainall"], jobs=jobs, progress=count)
    assert said == [["building kgsgo-test-v2.dat", 10, 10], ["building kgsgo-trainall-v2.dat", 21, 21]]
    make(source, tmp_path, sets=["test", "trainall"], jobs=jobs, progress=count)
    assert len(said) == 2, "there is nothing to do, and so nothing to show"


def test_planes_of_a_build_can_be_read(source, tmp_path):
    """Both formats hold the same planes, but for the plane of ones."""
    (one,), (two,) = (make(source, tmp_path, version) for version in (1, 2))
    with kifu.open(one.path) as first, kifu.open(two.path) as second:
        (planes, labels), (others, other_labels) = first.to_numpy(), second.to_numpy()
    assert planes[:, 7].all()
    np.testing.assert_array_equal(labels, other_labels)
    np.testing.assert_array_equal(planes[:, 6], others[:, 6])
    assert (planes[:, :6] >= others[:, :6]).all()  # v1 also shows stones without liberties


COMMANDS: dict[str, Callable[[Path, Path], Any]] = {
    "ingest": lambda source, output: ingest(source, output / "games.parquet", jobs=1),
    "append": lambda source, output: update.append(source, output / "games", jobs=1),
    "kgsgo": lambda source, output: build(load_recipe("kgsgo-v2", SETTINGS), source, output, sets=["test"], jobs=1),
    "examples": lambda source, output: build(load_recipe("agz17"), source, output, jobs=1),
    "olf": lambda source, output: build(load_recipe("olf-archive"), source, output / "lines", jobs=1),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_replaced_archive_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    path = archive(tmp_path / "source", records(60, 1, 100), year=2001)
    other = archive(tmp_path / "other", records(60, 2, 100), year=2001)
    hash_sources = sources.hash_sources

    def replaced(*arguments: Any) -> list[sources.Source]:
        hashed = hash_sources(*arguments)
        shutil.copy(other, tmp_path / "copy")
        (tmp_path / "copy").replace(path)
        return hashed

    for module in (ingesting, update, kgsgo, olf_archive, pipeline):
        monkeypatch.setattr(module, "hash_sources", replaced)
    with pytest.raises(SourceError) as error:
        COMMANDS[command](path.parent, tmp_path / "output")
    assert str(error.value) == f"{path}: it changed while it was read"
    assert [file.name for file in (tmp_path / "output").rglob("*") if file.is_file()] == []


YEARS = (2001, 2002, 2003, 2006)


@pytest.fixture(scope="module")
def reference(shared):
    return shared / "reference/kgsgo"


@pytest.fixture(scope="module")
def four(shared):
    return [next((shared / "data/kgs").glob(f"KGS-{year}-*")) for year in YEARS]


@pytest.fixture(scope="module")
def md5s(reference):
    return {name: md5 for md5, name in map(str.split, (reference / "md5.txt").read_text().splitlines())}


@pytest.fixture(scope="module")
def built(four, reference, tmp_path_factory):
    folder = tmp_path_factory.mktemp("built")
    index = reference / "cached_indexpage.html"
    return {v: build(load_recipe(f"kgsgo-v{v}"), four, folder, sets=["test"], index=index)[0] for v in (1, 2)}


def games_of(report):
    """[(archive, member, number of examples)] of a built data set."""
    games, archives = read_game_rows(report.manifest, report.path), report.manifest.archives
    return [(archives[k].archive, member, rows) for k, member, rows in zip(*(each.tolist() for each in games))]


def md5(data):
    return hashlib.md5(data).hexdigest()


@pytest.mark.parametrize(("version", "name"), [(1, "kgsgo-test.dat"), (2, "kgsgo-test-v2.dat")])
def test_the_program_s_files(built, md5s, version, name):
    m = built[version].manifest
    assert built[version].path.name == name
    assert md5(built[version].path.read_bytes()) == md5s[name]
    assert (m.examples, m.read, m.kept, m.drops) == (19666, 100, 100, {})
    assert {each.archive: each.rows for each in m.archives} == {
        "KGS-2006-19-10388-": 5659, "KGS-2001-19-2298-": 2317, "KGS-2003-19-7582-": 7457, "KGS-2002-19-3646-": 4233,
    }  # fmt: skip


@pytest.mark.parametrize("version", [1, 2])
def test_the_part_of_each_archive(built, md5s, version):
    """The program made a whole file of each archive's part first."""
    layout = find_dat_layout(built[version].manifest.format)
    data = built[version].path.read_bytes()
    at = layout.header_bytes
    for each in built[version].manifest.archives:
        part = data[at : (at := at + each.rows * layout.record_bytes)]
        name = f"perzip/{each.archive}test{'' if version == 1 else '-v2'}.dat"
        assert md5(layout.header(each.rows) + part + layout.end) == md5s[name]


def test_each_game_s_share(built, reference):
    """Return the number of examples that the 2015 program made of each game, in its order."""
    found = [[f"{archive}.zip", member - 1, count] for archive, member, count in games_of(built[2])]
    expected = json.loads((reference / "test_per_game.json").read_text())
    assert found == [[name, number, examples] for name, number, _, examples, _ in expected]


@pytest.mark.slow
@pytest.mark.parametrize("version", [2, *slow(1)])
def test_origins(built, four, version):
    """Rows drawn at random come from the game and ply that the manifest names."""
    m, data = built[version].manifest, built[version].path.read_bytes()
    layout = find_dat_layout(m.format)
    games = {path.name.removesuffix(".tar.gz"): members(path) for path in four}
    for row in random.Random(version).sample(range(m.examples), 6):
        origin = find_origin(m, built[version].path, row)
        examples = {e.ply: e.data for e in examples_of(games[origin.archive][origin.member - 1], version)}
        at = layout.header_bytes + row * layout.record_bytes
        assert data[at : at + layout.record_bytes] == examples[origin.ply]


@pytest.mark.parametrize("jobs", [3, *slow(1, 2)])
def test_any_number_of_threads(built, four, tmp_path, jobs):
    (again,) = build(load_recipe("kgsgo-v2"), four, tmp_path, sets=["test"], jobs=jobs)
    assert again.fresh
    assert again.manifest == built[2].manifest, "without the page, the order is the same"


def test_the_index_of_2014_needs_91_archives(shared, reference, tmp_path):
    with pytest.raises(SourceError) as caught:
        build(
            load_recipe("kgsgo-v2"),
            [shared / "data/kgs"],
            tmp_path,
            sets=["test"],
            index=reference / "full_indexpage.html",
        )
    wanted = {line.split("'")[1] for line in (reference / "full_index_test_samples.txt").read_text().splitlines()}
    missing = wanted - {f"{path.name.removesuffix('.tar.gz')}.zip" for path in (shared / "data/kgs").iterdir()}
    first = ", ".join(name.removesuffix(".zip") for name in sorted(missing)[:3])
    assert str(caught.value) == (
        f"{len(missing)} of the {len(wanted)} archives that the sets draw from are missing: {first}, ..."
    )
    assert list(tmp_path.iterdir()) == []


def test_later_archives_are_left_alone(built, shared, tmp_path):
    (again,) = build(load_recipe("kgsgo-v2"), [shared / "data/kgs"], tmp_path, sets=["test"])
    assert again.manifest == built[2].manifest


@pytest.mark.slow
@pytest.mark.parametrize("version", [1, 2])
def test_train10k(four, reference, tmp_path, version):
    (made,) = build(
        load_recipe(f"kgsgo-v{version}"), four, tmp_path, sets=["train10k"], index=reference / "cached_indexpage.html"
    )
    m = made.manifest
    assert (m.read, m.kept, m.examples) == (10_000, 10_000, 1_980_711)
    assert [(each.archive[4:8], each.rows) for each in m.archives] == [
        ("2006", 870_012), ("2003", 628_444), ("2002", 304_892), ("2001", 177_363),
    ]  # fmt: skip
    with kifu.open(made.path) as data:
        assert len(data) == m.examples
    made.path.unlink()


@pytest.mark.slow
def test_trainall_and_test_are_all(built, four, tmp_path):
    """Every game is in one of them, and each archive's own file has as many rows as both took from it."""
    made = build(load_recipe("kgsgo-v2"), four, tmp_path, sets=["trainall", "archives"])
    seen = {
        name: sorted((archive, member) for each in reports for archive, member, _ in games_of(each))
        for name, reports in (("parts", [built[2], made[0]]), ("whole", made[1:]))
    }
    assert seen["parts"] == seen["whole"]
    assert len(seen["whole"]) == 23_914
    assert sum(each.manifest.examples for each in made[1:]) == 19_666 + made[0].manifest.examples
    for each in made:
        each.path.unlink()
