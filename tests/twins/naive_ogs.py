"""A naive reader of OGS JSON: the json module, and a loop over the moves of each game."""

import json
import math
import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kifu.errors import DropReason
from kifu.point import BLACK, ERASE_BIT, NO_POINT, WHITE, WHITE_BIT
from kifu.records.detect import OGS, OGS_LINES, detect
from kifu.records.games import NO_HANDICAP, ParsedBlock
from kifu.records.ogs import read_ogs
from kifu.records.sgf import as_block

SPACE = bytes(range(33))
TURN = 4  # added to the colour of a move that also sets the turn
STARS = {2: "pddp", 3: "pddppp", 4: "pddpppdd", 5: "pddpppddjj", 6: "pddpppdddjpj", 7: "pddpppdddjpjjj"}
STARS |= {8: STARS[6] + "jdjp", 9: STARS[7] + "jdjp"}
SMALLER = {13: str.maketrans("djp", "dgj"), 9: str.maketrans("djp", "ceg"), 19: {}}


class Constant(float):
    """NaN or Infinity, which the standard library accepts and which are no JSON."""


class BadMoveError(Exception):
    """Moves that are not what they should be."""


@dataclass
class NaiveGame:
    line: int
    drop: DropReason = DropReason.KEPT
    width: int = 0
    height: int = 0
    handicap: int | None = None
    to_play: int = 0
    moves: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    setup: list[tuple[int, int]] = field(default_factory=list)
    uploaded: bool = False
    is_json: bool = True


def read_member(data: bytes, has_lines: bool) -> list[NaiveGame]:
    rows: list[NaiveGame] = []
    most = 16 + len(data) // 32
    data = data.removeprefix(b"\xef\xbb\xbf")
    for number, line in enumerate(data.split(b"\n") if has_lines else [data]):
        text = line.strip(SPACE)
        if text and not text.startswith(b"#"):
            rows.append(read_object(number, text))
    if len(rows) > most:
        rows[most:] = [NaiveGame(rows[most].line, DropReason.TOO_LARGE)]
    return rows or [NaiveGame(0, DropReason.NO_RECORD)]


def read_object(line: int, text: bytes) -> NaiveGame:
    try:
        outer = json.loads(text.decode("utf-8", "replace"), parse_constant=lambda _: Constant("nan"))
    except ValueError:
        return NaiveGame(line, DropReason.UNREADABLE, uploaded=b"original_sgf" in text, is_json=False)
    if not isinstance(outer, dict):
        return NaiveGame(line, DropReason.NO_RECORD)
    inner = outer.get("gamedata")
    game = dict(inner) if isinstance(inner, dict) else outer
    moves = game["moves"] if "moves" in game else outer.get("moves")
    for name, value in outer.items():
        if game.get(name) is None:
            game[name] = value
    sgf = game.get("original_sgf")
    if isinstance(sgf, str) and sgf:
        return NaiveGame(line, uploaded=True)
    if moves is None or (isinstance(sgf, int) and sgf == 0):
        return NaiveGame(line, DropReason.NO_RECORD)
    if not isinstance(moves, list | str):
        return NaiveGame(line, DropReason.UNREADABLE)
    return read_game(line, game, moves)


def read_game(line: int, game: dict[str, Any], moves: Any) -> NaiveGame:
    row = NaiveGame(line, width=size(game.get("width")), height=size(game.get("height")))
    if not row.width or not row.height:
        return NaiveGame(line, DropReason.BAD_SIZE)
    stones = number(game.get("handicap"))
    row.handicap = int(stones) if stones is not None and stones.is_integer() and 0 <= stones < 32768 else None
    handicap = row.handicap or 0
    rules = game.get("rules")
    rules = rules.lower() if isinstance(rules, str) and rules else "japanese"
    free = game.get("free_handicap_placement")
    if not isinstance(free, bool):
        free = rules not in ("japanese", "korean", "aga") and not (rules == "chinese" and "ogs_import" in game)
    black, white, first = "", "", WHITE if game.get("initial_player") == "white" else BLACK
    if "initial_state" in game:
        state = game["initial_state"] if isinstance(game["initial_state"], dict) else {}
        black, white = (state[side] if isinstance(state.get(side), str) else "" for side in ("black", "white"))
    elif handicap and not free and row.width == row.height and row.width in SMALLER and handicap in STARS:
        black = STARS[handicap].translate(SMALLER[row.width])
        if "ogs_import" in game and handicap in (2, 3):
            black = {2: "ddpp", 3: "ddpdpp"}[handicap].translate(SMALLER[row.width])
        first = WHITE
    else:
        free = free or handicap > 0
    row.to_play = WHITE if first == WHITE else 0
    for text, bits in ((black, 0), (white, WHITE_BIT)):
        text = text.encode("utf-8", "replace").decode("latin-1")
        for k in range(0, len(text), 2):
            point = letters(text[k : k + 2], row, -1)
            if 0 <= point < row.width * row.height and (0, point | bits) not in row.setup:
                row.setup.append((0, point | bits))
    try:
        play(row, moves, first, handicap if free and first == BLACK else 0)
    except BadMoveError:
        return NaiveGame(line, DropReason.UNREADABLE)
    return row


