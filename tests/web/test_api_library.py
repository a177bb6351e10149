"""Games, corpus and reports: lists, facets, records, statistics, compared with plain Python."""

import gzip
import json
import random
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="needs kifu[web]")

import format_samples
import kifu
from catalogues import rows, write_catalogue
from kgs_archives import zip_of
from kifu.corpus.splits import split
from kifu.errors import FormatError, SourceError
from kifu.records.game import read_sgf
from kifu.web.api import Deadline, TimeLimitError
from kifu.web.games import read_upload
from kifu.web.site import Site
from kifu.web.statistics import count_games, count_splits
from web_site import ServedSite, axe, expect, in_all_windows, open_page, problems, serving, tab_to

HOSTILE = '<script>alert("1")</script>'
RECORDS = {
    "a.sgf": b"(;SZ[19]PB[Shusaku]PW[Gennan]DT[1846-09-11]RE[B+2];B[pd];W[dc];B[pq];W[oc];B[cp];W[cf])",
    "bad.sgf": b"\x00\xff no record \x1b[31m <b>",
    "occupied.sgf": b"(;SZ[19]PB[x]PW[y];B[pd];W[pd])",
    "two.sgf": b"(;SZ[13]KM[5.5];B[cc];W[jj])(;SZ[9];B[ee];W[cc])",
    "copy.sgf": b"(;SZ[19]PB[one]PW[two];B[dp];W[cd];B[qp];W[co];B[pc];W[fc])",
    "long.sgf": b"(;SZ[19]C[" + b"x" * 70_000 + b"];B[aa];W[aa])",
}


def random_games(count: int) -> dict[str, list]:
    rng = random.Random(5)
    years = [rng.choice([None, 1846, 1999, 2000, 2016]) for _ in range(count)]
    return {
        "black": [rng.choice([None, "Ann", "ann", "Bob", HOSTILE, "o'Neil", "柯洁"]) for _ in range(count)],
        "white": [rng.choice([None, "Ann", "Carl", "100%", "柯洁"]) for _ in range(count)],
        "black_rank": [rng.choice([None, "3d"]) for _ in range(count)],
        "black_rating": [rng.choice([None, 30.0, 36.5, 41.0]) for _ in range(count)],
        "white_rating": [rng.choice([None, 30.0, 36.5]) for _ in range(count)],
        "year": years,
        "date_text": [None if year is None else str(year) for year in years],
        "event": [rng.choice([None, "Castle", "Meijin_1"]) for _ in range(count)],
        "winner": [rng.choice([None, "black", "white", "draw"]) for _ in range(count)],
        "result_text": [rng.choice([None, "B+R", "W+1.5"]) for _ in range(count)],
        "handicap": [rng.choice([None, 0, 1, 2, 9]) for _ in range(count)],
        "width": [rng.choice([19, 19, 9]) for _ in range(count)],
        "height": [rng.choice([19, 19, 9]) for _ in range(count)],
        "archive": [rng.choice(["a.zip", "b'.zip"]) for _ in range(count)],
        "drop": [rng.choice([None, None, None, "ko"]) for _ in range(count)],
        "moves": [[0] * rng.randint(0, 3) for _ in range(count)],
    }


GAMES = random_games(150)


