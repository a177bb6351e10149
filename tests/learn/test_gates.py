"""What the values of the packaged net `human` must fulfil, by those of KataGo's b10c384h6nbttflrs at one visit.

No game here was trained on. ../shared/reference/values has twelve games, eleven of them with three absurd moves each;
tests/data/leads.parquet has leads of 250 positions each of people on KGS, Fox and TYGEM, and of Fox professionals.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import kifu
from kifu.corpus.schema import game_arrays, to_numpy
from kifu.datasets.global_inputs import CONDITION_COLUMNS, Conditions
from kifu.datasets.labels import find_label, label_values
from kifu.datasets.mmap_games import COLUMNS, read_games
from kifu.learn.inference import Net
from kifu.learn.net import open_net
from kifu.learn.positions import NetPositions
from kifu.point import BLACK, WHITE, WHITE_BIT
from kifu.records.ranks import Rank

Floats = npt.NDArray[np.float64]

LEADS = Path(__file__).parents[1] / "data/leads.parquet"
SOURCES = {
    "kgs": [f"kgs/KGS-2018_{name}-.tar.gz" for name in ("09-19-1587", "10-19-1209", "11-19-1879")],
    "fox": ["fox/fox-9d-18082.7z"],
    "tygem": [f"tygem/{month}.zip" for month in ("2006-02", "2009-01", "2009-08", "2016-07")],
    "pro": ["wild/fox-pro-680.tar.gz"],
}
"""Where the games of each set of LEADS are, below ../shared/data."""

LARGE = 10
"""Points that a large mistake loses."""


def values_of(net: Net, positions: NetPositions) -> tuple[Floats, Floats]:
    """Return Black's values and leads [B]."""
    found = net.evaluate(positions, unverified=True).seen_from(BLACK)
    return found.value.astype(float), found.score[:, 0].astype(float)


def leads_of(net: Net, game: kifu.Game) -> Floats:
    """Return Black's lead before each move and after the last one."""
    plies = range(len(game) + 1)
    return values_of(net, NetPositions.from_games([game] * len(plies), plies))[1]


def losses(leads: Floats, game: kifu.Game) -> Floats:
    """Return the points that each move loses for its player, from Black's leads before and after."""
    count = len(leads) - 1
    return np.diff(leads) * np.where(game.moves[:count] & WHITE_BIT, 1, -1)


def correlation(one: Floats, other: Floats) -> float:
    return float(np.corrcoef(one, other)[0, 1])


def ranks_of(values: Floats) -> Floats:
    return np.argsort(np.argsort(values)).astype(float)


def measure_rules(net: Net) -> dict[str, float]:
    """Measure the empty board for all ranks, and komi."""
    ratings = [Rank.parse(text).rating for text in ("20k", "15k", "10k", "5k", "1k", "1d", "3d", "5d", "7d", "9d")]
    empty = NetPositions.from_games([kifu.read_sgf("(;SZ[19]KM[6.5]RU[Japanese])")], [0])
    boards = [values_of(net, empty.with_ranks(a, b))[1][0] for a in ratings for b in (a, ratings[5], ratings[-1])]
    komi = [
        values_of(net, NetPositions.from_games([kifu.read_sgf(f"(;SZ[19]KM[{k + 0.5}]RU[Japanese])")], [0]))[1][0]
        for k in range(14)
    ]
    return {"empty board": float(np.abs(boards).max()), "komi": float(np.abs(1 + np.diff(komi)).max())}


def measure_games(net: Net, folder: Path) -> dict[str, float]:
    """Measure losses in the reference games, and absurd moves put into them."""
    own, given, calm, found, large, absurd, six = [], [], [], 0, 0, 0, 0
    for each in json.loads((folder / "reference.json").read_text()):
        game = kifu.read_sgf((folder / each["plain"]).read_bytes())
        teacher = np.array(each["lead"])
        count = min(len(teacher) - 1, len(game))
        one, other = losses(leads_of(net, game), game)[:count], losses(teacher[: count + 1], game)[:count]
        own.append(one)
        given.append(other)
        calm += np.abs(one[np.abs(other) < 1]).tolist()
        largest = np.argsort(-one)[:10]
        large += int((other >= LARGE).sum())
        found += int((other[largest] >= LARGE).sum())
        if each.get("blunders"):
            spoilt = kifu.read_sgf((folder / each["blunders"]).read_bytes())
            six_largest = np.argsort(-losses(leads_of(net, spoilt), spoilt))[:6]
            six += len(np.intersect1d(six_largest, each["plies"]))
            absurd += len(each["plies"])
    return {
        "losses, correlation": correlation(np.concatenate(own), np.concatenate(given)),
        "large losses found": found / large,
        "absurd moves found": six / absurd,
        "calm change": float(np.mean(calm)),
    }


