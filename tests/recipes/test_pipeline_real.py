"""Builds from the four real archives, against the files that the program of 2015 made of them."""

import hashlib
import json
import random

import pytest

import kifu
from kgs_archives import members
from kifu.datasets.dat import find_dat_layout
from kifu.datasets.manifest import find_origin, read_game_rows
from kifu.errors import SourceError
from kifu.recipes.pipeline import build
from kifu.recipes.schema import load_recipe
from marks import slow
from naive_kgsgo import examples_of

YEARS = (2001, 2002, 2003, 2006)


@pytest.fixture(scope="module")
def reference(shared):
    return shared / "reference/kgsgo"


@pytest.fixture(scope="module")
def four(shared):
    """The archives of which the program's output is at hand."""
    return [next((shared / "data/kgs").glob(f"KGS-{year}-*")) for year in YEARS]


@pytest.fixture(scope="module")
def md5s(reference):
    """File name -> md5, as the program's files had them."""
    return {name: md5 for md5, name in map(str.split, (reference / "md5.txt").read_text().splitlines())}


@pytest.fixture(scope="module")
def built(four, reference, tmp_path_factory):
    """The test set of both recipes."""
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
        "KGS-2006-19-10388-": 5659,
        "KGS-2001-19-2298-": 2317,
        "KGS-2003-19-7582-": 7457,
        "KGS-2002-19-3646-": 4233,
    }


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
    """All 39 archives at hand, of which the recipe takes those up to 2014."""
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
