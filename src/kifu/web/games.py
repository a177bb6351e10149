"""Endpoints of games: lists, facets, records to download and to show."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from pydantic import Field
from starlette.routing import Route

from kifu.corpus.export import rows_to_games, rows_to_sgf
from kifu.corpus.schema import drop_code
from kifu.errors import DropReason, IllegalMove, KifuError, RecordError
from kifu.records._sgf_tokens import NAME_C
from kifu.records.game import Game, iter_games
from kifu.records.games import ParseWarning
from kifu.records.olf_writer import ExportFailure
from kifu.records.ranks import Rank
from kifu.records.text import codec_named, simple_text, unescape
from kifu.records.tree import MARKS, NAME_L, NAME_LB, read_tree
from kifu.web.api import Deadline, Download, NotFoundError, Params, endpoint, upload
from kifu.web.positions import MAX_MOVES, Line, Played, PlayedParams, find_played
from kifu.web.site import CatalogueParams, Filter, Site

_MAX_TEXT = 1000
"""Characters of a record's text that are shown."""

_MAX_UPLOADED = 500
"""Games of an uploaded file that are listed."""

_MAX_TREES, _NODE_SIZE, _MARK_SIZE, _STONE_SIZE = 16 << 20, 64, 32, 8
"""Size of the trees of an uploaded file, and of a node, a mark and a setup stone; about their bytes as JSON."""

_KINDS = dict(zip(MARKS, ("triangle", "square", "circle", "cross", "label", "label")))

_MAX_SHOWN, _SHOWN_PLY = 12, 60
"""Number of games whose position is shown, and the move before which it is."""

_MAX_VALUES = 20
"""Number of archives and players that are counted, the most frequent ones."""


class ListParams(PlayedParams):
    """A page of the list of games: `count` after the first `first`; an empty `sort` keeps the catalogue's order."""

    sort: Literal["", "black", "white", "date", "result", "moves", "event", "rating"] = ""
    descending: bool = False
    first: int = Field(0, ge=0, le=10**9)
    count: int = Field(50, ge=1, le=200)


class GameParams(Params):
    """A game of a catalogue, by number and row from 0."""

    corpus: int = Field(ge=0, le=10_000)
    row: int = Field(ge=0, le=10**12)


class PositionsParams(CatalogueParams):
    """Games of a catalogue; `rows` are their numbers from 0, joined by commas."""

    rows: str = Field(max_length=100, pattern=r"^[0-9]{1,12}(,[0-9]{1,12})*$")


_FIELDS = {
    "row": '"row"', "black": "black", "white": "white", "black_rank": "black_rank", "white_rank": "white_rank",
    "date": "date_text", "year": "year", "event": "event", "result": "result_text", "moves": "n_moves",
    "handicap": "handicap", "winner": "winner", "width": "width", "height": "height", "drop": '"drop"',
}  # fmt: skip
_SORT = {
    "black": "lower(black)", "white": "lower(white)", "date": "coalesce(CAST(date AS VARCHAR), CAST(year AS VARCHAR))",
    "result": "result_text", "moves": "n_moves", "event": "lower(event)",
    "rating": "black_rating + white_rating",
}  # fmt: skip


def list_games(site: Site, params: ListParams, deadline: Deadline) -> dict[str, Any]:
    """Return a page of games: {"total": number, "games": [{field: value}]}.

    With a position, "line" is `Line.to_json` of the line to it, and the field "ply" the number of moves before it.
    """
    corpus = site.corpus(params.corpus)
    played = find_played(corpus, params, deadline)
    source, found = _source(played)
    condition = corpus.table.condition(params.chosen, deadline)
    order = f"{_SORT[params.sort]} {'DESC' if params.descending else 'ASC'} NULLS LAST, " if params.sort else ""
    ((total,),) = corpus.table.query(f"SELECT count(*) FROM {source} WHERE {condition}", deadline, found)
    rows = corpus.table.query(
        f'SELECT {", ".join(_FIELDS.values())} FROM {source} WHERE {condition} ORDER BY {order}"row"'
        f" LIMIT {params.count} OFFSET {params.first}",
        deadline,
        found,
    )
    games = [dict(zip(_FIELDS, row)) for row in rows]
    if played is None:
        return {"total": total, "games": games}
    plies = played.plies()
    games = [game | {"ply": plies[game["row"]]} for game in games]
    return {"total": total, "games": games, "line": played.line.to_json()}


