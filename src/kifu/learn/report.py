"""An evaluation as one HTML page that needs nothing but itself: figures, plots, and boards to look at."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import Environment, StrictUndefined

from kifu.assets import asset
from kifu.atomic_io import write_file
from kifu.learn.breakdown import BREAKDOWNS
from kifu.learn.evaluate import Evaluation
from kifu.learn.gallery import Example, Kind
from kifu.learn.plots import draw_breakdown, draw_calibration
from kifu.learn.scores import MEASURES
from kifu.learn.summary import TITLES, more, written
from kifu.viz.boards import draw_board, printable, to_svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_KINDS: dict[Kind, tuple[str, str]] = {
    "missed": ("Missed, and sure", "The net was surest here of a move that was not played; the surest first."),
    "wavering": ("Two maxima", "The move that was played is nearly as likely as another one."),
    "right": ("Right, and sure", "Some of the moves that the net was sure of, and that were played."),
}


def write_page(found: Evaluation, path: Path) -> None:
    """Writes the page, whole or not at all. Raises OutputError."""
    write_file(path, page(found).encode())


def page(found: Evaluation) -> str:
    """The page. All that comes from games and names of files is escaped; nothing on it is a script or a link."""
    # `finalize` sees all that is put in: what browsers and XML forbid becomes a blank
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        finalize=lambda value: printable(value) if type(value) is str else value,
    )  # fmt: skip
    template = environment.from_string(asset("evaluation.html").read_text("utf-8"))
    return template.render(
        found=found,
        measures=MEASURES,
        titles=TITLES,
        breakdowns={name: title for name, (title, _) in BREAKDOWNS.items()},
        plots=list(_plots(found)),
        gallery=[(*_KINDS[kind], [_card(each) for each in found.examples if each.kind == kind]) for kind in _KINDS],
        written=written,
        more=more,
        version=version("kifu"),
    )


def _plots(found: Evaluation) -> Iterator[tuple[str, str]]:
    """What each plot shows, and the plot."""
    for name, (title, _) in BREAKDOWNS.items():
        yield f"top-1 by {title}", _image(draw_breakdown(found, name, f"top-1 (%), by {title}"))
        if name == "move":
            yield "calibration", _image(draw_calibration(found))


def _card(example: Example) -> tuple[Example, str]:
    """An example and its board, with what the first net says of it."""
    height, width = example.stones.shape
    heat = example.answers[0].policy[: width * height].reshape(height, width)
    board = draw_board(example.stones, last=example.last, ring=example.played, heat=heat, coordinates=True)
    return example, _image(board)


def _image(figure: Figure) -> str:
    """A picture as an address that holds all of it."""
    return "data:image/svg+xml;base64," + base64.b64encode(to_svg(figure).encode()).decode()
