"""Damaged and generated GIB members, whose games and moves must agree with the naive parser."""

import random

from fuzzing import Fuzzer, damage
from naive_gib import PIECES, compare_with_naive

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
    """Return a member or two of damaged records, or of a soup of pieces."""
    members = []
    for _ in range(draw.randint(1, 2)):
        is_soup = draw.random() < 0.3
        pieces = draw.choices(PIECES, k=draw.randint(0, 60)) if is_soup else [RECORD] * draw.randint(0, 3)
        members.append(damage(draw, bytearray(b"".join(pieces)), PIECES))
    return members


GIB = Fuzzer(make_members, compare_with_naive)
