"""The text notation of patterns, and diagrams of their cells; docs/patterns.md describes it with examples."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from kifu.errors import RecipeError, printable
from kifu.point import BLACK, MAX_SIZE, SGF_LETTERS, WHITE
from kifu.registry import check_choice, unknown
from kifu.search.pattern import (
    ANCHORS,
    ANY_CELL,
    BLACK_CELL,
    EMPTY_CELL,
    WHITE_CELL,
    Anchor,
    Pattern,
    PatternMove,
    Rectangle,
)

CELLS = {
    ".": EMPTY_CELL,
    "X": BLACK_CELL,
    "O": WHITE_CELL,
    "x": BLACK_CELL | EMPTY_CELL,
    "o": WHITE_CELL | EMPTY_CELL,
    "#": BLACK_CELL | WHITE_CELL,
    "*": ANY_CELL,
}
"""The characters of cells; a `+`, the star point of a drawn board, is read as an empty cell."""

CELL_OF = CELLS | {"+": EMPTY_CELL}

_COLOURS = {"black": BLACK, "b": BLACK, "white": WHITE, "w": WHITE}
_COLUMN_LETTERS = "ABCDEFGHJKLMNOPQRSTUVWXYZ"


class Diagram(NamedTuple):
    """A drawn rectangle.

    Attributes:
        cells: The characters of the cells by row: those of `CELLS`, `+`, or the number of a move.
        edges: The drawn edges of the board: "upper", "lower", "left", "right".
        notes: (number, place) of the moves listed below the diagram as in `7 at 3` or `7 at bc`.
    """

    cells: list[list[str]]
    edges: set[str]
    notes: list[tuple[int, str]]
    settings: dict[str, tuple[int, str]]


def read_diagram(text: str) -> Diagram:
    """Split a text into settings, diagram and notes. Raises RecipeError for other lines, or without a diagram."""
    settings: dict[str, tuple[int, str]] = {}
    notes: list[tuple[int, str]] = []
    drawn: list[tuple[int, str]] = []
    blank = False
    for number, line in enumerate(text.replace("/", "\n").splitlines(), 1):
        line = line.strip()
        key, colon, value = line.partition(":")
        if colon:
            key = " ".join(key.lower().split())
            if key in settings:
                raise line_error(number, f"{key!r} is given twice")
            settings[key] = number, " ".join(value.lower().split())
        elif re.match(r"[0-9]+ at ", line):
            notes += _read_notes(number, line)
        elif line and blank and drawn:
            raise line_error(number, "a diagram must not contain blank lines")
        elif line:
            drawn.append((number, line))
        blank = not line
    cells, edges = _read_rows(drawn)
    return Diagram(cells, edges, notes, settings)


def line_error(number: int, message: str) -> RecipeError:
    """Return the error for a line, numbered from 1."""
    return RecipeError(f"line {number}: {message}")


def _read_notes(number: int, line: str) -> list[tuple[int, str]]:
    notes = []
    for note in line.split(","):
        match = re.fullmatch(r"([0-9]{1,4}) at ([0-9]{1,4}|[a-y]{2})", note.strip())
        if match is None:
            raise line_error(number, f"{note.strip()!r} is not the place of a move, such as '7 at 3' or '7 at bc'")
        notes.append((int(match[1]), match[2]))
    return notes


def _read_rows(drawn: list[tuple[int, str]]) -> tuple[list[list[str]], set[str]]:
    """Return the cells and the edges of the lines of a diagram, which are numbered."""
    letters = [compact for _, line in drawn if (compact := "".join(line.upper().split())).startswith("A")]
    rows = [(number, line) for number, line in drawn if line[0] not in "Aa"]
    edges = set()
    for index, edge in ((0, "upper"), (-1, "lower")):
        if rows and _is_edge(rows[index][1]):
            ends = rows.pop(index)
            edges.add(edge)
            drawn_corners = [side for side, end in (("left", 0), ("right", -1)) if ends[1][end] == "+"]
            if not letters and rows:
                _check_corners(ends[0], drawn_corners, rows)
    if not rows:
        raise RecipeError("a pattern needs a diagram of at least one row")
    for number, line in rows:
        if _is_edge(line):
            raise line_error(number, "an upper or lower edge must be the first or last line of the diagram")
    if letters:
        rows = _strip_coordinates(rows, letters)
        edges = {"upper", "lower", "left", "right"}
    else:
        rows, sides = _strip_sides(rows)
        edges |= sides
    spaced = any(" " in line or "\t" in line for _, line in rows)
    cells = [re.findall(r"[0-9]+|\S" if spaced else r"\S", line) for _, line in rows]
    _check_cells(cells, [number for number, _ in rows])
    if letters and len(letters[0]) != len(cells[0]):
        raise RecipeError(f"the board has {len(letters[0])} column letters and {len(cells[0])} columns")
    return cells, edges


def _is_edge(line: str) -> bool:
    return "-" in line and not set(line) - set("+- ")


def _check_corners(number: int, corners: list[str], rows: list[tuple[int, str]]) -> None:
    for side in corners:
        if not (rows[0][1].startswith("|") if side == "left" else rows[0][1].endswith("|")):
            raise line_error(number, f"the + at the {side} end is a corner, so the rows need a | on the {side}")


def _strip_coordinates(rows: list[tuple[int, str]], letters: list[str]) -> list[tuple[int, str]]:
    """Return rows of a whole board without their numbers, side edges, marks of the last move and what follows."""
    if any(not _COLUMN_LETTERS.startswith(line) for line in letters):
        raise RecipeError(f"column letters must be {_COLUMN_LETTERS[:19]} or the first of them, without I")
    stripped = []
    for i, (number, line) in enumerate(rows):
        row_number = str(len(rows) - i)
        match = re.match(rf"{row_number}(?![0-9])\s*(?:\|(?P<framed>[^|]*)\||(?P<plain>[^0-9]*))", line)
        if match is None:
            raise line_error(number, f"this row of a board with column letters must begin with {row_number}")
        inside = match["plain"] if match["framed"] is None else match["framed"]
        stripped.append((number, re.sub("[()]", " ", inside).strip()))
    return stripped


def _strip_sides(rows: list[tuple[int, str]]) -> tuple[list[tuple[int, str]], set[str]]:
    sides = set()
    left, right = ([line.startswith("|") for _, line in rows], [line.endswith("|") for _, line in rows])
    for side, marked in (("left", left), ("right", right)):
        if all(marked):
            sides.add(side)
        elif any(marked):
            number = rows[marked.index(not marked[0])][0]
            raise line_error(number, f"the {side} edge must be drawn in all rows or in none")
    inner = [(number, line[left[i] : len(line) - right[i]].strip()) for i, (number, line) in enumerate(rows)]
    return inner, sides


def _check_cells(cells: list[list[str]], numbers: list[int]) -> None:
    for row, number in zip(cells, numbers):
        for cell in row:
            if cell not in CELL_OF and not (cell.isascii() and cell.isdigit() and len(cell) <= 3 and cell[0] != "0"):
                allowed = " ".join(CELLS)
                raise line_error(number, f"'{printable(cell)}' is not a cell: {allowed} and move numbers are allowed")
        if len(row) != len(cells[0]):
            raise line_error(number, f"the row has {len(row)} cells, but the first row has {len(cells[0])}")
        if not 1 <= len(row) <= MAX_SIZE:
            raise line_error(number, f"a row has 1 to {MAX_SIZE} cells, got {len(row)}")
    if len(cells) > MAX_SIZE:
        raise RecipeError(f"a pattern has at most {MAX_SIZE} rows, got {len(cells)}")


def read_colour(word: str) -> int:
    """Return BLACK or WHITE. Raises RecipeError for other words than black, b, white and w."""
    if word not in _COLOURS:
        raise unknown("colour", word, ("black", "white"))
    return _COLOURS[word]


CHARACTERS = {cell: character for character, cell in CELLS.items()}
_COLOUR_NAMES = {BLACK: "black", WHITE: "white"}
_LAST_PLY = 65_535


def parse_pattern(text: str) -> Pattern:
    """Return the pattern that a text describes. Raises RecipeError if it is none, or contradictory.

    text: lines `key: value`, the diagram, and moves on points played before; a `/` ends a line, too.
    """
    diagram = read_diagram(text)
    settings = _read_settings(diagram.settings)
    numbered: dict[int, list[tuple[int, int]]] = {}
    for y, row in enumerate(diagram.cells):
        for x, cell in enumerate(row):
            if cell not in CELL_OF:
                numbered.setdefault(int(cell), []).append((x, y))
    cells = tuple(CELL_OF.get(cell, EMPTY_CELL) for row in diagram.cells for cell in row)
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
    """Return a rectangle's anchor by its edges. Raises RecipeError for two opposite edges without all four."""
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
        cells = [str(drawn.get((x, y), CHARACTERS[cell])).rjust(size) for x, cell in enumerate(row)]
        rows.append(left + ("" if size == 1 else " ").join(cells) + right)
    edge = "-" * (len(rows[0]) - len(left + right))
    edge = left.replace("|", "+") + edge + right.replace("|", "+")
    upper = [edge] if pattern.anchor in ("board", "corner", "side") else []
    lower = [edge] if pattern.anchor == "board" else []
    return "\n".join([*_format_settings(pattern), *upper, *rows, *lower, *notes]) + "\n"


