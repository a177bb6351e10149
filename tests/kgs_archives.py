"""Small archives with the names and the layout of those of KGS, and records to put in them."""

import io
import random
import tarfile
import zipfile
from pathlib import Path

from kifu.point import to_sgf

BROKEN = {
    "BAD_HANDICAP": b"(;SZ[19]HA[1];B[dd];W[pp];B[pd])",
    "BAD_SIZE": b"(;SZ[19:19];B[dd];W[pp];B[pd])",
    "BAD_CHARSET": b"(;SZ[19]CA[no-such];B[dd];W[pp];B[pd])",
    "TRUNCATED": b"(;SZ[19];B[dd];W[pp];B[pd]",
    "OFF_BOARD": b"(;SZ[19];B[dd];W[PP];B[pd])",
    "OCCUPIED": b"(;SZ[19];B[dd];W[pp];B[pp];W[dp])",
    "SETUP_TWICE": b"(;SZ[19]HA[2]AB[dd][pp]AE[dd];W[pd];B[qq])",
    "WRONG_SIZE": b"(;SZ[9];B[dd];W[ee];B[cc])",
    "NO_RECORD": b"",
    "NOT_GO": b"(;GM[2]SZ[19];B[dd];W[pp];B[pd])",
}
"""A record for each reason why a game is dropped."""


def record(seed, plies=60, handicap=0):
    """A random game, in which no point is played twice; some of its moves are passes, some take stones."""
    rng = random.Random(seed)
    points = rng.sample(range(361), handicap + plies)
    text = f"(;GM[1]FF[4]SZ[19]PB[Black {seed}]"
    if handicap:
        text += f"HA[{handicap}]AB" + "".join(f"[{to_sgf(p, 19)}]" for p in points[:handicap])
    for ply, point in enumerate(points[handicap:]):
        text += f";{'BW'[(ply + bool(handicap)) % 2]}[{'' if rng.random() < 0.03 else to_sgf(point, 19)}]"
    return (text + ")").encode()


def records(count, seed=0, plies=60):
    """So many games, one in four with a handicap."""
    return [record(f"{seed}-{k}", plies, 2 + k % 8 if k % 4 == 3 else 0) for k in range(count)]


def archive(folder: Path, games, *, year=2001, kind="tar.gz", listed=None):
    """Write an archive of these records, after the entry of their folder. listed: the number of games in its name."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"KGS-{year}-19-{len(games) if listed is None else listed}-.{kind}"
    inside = f"kgs-19-{year}"
    names = [f"{inside}/{k:05}.sgf" for k in range(len(games))]
    if kind == "zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr(zipfile.ZipInfo(inside + "/"), b"")
            for name, data in zip(names, games):
                file.writestr(name, data)
        return path
    with tarfile.open(path, {"tar.gz": "w:gz", "tar.bz2": "w:bz2"}[kind]) as file:
        entry = tarfile.TarInfo(inside)
        entry.type = tarfile.DIRTYPE
        file.addfile(entry)
        for name, data in zip(names, games):
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            file.addfile(entry, io.BytesIO(data))
    return path


def members(path):
    """Every record of a .tar.gz of KGS, in order, but the entry of the folder."""
    with tarfile.open(path) as file:
        return [file.extractfile(entry).read() for entry in file if entry.isfile()]