@pytest.fixture(scope="module")
def evaluation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    interval = [0.5, 0.4, 0.6]
    score = {
        "positions": 10, "accounts": 4, "top1": interval, "top3": interval, "top5": interval, "nll": [2.0, 1.9, 2.1],
    }  # fmt: skip
    net = {
        "name": "run", "description": "b6c64", "known_games": 0, "learned": 0, "score": score,
        "calibration": {
            "error": interval,
            "bins": [{"start": 0.0, "stop": 0.1, "positions": 10, "confidence": 0.05, "accuracy": interval}],
        },
        "entropy": interval, "value": None, "by": {"rank": {"3d": score}}, "to_first": None,
    }  # fmt: skip
    example = {
        "kind": "missed", "players": [HOSTILE, "b"], "ranks": ["3d", ""], "date": "", "number": 3,
        "to_play": "black", "played": "Q16", "answers": [{"net": "run", "probability": 0.1, "choice": 2, "best": []}],
    }  # fmt: skip
    values = {
        "version": 3, "kifu": "1", "board": "19x19", "sources": ["x"], "games_hash": "", "games": 5, "positions": 10,
        "learned": 0, "options": {}, "remarks": ["careful"], "nets": [net],
        "examples": [
            example | {"location": location}
            for location in ("records: a.sgf", "records: two.sgf, game 2", "other.zip: a.sgf", "' OR 1=1 --")
        ],
    }  # fmt: skip
    path = tmp_path_factory.mktemp("report") / "evaluation.json"
    path.write_text(json.dumps(values))
    return path


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = {"archive": "records", "entry": 0, "index": 0, "row": 7}
    pair = {
        "first": "a", "second": "b", "distinct": [1, 2], "first_rows": [1, 2], "second_rows": [3, 4],
        "first_games": 1, "second_games": 1,
        "games": [{"first": place, "second": None, "positions": 1, "cluster": True, "record": False}],
    }  # fmt: skip
    sets = [{"path": name, "kind": "catalogue", "games": None, "positions": 5} for name in "ab"]
    path = tmp_path_factory.mktemp("report") / "audit.json"
    path.write_text(json.dumps({"leaks": True, "stones": [[0, 9], [10, None]], "sets": sets, "pairs": [pair]}))
    return path


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, evaluation: Path, audit: Path):
    """A server of random games (catalogue 0), of RECORDS (1), and of RECORDS without their folder (2)."""
    folder = tmp_path_factory.mktemp("library")
    records = folder / "records"
    records.mkdir()
    for name, data in RECORDS.items():
        (records / name).write_bytes(data)
    kifu.ingest(records, folder / "records.parquet")
    records.rename(folder / "renamed")
    kifu.ingest(folder / "renamed", folder / "renamed.parquet")
    (folder / "renamed").rename(records)
    paths = [write_catalogue(folder / "games.parquet", rows(**GAMES)), folder / "records.parquet"]
    with serving(Site([*paths, folder / "renamed.parquet"], [], [evaluation, audit], [records])) as served:
        yield served


def chosen(without: tuple[str, ...] = (), **filters) -> list[int]:
    found = []
    for row in range(len(GAMES["black"])):
        game = {name: values[row] for name, values in GAMES.items()}
        given = {name: value for name, value in filters.items() if name not in without}
        if all(_holds(game, name, value, given) for name, value in given.items()):
            found.append(row)
    return found


def _holds(game: dict, name: str, value, given: dict) -> bool:
    lower = {key: (game[key] or "").lower() for key in ("black", "white", "event")}
    match name:
        case "q":
            return any(value.lower() in text for text in lower.values())
        case "player":
            return value.lower() in [
                lower[colour] for colour in ([given["colour"]] if "colour" in given else ["black", "white"])
            ]
        case "colour":
            return True
        case "year_from":
            return game["year"] is not None and game["year"] >= value
        case "year_to":
            return game["year"] is not None and game["year"] <= value
        case "rating":  # least() of SQL ignores missing ratings
            ratings = [each for each in (game["black_rating"], game["white_rating"]) if each is not None]
            return bool(ratings) and min(ratings) >= value
        case "winner":
            return game["winner"] == (None if value == "none" else value)
        case "handicap":
            return ((game["handicap"] or 0) > 1) == (value == "some")
        case "board":
            return f"{game['width']}x{game['height']}" == value
        case "archive":
            return game["archive"] == value
        case "sql":
            return game["black"] == "Ann" or game["white"] == "Carl"
    raise AssertionError(name)


CHOICES = {
    "q": ["ann", "CASTLE", "n_1", "%", "<script>", "o'n", "柯", "zz"],
    "player": ["ann", "O'NEIL", "柯洁", "100%"],
    "colour": ["black", "white"],
    "year_from": [1846, 1999, 2001],
    "year_to": [1900, 2000],
    "rating": [30, 36.5, 40],
    "winner": ["black", "white", "draw", "none"],
    "handicap": ["none", "some"],
    "board": ["19x19", "9x9", "9x19", "5x5"],
    "archive": ["a.zip", "b'.zip", "a"],
    "sql": ["black = 'Ann' OR white = 'Carl' -- last"],
}


