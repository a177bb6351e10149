"""Pictures, read back from their SVG: what is drawn, in which colour, on which point."""

import re
import subprocess
import sys
import xml.etree.ElementTree as ET

import matplotlib
import numpy as np
import pytest

from kifu.errors import GameError, OutputError
from kifu.viz import boards as draw
from kifu.viz.boards import BLACK_STONE, WHITE_STONE, CountedMove, draw_board, draw_counts, draw_planes, save, to_svg


class Picture:
    """An SVG of boards of one size, taken apart; places are (panel, x, y) with y = 0 the top row."""

    def __init__(self, figure, width, height):
        self.root = ET.fromstring(to_svg(figure))
        self.width, self.height = width, height
        grids = [self._lines(g) for g in self.root.iter() if g.get("id", "").startswith("LineCollection")]
        self.grids = [(min(xs), min(ys)) for xs, ys in grids]
        xs, ys = grids[0]
        self.cell = (max(xs) - min(xs)) / (width - 1) if width > 1 else (max(ys) - min(ys)) / (height - 1)

    def _lines(self, group):
        numbers = [pair for path in group for pair in self._points(path)]
        return [x for x, _ in numbers], [y for _, y in numbers]

    @staticmethod
    def _points(path):
        numbers = [float(n) for n in re.findall(r"-?[\d.]+", path.get("d"))]
        return list(zip(numbers[::2], numbers[1::2]))

    def place(self, x, y):
        for panel, (left, top) in enumerate(self.grids):
            column, row = round((x - left) / self.cell), round((y - top) / self.cell)
            if -1 <= column <= self.width and -1 <= row <= self.height:
                return panel, column, row
        raise AssertionError(f"{x}, {y} is on no board")

    def discs(self, fill):
        """Where circles of that colour are; the shadows of stones, which are translucent, do not count."""
        return {
            self.place(float(use.get("x")), float(use.get("y")))
            for use in self.root.iter("{http://www.w3.org/2000/svg}use")
            if f"fill: {fill}" in use.get("style") and "opacity" not in use.get("style")
        }

    def paths(self, wanted):
        """{place of the middle: style} of the shapes whose style holds `wanted`."""
        found = {}
        for path in self.root.iter("{http://www.w3.org/2000/svg}path"):
            if wanted in path.get("style", ""):
                xs, ys = zip(*self._points(path))
                found[self.place((min(xs) + max(xs)) / 2, (min(ys) + max(ys)) / 2)] = path.get("style")
        return found

    def texts(self):
        return [
            (t.text, float(t.get("x")), float(t.get("y"))) for t in self.root.iter("{http://www.w3.org/2000/svg}text")
        ]


def some_board(height, width, seed=0):
    return np.random.default_rng(seed).integers(0, 3, (height, width)).astype(np.uint8)


def points_of(board, colour):
    return {(0, int(x), int(y)) for y, x in np.argwhere(board == colour)}


@pytest.mark.parametrize(("height", "width"), [(19, 19), (9, 9), (13, 13), (5, 7), (7, 5), (25, 25), (1, 25), (3, 1)])
def test_stones_lie_where_they_belong(height, width):
    board = some_board(height, width)
    picture = Picture(draw_board(board), width, height)
    assert picture.discs(draw.BLACK_STONE) == points_of(board, 1)
    assert picture.discs(draw.WHITE_STONE) == points_of(board, 2)


def test_coordinates():
    picture = Picture(draw_board(np.zeros((11, 9), np.uint8)), 9, 11)
    places = {}
    for text, x, y in picture.texts():
        places.setdefault(text, []).append(picture.place(x, y - 2))  # y is the foot of the letters
    assert set(places) == {*"ABCDEFGHJ", *map(str, range(1, 12))}
    assert sorted(places["A"]) == [(0, 0, -1), (0, 0, 11)]
    assert sorted(places["J"]) == [(0, 8, -1), (0, 8, 11)]
    assert sorted(places["1"]) == [(0, -1, 10), (0, 9, 10)]
    assert sorted(places["11"]) == [(0, -1, 0), (0, 9, 0)]
    assert Picture(draw_board(np.zeros((11, 9)), coordinates=False), 9, 11).texts() == []


def test_the_move_played_next_and_the_last_one():
    board = np.zeros((9, 9), np.uint8)
    board[1, 2], board[4, 4] = 1, 2
    picture = Picture(draw_board(board, last=1 * 9 + 2, ring=7 * 9 + 3), 9, 9)
    assert set(picture.paths(f"stroke: {draw.RING}")) == {(0, 3, 7)}
    assert set(picture.paths(f"fill: none; stroke: {draw.WHITE_STONE}")) == {(0, 2, 1)}  # white, on a black stone
    picture = Picture(draw_board(board, last=4 * 9 + 4), 9, 9)
    assert set(picture.paths(f"fill: none; stroke: {draw.BLACK_STONE}")) == {(0, 4, 4)}


