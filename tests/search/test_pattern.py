"""Tests of patterns and their images."""

from __future__ import annotations

import pytest

from kifu.errors import RecipeError
from kifu.search.pattern import Pattern, Rectangle


def test_windows_follow_the_symmetry() -> None:
    corner = Pattern(2, 1, (2, 1), "corner", both_colours=False)
    windows = {(image.width, image.height, image.cells, image.window) for image in corner.images(5, 4)}
    assert windows == {
        (2, 1, (2, 1), Rectangle(0, 0, 0, 0)), (2, 1, (1, 2), Rectangle(3, 3, 0, 0)),
        (2, 1, (2, 1), Rectangle(0, 0, 3, 3)), (2, 1, (1, 2), Rectangle(3, 3, 3, 3)),
        (1, 2, (2, 1), Rectangle(0, 0, 0, 0)), (1, 2, (2, 1), Rectangle(4, 4, 0, 0)),
        (1, 2, (1, 2), Rectangle(0, 0, 2, 2)), (1, 2, (1, 2), Rectangle(4, 4, 2, 2)),
    }  # fmt: skip


def test_symmetric_patterns_have_fewer_images() -> None:
    ponnuki = Pattern(3, 3, (1, 2, 1, 2, 1, 2, 1, 2, 1))
    assert len(ponnuki.images(19, 19)) == 2
    assert len(ponnuki.stabilizer(19, 19)) == 8
    crosscut = Pattern(2, 2, (2, 4, 4, 2))
    assert len(crosscut.images(19, 19)) == 2
    assert len([1 for _, exchanged in crosscut.stabilizer(19, 19) if exchanged]) == 4


def test_a_board_pattern_has_no_image_on_other_boards() -> None:
    assert Pattern(3, 3, (1,) * 9, "board").images(5, 5) == []


@pytest.mark.parametrize("cells", [(), (0,), (8,), (1, 1)])
def test_contradictory_patterns_are_rejected(cells: tuple[int, ...]) -> None:
    with pytest.raises(RecipeError):
        Pattern(1, 1, cells)


def test_a_board_pattern_has_its_symmetries_on_the_turned_board_too() -> None:
    empty = Pattern(6, 4, (1,) * 24, "board", both_colours=False)
    assert empty.stabilizer(6, 4) == empty.stabilizer(4, 6) == [(k, False) for k in range(4)]