def random_filters(count: int) -> list[dict]:
    rng = random.Random(3)
    single = [{name: value} for name, values in CHOICES.items() for value in values]
    mixed = [
        {name: rng.choice(CHOICES[name]) for name in rng.sample(sorted(CHOICES), rng.randint(2, 3))}
        for _ in range(count)
    ]
    return [{}, *single, *mixed]


def test_filters_choose_the_games_of_the_slow_twin(served: ServedSite) -> None:
    filled = 0
    for filters in random_filters(40):
        answer = served.get("/api/games", **filters, count=200).json
        assert [game["row"] for game in answer["games"]] == chosen(**filters), filters
        assert answer["total"] == len(answer["games"])
        filled += bool(answer["games"])
    assert filled > 40


def test_pages_and_orders_are_those_of_the_slow_twin(served: ServedSite) -> None:
    def text(name: str):
        return lambda row: None if GAMES[name][row] is None else GAMES[name][row].lower()

    def rating(row: int):
        both = GAMES["black_rating"][row], GAMES["white_rating"][row]
        return None if None in both else sum(both)

    keys = {
        "black": text("black"), "white": text("white"), "event": text("event"),
        "date": lambda row: GAMES["year"][row], "result": lambda row: GAMES["result_text"][row],
        "moves": lambda row: len(GAMES["moves"][row]), "rating": rating,
    }  # fmt: skip
    count = len(GAMES["black"])
    for name, key in keys.items():
        known = [row for row in range(count) if key(row) is not None]
        unknown = [row for row in range(count) if key(row) is None]
        for descending in (False, True):
            expected = sorted(known, key=key, reverse=descending) + unknown
            found = [
                game["row"]
                for first in range(0, count + 40, 40)
                for game in served.get("/api/games", sort=name, descending=descending, first=first, count=40).json[
                    "games"
                ]
            ]
            # sorted(reverse=True) keeps equal keys in their order, as the server does.
            assert found == expected, (name, descending)


def test_facets_count_the_games_of_the_slow_twin(served: ServedSite) -> None:
    def counts(values, *, by_value: bool = False) -> list:
        found = Counter(values).items()
        if by_value:
            return [list(each) for each in sorted(found, key=lambda each: (each[0] is None, each[0]))]
        return [list(each) for each in sorted(found, key=lambda each: (-each[1], each[0]))]

    def of(column: str, selected: list[int]) -> list:
        return [GAMES[column][row] for row in selected]

    for filters in random_filters(15):
        answer = served.get("/api/facets", **filters).json
        boards = chosen(("board",), **filters)
        sizes = zip(of("width", boards), of("height", boards))
        handicaps = [(each or 0) > 1 for each in of("handicap", chosen(("handicap",), **filters))]
        winners = [each or "none" for each in of("winner", chosen(("winner",), **filters))]
        years = of("year", chosen(("year_from", "year_to"), **filters))
        assert answer["years"] == counts(years, by_value=True), filters
        assert answer["boards"] == counts([f"{width}x{height}" for width, height in sizes]), filters
        assert answer["handicaps"] == counts(["some" if each else "none" for each in handicaps]), filters
        assert answer["winners"] == counts(winners), filters
        assert answer["archives"] == counts(of("archive", chosen(("archive",), **filters))), filters
        players: dict[str, list[str]] = {}
        for row in chosen(("player", "colour"), **filters):
            colours = [filters["colour"]] if "colour" in filters else ["black", "white"]
            names = {
                GAMES[colour][row].lower(): GAMES[colour][row] for colour in reversed(colours) if GAMES[colour][row]
            }
            for lower, name in names.items():
                players.setdefault(lower, []).append(name)
        expected = {lower: len(names) for lower, names in players.items()}
        assert {name.lower(): games for name, games in answer["players"]} == expected, filters
        assert [games for _, games in answer["players"]] == sorted(expected.values(), reverse=True)


