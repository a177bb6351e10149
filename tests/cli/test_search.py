"""Commands of the search, and the guide of the documentation."""

import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest

from catalogues import rows, write_catalogue
from commands import COMMANDS, KIFU, is_error, on_terminal, run
from kifu.assets import sample_path
from kifu.corpus.catalogue import open_catalogue
from kifu.io import read_small
from kifu.point import WHITE_BIT, parse_gtp
from kifu.search.build import build_index
from kifu.search.index import open_index
from kifu.search.notation import parse_pattern
from kifu.search.pattern import PatternMove
from kifu.search.position import parse_position
from kifu.search.searcher import Searcher
from marks import slow

GAMES = (
    "C7 G3 G7 C3 E5",  # Black takes two corners
    "C7 G3 G6 C3",
    "G3 C7 C3 G7",
    "C7 C6 D6 pass C5",  # a captured stone
    "",
)


def moves(text: str) -> list[int]:
    return [parse_gtp(word, 9) | (k % 2) * WHITE_BIT for k, word in enumerate(text.split())]


@pytest.fixture(scope="module")
def catalogue(tmp_path_factory: pytest.TempPathFactory) -> Path:
    count = len(GAMES)
    games = rows(
        width=[9] * count, height=[9] * count, moves=[moves(text) for text in GAMES],
        black=["Ann", "Bo", "Ann", "Cy", None], white=["Bo", "Ann", "Dee", "\x1b[31mEve", None],
        black_rank=["5d", "4d", "5d", None, None], black_rating=[36.0, 35.0, 36.0, None, None],
        white_rating=[35.0, 36.0, 30.0, 34.0, None], winner=["black", "white", "black", None, None],
        result_text=["B+R", "W+2.5", "B+T", None, None], date_text=["2001-02-03", "2016", "2017-05-06", None, None],
        year=[2001, 2016, 2017, None, None],
    )  # fmt: skip
    path = write_catalogue(tmp_path_factory.mktemp("search") / "games.parquet", games)
    build_index(path)
    return path


def found(*arguments: object) -> dict:
    done = run(*arguments, "--json", "-")
    assert done.code == 0, done.err
    return json.loads(done.out)


# search


def test_the_table_of_a_pattern(catalogue: Path) -> None:
    done = run("search", catalogue, "+----/|..../|..../|..X./|....")
    assert done.code == 0
    assert done.out.splitlines() == [
        "12 hits in 4 of 5 games",
        "Black won 6 (54.5%), White 5 (45.5%) (colours as in the pattern)",
        "",
        "+--------   next           times  share  wins  95 %  rating  years  tenuki",
        "| . . . .   A 4-3   white      1   8.3%                34.0",
        "| . . . .     none            11  91.7%",
        "| . . X A",
        "| . . . .",
        "",
        "game  move  date        Black     White        result",
        "   3     1  2017-05-06  Ann [5d]  Dee          B+T",
        "   2     1  2016        Bo [4d]   Ann          W+2.5",
        "   1     1  2001-02-03  Ann [5d]  Bo           B+R",
        "   4     1              Cy        \\x1b[31mEve  ?",
    ]


def test_json_is_the_result_of_the_searcher(catalogue: Path) -> None:
    values = found("search", catalogue, "+---/|.../|.../|..X", "--years", "all")
    hits = Searcher(catalogue).find(parse_pattern("+---/|.../|.../|..X"))
    by_year, examples = values.pop("by_year"), values.pop("examples")
    assert values == json.loads(hits.to_json())
    assert by_year == {"move": "times", "years": values["years"]}
    assert [(each["row"], each["ply"]) for each in examples] == [(2, 1), (1, 1), (0, 1), (3, 1)]


