"""A slow reference for `position@1`, after the docstring of `kifu.corpus.positions`, with Python integers."""

from kifu.errors import DropReason
from kifu.go.state import zobrist_keys
from kifu.point import BLACK, ERASE_BIT, POINT_MASK, WHITE, WHITE_BIT
from naive import NaiveBoard
from naive_hashes import turned


def position_hash(width, height, own, other):
    """Return the hash of a position. own, other: the points with stones of the side to move and of the other side."""
    keys = zobrist_keys(width * height).tolist()
    hashes = []
    for k in range(8):
        size = (height, width) if k & 4 else (width, height)
        h = (256 * size[0] + size[1]) * 0x9E3779B97F4A7C15 % 2**64
        for side, points in enumerate((own, other)):
            for p in points:
                h ^= keys[side][turned(p, k, width, height)]
        hashes.append(h)
    return min(hashes)


def positions(game):
    """Return [(hash, stones)] before each move of a OneGame, up to the first impossible one."""
    n = game.width * game.height
    board = NaiveBoard(game.width, game.height)
    hashes, setup = [], list(game.setup)
    for ply, word in enumerate(game.moves):
        due = []
        while setup and setup[0][0] <= ply:
            due.append(setup.pop(0)[1])
        if any(each & POINT_MASK >= n for each in due):
            break
        if due:
            colours = {e & POINT_MASK: 0 if e & ERASE_BIT else WHITE if e & WHITE_BIT else BLACK for e in due}
            board.set_up({(p % game.width, p // game.width): c for p, c in colours.items()})
        point, colour = word & POINT_MASK, WHITE if word & WHITE_BIT else BLACK
        at = (point % game.width, point // game.width) if point < n else None
        if point > n or board.why_not(at, colour) != DropReason.KEPT:
            break
        stones = {c: [y * game.width + x for (x, y), each in board.stones.items() if each == c] for c in (1, 2)}
        hashes.append((position_hash(game.width, game.height, stones[colour], stones[3 - colour]), len(board.stones)))
        board.play(at, colour)
    return hashes
