"""Positions to explore, as users write them: moves, a ply of a game, a diagram, or a record."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kifu.errors import GameError, IllegalMove, RecipeError, SourceError, printable
from kifu.files import read_small
from kifu.go.board import Board
from kifu.go.replay import GamesLike
from kifu.point import BLACK, WHITE, parse_gtp, parse_sgf
from kifu.records.game import read_sgf
from kifu.registry import unknown
from kifu.search.notation import CELL_OF, read_colour, read_diagram
from kifu.search.pattern import BLACK_CELL, EMPTY_CELL, WHITE_CELL, Pattern

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
        """Return the pattern of the whole board.

        Args:
            both_colours: Also find the position with Black and White exchanged.
        """
        return Pattern(self.width, self.height, self.cells(), "board", both_colours)

    def cells(self) -> tuple[int, ...]:
        """Return the contents of the points as cells of a pattern."""
        return tuple(_CELLS[self.stones].tolist())


class GamePly(NamedTuple):
    """A position of a game in a catalogue.

    Attributes:
        row: The row of the game in the catalogue, from 0.
        ply: The number of moves played before the position.
    """

    row: int
    ply: int


def parse_position(text: str | os.PathLike[str], width: int = 19, height: int | None = None) -> Position | GamePly:
    """Return the position that a text describes.

    Args:
        text: Moves from the empty board ("Q16 D4 R4" or "pd dp qp"; passes and colours are allowed), a ply of a game
            ("1234@57": game 1234 of the catalogue, from 1, after 57 moves), the diagram of a whole board, or the path
            of a record ("game.sgf", its final position, or "game.sgf@57"). A path object may also be a file with any of
            these.
        width: Columns of the board for moves.
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
        return GamePly(int(match[1]) - 1, int(match[2]))
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

    Args:
        ply: The number of moves before it; None for the final position.

    Raises:
        RecordError: There is no game.
        GameError: The game is dropped, has an illegal move, or has fewer moves.
    """
    game = read_sgf(data)
    if ply is not None and ply > len(game):
        raise GameError(f"ply must be within 0 to {len(game)}, got {ply}")
    return board_position(game.board(ply))


def game_position(games: GamesLike, g: int, ply: int) -> Position:
    """Return the position before move `ply` of game g.

    Raises:
        GameError: The game has fewer moves, or an illegal one before this position.
    """
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
    """Play moves on an empty board.

    Args:
        text: GTP vertices, SGF points or "pass". A colour before a move is that of its player; otherwise they
            alternate, beginning with Black.
        height: Rows; as many as columns by default.

    Returns:
        (final position, (point, colour) of the moves without passes).

    Raises:
        RecipeError: A word is not a move, or a move is illegal.
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
            point = _parse_move(word, width, height)
            board.play(point)
        except IllegalMove as error:
            raise RecipeError(f"move {board.ply + 1}, {word}, is illegal: {error.reason.reason}") from None
        except GameError as error:
            raise RecipeError(f"move {board.ply + 1}: {error}") from None
        if point < board.pass_move:
            moves.append((point, colour))
    return board, moves


def _parse_move(word: str, width: int, height: int) -> int:
    if word.lower() == "pass" or not word.isalpha():
        return parse_gtp(word, width, height)
    return parse_sgf(word, width, height)


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
