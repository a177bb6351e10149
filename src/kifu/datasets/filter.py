"""The selection of positions of games: its rules, and the kernel that applies them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import ConfigDict, Field

from kifu.arrays import Bytes, Doubles, Floats, Ints, MoveArrays
from kifu.corpus.hashes import mix
from kifu.errors import RecipeError
from kifu.kernel import inline_kernel, kernel
from kifu.point import POINT_MASK, WHITE_BIT
from kifu.records.ranks import Rank

_11 = np.uint64(11)
_UNIT = 2.0**-53

UNKNOWN_RANK = "?"

_MAX_PLY = 10**6
_MAX_WEIGHTED_PLY = 10_000
_MAX_MERGED = 1_000

_Int = Annotated[int, Field(strict=True)]


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionFilter:
    """Rules that select positions of games, for `kifu.load` and the table `positions` of recipes.

    A position is kept with the probability given by the product of its weights. Recipes of kind "examples" do not
    support weights.

    Attributes:
        passes: Keep positions before a pass; their label is width * height.
        min_ply: First ply to keep; the position before the first move has ply 0.
        per_game: Maximum number of positions of a game, sampled anew in each epoch from those that the other rules
            keep; None for all.
        ply_weights: The weight, 0 to 1, from each ply on; 0 before the first one.
        rank_weights: The weight, 0 to 1, from each rank of the side to move on, such as "1d"; 0 below the lowest one.
            "?" is the weight of unknown ranks, by default 0.
        programs: Keep moves of programs, by the columns `black_program` and `white_program`.
        where: A condition in SQL over the columns of the catalogue that selects games, see docs/queries.md; NULL
            selects none. Requires duckdb, as `weight` does.
        merge_plies: Merge equal positions within this number of plies of all selected games: the first one represents
            the others in each epoch, with a weight of 1. See the labels "policy" and "count". Excludes `per_game`.
        weight: An SQL expression over these columns, whose value, 0 to 1, is the weight of a game; NULL is 0.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    passes: Annotated[bool, Field(strict=True)] = False
    min_ply: _Int = 0
    max_ply: _Int | None = None
    per_game: _Int | None = None
    ply_weights: Mapping[int, float] | None = None
    rank_weights: Mapping[str, float] | None = None
    where: str | None = None
    weight: str | None = None
    merge_plies: _Int = 0
    programs: Annotated[bool, Field(strict=True)] = True

    def __post_init__(self) -> None:
        for name, weights in (("ply_weights", self.ply_weights), ("rank_weights", self.rank_weights)):
            for key, weight in (weights or {}).items():
                if not 0 <= weight <= 1:
                    raise RecipeError(f"{name} must be within 0 to 1, got {weight!r} for {key!r}")
        for ply in self.ply_weights or ():
            if not 0 <= ply <= _MAX_WEIGHTED_PLY:
                raise RecipeError(f"plies of ply_weights must be within 0 to {_MAX_WEIGHTED_PLY:,}, got {ply!r}")
        for name, value, least in (
            ("min_ply", self.min_ply, 0),
            ("max_ply", self.max_ply, 0),
            ("per_game", self.per_game, 1),
        ):
            if value is not None and not (isinstance(value, int) and least <= value <= _MAX_PLY):
                raise RecipeError(f"{name} must be within {least} to {_MAX_PLY:,}, got {value!r}")
        if not 0 <= self.merge_plies <= _MAX_MERGED:
            raise RecipeError(f"merge_plies must be within 0 to {_MAX_MERGED:,}, got {self.merge_plies}")
        if self.merge_plies and self.per_game is not None:
            raise RecipeError("merge_plies and per_game exclude each other")
        self._rating_steps()
        for name in ("where", "weight"):
            _check_expression(name, getattr(self, name))

    def weights_by_ply(self) -> Doubles:
        """Return the weight of each ply, [T]; the last one also applies to all later plies."""
        steps = [(0, 1.0)] if self.ply_weights is None else sorted(self.ply_weights.items())
        bounds = [ply for ply, _ in steps]
        last = max([self.min_ply, *([] if self.max_ply is None else [self.max_ply + 1]), *bounds])
        plies = np.arange(last + 1)
        weights = np.array([0.0, *(weight for _, weight in steps)])[np.searchsorted(bounds, plies, side="right")]
        weights[: self.min_ply] = 0
        if self.max_ply is not None:
            weights[self.max_ply + 1 :] = 0
        return weights

    def weights_by_player(self, rating: Floats) -> Doubles:
        """Return the weights of Black's and White's moves by `rank_weights`, [G, 2]."""
        if self.rank_weights is None:
            return np.ones(rating.shape)
        ratings, steps = self._rating_steps()
        weights = np.array([0.0, *steps])[np.searchsorted(ratings, rating, side="right")]
        return np.where(np.isnan(rating), self.rank_weights.get(UNKNOWN_RANK, 0.0), weights)

    def to_dict(self) -> dict[str, Any]:
        """Return the rules as JSON values; those after per_game only if they are set."""
        rules: dict[str, Any] = {
            "passes": self.passes,
            "ply_weights": None if self.ply_weights is None else [list(step) for step in self.ply_weights.items()],
            "rank_weights": None if self.rank_weights is None else dict(self.rank_weights),
            "per_game": self.per_game,
        }
        rules |= {name: getattr(self, name) for name in ("min_ply", "merge_plies") if getattr(self, name)}
        rules |= {} if self.programs else {"programs": False}
        optional = {name: getattr(self, name) for name in ("max_ply", "where", "weight")}
        return rules | {name: value for name, value in optional.items() if value is not None}

    def _rating_steps(self) -> tuple[list[float], list[float]]:
        """Return the ratings of `rank_weights` in ascending order, and the weight from each on."""
        steps = {}
        for text, weight in (self.rank_weights or {}).items():
            if text != UNKNOWN_RANK:
                rank = Rank.parse(text)
                if rank is None:
                    raise RecipeError(f"rank_weights: {text!r} is not a rank such as 18k, 1d or 9p, or ? for unknown")
                steps[rank.rating] = weight
        return sorted(steps), [steps[rating] for rating in sorted(steps)]


