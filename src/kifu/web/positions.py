"""Positions as parameters, and the games in which they occur."""

from __future__ import annotations

import re
from typing import Annotated, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from kifu.arrays import Bools, MoveArrays
from kifu.errors import GameError, IllegalMove, RecipeError
from kifu.go.board import Board
from kifu.go.rules import RECORD_RULES, Rules
from kifu.point import BLACK, MAX_SIZE, POINT_MASK, WHITE, WHITE_BIT, parse_sgf
from kifu.records.game import Game, make_game
from kifu.search.position import board_position
from kifu.web.api import Deadline, Params
from kifu.web.site import Corpus, CorpusParams

MAX_MOVES = 2000
"""Longest line that is accepted from a client; longer games are shown up to there."""

_Words = Annotated[list[Annotated[int, Field(ge=0, le=0xFFFF)]], Field(max_length=MAX_MOVES)]


class Line(Params):
    """Setup stones and moves, from the empty board on. The client sends lines back as it got them, longer or shorter.

    Attributes:
        setup: Setup stones as point | WHITE_BIT, or | ERASE_BIT.
        moves: Moves as point | WHITE_BIT; a pass is width * height.
        to_play: BLACK or WHITE, who moves first; 0 if unknown.
    """

    width: int = Field(19, ge=1, le=MAX_SIZE)
    height: int = Field(19, ge=1, le=MAX_SIZE)
    setup: _Words = Field([])
    setup_ply: _Words = Field([])
    moves: _Words = Field([])
    to_play: int = Field(0, ge=0, le=2)

    @classmethod
    def of_game(cls, game: Game) -> Line:
        """Return the line of a game, up to `MAX_MOVES` moves and setup stones."""
        setup = slice(MAX_MOVES)
        return cls(
            width=game.width, height=game.height, setup=game.setup[setup].tolist(),
            setup_ply=game.setup_ply[setup].tolist(), moves=game.moves[:MAX_MOVES].tolist(), to_play=game.to_play,
        )  # fmt: skip

    @classmethod
    def of_arrays(cls, games: MoveArrays, ply: int) -> Line:
        """Return the line to a position of a single game. Raises GameError if the game has fewer moves."""
        if ply > len(games.moves):
            raise GameError(f"ply must be within 0 to {len(games.moves)}, got {ply}")
        setup = slice(min(int(np.searchsorted(games.setup_ply, ply, "right")), MAX_MOVES))
        return cls(
            width=int(games.width[0]), height=int(games.height[0]), setup=games.setup[setup].tolist(),
            setup_ply=games.setup_ply[setup].tolist(), moves=games.moves[:ply].tolist(), to_play=0,
        )  # fmt: skip

    def board(self, ply: int | None = None) -> Board:
        """Return the board after `ply` moves, by default after all.

        Raises GameError if there are fewer moves, or a move or setup stone is impossible.
        """
        if ply is not None and ply > len(self.moves):
            raise GameError(f"ply must be 0 to {len(self.moves)}, got {ply}")
        return Board.after(self.width, self.height, *self.arrays(), len(self.moves) if ply is None else ply)

    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return moves, setup and setup_ply as uint16 arrays. Raises GameError if a setup stone lacks its ply."""
        if len(self.setup) != len(self.setup_ply):
            raise GameError(f"setup_ply must have {len(self.setup)} elements as setup has, got {len(self.setup_ply)}")
        points = self.width * self.height
        for word in self.setup:
            if word & POINT_MASK >= points:
                raise GameError(f"setup stones must be on points below {points}, got {word & POINT_MASK}")
        return tuple(np.array(each, np.uint16) for each in (self.moves, self.setup, self.setup_ply))  # type: ignore[return-value]

    def to_game(self, handicap: int | None = None, **properties: str | None) -> Game:
        """Return the line as a game with HA and root properties, such as KM; None for unknown ones.

        Raises GameError if setup does not match.
        """
        moves, setup, setup_ply = self.arrays()
        placed = setup_ply <= len(moves)
        return make_game(
            self.width, self.height, moves, setup[placed], setup_ply[placed], to_play=self.to_play, handicap=handicap,
            **properties,
        )  # fmt: skip

    def to_json(self, rules: Rules = RECORD_RULES) -> dict[str, Any]:
        """Return the line with the changes on the board that each move makes.

        The value has the fields of the line; `start`, the stones before the first move; and `steps`, for each legal
        move, the points whose content changes: {"set": {point: colour}}, colour 0 for empty. Setup stones placed
        between moves belong to the step before them. `illegal` describes the first illegal move, if there is one;
        `moves` ends before it.
        """
        fields = self.model_dump()
        moves, setup, setup_ply = self.arrays()
        board = Board.after(self.width, self.height, moves, setup, setup_ply, 0, rules=rules)
        due = np.maximum.accumulate(setup_ply)
        stones = board.stones.ravel()
        steps: list[dict[int, int]] = []
        start, illegal = stones.tolist(), None
        for ply, word in enumerate(self.moves):
            try:
                board.play(word & POINT_MASK, WHITE if word & WHITE_BIT else 3 - WHITE)
            except GameError as error:
                why = error.reason.reason if isinstance(error, IllegalMove) else error
                illegal = f"move {ply + 1}: {why}"
                break
            if len(placed := setup[due == ply + 1]):
                board = _placed(board, placed)
            after = board.stones.ravel()
            changed = np.flatnonzero(after != stones)
            steps.append(dict(zip(changed.tolist(), after[changed].tolist())))
            stones = after
        return fields | {"moves": self.moves[: len(steps)], "start": start, "steps": steps, "illegal": illegal}


def _placed(board: Board, setup: np.ndarray) -> Board:
    """Return a board with more setup stones. Ko and superko start anew, as in `Board.after`."""
    stones = board.stones.ravel()
    points = np.flatnonzero(stones).astype(np.uint16)
    words = points | np.where(stones[points] == WHITE, WHITE_BIT, 0).astype(np.uint16)
    setup = np.concatenate([words, setup])
    placed = Board.after(
        board.width, board.height, np.empty(0, np.uint16), setup, np.zeros_like(setup), 0, rules=board.rules
    )
    placed.ply = board.ply
    return placed


_COLOURS = {"B": BLACK, "W": WHITE}

_MOVES = "([BW]?([a-y]{2}|--))*"


class PositionParams(CorpusParams):
    """A position. The filter's `board` is the size of the empty board that moves begin on, 19x19 without one.

    Attributes:
        moves: SGF points, or "--" for passes; "B" or "W" before one is its colour, otherwise they alternate.
        game: Row of the game that the moves continue; None for the empty board.
    """

    moves: Annotated[str, Field(max_length=3 * MAX_MOVES, pattern=f"^{_MOVES}$")] = ""
    game: Annotated[int, Field(ge=0, le=10**12)] | None = None
    ply: int = Field(0, ge=0, le=MAX_MOVES)


class PlayedParams(CorpusParams):
    """A choice of games, of those in which a position occurs.

    Attributes:
        position: "START.MOVES.NEXT", or "" for all games. START is the size of an empty board ("19x19"), or the row of
            a game and a ply of it ("12-57"). MOVES are as in `PositionParams`. NEXT is the move after the position,
            with its colour ("Wdd"), or "" for any.
    """

    position: Annotated[
        str,
        Field(
            max_length=3 * MAX_MOVES,
            pattern=rf"^$|^([0-9]{{1,2}}x[0-9]{{1,2}}|[0-9]{{1,12}}-[0-9]{{1,4}})\.{_MOVES}\.([BW][a-y]{{2}})?$",
        ),
    ] = ""


class Played(NamedTuple):
    """Games in which a position occurs: of each, ascending, the first occurrence, as in `kifu.search.results.HITS`."""

    line: Line
    games: pa.Table

    def plies(self) -> dict[int, int]:
        """Return the number of moves before the first occurrence, by row."""
        return dict(zip(self.games["row"].to_pylist(), self.games["ply"].to_pylist()))


def find_played(corpus: Corpus, params: PlayedParams, deadline: Deadline) -> Played | None:
    """Return the games in which the position of the parameters occurs, with the next move; None for all games.

    Raises GameError if a move is impossible; RecipeError if there is no such game.
    """
    if not params.position:
        return None
    start, moves, following = params.position.split(".")
    row, _, ply = start.partition("-")
    at = {"game": int(row), "ply": int(ply)} if ply else {"board": start}
    line = position_line(corpus, PositionParams.model_validate({"moves": moves} | at))
    games = first_occurrences(corpus, line, None, deadline)
    if following:
        y, x = divmod(parse_sgf(following[1:], line.width, line.height), line.width)
        wanted = {"next_x": x, "next_y": y, "next_colour": _COLOURS[following[0]]}
        chosen = pc.field("next_ply") == pc.field("ply")  # a later ply follows a pass
        for name, value in wanted.items():
            chosen &= pc.field(name) == value
        games = games.filter(chosen)
    return Played(line, games)


def first_occurrences(corpus: Corpus, line: Line, games: Bools | None, deadline: Deadline) -> pa.Table:
    """Return the first hit of the final position of a line in each of some games, by default of all."""
    pattern = board_position(line.board()).to_pattern(both_colours=False)
    hits = corpus.searcher.find(pattern, games, progress=deadline.progress).table
    return hits.take(np.flatnonzero(np.diff(hits["row"].to_numpy(), prepend=-1)))


def position_line(corpus: Corpus, params: PositionParams) -> Line:
    """Return the line to a position.

    Raises GameError if a move is impossible, or the game has fewer moves; RecipeError if there is no such game, or
    there are too many moves.
    """
    if params.game is None:
        width, height = map(int, (params.board or "19x19").split("x"))
        line = Line.model_validate({"width": width, "height": height})
    else:
        line = Line.of_arrays(corpus.searcher.moves(params.game), params.ply)
    colour, moves = line.board().to_play, list(line.moves)
    for letter, point in re.findall("([BW]?)([a-y]{2}|--)", params.moves):
        colour = _COLOURS.get(letter, colour)
        move = parse_sgf("" if point == "--" else point, line.width, line.height)
        moves.append(move | (WHITE_BIT if colour == WHITE else 0))
        colour = BLACK + WHITE - colour
    if len(moves) > MAX_MOVES:
        raise RecipeError(f"a line must have at most {MAX_MOVES:,} moves, got {len(moves):,}")
    return line.model_copy(update={"moves": moves})


def last_point(line: Line) -> int | None:
    """Return the point of the last move of a line; None without one, or after a pass."""
    point = line.moves[-1] & POINT_MASK if line.moves else line.width * line.height
    return point if point < line.width * line.height else None
