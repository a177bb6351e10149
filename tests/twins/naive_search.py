"""Pattern search by looking at every position of a game, one point after another."""

from kifu.errors import DropReason
from kifu.point import BLACK, ERASE_BIT, POINT_MASK, WHITE_BIT
from naive import NaiveBoard


def point_of(game, word):
    """(x, y) of a move or setup entry, None for a pass, a point outside if it is off the board."""
    number = word & POINT_MASK
    return None if number == game.width * game.height else (number % game.width, number // game.width)


def stones_before(game):
    """The board [height][width] before each move and after the last one, up to the first illegal move."""
    board, boards, at = NaiveBoard(game.width, game.height), [], 0
    for ply in range(len(game.moves) + 1):
        while at < len(game.setup) and game.setup[at][0] <= ply:
            word = game.setup[at][1]
            board.set_up({point_of(game, word): 0 if word & ERASE_BIT else 2 if word & WHITE_BIT else 1})
            at += 1
        boards.append([[board.stones.get((x, y), 0) for x in range(game.width)] for y in range(game.height)])
        if ply < len(game.moves):
            point, colour = point_of(game, game.moves[ply]), 2 if game.moves[ply] & WHITE_BIT else 1
            if (point and point[1] >= game.height) or board.why_not(point, colour) != DropReason.KEPT:
                break
            board.play(point, colour)
    return boards


def turned(x, y, k, width, height):
    x, y = (width - 1 - x if k & 1 else x), (height - 1 - y if k & 2 else y)
    return (y, x) if k & 4 else (x, y)


def swapped(cell):
    return (cell & 1) + (2 if cell & 4 else 0) + (4 if cell & 2 else 0)


class NaiveImage:
    """A pattern as it looks on the board under a symmetry."""

    def __init__(self, pattern, k, exchanged, width, height):
        self.pattern, self.k, self.exchanged = pattern, k, exchanged
        self.width, self.height = (pattern.height, pattern.width) if k & 4 else (pattern.width, pattern.height)
        points = [(x, y) for y in range(pattern.height) for x in range(pattern.width)]
        self.image_of = {point: turned(*point, k, pattern.width, pattern.height) for point in points}
        self.cells = {
            self.image_of[x, y]: swapped(cell) if exchanged else cell
            for (x, y), cell in zip(points, pattern.cells)
        }  # fmt: skip
        self.moves = [(self.image_of[x, y], 3 - c if exchanged else c) for x, y, c in pattern.moves]
        self.places = self.find_places(width, height)

    def find_places(self, width, height):
        """Where the upper left cell may lie: the images of the rectangles that the window of the pattern allows."""
        across, down = (height, width) if self.k & 4 else (width, height)
        window = self.pattern.window(across, down)
        places = set()
        for left in range(window.left, window.right + 1):
            for top in range(window.top, window.bottom + 1):
                corners = [(left, top), (left + self.pattern.width - 1, top + self.pattern.height - 1)]
                images = [turned(*corner, self.k, across, down) for corner in corners]
                places.add((min(x for x, _ in images), min(y for _, y in images)))
        return places

    def key(self):
        return self.width, self.height, sorted(self.cells.items()), self.moves, sorted(self.places)


def all_images(pattern, width, height):
    for exchanged in (False, True) if pattern.both_colours else (False,):
        for k in range(8):
            yield NaiveImage(pattern, k, exchanged, width, height)


def merge(pattern, same, x, y, colour):
    """The representative of a continuation among those that symmetries of the pattern map to each other."""
    options = [
        (*turned(x, y, k, pattern.width, pattern.height), 3 - colour if exchanged else colour) for k, exchanged in same
    ]
    return min(options, key=lambda option: (option[2] != (pattern.next_colour or BLACK), -option[0], option[1]))


def find(game, pattern):
    """All hits in a game, sorted: (ply, symmetry, exchanged, x, y, next_ply, next_x, next_y, next_colour)."""
    boards = stones_before(game)
    images = list(all_images(pattern, game.width, game.height))
    same = [(image.k, image.exchanged) for image in images if image.key() == images[0].key()]
    hits, seen = [], []
    for order, image in enumerate(images):
        if image.key() in seen:
            continue
        seen.append(image.key())
        for place in image.places:
            hit = find_at(game, boards, image, same, *place)
            if hit:
                hits.append((hit[0], order, place[1], place[0], hit))
    return [hit for *_, hit in sorted(hits)]


def find_at(game, boards, image, same, x0, y0):
    pattern = image.pattern

    def matches(stones):
        return all(cell >> stones[y0 + y][x0 + x] & 1 for (x, y), cell in image.cells.items())

    limit = len(boards) if pattern.last_ply is None else pattern.last_ply + 1
    ply = next((t for t, stones in enumerate(boards[:limit]) if matches(stones)), None)
    if ply is None:
        return None

    def inside(start):
        for t in range(start, len(boards) - 1):
            point = game.moves[t] & POINT_MASK
            cell = (point % game.width - x0, point // game.width - y0)
            if point < game.width * game.height and cell in image.cells:
                return t, cell, 2 if game.moves[t] & WHITE_BIT else 1
        return None

    for i, (cell, colour) in enumerate(image.moves):
        move = inside(ply)
        if move is None or move[1:] != (cell, colour) or (pattern.consecutive and i and move[0] != ply):
            return None
        ply = move[0] + 1
    move = inside(ply)
    if move and pattern.consecutive and move[0] != ply:
        move = None
    head = (ply, image.k, image.exchanged, x0, y0)
    if move is None:
        return None if pattern.next_colour else (*head, -1, 0, 0, 0)
    t, cell, colour = move
    x, y = next(point for point, at in image.image_of.items() if at == cell)
    merged = merge(pattern, same, x, y, 3 - colour if image.exchanged else colour)
    if pattern.next_colour:
        reverses = any(exchanged for _, exchanged in same)
        if (not reverses and pattern.actual_colour and colour != pattern.next_colour) or (
            (reverses or not pattern.actual_colour) and merged[2] != pattern.next_colour
        ):
            return None
    return (*head, t, *merged)
