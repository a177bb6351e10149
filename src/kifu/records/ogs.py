"""Games of the Online Go Server (OGS) as JSON: one object, one wrapped by the server's API, or one a line.

    {"players": {"black": {"username": "b", "rank": 28.1}, ..}, "komi": 6.5, "moves": [[15, 3, 2280], ..], ..}

Compiled code locates the moves, by far the largest part of an object, and reads them into flat arrays. orjson parses
the rest, of which the text fields are made. docs/formats/ogs.md describes the format. Sources: online-go/goban
(GobanEngine.ts, move_encoding.ts), online-go/online-go.com (rank_utils.ts).
"""

from __future__ import annotations

import datetime
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson

from kifu.errors import DropReason
from kifu.point import BLACK, MAX_SIZE, WHITE
from kifu.records import _ogs as o
from kifu.records._nodes import BYTES_PER_GAME, MAX_POINTS
from kifu.records._ogs import DEEPEST
from kifu.records.decode import decode
from kifu.records.detect import OGS_LINES, detect
from kifu.records.games import (
    FIELD_LIMIT,
    FIELDS,
    NO_HANDICAP,
    TO_PLAY_UNSET,
    GameArrays,
    ParsedBlock,
    ParseWarning,
    RecordBlock,
    concat,
    text_fields,
)
from kifu.records.sgf import as_block, read_block

JsonObject = Mapping[str, Any]

_KOMI = {"chinese": 7.5, "aga": 7.5, "japanese": 6.5, "korean": 6.5, "ing": 7.5, "nz": 7.0}
"""Komi of objects without "komi"; with a handicap only its fraction counts."""

SIDES = {"black": "B+", "white": "W+"}
_ENDINGS = {"resignation": "R", "timeout": "T", "disconnection": "F", "abandonment": "F"}
_POINTS = re.compile(r"(\d{1,4}(?:\.\d{1,3})?) points?")
_CLOCKS = {
    "byoyomi": ("main_time", "periods", "period_time", "{}x{} byo-yomi"),
    "canadian": ("main_time", "stones_per_period", "period_time", "{}/{} Canadian"),
    "fischer": ("initial_time", "time_increment", "{} fischer"),
    "simple": ("", "per_move", "{} simple"),
    "absolute": ("total_time", ""),
}
"""By system of time, the names of the main time and of the numbers of the overtime, and the overtime in SGF."""

_EPOCH = datetime.date(1970, 1, 1).toordinal()
_DAY, _LAST_DAY = 86_400, 80_000
_TOP_DAN, _TOP_KYU, _PRO_RANKS, _PRO_OFFSET = 10, 30, range(37, 46), 1000


def text_fields_of(game: JsonObject, rules: str, handicap: int) -> dict[str, str]:
    """Return the text fields in SGF's spelling."""
    players = _as_dict(game.get("players"))
    black, white = (_as_dict(players.get(side)) for side in SIDES)
    main_time, overtime = _clock(game)
    texts = {
        "black": _as_text(black.get("username")) or _as_text(black.get("name")),
        "white": _as_text(white.get("username")) or _as_text(white.get("name")),
        "black_rank": _rank(black),
        "white_rank": _rank(white),
        "result": _result(game, black, white),
        "komi": _komi(game, rules, handicap),
        "date": _date(game),
        "time": main_time,
        "overtime": overtime,
        "rules": rules,
        "title": _as_text(game.get("game_name")),
    }
    return {name: text for name, text in texts.items() if text}


def _as_dict(value: object) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _as_text(value: object) -> str:
    return value if isinstance(value, str) and len(value) <= FIELD_LIMIT else ""


def as_number(value: object) -> float | None:
    """Return a finite number, which may be written as text; else None."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value[:32] if isinstance(value, str) else value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _spell(number: float | None) -> str:
    return "" if number is None else f"{number:.12g}"


def _rank(player: JsonObject) -> str:
    """Return "3k", "2d" or "1p" for OGS's number: 30 is 1 dan, and 37 is 1 dan of professionals."""
    number = as_number(player.get("rank"))
    if number is None:
        number = as_number(player.get("ranking"))
    if number is None or not 0 <= number < 2 * _PRO_OFFSET:
        return ""
    is_professional = player.get("professional") or player.get("pro") or number >= _PRO_OFFSET
    rank = int(number % _PRO_OFFSET)
    if is_professional and rank in _PRO_RANKS:
        return f"{rank - _PRO_RANKS.start + 1}p"
    if number < _TOP_KYU:
        return f"{math.ceil(_TOP_KYU - number)}k"
    return f"{min(math.floor(number - _TOP_KYU + 1), _TOP_DAN)}d"


