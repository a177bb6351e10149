"""The definitions of features, for docs/planes/features.md and the web application."""

from __future__ import annotations

import re

from kifu.planes.feature import FAMILIES, Feature
from kifu.planes.registry import FEATURES

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
