"""The columns of the catalogue: one row a game, kept and set aside alike. docs/formats/catalogue.md is its card.

A change of these columns, or of what one of them means, is a new version.
"""

from __future__ import annotations

import pyarrow as pa

VERSION = 1
"""Stands in the file's own key-value metadata as `kifu.catalogue`."""

POINTS = pa.list_(pa.field("element", pa.uint16(), nullable=False))


def _field(name: str, kind: pa.DataType, nullable: bool = False) -> pa.Field:
    return pa.field(name, kind, nullable=nullable)


SCHEMA = pa.schema(
    [
        # which game this is
        _field("id", pa.uint64()),  # hash of all that the row says of the game, but for where it lies
        _field("canonical", pa.uint64()),  # hash of setup and moves, blind to symmetry, colours and last passes
        _field("opening", pa.uint64()),  # the same of its beginning only: what splits go by
        # where it lies
        _field("archive", pa.string()),
        _field("member", pa.string()),
        _field("entry", pa.int32()),  # the member's ordinal in the archive, from 0
        _field("index", pa.int32()),  # the game's ordinal in the member, from 0; in files of lines, the line's
        _field("format", pa.string()),  # sgf, olf, tygem: how the words below are spelled
        _field("encoding", pa.string()),  # Python's name of the codec that the words were decoded by
        # the board and the terms
        _field("width", pa.uint8()),
        _field("height", pa.uint8()),
        _field("rules", pa.string(), True),
        _field("komi", pa.float32(), True),
        _field("komi_text", pa.string(), True),
        _field("handicap", pa.int16(), True),
        # who
        _field("black", pa.string(), True),
        _field("white", pa.string(), True),
        _field("black_rank", pa.string(), True),  # as written
        _field("white_rank", pa.string(), True),
        _field("black_rating", pa.float32(), True),  # Schraudolph's scale: 30 kyu 2, 1 dan 32, 9 dan pro 49
        _field("white_rating", pa.float32(), True),
        _field("black_confirmed", pa.bool_(), True),  # null: the record does not say
        _field("white_confirmed", pa.bool_(), True),
        _field("black_pro", pa.bool_(), True),  # null: no rank
        _field("white_pro", pa.bool_(), True),
        _field("black_program", pa.bool_()),  # the name is one of a known program
        _field("white_program", pa.bool_()),
        # when and where
        _field("date", pa.date32(), True),  # the first day; null unless a full date is told
        _field("year", pa.int16(), True),
        _field("date_text", pa.string(), True),
        _field("event", pa.string(), True),
        _field("round", pa.string(), True),
        _field("place", pa.string(), True),
        _field("title", pa.string(), True),
        # how it ended
        _field("winner", pa.string(), True),  # black, white, draw; null if void or unknown
        _field("margin", pa.float32(), True),  # points, where ending is score
        _field("ending", pa.string()),  # score, resign, time, forfeit, void, unknown
        _field("result_text", pa.string(), True),
        # time
        _field("main_minutes", pa.float32(), True),
        _field("time_text", pa.string(), True),
        _field("overtime", pa.string(), True),
        # the game
        _field("to_play", pa.uint8()),  # PL: 1 black, 2 white, 0 not told
        _field("setup", POINTS),  # point | 0x8000 white | 0x4000 emptied
        _field("setup_ply", POINTS),  # how many moves come before each setup stone
        _field("root_setup", pa.uint16()),  # how many setup stones stand in the root
        _field("moves", POINTS),  # point | 0x8000 white; a pass is width * height
        _field("n_moves", pa.int32()),  # in the record; more than len(moves) if it was cut
        _field("n_legal", pa.int32()),  # how many can be played, from the first
        _field("territory", POINTS, True),  # point | 0x8000 white, rising
        # what was done about it
        _field("repairs", pa.string(), True),  # names of `Note`, joined by commas
        _field("drop", pa.string(), True),  # name of the `Drop` in lower case; null if kept
        _field("drop_detail", pa.string(), True),
    ]
)
"""Missing words are null, never empty. Lists are never null but `territory`, which is if the record tells none."""
