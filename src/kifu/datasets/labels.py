"""The labels of positions, computed for many at once from rows of the catalogue, and examples under symmetries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kifu.arrays import Array, Bools, Bytes, Floats, Indices
from kifu.corpus.schema import evaluations_array, map_distinct, move_seconds_array, to_numpy
from kifu.datasets.examples import UNKNOWN, LabelSpec, Layout, is_next
from kifu.datasets.global_inputs import CONDITION_COLUMNS, Conditions, check_inputs, encode_inputs, input_size
from kifu.datasets.mmap_games import OWNERS_COLUMN, TARGETS_COLUMN
from kifu.errors import RecipeError
from kifu.go.positions import Positions
from kifu.go.replay import ReplayArrays, game_moves, ignore_move, ignore_setup, replay_arrays, replay_game
from kifu.go.rules import RECORD_RULES, History, new_history
from kifu.go.state import State, new_state
from kifu.kernel import kernel
from kifu.planes.encoder import RATING_COLUMNS
from kifu.planes.registry import KATAGO22
from kifu.point import BLACK, POINT_MASK, WHITE, WHITE_BIT, symmetries
from kifu.registry import unknown

NO_MOVE = -1
"""Value of a label of moves after the last move of a game."""

MAX_NEXT = 50
"""Maximum k of the label next<k>."""

INPUTS_PREFIX = "inputs:"

ENCODED_LABELS = ("move", "globals")
"""Labels that encoders write together with the planes."""

MERGED_LABELS = ("policy", "count")
"""Labels of merged positions, which only loaders compute, see `kifu.datasets.merged`."""

OWNER_UNIT = 127
"""Ownership is stored in signed bytes, as multiples of 1 / 127."""

_COLUMNS = {
    "result": ("winner",), "margin": ("winner", "margin"), "komi": ("komi",), "ranks": RATING_COLUMNS,
    "lead": (TARGETS_COLUMN,), "owner": (TARGETS_COLUMN, OWNERS_COLUMN), "ownership": ("territory",),
    "seconds": ("move_seconds",), "evaluation": ("evaluations",),
}  # fmt: skip


def label_columns(labels: Iterable[LabelSpec]) -> tuple[str, ...]:
    """Return the columns of the catalogue that some labels need, besides the games themselves."""
    names = (label.name for label in labels)
    columns = (CONDITION_COLUMNS if name.startswith(INPUTS_PREFIX) else _COLUMNS.get(name, ()) for name in names)
    return tuple(chain.from_iterable(columns))


def inputs_label(names: Sequence[str]) -> str:
    """Return the label that holds some global inputs (`kifu.datasets.global_inputs.INPUTS`)."""
    return INPUTS_PREFIX + "+".join(names)


def _inputs_of(label: str) -> list[str]:
    return label.removeprefix(INPUTS_PREFIX).split("+")


Board = tuple[int, int]
"""Width and height of the board to which labels refer; smaller boards lie in its upper left corner."""


def _white(at: Positions) -> Bools:
    white: Bools = at.to_play == WHITE
    return white


def _column(rows: pa.RecordBatch, name: str) -> Floats:
    """Return a column of numbers, [G]; NaN for null."""
    return to_numpy(pc.fill_null(rows[name], float("nan")))


def _next(at: Positions, board: Board, k: int) -> npt.NDArray[np.int16]:
    """[B, k] the next k moves."""
    first, stop = at.games.move_offset[at.game] + at.ply, at.games.move_offset[at.game + 1]
    index = first[:, None] + np.arange(k)
    words = at.games.moves[np.minimum(index, len(at.games.moves) - 1)]
    width, height = (size[at.game, None].astype(np.int64) for size in (at.games.width, at.games.height))
    point = (words & POINT_MASK).astype(np.int64)
    y, x = np.divmod(point, width)
    placed = np.where(point == width * height, board[0] * board[1], y * board[0] + x)
    return np.where(index < stop[:, None], placed, NO_MOVE).astype(np.int16)


def _result(rows: pa.RecordBatch, at: Positions, board: Board) -> npt.NDArray[np.int8]:
    for_black = map_distinct(
        rows["winner"], lambda w: {"black": 1, "white": -1, "draw": 0}.get(w or "", UNKNOWN), np.int8
    )
    result = for_black[at.game]
    return np.where(_white(at) & (result != UNKNOWN), -result, result).astype(np.int8)


def _margin(rows: pa.RecordBatch, at: Positions, board: Board) -> Floats:
    result, points = _result(rows, at, board), _column(rows, "margin")[at.game]
    decided = np.where(result == UNKNOWN, np.float32(np.nan), result * points)
    return np.where(result == 0, np.float32(0), decided)


def _ranks(rows: pa.RecordBatch, at: Positions, board: Board) -> Floats:
    both = np.stack([_column(rows, "black_rating"), _column(rows, "white_rating")], 1)[at.game]
    return np.where(_white(at)[:, None], both[:, ::-1], both)


def _evaluation(rows: pa.RecordBatch, at: Positions, board: Board) -> Floats:
    """[B, 4] the mover's share of wins and of losses, the mover's lead, and the visits."""
    white = _of_next_moves(rows, at, "evaluations", evaluations_array)
    black = white[:, [1, 0, 2, 3]] * np.array([1, 1, -1, 1], np.float32)
    return np.where(_white(at)[:, None], white, black)


def _of_next_moves(rows: pa.RecordBatch, at: Positions, name: str, elements: Callable[[pa.Array], Floats]) -> Floats:
    """Return the elements of a column of lists that belong to the next moves, [B, ...]; NaN for null."""
    games, row = np.unique(at.game, return_inverse=True)
    column = rows[name].take(pa.array(games))
    values = elements(column)
    known = column.is_valid().to_numpy(zero_copy_only=False)[row]
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy()
    index = (np.cumsum(lengths) - lengths)[row] + at.ply
    found = np.full((len(row), *values.shape[1:]), np.nan, np.float32)
    found[known] = values[index[known]]
    return found


def _lead(rows: pa.RecordBatch, at: Positions, board: Board) -> Floats:
    """[B, 2] the lead and its standard deviation."""
    targets, index = _targets(rows, at)
    return np.stack([to_numpy(targets.field(name))[index] for name in ("lead", "lead_stdev")], 1)


def _owner(rows: pa.RecordBatch, at: Positions, board: Board) -> npt.NDArray[np.int8]:
    owners: npt.NDArray[np.int8] = to_numpy(rows[OWNERS_COLUMN].flatten()).reshape(-1, board[0] * board[1])
    return owners[_targets(rows, at)[1]]


def _targets(rows: pa.RecordBatch, at: Positions) -> tuple[pa.Array, Indices]:
    """Return the targets of all games, and [B] which of them are those of the positions; all have some."""
    lists = rows[TARGETS_COLUMN]
    targets, lengths = lists.flatten(), pc.list_value_length(lists).to_numpy().astype(np.int64)
    key = np.repeat(np.arange(len(lists)), lengths) << 32 | to_numpy(targets.field("ply"))
    return targets, np.searchsorted(key, at.game.astype(np.int64) << 32 | at.ply)


def _ownership(rows: pa.RecordBatch, at: Positions, board: Board) -> npt.NDArray[np.int8]:
    """[B, points] from the final board; the record's territory decides dead stones and empty points."""
    known = np.intersect1d(np.flatnonzero(rows["territory"].is_valid().to_numpy(zero_copy_only=False)), at.game)
    owner = np.full((len(rows), board[0] * board[1]), UNKNOWN, np.int8)
    sizes = at.games.width.astype(np.int64) << 8 | at.games.height
    for size in np.unique(sizes[known]).tolist():
        width, height = size >> 8, size & 0xFF
        same_size = known[sizes[known] == size]
        final = np.zeros((len(same_size), width * height), np.int8)
        _final_stones(
            new_state(width, height), new_history(0), replay_arrays(at.games), same_size, RECORD_RULES.codes, final
        )
        territory = rows["territory"].take(pa.array(same_size))
        of = np.repeat(np.arange(len(same_size)), pc.list_value_length(territory).to_numpy())
        words = territory.flatten().to_numpy()
        points = words & POINT_MASK
        on_board = points < width * height
        final[of[on_board], points[on_board]] = np.where(words & WHITE_BIT, -1, 1)[on_board]
        framed = np.full((len(same_size), board[1], board[0]), UNKNOWN, np.int8)
        framed[:, :height, :width] = final.reshape(-1, height, width)
        owner[same_size] = framed.reshape(len(same_size), -1)
    owned = owner[at.game]
    return np.where(_white(at)[:, None] & (owned != UNKNOWN), -owned, owned).astype(np.int8)


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