def test_list_gives_all_fields(served: ServedSite) -> None:
    game = served.get("/api/games", corpus=1, q="shusaku").json["games"]
    assert game == [
        {
            "row": 0, "black": "Shusaku", "white": "Gennan", "black_rank": None, "white_rank": None,
            "date": "1846-09-11", "year": 1846, "event": None, "result": "B+2", "moves": 6, "handicap": None,
            "winner": "black", "width": 19, "height": 19, "drop": None,
        }
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("path", "params", "message"),
    [
        ("/api/games", {"sort": "moves; DROP"}, "sort"),
        ("/api/games", {"first": -1}, "first"),
        ("/api/games", {"count": 201}, "count"),
        ("/api/games", {"corpus": 3}, "there is no catalogue 3"),
        ("/api/games", {"sql": "black = "}, "syntax"),
        ("/api/games", {"sql": "true); DROP TABLE summaries; --"}, ""),
        ("/api/games", {"sql": "black IN (SELECT content FROM read_text('/etc/passwd'))"}, "subquery"),
        ("/api/facets", {"years": 1}, "years: no such key"),
        ("/api/facets", {"board": "19"}, "board"),
        ("/api/dropped", {"reason": "ko' OR '1"}, "reason"),
        ("/api/clusters", {"count": 0}, "count"),
        ("/api/stats", {"corpus": 9}, "there is no catalogue 9"),
        ("/api/splits", {"q": "x"}, "q: no such key"),
        ("/api/games/0/150/sgf", {}, "there is no game 150"),
        ("/api/games/0/x/sgf", {}, "row"),
        ("/api/games/1/7/record", {}, "there is no game 7"),
        ("/api/reports/2", {}, "there is no report 2"),
        ("/api/reports/-1", {}, "report"),
    ],
)
def test_errors_are_one_line(served: ServedSite, path: str, params: dict, message: str) -> None:
    assert message in served.get(path, **params).error


def test_download_is_the_game(served: ServedSite) -> None:
    answer = served.get("/api/games/1/0/sgf")
    assert answer.status == 200
    assert answer.headers["content-disposition"] == 'attachment; filename="game-0.sgf"'
    assert answer.headers["content-type"] == "application/x-go-sgf"
    assert (read_sgf(answer.body).moves == read_sgf(RECORDS["a.sgf"]).moves).all()
    bad = next(game for game in served.get("/api/games", corpus=1).json["games"] if game["drop"] == "no_record")
    assert "cannot be written as SGF" in served.get(f"/api/games/1/{bad['row']}/sgf").error


@pytest.mark.slow
def test_upload_lists_all_games(served: ServedSite) -> None:
    record = b"(;GM[3];)(;SZ[9]PB[<b>]PW[Gennan]BR[3d]KM[6.5]HA[0]EV[\\] x];B[ee];W[cc];B[ee])(;SZ[9])"
    other, game, empty = served.post("/api/upload", record).json["games"]
    assert (other["line"], other["notes"]) == (None, [["dropped", "not_go"]])
    assert empty["line"]["moves"] == []
    info = game["info"]
    assert (info["black"], info["white"], info["black_rank"], info["event"]) == ("<b>", "Gennan", "3d", "] x")
    assert (info["komi"], info["handicap"], info["width"], info["moves"]) == (6.5, 0, 9, 3)
    assert (info["ranks"], game["nodes"]) == (["3d", None], [])
    assert game["line"]["moves"] == [40, 20 | 0x8000]
    assert game["notes"] == [["illegal", "occupied", 3]]


@pytest.mark.parametrize(
    ("record", "notes"),
    [
        (b"(;SZ[9]C[\xe2\x82\xac];B[ee];W[cc", [["truncated"]]),
        (
            "(;CA[UTF-8]SZ[9]PB[\u53e4\u529b]PW[\u674e\u4e16\u77f3]EV[\u56f4\u68cb];B[ee])".encode("gb18030"),
            [["encoding", "UTF-8", "GB18030"]],
        ),
        (b"(;SZ[9]" + b";B[ee];W[]" * 1001 + b")", [["illegal", "occupied", 3]]),
        (b"(;SZ[9]" + b";B[];W[]" * 1001 + b")", [["long", 2002]]),
    ],
)
def test_upload_says_what_could_not_be_read(served: ServedSite, record: bytes, notes: list) -> None:
    (game,) = served.post("/api/upload", record).json["games"]
    assert game["notes"] == notes


