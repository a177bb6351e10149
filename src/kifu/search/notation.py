"""The text notation of patterns; docs/patterns.md describes it with examples."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kifu.errors import RecipeError
from kifu.point import BLACK, MAX_SIZE, SGF_LETTERS, WHITE
from kifu.registry import check_choice, unknown
from kifu.search.diagrams import CELL_OF, CELLS, line_error, read_colour, read_diagram
from kifu.search.pattern import ANCHORS, ANY_CELL, EMPTY_CELL, Anchor, Pattern, PatternMove, Window

_CHARACTERS = {cell: character for character, cell in CELLS.items()}
_COLOUR_NAMES = {BLACK: "black", WHITE: "white"}
_LAST_PLY = 65_535


def parse_pattern(text: str) -> Pattern:
    """Return the pattern that a text describes.

    Args:
        text: Lines `key: value`, the diagram, and moves on points played before; a `/` ends a line, too.

    Raises:
        RecipeError: The text is not a pattern, or the pattern is contradictory.
    """
    diagram = read_diagram(text)
    settings = _read_settings(diagram.settings)
    numbered, cells = _read_cells(diagram.cells)
    for number, place in diagram.notes:
        points = numbered.get(int(place)) if place.isdigit() else [_point(place, diagram.cells)]
        if points is None:
            raise RecipeError(f"'{number} at {place}': no move {place} is drawn")
        numbered.setdefault(number, []).append(points[0])
    moves = number_moves(numbered, settings.pop("move_colours", []))
    anchor = _choose_anchor(diagram.edges, settings.pop("anchor", None))
    pattern = Pattern(len(diagram.cells[0]), len(diagram.cells), cells, anchor, moves=moves, **settings)
    check_pattern(pattern)
    return orient(pattern, diagram.edges)


def check_pattern(pattern: Pattern) -> None:
    """Raise RecipeError for a pattern that is too vague or that no game contains."""
    if not pattern.moves and all(cell == ANY_CELL for cell in pattern.cells):
        raise RecipeError("a pattern needs a stone, an empty cell or a move, got wildcards only")
    if pattern.moves:
        x, y, _ = pattern.moves[0]
        if not pattern.cells[y * pattern.width + x] & EMPTY_CELL:
            raise RecipeError("move 1 of a pattern must be on a cell that may be empty, got one that holds a stone")
    for i, (move, last) in enumerate(zip(pattern.moves[1:], pattern.moves), 2):
        if move[:2] == last[:2]:
            raise RecipeError(f"moves {i - 1} and {i} of a pattern are on the same point")


def orient(pattern: Pattern, edges: set[str]) -> Pattern:
    """Return a corner or side pattern, drawn at these edges of the board, as it looks at the upper left or upper one.

    Args:
        edges: One edge or two adjacent ones; for any other pattern any number, which changes nothing.
    """
    k = 0
    if pattern.anchor == "corner":
        k = ("right" in edges) + 2 * ("lower" in edges)
    elif pattern.anchor == "side":
        k = {"lower": 2, "left": 4, "right": 5}.get("".join(edges), 0)
    if k == 0:
        return pattern
    width, height = (pattern.height, pattern.width) if k & 4 else (pattern.width, pattern.height)
    return replace(pattern, width=width, height=height, cells=pattern.map_cells(k), moves=pattern.map_moves(k))


def anchor_of(edges: set[str]) -> Anchor:
    """Return the anchor of a rectangle that touches these edges of the board.

    Raises:
        RecipeError: Two opposite edges but not all four are touched.
    """
    if len(edges) == 3 or edges in ({"upper", "lower"}, {"left", "right"}):
        drawn = " and ".join(edge for edge in ("upper", "lower", "left", "right") if edge in edges)
        raise RecipeError(f"a pattern has no edge, one edge, two adjacent edges or all four, got {drawn}")
    names: dict[int, Anchor] = {0: "anywhere", 1: "side", 2: "corner", 4: "board"}
    return names[len(edges)]


def format_pattern(pattern: Pattern) -> str:
    """Return the text of a pattern, of which `parse_pattern` makes an equal one."""
    drawn: dict[tuple[int, int], int] = {}
    notes = []
    for number, (x, y, _) in enumerate(pattern.moves, 1):
        if (x, y) in drawn:
            notes.append(f"{number} at {drawn[x, y]}")
        elif pattern.cells[y * pattern.width + x] == EMPTY_CELL and (pattern.width > 1 or number < 10):
            drawn[x, y] = number
        else:
            notes.append(f"{number} at {SGF_LETTERS[x]}{SGF_LETTERS[y]}")
    size = max((len(str(number)) for number in drawn.values()), default=1)
    left = "|" if pattern.anchor in ("board", "corner") else ""
    right = "|" if pattern.anchor == "board" else ""
    rows = []
    for y in range(pattern.height):
        row = pattern.cells[y * pattern.width : (y + 1) * pattern.width]
        cells = [str(drawn.get((x, y), _CHARACTERS[cell])).rjust(size) for x, cell in enumerate(row)]
        rows.append(left + ("" if size == 1 else " ").join(cells) + right)
    edge = "-" * (len(rows[0]) - len(left + right))
    edge = left.replace("|", "+") + edge + right.replace("|", "+")
    upper = [edge] if pattern.anchor in ("board", "corner", "side") else []
    lower = [edge] if pattern.anchor == "board" else []
    return "\n".join([*_format_settings(pattern), *upper, *rows, *lower, *notes]) + "\n"


# Cells and moves


def _read_cells(rows: list[list[str]]) -> tuple[dict[int, list[tuple[int, int]]], tuple[int, ...]]:
    """Return the points of the numbered moves, and the cells."""
    numbered: dict[int, list[tuple[int, int]]] = {}
    for y, row in enumerate(rows):
        for x, cell in enumerate(row):
            if cell not in CELL_OF:
                numbered.setdefault(int(cell), []).append((x, y))
    return numbered, tuple(CELL_OF.get(cell, EMPTY_CELL) for row in rows for cell in row)


def _point(place: str, rows: list[list[str]]) -> tuple[int, int]:
    x, y = (SGF_LETTERS.index(letter) for letter in place)
    if y >= len(rows) or x >= len(rows[0]):
        raise RecipeError(f"point {place!r} is outside the {len(rows[0])} x {len(rows)} pattern")
    return x, y


def number_moves(numbered: Mapping[int, list[tuple[int, int]]], colours: Sequence[int]) -> tuple[PatternMove, ...]:
    """Return the moves in order. They alternate, beginning with the last of the given colours, or with Black."""
    moves = []
    colour = WHITE
    for number in range(1, max(numbered, default=0) + 1):
        points = numbered.get(number, [])
        if len(points) != 1:
            found = "is missing" if not points else f"occurs {len(points)} times"
            raise RecipeError(f"move {number} {found}; moves are numbered from 1 without gaps")
        colour = colours[number - 1] if number <= len(colours) else BLACK + WHITE - colour
        moves.append(PatternMove(*points[0], colour))
    if len(colours) > len(moves):
        raise RecipeError(f"'moves' lists {len(colours)} colours, more than the number of moves, {len(moves)}")
    return tuple(moves)


# Settings


def _choose_anchor(edges: set[str], given: Anchor | Window | None) -> Anchor | Window:
    drawn = anchor_of(edges)
    if given is None or not edges:
        return given or drawn
    if given != drawn:
        raise RecipeError(f"the anchor is {_format_anchor(given)!r}, but the drawn edges mean {drawn!r}")
    return drawn


def _read_settings(lines: Mapping[str, tuple[int, str]]) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for key, (number, value) in lines.items():
        if key not in _SETTINGS:
            raise unknown("key of a pattern", key, _SETTINGS)
        try:
            settings |= _SETTINGS[key](value)
        except RecipeError as error:
            raise line_error(number, str(error)) from None
    return settings


def _read_anchor(value: str) -> dict[str, Any]:
    match = re.fullmatch(r"columns? ([0-9]{1,2})(?:-([0-9]{1,2}))?,? rows? ([0-9]{1,2})(?:-([0-9]{1,2}))?", value)
    if match is None:
        if value not in ANCHORS:
            raise unknown("anchor", value, ANCHORS, ", columns 2-12 rows 1")
        return {"anchor": value}
    left, right, top, bottom = (int(match[k] or match[k - 1]) - 1 for k in range(1, 5))
    if not (0 <= left <= right < MAX_SIZE and 0 <= top <= bottom < MAX_SIZE):
        raise RecipeError(f"columns and rows of an anchor are ascending numbers within 1 to {MAX_SIZE}, got {value!r}")
    return {"anchor": Window(left, right, top, bottom)}


def _read_colours(value: str) -> dict[str, Any]:
    check_choice("colours", value, ("both", "fixed"))
    return {"both_colours": value == "both"}


def _read_moves(value: str) -> dict[str, Any]:
    return {"move_colours": [read_colour(word) for word in re.split("[ ,]+", value)]}


def _read_consecutive(value: str) -> dict[str, Any]:
    check_choice("consecutive", value, ("yes", "no"))
    return {"consecutive": value == "yes"}


def _read_next(value: str) -> dict[str, Any]:
    colour = value.removeprefix("actual ")
    return {"next_colour": read_colour(colour), "actual_colour": colour != value}


def _read_last_ply(value: str) -> dict[str, Any]:
    if not re.fullmatch("[0-9]{1,5}", value) or int(value) > _LAST_PLY:
        raise RecipeError(f"last ply must be a whole number within 0 to {_LAST_PLY}, got {value!r}")
    return {"last_ply": int(value)}


_SETTINGS: dict[str, Callable[[str], dict[str, Any]]] = {
    "anchor": _read_anchor,
    "colours": _read_colours,
    "moves": _read_moves,
    "consecutive": _read_consecutive,
    "next": _read_next,
    "last ply": _read_last_ply,
}


def _format_settings(pattern: Pattern) -> Iterable[str]:
    if pattern.anchor == "centre" or isinstance(pattern.anchor, Window):
        yield f"anchor: {_format_anchor(pattern.anchor)}"
    if not pattern.both_colours:
        yield "colours: fixed"
    colours = [move.colour for move in pattern.moves]
    while len(colours) > 1 and colours[-1] != colours[-2]:
        colours.pop()
    if colours and colours != [BLACK]:
        yield f"moves: {' '.join(_COLOUR_NAMES[colour] for colour in colours)}"
    if pattern.consecutive:
        yield "consecutive: yes"
    if pattern.next_colour is not None:
        yield f"next: {'actual ' * pattern.actual_colour}{_COLOUR_NAMES[pattern.next_colour]}"
    if pattern.last_ply is not None:
        yield f"last ply: {pattern.last_ply}"


def _format_anchor(anchor: Anchor | Window) -> str:
    if not isinstance(anchor, Window):
        return anchor
    left, right, top, bottom = (value + 1 for value in anchor)
    return f"columns {left}-{right} rows {top}-{bottom}"
