"""Opening of predictors by the text that names them on the command line."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeAlias

from kifu.config import parse_board
from kifu.errors import RecipeError
from kifu.go.rules import RECORD_RULES, Rules
from kifu.learn import Precision, is_command
from kifu.learn.engine_predictor import EnginePredictor
from kifu.learn.net import AnyNet, Net
from kifu.learn.predict import MovePredictor, Predictor


def open_predictor(
    name: str | os.PathLike[str] | None = None,
    *,
    rules: Rules = RECORD_RULES,
    symmetries: bool = False,
    precision: Precision = "float32",
) -> MovePredictor:
    """Open a net, or start an engine.

    Args:
        name: A net's file, a run directory or the name of a packaged net, as for `open_net`; or the command line of
            KataGo's analysis engine, such as "katago analysis -config analysis.cfg -model net.bin.gz".
        rules: The rules that define legal moves.
        symmetries: Average over the symmetries of the board.
        precision: Precision of `MovePredictor.stream`; engines have their own.

    Raises:
        FormatError: The file is not a net.
        RecipeError: The program of a command line was not found.
        ProcessError: The engine failed.
    """
    if isinstance(name, str) and is_command(name):
        return EnginePredictor(name, rules=rules, symmetries=symmetries)
    return Predictor(name, rules=rules, symmetries=symmetries, precision=precision)


AnyPredictor: TypeAlias = MovePredictor | AnyNet
"""A predictor, a net, or the name of one as for `open_predictor`."""


def as_predictor(
    predictor: AnyPredictor, *, symmetries: bool = False, precision: Precision = "float32"
) -> MovePredictor:
    """Return an open predictor as it is, or open a net; arguments and errors as for `open_predictor`."""
    if isinstance(predictor, str | os.PathLike):
        return open_predictor(predictor, symmetries=symmetries, precision=precision)
    if isinstance(predictor, Net):
        return Predictor(predictor, symmetries=symmetries, precision=precision)
    return predictor


def check_ranks(predictor: MovePredictor, *ranks: float | None) -> None:
    """Check that a net or engine takes ranks, if one is given.

    Raises:
        RecipeError: It does not take ranks.
    """
    if all(rank is None for rank in ranks):
        return
    if isinstance(predictor, EnginePredictor) and not predictor.takes_ranks:
        raise RecipeError(
            f"{predictor.description} does not take ranks; that needs a net that imitates players (-human-model FILE)"
            " and no humanSLProfile in the command"
        )
    if not isinstance(predictor, Predictor):
        return
    net = predictor.net
    if "ranks" not in net.about.inputs and not net.encoder.plane_set.needs_ranks:
        inputs = ", ".join(("planes", *net.about.inputs))
        raise RecipeError(f"net {net.name} does not take ranks; its inputs are {inputs}")


def takes_ranks(predictor: MovePredictor) -> bool:
    """Return True if a net or engine takes ranks."""
    try:
        check_ranks(predictor, 0.0)
    except RecipeError:
        return False
    return True


def replay_planes(predictors: Sequence[MovePredictor]) -> str:
    """Return the plane set that determines how far games can be replayed: that of the first net."""
    nets = [predictor.net for predictor in predictors if isinstance(predictor, Predictor)]
    return nets[0].about.planes if nets else "black+white"


def unique_names(predictors: Sequence[MovePredictor]) -> list[str]:
    """Return the names of predictors; a name that occurred before gets a number."""
    names: list[str] = []
    for predictor in predictors:
        name, number = predictor.name, 1
        while name in names:
            number += 1
            name = f"{predictor.name} ({number})"
        names.append(name)
    return names


def common_board(predictors: Sequence[MovePredictor], board: str | None) -> tuple[int, int]:
    """Return width and height of the boards that predictors are asked about.

    Args:
        board: The size, such as "19x19"; None for the size that the first net was trained on, or 19 x 19 if the first
            is an engine.

    Raises:
        RecipeError: A net does not support the size.
        GameError: A plane set does not support it.
    """
    size = predictors[0].board if board is None else parse_board(board)
    for predictor in predictors:
        predictor.check_board(*size)
    return size
