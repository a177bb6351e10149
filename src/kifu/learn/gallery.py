"""Positions to look at: where a net is surely wrong, where it wavers between two moves, where it is right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from kifu.go.board import Board
from kifu.learn.breakdown import EvalPositions, Places
from kifu.learn.net import Net
from kifu.learn.predict import Predictor, PredictPositions
from kifu.learn.scores import MoveScores
from kifu.point import POINT_MASK, WHITE_BIT, to_gtp

NAME_COLUMNS = ("black", "white", "black_rank", "white_rank", "date_text", "archive", "member", "index")
"""What examples need of the catalogue, beside the games themselves."""

Kind = Literal["missed", "wavering", "right"]
"""missed: the likeliest move is another one, the surest of these first.  wavering: the move played is the second
likeliest, and nearly as likely as the first.  right: the likeliest move was played, and the net was sure of it."""

_COUNTS = {"missed": 9, "wavering": 6, "right": 3}

_SURE = 0.7
"""Probability of the likeliest move from which on the net is called sure."""

_BEST = 3
"""Moves that are listed."""

_DIGITS = 6


@dataclass(frozen=True, slots=True)
class ExampleAnswer:
    """What one net says of an example. policy: [moves] float32.  best: moves, the likeliest first."""

    net: str
    policy: npt.NDArray[np.float32]
    best: tuple[int, ...]
    place: int
    """Of the move played, 1 if it is the likeliest."""


@dataclass(frozen=True, slots=True)
class Example:
    """One position, chosen for what the first net says of it.

    number: of the move that was played, from 1 on.  stones: [H, W] of 0 empty, 1 black, 2 white.
    last: the move before it, None if there is none.  players, ranks: Black's and White's, "" where not told.
    where: the archive, and the game in it.
    """

    kind: Kind
    players: tuple[str, str]
    ranks: tuple[str, str]
    date: str
    where: str
    number: int
    white: bool
    stones: npt.NDArray[np.uint8]
    last: int | None
    played: int
    answers: tuple[ExampleAnswer, ...]

    def name(self, move: int) -> str:
        """The GTP name of a move."""
        return to_gtp(move, self.stones.shape[1], self.stones.shape[0])

    def told(self) -> dict[str, Any]:
        """Itself, as JSON values."""
        return {
            "kind": self.kind,
            "black": self.players[0],
            "white": self.players[1],
            "ranks": list(self.ranks),
            "date": self.date,
            "where": self.where,
            "move": self.number,
            "to_play": "white" if self.white else "black",
            "played": self.name(self.played),
            "answers": [
                {
                    "net": answer.net,
                    "p": round(float(answer.policy[self.played]), _DIGITS),
                    "place": answer.place,
                    "best": [
                        {"move": self.name(move), "p": round(float(answer.policy[move]), _DIGITS)}
                        for move in answer.best
                    ],
                }
                for answer in self.answers
            ],
        }


def pick_examples(
    nets: Sequence[Net],
    asked: EvalPositions,
    guesses: Sequence[MoveScores],
    *,
    legal: bool,
    symmetries: bool,
    seed: int,
) -> tuple[Example, ...]:
    """Examples of each kind by what the first net says, at most one of a game and kind; and what all nets say of them.

    Nets are asked once more, in float32; legal, symmetries: as `kifu.learn.evaluate.evaluate` takes them.
    """
    chosen = {kind: _best_of(_rated(kind, guesses[0], seed), asked.row, _COUNTS[kind]) for kind in get_args(Kind)}
    at = np.concatenate(list(chosen.values()))
    kinds = [kind for kind, some in chosen.items() for _ in some]
    rating = np.zeros((len(asked.games), 2), np.float32)
    for side, name in enumerate(("black_rating", "white_rating")):
        values = asked.rows[name].to_numpy(zero_copy_only=False)
        rating[:, side] = np.nan_to_num(values.astype(np.float32))
    positions = PredictPositions(asked.games, asked.row[at], asked.ply[at], rating)
    policies = [Predictor(net, symmetries=symmetries).probabilities(positions, legal) for net in nets]
    return tuple(
        _example(kind, asked, int(k), [(net.name, policy[i]) for net, policy in zip(nets, policies)])
        for i, (kind, k) in enumerate(zip(kinds, at))
    )


def _rated(kind: Kind, guesses: MoveScores, seed: int) -> npt.NDArray[np.float32]:
    """[N] float32: how well each position suits, NaN where it does not at all."""
    place, sure = guesses.place, guesses.sure
    match kind:
        case "missed":
            return np.where(place > 0, sure, np.nan)
        case "wavering":
            return np.where(place == 1, np.exp(-guesses.nll), np.nan)
        case "right":
            # The surest moves of all are captures that anybody sees; so of those that are sure enough, any.
            chance = np.random.default_rng(seed).random(len(sure), np.float32)
            return np.where(place == 0, np.where(sure >= _SURE, 1 + chance, sure), np.nan)


def _best_of(rated: npt.NDArray[np.float32], row: Places, count: int) -> Places:
    """The places of the best `count` positions, of different games, the best first."""
    there = np.flatnonzero(~np.isnan(rated))
    order = there[np.lexsort((there, -rated[there]))]
    first = np.unique(row[order], return_index=True)[1]  # of each game the best
    return order[np.sort(first)[:count]]


def _example(kind: Kind, asked: EvalPositions, k: int, told: Sequence[tuple[str, npt.NDArray[np.float32]]]) -> Example:
    row, ply = int(asked.row[k]), int(asked.ply[k])
    about = asked.rows.slice(row, 1).select(NAME_COLUMNS).to_pylist()[0]
    games = asked.games
    first = int(games.move_offset[row])
    words = games.moves[first : first + ply + 1]
    last = int(words[-2] & POINT_MASK) if ply else None
    played = int(words[-1] & POINT_MASK)
    return Example(
        kind,
        (about["black"] or "", about["white"] or ""),
        (about["black_rank"] or "", about["white_rank"] or ""),
        about["date_text"] or "",
        f"{about['archive']}: {about['member']}" + (f", game {about['index'] + 1}" if about["index"] else ""),
        ply + 1,
        bool(words[-1] & WHITE_BIT),
        Board.after(asked.width, asked.height, words, *_setup(asked, row), ply).stones,
        None if last == asked.width * asked.height else last,
        played,
        tuple(_answer(name, policy, played) for name, policy in told),
    )


def _setup(asked: EvalPositions, row: int) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.uint16]]:
    """A game's setup stones, and how many moves come before each."""
    stones = slice(int(asked.games.setup_offset[row]), int(asked.games.setup_offset[row + 1]))
    return asked.games.setup[stones], asked.games.setup_ply[stones]


def _answer(name: str, policy: npt.NDArray[np.float32], played: int) -> ExampleAnswer:
    order = np.argsort(-policy, kind="stable")
    place = int(np.flatnonzero(order == played)[0]) + 1
    return ExampleAnswer(name, policy, tuple(order[: min(_BEST, np.count_nonzero(policy))].tolist()), place)
