"""Example positions of an evaluation: confident misses, undecided positions and confident hits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

import numpy as np
import numpy.typing as npt

from kifu.go.board import Board
from kifu.learn.positions import EvalPositions, Indices
from kifu.learn.predict import MovePredictor
from kifu.learn.predictors import unique_names
from kifu.learn.results import Example, ExampleAnswer, ExampleBoard, ExampleKind, LikelyMove
from kifu.learn.scores import MoveScores
from kifu.point import POINT_MASK, WHITE_BIT, to_gtp

NAME_COLUMNS = ("black", "white", "black_rank", "white_rank", "date_text", "archive", "member", "index")
"""Catalogue columns that examples need besides the games."""

_COUNTS: dict[ExampleKind, int] = {"missed": 9, "undecided": 6, "correct": 3}

_CONFIDENT = 0.7
"""Probability of the most likely move from which on a net is called confident."""

_BEST_MOVES = 3
"""Number of moves that are listed."""


def select_examples(
    nets: Sequence[MovePredictor], positions: EvalPositions, scores: MoveScores, *, legal: bool, seed: int
) -> tuple[Example, ...]:
    """Select examples of each kind, at most one per game and kind, and predict them in float32 with all nets.

    Args:
        scores: Scores of the first net, by which positions are selected.
        legal: Restrict the probabilities to legal moves.
        seed: Seed of the selection among confident hits.
    """
    kinds = get_args(ExampleKind)
    selected = {kind: _best_of(_suitability(kind, scores, seed), positions.game, _COUNTS[kind]) for kind in kinds}
    which = np.concatenate(list(selected.values()))
    kind_of = [kind for kind, some in selected.items() for _ in some]
    batch = positions.select(which)
    names, policies = unique_names(nets), [net.predict(batch, legal).policy for net in nets]
    return tuple(
        _make_example(kind, positions, int(k), [(name, policy[i]) for name, policy in zip(names, policies)])
        for i, (kind, k) in enumerate(zip(kind_of, which))
    )


def _suitability(kind: ExampleKind, scores: MoveScores, seed: int) -> npt.NDArray[np.float32]:
    """Return [N] float32, the suitability of each position as an example; NaN for positions of another kind."""
    rank, confidence = scores.rank, scores.confidence
    match kind:
        case "missed":
            return np.where(rank > 0, confidence, np.nan)
        case "undecided":
            return np.where(rank == 1, np.exp(-scores.nll), np.nan)
        case "correct":
            # The most confident hits are obvious captures, so confident hits are drawn at random.
            noise = np.random.default_rng(seed).random(len(confidence), np.float32)
            return np.where(rank == 0, np.where(confidence >= _CONFIDENT, 1 + noise, confidence), np.nan)


def _best_of(suitability: npt.NDArray[np.float32], game: Indices, count: int) -> Indices:
    """Return the indices of the most suitable positions of different games, in descending order."""
    candidates = np.flatnonzero(~np.isnan(suitability))
    order = candidates[np.lexsort((candidates, -suitability[candidates]))]
    first = np.unique(game[order], return_index=True)[1]  # the best of each game
    return order[np.sort(first)[:count]]


def _make_example(
    kind: ExampleKind, positions: EvalPositions, k: int, policies: Sequence[tuple[str, npt.NDArray[np.float32]]]
) -> Example:
    row, ply = int(positions.game[k]), int(positions.ply[k])
    names = positions.rows.slice(row, 1).select(NAME_COLUMNS).to_pylist()[0]
    games = positions.games
    first = int(games.move_offset[row])
    words = games.moves[first : first + ply + 1]
    setup = slice(int(games.setup_offset[row]), int(games.setup_offset[row + 1]))
    board = Board.after(positions.width, positions.height, words, games.setup[setup], games.setup_ply[setup], ply)
    last = int(words[-2] & POINT_MASK) if ply else None
    played = int(words[-1] & POINT_MASK)
    width, height = positions.width, positions.height
    return Example(
        kind=kind,
        players=(names["black"] or "", names["white"] or ""),
        ranks=(names["black_rank"] or "", names["white_rank"] or ""),
        date=names["date_text"] or "",
        location=f"{names['archive']}: {names['member']}" + (f", game {names['index'] + 1}" if names["index"] else ""),
        number=ply + 1,
        to_play="white" if words[-1] & WHITE_BIT else "black",
        played=to_gtp(played, width, height),
        answers=tuple(_make_answer(name, policy, played, width, height) for name, policy in policies),
        board=ExampleBoard(board.stones, None if last == positions.points else last, played, policies[0][1]),
    )


def _make_answer(name: str, policy: npt.NDArray[np.float32], played: int, width: int, height: int) -> ExampleAnswer:
    order = np.argsort(-policy, kind="stable")
    return ExampleAnswer(
        net=name,
        probability=float(policy[played]),
        choice=int(np.flatnonzero(order == played)[0]) + 1,
        best=tuple(
            LikelyMove(move=to_gtp(move, width, height), probability=float(policy[move]))
            for move in order[: min(_BEST_MOVES, np.count_nonzero(policy))].tolist()
        ),
    )
