"""How well nets guess the moves of games that they have not learned from; docs/evaluation.md tells it for people."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kifu.config import parse_board
from kifu.corpus.schema import game_arrays, to_numpy
from kifu.datasets.mmap_games import COLUMNS, read_games
from kifu.datasets.position_filter import PositionFilter
from kifu.datasets.sources import CatalogueSource, ExampleSpec, open_datasets
from kifu.errors import RecipeError, SourceError
from kifu.execution.executor import count_jobs
from kifu.learn.breakdown import BREAKDOWNS, RANK_COLUMNS, EvalPositions
from kifu.learn.gallery import NAME_COLUMNS, Example, pick_examples
from kifu.learn.guess import Precision, score_moves
from kifu.learn.net import Net, NetMetadata
from kifu.learn.scores import (
    Calibration,
    Interval,
    MoveScores,
    Score,
    by_measure,
    calibrate,
    differences,
    score,
    score_groups,
)
from kifu.progress import ProgressFactory, silent
from kifu.records.paths import as_path
from kifu.registry import check_choice

OnOverlap = Literal["refuse", "drop", "keep"]

_COLUMNS = (*RANK_COLUMNS, *NAME_COLUMNS, "canonical")

_DIGITS = 6
"""Of numbers in JSON, after the point."""


@dataclass(frozen=True, slots=True)
class EvalOptions:
    """Which positions nets were asked for, and how. The names are those of `evaluate`'s options."""

    board: tuple[int, int]
    legal: bool
    symmetries: bool
    passes: bool
    per_game: int | None
    positions: int | None
    seed: int
    precision: Precision
    overlap: OnOverlap


@dataclass(frozen=True)
class NetResult:
    """What was found of one net.

    name: no other net of the evaluation has it.  known_games: how many games it is known to have learned from; 0 if
    nothing is known.  learned: how many of the games to be tested are among them, whatever was done about it.
    by: scores by breakdown (`kifu.learn.breakdown.BREAKDOWNS`) and group.
    to_first: how much more it scores than the first net on the same positions, by measure; None for the first.
    """

    name: str
    about: NetMetadata
    known_games: int
    learned: int
    score: Score
    calibration: Calibration
    by: dict[str, dict[str, Score]]
    to_first: dict[str, Interval] | None


@dataclass(frozen=True)
class Evaluation:
    """What was found of one net, or of several on the same positions.

    sources: their names.  games_hash: of which games, and how many of their moves, can be asked for (BLAKE3).
    games: how many have a position that was asked for.  learned: how many games a net had learned from: they are left
    out, or not, as `terms.overlap` says.
    """

    terms: EvalOptions
    sources: tuple[str, ...]
    games_hash: str
    games: int
    positions: int
    learned: int
    nets: tuple[NetResult, ...]
    examples: tuple[Example, ...]

    def remarks(self) -> list[str]:
        """What has to be said wherever its figures stand: games that were learned from, and nets of which no games
        are known."""
        said = []
        if self.learned and self.terms.overlap == "keep":
            said.append(
                f"NOT A TEST: {_games(self.learned)} of these had been learned from (turned, mirrored or not), and"
                " were kept. The figures are too good."
            )
        elif self.learned:
            said.append(f"{_games(self.learned)} had been learned from (turned, mirrored or not), and were left out.")
        said += [
            f"Nothing is known of the games that {net.name} learned from; they may be among these."
            for net in self.nets
            if not net.known_games
        ]
        return said

    def headline(self) -> str:
        """What was asked for, as one line."""
        width, height = self.terms.board
        how = ["legal moves only"] if self.terms.legal else []
        how += ["the mean over the symmetries of the board"] if self.terms.symmetries else []
        how += ["passes included"] if self.terms.passes else []
        told = f"{self.positions:,} positions of {_games(self.games)} on {width} x {height}"
        return "; ".join([told, *how])

    def to_json(self) -> str:
        """All of it, as docs/evaluation.md says."""
        terms = self.terms
        told: dict[str, Any] = {
            "version": 1,
            "kifu": version("kifu"),
            "board": "{}x{}".format(*terms.board),
            "sources": list(self.sources),
            "games_hash": self.games_hash,
            "games": self.games,
            "positions": self.positions,
            "terms": {
                name: getattr(terms, name)
                for name in ("legal", "symmetries", "passes", "per_game", "positions", "seed", "precision")
            },
            "overlap": {"games": self.learned, "done": terms.overlap},
            "remarks": self.remarks(),
            "nets": [_net_told(net) for net in self.nets],
            "examples": [example.told() for example in self.examples],
        }
        return json.dumps(told, allow_nan=False) + "\n"


