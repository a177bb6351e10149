"""The command that examines nets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kifu.cli.app import Jobs, OutputFile, app


@app.command()
def evaluate(
    checkpoint: Annotated[Path, typer.Argument(metavar="CHECKPOINT", help="A net, or a run's folder.")],
    sources: Annotated[
        list[str], typer.Argument(metavar="SOURCE", help="Games: catalogues, archives, folders, records.")
    ],
    others: Annotated[
        list[Path] | None,
        typer.Option("--with", metavar="CHECKPOINT", help="Compare this net, too, on the same positions."),
    ] = None,
    board: Annotated[
        str | None, typer.Option(metavar="WIDTHxHEIGHT", show_default="the net's", help="Games of this size.")
    ] = None,
    legal: Annotated[bool, typer.Option("--legal", help="Confine probabilities to legal moves.")] = False,
    symmetries: Annotated[
        bool, typer.Option("--symmetries", help="Take the mean over the symmetries of the board.")
    ] = False,
    passes: Annotated[bool, typer.Option("--passes", help="Ask for passes too.")] = False,
    per_game: Annotated[int | None, typer.Option(min=1, help="At most so many positions of a game.")] = None,
    positions: Annotated[int | None, typer.Option(min=1, help="At most so many in all.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Which positions are drawn, and games for the intervals.")] = 0,
    precision: Annotated[str, typer.Option(metavar="float32|bfloat16", help="What nets compute in.")] = "float32",
    overlap: Annotated[
        str,
        typer.Option(metavar="refuse|drop|keep", help="What to do if a net has learned from one of the games."),
    ] = "refuse",
    html: Annotated[Path | None, OutputFile(help="Write a page with plots and boards into this file.")] = None,
    json: Annotated[Path | None, OutputFile(help="Write all figures into this file; - prints them as JSON.")] = None,
    jobs: Jobs = None,
) -> None:
    """Test nets on the moves of games: top-1, 3, 5, likelihood, calibration, with 95 % intervals."""
    from kifu.atomic_io import write_file
    from kifu.kernel import announce_compilation
    from kifu.learn.evaluate import EvalOptions
    from kifu.learn.evaluate import evaluate as evaluate_nets
    from kifu.learn.net import open_net
    from kifu.learn.report import print_evaluation, write_page
    from kifu.progress import progress

    announce_compilation()
    found = evaluate_nets(
        [open_net(path) for path in [checkpoint, *(others or [])]],
        sources,
        EvalOptions(board, legal, symmetries, passes, per_game, positions, seed, precision, overlap),  # type: ignore[arg-type]
        jobs=jobs,
        progress=progress,
    )
    if json == Path("-"):
        typer.echo(found.to_json(), nl=False)
    else:
        print_evaluation(found)  # first: what was found is not lost if a file cannot be written
    if json is not None and json != Path("-"):
        write_file(json, found.to_json().encode())
    if html is not None:
        write_page(found, html)