def _check_expression(name: str, expression: str | None) -> None:
    if expression is None:
        return
    from kifu.corpus.query import check_expression  # requires duckdb

    try:
        check_expression(expression, boolean=name == "where")
    except RecipeError as error:
        raise RecipeError(f"{name}: {error}") from None


DEFAULT_FILTER = PositionFilter()


@inline_kernel
def position_weight(word: Any, t: Any, g: Any, points: Any, passes: Any, by_ply: Any, by_player: Any) -> Any:
    """Return the weight of the position before move `word`, at ply t of game g; see `_select_positions`."""
    if not passes and np.int64(word & POINT_MASK) == points[g]:
        return 0.0
    return by_ply[min(t, by_ply.shape[0] - 1)] * by_player[g, 1 if word & WHITE_BIT else 0]


@kernel
def _select_positions(  # noqa: PLR0913 - kernel
    moves: Any, move_offset: Any, playable: Any, points: Any, passes: Any, by_ply: Any, by_player: Any, per_game: Any,
    weight_key: Any, per_game_key: Any, selected: Any, counts: Any
) -> None:  # fmt: skip
    """See `select_positions`. by_ply: [T] float64, the last one also for all later plies. per_game: or -1."""
    for g in range(counts.shape[0]):
        first = move_offset[g]
        count = 0
        for k in range(first, move_offset[g + 1]):
            t = k - first
            weight = 0.0
            if t < playable[g]:
                weight = position_weight(moves[k], t, g, points, passes, by_ply, by_player)
            keep: Any = weight >= 1
            if 0 < weight < 1:
                keep = np.float64(mix(np.uint64(k) ^ weight_key) >> _11) * _UNIT < weight
            if keep:
                selected[k >> 3] |= np.uint8(1 << (k & 7))
                count += 1
        if 0 <= per_game < count:
            left, missing = count, per_game
            for k in range(first, move_offset[g + 1]):
                if selected[k >> 3] >> (k & 7) & 1:
                    if np.int64(mix(np.uint64(k) ^ per_game_key) % np.uint64(left)) < missing:
                        missing -= 1
                    else:
                        selected[k >> 3] &= np.uint8(255 ^ 1 << (k & 7))
                    left -= 1
            count = per_game
        counts[g] = count


def mark_positions(games: MoveArrays, rules: PositionFilter, playable: Ints) -> Bytes:
    """Return [M] 0 or 1: moves that rules without random draws select. playable: as for `select_positions`."""
    selected, counts = np.zeros((len(games.moves) + 7) // 8, np.uint8), np.empty(len(playable), np.int32)
    by_player, key = np.ones((len(playable), 2)), np.uint64(0)
    select_positions(games, 0, playable, rules, by_player, (key, key), selected, counts)
    return np.unpackbits(selected, count=len(games.moves), bitorder="little")


def select_positions(
    games: MoveArrays,
    first: int,
    playable: Ints,
    rules: PositionFilter,
    by_player: Doubles,
    keys: tuple[np.uint64, np.uint64],
    selected: Bytes,
    counts: Ints,
) -> None:
    """Mark the selected positions of G games, from number `first` on, and count them by game.

    Args:
        playable: [G] int32, number of plies of each game that can be rendered.
        by_player: [G, 2] float64, weights of Black's and of White's moves.
        keys: Of the draws by weight and by `per_game`.
        selected: [ceil(M / 8)] uint8, zeros; receives a bit per move of all games, lowest bit first.
        counts: [G] int32, receives the number of selected positions of each game.
    """
    part = slice(first, first + len(counts))
    points = games.width[part].astype(np.int64) * games.height[part]
    most = -1 if rules.per_game is None else rules.per_game
    with np.errstate(over="ignore"):
        _select_positions(
            games.moves, games.move_offset[first : part.stop + 1], playable, points, rules.passes,
            rules.weights_by_ply(), by_player, most, *keys, selected, counts,
        )  # fmt: skip
