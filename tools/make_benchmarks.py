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
from kifu.learn.benchmark import Hashes

GAMES = 800

MIN_PLIES = 60
"""Minimum number of legal moves of a game of a set."""

DRAW_COLUMNS = ("canonical", "opening", "date", "n_legal", "black_program", "white_program")
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
        pattern: Glob pattern of the archives.
    """

    name: str
    title: str
    first: date
    last: date
    windows: str
    pattern: str


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
)  # fmt: skip


def draw_games(rows: pa.RecordBatch, first: date, last: date, games: int) -> Hashes:
    """Draw the games of a set: those with the smallest mixed canonical hash, whatever the order of the rows.

    Games of known programs, games of fewer than MIN_PLIES moves, and games that share their opening with another row
    are not drawn.

    Args:
        first: The first date of the window.
        last: The last date of the window.

    Returns:
        [K, 2], as `BenchmarkSet.keys`.

    Raises:
        RecipeError: The window has no such game.
    """
    keys = np.stack([to_numpy(rows[name]) for name in ("canonical", "opening")], 1)
    _, which, counts = np.unique(keys[:, 1], return_inverse=True, return_counts=True)
    dated = pc.and_(pc.greater_equal(rows["date"], first), pc.less_equal(rows["date"], last))
    eligible = pc.fill_null(dated, False).to_numpy(zero_copy_only=False) & (counts[which] == 1)
    eligible &= to_numpy(rows["n_legal"]) >= MIN_PLIES
    eligible &= ~(to_numpy(rows["black_program"]) | to_numpy(rows["white_program"]))
    if not eligible.any():
        raise RecipeError(f"no game from {first} to {last} can be drawn")
    keys = keys[eligible]
    keys = keys[np.argsort(keys[:, 0])]
    drawn = np.sort(np.argsort(mix_words(keys[:, 0]))[:games])
    found: Hashes = keys[drawn]
    return found


def definition(window: Window, data: Path) -> str:
    """Return the TOML file of a set."""
    archives = sorted(data.rglob(window.pattern))
    rows = read_games(archives, (19, 19), False, None, DRAW_COLUMNS)
    keys = draw_games(rows, window.first, window.last, GAMES)
    listing = "".join(f"{canonical:016x} {opening:016x}\n" for canonical, opening in keys.tolist())
    hashes = base64.b64encode(keys.astype("<u8").tobytes()).decode()
    lines = [hashes[start : start + 120] for start in range(0, len(hashes), 120)]
    names = ", ".join(f'"{path.name}"' for path in archives)
    return (
        f'name = "{window.name}"\ntitle = "{window.title}"\nfirst = {window.first}\nlast = {window.last}\n'
        f'windows = "{window.windows}"\narchives = [{names}]\ngames = {len(keys)}\n'
        f'digest = "{blake3(listing.encode()).hexdigest()}"\nhashes = """\n' + "\n".join(lines) + '\n"""\n'
    )


def main() -> None:
    """Write all sets into the folder OUT."""
    data, out = map(Path, sys.argv[1:])
    for window in WINDOWS:
        (out / f"{window.name}.toml").write_text(definition(window, data), "utf-8")


if __name__ == "__main__":
    main()