def _komi(game: JsonObject, rules: str, handicap: int) -> str:
    if "komi" in game:
        return _spell(as_number(game["komi"]))
    komi = _KOMI.get((rules or "japanese").lower())
    return _spell(komi if komi is None or handicap <= 0 else komi % 1)


def _date(game: JsonObject) -> str:
    """Return the day on which a game began, in UTC."""
    seconds = as_number(game.get("start_time"))
    if seconds is not None and 0 < seconds < _DAY * _LAST_DAY:
        return datetime.date.fromordinal(_EPOCH + int(seconds) // _DAY).isoformat()
    try:
        started = datetime.datetime.fromisoformat(_as_text(game.get("started")))
        return (started.astimezone(datetime.UTC) if started.tzinfo else started).date().isoformat()
    except (ValueError, OverflowError):
        return ""


def _clock(game: JsonObject) -> tuple[str, str]:
    """Return main time and overtime."""
    control = _as_dict(game.get("time_control"))
    if not control and isinstance(parameters := game.get("time_control_parameters"), str):
        try:
            control = _as_dict(orjson.loads(parameters.encode("utf-8", "replace")))
        except ValueError:
            return "", ""
    system = control.get("system") or control.get("time_control")
    if not isinstance(system, str) or system not in _CLOCKS:
        return "", ""
    main, *overtime, form = _CLOCKS[system]
    values = [_spell(as_number(control.get(name))) for name in overtime]
    main_time = _spell(as_number(control.get(main))) if main else "0" * all(values)
    return main_time, form.format(*values) if overtime and all(values) else ""


def _result(game: JsonObject, black: JsonObject, white: JsonObject) -> str:
    """Return RE; "" for a game that is not finished."""
    if _as_text(game.get("phase")) not in ("", "finished"):
        return ""
    outcome = _as_text(game.get("outcome")).strip().lower()
    if game.get("annulled") is True or outcome.startswith("cancel"):
        return "Void"
    winner = _winner(game, black, white)
    points = _POINTS.fullmatch(outcome)
    margin = _spell(float(points[1])) if points else ""
    if winner == "tie" or (winner == "" and margin == "0"):
        return "0"
    if winner not in SIDES:
        return ""
    return SIDES[winner] + (_ENDINGS.get(outcome, "") if margin in ("", "0") else margin)


def _winner(game: JsonObject, black: JsonObject, white: JsonObject) -> str:
    """Return "black", "white" or "tie"; "" if unknown."""
    winner = game.get("winner")
    if isinstance(winner, str):
        return winner.lower()
    if isinstance(winner, int) and not isinstance(winner, bool) and winner > 0:
        for side, player in zip(SIDES, (black, white)):
            if winner in (game.get(f"{side}_player_id"), player.get("id"), game.get(side)):
                return side
    lost = [game.get(f"{side}_lost") is True for side in SIDES]
    return "" if lost[0] == lost[1] else "white" if lost[0] else "black"


_Offsets = npt.NDArray[np.int64]

_LETTERS = {19: "djp", 13: "dgj", 9: "ceg"}
"""Coordinates of the star points by board size."""

_STARS = {2: "26", 3: "268", 4: "2680", 5: "26804", 6: "268035", 7: "2680354", 8: "26803517", 9: "268035417"}
"""Star points of fixed handicaps: 0 to 8 in rows from the upper left. The third is the lower right one."""

_OLD_STARS = {2: "08", 3: "028"}
"""Star points of games that OGS took over from the server of that name before 2013 ("ogs_import")."""

_FREE_RULES = ("chinese", "ing", "nz")
_FIXED_RULES = ("japanese", "korean", "aga")
_CHARSET = re.compile(r"(?<![A-Za-z])CA\s*\[[^\]\\]{0,64}\]")


class _OgsHeader(NamedTuple):
    """The content of an object, except for an array of moves.

    Attributes:
        drop: DropReason of an object that is no game.
        first: The player to move first, BLACK or WHITE.
        letters: Moves as text; None if they are in an array.
        sgf: The record of an uploaded game, which then is the game; else None.
    """

    drop: DropReason = DropReason.KEPT
    width: int = 0
    height: int = 0
    handicap: int = NO_HANDICAP
    first: int = BLACK
    free: int = 0
    letters: str | None = None
    black: str = ""
    white: str = ""
    warnings: int = 0
    texts: Mapping[str, str] = {}
    sgf: str | None = None


_DROPPED = {drop: _OgsHeader(drop) for drop in DropReason}


def read_ogs(block: RecordBlock) -> ParsedBlock:
    """Read every object of a block. Never fails: unreadable objects give rows with their `DropReason`.

    A member is one object, or a file of lines, each of which is a row, except for empty ones. An object that is not
    JSON, or whose moves are neither an array of arrays nor letters, is `DropReason.UNREADABLE`; one without moves, such
    as a puzzle, `DropReason.NO_RECORD`. A line over 1 MiB, an object over 4 MiB, a game of more than 65,535 moves and
    the rest of a member that has more lines than its bytes / 32 + 16 are `DropReason.TOO_LARGE`.
    """
    has_lines = (detect(block) == OGS_LINES).astype(np.uint8)
    length = int(np.sum(block.stop - block.start))
    rows = np.empty((length // BYTES_PER_GAME + (o.GAMES_ALWAYS + 1) * len(block), o.OBJECT_COLUMNS), np.int64)
    rows = rows[: o.find_objects(block.data, block.start, block.stop, block.drop, has_lines, rows)]
    data = block.data.data
    headers = [_read_object(data, row) for row in rows.tolist()]
    played = _read_moves(block, rows, headers)
    texts = [header.texts for header in headers]
    uploaded = [g for g, header in enumerate(headers) if header.sgf is not None]
    if uploaded:
        played = _with_uploaded(played, uploaded, [headers[g].sgf or "" for g in uploaded], texts)
    line = rows[:, o.LINE].astype(np.int32)
    line[played.games.block_index == 0] += block.first_line
    return ParsedBlock(
        format="ogs",
        block=block,
        games=played.games,
        text_fields=text_fields(texts),
        index=line,
        territory=np.empty(0, np.uint16),
        territory_offset=np.zeros(len(rows) + 1, np.int64),
        codecs=["utf_8"] * len(rows),
        seconds=None if np.isnan(played.seconds).all() else played.seconds,
    )


@dataclass(frozen=True, slots=True)
class _PlayedMoves:
    """Games and the time of each move: [M] float32 seconds, NaN if unknown."""

    games: GameArrays
    seconds: npt.NDArray[np.float32] = field(repr=False)


def _read_moves(block: RecordBlock, rows: npt.NDArray[np.int64], headers: Sequence[_OgsHeader]) -> _PlayedMoves:
    """Read the moves and the initial stones of the objects.

    Args:
        rows: [G, OBJECT_COLUMNS], the objects.
        headers: [G] The rest of each object.
    """
    text = bytearray()
    inputs = [_moves_input(row, header, text) for row, header in zip(rows.tolist(), headers)]
    table = np.zeros((len(rows), o.GAME_COLUMNS), np.int64)
    table[:, : o.STATUS] = inputs
    is_array = table[:, o.KIND] == o.ARRAY
    capacity = int(np.sum(table[is_array, o.END] - table[is_array, o.BEGIN])) // 5 + len(text) // 2 + len(rows) + 1
    out = o.MovesOut(
        moves=np.empty(capacity, np.uint16),
        seconds=np.empty(capacity, np.float32),
        setup=np.empty(len(text) // 2 + len(rows) + 1, np.uint16),
        setup_ply=np.empty(len(text) // 2 + len(rows) + 1, np.uint16),
        seen=np.zeros(MAX_POINTS, np.int64),
        stack=np.empty(DEEPEST, np.int64),
    )
    o.read_moves(block.data, np.frombuffer(text or bytearray(1), np.uint8), table, out)
    return _PlayedMoves(_to_games(block, rows, headers, table, out), out.seconds[: table[-1, o.MOVE_END]].copy())


def _to_games(
    block: RecordBlock,
    rows: npt.NDArray[np.int64],
    headers: Sequence[_OgsHeader],
    table: npt.NDArray[np.int64],
    out: o.MovesOut,
) -> GameArrays:
    """Return the games of the objects, given the output of `_ogs.read_moves`: [G, GAME_COLUMNS] and arrays."""
    found = np.array([header.drop for header in headers], np.uint8)
    drop = np.where(found != DropReason.KEPT, found, table[:, o.STATUS]).astype(np.uint8)
    kept = drop == DropReason.KEPT
    moves, setup = table[-1, o.MOVE_END], table[-1, o.SETUP_END]
    first = np.array([header.first for header in headers], np.uint8)
    handicap = np.array([header.handicap for header in headers], np.int16)
    warnings = np.array([header.warnings for header in headers], np.int64) | table[:, o.WARNINGS]
    member = rows[:, o.MEMBER]
    return GameArrays(
        width=(table[:, o.WIDTH] * kept).astype(np.uint8),
        height=(table[:, o.HEIGHT] * kept).astype(np.uint8),
        moves=out.moves[:moves].copy(),
        move_offset=np.concatenate(([0], table[:, o.MOVE_END])),
        setup=out.setup[:setup].copy(),
        setup_ply=out.setup_ply[:setup].copy(),
        setup_offset=np.concatenate(([0], table[:, o.SETUP_END])),
        root_setup=table[:, o.ROOT_SETUP].astype(np.uint16),
        to_play=np.where(kept & (first == WHITE), WHITE, TO_PLAY_UNSET).astype(np.uint8),
        handicap=np.where(kept, handicap, NO_HANDICAP).astype(np.int16),
        warnings=np.where(kept, warnings, 0).astype(np.uint32),
        drop=drop,
        member=block.member[member],
        block_index=member.astype(np.int32),
        start=rows[:, o.START].copy(),
        stop=rows[:, o.STOP].copy(),
    )


def _moves_input(row: Sequence[int], header: _OgsHeader, text: bytearray) -> tuple[int, ...]:
    """Return the input columns of `_ogs.read_moves` for an object, and append its letters to the text."""
    if header.drop or header.sgf is not None:
        return (o.NOTHING,) + (0,) * (o.STATUS - 1)
    if header.letters is None:
        kind, (begin, end) = o.ARRAY, _array_of_moves(row)
    else:
        kind, begin = o.LETTERS, len(text)
        text += header.letters.encode("utf-8", "replace")
        end = len(text)
    black = len(text)
    text += header.black.encode("utf-8", "replace")
    white = len(text)
    text += header.white.encode("utf-8", "replace")
    turn = BLACK if header.free > 1 else header.first
    return kind, begin, end, header.width, header.height, turn, header.free, black, white, len(text)


def _read_object(data: memoryview, row: Sequence[int]) -> _OgsHeader:
    """Read an object without the array of its moves."""
    if row[o.DROP]:
        return _DROPPED[DropReason(row[o.DROP])]
    begin, end = _array_of_moves(row)
    start, stop = row[o.START], row[o.STOP]
    try:
        value = _parse(b"".join((data[start:begin], b"[]", data[end:stop])) if end else data[start:stop].tobytes())
        if not isinstance(value, dict):
            return _DROPPED[DropReason.NO_RECORD]
        game = value.get("gamedata")
        inner = game if isinstance(game, dict) else value
        owner = inner if "moves" in inner else value
        moves = owner.get("moves")
        is_array = moves == [] and end > 0 and (row[o.INNER_STOP] == 0) == (owner is value)
        if end and not is_array:
            _parse(data[begin:end].tobytes())  # not the moves of the game, so nothing else reads it
    except (ValueError, RecursionError):
        return _DROPPED[DropReason.UNREADABLE]
    game = value if inner is value else _merge(inner, value)
    sgf = game.get("original_sgf")
    if isinstance(sgf, str) and sgf:
        return _OgsHeader(sgf=sgf)
    if moves is None or (isinstance(sgf, int) and sgf == 0):
        return _DROPPED[DropReason.NO_RECORD]
    if not is_array and not isinstance(moves, str):
        return _DROPPED[DropReason.UNREADABLE]
    return _read_game(game, None if is_array else moves)


def _array_of_moves(row: Sequence[int]) -> tuple[int, int]:
    """Return the start and end of the array of moves of an object; 0 if it has none."""
    inner, outer = (row[o.INNER_START], row[o.INNER_STOP]), (row[o.OUTER_START], row[o.OUTER_STOP])
    return inner if inner[1] else outer


def _parse(text: bytes) -> Any:
    """Parse JSON. Surrogates without a partner, bytes that are not UTF-8, and NaN are tolerated."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return json.loads(text.decode("utf-8", "replace"))


def _merge(game: JsonObject, outer: JsonObject) -> JsonObject:
    """Return the game with what only the object around it states."""
    merged = {**outer, **{name: value for name, value in game.items() if value is not None or name not in outer}}
    inside, around = _as_dict(game.get("players")), _as_dict(outer.get("players"))
    merged["players"] = {side: {**_as_dict(around.get(side)), **_as_dict(inside.get(side))} for side in SIDES}
    return merged


def _read_game(game: JsonObject, letters: str | None) -> _OgsHeader:
    """Return the header of a game, whose moves are in an array unless they are given as letters."""
    get = game.get
    width, height = _size(get("width")), _size(get("height"))
    if not width or not height:
        return _DROPPED[DropReason.BAD_SIZE]
    warnings = 0 if "width" in game else int(ParseWarning.SIZE_MISSING)
    count = as_number(get("handicap"))
    handicap = NO_HANDICAP if count is None or count != int(count) or not 0 <= count < -NO_HANDICAP else int(count)
    if handicap == NO_HANDICAP and get("handicap") is not None:
        warnings |= ParseWarning.HANDICAP_TEXT
    elif handicap == 1:
        warnings |= ParseWarning.HANDICAP_ONE
    rules = _as_text(get("rules"))
    white_first = get("initial_player") == "white"
    free = _is_free(game, rules)
    black = white = ""
    if "initial_state" in game:
        state = _as_dict(game["initial_state"])
        black, white = _as_text(state.get("black")), _as_text(state.get("white"))
    elif handicap > 0 and not free and (stars := _fixed_stones(width, height, handicap, "ogs_import" in game)):
        black, white_first = stars, True
    else:
        free = free or handicap > 0
    return _OgsHeader(
        width=width,
        height=height,
        handicap=handicap,
        first=WHITE if white_first else BLACK,
        free=max(handicap, 0) if free and not white_first else 0,
        letters=letters,
        black=black,
        white=white,
        warnings=warnings,
        texts=text_fields_of(game, rules, handicap),
    )


def _size(value: object) -> int:
    """Return a number of columns or rows, 19 if it is missing; 0 if it is not within 1 to 25."""
    if value is None:
        return 19
    number = as_number(value)
    return int(number) if number is not None and number == int(number) and 1 <= number <= MAX_SIZE else 0


def _is_free(game: JsonObject, rules: str) -> bool:
    """Return whether Black places handicap stones as moves."""
    free = game.get("free_handicap_placement")
    if isinstance(free, bool):
        return free
    name = (rules or "japanese").lower()
    return name not in _FIXED_RULES and not (name == "chinese" and "ogs_import" in game)


def _fixed_stones(width: int, height: int, handicap: int, is_old: bool) -> str:
    """Return the stones of a fixed handicap; "" if the board or the number has none."""
    letters = _LETTERS.get(width, "") if width == height else ""
    stars = _OLD_STARS.get(handicap) if is_old else None
    stars = stars or _STARS.get(handicap, "")
    return "".join(letters[int(star) % 3] + letters[int(star) // 3] for star in stars) if letters else ""


def _with_uploaded(
    played: _PlayedMoves, uploaded: Sequence[int], records: Sequence[str], texts: list[Mapping[str, str]]
) -> _PlayedMoves:
    """Return the games with those at `uploaded` replaced by the first games of SGF records, and replace their texts."""
    as_utf8 = [_CHARSET.sub("CA[UTF-8]", record, count=1).encode("utf-8", "replace") for record in records]
    parsed = read_block(as_block(as_utf8))
    decoded = {name: column.to_pylist() for name, column in decode(parsed).text.items() if name in FIELDS}
    rows = np.searchsorted(parsed.games.block_index, np.arange(len(uploaded)))
    for g, row in zip(uploaded, rows.tolist()):
        texts[g] = {name: column[row] for name, column in decoded.items() if column[row]}
    order = np.arange(len(played.games))
    order[uploaded] = len(order) + rows
    both = concat([played.games, parsed.games])
    seconds = np.append(played.seconds, np.full(len(parsed.games.moves), np.nan, np.float32))
    move_offset, move = _ragged(both.move_offset, order)
    setup_offset, setup = _ragged(both.setup_offset, order)
    per_game = {each.name: getattr(both, each.name) for each in fields(GameArrays)}
    games = GameArrays(
        **{name: values[order] for name, values in per_game.items() if len(values) == len(both)}
        | {"moves": both.moves[move], "move_offset": move_offset}
        | {"setup": both.setup[setup], "setup_ply": both.setup_ply[setup], "setup_offset": setup_offset}
    )
    of_line = {name: getattr(played.games, name) for name in ("member", "block_index", "start", "stop")}
    return _PlayedMoves(replace(games, **of_line), seconds[move])


def _ragged(offset: _Offsets, order: npt.NDArray[np.int64]) -> tuple[_Offsets, npt.NDArray[np.int64]]:
    """Return offsets and indices of the values of rows in another order."""
    lengths = np.diff(offset)[order]
    ends = np.cumsum(np.append(0, lengths))
    return ends, np.arange(ends[-1]) + np.repeat(offset[order] - ends[:-1], lengths)
