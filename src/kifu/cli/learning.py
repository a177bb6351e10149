"""Commands for networks: train, evaluate, annotate, mix, predict, export, problems."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click
from click.core import ParameterSource

from kifu.cli import options as opts
from kifu.cli.app import Outcome, Plan, command, note_for_interrupt, progress
from kifu.errors import RecipeError
from kifu.learn import PACKAGED


@command(
    "kifu train quick-cpu sets/train.parquet -o run --set validation=0.1 --time 30s",
    "kifu train small sample -o small --set batch_size=128 --dry-run",
)
@opts.recipe
@opts.sources
@opts.output("Run directory: nets, checkpoints, metrics.")
@opts.option(
    "--validate", "SOURCE", "Games to validate on. Repeatable.", shown="a share of the training games", multiple=True,
    type=opts.PLACE,
)  # fmt: skip
@opts.flag("--resume", "Resume the run in that directory.")
@opts.overwrite
@opts.option(
    "--time", "DURATION", "Time budget, such as 90s, 15m or 2h.", shown="the recipe's", type=opts.DURATION
)  # fmt: skip
@opts.overrides("the recipe", "optimizer.lr=0.01")
@opts.number("--devices", "Number of GPUs, or of processes on the CPU.", 1)
@opts.option("--accelerator", "auto|cpu|gpu", "Kind of the devices.", default="auto", names=("auto", "cpu", "gpu"))
@opts.jobs
@opts.dry_run
def train(
    recipe: str, sources: opts.Strings, output: Path, validate: opts.Strings, resume: bool, overwrite: bool,
    time: float | None, set_: opts.Strings, devices: int, accelerator: str, jobs: int | None, dry_run: bool,
) -> Outcome | None:  # fmt: skip
    """Train a net to predict the next move.

    Ctrl-C stops after a step; --resume continues bit-exactly.
    """
    from kifu.datasets.sources import require_games
    from kifu.recipes.schema import load_training

    loaded = load_training(recipe, [*set_, *([] if time is None else [f"max_minutes={time / 60!r}"])])
    require_games([*sources, *validate], "training")

    from kifu.learn.data import count_training_draws  # imports torch
    from kifu.learn.train import TrainOptions, check_run, is_first_process
    from kifu.learn.train import train as train_net
    from kifu.report.tables import print_draws

    options = TrainOptions(devices, accelerator, jobs)
    if dry_run:
        check_run(loaded, output, resume, overwrite, options)
        drawn = count_training_draws(loaded, sources, validate, 0, jobs)
        return Plan.of_sources([*sources, *validate], [output], drawn).outcome(lambda: print_draws(drawn))
    note_for_interrupt("--resume continues a run that has begun")
    run = train_net(
        loaded, sources, output, validate=validate, resume=resume, overwrite=overwrite, options=options,
        progress=progress,
    )  # fmt: skip
    if not is_first_process():
        return None
    return Outcome.of_output(output, run.summary(), run.model_dump(mode="json"), 130 if run.state == "stopped" else 0)


@command(
    "kifu evaluate sets/test.parquet --net run --positions 300",
    "kifu evaluate sets/test.parquet --net run --positions 300 --html run.html",
)
@opts.sources
@opts.nets
@opts.option(
    "--set sets", "NAME", "Measure on those games of a fixed set (see `kifu list sets`) that the sources hold; all: on"
    " those of every set. Repeatable.", multiple=True,
)  # fmt: skip
@opts.flag("--compare", "Compare results of --set: each SOURCE is a file that --json wrote.")
@opts.output("With --set or --compare: write a Markdown page that compares nets.", required=False)
@opts.board(shown="the net's")
@opts.flag("--legal", "Mask illegal moves.")
@opts.symmetries
@opts.flag("--passes", "Include passes.")
@opts.number("--per-game", "Maximum number of positions per game.")
@opts.number("--positions", "Maximum number of positions.")
@opts.number("--seed", "Seed of the sampled positions and the bootstrap.", 0, least=0)
@opts.precision
@opts.overlap
@opts.server
@opts.option("--html", "FILE", "Write a page with plots and boards.", type=opts.OUTPUT)
@opts.jobs
def evaluate(
    sources: opts.Strings, nets: opts.Strings, sets: opts.Strings, compare: bool, output: Path | None,
    board: str | None, legal: bool, symmetries: bool, passes: bool, per_game: int | None, positions: int | None,
    seed: int, precision: str, overlap: str, server: str | None, html: Path | None, jobs: int | None,
) -> Outcome:  # fmt: skip
    """Measure how well nets predict the moves of games, or of fixed test sets.

    Top-1, 3 and 5, likelihood and calibration are reported with 95 % intervals. Training leaves the fixed sets out.
    """
    if compare:
        return _compare(sources, output)
    if sets:
        return _evaluate_sets(sources, nets or (PACKAGED[0],), sets, output, symmetries=symmetries, jobs=jobs)
    if output is not None:
        raise RecipeError(f"-o {output} needs --set or --compare; --html writes a page")
    from kifu.learn.evaluate import evaluate as evaluate_nets
    from kifu.learn.results import EvalOptions
    from kifu.report.evaluation import print_evaluation, write_page

    options = EvalOptions(board, legal, symmetries, passes, per_game, positions, seed, precision, overlap, server)  # type: ignore[arg-type]
    evaluation = evaluate_nets(nets or [PACKAGED[0]], sources, options, jobs=jobs, progress=progress)
    write = None if html is None else partial(write_page, evaluation, html)
    return Outcome(lambda: print_evaluation(evaluation), evaluation, write=write)


def _evaluate_sets(
    sources: opts.Strings,
    nets: opts.Strings,
    sets: opts.Strings,
    output: Path | None,
    *,
    symmetries: bool,
    jobs: int | None,
) -> Outcome:
    from kifu.io import write_output
    from kifu.learn.benchmark import benchmark
    from kifu.report.evaluation import compare, print_results

    context, allowed = click.get_current_context(), ("sources", "nets", "sets", "output", "symmetries", "jobs")
    for each in context.command.params:
        chosen = context.get_parameter_source(each.name) == ParameterSource.COMMANDLINE
        if chosen and each.name not in (*allowed, "json", "overwrite", "quiet", "verbose"):
            raise RecipeError(f"a fixed set is measured in one way, so {each.opts[-1]} cannot be combined with --set")
    names = () if sets == ("all",) else sets
    result = benchmark(nets, sources, names, symmetries=symmetries, jobs=jobs, progress=progress)
    write = None if output is None else partial(write_output, output, compare([result]).encode())
    return Outcome(lambda: print_results(result), result, write=write)


def _compare(paths: opts.Strings, output: Path | None) -> Outcome:
    from kifu.io import write_output
    from kifu.learn.results import read_results
    from kifu.report.evaluation import compare

    results = [read_results(path) for path in paths]
    page = compare(results)
    data = [each.model_dump(mode="json") for each in results]
    write = None if output is None else partial(write_output, output, page.encode())
    return Outcome(page.rstrip("\n"), data, write=write)


@command(
    "kifu annotate sets/test.parquet -o moves.parquet --net run --net small",
    "kifu annotate games.parquet -o labels.parquet --net KATAGO.bin.gz --per-game 10 --points",
)
@opts.catalogues
@opts.output("The .parquet file to write.")
@opts.nets
@opts.board(shown="the first net's")
@opts.symmetries
@opts.mover_rank
@opts.opponent_rank
@opts.server
@opts.precision
@opts.number("--per-game", "Number of positions per game, each with the one after its move.", shown="all")
@opts.flag("--points", "Write lead and ownership; requires networks of KataGo.")
@opts.overwrite
@opts.jobs
@opts.engine
@opts.dry_run
def annotate(
    catalogues: opts.Strings, output: Path, nets: opts.Strings, board: str | None, symmetries: bool,
    rating: float | None, opponent: float | None, server: str | None, precision: str, per_game: int | None,
    points: bool, overwrite: bool, jobs: int | None, engine: str, dry_run: bool,
) -> Outcome:  # fmt: skip
    """Write what nets think of each move of catalogues, as a table.

    Each row has the probability and choice of a move, the entropy, the most likely move, and the value.
    """
    from kifu.learn.annotate import AnnotateOptions, prepare
    from kifu.learn.annotate import annotate as annotate_games

    options = AnnotateOptions(board, symmetries, precision, rating, opponent, server, per_game, points)  # type: ignore[arg-type]
    names = nets or [PACKAGED[0]]
    if dry_run:
        prepare(names, catalogues, options)
        return Plan.of_catalogues(catalogues, [output]).outcome()
    note_for_interrupt("the same command resumes")
    report = annotate_games(
        names, catalogues, output, options, overwrite=overwrite, jobs=jobs, engine=engine, progress=progress
    )
    return Outcome.of_output(output, report)


@command(
    "kifu mix sets/validation.parquet --net human --net small -o people.mix",
    "kifu mix sets/test.parquet --net human --net small -o few.mix --positions 99",
)
@opts.sources
@opts.output("The .mix file to write, in the folder of the nets.")
@opts.option(
    "--net nets", "NET", "A net of the mixture. Twice or more.", multiple=True, type=opts.PLACE, names=PACKAGED
)
@opts.board(shown="the first net's")
@opts.number("--positions", "Maximum number of positions.", 20_000)
@opts.number("--seed", "Seed of the sampled positions.", 0, least=0)
@opts.overlap
@opts.jobs
def mix(
    sources: opts.Strings, output: Path, nets: opts.Strings, board: str | None, positions: int, seed: int, overlap: str,
    jobs: int | None,
) -> Outcome:  # fmt: skip
    """Fit a mixture of nets to the moves and results of games.

    The games must be others than those on which the mixture is evaluated.
    """
    from kifu.learn.evaluate import fit_mix
    from kifu.learn.net import describe_net
    from kifu.learn.results import EvalOptions

    options = EvalOptions(board, legal=True, positions=positions, seed=seed, overlap=overlap)  # type: ignore[arg-type]
    fitted = fit_mix(nets, sources, output, options, jobs=jobs, progress=progress)
    return Outcome(describe_net(output), fitted.model_dump(mode="json"), summary=True)


@command("kifu predict sample --game 3 --move 57", "kifu predict sample --net run --game 3 --move 57 -o heat.png")
@opts.game
@opts.net
@opts.game_number
@opts.move
@opts.number("--top", "Number of moves to list.", 5)
@opts.mover_rank
@opts.opponent_rank
@opts.server
@opts.symmetries
@opts.picture
def predict(
    game: str, net: str, number: int, move: int | None, top: int, rating: float | None, opponent: float | None,
    server: str | None, symmetries: bool, output: Path | None,
) -> Outcome:  # fmt: skip
    """Predict the next move of a position; draw a heat map."""
    from kifu.learn.inference import set_server
    from kifu.learn.net import open_net
    from kifu.records.paths import as_path
    from kifu.report.games import find_game
    from kifu.report.predictions import describe, draw_heatmap, predict_move, prediction_to_dict
    from kifu.viz.boards import save

    (opened,) = set_server([open_net(net, symmetries=symmetries)], server)
    found = find_game(as_path(game), number)
    plies, predicted = predict_move(opened, found, move, rating=rating, opponent=opponent)
    if output is not None:
        save(draw_heatmap(found.game, plies, predicted, top), output)
    data = prediction_to_dict(opened.name, found.game, plies, predicted, top)
    return Outcome(describe(found, plies, predicted, top), data)


@command("kifu export run -o net.onnx", "kifu export run -o net.onnx --dry-run", kernels=False)
@opts.argument("checkpoint", "NET", "A net: human, small, a run directory, or a file.", type=opts.PLACE, names=PACKAGED)
@opts.output("The file to write: net.onnx, net.safetensors of half the size, or net.bin.gz for KataGo.")
@opts.dry_run
def export(checkpoint: str, output: Path, dry_run: bool) -> Outcome:
    """Export a net to ONNX and verify it, to half its size, or a network of KataGo to its own format."""
    from kifu.learn.net import check_net

    if dry_run:
        check_net(checkpoint)
        return Plan((checkpoint,), (str(output),)).outcome()
    from kifu.learn.export import export_net

    report = export_net(checkpoint, output)
    return Outcome(str(report), report, summary=True)


@command(
    "kifu problems games.parquet --net net.bin.gz",
    "kifu problems games.parquet --net net.bin.gz --ranks 1d/15k --overwrite",
)
@opts.catalogue
@opts.net
@opts.option("--ranks-net", "NET", "A net that takes ranks.", default=PACKAGED[0], type=opts.PLACE, names=PACKAGED)
@opts.option("--ranks", "STRONG/WEAK", "Two ranks. Repeatable.", default=("7d/10k",), multiple=True)
@opts.number("--count", "Number of problems for each two ranks.", 100)
@opts.where
@opts.overwrite
def problems(
    catalogue: Path, net: str, ranks_net: str, ranks: opts.Strings, count: int, where: str | None, overwrite: bool
) -> Outcome:
    """Search games of people for problems, which `kifu serve` shows, and keep them beside the catalogue.

    In at least 60 % the stronger rank chooses a move within a point of the best, in at most 25 % the weaker rank, whose
    likeliest move loses at least two points by the net, a network of KataGo.
    """
    from kifu.learn.review import find_problems, problems_path

    note_for_interrupt("the same command continues the search")
    counts, positions = find_problems(
        catalogue, net, ranks_net, ranks, count=count, where=where, overwrite=overwrite, progress=progress
    )
    found = ", ".join(f"{number:,} problems for {pair}" for pair, number in counts.items())
    report = f"{found} in {positions:,} positions"
    return Outcome.of_output(problems_path(catalogue), report, {"problems": counts, "positions": positions})
