"""Matches between programs: games, openings, scores and records."""

import contextlib
import itertools
import json
import math
import re
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import commands
import kifu
from catalogues import rows, write_catalogue
from commands import tree
from gtp_engines import ends, engine
from kifu.errors import FormatError, KifuError, OutputError, RecipeError, SourceError
from kifu.go.rules import Rules
from kifu.kernel import announce_compilation
from kifu.play.match import MatchOptions, Opening, catalogue_openings, corner_openings, play_match
from kifu.play.referee import MatchRules
from kifu.play.results import Match, MatchScore, elo
from kifu.point import WHITE_BIT, parse_gtp, symmetries, to_gtp
from kifu.process import find_program
from kifu.text import wilson

RULES = MatchRules(size=5, komi=0.5, move_seconds=20)
COUNTS = engine(final_score="B+3.5")


def play(a: str, b: str, output: Path, *, rules: MatchRules = MatchRules(), **options: Any) -> Match:  # noqa: B008
    return play_match(a, b, output, rules=rules, options=MatchOptions(**options))


def read(folder: Path) -> dict[str, Any]:
    table: dict[str, Any] = json.loads((folder / "match.json").read_bytes())
    return table


@pytest.mark.subprocess
def test_a_match_is_recorded(tmp_path: Path) -> None:
    a, b = engine("random", 1), engine("random", 2)
    match = play(a, b, tmp_path, games=6, rules=RULES, score_by=COUNTS)
    table = read(tmp_path)
    assert match.fresh == 6
    assert [game["game"] for game in table["games"]] == [1, 2, 3, 4, 5, 6]
    openings = corner_openings(5, 1)
    for reported in table["games"]:
        (game,) = kifu.read(tmp_path / reported["file"])
        assert not game.errors
        number, length = reported["game"], len(openings[(reported["game"] - 1) // 2])
        names = [to_gtp(int(move) & ~WHITE_BIT, 5) for move in game.moves[:length]]
        assert " ".join(names) == reported["opening"]
        assert (reported["black"], reported["white"]) == (("A", "B") if number % 2 else ("B", "A"))
        assert game.players == (("Test 1", "Test 2") if number % 2 else ("Test 2", "Test 1"))
        assert (game.komi, game.rules, game.handicap, game.text("RE")) == (0.5, "Chinese", None, "B+3.5")
        assert str(game.result) == reported["result"]
        assert reported["winner"] == reported["black"]
        assert len(game) == reported["moves"]
        assert reported["seconds"] >= reported["seconds_a"] + reported["seconds_b"] > 0
        assert f"A: {a}" in game.text("C")
        assert "both passed" in game.text("C")
        assert all(int(move) >> 15 == k % 2 for k, move in enumerate(game.moves))
    pairs = [(one["opening"], two["opening"]) for one, two in zip(table["games"][::2], table["games"][1::2])]
    assert all(one == two for one, two in pairs)
    assert len(set(pairs)) == 3
    assert table["standing"]["all"]["won"] == table["standing"]["a_black"]["won"] == 3
    assert table["standing"]["a_white"]["lost"] == 3
    assert table["a"] == {"command": a, "name": "Test", "version": "1"}


@pytest.mark.subprocess
def test_games_do_not_depend_on_jobs(tmp_path: Path) -> None:
    for jobs in (1, 2):
        play(
            engine("random", 1), engine("random", 2), tmp_path / str(jobs), games=4, rules=RULES, score_by=COUNTS,
            jobs=jobs,
        )  # fmt: skip
    one, two = (tree(tmp_path / str(jobs)) for jobs in (1, 2))
    assert {**one, "match.json": b""} == {**two, "match.json": b""}
    assert [game["game"] for game in read(tmp_path / "2")["games"]] == [1, 2, 3, 4]


@pytest.mark.subprocess
@pytest.mark.parametrize("size", [2, 3, 25])
def test_boards_of_any_size(tmp_path: Path, size: int) -> None:
    rules = MatchRules(size=size, komi=0.5, move_seconds=20)
    match = play(engine(), engine(), tmp_path, games=2, rules=rules, score_by=COUNTS)
    assert [game.ending for game in match.games] == ["score", "score"]


@pytest.mark.subprocess
def test_a_match_resumes(tmp_path: Path) -> None:
    a, b = engine("random", 1), engine("random", 2)
    play(a, b, tmp_path, games=3, rules=RULES, score_by=COUNTS)
    whole, table = tree(tmp_path), read(tmp_path)
    del table["games"][1]
    (tmp_path / "match.json").write_text(json.dumps(table))
    (tmp_path / "game-0002.sgf").unlink()
    match = play(a, b, tmp_path, games=4, rules=RULES, score_by=COUNTS)
    assert match.fresh == 2
    now = tree(tmp_path)
    assert {name: now[name] for name in whole if name != "match.json"} == {
        name: data for name, data in whole.items() if name != "match.json"
    }
    assert [game["game"] for game in read(tmp_path)["games"]] == [1, 2, 3, 4]
    before = tree(tmp_path)
    again = play(a, b, tmp_path, games=2, rules=RULES, score_by=COUNTS)
    assert again.fresh == 0
    assert tree(tmp_path) == before
    assert len(again.games) == 4


@pytest.mark.subprocess
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"a": engine("D4")}, "is another match: A was "),
        ({"rules": MatchRules(size=5, komi=1.5, move_seconds=20)}, "is another match: komi was 0.5, now 1.5"),
        ({"rules": MatchRules(size=6, komi=0.5, move_seconds=20)}, "is another match: size was 5, now 6"),
        ({"seed": 2}, "is another match: seed was 1, now 2"),
        ({"score_by": engine(final_score="0")}, "is another match: scorer was "),
    ],
)
def test_a_directory_holds_one_match(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"a": engine(), "b": engine(), "games": 1, "rules": RULES, "score_by": COUNTS}
    play(output=tmp_path, **given)
    before = tree(tmp_path)
    with pytest.raises(RecipeError, match=re.escape(message)):
        play(output=tmp_path, **given | change)
    assert tree(tmp_path) == before