def _games(count: int) -> str:
    return f"{count:,} game{'' if count == 1 else 's'}"


def _net_told(net: NetResult) -> dict[str, Any]:
    return {
        "name": net.name,
        "net": net.about.net,
        "planes": net.about.planes,
        "known_games": net.known_games,
        "learned": net.learned,
        "score": _score_told(net.score),
        "calibration": {
            "error": _rounded(net.calibration.error),
            "bins": [
                {
                    "from": round(each.start, _DIGITS),
                    "to": round(each.stop, _DIGITS),
                    "positions": each.positions,
                    "sure": round(each.sure, _DIGITS),
                    "right": _rounded(each.right),
                }
                for each in net.calibration.bins
            ],
        },
        "by": {name: {group: _score_told(each) for group, each in groups.items()} for name, groups in net.by.items()},
        "to_first": None if net.to_first is None else {key: _rounded(each) for key, each in net.to_first.items()},
    }


def _score_told(score: Score) -> dict[str, Any]:
    return {"positions": score.positions, "games": score.games} | {
        name: _rounded(each) for name, each in by_measure(score).items()
    }


def _rounded(interval: Interval) -> list[float]:
    return [round(value, _DIGITS) for value in interval]


def evaluate(
    nets: Net | Sequence[Net],
    sources: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    board: str | None = None,
    legal: bool = False,
    symmetries: bool = False,
    passes: bool = False,
    per_game: int | None = None,
    positions: int | None = None,
    seed: int = 0,
    precision: Precision = "float32",
    overlap: OnOverlap = "refuse",
    jobs: int | None = None,
    progress: ProgressFactory = silent,
) -> Evaluation:
    """How well nets guess the moves of games: top-1, 3, 5, negative log-likelihood, calibration, and examples.

    nets: one, or several that are compared on the same positions (`kifu.learn.net.open_net`).
    sources: catalogues, whose kept games are taken; archives, folders and records, cleaned by the rules "legal".
    board: which games to take, "19x19" say; by default those of the size that the first net was trained on.
    legal: whether probabilities are confined to legal moves.  symmetries: whether they are the mean over the 8
        symmetries of the board (4, if it is not square).
    passes: whether positions before a pass are asked for too; published figures leave them out.
    per_game, positions: at most so many of each game, and in all, drawn by chance; seed: which draw, and which draws
        of the intervals' bootstrap.
    precision: "float32", whose figures are the same on any machine but for the last digits, or "bfloat16", which is
        quicker on hardware that has it, and good for two to three digits.
    overlap: what to do if a net has learned from a game to be tested, be it turned, mirrored or with colours swapped:
        "refuse" raises RecipeError; "drop" leaves it out, for all nets; "keep" keeps it. The last two are told in
        every output.
    jobs: threads that draw planes.  progress: shows how far it is.

    Raises RecipeError for options that do not fit, or a board that a net cannot take; SourceError if there is no such
    game; FormatError for a catalogue, or a net, that is not what it says.
    """
    nets = [nets] if isinstance(nets, Net) else _named_apart(nets)
    paths = [sources] if isinstance(sources, str | os.PathLike) else list(sources)
    check_choice("precision", precision, get_args(Precision))
    check_choice("overlap", overlap, get_args(OnOverlap))
    about = nets[0].about
    size = (about.width, about.height) if board is None else parse_board(board)
    terms = EvalOptions(size, legal, symmetries, passes, per_game, positions, seed, precision, overlap)
    _check(nets, terms)
    if open_datasets(paths) is not None:
        raise RecipeError(f"{paths[0]} is a data set; nets are tested on games: catalogues, archives, records")
    rows = read_games(paths, size, False, jobs, (*COLUMNS, *_COLUMNS))
    learned = [np.isin(to_numpy(rows["canonical"]), net.games) for net in nets]
    rows = _without_learned(rows, nets, learned, overlap)
    selected = PositionFilter(passes=passes, per_game=per_game)
    source = CatalogueSource(rows, ExampleSpec(about.planes, size, labels=("move",), filter=selected))
    asked = _ask_for(source, rows, terms)
    with progress("asking", len(asked), "positions") as bar:
        guesses = score_moves(
            nets, asked, legal=legal, turned=symmetries, precision=precision, jobs=count_jobs(jobs), bar=bar
        )
    game = np.unique(asked.row, return_inverse=True)[1]
    by = _break_down(asked, guesses, game, seed)
    return Evaluation(
        terms,
        tuple(as_path(path).name for path in paths),
        str(source.fingerprint()["source"]),
        int(game.max()) + 1,
        len(asked),
        int(np.any(learned, axis=0).sum()),
        tuple(
            NetResult(
                net.name,
                net.about,
                len(net.games),
                int(known.sum()),
                score(found, game, seed),
                calibrate(found, game, seed),
                groups,
                None if found is guesses[0] else differences(found, guesses[0], game, seed),
            )
            for net, known, found, groups in zip(nets, learned, guesses, by)
        ),
        pick_examples(nets, asked, guesses, legal=legal, symmetries=symmetries, seed=seed),
    )


