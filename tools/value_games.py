"""Choose games of people whose positions a net of KataGo labels for training, some of them with random moves.

    python tools/value_games.py kgs.parquet fox.parquet tygem.parquet --games 4000 -o games.sgf
    kifu ingest games.sgf -o games.parquet
    kifu annotate games.parquet -o targets.parquet --net KATAGO.bin.gz --per-game 2 --points

From each catalogue, it takes at random the same number of games of people that no benchmark set reserves. In a quarter
of them one move of six is replaced by a random one, and later moves that became illegal are left out: people's own
moves rarely show how much an absurd one loses. Such games have no result.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from kifu import Board
from kifu.corpus.catalogue import open_catalogue
from kifu.corpus.export import rows_to_games
from kifu.corpus.schema import SCHEMA, drop_codes, to_numpy
from kifu.errors import DropReason, IllegalMove
from kifu.io import write_output
from kifu.learn.benchmark import has_reserved_account, is_reserved
from kifu.point import POINT_MASK, WHITE_BIT
from kifu.records.game import Game, write_record
from kifu.records.sgf import plain_properties

SHARE, RANDOM = 0.25, 1 / 6
"""Share of games with random moves, and of random moves in them."""


def eligible(path: Path) -> Iterator[pa.RecordBatch]:
    """Yield the games of people on 19 x 19 that may be trained on."""
    for batch in open_catalogue(path).batches(tuple(SCHEMA.names)):
        kept = (drop_codes(batch) == DropReason.KEPT) & (to_numpy(batch["n_legal"]) == to_numpy(batch["n_moves"]))
        kept &= (
            (to_numpy(batch["width"]) == 19) & (to_numpy(batch["height"]) == 19) & (to_numpy(batch["n_moves"]) >= 60)
        )
        kept &= ~is_reserved(to_numpy(batch["opening"]))
        for side in ("black", "white"):
            kept &= ~(has_reserved_account(batch[side]) | to_numpy(batch[f"{side}_program"]))
        yield batch.filter(pa.array(kept))


def spoil(game: Game, rng: np.random.Generator) -> Game:
    """Return the game with random moves in place of some."""
    board, moves = game.board(0), []
    for word in game.moves.tolist():
        if rng.random() < RANDOM:
            word = int(rng.choice(np.flatnonzero(board.stones.ravel() == 0))) | word & WHITE_BIT
        try:
            play(board, word)
        except IllegalMove:
            continue
        moves.append(word)
    return replace(game, moves=np.array(moves, np.uint16))


def play(board: Board, word: int) -> None:
    board.to_play = 2 if word & WHITE_BIT else 1
    board.play(word & POINT_MASK)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("catalogues", nargs="+", type=Path)
    parser.add_argument("--games", type=int, default=4000, help="of each catalogue")
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    rng, records = np.random.default_rng(0), []
    for path in options.catalogues:
        rows = pa.Table.from_batches(list(eligible(path))).combine_chunks().to_batches()[0]
        chosen = np.sort(rng.choice(len(rows), min(options.games, len(rows)), replace=False))
        for game in rows_to_games(rows.take(pa.array(chosen))):
            properties = plain_properties(game.properties, game.codec)
            if rng.random() < SHARE:
                game, properties = spoil(game, rng), {k: v for k, v in properties.items() if k != "RE"}
            records.append(write_record(game, properties))
    write_output(options.output, b"".join(records[k] for k in rng.permutation(len(records))))


if __name__ == "__main__":
    main()
