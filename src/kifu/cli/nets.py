"""The command that tells of the networks."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from kifu.cli.app import app, print_list, print_markdown


@app.command()
def nets(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Show this one's layers; also any bNcM, like b10c128.")
    ] = None,
    planes: Annotated[
        str | None, typer.Option(help="A plane set.", show_default="the one that the net's source feeds it with")
    ] = None,
    board: Annotated[str, typer.Option(metavar="WIDTHxHEIGHT", help="The board's size.")] = "19x19",
) -> None:
    """List the networks with their sizes, or show one's layers."""
    from kifu.learn.nets.card import net_card, net_line
    from kifu.learn.nets.registry import NETS, RESIDUAL

    width, height = _parse_board(board)
    if name is not None:
        print_markdown(net_card(name, planes, width, height))
        return
    print_list((each, net_line(each, planes, width, height)) for each in [*NETS, RESIDUAL])


def _parse_board(text: str) -> tuple[int, int]:
    from kifu.errors import RecipeError

    found = re.fullmatch(r"(\d{1,2})x(\d{1,2})", text, re.ASCII)
    if found is None:
        raise RecipeError(f"--board takes a width and a height, like 19x19, not {text!r}")
    return int(found[1]), int(found[2])
