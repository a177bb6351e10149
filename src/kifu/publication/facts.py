"""The facts of a data card: counts, origin, duplicates, and the audit between splits."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kifu.corpus.catalogue import open_catalogue
from kifu.corpus.duplicates import find_clusters
from kifu.corpus.ingest import IngestReport
from kifu.corpus.stats import OTHERS, UNKNOWN, stats
from kifu.errors import DropReason
from kifu.execution.executor import THREADS, make_executor
from kifu.leaks.audit import LATE, audit
from kifu.progress import ProgressFactory
from kifu.publication.manifest import AuditedPair, Duplicates
from kifu.publication.sets import InputSet

_MAX_DISTINCT = 20_000
"""Number of distinct servers and archives that are counted one by one."""

_SERVERS = 12
_LISTED = 10
"""Number of shared games that are listed for each pair of splits."""


class SetCounts:
    """Counts of sets: the games of each split, and over all splits those of servers, archives and programs."""

    def __init__(self, sets: Sequence[InputSet], jobs: int | None, progress: ProgressFactory) -> None:
        """Read all catalogues; the counts of data sets come from their manifests.

        Raises:
            FormatError: If a file is damaged.
        """
        self.splits: list[tuple[int | None, int, dict[str, int]]] = []
        self.archives: Counter[str] = Counter()
        self._servers: Counter[str] = Counter()
        self._programs: Counter[str] = Counter()
        for each in sets:
            if each.layout is not None:
                games, drops = (None, {}) if each.manifest is None else (each.manifest.kept, each.manifest.drops)
                self.splits.append((games, sum(each.files.values()), drops))
                continue
            report = IngestReport()
            columns = ("drop", "n_legal", "place", "archive", "black_program", "white_program")
            for batch in open_catalogue(each.path).batches(columns, size=1 << 16):
                report.add(batch)
                self._add(batch.filter(batch["drop"].is_null()))
            drops = {name.lower(): count for name, count in sorted(report.drops.items())}
            self.splits.append((report.kept, report.moves, drops))
        self.counts: dict[str, Any] = {}
        if sets[0].layout is None:
            counted = json.loads(stats([each.path for each in sets], jobs=jobs, progress=progress).to_json())
            listed = ("kept", "ranks", "years", "results", "lengths", "handicaps", "komi", "boards", "formats")
            self.counts = {name: counted[name] for name in listed}
            self.counts |= {"servers": _most_common(self._servers), "programs": dict(sorted(self._programs.items()))}

    def _add(self, kept: pa.RecordBatch) -> None:
        _count(self.archives, kept["archive"])
        _count(self._servers, kept["place"].fill_null(UNKNOWN))
        programs = pc.add(kept["black_program"].cast(pa.uint8()), kept["white_program"].cast(pa.uint8()))
        _count(self._programs, programs.cast(pa.string()))


def _count(counter: Counter[str], column: pa.Array) -> None:
    for each in column.value_counts().to_pylist():
        value = each["values"]
        counter[value if value in counter or len(counter) < _MAX_DISTINCT else OTHERS] += each["counts"]


def _most_common(counter: Counter[str]) -> dict[str, int]:
    """Return the most frequent values, most frequent first, then by name; the others as one."""
    ordered = sorted(counter.items(), key=lambda item: (-item[1], item[0]))
    rest = sum(count for _, count in ordered[_SERVERS:])
    return dict(ordered[:_SERVERS]) | ({OTHERS: rest} if rest else {})


def find_origin(sets: Sequence[InputSet]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return how the sets were made, and their sources, as far as their metadata list them."""
    origin: dict[str, Any] = {}
    sources: dict[str, dict[str, Any]] = {}
    for each in sets:
        if each.manifest is not None:
            origin |= {"recipe": each.manifest.recipe}
            found = each.manifest.sources
        else:
            origin |= {name: each.about[name] for name in ("recipe", "split", "query") if name in each.about}
            parents = each.about.get("of", [each.about])
            abouts = [about for parent in _dicts(parents) for about in _dicts([parent.get("about", parent)])]
            found = [source for about in abouts for source in _dicts(about.get("sources", [])) or [about]]
            if len(abouts) == 1:
                origin |= {name: abouts[0][name] for name in ("clean", "read", "kept", "drops") if name in abouts[0]}
        for source in _dicts(found):
            if "name" in source:
                sources.setdefault(json.dumps(source, sort_keys=True), source)
    if len(sets) > 1 and "split" not in origin:  # the counts of a catalogue, not of several
        origin = {name: value for name, value in origin.items() if name not in ("read", "kept", "drops")}
    return origin, list(sources.values())


def _dicts(values: Any) -> list[dict[str, Any]]:
    """Return the objects in a list of JSON values; metadata may be of any writer."""
    return [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []


def count_by_source(sources: Sequence[Mapping[str, Any]], archives: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return the sources with the number of kept games, where their names are those of archives."""
    games = {name: {"games": archives.get(name, 0)} for name in {*archives}}
    return [dict(source) | games.get(str(source["name"]), {}) for source in sources]


def find_duplicates(sets: Sequence[InputSet], jobs: int | None) -> list[Duplicates]:
    """Return the duplicates among the kept games of catalogues, by pairs of splits that have some."""
    if sets[0].layout is not None:
        return []
    with make_executor(THREADS, jobs) as executor:
        clusters = find_clusters([each.path for each in sets], executor)
    duplicate = clusters.relation != DropReason.KEPT
    counts = np.zeros((len(sets), len(sets), 2), np.int64)
    other = clusters.source[clusters.representative]
    cut_off = clusters.relation == DropReason.CUT_OFF
    np.add.at(counts, (clusters.source[duplicate], other[duplicate], cut_off[duplicate].astype(np.int64)), 1)
    return [
        Duplicates(sets[a].name, sets[b].name, *map(int, counts[a, b]))
        for a in range(len(sets))
        for b in range(len(sets))
        if counts[a, b].any()
    ]


def audit_splits(
    sets: Sequence[InputSet], jobs: int | None, progress: ProgressFactory
) -> tuple[list[AuditedPair], str]:
    """Return what every two of the splits share, or nothing and the reason."""
    if len(sets) < 2:
        return [], "There is only one split."
    layout = sets[0].layout
    if layout is not None and not {"own", "opp"} <= {side for _, side in layout.stone_planes()}:
        return [], f"The planes of {layout.plane_set} do not show the stones of each side, which an audit needs."
    report = audit([each.path for each in sets], jobs=jobs, progress=progress)
    return [
        AuditedPair(
            first.name,
            second.name,
            pair.first_games,
            pair.second_games,
            sum(pair.first_rows),
            sum(pair.second_rows),
            sum(pair.distinct[LATE:]),
            [str(game) for game in pair.games[:_LISTED]],
        )
        for pair, (first, second) in zip(report.pairs, combinations(sets, 2))
    ], ""