# Cells and moves


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
            fault = "is missing" if not points else f"occurs {len(points)} times"
            raise RecipeError(f"move {number} {fault}; moves are numbered from 1 without gaps")
        colour = colours[number - 1] if number <= len(colours) else BLACK + WHITE - colour
        moves.append(PatternMove(*points[0], colour))
    if len(colours) > len(moves):
        raise RecipeError(f"'moves' lists {len(colours)} colours, more than the number of moves, {len(moves)}")
    return tuple(moves)


# Settings


def _choose_anchor(edges: set[str], given: Anchor | Rectangle | None) -> Anchor | Rectangle:
    drawn = anchor_of(edges)
    if given is None or not edges:
        return given or drawn
    if given != drawn:
        raise RecipeError(f"the anchor is {format_anchor(given)!r}, but the drawn edges mean {drawn!r}")
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
    return {"anchor": Rectangle(left, right, top, bottom)}


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
    "anchor": _read_anchor, "colours": _read_colours, "moves": _read_moves, "consecutive": _read_consecutive,
    "next": _read_next, "last ply": _read_last_ply,
}  # fmt: skip


def _format_settings(pattern: Pattern) -> Iterable[str]:
    if pattern.anchor == "centre" or isinstance(pattern.anchor, Rectangle):
        yield f"anchor: {format_anchor(pattern.anchor)}"
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


def format_anchor(anchor: Anchor | Rectangle) -> str:
    """Return an anchor as it is written in a pattern."""
    if not isinstance(anchor, Rectangle):
        return anchor
    left, right, top, bottom = (value + 1 for value in anchor)
    return f"columns {left}-{right} rows {top}-{bottom}"
