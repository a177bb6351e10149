"""Commands for catalogues: ingest, stats, query, split, audit, compact."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Annotated

import typer

from kifu.cli.app import Outcome, Plan, command, echo, progress
from kifu.cli.options import (
    Catalogues,
    Clean,
    DryRun,
    Engine,
    Jobs,
    Output,
    Overwrite,
    Picture,
    Sources,
    Strict,
    argument,
    number,
    option,
    overrides,
)
from kifu.errors import printable

_PANEL = "Corpus"

_QUERY_MEMORY = 3 << 30
"""Maximum number of bytes that a query may allocate; sorting 650,000 whole games with 64 threads takes 2.4 GB."""


@command(
    _PANEL,
    "kifu ingest sample -o games.parquet",
    "kifu ingest sample -o corpus --clean schraudolph",
    kernels=True,
)
def ingest(  # noqa: PLR0913 - command-line options
    sources: Sources,
    output: Annotated[Path, Output(help="A new .parquet file, or a folder to create or extend.")],
    clean: Annotated[str, Clean()] = "legal",
    set_: Annotated[list[str] | None, overrides("the cleaning rules", "min_rating=36")] = None,
    overwrite: Overwrite = False,
    strict: Strict = False,
    jobs: Jobs = None,
    engine: Engine = "threads",
    dry_run: DryRun = False,
) -> Outcome:
    """Read and clean games into a catalogue.

    A catalogue is a Parquet file, or a folder of them, with one row per game: kept, or dropped with a reason.
    """
    from kifu.cli.estimate import estimate_ingest
    from kifu.corpus.cleaning import load_cleaning_rules
    from kifu.corpus.ingest import ingest as ingest_games
    from kifu.corpus.update import append, check_folder

    is_file = output.suffix.lower() == ".parquet"
    if not is_file:
        check_folder(output)
    write = ingest_games if is_file else append
    rules = load_cleaning_rules(clean, set_ or ())
    if dry_run:
        return Plan.of_sources(sources, [output], estimate_ingest(sources, rules, jobs)).outcome()
    report = write(
        sources, output, clean=rules, overwrite=overwrite, strict=strict, jobs=jobs, engine=engine, progress=progress
    )
    return Outcome.of_output(output, report)


@command(_PANEL, "kifu stats games.parquet", "kifu stats games.parquet -o games.png")
def stats(catalogues: Catalogues, output: Picture = None, jobs: Jobs = None, engine: Engine = "threads") -> Outcome:
    """Count games by rank, year, result and more; draw charts."""
    from kifu.corpus.stats import stats as count_games
    from kifu.report.tables import print_stats

    counts = count_games(catalogues, jobs=jobs, engine=engine)
    if output is not None:
        from kifu.corpus.stats import draw_charts
        from kifu.viz.boards import save

        save(draw_charts(counts), output)
    return Outcome(lambda: print_stats(counts), counts)


@command(
    _PANEL,
    'kifu query "select year, count(*) from kept group by year" games.parquet',
    'kifu query "select * from kept where n_moves > 250" games.parquet -o long.csv',
)
def query(
    sql: Annotated[str, argument("SQL", "A SELECT over the tables games, kept and moves.")],
    catalogues: Annotated[list[str], argument("CATALOGUE", "Catalogues, and annotations made by `kifu annotate`.")],
    output: Annotated[
        Path | None, Output(help="Write all rows into this .csv or .parquet file; - prints them as CSV.")
    ] = None,
    rows: Annotated[int, number("Number of rows to show.")] = 40,
    jobs: Jobs = None,
) -> Outcome:
    """Query catalogues and annotations in SQL.

    A result that has all columns of a catalogue can be written as one.
    """
    from kifu.corpus.query import check_suffix
    from kifu.corpus.query import query as run_query
    from kifu.report.tables import print_head

    to_screen = output == Path("-")
    if output is not None and not to_screen:
        check_suffix(output)
    with run_query(sql, catalogues, jobs=jobs, max_memory=_QUERY_MEMORY) as result:
        if output is None:
            head = result.head(rows)
            return Outcome(lambda: print_head(head), head)
        if to_screen:
            on_terminal = sys.stdout.isatty()
            for piece in result.csv():
                if on_terminal:  # fields may hold line breaks
                    echo(re.sub(r'"(?:[^"]|"")*"', lambda field: printable(field[0]), piece.decode()).rstrip("\n"))
                else:
                    typer.echo(piece, nl=False)
            return Outcome(None, {"path": None})
        count = result.write(output)
        return Outcome.of_output(output, f"{count:,} rows", {"path": str(output), "rows": count})


@command(
    _PANEL,
    "kifu split games.parquet -o sets",
    "kifu split games.parquet -o sets --set split.seed=1 --dry-run",
    kernels=True,
)
def split(
    catalogues: Catalogues,
    output: Annotated[Path, Output(help="Folder for the sets, one catalogue each.")],
    by: Annotated[str, option("SPLIT", "The split: hash, or a .toml file.")] = "hash",
    set_: Annotated[list[str] | None, overrides("the split", "split.seed=1")] = None,
    overwrite: Overwrite = False,
    dry_run: DryRun = False,
) -> Outcome:
    """Split catalogues into sets such as train and test.

    Duplicates stay in one set, also rotated, mirrored, truncated and slightly changed ones.
    """
    from kifu.corpus.splits import load_split, set_files
    from kifu.corpus.splits import split as split_catalogues

    config = load_split(by, set_ or ())
    if dry_run:
        return Plan.of_catalogues(catalogues, set_files(config, output)).outcome()
    report = split_catalogues(catalogues, output, by=config, overwrite=overwrite, progress=progress)
    return Outcome(str(report), report, summary=True)


@command(
    _PANEL,
    "kifu audit sets/train.parquet sets/test.parquet",
    "kifu audit sets/train.parquet sets/test.parquet --json audit.json",
    kernels=True,
)
def audit(
    files: Annotated[list[Path], argument("FILE", "Two or more catalogues or data sets.")],
    jobs: Jobs = None,
    engine: Engine = "threads",
) -> Outcome:
    """Find games that two sets share, also under symmetry.

    The exit code is 1 if there are any.
    """
    from kifu.leaks.audit import audit as audit_sets

    report = audit_sets(files, jobs=jobs, engine=engine, progress=progress)
    return Outcome(str(report), report, code=1 if report.leaks else 0)


@command(_PANEL, "kifu compact corpus", "kifu compact corpus --dry-run", kernels=True)
def compact(
    folder: Annotated[Path, argument("FOLDER", "A partitioned catalogue.")],
    jobs: Jobs = None,
    engine: Engine = "threads",
    dry_run: DryRun = False,
) -> Outcome:
    """Merge the partitions of a catalogue.

    Duplicates are found anew among all games.
    """
    from kifu.corpus.update import check_partitioned
    from kifu.corpus.update import compact as compact_partitions

    check_partitioned(folder)
    if dry_run:
        return Plan.of_catalogues([folder], [folder]).outcome()
    return Outcome.of_output(folder, compact_partitions(folder, jobs=jobs, engine=engine, progress=progress))
