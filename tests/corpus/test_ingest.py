"""Ingesting any mix of sources: order, locations of games, reports."""

import bz2
import gzip
import json
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kifu
from catalogues import write_catalogue
from commands import run
from kgs_archives import archive, put, record, records, tarred, zipped
from kifu.assets import config_names
from kifu.corpus.catalogue import open_catalogue
from kifu.corpus.cleaning import load_cleaning_rules
from kifu.corpus.duplicates import find_clusters
from kifu.corpus.hashes import OPENING_PLIES
from kifu.corpus.ingest import ingest
from kifu.corpus.schema import SCHEMA
from kifu.corpus.splits import HashSplit
from kifu.point import to_sgf
from naive_tygem import INDEX
from record_samples import OLF_LINE, TYGEM_LINE

WHERE = ("archive", "member", "entry", "index")


def rows(path: Path, *columns: str) -> list[Any]:
    table = pq.read_table(path, columns=list(columns or SCHEMA.names))
    values = list(zip(*(column.to_pylist() for column in table.columns)))
    return [value for (value,) in values] if len(columns) == 1 else values


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    top = tmp_path_factory.mktemp("sources")
    folder = top / "folder"
    archive(folder / "kgs", records(5, 1), year=2001)
    archive(folder / "kgs", records(4, 2), year=2002, kind="zip")
    put(folder / "loose.sgf", record("loose"))
    put(folder / "deep" / "Two.SGF", record("two a") + record("two b"))
    put(folder / "deep" / "more.sgf.gz", gzip.compress(record("packed")))
    put(folder / "lines.olf", OLF_LINE * 3)
    put(folder / "no record.txt", b"(;)")
    catalogue = top / "older.parquet"
    ingest(zipped(top / "older.zip", {f"{k}.sgf": data for k, data in enumerate(records(3, 3))}), catalogue)
    return {
        "tar": archive(top, records(6, 4), year=2003),
        "zip": archive(top, records(6, 5), year=2004, kind="zip"),
        "folder": folder,
        "collection": put(top / "many.sgf", b"\n".join(records(7, 6))),
        "compressed": put(top / "one.sgf.gz", gzip.compress(record("one"))),
        "olf": put(top / "games.olf", b"# comment\n" + OLF_LINE * 2 + b"\n" + OLF_LINE),
        "olf.bz2": put(top / "more.olf.bz2", bz2.compress(OLF_LINE * 2)),
        "tygem": zipped(top / "2016-07.zip", {"2016-07": TYGEM_LINE * 2}),
        "index": zipped(top / "Kifu2016.zip", {"Kifu2016.index": INDEX}),
        "catalogue": catalogue,
    }


# Reading


COUNTS = {
    "tar": 6, "zip": 6, "folder": 16, "collection": 7, "compressed": 1, "olf": 3, "olf.bz2": 2, "tygem": 2, "index": 0,
    "catalogue": 3,
}  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
def test_any_mix_of_sources_in_any_order(sources: dict[str, Path], tmp_path: Path, seed: int) -> None:
    """The rows are those of each source alone, one after the other; with an index among them, wherever it stands."""
    names = random.Random(seed).sample(sorted(sources), len(sources))
    whole = tmp_path / "whole.parquet"
    report = ingest([sources[name] for name in names], whole, jobs=1 + seed % 3)
    assert report.read == report.kept == sum(COUNTS.values())
    expected = []
    for name in names:
        path = tmp_path / f"{name}.parquet"
        given = [sources["tygem"], sources["index"]] if name == "tygem" else [sources[name]]
        assert ingest(given, path).read == COUNTS[name]
        expected += rows(path)
    assert rows(whole) == expected
    assert [source.get("name") for source in open_catalogue(whole).metadata["sources"]].count("folder") == 1


