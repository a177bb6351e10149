"""Independent readings of sample records in `shared`, and how kifu's reading is compared with them."""

import json
from pathlib import Path
from typing import Any

import kifu
from kifu.point import POINT_MASK, WHITE_BIT, parse_sgf
from kifu.records.meta import Result, parse_komi
from kifu.records.ranks import Rank


def reference_games(shared: Path, record_format: str) -> list[tuple[Path, dict[str, Any]]]:
    """Return the samples of a format with one game each, and their references."""
    references = json.loads((shared / "reference" / "formats" / f"{record_format}.json").read_text("utf-8"))["files"]
    folder = shared / "data" / "formats"
    return [(folder / reference["file"].replace("/dev/", "/"), reference) for reference in references]


def compare_with_reference(path: Path, reference: dict[str, Any]) -> None:
    """Check moves, setup, komi, handicap, names, ranks, date, result and main time of a record's only game."""
    (game,) = kifu.read(path)
    size = reference["size"]
    assert (game.width, game.height) == (size, size), path
    colour = {"B": 0, "W": WHITE_BIT}
    words = [text.split() for text in reference["moves"]]
    assert game.moves.tolist() == [
        colour[side] | parse_sgf(value if value != "pass" else "", size) for side, value in words
    ], path
    assert {(int(stone) & POINT_MASK, int(stone) & WHITE_BIT) for stone in game.setup} == {
        (parse_sgf(value, size), colour[side]) for side, value in map(str.split, reference["setup"])
    }, path
    assert (game.handicap or 0) == reference["handicap"], path
    assert parse_komi(game.text("KM")) == reference["komi"], path
    assert (game.text("PB"), game.text("PW")) == (reference["black"], reference["white"]), path
    for name, rank in zip(("BR", "WR"), reference["ranks"]):
        assert game.text(name) == rank or Rank.parse(game.text(name)) == Rank.parse(rank), path
    assert game.text("DT") == reference["date"], path
    assert Result.parse(game.text("RE")) == Result.parse(reference["result"]), path
    main = (reference["time"] or {}).get("main_s")
    assert game.text("TM") == ("" if main is None else str(main)), path