OPTIONS = {
    "--fixed-colors": {"both_colours": False},
    "--next white": {"next_colour": 2},
    "--next black --fixed-colors": {"next_colour": 1, "both_colours": False},
    "--last-ply 2": {"last_ply": 2},
    "--consecutive": {"consecutive": True},
    "--anchor corner": {"anchor": "corner"},
    "--anchor centre --last-ply 1": {"anchor": "centre", "last_ply": 1},
}


@pytest.mark.parametrize("options", OPTIONS)
def test_options_are_those_of_the_pattern(catalogue: Path, options: str) -> None:
    pattern = parse_pattern(".../.1./..2")
    expected = Searcher(catalogue).find(replace(pattern, **OPTIONS[options]))
    values = found("search", catalogue, ".../.1./..2", *options.split())
    del values["examples"]
    assert values == json.loads(expected.to_json())


def test_a_pattern_can_be_given_in_many_ways(catalogue: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    diagram = "+----\n|....\n|....\n|..X.\n|....\n"
    (tmp_path / "corner.txt").write_text(diagram)
    (tmp_path / "corner.sgf").write_text("(;SZ[9]VW[aa:dd]AB[cc])")
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(diagram.encode())))
    expected = found("search", catalogue, diagram.replace("\n", "/").rstrip("/"))
    assert expected["hits"] > 0
    for given in (diagram, tmp_path / "corner.txt", tmp_path / "corner.sgf", "-", "colours: both\n" + diagram):
        assert found("search", catalogue, given) == expected


def test_a_position_is_a_pattern_of_the_whole_board(catalogue: Path, tmp_path: Path) -> None:
    (tmp_path / "game.sgf").write_text("(;SZ[9];B[cc];W[gg];B[gc])")
    expected = found("explore", catalogue, "1@2")["games"]
    for given in ("1@2", f"{tmp_path}/game.sgf@2"):
        assert found("search", catalogue, given, "--fixed-colors")["games"] == expected == 3


def test_moves_are_a_sequence(catalogue: Path, tmp_path: Path) -> None:
    (tmp_path / "moves.txt").write_text("C17 C16\nD16 pass C15\n")
    for given in (["C17 C16 D16 pass C15"], ["C17", "C16", "D16", "pass", "C15"], [tmp_path / "moves.txt"]):
        values = found("search", catalogue, *given, "--fixed-colors")
        assert (values["hits"], values["games"]) == (1, 1)
    pattern = parse_pattern(values["pattern"])
    assert pattern.moves[:2] == (PatternMove(2, 2, 1), PatternMove(2, 3, 2))


def test_nothing_found_is_no_error(catalogue: Path, tmp_path: Path) -> None:
    done = run("search", catalogue, "XOXO", "-o", tmp_path / "none.parquet", "--hits", tmp_path / "hits.parquet")
    assert done.code == 0
    assert done.out.splitlines() == ["0 hits in 0 of 5 games", "", "X O X O"]
    assert len(open_catalogue(tmp_path / "none.parquet")) == pq.read_table(tmp_path / "hits.parquet").num_rows == 0
    assert run("search", catalogue, "XOXO", "-o", tmp_path / "none.svg").code == 0


def test_games_found_are_a_catalogue(catalogue: Path, tmp_path: Path) -> None:
    games, hits = tmp_path / "found.parquet", tmp_path / "hits.parquet"
    assert run("search", catalogue, "XO/.X", "-o", games, "--hits", hits).code == 0
    table = Searcher(catalogue).find(parse_pattern("XO/.X")).table
    assert pq.read_table(hits).equals(table)
    (batch,) = open_catalogue(games).batches()
    assert batch.column("black").to_pylist() == ["Cy"]
    again = found("search", games, "XO/.X")
    assert again["hits"] == len(table) > 0


@pytest.mark.parametrize("name", ["counts.svg", "counts.PNG"])
def test_pictures(catalogue: Path, tmp_path: Path, name: str) -> None:
    assert run("search", catalogue, " ---/.../.X.", "-o", tmp_path / name).code == 0
    assert (tmp_path / name).read_bytes()[:4] in (b"<svg", b"\x89PNG")
    assert run("explore", catalogue, "--board", "9x9", "-o", tmp_path / name, "--overwrite").code == 0
    assert (tmp_path / name).read_bytes()[:4] in (b"<svg", b"\x89PNG")


