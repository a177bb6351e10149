"""Damaged and generated records for the SGF parser, which must agree with the naive one and round-trip."""

import functools
import random

from fuzzing import Fuzzer, damage
from kifu.records.game import read_sgf, write_sgf
from kifu.records.sgf import as_block
from naive_sgf import compare_with_naive, games_of
from naive_text_fields import TEXT_PIECES, compare_text, compare_text_fields
from record_samples import TRAPS_FOLDER


@functools.cache
def trap_records() -> list[bytes]:
    return [path.read_bytes() for path in sorted(TRAPS_FOLDER.glob("*.sgf"))]


def record(draw: random.Random) -> bytes:
    if draw.random() < 0.3:
        data = bytearray(b"".join(draw.choices(TEXT_PIECES, k=draw.randint(0, 60))))
    else:
        data = bytearray(draw.choice(trap_records()) + draw.choice([b"", *trap_records()]))
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


SGF = Fuzzer(record, check)
