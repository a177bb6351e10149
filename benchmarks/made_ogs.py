"""Make a dump of OGS games, one JSON object a line, out of real games of another server.

    python benchmarks/made_ogs.py OUT.jsonl.gz ARCHIVE ... [--games N] [--seed N]

The games are repeated under the eight symmetries, with other players, ids and clocks, until there are enough. Memory
does not depend on their number, and the same arguments give the same bytes.
"""

from __future__ import annotations

import argparse
import gzip
from collections.abc import Iterator, Sequence
from itertools import count, islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from kifu.point import BLACK, POINT_MASK, WHITE, WHITE_BIT, symmetries, to_sgf
from kifu.records.containers import read_blocks
from kifu.records.game import Game, game_at
from kifu.records.parse import parse_block

_SIZE = 19
_LEAST_MOVES = 30
_FIRST_ID, _PLAYERS = 20_000_000, 400_000
_START, _STEP = 1_500_000_000, 7
_PAUSE_MS = 6.0, 1.4  # mean and deviation of the logarithm of the milliseconds of a move, about those of live games
_CLOCKS: tuple[dict[str, Any], ...] = (
    {"system": "byoyomi", "main_time": 600, "period_time": 30, "periods": 5, "speed": "live"},
    {"system": "fischer", "initial_time": 259_200, "time_increment": 86_400, "max_time": 604_800},
    {"system": "canadian", "main_time": 900, "period_time": 300, "stones_per_period": 25, "speed": "live"},
    {"system": "simple", "per_move": 30, "speed": "live"},
)
_RULES: dict[str, Any] = {
    "allow_self_capture": False, "automatic_stone_removal": False, "free_handicap_placement": False,
    "aga_handicap_scoring": False, "allow_ko": False, "allow_superko": True, "superko_algorithm": "ssk",
    "score_territory": True, "score_territory_in_seki": False, "score_stones": False, "score_handicap": False,
    "score_prisoners": True, "score_passes": True, "white_must_pass_last": False,
    "opponent_plays_first_after_resume": True, "strict_seki_mode": False,
}  # fmt: skip
_OUTCOMES = {"resign": "Resignation", "time": "Timeout", "forfeit": "Disconnection"}


def write_dump(path: Path, archives: Sequence[Path], games: int, seed: int = 1) -> None:
    """Write a dump.

    Args:
        path: The file, compressed as .gz.
        archives: Archives of 19 x 19 games.
        games: Number of lines.
        seed: Seed of players and clocks.
    """
    with gzip.open(path, "wb", compresslevel=1) as file:
        for line in islice(_lines(archives, np.random.default_rng(seed)), games):
            file.write(line)


def _lines(archives: Sequence[Path], draw: np.random.Generator) -> Iterator[bytes]:
    ids = count(_FIRST_ID)
    turned = symmetries(_SIZE, _SIZE)
    for turn in count():
        for game in _real_games(archives):
            made = _to_ogs(game, next(ids), turned[turn % 8], draw)
            yield orjson.dumps(made, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE)


def _real_games(archives: Sequence[Path]) -> Iterator[Game]:
    for block in read_blocks(archives):
        for parsed in parse_block(block, None):
            for g in range(len(parsed.games)):
                game = game_at(parsed, g)
                if (game.width, game.height) == (_SIZE, _SIZE) and len(game.moves) >= _LEAST_MOVES:
                    yield game


def _to_ogs(game: Game, number: int, turned: npt.NDArray[np.int16], draw: np.random.Generator) -> dict[str, Any]:
    """Return the object of a game under a symmetry, with players and times that are drawn."""
    black_id, white_id = (int(player) for player in draw.integers(1, _PLAYERS, 2))
    result = game.result
    points = turned[game.moves & POINT_MASK]
    y, x = np.divmod(points, _SIZE)
    is_pass = points == _SIZE * _SIZE
    pauses = draw.lognormal(*_PAUSE_MS, len(points)).astype(np.int64) + 200
    stones = game.setup[: game.root_setup]
    first_is_white = len(game.moves) > 0 and bool(game.moves[0] & WHITE_BIT)
    return {
        "white_player_id": white_id,
        "black_player_id": black_id,
        "game_id": number,
        "game_name": "Friendly Match" if number % 3 else "Ladder Challenge",
        "players": {
            "black": _player(black_id, draw),
            "white": _player(white_id, draw),
        },
        "ranked": number % 2 == 0,
        "handicap": max(game.handicap or 0, 0),
        "komi": 6.5 if game.komi is None else game.komi,
        "width": _SIZE,
        "height": _SIZE,
        "rules": "japanese" if number % 4 else "chinese",
        "time_control": _CLOCKS[number % len(_CLOCKS)],
        "phase": "finished",
        "history": [],
        "initial_player": "white" if first_is_white else "black",
        "moves": np.stack([np.where(is_pass, -1, x), np.where(is_pass, -1, y), pauses], axis=1),
        **_RULES,
        "initial_state": {
            "black": _letters(stones[stones & WHITE_BIT == 0], turned),
            "white": _letters(stones[stones & WHITE_BIT != 0], turned),
        },
        "start_time": _START + _STEP * (number - _FIRST_ID),
        "winner": {BLACK: black_id, WHITE: white_id, None: "tie"}[result.winner],
        "outcome": _OUTCOMES.get(result.how, f"{result.margin or 0:g} points"),
        "end_time": _START + _STEP * (number - _FIRST_ID) + int(pauses.sum()) // 1000,
    }


def _player(player: int, draw: np.random.Generator) -> dict[str, Any]:
    rank = float(draw.normal(26, 5))
    return {"username": f"player {player}", "rank": rank, "professional": False, "egf": 100 * rank - 900, "id": player}


def _letters(stones: npt.NDArray[np.uint16], turned: npt.NDArray[np.int16]) -> str:
    return "".join(to_sgf(int(turned[stone & POINT_MASK]), _SIZE) for stone in stones)


def main() -> None:
    """Write the dump that the command line describes."""
    parser = argparse.ArgumentParser(description="Make a dump of OGS games out of real games of another server.")
    parser.add_argument("out", type=Path, metavar="OUT.jsonl.gz")
    parser.add_argument("archives", type=Path, nargs="+", metavar="ARCHIVE", help="archives of 19 x 19 games")
    parser.add_argument("--games", type=int, default=100_000, help="number of games (default: 100,000)")
    parser.add_argument("--seed", type=int, default=1, help="seed of players and clocks (default: 1)")
    arguments = parser.parse_args()
    write_dump(arguments.out, arguments.archives, arguments.games, arguments.seed)


if __name__ == "__main__":
    main()