def test_chart_of_years(catalogue: Path, tmp_path: Path) -> None:
    board, chart, all_years = tmp_path / "board.svg", tmp_path / "chart.svg", tmp_path / "all.svg"
    command = ("explore", catalogue, "--board", "9x9", "-o")
    for path, years in ((board, []), (chart, ["--years", "C7"]), (all_years, ["--years", "all"])):
        assert run(*command, path, *years).code == 0
    assert board.read_bytes() == all_years.read_bytes()
    assert chart.read_bytes()[:4] == b"<svg"
    assert chart.read_bytes() != board.read_bytes()


def test_only_chosen_games(catalogue: Path) -> None:
    done = run("search", catalogue, "X", "--where", "year >= 2016", "-q")
    assert done.out.splitlines()[0] == "8 hits in 2 of 2 games chosen of 5"
    assert found("search", catalogue, "X", "--player", "ann", "--color", "white")["games"] == 1
    assert found("search", catalogue, "X", "--player", "Ann")["games"] == 3
    assert found("search", catalogue, "X", "--player", "Ann", "--where", "year = 1999")["games"] == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nix.txt"], ["nix.txt: no such file, and neither a diagram nor moves"]),
        (["nix.sgf"], ["nix.sgf: no such file"]),
        (["folder"], ["folder: no such file"]),
        (["..X/...."], ["line 2: the row has 4 cells, but the first row has 3"]),
        (["**"], ["wildcards only"]),
        (["1.1"], ["move 1 occurs 2 times"]),
        (["ancor: side/X"], ["unknown key of a pattern 'ancor'; did you mean 'anchor'?"]),
        (["C17 C17"], ["move 2, C17, is illegal"]),
        (["+-/|X", "--anchor", "side"], ["--anchor side: the edges drawn mean 'corner'"]),
        (["X", "--anchor", "sied"], ["unknown anchor 'sied'; did you mean 'side'?"]),
        (["X", "--next", "red"], ["unknown colour 'red'"]),
        (["X", "--color", "black"], ["colour", "requires a player"]),
        (["X", "--player", "Anne"], ["no games of player 'Anne'; did you mean 'Ann'"]),
        (["X", "--where", "yaer > 1"], ["yaer"]),
        (["X", "--years", "R16"], ["no continuation 'R16'"]),
        (["X", "-o", "games.csv"], ["the suffix must be .parquet or .svg or .png, got '.csv'"]),
        (["X", "--hits", "hits.svg"], ["the suffix must be .parquet, got '.svg'"]),
        (["X", "--last-ply", "-1"], ["--last-ply"]),
        (["X", "--anchor", "board"], ["1 x 1 points fit on no board of the catalogue: 9 x 9"]),
        (["/".join(["." * 9 + "X"] * 9)], ["10 x 9 points fit on no board of the catalogue: 9 x 9"]),
    ],
)
def test_errors_of_searches(
    catalogue: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], words: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    pattern, *options = arguments
    is_error(run("search", catalogue, pattern, *options), *words)
    assert list(tmp_path.iterdir()) == []


def test_the_catalogue_comes_first(catalogue: Path) -> None:
    for name in ("search", "explore"):
        is_error(run(name, "X", catalogue), f"{catalogue} is a catalogue: it comes first, then the pattern or position")


# explore


