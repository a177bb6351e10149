"""Games as flat arrays, from lists of moves or from SGF text read by a minimal parser."""

import re
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from kifu.point import ERASE_BIT, WHITE_BIT, parse_sgf


class Flat(NamedTuple):
    """Return the arrays that `kifu.go.replay` requires."""

    width: np.ndarray
    height: np.ndarray
    moves: np.ndarray
    move_offset: np.ndarray
    setup: np.ndarray
    setup_ply: np.ndarray
    setup_offset: np.ndarray


class OneGame(NamedTuple):
    width: int
    height: int
    moves: list[int]  # point | WHITE_BIT
    setup: tuple[tuple[int, int], ...] = ()  # (ply, point | bits)


def flat(games: Iterable[OneGame]) -> Flat:
    games = list(games)
    offset = lambda counts: np.cumsum([0, *counts], dtype=np.int64)  # noqa: E731
    setup = [entry for game in games for entry in game.setup]
    return Flat(
        np.array([game.width for game in games], np.uint8),
        np.array([game.height for game in games], np.uint8),
        np.array([move for game in games for move in game.moves], np.uint16),
        offset(len(game.moves) for game in games),
        np.array([word for _, word in setup], np.uint16),
        np.array([ply for ply, _ in setup], np.uint16),
        offset(len(game.setup) for game in games),
    )


BITS = {b"B": 0, b"W": WHITE_BIT, b"AB": 0, b"AW": WHITE_BIT, b"AE": ERASE_BIT}


def read_sgf(data: bytes) -> OneGame:
    """Parse a 19 x 19 game whose variations, if any, begin after the main line. Setup stones are single points."""
    moves, setup = [], []
    data = re.sub(rb"C\[(\\.|[^\\\]])*\]", b"", data, flags=re.DOTALL)  # comments may look like moves
    for name, values in re.findall(rb"\b(B|W|AB|AW|AE)((?:\[[a-t]{0,2}\]\s*)+)", data.partition(b")")[0]):
        for value in re.findall(rb"\[(.*?)\]", values):
            word = parse_sgf(value.decode(), 19) | BITS[name]
            if len(name) == 1:
                moves.append(word)
            else:
                setup.append((len(moves), word))
    return OneGame(19, 19, moves, tuple(setup))


def read_archive(path: Path, every: int = 1) -> list[OneGame]:
    """Return every `every`-th game of a .tar.gz."""
    with tarfile.open(path) as archive:
        members = [member for member in archive if member.isfile()][::every]
        return [read_sgf(archive.extractfile(member).read()) for member in members]
