"""The commands for games and data sets. A command is a few lines that call one function of a room."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kifu.cli.app import Catalogues, Engine, Jobs, Sources, Written, app, print_list, print_markdown, written


@app.command()
def demo(
    into: Annotated[Path, Written(help="Folder for what is made.")] = Path("kifu-demo"),
    minutes: Annotated[float, typer.Option(min=0.01, help="How long a net is trained.")] = 1.0,
    jobs: Jobs = None,
) -> None:
    """Go the whole way on the bundled sample: build data sets, check them, train a net, draw pictures."""
    from kifu.demo import run_demo
    from kifu.kernel import announce_compilation

    announce_compilation()
    run_demo(into, jobs, minutes, typer.echo)


@app.command()
def fetch(
    what: Annotated[str, typer.Argument(metavar="kgs", help="Where from: kgs.")],
    into: Annotated[Path, Written(help="Folder for the archives.")] = Path("kgs"),
    years: Annotated[str | None, typer.Option(help="Only these, like 2001-2014 or 2006,2016-2018.")] = None,
    index: Annotated[str | None, typer.Option(help="Address or file of the index page.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Downloads at a time.")] = 4,
) -> None:
    """Download game archives: checked, resumed, nothing twice."""
    from kifu.errors import RecipeError
    from kifu.fetch import KGS_INDEX, fetch_kgs, parse_years
    from kifu.progress import progress

    if what != "kgs":
        raise RecipeError(f"cannot fetch {what!r}; there is kgs")
    wanted = None if years is None else parse_years(years)
    typer.echo(fetch_kgs(into, years=wanted, index=index or KGS_INDEX, jobs=jobs, progress=progress))


@app.command()
def ingest(
    sources: Annotated[
        list[str], typer.Argument(metavar="SOURCE", help="Archives, folders, records, catalogues: any mix.")
    ],
    out: Annotated[Path, Written("-o", help="What to write: games.parquet, say, or a folder to add to.")],
    clean: Annotated[
        str, typer.Option(help="Which games are set aside: legal, schraudolph, training, or a file that ends in .toml.")
    ] = "legal",
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Override one of these rules, like min_rating=36. Repeatable."),
    ] = None,
    jobs: Jobs = None,
    engine: Engine = "threads",
) -> None:
    """Read games of any kind, clean them, and catalogue them all: Parquet, one row a game, in a file or a folder."""
    from kifu.corpus.cleaning import load_cleaning_rules
    from kifu.corpus.ingest import ingest as ingest_games
    from kifu.corpus.update import append
    from kifu.kernel import announce_compilation
    from kifu.progress import progress

    announce_compilation()
    write = ingest_games if out.suffix == ".parquet" else append
    told = write(
        sources, out, clean=load_cleaning_rules(clean, set_ or ()), jobs=jobs, engine=engine, progress=progress
    )
    typer.echo(f"{out}: {told}")


@app.command()
def compact(
    folder: Annotated[Path, typer.Argument(help="A folder of parts that `kifu ingest` made.")],
    jobs: Jobs = None,
    engine: Engine = "threads",
) -> None:
    """Put the many parts of a folder together into few, and judge anew which games are copies of others."""
    from kifu.corpus.update import compact as compact_parts
    from kifu.kernel import announce_compilation
    from kifu.progress import progress

    announce_compilation()
    typer.echo(f"{folder}: {compact_parts(folder, jobs=jobs, engine=engine, progress=progress)}")


@app.command()
def split(
    catalogues: Catalogues,
    into: Annotated[Path, Written(help="Folder for the sets, each a catalogue.")],
    by: Annotated[str, typer.Option(help="The split: hash, or a file that ends in .toml.")] = "hash",
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Override a value of it, like split.seed=1. Repeatable."),
    ] = None,
) -> None:
    """Divide a corpus into sets to learn from and to test with; the same game never falls in two."""
    from kifu.corpus.splits import load_split, split
    from kifu.progress import progress

    told = split(catalogues, load_split(by, set_ or ()), into, progress=progress)
    for path, games in told.sets.items():
        typer.echo(f"{path}: {games:,} games")
    if told.unset or told.dropped:
        typer.echo(f"in no set: {told.unset:,} games; and {told.dropped:,} that were set aside")


@app.command()
def convert(
    sources: Annotated[
        list[str], typer.Argument(metavar="SOURCE", help="Archives, folders, records, catalogues: any mix.")
    ],
    out: Annotated[
        Path,
        typer.Argument(
            parser=written,
            metavar="OUT",
            help="The file to write: .olf or .sgf, also with .gz or .bz2 after it, or .zip of .sgf files.",
        ),
    ],
    jobs: Jobs = None,
) -> None:
    """Write games of any kind as OLF or as SGF: board, moves, and what the root says."""
    from kifu.convert import convert as convert_games
    from kifu.kernel import announce_compilation
    from kifu.progress import progress

    announce_compilation()
    typer.echo(f"{out}: {convert_games(sources, out, jobs=jobs, progress=progress)}")


@app.command()
def build(
    recipe: Annotated[str, typer.Argument(help="A recipe by name (`kifu recipes`), or a file that ends in .toml.")],
    sources: Sources,
    into: Annotated[Path, Written(help="Folder for the data sets.")],
    format: Annotated[
        str | None, typer.Option(help="The format, of `kifu formats`.", show_default="that of the recipe")
    ] = None,
    sets: Annotated[
        str | None, typer.Option(help="Which, like test,train10k.", show_default="those of the recipe")
    ] = None,
    index: Annotated[Path | None, typer.Option(help="Index page (a file): the archives to draw from.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a value of the recipe. Repeatable.")
    ] = None,
    jobs: Jobs = None,
    engine: Engine = "threads",
) -> None:
    """Make a recipe's data sets, or its archive of OLF files, with manifests; what is there already stays."""
    from kifu.kernel import announce_compilation
    from kifu.progress import progress
    from kifu.recipes.pipeline import build_recipe
    from kifu.recipes.schema import find_recipe

    announce_compilation()
    overrides = [*(set_ or ()), *([] if format is None else [f"format={format}"])]
    names = None if sets is None else [name.strip() for name in sets.split(",")]
    found = find_recipe(recipe, overrides)
    for report in build_recipe(
        found, sources, into, sets=names, index=index, jobs=jobs, engine=engine, progress=progress
    ):
        typer.echo(report)


