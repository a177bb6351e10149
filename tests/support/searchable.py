"""Small catalogues to search, drawn by hypothesis."""

from pathlib import Path

import pyarrow as pa
from hypothesis import strategies as st

from catalogues import rows, write_catalogue
from drawn_games import OneGame, one_game
from drawn_games import games as drawn_games
from kifu.point import ERASE_BIT, NO_POINT, POINT_MASK, WHITE_BIT


def turned_game(game, k, moves):
    n = game.width * game.height
    width, height = (game.height, game.width) if k & 4 else (game.width, game.height)

    def image(word):
        p = word & POINT_MASK
        if p >= n:
            return word
        x, y = p % game.width, p // game.width
        x, y = (game.width - 1 - x if k & 1 else x), (game.height - 1 - y if k & 2 else y)
        return word & (WHITE_BIT | ERASE_BIT) | (x * width + y if k & 4 else y * width + x)

    setup = tuple((ply, image(word)) for ply, word in game.setup if ply <= moves)
    return OneGame(width, height, [image(word) for word in game.moves[:moves]], setup)


@st.composite
def catalogues(draw):
    """(games, columns): games that share positions, some of them dropped, with what is known of them."""
    games = [one_game(*draw(drawn_games())) for _ in range(draw(st.integers(1, 2)))]
    rng = draw(st.randoms(use_true_random=False))
    for _ in range(draw(st.integers(0, 5))):
        game = rng.choice(games)
        games.append(turned_game(game, rng.randrange(8), rng.randint(0, len(game.moves))))
    if games[-1].moves and rng.random() < 0.2:
        games[-1].moves[-1] = rng.choice([games[-1].moves[0], NO_POINT])
    return games, {
        "winner": [rng.choice(["black", "white", "draw", None]) for _ in games],
        "year": [rng.choice([None, 1846, 2016, 2017]) for _ in games],
        "black_rating": [rng.choice([None, 30.0, 36.5]) for _ in games],
        "white_rating": [rng.choice([None, 30.0, 41.0]) for _ in games],
        "drop": [rng.choice([None] * 6 + ["ko"]) for _ in games],
    }


def catalogue_rows(games, columns) -> pa.RecordBatch:
    return rows(
        width=[game.width for game in games],
        height=[game.height for game in games],
        moves=[game.moves for game in games],
        setup=[[word for _, word in game.setup] for game in games],
        setup_ply=[[ply for ply, _ in game.setup] for game in games],
        root_setup=[sum(ply == 0 for ply, _ in game.setup) for game in games],
        **columns,
    )


def write_games(path: Path, games, columns) -> Path:
    return write_catalogue(path, catalogue_rows(games, columns))
