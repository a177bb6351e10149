"""Example positions of an evaluation: confident misses, undecided positions and confident hits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from kifu.go.board import Board
from kifu.learn.positions import EvalPositions, Indices
from kifu.learn.predict import MovePredictor
from kifu.learn.predictors import unique_names
from kifu.learn.scores import MoveScores
from kifu.point import POINT_MASK, WHITE_BIT, to_gtp

NAME_COLUMNS = ("black", "white", "black_rank", "white_rank", "date_text", "archive", "member", "index")
"""Catalogue columns that examples need besides the games."""

Kind = Literal["missed", "undecided", "right"]
"""missed: another move is the most likely, in descending order of its probability. undecided: the move played is the
second most likely, and nearly as likely as the first. right: the most likely move was played, with high confidence."""

_JSON_KINDS: dict[Kind, str] = {"missed": "missed", "undecided": "wavering", "right": "right"}
"""Names of the kinds in version 1 of the JSON output."""

_COUNTS: dict[Kind, int] = {"missed": 9, "undecided": 6, "right": 3}

_CONFIDENT = 0.7
"""Probability of the most likely move from which on a net is called confident."""

_BEST_MOVES = 3
"""Number of moves that are listed."""

_DIGITS = 6


@dataclass(frozen=True, slots=True)
class ExampleAnswer:
    """The prediction of a net for an example.

    Attributes:
        policy: [moves] float32, probabilities.
        best: The most likely moves in descending order.
        rank: Rank of the move played, 1 for the most likely.
    """

    net: str
    policy: npt.NDArray[np.float32]
    best: tuple[int, ...]
    rank: int


@dataclass(frozen=True, slots=True)
class Example:
    """A position that was selected by the prediction of the first net.

    Attributes:
        players: Names of Black and White, "" if unknown.
        ranks: Ranks of Black and White, "" if unknown.
        date: Date of the game, "" if unknown.
        location: The archive and the game in it.
        number: Number of the move played, from 1 on.
        white: True if White is to move.
        stones: [H, W] uint8: 0 empty, 1 black, 2 white.
        last: The previous move, or None.
    """

    kind: Kind
    players: tuple[str, str]
    ranks: tuple[str, str]
    date: str
    location: str
    number: int
    white: bool
    stones: npt.NDArray[np.uint8]
    last: int | None
    played: int
    answers: tuple[ExampleAnswer, ...]

    def name(self, move: int) -> str:
        """Return the GTP name of a move."""
        return to_gtp(move, self.stones.shape[1], self.stones.shape[0])

    def to_json(self) -> dict[str, Any]:
        """Return the example as JSON values."""
        return {
            "kind": _JSON_KINDS[self.kind],
            "black": self.players[0],
            "white": self.players[1],
            "ranks": list(self.ranks),
            "date": self.date,
            "where": self.location,
            "move": self.number,
            "to_play": "white" if self.white else "black",
            "played": self.name(self.played),
            "answers": [
                {
                    "net": answer.net,
                    "p": round(float(answer.policy[self.played]), _DIGITS),
                    "place": answer.rank,
                    "best": [
                        {"move": self.name(move), "p": round(float(answer.policy[move]), _DIGITS)}
                        for move in answer.best
                    ],
                }
                for answer in self.answers
            ],
        }


def select_examples(
    nets: Sequence[MovePredictor], positions: EvalPositions, scores: MoveScores, *, legal: bool, seed: int
) -> tuple[Example, ...]:
    """Select examples of each kind, at most one per game and kind, and predict them in float32 with all nets.

    Args:
        scores: Scores of the first net, by which positions are selected.
        legal: Restrict the probabilities to legal moves.
        seed: Seed of the selection among confident hits.
    """
    kinds = get_args(Kind)
    selected = {kind: _best_of(_suitability(kind, scores, seed), positions.game, _COUNTS[kind]) for kind in kinds}
    which = np.concatenate(list(selected.values()))
    kind_of = [kind for kind, some in selected.items() for _ in some]
    batch = positions.select(which)
    names, policies = unique_names(nets), [net.predict(batch, legal).policy for net in nets]
    return tuple(
        _make_example(kind, positions, int(k), [(name, policy[i]) for name, policy in zip(names, policies)])
        for i, (kind, k) in enumerate(zip(kind_of, which))
    )


def _suitability(kind: Kind, scores: MoveScores, seed: int) -> npt.NDArray[np.float32]:
    """Return [N] float32, the suitability of each position as an example; NaN for positions of another kind."""
    rank, confidence = scores.rank, scores.confidence
    match kind:
        case "missed":
            return np.where(rank > 0, confidence, np.nan)
        case "undecided":
            return np.where(rank == 1, np.exp(-scores.nll), np.nan)
        case "right":
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
    kind: Kind, positions: EvalPositions, k: int, policies: Sequence[tuple[str, npt.NDArray[np.float32]]]
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
    return Example(
        kind,
        (names["black"] or "", names["white"] or ""),
        (names["black_rank"] or "", names["white_rank"] or ""),
        names["date_text"] or "",
        f"{names['archive']}: {names['member']}" + (f", game {names['index'] + 1}" if names["index"] else ""),
        ply + 1,
        bool(words[-1] & WHITE_BIT),
        board.stones,
        None if last == positions.points else last,
        played,
        tuple(_make_answer(name, policy, played) for name, policy in policies),
    )


def _make_answer(name: str, policy: npt.NDArray[np.float32], played: int) -> ExampleAnswer:
    order = np.argsort(-policy, kind="stable")
    rank = int(np.flatnonzero(order == played)[0]) + 1
    return ExampleAnswer(name, policy, tuple(order[: min(_BEST_MOVES, np.count_nonzero(policy))].tolist()), rank)
