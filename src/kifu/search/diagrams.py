"""Diagrams of boards and of parts of boards, as text."""

from __future__ import annotations

import re
from typing import NamedTuple

from kifu.errors import RecipeError, printable
from kifu.point import BLACK, MAX_SIZE, WHITE
from kifu.registry import unknown
from kifu.search.pattern import ANY_CELL, BLACK_CELL, EMPTY_CELL, WHITE_CELL

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
    """Split a text into its settings, diagram and notes.

    Raises:
        RecipeError: The text contains no diagram, or a line is none of these.
    """
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
        wanted = str(len(rows) - i)
        match = re.match(rf"{wanted}(?![0-9])\s*(?:\|(?P<framed>[^|]*)\||(?P<plain>[^0-9]*))", line)
        if match is None:
            raise line_error(number, f"this row of a board with column letters must begin with {wanted}")
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