@app.command()
def recipes(name: Annotated[str | None, typer.Argument(help="Show this one whole.")] = None) -> None:
    """List the recipes, or show one."""
    from kifu.recipes.schema import KgsgoRecipe, find_recipe, recipe_names, recipe_text

    if name is not None:
        find_recipe(name)
        typer.echo(recipe_text(name), nl=False)
        return
    loaded = {each: find_recipe(each) for each in recipe_names()}
    sets = {each: f" (sets {', '.join(r.sets)})" if isinstance(r, KgsgoRecipe) else "" for each, r in loaded.items()}
    print_list((each, recipe.title + sets[each]) for each, recipe in loaded.items())


@app.command()
def planes(name: Annotated[str | None, typer.Argument(help="Show the card of this one.")] = None) -> None:
    """List the plane sets, or show one's card."""
    from kifu.planes.registry import PLANE_SETS, find_plane_set

    if name is not None:
        found = find_plane_set(name)
        if found.name in PLANE_SETS:
            _print_card("planes", found.name)
        else:
            print_list((str(k), plane) for k, plane in enumerate(found.plane_names))
        return
    counted = ((each, "1 plane" if each.planes == 1 else f"{each.planes} planes") for each in PLANE_SETS.values())
    print_list((each.name, f"{count}; {each.title}") for each, count in counted)


@app.command()
def formats(name: Annotated[str | None, typer.Argument(help="Show the card of this one.")] = None) -> None:
    """List the file formats, or show one's card."""
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
    file: Annotated[
        str, typer.Argument(help="A data set, a catalogue, an archive, a folder, a record; a net, or a run.")
    ],
    row: Annotated[int | None, typer.Option(help="Show this example (from 0) of a data set as a board.")] = None,
    out: Annotated[Path | None, Written("-o", help="Draw that example into this .svg or .png file.")] = None,
) -> None:
    """Show what is in a file: header, counts, checks; an example as a board."""
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

    where = as_path(file)
    if out is not None and row is None:
        raise RecipeError(f"-o {out} takes the drawing of one example, and no --row says which")
    if isinstance(where, Path) and (where.suffix == SUFFIX or (where / BEST).exists()):
        from kifu.learn.net import describe_net

        if row is not None:
            raise FormatError(f"{where} is a net, so it has no row {row}")
        typer.echo(describe_net(where))
        return
    announce_compilation()
    if isinstance(where, Remote) or not is_data_set(where):
        if row is not None:
            raise FormatError(f"{where} is no data set, so it has no row {row}")
        if isinstance(where, Path) and is_catalogue(where):
            typer.echo(describe_catalogue(where))
        else:
            typer.echo(describe_records(where))
    elif row is None:
        typer.echo(describe_data_set(where))
    else:
        typer.echo(describe_row(where, row))
        if out is not None:
            draw_row(where, row, out)
            typer.echo(f"drawn into {out}")