@pytest.mark.subprocess
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (b"", "match.json does not hold a match: invalid JSON"),
        (b"[" * 100_000, "match.json does not hold a match: invalid JSON"),
        (b"{}", "match.json does not hold a match: a is missing"),
        ({"version": 2}, "match.json does not hold a match: version must be 1"),
        ({"games": [3]}, "match.json does not hold a match: games.0 must be a table, got 3"),
        ({"games": "twice"}, "match.json does not hold a match: a game is listed twice"),
        ({"opening": "A1"}, "began with 'A1', but would now begin with"),
    ],
)
def test_a_broken_match_file(tmp_path: Path, change: Any, message: str) -> None:
    play(engine(), engine(), tmp_path, games=1, rules=RULES, score_by=COUNTS)
    path = tmp_path / "match.json"
    table = read(tmp_path)
    if isinstance(change, dict) and change.get("games") == "twice":
        change = {"games": table["games"] * 2}
    elif isinstance(change, dict) and "opening" in change:
        change = {"games": [table["games"][0] | change]}
    path.write_bytes(change if isinstance(change, bytes) else json.dumps(table | change).encode())
    before = tree(tmp_path)
    with pytest.raises((FormatError, RecipeError), match=re.escape(message)):
        play(engine(), engine(), tmp_path, games=2, rules=RULES, score_by=COUNTS)
    assert tree(tmp_path) == before


@pytest.mark.subprocess
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"a": "no-such-engine"}, "program not found: 'no-such-engine' is neither a file nor on PATH"),
        ({"a": engine(name="crash")}, "cannot play: it exited with code 3: out of luck"),
        ({"b": engine(boardsize="refuse")}, "cannot play: it refused 'boardsize 5': 'no'"),
        ({"b": engine(version="nonsense")}, "cannot play: it wrote 'hello', which is not a GTP response"),
        ({"score_by": engine(komi="refuse")}, "cannot score: it refused 'komi 0.5': 'no'"),
        ({"rules": MatchRules(size=1)}, "board size must be within 2 to 25, got 1"),
        ({"rules": MatchRules(size=26)}, "board size must be within 2 to 25, got 26"),
        ({"rules": MatchRules(komi=6.3)}, "komi must be a multiple of 0.5 within -361 to 361, got 6.3"),
        ({"rules": MatchRules(size=5, komi=26)}, "komi must be a multiple of 0.5 within -25 to 25, got 26"),
        ({"rules": MatchRules(komi=float("nan"))}, "komi must be a multiple of 0.5 within -361 to 361, got nan"),
        ({"rules": MatchRules(move_seconds=0)}, "time limit must be above 0 and at most 86,400 s, got 0"),
        ({"rules": MatchRules(ruleset="chess")}, "unknown rule set 'chess'"),
        ({"games": 0}, "games must be >= 1, got 0"),
        ({"openings": Path("games.parquet"), "opening_moves": 13}, "opening moves must be within 1 to 12, got 13"),
        ({"jobs": 0}, "jobs must be >= 1, got 0"),
    ],
)
def test_invalid_options(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"a": engine(), "b": engine(), "games": 1, "rules": RULES, "score_by": COUNTS}
    with pytest.raises(KifuError, match=re.escape(message)):
        play(output=tmp_path / "match", **given | change)
    assert not (tmp_path / "match" / "match.json").exists()


