"""The registry of plane sets.

A released plane set never changes; it gets a new version, and its card in docs/planes/ tells the history.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from kifu.errors import RecipeError
from kifu.planes import features as _features  # noqa: F401 - both register the features they define
from kifu.planes import move_effects as _move_effects  # noqa: F401
from kifu.planes.features import FAMILIES, Feature, find_feature
from kifu.planes.features import FEATURES as FEATURES  # complete once this module is imported
from kifu.registry import Registry

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
        encoder: Its `kifu.planes.encoder.FrameEncoder` class, as "module:name"; "" for kgsgo's sets.
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
    ("one-plane@1", "one plane of real values: own stones 1, the opponent's -1", "signed_stones"),
    (
        "seven@1",
        "the book's seven planes: liberties 1, 2, 3+ of both sides, and the one point that ko forbids",
        "own_liberties3+opp_liberties3+ko",
    ),
    ("seven+last5@1", "the book's seven planes, and the last five moves", "own_liberties3+opp_liberties3+ko+last5"),
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
    ("alphago49@1", "AlphaGo 2016, its value network's: the same, and the colour to move", f"{_ALPHAGO}+black_to_move"),
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
    encoder="kifu.katago.inputs:KataEncoder",
)
"""The only plane set with numbers besides its planes; see `kifu.katago.inputs`."""

PLANE_SETS: Registry[PlaneSet] = Registry("plane set", {s.name: s for s in (*_KGSGO, KATAGO22)})
"""Every plane set."""
for _name, _title, _parts in _COMPOSED:
    PLANE_SETS.register(_name, _composed(_name, _title, tuple(find_feature(part) for part in _parts.split("+"))))


def find_plane_set(name: str) -> PlaneSet:
    """Return a plane set by name, or a composition such as "own+opp+liberties4+ko".

    Args:
        name: Of a plane set, with its version or without for the newest one; or names of features and plane sets joined
            by +.

    Raises:
        RecipeError: Nothing has the name; the message suggests the most similar name.
    """
    if plane_set := PLANE_SETS.get(name):
        return plane_set
    features = tuple(feature for part in name.split("+") for feature in _features_of(part))
    return _composed("+".join(feature.name for feature in features), "a composition", features)


def _features_of(name: str) -> tuple[Feature, ...]:
    if plane_set := PLANE_SETS.get(name):
        if not plane_set.features:
            raise RecipeError(f"{plane_set.name} does not consist of features, so it cannot be part of a composition")
        return plane_set.features
    return (find_feature(name, PLANE_SETS),)


_LIBERTIES = "whose chain has 1, 2, ..., {k} or more liberties"
_RANK = (
    "ones in the plane of the {who} rank, 1 to 9 dan; professionals are in the last one, kyu players and unknown ranks"
    " in none"
)
_HISTORY = (
    "own stones, opponent's stones; then both as of one move ago, two moves ago, ...; {before} the start. Own is the"
    " side to move now in all of them"
)
_DECAY = "exp(-0.1 t) for {who} stone played t turns ago, 1 for the last move; 0 for stones set up"

DEFINITIONS: dict[str, dict[str, str]] = {
    "board": {
        "own": "own stones",
        "opp": "opponent's stones",
        "empty": "empty points",
        "black": "black stones",
        "white": "white stones",
        "board": "ones on the board",
        "zeros": "zeros",
        "border": "the outermost points of the board",
        "edge": "the points around the board; it gives the plane set padding: planes are two rows and columns"
        " larger than the board",
        "black_to_move": "ones if Black is to move",
        "white_to_move": "ones if White is to move",
        "own_dan": _RANK.format(who="mover's"),
        "opp_dan": _RANK.format(who="opponent's"),
        "closest": "points nearer to an own stone, and to an opponent's, counted along the lines and regardless of"
        " stones; equally near points are in neither plane; if one side has no stones, all points are in the other's",
    },
    "liberties": {
        "liberties": f"stones of both sides {_LIBERTIES}",
        "own_liberties": f"own stones {_LIBERTIES}",
        "opp_liberties": f"opponent's stones {_LIBERTIES}",
        "black_liberties": f"black stones {_LIBERTIES}",
        "white_liberties": f"white stones {_LIBERTIES}",
        "ko": "the one empty point that simple ko forbids to the side to move: the last move captured exactly one"
        " stone, is a single stone and has one liberty. A pass or setup lifts the ban; the side that captured may fill"
        " the point",
    },
    "history": {
        "last": "the points of the last {k} moves, the latest first, even if the stones were captured since; empty for"
        " a pass",
        "turns_since": "stones played 1, 2, ..., {k} or more turns ago (the last move is in the first plane); stones"
        " that were set up are in the last plane",
        "history": _HISTORY.format(before="zeros before"),
        "repeated_history": _HISTORY.format(before="the first board again before"),
        "own_history": "own stones now, one move ago, two moves ago, ...; zeros before the start",
        "opp_history": "opponent's stones now, one move ago, two moves ago, ...; zeros before the start",
    },
    "moves": {
        "legal": "legal moves",
        "capture_size": "legal moves that capture 0, 1, ..., {last} or more stones",
        "self_atari_size": "legal moves that leave their own chain with one liberty, by its size then: 1, 2, ..., {k}"
        " or more stones",
        "liberties_after": "legal moves by the liberties of their own chain then: 1, 2, ..., {k} or more",
        "sensibleness": "legal moves that do not fill an own eye: an empty point with own stones on all sides, and"
        " opponent's stones on at most one of its diagonal points, or on none at the edge",
        "ladder_capture": "moves that capture a chain of two liberties in a ladder, read to its end",
        "ladder_escape": "moves that save a chain in atari: it is not captured in a ladder afterwards",
    },
    "real": {
        "signed_stones": "1 for own stones, -1 for the opponent's",
        "own_decay": _DECAY.format(who="an own"),
        "opp_decay": _DECAY.format(who="an opponent's"),
        "centre": "exp(-d²/2), where d is the distance to the centre of the board",
    },
}
"""By section of docs/planes/features.md, the content of each feature, or of a family with {k} for its number."""

_DEFINED = {name: text for section in DEFINITIONS.values() for name, text in section.items()}


def define(feature: Feature) -> str:
    """Return the definition of a feature; "" for one that a user registered."""
    stem = feature.name.rstrip("0123456789")
    k = feature.name[len(stem) :]
    text = _DEFINED.get(stem, "").format(k=k, last=int(k or 1) - 1)
    return re.sub(r"(\d), \d, \.\.\., (\d+)", lambda ends: _counts(*map(int, ends.groups())), text)


def _counts(first: int, last: int) -> str:
    """Return the numbers from first to last, abbreviated if there are more than three."""
    shown = range(first, last + 1)
    return ", ".join(map(str, shown)) if len(shown) <= 3 else f"{first}, {first + 1}, ..., {last}"


def definition_table(section: str) -> list[str]:
    """Return the features of a section as rows of Markdown."""
    rows = ["| feature | planes | content |", "|---|---|---|"]
    for name, text in DEFINITIONS[section].items():
        made = FAMILIES[name].make(2) if name in FAMILIES else FEATURES[name]
        planes = f"{len(made.planes) // 2}k".removeprefix("1") if name in FAMILIES else len(made.planes)
        shown = f"`{name}`k" if name in FAMILIES else f"`{name}`"
        rows.append(f"| {shown} | {planes} | {text.format(k='k', last='k - 1')} |")
    return rows
