"""Publish data sets: a folder with the data, a card, Croissant metadata, checksums and the changes between versions."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from datetime import date as day_type
from pathlib import Path
from typing import Any

import pyarrow as pa

from kifu.corpus.parquet import TableWriter
from kifu.datasets.manifest import manifest_path
from kifu.errors import FormatError, OutputError, RecipeError, SourceError, first_line
from kifu.io import AtomicDirectory, AtomicFile, hash_file, keep_output, open_regular, utf8_name
from kifu.progress import Progress, ProgressFactory, silent
from kifu.publication.card import (
    SetCounts,
    audit_splits,
    find_duplicates,
    find_origin,
    render_card,
    render_croissant,
)
from kifu.publication.manifest import (
    CHANGES_FILE,
    EXAMPLES,
    MANIFEST,
    MANIFESTS,
    Changes,
    InputSet,
    Publication,
    PublishedFile,
    PublishedSplit,
    describe_columns,
    next_version,
    open_sets,
    parse_version,
    read_publication,
)
from kifu.records.paths import Paths, Remote, as_list, as_path

CHECKSUMS = "SHA256SUMS"

_FIRST_VERSION = "1.0.0"
_URL = re.compile(r"https?://[^\s\"<>{}]+")
_DOI = re.compile(r"10\.\d{4,9}/[^\s\"<>{}]+")
_HUB_LICENSES = ("bsd", "c-uda", "cc", "gfdl", "gpl", "lgpl", "lgpl-lr", "odbl", "odc-by", "openrail", "other", "pddl")
"""Names of the Hub that are no SPDX identifiers."""

_COPY_BYTES = 1 << 20
_Splits = Mapping[str, Sequence[Path]]

_CHANGES = pa.schema(
    [
        pa.field("change", pa.string(), False),  # added, removed, changed, moved
        pa.field("id", pa.uint64()),  # null if removed
        pa.field("previous_id", pa.uint64()),  # null if added
        pa.field("split", pa.string()),
        pa.field("previous_split", pa.string()),
    ]
)
"""The columns of CHANGES_FILE."""

_CREATE = """
CREATE TABLE previous (split VARCHAR, id UBIGINT, canonical UBIGINT, content HUGEINT);
CREATE TABLE new AS FROM previous;
CREATE TABLE changes (change VARCHAR, id UBIGINT, previous_id UBIGINT, split VARCHAR, previous_split VARCHAR);
"""

# JSON distinguishes null, an empty list and zeros, which DuckDB's hash of a list does not.
_GAMES = "SELECT $split, id, canonical, hash(to_json(t)) FROM read_parquet($files) t"
_ROWS = "SELECT $split, game, game, sum(hash(t)::HUGEINT) FROM read_parquet($files) t GROUP BY game"

_PAIRS = (
    ("same", "content, split"), ("moved", "content"), ("changed", "id"), ("changed", "canonical"),
)  # fmt: skip
"""The changes in the order in which games are paired, and the columns in which the two games of a pair are equal."""

_PAIR = """
CREATE OR REPLACE TEMP TABLE pairs AS
WITH p AS (SELECT *, rowid AS number, row_number() OVER (PARTITION BY {keys} ORDER BY id, split) AS k FROM previous),
    n AS (SELECT *, rowid AS number, row_number() OVER (PARTITION BY {keys} ORDER BY id, split) AS k FROM new)
