"""Draw the games of the packaged benchmark sets from archives, and write their definitions.

    python tools/make_benchmarks.py shared/data src/kifu/assets/benchmarks

A set is drawn once and never changes; another choice of games gets another version. DATA is searched for the archives.
"""

from __future__ import annotations

import base64
import sys
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from blake3 import blake3

from kifu.corpus.hashes import mix_words
from kifu.corpus.schema import to_numpy
from kifu.datasets.mmap_games import read_games
from kifu.errors import RecipeError
from kifu.learn.benchmark import Hashes, hash_accounts

GAMES = 800

MIN_PLIES = 60
"""Minimum number of legal moves of a game of a set."""

DRAW_COLUMNS = ("canonical", "opening", "date", "n_legal", "black_program", "white_program", "black", "white")
"""Catalogue columns that `draw_games` needs."""


@dataclass(frozen=True)
class Window:
    """The window that a set is drawn from.

    Attributes:
        name: Name and version of the set.
        title: A short description.
        first: First day.
        last: Last day.
        windows: The span of time whose scores are compared.
        pattern: Glob patterns of the archives.
        share: The moves of one in this number of accounts are predicted; 0: those of all.
    """

    name: str
    title: str
    first: date
    last: date
    windows: str
    pattern: str
    share: int = 0


WINDOWS = (
    Window("kgs-2003@1", "KGS, 2003", date(2003, 1, 1), date(2003, 12, 31), "month", "KGS-2003-*"),
    Window("kgs-2016@1", "KGS, 2016", date(2016, 1, 1), date(2016, 12, 31), "month", "KGS-2016_*"),
    Window(
        "kgs-2018q4@1", "KGS, October and November 2018", date(2018, 10, 1), date(2018, 11, 30), "week",
        "KGS-2018_1[01]-*",
    ),
    Window(
        "tygem-2016-07@1", "TYGEM, 10 to 31 July 2016, 9 dan", date(2016, 7, 10), date(2016, 7, 31), "day",
        "*2016*.zip",
    ),
    Window(
        "fox-2018to19@1", "Fox, professionals, July 2018 to October 2019", date(2018, 7, 1), date(2019, 10, 31),
        "month", "fox-pro-680.tar.gz",
    ),
    Window(
        "people-kgs-2018q4@1", "KGS, September to November 2018, people", date(2018, 9, 1), date(2018, 11, 30), "week",
        "KGS-2018_09* KGS-2018_1*", 3,
    ),
    Window(
        "people-tygem@1", "TYGEM, 1 to 31 July 2016, 9 dan, people", date(2016, 7, 1), date(2016, 7, 31), "day",
        "*2016*.zip", 4,
    ),
    Window(
        "people-fox@1", "Fox, December 2015 to October 2019, 9 dan, people", date(2015, 12, 1), date(2019, 10, 31),
        "month", "fox-9d-18082.7z", 4,
    ),
)  # fmt: skip


def draw_games(rows: pa.RecordBatch, first: date, last: date, games: int, share: int = 0) -> tuple[Hashes, Hashes]:
    """Draw the games of a set: those with the smallest mixed canonical hash, whatever the order of the rows.

    Games of known programs, games of fewer than MIN_PLIES moves, and games that share their opening with another row
    are not drawn.

    Args:
        first: The first date of the window.
        last: The last date of the window.
        share: Only games of accounts whose hash is a multiple of it; 0: of all.

    Returns:
        [K, 2] and [A], as `BenchmarkSet.keys` and `BenchmarkSet.movers`.

    Raises:
        RecipeError: The window has no such game.
    """
    keys = np.stack([to_numpy(rows[name]) for name in ("canonical", "opening")], 1)
    _, which, counts = np.unique(keys[:, 1], return_inverse=True, return_counts=True)
    dated = pc.and_(pc.greater_equal(rows["date"], first), pc.less_equal(rows["date"], last))
    eligible = pc.fill_null(dated, False).to_numpy(zero_copy_only=False) & (counts[which] == 1)
    eligible &= to_numpy(rows["n_legal"]) >= MIN_PLIES
    eligible &= ~(to_numpy(rows["black_program"]) | to_numpy(rows["white_program"]))
    accounts = np.stack([hash_accounts(rows[side]) for side in ("black", "white")], 1)
    accounts[(accounts % np.uint64(max(share, 1)) != 0) | (share == 0)] = 0
    if share:
        eligible &= accounts.any(1)
    if not eligible.any():
        raise RecipeError(f"no game from {first} to {last} can be drawn")
    order = np.flatnonzero(eligible)[np.argsort(keys[eligible, 0])]
    drawn = order[np.sort(np.argsort(mix_words(keys[order, 0]))[:games])]
    movers = np.unique(accounts[drawn])
    return keys[drawn], movers[movers != 0]


def definition(window: Window, data: Path) -> str:
    """Return the TOML file of a set."""
    archives = sorted(path for pattern in window.pattern.split() for path in data.rglob(pattern))
    rows = read_games(archives, (19, 19), False, None, DRAW_COLUMNS)
    keys, accounts = draw_games(rows, window.first, window.last, GAMES, window.share)
    listing = "".join(f"{canonical:016x} {opening:016x}\n" for canonical, opening in keys.tolist())
    listing += "".join(f"{account:016x}\n" for account in accounts.tolist())
    names = ", ".join(f'"{path.name}"' for path in archives)
    return (
        f'name = "{window.name}"\ntitle = "{window.title}"\nfirst = {window.first}\nlast = {window.last}\n'
        f'windows = "{window.windows}"\narchives = [{names}]\ngames = {len(keys)}\n'
        f'digest = "{blake3(listing.encode()).hexdigest()}"\n{_encoded("hashes", keys)}'
        + (_encoded("accounts", accounts) if window.share else "")
    )


def _encoded(key: str, hashes: Hashes) -> str:
    text = base64.b64encode(hashes.astype("<u8").tobytes()).decode()
    lines = [text[start : start + 120] for start in range(0, len(text), 120)]
    return f'{key} = """\n' + "\n".join(lines) + '\n"""\n'


def main() -> None:
    """Write all sets, or those with the names that follow, into the folder OUT."""
    data, out = map(Path, sys.argv[1:3])
    for window in WINDOWS:
        if sys.argv[3:] and window.name not in sys.argv[3:]:
            continue
        (out / f"{window.name}.toml").write_text(definition(window, data), "utf-8")


if __name__ == "__main__":
    main()
