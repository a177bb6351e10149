"""Endpoints of plane sets: the planes of a position."""

from __future__ import annotations

from typing import Any

import numpy as np
from pydantic import Field
from starlette.routing import Route

from kifu.errors import GameError
from kifu.katago.encoder import encode_katago
from kifu.planes.encoder import encode
from kifu.planes.registry import PLANE_SETS, define
from kifu.point import WHITE, WHITE_BIT
from kifu.web.analysis import Komi, ShortText
from kifu.web.api import NotFoundError, Params, endpoint
from kifu.web.lines import MAX_MOVES, Line
from kifu.web.site import Site


class PlanesParams(Params):
    """A position and a plane set.

    Attributes:
        ply: Number of moves before the position.
        planes: Full name of a published plane set; others would have to be compiled on request.
        black_rank: Rank of Black, such as "3d"; "" if unknown.
        rules: The rules as in records; "" if unknown.
        komi: Points for White; None if unknown.
    """

    line: Line
    ply: int = Field(0, ge=0, le=MAX_MOVES)
    planes: ShortText
    black_rank: ShortText = ""
    white_rank: ShortText = ""
    rules: ShortText = ""
    komi: Komi = None


class NoParams(Params):
    """No parameters."""


def plane_sets() -> list[dict[str, Any]]:
    """Return the published plane sets: [{"name", "title", "planes": their number}]."""
    return [{"name": each.name, "title": each.title, "planes": each.planes} for each in PLANE_SETS.values()]


def encode_position(params: PlanesParams) -> dict[str, Any]:
    """Return the planes of a position as `kifu.encode` makes them.

    Returns:
        {"name", "title", "first_row", "padding"} of the plane set, see `PlaneSet`; "features": [{"name", "definition",
        "planes": their number}]; "planes": [{"name": description, "values": [H, W]}]; "inputs": [{"name", "value"}],
        the numbers beside.

    Raises:
        NotFoundError: If there is no such plane set.
        GameError: If the position has no legal move, or the plane set does not support it.
    """
    plane_set = PLANE_SETS.get(params.planes)
    if plane_set is None:
        raise NotFoundError(f"there is no plane set {params.planes!r}")
    line = params.line
    board = line.board(params.ply)
    if params.ply < len(line.moves):
        board.to_play = WHITE if line.moves[params.ply] & WHITE_BIT else 3 - WHITE
    elif not params.ply and line.to_play:
        board.to_play = line.to_play
    legal = np.flatnonzero(board.legal()[: board.pass_move])
    if not len(legal):
        raise GameError("the player to move has no legal move, so the position has no example")
    # A position is encoded before a move; any legal one serves.
    word = int(legal[0]) | (WHITE_BIT if board.to_play == WHITE else 0)
    moves = [*line.moves[: params.ply], word]
    game = line.model_copy(update={"moves": moves}).to_game(
        None,
        None,
        BR=params.black_rank or None,
        WR=params.white_rank or None,
        RU=params.rules or None,
        KM=None if params.komi is None else f"{params.komi:g}",
    )
    inputs: list[dict[str, Any]] = []
    if plane_set.inputs:
        planes, numbers, _ = encode_katago(game)
        inputs = [{"name": name, "value": float(value)} for name, value in zip(plane_set.inputs, numbers[-1])]
    else:
        planes, _ = encode(game, params.planes)
    if not len(planes):
        raise GameError(f"plane set {plane_set.name} omits this position")
    return {
        "name": plane_set.name,
        "title": plane_set.title,
        "first_row": plane_set.first_row,
        "padding": plane_set.padding,
        "features": [
            {"name": each.name, "definition": define(each), "planes": len(each.planes)} for each in plane_set.features
        ],
        "planes": [
            {"name": name, "values": values} for name, values in zip(plane_set.plane_names, planes[-1].tolist())
        ],
        "inputs": inputs,
    }


def planes_routes(site: Site) -> list[Route]:
    """Return the routes of this module."""
    return [
        endpoint("/api/plane-sets", NoParams, lambda params, _: plane_sets(), site.quick),
        endpoint("/api/planes", PlanesParams, lambda params, _: encode_position(params), site.search, method="POST"),
    ]
