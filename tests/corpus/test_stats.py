"""Counts of a corpus: correct, complete, printed and drawn."""

import json
import random
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from catalogues import rows, write_catalogue
from commands import on_terminal, run
from kifu.corpus.stats import BANDS, OTHERS, UNKNOWN, Stats, UnparsedColumn, draw_charts, short_count, stats
from kifu.errors import FormatError
from kifu.report.tables import print_stats
from kifu.viz.boards import to_svg
from marks import slow
from serializing import ENGINE, SerializingExecutor, install


def counted(tmp_path: Path, **columns: Any) -> Stats:
    return stats([write_catalogue(tmp_path / "games.parquet", rows(**columns))])


PROGRAMS = {
    None: "people", "black: list": "list", "white: list; black: pattern Zen19[A-Z]": "list+pattern",
    "black: behaviour, 2 games": "behaviour",
}  # fmt: skip
"""The kinds of programs of values of the column."""


def drawn_at_random(count: int, seed: int) -> dict[str, list[Any]]:
    draw = random.Random(seed)
    several = {
        "black_rating": [None, *range(2, 50)], "white_rating": [None, 31, 40, 45], "year": [None, 1846, 2001, 2002],
        "winner": [None, "black", "white", "draw"], "ending": ["score", "resign", "void", "unknown", "time", "forfeit"],
        "program": [*PROGRAMS], "repairs": [None, "truncated", "pass_as_tt,cut"], "black": ["Zen19X", "MIss", None],
        "white": ["Zen19X", "AQ"],
        "handicap": [None, 0, 2, 9], "komi": [None, *(k / 2 for k in range(30))], "width": [9, 19], "height": [9, 19],
        "format": ["sgf", "olf"], "archive": [f"{k}.zip" for k in range(20)], "drop": [None, None, "ko", "suicide"],
        "n_legal": [0, 49, 50, 123, 499, 500, 9999],
    }  # fmt: skip
    columns = {name: [draw.choice(values) for _ in range(count)] for name, values in several.items()}
    for side in ("black", "white"):
        columns[f"{side}_pro"] = [None if rating is None else rating >= 41 for rating in columns[f"{side}_rating"]]
    return columns


