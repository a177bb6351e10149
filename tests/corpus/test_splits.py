"""Splits: the rules of sets, and the command."""

import tomllib
from datetime import date
from fractions import Fraction
from math import sqrt
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

import naive_hashes as naive
from catalogues import rows, write_catalogue
from commands import is_error, run
from drawn_games import OneGame, flat
from kifu.config import check_config
from kifu.corpus.catalogue import open_catalogue
from kifu.corpus.hashes import OPENING_PLIES, hash_games
from kifu.corpus.splits import HashSplit, Split, load_split, split, split_keys, split_names
from kifu.errors import RecipeError, SourceError
from kifu.io import hash_file
from kifu.point import WHITE_BIT

KEYS = np.random.default_rng(20150408).integers(0, 2**64, 12_000, np.uint64)

SHARES = st.dictionaries(st.text(min_size=1), st.integers(1, 100) | st.floats(0.01, 100), min_size=1, max_size=5)
SEEDS = st.integers(0, 2**63 - 1)


class Table(BaseModel):
    split: Split


def split_table(text) -> Split:
    return check_config(Table, tomllib.loads("[split]\n" + text), "recipe", "test").split


def assign_sets(batch, by):
    names = [*by.sets, None]  # the last one is that of NO_SET, -1
    return [names[code] for code in by.codes(batch)]