def show_positions(site: Site, params: PositionsParams) -> list[dict[str, Any]]:
    """Return a position of each of some games, to be drawn small: {"row", "ply", "width", "height", "stones"}."""
    corpus, rows = site.corpus(params.corpus), [int(row) for row in params.rows.split(",")][:_MAX_SHOWN]
    for row in rows:
        corpus.table.require_row(row)
    shown = []
    for row in rows:
        ply = min(_SHOWN_PLY, len(corpus.searcher.moves(row).moves))
        with contextlib.suppress(KifuError):  # a game with an illegal move has no position after it
            at = corpus.searcher.position(row, ply)
            shown.append({"row": row, "ply": ply, "width": at.width, "height": at.height, "stones": at.stones.tolist()})
    return shown


def _source(played: Played | None) -> tuple[str, pa.Table | None]:
    """Return what to select from for all games or those with a position, and the table `found` of `GameTable.query`."""
    if played is None:
        return "summaries", None
    return '(SELECT * FROM summaries SEMI JOIN found USING ("row"))', played.games


_FACETS: dict[str, tuple[dict[str, Any], str]] = {
    "years": ({"year_from": None, "year_to": None}, "CAST(year AS VARCHAR)"),
    "boards": ({"board": ""}, "concat(width, 'x', height)"),
    "handicaps": ({"handicap": ""}, "CASE WHEN coalesce(handicap, 0) > 1 THEN 'some' ELSE 'none' END"),
    "winners": ({"winner": ""}, "coalesce(winner, 'none')"),
    "archives": ({"archive": ""}, "archive"),
    "players": ({"player": "", "colour": ""}, ""),
}
"""By name, the fields of a filter that a facet sets, without the filter's choice, and the SQL value that it counts."""

_COUNTED = ("year", "width", "height", "handicap", "winner", "archive", "black", "white")
"""The columns that facets count."""


def count_facets(site: Site, params: PlayedParams, deadline: Deadline) -> dict[str, list[tuple[Any, int]]]:
    """Return the number of games by the values that a filter can choose: {facet: [[value, games]]}.

    Each facet counts the games that all other fields of the filter choose. Years ascend, null last; of the other values
    the most frequent ones are first, at most `_MAX_VALUES` of them.
    """
    corpus, chosen = site.corpus(params.corpus), params.chosen
    table, (source, found) = corpus.table, _source(find_played(corpus, params, deadline))
    by_filter: dict[Filter, list[str]] = {}
    for name, (without, _) in _FACETS.items():
        by_filter.setdefault(chosen.model_copy(update=without), []).append(name)
    facets: dict[str, list[tuple[Any, int]]] = {name: [] for name in _FACETS}
    for filtered, names in by_filter.items():
        # Facets of the same games share one pass over the condition, which is slow for texts.
        kind = "NOT MATERIALIZED" if filtered == Filter() and found is None else "MATERIALIZED"
        games = f"SELECT {', '.join(_COUNTED)} FROM {source} WHERE {table.condition(filtered, deadline)}"
        parts = [f"(SELECT '{name}' AS facet, * FROM ({_facet_query(name, chosen.colour)}))" for name in names]
        sql = f"WITH chosen AS {kind} ({games}\n) {' UNION ALL '.join(parts)}"
        for name, value, count in table.query(sql, deadline, found):
            facets[name].append((value, count))
    for name, values in facets.items():
        values.sort(key=lambda each: (-each[1], each[0]) if name != "years" else (each[0] is None, each[0]))
    facets["years"] = [(None if year is None else int(year), count) for year, count in facets["years"]]
    return facets


