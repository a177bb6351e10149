"""A board for people: checked, printable, and as slow as one call a move is. Many games at once: `kifu.go.replay`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kifu.errors import DropReason, GameError, IllegalMove
from kifu.go import rules as rl
from kifu.go.replay import replay_to
from kifu.go.rules import RECORD_RULES, History, Rules, legal_mask, new_history
from kifu.go.state import EMPTY, KO_POINT, LAST_POINT, State, new_state, rebuild_chains
from kifu.kernel import kernel
from kifu.point import BLACK, WHITE, parse_gtp, to_gtp

Move: TypeAlias = "int | str"
"""A point or a pass as `kifu.point` counts them, or its GTP name such as "D4"."""

SYMBOLS = ".XO"
STAR = "+"


@kernel
def _move(s: State, history: History, p: int, c: int, ko: int, suicide: int, captures: npt.NDArray[np.int64]) -> Any:
    why = rl.make_move(s, history, p, np.uint8(c), ko, suicide)
    if why == 0 and p < s.neighbours.shape[0]:
        rl.count_captures(s, p, c, captures)
    return why


@kernel
def _forget(history: History) -> None:
    rl.clear_history(history)


def star_points(width: int, height: int) -> tuple[int, ...]:
    """The points that are marked on a board: corners (from 7 lines on), the middle, and the sides (from 15 lines on).

    >>> [to_gtp(point, 9) for point in star_points(9, 9)]
    ['C7', 'G7', 'E5', 'C3', 'G3']
    """

    def lines(size: int) -> tuple[list[int], list[int]]:
        edge = 2 if size < 13 else 3
        return [edge, size - 1 - edge] if size >= 7 else [], [size // 2] if size % 2 and size >= 5 else []

    (corner_x, middle_x), (corner_y, middle_y) = lines(width), lines(height)
    stars = {(x, y) for x in corner_x for y in corner_y} | {(x, y) for x in middle_x for y in middle_y}
    if width >= 15:
        stars |= {(x, y) for x in middle_x for y in corner_y}
    if height >= 15:
        stars |= {(x, y) for x in corner_x for y in middle_y}
    return tuple(sorted(y * width + x for x, y in stars))


class Board:
    """A position, who is to move, and what the rules need to know of the game before it.

    Points and moves are ints (row-major from the upper left, see `kifu.point`) or GTP names; colours are BLACK, WHITE.

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

    to_play: the player whose turn it is; may be set.  ply: how many moves, passes too, were played.
    rules: see `Rules`.  Two boards are equal if they have the same size, rules, stones, player to move and ko.
    """

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __init__(self, width: int = 19, height: int | None = None, *, rules: Rules = RECORD_RULES) -> None:
        """An empty board, square if no height is given. Raises GameError unless both are within 1 to 25."""
        self.width, self.height = width, width if height is None else height
        self.rules = rules
        self.to_play = BLACK
        self.ply = 0
        self._state = new_state(self.width, self.height)
        self._history = new_history(0)
        self._captures = np.zeros(2, np.int64)

    @classmethod
    def parse(cls, diagram: str, *, to_play: int = BLACK, rules: Rules = RECORD_RULES) -> Board:
        """The position that a diagram shows: X Black, O White, . or + empty, (X) or (O) the stone played last.

        Coordinates, as `str(board)` writes them, may stand on the left and above or below. Raises GameError.

        >>> Board.parse(". X O\\nX O .\\n. . .").liberties.tolist()
        [[0, 1, 1], [2, 2, 0], [0, 0, 0]]
        """
        rows: list[str] = []
        last = -1
        for line in diagram.splitlines():
            cells = re.sub(r"^\s*\d+|\s", "", line)
            if not cells or "A" in cells:  # the letters of the columns
                continue
            if "(" in cells:
                last = len("".join(rows)) + cells.index("(")
                cells = re.sub(r"\(([XO])\)", r"\1", cells, count=1)
            if set(cells) - set("XO.+") or (rows and len(cells) != len(rows[0])):
                raise GameError(f"{line!r} is no row of a board: X, O, . and + in rows of one length are allowed")
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
        """The position before move `ply` of one game, given as `kifu.records.games.Games` has it.

        ply: 0 to len(moves), where the last is the final position. Raises IllegalMove if a move or setup stone before
        it is not possible. The player of the next move is to play; after the last one, who did not play it.
        """
        board = cls(width, height, rules=rules)
        board._history = new_history(ply)
        replay_to(board._state, board._history, board._captures, moves, setup, setup_ply, ply, rules)
        board.ply = ply
        if ply < len(moves):
            board.to_play = WHITE if moves[ply] >> 15 else BLACK
        elif ply:
            board.to_play = BLACK if moves[ply - 1] >> 15 else WHITE
        return board

    @property
    def pass_move(self) -> int:
        """The int that stands for a pass."""
        return self.width * self.height

    @property
    def stones(self) -> npt.NDArray[np.uint8]:
        """[height, width] uint8 of EMPTY, BLACK, WHITE; a copy."""
        return self._state.colour[:-1].reshape(self.height, self.width).copy()

    @property
    def liberties(self) -> npt.NDArray[np.int16]:
        """[height, width] int16: the number of liberties of the chain that each stone belongs to; 0 where empty."""
        chain = self._state.chain_id[:-1]
        counts = np.where(self._state.colour[:-1] == EMPTY, np.int16(0), self._state.n_liberties[chain])
        return counts.reshape(self.height, self.width)

    @property
    def captures(self) -> dict[int, int]:
        """How many stones each player has taken, by colour of the player; a suicide's stones are the opponent's."""
        return {BLACK: int(self._captures[0]), WHITE: int(self._captures[1])}

    @property
    def ko(self) -> int | None:
        """The point where the player to move may not retake a ko at once, or None."""
        point = int(self._state.scalars[KO_POINT])
        banned = point >= 0 and self.rules.ko != "none" and self._state.colour[self._last] != self.to_play
        return point if banned else None

    @property
    def _last(self) -> int:
        return int(self._state.scalars[LAST_POINT])

    @property
    def hash(self) -> int:
        """The stones' 64-bit Zobrist hash: always the same for the same stones on a board of the same size."""
        return int(self._state.hash[0])

    def legal(self, colour: int | None = None) -> npt.NDArray[np.bool_]:
        """[n + 1] bool: which moves are legal for the player of that colour, by default the one to play."""
        out = np.empty(self.pass_move + 1, np.bool_)
        legal_mask(self._state, self._history, self._colour(colour), *self.rules.codes, out)
        return out

    def is_legal(self, move: Move, colour: int | None = None) -> bool:
        """Whether that move is legal. Raises GameError if it is not even a point of the board."""
        return bool(self.legal(colour)[self._point(move)])

    def play(self, move: Move, colour: int | None = None) -> None:
        """Plays a move, by default of the player to play; then it is the other one's turn.

        Raises IllegalMove, and then nothing has changed; GameError if the move is no GTP name, or the colour none.
        """
        c = self._colour(colour)
        point = self._point(move) if isinstance(move, str) else int(move)
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
        """Plays a pass."""
        self.play(self.pass_move)

    def setup(self, black: Iterable[Move] = (), white: Iterable[Move] = (), empty: Iterable[Move] = ()) -> None:
        """Puts stones on points, whatever was there, and takes others off. It is no move: nothing is captured.

        What was before is forgotten by ko and superko. Raises GameError, and then nothing has changed, if a point is
        not on the board or a chain would have no liberties.
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
        _forget(self._history)

    def area_score(self) -> int:
        """Black's stones and the empty points that reach only them, less White's: Tromp-Taylor, no stone is dead.

        >>> Board.parse(". X .\\n. X O\\n. X O").area_score()
        4
        """
        stones = self.stones
        score = int(np.sum(stones == BLACK)) - int(np.sum(stones == WHITE))
        for region, owners in self.empty_regions():
            score += len(region) if owners == {BLACK} else -len(region) if owners == {WHITE} else 0
        return score

    def empty_regions(self) -> list[tuple[list[int], set[int]]]:
        """The connected empty points, region by region, each with the colours of the stones that it touches.

        >>> Board.parse(". X .\\n. X O\\n. X O").empty_regions()
        [([0, 3, 6], {1}), ([2], {1, 2})]
        """
        colour, near = self._state.colour, self._state.neighbours
        seen = colour[:-1] != EMPTY
        regions = []
        for start in np.flatnonzero(~seen).tolist():
            if seen[start]:
                continue
            region, borders, at = [start], set(), 0
            seen[start] = True
            while at < len(region):
                for q in near[region[at]].tolist():
                    if q < self.pass_move and not seen[q]:
                        seen[q] = True
                        region.append(q)
                    borders.add(int(colour[q]))
                at += 1
            regions.append((region, borders & {BLACK, WHITE}))
        return regions

    def chains(self) -> list[list[int]]:
        """The points of each chain, in the order of their first points.

        >>> Board.parse(". X .\\n. X O\\n. X O").chains()
        [[1, 4, 7], [5, 8]]
        """
        chains: dict[int, list[int]] = {}
        for point in np.flatnonzero(self._state.colour[:-1] != EMPTY).tolist():
            chains.setdefault(int(self._state.chain_id[point]), []).append(point)
        return list(chains.values())

    def copy(self) -> Board:
        """A board that is played on without changing this one."""
        twin = Board(self.width, self.height, rules=self.rules)
        for mine, its in zip(self._state, twin._state):
            if isinstance(its, np.ndarray) and its.flags.writeable:
                its[...] = mine
        twin._history = History._make(array.copy() for array in self._history)
        twin._captures[:] = self._captures
        twin.to_play, twin.ply = self.to_play, self.ply
        return twin

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Board):
            return NotImplemented
        mine, its = ((b.width, b.height, b.rules, b.to_play, b.ko) for b in (self, other))
        return mine == its and np.array_equal(self._state.colour, other._state.colour)

    def __str__(self) -> str:
        """A diagram with GTP coordinates, the stone played last in brackets. `parse` reads it."""
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

    def _colour(self, colour: int | None) -> int:
        colour = self.to_play if colour is None else colour
        if colour not in (BLACK, WHITE):
            raise GameError(f"colour {colour!r} is neither {BLACK} (Black) nor {WHITE} (White)")
        return int(colour)

    def _point(self, move: Move) -> int:
        if isinstance(move, str):
            return parse_gtp(move, self.width, self.height)
        if not 0 <= move <= self.pass_move:
            raise GameError(f"move {move} is not within 0 to {self.pass_move}")
        return int(move)


__all__ = ["BLACK", "EMPTY", "WHITE", "Board", "Move", "star_points"]
