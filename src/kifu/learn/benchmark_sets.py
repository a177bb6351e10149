"""Named sets of games for `kifu benchmark`, which no net should be trained on.

A set is a list of games, each with its canonical hash, which identifies it in any source, and the hash of its opening,
by which training excludes it together with games that begin alike. docs/benchmark.md describes the sets.
"""

from __future__ import annotations

import base64
import binascii
from datetime import date
from functools import cache
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from blake3 import blake3
from pydantic import Field, model_validator

from kifu.config import Line, NamedConfig, check_config, config_names, load_config
from kifu.corpus._hashes import mix_words
from kifu.corpus.schema import to_numpy
from kifu.errors import RecipeError
from kifu.registry import find_name

_FOLDER, _KIND = "benchmarks", "benchmark set"

MIN_PLIES = 60
"""Minimum number of legal moves of a game of a set."""

DRAW_COLUMNS = ("canonical", "opening", "date", "n_legal", "black_program", "white_program")
"""Catalogue columns that `draw_games` needs."""

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

    @model_validator(mode="after")
    def _check_hashes(self) -> BenchmarkSet:
        found = blake3(self.listing().encode()).hexdigest()
        if len(self.keys()) != self.games or found != self.digest:
            raise ValueError(f"hashes: {len(self.keys())} games with the digest {found}")
        return self

    def keys(self) -> Hashes:
        """Return [games, 2]: the canonical and the opening hash of each game. Raises ValueError."""
        try:
            data = base64.b64decode("".join(self.hashes.split()), validate=True)
        except binascii.Error as error:
            raise ValueError(f"hashes: {error}") from None
        return np.frombuffer(data, "<u8").reshape(-1, 2).astype(np.uint64)

    def listing(self) -> str:
        """Return one line for each game: the canonical and the opening hash as 16 hexadecimal digits."""
        return "".join(f"{canonical:016x} {opening:016x}\n" for canonical, opening in self.keys().tolist())


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
    openings: Hashes = np.unique(np.concatenate([load_set(name).keys()[:, 1] for name in set_names()]))
    return openings


def is_reserved(opening: Hashes) -> npt.NDArray[np.bool_]:
    """Return which games must not be trained on: those that share the opening of a game of any benchmark set.

    Args:
        opening: [G] opening hashes; equal games, also under symmetry and truncated after the opening, share one.
    """
    reserved: npt.NDArray[np.bool_] = np.isin(opening, _reserved_openings())
    return reserved


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
