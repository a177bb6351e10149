"""Which positions of a game an epoch takes: with passes or without, by weight of ply and rank, so many a game."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kifu.errors import RecipeError
from kifu.records.meta import Rank

UNKNOWN_RANK = "?"

_MOST_PLY = 10_000


@dataclass(frozen=True, slots=True)
class PositionFilter:
    """Rules by which positions are chosen. Raises RecipeError for a value that makes no sense."""

    passes: bool = False
    """Whether those before a pass are taken too; the label is then width * height."""
    ply_weights: Mapping[int, float] | None = None
    """From which ply on which weight holds; it is 0 before the first."""
    rank_weights: Mapping[str, float] | None = None
    """From which rank of the mover on, say "1d", which weight holds; it is 0 below the lowest. "?" is the weight of
    those whose rank is not known, 0 if it is left out."""
    per_game: int | None = None
    """At most so many of a game, of those that stay by their weights, drawn anew in each epoch."""

    def __post_init__(self) -> None:
        for name, weights in (("ply_weights", self.ply_weights), ("rank_weights", self.rank_weights)):
            for key, weight in (weights or {}).items():
                if not 0 <= weight <= 1:
                    raise RecipeError(f"{name}: {weight!r} for {key!r} is not within 0 to 1")
        for ply in self.ply_weights or ():
            if not 0 <= ply <= _MOST_PLY:
                raise RecipeError(f"ply_weights: ply {ply!r} is not within 0 to {_MOST_PLY:,}")
        if self.per_game is not None and self.per_game < 1:
            raise RecipeError(f"per_game is {self.per_game}; it has to be 1 or more, or None for all")
        self._by_rating()

    def by_ply(self) -> npt.NDArray[np.float64]:
        """[T] the weight of each ply, the last one for all from there on."""
        if self.ply_weights is None:
            return np.ones(1)
        steps = sorted(self.ply_weights.items())
        starts = [ply for ply, _ in steps]
        weights = np.array([0.0, *(weight for _, weight in steps)])
        return weights[np.searchsorted(starts, np.arange(max(starts, default=0) + 1), side="right")]

    def by_player(self, rating: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
        """[G, 2] what `rank_weights`, which there are, say of Black's and of White's moves.

        rating: [G, 2], NaN where it is not known.
        """
        assert self.rank_weights is not None
        ratings, steps = self._by_rating()
        weights = np.array([0.0, *steps])[np.searchsorted(ratings, rating, side="right")]
        return np.where(np.isnan(rating), self.rank_weights.get(UNKNOWN_RANK, 0.0), weights)

    def told(self) -> dict[str, Any]:
        """The rules as JSON values."""
        return {
            "passes": self.passes,
            "ply_weights": None if self.ply_weights is None else [list(each) for each in self.ply_weights.items()],
            "rank_weights": None if self.rank_weights is None else dict(self.rank_weights),
            "per_game": self.per_game,
        }

    def _by_rating(self) -> tuple[list[float], list[float]]:
        steps = {}
        for text, weight in (self.rank_weights or {}).items():
            if text != UNKNOWN_RANK:
                rank = Rank.parse(text)
                if rank is None:
                    raise RecipeError(f"rank_weights: {text!r} is no rank; 18k, 1d and 9p are, and ? is none known")
                steps[rank.rating] = weight
        return sorted(steps), [steps[rating] for rating in sorted(steps)]
