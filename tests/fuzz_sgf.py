"""Damaged and made-up records for the SGF reader, until the time is up: `python tests/fuzz_sgf.py --seconds 60`.

Every input must be read as the slow twin reads it, and what was read must survive writing. The first that is not so is
printed, and the exit code is 1. The seed makes a run repeatable.
"""

from __future__ import annotations

import argparse
import random
import time

from kifu.records.game import read_sgf
from kifu.records.sgf import as_block, write_sgf
from test_decode import compare_text
from test_sgf import RECORDS, compare_with_naive, games_of
from test_words import SOUP, compare_words


def mutant(draw: random.Random, records: list[bytes]) -> bytes:
    """A record, or two, or a soup of tokens; then some bytes of it replaced by tokens or noise."""
    if draw.random() < 0.3:
        data = bytearray(b"".join(draw.choices(SOUP, k=draw.randint(0, 60))))
    else:
        data = bytearray(draw.choice(records) + draw.choice([b"", *records]))
    for _ in range(draw.randint(0, 8)):
        at = draw.randint(0, len(data))
        noise = draw.choice([b"", draw.randbytes(draw.randint(1, 4)), draw.choice(SOUP)])
        data[at : at + draw.choice((0, 0, 1, 8))] = noise
    return bytes(data)


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
    """How many inputs were tried. The failing one is in the notes of what it raises."""
    draw = random.Random(seed)
    records = [path.read_bytes() for path in sorted(RECORDS.glob("*.sgf"))]
    end, tried = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        data = mutant(draw, records)
        begin = time.monotonic()
        try:
            check(data)
            assert time.monotonic() - begin < 30, "a time that is not linear"
        except BaseException as error:
            error.add_note(f"seed {seed}, input {tried}: {data!r}")
            raise
        tried += 1
    return tried


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    arguments = parser.parse_args()
    print(f"sgf: {fuzz(arguments.seconds, arguments.seed):,} inputs, seed {arguments.seed}")