def read_set(shared: Path, name: str) -> pa.RecordBatch:
    columns = tuple(
        dict.fromkeys((*COLUMNS, *CONDITION_COLUMNS, "canonical", "winner", "black_program", "white_program"))
    )
    return read_games([shared / "data" / path for path in SOURCES[name]], (19, 19), False, None, columns)


def positions_of(rows: pa.RecordBatch, game: Any, ply: Any) -> NetPositions:
    return NetPositions.at(game_arrays(rows), game, ply, Conditions.from_rows(rows), rows)


def measure_leads(net: Net, sets: dict[str, pa.RecordBatch]) -> dict[str, float]:
    """Measure leads and win rates in LEADS."""
    table = pq.read_table(LEADS)
    leads, given, values = [], [], []
    for name, rows in sets.items():
        part = table.filter(pc.equal(table["set"], name))
        canonical = to_numpy(rows["canonical"])
        order = np.argsort(canonical, kind="stable")
        place = np.searchsorted(canonical, to_numpy(part["canonical"]), sorter=order)
        game = order[np.minimum(place, len(order) - 1)]
        known = np.flatnonzero(canonical[game] == to_numpy(part["canonical"]))
        at = positions_of(rows, game[known], to_numpy(part["ply"])[known].astype(np.int32))
        value, lead = values_of(net, at)
        equal = values_of(net, at.with_ranks(33, 33))[0]
        leads.append(lead)
        values.append(equal)
        given.append(np.where(at.to_play == WHITE, -1, 1) * to_numpy(part["lead"])[known])
    lead, teacher, value = (np.concatenate(each) for each in (leads, given, values))
    clear = (np.abs(lead) > 1) & (np.abs(value) > 0.06)
    return {
        "lead, error": float(np.abs(lead - teacher).mean()),
        "lead, correlation": correlation(lead, teacher),
        "opposite signs": float((np.sign(lead) != np.sign(value))[clear].mean()),
        "win rate, rank correlation": correlation(ranks_of(value), ranks_of(lead)),
    }


def measure_results(net: Net, rows: pa.RecordBatch, count: int) -> dict[str, float]:
    """Measure values against results: calibration error, squared error, and bias for either side."""
    people = ~(to_numpy(rows["black_program"]) | to_numpy(rows["white_program"]))
    known = np.flatnonzero(people & rows["winner"].is_valid().to_numpy(zero_copy_only=False))
    rng = np.random.default_rng(0)
    game = np.sort(rng.choice(known, count))
    ply = (rng.random(count) * to_numpy(rows["n_legal"])[game]).astype(np.int32)
    at = positions_of(rows, game, ply)
    result = label_values([find_label("result", 19, 19)], (19, 19), rows, at)["result"].astype(float)
    value = net.evaluate(at).value.astype(float)
    bins = np.minimum((5 * (1 + value)).astype(int), 9)
    error = np.bincount(bins, value - result, 10)
    white = at.to_play == WHITE
    return {
        "calibration": float(np.abs(error).sum() / count / 2),  # of probabilities
        "squared error": float(((value - result) ** 2).mean()),
        "bias": max(abs(float((value - result)[side].mean())) for side in (white, ~white)),
    }


def measure(net: Net, shared: Path) -> dict[str, float]:
    """Return all figures by name."""
    sets = {name: read_set(shared, name) for name in SOURCES}
    figures = measure_rules(net) | measure_games(net, shared / "reference/values") | measure_leads(net, sets)
    for name in ("kgs", "pro"):
        figures |= {f"{key}, {name}": value for key, value in measure_results(net, sets[name], 3000).items()}
    return figures


AT_MOST = {
    "empty board": 1.5, "komi": 0.2, "lead, error": 4, "opposite signs": 0.02, "calm change": 1.5,
    "calibration, kgs": 0.02, "calibration, pro": 0.02, "squared error, kgs": 0.74, "squared error, pro": 0.86,
    "bias, kgs": 0.03, "bias, pro": 0.03,
}  # fmt: skip
AT_LEAST = {
    "lead, correlation": 0.95, "win rate, rank correlation": 0.9, "losses, correlation": 0.6, "large losses found": 0.7,
    "absurd moves found": 0.9,
}  # fmt: skip


@pytest.mark.slow
def test_points_of_the_packaged_net_hold(shared: Path) -> None:
    net = open_net("human")
    if not net.has_points:
        pytest.skip("human has no points")
    figures = measure(net, shared)
    assert figures.keys() == AT_MOST.keys() | AT_LEAST.keys()
    missed = {name: value for name, value in figures.items()
              if value > AT_MOST.get(name, np.inf) or value < AT_LEAST.get(name, -np.inf)}  # fmt: skip
    assert missed == {}
