"""Commands for records and catalogues: fetch, ingest, compact, split, convert, stats, query, show."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kifu.cli.app import Catalogues, Engine, Jobs, Json, Output, Sources, app, output_path, overrides, write_json


@app.command()
def fetch(
    collection: Annotated[str, typer.Argument(metavar="kgs", help="The collection: kgs.")],
    output: Annotated[Path, Output(help="Folder for the archives.")] = Path("kgs"),
    years: Annotated[str | None, typer.Option(help="Years, such as 2001-2014 or 2006,2016-2018.")] = None,
    index: Annotated[str | None, typer.Option(help="URL or file of the index page.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Number of parallel downloads.")] = 4,
) -> None:
    """Download game archives; verified and resumable."""
    from kifu.errors import RecipeError
    from kifu.fetch import KGS_INDEX, fetch_kgs, parse_years
    from kifu.progress import progress

    if collection != "kgs":
        raise RecipeError(f"unknown collection {collection!r}; available: kgs")
    wanted = None if years is None else parse_years(years)
    typer.echo(fetch_kgs(output, years=wanted, index=index or KGS_INDEX, jobs=jobs, progress=progress))


@app.command()
def ingest(
    sources: Sources,
    output: Annotated[Path, Output(help="A new .parquet file, or a folder to create or extend.")],
    clean: Annotated[
        str, typer.Option(help="Cleaning rules: legal, schraudolph, training, or a .toml file.")
    ] = "legal",
    set_: Annotated[list[str] | None, overrides("the cleaning rules", "min_rating=36")] = None,
    jobs: Jobs = None,
    engine: Engine = "threads",
) -> None:
    """Read and clean games and write them to a catalogue: Parquet, one row per game."""
    from kifu.corpus.cleaning import load_cleaning_rules
    from kifu.corpus.ingest import ingest as ingest_games
    from kifu.corpus.update import append
    from kifu.kernel import announce_compilation
    from kifu.progress import progress

    announce_compilation()
    write = ingest_games if output.suffix == ".parquet" else append
    rules = load_cleaning_rules(clean, set_ or ())
    typer.echo(f"{output}: {write(sources, output, clean=rules, jobs=jobs, engine=engine, progress=progress)}")


@app.command()
def compact(
    folder: Annotated[Path, typer.Argument(help="A partitioned catalogue.")],
    jobs: Jobs = None,
    engine: Engine = "threads",
) -> None:
    """Merge the partitions of a catalogue and find duplicates across them."""
    from kifu.corpus.update import compact as compact_partitions
    from kifu.kernel import announce_compilation
    from kifu.progress import progress

    announce_compilation()
    typer.echo(f"{folder}: {compact_partitions(folder, jobs=jobs, engine=engine, progress=progress)}")


@app.command()
def split(
    catalogues: Catalogues,
    output: Annotated[Path, Output(help="Folder for the sets, one catalogue each.")],
    by: Annotated[str, typer.Option(help="The split: hash, or a .toml file.")] = "hash",
    set_: Annotated[list[str] | None, overrides("the split", "split.seed=1")] = None,
) -> None:
    """Split catalogues into sets such as train and test; duplicates stay in one set."""
    from kifu.corpus.splits import load_split
    from kifu.corpus.splits import split as split_catalogues
    from kifu.progress import progress

    report = split_catalogues(catalogues, output, by=load_split(by, set_ or ()), progress=progress)
    for path, games in report.sets.items():
        typer.echo(f"{path}: {games:,} games")
    if report.unset or report.dropped:
        typer.echo(f"in no set: {report.unset:,} games, and {report.dropped:,} dropped games")


@app.command()
def convert(
    sources: Sources,
    output: Annotated[
        Path,
        typer.Argument(
            parser=output_path,
            metavar="OUTPUT",
            help="The file to write: .olf or .sgf, optionally followed by .gz or .bz2, or .zip of .sgf files.",
        ),
    ],
    jobs: Jobs = None,
) -> None:
    """Convert games to OLF or SGF: board, moves and root properties."""
    from kifu.convert import convert as convert_games
    from kifu.kernel import announce_compilation
    from kifu.progress import progress

    announce_compilation()
    typer.echo(f"{output}: {convert_games(sources, output, jobs=jobs, progress=progress)}")


@app.command()
def stats(
    catalogues: Catalogues,
    output: Annotated[Path | None, Output(help="Draw the charts into this .svg or .png file.")] = None,
    json: Json = None,
    jobs: Jobs = None,
    engine: Engine = "threads",
) -> None:
    """Count games by rank, year, result, length, handicap and komi, and dropped games by reason."""
    from kifu.corpus.stats import stats as count_games
    from kifu.tables import print_stats
    from kifu.viz.boards import save
    from kifu.viz.charts import draw_charts

    counts = count_games(catalogues, jobs=jobs, engine=engine)
    if output is not None:
        save(draw_charts(counts), output)
    write_json(counts.to_json(), json)
    if json != Path("-"):
        print_stats(counts)


@app.command()
def query(
    sql: Annotated[str, typer.Argument(metavar="SQL", help="A SELECT over the tables games and kept.")],
    catalogues: Catalogues,
    output: Annotated[
        Path | None, Output(help="Write all rows into this .csv or .parquet file; - prints them as CSV.")
    ] = None,
    rows: Annotated[int, typer.Option(min=1, help="Number of rows to show.")] = 40,
    jobs: Jobs = None,
) -> None:
    """Query catalogues in SQL; a result with all columns can be written as a catalogue."""
    from kifu.corpus.query import check_suffix
    from kifu.corpus.query import query as run_query
    from kifu.tables import print_head

    to_screen = output == Path("-")
    if output is not None and not to_screen:
        check_suffix(output)
    with run_query(sql, catalogues, jobs=jobs) as result:
        if output is None:
            print_head(result.head(rows))
        elif to_screen:
            for piece in result.csv():
                typer.echo(piece, nl=False)
        else:
            typer.echo(f"{output}: {result.write(output):,} rows")


@app.command()
def show(
    game: Annotated[str, typer.Argument(help="A record, an archive or folder of records, or a catalogue.")],
    number: Annotated[int, typer.Option("--game", min=1, help="Number of the game in its container.")] = 1,
    move: Annotated[int | None, typer.Option(min=0, help="Number of moves played.", show_default="all")] = None,
    output: Annotated[Path | None, Output(help="Draw the position into this .svg or .png file.")] = None,
) -> None:
    """Show a position of a game as text or as a picture."""
    from kifu.describe import describe_position, draw_position, find_game
    from kifu.kernel import announce_compilation
    from kifu.records.paths import as_path

    announce_compilation()
    selected = find_game(as_path(game), number)
    if output is None:
        typer.echo(describe_position(selected, move))
    else:
        draw_position(selected.game, selected.plies if move is None else move, output)
        typer.echo(f"drew {output}")
