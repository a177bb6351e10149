"""Commands for networks: nets, train, evaluate, predict, export."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kifu.cli.app import (
    Checkpoint,
    Jobs,
    Json,
    Output,
    OutputFile,
    Sources,
    app,
    overrides,
    print_list,
    print_markdown,
    write_json,
)


@app.command()
def nets(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Show the layers of this network; any bNcM, such as b10c128.")
    ] = None,
    planes: Annotated[str | None, typer.Option(help="Plane set.", show_default="the network's own")] = None,
    board: Annotated[str, typer.Option(metavar="WIDTHxHEIGHT", help="Size of the board.")] = "19x19",
) -> None:
    """List the networks with their sizes, or show the layers of one."""
    from kifu.config import parse_board
    from kifu.learn.nets.registry import NETS, RESIDUAL
    from kifu.learn.nets.summary import net_card, net_line

    width, height = parse_board(board)
    if name is not None:
        print_markdown(net_card(name, planes, width, height))
        return
    print_list((each, net_line(each, planes, width, height)) for each in [*NETS, RESIDUAL])


@app.command()
def train(  # noqa: PLR0913 - command-line options
    recipe: Annotated[str, typer.Argument(help="Name of a recipe (see `kifu recipes`), or a .toml file.")],
    sources: Sources,
    output: Annotated[Path, Output(help="Run directory: nets, checkpoints, metrics.")],
    validate: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SOURCE", help="Games to validate on. Repeatable.", show_default="a share of the training games"
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume the run in that directory.")] = False,
    minutes: Annotated[float | None, typer.Option(help="Time budget in minutes.", show_default="the recipe's")] = None,
    set_: Annotated[list[str] | None, overrides("the recipe", "optimiser.lr=0.01")] = None,
    devices: Annotated[int, typer.Option(min=1, help="Number of GPUs, or of processes on the CPU.")] = 1,
    nodes: Annotated[int, typer.Option(min=1, help="Number of machines, each running this command.")] = 1,
    strategy: Annotated[str, typer.Option(help="Lightning Fabric's strategy, such as ddp.")] = "auto",
    accelerator: Annotated[str, typer.Option(help="Lightning Fabric's accelerator, such as cpu or gpu.")] = "auto",
    jobs: Jobs = None,
) -> None:
    """Train a net to predict the next move. Ctrl-C stops after a step; --resume continues bit-exactly."""
    from kifu.kernel import announce_compilation
    from kifu.learn.train import TrainOptions, is_first_process
    from kifu.learn.train import train as train_net
    from kifu.progress import progress
    from kifu.recipes.schema import load_training

    announce_compilation()
    changes = [*(set_ or ()), *([] if minutes is None else [f"max_minutes={minutes}"])]
    run = train_net(
        load_training(recipe, changes),
        sources,
        output,
        validate=validate or (),
        resume=resume,
        options=TrainOptions(devices, nodes, strategy, accelerator, jobs),
        progress=progress,
    )
    if not is_first_process():
        return
    top1 = run.best.get("validation_top1")
    best = "" if top1 is None else f"; best validation top-1 {top1:.2%}, loss {run.best['validation_loss']:.4f}"
    typer.echo(f"{output}: {run.state} ({run.why}) after {run.steps:,} steps, {run.positions:,} positions{best}")
    if run.state == "stopped":
        raise typer.Exit(130)


@app.command()
def evaluate(  # noqa: PLR0913 - command-line options
    checkpoint: Checkpoint,
    sources: Sources,
    others: Annotated[
        list[Path] | None,
        typer.Option("--with", metavar="CHECKPOINT", help="Another net, evaluated on the same positions. Repeatable."),
    ] = None,
    board: Annotated[
        str | None, typer.Option(metavar="WIDTHxHEIGHT", show_default="the net's", help="Size of the board.")
    ] = None,
    legal: Annotated[bool, typer.Option("--legal", help="Mask illegal moves.")] = False,
    symmetries: Annotated[bool, typer.Option("--symmetries", help="Average over the board's symmetries.")] = False,
    passes: Annotated[bool, typer.Option("--passes", help="Include passes.")] = False,
    per_game: Annotated[int | None, typer.Option(min=1, help="Maximum number of positions per game.")] = None,
    positions: Annotated[int | None, typer.Option(min=1, help="Maximum number of positions.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the sampled positions and the bootstrap.")] = 0,
    precision: Annotated[str, typer.Option(metavar="float32|bfloat16", help="Precision of the network.")] = "float32",
    overlap: Annotated[
        str, typer.Option(metavar="refuse|drop|keep", help="Treatment of games that a net was trained on.")
    ] = "refuse",
    html: Annotated[Path | None, OutputFile(help="Write a page with plots and boards.")] = None,
    json: Json = None,
    jobs: Jobs = None,
) -> None:
    """Evaluate nets on the moves of games: top-1, 3, 5, likelihood and calibration, with 95 % intervals."""
    from kifu.kernel import announce_compilation
    from kifu.learn.evaluate import EvalOptions
    from kifu.learn.evaluate import evaluate as evaluate_nets
    from kifu.learn.net import open_net
    from kifu.learn.report import print_evaluation, write_page
    from kifu.progress import progress

    announce_compilation()
    options = EvalOptions(board, legal, symmetries, passes, per_game, positions, seed, precision, overlap)  # type: ignore[arg-type]
    evaluation = evaluate_nets(
        [open_net(path) for path in [checkpoint, *(others or [])]], sources, options, jobs=jobs, progress=progress
    )
    if json != Path("-"):
        print_evaluation(evaluation)  # first, so that a failing file loses no result
    write_json(evaluation.to_json(), json)
    if html is not None:
        write_page(evaluation, html)


@app.command()
def predict(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="[CHECKPOINT] GAME",
            help="A net (default: the packaged one), and a record, archive, folder or catalogue.",
        ),
    ],
    number: Annotated[int, typer.Option("--game", min=1, help="Number of the game in its container.")] = 1,
    move: Annotated[int | None, typer.Option(min=0, help="Number of moves played.", show_default="all")] = None,
    top: Annotated[int, typer.Option(min=1, help="Number of moves to list.")] = 5,
    symmetries: Annotated[bool, typer.Option("--symmetries", help="Average over the board's symmetries.")] = False,
    output: Annotated[Path | None, Output(help="Draw a heat map into this .svg or .png file.")] = None,
    json: Json = None,
) -> None:
    """Predict the next move of a position: as text, heat map or JSON."""
    from kifu.describe import find_game
    from kifu.errors import RecipeError
    from kifu.kernel import announce_compilation
    from kifu.learn import SUFFIX
    from kifu.learn.heatmap import describe, draw, predict_move, to_json
    from kifu.learn.net import open_net
    from kifu.learn.predict import Predictor
    from kifu.records.paths import as_path

    if len(files) > 2:
        raise RecipeError(f"predict takes a net and a game, got {len(files)} files")
    if files[-1].endswith(SUFFIX):
        raise RecipeError(f"the last argument must be a game, got the net {files[-1]}")
    announce_compilation()
    predictor = Predictor(open_net(files[0] if len(files) == 2 else None), symmetries=symmetries)
    prediction = predict_move(predictor, find_game(as_path(files[-1]), number), move, top)
    if output is not None:
        draw(prediction, output)
    write_json(to_json(prediction), json)
    if json != Path("-"):
        typer.echo(describe(prediction))


@app.command()
def export(
    checkpoint: Checkpoint,
    output: Annotated[Path, Output(help="The file to write, such as net.onnx.")],
) -> None:
    """Export a net to ONNX and verify it against the original."""
    from kifu.learn.export import export_onnx
    from kifu.learn.net import open_net

    typer.echo(export_onnx(open_net(checkpoint), output))