def play(row: NaiveGame, moves: Any, turn: int, free: int) -> None:
    played = 0
    for point, colour, seconds in decode_text(moves, row) if isinstance(moves, str) else decode_list(moves, row):
        if colour == 3:
            row.setup += [(len(row.moves), point | ERASE_BIT)] if point < row.width * row.height else []
            continue
        if colour > TURN:
            turn, colour = colour - TURN, 0
        if not colour:
            if played < free and point == row.width * row.height:
                continue
            colour, played = turn, played + 1
            if played >= free:
                turn = 3 - turn
        row.moves.append(point | (WHITE_BIT if colour == WHITE else 0))
        row.seconds.append(seconds)


def decode_list(moves: list[Any], row: NaiveGame) -> list[tuple[int, int, float]]:
    decoded = []
    for move in moves:
        if has_constant(move):
            raise BadMoveError
        if isinstance(move, dict):
            seconds, colour = move.get("timedelta"), from_text(move.get("color"))
            edited = move.get("edited") is True
            move = [move.get("x"), move.get("y"), seconds, colour if colour in (1, 2) else None]
            if edited and move[3] is None:
                raise BadMoveError
            kind = 0 if edited or move[3] is None else TURN
        else:
            kind = 0
        move = [from_text(value) for value in move] if isinstance(move, list) else []
        if len(move) < 2 or not all(map(is_number, move[:2])):
            raise BadMoveError
        x, y = move[:2]
        point = NO_POINT
        if x == y == -1:
            point = row.width * row.height
        elif x in range(row.width) and y in range(row.height):
            point = int(y) * row.width + int(x)
        ms = move[2] if len(move) > 2 and is_number(move[2]) and 0 <= move[2] <= 1e15 else math.nan
        colour = int(move[3]) if len(move) > 3 and is_number(move[3]) and move[3] in (1, 2) else 0
        decoded.append((point, colour + kind, ms / 1000))
    return decoded


def from_text(value: Any) -> Any:
    """Return a number that is text as a number, anything else as it is."""
    is_text = isinstance(value, str) and re.fullmatch(
        r"[ \t\r\n]*-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?[ \t\r\n]*", value, re.ASCII
    )
    return float(value) if is_text else value


def decode_text(text: str, row: NaiveGame) -> list[tuple[int, int, float]]:
    decoded, i = [], 0
    text = text.encode("utf-8", "replace").decode("latin-1")
    while i < len(text):
        colour = 0
        if text[i] == "!":
            if text.startswith("!undefined", i):
                colour, i = 3, i + 10
            elif text[i + 1 : i + 2] in ("0", "1", "2"):
                colour, i = int(text[i + 1]) or 3, i + 2
            else:
                raise BadMoveError
        if len(text) - i < 2:
            break
        decoded.append((letters(text[i : i + 2], row, -2), colour, math.nan))
        i += 2
    return decoded


def letters(pair: str, row: NaiveGame, bad: int) -> int:
    alphabet = ".abcdefghijklmnopqrstuvwxyz"
    x, y = (alphabet.find(c.lower()) - 1 if c.isascii() and c else -2 for c in pair.ljust(2, "!"))
    if x < -1 or y < -1:
        if bad == -2:
            raise BadMoveError
        return bad
    return y * row.width + x if 0 <= x < row.width and 0 <= y < row.height else row.width * row.height


def has_constant(value: Any) -> bool:
    if isinstance(value, dict):
        value = list(value.values())
    return any(map(has_constant, value)) if isinstance(value, list) else isinstance(value, Constant)


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def number(value: Any) -> float | None:
    try:
        found = float(value[:32] if isinstance(value, str) else value) if not isinstance(value, bool) else math.nan
    except (TypeError, ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None


def size(value: Any) -> int:
    found = number(19 if value is None else value)
    return int(found) if found is not None and found in range(1, 26) else 0


def compare_with_naive(members: list[bytes]) -> ParsedBlock:
    block = as_block(members)
    kinds = detect(block)
    for kind in (OGS, OGS_LINES):
        rows = np.flatnonzero(kinds == kind)
        block = as_block([members[k] for k in rows])
        parsed = read_ogs(block) if len(rows) else None
        if parsed is not None:
            compare(parsed, [game for k in rows for game in read_member(members[k], kind == OGS_LINES)])
    return read_ogs(as_block(members[:1]))


def compare(parsed: ParsedBlock, naive: list[NaiveGame]) -> None:
    games = parsed.games
    assert parsed.index.tolist() == [game.line for game in naive]
    for g, game in enumerate(naive):
        if game.uploaded or (not game.is_json and games.drop[g]):  # for whatever reason was found first
            continue
        of_moves = slice(games.move_offset[g], games.move_offset[g + 1])
        of_setup = slice(games.setup_offset[g], games.setup_offset[g + 1])
        assert (games.drop[g], games.width[g], games.height[g]) == (game.drop, game.width, game.height)
        assert games.moves[of_moves].tolist() == game.moves
        assert list(zip(games.setup_ply[of_setup].tolist(), games.setup[of_setup].tolist())) == game.setup
        assert games.root_setup[g] == sum(ply == 0 and not stone & ERASE_BIT for ply, stone in game.setup)
        assert games.handicap[g] == (NO_HANDICAP if game.handicap is None else game.handicap)
        assert games.to_play[g] == game.to_play
        seconds = np.array(game.seconds, np.float32)
        found = np.full(len(seconds), np.nan) if parsed.seconds is None else parsed.seconds[of_moves]
        np.testing.assert_allclose(found, seconds, rtol=1e-6)
