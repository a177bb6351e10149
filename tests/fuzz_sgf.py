"""Feed damaged and generated records to the SGF parser: `python tests/fuzz_sgf.py --seconds 60`.

Every input must be read as by the naive parser, and must round-trip. The first input that fails is printed, and the
exit code is 1. The seed makes a run repeatable.
"""

from __future__ import annotations

import random

from fuzzing import damage, run, try_all
from kifu.records.game import read_sgf, write_sgf
from kifu.records.sgf import as_block
from naive_sgf import compare_with_naive, games_of
from naive_text_fields import TEXT_PIECES, compare_text, compare_text_fields
from record_samples import TRAPS_FOLDER


def mutant(draw: random.Random, records: list[bytes]) -> bytes:
    """Return a record, or two, or a soup of tokens, with some bytes replaced by tokens or noise."""
    if draw.random() < 0.3:
        data = bytearray(b"".join(draw.choices(TEXT_PIECES, k=draw.randint(0, 60))))
    else:
        data = bytearray(draw.choice(records) + draw.choice([b"", *records]))
    return damage(draw, data, TEXT_PIECES)


def check(data: bytes) -> None:
    compare_with_naive(data)
    compare_text(compare_text_fields(as_block([data])))
    for game in games_of(data):
        str(game), game.errors
        if not game.drop:
            text = write_sgf(game)
            again = read_sgf(text)
            assert again == game
            assert write_sgf(again) == text


def fuzz(seconds: float, seed: int) -> int:
    """Return the number of inputs; see `fuzzing.try_all`."""
    records = [path.read_bytes() for path in sorted(TRAPS_FOLDER.glob("*.sgf"))]
    return try_all(lambda draw: mutant(draw, records), check, seconds, seed)


if __name__ == "__main__":
    run("sgf", fuzz, __doc__)
