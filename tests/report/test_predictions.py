"""`kifu predict`: text, pictures, JSON and error messages."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

import kifu
from commands import lines_of, run
from kifu.learn.positions import NetPositions
from lazy import lazy_import
from nets import tiny_net

learn = lazy_import("kifu.learn")
report = lazy_import("kifu.report")


GAME = b"(;SZ[9]PB[Ada]PW[Bob]HA[2]AB[gc][cg];W[ee];B[ef];W[];B[de])"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("predict")
    (folder / "game.sgf").write_bytes(GAME)
    (folder / "two.sgf").write_bytes(b"(;SZ[9];B[aa];W[bb])(;SZ[9:7];B[cc];W[dd])")
    (folder / "bad.sgf").write_bytes(b"(;SZ[9];B[aa];W[aa];B[bb])")
    (folder / "large.sgf").write_bytes(b"(;SZ[19];B[aa];W[bb])")
    tiny_net(folder / "all.safetensors", passes=True, heads=("value", "ownership"))
    tiny_net(folder / "points.safetensors")
    tiny_net(folder / "fixed.safetensors", "book-small")
    run_folder = folder / "run"
    run_folder.mkdir()
    tiny_net(run_folder / "best.safetensors", passes=True)
    return folder


def predicted(path: Path, ply: int) -> tuple[np.ndarray, list[str], list[float]]:
    """Return all probabilities, and names and probabilities of the five best moves, after `ply` moves."""
    positions = NetPositions.from_games([kifu.read_sgf(GAME)], [ply])
    predictions = learn.net.open_net(path).evaluate(positions)
    moves, probabilities = predictions.top(5)
    names = [kifu_name(move) for move in moves[0].tolist()]
    return predictions.policy[0], names, probabilities[0].tolist()


def kifu_name(move: int) -> str:
    return "pass" if move == 81 else "ABCDEFGHJ"[move % 9] + str(9 - move // 9)


def test_the_board_and_the_best_moves(folder: Path) -> None:
    lines = lines_of(run("predict", "--net", folder / "all.safetensors", folder / "game.sgf", "--move", 1))
    policy, names, probabilities = predicted(folder / "all.safetensors", 1)
    board = str(kifu.read_sgf(GAME).board(1)).splitlines()
    assert lines[0].startswith("Ada - Bob, 4 moves, 9 x 9")
    assert lines[2 : 2 + len(board)] == board
    assert lines[2 + len(board)] == "after 1 of 4 moves; Black to play"
    best = [line.split() for line in lines[4 + len(board) : 9 + len(board)]]
    assert best == [[str(k), name, f"{p:.1%}"] for k, (name, p) in enumerate(zip(names, probabilities), 1)]
    rank = 1 + int((policy > policy[49]).sum())
    assert lines[10 + len(board)] == f"played: E4 {policy[49]:.1%}, choice {rank}"
    value = (
        learn.net.open_net(folder / "all.safetensors")
        .evaluate(NetPositions.from_games([kifu.read_sgf(GAME)], [1]))
        .value
    )
    assert lines[11 + len(board) :] == [f"Black's probability of winning: {(value[0] + 1) / 2:.0%}"]


@pytest.mark.parametrize(
    ("name", "move", "last"),
    [
        ("points", 2, "played: pass (not predicted by this net)"),
        ("run", 2, "played: pass "),
        ("points", 4, "5  "),  # nothing was played
    ],
)
def test_passes_and_the_end_of_the_game(folder: Path, name: str, move: int, last: str) -> None:
    path = folder / name if name == "run" else folder / f"{name}.safetensors"
    lines = lines_of(run("predict", "--net", path, folder / "game.sgf", "--move", move))
    assert lines[-1].startswith(last)
    if move == 4:
        assert lines == lines_of(run("predict", "--net", path, folder / "game.sgf"))


def test_json(folder: Path, tmp_path: Path) -> None:
    arguments = ("predict", "--net", folder / "all.safetensors", folder / "game.sgf", "--move", 2, "--top", 3)
    written = tmp_path / "prediction.json"
    printed = run(*arguments, "--json", "-")
    assert lines_of(run(*arguments, "--json", written))[0].startswith("Ada - Bob")
    assert written.read_text() == printed.out
    policy, names, probabilities = predicted(folder / "all.safetensors", 2)
    found = json.loads(printed.out)
    rows = np.array(found.pop("policy"))
    assert rows.shape == (9, 9)
    np.testing.assert_allclose(rows.ravel(), policy[:81], atol=1e-6)
    assert found.pop("best") == [{"move": name, "p": round(p, 6)} for name, p in zip(names[:3], probabilities)]
    assert found.pop("value") == pytest.approx(
        learn.net.open_net(folder / "all.safetensors")
        .evaluate(NetPositions.from_games([kifu.read_sgf(GAME)], [2]))
        .value[0],
        abs=1e-6,
    )
    probability = round(float(policy[81]), 6)
    assert found == {
        "net": "all", "game": str(kifu.read_sgf(GAME)), "move": 2, "to_play": "white", "pass": probability,
        "played": {"move": "pass", "p": probability}, "ownership": None,
    }  # fmt: skip


def test_json_without_heads_and_passes(folder: Path) -> None:
    found = json.loads(run("predict", "--net", folder / "points.safetensors", folder / "game.sgf", "--json", "-").out)
    assert [found[key] for key in ("pass", "played", "value", "ownership")] == [None] * 4
    assert sum(map(sum, found["policy"])) == pytest.approx(1, abs=1e-4)


def test_symmetries(folder: Path) -> None:
    net, arguments = folder / "all.safetensors", (folder / "game.sgf", "--move", 3, "--json", "-", "--symmetries")
    policy = np.array(json.loads(run("predict", "--net", net, *arguments).out)["policy"])
    positions = NetPositions.from_games([kifu.read_sgf(GAME)], [3])
    wanted = learn.net.open_net(net, symmetries=True).evaluate(positions).policy[0, :81]
    np.testing.assert_allclose(policy.ravel(), wanted, atol=1e-6)


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_the_heat_map(folder: Path, tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = {}
    board = report.predictions.draw_board
    monkeypatch.setattr(
        report.predictions, "draw_board", lambda stones, **options: drawn.update(options) or board(stones, **options)
    )
    out = tmp_path / f"heat{suffix}"
    lines_of(run("predict", "--net", folder / "all.safetensors", folder / "game.sgf", "--move", 1, "-o", out))
    data = out.read_bytes()
    if suffix == ".png":
        assert data.startswith(b"\x89PNG\r\n\x1a\n")
    else:
        assert ET.fromstring(data).tag == "{http://www.w3.org/2000/svg}svg"
    policy, names, probabilities = predicted(folder / "all.safetensors", 1)
    marked = [kifu_name(move) for move in sorted(drawn["marks"], key=drawn["marks"].get)]
    assert marked == [name for name in names if name != "pass"]
    assert (drawn["ring"], drawn["last"]) == (49, 40)
    assert all(f"{k}: {name} {p:.1%}" in drawn["title"] for k, (name, p) in enumerate(zip(names, probabilities), 1))
    assert "Ada - Bob, after 1 of 4 moves" in drawn["title"]
    assert (drawn["heat"].ravel() == report.predictions.color_strength(policy[:81])).all()


def test_color_strength() -> None:
    found = report.predictions.color_strength(np.array([0.64, 0.16, 0.2, 0], np.float32))
    np.testing.assert_allclose(found, [0.8, 0, 0, 0], atol=1e-6)  # a quarter each would be uniform
    assert report.predictions.color_strength(np.array([0.3, 0.3, 0.4], np.float32))[:2].tolist() == [0, 0]


def test_choice_of_the_game(folder: Path) -> None:
    lines = lines_of(
        run("predict", "--net", folder / "points.safetensors", folder / "two.sgf", "--game", 2, "--move", 0)
    )
    assert ", 9 x 7" in lines[0]


def test_the_packaged_net_is_the_default(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learn.net, "packaged_net", lambda name: folder / "points.safetensors")
    lines = lines_of(run("predict", folder / "game.sgf", "--move", 1))
    assert lines == lines_of(run("predict", "--net", folder / "points.safetensors", folder / "game.sgf", "--move", 1))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["points.safetensors", "game.sgf", "--move", 5], "move must be within 0 to 4, got 5"),
        (["points.safetensors", "bad.sgf", "--move", 3], "move 2 (point 0) is illegal"),
        (["points.safetensors", "two.sgf", "--game", 3], "game must be within 1 to 2, got 3"),
        (["fixed.safetensors", "large.sgf"], "supports 9 x 9 boards only, got 19 x 19"),
        (["none.safetensors", "game.sgf"], "cannot read the net"),
        (["cut.safetensors", "game.sgf"], "is damaged: its bytes do not have its checksum"),
        (["game.sgf", "game.sgf"], "is not a net of kifu"),
        (["other.safetensors", "game.sgf"], "is damaged: its bytes do not have its checksum"),
        (["points.safetensors", "none.sgf"], "none.sgf"),
        (["points.safetensors", "game.sgf", "-o", "heat.txt"], "the suffix must be .png or .svg, got '.txt'"),
    ],
)
def test_bad_input(folder: Path, arguments: list[object], words: str) -> None:
    whole = (folder / "points.safetensors").read_bytes()
    (folder / "cut.safetensors").write_bytes(whole[: len(whole) // 2])
    (folder / "other.safetensors").write_bytes(whole.replace(b"seven@1", b"agz17@1"))
    done = run("predict", "--net", *(folder / a if "." in str(a) else a for a in arguments))
    assert (done.code, done.out, len(done.err)) == (2, "", 1)
    assert words in done.err[0]
