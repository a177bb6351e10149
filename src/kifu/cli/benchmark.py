"""The command `kifu benchmark`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from kifu.cli.app import Outcome, command, progress
from kifu.cli.options import Jobs, Output, Symmetries


@command("Networks", "kifu benchmark", "kifu benchmark --list kgs-2018q4@1", kernels=True)
def benchmark(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NET SOURCE]...",
            help="A net, and archives, folders, records or catalogues that hold the games.",
            show_default="list the sets",
        ),
    ] = None,
    others: Annotated[
        list[str] | None,
        typer.Option("--with", metavar="NET", help="Another net, evaluated on the same positions. Repeatable."),
    ] = None,
    sets: Annotated[
        str | None,
        typer.Option(
            metavar="SETS", help="Benchmark sets, such as kgs-2016,kgs-2018q4.", show_default="all in the sources"
        ),
    ] = None,
    symmetries: Symmetries = False,
    listing: Annotated[
        bool, typer.Option("--list", help="List the hashes of the games of the set named instead of a net.")
    ] = False,
    compare: Annotated[
        bool, typer.Option("--compare", help="Compare results, files that --json wrote, instead of nets.")
    ] = False,
    output: Annotated[Path | None, Output(help="Write a Markdown page that compares the nets.")] = None,
    jobs: Jobs = None,
) -> Outcome:
    """Measure nets on fixed, named test sets, which training leaves out.

    NET SOURCE... measures a net on the games of the sets that the sources hold.
    """
    from kifu.atomic_io import write_output
    from kifu.errors import RecipeError
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
    if len(given) < 2:
        raise RecipeError(f"benchmark takes a net and sources of games, got {given[0]} only")
    names = [] if sets is None else [name.strip() for name in sets.split(",")]
    result = benchmark_nets(
        [given[0], *(others or ())], given[1:], names, symmetries=symmetries, jobs=jobs, progress=progress
    )
    write = None if output is None else partial(write_output, output, compare_results([result]).encode())
    return Outcome(lambda: print_results(result), result, write=write)