def test_passes_are_not_drawn():
    empty = np.zeros((9, 9), np.uint8)
    assert to_svg(draw_board(empty, last=81, ring=81, marks={81: "5"})) == to_svg(draw_board(empty))
    planes = np.zeros((1, 9, 9))
    assert to_svg(draw_planes(planes, ["a"], label=81)) == to_svg(draw_planes(planes, ["a"]))


def test_marks():
    board = np.zeros((9, 9), np.uint8)
    board[0, 1] = 1
    figure = draw_board(board, marks={1: "123", 80: "A"}, last=1, coordinates=False)
    picture = Picture(figure, 9, 9)
    assert [(text, picture.place(x, y - 3)) for text, x, y in picture.texts()] == [("123", (0, 1, 0)), ("A", (0, 8, 8))]
    # The lines below a mark on an empty point are hidden; the board itself is round the middle.
    assert set(picture.paths(f"fill: {draw.WOOD}")) == {(0, 8, 8), (0, 4, 4)}
    assert not picture.paths(f"fill: none; stroke: {draw.WHITE_STONE}")  # the mark stands for the small circle


def opacity(style):
    found = re.search(r"fill-opacity: ([\d.]+)|[^-]opacity: ([\d.]+)", style)
    return float(found[1] or found[2]) if found else 1.0


def test_heat_is_relative_to_the_largest():
    heat = np.zeros((5, 5))
    heat[0, 1], heat[2, 3], heat[4, 4], heat[4, 0], heat[3, 3] = 0.2, 0.4, -1, np.nan, np.inf
    shapes = Picture(draw_board(np.zeros((5, 5)), heat=heat), 5, 5).paths(f"fill: {draw.HEAT}")
    assert {place: opacity(style) for place, style in shapes.items()} == {(0, 1, 0): 0.425, (0, 3, 2): 0.85}


@pytest.mark.parametrize(("origin", "top_row"), [("top", 0), ("bottom", 4)])
def test_planes(origin, top_row):
    """One set point in the corner of the first row, and the label beside it."""
    planes = np.zeros((3, 5, 4))
    planes[0, 0, 0], planes[1, 0, 0], planes[2, 0, 0] = 1, 0.5, -1
    picture = Picture(draw_planes(planes, ["own", "pale", "below"], label=1, origin=origin), 4, 5)
    plus = picture.paths(f"fill: {draw.PLUS}")
    assert {place: opacity(style) for place, style in plus.items()} == {(0, 0, top_row): 1, (1, 0, top_row): 0.5}
    assert set(picture.paths(f"fill: {draw.MINUS}")) == {(2, 0, top_row)}
    assert set(picture.paths(f"stroke: {draw.RING}")) == {(k, 1, top_row) for k in range(3)}
    assert [text for text, _, _ in picture.texts()] == ["0  own", "1  pale", "2  below"]