def test_the_table_of_a_position(catalogue: Path) -> None:
    done = run("explore", catalogue, "C7", "--board", "9x9", "--years", "G3")
    assert done.code == 0
    assert done.out.splitlines() == [
        "4 of 5 games",
        "Black won 2 (66.7%), White 1 (33.3%)",
        "",
        "   A B C D E F G H J   next         times  share   wins    95 %  rating  years",
        " 9 . . . . . . . . .   A G3  white      3  75.0%  33.3%  6%-79%    33.7  2001-2017",
        " 8 . . . . . . . . .   B D7  white      1  25.0%                   34.0",
        " 7 . . X B . . + . .",
        " 6 . . . . . . . . .",
        " 5 . . . . + . . . .",
        " 4 . . . . . . . . .",
        " 3 . . + . . . A . .",
        " 2 . . . . . . . . .",
        " 1 . . . . . . . . .",
        "",
        "year     all  G3   share",
        "2001       1   1  100.0%  ##############################",
        "2016       1   1  100.0%  ##############################",
        "2017       1   1  100.0%  ##############################",
        "unknown    1   0    0.0%",
        "",
        "game  move  date        Black     White        result",
        "   3     1  2017-05-06  Ann [5d]  Dee          B+T",
        "   2     1  2016        Bo [4d]   Ann          W+2.5",
        "   1     1  2001-02-03  Ann [5d]  Bo           B+R",
        "   4     1              Cy        \\x1b[31mEve  ?",
    ]


def test_the_json_of_a_position(catalogue: Path) -> None:
    values = found("explore", catalogue)
    expected = Searcher(catalogue).explore(parse_position("", 9))
    del values["examples"]
    assert values == json.loads(expected.to_json())
    assert values["games"] == 5


def test_a_position_can_be_given_in_many_ways(catalogue: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"C7 G3")))
    expected = found("explore", catalogue, "C7 G3", "--board", "9x9")
    assert expected["games"] == 3
    (tmp_path / "game.sgf").write_text("(;SZ[9];B[cc];W[gg];B[gc])")
    (tmp_path / "moves.txt").write_text("C7\nG3")
    rows = "\n".join(expected["position"])
    (tmp_path / "board.txt").write_text(rows)
    for given in ("1@2", f"{tmp_path}/game.sgf@2", tmp_path / "moves.txt", rows, tmp_path / "board.txt", "-"):
        assert found("explore", catalogue, given, "--board", "9x9") == expected


def test_a_continuation_by_letter_point_or_symmetric_point(catalogue: Path) -> None:
    counts = [
        found("explore", catalogue, "--board", "9x9", "--years", move)["by_year"]
        for move in ("A", "g7", "C3", "G3", "C7")
    ]
    assert counts == [counts[0]] * 5
    assert counts[0]["move"] == "G7"
    assert [(each["year"], each["count"], each["total"]) for each in counts[0]["years"]] == [
        (2001, 1, 1), (2016, 1, 1), (2017, 1, 1), (None, 1, 2),
    ]  # fmt: skip
    ended = found("explore", catalogue, "--board", "9x9", "--years", "none")["by_year"]["years"]
    assert [each["count"] for each in ended] == [0, 0, 0, 1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["C7 Z3"], ["move 2", "Z3"]),
        (["99@3"], ["the catalogue has games 1 to 5, got 99"]),
        (["1@300"], ["300"]),
        (["nix.sgf"], ["nix.sgf"]),
        (["nix.txt"], ["nix.txt: no such file"]),
        (["+--/|.X"], ["whole board"]),
        (["Q16", "--board", "30x30"], ["30"]),
        (["--board", "9x9", "--years", "X9"], ["no continuation 'X9'"]),
        (["--board", "19x19"], ["19 x 19 points fit on no board of the catalogue: 9 x 9"]),
        (["-o", "board.parquet"], ["the suffix must be .svg or .png, got '.parquet'"]),
        (["--player", "Xyz"], ["no games of player 'Xyz'"]),
    ],
)
def test_errors_of_explorations(
    catalogue: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], words: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    is_error(run("explore", catalogue, *arguments), *words)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.subprocess
