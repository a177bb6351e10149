"""Damaged and made-up records for the SGF reader, until the time is up: `python tests/fuzz_sgf.py --seconds 60`.

Every input must be read as the slow twin reads it, and what was read must survive writing. The first that is not so is
printed, and the exit code is 1. The seed makes a run repeatable.
"""

from __future__ import annotations

import random

from fuzzing import damage, run, try_all
from kifu.records.game import read_sgf, write_sgf
from kifu.records.sgf import as_block
from test_decode import compare_text
from test_sgf import RECORDS, compare_with_naive, games_of
from test_words import SOUP, compare_words


def mutant(draw: random.Random, records: list[bytes]) -> bytes:
    """A record, or two, or a soup of tokens; then some bytes of it replaced by tokens or noise."""
    if draw.random() < 0.3:
        data = bytearray(b"".join(draw.choices(SOUP, k=draw.randint(0, 60))))
    else:
        data = bytearray(draw.choice(records) + draw.choice([b"", *records]))
    return damage(draw, data, SOUP)


def check(data: bytes) -> None:
    compare_with_naive(data)
    compare_text(compare_words(as_block([data])))
    for game in games_of(data):
        str(game), game.errors
        if not game.drop:
            text = write_sgf(game)
            again = read_sgf(text)
            assert again == game and write_sgf(again) == text


def fuzz(seconds: float, seed: int) -> int:
    """How many inputs were tried; see `fuzzing.try_all`."""
    records = [path.read_bytes() for path in sorted(RECORDS.glob("*.sgf"))]
    return try_all(lambda draw: mutant(draw, records), check, seconds, seed)


if __name__ == "__main__":
    run("sgf", fuzz, __doc__)
