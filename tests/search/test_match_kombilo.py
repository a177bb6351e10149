"""Comparison with libkombilo on the archives of KGS: every hit of 39 patterns, and what they are summed up to.

Three differences of notation: libkombilo numbers games by its own list; of continuations that a symmetry of the pattern
maps to each other it reports the rightmost and then lowest point, we the uppermost; and it marks hits whose
continuation has another colour on the board than in the pattern. `next_to_move` of its patterns is the colour on the
board, which is our option `actual_colour`.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

from kifu.arrays import MoveArrays
from kifu.corpus.catalogue import open_catalogue
from kifu.corpus.ingest import ingest
from kifu.corpus.schema import PLAYED_COLUMNS, move_arrays
from kifu.point import BLACK, WHITE
from kifu.search.match import MatchArrays, match_games
from kifu.search.pattern import Pattern, Rectangle
from kifu.search.traces import Traces, trace_games

CELLS = {".": 1, "X": 2, "O": 4, "x": 3, "o": 5, "*": 7}
COLOURS = {"B": BLACK, "W": WHITE, None: None}
FIRST_ARCHIVE = "KGS-2001-19-2298-.tar.gz"


class Corpus(NamedTuple):
    names: list[str]
    winner: np.ndarray
    games: MoveArrays
    traces: Traces


class Found(NamedTuple):
    """Hits as libkombilo writes them: the node is the number of moves."""

    node: np.ndarray
    x: np.ndarray
    y: np.ndarray
    switched: np.ndarray
    hits: MatchArrays

    def lines(self, names: list[str], end: int = 4) -> list[str]:
        columns = zip(*(column.tolist() for column in self[:end]))
        return [
            " ".join(map(str, (names[g], *row))) + "\n" for g, row in zip(self.hits.game.tolist(), columns, strict=True)
        ]


@pytest.fixture(scope="module")
def reference(shared: Path) -> dict[str, Any]:
    path = shared / "reference" / "kombilo" / "reference-a.json.gz"
    if not path.exists():
        pytest.skip(f"needs {path}")
    with gzip.open(path) as file:
        return json.load(file)


def read_corpus(sources: list[Path], folder: Path) -> Corpus:
    path = folder / "games.parquet"
    ingest(sources, path, clean="legal")
    batches = open_catalogue(path).batches([*PLAYED_COLUMNS, "member", "winner"])
    (batch,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    games = move_arrays(batch)
    winner = [{"black": BLACK, "white": WHITE}.get(name, 0) for name in batch.column("winner").to_pylist()]
    return Corpus(batch.column("member").to_pylist(), np.array(winner), games, trace_games(games))


def pattern_of(entry: dict[str, Any]) -> Pattern:
    width, height = entry["size"]
    return Pattern(
        width, height, tuple(CELLS[cell] for row in entry["rows"] for cell in row), Rectangle(*entry["anchor"]),
        both_colours=not entry["fixed_color"], next_colour=COLOURS[entry["next_to_move"]], actual_colour=True,
        last_ply=entry["move_limit"],
    )  # fmt: skip


def search(corpus: Corpus, pattern: Pattern) -> Found:
    hits = match_games(corpus.games, corpus.traces, pattern)
    same = [k for k, exchanged in pattern.stabilizer(19, 19) if not exchanged]
    rows, columns = range(pattern.height), range(pattern.width)
    points = np.array([[max(pattern.image_point(x, y, k) for k in same) for x in columns] for y in rows])
    none = hits.next_ply < 0
    x, y = np.where(none, -1, points[hits.next_y, hits.next_x].T)
    move = corpus.games.moves[np.where(none, 0, corpus.games.move_offset[hits.game] + hits.next_ply)]
    switched = np.where(none, hits.exchanged, 1 + (move >> 15) != hits.next_colour)
    return Found(hits.ply, x, y, switched.astype(int), hits)


def sha256(lines: list[str]) -> str:
    return hashlib.sha256("".join(sorted(lines)).encode()).hexdigest()


def listed(entry: dict[str, Any], names: list[str], wanted: set[str]) -> list[str]:
    games = [(names[game - 1], row) for game, row in entry["hits"] if names[game - 1] in wanted]
    hits = [(name, *row[k : k + 4]) for name, row in games for k in range(0, len(row), 4)]
    return sorted(" ".join(map(str, hit)) + "\n" for hit in hits)


def test_the_hits_in_one_archive_are_those_of_libkombilo(reference, shared, tmp_path) -> None:
    path = shared / "data" / "kgs" / FIRST_ARCHIVE
    if not path.exists():
        pytest.skip(f"needs {path}")
    corpus = read_corpus([path], tmp_path)
    inside = set(corpus.names)
    assert inside == {name for name in reference["games"] if name.startswith("KGS2001/")}
    for entry in reference["patterns"]:
        found = sorted(search(corpus, pattern_of(entry)).lines(corpus.names))
        assert found == listed(entry, reference["games"], inside), entry["id"]


@pytest.fixture(scope="module")
def all_games(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    paths = sorted((shared / "data" / "kgs").glob("KGS-*.tar.gz"))
    if len(paths) != 39:
        pytest.skip("needs the 39 archives of KGS")
    return read_corpus(paths, tmp_path_factory.mktemp("kgs"))


@pytest.mark.slow
def test_all_figures_are_those_of_libkombilo(reference, all_games) -> None:
    names = reference["games"]
    assert sorted(all_games.names) == sorted(names)
    winner_of = dict(zip(names, reference["winners"]))
    assert [{BLACK: "B", WHITE: "W"}.get(w, "-") for w in all_games.winner] == [winner_of[n] for n in all_games.names]
    for entry in reference["patterns"]:
        found = search(all_games, pattern_of(entry))
        expected = entry["all"]
        assert figures(found, all_games.winner) == {name: expected[name] for name in FIGURES}, entry["id"]
        assert continuations(found, all_games.winner) == expected["continuations"], entry["id"]
        assert sha256(found.lines(all_games.names)) == expected["sha256_hits"], entry["id"]
        assert sha256(found.lines(all_games.names, 1)) == expected["sha256_game_move"], entry["id"]


FIGURES = (
    "games", "hits", "hits_switched", "hits_B_wins", "hits_W_wins", "games_B_wins", "games_W_wins",
    "hits_without_continuation",
)  # fmt: skip


def winners(found: Found, winner: np.ndarray) -> np.ndarray:
    """The winner of each hit in the colours of the pattern, 0 if none."""
    won = winner[found.hits.game]
    return np.where((found.switched == 1) & (won > 0), BLACK + WHITE - won, won)


def figures(found: Found, winner: np.ndarray) -> dict[str, int]:
    games, won = np.unique(found.hits.game), winners(found, winner)
    counts = (
        len(games), len(won), found.switched.sum(), (won == BLACK).sum(), (won == WHITE).sum(),
        (winner[games] == BLACK).sum(), (winner[games] == WHITE).sum(), (found.x < 0).sum(),
    )  # fmt: skip
    return dict(zip(FIGURES, map(int, counts)))


def continuations(found: Found, winner: np.ndarray) -> list[list[int]]:
    """libkombilo's table: x, y, then by Black and White the counts, those after a tenuki, and the wins and losses."""
    won, hits = winners(found, winner), found.hits
    tenuki = hits.next_ply + 1 - found.node.astype(int) > 2
    table = {}
    for colour in (BLACK, WHITE):
        lost = won == WHITE
        if colour == WHITE:
            lost |= (won == 0) & (found.switched == 1)  # an assignment in place of a comparison in libkombilo
        for k, mask in enumerate((won >= 0, tenuki, won == BLACK, lost)):
            mask = mask & (hits.next_colour == colour) & (found.x >= 0)
            place = {0: colour - 1, 1: 1 + colour, 2: 2 + 2 * colour, 3: 3 + 2 * colour}[k]
            for (x, y), count in Counter(zip(found.x[mask].tolist(), found.y[mask].tolist())).items():
                table.setdefault((y, x), [0] * 8)[place] = count
    return [[x, y, *row] for (y, x), row in sorted(table.items())]
