"""Commands for catalogues: ingest, stats, query, split, audit."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import click

from kifu.cli import options as opts
from kifu.cli.app import Outcome, Plan, command, echo, progress
from kifu.errors import RecipeError, printable
from kifu.text import Report

_QUERY_MEMORY = 3 << 30
"""Maximum number of bytes that a query may allocate; sorting 650,000 whole games with 64 threads takes 2.4 GB."""


@command(
    "kifu ingest sample -o games.parquet",
    "kifu ingest sample -o corpus --clean schraudolph",
    "kifu ingest -o corpus --compact",
)
@opts.sources_or_none
@opts.output("A new .parquet file, or a folder to create or extend.")
@opts.clean
@opts.overrides("the cleaning rules", "min_rating=5d")
@opts.overwrite
@opts.strict
@opts.flag("--compact", "Merge the partitions of a folder at the end, and find duplicates anew among all games.")
@opts.jobs
@opts.engine
@opts.dry_run
def ingest(
    sources: opts.Strings, output: Path, clean: str, set_: opts.Strings, overwrite: bool, strict: bool, compact: bool,
    jobs: int | None, engine: str, dry_run: bool,
) -> Outcome:  # fmt: skip
    """Read and clean games into a catalogue.

    A catalogue is a Parquet file, or a folder of them, with one row per game: kept, or dropped with a reason.
    """
    from kifu.cli.estimate import estimate_ingest
    from kifu.corpus.cleaning import load_cleaning_rules
    from kifu.corpus.ingest import ingest as ingest_games
    from kifu.corpus.update import append, check_folder, check_partitioned
    from kifu.corpus.update import compact as merge_partitions

    is_file = output.suffix.lower() == ".parquet"
    if compact and (is_file or not sources):
        check_partitioned(output)
    if not sources and not compact:
        raise click.UsageError("missing argument 'SOURCE...'", click.get_current_context())
    if not is_file:
        check_folder(output)
    write = ingest_games if is_file else append
    rules = load_cleaning_rules(clean, set_)
    if dry_run:
        if not sources:
            return Plan.of_catalogues([output], [output]).outcome()
        return Plan.of_sources(sources, [output], estimate_ingest(sources, rules, jobs)).outcome()
    reports: list[Report] = []
    if sources:
        reports += [
            write(
                sources, output, clean=rules, overwrite=overwrite, strict=strict, jobs=jobs, engine=engine,
                progress=progress,
            )
        ]  # fmt: skip
    if compact:
        reports += [merge_partitions(output, jobs=jobs, engine=engine, progress=progress)]
    return Outcome.of_output(output, "\n".join(map(str, reports)), reports[-1])


@command("kifu stats games.parquet", "kifu stats games.parquet -o games.png")
@opts.catalogues
@opts.picture
@opts.jobs
@opts.engine
def stats(catalogues: opts.Strings, output: Path | None, jobs: int | None, engine: str) -> Outcome:
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
    'kifu query "select year, count(*) from kept group by year" games.parquet',
    'kifu query "select * from kept where n_moves > 250" games.parquet -o long.csv',
    kernels=False,
)
@opts.argument("sql", "SQL", "A SELECT over the tables games, kept and moves.")
@opts.argument(
    "catalogues", "CATALOGUE", "Catalogues, and annotations made by `kifu annotate`.", type=opts.PLACE, nargs=-1
)
@opts.output("Write all rows into this .csv or .parquet file; - prints them as CSV.", required=False)
@opts.number("--rows", "Number of rows to show.", 40)
@opts.jobs
def query(sql: str, catalogues: opts.Strings, output: Path | None, rows: int, jobs: int | None) -> Outcome:
    """Query catalogues and annotations in SQL.

    A result that has all columns of a catalogue can be written as one.
    """
    from kifu.corpus.catalogue import is_catalogue
    from kifu.corpus.query import check_suffix
    from kifu.corpus.query import query as run_query
    from kifu.report.tables import print_head

    if is_catalogue(sql):
        raise RecipeError(f"{sql} is a catalogue: the SQL comes first, in quotes")
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
                    click.echo(piece, nl=False)
            return Outcome(None, {"path": None})
        count = result.write(output)
        return Outcome.of_output(output, f"{count:,} rows", {"path": str(output), "rows": count})


@command("kifu split games.parquet -o sets", "kifu split games.parquet -o sets --set split.seed=1 --dry-run")
@opts.catalogues
@opts.output("Folder for the sets, one catalogue each.")
@opts.option("--by", "SPLIT", "The split: hash, or a .toml file.", default="hash", type=opts.PLACE, names=("hash",))
@opts.overrides("the split", "split.seed=1")
@opts.overwrite
@opts.dry_run
def split(
    catalogues: opts.Strings, output: Path, by: str, set_: opts.Strings, overwrite: bool, dry_run: bool
) -> Outcome:
    """Split catalogues into sets such as train and test.

    Duplicates stay in one set, also rotated, mirrored, truncated and slightly changed ones.
    """
    from kifu.corpus.splits import load_split, set_files
    from kifu.corpus.splits import split as split_catalogues

    config = load_split(by, set_)
    if dry_run:
        return Plan.of_catalogues(catalogues, set_files(config, output)).outcome()
    report = split_catalogues(catalogues, output, by=config, overwrite=overwrite, progress=progress)
    return Outcome(str(report), report, summary=True)


@command(
    "kifu audit sets/train.parquet sets/test.parquet",
    "kifu audit sets/train.parquet sets/test.parquet --json audit.json",
)
@opts.argument("files", "FILE", "Two or more catalogues or data sets.", type=opts.PATH, nargs=-1)
@opts.jobs
@opts.engine
def audit(files: tuple[Path, ...], jobs: int | None, engine: str) -> Outcome:
    """Find games that two sets share, also under symmetry.

    The exit code is 1 if there are any.
    """
    from kifu.leaks.audit import audit as audit_sets

    report = audit_sets(files, jobs=jobs, engine=engine, progress=progress)
    return Outcome(str(report), report, code=1 if report.leaks else 0)
