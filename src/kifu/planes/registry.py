"""The registry of plane sets.

A released plane set never changes; it gets a new version, and its card in docs/planes/ tells the history.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kifu.errors import RecipeError
from kifu.planes import features as _features  # noqa: F401 - both register the features they define
from kifu.planes import move_effects as _move_effects  # noqa: F401
from kifu.planes.feature import FEATURES as FEATURES  # complete once this module is imported
from kifu.planes.feature import Feature, find_feature

_LIBERTY_PLANES = (
    "own, 1 liberty",
    "own, 2 liberties",
    "own, 3+ liberties",
    "other, 1 liberty",
    "other, 2 liberties",
    "other, 3+ liberties",
)


@dataclass(frozen=True, slots=True)
class PlaneSet:
    """A named, versioned list of feature planes.

    Attributes:
        name: With its version, as in recipes and manifests; for a composition, its features' names joined by +.
        plane_names: Description of each plane; "own" is the side to move.
        first_row: Side of the board where row 0 of planes and labels lies.
        features: Names of its features; empty for kgsgo's and KataGo's sets, which have kernels of their own.
        inputs: The meaning of each number that networks take besides the planes, stored as the label `globals`.
        encoder: Its `kifu.planes.board_embedding.FrameEncoder` class, as "module:name"; "" for kgsgo's sets.
    """

    name: str
    title: str
    plane_names: tuple[str, ...]
    first_row: Literal["top", "bottom"]
    features: tuple[Feature, ...] = ()
    inputs: tuple[str, ...] = ()
    encoder: str = "kifu.planes.encoder:Encoder"

    @property
    def planes(self) -> int:
        """The number of planes."""
        return len(self.plane_names)

    @property
    def real(self) -> bool:
        """True if the values are float32 instead of bits."""
        return any(feature.real for feature in self.features)

    @property
    def padding(self) -> int:
        """The number of rows and columns that the planes have around the board, on each side."""
        return max((feature.padding for feature in self.features), default=0)

    @property
    def needs_ranks(self) -> bool:
        """True if a feature reads the players' ranks."""
        return any(feature.needs_ranks for feature in self.features)


def _composed(name: str, title: str, features: tuple[Feature, ...]) -> PlaneSet:
    return PlaneSet(name, title, tuple(plane for feature in features for plane in feature.planes), "top", features)


_ALPHAGO = (
    "own+opp+empty+board+turns_since8+liberties8+capture_size8+self_atari_size8+liberties_after8"
    "+ladder_capture+ladder_escape+sensibleness+zeros"
)

_MADDISON = "empty+liberties4+liberties_after6+legal+turns_since5+capture_size7+ladder_capture+own_dan"

_COMPOSED = (
    (
        "one-plane@1",
        "one plane of real values: own stones 1, the opponent's -1",
        "signed_stones",
    ),
    (
        "seven@1",
        "the book's seven planes: liberties 1, 2, 3+ of both sides, and the one point that ko forbids",
        "own_liberties3+opp_liberties3+ko",
    ),
    (
        "seven+last5@1",
        "the book's seven planes, and the last five moves",
        "own_liberties3+opp_liberties3+ko+last5",
    ),
    (
        "eleven@1",
        "the book's eleven planes: liberties 1, 2, 3, 4+ of black and of white, the side to move, ko",
        "black_liberties4+white_liberties4+black_to_move+white_to_move+ko",
    ),
    (
        "clark8@1",
        "Clark and Storkey 2014: liberties 1, 2, 3+ of both sides, ko, and the edge around the board",
        "own_liberties3+opp_liberties3+ko+edge",
    ),
    (
        "maddison36@1",
        "the planes of maddison36@2, but own and opponent's stones instead of black and white ones",
        f"own+opp+{_MADDISON}",
    ),
    (
        "maddison36@2",
        "Maddison et al. 2014: stones, liberties before and after the move, age, captures, ladders, the mover's rank",
        f"black+white+{_MADDISON}",
    ),
    (
        "darkforest25@1",
        "Darkforest 2015, real values: liberties, stones, their age, the opponent's rank, place and nearest colour",
        "own_liberties3+opp_liberties3+ko+own+opp+empty+own_decay+opp_decay+border+centre+closest+opp_dan",
    ),
    (
        "alphago48@1",
        "AlphaGo 2016, its policy network's: stones, age, liberties, captures, self-atari, ladders, eyes",
        _ALPHAGO,
    ),
    (
        "alphago49@1",
        "AlphaGo 2016, its value network's: the same, and the colour to move",
        f"{_ALPHAGO}+black_to_move",
    ),
    (
        "agz17@1",
        "AlphaGo Zero 2017: stones of both sides now and seven times before, the colour to move",
        "history8+black_to_move",
    ),
    (
        "agz17-minigo@1",
        "minigo's variant of AlphaGo Zero's: before the start, the oldest board again",
        "repeated_history8+black_to_move",
    ),
    (
        "lz18@1",
        "Leela Zero's variant of AlphaGo Zero's: own stones, then opponent's stones, two planes for the colour",
        "own_history8+opp_history8+black_to_move+white_to_move",
    ),
    (
        "detlef13@1",
        "Detlef Schmicker's: liberties 1, 2, 3, 4+ of both sides, empty points, the last four moves",
        "own_liberties4+opp_liberties4+empty+last4",
    ),
)

