"""Damaged and generated records for the SGF parser, which must agree with the naive one and round-trip."""

import functools
import random
from collections.abc import Sequence

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
    if draw.random() < 0.5:
        return dirty(draw, trap_records())
    if draw.random() < 0.3:
        data = bytearray(b"".join(draw.choices(TEXT_PIECES, k=draw.randint(0, 60))))
    else:
        data = bytearray(draw.choice(trap_records()) + draw.choice([b"", *trap_records()]))
    return damage(draw, data, TEXT_PIECES)


PASTED = """Ann [5k]: hi :)|Ann [5k]: hi
Bob [4k]: (;-)
|a) attach|(;B[ee];W[cg])|
(;B[ee];W[cg])|(;|(game 1)|Cup [final] (game 1)|RE[B+R]|PB[Eve]|B [dd] is better|Bob[3k]|C[\
|;)|()|\uff1b|,|\\|]]|[]| [|] |W[cg]|\0|\r"""
PIECES = [*PASTED.encode().split(b"|"), b"\x83]", b"\x95\\", b"x" * 4090]


def dirty(draw: random.Random, records: Sequence[bytes]) -> bytes:
    """Return a record, or two, with one to three damages: cut, joined, pasted, with brackets lost or doubled."""
    data = draw.choice(records)
    if draw.random() < 0.25:
        data += draw.choice([b"", b"\n"]) + draw.choice(records)
    for _ in range(draw.randint(1, 3)):
        tokens = [at for at, char in enumerate(data) if char in b"[]();"] or [0]
        at = draw.choice(tokens) + draw.randrange(2) if draw.random() < 0.6 else draw.randint(0, len(data))
        match draw.choice(("cut", "joined", "lost", "doubled", "pasted", "pasted", "pasted", "two moves")):
            case "cut":
                data = data[:at] + data[draw.randint(at, max(at, len(data))) :]
            case "joined":
                data = data[:at] + draw.choice([b"\n", b"\r", b"\r\n", b" "]) + draw.choice(records)
            case "lost":
                data = data[:at] + data[at + 1 :]
            case "doubled":
                data = data[:at] + data[at : at + 1] + data[at:]
            case "pasted":
                data = data[:at] + draw.choice(PIECES) + data[at:]
            case "two moves":
                data = data[:at] + data[at:].replace(b"];", draw.choice([b"]", b"],", b"]\xef\xbc\x9b"]), 1)
    return data


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