@pytest.mark.slow
def test_upload_reads_all_formats_and_archives(served: ServedSite) -> None:
    names = {"sgf": "SGF", "gib": "GIB", "ngf": "NGF", "ugf": "UGF", "json": "OGS", "olf": "OLF"}
    samples = {f"a.{extension}": getattr(format_samples, name) for extension, name in names.items()}
    archive = zip_of({f"games/{name}": data for name, data in samples.items()} | {"readme.md": b"nothing"})
    assert len(kifu.read_games(archive)) == len(samples)  # compiles the kernels, which a request has no time for
    games = {game["name"]: game for game in served.post("/api/upload?name=all.zip", archive).json["games"]}
    assert set(games) == set(samples)
    for name, data in samples.items():
        (alone,) = served.post(f"/api/upload?name={name}", data).json["games"]
        assert alone["line"] == games[name]["line"], name
        assert alone["line"]["moves"], name


def test_upload_shows_the_tree(served: ServedSite) -> None:
    record = (
        b"(;SZ[9]C[a \\] b]LB[ee:A][cc:12]TR[aa:ba];B[ee](;W[cc];B[dd])(W[gg]C[other](;B[aa])(;B[bb]))(;AB[hh]W[ii]))"
    )
    (game,) = served.post("/api/upload", record).json["games"]
    shown = [(each["parent"], each["move"], each["comment"]) for each in game["nodes"]]
    white = 0x8000
    assert shown == [
        (-1, None, "a ] b"), (0, 40, ""), (1, 20 | white, ""), (2, 30, ""), (1, 60 | white, "other"), (4, 0, ""),
        (4, 10, ""), (1, 80 | white, ""),
    ]  # fmt: skip
    marks = game["nodes"][0]["marks"]
    assert marks == [[40, "label", "A"], [20, "label", "12"], [0, "triangle", ""], [1, "triangle", ""]]
    assert game["nodes"][7]["setup"] == [70]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("record", "nodes", "notes"),
    [
        (b"(;SZ[19]TR" + b"[aa:ss]" * 20 + b"L[aa][bb])", 1, []),
        (b"(;C[a" + b"[" * 1_000_000, 0, [["truncated"]]),
        (b"(;C[a]" + b";;C[\\\\]" * 40_000, 20_000, [["truncated"], ["tree"]]),
        (b"(;SZ[25]" + b"TR[aa:yy]" * 100_000 + b")", 0, [["tree"]]),
        (b"(;SZ[19]" + b";TR[aa:ss]" * 90_000 + b")", 1445, [["tree"]]),
        (b"(;SZ[25]C[a]" + b"(;AB[aa:yy])" * 10_000 + b")", 105, [["tree"]]),
        (gzip.compress(b"(;C[a];C[" + b"x" * 20_000_000 + b"])"), 2, [["tree"]]),
        (zip_of({f"{k}.sgf": b"(;C[" + b"x" * 1_000_000 + b"])" for k in range(17)}), 1, [["tree"]]),
    ],
    ids=["one mark a point", "value", "nodes", "node", "marks", "setup", "gzip", "zip"],
)
def test_trees_are_limited(record: bytes, nodes: int, notes: list) -> None:
    name = {b"PK": "a.zip", b"\x1f\x8b": "a.gz"}.get(record[:2], "a.sgf")
    games = read_upload(record, name, Deadline(600))["games"]
    assert (len(games[0]["nodes"]), games[-1]["notes"]) == (nodes, notes)
    assert len(json.dumps(games)) < 20_000_000


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "the file is empty"),
        (b"no record", "the file: neither an archive nor a game record"),
        (b"\x00\xff" * 100, "neither an archive nor a game record"),
        (b"(;SZ[99];B[aa])", "board size"),
        (b"(" * 1_000_000, "neither an archive nor a game record"),
        (b"(;" + b"B[aa];" * 100_000 + b")", "larger than the reader accepts"),
        (b"PK\3\4" + b"x" * 100, "the zip is cut off"),
        (b" " * ((1 << 20) + 1), "the body must have at most 1,048,576 bytes"),
    ],
)
def test_uploads_that_are_no_games(served: ServedSite, data: bytes, message: str) -> None:
    assert message in served.post("/api/upload", data).error


