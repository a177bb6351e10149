"""The bundled sample: what its archive holds, and the script that made it, as far as that goes without GNU Go."""

from __future__ import annotations

import gzip
import importlib.util
import re
import sys
import tarfile
from collections import Counter
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from sgfmill import sgf
from sgfmill.boards import Board

import kifu
from kifu.point import symmetries

ARCHIVES = sorted((Path(kifu.__file__).parent / "assets" / "sample").glob("*.tar.gz"))
SCRIPT = Path(__file__).parents[1] / "tools" / "make_sample.py"

# One property a line and one move a line, as KGS wrote it in its first years.
RECORD = re.compile(
    r"\(;GM\[1]\nFF\[4]\nSZ\[19]\nPW\[gnugo\d]\nWR\[\d+k]\nPB\[gnugo\d]\nBR\[\d+k]\nDT\[2025-\d\d-\d\d]\nPC\[[^]]+]\n"
    r"KM\[[06]\.50]\n(RE\[[BW]\+(Resign|\d+\.\d0)]\n)?RU\[(Japanese|Chinese)]\nCA\[UTF-8]\n"
    r"(HA\[[2-9]]\nAB(\[[a-s]{2}]){2,9}\n)?(;[BW]\[([a-s]{2}|tt)?]\n)+\)\n"
)


@pytest.fixture(scope="module")
def archive() -> Path:
    assert len(ARCHIVES) == 1
    return ARCHIVES[0]


@pytest.fixture(scope="module")
def records(archive: Path) -> dict[str, bytes]:
    """The records by name, without the folder's."""
    with tarfile.open(archive) as tar:
        return {Path(m.name).name: tar.extractfile(m).read() for m in tar.getmembers()[1:]}


@pytest.fixture(scope="module")
def games(records: dict[str, bytes]) -> dict[str, sgf.Sgf_game]:
    return {name: sgf.Sgf_game.from_bytes(record) for name, record in records.items()}


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_sample", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules["make_sample"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def moves_of(game: sgf.Sgf_game) -> list[tuple[str, tuple[int, int] | None]]:
    return [node.get_move() for node in game.get_main_sequence()[1:]]


def test_the_archive_is_laid_out_like_those_of_kgs(archive: Path) -> None:
    with tarfile.open(archive) as tar:
        folder, *members = tar.getmembers()
    assert folder.isdir()
    assert folder.name == "kgs-19-2025"
    names = [member.name for member in members]
    assert names == sorted(set(names))
    assert all(re.fullmatch(r"kgs-19-2025/2025-\d\d-\d\d-\d+\.sgf", name) for name in names)
    assert archive.name == f"KGS-2025-19-{len(names)}-.tar.gz"
    assert len(names) >= 300
    assert archive.stat().st_size < 400_000
    assert len({(member.mtime, member.uid, member.gid) for member in [folder, *members]}) == 1
    assert archive.read_bytes()[4:8] == bytes(4)  # gzip's own time stamp


def test_every_record_is_in_the_style_of_kgs(records: dict[str, bytes]) -> None:
    assert [name for name, record in records.items() if not RECORD.fullmatch(record.decode("ascii"))] == []


def test_every_move_is_legal_and_colours_alternate(games: dict[str, sgf.Sgf_game]) -> None:
    for name, game in games.items():
        root = game.get_root()
        black, white, empty = root.get_setup_stones()
        handicap = game.get_handicap() or 0
        assert (game.get_size(), len(black), white, empty) == (19, handicap, set(), set()), name
        board, forbidden = Board(19), None
        board.apply_setup(black, white, empty)
        to_play = "w" if handicap else "b"
        for ply, (colour, point) in enumerate(moves_of(game)):
            assert colour == to_play, (name, ply)
            if point is None:
                forbidden = None
            else:
                assert point != forbidden, (name, ply)
                forbidden = board.play(*point, colour)  # raises on an occupied point
                assert board.get(*point) == colour, (name, ply)  # no suicide
            to_play = "b" if to_play == "w" else "w"


def test_no_two_games_are_alike(games: dict[str, sgf.Sgf_game]) -> None:
    """Not even in their first 50 moves, under symmetry and with swapped colours."""
    seen: dict[bytes, str] = {}
    for name, game in games.items():
        points = np.array([361 if p is None else (18 - p[0]) * 19 + p[1] for _, p in moves_of(game)][:50])
        assert len(points) == 50, name
        alike = min(row[points].tobytes() for row in symmetries(19, 19))
        assert seen.setdefault(alike, name) == name


def test_the_games_are_of_many_kinds(games: dict[str, sgf.Sgf_game], records: dict[str, bytes]) -> None:
    kinds: Counter[object] = Counter()
    for name, game in games.items():
        root = game.get_root()
        result = root.get("RE") if root.has_property("RE") else "none"
        kinds.update(
            {f"handicap {game.get_handicap() or 0}", f"komi {game.get_komi()}", root.get("RU"), root.get("PB")}
        )
        kinds[re.sub(r"[\d.]+$", "points", result)] += 1
        ends_by_passes = [point for _, point in moves_of(game)[-2:]] == [None, None]
        assert ends_by_passes == (result[2:3].isdigit()), name
        assert (result == "none") == (len(moves_of(game)) == 400 and not ends_by_passes), name
        kinds["pass as []"] += b"[]" in records[name]
        kinds["pass as [tt]"] += b"[tt]" in records[name]
    assert all(kinds[f"handicap {stones}"] >= 1 for stones in range(2, 10)), kinds
    assert kinds["handicap 0"] > len(games) / 2
    assert all(kinds[f"gnugo{level}"] >= 1 for level in (1, 2, 3, 5, 8)), kinds
    many = ["B+Resign", "W+Resign", "B+points", "W+points", "komi 0.5", "komi 6.5", "Chinese", "Japanese", "pass as []"]
    assert all(kinds[kind] >= 10 for kind in many), kinds
    assert kinds["pass as [tt]"] >= 1


