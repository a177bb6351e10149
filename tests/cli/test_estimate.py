"""Estimates of --dry-run: exact where all games are read, close where a sample is."""

import json
from pathlib import Path
from typing import Any

import pytest

import kifu
from commands import run
from kgs_archives import archive, records
from kifu.assets import config_names
from kifu.cli import estimate as estimating
from kifu.corpus.catalogue import open_catalogue
from kifu.datasets.manifest import read_manifest
from kifu.recipes.schema import load_recipe
from marks import slow


@pytest.fixture(scope="module")
def kgs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kgs")
    for k in range(20):
        archive(folder, records(24, k), year=2000 + k)
    (folder / "one.sgf").write_text("(;SZ[9];B[aa];W[bb])")
    return folder


def estimated(*arguments: object) -> dict[str, Any]:
    planned: dict[str, Any] = json.loads(run(*arguments, "--dry-run", "--json", "-").out)
    return dict(planned["estimate"])


def test_small_sources_are_counted_exactly(tmp_path: Path) -> None:
    out = tmp_path / "games.parquet"
    sources = (kifu.sample_path(), out)
    report = kifu.ingest(sources[0], out)
    for source in sources:
        found = estimated("ingest", source, "-o", tmp_path / "new.parquet")
        assert (found["games"], found["kept"], found["positions"]) == (report.read, report.kept, report.moves)
        assert found["sampled"] == report.read
        assert found["bytes"] == pytest.approx(report.bytes, rel=0.05)
    assert list(tmp_path.iterdir()) == [out]


def test_a_sample_is_extrapolated(kgs: Path, tmp_path: Path) -> None:
    report = kifu.ingest(kgs, tmp_path / "games.parquet")
    found = estimated("ingest", kgs, "-o", tmp_path / "new.parquet")
    assert found["sampled"] <= 8 * 24
    assert [found[name] for name in ("games", "positions")] == pytest.approx([report.read, report.moves], rel=0.15)
    text = run("ingest", kgs, "-o", tmp_path / "new.parquet", "--dry-run").out
    assert "\nabout 4" in text
    assert f"(from a sample of {found['sampled']} games)\ndry run: nothing was written\n" in text


def test_rows_of_catalogues_and_loose_records_are_sampled(
    kgs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalogue = tmp_path / "games.parquet"
    kifu.ingest(kgs, catalogue)
    loose = tmp_path / "loose"
    loose.mkdir()
    for k, game in enumerate(records(40, 5)):
        (loose / f"{k}.sgf").write_bytes(game if isinstance(game, bytes) else game.encode())
    monkeypatch.setattr(estimating, "_RECORDS", 10)
    for source, games in ((catalogue, 481), (loose, 40)):
        found = estimated("ingest", source, "-o", tmp_path / "new.parquet")
        assert (found["games"], found["sampled"]) == (games, 10)


def test_sources_without_games(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    command = ("ingest", tmp_path / "empty", "-o", tmp_path / "new.parquet")
    assert run(*command, "--dry-run").err == run(*command).err
    (tmp_path / "empty" / "a.sgf").touch()
    found = estimated(*command)
    assert (found["games"], found["kept"], found["positions"]) == (1, 0, 0)


@pytest.mark.parametrize("recipe", [*slow("agz17"), "tokens"])
def test_sets_of_a_build(kgs: Path, tmp_path: Path, recipe: str) -> None:
    catalogue = tmp_path / "games.parquet"
    kifu.ingest(kgs, catalogue)
    command = ("build", recipe, catalogue, "-o", tmp_path / "out", "--set", "clean=legal")
    found = estimated(*command)["sets"]
    assert not (tmp_path / "out").exists()
    assert run(*command).code == 0
    for name, size in found.items():
        manifest = read_manifest(tmp_path / "out" / name)
        assert manifest is not None
        few = name.partition(".")[0] != "train"
        assert size["examples"] == pytest.approx(manifest.examples, rel=0.6 if few else 0.15)


def test_games_of_kgsgo_are_known(kgs: Path, tmp_path: Path) -> None:
    options = ("--set", "sets.test.games=5", "--sets", "test,trainall")
    found = estimated("build", "kgsgo-v2", kgs, "-o", tmp_path, *options)["sets"]
    moves = sum(open_catalogue_moves(kgs, tmp_path)) / 480
    assert found["kgsgo-test-v2.dat"]["examples"] == pytest.approx(5 * moves, rel=0.15)
    assert found["kgsgo-test-v2.dat"]["bytes"] == 322 * found["kgsgo-test-v2.dat"]["examples"]


def open_catalogue_moves(kgs: Path, folder: Path) -> list[int]:
    kifu.ingest(kgs, folder / "games.parquet")
    batches = open_catalogue(folder / "games.parquet").batches(("n_legal",))
    return [moves for batch in batches for moves in batch["n_legal"].to_pylist()]


QUICK = ("kgsgo-v2", "quick-cpu", "tokens")


@pytest.mark.parametrize("recipe", [*QUICK, *slow(*(name for name in config_names("recipes") if name not in QUICK))])
def test_every_recipe_can_be_planned(recipe: str, kgs: Path, tmp_path: Path) -> None:
    command = "train" if getattr(load_recipe(recipe), "kind", None) == "training" else "build"
    few = ("--set", "sets.test.games=5", "--sets", "test") if recipe.startswith("kgsgo") else ()
    done = run(command, recipe, kgs, "-o", tmp_path / "out", *few, "--dry-run")
    assert (done.code, list(tmp_path.iterdir())) == (0, []), done.err
    assert done.out.endswith("dry run: nothing was written\n")


def test_train_shows_what_an_epoch_draws(tmp_path: Path) -> None:
    command = ("train", "quick-cpu", kifu.sample_path(), "-o", tmp_path / "run", "--dry-run")
    done = run(*command)
    assert "epoch 0: 53,184 examples of 313 games" in done.out
    assert done.out.endswith("dry run: nothing was written\n")
    planned = json.loads(run(*command, "--json", "-").out)
    assert planned["estimate"]["examples"] == 53184
    assert list(tmp_path.iterdir()) == []
