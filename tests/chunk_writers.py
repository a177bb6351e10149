"""Positions of games as training chunks of Leela Zero and minigo, written from naive boards, and checks of both."""

import gzip
import random
import struct
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import kifu
from kifu.datasets.chunks import Chunks
from kifu.errors import DropReason
from kifu.point import BLACK, POINT_MASK, WHITE, WHITE_BIT
from naive import FORBIDDEN, NaiveBoard

IN_ORDER = kifu.LoaderConfig(shuffle=None, augment=False)

Stones = Mapping[tuple[int, int], int]


class Position(NamedTuple):
    """A position of a game.

    Attributes:
        size: Side of the board.
        boards: The stones by (x, y) now, and before the last 1 to 7 moves; None before the game.
        to_play: BLACK or WHITE.
        policy: By point from the upper left, row by row; the last one is a pass.
        winner: 1 for Black, -1 for White, 0 for a draw.
        played: The point that is played next.
    """

    size: int
    boards: Sequence[Stones | None]
    to_play: int
    policy: Sequence[float]
    winner: int
    played: int


def random_game(draw: random.Random, size: int, plies: int, winner: int = 1, one_hot: bool = False) -> list[Position]:
    """Return the positions before each move of a random legal game."""
    board, history, game = NaiveBoard(size, size, suicide=FORBIDDEN), [], []
    for ply in range(plies):
        colour = WHITE if ply % 2 else BLACK
        history.insert(0, dict(board.stones))
        tried = draw.choices(board.points(), k=20) if draw.random() < 0.95 else []
        point = next((each for each in tried if board.why_not(each, colour) == DropReason.KEPT), None)
        played = size * size if point is None else point[1] * size + point[0]
        policy = [0.0] * (size * size + 1)
        policy[played] = 1.0
        if not one_hot:
            for p in draw.sample(range(size * size + 1), min(5, size * size)):
                policy[p] += draw.random()
            policy = [round(share / sum(policy), 6) for share in policy]
        boards = [*history[:8], *[None] * (8 - len(history))]
        game.append(Position(size, boards, colour, policy, winner, played))
        board.play(point, colour)
    return game


def naive_planes(position: Position, own_first: bool) -> np.ndarray:
    """Return [16, y, x] uint8 from the upper left: the mover's boards and then the opponent's, or alternating."""
    planes = np.zeros((2, 8, position.size, position.size), np.uint8)
    for k, stones in enumerate(position.boards):
        for (x, y), colour in (stones or {}).items():
            planes[0 if colour == position.to_play else 1, k, y, x] = 1
    shape = (16, position.size, position.size)
    return planes.reshape(shape) if own_first else planes.transpose(1, 0, 2, 3).reshape(shape)


def lz_planes(position: Position) -> np.ndarray:
    """Return the 18 planes of lz18."""
    colours = [np.full((1, 19, 19), position.to_play == colour, np.uint8) for colour in (BLACK, WHITE)]
    return np.concatenate([naive_planes(position, True), *colours])


def from_bottom(policy: Sequence[float]) -> list[float]:
    """Return a policy of 19 x 19 whose points are counted from the lower left."""
    return [policy[(18 - y) * 19 + x] for y in range(19) for x in range(19)] + [policy[361]]


def lz_text(position: Position, policy: Iterable[object] | None = None) -> bytes:
    """Return a record of version 1. policy: numbers as text, if they are not those of the position."""
    lines = []
    for plane in naive_planes(position, True):
        bits = "".join(str(bit) for row in plane[::-1] for bit in row)
        lines.append("".join(f"{int(bits[k : k + 4], 2):x}" for k in range(0, 360, 4)) + bits[360])
    won = position.winner if position.to_play == BLACK else -position.winner
    numbers = [f"{share:g}" for share in from_bottom(position.policy)] if policy is None else map(str, policy)
    lines += [str(int(position.to_play == WHITE)), " ".join(numbers), str(won)]
    return "".join(f"{line}\n" for line in lines).encode()


def lz_binary(position: Position) -> bytes:
    """Return a record of version 2."""
    bits = np.concatenate([plane[::-1].reshape(-1) for plane in naive_planes(position, True)])
    won = (position.winner == 1) == (position.to_play == BLACK)
    data = struct.pack("<i362f", 1, *from_bottom(position.policy)) + np.packbits(bits).tobytes()
    return data + bytes([position.to_play == WHITE, won])


def minigo_planes(position: Position) -> np.ndarray:
    """Return the 17 planes of agz17-minigo: the oldest board is repeated."""
    oldest = [board for board in position.boards if board is not None][-1]
    boards = [oldest if board is None else board for board in position.boards]
    planes = naive_planes(position._replace(boards=boards), False)
    return np.concatenate([planes, np.full((1, *planes.shape[1:]), position.to_play == BLACK, np.uint8)])


