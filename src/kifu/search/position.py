"""Positions to explore, as users write them, and patterns cut out of them.

A position is given as moves, a ply of a game, a diagram, or a record. A pattern is a rectangle of a position, or a
sequence of moves in a corner. Markup in SGF may choose the rectangle; docs/patterns.md lists what each kind means.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kifu.arrays import MoveArrays
from kifu.errors import GameError, IllegalMove, RecipeError, SourceError, printable
from kifu.go.board import Board
from kifu.io import read_small
from kifu.point import BLACK, POINT_MASK, WHITE, WHITE_BIT, parse_gtp, parse_sgf, to_gtp
from kifu.records.game import Game, read_sgf
from kifu.records.sgf import node_properties
from kifu.registry import unknown
from kifu.search.notation import CELL_OF, anchor_of, check_pattern, number_moves, orient, read_colour, read_diagram
from kifu.search.pattern import ANY_CELL, BLACK_CELL, EMPTY_CELL, WHITE_CELL, Pattern, PatternMove, Rectangle

FILE_LIMIT = 1 << 20
"""Largest file of a position or pattern, in bytes."""

_CELLS = np.array([EMPTY_CELL, BLACK_CELL, WHITE_CELL])
STONES = {EMPTY_CELL: 0, BLACK_CELL: BLACK, WHITE_CELL: WHITE}
_MOVE = re.compile("(?i:pass|[a-z][0-9]+|b|w|black|white)|[a-z]{2}")


@dataclass(frozen=True, slots=True)
class Position:
    """The stones of a whole board.

    Attributes:
        stones: [height * width] uint8, row-major: 0 empty, BLACK, WHITE.
        next_colour: BLACK or WHITE, the player to move, if known. Searches do not use it, since records tell who played
            next.
    """

    width: int
    height: int
    stones: npt.NDArray[np.uint8]
    next_colour: int | None = None

    def to_pattern(self, both_colours: bool = True) -> Pattern:
        """Return the pattern of the whole board, which by default is also found with Black and White exchanged."""
        return Pattern(self.width, self.height, self.cells(), "board", both_colours)

    def cells(self) -> tuple[int, ...]:
        """Return the contents of the points as cells of a pattern."""
        return tuple(_CELLS[self.stones].tolist())


def parse_position(
    text: str | os.PathLike[str], width: int = 19, height: int | None = None
) -> Position | tuple[int, int]:
    """Return the position that a text describes, or a row of the catalogue, from 0, and a ply of its game.

    Args:
        text: Moves from the empty board ("Q16 D4 R4" or "pd dp qp"; passes and colours are allowed), a ply of a game
            ("1234@57": game 1234 of the catalogue, from 1, after 57 moves), the diagram of a whole board, or the path
            of a record ("game.sgf", its final position, or "game.sgf@57"). A path object may also be a file with any of
            these.
        height: Rows; as many as columns by default.

    Raises:
        RecipeError: The text is not a position, or a move in it is illegal.
        RecordError: The file is not a record.
        GameError: The record has no such position.
    """
    if isinstance(text, os.PathLike):
        data = read_input(text)
        if b"(;" in data:
            return record_position(data)
        return parse_position(data.decode("utf-8", "replace"), width, height)
    if match := re.fullmatch(r"\s*([0-9]{1,15})@([0-9]{1,5})\s*", text):
        if int(match[1]) == 0:
            raise RecipeError(f"games are numbered from 1, got {text.strip()}")
        return int(match[1]) - 1, int(match[2])
    if match := re.fullmatch(r"(.+\.sgf)(?:@([0-9]{1,5}))?", text, re.IGNORECASE):
        return record_position(read_input(Path(match[1])), None if match[2] is None else int(match[2]))
    words = split_words(text)
    if not words or _MOVE.fullmatch(words[0]):
        return board_position(play_moves(text, width, height)[0])
    return _diagram_position(text)


def read_input(path: str | os.PathLike[str]) -> bytes:
    """Return the content of a file of at most `FILE_LIMIT` bytes. Raises SourceError if it cannot be read."""
    try:
        return read_small(path, FILE_LIMIT)
    except OSError as error:
        raise SourceError(f"{os.fspath(path)}: {error.strerror}") from None


def record_position(data: bytes, ply: int | None = None) -> Position:
    """Return a position of the first game of a record.

    Raises RecordError if there is no game, and GameError if the game is dropped, has an illegal move, or has fewer
    moves. ply: the number of moves before it; None for the final position.
    """
    game = read_sgf(data)
    if ply is not None and ply > len(game):
        raise GameError(f"ply must be within 0 to {len(game)}, got {ply}")
    return board_position(game.board(ply))


def game_position(games: MoveArrays, g: int, ply: int) -> Position:
    """Return the position before move `ply` of game g. Raises GameError if moves before it are missing or illegal."""
    moves = games.moves[games.move_offset[g] : games.move_offset[g + 1]]
    entries = slice(games.setup_offset[g], games.setup_offset[g + 1])
    if not 0 <= ply <= len(moves):
        raise GameError(f"ply must be within 0 to {len(moves)}, got {ply}")
    size = int(games.width[g]), int(games.height[g])
    return board_position(Board.after(*size, moves, games.setup[entries], games.setup_ply[entries], ply))


def split_words(text: str) -> list[str]:
    """Return words that are separated by white space or commas."""
    return text.replace(",", " ").split()


def play_moves(text: str, width: int = 19, height: int | None = None) -> tuple[Board, list[tuple[int, int]]]:
    """Play moves on an empty board. Raises RecipeError if a word is not a move, or a move is illegal.

    Args:
        text: GTP vertices, SGF points or "pass". A colour before a move is that of its player; otherwise they
            alternate, beginning with Black.
        height: Rows; as many as columns by default.

    Returns:
        (final position, (point, colour) of the moves without passes).
    """
    height = width if height is None else height
    moves = []
    try:
        board = Board(width, height)
    except GameError as error:
        raise RecipeError(str(error)) from None
    for word in split_words(text):
        if word.lower() in ("b", "w", "black", "white"):
            board.to_play = read_colour(word.lower())
            continue
        colour = board.to_play
        try:
            parse = parse_sgf if word.isalpha() and word.lower() != "pass" else parse_gtp
            point = parse(word, width, height)
            board.play(point)
        except IllegalMove as error:
            raise RecipeError(f"move {board.ply + 1}, {word}, is illegal: {error.reason.reason}") from None
        except GameError as error:
            raise RecipeError(f"move {board.ply + 1}: {error}") from None
        if point < board.pass_move:
            moves.append((point, colour))
    return board, moves


def board_position(board: Board) -> Position:
    """Return the position of a board."""
    return Position(board.width, board.height, board.stones.ravel(), board.to_play)


def _diagram_position(text: str) -> Position:
    diagram = read_diagram(text)
    for key in diagram.settings:
        if key != "next":
            raise unknown("key of a position", key, ["next"])
    if diagram.edges and len(diagram.edges) < 4:
        raise RecipeError("the diagram of a position shows a whole board, so it has all four edges or none")
    cells = [cell for row in diagram.cells for cell in row]
    for cell in cells:
        if CELL_OF.get(cell) not in STONES:
            raise RecipeError(f"a position has . X and O only, got {printable(cell)!r}")
    stones = np.array([STONES[CELL_OF[cell]] for cell in cells], np.uint8)
    board = Board(len(diagram.cells[0]), len(diagram.cells))
    try:
        board.setup(*(np.flatnonzero(stones == colour).tolist() for colour in (BLACK, WHITE)))
    except GameError as error:
        raise RecipeError(str(error)) from None
    next_colour = diagram.settings.get("next")
    return Position(board.width, board.height, stones, read_colour(next_colour[1]) if next_colour else None)


def parse_rectangle(text: str, width: int, height: int) -> Rectangle:
    """Return the rectangle between two GTP vertices, as "C12:H19", in any order. Raises RecipeError for others."""
    try:
        points = [parse_gtp(corner.strip(), width, height) for corner in text.split(":")]
        if len(points) != 2 or width * height in points:
            raise GameError(f"got {text!r}")
    except GameError as error:
        raise RecipeError(f"a rectangle is given by two of its corners, such as C12:H19: {error}") from None
    return bounding_box(points, width)


def bounding_box(points: Iterable[int], width: int) -> Rectangle:
    """Return the smallest rectangle that contains points of a board, of which there is at least one."""
    rows, columns = zip(*(divmod(point, width) for point in points))
    return Rectangle(min(columns), max(columns), min(rows), max(rows))


def cut(
    width: int, height: int, cells: Sequence[int], rectangle: Rectangle, moves: Iterable[tuple[int, int]] = ()
) -> Pattern:
    """Return a rectangle of a board as a pattern, anchored by the edges of the board that it touches.

    As in the text notation, a pattern at one edge is turned to the upper one, and one in a corner to the upper left.
    Raises RecipeError if the rectangle touches three edges or two opposite ones, a move is outside, or the pattern is
    too vague.

    Args:
        cells: [height * width] Allowed contents of the points of the board.
        moves: (point, colour) of the moves played in the rectangle.
    """
    left, right, top, bottom = rectangle
    touched = {"left": left == 0, "upper": top == 0, "right": right == width - 1, "lower": bottom == height - 1}
    edges = {edge for edge, is_touched in touched.items() if is_touched}
    inside = []
    for number, (point, colour) in enumerate(moves, 1):
        y, x = divmod(point, width)
        if not (left <= x <= right and top <= y <= bottom):
            corners = f"{to_gtp(top * width + left, width, height)}:{to_gtp(bottom * width + right, width, height)}"
            raise RecipeError(f"move {number}, {to_gtp(point, width, height)}, is outside the rectangle {corners}")
        inside.append(PatternMove(x - left, y - top, colour))
    pattern = Pattern(
        right - left + 1,
        bottom - top + 1,
        tuple(cells[y * width + x] for y in range(top, bottom + 1) for x in range(left, right + 1)),
        anchor_of(edges),
        moves=tuple(inside),
    )
    check_pattern(pattern)
    return orient(pattern, edges)


def pattern_from_position(position: Position, rectangle: str | Rectangle) -> Pattern:
    """Return a rectangle of a position as a pattern, anchored by the edges of the board that it touches.

    rectangle: may be two corners as GTP vertices, such as "C12:H19". Raises RecipeError if it is not on the
    board, or touches three edges or two opposite ones.
    """
    if isinstance(rectangle, str):
        rectangle = parse_rectangle(rectangle, position.width, position.height)
    return cut(position.width, position.height, position.cells(), rectangle)


def sequence_pattern(
    moves: str, rectangle: str | Rectangle | None = None, width: int = 19, height: int | None = None, min_size: int = 8
) -> Pattern:
    """Return the pattern of moves played in order in a part of the board that is empty before.

    Raises RecipeError if a move is not one, is illegal, or lies outside the rectangle; or as `pattern_from_position`.

    Args:
        moves: GTP vertices or SGF points, as for `kifu.search.position.parse_position`. A pass means that its player
            plays elsewhere.
        rectangle: As for `pattern_from_position`; by default the smallest in a corner that contains all moves.
        height: Rows; as many as columns by default.
        min_size: Columns and rows that the default rectangle has at least.
    """
    height = width if height is None else height
    _, played = play_moves(moves, width, height)
    if not played:
        raise RecipeError("a sequence needs at least one move on the board")
    if rectangle is None:
        rectangle = _corner_around([point for point, _ in played], width, height, min_size)
    elif isinstance(rectangle, str):
        rectangle = parse_rectangle(rectangle, width, height)
    return cut(width, height, [EMPTY_CELL] * (width * height), rectangle, played)


def _corner_around(points: Sequence[int], width: int, height: int, min_size: int) -> Rectangle:
    box = bounding_box(points, width)
    across, down = min(min_size, width), min(min_size, height)
    left, right = max(box.right + 1, across), max(width - box.left, across)
    upper, lower = max(box.bottom + 1, down), max(height - box.top, down)
    columns = (0, left - 1) if left <= right else (width - right, width - 1)
    rows = (0, upper - 1) if upper <= lower else (height - lower, height - 1)
    return Rectangle(*columns, *rows)


_MARKS = ("TR", "SQ", "CR", "MA", "SL", "LB")
_MAX_VALUES = 1000

_Properties = Mapping[str, Sequence[bytes]]


def pattern_from_sgf(data: bytes) -> Pattern:
    """Return the pattern drawn in the first node with markup, on the main line of the first game of a record.

    Raises:
        RecordError: There is no game.
        GameError: The game is dropped, or has an illegal move.
        RecipeError: The record is larger than `FILE_LIMIT`, no node has markup, or the markup is no pattern.
    """
    if len(data) > FILE_LIMIT:
        raise RecipeError(f"a record with a pattern has at most {FILE_LIMIT:,} bytes, got {len(data):,}")
    game = read_sgf(data)
    if game.drop:
        raise GameError(f"a dropped game shows no pattern: {game.drop.reason}")
    before, properties = _find_markup(game)
    board = before.board()
    if len(before) == 0 and before.to_play in (BLACK, WHITE):
        board.to_play = before.to_play
    width, height = game.width, game.height
    marks = {name: list(_points(name, properties, width, height)) for name in ("VW", *_MARKS)}
    if list(properties.get("VW", ())) == [b""]:
        rectangle = Rectangle(0, width - 1, 0, height - 1)
    else:
        rectangle = bounding_box(marks["VW"] or [point for points in marks.values() for point in points], width)
    cells = _mark_cells(list(board_position(board).cells()), marks, board)
    moves = _labelled_moves(properties.get("LB", ()), marks["LB"], cells, board)
    return cut(width, height, cells, rectangle, moves or _moves_inside(game, len(before), rectangle))


def _find_markup(game: Game) -> tuple[Game, _Properties]:
    for end, properties in node_properties(game.record):
        if any(name in properties for name in ("VW", *_MARKS)):
            return read_sgf(game.record[:end] + b")"), properties
    raise RecipeError(f"no node of the main line has VW or one of the marks {', '.join(_MARKS)}, which draw a pattern")


def _points(name: str, properties: _Properties, width: int, height: int) -> Iterator[int]:
    """Yield the points of a property; of a rectangle of points, all of them."""
    values = properties.get(name, ())
    if len(values) > _MAX_VALUES:
        raise RecipeError(f"{name} has at most {_MAX_VALUES:,} values in a pattern, got {len(values):,}")
    for value in values:
        text = value.decode("latin-1").strip()
        if name == "VW" and list(values) == [b""]:
            continue
        first, colon, last = text.partition(":")
        try:
            corners = [parse_sgf(corner, width, height) for corner in (first, last) if name != "LB" and colon]
            corners = corners or [parse_sgf(first, width, height)]
            if width * height in corners:
                raise GameError
        except GameError:
            raise RecipeError(
                f"{name}[{printable(text[:20])}] is not on the {width} x {height} board of the pattern"
            ) from None
        box = bounding_box(corners, width)
        yield from (y * width + x for y in range(box.top, box.bottom + 1) for x in range(box.left, box.right + 1))


def _mark_cells(cells: list[int], marks: Mapping[str, Sequence[int]], board: Board) -> list[int]:
    for point in marks["SQ"]:
        if cells[point] == EMPTY_CELL:
            vertex = to_gtp(point, board.width, board.height)
            raise RecipeError(f"SQ on {vertex} must mark a stone, which then may be missing; the point is empty")
        cells[point] |= EMPTY_CELL
    for point in marks["CR"]:
        cells[point] = BLACK_CELL | WHITE_CELL
    for point in marks["TR"]:
        cells[point] = ANY_CELL
    return cells


def _labelled_moves(
    values: Sequence[bytes], points: Sequence[int], cells: list[int], board: Board
) -> list[tuple[int, int]]:
    """Return the moves that numbers on points are, and empty the cells of those that are on stones."""
    numbered: dict[int, list[tuple[int, int]]] = {}
    point_of: dict[int, int] = {}
    for value, point in zip(values, points):
        label = value.decode("latin-1").partition(":")[2].strip()
        if re.fullmatch("[1-9][0-9]{0,2}", label):
            y, x = divmod(point, board.width)
            numbered.setdefault(int(label), []).append((x, y))
            point_of[int(label)] = point
    stones = board.stones.ravel()
    colours: list[int] = []
    for number in sorted(point_of):
        stone = int(stones[point_of[number]])
        colours.append(stone or (BLACK + WHITE - colours[-1] if colours else board.to_play))
        cells[point_of[number]] = EMPTY_CELL
    return [(y * board.width + x, colour) for x, y, colour in number_moves(numbered, colours)]


def _moves_inside(game: Game, ply: int, rectangle: Rectangle) -> list[tuple[int, int]]:
    """Return the moves from `ply` on, without passes, if all of them are in the rectangle, else none.

    With a rectangle of the whole board, the moves are not part of the pattern.
    """
    if rectangle == (0, game.width - 1, 0, game.height - 1):
        return []
    left, right, top, bottom = rectangle
    moves = []
    for word in game.moves[ply:].tolist():
        point = word & POINT_MASK
        y, x = divmod(point, game.width)
        if left <= x <= right and top <= y <= bottom:
            moves.append((point, WHITE if word & WHITE_BIT else BLACK))
        elif point != game.width * game.height:
            return []
    game.board()  # raises GameError for illegal moves
    return moves
