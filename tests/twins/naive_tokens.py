"""Slow twins of the tokenizer and of the packing of tokens, token by token."""

from typing import Any

from kifu.datasets.tokens import METADATA, Tokenizer
from kifu.point import ERASE_BIT, POINT_MASK, WHITE_BIT, symmetries, to_gtp
from kifu.records.ranks import Rank

MARGINS = ("2", "5", "10", "20", "40")


def facts_of(row: dict[str, Any]) -> dict[str, str]:
    width, height, komi, year, stones = (row[name] for name in ("width", "height", "komi", "year", "handicap"))
    facts = {
        "board": f"{width}x{width}" if width == height else "not square",
        "rules": rules_of(row["rules"]),
        "handicap": "unknown" if stones is None else str(stones) if 0 <= stones <= 9 else "other",
        "komi": "unknown" if komi is None else f"{komi:g}" if abs(komi) <= 10 and komi * 2 % 1 == 0 else "other",
        "year": "unknown" if year is None else "before 1960" if year < 1960 else "after 2049",
        "result": row["winner"] or "unknown",
        "ending": row["ending"],
    }
    if year is not None and 1960 <= year <= 2049:
        facts["year"] = str(year)
    for side in ("black", "white"):
        rank = Rank.from_rating(row[f"{side}_rating"] or 0)
        facts[f"{side}_rank"] = "unknown" if rank is None else str(Rank(rank.level))
    if row["ending"] == "score" and row["margin"] is not None:
        bounds = [f"score up to {most}" for most in MARGINS if abs(row["margin"]) <= int(most)]
        facts["ending"] = bounds[0] if bounds else "score over 40"
    return facts


def rules_of(text: str | None) -> str:
    text = (text or "").strip().lower()
    for start, name in (
        ("jap", "japanese"), ("kor", "korean"), ("chi", "chinese"), ("aga", "aga"), ("bga", "aga"), ("french", "aga"),
        ("nz", "new zealand"), ("new zealand", "new zealand"), ("ing", "ing"), ("goe", "ing"),
        ("tromp", "tromp-taylor"),
    ):  # fmt: skip
        if text.startswith(start):
            return name
    return "other" if text else "unknown"


def token_names(tokenizer: Tokenizer, row: dict[str, Any]) -> list[str]:
    """Return the tokens of a row of the catalogue by their names."""
    width, height = row["width"], row["height"]

    def point_name(point: int) -> str:
        y, x = divmod(point, width)
        return to_gtp(y * tokenizer.width + x, tokenizer.width, tokenizer.height)

    facts = facts_of(row)
    names = ["begin", *(f"{name} {facts[name]}" for name in METADATA if name in tokenizer.metadata)]
    stones = list(zip(row["setup"], row["setup_ply"]))
    expected = "black"
    for ply in range(row["n_legal"] + 1):
        for word, _ in (stone for stone in stones if stone[1] == ply):
            kind = "empty point" if word & ERASE_BIT else "white stone" if word & WHITE_BIT else "black stone"
            names += [kind, point_name(word & POINT_MASK)]
        if ply == row["n_legal"]:
            break
        word = row["moves"][ply]
        colour = "white" if word & WHITE_BIT else "black"
        if colour != expected:
            names.append(f"{colour} to play")
        point = word & POINT_MASK
        names.append("pass" if point == width * height else point_name(point))
        expected = "black" if colour == "white" else "white"
    return [*names, "end"]


def pack(tokenizer: Tokenizer, games: list[list[int]], symmetries: list[int], length: int) -> list[list[Any]]:
    """Return rows of (token, position, segment), with padding."""
    flat = [
        (turned(tokenizer, game, token, symmetry), k, number)
        for number, (game, symmetry) in enumerate(zip(games, symmetries))
        for k, token in enumerate(game)
    ]
    rows = [flat[k : k + length] for k in range(0, len(flat), length)]
    padding = (tokenizer.padding, 0, 0)
    return [[(t, k, g - row[0][2] + 1) for t, k, g in row] + [padding] * (length - len(row)) for row in rows]


def turned(tokenizer: Tokenizer, game: list[int], token: int, symmetry: int) -> int:
    width, height = tokenizer.width, tokenizer.height
    if token >= width * height:
        return token
    if tokenizer.pad and (name := tokenizer.names[game[1]]) != "board not square":
        width = height = int(name.partition("x")[2])
    y, x = divmod(token, tokenizer.width)
    y, x = divmod(int(symmetries(width, height)[symmetry, y * width + x]), width)
    return y * tokenizer.width + x