def _facet_query(name: str, colour: str) -> str:
    """Return the SELECT statement of a facet over the games `chosen`. colour: of the players to count; "" for both."""
    if name != "players":
        limit = "" if name == "years" else f"ORDER BY 2 DESC, 1 LIMIT {_MAX_VALUES}"
        return f"SELECT {_FACETS[name][1]} AS value, count(*) AS games FROM chosen GROUP BY 1 {limit}"
    distinct = "" if colour else "WHERE lower(black) IS DISTINCT FROM lower(white)"
    names = {"black": "SELECT black AS name FROM chosen", "white": f"SELECT white AS name FROM chosen {distinct}"}
    found = " UNION ALL ".join(sql for each, sql in names.items() if colour in ("", each))
    return (
        f"SELECT min(name), sum(games)::BIGINT FROM (SELECT name, count(*) AS games FROM ({found})"
        f" WHERE name IS NOT NULL GROUP BY name) GROUP BY lower(name) ORDER BY 2 DESC, 1 LIMIT {_MAX_VALUES}"
    )


def game_info(game: Game) -> dict[str, Any]:
    """Return what a record states about a game, as JSON values: None or "" where it states nothing."""
    texts = {
        "black": "PB", "white": "PW", "black_rank": "BR", "white_rank": "WR", "date": "DT", "event": "EV",
        "round": "RO", "place": "PC", "title": "GN", "result": "RE", "rules": "RU", "time": "TM", "overtime": "OT",
    }  # fmt: skip
    return {
        **{name: game.text(prop)[:_MAX_TEXT] for name, prop in texts.items()},
        "ranks": [rank and str(Rank.from_rating(max(rank.rating, 2))) for rank in game.ranks],
        "komi": game.komi,
        "handicap": game.handicap,
        "width": game.width,
        "height": game.height,
        "moves": len(game),
        "warnings": [each.name.lower() for each in game.warnings if each.name],
    }


def read_upload(data: bytes, name: str, deadline: Deadline) -> dict[str, Any]:
    """Return the games of a file in any format that `kifu ingest` reads, also of an archive.

    Raises RecordError if there is no game; SourceError if the file is empty, damaged or of an unknown kind.

    Returns:
        {"games": [`upload_game`], "more": True if there are more than `_MAX_UPLOADED` games}.
    """
    games: list[dict[str, Any]] = []
    room = _MAX_TREES
    if not data.strip():
        raise RecordError("the file is empty")
    for game in iter_games(data, name):
        deadline.check()
        if len(games) == _MAX_UPLOADED:
            return {"games": games, "more": True}
        shown, room = upload_game(game, room)
        games.append(shown)
    if all(each["line"] is None for each in games):
        reason = DropReason(drop_code(games[0]["notes"][0][1])).reason if games else "contains no game record"
        raise RecordError(f"the text is not a readable game: {reason}")
    return {"games": games, "more": False}


def upload_game(game: Game, room: int) -> tuple[dict[str, Any], int]:
    """Return a game with its tree, of at most the size `room`, and the room that is left.

    Returns:
        {"name": of its member; "info": `game_info`; "line": the fields of a `Line` up to the first illegal move, or
        None if the game is dropped; "nodes": `_tree_nodes`, [] without variations, comments and marks; "notes": what
        could not be read: ["dropped", reason], ["illegal", reason, number of the move], ["truncated"],
        ["encoding", declared, used], ["characters"], ["long", moves], ["tree"]}.
    """
    name = game.name.rpartition("/")[2]
    notes: list[list[Any]] = []
    if game.drop:
        notes = [["dropped", game.drop.name.lower()]]
        return {"name": name, "info": None, "line": None, "nodes": [], "notes": notes}, room
    line = Line.of_game(game)
    for error in game.errors[:1]:
        if isinstance(error, IllegalMove):
            notes.append(["illegal", error.reason.name.lower(), error.ply + 1])
            line = line.model_copy(update={"moves": line.moves[: error.ply]})
    if len(game) > MAX_MOVES and not notes:
        notes.append(["long", len(game)])
    if game.warnings & ParseWarning.TRUNCATED:
        notes.append(["truncated"])
    declared, text = game.text("CA"), game.record.decode(game.codec, "replace")
    if game.warnings & ParseWarning.BAD_CHARSET or (declared and codec_named(declared.encode()) != game.codec):
        if not game.record.isascii():
            notes.append(["encoding", declared, game.codec.replace("_", "-").upper()])
    elif game.warnings & ParseWarning.OTHER_CHARSET or "\ufffd" in text:
        notes.append(["characters"])
    nodes, is_whole, room = _tree_nodes(game, room)
    if not is_whole:
        notes.append(["tree"])
    return {"name": name, "info": game_info(game), "line": line.model_dump(), "nodes": nodes, "notes": notes}, room