_COMPUTE: dict[str, Callable[[pa.RecordBatch, Positions, Board], Array]] = {
    "to_play": lambda rows, at, board: at.to_play.astype(np.int8),
    "result": _result,
    "margin": _margin,
    "ownership": _ownership,
    "lead": _lead,
    "owner": _owner,
    "ranks": _ranks,
    "komi": lambda rows, at, board: _column(rows, "komi")[at.game],
    "seconds": lambda rows, at, board: _of_next_moves(rows, at, "move_seconds", move_seconds_array),
    "evaluation": _evaluation,
}

LABELS = {
    "move": "the point of the next move; a pass is width * height",
    "next<k>": f"the points of the next k moves (2 to {MAX_NEXT}), from the next one on; {NO_MOVE} after the last",
    "to_play": f"the side to move: {BLACK} Black, {WHITE} White",
    "result": f"1 if the side to move wins the game, -1 if it loses, 0 for a draw, {UNKNOWN} if that is not known",
    "margin": "points by which the side to move wins the game, negative if it loses; NaN unless the game was counted",
    "ownership": "of each point at the end: 1 if it is the mover's, -1 the opponent's, 0 no"
    "body's; "
    f"{UNKNOWN} where the record tells no territory",
    "lead": "points by which the mover is ahead, by the targets of a recipe, and their standard deviation",
    "owner": f"of each point by the same targets: {OWNER_UNIT} if it is the mover's, -{OWNER_UNIT} the opponent's, and "
    "numbers between",
    "ranks": "ratings of the mover and of the opponent: 30 kyu 2, 1 kyu 31, 1 dan 32, 9 dan 40; NaN unknown",
    "komi": "as the record has it; NaN unknown",
    "seconds": "seconds that the mover used for the next move; NaN unknown",
    "evaluation": "of a search before the next move: the mover's share of wins, share of losses and lead in points, "
    "and the number of visits; NaN unknown",
    f"{INPUTS_PREFIX}<a>+<b>": "global inputs of networks, such as colour+komi+ranks, in this order",
    "globals": f"what KataGo's nets are given beside the planes of {KATAGO22.name}, see its card",
    "policy": "the share of each move among those played in equal positions, 1 for the move if there is no other; the "
    "last one is a pass",
    "count": "how many positions the example stands for, by weight; 1 if the position is not merged with others",
    "ply": "how many moves, passes too, come before the position",
}
"""Meaning of each label. Data sets store these texts in their layouts, so they must not change."""


