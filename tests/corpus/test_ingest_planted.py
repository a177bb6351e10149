"""2,000 games with planted faults, duplicates and leaks: the commands find exactly these."""

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from archives import zipped
from catalogues import write_catalogue
from commands import run
from kifu.corpus.catalogue import open_catalogue
from kifu.corpus.duplicates import find_clusters
from kifu.corpus.hashes import OPENING_PLIES
from kifu.corpus.splits import HashSplit
from kifu.point import to_sgf

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
    """Under one of the 8 symmetries."""

    def turn(x: int, y: int) -> tuple[int, int]:
        x, y = 18 - x if k & 1 else x, 18 - y if k & 2 else y
        return (y, x) if k & 4 else (x, y)

    return [None if move is None else turn(*move) for move in moves]


def sgf(name: object, moves: Moves, colours: str = "BW", **changed: str) -> bytes:
    """A finished game with long thinking times."""
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


def sets_of(path: Path) -> list[str | None]:
    names = [*SPLIT.sets, None]  # the last one is that of NO_SET, -1
    return [names[code] for batch in open_catalogue(path).batches(SPLIT.columns) for code in SPLIT.codes(batch)]


def parts(path: Path, into: Path) -> dict[str, Path]:
    """Write the kept games of a catalogue to one file per set."""
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
