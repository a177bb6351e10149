"""Endpoints of the pages of a corpus and of reports: statistics, dropped games, duplicates, splits, evaluations."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from pydantic import Field
from starlette.routing import Route

from kifu.corpus.query import quoted
from kifu.corpus.schema import READER_REASONS
from kifu.corpus.splits import NO_SET, load_split, split_names
from kifu.corpus.stats import stats
from kifu.errors import DropReason
from kifu.records.containers import blocks
from kifu.records.parse import parse_block
from kifu.records.paths import AnyPath
from kifu.web.api import Deadline, NotFoundError, Params, endpoint
from kifu.web.games import GameParams
from kifu.web.site import CatalogueParams, Site

_MAX_RECORD = 64 << 10
"""Bytes of a record that are shown."""

_MAX_CLUSTER = 20
"""Games of a cluster of duplicates that are listed."""

_SUMMARY = ("black", "white", "black_rank", "white_rank", "date_text", "result_text", "n_moves", "drop")
"""The columns of a game in a cluster of duplicates."""

_UNREADABLE = ", ".join(quoted(DropReason(reason).name.lower()) for reason in READER_REASONS)


class DroppedParams(CatalogueParams):
    """A page of the list of games dropped for a `reason` ("" for any): `count` of them after the first `first`."""

    reason: str = Field("", pattern="^[a-z_]{0,40}$")
    first: int = Field(0, ge=0, le=10**9)
    count: int = Field(50, ge=1, le=200)


class ClusterParams(CatalogueParams):
    """A page of the list of clusters of duplicates: `count` of them after the first `first`."""

    first: int = Field(0, ge=0, le=10**9)
    count: int = Field(20, ge=1, le=100)


class _Computed:
    """Values that are computed once for each catalogue: a catalogue does not change while it is served."""

    def __init__(self, compute: Callable[[int, Deadline], Any]) -> None:
        self._compute = compute
        self._values: dict[int, Any] = {}
        self._lock = threading.Lock()

    def __call__(self, params: CatalogueParams, deadline: Deadline) -> Any:
        with self._lock:  # a second request waits for the first one instead of computing the same
            if params.corpus not in self._values:
                deadline.check()
                self._values[params.corpus] = self._compute(params.corpus, deadline)
            return self._values[params.corpus]


def count_games(site: Site, corpus: int, deadline: Deadline) -> dict[str, Any]:
    """Return the statistics of a catalogue as `kifu stats --json` writes them, and what each drop reason means."""
    found = stats(site.corpus(corpus).searcher.catalogue.path, jobs=1, progress=deadline.progress)
    values: dict[str, Any] = json.loads(found.to_json())
    del values["catalogues"]
    return values


def count_splits(site: Site, corpus: int, deadline: Deadline) -> list[dict[str, Any]]:
    """Return the number of kept games in each set of the built-in splits: [{"name", "title", "sets": {set: games}}]."""
    catalogue = site.corpus(corpus).searcher.catalogue
    configs = [load_split(name) for name in split_names()]
    columns = list(dict.fromkeys(["drop", *(column for config in configs for column in config.split.columns)]))
    deadline.check()
    splits = [config.split.fit(catalogue.path) for config in configs]
    tallies = [np.zeros(len(config.split.sets) + 1, np.int64) for config in configs]
    for batch in catalogue.batches(columns, size=65_536):
        deadline.check()
        kept = batch.filter(batch.column("drop").is_null())
        for split, tally in zip(splits, tallies):
            tally += np.bincount(split.codes(kept) - NO_SET, minlength=len(tally))
    return [
        {
            "name": config.name,
            "title": config.title,
            "sets": {name: games for name, games in zip(["", *config.split.sets], tally.tolist()) if name or games},
        }
        for config, tally in zip(configs, tallies)
    ]


def list_dropped(site: Site, params: DroppedParams, deadline: Deadline) -> dict[str, Any]:
    """Return a page of dropped games: {"total": number, "games": [{field: value}]}.

    `readable` is false for games without moves, which a reader dropped.
    """
    table = site.corpus(params.corpus).table
    condition = f'"drop" = {quoted(params.reason)}' if params.reason else '"drop" IS NOT NULL'
    columns = ("row", "archive", "member", "entry", "index", "drop", "drop_detail", "black", "white", "n_moves")
    ((total,),) = table.query(f"SELECT count(*) FROM summaries WHERE {condition}", deadline)
    rows = table.query(
        f'SELECT {", ".join(map(_name, columns))}, "drop" NOT IN ({_UNREADABLE}) FROM summaries WHERE {condition}'
        f' ORDER BY "row" LIMIT {params.count} OFFSET {params.first}',
        deadline,
    )
    return {"total": total, "games": [dict(zip((*columns, "readable"), row)) for row in rows]}


def list_clusters(site: Site, params: ClusterParams, deadline: Deadline) -> dict[str, Any]:
    """Return a page of clusters: games with moves that are equal up to symmetry, colours and final passes.

    Returns:
        {"total": number of clusters, "games": number of games in them, "clusters": [{"canonical": 16 hex digits,
        "size": number of games, "games": [{field: value}]}]}: the largest first, each with its first games.
    """
    table = site.corpus(params.corpus).table
    groups = 'SELECT canonical, count(*) AS size, min("row") AS first FROM summaries WHERE n_moves > 0'
    groups += " GROUP BY canonical HAVING count(*) > 1"
    ((total, games),) = table.query(f"SELECT count(*), coalesce(sum(size), 0)::BIGINT FROM ({groups})", deadline)
    page = table.query(
        f"SELECT canonical, size FROM ({groups}) ORDER BY size DESC, first LIMIT {params.count} OFFSET {params.first}",
        deadline,
    )
    members: dict[int, list[dict[str, Any]]] = {canonical: [] for canonical, _ in page}
    if page:
        names = ("row", *_SUMMARY)
        rows = table.query(
            f"SELECT canonical, {', '.join(map(_name, names))} FROM summaries"
            f" WHERE n_moves > 0 AND canonical IN ({', '.join(map(str, members))})"
            f' QUALIFY row_number() OVER (PARTITION BY canonical ORDER BY "row") <= {_MAX_CLUSTER} ORDER BY "row"',
            deadline,
        )
        for canonical, *values in rows:
            members[canonical].append(dict(zip(names, values)))
    clusters = [
        {"canonical": f"{canonical:016x}", "size": size, "games": members[canonical]} for canonical, size in page
    ]
    return {"total": total, "games": games, "clusters": clusters}


def show_record(site: Site, params: GameParams, deadline: Deadline) -> dict[str, Any]:
    """Return the bytes of a game's record as printable text.

    Returns:
        {"archive", "member", "known", "text", "bytes", "shown"}. `known` is false if the server was not started with
        the archive; `text` is null then, or if the archive has no such record. `text` has the first `shown` of the
        record's `bytes`, at most `_MAX_RECORD`.
    """
    table = site.corpus(params.corpus).table
    columns = ("archive", "member", "entry", "index")
    rows = table.query(f'SELECT {", ".join(map(_name, columns))} FROM summaries WHERE "row" = {params.row}', deadline)
    if not rows:
        raise NotFoundError(f"there is no game {params.row}; the catalogue has {table.rows:,}")
    archive, member, entry, index = rows[0]
    path = site.records.get(archive)
    data = None if path is None else _read_record(path, entry, index, deadline)
    return {
        "archive": archive, "member": member, "known": path is not None,
        "text": None if data is None else _escaped(data[:_MAX_RECORD]),
        "bytes": None if data is None else len(data),
        "shown": None if data is None else min(len(data), _MAX_RECORD),
    }  # fmt: skip


def _name(column: str) -> str:
    return f'"{column}"'


def _read_record(path: AnyPath, entry: int, index: int, deadline: Deadline) -> bytes | None:
    """Return the bytes of a game by its location; those of the whole member if the game has no text of its own."""
    for block in blocks(path):
        deadline.check()
        for k in np.flatnonzero(block.member == entry).tolist():
            for parsed in parse_block(block.part(k, k + 1), None):
                for g in np.flatnonzero(parsed.index == index).tolist():
                    start, stop = parsed.games.start[g], parsed.games.stop[g]
                    span = (start, stop) if start < stop else (block.start[k], block.stop[k])
                    return block.data[slice(*span)].tobytes()
    return None


def _escaped(data: bytes) -> str:
    """Return bytes as text: UTF-8, with other bytes and control characters escaped."""
    text = data.decode("utf-8", "backslashreplace").replace("\r\n", "\n")
    return re.sub(r"[^\n\t -~]", lambda c: c[0] if c[0].isprintable() else c[0].encode("unicode_escape").decode(), text)


_MAX_SHARED = 200
"""Games that two audited sets share and that are shown."""


class ReportParams(Params):
    """A report, by its number from 0."""

    report: int = Field(ge=0, le=10_000)


def show_report(site: Site, params: ReportParams, deadline: Deadline) -> dict[str, Any]:
    """Return a report: {"name", "kind", "values"}.

    The examples of an evaluation, and the games of an audit, have a further field `game`: catalogue and row, null if
    no catalogue contains the game.
    """
    if params.report >= len(site.reports):
        raise NotFoundError(f"there is no report {params.report}; the server was started with {len(site.reports)}")
    report = site.reports[params.report]
    values = report.values
    if report.kind == "evaluation":
        found = _find_games(site, _NAME, [quoted(each["location"]) for each in values["examples"]], deadline)
        values = values | {"examples": [each | {"game": found.get((each["location"],))} for each in values["examples"]]}
    elif report.kind == "audit":
        values = values | {"pairs": [_link_pair(site, pair, deadline) for pair in values["pairs"]]}
    return {"name": report.name, "kind": report.kind, "values": values}


def _link_pair(site: Site, pair: dict[str, Any], deadline: Deadline) -> dict[str, Any]:
    """Return two audited sets with rows of the first games that they share, and their number `shared`."""
    games = pair["games"][:_MAX_SHARED]
    places = [game[side] for game in games for side in ("first", "second") if game[side]]
    texts = [f"({quoted(each['archive'])}, {each['entry']}, {each['index']})" for each in places]
    found = _find_games(site, _PLACE, texts, deadline)

    def linked(place: dict[str, Any] | None) -> dict[str, Any] | None:
        return place and place | {"game": found.get((place["archive"], place["entry"], place["index"]))}

    shown = [game | {"first": linked(game["first"]), "second": linked(game["second"])} for game in games]
    return pair | {"games": shown, "shared": len(pair["games"])}


_NAME = ("concat(archive, ': ', member, CASE WHEN \"index\" > 0 THEN concat(', game ', \"index\" + 1) ELSE '' END)",)
"""The location of a game as the examples of an evaluation give it."""

_PLACE = ("archive", "entry", '"index"')
"""The location of a game as an audit gives it."""


def _find_games(
    site: Site, columns: tuple[str, ...], wanted: list[str], deadline: Deadline
) -> dict[tuple[Any, ...], tuple[int, int]]:
    """Return the number of the first catalogue that contains a game, and its row there, by the game's location."""
    found: dict[tuple[Any, ...], tuple[int, int]] = {}
    if not wanted:
        return found
    names = ", ".join(columns)
    location = f"({names})" if len(columns) > 1 else names
    for k, corpus in enumerate(site.corpora):
        rows = corpus.table.query(
            f'SELECT {names}, min("row") FROM summaries WHERE {location} IN ({", ".join(wanted)}) GROUP BY ALL',
            deadline,
        )
        found = {tuple(place): (k, row) for *place, row in rows} | found
    return found


def statistics_routes(site: Site) -> list[Route]:
    """Return the routes of this module."""
    reports = [{"name": each.name, "kind": each.kind} for each in site.reports]
    return [
        endpoint("/api/stats", CatalogueParams, _Computed(partial(count_games, site)), site.search),
        endpoint("/api/splits", CatalogueParams, _Computed(partial(count_splits, site)), site.search),
        endpoint("/api/dropped", DroppedParams, partial(list_dropped, site), site.quick),
        endpoint("/api/clusters", ClusterParams, partial(list_clusters, site), site.search),
        endpoint("/api/games/{corpus}/{row}/record", GameParams, partial(show_record, site), site.search),
        endpoint("/api/reports", Params, lambda *_: reports, site.quick),
        endpoint("/api/reports/{report}", ReportParams, partial(show_report, site), site.search),
    ]
