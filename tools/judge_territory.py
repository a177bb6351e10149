"""Find the territory of counted games by a net's ownership, and write these games and their territory to a catalogue.

    kifu query "FROM kept WHERE margin IS NOT NULL AND winner IS NOT NULL" games.parquet -o counted.parquet
    python tools/judge_territory.py counted.parquet --net net.bin.gz -o judged.parquet

Few records list territory, and the final board alone doesn't tell which stones are dead. Here the ownership of the
final position does, and a game is kept only if the count that follows equals the recorded result exactly. An ownership
head can learn from these games. Games without rules are counted by Korean ones.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kifu.corpus.catalogue import CatalogueWriter, open_catalogue
from kifu.corpus.export import rows_to_games
from kifu.corpus.schema import POINTS
from kifu.go.rules import RECORD_RULES
from kifu.katago.rules import KataRules
from kifu.learn.inference import Net
from kifu.learn.net import open_net
from kifu.learn.positions import NetPositions
from kifu.play.player import GameSession, dead_stones, score_points
from kifu.point import BLACK, WHITE, WHITE_BIT
from kifu.records.game import Game

KOMI = 6.5
"""The komi where a record has none."""

SIGNS = {"black": 1, "white": -1, "draw": 0}


def territory(game: Game, row: dict[str, Any], ownership: npt.NDArray[np.float32]) -> list[int] | None:
    """Return the territory as in `kifu.records.games.ParsedBlock` if the count equals the result, else None.

    Args:
        ownership: [points], from -1 (White's) to 1 (Black's).
    """
    board = GameSession.from_game(game, len(game), rules=RECORD_RULES).board
    dead = dead_stones(board, ownership)
    rules = KataRules.parse(row["rules"] or "Korean")
    owners, black, white = score_points(board, dead, territory=rules.scoring == "territory")
    white += rules.bonus(row["handicap"] or 0)
    if black - white - row["komi"] != row["margin"] * SIGNS[row["winner"]]:
        return None
    listed = np.flatnonzero((owners > 0) & ((board.stones.ravel() == 0) | dead))
    return [int(point) | (WHITE_BIT if owners[point] == WHITE else 0) for point in listed]


def judge(batch: pa.RecordBatch, net: Net) -> pa.RecordBatch:
    """Return the games whose count equals their result, with their territory."""
    games = list(rows_to_games(batch))
    positions = NetPositions.from_games(games, [len(game) for game in games])
    owned = net.evaluate(positions, unverified=True).seen_from(BLACK).ownership
    assert owned is not None, "the net has no ownership head"
    rows = batch.select(["rules", "komi", "handicap", "margin", "winner"]).to_pylist()
    rows = [{**row, "komi": KOMI if row["komi"] is None else row["komi"]} for row in rows]
    listed = pa.array([territory(*each) for each in zip(games, rows, owned, strict=True)], POINTS)
    return batch.set_column(batch.schema.get_field_index("territory"), "territory", listed).filter(listed.is_valid())


def main() -> None:
    """Judge the games of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("catalogue", type=Path)
    parser.add_argument("--net", required=True)
    parser.add_argument("-o", "--output", type=Path, required=True)
    arguments = parser.parse_args()
    catalogue, net, kept = open_catalogue(arguments.catalogue), open_net(arguments.net), 0
    with CatalogueWriter(arguments.output) as writer:
        for batch in catalogue.batches(size=64):
            judged = judge(batch, net)
            writer.write(judged)
            kept += len(judged)
        writer.commit({"judged by": Path(arguments.net).name})
    print(f"{kept:,} of {len(catalogue):,} games")


if __name__ == "__main__":
    main()
