"""The command that plays."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kifu.cli.app import app


@app.command()
def gtp(
    checkpoint: Annotated[
        Path | None,
        typer.Argument(
            metavar="CHECKPOINT", help="A net, or a run's folder.", show_default="the one that comes with kifu"
        ),
    ] = None,
    rules: Annotated[
        str, typer.Option(help="What is legal: chinese, aga, japanese, korean, new-zealand, tromp-taylor, records.")
    ] = "chinese",
    temperature: Annotated[float, typer.Option(help="0 plays the likeliest move, 1 draws by the probabilities.")] = 0,
    seed: Annotated[int | None, typer.Option(min=0, help="Of the draws.", show_default="another one each time")] = None,
    resign: Annotated[
        float | None, typer.Option(help="Resign below this chance to win, from 0 to 1.", show_default="never")
    ] = None,
    symmetries: Annotated[bool, typer.Option(help="Ask for the mean over the symmetries of the board.")] = False,
) -> None:
    """Play by a net, as an engine for Sabaki, GoGui and others: GTP 2 on standard input and output."""
    from kifu.go.rules import Rules
    from kifu.kernel import announce_compilation
    from kifu.learn.net import open_net
    from kifu.learn.predict import Predictor
    from kifu.play.engine import Engine
    from kifu.play.gtp import serve_stdio
    from kifu.play.player import NetEvaluator, Player

    announce_compilation()
    chosen = Rules.named(rules)
    net = open_net(checkpoint)
    oracle = NetEvaluator(Predictor(net, rules=chosen, symmetries=symmetries))
    player = Player(oracle, temperature=temperature, resign=resign, seed=seed)
    serve_stdio(Engine(player, rules=chosen, width=net.about.width, height=net.about.height))