SELECT n.number, n.id, n.split, p.number AS previous_number, p.id AS previous_id, p.split AS previous_split
FROM p JOIN n USING ({keys}, k);
INSERT INTO changes SELECT '{change}', id, previous_id, split, previous_split FROM pairs;
DELETE FROM previous WHERE rowid IN (SELECT previous_number FROM pairs);
DELETE FROM new WHERE rowid IN (SELECT number FROM pairs);
"""
_REST = """
INSERT INTO changes SELECT 'removed', NULL, id, NULL, split FROM previous;
INSERT INTO changes SELECT 'added', id, NULL, split, NULL FROM new;
"""
_LISTED = "SELECT * FROM changes WHERE change <> 'same' ORDER BY ALL"


def publish(  # noqa: PLR0913 - options
    sets: Paths,
    output: str | os.PathLike[str],
    *,
    title: str | None = None,
    license: str | None = None,
    author: str | None = None,
    url: str | None = None,
    doi: str | None = None,
    date: str | None = None,
    version: str | None = None,
    previous: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    jobs: int | None = None,
    progress: ProgressFactory = silent,
) -> Publication:
    """Write a folder that can be published: the sets as splits, README.md, croissant.json, SHA256SUMS and kifu.json.

    The folder appears once it is complete. The same sets and arguments give the same bytes, on one day or with a date.

    Args:
        sets: Catalogues, data sets in Parquet, or folders of them. Their names become those of the splits.
        title: Title of the data set; by default the folder's name.
        license: License as an SPDX identifier in small letters, such as "cc-by-4.0", or another name of the Hugging
            Face Hub. Without it, the card has a field to fill in.
        author: The author in the citation. Without it, the citation has a field to fill in.
        url: An address of the data set, of http or https.
        doi: Its DOI, such as "10.5281/zenodo.1234".
        date: The day of publication, such as "2026-01-31"; by default today, in UTC.
        version: Such as "1.0.0". By default it follows from the changes since `previous`, or is 1.0.0.
        previous: A folder of an earlier version, which the card lists the changes from.
        overwrite: Replace a published folder of other sets or arguments (`kifu.io.keep_output`).
        jobs: See `kifu.execution.executor.make_executor`.
        progress: Reports the number of rows and positions.

    Returns:
        What the card is made from.

    Raises:
        FormatError: A set is damaged or of another format, or `previous` is not a published folder.
        RecipeError: The sets differ in kind or columns, their names are no valid splits, the license or the version
            is invalid, or the version is not larger than the previous one.
        OutputError: The folder cannot be written, or contains other files.
    """
    output = Path(output)
    if license is not None and license not in _HUB_LICENSES:
        _check_license(license)
    if url is not None and not _URL.fullmatch(url):
        raise RecipeError(f"url must begin with http:// or https:// and have no spaces, got {url!r}")
    if doi is not None and not _DOI.fullmatch(doi):
        raise RecipeError(f"doi must be like 10.5281/zenodo.1234, got {doi!r}")
    try:
        day = datetime.now(UTC).date() if date is None else day_type.fromisoformat(date)
    except ValueError:
        raise RecipeError(f"date must be like 2026-01-31, got {date!r}") from None
    earlier = None if previous is None else read_publication(Path(previous))
    _check_version(version, earlier)
    inputs = open_sets(_local(sets))
    if earlier is not None and earlier.kind != inputs[0].kind:
        raise RecipeError(f"{previous} is {earlier.kind}, but {inputs[0].path} is {inputs[0].kind}")
    given: dict[str, Any] = {"title": title or utf8_name(output.resolve().name), "license": license}
    given |= {"author": author, "url": url, "doi": doi, "kifu": importlib.metadata.version("kifu")}
    present = None
    with contextlib.suppress(FormatError):
        present = read_publication(output)
    is_same = present is not None and _is_made_from(present, given, inputs, earlier, date, version)
    if keep_output(output, overwrite, own=present is not None, same=is_same):
        assert present is not None
        with AtomicDirectory(output, MANIFEST):  # removes what a killed run left
            return present
    with AtomicDirectory(output, MANIFEST) as folder:
        publication = _describe(inputs, given | {"date": day.isoformat()}, jobs, progress)
        with progress("copying", sum(path.stat().st_size for each in inputs for path in each.files), "bytes") as bar:
            splits = [replace(split, files=_copy(folder, each, bar)) for each, split in zip(inputs, publication.splits)]
        changes, sums = None, {}
        if earlier is not None and previous is not None:
            changes, sums[CHANGES_FILE] = _compare(folder, Path(previous), earlier, inputs, progress)
        for each in inputs:
            if each.manifest is not None:
                name = f"{MANIFESTS}/{manifest_path(Path(each.name))}"
                sums[name] = _write(folder, name, each.manifest.to_json().decode())
        number = version or (_FIRST_VERSION if changes is None else next_version(changes))
        publication = replace(publication, version=number, splits=splits, changes=changes)
        sums["README.md"] = _write(folder, "README.md", render_card(publication))
        sums["croissant.json"] = _write(folder, "croissant.json", render_croissant(publication))
        _commit(folder, publication, sums)
    return publication


def _check_license(license: str) -> None:
    """Raise RecipeError unless a license is an SPDX identifier in small letters, as the Hub spells most of them."""
    from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression  # takes 5 ms

    try:
        known = " " not in license and canonicalize_license_expression(license).lower() == license
    except InvalidLicenseExpression:
        known = False
    if not known:
        raise RecipeError(f"license must be an identifier of SPDX or the Hub, such as cc-by-4.0, got {license!r}")


def _is_made_from(
    present: Publication,
    given: Mapping[str, Any],
    inputs: Sequence[InputSet],
    earlier: Publication | None,
    date: str | None,
    version: str | None,
) -> bool:
    """Return True if a folder was published from these sets and arguments; date and version may be None, as given."""
    given = {**given, **({} if date is None else {"date": date}), **({} if version is None else {"version": version})}
    files = {each.name: [hash_file(path) for path in each.files] for each in inputs}
    return (
        all(getattr(present, name) == value for name, value in given.items())
        and (present.changes and present.changes.previous) == (earlier and earlier.version)
        and {split.name: [file.blake3 for file in split.files] for split in present.splits} == files
    )


def _local(sets: Paths) -> list[Path]:
    paths = [as_path(path) for path in as_list(sets)]
    for path in paths:
        if isinstance(path, Remote):
            raise SourceError(f"{path}: only local files and folders can be published")
    return [Path(str(path)) for path in paths]


def _check_version(version: str | None, earlier: Publication | None) -> None:
    """Raise RecipeError for an invalid version, or one that is not larger than the earlier one."""
    if version is not None and parse_version(version) <= (parse_version(earlier.version) if earlier else ()):
        assert earlier is not None
        raise RecipeError(f"version must be larger than the previous one, {earlier.version}, got {version}")


def _describe(
    inputs: Sequence[InputSet], given: Mapping[str, Any], jobs: int | None, progress: ProgressFactory
) -> Publication:
    """Return all that the card reports except files, version and changes."""
    counts = SetCounts(inputs, jobs, progress)
    origin, sources = find_origin(inputs, counts.archives)
    audited, note = audit_splits(inputs, jobs, progress)
    return Publication(
        **given,
        version=_FIRST_VERSION,
        kind=inputs[0].kind,
        columns=describe_columns(inputs[0]),
        splits=[
            PublishedSplit(each.name, [], sum(each.files.values()), *counted)
            for each, counted in zip(inputs, counts.splits)
        ],
        origin=origin,
        sources=sources,
        counts=counts.counts,
        duplicates=find_duplicates(inputs, jobs),
        audit=audited,
        audit_note=note,
        changes=None,
    )


def _copy(folder: AtomicDirectory, each: InputSet, bar: Progress) -> list[PublishedFile]:
    copied = []
    for k, (source, rows) in enumerate(each.files.items()):
        shard = f"-{k:05}-of-{len(each.files):05}" if len(each.files) > 1 else ""
        name = f"data/{each.name}{shard}.parquet"
        sha256 = hashlib.sha256()
        with folder.file(name) as target:
            try:
                with open_regular(source) as file:
                    while block := file.read(_COPY_BYTES):
                        sha256.update(block)
                        target.write(block)
                        bar.advance(len(block))
            except OutputError:
                raise
            except OSError as error:
                raise SourceError(f"cannot read {source}: {first_line(error)}") from None
            copied.append(PublishedFile(name, rows, target.size, sha256.hexdigest(), target.commit()))
    return copied


def _compare(
    folder: AtomicDirectory, previous: Path, earlier: Publication, inputs: Sequence[InputSet], progress: ProgressFactory
) -> tuple[Changes, str]:
    """Write changes.parquet and return its SHA-256, too."""
    old = {split.name: [previous / file.path for file in split.files] for split in earlier.splits}
    new = {each.name: list(each.files) for each in inputs}
    with progress("comparing versions", len(old) + len(new), "splits") as bar, folder.file(CHANGES_FILE) as output:
        changes = write_changes(earlier.version, old, new, earlier.kind, output, bar)
        with output.path.open("rb") as file:
            return changes, hashlib.file_digest(file, "sha256").hexdigest()


def write_changes(previous: str, old: _Splits, new: _Splits, kind: str, output: AtomicFile, bar: Progress) -> Changes:
    """Compare the files of two versions, by split, with DuckDB, in bounded memory, and write changes.parquet.

    Raises MissingExtra if DuckDB is not installed.
    """
    import duckdb

    with (
        TableWriter(output, _CHANGES) as writer,
        tempfile.TemporaryDirectory() as spill,
        duckdb.connect(
            config={"memory_limit": "1GB", "temp_directory": spill, "autoinstall_known_extensions": False}
        ) as database,
    ):
        try:
            database.execute(_CREATE)
            for version, splits in (("previous", old), ("new", new)):
                for split, files in splits.items():
                    values = {"split": split, "files": list(map(str, files))}
                    database.execute(f"INSERT INTO {version} {_ROWS if kind == EXAMPLES else _GAMES}", values)
                    bar.advance()
            for change, keys in _PAIRS:
                database.execute(_PAIR.format(change=change, keys=keys))
            database.execute(_REST)
            counts = dict(database.execute("SELECT change, count(*) FROM changes GROUP BY change").fetchall())
            for batch in database.sql(_LISTED).to_arrow_reader():
                writer.write(batch.cast(_CHANGES))
        except duckdb.Error as error:
            raise FormatError(f"the versions cannot be compared: {first_line(error)}") from None
        names = ("added", "removed", "changed", "moved", "same")
        changes = Changes(previous, **{name: counts.get(name, 0) for name in names})
        writer.commit({"kifu.changes": changes.to_dict()})
    return changes


def _write(folder: AtomicDirectory, name: str, text: str) -> str:
    data = text.encode()
    with folder.file(name) as output:
        output.write(data)
        output.commit()
    return hashlib.sha256(data).hexdigest()


def _commit(folder: AtomicDirectory, publication: Publication, sums: dict[str, str]) -> None:
    manifest = publication.to_dict()
    sums = {file.path: file.sha256 for split in publication.splits for file in split.files} | sums
    with folder.file(CHECKSUMS) as output:
        sums[MANIFEST] = hashlib.sha256(folder.encode_index(manifest)).hexdigest()
        output.write("".join(f"{digest}  {name}\n" for name, digest in sums.items()).encode())
        output.commit()
    folder.commit(manifest)
