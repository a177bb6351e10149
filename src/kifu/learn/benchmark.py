"""Benchmark of nets on fixed positions of named sets of games; see docs/benchmark.md."""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Sequence
from datetime import date
from functools import cache
from importlib.metadata import version
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from blake3 import blake3
from pydantic import Field, model_validator

from kifu.assets import config_names
from kifu.config import Line, NamedConfig, check_config, load_config
from kifu.corpus.hashes import lowest_of_each, mix_words
from kifu.corpus.schema import game_arrays, map_distinct, to_numpy
from kifu.datasets.global_inputs import CONDITION_COLUMNS, Conditions
from kifu.datasets.mmap_games import COLUMNS, read_games
from kifu.datasets.sources import require_games
from kifu.errors import SourceError, printable
from kifu.execution.executor import count_jobs
from kifu.learn.evaluate import BREAKDOWNS, RANK_COLUMNS, Groups
from kifu.learn.inference import Net, unique_names
from kifu.learn.net import open_net
from kifu.learn.positions import NetPositions
from kifu.learn.results import BenchmarkResults, NetScores, SetResults
from kifu.learn.scores import MoveScores, differences, measure_drift, score, score_groups, score_moves
from kifu.point import POINT_MASK, WHITE, WHITE_BIT
from kifu.progress import ProgressFactory, silent
from kifu.records.paths import Paths, as_list, as_path
from kifu.registry import find_name

BOARD = (19, 19)

PER_GAME = 15
"""Number of positions of each game."""

_SEED = 0
"""Seed of the bootstrap."""

_COLUMNS = tuple(dict.fromkeys((*COLUMNS, *RANK_COLUMNS, *CONDITION_COLUMNS, "canonical", "date", "black", "white")))

_FOLDER, _KIND = "benchmarks", "benchmark set"

Hashes = npt.NDArray[np.uint64]


class BenchmarkSet(NamedConfig):
    """A fixed list of games on 19 x 19."""

    name: Line
    title: Line
    first: date
    """Date of the earliest games."""
    last: date
    windows: Literal["day", "week", "month"]
    """The span of time whose scores are compared to measure drift."""
    archives: Annotated[tuple[Line, ...], Field(strict=False, min_length=1)]
    """File names of the archives that the games were drawn from."""
    games: Annotated[int, Field(ge=1, le=100_000)]
    digest: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    """BLAKE3 of `listing`."""
    hashes: str
    """Base64 of the canonical and the opening hash of each game, little-endian, ascending."""
    accounts: str = ""
    """Base64 of the hashes of the accounts whose moves are predicted (`hash_accounts`), ascending; empty for all."""

    @model_validator(mode="after")
    def _check_hashes(self) -> BenchmarkSet:
        digest = blake3(self.listing().encode()).hexdigest()
        if len(self.keys()) != self.games or digest != self.digest:
            raise ValueError(f"hashes: {len(self.keys())} games with the digest {digest}")
        return self

    def keys(self) -> Hashes:
        """Return [games, 2]: the canonical and the opening hash of each game. Raises ValueError."""
        return np.frombuffer(_decode(self.hashes), "<u8").reshape(-1, 2).astype(np.uint64)

    def movers(self) -> Hashes:
        """Return the hashes of the accounts whose moves are predicted, none for all. Raises ValueError."""
        return np.frombuffer(_decode(self.accounts), "<u8").astype(np.uint64)

    def listing(self) -> str:
        """Return a line for each game, its canonical and opening hash as 16 hexadecimal digits, and each account."""
        games = "".join(f"{canonical:016x} {opening:016x}\n" for canonical, opening in self.keys().tolist())
        return games + "".join(f"{account:016x}\n" for account in self.movers().tolist())


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except binascii.Error as error:
        raise ValueError(f"hashes: {error}") from None


def hash_accounts(names: pa.Array) -> Hashes:
    """Return [G] hashes of the names of accounts, whose case does not matter; 0 without a name."""

    def hash_name(name: str | None) -> int:
        text = (name or "").strip().lower()
        return int.from_bytes(blake3(text.encode()).digest(8), "little") if text else 0

    return map_distinct(names, hash_name, np.uint64)


def set_names() -> list[str]:
    """Return the names of the benchmark sets."""
    return config_names(_FOLDER)


