"""A small made record in each record format, mostly of the same game, and a folder that holds all of them."""

import gzip
import io
import json
from pathlib import Path

from kgs_archives import put, tar_of, zip_of

MOVES = ("B pd", "W dp", "B pq", "W dc", "B fq")
"""The game in SGF's coordinates."""

SGF = (
    "(;FF[4]GM[1]CA[UTF-8]SZ[19]PB[黒木]PW[white]BR[2d]WR[3d]RE[B+R]KM[6.5]DT[2020-08-21]TM[600]OT[3x30 byo-yomi]\n"
    ";B[pd];W[dp];B[pq];W[dc];B[fq])\n"
).encode()

SGFS = (
    b"(;FF[4]GM[1]SZ[19]PB[b]PW[w]HA[0]KM[7.5]RU[koPOSITIONALscoreAREAtaxNONEsui1]RE[B+R]"
    b"C[startTurnIdx=1,initTurnNum=0,gameHash=4ABB4DB214CD9C8328941CCEF8590F0D,gtype=normal]"
    b";B[pd];W[dp]C[0.44 0.26 0.30 1.4 v=2];B[pq]C[0.45 0.28 0.28 -1.0 v=250];W[dc];B[fq])\n"
    b"(;FF[4]GM[1]SZ[9]PB[b]PW[w]HA[0]KM[7]RE[W+3];B[ee];W[];B[])\n"
)

OLF = b"1996-03-12 a 20 b 21.0 19:19 30 3.5 5.5 h-0 PDdp\n"

TYGEM_LINES = b"885492098\t;B[pd];W[dp];B[pq];W[dc];B[fq]\n"
TYGEM_INDEX = b"885492098\tC2016.07.01 00:02\twhite\twhite\t3d\tblack\tblack\t2d\tB+Resign\t5\t30/3 10m\n"

TOM_LINES = b"354460\t;B[pd];W[dp];B[pq];W[dc];B[fq]\n"
TOM_INDEX = "354460\t2003.09.25 20:21\t忧郁的孤影\t楚阳春\t6.5\tB+Resign\t5\t30/3 10m\n".encode()

GIB = """\\HS
\\[GIBOKIND=Korea\\]
\\[GAMEWHITENAME=흰돌 (3D)\\]
\\[GAMEBLACKNAME=검은돌 (2D)\\]
\\[GAMEDATE=2020- 8-21-22-55- 3\\]
\\[GAMEINFOMAIN=GBKIND:0,GTYPE:0,GCDT:0,GTIME:600-30-3,GRLT:3,ZIPSU:0,DUM:0,GONGJE:65,TCNT:6,LINE:19,AUSZ:0\\]
\\HE
\\GS
2 1 0
6 0 &4
INI 0 1 0 &4
STO 0 2 1 15 3
STO 0 3 2 3 15
STO 0 4 1 15 16
STO 0 5 2 3 2
STO 0 6 1 5 16
\\GE
""".encode("cp949")

NGF = """Rated game
19
흰돌        3D*
검은돌      2D
www.cyberoro.com
0
0
6
20200821 [09:37]
10
Black wins by Resign!
5
PMABBQEEQ
PMACWEQQE
PMADBQRRQ
PMAEWEDDE
PMAFBGRRG
""".encode("cp949")

UGF = """[Header]
Ver=UGF3,200
Lang=UTF8
Crypt=0,PLAIN_UGF_FILE,READ_WRITE
Title=game
Date=2020/08/21,09:00:00,2020/08/21,10:00:00
Rule=JPN
Size=19
Hdcp=0,6.50
Ptime=J;10;3;30,J;10;3;30,0,0
Winner=B,C
Moves=5
CoordinateType=JPN
PlayerW=white,3d,0,
PlayerB=黒木,2d,0,
[Data]
PD,B1,1,4
DP,W1,2,35
PQ,B1,3,7
DC,W1,4,3
FQ,B1,5,1
""".encode()

OGS_GAME = {
    "game_id": 18759438,
    "game_name": "Friendly Match",
    "players": {
        "black": {"username": "黒木", "rank": 31.4, "professional": False, "id": 1},
        "white": {"username": "white", "rank": 32.1, "professional": False, "id": 2},
    },
    "handicap": 0,
    "komi": 6.5,
    "width": 19,
    "height": 19,
    "rules": "japanese",
    "time_control": {"system": "byoyomi", "main_time": 600, "period_time": 30, "periods": 3},
    "phase": "finished",
    "outcome": "Resignation",
    "winner": 1,
    "black_player_id": 1,
    "white_player_id": 2,
    "start_time": 1598000000,
    "moves": [[15, 3, 4000], [3, 15, 2500], [15, 16, 7000.5], [3, 2, None], [5, 16]],
}

OGS = json.dumps(OGS_GAME, indent=4).encode()
OGS_LINES = b"".join(json.dumps(OGS_GAME | {"game_id": 7 + k, "komi": k + 0.5}).encode() + b"\n" for k in range(3))

RECORDS = {
    "a.sgf": SGF, "b.sgfs": SGFS, "c.gib": GIB, "d.ngf": NGF, "e.ugf": UGF, "f.json": OGS, "g.jsonl": OGS_LINES,
    "h.olf": OLF,
}  # fmt: skip
"""Content of a file in each format, by file name."""

COUNTS = {"sgf": 3, "gib": 1, "ngf": 1, "ugf": 1, "ogs": 4, "olf": 1}
"""Number of games in RECORDS by format."""

NO_RECORDS = {"readme.txt": b"Games of 2020.\n", "package.json": b'{"name": "x"}\n', "board.png": b"\x89PNG\r\n\x1a\n"}
"""Content of files that are no records, by file name."""


def make_7z(files: dict[str, bytes]) -> bytes:
    import py7zr  # an extra

    buffer = io.BytesIO()
    with py7zr.SevenZipFile(buffer, "w") as archive:
        for name, data in files.items():
            archive.writestr(data, name)
    return buffer.getvalue()


def write_mixed_folder(folder: Path) -> None:
    """Write a folder with every record format, loose and in every container, and with files that are no records."""
    files = {
        **{f"loose/{name}": data for name, data in {**RECORDS, **NO_RECORDS}.items()},
        **{f"packed/{name}.gz": gzip.compress(data) for name, data in RECORDS.items()},
        "archives/all.zip": zip_of({**RECORDS, **NO_RECORDS}),
        "archives/daily.tar.bz2": tar_of({**RECORDS, **NO_RECORDS}, "w:bz2"),
        "archives/fox.7z": make_7z({**RECORDS, **NO_RECORDS}),
        "archives/pro2000+.zip": zip_of({"pro2000+.txt": SGF + SGF}),
        "tygem/Kifu.index": TYGEM_INDEX,
        "tygem/2016-07": TYGEM_LINES,
        "tom/Kifu.index": TOM_INDEX,
        "tom/2003-09": TOM_LINES,
    }
    for name, data in files.items():
        put(folder / name, data)
