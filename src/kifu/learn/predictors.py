"""Opening of predictors by the text that names them on the command line."""

from __future__ import annotations

import os

from kifu.go.rules import RECORD_RULES, Rules
from kifu.learn.batch_evaluator import Precision
from kifu.learn.predict import MovePredictor, Predictor


def open_predictor(
    name: str | os.PathLike[str] | None = None,
    *,
    rules: Rules = RECORD_RULES,
    symmetries: bool = False,
    precision: Precision = "float32",
) -> MovePredictor:
    """Open a net.

    Args:
        name: A net's file, a run directory or the name of a packaged net, as for `open_net`.
        rules: The rules that define legal moves.
        symmetries: Average over the symmetries of the board.
        precision: Precision of `MovePredictor.stream`.

    Raises:
        FormatError: The file is not a net.
    """
    return Predictor(name, rules=rules, symmetries=symmetries, precision=precision)
