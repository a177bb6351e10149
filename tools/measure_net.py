"""Measure how calm a net's values are, what it knows of territory, and whether ranks help it to predict moves.

    kifu query "FROM kept WHERE NOT (black_program OR white_program) ORDER BY canonical" kgs.parquet -o people.parquet
    python tools/measure_net.py people.parquet --net human --curves curves.png

Games that the net knows are left out. The figures are:

- In the first games of two players of one rank, or without ranks: the mean change of Black's winning probability and
  lead per move, and by how much even positions change if both players are said to be of one rank, not unknown.
- In the games whose territory and margin are known: the share of points whose owner the net names rightly, and the
  mean error of its lead, in points, after some moves.
- Nats that the movers' own rank gains against another one, and against none, with 95 % intervals over accounts.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kifu.corpus.catalogue import open_catalogue
from kifu.corpus.export import rows_to_games
from kifu.corpus.schema import game_arrays, to_numpy
from kifu.datasets.filter import PositionFilter
from kifu.datasets.labels import find_label, label_values
from kifu.datasets.sources import CatalogueSource, ExampleSpec
from kifu.go.positions import Positions
from kifu.learn.evaluation import Evaluation
from kifu.learn.inference import Net, replay_planes
from kifu.learn.net import open_net
from kifu.learn.positions import NetPositions
from kifu.learn.scores import differences, score_moves
from kifu.point import BLACK, WHITE
from kifu.records.game import Game
from kifu.records.ranks import Rank

Floats = npt.NDArray[np.float64]

BOARD = (19, 19)
PLIES = (50, 120, 200)
EVEN = (0.4, 0.6)
DANS = {f"{dan}d": Rank(dan).rating for dan in (1, 5, 9)}
"""Ratings of ranks that both players are said to have; moves of the first and the last one are predicted."""


def predict(net: Net, positions: NetPositions) -> tuple[Evaluation, Floats, Floats]:
    """Return the evaluation from Black's view, Black's winning probabilities, and leads (NaN without a score head)."""
    found = net.evaluate(positions, unverified=True)
    black = found.seen_from(BLACK)
    assert black.value is not None, "the net has no value head"
    lead = np.full(len(found), np.nan) if black.score is None else black.score[:, 0].astype(np.float64)
    return black, (1 + black.value.astype(np.float64)) / 2, lead


def measure_curves(net: Net, games: Sequence[Game], picture: Path | None) -> None:
    """Print how much the value and lead change per move, and by equal ranks; draw the curves of the first ten games."""
    positions = [NetPositions.from_games([game] * len(game), range(len(game))) for game in games]
    curves = [predict(net, each)[1:] for each in positions]
    for name, curve in zip(("winning probability, %", "lead, points"), zip(*curves)):
        change = np.concatenate([np.abs(np.diff(each)) for each in curve]).mean() * (100 if "%" in name else 1)
        print(f"change of Black's {name} per move in {len(games)} games: {change:.2f}")
    if net.takes_ranks:
        unknown = [predict(net, each.with_ranks(np.nan, np.nan))[1] for each in positions]
        even = [(EVEN[0] < each) & (each < EVEN[1]) for each in unknown]
        for rank, rating in DANS.items():
            named = [predict(net, each.with_ranks(rating, rating))[1] for each in positions]
            changes = np.concatenate([np.abs(a - b)[c] for a, b, c in zip(named, unknown, even)])
            print(
                f"change of {len(changes)} even positions if both are said to be {rank}, %: {100 * changes.mean():.2f}"
            )
    if picture is not None:
        draw_curves(games[:10], curves, picture)


def draw_curves(games: Sequence[Game], curves: Sequence[tuple[Floats, Floats]], picture: Path) -> None:
    """Draw Black's winning probability and lead in games against the number of moves."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(16, 2.2 * len(games)), layout="constrained")
    for ax, game, curve in zip(figure.subplots(len(games), 1), games, curves):
        for axes, values, colour in ((ax, 100 * curve[0], "C0"), (ax.twinx(), curve[1], "C1")):
            axes.plot(values, colour, linewidth=0.8)
            axes.set_ylim((0, 100) if colour == "C0" else (-60, 60))
        ax.set_title(f"{' - '.join(game.players)}, {game.result}: probability %, lead", fontsize=8)
    figure.savefig(picture)


