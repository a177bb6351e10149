"""The whole tree of an SGF record: variations, comments, labels and marks, for one game that is shown to a reader.

Bulk readers take the main line alone, see `kifu.records.sgf`; they do not use this module.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from kifu.errors import GameError
from kifu.point import ERASE_BIT, WHITE_BIT, parse_sgf
from kifu.records.text import simple_text, unescape

MAX_NODES = 20_000
"""Number of nodes that are read."""

_TOKEN = re.compile(r"([();])|([A-Za-z]+)\s*(?=\[)|\[((?:[^\\\]]|\\.)*)\]", re.DOTALL)
_MARKS = {"TR": "triangle", "SQ": "square", "CR": "circle", "MA": "cross", "LB": "label", "L": "label"}
_SETUP = {"AB": 0, "AW": WHITE_BIT, "AE": ERASE_BIT}


class Node(NamedTuple):
    """A node of the tree.

    Attributes:
        parent: Index of its parent; -1 for the root. The first child of each node continues its line.
        move: point | WHITE_BIT, a pass is width * height; None without a move.
        setup: Stones as point | WHITE_BIT or ERASE_BIT.
        marks: (point, kind, text): a triangle, square, circle or cross without text, or a label.
    """

    parent: int
    move: int | None
    setup: list[int]
    comment: str
    marks: list[tuple[int, str, str]]


def read_tree(text: str, width: int, height: int) -> list[Node]:
    """Return the nodes of the first game in the text of a record, each after its parent. What is no SGF is skipped."""
    found: list[tuple[int, dict[str, list[str]]]] = []
    branches: list[int] = []
    values: dict[str, list[str]] | None = None
    last, name = -1, ""
    for match in _TOKEN.finditer(text):
        sign, letters, value = match.groups()
        if sign == ";" or (letters and values is None and branches):  # the first node of a variation may lack its ;
            if len(found) == MAX_NODES:
                break
            values = {}
            found.append((last, values))
            last = len(found) - 1
        if letters:
            name = "".join(c for c in letters if c.isupper()) or letters.upper()
        elif value is not None and values is not None:
            values.setdefault(name, []).append(value)
        elif sign == "(":
            branches.append(last)
            values = None
        elif sign == ")" and branches:
            last = branches.pop()
            if not branches and found:
                break
    return [_node(parent, properties, width, height) for parent, properties in found]


def _node(parent: int, values: dict[str, list[str]], width: int, height: int) -> Node:
    """Return a node by its properties; points that are not on the board are skipped."""
    move = None
    for name, bit in (("B", 0), ("W", WHITE_BIT)):
        for value in values.get(name, [])[:1]:
            if move is None and (point := _point(value, width, height)) is not None:
                move = point | bit
    setup = [
        point | bit for name, bit in _SETUP.items() for value in values.get(name, [])
        for point in _points(value, width, height)
    ]  # fmt: skip
    marks = []
    for name, kind in _MARKS.items():
        for k, value in enumerate(values.get(name, [])):
            where, _, label = value.partition(":") if name == "LB" else (value, "", chr(ord("A") + k % 26))
            text = simple_text(label)[:20] if kind == "label" else ""
            marks += [(point, kind, text) for point in _points(where, width, height)]
    return Node(parent, move, setup, "\n".join(map(unescape, values.get("C", []))), marks)


def _point(value: str, width: int, height: int) -> int | None:
    try:
        return parse_sgf(value.strip(), width, height)
    except GameError:
        return None


def _points(value: str, width: int, height: int) -> Iterator[int]:
    """Yield the points of a point or rectangle."""
    first, _, second = value.strip().partition(":")
    corners = [_point(each, width, height) for each in (first, second or first) if len(each) == 2]
    if len(corners) == 2 and None not in corners:
        (top, left), (bottom, right) = (divmod(each or 0, width) for each in corners)
        for y in range(min(top, bottom), min(max(top, bottom) + 1, height)):
            yield from (y * width + x for x in range(min(left, right), max(left, right) + 1))
