"""From archives to the files of a recipe."""

from __future__ import annotations

import importlib.metadata
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kifu.datasets.formats import Format, find_format
from kifu.datasets.manifest import ArchiveRows, Dropped, Manifest, manifest_path, read_manifest
from kifu.errors import Drop, FormatError, RecipeError, SourceError
from kifu.go.state import State, new_state
from kifu.output import Output, remove_file
from kifu.parallel import Crew
from kifu.planes import kgsgo
from kifu.progress import Bar, OpenBar, silent
from kifu.recipes.archives import LoadedArchive, find_archives, hash_archive, load_archive, read_index
from kifu.recipes.kgs_index import Archive
from kifu.recipes.sampling import Sampler, Selection
from kifu.recipes.schema import Recipe

_CHUNK_BYTES = 1 << 21
"""What a thread makes at one go: small enough to be written while it is in the processor's cache."""


@dataclass(frozen=True, slots=True)
class Built:
    """One finished file. fresh: False if an earlier run had made it from the same recipe and archives."""

    path: Path
    manifest: Manifest
    fresh: bool


@dataclass(frozen=True, slots=True)
class _Plan:
    """One file to make."""

    set: str
    path: Path
    selections: list[Selection]


@dataclass(frozen=True, slots=True)
class _Desk:
    """What a thread needs to make a chunk. Desks are few and go round, which also bounds the memory."""

    state: State
    tables: kgsgo.Tables
    records: npt.NDArray[np.uint8]
    plies: npt.NDArray[np.uint16]


@dataclass(frozen=True, slots=True)
class _Chunk:
    """The records of some games, on the desk where they were made.

    drop, examples: [K], what became of each game; plies: [N] uint16 and records: [N x record bytes], game after game.
    """

    drop: npt.NDArray[np.uint8]
    examples: npt.NDArray[np.int32]
    plies: npt.NDArray[np.uint16]
    records: npt.NDArray[np.uint8]


def build(
    recipe: Recipe,
    sources: Iterable[str | os.PathLike[str]],
    into: str | os.PathLike[str],
    *,
    sets: Sequence[str] | None = None,
    index: str | os.PathLike[str] | None = None,
    jobs: int | None = None,
    progress: OpenBar = silent,
) -> list[Built]:
    """Makes the files of a recipe's sets, each with its manifest, and returns them in the order of `sets`.

    sources: archives named as KGS names them, or folders with such. sets: default those that the recipe marks so.
    index: an index page (file), whose archives and order the draws use; without it, the archives at hand, newest
    first. jobs: threads; the bytes are the same for any number. A file that is there already, made by this version
    from the same recipe and archives, stays as it is. Files are complete or not there at all, whatever interrupts.
    Raises RecipeError, SourceError or OutputError. A game that cannot be used is dropped, and told of in the manifest.
    """
    names = recipe.default_sets() if sets is None else list(sets)
    for name in names:
        if name not in recipe.sets:
            raise RecipeError(f"recipe {recipe.name} has no set {name!r}; it has {', '.join(recipe.sets)}")
    paths = find_archives(sources)
    archives = read_index(index, paths)
    sampler = Sampler(recipe, archives)
    plans = [plan for name in names for plan in _plans(recipe, name, sampler, Path(into))]
    _require_archives({s.archive for plan in plans for s in plan.selections}, paths)
    with Crew(jobs) as crew:
        return [_build_file(recipe, plan, paths, crew, progress) for plan in plans]


def _plans(recipe: Recipe, name: str, sampler: Sampler, into: Path) -> list[_Plan]:
    chosen = recipe.sets[name]
    selections = sampler.select(name)
    if not chosen.by_archive:
        return [_Plan(name, into / chosen.file, selections)]
    return [_Plan(name, into / chosen.file.replace("{archive}", s.archive.stem), [s]) for s in selections]


def _require_archives(wanted: set[Archive], paths: dict[Archive, Path]) -> None:
    missing = sorted(a.stem for a in wanted if a not in paths)
    if missing:
        listed = ", ".join(missing[:3]) + (", ..." if len(missing) > 3 else "")
        raise SourceError(f"{len(missing)} of the {len(wanted)} archives that the sets draw from are missing: {listed}")


def _build_file(recipe: Recipe, plan: _Plan, paths: dict[Archive, Path], crew: Crew, progress: OpenBar) -> Built:
    layout = find_format(recipe.format)
    earlier = _earlier(recipe, plan, paths)
    if earlier is not None:
        return Built(plan.path, earlier, False)
    remove_file(manifest_path(plan.path))  # so that a manifest never stands beside another's file
    games = sum(len(s.games) for s in plan.selections)
    origins: list[ArchiveRows] = []
    dropped: list[Dropped] = []
    with (
        Output(plan.path, layout.header(_foreseen(plan, paths, crew) if layout.header_bytes else 0)) as output,
        progress(f"building {plan.path.name}", games, "games") as bar,
    ):
        loaded = crew.map(lambda s: load_archive(paths[s.archive], s.archive), plan.selections, ahead=1)
        for selection, archive in zip(plan.selections, loaded):
            origin, aside = _write_archive(archive, archive.rows(selection.games), layout, output, crew, bar)
            origins.append(origin)
            dropped += aside
        examples = sum(sum(o.rows) for o in origins)
        output.write(layout.end)
        digest = output.commit(layout.header(examples))
    manifest = Manifest(
        kifu=importlib.metadata.version("kifu"),
        file=plan.path.name,
        format=layout.name,
        plane_set=layout.plane_set,
        recipe=recipe.model_dump(),
        set=plan.set,
        examples=examples,
        bytes=output.size,
        blake3=digest,
        read=games,
        kept=games - len(dropped),
        drops=dict(sorted(Counter(d.reason for d in dropped).items())),
        dropped=dropped,
        archives=origins,
    )
    manifest.write(manifest_path(plan.path))
    return Built(plan.path, manifest, True)