def test_rows_locate_their_games(sources: dict[str, Path], tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    ingest([sources["folder"], sources["collection"], sources["olf"], sources["tygem"]], path)
    assert rows(path, *WHERE) == [
        ("folder", "deep/Two.SGF", 0, 0),
        ("folder", "deep/Two.SGF", 0, 1),
        ("folder", "deep/more.sgf.gz", 1, 0),
        ("folder", "loose.sgf", 2, 0),
        *(("kgs/KGS-2001-19-5-.tar.gz", f"kgs-19-2001/{k:05}.sgf", k + 1, 0) for k in range(5)),
        *(("kgs/KGS-2002-19-4-.zip", f"kgs-19-2002/{k:05}.sgf", k + 1, 0) for k in range(4)),
        *(("lines.olf", "lines.olf", 0, k) for k in range(3)),
        *(("many.sgf", "many.sgf", 0, k) for k in range(7)),
        *(("games.olf", "games.olf", 0, k) for k in (1, 2, 4)),
        *(("2016-07.zip", "2016-07", 0, k) for k in range(2)),
    ]


def test_read_mixes_catalogues_with_records(sources: dict[str, Path], tmp_path: Path) -> None:
    ingest(sources["olf"], tmp_path / "a.parquet")
    records = list(kifu.read(sources["olf"]))
    both = list(kifu.read([sources["olf"], tmp_path / "a.parquet", sources["olf"]]))
    assert [game.moves.tolist() for game in both] == [game.moves.tolist() for game in records] * 3


@pytest.mark.parametrize("name", [name for name in COUNTS if name not in ("catalogue", "index")])
def test_games_are_found_at_the_rows_locations(sources: dict[str, Path], tmp_path: Path, name: str) -> None:
    """By `kifu.read` of the container, in order; members are those that the container has."""
    path = tmp_path / "a.parquet"
    ingest(sources[name], path)
    found = rows(path, "archive", "member", "width", "moves", "black", "komi")
    games = list(kifu.read(sources[name]))
    assert len(games) == len(found) > 0
    for game, (container, member, width, moves, black, komi) in zip(games, found):
        assert (game.name, game.width, game.moves.tolist()) == (member, width, moves)
        assert (game.players[0] or None, game.komi) == (black, komi)
        relative = Path(game.source).relative_to(sources[name]).as_posix() if name == "folder" else "."
        assert container == (Path(game.source).name if relative == "." else relative)


def test_command_prints_the_report(sources: dict[str, Path], tmp_path: Path) -> None:
    path = tmp_path / "new" / "a.parquet"
    done = run("ingest", *sources.values(), "-o", path, "--set", "min_moves=10", "--jobs", 2)
    line, repairs = done.out.splitlines()
    kept = (texts for texts, drop in rows(path, "repairs", "drop") if texts and drop is None)
    counts = Counter(name for texts in kept for name in texts.split(","))
    assert sorted(repairs.removeprefix("  kept with repairs: ").split(", ")) == sorted(
        f"{name} {count}" for name, count in counts.items()
    )
    size = f"{path.stat().st_size / 1000:,.1f} kB"
    moves = sum(rows(path, "n_moves")) - sum(n for n in rows(path, "n_moves") if n < 10)
    assert (done.code, line) == (0, f"{path}: 46 games = 36 kept + 10 too short; {moves:,} legal moves, {size}")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--clean nix", "unknown set of cleaning rules 'nix'; available: legal, schraudolph, training"),
        ("--clean nix.toml", "nix.toml"),
        ("--set min_moves=-1", "min_moves must be >= 0, got -1"),
        ("--set min_moves", "'min_moves'"),
    ],
)
def test_invalid_rules_fail_before_anything_is_written(
    sources: dict[str, Path], tmp_path: Path, arguments: str, words: str
) -> None:
    done = run("ingest", sources["tar"], "-o", tmp_path / "a.parquet", *arguments.split())
    assert (done.code, done.out, len(done.err)) == (2, "", 1)
    assert words in done.err[0]
    assert list(tmp_path.iterdir()) == []