def _break_down(
    asked: EvalPositions, guesses: Sequence[MoveScores], game: npt.NDArray[np.int64], seed: int
) -> list[dict[str, dict[str, Score]]]:
    """`NetResult.by` of each net."""
    by: list[dict[str, dict[str, Score]]] = [{} for _ in guesses]
    for name, (_, find) in BREAKDOWNS.items():
        names, place = find(asked)
        for found, groups in zip(guesses, by):
            groups[name] = score_groups(found, game, place, names, seed)
    return by


def _named_apart(nets: Sequence[Net]) -> list[Net]:
    """The nets, with a number after each name that came before."""
    named: list[Net] = []
    for net in nets:
        name, number = net.name, 1
        while name in [other.name for other in named]:
            number += 1
            name = f"{net.name} ({number})"
        named.append(replace(net, name=name))
    return named


def _check(nets: Sequence[Net], terms: EvalOptions) -> None:
    """Raises RecipeError if the nets cannot be asked on these terms."""
    if terms.positions is not None and terms.positions < 1:
        raise RecipeError(f"positions is {terms.positions}; it has to be 1 or more, or None for all")
    for net in nets:
        net.encoder_for(*terms.board)
        if terms.passes and not net.about.passes:
            raise RecipeError(f"net {net.name} knows no passes, so that positions before a pass cannot be asked for")


def _without_learned(
    rows: pa.RecordBatch, nets: Sequence[Net], learned: Sequence[npt.NDArray[np.bool_]], overlap: OnOverlap
) -> pa.RecordBatch:
    """The games that are tested. learned: [G] bool by net, which of them it has learned from."""
    for net, known in zip(nets, learned):
        if known.any() and overlap == "refuse":
            raise RecipeError(
                f"{known.sum():,} of {_games(len(known))} were learned from by {net.name} (turned, mirrored or not);"
                " --overlap drop leaves them out, --overlap keep keeps them and says so"
            )
    if overlap == "drop":
        rows = rows.filter(pa.array(~np.any(learned, axis=0)))
    if not len(rows):
        raise SourceError(f"all of {_games(len(learned[0]))} had been learned from, so that none is left to test with")
    return rows


def _ask_for(source: CatalogueSource, rows: pa.RecordBatch, terms: EvalOptions) -> EvalPositions:
    """The positions that are asked for. Raises SourceError if there are none."""
    selection = source.select(terms.seed, 0, False)
    at = np.flatnonzero(np.unpackbits(selection.selected, bitorder="little"))
    row = np.repeat(np.arange(len(selection.counts)), selection.counts)
    if terms.positions is not None and terms.positions < len(at):
        chance = np.random.default_rng(terms.seed)
        drawn = np.sort(chance.choice(len(at), terms.positions, replace=False, shuffle=False))
        at, row = at[drawn], row[drawn]
    if not len(at):
        raise SourceError(f"the games have no position to ask for: {_games(len(rows))}, of passes only")
    return EvalPositions(rows, game_arrays(rows), *terms.board, at, row)
