"""Commands for networks: train, evaluate, annotate, mix, predict, export, rank, benchmark."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

from kifu.cli import options as opts
from kifu.cli.app import Outcome, Plan, command, note_for_interrupt, progress
from kifu.cli.options import Precision
from kifu.learn import PACKAGED

_PANEL = "Networks"

Validate = Annotated[
    list[str] | None, opts.option("SOURCE", "Games to validate on. Repeatable.", "a share of the training games")
]


Overlap = Annotated[
    str, opts.option("refuse|drop|keep", "Treatment of games that a net was trained on or validated with.")
]


@command(
    _PANEL,
    "kifu train quick-cpu sets/train.parquet -o run --set validation=0.1 --time 30s",
    "kifu train small sample -o small --set batch_size=128 --dry-run",
    kernels=True,
)
def train(  # noqa: PLR0913 - command-line options
    recipe: opts.Recipe,
    sources: opts.Sources,
    output: Annotated[Path, opts.Output(help="Run directory: nets, checkpoints, metrics.")],
    validate: Validate = None,
    resume: Annotated[bool, opts.flag("--resume", "Resume the run in that directory.")] = False,
    overwrite: opts.Overwrite = False,
    time: Annotated[
        float | None, opts.Duration(help="Time budget, such as 90s, 15m or 2h.", show_default="the recipe's")
    ] = None,
    set_: Annotated[list[str] | None, opts.overrides("the recipe", "optimizer.lr=0.01")] = None,
    devices: Annotated[int, opts.number("Number of GPUs, or of processes on the CPU.")] = 1,
    accelerator: Annotated[str, opts.option("auto|cpu|gpu", "Kind of the devices.")] = "auto",
    jobs: opts.Jobs = None,
    dry_run: opts.DryRun = False,
) -> Outcome | None:
    """Train a net to predict the next move.

    Ctrl-C stops after a step; --resume continues bit-exactly.
    """
    from kifu.recipes.schema import load_training

    loaded = load_training(recipe, [*(set_ or ()), *([] if time is None else [f"max_minutes={time / 60!r}"])])

    from kifu.learn.data import count_training_draws  # imports torch
    from kifu.learn.train import TrainOptions, check_run, is_first_process
    from kifu.learn.train import train as train_net
    from kifu.report.tables import print_draws

    options = TrainOptions(devices, accelerator, jobs)
    if dry_run:
        check_run(loaded, output, resume, overwrite, options)
        drawn = count_training_draws(loaded, sources, validate or (), 0, jobs)
        return Plan.of_sources([*sources, *(validate or ())], [output], drawn).outcome(lambda: print_draws(drawn))
    note_for_interrupt("--resume continues a run that has begun")
    run = train_net(
        loaded, sources, output, validate=validate or (), resume=resume, overwrite=overwrite, options=options,
        progress=progress,
    )  # fmt: skip
    if not is_first_process():
        return None
    return Outcome.of_output(output, run.summary(), run.model_dump(mode="json"), 130 if run.state == "stopped" else 0)


@command(
    _PANEL,
    "kifu evaluate sets/test.parquet --net run --positions 300",
    "kifu evaluate sets/test.parquet --net run --positions 300 --html run.html",
    kernels=True,
)
def evaluate(  # noqa: PLR0913 - command-line options
    sources: opts.Sources,
    nets: opts.Nets = None,
    board: Annotated[str | None, opts.Board(show_default="the net's")] = None,
    legal: Annotated[bool, opts.flag("--legal", "Mask illegal moves.")] = False,
    symmetries: opts.Symmetries = False,
    passes: Annotated[bool, opts.flag("--passes", "Include passes.")] = False,
    per_game: Annotated[int | None, opts.number("Maximum number of positions per game.")] = None,
    positions: Annotated[int | None, opts.number("Maximum number of positions.")] = None,
    seed: Annotated[int, opts.number("Seed of the sampled positions and the bootstrap.", least=0)] = 0,
    precision: Precision = "float32",
    overlap: Overlap = "refuse",
    server: opts.Server = None,
    html: Annotated[Path | None, opts.OutputFile(help="Write a page with plots and boards.")] = None,
    jobs: opts.Jobs = None,
) -> Outcome:
    """Measure how well nets predict the moves of games.

    Top-1, 3 and 5, likelihood and calibration are reported with 95 % intervals.
    """
    from kifu.learn.evaluate import evaluate as evaluate_nets
    from kifu.learn.results import EvalOptions
    from kifu.report.evaluation import print_evaluation, write_page

    options = EvalOptions(board, legal, symmetries, passes, per_game, positions, seed, precision, overlap, server)  # type: ignore[arg-type]
    evaluation = evaluate_nets(nets or [PACKAGED[0]], sources, options, jobs=jobs, progress=progress)
    write = None if html is None else partial(write_page, evaluation, html)
    return Outcome(lambda: print_evaluation(evaluation), evaluation, write=write)


@command(
    _PANEL,
    "kifu annotate sets/test.parquet -o moves.parquet --net run --net small",
    "kifu annotate sets/test.parquet -o moves.parquet --dry-run",
    kernels=True,
)
def annotate(  # noqa: PLR0913 - command-line options
    catalogues: opts.Catalogues,
    output: Annotated[Path, opts.Output(help="The .parquet file to write.")],
    nets: opts.Nets = None,
    board: Annotated[str | None, opts.Board(show_default="the first net's")] = None,
    symmetries: opts.Symmetries = False,
    rating: opts.Mover = None,
    opponent: opts.Opponent = None,
    server: opts.Server = None,
    precision: Precision = "float32",
    overwrite: opts.Overwrite = False,
    jobs: opts.Jobs = None,
    engine: opts.Engine = "threads",
    dry_run: opts.DryRun = False,
) -> Outcome:
    """Write what nets think of each move of catalogues, as a table.

    Each row has the probability and choice of a move, the entropy, the most likely move, and the value.
    """
    from kifu.learn.annotate import AnnotateOptions, prepare
    from kifu.learn.annotate import annotate as annotate_games

    options = AnnotateOptions(board, symmetries, precision, rating, opponent, server)  # type: ignore[arg-type]
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
    _PANEL,
    "kifu mix sets/validation.parquet --net human --net small -o people.mix",
    "kifu mix sets/test.parquet --net human --net small -o few.mix --positions 99",
    kernels=True,
)
def mix(
    sources: opts.Sources,
    output: Annotated[Path, opts.Output(help="The .mix file to write, in the folder of the nets.")],
    nets: Annotated[list[str] | None, opts.NetOption(help="A net of the mixture. Twice or more.")] = None,
    board: Annotated[str | None, opts.Board(show_default="the first net's")] = None,
    positions: Annotated[int, opts.number("Maximum number of positions.")] = 20_000,
    seed: Annotated[int, opts.number("Seed of the sampled positions.", least=0)] = 0,
    overlap: Overlap = "refuse",
    jobs: opts.Jobs = None,
) -> Outcome:
    """Fit a mixture of nets to the moves and results of games.

    The games must be others than those on which the mixture is evaluated.
    """
    from kifu.learn.evaluate import fit_mix
    from kifu.learn.net import describe_net
    from kifu.learn.results import EvalOptions

    options = EvalOptions(board, legal=True, positions=positions, seed=seed, overlap=overlap)  # type: ignore[arg-type]
    fitted = fit_mix(nets or (), sources, output, options, jobs=jobs, progress=progress)
    return Outcome(describe_net(output), fitted.model_dump(mode="json"), summary=True)


@command(
    _PANEL,
    "kifu predict sample --game 3 --move 57",
    "kifu predict sample --net run --game 3 --move 57 -o heat.png",
    kernels=True,
)
def predict(  # noqa: PLR0913 - command-line options
    container: opts.Container,
    net: opts.Net = PACKAGED[0],
    number: opts.GameNumber = 1,
    move: opts.Move = None,
    top: Annotated[int, opts.number("Number of moves to list.")] = 5,
    rating: opts.Mover = None,
    opponent: opts.Opponent = None,
    server: opts.Server = None,
    symmetries: opts.Symmetries = False,
    output: opts.Picture = None,
) -> Outcome:
    """Predict the next move of a position; draw a heat map."""
    from kifu.learn.inference import set_server
    from kifu.learn.net import open_net
    from kifu.records.paths import as_path
    from kifu.report.games import find_game
    from kifu.report.predictions import describe, draw_heatmap, predict_move, prediction_to_dict
    from kifu.viz.boards import save

    (opened,) = set_server([open_net(net, symmetries=symmetries)], server)
    game = find_game(as_path(container), number)
    plies, found = predict_move(opened, game, move, rating=rating, opponent=opponent)
    if output is not None:
        save(draw_heatmap(game.game, plies, found, top), output)
    return Outcome(describe(game, plies, found, top), prediction_to_dict(opened.name, game.game, plies, found, top))


@command(_PANEL, "kifu export run -o net.onnx", "kifu export run -o net.onnx --dry-run")
def export(
    checkpoint: opts.Checkpoint,
    output: Annotated[
        Path,
        opts.Output(help="The file to write: net.onnx, net.safetensors of half the size, or net.bin.gz for KataGo."),
    ],
    dry_run: opts.DryRun = False,
) -> Outcome:
    """Export a net to ONNX and verify it, to half its size, or a network of KataGo to its own format."""
    from kifu.learn.net import check_net

    if dry_run:
        check_net(checkpoint)
        return Plan((checkpoint,), (str(output),)).outcome()
    from kifu.learn.export import export_net

    report = export_net(checkpoint, output)
    return Outcome(str(report), report, summary=True)


@command(
    _PANEL,
    "kifu problems games.parquet -o problems.sgf --net net.bin.gz",
    "kifu problems games.parquet -o some.sgf --net net.bin.gz --count 3",
    kernels=True,
)
def problems(
    catalogue: Annotated[Path, opts.argument("CATALOGUE", "A catalogue made by `kifu ingest`.")],
    output: Annotated[Path, opts.Output(help="The .sgf file to write.")],
    net: opts.Net = PACKAGED[0],
    where: Annotated[str | None, opts.option("SQL", "Only games for which this holds.")] = None,
    count: Annotated[int, opts.number("Number of problems.", max=1000)] = 10,
    seed: Annotated[int, opts.number("Seed of the order of games.", least=0)] = 0,
) -> Outcome:
    """Collect positions in which the move played loses at least two points. Requires a network of KataGo."""
    from kifu.io import write_output
    from kifu.learn.net import open_net
    from kifu.learn.review import Reviewer, search_problems, write_problems
    from kifu.search.searcher import Searcher

    searcher = Searcher(catalogue)
    search, found, tried = search_problems(Reviewer(open_net(net)), searcher, searcher.select(where), seed), [], 0
    with progress("searching problems", count, "problems") as bar:
        for _, problem in search:
            tried += 1
            if problem is not None:
                found.append(problem)
                bar.advance(1)
            if len(found) == count:
                break
    write_output(output, write_problems(found))
    report = f"{len(found)} problems from {tried:,} games"
    return Outcome.of_output(output, report, {"problems": len(found), "games": tried})


@command(_PANEL, "kifu benchmark", "kifu benchmark --list kgs-2018q4@1", kernels=True)
def benchmark(
    arguments: Annotated[
        list[str] | None,
        opts.argument("[SOURCE]...", "Archives, folders, records or catalogues that hold the games.", "list the sets"),
    ] = None,
    nets: opts.Nets = None,
    sets: Annotated[
        str | None, opts.option("SETS", "Benchmark sets, such as kgs-2016,kgs-2018q4.", "all in the sources")
    ] = None,
    symmetries: opts.Symmetries = False,
    listing: Annotated[
        bool, opts.flag("--list", "List the hashes of the games of the set named instead of a net.")
    ] = False,
    compare: Annotated[
        bool, opts.flag("--compare", "Compare results, files that --json wrote, instead of nets.")
    ] = False,
    output: Annotated[Path | None, opts.Output(help="Write a Markdown page that compares the nets.")] = None,
    jobs: opts.Jobs = None,
) -> Outcome:
    """Measure nets on fixed, named test sets, which training leaves out.

    With sources, nets are measured on the games of the sets that these hold.
    """
    from kifu.io import write_output
    from kifu.learn.benchmark import benchmark as benchmark_nets
    from kifu.learn.benchmark import load_set, set_names
    from kifu.learn.results import read_results
    from kifu.report.evaluation import compare as compare_results
    from kifu.report.evaluation import print_results, print_sets

    given = arguments or []
    if compare:
        results = [read_results(path) for path in given]
        page = compare_results(results)
        write = None if output is None else partial(write_output, output, page.encode())
        return Outcome(page.rstrip("\n"), [each.model_dump(mode="json") for each in results], write=write)
    if listing or not given:
        found = [load_set(name) for name in (given or set_names())]
        data = [each.model_dump(mode="json", exclude={"hashes"}) for each in found]
        return Outcome("".join(each.listing() for each in found).rstrip("\n") if listing else print_sets, data)
    names = [] if sets is None else [name.strip() for name in sets.split(",")]
    result = benchmark_nets(nets or [PACKAGED[0]], given, names, symmetries=symmetries, jobs=jobs, progress=progress)
    write = None if output is None else partial(write_output, output, compare_results([result]).encode())
    return Outcome(lambda: print_results(result), result, write=write)