def find_label(name: str, width: int, height: int) -> LabelSpec:
    """Return a label for boards of one size. Raises RecipeError, which suggests the most similar name."""
    if name.startswith("next") and name[4:].isdecimal():
        if 2 <= int(name[4:]) <= MAX_NEXT and name[4:] == str(int(name[4:])):
            return LabelSpec(name, "int16", (int(name[4:]),), LABELS["next<k>"])
        raise RecipeError(f"label next<k> requires k from 2 to {MAX_NEXT}, got {name!r}")
    if name.startswith(INPUTS_PREFIX):
        inputs = _inputs_of(name)
        check_inputs(inputs)
        return LabelSpec(name, "float32", (input_size(inputs),), LABELS[f"{INPUTS_PREFIX}<a>+<b>"])
    if name not in LABELS or name == "ply":
        raise unknown("label", name, LABELS)
    shapes = {
        "ownership": (width * height,), "ranks": (2,), "evaluation": (4,), "policy": (width * height + 1,),
        "globals": (len(KATAGO22.inputs),), "lead": (2,), "owner": (width * height,),
    }  # fmt: skip
    dtypes: dict[str, Literal["int16", "int8"]]
    dtypes = {"move": "int16", "to_play": "int8", "result": "int8", "ownership": "int8", "owner": "int8"}
    return LabelSpec(name, dtypes.get(name, "float32"), shapes.get(name, ()), LABELS[name])


def label_values(specs: Iterable[LabelSpec], board: Board, rows: pa.RecordBatch, at: Positions) -> dict[str, Array]:
    """Return the labels of some positions by name, [B, ...], except those in ENCODED_LABELS and MERGED_LABELS.

    rows: the games of the positions, with at least the `label_columns`.
    """
    values: dict[str, Array] = {}
    for spec in specs:
        if spec.name.startswith(INPUTS_PREFIX):
            values[spec.name] = encode_inputs(_inputs_of(spec.name), Conditions.from_rows(rows), at.game, _white(at))
        elif is_next(spec.name):
            values[spec.name] = _next(at, board, spec.shape[0])
        elif spec.name not in (*ENCODED_LABELS, *MERGED_LABELS):
            values[spec.name] = _COMPUTE[spec.name](rows, at, board)
    return values


_INVARIANT = ("to_play", "result", "margin", "lead", "ranks", "komi", "seconds", "evaluation", "globals")
"""Labels, besides global inputs, that no symmetry changes."""


