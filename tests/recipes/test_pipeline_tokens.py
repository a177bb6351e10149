"""Builds of tokens: every game comes back as it is in the catalogue, in the right set, for any number of jobs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import kifu
import naive_tokens
from commands import run
from kgs_archives import BROKEN, archive, records
from kifu.config import check_config
from kifu.corpus.catalogue import open_catalogue
from kifu.corpus.ingest import ingest
from kifu.corpus.splits import NO_SET
from kifu.datasets.manifest import find_origin, origins_path, read_manifest
from kifu.datasets.tokens import METADATA, open_tokens
from kifu.errors import RecipeError
from kifu.recipes import examples as building
from kifu.recipes.pipeline import build
from kifu.recipes.schema import TokensRecipe
from loader_games import small_game

PLAIN: dict[str, Any] = {"kind": "tokens", "name": "mine", "title": "a recipe of my own"}
SPLIT = {"kind": "hash", "sets": {"train": 2.0, "test": 1.0}}
ALL = {"metadata": list(METADATA), "pad": True}


def recipe(**changes: Any) -> TokensRecipe:
    return check_config(TokensRecipe, PLAIN | changes, "recipe", "mine")


def assert_round_trip(chosen: TokensRecipe, catalogue: Path, folder: Path) -> None:
    reports = build(chosen, catalogue, folder)
    decoded = {}
    for report in reports:
        data, manifest = open_tokens(report.path), report.manifest
        assert manifest.examples == manifest.kept == len(data)
        assert manifest.read == manifest.kept + manifest.elsewhere + sum(manifest.drops.values())
        members = pq.read_table(origins_path(report.path))["member"].to_pylist()
        origins = [find_origin(manifest, report.path, k) for k in range(len(data))]
        assert [origin.member for origin in origins] == members
        assert members == sorted(members)
        for k, key in enumerate(data.games.tolist()):
            decoded.setdefault(key, data.tokenizer.decode(data[k]))
            assert [data.tokenizer.names[t] for t in data[k]][-1] == "end"
    found, split = 0, chosen.split and chosen.split.fit(catalogue)
    for batch in open_catalogue(catalogue).batches():
        fits = data.tokenizer.fits(batch)
        if split:
            fits &= split.codes(batch) != NO_SET
        for row, fit in zip(batch.to_pylist(), fits.tolist()):
            if row["drop"] is not None or not fit or not row["n_legal"]:
                continue
            game, facts = decoded[row["id"]], naive_tokens.facts_of(row)
            assert game.moves.tolist() == row["moves"][: row["n_legal"]]
            assert (game.setup.tolist(), game.setup_ply.tolist()) == (row["setup"], row["setup_ply"])
            assert game.metadata == {name: facts[name] for name in data.tokenizer.fields}
            found += 1
    assert found == sum(report.manifest.kept for report in reports)


@pytest.fixture(scope="module")
def games(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A catalogue with games on small boards, a handicap game, one without moves and an illegal one."""
    folder = tmp_path_factory.mktemp("kgs")
    handicap = b"(;SZ[19]HA[2]AB[dp][pd]KM[0.5];W[dd];B[pp];B[cc])"
    texts = [*records(30, 1), BROKEN["OCCUPIED"], handicap, b"(;SZ[19]KM[6.5])", *map(small_game, range(6))]
    path = folder / "games.parquet"
    ingest(archive(folder, texts), path)
    return path


def test_games_come_back_as_they_are(games: Path, tmp_path: Path) -> None:
    assert_round_trip(recipe(**ALL), games, tmp_path / "all")
    assert_round_trip(recipe(split=SPLIT), games, tmp_path / "split")


def test_games_of_the_sample_come_back(tmp_path: Path) -> None:
    path = tmp_path / "sample.parquet"
    ingest(kifu.sample_path(), path)
    assert_round_trip(recipe(**ALL), path, tmp_path / "built")


@pytest.mark.slow
def test_games_of_an_archive_of_kgs_come_back(shared: Path, tmp_path: Path) -> None:
    path = tmp_path / "kgs.parquet"
    ingest(next((shared / "data/kgs").glob("KGS-2001-*")), path)
    assert_round_trip(recipe(**ALL, split=SPLIT), path, tmp_path / "built")


def test_dropped_games_are_counted(games: Path, tmp_path: Path) -> None:
    (report,) = build(recipe(), games, tmp_path)
    assert report.manifest.drops == {"NO_MOVES": 1, "OCCUPIED": 1, "WRONG_SIZE": 6}
    assert report.manifest.format == "tokens@1"


def test_bytes_do_not_depend_on_jobs_or_slices(games: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = recipe(split=SPLIT)
    one = build(chosen, games, tmp_path / "one", jobs=1)
    monkeypatch.setattr(building, "_TOKEN_GAMES", 7)
    two = build(chosen, games, tmp_path / "two", jobs=2)
    assert [report.manifest for report in one] == [report.manifest for report in two]
    for report in one:
        for path in (report.path, *report.path.iterdir()):
            other = tmp_path / "two" / path.relative_to(tmp_path / "one")
            assert path.is_dir() or path.read_bytes() == other.read_bytes()


def test_sets_that_are_up_to_date_are_kept(games: Path, tmp_path: Path) -> None:
    (first,), (second,) = (build(recipe(), games, tmp_path) for _ in range(2))
    assert (first.fresh, second.fresh) == (True, False)
    (tmp_path / "all" / "games.npy").write_bytes(b"")
    (third,) = build(recipe(), games, tmp_path, overwrite=True)
    assert third.fresh
    (other,) = build(recipe(metadata=[]), games, tmp_path, overwrite=True)
    assert other.fresh
    assert read_manifest(other.path) == other.manifest


def test_commands(games: Path, tmp_path: Path) -> None:
    built = run("build", "tokens", games, "-o", tmp_path, "--set", "clean=legal", "--sets", "train")
    assert (built.code, built.out.count("\n")) == (0, 1)
    shown = run("show", tmp_path / "train").out
    assert "manifest    recipe tokens, set train" in shown
    assert "its hashes match" in shown
    planned = run("build", "tokens", games, "-o", tmp_path, "--set", "clean=legal", "--dry-run")
    assert (planned.code, "  train: " in planned.out) == (0, True)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"metadata": ["elo"]}, "'elo'"),
        ({"pad": True}, "pad requires the metadata 'board'"),
        ({"board": "26x26"}, "board size 26 x 26"),
        ({"format": "npy"}, "format"),
    ],
)
def test_invalid_recipes(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        recipe(**changes)
