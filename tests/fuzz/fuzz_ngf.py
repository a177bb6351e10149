"""Damaged and generated NGF members, each of which gives the same rows alone as in a block."""

import functools
import random

from fuzzing import Fuzzer, damage
from kifu.records.ngf import read_ngf
from readings import check_members

PIECES = [
    b"PMABBREER", b"PMACWEEEE", b"PMADBAAAA", b"PMAEWZZZZ", b"PMAFB", b"PM", b"P", b"\n", b"\r\n", b"\r", b" ", b"GI",
    b"19", b"9", b"26", b"0", b"1", b"2", b"9", b"x", b"Title", b"LQC         9DP", b"20170316 [09:37]",
    b"Black wins by 0.5!", b"GI1", "IDB[2] 黑中盘胜[EndTxt]".encode("gb18030"), b"\xef\xbb\xbf", b"\0", b"\xb0\xa1",
]  # fmt: skip

RECORD = """Rated game
19
LQC         9DP
CYY         9DP
www.cyberoro.com
0
0
7
20170316 [09:37]
5
Black wins by 0.5!
4
PMABBREER
PMACWEEEE
PMADBAAAA
PMAEWQRRQ
"""
GI_RECORD = """GI韩国十段战
GI朴承华 初段
GI李载雄 五段
GI
GI
GI2006-9-5
GI19
GI0
GI0
GI6
GI2
PMABBREER
PMACWEEEE
GI1
IDB[2] 黑中盘胜(现场消息)[EndTxt]
"""
RECORDS = (RECORD.encode(), RECORD.replace("\n", "\r\n").encode(), GI_RECORD.encode("gb18030"))


def make_members(draw: random.Random) -> list[bytes]:
    return [_member(draw) for _ in range(draw.randint(1, 3))]


def _member(draw: random.Random) -> bytes:
    is_soup = draw.random() < 0.4
    data = b"\n".join(draw.choices(PIECES, k=draw.randint(0, 40))) if is_soup else draw.choice(RECORDS)
    return damage(draw, bytearray(data), PIECES)


NGF = Fuzzer(make_members, functools.partial(check_members, read_ngf))
