"""The commands that ask a net, and hand it on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kifu.cli.app import Output, OutputFile, app


@app.command()
def predict(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="[CHECKPOINT] GAME",
            help="A net, the one that comes with kifu if left out; and a record, archive, folder or catalogue.",
        ),
    ],
    number: Annotated[int, typer.Option("--game", min=1, help="Which game of an archive, folder or catalogue.")] = 1,
    move: Annotated[int | None, typer.Option(min=0, help="After so many moves.", show_default="all")] = None,
    top: Annotated[int, typer.Option(min=1, help="How many moves to list.")] = 5,
    symmetries: Annotated[
        bool, typer.Option("--symmetries", help="The mean over the symmetries of the board.")
    ] = False,
    out: Annotated[Path | None, Output(help="Draw a heat map into this .svg or .png file.")] = None,
    json: Annotated[
        Path | None, OutputFile(help="Write all probabilities into this file; - prints them as JSON.")
    ] = None,
) -> None:
    """Show which moves a net expects in a position of a game: as text, heat map or JSON."""
    from kifu.atomic_io import write_file
    from kifu.describe import find_game
    from kifu.errors import RecipeError
    from kifu.kernel import announce_compilation
    from kifu.learn import SUFFIX
    from kifu.learn.heatmap import describe, draw, predict_move, to_json
    from kifu.learn.net import open_net
    from kifu.learn.predict import Predictor
    from kifu.records.paths import as_path

    if len(files) > 2:
        raise RecipeError(f"predict takes a net and a game, not {len(files)} files")
    if files[-1].endswith(SUFFIX):
        raise RecipeError(f"{files[-1]} is a net; the game comes last")
    announce_compilation()
    net = open_net(files[0] if len(files) == 2 else None)
    prediction = predict_move(Predictor(net, symmetries=symmetries), find_game(as_path(files[-1]), number), move, top)
    if out is not None:
        draw(prediction, out)
    if json is not None and json != Path("-"):
        write_file(json, to_json(prediction).encode())
    typer.echo(to_json(prediction) if json == Path("-") else f"{describe(prediction)}\n", nl=False)


@app.command()
def export(
    checkpoint: Annotated[Path, typer.Argument(metavar="CHECKPOINT", help="A net, or a run's folder.")],
    out: Annotated[Path, Output(help="The file to write, like net.onnx.")],
) -> None:
    """Write a net as ONNX, for other programs and languages; checked against the original."""
    from kifu.learn.export import export_onnx
    from kifu.learn.net import open_net

    typer.echo(export_onnx(open_net(checkpoint), out))