def test_show_draws_the_game_of_a_row(sources: dict[str, Path], tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    ingest(sources["folder"], path)
    for number, (black, plies) in enumerate(rows(path, "black", "n_moves"), 1):
        done = run("show", sources["folder"], "--game", number)
        assert done.code == 0
        assert (black or "?") in done.out
        assert f"{plies} moves" in done.out


def test_tygem_index_applies_to_all_sources(sources: dict[str, Path], tmp_path: Path) -> None:
    both = [sources["tygem"], sources["index"]]
    for given in (both, both[::-1]):
        ingest(given, tmp_path / "a.parquet", overwrite=True)
        assert set(rows(tmp_path / "a.parquet", "black", "white", "winner")) == {("黑(P)", "白", "white")}
    ingest(sources["tygem"], tmp_path / "a.parquet", overwrite=True)
    assert set(rows(tmp_path / "a.parquet", "black", "white", "winner")) == {(None, None, None)}


def test_archives_of_equal_names_get_distinct_names(tmp_path: Path) -> None:
    one, other = (archive(tmp_path / name, records(2, name)) for name in "ab")
    lonely = archive(tmp_path / "c", records(2, "c"), year=2002)
    path = tmp_path / "out" / "a.parquet"
    ingest([one, other, lonely], path)
    assert rows(path, "archive") == [str(one)] * 2 + [str(other)] * 2 + [lonely.name] * 2
    ingest([tmp_path / "a", tmp_path / "b"], path, overwrite=True)
    assert rows(path, "archive") == [str(one)] * 2 + [str(other)] * 2
    ingest(tmp_path, path, overwrite=True)
    names = [each.relative_to(tmp_path).as_posix() for each in (one, other, lonely)]
    assert rows(path, "archive") == [name for name in names for _ in range(2)]


def test_the_rows_are_the_same_from_an_archive_and_from_a_folder(tmp_path: Path) -> None:
    members = {f"{k:02}.sgf": data for k, data in enumerate(records(8))} | {"90.olf": OLF_LINE * 3}
    for name, data in members.items():
        put(tmp_path / "folder" / name, data)
    given = [zipped(tmp_path / "a.zip", members), tarred(tmp_path / "a.tgz", members), tmp_path / "folder"]
    made = []
    for source in given:
        ingest(source, tmp_path / "a.parquet", overwrite=True)
        made.append(rows(tmp_path / "a.parquet", *(name for name in SCHEMA.names if name not in WHERE)))
    assert made[0] == made[1] == made[2]


def test_a_folder_of_links_gives_the_bytes_of_a_folder_of_files(tmp_path: Path) -> None:
    files, links = tmp_path / "1/games", tmp_path / "2/games"
    links.mkdir(parents=True)
    zipped(files / "games.zip", {"a.sgf": record("1")})
    for k, data in enumerate(records(4)):
        put(files / f"{k}.sgf", data)
    for path in files.iterdir():
        (links / path.name).symlink_to(path)
        (links / f"{path.name}.pdf").symlink_to(path)
    given, made = (files, links), (tmp_path / "1.parquet", tmp_path / "2.parquet")
    reports = [ingest(folder, path) for folder, path in zip(given, made)]
    assert rows(made[0]) == rows(made[1])
    assert [report.left_out for report in reports] == [{}, {".pdf": 5}]
    done = run("ingest", links, "-o", tmp_path / "3.parquet", "--json", "-")
    assert any(line.endswith(f"{links}: left out: 5 files (5 .pdf)") for line in done.err)
    assert json.loads(done.out)["left_out"] == {".pdf": 5}
    assert not any("left out" in line for line in run("ingest", links, "-o", tmp_path / "4.parquet", "--quiet").err)


@pytest.mark.parametrize("rules", config_names("cleaning"))
def test_ingesting_a_catalogue_gives_the_same_rows(sources: dict[str, Path], tmp_path: Path, rules: str) -> None:
    """Also over itself; a judgement by other rules leaves nothing behind."""
    odd = {
        "copy.sgf": record("7"),
        "again.sgf": record("7"),
        "ko.sgf": b"(;SZ[5]AB[ba][ab][bc]AW[ca][db][cc][bb];B[cb];W[bb])",
        "illegal.sgf": b"(;SZ[19];B[aa];W[bb];B[aa];W[cc])",
        "empty.sgf": b"",
        "huge.sgf": b"(;SZ[99];B[aa])",
    }
    given = [*sources.values(), zipped(tmp_path / "odd.zip", odd)]
    first, second, legal = tmp_path / "a.parquet", tmp_path / "b.parquet", tmp_path / "c.parquet"
    clean = load_cleaning_rules(rules, ["min_moves=0", 'sizes=["19x19","5x5"]'] if rules == "training" else [])
    report = ingest(given, first, clean=clean)
    again = ingest(first, second, clean=clean)
    assert rows(first) == rows(second)
    assert (report.read, report.kept, report.moves, report.drops) == (again.read, again.kept, again.moves, again.drops)
    ingest(second, second, clean=clean, overwrite=True)
    assert rows(first) == rows(second)
    if clean.illegal == "drop":
        ingest(second, second, overwrite=True)
        ingest(given, legal)
        assert rows(second) == rows(legal)


# Words


TEXTS = {
    "gb18030": ("古力", "陈耀烨"),
    "big5": ("張栩", "周俊勳"),
    "shift_jis": ("井山裕太", "高尾紳路"),
    "euc_kr": ("이세돌", "박정환"),
}


@pytest.mark.parametrize("named", [True, False])
def test_names_are_decoded_in_any_charset_with_or_without_ca(tmp_path: Path, named: bool) -> None:
    """All in one archive, together with UTF-8 under a wrong charset name."""
    members, expected = {}, []
    for codec, players in TEXTS.items():
        for encoding in (codec, "utf-8"):
            black, white = (name.encode(encoding) for name in players)
            ca = b"CA[%s]" % encoding.encode() if named else b""
            members[f"{codec} {encoding}.sgf"] = b"(;GM[1]%sSZ[19]PB[%s]PW[%s];B[pd];W[dp])" % (ca, black, white)
            expected.append(players)
    ingest(zipped(tmp_path / "a.zip", members), tmp_path / "a.parquet")
    assert rows(tmp_path / "a.parquet", "black", "white") == expected
    codecs = rows(tmp_path / "a.parquet", "encoding")
    assert codecs[1::2] == ["utf_8"] * 4
    assert codecs[0::2] == ["gb18030", "cp950", "cp932", "cp949"]


GAME = b"(;KM[7]RE[B+R];B[pd];W[dp])     "


def peak(*arguments: str | Path) -> int:
    process = subprocess.Popen([sys.executable, "-m", "kifu", *map(str, arguments)], stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return used.ru_maxrss // (1 << 20 if sys.platform == "darwin" else 1 << 10)


@pytest.mark.subprocess
@pytest.mark.slow
def test_a_file_of_many_games(tmp_path: Path) -> None:
    few, many = tmp_path / "few.sgf.gz", tmp_path / "many.sgf.gz"
    few.write_bytes(gzip.compress(GAME))
    many.write_bytes(gzip.compress(GAME * (1 << 19), 6))  # 16 MiB, which took 320 MB
    base = peak("ingest", "-q", "--jobs", "1", few, "-o", tmp_path / "games.parquet")
    assert peak("ingest", "-q", "--jobs", "1", many, "-o", tmp_path / "many.parquet") < base + 200


GAMES = 2000
POINTS = [(x, y) for y in range(0, 19, 2) for x in range(0, 19, 2)]
"""No two of them are neighbours, so that all moves are legal."""

SPLIT = HashSplit(kind="hash", sets={"train": 8.0, "validation": 1.0, "test": 1.0}, seed=3)

Moves = list[tuple[int, int] | None]


def played(draw: random.Random) -> Moves:
    """A game of 45 to 90 moves, some of them passes, which do not come last."""
    moves: Moves = [*draw.sample(POINTS, draw.randint(44, 89))]
    if draw.random() < 0.2:
        moves.insert(draw.randrange(len(moves)), None)
    return moves


def turned(moves: Moves, k: int) -> Moves:
    def turn(x: int, y: int) -> tuple[int, int]:
        x, y = 18 - x if k & 1 else x, 18 - y if k & 2 else y
        return (y, x) if k & 4 else (x, y)

    return [None if move is None else turn(*move) for move in moves]


def sgf(name: object, moves: Moves, colours: str = "BW", **changed: str) -> bytes:
    root = {"SZ": "19", "PB": f"b{name}", "PW": f"w{name}", "RE": "B+R", "KM": "6.5", "TM": "1800"} | changed
    line = "".join(
        f";{colours[k % 2]}[{'' if move is None else to_sgf(move[0] + 19 * move[1], 19)}]"
        for k, move in enumerate(moves)
    )
    return f"(;GM[1]FF[4]{''.join(f'{key}[{value}]' for key, value in root.items())}{line})".encode()


FAULTS = {
    "no_moves": lambda k, moves: sgf(k, []),
    "too_short": lambda k, moves: sgf(k, moves[:29]),
    "self_play": lambda k, moves: sgf(k, moves[:40], PW=f"b{k}"),
    "unfinished": lambda k, moves: sgf(k, moves, RE="?"),
    "program": lambda k, moves: sgf(k, moves, PB="GNU Go"),
    "blitz": lambda k, moves: sgf(k, moves, TM="60", OT="1x3 byo-yomi"),
    "wrong_size": lambda k, moves: sgf(k, moves, SZ="21"),
    "not_alternating": lambda k, moves: sgf(k, moves).replace(b";W[", b";B[", 1),
    "not_go": lambda k, moves: sgf(k, moves).replace(b"GM[1]", b"GM[2]"),
    "bad_size": lambda k, moves: sgf(k, moves, SZ="x"),
    "no_record": lambda k, moves: b"no game here",
}
"""By drop reason, a game with only that fault."""

COPIES = {
    "duplicate": lambda name, moves, k: sgf(name, moves),
    "turned": lambda name, moves, k: sgf(f"{name}'", turned(moves, k)),
    "swapped": lambda name, moves, k: sgf(f"{name}'", moves, "WB"),
    "turned and swapped": lambda name, moves, k: sgf(f"{name}'", turned(moves, k), "WB", KM="7.5"),
    "cut off": lambda name, moves, k: sgf(f"{name}'", moves[: max(OPENING_PLIES, 30) + k]),
    "cut off and turned": lambda name, moves, k: sgf(f"{name}'", turned(moves[:40], k), "WB"),
}
REASONS = {"duplicate": "duplicate", "cut off": "cut_off", "cut off and turned": "cut_off"}


class Planted:
    """The corpus: games, what becomes of each, and which game each copy is of."""

    def __init__(self, seed: int) -> None:
        draw = random.Random(seed)
        self.moves = [played(draw) for _ in range(GAMES)]
        self.games = [sgf(k, moves) for k, moves in enumerate(self.moves)]
        self.drops: list[str | None] = [None] * GAMES
        self.original = list(range(GAMES))
        places = draw.sample(range(GAMES), GAMES)
        for name, make in FAULTS.items():
            for k in (places.pop() for _ in range(8)):
                self.games[k], self.drops[k] = make(k, self.moves[k]), name
        illegal = [places.pop() for _ in range(8)]  # these are cut, and kept
        for k in illegal:
            self.games[k] = sgf(k, [*self.moves[k], self.moves[k][-1]])
        for name, make in COPIES.items():
            for n in range(8):
                # The first of two equal games is kept, so the duplicate must come later.
                of, k = sorted((places.pop(), places.pop()))
                self.games[k] = make(of, self.moves[of], n)
                self.drops[k], self.original[k] = REASONS.get(name, "same_game"), of
        self.illegal = sorted(illegal)


@pytest.fixture(scope="module")
def planted() -> Planted:
    return Planted(11)


@pytest.fixture(scope="module")
def folder(planted: Planted, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The corpus, cleaned as training.parquet, and with all its copies as legal.parquet."""
    folder = tmp_path_factory.mktemp("planted")
    archive = zipped(folder / "games.zip", planted.games)
    for rules in ("training", "legal"):
        assert run("ingest", archive, "-o", folder / f"{rules}.parquet", "--clean", rules).code == 0
    return folder


def column(path: Path, name: str) -> list[Any]:
    return pq.read_table(path, columns=[name])[name].to_pylist()


def test_all_planted_faults_and_duplicates_are_found(planted: Planted, folder: Path) -> None:
    path = folder / "training.parquet"
    assert column(path, "drop") == planted.drops
    assert Counter(column(path, "drop"))[None] == GAMES - 8 * (len(FAULTS) + len(COPIES))
    assert [k for k, repairs in enumerate(column(path, "repairs")) if repairs] == planted.illegal
    ids, details = column(path, "id"), column(path, "drop_detail")
    for k, of in enumerate(planted.original):
        if planted.drops[k] == "program":
            assert ": pattern " in details[k]
            continue
        expected = None if planted.drops[k] in (None, "duplicate", *FAULTS) else f"of game {ids[of]:016x}"
        assert details[k] == expected


def test_command_prints_the_counts(planted: Planted, folder: Path, tmp_path: Path) -> None:
    done = run("ingest", folder / "games.zip", "-o", tmp_path / "a.parquet", "--clean", "training", "--jobs", 1)
    line, repairs = done.out.splitlines()
    assert repairs == f"  kept with repairs: cut {len(planted.illegal)}"
    counts = {name.replace("_", " "): n for name, n in Counter(planted.drops).items() if name}
    report = line.removeprefix(f"{tmp_path / 'a.parquet'}: {GAMES:,} games = ").partition("; ")[0].split(" + ")
    assert report[0] == f"{GAMES - sum(counts.values()):,} kept"
    assert dict(part.split(" ", 1)[::-1] for part in report[1:]) == {name: str(n) for name, n in counts.items()}
    assert (tmp_path / "a.parquet").read_bytes() == (folder / "training.parquet").read_bytes()


def sets_of(path: Path) -> list[str | None]:
    names = [*SPLIT.sets, None]  # the last one is that of NO_SET, -1
    return [names[code] for batch in open_catalogue(path).batches(SPLIT.columns) for code in SPLIT.codes(batch)]


def parts(path: Path, into: Path) -> dict[str, Path]:
    made = {}
    (batch,) = open_catalogue(path).batches()
    sets = np.array(sets_of(path))
    kept = batch["drop"].is_null().to_numpy(zero_copy_only=False)
    for name in SPLIT.sets:
        made[name] = write_catalogue(into / f"{name}.parquet", batch.filter(pa.array(kept & (sets == name))))
    return made


@pytest.mark.slow
@pytest.mark.parametrize("rules", ["training", "legal"])
def test_no_split_has_a_game_in_two_sets_even_with_duplicates(folder: Path, tmp_path: Path, rules: str) -> None:
    files = parts(folder / f"{rules}.parquet", tmp_path)
    sizes = [open_catalogue(path).rows for path in files.values()]
    assert min(sizes) > 100
    assert sum(sizes) == column(folder / f"{rules}.parquet", "drop").count(None)
    done = run("audit", *files.values())
    assert (done.code, done.out.splitlines()[-1]) == (0, "no game in two sets")


def test_all_planted_leaks_are_found(planted: Planted, folder: Path, tmp_path: Path) -> None:
    """Copies of games of the training set, of all kinds, come into the test set under other names."""
    files = parts(folder / "training.parquet", tmp_path)
    there = [int(name.removesuffix(".sgf")) for name in column(files["train"], "member")]
    draw = random.Random(5)
    leaked = [k for k in draw.sample(there, 40) if k not in planted.illegal]
    makers = [*COPIES.values()]
    copies = [makers[n % len(makers)](f"leak {k}", planted.moves[k], 1 + n % 7) for n, k in enumerate(leaked)]
    assert run("ingest", zipped(tmp_path / "leaks.zip", copies), "-o", tmp_path / "leaks.parquet").code == 0
    leaky = tmp_path / "leaky.parquet"
    write_catalogue(
        leaky, *open_catalogue(files["test"]).batches(), *open_catalogue(tmp_path / "leaks.parquet").batches()
    )
    done = run("audit", files["train"], leaky, files["validation"], "--json", tmp_path / "audit.json")
    assert done.code == 1
    found = json.loads((tmp_path / "audit.json").read_text())
    train_and_test, *others = found["pairs"]
    assert not any(pair["games"] for pair in others)
    pairs = [
        (game["first"]["entry"], game["second"]["archive"], game["second"]["entry"]) for game in train_and_test["games"]
    ]
    assert sorted(pairs) == sorted((k, "leaks.zip", n) for n, k in enumerate(leaked))
    assert all(game["cluster"] for game in train_and_test["games"])
    assert run("audit", files["test"], leaky).code == 1, "a set and itself"


@pytest.mark.slow
def test_split_does_not_change_when_10000_games_are_added(planted: Planted, folder: Path, tmp_path: Path) -> None:
    """Before and after the old ones, turned copies of these among them; and no cluster is in two sets."""
    draw = random.Random(6)
    new = [played(draw) for _ in range(10_000)]
    for k in range(0, 10_000, 50):
        new[k] = turned(planted.moves[draw.randrange(GAMES)], k % 8)
    games = [sgf(f"new {k}", moves) for k, moves in enumerate(new)]
    before = zipped(tmp_path / "before.zip", games[:5000])
    after = zipped(tmp_path / "after.zip", games[5000:])
    path = tmp_path / "all.parquet"
    assert run("ingest", before, folder / "games.zip", after, "-o", path).code == 0
    sets = sets_of(path)
    assert sets[5000:7000] == sets_of(folder / "legal.parquet")
    assert None not in sets
    found = find_clusters([path])
    clusters = set(found.cluster.tolist())
    assert len(clusters) >= 200
    assert len({(cluster, sets[row]) for cluster, row in zip(found.cluster, found.row)}) == len(clusters)
    shares = Counter(sets)
    assert 0.78 < shares["train"] / len(sets) < 0.82