def check_augmentable(layout: Layout) -> None:
    """Raise RecipeError if it is unknown how a symmetry changes one of the labels."""
    maps = dict.fromkeys(("owner", "ownership"), (layout.pass_label,))
    shapes = {"move": (), **maps, "policy": (layout.pass_label + 1,)}
    for label in layout.labels:
        known = len(label.shape) == 1 if is_next(label.name) else shapes.get(label.name) == label.shape
        if not (known or label.name in _INVARIANT or label.name.startswith(INPUTS_PREFIX)):
            shape = f" of shape {list(label.shape)}" if label.shape else ""
            raise RecipeError(f"label {label.name!r}{shape} does not support augmentation; augment must be False")


def augment_labels(
    layout: Layout, labels: dict[str, Array], symmetry: Bytes, width: Indices, height: Indices
) -> dict[str, Array]:
    """Return labels under a symmetry each. width, height: [B] of the game's board, upper left in the layout's."""
    augmented = dict(labels)
    for name, values in labels.items():
        if name == "move":
            augmented[name] = augment_points(values, symmetry, width, height, layout)
        elif is_next(name):
            augmented[name] = augment_points(values, symmetry[:, None], width[:, None], height[:, None], layout)
        elif name in ("owner", "ownership"):
            augmented[name] = _augment_maps(values, symmetry, width, height, layout)
        elif name == "policy":  # of the whole board: data sets with smaller ones have no such label
            augmented[name] = np.empty_like(values)
            table = symmetries(layout.width, layout.height).astype(np.int64)
            _augment_values(values[:, None], symmetry, table, augmented[name][:, None])
    return augmented


def augment_points(points: Array, symmetry: Bytes, width: Indices, height: Indices, layout: Layout) -> Array:
    """Return points of the layout's board under symmetries; passes and negative values stay. Arrays are broadcast."""
    y, x = np.divmod(points.astype(np.int64), layout.width)
    x = np.where(symmetry & 1, width - 1 - x, x)
    y = np.where(symmetry & 2, height - 1 - y, y)
    moved = np.where(symmetry & 4, x * layout.width + y, y * layout.width + x)
    return np.where((points >= 0) & (points < layout.pass_label), moved, points).astype(points.dtype)


def _augment_maps(maps: Array, symmetry: Bytes, width: Indices, height: Indices, layout: Layout) -> Array:
    points = np.arange(layout.pass_label)
    augmented = np.empty_like(maps)
    kinds, kind = np.unique(np.stack([symmetry, width, height]), axis=1, return_inverse=True)
    for k, (s, w, h) in enumerate(kinds.T.tolist()):
        y, x = np.divmod(points, layout.width)
        inside = (x < w) & (y < h)
        to = augment_points(points, np.array(s, np.uint8), np.array(w), np.array(h), layout)
        rows = np.flatnonzero(kind == k)
        # A smaller board covers other points when transposed. All points outside it have the same value.
        values = np.full((len(rows), layout.pass_label), maps[rows, -1:] if not inside[-1] else 0, maps.dtype)
        values[:, to[inside]] = maps[rows][:, inside]
        augmented[rows] = values
    return augmented


@kernel
def _augment_bits(packed: Any, symmetry: Any, table: Any, out: Any) -> None:
    points = table.shape[1] - 1
    for b in range(packed.shape[0]):
        to = table[symmetry[b]]
        for c in range(packed.shape[1]):
            for i in range(packed.shape[2]):
                out[b, c, i] = 0
            for i in range(packed.shape[2]):
                bits = packed[b, c, i]
                p = 8 * i
                while bits != 0 and p < points:
                    if bits & 0x80:
                        at = to[p]
                        out[b, c, at >> 3] |= np.uint8(0x80 >> (at & 7))
                    bits = np.uint8((bits << 1) & 0xFF)
                    p += 1


@kernel
def _augment_values(values: Any, symmetry: Any, table: Any, out: Any) -> None:
    for b in range(values.shape[0]):
        to = table[symmetry[b]]
        for c in range(values.shape[1]):
            for p in range(values.shape[2]):
                out[b, c, to[p]] = values[b, c, p]


def augment_planes(planes: Array, symmetry: Bytes, layout: Layout) -> Array:
    """Return planes in the form of `Batch.planes`, each row under its symmetry; 0 to 3 only unless they are square."""
    out = np.empty_like(planes)
    _, height, width = layout.shape
    table = symmetries(width, height).astype(np.int64)
    (_augment_values if layout.real else _augment_bits)(planes, symmetry, table, out)
    return out