def _foreseen(plan: _Plan, paths: dict[Archive, Path], crew: Crew) -> int:
    """How many examples there will be, unless a move cannot be played: known before any is written, the number can be
    hashed with the rest. To read the archives twice takes a tenth of the time that reading the result again would."""

    def count(selection: Selection) -> int:
        archive = load_archive(paths[selection.archive], selection.archive)
        return archive.foresee(archive.rows(selection.games))

    return sum(crew.map(count, plan.selections, ahead=1))


def _write_archive(
    archive: LoadedArchive, rows: npt.NDArray[np.int64], layout: Format, output: Output, crew: Crew, bar: Bar
) -> tuple[ArchiveRows, list[Dropped]]:
    """Writes the records of the archive's games `rows`, and says which gave them and which were set aside."""
    drop = np.empty(len(rows), np.uint8)
    made = np.empty(len(rows), np.int32)
    plies = [np.empty(0, np.uint16)]
    at = 0
    for chunk in _chunks(archive, rows, layout, crew):
        output.write(chunk.records.data)
        drop[at : at + len(chunk.drop)] = chunk.drop
        made[at : at + len(chunk.drop)] = chunk.examples
        plies.append(chunk.plies.copy())
        at += len(chunk.drop)
        bar.advance(len(chunk.drop))
    kept = drop == Drop.KEPT
    member = archive.games.member[rows]
    stem = archive.archive.stem
    origin = ArchiveRows.of(stem, archive.blake3, member[kept], made[kept], np.concatenate(plies))
    aside = zip(member[~kept], rows[~kept], drop[~kept])
    return origin, [Dropped(stem, int(m), archive.name(g), Drop(why).name) for m, g, why in aside]


def _earlier(recipe: Recipe, plan: _Plan, paths: dict[Archive, Path]) -> Manifest | None:
    """The manifest of the file, if it is what this run would make again."""
    try:
        manifest = read_manifest(plan.path)
    except FormatError:
        return None
    if (
        manifest is None
        or manifest.kifu != importlib.metadata.version("kifu")
        or (manifest.recipe, manifest.set) != (recipe.model_dump(), plan.set)
        or not plan.path.is_file()
        or plan.path.stat().st_size != manifest.bytes
    ):
        return None
    if [o.archive for o in manifest.archives] != [s.archive.stem for s in plan.selections]:
        return None
    dropped = {(d.archive, d.member) for d in manifest.dropped}
    for origin, selection in zip(manifest.archives, plan.selections):
        members = (selection.games + 1).tolist()
        if origin.member != [m for m in members if (origin.archive, m) not in dropped]:
            return None  # drawn by another index page
        if origin.blake3 != hash_archive(paths[selection.archive]):
            return None
    return manifest


def _chunks(archive: LoadedArchive, rows: npt.NDArray[np.int64], layout: Format, crew: Crew) -> Iterator[_Chunk]:
    """The records of the archive's games `rows`, some games at a time; each chunk lasts until the next is asked for."""
    moves = np.diff(archive.games.move_offset)[rows]
    spans = list(pairwise(_cuts(moves * layout.record_bytes)))
    room = max((int(moves[a:b].sum()) for a, b in spans), default=0)
    ahead = crew.jobs + 1
    desks = [_new_desk(room, layout) for _ in range(ahead + 1)]
    tasks = ((rows[a:b], desks.pop()) for a, b in spans)  # drawn, and so popped, in this thread only
    for chunk, desk in crew.map(lambda task: (_make_chunk(archive, layout, *task), task[1]), tasks, ahead):
        yield chunk
        desks.append(desk)


def _cuts(sizes: npt.NDArray[np.int64]) -> list[int]:
    """Where to cut a row of games into chunks of about _CHUNK_BYTES each, whatever the number of threads."""
    piece = np.cumsum(sizes) // _CHUNK_BYTES
    return [0, *(np.flatnonzero(np.diff(piece)) + 1).tolist(), len(sizes)] if len(sizes) else []


def _new_desk(moves: int, layout: Format) -> _Desk:
    return _Desk(
        new_state(19, 19),
        kgsgo.new_tables(),
        np.empty(moves * layout.record_bytes, np.uint8),
        np.empty(moves, np.uint16),
    )


def _make_chunk(archive: LoadedArchive, layout: Format, rows: npt.NDArray[np.int64], desk: _Desk) -> _Chunk:
    games = archive.games
    drop = archive.drop[rows]
    usable = drop == Drop.KEPT
    picks = rows[usable]
    why = np.empty(len(picks), np.uint8)
    made = np.empty(len(picks), np.int32)
    total = kgsgo.write_records(
        desk.state,
        games.moves,
        games.move_offset,
        games.setup,
        games.setup_offset,
        games.root_setup,
        archive.handicap,
        picks,
        kgsgo.V1 if layout.name == "dat1@1" else kgsgo.V2,
        desk.tables,
        desk.records,
        desk.plies,
        why,
        made,
    )
    drop[usable] = why
    examples = np.zeros(len(rows), np.int32)
    examples[usable] = made
    return _Chunk(drop, examples, desk.plies[:total], desk.records[: total * layout.record_bytes])