@cache
def load_set(name: str) -> BenchmarkSet:
    """Return a benchmark set, the latest version if the name has none. Raises RecipeError for an unknown name."""
    name = find_name(dict.fromkeys(set_names()), name, _KIND)
    return check_config(BenchmarkSet, load_config(_FOLDER, _KIND, name), _KIND, name)


@cache
def _reserved_openings() -> Hashes:
    return np.unique(np.concatenate([load_set(name).keys()[:, 1] for name in set_names()]))


@cache
def _reserved_accounts() -> Hashes:
    return np.unique(np.concatenate([load_set(name).movers() for name in set_names()]))


def has_reserved_account(names: pa.Array) -> npt.NDArray[np.bool_]:
    """Return [G] whose moves must not be trained on: those of accounts whose moves a benchmark set predicts."""
    return np.isin(hash_accounts(names), _reserved_accounts())


def is_reserved(opening: Hashes) -> npt.NDArray[np.bool_]:
    """Return which games must not be trained on: those that share the opening of a game of any benchmark set.

    Args:
        opening: [G] opening hashes; equal games, also under symmetry and truncated after the opening, share one.
    """
    return np.isin(opening, _reserved_openings())


def benchmark(
    nets: Sequence[str | os.PathLike[str]],
    sources: Paths,
    sets: Sequence[str] = (),
    *,
    symmetries: bool = False,
    jobs: int | None = None,
    progress: ProgressFactory = silent,
) -> BenchmarkResults:
    """Measure how well nets predict the moves of fixed positions of benchmark sets.

    Games that a net was trained on or validated with are left out for all nets.

    Args:
        sources: Catalogues, archives, folders and records that hold the games of the sets, in any order.
        sets: Names of benchmark sets; by default those with a game in the sources.
        symmetries: Also measure each net averaged over the symmetries of the board.
        jobs: Threads that encode planes; None for one per core.

    Raises:
        RecipeError: A set does not exist, a net does not support 19 x 19, or a source is a data set.
        SourceError: The sources hold no game of the sets.
        FormatError: A catalogue or net is damaged, or a net returns NaN.
    """
    benchmark_sets = list({each.name: each for each in map(load_set, sets or set_names())}.values())
    entrants = _open(nets, symmetries)
    paths = as_list(sources)
    rows = _read_rows(paths, benchmark_sets, jobs)
    canonical = to_numpy(rows["canonical"])
    parts = [(each, rows.filter(pa.array(np.isin(canonical, each.keys()[:, 0])))) for each in benchmark_sets]
    if not any(len(part) for _, part in parts):
        names = ", ".join(str(as_path(path)) for path in paths)[:200]
        raise SourceError(f"{names} holds no game of {', '.join(each.name for each in benchmark_sets)}")
    return BenchmarkResults(
        kifu=version("kifu"),
        sets=tuple(
            _run_set(benchmark_set, part, entrants, count_jobs(jobs), progress)
            for benchmark_set, part in parts
            if sets or len(part)
        ),
    )


_Entrant = tuple[str, bool, Net]
"""The name of a net, whether it is averaged over the symmetries, and the net."""


def _open(nets: Sequence[str | os.PathLike[str]], symmetries: bool) -> list[_Entrant]:
    opened = [open_net(net) for net in nets]
    for net in opened:
        net.check_board(*BOARD)
    return [
        (printable(name)[:200], averaged, net.using(symmetries=averaged))
        for net, name in zip(opened, unique_names(opened))
        for averaged in ((False, True) if symmetries else (False,))
    ]


def _read_rows(
    paths: Sequence[str | os.PathLike[str]], benchmark_sets: Sequence[BenchmarkSet], jobs: int | None
) -> pa.RecordBatch:
    """Return the rows of the games of the sets, each once and in ascending order of their canonical hashes.

    Of several rows of one game that with the smallest id is kept, so that the order of the sources does not matter.
    """
    require_games(paths, "a benchmark")
    keys = np.unique(np.concatenate([each.keys()[:, 0] for each in benchmark_sets]))
    rows = read_games(paths, BOARD, False, jobs, _COLUMNS, lambda batch: np.isin(to_numpy(batch["canonical"]), keys))
    canonical = to_numpy(rows["canonical"])
    order = np.lexsort((to_numpy(rows["id"]), canonical))
    _, first = np.unique(canonical[order], return_index=True)
    return rows.take(pa.array(order[first]))


