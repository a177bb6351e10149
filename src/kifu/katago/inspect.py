"""Readable descriptions of KataGo's training rows: a data set with its checks, and a single row."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from kifu.datasets.formats import FORMATS
from kifu.errors import FormatError
from kifu.files import open_regular
from kifu.katago.metadata import Source
from kifu.katago.npz import LAYOUT, POINTS, SIDE, KataNpz, KataRows, game_hashes
from kifu.point import to_gtp

_BLOCK_ROWS = 1024
_MAX_JSON_BYTES = 1 << 16
_MOVES_SHOWN = 5

_WEIGHTS = {
    "rows": 25, "move": 26, "next move": 28, "score and ownership": 27, "lead": 29, "later boards": 33, "scoring": 34,
}  # fmt: skip
"""Columns of globalTargetsNC with weights."""

_COMPLEMENTS = {"intermediate values": 24, "result": 35}
"""Columns with 1 - weight."""


def inspect_katago(data: KataNpz) -> list[str]:
    """Check all training rows and return a summary as lines of text.

    Raises:
        FormatError: For a damaged file, or the first row that train.py could not use or that contradicts itself.
    """
    games = np.empty((0, 2), np.uint64)
    boards: Counter[str] = Counter()
    results = np.zeros(4, np.int64)
    weights = np.zeros(len(_WEIGHTS) + len(_COMPLEMENTS))
    for file in data.files:
        _check_json(file.path, file.rows)
    for start in range(0, len(data), _BLOCK_ROWS):
        rows = data.rows(start, min(start + _BLOCK_ROWS, len(data)))
        for problem, wrong in _problems(rows):
            if wrong.any():
                raise FormatError(f"{data.path}: row {start + int(np.argmax(wrong))} {problem}")
        games = np.unique(np.concatenate([games, game_hashes(rows.targets)]), axis=0)
        width, height = board_sizes(rows.planes)
        boards.update(f"{w} x {h}" for w, h in zip(width.tolist(), height.tolist()))
        ahead = np.sign(rows.targets[:, 0] - rows.targets[:, 1])[rows.targets[:, 35] < 1]
        results += [np.sum(ahead > 0), np.sum(ahead < 0), np.sum(ahead == 0), rows.size - len(ahead)]
        targets = rows.targets.astype(np.float64)
        weights += [*targets[:, [*_WEIGHTS.values()]].sum(0), *(1 - targets[:, [*_COMPLEMENTS.values()]]).sum(0)]
    known_games = np.count_nonzero(games.any(1))
    means = zip((*_WEIGHTS, *_COMPLEMENTS), (weights / max(len(data), 1)).tolist())
    format = FORMATS["katago-npz@1"]
    files = "1 file" if len(data.files) == 1 else f"{len(data.files):,} files"
    return [
        f"{data.path}: {format.name}, {format.title}",
        f"  examples    {len(data):,} in {files}"
        + (f" of {known_games:,} games" if known_games else ", games unknown"),
        f"  arrays      {', '.join(each.name for each in data.arrays)}",
        f"  planes      {LAYOUT.plane_set}: {LAYOUT.planes} of {SIDE} x {SIDE}, row 0 is the {LAYOUT.first_row}",
        f"  boards      {', '.join(f'{size}: {n:,}' for size, n in boards.most_common(5)) or 'none'}",
        f"  results     {results[0]:,} won by the mover, {results[1]:,} lost, {results[2]:,} neither; "
        f"{results[3]:,} without weight",
        f"  weights     {', '.join(f'{name} {mean:.3g}' for name, mean in means)}, on average",
    ]


def _check_json(path: Path, rows: int) -> None:
    """Check the number of rows in a file's .json, if there is one: train.py reads it."""
    json_path = path.with_suffix(".json")
    try:
        with open_regular(json_path) as file:
            summary = json.loads(file.read(_MAX_JSON_BYTES))
    except FileNotFoundError:
        return
    except (OSError, ValueError, RecursionError):
        summary = None
    if not isinstance(summary, dict) or summary.get("num_rows") != rows:
        raise FormatError(f"{json_path}: num_rows must be {rows:,}, as in {path.name}")


