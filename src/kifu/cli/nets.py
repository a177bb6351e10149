"""The command that tells of the networks."""

from __future__ import annotations

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
    from kifu.config import parse_board
    from kifu.learn.nets.registry import NETS, RESIDUAL
    from kifu.learn.nets.summary import net_card, net_line

    width, height = parse_board(board)
    if name is not None:
        print_markdown(net_card(name, planes, width, height))
        return
    print_list((each, net_line(each, planes, width, height)) for each in [*NETS, RESIDUAL])
