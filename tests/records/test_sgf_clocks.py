"""Times used, computed from the clocks of SGF."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from kifu.records.sgf import as_block, read_block
from naive_text_fields import compare_text_fields

NAN = math.nan


def seconds(text: str) -> list[float]:
    """Return the times of one game, rounded to milliseconds; [] if the block has none."""
    used = compare_text_fields(as_block([f"(;SZ[9]{text})".encode()])).seconds
    return [] if used is None else [round(float(each), 3) for each in used]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # main time
        ("TM[600];B[aa]BL[590.5];W[ba]WL[600];B[ca]BL[580.25]", [9.5, 0, 10.25]),
        ("TM[10m];B[aa]BL[590]", [10]),
        ("TM[600];BL[590]B[aa];W[ba]C[WL[1\\]]", [10, NAN]),
        (";B[aa]BL[590.5];W[ba]WL[600];B[ca]BL[580]", [NAN, NAN, 10.5]),  # main time unknown
        ("TM[0];B[aa]BL[590.5];W[ba];B[ca]BL[580]", [NAN, NAN, 10.5]),  # no limit
        ("TM[600];B[aa]BL[500];W[ba];B[ca]BL[550];W[da];B[ea]BL[540]", [100, NAN, NAN, NAN, 10]),  # time was added
        ("TM[600];B[aa];W[ba];B[ca]BL[550];W[da];B[ea]BL[540]", [NAN, NAN, NAN, NAN, 10]),  # of two moves
        ("TM[600];B[aa]BL[x];W[ba];B[ca]BL[-1]", [NAN] * 3),
        ("TM[600];B[aa]BL[590]BL[580];W[ba]WL[x]WL[590]", [10, NAN]),  # the first value is used
        # both clocks in each node, as NNGS writes them
        ("TM[1800];B[aa];W[ba]BL[1797]WL[1743];B[ca]BL[1791]WL[1743];W[da]BL[1791]WL[1739]", [3, 57, 6, 4]),
        ("TM[60];B[aa]BL[59];W[ba];BL[50]WL[55];B[ca]BL[58]", [1, 5, 1]),
        # byo-yomi: KGS writes the clock after it was reset
        ("TM[60]OT[5x30 byo-yomi];B[aa]BL[5.5];W[ba];B[ca]BL[30]OB[5];W[da];B[ea]BL[30]OB[4]", [54.5, *[NAN] * 4]),
        # others write what was left of the period
        ("TM[60]OT[5x30 byo-yomi];B[aa]BL[5];W[ba];B[ca]BL[29]OB[5]", [55, NAN, 6]),
        ("TM[60]OT[5x30 byo-yomi];B[aa]BL[5];W[ba];B[ca]BL[29]OB[4]", [55, NAN, NAN]),  # OB may or may not count it
        ("TM[0]OT[5x30 byo-yomi];B[aa]BL[21]OB[5];W[ba];B[ca]BL[20]OB[5];W[da];B[ea]BL[25]OB[3]",
         [9, NAN, 10, NAN, 65]),
        ("TM[0]OT[5x30 byo-yomi];B[aa]BL[21]OB[4];W[ba];B[ca]BL[20]OB[5]", [NAN, NAN, NAN]),
        ("TM[0]TC[3]TT[60];B[aa]BL[50]OB[3];W[ba]", [10, NAN]),
        ("TM[0]OT[20 per move];B[aa]BL[20]OB[1];W[ba]WL[15]OW[1]", [NAN, 5]),
        # a count in main time: below the length of a period, main time and the first period look the same
        ("TM[60]OT[3x5 byo-yomi];B[aa]BL[50]OB[3];W[ba];B[ca]BL[4]OB[3];W[da];B[ea]BL[3]OB[2]", [10, *[NAN] * 4]),
        # no count in overtime: after the clock has risen, nothing is known
        ("TM[60]OT[3x30 byo-yomi];B[aa]BL[5];W[ba];B[ca]BL[25];W[da];B[ea]BL[20]", [55, NAN, NAN, NAN, NAN]),
        # Canadian overtime: OB is the number of moves left in the period
        ("TM[60]OT[25/300 Canadian];B[aa]BL[5];W[ba];B[ca]BL[290]OB[24];W[da];B[ea]BL[280.5]OB[23]",
         [55, NAN, 15, NAN, 9.5]),
        ("TM[60]OT[25/300 Canadian];B[aa]BL[5];W[ba];B[ca]BL[290]OB[25]", [55, NAN, 15]),
        ("TM[60]OT[25/300 Canadian];B[aa]BL[5];W[ba];B[ca]BL[300]OB[25]", [55, NAN, NAN]),
        ("TM[0]OT[2/30 Canadian];B[aa]BL[20]OB[1];W[ba];B[ca]BL[15]OB[0];W[da];B[ea]BL[25]OB[1]",
         [10, NAN, 5, NAN, 5]),
        ("TM[0]OT[2/30 Canadian];B[aa]BL[20]OB[1];W[ba];B[ca]BL[30]OB[2];W[da];B[ea]BL[25]OB[1]",
         [10, NAN, NAN, NAN, 5]),  # the last move of a period that was reset
        # overtime whose clocks are read differently, or not understood
        ("TM[60]OT[10 fischer];B[aa]BL[55]", [NAN]),
        ("TM[60]OT[by ear];B[aa]BL[55]", [NAN]),
    ],
)  # fmt: skip
def test_times_used(text: str, expected: list[float]) -> None:
    np.testing.assert_array_equal(seconds(text), expected)


@pytest.mark.parametrize("text", [";B[aa];W[ba]", ";B[aa]C[BL 5]", "GM[2];B[aa]BL[5]"])
def test_games_without_clocks_have_no_times(text: str) -> None:
    assert seconds(text) == []


def test_games_of_a_block_are_read_by_themselves() -> None:
    first, second = b"(;SZ[9]TM[60];B[aa]BL[59])", b"(;SZ[9];B[aa];W[ba])"
    parsed = read_block(as_block([second, first + second, first]))
    np.testing.assert_array_equal(parsed.seconds, [NAN, NAN, 1, NAN, NAN, 1])
    assert parsed.evaluations is None


LIMITS = ["", "TM[60]", "TM[0]"], ["", "OT[3x30 byo-yomi]", "OT[5/30 Canadian]", "OT[0]", "TC[2]TT[30]"]


@pytest.mark.slow
def test_made_clocks_as_the_naive_reader() -> None:
    """Players who use random times, with clocks that some nodes lack or write differently."""
    draw = random.Random(7)
    for _ in range(300):
        text = "".join(map(draw.choice, LIMITS))
        left, count = {"B": 60.0, "W": 60.0}, {"B": -1, "W": -1}
        for ply in range(30):
            side = "BW"[ply % 2]
            left[side] -= draw.choice((0, 0.5, 5, 17.25))
            while left[side] < 0:
                left[side] += 30
                count[side] = draw.choice((5, 3)) if count[side] < 0 else max(count[side] - 1, 0)
            count[side] -= draw.random() < 0.3
            shown = draw.choice((left[side], 30.0)) if count[side] >= 0 else left[side]
            text += f";{side}[]"
            for each in draw.choice((side, side, side, "BW", "", "W")):
                text += f"{each}L[{shown if each == side else left[each]}]"
                text += f"O{each}[{count[each]}]" if draw.random() < 0.9 and count[each] >= -1 else ""
        seconds(text)
