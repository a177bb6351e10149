"""Commands for data sets: demo, build, estimate, recipes, planes, formats, inspect, audit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from time import process_time
from typing import Annotated

import typer

from kifu.cli.app import Engine, Jobs, Json, Output, Sources, app, overrides, print_list, print_markdown, write_json


@app.command()
def demo(
    output: Annotated[Path, Output(help="Folder for the results.")] = Path("kifu-demo"),
    minutes: Annotated[float, typer.Option(min=0.01, help="Training time in minutes.")] = 1.0,
    jobs: Jobs = None,
) -> None:
    """Run the whole pipeline on the bundled sample: data sets, checks, a trained net, pictures."""
    from kifu.demo import run_demo
    from kifu.kernel import announce_compilation

    announce_compilation()
    run_demo(output, jobs, minutes, typer.echo)


@app.command()
def build(  # noqa: PLR0913 - command-line options
    recipe: Annotated[str, typer.Argument(help="Name of a recipe (see `kifu recipes`), or a .toml file.")],
    sources: Sources,
    output: Annotated[Path, Output(help="Folder for the data sets.")],
    format: Annotated[
        str | None, typer.Option(help="Format (see `kifu formats`).", show_default="the recipe's")
    ] = None,
    sets: Annotated[
        str | None, typer.Option(help="Sets to build, such as test,train10k.", show_default="the recipe's")
    ] = None,
    index: Annotated[Path | None, typer.Option(help="Index page (a file) of the archives to sample from.")] = None,
    set_: Annotated[list[str] | None, overrides("the recipe", "seed=1")] = None,
    jobs: Jobs = None,
    engine: Engine = "threads",
) -> None:
    """Build the data sets of a recipe with their manifests; up-to-date ones are kept."""
    from kifu.kernel import announce_compilation
    from kifu.progress import progress
    from kifu.recipes.pipeline import build as build_sets
    from kifu.recipes.schema import load_recipe

    announce_compilation()
    found = load_recipe(recipe, [*(set_ or ()), *([] if format is None else [f"format={format}"])])
    names = None if sets is None else [name.strip() for name in sets.split(",")]
    for report in build_sets(
        found, sources, output, sets=names, index=index, jobs=jobs, engine=engine, progress=progress
    ):
        typer.echo(report)


@app.command()
def estimate(
    sources: Sources,
    recipe: Annotated[
        str | None, typer.Option(help="Estimate a build of this recipe.", show_default="estimate kifu ingest")
    ] = None,
    clean: Annotated[str | None, typer.Option(help="Cleaning rules, as in kifu ingest.", show_default="legal")] = None,
    set_: Annotated[list[str] | None, overrides("the recipe, or of the rules", "min_rating=36")] = None,
    jobs: Jobs = None,
    json: Json = None,
) -> None:
    """Estimate games, positions, time, memory and disk of an ingest or a build from a sample."""
    from kifu.corpus.cleaning import load_cleaning_rules
    from kifu.estimate import estimate as estimate_run
    from kifu.kernel import announce_compilation
    from kifu.recipes.schema import load_recipe

    announce_compilation()
    found = None if recipe is None else load_recipe(recipe, set_ or ())
    rules = None
    if recipe is None or clean is not None:
        rules = load_cleaning_rules(clean or "legal", () if recipe else set_ or ())
    startup = process_time()  # the run will have to load Python and the libraries, too
    result = estimate_run(sources, found, clean=rules, jobs=jobs)
    result = replace(result, startup=result.startup + startup)
    write_json(result.to_json(), json)
    if json != Path("-"):
        typer.echo(result)


@app.command()
def recipes(name: Annotated[str | None, typer.Argument(help="Show this recipe.")] = None) -> None:
    """List the recipes, or show one."""
    from kifu.recipes.schema import KgsgoRecipe, load_recipe, recipe_names, recipe_text

    if name is not None:
        load_recipe(name)
        typer.echo(recipe_text(name), nl=False)
        return
    loaded = {each: load_recipe(each) for each in recipe_names()}
    sets = {each: f" (sets {', '.join(r.sets)})" if isinstance(r, KgsgoRecipe) else "" for each, r in loaded.items()}
    print_list((each, recipe.title + sets[each]) for each, recipe in loaded.items())


@app.command()
def planes(name: Annotated[str | None, typer.Argument(help="Show the card of this plane set.")] = None) -> None:
    """List the plane sets, or show the card of one."""
    from kifu.planes.registry import PLANE_SETS, find_plane_set

    if name is not None:
        found = find_plane_set(name)
        if found.name in PLANE_SETS:
            _print_card("planes", found.name)
        else:
            print_list((str(k), plane) for k, plane in enumerate(found.plane_names))
        return
    counts = ((each, "1 plane" if each.planes == 1 else f"{each.planes} planes") for each in PLANE_SETS.values())
    print_list((each.name, f"{count}; {each.title}") for each, count in counts)


@app.command()
def formats(name: Annotated[str | None, typer.Argument(help="Show the card of this format.")] = None) -> None:
    """List the file formats, or show the card of one."""
    from kifu.assets import OTHER_FORMATS
    from kifu.datasets.formats import FORMATS
    from kifu.registry import lookup

    lines = {name: f"holds {each.plane_set or 'any planes'}; {each.title}" for name, each in FORMATS.items()}
    lines |= OTHER_FORMATS
    if name is not None:
        _print_card("formats", lookup({full: full for full in lines}, name, "format"))
        return
    print_list(lines.items())


def _print_card(kind: str, name: str) -> None:
    from kifu.assets import read_card

    print_markdown(read_card(kind, name))


@app.command()
def inspect(
    file: Annotated[str, typer.Argument(help="A data set, catalogue, archive, folder, record, net or run directory.")],
    row: Annotated[int | None, typer.Option(help="Show this example (from 0) of a data set as a board.")] = None,
    output: Annotated[Path | None, Output(help="Draw that example into this .svg or .png file.")] = None,
) -> None:
    """Show the contents of a file: header, counts, checks; one example as a board."""
    from kifu.corpus.catalogue import is_catalogue
    from kifu.describe import (
        describe_catalogue,
        describe_data_set,
        describe_records,
        describe_row,
        draw_row,
        is_data_set,
    )
    from kifu.errors import FormatError, RecipeError
    from kifu.kernel import announce_compilation
    from kifu.learn import BEST, SUFFIX
    from kifu.records.paths import Remote, as_path

    path = as_path(file)
    if output is not None and row is None:
        raise RecipeError(f"-o {output} draws one example; --row is missing")
    if isinstance(path, Path) and (path.suffix == SUFFIX or (path / BEST).exists()):
        from kifu.learn.net import describe_net

        if row is not None:
            raise FormatError(f"{path} is a net and has no rows, got --row {row}")
        typer.echo(describe_net(path))
        return
    announce_compilation()
    if isinstance(path, Remote) or not is_data_set(path):
        if row is not None:
            raise FormatError(f"{path} is not a data set and has no rows, got --row {row}")
        is_table = isinstance(path, Path) and is_catalogue(path)
        typer.echo(describe_catalogue(path) if is_table and isinstance(path, Path) else describe_records(path))
    elif row is None:
        typer.echo(describe_data_set(path))
    else:
        typer.echo(describe_row(path, row))
        if output is not None:
            draw_row(path, row, output)
            typer.echo(f"drew {output}")


@app.command()
def audit(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Two or more catalogues or data sets.")],
    json: Json = None,
    jobs: Jobs = None,
    engine: Engine = "threads",
) -> None:
    """Find games that occur in two sets, also under symmetry; exit with 1 if there are any."""
    from kifu.kernel import announce_compilation
    from kifu.leaks.audit import audit as audit_sets
    from kifu.progress import progress

    announce_compilation()
    report = audit_sets(files, jobs=jobs, engine=engine, progress=progress)
    write_json(report.to_json(), json)
    if json != Path("-"):
        typer.echo(report)
    if report.leaks:
        raise typer.Exit(1)