@pytest.mark.subprocess
def test_an_unreadable_match_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "match.json").mkdir()
    with pytest.raises(SourceError, match=r"^cannot read .*match.json: Is a directory$"):
        play(engine(), engine(), tmp_path, games=1, rules=RULES, score_by=COUNTS)
    (tmp_path / "match.json").rmdir()
    monkeypatch.setattr("kifu.play.results._MAX_RESULTS_BYTES", 9)
    (tmp_path / "match.json").write_text("{" * 10)
    with pytest.raises(SourceError, match=r"cannot read .*match.json: larger than 9 bytes$"):
        play(engine(), engine(), tmp_path, games=1, rules=RULES, score_by=COUNTS)


@pytest.mark.subprocess
def test_an_unusable_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OutputError, match=r"^cannot write .*file: Not a directory$"):
        play(engine(), engine(), tmp_path / "file", games=1, rules=RULES, score_by=COUNTS)


@pytest.mark.subprocess
def test_programs_at_fault_are_named(tmp_path: Path) -> None:
    match = play(engine("crash"), engine("D3"), tmp_path, games=2, rules=RULES, score_by=COUNTS)
    a, b = engine("crash"), engine("D3")
    assert str(match).splitlines() == [
        f"A = {a} (Test 1)",
        f"B = {b} (Test 1)",
        "2 games on 5 x 5, komi 0.5, chinese rules",
        "",
        "A in all   won 0, lost 2, drew 0",
        "A as Black won 0, lost 1, drew 0",
        "A as White won 0, lost 1, drew 0",
        "",
        "A: 0.0% of the points, 95% interval 0.0% to 65.8%; Elo difference minus infinite, "
        "interval minus infinite to +113",
        "",
        "ended by crash 2",
        "game 1: A as Black loses: it exited with code 3: out of luck",
        "game 2: A as White loses: it exited with code 3: out of luck",
    ]
    assert tree(tmp_path)["game-0001-A.log"] == b"first line\nout of luck\n"
    assert sorted(tree(tmp_path)) == [
        "game-0001-A.log", "game-0001.sgf", "game-0002-A.log", "game-0002.sgf", "match.json",
    ]  # fmt: skip
    (game,) = kifu.read(tmp_path / "game-0002.sgf")
    assert game.text("RE") == "B+F"
    assert "out of luck" in game.text("C")
    assert game.players == ("Test 1 (B)", "Test 1 (A)")


@pytest.mark.subprocess
def test_a_game_without_a_winner_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MatchRules, "max_moves", 4)
    match = play(engine("A1 A2 A3"), engine("B1 B2 B3"), tmp_path, games=2, rules=RULES, score_by=COUNTS)
    assert "A in all   won 0, lost 0, drew 0, 2 without a winner" in str(match)
    assert "A: no games with a result" in str(match)
    assert "ended by too many moves 2" in str(match)
    assert "no illegal move, no crash, no time-out" in str(match)
    assert read(tmp_path)["standing"]["all"]["share"] is None


@pytest.mark.subprocess
def test_without_a_scoring_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kifu.play.match.find_program", lambda name: None)
    match = play(engine("C3"), engine(), tmp_path, games=2, rules=RULES)
    assert read(tmp_path)["settings"]["scorer"] is None
    reported = read(tmp_path)["games"]
    assert [game["scored_by"] for game in reported] == ["board", "board"]
    assert "scored by area on the board, no stone dead: 2 games" in str(match)
    (game,) = kifu.read(tmp_path / "game-0001.sgf")
    assert "scored by area on the board, no stone dead" in game.text("C")
    words = [*reported[0]["opening"].split(), "pass", "C3", "pass", "pass"]
    assert [to_gtp(int(move) & ~WHITE_BIT, 5) for move in game.moves] == words


