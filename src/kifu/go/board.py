"""A validated, printable board. For bulk work use `kifu.go.replay`."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kifu.errors import DropReason, GameError, IllegalMove
from kifu.go import rules as rl
from kifu.go.replay import GameMoves, replay_to
from kifu.go.rules import RECORD_RULES, History, Rules, legal_mask, new_history
from kifu.go.state import EMPTY, KO_POINT, LAST_POINT, State, new_state, rebuild_chains
from kifu.kernel import kernel
from kifu.point import BLACK, POINT_MASK, WHITE, WHITE_BIT, parse_gtp, star_points, to_gtp
from kifu.viz.boards import draw_board, notebook_svg

Move: TypeAlias = "int | np.integer[Any] | str"
"""A point or pass as in `kifu.point`, or its GTP name such as "D4"."""

SYMBOLS = ".XO"
STAR = "+"


@kernel
def _move(s: State, history: History, p: int, c: int, ko: int, suicide: int, captures: npt.NDArray[np.int64]) -> Any:
    why = rl.make_move(s, history, p, np.uint8(c), ko, suicide)
    if why == 0 and p < s.neighbours.shape[0]:
        rl.count_captures(s, p, c, captures)
    return why


@kernel
def _clear_history(history: History) -> None:
    rl.clear_history(history)


class Board:
    """A position, the player to move, and what the rules need of the game before it.

    Points and moves are ints (row-major from the upper left, see `kifu.point`) or GTP names; colours are BLACK, WHITE.

    Examples:
        >>> board = Board(5)
        >>> for move in ["C3", "B3", "D3", "C4"]:
        ...     board.play(move)
        >>> print(board)
           A B C D E
         5 . . . . .
         4 . .(O). .
         3 . O X X .
         2 . . . . .
         1 . . . . .
        >>> board.liberties[2].tolist()
        [0, 3, 4, 4, 0]
        >>> board.play("C3")
        Traceback (most recent call last):
        kifu.errors.IllegalMove: move 5 (point 12) is illegal: a move on an occupied point

    Two boards are equal if they have the same size, rules, stones, player to move and ko.

    Attributes:
        to_play: BLACK or WHITE; may be set.
    """

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __init__(self, width: int = 19, height: int | None = None, *, rules: Rules = RECORD_RULES) -> None:
        """Make an empty board of 1..25 columns and rows, by default square. Raises GameError for other sizes."""
        self.width, self.height = width, width if height is None else height
        self.rules = rules
        self.to_play = BLACK
        self.ply = 0
        self._state = new_state(self.width, self.height)
        self._history = new_history(0)
        self._captures = np.zeros(2, np.int64)

    @classmethod
    def parse(cls, diagram: str, *, to_play: int = BLACK, rules: Rules = RECORD_RULES) -> Board:
        r"""Return the position of a diagram.

        Args:
            diagram: Rows of X (Black), O (White), . or + (empty); (X) or (O) is the last stone played. Coordinates as
                in `str(board)` are allowed on the left, above and below.

        Raises:
            GameError: The text is not a diagram, or a chain has no liberties.

        Examples:
            >>> Board.parse(". X O\nX O .\n. . .").liberties.tolist()
            [[0, 1, 1], [2, 2, 0], [0, 0, 0]]
        """
        rows: list[str] = []
        last = -1
        for line in diagram.splitlines():
            cells = re.sub(r"^\s*\d+|\s", "", line)
            if not cells or "A" in cells:  # a line of column letters
                continue
            if "(" in cells:
                last = len("".join(rows)) + cells.index("(")
                cells = re.sub(r"\(([XO])\)", r"\1", cells, count=1)
            if set(cells) - set("XO.+") or (rows and len(cells) != len(rows[0])):
                raise GameError(f"{line!r} is not a row of a board: rows of X, O, . and + of equal length are allowed")
            rows.append(cells)
        board = cls(len(rows[0]) if rows else 0, len(rows), rules=rules)
        cells = "".join(rows)
        board.setup(*([p for p, cell in enumerate(cells) if cell == symbol] for symbol in "XO"))
        board._state.scalars[LAST_POINT] = last
        board.to_play = to_play
        return board

    @classmethod
    def after(
        cls,
        width: int,
        height: int,
        moves: npt.NDArray[np.uint16],
        setup: npt.NDArray[np.uint16],
        setup_ply: npt.NDArray[np.uint16],
        ply: int,
        *,
        rules: Rules = RECORD_RULES,
    ) -> Board:
        """Return the position before move `ply` of a game.

        The player of the next move is to play; in the final position, the opponent of the last mover.

        Args:
            moves: [T] uint16, see `kifu.records.games.GameArrays`; likewise the setup.
            setup: [S] uint16.
            setup_ply: [S] uint16.
            ply: 0 to T; T is the final position.

        Raises:
            IllegalMove: An earlier move or setup stone is not possible.
            GameError: The size is not in 1..25, or setup and setup_ply differ in length.
            IndexError: Ply is out of range.
        """
        board = cls(width, height, rules=rules)
        board._history = new_history(min(max(ply, 0), len(moves)))
        replay_to(board._state, board._history, board._captures, GameMoves(moves, setup, setup_ply), ply, rules)
        board.ply = ply
        if ply < len(moves):
            board.to_play = WHITE if moves[ply] >> 15 else BLACK
        elif ply:
            board.to_play = BLACK if moves[ply - 1] >> 15 else WHITE
        return board

    @property
    def pass_move(self) -> int:
        """The number of a pass."""
        return self.width * self.height

    @property
    def stones(self) -> npt.NDArray[np.uint8]:
        """A copy of the position: [height, width] uint8 of EMPTY, BLACK, WHITE."""
        return self._state.colour[:-1].reshape(self.height, self.width).copy()

    @property
    def liberties(self) -> npt.NDArray[np.int16]:
        """The number of liberties of each stone's chain: [height, width] int16, 0 for empty points."""
        chain = self._state.chain_id[:-1]
        counts = np.where(self._state.colour[:-1] == EMPTY, np.int16(0), self._state.n_liberties[chain])
        return counts.reshape(self.height, self.width)

    @property
    def captures(self) -> dict[int, int]:
        """The number of stones captured by each colour; stones lost by suicide count for the opponent."""
        return {BLACK: int(self._captures[0]), WHITE: int(self._captures[1])}

    @property
    def ko(self) -> int | None:
        """The point where simple ko forbids the player to move to recapture, or None."""
        point = int(self._state.scalars[KO_POINT])
        banned = point >= 0 and self.rules.ko != "none" and self._state.colour[self._last] != self.to_play
        return point if banned else None

    @property
    def _last(self) -> int:
        return int(self._state.scalars[LAST_POINT])

    @property
    def hash(self) -> int:
        """The 64-bit Zobrist hash of the stones; it is always the same for a position and board size."""
        return int(self._state.hash[0])

    def legal(self, colour: int | None = None) -> npt.NDArray[np.bool_]:
        """Return the legal moves of a colour, by default the player to move: [n + 1] bool, the last one for a pass."""
        out = np.empty(self.pass_move + 1, np.bool_)
        legal_mask(self._state, self._history, self._colour(colour), *self.rules.codes, out)
        return out

    def is_legal(self, move: Move, colour: int | None = None) -> bool:
        """Return whether a move, as in `play`, is legal for a colour, by default the player to move.

        Raises GameError if it is neither a point of the board nor a pass.
        """
        number, colour = self._read(move, colour)
        return bool(self.legal(colour)[self._point(number)])

    def play(self, move: Move, colour: int | None = None) -> None:
        """Play a move for a colour, by default the player to move; then it is the opponent's turn.

        Args:
            move: A point (y * width + x), `pass_move`, a GTP name such as "D4", or an element of `Game.moves`, a NumPy
                uint16, which includes its colour.
            colour: BLACK or WHITE; None for the colour of an element of `Game.moves`, else for the player to move.

        Raises:
            IllegalMove: The move is illegal; the board is unchanged.
            GameError: The move is neither a number nor a GTP name, or the colour not BLACK or WHITE.
        """
        point, c = self._read(move, colour)
        if not 0 <= point <= self.pass_move:
            raise IllegalMove(self.ply, point, DropReason.OFF_BOARD)
        if self.rules.codes[0] >= rl.KO_POSITIONAL and 2 * self.ply + 2 > len(self._history.slots):
            self._history = rl.enlarged(self._history)
        why = _move(self._state, self._history, point, c, *self.rules.codes, self._captures)
        if why:
            raise IllegalMove(self.ply, point, DropReason(why))
        self.ply += 1
        self.to_play = BLACK + WHITE - c

    def pass_(self) -> None:
        """Pass."""
        self.play(self.pass_move)

    def setup(self, black: Iterable[Move] = (), white: Iterable[Move] = (), empty: Iterable[Move] = ()) -> None:
        """Edit the position: place stones and empty points. Nothing is captured, and ko and superko start anew.

        Raises:
            GameError: A point is not on the board, or a chain would have no liberties; the board is unchanged.
        """
        before = self._state.colour.copy()
        after = before.copy()
        for colour, moves in ((BLACK, black), (WHITE, white), (EMPTY, empty)):
            for move in moves:
                point = self._point(move)
                if point == self.pass_move:
                    raise GameError("a pass cannot be set up")
                after[point] = colour
        self._state.colour[:] = after
        rebuild_chains(self._state)
        dead = np.flatnonzero((after[:-1] != EMPTY) & (self.liberties.ravel() == 0))
        if dead.size:
            self._state.colour[:] = before
            rebuild_chains(self._state)
            raise GameError(f"the stone set up on {to_gtp(int(dead[0]), self.width, self.height)} has no liberties")
        _clear_history(self._history)

    def area_score(self) -> int:
        r"""Return Black's area minus White's by the Tromp-Taylor rules, all stones being alive.

        Examples:
            >>> Board.parse(". X .\n. X O\n. X O").area_score()
            4
        """
        stones = self.stones
        score = int(np.sum(stones == BLACK)) - int(np.sum(stones == WHITE))
        for region, owners in self.empty_regions():
            score += len(region) if owners == {BLACK} else -len(region) if owners == {WHITE} else 0
        return score

    def empty_regions(self) -> list[tuple[list[int], set[int]]]:
        r"""Return the regions of connected empty points, each with the colours of the stones that it touches.

        Examples:
            >>> Board.parse(". X .\n. X O\n. X O").empty_regions()
            [([0, 3, 6], {1}), ([2], {1, 2})]
        """
        colour, neighbours = self._state.colour, self._state.neighbours
        seen = colour[:-1] != EMPTY
        regions = []
        for start in np.flatnonzero(~seen).tolist():
            if seen[start]:
                continue
            region, borders, at = [start], set(), 0
            seen[start] = True
            while at < len(region):
                for q in neighbours[region[at]].tolist():
                    if q < self.pass_move and not seen[q]:
                        seen[q] = True
                        region.append(q)
                    borders.add(int(colour[q]))
                at += 1
            regions.append((region, borders & {BLACK, WHITE}))
        return regions

    def chains(self) -> list[list[int]]:
        r"""Return the points of each chain, ordered by first point.

        Examples:
            >>> Board.parse(". X .\n. X O\n. X O").chains()
            [[1, 4, 7], [5, 8]]
        """
        chains: dict[int, list[int]] = {}
        for point in np.flatnonzero(self._state.colour[:-1] != EMPTY).tolist():
            chains.setdefault(int(self._state.chain_id[point]), []).append(point)
        return list(chains.values())

    def copy(self) -> Board:
        """Return an independent copy."""
        other = Board(self.width, self.height, rules=self.rules)
        for mine, its in zip(self._state, other._state):
            if isinstance(its, np.ndarray) and its.flags.writeable:
                its[...] = mine
        other._history = History._make(array.copy() for array in self._history)
        other._captures[:] = self._captures
        other.to_play, other.ply = self.to_play, self.ply
        return other

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Board):
            return NotImplemented
        mine, its = ((b.width, b.height, b.rules, b.to_play, b.ko) for b in (self, other))
        return mine == its and np.array_equal(self._state.colour, other._state.colour)

    def __str__(self) -> str:
        """Return a diagram with GTP coordinates and the last stone in brackets, which `parse` reads."""
        stars = set(star_points(self.width, self.height))
        names = [to_gtp(x, self.width, self.height)[0] for x in range(self.width)]
        lines = ["   " + " ".join(names)]
        for y in range(self.height):
            line = f"{self.height - y:2d}"
            for p in range(y * self.width, (y + 1) * self.width):
                symbol = SYMBOLS[self._state.colour[p]]
                line += ")" if self._last == p - 1 >= y * self.width else "(" if p == self._last else " "
                line += STAR if symbol == "." and p in stars else symbol
            lines.append(line + (")" if self._last == (y + 1) * self.width - 1 else ""))
        return "\n".join(lines)

    def __repr__(self) -> str:
        player = "Black" if self.to_play == BLACK else "White"
        return f"<Board {self.width} x {self.height}, ply {self.ply}, {player} to play>"

    def _repr_svg_(self) -> str | None:
        last = self._last if self._last >= 0 else None
        return notebook_svg(lambda: draw_board(self.stones, last=last))

    def _colour(self, colour: int | None) -> int:
        colour = self.to_play if colour is None else colour
        if colour not in (BLACK, WHITE):
            raise GameError(f"colour must be {BLACK} (Black) or {WHITE} (White), got {colour!r}")
        return int(colour)

    def _read(self, move: Move, colour: int | None = None) -> tuple[int, int]:
        """Return the number, of any value, and the colour of a move as in `play`."""
        if isinstance(move, np.uint16) and colour is None:
            move, colour = move & POINT_MASK, WHITE if move & WHITE_BIT else BLACK
        if isinstance(move, str):
            return parse_gtp(move, self.width, self.height), self._colour(colour)
        try:
            return operator.index(move), self._colour(colour)
        except TypeError:
            raise GameError(f"a move must be an integer or a GTP name such as 'D4', got {move!r:.80}") from None

    def _point(self, move: Move) -> int:
        point, _ = self._read(move, BLACK)
        if not 0 <= point <= self.pass_move:
            raise GameError(f"move {point} is not within 0 to {self.pass_move}")
        return point


__all__ = ["BLACK", "EMPTY", "WHITE", "Board", "Move"]
