"""Where handicap stones stand, as the GTP specification has it (4.1.1, Fixed Handicap Placement)."""

from __future__ import annotations


def most_handicap(width: int, height: int) -> int:
    """How many stones have a fixed place on a board of that size: none on the smallest, 4 or 9 on others."""
    if min(width, height) < 7:
        return 0
    return 9 if width % 2 and height % 2 and min(width, height) >= 9 else 4


def fixed_handicap(stones: int, width: int, height: int) -> list[int]:
    """The points of 2 to `most_handicap` stones.

    Two are in opposite corners, three leave out the lower right one; from five on an odd stone is in the middle; six
    have the sides left and right too, eight also the ones above and below.
    """

    def lines(size: int) -> tuple[int, int, int]:
        edge = 2 if size < 13 else 3
        return edge, size // 2, size - 1 - edge

    (left, middle_x, right), (top, middle_y, bottom) = lines(width), lines(height)
    places = [(left, bottom), (right, top), (left, top), (right, bottom)]
    places += [(left, middle_y), (right, middle_y), (middle_x, bottom), (middle_x, top)]
    if stones >= 5 and stones % 2:
        places.insert(stones - 1, (middle_x, middle_y))
    return [y * width + x for x, y in places[:stones]]
