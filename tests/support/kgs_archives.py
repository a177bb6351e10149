"""Small archives with the names and the layout of those of KGS, and records to put in them."""

import io
import random
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
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
    path = folder / f"KGS-{year}-19-{len(games) if listed is None else listed}-.{kind}"
    inside = f"kgs-19-{year}"
    members = {inside + "/": b""} | {f"{inside}/{k:05}.sgf": data for k, data in enumerate(games)}
    return put(path, zip_of(members) if kind == "zip" else tar_of(members, kind.replace("tar.", "w:")))


def members(path):
    with tarfile.open(path) as file:
        return [file.extractfile(entry).read() for entry in file if entry.isfile()]


Members = Mapping[str, bytes] | Sequence[bytes]
"""Content by name, where a name that ends in / is a folder; or records, which are numbered."""


def _named(members: Members) -> Mapping[str, bytes]:
    return members if isinstance(members, Mapping) else {f"{k:05}.sgf": data for k, data in enumerate(members)}


def zip_of(members: Members, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in _named(members).items():
            archive.writestr(zipfile.ZipInfo(name), data, method, compresslevel=1)
    return file.getvalue()


def tar_of(members: Members, mode: str = "w") -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode=mode) as archive:
        for name, data in _named(members).items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.type = len(data), tarfile.DIRTYPE if name.endswith("/") else tarfile.REGTYPE
            archive.addfile(entry, io.BytesIO(data))
    return file.getvalue()


def put(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def zipped(path: Path, members: Members) -> Path:
    return put(path, zip_of(members))


def tarred(path: Path, members: Members) -> Path:
    return put(path, tar_of(members, "w:gz" if path.name.endswith("gz") else "w"))
