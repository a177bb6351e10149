"""The command that estimates players' ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kifu.cli.app import Outcome, command, progress
from kifu.cli.options import DryRun, Jobs, Precision, Sources


@command(
    "Networks",
    "kifu rank sample --net run --calibration ranks.json --dry-run",
    "kifu rank sample --net run --player gnugo3 --dry-run",
    kernels=True,
)
def rank(
    sources: Sources,
    player: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Name of a player. Repeatable.", show_default="all players"),
    ] = None,
    net: Annotated[
        str, typer.Option(metavar="NET", help="A net with the input ranks, or its run directory; or an engine.")
    ] = "small",
    calibration: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Calibration of the net.", show_default="the file beside the net"),
    ] = None,
    precision: Precision = "float32",
    jobs: Jobs = None,
    dry_run: DryRun = False,
) -> Outcome:
    """Estimate the ranks of players by the likelihood of their moves.

    A net is calibrated once on players whose ranks are known, see docs/rank.md.
    """
    from typing import get_args

    from kifu.cli.dry_run import Plan
    from kifu.learn import Precision
    from kifu.learn.predictors import open_predictor
    from kifu.learn.rank import describe_estimates, estimate_ranks, open_calibration
    from kifu.registry import check_choice

    check_choice("precision", precision, get_args(Precision))
    if dry_run:
        return Plan.of_sources(sources, []).outcome()
    predictor = open_predictor(net, precision=precision)  # type: ignore[arg-type]
    opened = open_calibration(calibration, net)
    estimates = estimate_ranks(predictor, sources, opened, player or (), jobs=jobs, progress=progress)
    return Outcome(describe_estimates(estimates), estimates)
