"""KataGo's training files from records: selection of games, and the requirements of KataGo's scripts."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from catalogues import rows, write_catalogue
from commands import run, tree
from kgs_archives import archive, record
from kifu.corpus.catalogue import open_catalogue
from kifu.datasets.manifest import Manifest, find_origin
from kifu.errors import RecipeError
from kifu.execution.executor import Executor
from kifu.katago import build as building
from kifu.katago import select
from kifu.katago.npz import ARRAYS, game_hashes
from kifu.katago.select import KatagoRecipe
from kifu.point import WHITE_BIT, to_sgf
from kifu.recipes import pipeline
from kifu.recipes.pipeline import BuildReport
from kifu.recipes.schema import load_recipe

HEAD = "GM[1]FF[4]SZ[19]RU[Japanese]KM[6.5]RE[W+R]"


def recipe(*changes: str) -> KatagoRecipe:
    found = load_recipe("katago", ['split={kind="hash", sets={all=1.0}}', "compression=fast", *changes])
    assert isinstance(found, KatagoRecipe)
    return found


def game(head: str = HEAD, plies: int = 70, passes: tuple[int, ...] = (), size: int = 19, **words: str) -> str:
    """Rows of Black and White without captures. passes: their plies. words: moves at other plies, `m5=";W[pd]"`."""
    text = f"(;{head}"
    columns = {side: iter(range(size * size)) for side in "BW"}
    for ply in range(plies):
        side = "BW"[ply % 2]
        if (at := words.get(f"m{ply}")) is not None:
            text += at
            continue
        k = next(columns[side])
        y, x = divmod(k, size)
        point = (4 * y + 2 * (side == "W")) * size + x
        text += f";{side}[{'' if ply in passes else to_sgf(point, size)}]"
    return text + ")"


def write(folder: Path, *games: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for k, text in enumerate(games):
        (folder / f"{k:03}.sgf").write_text(text)
    return folder


def build(source: Path, into: Path, *changes: str, jobs: int | None = None) -> BuildReport[Manifest]:
    with Executor(jobs) as executor:
        (built,) = pipeline.build_any(recipe(*changes), source, into, pipeline.BuildOptions(executor))
    assert built.manifest.adds_up()
    return built


def arrays(path: Path) -> dict[str, Any]:
    parts = [np.load(file) for file in sorted(path.glob("*.npz"))]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0].files}


def plies_of(path: Path) -> list[int]:
    targets = arrays(path)["globalTargetsNC"]
    return (targets[:, 51] + targets[:, 53]).astype(int).tolist()


# Which games

CUT = 'clean={name="cut", title="cut", illegal="cut"}'

ODD: list[tuple[str, str, str, list[str], list[int] | None]] = [
    # name, record, its drop reason, the option that keeps it, its plies then (None: all 70)
    ("no RU", game("SZ[19]KM[6.5]RE[W+R]"), "RULES_UNKNOWN", ["default_rules=japanese"], None),
    ("no KM", game("SZ[19]RU[AGA]RE[W+R]"), "KOMI_UNKNOWN", ["default_komi=7.5"], None),
    ("an odd RU", game("SZ[19]RU[mine]KM[6.5]"), "RULES_UNKNOWN", [], None),
    ("an odd KM", game("SZ[19]RU[AGA]KM[6.3]"), "KOMI_UNKNOWN", [], None),
    ("a textual KM", game("SZ[19]RU[AGA]KM[unknown]"), "KOMI_UNKNOWN", [], None),
    ("a textual HA", game(HEAD + "HA[two]"), "BAD_HANDICAP", ["handicap=false"], None),
    ("a large HA", game(HEAD + "HA[10]"), "HANDICAP_LARGE", ["handicap=false"], None),
    ("an odd RE", game("SZ[19]RU[AGA]KM[7]RE[who knows]"), "UNFINISHED", ["results=any"], None),
    ("a huge score", game("SZ[19]RU[AGA]KM[7]RE[B+400]"), "HUGE_SCORE", ["results=any"], None),
    ("short", game(plies=59), "TOO_SHORT", ["min_moves=59"], list(range(59))),
    ("short for its passes", game(passes=(59, 60), plies=61), "TOO_SHORT", ["min_moves=0"], list(range(59))),
    ("long", game(plies=70), "TOO_LONG", ["max_moves=70"], None),
    ("a pass after the opening", game(passes=(30,)), "EARLY_PASS", ["early_passes=false"],
     [t for t in range(70) if t not in (30, 31)]),
    ("handicap as moves", game(m1=";B[pd]", m2=";B[qd]"), "NOT_ALTERNATING", ["handicap_moves=begin"],
     list(range(2, 70))),
    ("twice in a row later", game(m41=";B[pq]", m42=";W[qq]", m43=";B[rq]"), "NOT_ALTERNATING", ["alternating=false"],
     None),
    ("an illegal move", game(m65=";W[aa]"), "OCCUPIED", [CUT, "illegal=cut"],
     list(range(65))),
    ("a suicide", game(m60=";B[rs]", m61=";W[ss]", m62=";B[rr]", m64=";B[sq]", m65=";W[sr]"), "SUICIDE",
     ["illegal=cut"], list(range(65))),
    ("setup after the root", game(m64=";AB[pq];B[qq]"), "SETUP_LATER", ["illegal=cut"], list(range(64))),
    ("dead setup", game(HEAD + "AB[ss]AW[rs][sr]"), "SETUP_DEAD", [], None),
    ("setup twice", game(HEAD + "AB[qq]AW[qq]"), "SETUP_TWICE", [], None),
]  # fmt: skip


@pytest.mark.parametrize(("record", "why", "changes", "plies"), [each[1:] for each in ODD], ids=[e[0] for e in ODD])
def test_odd_games_are_dropped_or_kept_as_configured(
    tmp_path: Path, record: str, why: str, changes: list[str], plies: list[int] | None
) -> None:
    source = write(tmp_path / "games", record)
    built = build(source, tmp_path / "a", *(["max_moves=69"] if why == "TOO_LONG" else []))
    assert built.manifest.drops == {why: 1}
    assert built.manifest.examples == 0
    if changes:
        other = build(source, tmp_path / "b", *changes)
        assert other.manifest.drops == {}
        assert plies_of(other.path) == (list(range(70)) if plies is None else plies)


def test_an_ordinary_game_is_used_whole(tmp_path: Path) -> None:
    built = build(write(tmp_path / "games", game()), tmp_path)
    assert plies_of(built.path) == list(range(70))
    targets = arrays(built.path)["globalTargetsNC"]
    assert targets[:2, :2].tolist() == [[0, 1], [1, 0]]
    assert np.all(targets[:, 35] == 0)


def test_passes_and_answers_to_passes_have_no_rows(tmp_path: Path) -> None:
    built = build(write(tmp_path / "games", game(plies=90, passes=(5, 60, 88, 89))), tmp_path)
    # A pass in the opening: the game begins after the answer to it.
    assert plies_of(built.path) == [t for t in range(7, 88) if t not in (60, 61)]
    targets = arrays(built.path)["globalTargetsNC"]
    assert np.all(targets[:, 53] == 7)
    assert targets[:, 28].tolist() == [float(t not in (59, 87)) for t in plies_of(built.path)]


def test_rows_stop_at_the_end_of_the_game(tmp_path: Path) -> None:
    built = build(write(tmp_path / "games", game(plies=90, passes=(70, 71))), tmp_path)
    assert plies_of(built.path) == list(range(70))
    assert built.manifest.drops == {}


def test_small_boards_are_in_the_upper_left_corner(tmp_path: Path) -> None:
    source = write(tmp_path / "games", game("SZ[9]RU[Chinese]KM[7]RE[B+3]", plies=26, size=9))
    built = build(source, tmp_path)
    found = arrays(built.path)
    board = np.unpackbits(found["binaryInputNCHWPacked"][0, 0])[:361].reshape(19, 19)
    assert board[:9, :9].all()
    assert board.sum() == 81
    assert found["policyTargetsNCMove"][1, 0].argmax() == 38  # White's first move is on the third line
    assert build(source, tmp_path / "b", 'boards=["19x19"]').manifest.drops == {"WRONG_SIZE": 1}


@pytest.mark.parametrize(("width", "height"), [(1, 19), (19, 1), (20, 19), (25, 25)])
def test_unsupported_board_sizes_are_dropped(tmp_path: Path, width: int, height: int) -> None:
    columns = {"rules": ["aga"], "komi": [7.0], "width": [width], "height": [height], "moves": [[0, 2 | WHITE_BIT]]}
    built = build(write_catalogue(tmp_path / "some.parquet", rows(**columns)), tmp_path, "min_moves=0")
    assert built.manifest.drops == {"WRONG_SIZE": 1}


@pytest.mark.parametrize(
    ("result", "known", "weight"),
    [("B+R", True, 1), ("W+3.5", True, 1), ("B+T", True, 0.5), ("W+F", True, 0), ("0", True, 1), ("Void", False, 0),
     ("?", False, 0), (None, False, 0)],
)  # fmt: skip
def test_results_are_weighted_by_trust(tmp_path: Path, result: str | None, known: bool, weight: float) -> None:
    source = write(tmp_path / "games", game("SZ[19]RU[AGA]KM[7]" + (f"RE[{result}]" if result else "")))
    targets = arrays(build(source, tmp_path / "a").path)["globalTargetsNC"]
    assert np.all(targets[:, 35] == 1 - weight)
    strict = build(source, tmp_path / "b", "results=known")
    assert strict.manifest.drops == ({} if known else {"UNFINISHED": 1})
    untrusted = build(source, tmp_path / "c", "trust={}")
    assert np.all(arrays(untrusted.path)["globalTargetsNC"][:, 35] == 1)


# The files


@pytest.fixture(scope="module")
def kgs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kgs")
    games = [record(k, 80, 2 + k % 4 if k % 4 == 3 else 0) for k in range(40)]
    records = [each.replace(b"SZ[19]", b"SZ[19]RU[Chinese]KM[7.5]RE[B+R]BR[3d]DT[2006-07-0%d]" % (k % 9 + 1))
            for k, each in enumerate(games)]  # fmt: skip
    archive(folder, [*records, b"(;SZ[9];B[dd])"], year=2006)
    return folder


LOOSE = ("min_moves=0", "early_passes=false", "illegal=cut")


def test_files_meet_the_requirements_of_katagos_scripts(kgs: Path, tmp_path: Path) -> None:
    """Check what shuffle.py and train.py of v1.17.2 require."""
    built = build(kgs, tmp_path, *LOOSE, "rows_per_file=1000", "metadata=kgs")
    files = sorted(built.path.rglob("*.npz"))
    assert len(files) > 1
    for file in files:
        assert "_" not in file.name
        with np.load(file, allow_pickle=False) as found:
            assert set(found.files) == {array.name for array in ARRAYS}
            count = len(found["binaryInputNCHWPacked"])
            for array in ARRAYS:
                assert (found[array.name].dtype, found[array.name].shape) == (array.dtype, (count, *array.shape))
            assert found["policyTargetsNCMove"].sum(2).min() > 0
            assert (found["scoreDistrN"].astype(int).sum(1) == 100).all()
            targets = found["globalTargetsNC"]
            assert np.isfinite(targets).all()
            assert np.isfinite(found["metadataInputNC"]).all()
            for weight in (25, 26, 27, 28, 29, 33, 34):
                assert targets[:, weight].min() >= 0
        assert json.loads(file.with_suffix(".json").read_text()) == {"num_rows": count}
        assert zipfile.ZipFile(file).testzip() is None
    plain = build(kgs, tmp_path / "plain", *LOOSE)
    assert set(arrays(plain.path)) == {array.name for array in ARRAYS} - {"metadataInputNC"}


def test_bytes_do_not_depend_on_threads_or_chunks(kgs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = build(kgs, tmp_path / "a", *LOOSE, "rows_per_file=700", jobs=1)
    monkeypatch.setattr(select, "_GAMES", 7)
    monkeypatch.setattr(building, "_GAMES", 3)
    monkeypatch.setattr(building, "_PIECES", 1)
    second = build(kgs, tmp_path / "b", *LOOSE, "rows_per_file=700", jobs=2)
    assert tree(first.path) == tree(second.path)
    assert first.manifest == second.manifest


def test_splits_keep_games_whole(kgs: Path, tmp_path: Path) -> None:
    found = load_recipe("katago", [*LOOSE, "compression=fast", "split.sets={train=2.0, val=1.0}"])
    assert isinstance(found, KatagoRecipe)
    train, val = pipeline.build(found, kgs, tmp_path)
    assert (train.path, val.path) == (tmp_path / "train", tmp_path / "val")
    keys = [game_hashes(arrays(built.path)["globalTargetsNC"])[:, 0] for built in (train, val)]
    (batch,) = open_catalogue(tmp_path / "games.parquet").batches(("id", "drop", "n_moves"))
    kept = [each["id"] for each in batch.to_pylist() if each["drop"] is None]
    assert not set(keys[0].tolist()) & set(keys[1].tolist())
    assert {*keys[0].tolist(), *keys[1].tolist()} <= set(kept)
    assert len(set(keys[1].tolist())) > 3
    for built, key in zip((train, val), keys):
        m = built.manifest
        assert m.adds_up()
        assert m.read == len(batch)
        assert m.examples == len(key)
        assert m.kept + m.elsewhere + sum(m.drops.values()) == len(batch)
        ids = batch["id"].to_pylist()
        targets = arrays(built.path)["globalTargetsNC"]
        for row in (0, len(key) // 2, len(key) - 1):
            origin = find_origin(m, built.path, row)
            assert ids[origin.member] == key[row]
            assert origin.ply == targets[row, 51] + targets[row, 53]


# The recipe and the command


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("default_rules=mine", "default_rules"),
        ("default_komi=6.3", "default_komi must be a multiple of 0.5, got 6.3"),
        ('boards=["1x9"]', "boards must be from 2x2 to 19x19, got 1x9"),
        ('boards=["big"]', "board must be like 19x19, got 'big'"),
        ("min_moves=few", "min_moves"),
        ("trust.score=2", "trust.score"),
        ("metadata=here", "metadata"),
        ("rows_per_file=0", "rows_per_file"),
        ('sets=["test"]', "unknown set 'test'"),
        ("format=npy", "format"),
    ],
)
def test_invalid_recipes_raise(change: str, message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        load_recipe("katago", [change])


def test_command(kgs: Path, tmp_path: Path) -> None:
    sets = [word for change in (*LOOSE, "compression=fast") for word in ("--set", change)]
    done = run("build", "katago", kgs, "--output", tmp_path, *sets, "--sets", "val")
    assert done.code == 0
    assert "examples" in done.out
    assert "41 games = " in done.out
    refused = run("build", "katago", kgs, "--output", tmp_path, "--index", "page.html")
    assert (refused.code, refused.out) == (2, "")
    assert "no option index" in refused.err[0]
    assert "katago" in run("list", "recipes").out
    assert run("list", "recipes", "katago").out.startswith("# Training files for KataGo")


def test_the_tutorial_mentions_every_option_and_drop_reason() -> None:
    text = Path(__file__).parents[2].joinpath("docs", "katago.md").read_text("utf-8")
    for key in KatagoRecipe.model_fields.keys() - {"kind", "name", "title"}:
        assert f"`{key}" in text, key
    for _, _, why, changes, _ in ODD:
        assert why.lower().replace("_", " ") in text, why
        for change in set(changes) - {CUT}:
            assert f"`{change.partition('=')[0]}=" in text, change