@pytest.fixture
def gnugo() -> str:
    if find_program("gnugo") is None:
        pytest.skip("needs gnugo")
    return "gnugo --mode gtp --level 1 --seed {}"


@pytest.mark.subprocess
def test_gnu_go(gnugo: str, tmp_path: Path) -> None:
    rules = MatchRules(size=9)
    match = play(gnugo.format(1), gnugo.format(2), tmp_path, games=1, rules=rules)
    (reported,) = match.games
    assert reported.ending in ("score", "resign")
    assert reported.moves > 20
    assert reported.scored_by == ("scorer" if reported.ending == "score" else None)
    (game,) = kifu.read(tmp_path / reported.file)
    assert not game.errors
    assert str(game.result) == reported.result
    assert game.players == ("GNU Go 3.8 (A)", "GNU Go 3.8 (B)")


@pytest.mark.subprocess
def test_gnu_go_scores_supported_sizes_only(gnugo: str, tmp_path: Path) -> None:
    match = play(engine("K10"), engine(), tmp_path, games=1, rules=MatchRules(size=21, move_seconds=20))
    assert match.games[0].scored_by == "board"


@pytest.mark.subprocess
def test_openings_of_a_catalogue(tmp_path: Path) -> None:
    lines = [[12, 6 | WHITE_BIT], [6, 12 | WHITE_BIT], [7, 8 | WHITE_BIT]]
    catalogue = write_catalogue(tmp_path / "5x5.parquet", rows(moves=lines, width=[5] * 3, height=[5] * 3))
    given: dict[str, Any] = {"openings": catalogue, "opening_moves": 2, "rules": RULES, "score_by": COUNTS}
    output = tmp_path / "match"
    play(engine(), engine(), output, games=4, **given)
    play(engine(), engine(), output, games=8, **given)
    openings = [game["opening"] for game in read(output)["games"]]
    assert openings[::2] == openings[1::2]
    assert len(set(openings)) == 3
    assert openings[6] == openings[0]  # only three exist
    assert play(engine(), engine(), output, games=2, **given).fresh == 0
    write_catalogue(catalogue, rows(moves=lines[2:], width=[5], height=[5]))
    with pytest.raises(RecipeError, match="the openings have changed; choose another directory"):
        play(engine(), engine(), output, games=10, **given)


def children(process: int) -> list[int]:
    found, at = [process], 0
    while at < len(found):
        with contextlib.suppress(FileNotFoundError):  # it has just ended
            for thread in Path(f"/proc/{found[at]}/task").iterdir():
                found += map(int, (thread / "children").read_text().split())
        at += 1
    return found[1:]


@pytest.mark.subprocess
@pytest.mark.parametrize(
    ("jobs", "number"),
    [
        (2, signal.SIGINT),
        pytest.param(1, signal.SIGINT, marks=pytest.mark.slow),
        pytest.param(2, signal.SIGTERM, marks=pytest.mark.slow),
    ],
)
def test_ctrl_c_leaves_no_child(tmp_path: Path, jobs: int, number: int) -> None:
    process = commands.start(
        "match", engine("C3 hang"), engine("D3 hang"), "--output", tmp_path, "--board", "5x5", "--games", 4,
        "--jobs", jobs, "--score-by", COUNTS,
    )  # fmt: skip
    commands.wait_until(lambda: len(children(process.pid)) >= 2 * jobs, process)  # it first tries one program at a time
    left = children(process.pid)
    process.send_signal(number)
    began = time.monotonic()
    done = commands.finish(process)
    assert time.monotonic() - began < 30  # a program has 60 s
    assert done.code == 130
    assert done.err[-1].startswith("kifu: interrupted")
    assert all(ends(child) for child in left)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.subprocess