def test_the_script_still_plans_these_games(records: dict[str, bytes], script: ModuleType) -> None:
    plans = [script.make_plan(1, k) for k in range(len(records))]
    assert sorted(plan.name for plan in plans) == list(records)
    for plan in plans:
        record = records[plan.name].decode("ascii")
        moves = re.findall(r";[BW]\[(.*)]", record)
        opening = [chr(97 + point % 19) + chr(97 + point // 19) for point in plan.opening]
        assert moves[: len(opening)] == opening, plan.name
        pass_move = script.PASS
        written = {"": pass_move, "tt": pass_move}
        stones = re.search(r"\nAB(.*)\n", record)
        result = re.search(r"\nRE\[(.*)]", record)
        played = script.Played(
            tuple(flat(value) for value in re.findall(r"\w\w", stones[1])) if stones else (),
            tuple(written.get(value) or flat(value) for value in moves),
            result[1] if result else None,
        )
        assert script.sgf(plan, played) == record


def flat(value: str) -> int:
    return (ord(value[1]) - 97) * 19 + ord(value[0]) - 97


def test_packing_the_same_games_gives_the_same_archive(
    archive: Path, records: dict[str, bytes], script: ModuleType, tmp_path: Path
) -> None:
    for name, record in records.items():
        (tmp_path / name).write_bytes(record)
    plans = [script.make_plan(1, k) for k in range(len(records))]
    first = script.pack(plans, tmp_path, tmp_path)
    assert first.name == archive.name
    # Inflated, because another zlib may deflate to other bytes.
    assert gzip.decompress(first.read_bytes()) == gzip.decompress(archive.read_bytes())
    again = first.read_bytes()
    assert script.pack(plans[::-1], tmp_path, tmp_path).read_bytes() == again


def test_no_name_twice_in_a_year_of_games(script: ModuleType) -> None:
    names = {script.make_plan(1, k).name for k in range(3000)}
    assert len(names) == 3000


FAKE = """#!/bin/sh
while read -r command rest; do
    case "$command" in
        boardsize|komi|level|play) printf '= \\n\\n' ;;
        genmove) {genmove} ;;
        *) printf '? unknown command\\n\\n' ;;
    esac
done
"""


def even_plan(script: ModuleType) -> object:
    return next(plan for k in range(99) if not (plan := script.make_plan(1, k)).handicap)


@pytest.mark.parametrize(
    ("genmove", "message"),
    [
        ("exit 0", r"gnugo answered '' to 'genmove \w+', expected '= ...' \(it ended, or was stopped"),
        ("printf '? no\\n\\n'", r"gnugo answered '\? no' to 'genmove \w+'"),
        ("printf '= PASS\\n\\n'", r"gnugo answered '\? unknown command' to 'final_score'"),
    ],
)
def test_a_gnugo_that_fails_is_told_and_leaves_no_record(
    script: ModuleType, tmp_path: Path, genmove: str, message: str
) -> None:
    program = tmp_path / "gnugo"
    program.write_text(FAKE.format(genmove=genmove))
    program.chmod(0o755)
    with pytest.raises(script.SampleError, match=message):
        script.play_into(str(program), even_plan(script), tmp_path / "game.sgf")
    assert [path.name for path in tmp_path.iterdir()] == ["gnugo"]


def test_a_second_run_plays_only_what_is_missing(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "gnugo"
    program.write_text(FAKE.format(genmove="printf '= resign\\n\\n'"))
    program.chmod(0o755)
    plans = [plan for k in range(40) if not (plan := script.make_plan(1, k)).handicap][:3]
    monkeypatch.setattr(script, "find_gnugo", lambda: str(program))
    kept = tmp_path / plans[1].name
    kept.write_text("kept")
    script.play_missing(plans, tmp_path, jobs=2)
    assert capsys.readouterr().out.count("of 2 games") == 2
    assert kept.read_text() == "kept"
    side = "B" if len(plans[0].opening) % 2 else "W"  # who wins when the one to move resigns
    assert f"RE[{side}+Resign]" in (tmp_path / plans[0].name).read_text()
    monkeypatch.setattr(script, "find_gnugo", lambda: pytest.fail("nothing is missing"))
    script.play_missing(plans, tmp_path, jobs=2)


def test_a_missing_gnugo_is_one_clear_line(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(script.shutil, "which", lambda *_, **__: None)
    monkeypatch.setattr(sys, "argv", ["make_sample", "--out", str(tmp_path / "out"), "--work", str(tmp_path / "work")])
    assert script.main() == 2
    assert capsys.readouterr().err.splitlines() == [
        "make_sample: gnugo is neither on the PATH nor in /usr/games (Debian: apt-get install gnugo)"
    ]
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize(
    ("estimate", "margin", "handicap", "leader"),
    [
        ("W+65.0 (upper bound: 79.0, lower: 51.0)", 20, 0, "W"),
        ("W+20.0 (upper bound: 20.0, lower: 20.0)", 20, 0, ""),
        ("B+45.0 (upper bound: -45.0, lower: -45.0)", 20, 3, ""),
        ("B+55.0 (upper bound: -55.0, lower: -55.0)", 20, 3, "B"),
        ("W+25.0 (upper bound: 25.0, lower: 25.0)", 20, 3, "W"),
        ("0 (upper bound: 0.0, lower: 0.0)", 15, 0, ""),
    ],
)
def test_who_is_clearly_ahead(script: ModuleType, estimate: str, margin: int, handicap: int, leader: str) -> None:
    assert script._clear_leader(estimate, margin, handicap) == leader
