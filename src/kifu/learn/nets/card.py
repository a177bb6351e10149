"""What there is to tell of a network, for people."""

from __future__ import annotations

import inspect

from kifu.learn.nets.count import count_net
from kifu.learn.nets.registry import find_net


def net_line(name: str, planes: str | None = None, width: int = 19, height: int = 19) -> str:
    """One line: parameters, work, what it is, source. planes: a set's name, by default that of the net's source."""
    net = find_net(name)
    count = count_net(name, planes or net.planes, width, height)
    return f"{_short(count.parameters)} parameters, {_short(count.flops)} FLOPs; {net.title} ({net.source})"


def net_card(name: str, planes: str | None = None, width: int = 19, height: int = 19) -> str:
    """A page of Markdown: what the net is, and all layers that have weights.

    Raises RecipeError for names that there are not, GameError for a board size that the planes do not take.
    """
    net = find_net(name)
    count = count_net(name, planes or net.planes, width, height)
    rows = [
        f"| {each.name} | {each.kind} | {' x '.join(map(str, each.shape))} | {each.parameters:,} | {each.flops:,} |"
        for each in count.layers
    ]
    return "\n".join([
        f"# {name}", "", f"{net.title}. Source: {net.source}.", "", inspect.cleandoc(net.readings), "",
        f"On planes {planes or net.planes} of {width} x {height}, for one position:", "",
        "| layer | kind | gives | parameters | FLOPs |", "|---|---|---|---:|---:|", *rows,
        f"| all | | | {count.parameters:,} | {count.flops:,} |", "",
    ])  # fmt: skip


def _short(number: int) -> str:
    """Three digits at most."""
    for size, letter in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if number >= size:
            return f"{number / size:.{1 if number < 100 * size else 0}f} {letter}"
    return str(number)
