"""Endpoints of reports: evaluations and benchmarks of nets, audits of sets."""

from __future__ import annotations

from typing import Any

from pydantic import Field
from starlette.routing import Route

from kifu.corpus.database import quoted
from kifu.web.api import Deadline, NotFoundError, Params, endpoint
from kifu.web.site import Site

_MAX_SHARED = 200
"""Games that two audited sets share and that are shown."""


class ReportParams(Params):
    """A report.

    Attributes:
        report: Number of the report, from 0.
    """

    report: int = Field(ge=0, le=10_000)


def list_reports(site: Site) -> list[dict[str, Any]]:
    """Return name and kind of each report."""
    return [{"name": each.name, "kind": each.kind} for each in site.reports]


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
        examples = [each | {"game": found.get((each["location"],))} for each in values["examples"]]
        values = values | {"examples": examples}
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


def evaluations_routes(site: Site) -> list[Route]:
    """Return the routes of this module."""
    return [
        endpoint("/api/reports", Params, lambda *_: list_reports(site), site.quick),
        endpoint(
            "/api/reports/{report}",
            ReportParams,
            lambda params, deadline: show_report(site, params, deadline),
            site.search,
        ),
    ]
