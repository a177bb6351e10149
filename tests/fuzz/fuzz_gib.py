"""Damaged and generated GIB members, each of which gives the same rows alone as in a block."""

import functools
import random

from fuzzing import Fuzzer, damage
from kifu.records.gib import read_gib
from readings import check_members

PIECES = [
    b"\\HS\n", b"\\HE\n", b"\\GS\n", b"\\GE\n", b"\\RS\n", b"\\[", b"\\]\n", b"\\[GAMETAG=R3,G65,W3\\]\n",
    b"\\[GAMEINFOMAIN=GRLT:0,ZIPSU:35,LINE:9\\]\n", b"\\[GAMEINFOMAIN=LINE:26\\]", b"\\[GIBOKIND=Korea\\]\n",
    b"\\[GAMEBLACKNAME=\xb1\xe8 (9\xb4\xdc)\\]\n", b"INI 0 1 0 &4\n", b"INI 0 1 2 &4\n", b"INI 0 1 10 &4", b"INI\n",
    b"2 1 0\n", b"STO 0 2 1 3 15\n", b"STO 0 3 2 15 3 \r\n", b"STO 0 4 1 18 1", b"STO 0 5 2 19 3\n", b"STO 0 6 3 1 1\n",
    b"STO 1", b"SKI 0 7\n", b"SKI\n", b"REM 0 212 -1 -1 0 1 \n", b"\n", b"\r", b"\0", b" ", b"7", b"-1", b"x",
    b"\xef\xbb\xbf", b"\xff", b"1234567\n", b"SKIP\n",
]  # fmt: skip

RECORD = b"""\\HS
\\[GIBOKIND=Global\\]
\\[GAMETIME=Time limit 20minute : 30 second countdown 3 time\\]
\\[GAMEGONGJE=65\\]
\\[GAMEDATE=2012- 7-15-19-30-47\\]
\\[GAMEWHITENAME=yunmi89 (13K)\\]
\\[GAMEINFOMAIN=GBKIND:3,GTYPE:0,GCDT:0,GTIME:1200-30-3,GRLT:4,ZIPSU:0,DUM:0,GONGJE:65,TCNT:178,LINE:19,AUSZ:0\\]
\\[GAMEINFOSUB=GNAMEF:0,GPLCF:0,GNAME:Rank,GDATE:2012- 7-15-19-30-47,GPLC:Tygem Baduk,GCMT:\\]
\\[BUSERINFO=BID:joppon,BLV:6,BNICK:joppon,BNCD:3,BAID:60005,BIMSG:\\]
\\[GAMETAG=S0,R3,D0,G65,W4,Z0,T30-3-1200,C2012:07:15:19:30,I:x,L:5,M:joppon,N:6,A:yunmi89,B:joppon,J:0,K:3\\]
\\HE
\\GS
2 1 0
179 0 &4
INI 0 1 3 &4
STO 0 2 2 15 15
STO 0 3 1 3 15
SKI 0 4
\\GE
"""


def make_members(draw: random.Random) -> list[bytes]:
    members = []
    for _ in range(draw.randint(1, 2)):
        is_soup = draw.random() < 0.3
        pieces = draw.choices(PIECES, k=draw.randint(0, 60)) if is_soup else [RECORD] * draw.randint(0, 3)
        members.append(damage(draw, bytearray(b"".join(pieces)), PIECES))
    return members


GIB = Fuzzer(make_members, functools.partial(check_members, read_gib))