def test_the_command(tmp_path: Path) -> None:
    announce_compilation()
    arguments = ["match", engine("C3"), engine(), "--output", tmp_path, "--board", "5x5", "--games", "2"]
    arguments = [*arguments, "--move-time", "20s"]
    planned = commands.run(*arguments, "--dry-run")
    assert (planned.code, planned.out.splitlines()[-3:-1]) == (0, ["writes:", f"  {tmp_path}"])
    assert list(tmp_path.iterdir()) == []
    done = commands.run(*arguments, "--komi", "0.5", "--rules", "Tromp-Taylor", "--score-by", COUNTS)
    assert done.code == 0
    assert done.err[0] == f"match in {tmp_path}: 0 of 2 games"
    assert done.err[1] == "game 1: A wins as Black (B+3.5, 5 moves): both passed"
    assert done.err[2] == "game 2: B wins as Black (B+3.5, 4 moves): both passed"
    assert "2 games on 5 x 5, komi 0.5, tromp-taylor rules" in done.out
    assert "A: 50.0% of the points" in done.out
    assert "no illegal move, no crash, no time-out" in done.out
    assert read(tmp_path)["settings"]["rules"] == "tromp-taylor"
    again = commands.run(*arguments, "--komi", "0.5", "--rules", "tromp-taylor", "--score-by", COUNTS, "--json", "-")
    assert json.loads(again.out) == read(tmp_path) | {"fresh": 0}
    failed = commands.run(*arguments, "--komi", "1.5", "--rules", "tromp-taylor", "--score-by", COUNTS)
    assert failed.code == 2
    assert failed.out == ""
    assert failed.err == [f"kifu: {tmp_path / 'match.json'} is another match: komi was 0.5, now 1.5"]


CHINESE = Rules.named("chinese")


def forms(opening: Opening, size: int) -> set[Opening]:
    return {tuple(form[list(opening)].tolist()) for form in symmetries(size, size)}