@given(SHARES, SEEDS, st.lists(st.integers(0, 2**64 - 1)))
def test_keys_follow_the_documented_formula(shares, seed, keys):
    exact = [Fraction(str(share)) for share in shares.values()]
    bounds = [2**64 * sum(exact[: k + 1]) // sum(exact) for k in range(len(exact))]
    expected = [next(k for k, bound in enumerate(bounds) if naive.mix(key ^ naive.mix(seed)) < bound) for key in keys]
    found = split_keys(np.array(keys, np.uint64), shares, seed)
    assert found.dtype == np.int64
    assert found.tolist() == expected


@given(st.integers(1, 2**64 - 1), SEEDS)
def test_key_on_a_bound(key, seed):
    drawn = naive.mix(key ^ naive.mix(seed))
    for below, code in ((drawn, 1), (drawn + 1, 0)):
        assert split_keys(np.array([key], np.uint64), {"a": below, "b": 2**64 - below}, seed).tolist() == [code]


@given(SHARES, SEEDS)
def test_sets_have_their_shares(shares, seed):
    counts = np.bincount(split_keys(KEYS, shares, seed), minlength=len(shares))
    for count, share in zip(counts, shares.values()):
        p = share / sum(shares.values())
        assert abs(count - len(KEYS) * p) <= 6 * sqrt(len(KEYS) * p * (1 - p)) + 1


def test_shares_are_exact_and_never_change():
    keys = np.arange(1_000, dtype=np.uint64)
    tenths = split_keys(keys, {"a": 0.7, "b": 0.2, "c": 0.1}, 5)
    assert np.array_equal(tenths, split_keys(keys, {"a": 7, "b": 2, "c": 1}, 5))
    assert np.bincount(tenths).tolist() == [733, 186, 81]
    assert np.flatnonzero(tenths == 2)[:8].tolist() == [0, 23, 31, 32, 37, 57, 60, 62]


@pytest.mark.parametrize("shares", [{}, {"a": 0}, {"a": 1, "b": -1}, {"a": float("nan")}, {"a": float("inf")}])
def test_invalid_shares(shares):
    with pytest.raises(RecipeError, match="shares must be numbers above 0"):
        split_keys(KEYS, shares)


@given(st.integers(0, 2**32), SHARES, SEEDS)
def test_game_duplicates_and_beginnings_are_in_one_set(seed, shares, split_seed):
    rng = np.random.default_rng(seed)
    game = OneGame(19, 19, [int(p) | ply % 2 * WHITE_BIT for ply, p in enumerate(rng.integers(0, 361, 50))])
    cut = game._replace(moves=game.moves[: rng.integers(OPENING_PLIES, 50)])
    family = [naive.symmetric(each, k) for each in (game, naive.swapped(game), cut) for k in range(8)]
    _, opening = hash_games(flat(family))
    assert len(set(split_keys(opening, shares, split_seed).tolist())) == 1


def test_by_hash():
    by_hash = split_table('kind = "hash"\nseed = 3\nsets = { train = 0.9, test = 0.1 }')
    batch = rows(opening=KEYS[:100])
    expected = np.array(["train", "test"])[split_keys(KEYS[:100], {"train": 9, "test": 1}, 3)]
    assert assign_sets(batch, by_hash) == expected.tolist()
    assert assign_sets(batch.slice(40, 9), by_hash) == expected[40:49].tolist()
    assert assign_sets(batch.slice(0, 0), by_hash) == []


def test_by_player():
    by_player = split_table('kind = "player"\nsets = { a = 1, b = 1 }')
    names = [f"player {k}" for k in range(400)]
    alone = np.array(assign_sets(rows(black=names, white=names), by_player))
    assert set(alone) == {"a", "b"}
    rng = np.random.default_rng(1)
    black, white = rng.integers(0, 400, (2, 3_000))
    found = assign_sets(rows(black=np.array(names)[black], white=np.array(names)[white]), by_player)
    assert found == [alone[b] if alone[b] == alone[w] else None for b, w in zip(black, white)]
    assert abs(found.count(None) - 1_500) < 300
    spelled = [f" {name.upper()} " for name in names]
    assert assign_sets(rows(black=spelled, white=names), by_player) == alone.tolist()
    nameless = rows(black=[None, "player 7", None], white=["player 7", None, None])
    assert assign_sets(nameless, by_player) == [None, None, None]


def test_by_date():
    by_date = split_table("""kind = "date"
        sets = { new = [2016-07-02, 2016-12-31], old = [1900-01-01, 2015-12-31], first = [2016-01-01, 2016-07-01] }""")
    days = {
        date(2015, 12, 31): "old", date(2016, 1, 1): "first", date(2016, 7, 1): "first", date(2016, 7, 2): "new",
        date(2016, 12, 31): "new", date(2017, 1, 1): None, date(1899, 12, 31): None, date(1900, 1, 1): "old",
    }  # fmt: skip
    batch = rows(date=list(days), year=[day.year for day in days])
    assert assign_sets(batch, by_date) == list(days.values())
    years = {2015: "old", 2016: None, 2017: None, None: None, 1900: "old", 1899: None, 1970: "old"}
    assert assign_sets(rows(year=list(years)), by_date) == list(years.values())


def test_by_archive():
    by_archive = split_table("""kind = "archive"
        sets = { test = ["KGS-2016_0[12]*", "x.zip"], train = ["KGS-*"] }""")
    archives = ["KGS-2016_01-19.zip", "KGS-2016_03-19.zip", "kgs-2016", "x.zip", "x_zip", "KGS-2016_02"]
    found = assign_sets(rows(archive=archives), by_archive)
    assert found == ["test", "train", None, "test", None, "test"]


def test_by_list(tmp_path):
    (tmp_path / "train.txt").write_text(f"\ufeff7\n\n0012\na.zip/one.sgf\r\n{2**64 - 1}\n", "utf-8")
    (tmp_path / "test.txt").write_text("a.zip/two/\u2028弈.sgf\n0\nb.zip/one.sgf", "utf-8")
    by_list = split_table(f'kind = "list"\nsets = {{ train = "{tmp_path}/train.txt", test = "{tmp_path}/test.txt" }}')
    games = [
        (7, "x", "x", "train"), (12, "x", "x", "train"), (2**64 - 1, "x", "x", "train"), (0, "x", "x", "test"),
        (1, "a.zip", "one.sgf", "train"), (2, "a.zip", "one.sgf", "train"), (3, "b.zip", "one.sgf", "test"),
        (4, "a.zip", "two/\u2028弈.sgf", "test"), (5, "a.zip", "two", None), (7, "b.zip", "one.sgf", "train"),
    ]  # fmt: skip
    ids, archives, members, expected = zip(*games)
    batch = rows(id=ids, archive=archives, member=members)
    assert assign_sets(batch, by_list) == list(expected)
    (tmp_path / "train.txt").unlink()
    assert assign_sets(batch.slice(3, 2), by_list) == list(expected[3:5])


def test_by_lists_without_ids_or_names(tmp_path):
    (tmp_path / "a.txt").write_text("a/b\n")
    (tmp_path / "b.txt").write_text("5\n")
    batch = rows(id=[5, 6], archive=["x", "a"], member=["b", "b"])
    for name, expected in (("a", [None, "s"]), ("b", ["s", None])):
        assert assign_sets(batch, split_table(f'kind = "list"\nsets = {{ s = "{tmp_path}/{name}.txt" }}')) == expected


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("7\n8x\n", SourceError, "line 2: '8x' is neither an id nor archive/member"),
        (f"{2**64}", SourceError, "line 1: .* neither"),
        ("٣", SourceError, "line 1: .* neither"),
        ("\x80", SourceError, "cannot read the list"),
        ("9\n", RecipeError, "9 is on the lists of two sets, other and s"),
        (None, SourceError, "cannot read the list .*No such file"),
    ],
)
def test_invalid_lists(tmp_path, text, error, message):
    (tmp_path / "other.txt").write_text("009")
    if text is not None:
        (tmp_path / "s.txt").write_bytes(text.encode("latin-1" if text == "\x80" else "utf-8"))
    by_list = split_table(f'kind = "list"\nsets = {{ other = "{tmp_path}/other.txt", s = "{tmp_path}/s.txt" }}')
    with pytest.raises(error, match=message):
        assign_sets(rows(id=[1]), by_list)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('kind = "hash"\nsets = {}', "split.sets"),
        ('kind = "hash"\nsets = { a = 0 }', "split.sets.a must be > 0, got 0"),
        ('kind = "hash"\nsets = { a = true }', "split.sets.a must be a number, got true"),
        ('kind = "hash"\nsets = { a = nan }', "got NaN"),
        ('kind = "hash"\nseed = -1\nsets = { a = 1 }', "seed"),
        ('kind = "hash"\nsets = { a = 1 }\ndates = 1', "dates"),
        ('kind = "player"', "is missing"),
        ('kind = "moon"\nsets = { a = 1 }', "'hash', 'player', 'date', 'archive', 'list'"),
        ('kind = "date"\nsets = { a = [2016-01-01, 2015-01-01] }', "'a' ends before it begins"),
        ('kind = "date"\nsets = { a = [2016-01-01, 2016-02-01], b = [2015-01-01, 2016-01-01] }', "overlap"),
        ('kind = "date"\nsets = { a = [2016-01-01] }', "is missing"),
        ('kind = "date"\nsets = { a = [2016, 2017] }', "must be a date"),
        ('kind = "archive"\nsets = { a = "KGS*" }', "must be a list"),
        ('kind = "list"\nsets = { a = 1 }', "must be text"),
    ],
)
def test_invalid_tables(text, message):
    with pytest.raises(RecipeError, match=message):
        split_table(text)


def test_columns_of_a_split():
    texts = [
        'kind = "hash"\nsets = { a = 1 }', 'kind = "player"\nsets = { a = 1 }',
        'kind = "date"\nsets = { a = [2016-01-01, 2016-02-01] }', 'kind = "archive"\nsets = { a = ["*"] }',
    ]  # fmt: skip
    batch = rows(black=["x"], white=["x"], date=[date(2016, 1, 5)])
    for each in map(split_table, texts):
        assert assign_sets(batch.select(list(each.columns)), each) == ["a"]


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
    assert about["of"] == [{"blake3": hash_file(path), "about": {"read": 400}}]
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
        ("split.sets={}", "split hash: split.sets must be 1 or more values, got {}"),
        ("split.kind=moon", "split hash: split.kind must be 'hash', 'player', 'date', 'archive', 'list', got \"moon\""),
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