@pytest.mark.parametrize("columns", [80, *slow(60, 120)])
def test_tables_fit_the_terminal(columns: int, tmp_path: Path) -> None:
    assert run("ingest", sample_path(), "-o", tmp_path / "games.parquet").code == 0
    lines = on_terminal(columns, "explore", str(tmp_path / "games.parquet"))
    assert max(map(len, lines)) <= columns
    board, table = (next(k for k, line in enumerate(lines) if text in line) for text in ("A B C", "times"))
    assert (board == table) == (columns > 100)  # beside the board, or below it


def test_the_first_search_makes_an_index(catalogue: Path, tmp_path: Path) -> None:
    copy, index = Path(shutil.copy(catalogue, tmp_path)), tmp_path / "games.parquet.search"
    made = f"kifu: making {index}, which makes searches fast; --no-index does without"
    line = ("explore", copy, "C7", "--board", "9x9")
    without = run(*line, "--no-index")
    assert not index.exists()
    first, second = run(*line), run(*line)
    assert first.err[0] == made
    assert made not in second.err
    assert without.out == first.out == second.out
    write_catalogue(copy, rows(moves=[[0]]))
    for data in (read_small(index), read_small(index)[:1000]):  # of another catalogue, truncated
        index.write_bytes(data)
        assert run("search", copy, "X").err[0] == made
        assert open_index(copy).header.rows == 1


def test_a_foreign_file_in_place_of_the_index_stays(catalogue: Path, tmp_path: Path) -> None:
    copy, index = Path(shutil.copy(catalogue, tmp_path)), tmp_path / "games.parquet.search"
    index.write_bytes(data := b"x" * 5000)
    done = run("search", copy, "X")
    assert (done.code, done.out) == (0, run("search", catalogue, "X").out)
    assert any(line.startswith(f"kifu: searching without an index: {index} exists") for line in done.err)
    assert index.read_bytes() == data


PAGE = (Path(__file__).parents[2] / "docs" / "searching.md").read_text("utf-8")
SCRIPTS = re.findall(r"```sh\n(.*?)```\n(?:\n```\n(.*?)```\n)?", PAGE, re.DOTALL)
"""Commands, and the output that the page shows."""

FILES = dict(re.findall(r"In\s`([a-z.]+)`:\n\n```text\n(.*?)```\n", PAGE, re.DOTALL))


def commands() -> list[list[str]]:
    found = []
    for script, _ in SCRIPTS:
        lexer = shlex.shlex(script.replace("\\\n", " "), posix=True, punctuation_chars=";|\n")
        lexer.whitespace, lexer.whitespace_split = " \t", True
        words: list[str] = []
        for word in [*lexer, "\n"]:
            if set(word) <= set(";|\n"):
                found += [words[1:]] if words[:1] == ["kifu"] else []
                words = []
            else:
                words.append(word)
    return found


def test_commands_parse() -> None:
    parsed = [COMMANDS[name].make_context(name, arguments) for name, *arguments in commands()]
    assert len(parsed) >= 10
    assert {context.info_name for context in parsed} >= {"search", "explore"}
    assert FILES.keys() == {"china.txt", "ladder.txt"}


@pytest.mark.slow
@pytest.mark.subprocess
def test_answers(shared: Path, tmp_path: Path) -> None:
    (tmp_path / "tygem").mkdir()
    for name in ("kgs", "wild", "tygem/2016-07.zip", "tygem/Kifu2016.zip"):
        (tmp_path / name).symlink_to(shared / "data" / name)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, "utf-8")
    environment = os.environ | {"PATH": f"{KIFU.parent}:{os.environ['PATH']}", "COLUMNS": "100"}
    for script, shown in SCRIPTS:
        done = subprocess.run(
            ["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, (script, done.stderr)
        expected = ".*".join(map(re.escape, shown.split("...\n")))
        assert re.match(expected, done.stdout, re.DOTALL), f"{script}\n{done.stdout}"