_KGSGO = (
    PlaneSet(
        "kgsgo7@1",
        "kgsgo of 2015, v2: liberties 1, 2, 3+ of both sides, and its ko plane, which also marks stones",
        (*_LIBERTY_PLANES, "ko, as kgsgo marks it"),
        "bottom",
        encoder="",
    ),
    PlaneSet(
        "kgsgo8@1",
        "kgsgo of 2015, v1: the planes of kgsgo7, and one of ones",
        (*_LIBERTY_PLANES, "ko, as kgsgo marks it", "the board: all ones"),
        "bottom",
        encoder="",
    ),
)

KATAGO22 = PlaneSet(
    "katago22@1",
    "KataGo's inputs of version 7: liberties, ko and superko, last moves, ladders, area; 19 numbers beside",
    (
        "the board: ones",
        "own stones",
        "opponent's stones",
        "1 liberty",
        "2 liberties",
        "3 liberties",
        "points that ko or superko forbids",
        "encore: where a ko is not retaken",
        "encore: where a ko needs a pass first (never set)",
        "the last move",
        "the move 2 turns ago",
        "the move 3 turns ago",
        "the move 4 turns ago",
        "the move 5 turns ago",
        "stones that are caught in a ladder",
        "stones that were caught in one 1 turn ago",
        "stones that were caught in one 2 turns ago",
        "moves that catch the opponent in a ladder",
        "own area",
        "opponent's area",
        "encore: own stones as its second phase began",
        "encore: opponent's stones as its second phase began",
    ),
    "top",
    inputs=(
        "the last move was a pass",
        "the move 2 turns ago was a pass",
        "the move 3 turns ago was a pass",
        "the move 4 turns ago was a pass",
        "the move 5 turns ago was a pass",
        "komi of the side to move / 20",
        "superko",
        "superko: positional 0.5, situational -0.5",
        "suicide is allowed",
        "territory is counted, not area",
        "no points in seki",
        "two points of tax for each living group",
        "encore",
        "encore, its second phase",
        "a pass would end the phase",
        "playouts are doubled for a side (0)",
        "how often they are, / 2 (0)",
        "the button is not taken yet",
        "komi's distance from a draw, as a wave",
    ),
    encoder="kifu.katago.encoder:KataEncoder",
)
"""The only plane set with numbers besides its planes; see `kifu.katago.encoder`."""

PLANE_SETS: dict[str, PlaneSet] = {s.name: s for s in (*_KGSGO, KATAGO22)} | {
    name: _composed(name, title, tuple(find_feature(part) for part in text.split("+")))
    for name, title, text in _COMPOSED
}
"""Every plane set by its full name."""


def find_plane_set(name: str) -> PlaneSet:
    """Return a plane set by name, or a composition such as "own+opp+liberties4+ko".

    Args:
        name: Of a plane set, with its version or without for the newest one; or names of features and plane sets joined
            by +.

    Raises:
        RecipeError: If nothing has the name; the message suggests the most similar name.
    """
    if found := _registered(name):
        return found
    features = tuple(feature for part in name.split("+") for feature in _features_of(part))
    return _composed("+".join(feature.name for feature in features), "a composition", features)


def _registered(name: str) -> PlaneSet | None:
    found = [full for full in PLANE_SETS if name in (full, full.partition("@")[0])]
    return PLANE_SETS[found[-1]] if found else None


def _features_of(name: str) -> tuple[Feature, ...]:
    if found := _registered(name):
        if not found.features:
            raise RecipeError(f"{found.name} does not consist of features, so it cannot be part of a composition")
        return found.features
    names = {key for full in PLANE_SETS for key in (full, full.partition("@")[0])}
    return (find_feature(name, names),)
