"""Ladders as docs/ladders.md defines them, by recursion over copies of a plain board. Only the depth bounds it."""

from naive import FORBIDDEN, NaiveBoard


def after(board, point, colour):
    """The board after a move; None if it is suicide or a point that simple ko forbids, whomever it forbids it."""
    if point == board.ko_point or board.result(point, colour)[2]:
        return None
    child = NaiveBoard(board.width, board.height, "simple", FORBIDDEN)
    child.stones = board.stones
    child.play(point, colour)
    return child


def without_ko(board):
    child = NaiveBoard(board.width, board.height, "simple", FORBIDDEN)
    child.stones = board.stones
    return child


def liberties(board, stone):
    return board.chain(stone, board.stones)[1]


def takes(board, stone):
    """Where the chain of the stone takes a chain beside it."""
    colour = board.stones[stone]
    points = set()
    for own in board.chain(stone, board.stones)[0]:
        for near in board.beside(own):
            if board.stones.get(near) == 3 - colour and len(liberties(board, near)) == 1:
                points |= liberties(board, near)
    return points


def is_mouth(board, point, colour):
    """Return whether only stones of `colour` surround the point and an attacker there would capture exactly one."""
    if any(board.stones.get(near) != colour for near in board.beside(point)):
        return False
    return len(board.result(point, 3 - colour)[1]) == 1


def in_double_ko(board, stone):
    """Return whether an attacked chain of two liberties can only fill one of two kos while losing the other."""
    colour, points = board.stones[stone], liberties(board, stone)
    for point in points:
        if not is_mouth(board, point, colour):
            return False
        if len(board.chain(stone, board.result(point, colour)[0])[1]) > 2:
            return False
    return not takes(board, stone)


def caught_if_attacked(board, stone):
    points = liberties(board, stone)
    if len(points) != 2:
        return len(points) < 2
    if in_double_ko(board, stone):
        return True
    children = [after(board, point, 3 - board.stones[stone]) for point in points]
    return any(child and child.ko_point is None and caught_if_defended(child, stone) for child in children)


def caught_if_defended(board, stone):
    points = liberties(board, stone)
    if len(points) >= 2:
        return False
    children = [after(without_ko(board), point, board.stones[stone]) for point in points | takes(board, stone)]
    return not any(child and not caught_if_attacked(child, stone) for child in children)


def working(board, stone):
    """The first moves that catch the chain of that stone, if it has two liberties; that save it, if it has one."""
    colour, points = board.stones[stone], liberties(board, stone)
    works = set()
    if len(points) == 2:
        for point in points:
            child = after(board, point, 3 - colour)
            if child and caught_if_defended(child, stone):
                works.add(point)
    if len(points) == 1:
        for point in points | takes(board, stone):
            child = after(without_ko(board), point, colour)
            if child and not caught_if_attacked(child, stone):
                works.add(point)
    return works


def ladders(board, mover):
    """(captures, escapes, laddered): where `mover` catches, where he saves, and which stones are caught."""
    captures, escapes, laddered = set(), set(), set()
    for colour, stones, points in board.chains():
        if len(points) in (1, 2):
            works = working(board, min(stones))
            if bool(works) == (len(points) == 2):
                laddered |= stones
            if len(points) == 2 and colour != mover:
                captures |= works
            if len(points) == 1 and colour == mover:
                escapes |= works
    if board.ko_player == mover:
        escapes.discard(board.ko_point)
    return captures, escapes, laddered