def varint(number: int) -> bytes:
    """Return a number of a protocol buffer."""
    data = bytearray()
    while number > 127:
        data.append(number & 127 | 128)
        number >>= 7
    return bytes([*data, number])


def field(number: int, data: bytes) -> bytes:
    """Return a field with a length."""
    return varint(number << 3 | 2) + varint(len(data)) + data


def feature(name: bytes, kind: int, values: bytes) -> bytes:
    """Return an entry of an example. kind: 1 bytes, 2 floats, 3 integers. values: the encoded field 1."""
    return field(1, field(1, name) + field(2, field(kind, values)))


def minigo_features(position: Position) -> dict[str, bytes]:
    """Return the encoded features by name, in the order that minigo writes them."""
    x = minigo_planes(position).transpose(1, 2, 0).tobytes()
    pi = np.array(position.policy, "<f4").tobytes()
    return {
        "x": feature(b"x", 1, field(1, x)),
        "pi": feature(b"pi", 1, field(1, pi)),
        "outcome": feature(b"outcome", 2, field(1, struct.pack("<f", position.winner))),
    }


def crc32c(data: bytes) -> int:
    """Return the CRC-32C, bit by bit."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data: bytes) -> bytes:
    """Return the checksum of TFRecord."""
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8 & 0xFFFFFFFF).to_bytes(4, "little")


def tfrecord(data: bytes) -> bytes:
    """Return a record with both checksums."""
    length = len(data).to_bytes(8, "little")
    return length + masked(length) + data + masked(data)


def minigo_record(position: Position) -> bytes:
    """Return a position as minigo writes it."""
    return tfrecord(field(1, b"".join(minigo_features(position).values())))


def lz_chunk(positions: Iterable[Position], version: int = 1) -> bytes:
    """Return a chunk of Leela Zero."""
    return gzip.compress(b"".join(map(lz_text if version == 1 else lz_binary, positions)), 1)


def minigo_chunk(positions: Iterable[Position]) -> bytes:
    """Return a file of minigo."""
    return zlib.compress(b"".join(map(minigo_record, positions)), 1)


def best(position: Position) -> int:
    """Return the first point with the highest share."""
    return max(range(len(position.policy)), key=lambda p: (np.float32(position.policy[p]), -p))


def joined(games: Iterable[list[Position]]) -> list[Position]:
    """Return the positions of all games."""
    return [position for game in games for position in game]


def put(path: Path, data: bytes) -> Path:
    """Write a file."""
    path.write_bytes(data)
    return path


def points(game: kifu.Game) -> list[int]:
    """Return the moves without their colours."""
    return (game.moves & POINT_MASK).tolist()


def spelled(game: kifu.Game) -> list[str]:
    """Return moves as the references have them: "B pd"."""
    words = [(int(word) & POINT_MASK, bool(word & WHITE_BIT)) for word in game.moves]
    return [f"{'W' if white else 'B'} {to_text(point, game.width)}" for point, white in words]


def to_text(point: int, size: int) -> str:
    """Return a point as SGF has it, or "pass"."""
    y, x = divmod(point, size)
    return "pass" if point == size * size else chr(97 + x) + chr(97 + y)


def check_rendered(data: Chunks, plane_set: str, folder: Path) -> None:
    """Require that the planes of each game are those that kifu renders from its moves."""
    size = data.layout.width
    for game, (start, stop) in zip(data.games(), data.game_rows.tolist(), strict=True):
        assert not game.errors
        path = put(folder / "a.sgf", kifu.write_sgf(game))
        loader = kifu.load(
            path, plane_set, labels=["move", "result"], board=f"{size}x{size}",
            filter=kifu.PositionFilter(passes=True), config=IN_ORDER,
        )  # fmt: skip
        batches = list(loader)
        stored = data.read(start, stop - 1)
        assert np.array_equal(np.concatenate([batch.planes for batch in batches]), stored.planes)
        assert np.array_equal(np.concatenate([batch.labels["result"] for batch in batches]), stored.labels["result"])
        assert np.concatenate([batch.labels["move"] for batch in batches]).tolist() == points(game)


def check_rows(data: Chunks, positions: list[Position], planes: Callable[[Position], npt.NDArray[Any]]) -> None:
    """Compare all rows with naive ones; planes: of a position."""
    assert len(data) == len(positions)
    batch = data.read(0, len(data))
    assert np.array_equal(batch.unpack_planes(data.layout), np.stack(list(map(planes, positions))))
    assert np.array_equal(batch.labels["policy"], np.array([position.policy for position in positions], np.float32))
    assert batch.labels["move"].tolist() == list(map(best, positions))
    results = [position.winner if position.to_play == 1 else -position.winner for position in positions]
    assert batch.labels["result"].tolist() == results