@app.command()
def audit(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Two or more catalogues or data sets.")],
    json: Annotated[Path | None, Written(help="Write all that is found into this file; - prints it as JSON.")] = None,
    jobs: Jobs = None,
    engine: Engine = "threads",
) -> None:
    """Look for games that stand in two sets, also turned or mirrored; the exit code is 1 if there are any."""
    from kifu.atomic_io import write_file
    from kifu.audit.audit import audit as audit_sets
    from kifu.kernel import announce_compilation
    from kifu.progress import progress

    announce_compilation()
    found = audit_sets(files, jobs=jobs, engine=engine, progress=progress)
    if json is not None and json != Path("-"):
        write_file(json, found.to_json().encode())
    typer.echo(found.to_json() if json == Path("-") else f"{found}\n", nl=False)
    if found.leaks:
        raise typer.Exit(1)


@app.command()
def stats(
    catalogues: Catalogues,
    out: Annotated[Path | None, Written("-o", help="Draw the counts into this .svg or .png file.")] = None,
    json: Annotated[Path | None, Written(help="Write them into this file; - prints them as JSON.")] = None,
    jobs: Jobs = None,
    engine: Engine = "threads",
) -> None:
    """Count the games of catalogues: by rank, year, result, length, handicap, komi, and what was dropped."""
    from kifu.atomic_io import write_file
    from kifu.corpus.stats import count_games
    from kifu.tables import print_stats
    from kifu.viz.boards import save
    from kifu.viz.charts import draw_charts

    counted = count_games(catalogues, jobs=jobs, engine=engine)
    if out is not None:
        save(draw_charts(counted), out)
    if json == Path("-"):
        typer.echo(counted.to_json(), nl=False)
        return
    if json is not None:
        write_file(json, counted.to_json().encode())
    print_stats(counted)


@app.command()
def query(
    sql: Annotated[str, typer.Argument(metavar="SQL", help="A SELECT over the tables games and kept.")],
    catalogues: Catalogues,
    out: Annotated[
        Path | None, Written("-o", help="Write all rows into this .csv or .parquet file; - prints them as CSV.")
    ] = None,
    rows: Annotated[int, typer.Option(min=1, help="Rows to show.")] = 40,
    jobs: Jobs = None,
) -> None:
    """Ask catalogues a question in SQL; an answer that keeps all columns can be written as a catalogue."""
    from kifu.corpus.query import check_suffix, open_query
    from kifu.tables import print_head

    to_screen = out == Path("-")
    if out is not None and not to_screen:
        check_suffix(out)
    with open_query(sql, catalogues, jobs=jobs) as answer:
        if out is None:
            print_head(answer.head(rows))
        elif to_screen:
            for piece in answer.csv():
                typer.echo(piece, nl=False)
        else:
            typer.echo(f"{out}: {answer.write(out):,} rows")


@app.command()
def show(
    game: Annotated[str, typer.Argument(help="A record, an archive or folder of records, or a catalogue.")],
    number: Annotated[int, typer.Option("--game", min=1, help="Which game of an archive, folder or catalogue.")] = 1,
    move: Annotated[int | None, typer.Option(min=0, help="After so many moves.", show_default="all")] = None,
    out: Annotated[Path | None, Written("-o", help="Draw the position into this .svg or .png file.")] = None,
) -> None:
    """Show a position of a game as text or as a picture."""
    from kifu.describe import describe_position, draw_position, find_game
    from kifu.kernel import announce_compilation
    from kifu.records.paths import as_path

    announce_compilation()
    found = find_game(as_path(game), number)
    if out is None:
        typer.echo(describe_position(found, move))
    else:
        draw_position(found.game, found.plies if move is None else move, out)
        typer.echo(f"drawn into {out}")
