"""`kifu train`: from games to a net."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kifu.cli.app import Jobs, Output, app


@app.command()
def train(
    recipe: Annotated[
        str, typer.Argument(metavar="RECIPE", help="One by name (`kifu recipes`), or a file that ends in .toml.")
    ],
    sources: Annotated[
        list[str], typer.Argument(metavar="SOURCE", help="Catalogues, archives, folders, records: any mix.")
    ],
    into: Annotated[Path, Output(help="Folder for the run: the nets, their figures, what a run resumes from.")],
    validate: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SOURCE", help="Games to validate with. Repeatable.", show_default="a share of those learned from"
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in that folder.")] = False,
    max_time: Annotated[
        float | None, typer.Option(metavar="MINUTES", help="End after so many.", show_default="as the recipe says")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Override a value, like optimiser.lr=0.01. Repeatable."),
    ] = None,
    devices: Annotated[int, typer.Option(min=1, help="GPUs, or processes on the CPU.")] = 1,
    nodes: Annotated[int, typer.Option(min=1, help="Machines that train together, each started with this.")] = 1,
    strategy: Annotated[str, typer.Option(help="How several work together, as Lightning names it: ddp, ...")] = "auto",
    accelerator: Annotated[str, typer.Option(help="What it computes on, as Lightning names it: cpu, gpu.")] = "auto",
    jobs: Jobs = None,
) -> None:
    """Train a net to predict the next move. Ctrl-C ends the run after a step; --resume goes on with it exactly."""
    from kifu.kernel import announce_compilation
    from kifu.learn.train import TrainOptions, is_first_process
    from kifu.learn.train import train as train_net
    from kifu.progress import progress
    from kifu.recipes.schema import load_training

    announce_compilation()
    overrides = [*(set_ or ()), *([] if max_time is None else [f"max_minutes={max_time}"])]
    run = train_net(
        load_training(recipe, overrides), sources, into, validate=validate or (), resume=resume,
        options=TrainOptions(devices, nodes, strategy, accelerator, jobs), progress=progress,
    )  # fmt: skip
    if not is_first_process():
        return
    best = run.best.get("validation_top1")
    told = "" if best is None else f"; validation top-1 {best:.2%}, loss {run.best['validation_loss']:.4f} at best"
    typer.echo(f"{into}: {run.state} ({run.why}) after {run.steps:,} steps, {run.positions:,} positions{told}")
    if run.state == "stopped":
        raise typer.Exit(130)
