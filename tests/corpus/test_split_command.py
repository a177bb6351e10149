"""Writing the sets of a split: each game in its set, crash safety, and the command."""

from pathlib import Path

import numpy as np
import pytest

from catalogues import rows, write_catalogue
from commands import is_error, run
from kifu.corpus.catalogue import open_catalogue
from kifu.corpus.splits import HashSplit, load_split, split, split_keys, split_names
from kifu.errors import RecipeError
from kifu.io import hash_file

OPENINGS = np.random.default_rng(5).integers(0, 2**63, 400).astype(np.uint64)


def corpus(path: Path, openings: np.ndarray = OPENINGS) -> Path:
    """Write a catalogue in which every tenth game is dropped."""
    drop = ["ko" if k % 10 == 0 else None for k in range(len(openings))]
    return write_catalogue(path, rows(opening=openings.tolist(), drop=drop), about={"read": len(openings)})


def ids(path: Path) -> list[int]:
    return [game for batch in open_catalogue(path).batches(("id",)) for game in batch["id"].to_pylist()]


def test_each_game_is_in_its_set_in_order(tmp_path: Path) -> None:
    path = corpus(tmp_path / "a.parquet")
    table = load_split("hash", ["split.sets.train=2.0", "split.seed=3"])
    report = split([path], tmp_path / "sets", by=table)
    codes = split_keys(OPENINGS, {"train": 2, "validation": 5, "test": 5}, 3)
    kept = np.arange(400) % 10 > 0
    for code, name in enumerate(("train", "validation", "test")):
        file = tmp_path / "sets" / f"{name}.parquet"
        assert ids(file) == np.flatnonzero(kept & (codes == code)).tolist()
        assert report.sets[file] == len(ids(file))
    assert (report.unset, report.dropped, report.read) == (0, 40, 400)
    about = open_catalogue(tmp_path / "sets" / "test.parquet").metadata
    assert (about["set"], about["split"]["split"]["seed"]) == ("test", 3)
    assert about["of"] == [{"name": "a.parquet", "blake3": hash_file(path), "about": {"read": 400}}]
    by = HashSplit(kind="hash", sets={"train": 2.0, "validation": 5.0, "test": 5.0}, seed=3)
    assert list(split(path, tmp_path / "again", by=by).sets.values()) == list(report.sets.values())


def test_games_in_no_set_are_counted(tmp_path: Path) -> None:
    table = tmp_path / "old.toml"
    table.write_text('name="old"\ntitle="t"\nsplit={kind="date", sets={old=[1900-01-01,1999-12-31]}}')
    path = write_catalogue(tmp_path / "a.parquet", rows(year=[1998, 2005, None]))
    report = split(path, tmp_path, by=table)
    assert (list(report.sets.values()), report.unset, report.read) == ([1], 2, 3)


def test_command_prints_the_output(tmp_path: Path) -> None:
    path = corpus(tmp_path / "a.parquet")
    done = run("split", path, path, "--output", tmp_path, "--set", "split.sets={all=1.0}")
    assert (done.code, done.out.splitlines()) == (
        0,
        [f"{tmp_path}/all.parquet: 720 games", "in no set: 0 games, and 80 dropped games"],
    )


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("split.sets={}", "split hash: split.hash.sets: Dictionary should have at least 1 item"),
        ("split.kind=moon", "split hash: split: Input tag 'moon'"),
        ('split.sets={"../x"=1.0}', "set '../x' of split hash is not a valid file name"),
    ],
)
def test_invalid_split_writes_nothing(tmp_path: Path, setting: str, message: str) -> None:
    path = corpus(tmp_path / "a.parquet")
    is_error(run("split", path, "--output", tmp_path / "sets", "--set", setting), f"kifu: {message}")
    assert not (tmp_path / "sets").exists()


def test_bad_catalogue_leaves_the_old_sets(tmp_path: Path) -> None:
    old = tmp_path / "train.parquet"
    old.write_bytes(b"old")
    done = run("split", __file__, "--output", tmp_path)
    assert (done.code, list(tmp_path.iterdir()), old.read_bytes()) == (2, [old], b"old")
    assert "is not a catalogue" in done.err[-1]


@pytest.mark.parametrize("named", [0, 1, 2])
def test_killed_split_leaves_no_mix_of_old_and_new_sets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: int
) -> None:
    path, real, names = corpus(tmp_path / "a.parquet"), Path.replace, []

    def replace(part: Path, whole: Path) -> Path:
        if len(names) == named:
            raise KeyboardInterrupt
        names.append(whole)
        return real(part, whole)

    split(path, tmp_path / "sets", by="hash")
    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", replace)
        with pytest.raises(KeyboardInterrupt):
            split([path], tmp_path / "sets", by=load_split("hash", ["split.seed=3"]), overwrite=True)
    assert sorted((tmp_path / "sets").iterdir()) == sorted(names)


@pytest.mark.parametrize("name", split_names())
def test_built_in_splits_have_their_name(name: str) -> None:
    assert load_split(name).name == name


def test_unknown_split_is_rejected() -> None:
    with pytest.raises(RecipeError, match="unknown split 'nix'; available: hash, or a file"):
        load_split("nix")
