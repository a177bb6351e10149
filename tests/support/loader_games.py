"""A catalogue for loader tests: games with ranks, results, komi and some territory; some are dropped, some small."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

import kifu
from kgs_archives import BROKEN, archive, record, records
from kifu.corpus.catalogue import open_catalogue
from kifu.corpus.ingest import ingest
from kifu.datasets.examples import Batch, Layout, concat
from kifu.point import symmetries
from naive_order import Game

RANKS = ("3d", "7d", "", "5k", "1d")
RATING = {"3d": 34, "7d": 38, "": None, "5k": 27, "1d": 32}


def game_properties(k: int) -> bytes:
    result = ("B+R", "W+2.5", "0", "")[k % 4]
    text = f"BR[{RANKS[k % 5]}]WR[{RANKS[k * 2 % 5]}]" + (f"RE[{result}]" if result else "")
    if k % 3:
        text += "KM[6.5]"
    if k % 6:
        text += f"DT[{2000 + k % 3}-02-01]"
    if k % 4 == 1:
        text += "TB[aa][ba]TW[sa][sb]"
    return text.encode()


def small_game(k: int) -> bytes:
    """Return a game on 9 x 9 or 9 x 7 in which no stone touches another."""
    moves = "".join(f";{'BW'[i % 2]}[{chr(97 + 2 * (i % 4) + k % 2)}{chr(97 + 2 * (i // 4))}]" for i in range(16))
    return f"(;SZ[{'9:7' if k % 3 == 2 else '9'}]PB[{k}]{moves})".encode()


def load(source: Any, planes: str | None = None, **options: Any) -> kifu.Loader:
    """Call `kifu.load` with the fields of PositionFilter and LoaderConfig, epoch and resume as keyword arguments."""
    epoch, state = options.pop("epoch", 0), options.pop("resume", None)
    names = [field.name for field in fields(kifu.PositionFilter) if field.name in options]
    loader = kifu.load(
        source, planes, filter=kifu.PositionFilter(**{name: options.pop(name) for name in names}), **options
    )
    if epoch:
        loader = loader.epoch(epoch)
    if state is not None:
        loader.load_state_dict(state)
    return loader


def make(folder: Path, games: int = 30, plies: int = 40, seed: int = 0, smalls: int = 0) -> Path:
    """Write a catalogue of 19 x 19 games with at most `plies` moves each, and of others that are not used."""
    texts = [
        game.replace(b"SZ[19]", b"SZ[19]" + game_properties(k)) for k, game in enumerate(records(games, seed, plies))
    ]
    texts = [*texts, BROKEN["OCCUPIED"], record(f"long {seed}", 3), *map(small_game, range(smalls))]
    source = archive(folder, texts)
    path = folder / "games.parquet"
    ingest(source, path)
    return path


def kept_games(path: Path, width: int = 19, height: int = 19) -> dict[int, kifu.Game]:
    """Return the games that a loader uses, by id, in order."""
    (batch,) = open_catalogue(path).batches(("id", "drop"))
    found = zip(batch["id"].to_pylist(), batch["drop"].to_pylist(), open_catalogue(path).games())
    return {key: g for key, drop, g in found if drop is None and (g.width, g.height) == (width, height)}


def naive_games(games: dict[int, kifu.Game], weights=lambda rank: 1.0) -> list[Game]:
    """Return the games in the form of `naive_order`. weights: weight of a player by rank."""
    return [
        Game(
            game.moves.tolist(), len(game.moves), game.width * game.height, game.width == game.height,
            tuple(weights(rank) for rank in game.ranks),
        )
        for game in games.values()
    ]  # fmt: skip


def row_ids(loader: kifu.Loader) -> list[tuple[int, int]]:
    batch = one_batch(loader)
    return list(zip(batch.game.tolist(), batch.ply.tolist()))


def one_batch(loader: kifu.Loader) -> Batch:
    return concat_batches(list(loader), loader.layout)


def concat_batches(batches: list[Batch], layout: Layout) -> Batch:
    if batches:
        return Batch(
            np.concatenate([batch.planes for batch in batches]),
            {name: np.concatenate([batch.labels[name] for batch in batches]) for name in batches[0].labels},
            np.concatenate([batch.game for batch in batches]),
            np.concatenate([batch.ply for batch in batches]),
        )
    return concat([], layout)


def apply_symmetry(planes: np.ndarray, k: int) -> np.ndarray:
    height, width = planes.shape[-2:]
    out = np.empty((*planes.shape[:-2], height * width), planes.dtype)
    out[..., symmetries(width, height)[k, :-1]] = planes.reshape(*planes.shape[:-2], -1)
    return out.reshape(*planes.shape[:-2], *((width, height) if k & 4 else (height, width)))


def assert_same(one: Batch, other: Batch) -> None:
    assert one.labels.keys() == other.labels.keys()
    pairs = [(one.planes, other.planes), (one.game, other.game), (one.ply, other.ply)]
    for a, b in [*pairs, *((one.labels[name], other.labels[name]) for name in one.labels)]:
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        assert a.tobytes() == b.tobytes()
