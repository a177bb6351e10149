"""Damaged and generated UGF members, whose moves must agree with the naive reader."""

import random

from fuzzing import Fuzzer, damage
from naive_ugf import PIECES, compare_with_naive

RECORD = """[Header]
Ver=UGF2,200
Lang=SJIS
Crypt=2146,PLAIN_UGF_FILE,READ_WRITE
Title=26th,碁聖,挑戦手合
Place=日本棋院
Date=2001/08/20,09:00:00,2001/08/21,00:00:00
Rule=JPN
Size=19
Hdcp=3,0.50
Ptime=J;240;10;60,J;240;10;60,0,0
Winner=W,C
Moves=5
CoordinateType=JPN
PlayerW=小林,九段,0,
PlayerB=山下,碁聖,0,
[Data]
DP,B1,0,0
PD,B1,0,0
DD,B1,0,0
PP,W1,1,35
.Fig,2,1,1,19,19,参考図,1,0
DP,B1,0,0
QQ,W1,1,0
.Text
変化
.EndText
.EndFig
CN,B1,2,7
FC,W1,3,12
YA,B1,4,3
YA,W1,5,1
[Figure]
.Text,1
[Data]
.EndText
"""


def make_members(draw: random.Random) -> list[bytes]:
    """Return some damaged records, or soups of pieces."""
    return [_member(draw) for _ in range(draw.randint(1, 3))]


def _member(draw: random.Random) -> bytes:
    data = RECORD.encode("cp932")
    if draw.random() < 0.5:
        header, lines = (draw.choices(PIECES, k=draw.randint(0, 20)) for _ in range(2))
        data = b"\n".join([b"[Header]", *header, b"[Data]", *lines] if draw.random() < 0.8 else header + lines)
    return damage(draw, bytearray(data), PIECES)


UGF = Fuzzer(make_members, compare_with_naive)
