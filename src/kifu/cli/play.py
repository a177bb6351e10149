"""Commands for play: gtp, match."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kifu.cli.app import Output, app


@app.command()
def gtp(
    checkpoint: Annotated[
        Path | None,
        typer.Argument(metavar="CHECKPOINT", help="A net or a run directory.", show_default="the packaged net"),
    ] = None,
    rules: Annotated[
        str, typer.Option(help="Rules: chinese, aga, japanese, korean, new-zealand, tromp-taylor, records.")
    ] = "chinese",
    temperature: Annotated[float, typer.Option(help="0 plays the most probable move, 1 samples from the policy.")] = 0,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of the sampling.", show_default="random")] = None,
    resign: Annotated[
        float | None, typer.Option(help="Resign below this winning probability.", show_default="never")
    ] = None,
    symmetries: Annotated[bool, typer.Option("--symmetries", help="Average over the board's symmetries.")] = False,
) -> None:
    """Run a GTP 2 engine on standard input and output, for Sabaki, GoGui and referees."""
    from kifu.go.rules import Rules
    from kifu.kernel import announce_compilation
    from kifu.learn.net import open_net
    from kifu.learn.predict import Predictor
    from kifu.play.engine import Engine
    from kifu.play.gtp import serve_stdio
    from kifu.play.player import NetEvaluator, Player

    announce_compilation()
    ruleset = Rules.named(rules)
    net = open_net(checkpoint)
    evaluator = NetEvaluator(Predictor(net, rules=ruleset, symmetries=symmetries))
    player = Player(evaluator, temperature=temperature, resign=resign, seed=seed)
    serve_stdio(Engine(player, rules=ruleset, width=net.about.width, height=net.about.height))


@app.command()
def match(  # noqa: PLR0913 - command-line options
    a: Annotated[str, typer.Argument(metavar="A", help="Command line of a GTP program, in quotes; or a net.")],
    b: Annotated[str, typer.Argument(metavar="B", help="The opponent.")],
    output: Annotated[Path, Output(help="Folder for the games and match.json.")],
    games: Annotated[int, typer.Option(min=1, help="Number of games; openings are played with both colours.")] = 20,
    size: Annotated[int, typer.Option(min=2, max=25, help="Size of the board.")] = 19,
    komi: Annotated[float, typer.Option(help="Points for White.")] = 7.5,
    rules: Annotated[str, typer.Option(help="Rules of legal moves, as in kifu gtp.")] = "chinese",
    openings: Annotated[
        Path | None, typer.Option(help="Catalogue to take openings from.", show_default="corner moves")
    ] = None,
    opening_moves: Annotated[int, typer.Option(min=1, help="Length of a catalogue's openings.")] = 8,
    seed: Annotated[int, typer.Option(help="Seed of the choice of openings.")] = 1,
    time_limit: Annotated[float, typer.Option(help="Seconds per move; exceeding it forfeits the game.")] = 60.0,
    score_by: Annotated[
        str | None, typer.Option(help="GTP program that scores games.", show_default="GNU Go, if installed")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Number of parallel games.")] = 1,
) -> None:
    """Play games between two GTP programs and score the match; resumes an earlier one."""
    from kifu.kernel import announce_compilation
    from kifu.play.match import MatchOptions, play_match
    from kifu.play.referee import MatchRules
    from kifu.progress import progress

    announce_compilation()
    outcome = play_match(
        a,
        b,
        output,
        rules=MatchRules(size=size, komi=komi, ruleset=rules.lower(), move_seconds=time_limit),
        options=MatchOptions(games, openings, opening_moves, seed, score_by, jobs),
        progress=progress,
    )
    typer.echo(outcome)