@pytest.mark.parametrize(("count", "columns"), [(1, 1), (3, 3), (7, 4), (8, 4), (17, 6), (48, 9)])
def test_rows_of_planes(count, columns):
    picture = Picture(draw_planes(np.zeros((count, 9, 9)), ["x"] * count), 9, 9)
    assert len(picture.grids) == count
    assert len({x for x, _ in picture.grids}) == columns
    assert len({y for _, y in picture.grids}) == -(-count // columns)


NASTY = "柯洁 <b>&amp; $x_1$ \\frac\x00\x1b[31m\udc80"


def test_titles_may_contain_any_text(tmp_path):
    figure = draw_board(np.zeros((19, 19)), title=NASTY + "\nsecond", coordinates=False)
    picture = Picture(figure, 19, 19)
    assert [text for text, _, _ in picture.texts()] == ["second", "柯洁 <b>&amp; $x_1$ \\frac\\x00\\x1b[31m\\udc80"]
    save(figure, tmp_path / "a.png")


@pytest.mark.parametrize(("letter", "least", "most"), [("x", 45, 60), ("W", 25, 35), ("棋", 25, 35), ("i", 60, 90)])
def test_long_titles_are_truncated(letter, least, most):
    def drawn(title):
        ((text, _, _),) = Picture(draw_board(np.zeros((9, 9)), title=title, coordinates=False), 9, 9).texts()
        return text

    assert drawn(letter * least) == letter * least
    cut = drawn(letter * 500)
    assert least < len(cut) < most
    assert cut == letter * (len(cut) - 1) + "…"


def test_bytes_are_reproducible_regardless_of_matplotlibrc(tmp_path):
    def pictures():
        figure = draw_board(some_board(9, 9), title="title", ring=5, heat=np.ones((9, 9)))
        save(figure, tmp_path / "a.png")
        return to_svg(figure), (tmp_path / "a.png").read_bytes()

    before = pictures()
    with matplotlib.rc_context({"svg.fonttype": "path", "font.size": 30, "axes.facecolor": "red", "savefig.dpi": 10}):
        assert pictures() == before
    assert "date" not in before[0]
    assert b"Software" not in before[1]


def test_save(tmp_path):
    figure = draw_board(some_board(9, 9))
    for name, first in (("a.svg", b"<svg "), ("b.PNG", b"\x89PNG"), ("new/c.svg", b"<svg ")):
        save(figure, tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(first)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.svg", "b.PNG", "new"]
    with pytest.raises(OutputError, match=r"the suffix must be .png or .svg, got '.jpg'"):
        save(figure, tmp_path / "a.jpg")
    (tmp_path / "file").touch()
    with pytest.raises(OutputError):
        save(figure, tmp_path / "file/a.svg")


EMPTY = np.zeros((9, 9))

BAD = {
    "three axes": (
        lambda: draw_board(np.zeros((1, 9, 9))),
        "colours must be [height, width] of 0, 1 and 2, got shape (1, 9, 9)",
    ),
    "colour 3": (lambda: draw_board([[3]]), "of 0, 1 and 2"),
    "size 0": (lambda: draw_board(np.zeros((0, 3))), "board size 3 x 0 is not within 1 to 25"),
    "size 26": (lambda: draw_board(np.zeros((26, 3))), "board size 3 x 26"),
    "last": (lambda: draw_board(EMPTY, last=82), "move 82 is not within 0 to 81"),
    "ring": (lambda: draw_board(EMPTY, ring=-1), "move -1 "),
    "mark": (lambda: draw_board(EMPTY, marks={99: "1"}), "move 99 "),
    "heat": (lambda: draw_board(EMPTY, heat=np.zeros(81)), "heat must have the board's shape (9, 9), got (81,)"),
    "names": (lambda: draw_planes(np.zeros((2, 9, 9)), ["a"]), "got shape (2, 9, 9) and 1 names"),
    "no planes": (lambda: draw_planes(np.zeros((0, 9, 9)), []), "got shape (0, 9, 9) and 0 names"),
    "label": (lambda: draw_planes(np.zeros((1, 9, 9)), ["a"], label=82), "move 82 "),
    "origin": (
        lambda: draw_planes(np.zeros((1, 9, 9)), ["a"], origin="left"),
        "origin must be 'top' or 'bottom', got 'left'",
    ),
}


@pytest.mark.parametrize(("call", "message"), BAD.values(), ids=list(BAD))
def test_invalid_arguments(call, message):
    with pytest.raises(GameError, match=re.escape(message)):
        call()


@pytest.mark.subprocess
def test_matplotlib_is_loaded_late_and_pyplot_never():
    code = (
        "import sys, kifu.viz.boards as d\n"
        "assert 'matplotlib' not in sys.modules\n"
        "d.to_svg(d.draw_board([[0]]))\n"
        "assert 'matplotlib' in sys.modules and 'matplotlib.pyplot' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


ONES = np.ones((9, 9), int)
SVG_PATH = "{http://www.w3.org/2000/svg}path"
MOVES = [
    CountedMove("C7", 2 * 9 + 2, 1, 1234, 0.5, 0.512),
    CountedMove("C7", 2 * 9 + 2, 2, 411, 0.2, None),
    CountedMove("J1", 80, 2, 9, 0.004, 0.0),
    CountedMove("pass", None, 1, 7, 0.003, 1.0),
]


def texts(figure) -> list[str]:
    return [t.text for t in ET.fromstring(to_svg(figure)).iter("{http://www.w3.org/2000/svg}text")]


def test_each_point_has_the_count_of_both_colours() -> None:
    picture = Picture(draw_counts(ONES, MOVES), 9, 9)
    shown = [(text, x, y) for text, x, y in picture.texts() if text in ("1.6k", "9")]
    board = {(text, picture.place(x, y - 3)) for text, x, y in shown if x < picture.grids[0][0] + 8.5 * picture.cell}
    assert board >= {("1.6k", (0, 2, 2)), ("9", (0, 8, 8))}


def test_stones_cells_and_numbers() -> None:
    cells = ONES.copy()
    cells[0, 0], cells[1, 1], cells[2, 2], cells[3, 3] = 2, 4, 7, 3
    picture = Picture(draw_counts(cells, [], numbers={4: ("1", 2), 5: ("2", 1)}), 9, 9)
    assert picture.discs(BLACK_STONE) == {(0, 0, 0), (0, 5, 0), (0, 3, 3)}
    assert picture.discs(WHITE_STONE) == {(0, 1, 1), (0, 4, 0)}
    assert set(picture.paths("fill: #b9b2a6")) == {(0, 2, 2)}


def test_the_ring_is_as_white_as_the_moves() -> None:
    arcs = Picture(draw_counts(ONES, MOVES), 9, 9)
    white = [p for p in arcs.root.iter(SVG_PATH) if f"fill: {WHITE_STONE}" in p.get("style", "") and p.get("d")]
    lengths = [len(re.findall("C", path.get("d"))) for path in white]
    assert len(white) == 2
    assert lengths[0] < lengths[1]  # 411 of 1,645 moves and 9 of 9


def test_the_legend_lists_the_moves() -> None:
    shown = texts(draw_counts(ONES, MOVES))
    start = shown.index("next")
    assert shown[start : start + 18] == [
        "next", "times", "share", "wins",
        "C7", "1,234", "50.0%", "51%",
        "C7", "411", "20.0%",
        "J1", "9", "0.4%", "0%",
        "pass", "7", "0.3%",
    ]  # fmt: skip


def test_a_long_legend_ends_with_the_rest() -> None:
    moves = [CountedMove("x", point, 1, 10, 0.01, None) for point in range(81)]
    figure = draw_counts(ONES, moves)
    shown = texts(figure)
    listed = shown.count("x")
    assert 10 < listed < 81
    assert shown[-3:] == [f"{81 - listed} others", f"{10 * (81 - listed):,}", f"{(81 - listed) / 100:.1%}"]


def test_the_legend_beside_a_small_part_has_room() -> None:
    moves = [CountedMove("x", 0, 1, 10, 0.01, None)] * 11 + [CountedMove("none", None, 0, 10, 0.01, None)]
    assert texts(draw_counts([[1]], moves, edges=(False,) * 4)).count("x") == 11
    shown = texts(draw_counts([[1]], moves * 3, edges=(False,) * 4))
    assert shown.count("none") == 3
    assert "23 others" in shown


def test_lines_continue_beyond_sides_that_are_no_edges() -> None:
    def extent(edges):
        picture = Picture(draw_counts(np.ones((3, 4), int), [], edges=edges), 4, 3)
        (group, *_) = (g for g in picture.root.iter() if g.get("id", "").startswith("LineCollection"))
        xs, ys = picture._lines(group)
        return min(xs), min(ys), max(xs), max(ys)

    board = extent((True, True, True, True))
    for side in range(4):
        opened = extent(tuple(k != side for k in range(4)))
        moved = [abs(a - b) > 1 for a, b in zip(board, opened)]
        assert moved == [k == side for k in range(4)]


@pytest.mark.parametrize("shape", [(1, 1), (25, 25), (1, 25), (19, 19)])
def test_any_size_and_no_moves(shape: tuple[int, int]) -> None:
    assert "next" in texts(draw_counts(np.ones(shape, int), [], title="0 hits"))


def test_coordinates_are_those_of_the_board_or_numbers() -> None:
    assert "A" in texts(draw_counts(ONES, []))
    parts = texts(draw_counts(ONES, [], edges=(True, True, False, False)))
    assert "A" not in parts
    assert parts.count("9") == 4


def test_bytes_are_reproducible() -> None:
    assert to_svg(draw_counts(ONES, MOVES, title="a")) == to_svg(draw_counts(ONES, MOVES, title="a"))


@pytest.mark.parametrize(
    ("cells", "point", "message"),
    [
        ([[0]], None, "cells must be [height, width] of 1 to 7, got shape (1, 1)"),
        ([1], None, "cells must be [height, width] of 1 to 7, got shape (1,)"),
        ([[8]], None, "of 1 to 7"),
        (np.ones((26, 1), int), None, "board size 1 x 26"),
        ([[1]], 1, "point 1 is not within 0 to 0"),
        ([[1]], -1, "point -1 is not within 0 to 0"),
    ],
)
def test_invalid_counts(cells, point, message: str) -> None:
    with pytest.raises(GameError, match=re.escape(message)):
        draw_counts(cells, [CountedMove("x", point, 1, 1, 1.0, None)])
