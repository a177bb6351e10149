"""The build pipeline that all recipes of data sets share.

A build finds and hashes its sources once, keeps each output that an earlier run made from the same recipe and sources,
makes the others, and writes a manifest beside each. `make_targets` does that; each kind of recipe says how an output is
made.
"""

from __future__ import annotations

import importlib.metadata
import logging
import os
import shutil
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import BaseModel

from kifu.arrays import Ints
from kifu.corpus.catalogue import Catalogue, RowShard, open_catalogue, read_shard
from kifu.corpus.cleaning import CleaningRules, load_cleaning_rules
from kifu.corpus.schema import count_drops, drop_codes, to_numpy
from kifu.corpus.sources import GameSources, Source, find_sources, hash_sources, hashed_infos, require_unchanged
from kifu.corpus.splits import ListSplit
from kifu.datasets.filter import DEFAULT_FILTER
from kifu.datasets.manifest import (
    AnyManifest,
    ArchiveRows,
    DroppedGame,
    Manifest,
    OriginsWriter,
    WriteReport,
    manifest_path,
    origins_path,
    read_manifest,
)
from kifu.errors import DropReason, FormatError, RecipeError, printable
from kifu.execution.executor import THREADS, Executor, make_executor
from kifu.io import (
    held_folder,
    keep_output,
    locked_folder,
    remove_file,
    require_room,
    require_same,
    require_size,
    utf8_name,
    write_file,
)
from kifu.progress import ProgressFactory, silent
from kifu.recipes.schema import (
    KGSGO,
    KINDS,
    KgsgoRecipe,
    Recipe,
    SplitRecipe,
    load_recipe,
    require_sets,
)
from kifu.records.paths import Paths
from kifu.text import Report, format_bytes, format_games

_log = logging.getLogger(__name__)

CATALOGUE = "games.parquet"
"""File name of the catalogue that a build makes of sources that are not catalogues already."""


M = TypeVar("M", bound=AnyManifest)

_COUNTS = ("set", "format", "plane_set", "examples", "bytes", "blake3", "read", "kept", "elsewhere", "drops")
"""Fields of manifests that reports list."""


