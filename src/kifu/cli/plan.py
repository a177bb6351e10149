"""The command that tells what a run will take."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from time import process_time
from typing import Annotated

import typer

from kifu.cli.app import Jobs, Written, app


@app.command()
def plan(
    sources: Annotated[
        list[str], typer.Argument(metavar="SOURCE", help="Archives, folders, records, catalogues: any mix.")
    ],
    recipe: Annotated[
        str | None, typer.Option(help="Plan a build of this recipe.", show_default="kifu ingest is planned")
    ] = None,
    clean: Annotated[
        str | None, typer.Option(help="Which games are set aside, as of kifu ingest.", show_default="legal")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Override a value of the recipe, or of the rules. Repeatable."),
    ] = None,
    jobs: Jobs = None,
    json: Annotated[Path | None, Written(help="Write it into this file; - prints it as JSON.")] = None,
) -> None:
    """Tell from a sample what an ingest or a build will take: games, positions, time, memory, disk."""
    from kifu.atomic_io import write_file
    from kifu.corpus.cleaning import load_cleaning_rules
    from kifu.estimate import estimate
    from kifu.kernel import announce_compilation
    from kifu.recipes.schema import find_recipe

    announce_compilation()
    found = None if recipe is None else find_recipe(recipe, set_ or ())
    rules = (
        None
        if recipe is not None and clean is None
        else load_cleaning_rules(clean or "legal", () if recipe else set_ or ())
    )
    loaded = process_time()  # Python and the libraries, which the run will have to load, too
    told = estimate(sources, found, clean=rules, jobs=jobs)
    told = replace(told, startup=told.startup + loaded)
    if json is not None and json != Path("-"):
        write_file(json, told.to_json().encode())
    typer.echo(told.to_json() if json == Path("-") else told, nl=json != Path("-"))
