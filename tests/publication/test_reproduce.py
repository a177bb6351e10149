"""Catalogues, sets and data sets that are made again from their manifests."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

import kifu
from commands import is_error, run, tree
from kgs_archives import archive, records
from kifu.assets import config_names
from kifu.corpus.ingest import ingest
from kifu.corpus.splits import DateSplit, load_split, split
from kifu.datasets.manifest import read_manifest
from kifu.errors import FormatError, RecipeError
from kifu.io import hash_file
from kifu.recipes.pipeline import build
from kifu.recipes.schema import check_recipe, load_recipe
from marks import slow

SHARES = ["split.sets.train=2.0", "split.sets.validation=1.0", "split.sets.test=1.0"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Archives in `kgs`, their catalogue, and its sets in `sets`."""
    folder = tmp_path_factory.mktemp("home")
    for k in range(2):
        games = [each.replace(b"SZ[19]", b"SZ[19]RE[B+R]DT[2001-02-03]RU[Japanese]KM[6.5]") for each in records(30, k)]
        archive(folder / "kgs", games, year=2001 + k)
    ingest(folder / "kgs", folder / "games.parquet")
    split(folder / "games.parquet", folder / "sets", by=load_split("hash", SHARES))
    return folder


@pytest.fixture(scope="module")
def elsewhere(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archives under other names, among other files."""
    folder = tmp_path_factory.mktemp("elsewhere")
    for k, path in enumerate(sorted(home.joinpath("kgs").iterdir())):
        shutil.copy(path, folder / f"{9 - k}.tar.gz")
    archive(folder / "more", records(3, 7), year=2007)
    return folder


def test_catalogues_and_sets_are_equal(home: Path, elsewhere: Path, tmp_path: Path) -> None:
    made = kifu.reproduce(home / "games.parquet", elsewhere, tmp_path / "games")
    assert (made.files, str(made)) == ({"games.parquet": True}, "equal: 1 file")
    made = kifu.reproduce(home / "sets", elsewhere, tmp_path / "sets")
    assert made.files == dict.fromkeys(["test.parquet", "train.parquet", "validation.parquet"], True)
    by = DateSplit(kind="date", sets={"early": (date(2000, 1, 1), date(2001, 12, 31))})
    split(home / "games.parquet", tmp_path / "dates", by=by)
    assert kifu.reproduce(tmp_path / "dates", elsewhere, tmp_path / "dates-again").files == {"early.parquet": True}
    tmp_path.joinpath("others/deep").mkdir(parents=True)
    tmp_path.joinpath("others/x.parquet").write_bytes(b"PAR1")
    shutil.copy(home / "games.parquet", tmp_path / "others/deep/renamed.parquet")
    made = kifu.reproduce(home / "sets/test.parquet", tmp_path / "others", tmp_path / "again")
    assert made.files == {"test.parquet": True}
    assert tree(tmp_path / "sets") == tree(tmp_path / "again") == tree(home / "sets")


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("kgsgo-v2", ["sets.test.games=10", "sets.train10k.games=12"]),
        ("tokens", ["clean=legal", "games=20"]),
        ("olf-archive", ["clean=legal"]),
        *slow(("book-seven", []), ("agz17", ["clean=legal"]), ("katago", [])),
    ],
)
def test_data_sets_of_each_kind_are_equal(
    home: Path, elsewhere: Path, tmp_path: Path, name: str, changes: list[str]
) -> None:
    build(load_recipe(name, changes), home / "kgs", tmp_path / "data")
    made = kifu.reproduce(tmp_path / "data", elsewhere, tmp_path / "again")
    assert made.equal
    assert len(made.files) > 1
    for path in made.files:
        assert tmp_path.joinpath("again", path).read_bytes() == tmp_path.joinpath("data", path).read_bytes()


def test_a_published_data_set_is_equal(home: Path, elsewhere: Path, tmp_path: Path) -> None:
    recipe = load_recipe("agz17", ["clean=legal", "games=8"])
    build(recipe, home / "games.parquet", tmp_path / "data")
    for name, sets in (("data", tmp_path / "data"), ("sets", home / "sets")):
        kifu.publish(sets, tmp_path / f"{name}-out")
        made = kifu.reproduce(tmp_path / f"{name}-out", elsewhere, tmp_path / f"{name}-again")
        assert made.equal
        for path in tmp_path.joinpath(f"{name}-out/data").iterdir():
            assert tmp_path.joinpath(f"{name}-again", path.name).read_bytes() == path.read_bytes()
    assert "kifu fetch kgs --all -o sources" in tmp_path.joinpath("data-out/README.md").read_text()


def test_what_differs_is_named(home: Path, elsewhere: Path, tmp_path: Path) -> None:
    build(load_recipe("tokens", ["clean=legal"]), home / "kgs", tmp_path / "data")
    manifest, path = read_manifest(tmp_path / "data/test"), tmp_path / "data/test.manifest.json"
    assert manifest is not None
    first, *others = manifest.files
    replace(manifest, kifu="0.1", files=[replace(first, blake3=hash_file(path)), *others]).write(path)
    done = run("build", path, elsewhere, "-o", tmp_path / "again", "--jobs", 1)
    assert done.code == 1
    assert f"again: 1 of {len(manifest.files) + 1} files differ: test/{first.file}" in done.out
    assert done.out.endswith(f"; made by kifu 0.1, not {kifu.__version__}\n")


def test_missing_sources_are_named(home: Path, tmp_path: Path) -> None:
    first, second = sorted(home.joinpath("kgs").iterdir())
    done = run("build", home / "sets/test.parquet", second, "-o", tmp_path / "again")
    is_error(done, f"1 source missing: {first.name} (BLAKE3 {hash_file(first)})")
    assert not (tmp_path / "again").exists()


def test_what_cannot_be_made_again(home: Path, tmp_path: Path) -> None:
    done = run("build", home / "games.parquet", home / "kgs", "-o", tmp_path / "again", "--set", "seed=1")
    is_error(done, "games.parquet is built as it is, without --format, --sets, --index, --set and --dry-run")
    is_error(run("build", tmp_path / "no.manifest.json", home / "kgs", "-o", tmp_path / "x"), "no.manifest.json")
    with pytest.raises(FormatError, match="has no manifests and no catalogues"):
        kifu.reproduce(home / "kgs", home / "kgs", tmp_path / "again")
    with kifu.query("FROM kept LIMIT 3", home / "games.parquet") as answer:
        answer.write(tmp_path / "few.parquet")
    with pytest.raises(FormatError, match="cannot be made again"):
        kifu.reproduce(tmp_path / "few.parquet", home / "kgs", tmp_path / "again")
    with pytest.raises(RecipeError, match="recipe x: games must be >= 1, got 0"):
        check_recipe(load_recipe("tokens").model_dump(mode="json") | {"games": 0}, "x")


def test_names_of_catalogues_change_no_bytes(home: Path, tmp_path: Path) -> None:
    recipe = load_recipe("tokens", ["clean=legal"])
    for name in ("a", "b"):
        shutil.copy(home / "games.parquet", tmp_path / f"{name}.parquet")
        catalogue = tmp_path / f"{name}.parquet"
        split(catalogue, tmp_path / name / "sets", by=load_split("hash", SHARES))
        ingest(catalogue, tmp_path / name / "cleaned.parquet")
        build(recipe, catalogue, tmp_path / name / "tokens")
        with kifu.query("FROM kept LIMIT 9", catalogue) as answer:
            answer.write(tmp_path / name / "few.parquet")
        kifu.build_index(catalogue)
        kifu.append(catalogue, tmp_path / name / "folder")
    trees = [tree(tmp_path / name) for name in ("a", "b")]
    for name in trees[0]:
        if not name.endswith((".manifest.json", "index.json")) and not name.startswith("folder/"):
            assert trees[0][name] == trees[1][name], name
    parts = [{data for name, data in each.items() if re.fullmatch(r"folder/.*\.parquet", name)} for each in trees]
    assert parts[0] == parts[1]


@pytest.mark.parametrize("name", config_names("recipes"))
def test_listed_recipes_are_read_back(name: str) -> None:
    recipe = load_recipe(name)
    assert check_recipe(recipe.model_dump(mode="json"), name) == recipe
