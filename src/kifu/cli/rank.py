"""The command that estimates players' ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kifu.cli.app import Outcome, command, progress
from kifu.cli.options import Board, DryRun, Jobs, Output, Precision, Sources


@command(
    "Networks",
    "kifu rank games.parquet --net run --calibrate -o ranks.json --dry-run",
    "kifu rank sample --net run --calibration ranks.json --dry-run",
    kernels=True,
)
def rank(  # noqa: PLR0913 - command-line options
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
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="Calibrate the net on these games, and write -o.")
    ] = False,
    output: Annotated[Path | None, Output(help="The calibration to write, such as net.ranks.json.")] = None,
    ranks: Annotated[str, typer.Option(metavar="LOWEST-HIGHEST", help="Ranks to calibrate.")] = "10k-9d",
    per_rank: Annotated[
        int, typer.Option(min=1, metavar="N", help="Maximum number of games of each rank in a calibration.")
    ] = 600,
    precision: Precision = "float32",
    board: Annotated[str, Board(help="Size of the boards of a calibration.")] = "19x19",
    jobs: Jobs = None,
    dry_run: DryRun = False,
) -> Outcome:
    """Estimate the ranks of players by the likelihood of their moves.

    A net is calibrated once, with --calibrate, on players whose ranks are known.
    """
    from typing import get_args

    from kifu.atomic_io import write_output
    from kifu.cli.plan import Plan
    from kifu.errors import RecipeError
    from kifu.learn import Precision
    from kifu.learn.predictors import open_predictor
    from kifu.learn.rank import describe_estimates, estimate_ranks
    from kifu.learn.rank_calibrate import calibrate as calibrate_net
    from kifu.learn.rank_calibration import describe_calibration, open_calibration, parse_ranks
    from kifu.registry import check_choice

    check_choice("precision", precision, get_args(Precision))
    if calibrate != (output is not None):
        raise RecipeError("--calibrate and -o require each other")
    if calibrate and (player or calibration):
        raise RecipeError("--calibrate excludes --player and --calibration")
    ratings = parse_ranks(ranks)
    if dry_run:
        return Plan.of_sources(sources, [output] if output else []).outcome()
    predictor = open_predictor(net, precision=precision)  # type: ignore[arg-type]
    if output is None:
        opened = open_calibration(calibration, net)
        estimates = estimate_ranks(predictor, sources, opened, player or (), jobs=jobs, progress=progress)
        return Outcome(describe_estimates(estimates), estimates)
    found = calibrate_net(
        predictor, net, sources, ratings, board=board, per_rank=per_rank, jobs=jobs, progress=progress
    )
    write_output(output, found.model_dump_json(indent=1).encode())
    return Outcome(describe_calibration(found), found.model_dump(mode="json"), summary=True)
