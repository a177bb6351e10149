"""Text fields of OGS games in SGF's spelling, from values of any type: those of another type count as missing."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Mapping
from typing import Any

import orjson

from kifu.records.games import FIELD_LIMIT

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
    players = as_dict(game.get("players"))
    black, white = (as_dict(players.get(side)) for side in SIDES)
    main_time, overtime = _clock(game)
    texts = {
        "black": as_text(black.get("username")) or as_text(black.get("name")),
        "white": as_text(white.get("username")) or as_text(white.get("name")),
        "black_rank": _rank(black),
        "white_rank": _rank(white),
        "result": _result(game, black, white),
        "komi": _komi(game, rules, handicap),
        "date": _date(game),
        "time": main_time,
        "overtime": overtime,
        "rules": rules,
        "title": as_text(game.get("game_name")),
    }
    return {name: text for name, text in texts.items() if text}


def as_dict(value: object) -> JsonObject:
    return value if isinstance(value, dict) else {}


def as_text(value: object) -> str:
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
        started = datetime.datetime.fromisoformat(as_text(game.get("started")))
        return (started.astimezone(datetime.UTC) if started.tzinfo else started).date().isoformat()
    except (ValueError, OverflowError):
        return ""


def _clock(game: JsonObject) -> tuple[str, str]:
    """Return main time and overtime."""
    control = as_dict(game.get("time_control"))
    if not control and isinstance(parameters := game.get("time_control_parameters"), str):
        try:
            control = as_dict(orjson.loads(parameters.encode("utf-8", "replace")))
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
    if as_text(game.get("phase")) not in ("", "finished"):
        return ""
    outcome = as_text(game.get("outcome")).strip().lower()
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
