"""Commands for data sets: build, inspect, publish."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kifu.cli.app import Outcome, Plan, command, progress
from kifu.cli.options import (
    DryRun,
    Engine,
    Jobs,
    Output,
    Overwrite,
    Picture,
    Recipe,
    Sources,
    argument,
    complete,
    option,
    overrides,
)
from kifu.errors import printable

_PANEL = "Data sets"


@command(
    _PANEL,
    "kifu build kgsgo-v2 sample -o data --sets test --set until=2025",
    "kifu build katago sample -o kata --dry-run",
    kernels=True,
)
def build(  # noqa: PLR0913 - command-line options
    recipe: Recipe,
    sources: Sources,
    output: Annotated[Path, Output(help="Folder for the data sets.")],
    format: Annotated[
        str | None, option("FORMAT", "Format (see `kifu formats`).", "the recipe's", autocompletion=complete("formats"))
    ] = None,
    sets: Annotated[str | None, option("SETS", "Sets to build, such as test,train10k.", "the recipe's")] = None,
    index: Annotated[Path | None, option("FILE", "Index page of the archives to sample from.")] = None,
    set_: Annotated[list[str] | None, overrides("the recipe", "seed=1")] = None,
    overwrite: Overwrite = False,
    jobs: Jobs = None,
    engine: Engine = "threads",
    dry_run: DryRun = False,
) -> Outcome:
    """Build the data sets of a recipe.

    Each gets a manifest. Data sets that are up to date are kept. Given a manifest, a catalogue or a published folder,
    make it again and compare every hash; the exit code is 1 if one differs.
    """
    from kifu.cli.estimate import estimate_build
    from kifu.errors import RecipeError
    from kifu.recipes.pipeline import build as build_sets
    from kifu.recipes.pipeline import output_names, select_sets
    from kifu.recipes.schema import is_manifest, load_recipe

    if is_manifest(recipe):
        from kifu.publication.reproduce import reproduce

        if format or sets or index or set_ or dry_run:
            raise RecipeError(f"{recipe} is built as it is, without --format, --sets, --index, --set and --dry-run")
        made = reproduce(recipe, sources, output, overwrite=overwrite, jobs=jobs, engine=engine, progress=progress)
        return Outcome.of_output(output, made, code=0 if made.equal else 1)
    found = load_recipe(recipe, [*(set_ or ()), *([] if format is None else [f"format={format}"])])
    names = None if sets is None else [name.strip() for name in sets.split(",")]
    if dry_run:
        selected = select_sets(found, names)
        writes = [output / name for name in output_names(selected)]
        return Plan.of_sources(sources, writes, estimate_build(selected, sources, index, jobs)).outcome()
    reports = build_sets(
        found, sources, output, sets=names, index=index, overwrite=overwrite, jobs=jobs, engine=engine,
        progress=progress,
    )  # fmt: skip
    return Outcome("\n".join(map(str, reports)), reports, summary=True)


@command(_PANEL, "kifu inspect data/kgsgo-test-v2.dat --row 7", "kifu inspect games.parquet --json -", kernels=True)
def inspect(
    file: Annotated[
        str,
        argument(
            "FILE", "A data set, catalogue, archive, folder, record, net, run directory or packaged net (small, human)."
        ),
    ],
    row: Annotated[int | None, option("N", "Show this example (from 0) of a data set as a board.")] = None,
    output: Picture = None,
) -> Outcome:
    """Show the contents and checks of a file; one example as a board."""
    from kifu.errors import FormatError, RecipeError
    from kifu.katago.net_file import is_kata_net
    from kifu.learn import BEST, MIX_SUFFIX, ONNX_SUFFIX, PACKAGED, SUFFIX
    from kifu.records.paths import as_path
    from kifu.report.describe import Description, describe, describe_row, draw_row, is_data_set, row_to_dict

    path = as_path(file)
    if row is None:
        if output is not None:
            raise RecipeError(f"-o {output} draws one example; --row is missing")
        if file in PACKAGED:
            from kifu.learn.net import net_file

            path = net_file(file)
        own = isinstance(path, Path) and (path.suffix in (SUFFIX, ONNX_SUFFIX, MIX_SUFFIX) or (path / BEST).exists())
        if isinstance(path, Path) and own and not is_kata_net(path):
            from kifu.learn.net import describe_net

            description = Description(describe_net(path))
        else:
            description = describe(path)
        return Outcome(description, description)
    if not (isinstance(path, Path) and is_data_set(path)):
        raise FormatError(f"{path} is not a data set and has no rows, got --row {row}")
    text = describe_row(path, row)
    if output is not None:
        draw_row(path, row, output)
        text = f"{text}\ndrew {printable(output)}"
    return Outcome(text, row_to_dict(path, row))


@command(
    _PANEL,
    "kifu publish games.parquet -o published --licence cc0-1.0",
    "kifu publish sets -o published-2 --previous published",
    kernels=True,
)
def publish(  # noqa: PLR0913 - options
    sets: Annotated[
        list[str], argument("DATASET", "Catalogues, data sets in Parquet, or folders of them; one per split.")
    ],
    output: Annotated[Path, Output(help="The folder to publish.")],
    title: Annotated[str | None, option("TEXT", "Title of the data set.", "the folder's name")] = None,
    licence: Annotated[
        str | None,
        typer.Option(
            "--licence",
            "--license",
            metavar="ID",
            help="Licence, as the Hub names it: cc-by-4.0.",
            show_default="to be filled in",
        ),
    ] = None,
    author: Annotated[str | None, option("TEXT", "Author to cite.", "to be filled in")] = None,
    url: Annotated[str | None, option("URL", "Address of the data set.")] = None,
    doi: Annotated[str | None, option("DOI", "DOI of the data set: 10.5281/zenodo.1234.")] = None,
    date: Annotated[str | None, option("DATE", "Day of publication: 2026-01-31.", "today")] = None,
    version: Annotated[str | None, option("X.Y.Z", "Version.", "1.0.0, or by the changes", name="--version")] = None,
    previous: Annotated[Path | None, option("FOLDER", "An earlier version, to list the changes from.")] = None,
    overwrite: Overwrite = False,
    jobs: Jobs = None,
) -> Outcome:
    """Write a folder to publish: data, card, Croissant metadata, checksums.

    The card reports sources, counts, biases, duplicates, what the splits share, and changes.
    """
    from kifu.publication.publish import publish as publish_sets

    report = publish_sets(
        sets, output, title=title, licence=licence, author=author, url=url, doi=doi, date=date, version=version,
        previous=previous, overwrite=overwrite, jobs=jobs, progress=progress,
    )  # fmt: skip
    return Outcome.of_output(output, report)
