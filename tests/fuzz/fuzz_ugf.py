"""Damaged and generated UGF members, each of which gives the same rows alone as in a block."""

import functools
import random

from fuzzing import Fuzzer, damage
from kifu.records.ugf import read_ugf
from readings import check_members

PIECES = [
    b"[Header]", b"[Data]", b"[Figure]", b"[Remote]", b"[x", b"Size=19", b"Size=9", b"Size=26", b"Size=", b"Lang=SJIS",
    b"Lang=UTF8", b"Crypt=1,PLAIN_UGF_FILE,READ_WRITE", b"Crypt=9666,XX", b"Hdcp=2,0,50", b"Hdcp=1,0", b"Hdcp=x",
    b"CoordinateType=IGS", b"CoordinateType=JPN", b"PlayerB=\x8eR\x89\xba,9d,0,", b"DP,B1,0,0", b"PD,W1,0,3",
    b"PP,W1,1,35", b"CN,B1,2,7.5", b"YA,B1,3,1", b"ZZ,W1,4,", b"ZZ,B1", b"??,W2,5,x", b"AA,B", b"AS,W1,7,1234567890",
    b"Q",
    b".Text,1", b".EndText", b".Fig,2,1,1,19,19,x,1,0", b".EndFig", b".#,16,16,A", b"\n", b"\r\n", b"\r", b" ", b"\0",
    b"\xef\xbb\xbf", b"# a comment", b"=", b",",
]  # fmt: skip

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
    return [_member(draw) for _ in range(draw.randint(1, 3))]


def _member(draw: random.Random) -> bytes:
    data = RECORD.encode("cp932")
    if draw.random() < 0.5:
        header, lines = (draw.choices(PIECES, k=draw.randint(0, 20)) for _ in range(2))
        data = b"\n".join([b"[Header]", *header, b"[Data]", *lines] if draw.random() < 0.8 else header + lines)
    return damage(draw, bytearray(data), PIECES)


UGF = Fuzzer(make_members, functools.partial(check_members, read_ugf))