def test_uploads_with_impossible_points_are_lines_or_errors(served: ServedSite) -> None:
    (game,) = served.post("/api/upload", b"(;SZ[9];B[zz];W[aa])").json["games"]
    assert (game["line"]["moves"], game["notes"]) == ([], [["illegal", "off_board", 1]])
    assert served.post("/api/upload", b"(;SZ[9]AB[zz];B[aa])").status in (200, 400)


def test_statistics_are_those_of_kifu_stats(served: ServedSite) -> None:
    answer = served.get("/api/stats", corpus=1).json
    assert (answer["read"], answer["kept"]) == (7, 4)
    assert answer["dropped"] == {"occupied": 2, "no_record": 1}
    assert answer["boards"] == {"19x19": 2, "13x13": 1, "9x9": 1}
    assert answer["years"] == {"1846": 1, "unknown": 3}
    assert answer == served.get("/api/stats", corpus=1).json


def test_statistics_are_interrupted(served: ServedSite) -> None:
    deadline = Deadline()
    deadline.end()
    for count in (count_games, count_splits):
        with pytest.raises(TimeLimitError):
            count(served.site, 0, deadline)


def test_dropped_games_and_their_bytes(served: ServedSite) -> None:
    answer = served.get("/api/dropped", corpus=1).json
    assert answer["total"] == 3
    games = {game["member"]: game for game in answer["games"]}
    assert [game["member"] for game in answer["games"]] == ["bad.sgf", "long.sgf", "occupied.sgf"]
    assert [game["readable"] for game in answer["games"]] == [False, True, True]
    assert games["occupied.sgf"]["drop"] == "occupied"
    assert served.get("/api/dropped", corpus=1, reason="no_record").json["games"] == [games["bad.sgf"]]
    assert served.get("/api/dropped", corpus=1, first=2, count=1).json["games"] == [games["occupied.sgf"]]

    def record(corpus: int, row: int) -> dict:
        return served.get(f"/api/games/{corpus}/{row}/record").json

    bad = record(1, games["bad.sgf"]["row"])
    assert bad["text"] == "\\x00\\xff no record \\x1b[31m <b>"
    assert (bad["bytes"], bad["shown"], bad["known"]) == (22, 22, True)
    assert record(1, games["occupied.sgf"]["row"])["text"] == RECORDS["occupied.sgf"].decode()
    long = record(1, games["long.sgf"]["row"])
    assert (long["bytes"], long["shown"], len(long["text"])) == (len(RECORDS["long.sgf"]), 65536, 65536)
    unknown = record(2, 0)
    assert (unknown["archive"], unknown["known"], unknown["text"]) == ("renamed", False, None)


def test_second_game_of_a_member_has_its_own_bytes(served: ServedSite) -> None:
    rows = [game["row"] for game in served.get("/api/games", corpus=1, board="9x9").json["games"]]
    assert [served.get(f"/api/games/1/{row}/record").json["text"] for row in rows] == ["(;SZ[9];B[ee];W[cc])"]


def test_clusters_of_duplicates(served: ServedSite) -> None:
    answer = served.get("/api/clusters", corpus=1).json
    assert (answer["total"], answer["games"]) == (1, 2)
    (cluster,) = answer["clusters"]
    assert cluster["size"] == 2
    assert [(game["row"], game["black"]) for game in cluster["games"]] == [(0, "Shusaku"), (2, "one")]
    assert len(cluster["canonical"]) == 16


def test_splits_are_those_of_kifu_split(served: ServedSite, tmp_path: Path) -> None:
    splits = {split["name"]: split["sets"] for split in served.get("/api/splits", corpus=0).json}
    assert sum(splits["hash"].values()) == GAMES["drop"].count(None)
    report = split(served.site.corpus(0).searcher.catalogue.path, tmp_path)
    assert {name: count for name, count in splits["hash"].items() if name} == {
        file.stem: count for file, count in report.sets.items()
    }


