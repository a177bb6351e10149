"""Commands for data sets: build, publish."""

from __future__ import annotations

from pathlib import Path

from kifu.cli import options as opts
from kifu.cli.app import Outcome, Plan, command, progress


@command(
    "kifu build kgsgo-v2 sample -o data --sets test --set until=2025",
    "kifu build katago sample -o kata --dry-run",
)
@opts.recipe
@opts.sources
@opts.output("Folder for the data sets.")
@opts.option(
    "--format", "FORMAT", "Format (see `kifu list formats`).", shown="the recipe's", names=opts.names_of("formats")
)
@opts.option("--sets", "SETS", "Sets to build, such as test,train10k.", shown="the recipe's")
@opts.option("--index", "FILE", "Index page of the archives to sample from.", type=opts.PATH)
@opts.overrides("the recipe", "seed=1")
@opts.overwrite
@opts.jobs
@opts.engine
@opts.dry_run
def build(
    recipe: str, sources: opts.Strings, output: Path, format: str | None, sets: str | None, index: Path | None,
    set_: opts.Strings, overwrite: bool, jobs: int | None, engine: str, dry_run: bool,
) -> Outcome:  # fmt: skip
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
    found = load_recipe(recipe, [*set_, *([] if format is None else [f"format={format}"])])
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


@command(
    "kifu publish games.parquet -o published --license cc0-1.0",
    "kifu publish sets -o published-2 --previous published",
)
@opts.argument(
    "sets", "DATASET", "Catalogues, data sets in Parquet, or folders of them; one per split.", type=opts.PLACE, nargs=-1
)
@opts.output("The folder to publish.")
@opts.option("--title", "TEXT", "Title of the data set.", shown="the folder's name")
@opts.option("--license", "ID", "License, as the Hub names it: cc-by-4.0.", shown="to be filled in")
@opts.option("--author", "TEXT", "Author to cite.", shown="to be filled in")
@opts.option("--url", "URL", "Address of the data set.")
@opts.option("--doi", "DOI", "DOI of the data set: 10.5281/zenodo.1234.")
@opts.option("--date", "DATE", "Day of publication: 2026-01-31.", shown="today")
@opts.option("--version", "X.Y.Z", "Version.", shown="1.0.0, or by the changes")
@opts.option("--previous", "FOLDER", "An earlier version, to list the changes from.", type=opts.PATH)
@opts.overwrite
@opts.jobs
def publish(
    sets: opts.Strings, output: Path, title: str | None, license: str | None, author: str | None, url: str | None,
    doi: str | None, date: str | None, version: str | None, previous: Path | None, overwrite: bool, jobs: int | None,
) -> Outcome:  # fmt: skip
    """Write a folder to publish: data, card, Croissant metadata, checksums.

    The card reports sources, counts, biases, duplicates, what the splits share, and changes.
    """
    from kifu.publication.publish import publish as publish_sets

    report = publish_sets(
        sets, output, title=title, license=license, author=author, url=url, doi=doi, date=date, version=version,
        previous=previous, overwrite=overwrite, jobs=jobs, progress=progress,
    )  # fmt: skip
    return Outcome.of_output(output, report)
