"""The command `match`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kifu.cli.app import Written, app


@app.command()
def match(
    a: Annotated[str, typer.Argument(metavar="A", help="A GTP program's command line, in quotes; or a checkpoint.")],
    b: Annotated[str, typer.Argument(metavar="B", help="Another one.")],
    into: Annotated[Path, Written(help="Folder for the games and match.json.")],
    games: Annotated[int, typer.Option(min=1, help="How many; each opening is played with both colours.")] = 20,
    size: Annotated[int, typer.Option(min=2, max=25, help="Of the board.")] = 19,
    komi: Annotated[float, typer.Option(help="Points for White.")] = 7.5,
    rules: Annotated[str, typer.Option(help="What is illegal: chinese, tromp-taylor, japanese ...")] = "chinese",
    openings: Annotated[
        Path | None, typer.Option(help="Openings of this catalogue's games.", show_default="made of corner moves")
    ] = None,
    opening_moves: Annotated[int, typer.Option(min=1, help="Of a catalogue's openings.")] = 8,
    seed: Annotated[int, typer.Option(help="Of the choice of openings.")] = 1,
    time_limit: Annotated[float, typer.Option(help="Seconds for a move; who takes longer loses.")] = 60.0,
    score_by: Annotated[
        str | None, typer.Option(help="GTP program that counts finished games.", show_default="GNU Go if it is there")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Games at a time.")] = 1,
) -> None:
    """Let two GTP programs play; games are kept, and those already played are not played again."""
    from kifu.kernel import announce_compilation
    from kifu.play.match import MatchOptions, play_match
    from kifu.play.referee import MatchRules
    from kifu.progress import progress

    announce_compilation()
    outcome = play_match(
        a,
        b,
        into,
        rules=MatchRules(size=size, komi=komi, ruleset=rules.lower(), move_seconds=time_limit),
        options=MatchOptions(games, openings, opening_moves, seed, score_by, jobs),
        progress=progress,
    )
    typer.echo(outcome)