def test_reports_link_their_games(served: ServedSite) -> None:
    assert served.get("/api/reports").json == [
        {"name": "evaluation.json", "kind": "evaluation"},
        {"name": "audit.json", "kind": "audit"},
    ]
    values = served.get("/api/reports/0").json["values"]
    last = served.get("/api/games", corpus=1, board="9x9").json["games"][0]["row"]
    assert [example["game"] for example in values["examples"]] == [[1, 0], [1, last], None, None]
    assert values["nets"][0]["score"]["top1"] == [0.5, 0.4, 0.6]
    assert values["examples"][0]["players"][0] == HOSTILE
    (pair,) = served.get("/api/reports/1").json["values"]["pairs"]
    assert (pair["shared"], pair["games"][0]["first"]["game"], pair["games"][0]["second"]) == (1, [1, 0], None)


@pytest.mark.parametrize(
    "broken", ["", "[]", "{}", "nan", '{"sets": 1}', '{"pairs": 1}', "\\", '{"version": 2}', "[" * 99_999]
)
def test_files_that_are_no_reports(tmp_path: Path, broken: str) -> None:
    path = tmp_path / "report.json"
    path.write_text(broken)
    with pytest.raises(FormatError, match=r"report\.json") as error:
        Site([write_catalogue(tmp_path / "games.parquet", rows(black=["a"]))], reports=[path])
    assert str(error.value).isprintable()
    assert str(error.value).count("report.json") == 1
    with pytest.raises(SourceError, match="cannot read"):
        Site([tmp_path / "games.parquet"], reports=[tmp_path / "missing.json"])


