"""Small, crowded games to evaluate nets on, and a naive evaluation of single positions."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np
import pytest
from blake3 import blake3

import kifu
import kifu.assets
import kifu.config
from kgs_archives import archive, record
from kifu.arrays import Hashes
from kifu.assets import asset
from kifu.corpus.catalogue import open_catalogue
from kifu.corpus.ingest import ingest
from kifu.corpus.schema import to_numpy
from kifu.datasets.mmap_games import read_games
from kifu.go.board import Board
from kifu.point import POINT_MASK, WHITE, WHITE_BIT, symmetries, to_sgf
from lazy import lazy_import
from loader_games import apply_symmetry

learn = lazy_import("kifu.learn")
torch = lazy_import("torch")


RANKS = ("3d", "7d", "", "5k", "12k", "9p")
BANDS = {"3d": "3d", "7d": "7d", "": "unknown", "5k": "5-1k", "12k": "20-11k", "9p": "pro"}


def text(seed: int, plies: int = 36, size: int = 9, root: str = "", symmetry: int = 0, swapped: bool = False) -> bytes:
    """Return a random legal game in a corner as SGF; symmetry and swapped transform coordinates and colours."""
    rng = np.random.default_rng(seed)
    board, table = Board(size), symmetries(size, size)[symmetry]
    text = f"(;SZ[{size}]{root}"
    for _ in range(plies):
        legal = np.flatnonzero(board.legal()[:-1])
        legal = legal[(legal // size < 5) & (legal % size < 6)] if rng.random() < 0.9 else legal
        move = int(rng.choice(legal)) if legal.size and rng.random() > 0.06 else board.pass_move
        text += f";{'BW'[(board.to_play == WHITE) ^ swapped]}[{to_sgf(int(table[move]), size)}]"
        board.play(move)
    return (text + ")").encode()


def properties(k: int) -> str:
    ranks = f"BR[{RANKS[k % 6]}]WR[{RANKS[k * 5 % 6]}]".replace("BR[]", "").replace("WR[]", "")
    white = "Zen19" if k % 4 == 1 else f"White {k}"
    return f"PB[Black {k}]PW[{white}]DT[2001-0{1 + k % 9}-01]{ranks}" + (f"HA[{k % 4}]" if k % 3 == 0 else "")


def catalogue(folder: Path, texts: Iterable[bytes]) -> Path:
    path = folder / "games.parquet"
    ingest(archive(folder, list(texts)), path)
    return path


def make(folder: Path, games: int = 8, plies: int = 36, size: int = 9) -> Path:
    """Return a catalogue of some games, and one more on another board."""
    texts = [text(k, plies, size, properties(k)) for k in range(games)]
    return catalogue(folder, [*texts, text(99, 10, size + 2)])


def canonical(path: Path) -> list[int]:
    return [
        key for batch in open_catalogue(path).batches(["canonical"]) for key in to_numpy(batch["canonical"]).tolist()
    ]


def games_in(path: Path, size: int = 9) -> list[kifu.Game]:
    return [game for game in open_catalogue(path).games() if game.width == size and not game.drop]


def is_white(game: kifu.Game, ply: int) -> bool:
    return bool(game.moves[ply] & WHITE_BIT)


@dataclass(frozen=True)
class Seen:
    """One position with a net's prediction of its move.

    Moves whose probabilities differ only by rounding make the rank uncertain: it is min_rank to max_rank, from 0 on.
    `groups` holds the group of each breakdown.
    """

    game: int
    ply: int
    account: str
    move: int
    min_rank: int
    max_rank: int
    nll: float
    confidence: float
    groups: dict[str, str]


def sharp(path: Path) -> learn.net.Net:
    """Return the net of a file, made so confident that rounding rarely matters."""
    net = learn.net.open_net(path)
    *_, last_weight, _ = net.module.parameters()
    last_weight.data *= 20
    return net


def naive(
    net: learn.net.Net, games: Sequence[kifu.Game], *, legal: bool = False, symmetrised: bool = False
) -> list[Seen]:
    """Evaluate every position that is not before a pass, one at a time."""
    seen = []
    for g, game in enumerate(games):
        planes, labels = kifu.encode(game, net.about.planes)
        plies = [t for t, word in enumerate(game.moves.tolist()) if word & POINT_MASK < game.width * game.height]
        for ply, one, move in zip(plies, planes.astype(np.float32), labels.tolist(), strict=True):
            board = game.board(ply)
            board.to_play = 1 + is_white(game, ply)
            colour = -1.0 if is_white(game, ply) else 1.0
            probabilities = np.mean(
                [
                    probabilities_of(net, one, colour, k, board if legal else None)
                    for k in range(8 if symmetrised else 1)
                ],
                0,
            )
            min_rank, max_rank = (
                int(np.sum(probabilities > probabilities[move] * (1 + slack))) for slack in (1e-5, -1e-5)
            )
            groups = groups_of(game, ply, move, board)
            max_rank -= 1  # the move itself
            likely = -math.log(probabilities[move]), max(probabilities)
            account = game.players[is_white(game, ply)] or f"of game {g}"
            seen.append(Seen(g, ply, account, move, min_rank, max_rank, *likely, groups))
    return seen


def probabilities_of(net: learn.net.Net, planes: np.ndarray, colour: float, k: int, board: Board | None) -> np.ndarray:
    """Return [moves] under symmetry k, of legal moves if a board is given. colour: the only global input of a net."""
    with torch.no_grad():
        globals_ = torch.tensor([[colour]]) if net.about.inputs else None
        logits = (
            net.module(torch.from_numpy(apply_symmetry(planes, k)[None]), globals_).policy[0].numpy().astype(np.float64)
        )
    size = planes.shape[-1] - 2 * net.encoder.plane_set.padding
    logits = np.array([logits[symmetries(size, size)[k, p]] for p in range(len(logits))])
    weights = np.exp(logits - logits.max())
    if board is not None:
        weights *= board.legal()[: len(weights)]
    return weights / weights.sum()


def groups_of(game: kifu.Game, ply: int, move: int, board: Board) -> dict[str, str]:
    n = game.width
    x, y = move % n, move // n
    across, down = min(x, n - 1 - x) + 1, min(y, n - 1 - y) + 1
    close = (across <= n // 4 + 1) + (down <= n // 4 + 1)
    white = is_white(game, ply)
    rank = game.ranks[white]
    before = (board.stones == 2 - white).sum()
    taken = before - (game.board(ply + 1).stones == 2 - white).sum()
    return {
        "move": f"{ply // 20 * 20 + 1}-{ply // 20 * 20 + 20}",
        "rank": BANDS[str(rank) if rank else ""],
        "player": "programs" if game.players[white] == "Zen19" else "people",
        "handicap": str(game.handicap) if game.handicap else "none",
        "region": ("centre", "side", "corner")[close],
        "line": str(min(across, down)),
        "capture": ("none", "1", "2 or more")[min(taken, 2)],
    }


make_benchmarks = lazy_import("make_benchmarks")

NAME = "tiny@1"
FIRST, LAST = date(2001, 1, 1), date(2001, 4, 30)


def games(folder: Path, count: int = 32, seed: int = 0) -> Path:
    """Return an archive of random games of four months, with ranks."""
    texts = []
    for k in range(count):
        root = f"(;DT[2001-0{1 + k % 4}-{1 + k % 28:02}]BR[{1 + k % 5}d]WR[{1 + k % 3}d]".encode()
        texts.append(root + record(f"{seed}-{k}", 80).removeprefix(b"(;"))
    return archive(folder, texts)


def draw(source: Path, count: int = 24) -> Hashes:
    rows = read_games([source], (19, 19), False, 1, make_benchmarks.DRAW_COLUMNS)
    keys: Hashes = make_benchmarks.draw_games(rows, FIRST, LAST, count)[0]
    return keys


def write_set(folder: Path, keys: Hashes, **changes: object) -> None:
    listing = "".join(f"{canonical:016x} {opening:016x}\n" for canonical, opening in keys.tolist())
    values = {
        "name": f'"{NAME}"', "title": '"Random games"', "first": FIRST, "last": LAST, "windows": '"month"',
        "archives": '["x.tar.gz"]', "games": len(keys), "digest": f'"{blake3(listing.encode()).hexdigest()}"',
        "hashes": f'"{base64.b64encode(keys.astype("<u8").tobytes()).decode()}"', **changes,
    }  # fmt: skip
    (folder / "benchmarks").mkdir(exist_ok=True)
    text = "".join(f"{key} = {value}\n" for key, value in values.items())
    (folder / "benchmarks" / f"{NAME}.toml").write_text(text)


@contextmanager
def only_sets_of(folder: Path) -> Iterator[None]:
    sets = learn.benchmark

    def forget() -> None:
        sets.load_set.cache_clear()
        sets._reserved_openings.cache_clear()
        sets._reserved_accounts.cache_clear()

    def find(*parts: str) -> object:
        return folder.joinpath(*parts) if parts[0] == "benchmarks" else asset(*parts)

    forget()
    with pytest.MonkeyPatch.context() as patch:
        for module in (kifu.assets, kifu.config):
            patch.setattr(module, "asset", find)
        yield
    forget()