@pytest.mark.parametrize("seed", range(3))
def test_counts_equal_those_of_a_plain_loop(tmp_path: Path, seed: int) -> None:
    columns = drawn_at_random(700, seed)
    stats = counted(tmp_path, **columns)
    games = [dict(zip(columns, values)) for values in zip(*columns.values())]
    kept = [game for game in games if game["drop"] is None]

    def expected_text(value: object) -> str:
        return UNKNOWN if value is None else re.sub(r"\.0$", "", str(value))

    assert (stats.read, stats.kept) == (700, len(kept))
    assert stats.dropped == Counter(game["drop"] for game in games if game["drop"])
    assert stats.years == Counter(expected_text(game["year"]) for game in kept)
    assert stats.handicaps == Counter(expected_text(game["handicap"]) for game in kept)
    assert stats.boards == Counter(f"{game['width']}x{game['height']}" for game in kept)
    assert stats.formats == Counter(game["format"] for game in kept)
    assert stats.programs == Counter(PROGRAMS[game["program"]] for game in kept)
    assert stats.repairs == Counter(name for game in kept for name in (game["repairs"] or "").split(",") if name)
    sides = Counter(
        (kind, game[side] or UNKNOWN)
        for game in kept
        for side, kind in re.findall(r"(black|white): (\w+)", game["program"] or "")
        if side == "black" or game["black"] != game["white"]
    )
    assert {(kind, name): n for kind, names in stats.program_names.items() for name, n in names.items()} == sides
    for found, all_of_them in (
        (stats.komi, Counter(expected_text(game["komi"]) for game in kept)),
        (stats.archives, Counter(game["archive"] for game in kept)),
    ):
        named = {name: count for name, count in found.items() if name != OTHERS}
        assert len(named) == 12
        assert sorted(named.values()) == sorted(all_of_them.values())[-12:]
        assert all(all_of_them[name] == count for name, count in named.items())
    results = Counter((game["winner"] or "unknown", game["ending"]) for game in kept)
    assert {(w, e): n for w, counts in stats.results.items() for e, n in counts.items()} == results
    lengths = Counter((min(game["n_legal"], 500) // 50, game["ending"]) for game in kept)
    classes = list(stats.lengths)
    assert {(classes.index(c), e): n for c, counts in stats.lengths.items() for e, n in counts.items()} == lengths
    assert sum(map(sum, stats.ranks)) == len(kept)
    for part in (stats.years, stats.handicaps, stats.komi, stats.boards, stats.formats, stats.archives):
        assert sum(part.values()) == len(kept)


@pytest.mark.parametrize(
    ("rating", "pro", "band"),
    [
        (None, None, "unknown"), (0, False, "30-21k"), (2, False, "30-21k"), (11, False, "30-21k"),
        (12, False, "20-11k"),
        (21, False, "20-11k"), (22, False, "10-6k"), (26, False, "10-6k"), (27, False, "5-1k"), (31, False, "5-1k"),
        (32, False, "1d"), (35, None, "4d"), (39, False, "8d"), (40, False, "9d"), (41, False, "9d"), (41, True, "pro"),
        (49, True, "pro"), (45, None, "pro"), (35, True, "pro"),
    ],
)  # fmt: skip
def test_every_rank_has_its_band(tmp_path: Path, rating: float | None, pro: bool | None, band: str) -> None:
    weak = {"white_rating": [5], "white_pro": [False]}
    stats = counted(tmp_path, black_rating=[rating], black_pro=[pro], **weak)
    found = [(BANDS[k], BANDS[m]) for k, row in enumerate(stats.ranks) for m, count in enumerate(row) if count]
    assert found == [(band, "30-21k")]


def test_order_of_counts(tmp_path: Path) -> None:
    stats = counted(
        tmp_path,
        komi=[7.5, None, 3.125, 7.5, None, 6.5, 6.5, -2.125], year=[2002, None, 1999, 2002, 1999, None, 1846, 2002],
        width=[9, 9, 19, 19, 13, 9, 19, 9], height=[9, 9, 19, 19, 13, 9, 19, 9], handicap=[2, 0, None, 9, 0, 0, 0, 0],
        winner=[None, "black", "draw", "white", "black", "white", None, None],
        ending=["void", "forfeit", "score", "forfeit", "time", "resign", "unknown", "score"],
    )  # fmt: skip
    assert [*stats.komi.items()] == [("6.5", 2), ("7.5", 2), (UNKNOWN, 2), ("-2.13", 1), ("3.13", 1)]
    assert [*stats.years.items()] == [("1846", 1), ("1999", 2), ("2002", 3), (UNKNOWN, 2)]
    assert [*stats.handicaps.items()] == [("0", 5), ("2", 1), ("9", 1), (UNKNOWN, 1)]
    assert [*stats.boards] == ["9x9", "19x19", "13x13"]
    assert [*stats.results] == ["black", "white", "draw", "unknown"]
    assert [*stats.results["white"], *stats.results["unknown"]] == ["resign", "forfeit", "score", "void", "unknown"]
    assert [*stats.lengths["0-49"]] == ["score", "resign", "time", "forfeit", "void", "unknown"]


def test_unparsed_texts_are_counted(tmp_path: Path) -> None:
    stats = counted(
        tmp_path,
        black_rank=["strong", "strong", "NR", "9d", None], black_rating=[None, None, None, 40, None],
        date_text=["someday", "?", "2001", None, None], year=[None, None, 2001, None, None],
        result_text=["someone", "?", "B+R", "who knows", None], winner=[None, None, "black", None, None],
        ending=["unknown", "unknown", "resign", "unknown", "unknown"],
        format=["sgf", "sgf", "sgf", "sgf", "gib"],
    )  # fmt: skip
    assert stats.unparsed == {
        "black_rank": UnparsedColumn(2, {"strong": 2}),
        "result_text": UnparsedColumn(2, {"someone": 1, "who knows": 1}),
        "date_text": UnparsedColumn(1, {"someday": 1}),
    }


def test_several_catalogues_are_one_corpus(tmp_path: Path) -> None:
    one = write_catalogue(tmp_path / "1.parquet", rows(year=[2001, 2002], drop=[None, "ko"]))
    two = write_catalogue(tmp_path / "2.parquet", rows(year=[2001, 1999]))
    counts = stats([one, two, one])
    assert counts.catalogues == (str(one), str(two), str(one))
    assert (counts.read, counts.kept, counts.dropped) == (6, 4, {"ko": 2})
    assert list(counts.years.items()) == [("1999", 1), ("2001", 3)]


def test_shards_and_executor_do_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    columns = drawn_at_random(1500, 5) | {"black_rank": [f"strong {k % 70}" for k in range(1500)]}
    columns |= {"black_pro": [None] * 1500, "komi": [k % 13 / 2 for k in range(1500)]}
    path = write_catalogue(tmp_path / "games.parquet", rows(**columns))
    whole = stats([path])
    assert OTHERS in whole.komi
    assert OTHERS in whole.archives
    assert len(whole.unparsed["black_rank"].texts) == 5
    pq.write_table(pq.read_table(path), path, row_group_size=40)
    monkeypatch.setattr("kifu.corpus.catalogue._SHARD_ROWS", 100)
    for jobs in (1, 2):
        assert stats([path], jobs=jobs).to_json() == whole.to_json()
    install(monkeypatch)
    assert stats([path], engine=ENGINE).to_json() == whole.to_json()
    assert SerializingExecutor.shards == 19


def test_bound_of_exact_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """20 archives have 30 games each, and 600 have one: up to the bound all are counted, then the common ones."""
    archives = [f"{k % 20}.zip" for k in range(600)] + [f"single {k}.zip" for k in range(600)]
    random.Random(2).shuffle(archives)
    path = write_catalogue(tmp_path / "games.parquet", rows(archive=archives, date_text=archives))
    whole = stats([path])
    assert list(whole.archives.values()) == [*[30] * 12, 840]
    assert whole.unparsed["date_text"].games == 1200
    pq.write_table(pq.read_table(path), path, row_group_size=40)
    monkeypatch.setattr("kifu.corpus.catalogue._SHARD_ROWS", 40)
    monkeypatch.setattr("kifu.corpus.stats._EXACT", 620)
    assert stats([path]) == whole
    monkeypatch.setattr("kifu.corpus.stats._EXACT", 100)
    bounded = stats([path])
    assert (bounded.kept, sum(bounded.archives.values())) == (1200, 1200)
    assert sum(count for name, count in bounded.archives.items() if name != OTHERS) > 200
    assert bounded.unparsed["date_text"].games < 1200


def test_other_files_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_bytes(b"PAR1")
    with pytest.raises(FormatError, match=r"x\.parquet is not a catalogue"):
        stats([tmp_path / "x.parquet"])


# as JSON, as tables


def test_json_is_one_object_with_these_keys(tmp_path: Path) -> None:
    path = write_catalogue(tmp_path / "games.parquet", rows(**drawn_at_random(50, 1)))
    done = run("stats", path, "--json", "-")
    assert (done.code, done.err) == (0, [])
    found = json.loads(done.out)
    assert list(found) == [
        "catalogues", "read", "kept", "dropped", "ranks", "years", "results", "lengths", "handicaps", "komi", "boards",
        "formats", "programs", "archives", "program_names", "repairs", "unclear",
    ]  # fmt: skip
    assert (found["catalogues"], found["read"]) == ([str(path)], 50)
    assert found["ranks"]["bands"] == list(BANDS)
    assert [len(row) for row in found["ranks"]["games"]] == [len(BANDS)] * len(BANDS)
    run("stats", path, "--json", tmp_path / "stats.json")
    assert (tmp_path / "stats.json").read_text() == done.out


def test_tables_are_plain_lines_without_a_terminal(tmp_path: Path) -> None:
    path = write_catalogue(
        tmp_path / "games.parquet",
        rows(
            black_rating=[32, 32, None, 49], white_rating=[40, 40, 45, None], black_pro=[False, False, None, True],
            white_pro=[False, False, True, None], winner=["black", "white", "white", None],
            ending=["score", "resign", "resign", "void"], n_legal=[249, 250, 12, 0], drop=[None] * 3 + ["no_moves"],
        ),
    )  # fmt: skip
    done = run("stats", path)
    assert (done.code, done.err) == (0, [])
    assert done.out.startswith(
        f"{path}\n4 games = 3 kept + 1 no moves\n\n"
        "dropped   games  share  reason\n"
        "no_moves      1  25.0%  no moves\n\n"
        "The following tables count kept games only.\n\n"
        "ranks: Black's down, White's across, in games\n"
        "        9d pro\n"
        "1d       2   .\n"
        "unknown  .   1\n\n"
        "winner  score  resign  all\n"
        "black       1       .    1  33.3%\n"
        "white       .       2    2  66.7%\n"
    )
    assert "\n200-249      1       .    1  33.3%\n250-299      .       1    1  33.3%\n" in done.out
    assert done.out.endswith("All ranks, results, komi, dates and times were parsed.\n")
    assert not any(line.endswith(" ") for line in done.out.splitlines())


@pytest.mark.subprocess
@pytest.mark.parametrize("columns", [80, *slow(120)])
def test_tables_fit_the_terminal(tmp_path: Path, columns: int) -> None:
    text = {"archive": ["\x1b[2J" + "名" * 90] * 300, "black_rank": ["\x1b]0;" + "q" * 200] * 300}
    columns_ = drawn_at_random(300, 3) | text | {"black_rating": [None] * 300}
    path = write_catalogue(tmp_path / "games.parquet", rows(**columns_))
    lines = on_terminal(columns, "stats", str(path))
    assert max(len(line) + sum(letter > "\u2e80" for letter in line) for line in lines[1:]) <= columns
    assert not any("\x1b" in line for line in lines)


@pytest.mark.parametrize(
    ("count", "bands", "unit"),
    [(12, 15, "games"), (99_999, 12, "games (k: thousands)"), (9_900, 15, "games (k: thousands; 20k+: 20 to 11 kyu)")],
)
def test_ranks_fit_80_columns_for_any_number_of_games(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    count: int,
    bands: int,
    unit: str,
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    games = [[count * (k < bands and m < bands) for m in range(len(BANDS))] for k in range(len(BANDS))]
    print_stats(replace(counted(tmp_path, year=[2001]), ranks=games))
    lines = capsys.readouterr().out.splitlines()
    first = lines.index(f"ranks: Black's down, White's across, in {unit}") + 1
    table = lines[first : first + bands + 1]
    assert max(map(len, table)) <= 80
    assert [len(line.split()) for line in table] == [bands, *[bands + 1] * bands]
    assert (table[0].split(), table[1].split()[0]) == ([line.split()[0] for line in table[1:]], table[0].split()[0])


def test_corpus_without_kept_games(tmp_path: Path) -> None:
    path = write_catalogue(tmp_path / "games.parquet", rows(drop=["ko", "ko"]))
    done = run("stats", path, "-o", tmp_path / "page.png")
    assert done.out.splitlines()[1:] == [
        "2 games = 0 kept + 2 ko", "", "dropped  games   share  reason",
        "ko           2  100.0%  an immediate ko recapture",
    ]  # fmt: skip
    empty = write_catalogue(tmp_path / "empty.parquet", rows(year=[1]).slice(0, 0))
    assert run("stats", empty).out.splitlines()[1:] == ["0 games = 0 kept"]
    assert to_svg(draw_charts(stats([empty])))


# as a page


@pytest.mark.slow
def test_page_is_deterministic(tmp_path: Path) -> None:
    path = write_catalogue(tmp_path / "games.parquet", rows(**drawn_at_random(500, 4)))
    for name in ("1.png", "2.png", "1.svg", "2.svg"):
        assert run("stats", path, "-o", tmp_path / name).code == 0
    assert (tmp_path / "1.png").read_bytes() == (tmp_path / "2.png").read_bytes()
    assert (tmp_path / "1.svg").read_bytes() == (tmp_path / "2.svg").read_bytes()
    assert (tmp_path / "1.png").read_bytes()[:4] == b"\x89PNG"


def test_page_shows_all_tables(tmp_path: Path) -> None:
    stats = counted(
        tmp_path,
        black_rating=[32] * 7, white_rating=[40] * 7, year=[1846, 2001, 2001, 2001, 2001, None, 2001],
        komi=[6.5, 6.5, 3.25, 6.5, None, 6.5, 6.5], drop=[None] * 6 + ["$x$<&\x00"],
    )  # fmt: skip
    text = to_svg(draw_charts(stats))
    shown = re.findall(r"<text[^>]*>([^<]*)</text>", text)
    assert {"6 games", "years (1 unknown)", "1d", "9d", "3.25", r"$x$&lt;&amp;\x00", "handicap"} <= {
        s.strip() for s in shown
    }
    assert any("7 read, 1 dropped" in each and "1846 to 2001" in each for each in shown)


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0"), (999, "999"), (1000, "1.0k"), (9949, "9.9k"), (9950, "10k"), (99_499, "99k"), (999_499, "999k"),
     (999_500, "1.0M"), (12_345_678, "12M"), (10**10, "10G")],
)  # fmt: skip
def test_short_counts(count: int, text: str) -> None:
    assert short_count(count) == text


@pytest.mark.parametrize(
    ("arguments", "expected_text"),
    [
        (["missing.parquet"], "missing.parquet is not a catalogue"),
        (["GAMES", "-o", "page.gif"], ".png or .svg"),
        (["GAMES", "--json", "GAMES/x.json"], "cannot write"),
    ],
)
def test_errors_are_one_line(tmp_path: Path, arguments: list[str], expected_text: str) -> None:
    games = write_catalogue(tmp_path / "games.parquet", rows(year=[2001]))
    done = run("stats", *(each.replace("GAMES", str(games)) for each in arguments))
    (line,) = done.err
    assert done.code == 2
    assert bool(done.out) == ("--json" in arguments)  # written last, so that a failing file loses no result
    assert line.startswith("kifu: ")
    assert expected_text in line