def test_reports_with_numbers_that_are_not_finite_are_refused(tmp_path: Path, evaluation: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text(evaluation.read_text().replace("0.05", "1e999"))
    with pytest.raises(FormatError, match=r"report\.json"):
        Site([write_catalogue(tmp_path / "games.parquet", rows(black=["a"]))], reports=[path])


@pytest.fixture
def page(browser: Any, served: ServedSite, window: dict[str, Any]) -> Iterator[Any]:
    with open_page(browser, served.url, **window) as page:
        yield page
        page.wait_for_function("() => document.documentElement.scrollWidth <= innerWidth")


def open_filter(page: Any) -> None:
    """Open the filter, which is closed on a phone."""
    summary = page.locator("aside > details > summary")
    if not page.locator("aside > details").evaluate("each => each.open"):
        summary.press("Enter")


@pytest.mark.slow
@in_all_windows
def test_search_filter_and_order_games(served: ServedSite, page: Any) -> None:
    status = page.get_by_role("status")
    page.goto(served.url + "/?sort=catalogue")
    status.get_by_text(f"{len(GAMES['black'])} games").wait_for()
    page.get_by_role("searchbox").press_sequentially("<SCRIPT", delay=20)
    found = chosen(q="<script>")
    status.get_by_text(f"{len(found)} games", exact=True).wait_for()
    page.wait_for_url("**q=%3CSCRIPT**")
    expect(page.locator("tbody tr").first).to_contain_text(HOSTILE)
    expect(page.locator("tbody tr a").first).to_have_attribute("href", f"/game/0/{found[0]}")
    assert page.evaluate("history.length") == 2  # typing adds no entries
    assert axe(page) == []
    open_filter(page)
    page.get_by_role("button", name=re.compile("^19 . 9")).press("Enter")
    both = chosen(q="<script>", board="19x9")
    status.get_by_text(f"{len(both)} games", exact=True).wait_for()
    year = next(GAMES["year"][row] for row in both if GAMES["year"][row])
    page.get_by_role("button", name=f"{year}: ").press("Enter")
    years = chosen(q="<script>", board="19x9", year_from=year, year_to=year)
    status.get_by_text(f"{len(years)} games", exact=True).wait_for()
    page.go_back()
    status.get_by_text(f"{len(both)} games", exact=True).wait_for()
    page.go_back()
    status.get_by_text(f"{len(found)} games", exact=True).wait_for()
    page.get_by_label("Sort by").select_option("moves-")
    page.wait_for_url(re.compile("sort=moves.*descending=true"))
    page.get_by_label("Condition over").evaluate("each => each.closest('details').open = true")
    page.get_by_label("Condition over").fill("nonsense =")
    page.get_by_role("button", name="Apply").press("Enter")
    page.get_by_role("alert").wait_for()
    page.get_by_role("button", name="Clear filter").press("Enter")
    status.get_by_text(f"{len(GAMES['black'])} games").wait_for()
    problems(page)[:] = [each for each in problems(page) if "status of 400" not in each]  # the list, then the counts


CONTROLS = {
    "q": ("Player or event", "n_1"), "player": ("Player", "o'neil"), "colour": ("Colour", "black"),
    "year_from": ("From year", 1999), "year_to": ("To year", 2000), "rating": ("Lowest rank", 30),
    "winner": ("Winner", "none"), "handicap": ("Handicap", "some"), "board": ("Board", "9x9"),
    "archive": ("Archive", "b'.zip"),
}  # fmt: skip
"""The label of each control of the filter, and a value."""


@pytest.mark.slow
@in_all_windows
def test_each_control_filters_games(served: ServedSite, page: Any) -> None:
    status = page.get_by_role("status")
    page.goto(served.url)
    status.get_by_text(f"{len(GAMES['black'])} games").wait_for()
    open_filter(page)
    for name, (label, value) in CONTROLS.items():
        control = page.locator(".field", has=page.get_by_text(label, exact=True)).locator("input, select")
        if control.evaluate("each => each.tagName") == "SELECT":
            control.select_option(str(value))
        else:
            control.fill(str(value))
        page.wait_for_url(f"**{name}=*")
        status.get_by_text(f"{len(chosen(**{name: value}))} games", exact=True).wait_for()
        page.get_by_role("button", name="Clear filter").press("Enter")
        status.get_by_text(f"{len(GAMES['black'])} games").wait_for()
        expect(control).to_have_value("")


@pytest.mark.slow
@in_all_windows
def test_pages_of_games_by_keyboard(served: ServedSite, page: Any) -> None:
    page.goto(served.url + "/?sort=moves")
    page.get_by_text(re.compile("^1.50 of 150")).wait_for()
    tab_to(page, "Next", "Enter")
    page.get_by_text(re.compile("^51.100 of 150")).wait_for()
    tab_to(page, "Last page", "Space")
    page.get_by_text(re.compile("^101.150 of 150")).wait_for()
    page.wait_for_url("**first=100**")
    page.go_back()
    page.get_by_text(re.compile("^51.100 of 150")).wait_for()


@pytest.mark.slow
@in_all_windows
def test_corpus_page(served: ServedSite, page: Any) -> None:
    page.goto(served.url + "/corpus?corpus=1")
    page.get_by_text("7 games: 4 kept, 3 dropped").wait_for()
    page.get_by_role("link", name="Dropped games").press("Enter")
    page.get_by_role("button", name="it contains no game").press("Enter")
    page.get_by_role("button", name="Show the bytes of record 1").press("Enter")
    page.get_by_text("\\x00\\xff no record \\x1b[31m <b>").wait_for()
    page.get_by_role("link", name="Duplicates").press("Enter")
    expect(page.get_by_role("link", name="Shusaku")).to_have_attribute("href", "/game/1/0")
    page.get_by_role("link", name="Games", exact=True).press("Enter")
    page.get_by_role("status").get_by_text("7 games").wait_for()  # links keep the catalogue
    page.go_back()
    page.get_by_role("link", name="Splits").press("Enter")
    page.get_by_role("rowheader", name="validation").wait_for()
    expect(page.get_by_role("link", name="audit.json")).to_have_attribute("href", "/reports?report=1")
    page.goto(served.url + "/corpus?corpus=2&view=dropped&record=1")
    page.get_by_text("does not know where renamed is").wait_for()


@pytest.mark.slow
@in_all_windows
def test_reports_page(served: ServedSite, page: Any) -> None:
    page.goto(served.url + "/reports")
    page.get_by_text("10 positions of 5 games on 19").wait_for()
    expect(page.get_by_role("link", name=HOSTILE).first).to_have_attribute("href", "/game/1/0?ply=2")
    expect(page.get_by_text("This game is in no catalogue")).to_have_count(2)
    page.get_by_label("Measure").select_option("nll")
    page.wait_for_url("**measure=nll")
    assert axe(page) == []
    page.get_by_role("link", name="audit.json").press("Enter")
    expect(page.get_by_role("link", name="records, entry 1")).to_have_attribute("href", "/game/1/0")
    assert axe(page) == []