def naive_corners(size: int, stones: int) -> set[frozenset[Opening]]:
    """All ways to put so many stones into corners of their own, those that are equal up to symmetry as one."""
    near = [2, 3] if size >= 9 else [2]
    lines = {*near, *(size - 1 - line for line in near)}
    points = [y * size + x for y in lines for x in lines]
    ways = itertools.permutations(points, stones)
    corner = {point: (point % size > size // 2, point // size > size // 2) for point in points}
    return {frozenset(forms(way, size)) for way in ways if len({corner[point] for point in way}) == stones}


@pytest.mark.parametrize("size", [7, 8, 9, 19, 25])
def test_corner_openings_are_complete(size: int) -> None:
    openings = corner_openings(size, seed=1)
    pairs = [opening for opening in openings if len(opening) == 2]
    assert openings[: len(pairs)] == pairs  # the short ones come first
    for stones in (2, 4):
        mine = [frozenset(forms(opening, size)) for opening in openings if len(opening) == stones]
        assert len(set(mine)) == len(mine)
        assert set(mine) == naive_corners(size, stones)


def test_the_openings_of_small_boards() -> None:
    names = {size: [[to_gtp(p, size) for p in line] for line in corner_openings(size, 1)] for size in range(1, 7)}
    assert names[1] == names[2] == [[]]
    assert names[3] == [["B2"]]
    assert sorted(names[4]) == [["C3"]]
    assert sorted(names[5]) == [["C3"], ["C4"], ["D4"]]
    assert len(names[6]) == 3


def test_black_begins_in_the_upper_right() -> None:
    firsts = {to_gtp(opening[0], 19) for opening in corner_openings(19, 1)}
    assert firsts == {"Q16", "Q17", "R17"}  # R16 is Q17, mirrored


def test_the_seed_determines_the_order() -> None:
    first, second = corner_openings(19, 1), corner_openings(19, 2)
    assert first != second
    assert sorted(first) == sorted(second)
    assert corner_openings(19, 1) == first


def moves(words: str, colours: str | None = None, size: int = 19) -> list[int]:
    """Moves as catalogues have them, Black's and White's in turn if colours ("bwb") do not say else."""
    points = [parse_gtp(word, size) for word in words.split()]
    return [p | (WHITE_BIT if c == "w" else 0) for p, c in zip(points, colours or itertools.cycle("bw"))]


def test_only_legal_openings_of_a_catalogue_are_used_once(tmp_path: Path) -> None:
    games = [
        moves("D4 Q16 C16 Q4"),
        moves("Q16 D4 R4 D16 C3"),  # the same, turned
        moves("Q17 D4 Q3 D16 C3"),
        moves("Q16 D4 pass D16"),
        moves("Q16 D4 R4"),  # too short
        moves("Q16 D4 R4 D17", "bbww"),
        moves("Q16 D4 D4 D17"),  # illegal
        moves("G7 D4 D7 G4", size=9),
        moves("D16 Q4 D17 Q3"),  # has a setup stone
        moves("D16 Q4 C17 R3"),  # dropped
    ]
    sizes = [9 if k == 7 else 19 for k in range(len(games))]
    setup = [[5] if k == 8 else [] for k in range(len(games))]
    drops = ["unreadable" if k == 9 else None for k in range(len(games))]
    for k in range(len(games)):
        if drops[k]:
            games[k] = []
    table = rows(
        moves=games, width=sizes, height=sizes, setup=setup, setup_ply=[[0] * len(s) for s in setup],
        root_setup=[len(s) for s in setup], drop=drops,
    )  # fmt: skip
    path = write_catalogue(tmp_path / "a.parquet", table.slice(0, 3), table.slice(3))
    found = catalogue_openings(path, 19, 4, CHINESE, seed=1, count=10)
    expected = [forms(tuple(np.array(games[k][:4]) & 0x3FFF), 19) for k in (0, 2)]
    assert len(found) == 2
    assert {frozenset(forms(each, 19)) for each in found} == set(map(frozenset, expected))
    assert catalogue_openings(path, 19, 4, CHINESE, seed=1, count=1) == found[:1]
    assert {tuple(catalogue_openings(path, 19, 4, CHINESE, seed=k, count=1)) for k in range(20)} == {
        (found[0],),
        (found[1],),
    }
    assert len(catalogue_openings(path, 9, 4, CHINESE, seed=1, count=10)) == 1
    with pytest.raises(
        RecipeError, match=r"a\.parquet has no game on 13 x 13 without setup stones that begins with 4 legal moves"
    ):
        catalogue_openings(path, 13, 4, CHINESE, seed=1, count=10)


def test_invalid_catalogues(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"no")
    with pytest.raises(FormatError, match=r"a\.parquet is not a catalogue"):
        catalogue_openings(tmp_path / "a.parquet", 19, 4, CHINESE, seed=1, count=10)


# R. G. Newcombe, Two-sided confidence intervals for the single proportion, Statistics in Medicine 17 (1998), table I
@pytest.mark.parametrize(
    ("points", "games", "lower", "upper"),
    [
        (81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718),
        (5, 10, 0.2366, 0.7634), (0, 4, 0.0, 0.4899), (4, 4, 0.5101, 1.0),
    ],
)  # fmt: skip
def test_wilson(points: int, games: int, lower: float, upper: float) -> None:
    assert wilson(points, games) == pytest.approx((lower, upper), abs=0.00005)
    mirrored = wilson(games - points, games)
    assert mirrored == pytest.approx((1 - upper, 1 - lower), abs=0.00005)


def test_wilson_bounds_invert_the_score_test() -> None:
    for games in (1, 7, 200):
        for points in range(1, games):
            for bound in wilson(points, games):
                deviation = abs(points / games - bound) / math.sqrt(bound * (1 - bound) / games)
                assert deviation == pytest.approx(1.959963984540054)


def test_score_of_no_games() -> None:
    assert wilson(0, 0) == (0.0, 1.0)
    assert MatchScore(none=3).share is None
    assert str(MatchScore(none=3)) == "no games with a result"


def test_elo() -> None:
    assert elo(0.5) == 0
    assert elo(1) == math.inf
    assert elo(0) == -math.inf
    assert elo(10 / 11) == pytest.approx(400)
    assert elo(0.2) == pytest.approx(-elo(0.8))


def test_score() -> None:
    standing = MatchScore(won=13, lost=6, drawn=1, none=2)
    assert (standing.counted, standing.share) == (20, 0.675)
    assert str(standing) == (
        "67.5% of the points, 95% interval 45.7% to 83.7%; Elo difference +127, interval -30 to +284"
    )
    assert str(MatchScore(won=2)) == (
        "100.0% of the points, 95% interval 34.2% to 100.0%; Elo difference infinite, interval -113 to infinite"
    )


def test_score_as_json_has_no_infinity() -> None:
    for standing in (MatchScore(won=2), MatchScore(lost=2), MatchScore(), MatchScore(1, 1, 1, 1)):
        reported = json.loads(json.dumps(standing.to_json(), allow_nan=False))
        assert reported["won"] == standing.won
    assert MatchScore(lost=2).to_json()["elo_interval"] == [None, 113.4]