def board_sizes(planes: npt.NDArray[np.uint8]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the width and height, [N] int64 each, of the boards in packed planes [N, 22, 46]."""
    on_board = np.unpackbits(planes[:, 0], axis=-1, count=POINTS).reshape(-1, SIDE, SIDE)
    return on_board.any(1).sum(1), on_board.any(2).sum(1)


def _problems(rows: KataRows) -> Iterator[tuple[str, Any]]:
    """Yield possible problems of a row, and whether each row has them, [N] bool."""
    policy, targets = rows.policy, rows.targets
    on_board = np.unpackbits(rows.planes[:, 0], axis=-1, count=POINTS).reshape(-1, SIDE, SIDE)
    width, height = (size[:, None, None] for size in board_sizes(rows.planes))
    y, x = np.mgrid[:SIDE, :SIDE]
    yield "has planes with points beyond the board", ((rows.planes[:, :, -1] & 0x7F) != 0).any(1)
    yield "has no valid board", (on_board != ((x < width) & (y < height))).any((1, 2)) | (width[:, 0, 0] < 2)
    numbers = {"globalInputNC": rows.inputs, "globalTargetsNC": targets, "metadataInputNC": rows.meta}
    for name, values in numbers.items():
        if values is not None:
            yield f"has NaN or infinity in {name}", ~np.isfinite(values).all(1)
    yield "has a negative policy target", (policy < 0).any((1, 2))
    yield "has a policy target that sums to 0, by which train.py divides", (policy.sum(2, np.int64) == 0).any(1)
    stones = np.unpackbits(rows.planes[:, 1] | rows.planes[:, 2], axis=-1, count=POINTS) != 0
    taken = stones | (on_board.reshape(-1, POINTS) == 0)
    known = targets[:, 26] > 0
    yield "has a move on a stone or beyond the board", known & ((policy[:, 0, :POINTS] > 0) & taken).any(1)
    weights = np.stack([*targets[:, [*_WEIGHTS.values()]].T, *(1 - targets[:, [*_COMPLEMENTS.values()]]).T], 1)
    yield "has a negative weight", (weights < 0).any(1)
    yield "has results that do not sum to 1", np.abs(targets[:, :3].sum(1) - 1) > 1e-3
    yield "has a score distribution that does not sum to 100", rows.scores.sum(1, np.int64) != 100
    yield "has a board value outside -1 to 1", (np.abs(rows.values[:, :4].astype(np.int64)) > 1).any((1, 2, 3))


def describe_kata_row(rows: KataRows) -> list[str]:
    """Describe a single row, except for the stones on its board, in lines of text."""
    targets = rows.targets[0]
    (width,), (height,) = (size.tolist() for size in board_sizes(rows.planes))
    moves = [_moves(rows.policy[0, k], width, height, targets[column]) for k, column in enumerate((26, 28))]
    won = ("the mover wins", "the mover loses", "no result")[int(targets[:3].argmax())]
    if targets[0] == targets[1]:
        won = "a draw"
    lines = [
        f"move: {moves[0]}; next move: {moves[1]}",
        f"result: {won}, by {targets[3]:+g} (weight {1 - targets[35]:g})",
        f"without weight: {', '.join(_without_weight(targets)) or 'nothing'}",
        f"rules: {_rules(rows.inputs[0])}; the mover's komi and bonus {targets[47]:+g}, later {targets[61]:+g}",
        f"weight of the row {targets[25]:g}; handicap stones {targets[54]:g}",
    ]
    return lines + ([] if rows.meta is None else [f"players: {_players(rows.meta[0])}"])


def _without_weight(targets: npt.NDArray[np.float32]) -> list[str]:
    return [name for name, column in _WEIGHTS.items() if targets[column] == 0] + [
        name for name, column in _COMPLEMENTS.items() if targets[column] == 1
    ]


def _moves(counts: npt.NDArray[np.int16], width: int, height: int, weight: Any) -> str:
    """Return the moves with the highest counts in a policy target."""
    if weight == 0:
        return "unknown"
    best = np.argsort(-counts.astype(np.int64), kind="stable")[: min(np.count_nonzero(counts), _MOVES_SHOWN)]
    total = int(counts.sum(dtype=np.int64))
    named = []
    for point in best.tolist():
        y, x = divmod(point, SIDE)
        name = "pass" if point == POINTS else to_gtp(y * width + x, width, height)
        named.append(name if counts[point] == total else f"{name} {counts[point] / total:.0%}")
    return ", ".join(named) + (" ..." if np.count_nonzero(counts) > len(best) else "")


def _rules(inputs: npt.NDArray[np.float32]) -> str:
    ko = "simple ko" if not inputs[6] else "situational superko" if inputs[7] < 0 else "positional superko"
    tax = "taxes all groups" if inputs[11] else "no points in seki" if inputs[10] else "no tax"
    scoring = "territory" if inputs[9] else "area"
    options = (("suicide", inputs[8]), ("a button", inputs[17]), ("encore", inputs[12]))
    return ", ".join([ko, scoring, tax, *(name for name, value in options if value)])


def _players(meta: npt.NDArray[np.float32]) -> str:
    sides = []
    for k, side in enumerate(("the mover", "the opponent")):
        level = int(meta[6 + 34 * k : 40 + 34 * k].sum())
        rank = "unranked" if meta[2 + k] else "rank unknown" if meta[4 + k] or not level else _rank(level)
        sides.append(f"{side} {rank}" + ("" if meta[k] else ", a program"))
    kinds = ("unknown", "none", "absolute", "simple", "byo-yomi", "Canadian", "Fischer")
    time = kinds[int(meta[75:82].argmax())]
    sources = get_args(Source)
    source = int(meta[151:167].argmax())
    return f"{'; '.join(sides)}; time limit {time}; from {sources[source] if source < len(sources) else source}"


def _rank(level: int) -> str:
    """Return a rank by its level: 1 for 9 dan and professionals, 10 for 1 kyu."""
    return f"{10 - level} dan" if level < 10 else f"{level - 9} kyu"
