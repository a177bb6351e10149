"""Commands for play: gtp, match."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from kifu.cli.app import Outcome, Plan, command, note_for_interrupt, progress
from kifu.cli.options import (
    Board,
    DryRun,
    Duration,
    Net,
    Output,
    PlayerRank,
    Rules,
    Server,
    Symmetries,
    argument,
    number,
    option,
)
from kifu.learn import PACKAGED

_PANEL = "Play"


@command(
    _PANEL, "echo genmove black | kifu gtp", "echo genmove black | kifu gtp --net run --temperature 0.5", kernels=True
)
def gtp(  # noqa: PLR0913 - command-line options
    net: Net = PACKAGED[0],
    rules: Rules = "chinese",
    rating: Annotated[
        float | None, PlayerRank("--rank", help="Play as a player of this rank, such as 3d.", show_default="unknown")
    ] = None,
    opponent: Annotated[
        float | None, PlayerRank("--opponent", help="Rank of the opponent.", show_default="the same rank")
    ] = None,
    server: Server = None,
    temperature: Annotated[float, option("T", "0 plays the most probable move, 1 samples from the policy.")] = 0,
    seed: Annotated[int | None, number("Seed of the sampling.", least=0, default="random")] = None,
    resign: Annotated[
        float | None, option("P", "Resign at the third move in a row below this winning probability.", "never")
    ] = None,
    symmetries: Symmetries = False,
) -> None:
    """Run a GTP engine, for Sabaki, GoGui and referees.

    It speaks GTP 2 on standard input and output.
    """
    from kifu.go.rules import Rules
    from kifu.learn.inference import set_server
    from kifu.learn.net import open_net
    from kifu.play.engine import Engine
    from kifu.play.gtp import serve_stdio
    from kifu.play.player import NetEvaluator, Player

    (opened,) = set_server([open_net(net, rules=Rules.named(rules), symmetries=symmetries)], server)
    opponent = rating if opponent is None else opponent
    evaluator = NetEvaluator(opened, rules=rules, rating=rating, opponent=opponent)
    player = Player(evaluator, temperature=temperature, resign=resign, seed=seed)
    width, height = opened.board
    serve_stdio(Engine(player, rules=rules, width=width, height=height))


@command(
    _PANEL,
    'kifu match run "kifu gtp" -o match --games 2 --board 9x9',
    'kifu match run "kifu gtp" -o other --move-time 10s --dry-run',
    kernels=True,
)
def match(  # noqa: PLR0913 - command-line options
    a: Annotated[str, argument("A", "Command line of a GTP program, in quotes; or a net.")],
    b: Annotated[str, argument("B", "The opponent.")],
    output: Annotated[Path, Output(help="Folder for the games and match.json.")],
    games: Annotated[int, number("Number of games; openings are played with both colours.")] = 20,
    board: Annotated[str, Board()] = "19x19",
    komi: Annotated[float, option("POINTS", "Points for White.")] = 7.5,
    rules: Rules = "chinese",
    openings: Annotated[Path | None, option("CATALOGUE", "Catalogue to take openings from.", "corner moves")] = None,
    opening_moves: Annotated[int, number("Length of a catalogue's openings.")] = 8,
    seed: Annotated[int, number("Seed of the choice of openings.", least=0)] = 1,
    move_time: Annotated[
        float, Duration(help="Time per move; exceeding it forfeits the game.", show_default="60s")
    ] = 60.0,
    score_by: Annotated[str | None, option("COMMAND", "GTP program that scores games.", "GNU Go, if installed")] = None,
    jobs: Annotated[int, number("Number of parallel games.")] = 1,
    dry_run: DryRun = False,
) -> Outcome:
    """Play games between two GTP programs and score the match.

    A match that was interrupted, or shall have more games, is resumed.
    """
    from kifu.errors import RecipeError
    from kifu.play.match import MatchOptions, play_match
    from kifu.play.referee import MatchRules
    from kifu.point import parse_board

    width, height = parse_board(board)
    if width != height:
        raise RecipeError(f"GTP boards are square, got {board}")
    note_for_interrupt("the same command resumes")
    outcome = play_match(
        a,
        b,
        output,
        rules=MatchRules(size=width, komi=komi, ruleset=rules.lower(), move_seconds=move_time),
        options=MatchOptions(games, openings, opening_moves, seed, score_by, jobs),
        dry_run=dry_run,
        progress=progress,
    )
    if dry_run:
        return Plan.of([a, b, *([] if openings is None else [openings])], [output]).outcome()
    return Outcome(str(outcome), outcome, summary=True)
