"""Commands for play: gtp, match."""

from __future__ import annotations

from pathlib import Path

from kifu.cli import options as opts
from kifu.cli.app import Outcome, Plan, command, note_for_interrupt, progress
from kifu.learn import PACKAGED


@command("echo genmove black | kifu gtp", "echo genmove black | kifu gtp --net run --temperature 0.5", has_result=False)
@opts.net
@opts.rules
@opts.rank("Play as a player of this rank, such as 3d.", shown="unknown")
@opts.opponent("Rank of the opponent.", shown="the same rank")
@opts.server
@opts.option(
    "--temperature", "T", "0 plays the most probable move, 1 samples from the policy.", default=0.0, type=opts.NUMBER
)
@opts.number("--seed", "Seed of the sampling.", least=0, shown="random")
@opts.option(
    "--resign", "P", "Resign at the third move in a row below this winning probability.", shown="never",
    type=opts.NUMBER,
)  # fmt: skip
@opts.symmetries
def gtp(
    net: str, rules: str, rating: float | None, opponent: float | None, server: str | None, temperature: float,
    seed: int | None, resign: float | None, symmetries: bool,
) -> None:  # fmt: skip
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
    'kifu match run "kifu gtp" -o match --games 2 --board 9x9',
    'kifu match run "kifu gtp" -o other --move-time 10s --dry-run',
)
@opts.argument("a", "A", "Command line of a GTP program, in quotes; or a net.", type=opts.PLACE, names=PACKAGED)
@opts.argument("b", "B", "The opponent.", type=opts.PLACE, names=PACKAGED)
@opts.output("Folder for the games and match.json.")
@opts.number("--games", "Number of games; openings are played with both colours.", 20)
@opts.board("19x19")
@opts.option("--komi", "POINTS", "Points for White.", default=7.5, type=opts.NUMBER)
@opts.rules
@opts.option("--openings", "CATALOGUE", "Catalogue to take openings from.", shown="corner moves", type=opts.PATH)
@opts.number("--opening-moves", "Length of a catalogue's openings.", 8)
@opts.number("--seed", "Seed of the choice of openings.", 1, least=0)
@opts.option(
    "--move-time", "DURATION", "Time per move; exceeding it forfeits the game.", default=60.0, shown="60s",
    type=opts.DURATION,
)  # fmt: skip
@opts.option("--score-by", "COMMAND", "GTP program that scores games.", shown="GNU Go, if installed", type=opts.PLACE)
@opts.number("--jobs", "Number of parallel games.", 1)
@opts.dry_run
def match(
    a: str, b: str, output: Path, games: int, board: str, komi: float, rules: str, openings: Path | None,
    opening_moves: int, seed: int, move_time: float, score_by: str | None, jobs: int, dry_run: bool,
) -> Outcome:  # fmt: skip
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