def measure_territory(net: Net, rows: pa.RecordBatch) -> None:
    """Print the share of points whose owner is right, and the errors of leads, in games of known territory."""
    games = list(rows_to_games(rows))
    first = np.arange(len(games))
    at = Positions.of(game_arrays(rows), first, np.zeros(len(games), np.int64))
    labels = label_values([find_label(name, *BOARD) for name in ("ownership", "margin")], BOARD, rows, at)
    black = np.where(at.to_play == WHITE, -1, 1)
    owner, margin = labels["ownership"] * black[:, None], labels["margin"] * black
    print(f"territory of {len(games)} games; a lead of 0 is wrong by {np.abs(margin).mean():.1f}")
    for ply in (*PLIES, None):
        which = np.array([k for k, game in enumerate(games) if ply is None or ply < len(game)])
        chosen = [games[k] for k in which]
        positions = NetPositions.from_games(chosen, [len(game) if ply is None else ply for game in chosen])
        found, _, lead = predict(net, positions)
        if found.ownership is None:
            return
        right = (np.sign(found.ownership) == owner[which])[owner[which] != 0].mean()
        error = np.abs(lead - margin[which]).mean()
        print(f"after {ply or 'all'} moves: owner right {100 * right:.1f} %, error of the lead {error:.1f} points")


def measure_ranks(net: Net, rows: pa.RecordBatch, count: int) -> None:
    """Print how many nats their own rank gains for `count` moves of players of 1 dan and of 9 dan."""
    spec = ExampleSpec(replay_planes([net]), BOARD, labels=("move",), filter=PositionFilter())
    everything = NetPositions.from_source(CatalogueSource(rows, spec), rows)
    white = everything.to_play != BLACK
    rating = everything.conditions.rating[everything.game, white.astype(int)]
    weak, _, strong = DANS.items()
    for (own, own_rating), other in ((weak, strong), (strong, weak)):
        which = np.flatnonzero(rating == own_rating)
        which = np.sort(np.random.default_rng(0).permutation(which)[:count])
        positions, account = everything.take(which), everything.take(which).accounts(white[which])
        as_own, *as_others = (
            score_moves(net, positions.with_ranks(rank, None), legal=False, jobs=2, advance=lambda _: None)
            for rank in (own_rating, other[1], np.nan)
        )
        for name, scores in zip((other[0], "unknown"), as_others):
            gain = differences(scores, as_own, account, 0)["nll"]
            interval = f"{gain.value:.3f} ({gain.low:.3f} to {gain.high:.3f})"
            print(f"nats gained as {own}, not {name}, {len(which)} moves, {account.max() + 1} accounts: {interval}")


def main() -> None:
    """Measure the net of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("catalogue", type=Path)
    parser.add_argument("--net", default="human")
    parser.add_argument("--games", type=int, default=20, help="games of equals whose values are measured")
    parser.add_argument("--counted", type=int, default=200, help="games whose territory is measured")
    parser.add_argument("--moves", type=int, default=0, help="moves of each rank that are predicted")
    parser.add_argument("--curves", type=Path, help="a picture of the values of ten games")
    arguments = parser.parse_args()
    net = open_net(arguments.net)
    rows = pa.Table.from_batches(open_catalogue(arguments.catalogue).batches()).combine_chunks().to_batches()[0]
    rows = rows.filter(pa.array(~np.isin(to_numpy(rows["canonical"]), net.games)))
    black, white = (pc.fill_null(rows[f"{side}_rating"], 0) for side in ("black", "white"))
    equals = pc.and_(pc.equal(black, white), pc.greater(rows["n_moves"], 100))
    if arguments.games:
        games = list(rows_to_games(rows.filter(equals).slice(0, arguments.games)))
        measure_curves(net, games, arguments.curves)
    counted = rows.filter(pc.and_(rows["territory"].is_valid(), rows["margin"].is_valid())).slice(0, arguments.counted)
    if len(counted):
        measure_territory(net, counted)
    if net.takes_ranks and arguments.moves:
        measure_ranks(net, rows, arguments.moves)


if __name__ == "__main__":
    main()
