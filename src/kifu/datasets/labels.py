"""What a network may learn to tell of a position: computed for many positions at once from rows of the catalogue."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kifu.corpus.schema import map_distinct, to_numpy
from kifu.datasets.examples import LabelSpec
from kifu.errors import RecipeError
from kifu.go.replay import (
    GamesLike,
    ReplayArrays,
    game_moves,
    ignore_move,
    ignore_setup,
    replay_arrays,
    replay_game,
)
from kifu.go.rules import RECORD_RULES, History, new_history
from kifu.go.state import State, new_state
from kifu.kernel import kernel
from kifu.planes.encoder import RATING_COLUMNS
from kifu.planes.registry import KATAGO22
from kifu.point import POINT_MASK, WHITE_BIT
from kifu.registry import nearest

UNKNOWN = -128
"""What an int8 label says where nothing is known: far from any value, so that nobody takes it for one."""

NO_MOVE = -1
"""What a label of moves says after the last move of a game."""

MOST_NEXT = 50

DRAWN = ("move", "globals")
"""Labels that the encoder tells as it draws the planes."""

_COLUMNS = {"result": ("winner",), "komi": ("komi",), "ranks": RATING_COLUMNS, "ownership": ("territory",)}

LABEL_COLUMNS = tuple(chain.from_iterable(_COLUMNS.values()))
"""What labels need of the catalogue, beside the games themselves."""


def label_columns(labels: Iterable[LabelSpec]) -> tuple[str, ...]:
    """Those of LABEL_COLUMNS that these labels need."""
    return tuple(chain.from_iterable(_COLUMNS.get(label.name, ()) for label in labels))


class LabelPositions(NamedTuple):
    """Positions of some games, and where their labels are looked up.

    batch: rows of the catalogue with the `label_columns` at least; games: the same rows. game: [B] int64, the row that
    each position is of; ply: [B] int32. width, height: of the board that labels are points of; a smaller one lies in
    its upper left corner.
    """

    batch: pa.RecordBatch
    games: GamesLike
    game: npt.NDArray[np.int64]
    ply: npt.NDArray[np.int32]
    width: int
    height: int

    @property
    def words(self) -> npt.NDArray[np.uint16]:
        """[B] the move that is played next, with its colour."""
        words: npt.NDArray[np.uint16] = self.games.moves[self.games.move_offset[self.game] + self.ply]
        return words

    @property
    def white(self) -> npt.NDArray[np.bool_]:
        """[B] whether White plays it."""
        white: npt.NDArray[np.bool_] = (self.words & WHITE_BIT) != 0
        return white

    def column(self, name: str) -> npt.NDArray[np.float32]:
        """[G] a column of numbers; NaN where it is null."""
        values: npt.NDArray[np.float32] = to_numpy(pc.fill_null(self.batch[name], float("nan")))
        return values


def _next(at: LabelPositions, shape: tuple[int, ...]) -> npt.NDArray[np.int16]:
    """[B, k] the next k moves."""
    first, stop = at.games.move_offset[at.game] + at.ply, at.games.move_offset[at.game + 1]
    index = first[:, None] + np.arange(shape[0])
    words = at.games.moves[np.minimum(index, len(at.games.moves) - 1)]
    width, height = (size[at.game, None].astype(np.int64) for size in (at.games.width, at.games.height))
    point = (words & POINT_MASK).astype(np.int64)
    y, x = np.divmod(point, width)
    placed = np.where(point == width * height, at.width * at.height, y * at.width + x)
    return np.where(index < stop[:, None], placed, NO_MOVE).astype(np.int16)


def _result(at: LabelPositions, shape: tuple[int, ...]) -> npt.NDArray[np.int8]:
    of_black = map_distinct(
        at.batch["winner"], lambda w: {"black": 1, "white": -1, "draw": 0}.get(w or "", UNKNOWN), np.int8
    )
    result = of_black[at.game]
    return np.where(at.white & (result != UNKNOWN), -result, result).astype(np.int8)


def _ranks(at: LabelPositions, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    both = np.stack([at.column("black_rating"), at.column("white_rating")], 1)[at.game]
    return np.where(at.white[:, None], both[:, ::-1], both)


def _komi(at: LabelPositions, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    return at.column("komi")[at.game]


def _ownership(at: LabelPositions, shape: tuple[int, ...]) -> npt.NDArray[np.int8]:
    """[B, points] from the final board, dead stones and empty points by the territory that the record tells."""
    rows = np.flatnonzero(at.batch["territory"].is_valid().to_numpy(zero_copy_only=False))
    rows = np.intersect1d(rows, at.game)
    owner = np.full((len(at.batch), at.width * at.height), UNKNOWN, np.int8)
    sizes = at.games.width.astype(np.int64) << 8 | at.games.height
    for size in np.unique(sizes[rows]).tolist():
        width, height = size >> 8, size & 0xFF
        some = rows[sizes[rows] == size]
        final = np.zeros((len(some), width * height), np.int8)
        _final_stones(
            new_state(width, height), new_history(0), replay_arrays(at.games), some, RECORD_RULES.codes, final
        )
        territory = at.batch["territory"].take(pa.array(some))
        of = np.repeat(np.arange(len(some)), pc.list_value_length(territory).to_numpy())
        words = territory.flatten().to_numpy()
        points = words & POINT_MASK
        on_board = points < width * height
        final[of[on_board], points[on_board]] = np.where(words & WHITE_BIT, -1, 1)[on_board]
        framed = np.full((len(some), at.height, at.width), UNKNOWN, np.int8)
        framed[:, :height, :width] = final.reshape(-1, height, width)
        owner[some] = framed.reshape(len(some), -1)
    owned = owner[at.game]
    return np.where(at.white[:, None] & (owned != UNKNOWN), -owned, owned).astype(np.int8)


@kernel
def _final_stones(s: State, history: History, games: ReplayArrays, game_index: Any, rules: Any, out: Any) -> None:
    """Fill out [len(game_index), n] int8 with the final position of games of the size of s.

    1 is a black stone, -1 a white one, 0 an empty point. A game that cannot be played to its end gives the position
    before the first impossible move.
    """
    for i in range(game_index.shape[0]):
        game = game_moves(games, game_index[i])
        replay_game(s, history, game, game.moves.shape[0], rules, ignore_setup, ignore_move, ignore_move, 0)
        for p in range(out.shape[1]):
            out[i, p] = 1 if s.colour[p] == 1 else -1 if s.colour[p] == 2 else 0


_FILLS: dict[str, Callable[[LabelPositions, tuple[int, ...]], npt.NDArray[Any]]] = {
    "next": _next,
    "result": _result,
    "ownership": _ownership,
    "ranks": _ranks,
    "komi": _komi,
}

LABELS = {
    "move": "the point of the next move; a pass is width * height",
    "next<k>": f"the points of the next k moves (2 to {MOST_NEXT}), from the next one on; {NO_MOVE} after the last",
    "result": f"1 if the side to move wins the game, -1 if it loses, 0 for a draw, {UNKNOWN} if that is not known",
    "ownership": "of each point at the end: 1 if it is the mover's, -1 the opponent's, 0 nobody's; "
    f"{UNKNOWN} where the record tells no territory",
    "ranks": "ratings of the mover and of the opponent: 30 kyu 2, 1 kyu 31, 1 dan 32, 9 dan 40; NaN unknown",
    "komi": "as the record has it; NaN unknown",
    "globals": f"what KataGo's nets are given beside the planes of {KATAGO22.name}, see its card",
    "ply": "how many moves, passes too, come before the position",
}
"""What each label says."""


def find_label(name: str, width: int, height: int) -> LabelSpec:
    """The label of that name, for boards of that size. Raises RecipeError that names the nearest right word."""
    if name.startswith("next") and name[4:].isdecimal():
        if 2 <= int(name[4:]) <= MOST_NEXT and name[4:] == str(int(name[4:])):
            return LabelSpec(name, "int16", (int(name[4:]),), LABELS["next<k>"])
        raise RecipeError(f"label {name!r}: after next stands a number from 2 to {MOST_NEXT}")
    known = (
        LabelSpec("move", "int16", (), LABELS["move"]),
        LabelSpec("result", "int8", (), LABELS["result"]),
        LabelSpec("ownership", "int8", (width * height,), LABELS["ownership"]),
        LabelSpec("ranks", "float32", (2,), LABELS["ranks"]),
        LabelSpec("komi", "float32", (), LABELS["komi"]),
        LabelSpec("globals", "float32", (len(KATAGO22.inputs),), LABELS["globals"]),
    )
    for label in known:
        if label.name == name:
            return label
    raise RecipeError(f"no label {name!r}; did you mean {nearest(name, LABELS)!r}?")


def label_values(specs: Sequence[LabelSpec], at: LabelPositions) -> dict[str, npt.NDArray[Any]]:
    """The labels of some positions by name, [B, ...], but for those that are `DRAWN`."""
    return {
        spec.name: _FILLS["next" if spec.name.startswith("next") else spec.name](at, spec.shape)
        for spec in specs
        if spec.name not in DRAWN
    }