@dataclass(frozen=True, slots=True)
class BuildReport(Report, Generic[M]):
    """A finished output of a build.

    Attributes:
        path: The data set, or the directory of an archive.
        fresh: False if an earlier run had made it from the same recipe and sources.
        files: The manifest and all files that it lists.
    """

    path: Path
    manifest: M
    fresh: bool
    files: list[Path] = field(repr=False, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """Return path, freshness, and the counts of the manifest without its lists of games."""
        values = {name: getattr(self.manifest, name, None) for name in _COUNTS}
        return {"path": str(self.path), "fresh": self.fresh, **{k: v for k, v in values.items() if v is not None}}

    def __repr__(self) -> str:
        return f"<BuildReport {self}>"

    def __str__(self) -> str:
        return printable(f"{self.path}: {self.manifest.summary()}" + ("" if self.fresh else " (was there already)"))


class BuildOptions(NamedTuple):
    """The options of `build`, and what runs its work. is_sample: True if the size does not matter."""

    executor: Executor
    progress: ProgressFactory = silent
    sets: Sequence[str] | None = None
    index_page: str | os.PathLike[str] | Sequence[str] | None = None
    overwrite: bool = False
    is_sample: bool = False

    def announce(self, path: Path, size: float) -> None:
        """Log the bytes that an output will take. Raises OutputError if the disk has less room."""
        if not self.is_sample:
            _log.info("%s: about %s", printable(path), format_bytes(round(size)))
            require_room(path, size)


class Target(NamedTuple):
    """An output to build."""

    set: str
    path: Path
    manifest: Path

    @classmethod
    def of(cls, set: str, path: Path) -> Target:
        """Return the target for a data set at `path`."""
        return cls(set, path, manifest_path(path))

    @property
    def unfinished(self) -> Path:
        """An empty file beside an output whose manifest is not written yet."""
        return self.manifest.with_name(f".{self.manifest.name}.unfinished")

    def forget(self) -> None:
        """Remove `unfinished` unless there is an output without a manifest."""
        is_folder = self.path == self.manifest.parent  # of an archive, which has folders by board
        made = any(self.path.glob("*/*")) if is_folder else self.path.exists()
        if self.manifest.exists() or not made:
            remove_file(self.unfinished)


def make_targets(
    recipe: BaseModel,
    targets: Sequence[Target],
    overwrite: bool,
    read: Callable[[Target], M | None],
    is_current: Callable[[Target, M], bool],
    prepare: Callable[[list[Target], ExitStack], Callable[[Target], M]],
) -> list[BuildReport[M]]:
    """Make the targets that are not up to date and write their manifests.

    A stale manifest is removed first, so a manifest always describes the data set that it lies next to. If a run is
    stopped between the two, `Target.unfinished` shows that the data set is not foreign. Raises OutputError as
    `keep_output`, and if a file cannot be written, or was removed or replaced during the build.

    Args:
        read: Returns the manifest of a target, None if there is no valid one.
        is_current: Returns True if a target that this version made from the recipe has the same sources.
        prepare: Prepares to make stale targets, until the stack ends; its value writes a target and returns the
            manifest.
    """
    made_by = (importlib.metadata.version("kifu"), recipe.model_dump(mode="json"))

    def read_whole(target: Target) -> M | None:
        manifest = read(target)
        if manifest is None or (manifest.kifu, manifest.recipe) != made_by:
            return None
        if getattr(manifest, "set", target.set) != target.set or not is_current(target, manifest):
            return None
        whole = all(
            path.is_file() and path.stat().st_size == file.bytes for path, file in manifest.files_at(target.path)
        )
        return manifest if whole else None

    manifests = {target: read_whole(target) for target in targets}
    stale = [target for target, manifest in manifests.items() if manifest is None]
    for target in stale:
        interrupted = target.unfinished.is_file()
        own = interrupted or read(target) is not None
        path = target.manifest if target.manifest.parent == target.path else target.path
        keep_output(path, overwrite or interrupted, own=own, same=False)
        keep_output(target.manifest, overwrite=True, own=own)
    made: dict[Target, M] = {}
    if stale:
        with ExitStack() as stack:
            make = prepare(stale, stack)
            for folder in {target.manifest.parent for target in stale}:
                stack.enter_context(held_folder(folder))
            written: dict[Path, os.stat_result] = {}
            for target in stale:
                write_file(target.unfinished, b"")
                stack.callback(target.forget)
                remove_file(target.manifest)
                remove_file(origins_path(target.path))
                made[target] = make(target)
                for path, file in made[target].files_at(target.path):
                    written[path] = require_size(path, file.bytes)
                made[target].write(target.manifest)
                written[target.manifest] = require_size(target.manifest)
            for path, status in written.items():
                require_same(path, status)
    reports = []
    for target, manifest in manifests.items():
        final = manifest or made[target]
        paths = [target.manifest, *(path for path, _ in final.files_at(target.path))]
        reports.append(BuildReport(target.path, final, manifest is None, paths))
    return reports


def build(  # noqa: PLR0913 - options
    recipe: str | os.PathLike[str] | Recipe,
    sources: Paths,
    output: str | os.PathLike[str],
    *,
    sets: Sequence[str] | None = None,
    index: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    jobs: int | None = None,
    engine: str = THREADS,
    progress: ProgressFactory = silent,
) -> list[BuildReport[Any]]:
    """Build the data sets of a recipe, each with its manifest.

    Data sets that an earlier run of this version made from the same recipe and sources are kept. Files are complete or
    absent, even if the build is interrupted. `kifu.recipes.kgsgo.build_kgsgo`, `kifu.recipes.examples.write_examples`,
    `kifu.recipes.examples.write_tokens`, `kifu.katago.build.write_rows` and `kifu.recipes.olf_archive.build_archive`
    describe each kind of recipe.

    Args:
        recipe: The name of a recipe, a TOML file, or a recipe from `load_recipe`.
        sources: Archives, directories, records and catalogues; for recipes that draw games from the archives of KGS,
            archives with names as there, or directories that hold them.
        overwrite: Replace data sets of other recipes or sources, and damaged ones (`kifu.io.keep_output`).
        sets: Names of sets, by default those of the recipe.
        index: An index page (HTML file) of the archives of KGS, for recipes that draw games from them.
        jobs: Number of threads or processes, by default one per core.
        engine: Execution backend, see `kifu.execution.executor.make_executor`. The bytes do not depend on it.

    Returns:
        One report per data set, in the order of `sets`.

    Raises:
        RecipeError: The recipe or a set is unknown, the recipe trains a network, or its kind has no option `sets` or
            `index`.
    """
    if isinstance(recipe, str | os.PathLike):
        recipe = load_recipe(recipe)
    catalogue = Path(output, CATALOGUE)
    had_catalogue = catalogue.exists()
    with make_executor(engine, jobs) as executor:
        options = BuildOptions(executor, progress, sets, index, overwrite)
        reports = build_any(recipe, sources, catalogue.parent, options)
    empty = [each for each in reports if not getattr(each.manifest, "examples", each.manifest.kept)]
    if empty and len(empty) == len(reports):
        for each in (each for each in empty if each.fresh):
            for path in each.files:
                remove_file(path)
            if each.path != each.files[0].parent:  # not an archive, whose folder may have other files
                shutil.rmtree(each.path, ignore_errors=True)
        if not had_catalogue:
            remove_file(catalogue)
        with suppress(OSError):
            catalogue.parent.rmdir()
        hint = ", with clean=legal all legal ones are kept" if getattr(recipe, "clean", None) else ""
        raise RecipeError(f"recipe {recipe.name} uses none of these games{hint}: {empty[0].manifest.summary()}")
    for each in (each.manifest for each in empty):
        games = format_games(each.read, each.kept, each.drops, each.elsewhere)
        _log.warning("set %s has no examples: %s", printable(each.set), games)
    return reports


def build_any(recipe: Recipe, sources: GameSources, output: Path, options: BuildOptions) -> list[BuildReport[Any]]:
    """Build as `build` does; all data sets may be empty."""
    kind = KINDS.get(getattr(recipe, "kind", ""), KGSGO)
    if not kind.build:
        raise RecipeError(f"recipe {recipe.name} trains a network: use kifu.train, or the command kifu train")
    for name, value in (("sets", options.sets), ("index", options.index_page)):
        if value is not None and name not in kind.options:
            raise RecipeError(f"recipe {recipe.name} has no option {name}")
    function: Callable[..., Any] = resolve_name(kind.build)
    if isinstance(recipe, SplitRecipe):
        return build_sets(recipe, function, sources, output, options)
    reports: list[BuildReport[Any]] = function(recipe, sources, output, options)
    return reports


def chosen_sets(recipe: KgsgoRecipe | SplitRecipe, sets: Sequence[str] | None) -> list[str]:
    """Return the sets to build, by default those of the recipe. Raises RecipeError if it has no set of that name."""
    names = recipe.default_sets() if sets is None else list(sets)
    try:
        require_sets(recipe, names)
    except RecipeError as error:
        raise RecipeError(f"recipe {recipe.name}: {error}") from None
    return names


def select_sets(recipe: Any, sets: Sequence[str] | None) -> Any:
    """Return a copy of the recipe that builds these sets if none is named. Raises RecipeError."""
    if sets is None:
        return recipe
    if isinstance(recipe, KgsgoRecipe):
        names = chosen_sets(recipe, sets)
        game_sets = {name: each.model_copy(update={"default": name in names}) for name, each in recipe.sets.items()}
        return recipe.model_copy(update={"sets": game_sets})
    if isinstance(recipe, SplitRecipe):
        return recipe.model_copy(update={"sets": tuple(chosen_sets(recipe, sets))})
    raise RecipeError(f"recipe {recipe.name} has no option sets")


def output_names(recipe: Any) -> list[str]:
    """Return the names of the files or directories that a build of the default sets writes, below its directory."""
    if isinstance(recipe, KgsgoRecipe):
        return [recipe.sets[name].file for name in recipe.default_sets()]
    if isinstance(recipe, SplitRecipe):
        return [f"{name}{recipe.suffix}" for name in recipe.default_sets()]
    return [""]


def read_valid_manifest(target: Target) -> Manifest | None:
    """Return the manifest of a data set, None if there is no valid one."""
    with suppress(FormatError):
        return read_manifest(target.path)
    return None


def are_same(recorded: object, sources: list[Source]) -> bool:
    """Return whether recorded sources are these, with their hashes."""
    return recorded is not None and recorded == hashed_infos(sources)


def ingest_sources(sources: list[Source], path: Path, clean: CleaningRules, options: BuildOptions) -> Catalogue:
    """Return the catalogue of all games of the sources at `path`, which is read anew unless an earlier run made it."""
    if any(isinstance(source.path, Path) and source.path.resolve() == path.resolve() for source in sources):
        raise RecipeError(f"{path} is a source and also the catalogue that the build writes; choose another folder")
    from kifu.corpus.ingest import ingest

    ingest(sources, path, clean=clean, overwrite=options.overwrite, jobs=options.executor, progress=options.progress)
    return open_catalogue(path)


# Data sets that are made from catalogues.


class SetChunk(NamedTuple):
    """The examples and counts of some rows of a catalogue for one set.

    Attributes:
        content: Their examples, in the form that the writer of the set takes.
        member: [K] int32, the games with examples, as rows of the catalogue.
        rows: [K] int32, the number of examples of each.
        plies: [sum of rows] uint16, the ply of each example.
        drops: Dropped games, by reason.
        elsewhere: Number of games of other sets or of none.
        read: Number of games.
    """

    content: Any
    member: Ints
    rows: Ints
    plies: npt.NDArray[np.uint16]
    drops: Counter[str]
    elsewhere: int
    read: int


class ManifestCounts(ExitStack):
    """Counts the games of one set, whose chunks are added in order, for its manifest.

    A context manager: the file of origins, which games with examples are written to, is complete or absent.
    """

    def __init__(self, set: str, path: Path) -> None:
        """Count the games of a set, which is written to `path`."""
        super().__init__()
        self._set = set
        self._path = path
        self._drops: Counter[str] = Counter()
        self._dropped: list[DroppedGame] = []
        self._elsewhere = self._games = self._rows = 0
        self._archives: list[ArchiveRows] = []
        self._origins: OriginsWriter | None = None

    def add(self, chunk: SetChunk) -> None:
        """Count the games of a chunk."""
        self.add_dropped(chunk.drops, chunk.elsewhere)
        self.add_games(chunk.member, chunk.rows, chunk.plies)

    def add_dropped(self, drops: Counter[str], elsewhere: int) -> None:
        """Count games without examples: dropped ones by reason, and those of other sets or of none."""
        self._drops += drops
        self._elsewhere += elsewhere

    def list_dropped(self, games: list[DroppedGame]) -> None:
        """Count and list dropped games, which no catalogue lists."""
        self._dropped += games
        self._drops += Counter(game.reason for game in games)

    def add_games(self, member: Ints, rows: Ints, plies: npt.NDArray[np.uint16]) -> None:
        """Add K games with examples, see `SetChunk`; of an archive, `member` are indices in it."""
        if self._origins is None:
            self._origins = self.enter_context(OriginsWriter(origins_path(self._path)))
        self._origins.add(len(self._archives), member, rows, plies)
        self._games += len(member)
        self._rows += len(plies)

    @property
    def rows(self) -> int:
        """The number of examples of all finished archives."""
        return sum(archive.rows for archive in self._archives)

    def end_archive(self, name: str, digest: str) -> None:
        """Finish an archive or a catalogue with this hash."""
        self._archives.append(ArchiveRows(utf8_name(name), digest, self._games, self._rows))
        self._games = self._rows = 0

    def manifest(
        self,
        recipe: BaseModel,
        games: int,
        sources: list[dict[str, Any]],
        written: WriteReport,
        format: str,
        plane_set: str,
    ) -> Manifest:
        """Finish the file of origins and return the manifest of the set, once all its archives are finished.

        plane_set: the name of its plane set; empty without planes.
        """
        return Manifest(
            kifu=importlib.metadata.version("kifu"),
            file=utf8_name(self._path.name),
            format=format,
            plane_set=plane_set,
            recipe=recipe.model_dump(mode="json"),
            set=self._set,
            examples=written.examples,
            files=list(written.files),
            read=games,
            kept=games - self._elsewhere - self._drops.total(),
            elsewhere=self._elsewhere,
            drops=dict(sorted(self._drops.items())),
            dropped=self._dropped,
            sources=sources,
            archives=self._archives,
            origins=None if self._origins is None else self._origins.commit(),
        )


class RowSlice(NamedTuple):
    """Rows of a catalogue that are processed together; first: index of the first one."""

    first: int
    batch: pa.RecordBatch


def row_slices(columns: Iterable[str], rows: int, shard: RowShard) -> Iterator[RowSlice]:
    """Yield all rows of a shard, `rows` at a time, with these columns. Columns may repeat."""
    first = shard.row
    for batch in read_shard(shard, list(dict.fromkeys(columns)), rows):
        yield RowSlice(first, batch)
        first += len(batch)


@dataclass(frozen=True)
class SetJob:
    """Base of what processes slices of rows of catalogues for one set of a recipe."""

    recipe: SplitRecipe
    set: str

    def reader(self, columns: Iterable[str], rows: int) -> Callable[[RowShard], Iterator[RowSlice]]:
        """Return the function that yields the slices of a shard, with these columns and those of the split."""
        split = self.recipe.split
        return partial(row_slices, (*columns, "id", *(split.columns if split else ())), rows)

    def usable_rows(
        self, batch: pa.RecordBatch, unfit: Iterable[tuple[npt.NDArray[np.bool_], DropReason]]
    ) -> tuple[npt.NDArray[np.int64], Counter[str], int]:
        """Return the kept rows of the set, the dropped games by reason, and the number of games of other sets.

        unfit: [G] bool, games of the set that are dropped for a reason; the first that applies counts.
        """
        split, drop, in_set = self.recipe.split, drop_codes(batch), self.recipe.drawn(batch)
        if split is not None:
            in_set &= split.codes(batch) == list(split.sets).index(self.set)
        for applies, reason in unfit:
            drop[(drop == DropReason.KEPT) & in_set & applies] = reason
        rows, drops = np.flatnonzero((drop == DropReason.KEPT) & in_set), count_drops(drop)
        return rows, drops, len(batch) - drops.total() - len(rows)


class SetPlan(NamedTuple):
    """A data set to make. about: JSON values for its index; catalogues: with the digest of each."""

    set: str
    path: Path
    about: dict[str, str]
    catalogues: list[tuple[Catalogue, str]]
    executor: Executor
    progress: ProgressFactory
    counts: ManifestCounts

    @property
    def games(self) -> int:
        """The number of games in the catalogues, of any set."""
        return sum(len(catalogue) for catalogue, _ in self.catalogues)

    @property
    def shards(self) -> list[RowShard]:
        """The shards of all catalogues."""
        return [shard for catalogue, _ in self.catalogues for shard in catalogue.shards()]

    def run(
        self, process: Callable[[RowSlice], SetChunk], read: Callable[[RowShard], Iterator[RowSlice]]
    ) -> Iterator[SetChunk]:
        """Yield the results of a map over the rows, in order, and count them; each catalogue is an archive."""
        for catalogue, digest in self.catalogues:
            for chunk in self.executor.run(process, catalogue.shards(), read):
                yield chunk
                self.counts.add(chunk)
            self.counts.end_archive(catalogue.path.name, digest)


def build_sets(
    recipe: SplitRecipe,
    write: Callable[[Any, SetPlan], tuple[WriteReport, str, str]],
    sources: GameSources,
    into: Path,
    options: BuildOptions,
) -> list[BuildReport[Manifest]]:
    """Build data sets from catalogues, or from a catalogue that is made of the sources first; see `build`.

    `write` writes a data set, to `into`/SET + suffix, and returns its report, format and plane set ("" without planes);
    its recipe has the split fit to all catalogues, as by `kifu split`. Sources that are all catalogues are used as they
    are, if the recipe has no cleaning rules or they were made by the same rules. Otherwise all sources are read into a
    new catalogue, games.parquet in `into`, which only one build at a time may use. Raises RecipeError if the recipe has
    no such set, or a source is the catalogue that would be written.
    """
    names = chosen_sets(recipe, options.sets)
    if not names:
        return []
    found = find_sources(sources)
    targets = [Target.of(name, into / f"{name}{recipe.suffix}") for name in dict.fromkeys(names)]
    hashed = hash_sources(found, options.executor)

    def is_current(_: Target, manifest: Manifest) -> bool:
        has_hash = not isinstance(recipe.split, ListSplit)  # its lists have none
        return has_hash and are_same(manifest.sources, hashed)

    def prepare(stale: list[Target], stack: ExitStack) -> Callable[[Target], Manifest]:
        catalogues = _usable_catalogues(recipe, hashed)
        if catalogues is None:
            stack.enter_context(locked_folder(into))  # no other build may replace its catalogue meanwhile
            clean = recipe.clean or load_cleaning_rules("legal")
            catalogues = [ingest_sources(hashed, into / CATALOGUE, clean, options)]
        inputs = [(each, each.digest()) for each in catalogues]
        infos = [each.info for each in hashed]
        fitted = recipe.fit([each.path for each in catalogues])
        count = _count_positions(fitted, {target.set for target in stale}, catalogues)
        options.announce(into, count * recipe.position_bytes(catalogues))

        def make_set(target: Target) -> Manifest:
            about = {"recipe": recipe.name, "title": recipe.title, "set": target.set}
            with ManifestCounts(target.set, target.path) as counts:
                plan = SetPlan(target.set, target.path, about, inputs, options.executor, options.progress, counts)
                manifest = counts.manifest(fitted, plan.games, infos, *write(fitted, plan))
            require_unchanged(hashed)
            return manifest

        return make_set

    return make_targets(recipe, targets, options.overwrite, read_valid_manifest, is_current, prepare)


def _count_positions(recipe: SplitRecipe, sets: Collection[str], catalogues: Iterable[Catalogue]) -> int:
    """Return the number of positions of some sets, about: of their games on boards of any size."""
    split, positions = recipe.split, 0
    most = getattr(recipe, "positions", DEFAULT_FILTER).per_game
    columns = ["id", "drop", "n_legal", *(split.columns if split else ())]
    for batch in (batch for each in catalogues for batch in each.batches(columns)):
        in_sets = (drop_codes(batch) == DropReason.KEPT) & recipe.drawn(batch)
        if split is not None:
            in_sets &= np.isin(split.codes(batch), [code for code, name in enumerate(split.sets) if name in sets])
        lengths = to_numpy(batch["n_legal"])[in_sets]
        positions += int((lengths if most is None else np.minimum(lengths, most)).sum())
    return positions


def _usable_catalogues(recipe: SplitRecipe, sources: list[Source]) -> list[Catalogue] | None:
    """Return the sources if they are catalogues made by the recipe's cleaning rules, or if it has none."""
    rules = None if recipe.clean is None else recipe.clean.model_dump(mode="json")
    catalogues = [source.catalogue for source in sources if source.catalogue is not None]
    usable = all(rules in (None, each.metadata.get("clean")) for each in catalogues)
    return catalogues if usable and len(catalogues) == len(sources) else None