def fixed_positions(rows: pa.RecordBatch, accounts: Hashes | None = None) -> NetPositions:
    """Return up to PER_GAME positions of each game, none before a pass, before moves of these accounts or of all.

    They are the plies with the smallest mix(canonical ^ mix(ply)), where `kifu.corpus.hashes` defines mix, so that they
    depend on the game alone.
    """
    games = game_arrays(rows)
    start = games.move_offset
    game = np.repeat(np.arange(len(rows)), np.diff(start))
    ply = np.arange(len(game)) - start[game]
    eligible = ((games.moves & POINT_MASK) < BOARD[0] * BOARD[1]) & (ply < to_numpy(rows["n_legal"])[game])
    if accounts is not None and len(accounts):
        movers = np.stack([np.isin(hash_accounts(rows[side]), accounts) for side in ("black", "white")])
        eligible &= movers[(games.moves & WHITE_BIT != 0).astype(np.int64), game]
    game, ply = game[eligible], ply[eligible]
    key = mix_words(to_numpy(rows["canonical"])[game] ^ mix_words(ply.astype(np.uint64)))
    drawn = lowest_of_each(game, key, PER_GAME)
    return NetPositions.at(games, game[drawn], ply[drawn], Conditions.from_rows(rows), rows)


def _run_set(
    benchmark_set: BenchmarkSet,
    rows: pa.RecordBatch,
    entrants: Sequence[_Entrant],
    jobs: int,
    progress: ProgressFactory,
) -> SetResults:
    seen = [np.isin(to_numpy(rows["canonical"]), net.games) for _, _, net in entrants]
    used = rows.filter(pa.array(~np.any(seen, axis=0)))
    positions = fixed_positions(used, benchmark_set.movers())
    with progress(benchmark_set.name, len(positions) * len(entrants), "positions") as bar:
        scores = [
            score_moves(net, positions, legal=False, jobs=jobs, advance=lambda found: bar.advance(len(found)))
            for _, _, net in entrants
            if len(positions)
        ]
    windows = _windows(used, benchmark_set.windows)
    return SetResults(
        name=benchmark_set.name, title=benchmark_set.title, digest=benchmark_set.digest, window=benchmark_set.windows,
        games=benchmark_set.games, present=len(rows), used=len(used), positions=len(positions),
        nets=tuple(
            NetScores(
                name=name,
                description=printable(net.description)[:200],
                symmetries=symmetries,
                known_games=net.known_games,
                seen=int(known.sum()),
                **(_summarize(scores[k], scores[0], positions, windows) if scores else {}),
            )
            for k, ((name, symmetries, net), known) in enumerate(zip(entrants, seen))
        ),
    )  # fmt: skip


def _windows(rows: pa.RecordBatch, length: Literal["day", "week", "month"]) -> Groups:
    """Return the window of each game: a month, a week by its Monday, or a day; "unknown" without a date."""
    known = rows["date"].is_valid().to_numpy(zero_copy_only=False)
    days = pc.fill_null(rows["date"], date(1970, 1, 1)).to_numpy(zero_copy_only=False).astype("M8[D]")
    if length == "month":
        days = days.astype("M8[M]")
    elif length == "week":
        days -= (days.astype(np.int64) + 3) % 7  # day 0 was a Thursday
    names, group = np.unique(np.where(known, days.astype(str), "unknown"), return_inverse=True)
    return names.tolist(), group.astype(np.int64)


def _summarize(moves: MoveScores, first: MoveScores, positions: NetPositions, windows: Groups) -> dict[str, Any]:
    """Return the fields of `NetScores` that depend on the moves."""
    account = positions.accounts(positions.to_play == WHITE)
    total = score(moves, account, _SEED)
    window_names, window = windows[0], windows[1][positions.game]
    known = np.array([name != "unknown" for name in window_names])[window]
    groups = {name: BREAKDOWNS[name][1](positions) for name in ("rank", "player")} | {"window": (window_names, window)}
    return {
        "score": total,
        "drift": measure_drift(moves, account, np.where(known, window, -1), total),
        "by": {name: score_groups(moves, account, index, names, _SEED) for name, (names, index) in groups.items()},
        "to_first": None if moves is first else differences(moves, first, account, _SEED),
    }