def _tree_nodes(game: Game, room: int) -> tuple[list[dict[str, Any]], bool, int]:
    """Return the nodes of `read_tree`, whether they are all, and the room that is left.

    Returns:
        [{"parent": index, -1 for the root; "move": point | WHITE_BIT, a pass as width * height, or None; "setup":
        stones as point | WHITE_BIT or ERASE_BIT; "comment": text; "marks": [[point, kind, text of a label]]}], each
        after its parent. The first child of a node continues its line.
    """
    tree = read_tree(game.record, game.width, game.height)
    parents = tree.nodes[:, 0]
    if not len(tree.values) and (parents == np.arange(len(parents)) - 1).all():
        return [], tree.is_whole, room
    setup, values = tree.setup.tolist(), tree.values.tolist()
    nodes: list[dict[str, Any]] = []
    stones = done = 0
    for parent, move, setup_stop, stop in tree.nodes.tolist():
        comments, marks, letters = [], {}, 0
        room -= _NODE_SIZE + _STONE_SIZE * (setup_stop - stones)
        for key, start, end, left, top, right, bottom in values[done:stop]:
            room -= end - start if key == NAME_C else _MARK_SIZE * (right - left + 1) * (bottom - top + 1)
            if room < 0:
                break
            text = game.record[start:end].decode(game.codec, "replace") if key in (NAME_C, NAME_LB) else ""
            if key == NAME_C:
                comments.append(unescape(text))
                continue
            if key == NAME_L:
                text, letters = f":{chr(ord('A') + letters % 26)}", letters + 1
            label = simple_text(text.partition(":")[2])[:20]
            for y in range(top, bottom + 1):
                for x in range(left, right + 1):
                    marks[y * game.width + x] = _KINDS[key], label
        if room < 0:
            return nodes, False, 0
        nodes.append({
            "parent": parent, "move": None if move < 0 else move, "setup": setup[stones:setup_stop],
            "comment": "\n".join(comments), "marks": [[point, *mark] for point, mark in marks.items()],
        })  # fmt: skip
        stones, done = setup_stop, stop
    return nodes, tree.is_whole, room


def _record(site: Site, params: GameParams) -> pa.RecordBatch:
    searcher = site.corpus(params.corpus).searcher
    if params.row >= len(searcher.catalogue):
        raise NotFoundError(f"there is no game {params.row}; the catalogue has {len(searcher.catalogue):,}")
    return searcher.record(params.row)


def show_game(site: Site, params: GameParams) -> dict[str, Any]:
    """Return {"line": `Line.to_json`, "info": `game_info`} of a game of a catalogue."""
    (game,) = rows_to_games(_record(site, params))
    return {"line": Line.of_game(game).to_json(), "info": game_info(game)}


def download_game(site: Site, params: GameParams) -> Download:
    """Return a game of a catalogue as an SGF record.

    Raises NotFoundError if there is no such game; KifuError if it cannot be written as SGF.
    """
    (record,), (failure,) = rows_to_sgf(_record(site, params))
    if failure:
        raise KifuError(f"game {params.row} cannot be written as SGF: {ExportFailure(failure).name.lower()}")
    return Download(record, "application/x-go-sgf", f"game-{params.row}.sgf")


def games_routes(site: Site) -> list[Route]:
    """Return the routes of this module."""
    return [
        endpoint("/api/games", ListParams, partial(list_games, site), site.quick),
        endpoint("/api/games/positions", PositionsParams, lambda params, _: show_positions(site, params), site.quick),
        endpoint("/api/facets", PlayedParams, partial(count_facets, site), site.search),
        endpoint(
            "/api/games/{corpus}/{row}/sgf", GameParams, lambda params, _: download_game(site, params), site.quick
        ),
        endpoint("/api/games/{corpus}/{row}", GameParams, lambda params, _: show_game(site, params), site.quick),
        upload("/api/upload", read_upload, site.search),
    ]
