"""Commands for reference: recipes, planes, formats, nets."""

from __future__ import annotations

import shutil
import sys
import textwrap
import tomllib
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from kifu.assets import OTHER_FORMATS, asset, config_names, read_card, read_titles
from kifu.cli import options as opts
from kifu.cli.app import Outcome, command, echo
from kifu.errors import printable

_PANEL, _BOARD = "Reference", "19x19"
_argument = partial(opts.argument, "name", required=False)


@command(_PANEL, "kifu recipes", "kifu recipes kgsgo-v2")
@_argument("RECIPE", "Show this recipe.", type=opts.PLACE, names=opts.recipe_names)
def recipes(name: str | None) -> Outcome:
    """List the recipes, or show one."""
    if name is not None:
        from kifu.recipes.schema import load_recipe, recipe_text

        loaded, text = load_recipe(name), recipe_text(name)
        return Outcome(text.expandtabs().rstrip("\n"), loaded.model_dump(mode="json"))
    paths = [asset("recipes", f"{each}.toml") for each in config_names("recipes")]
    tables = {path.stem: tomllib.loads(path.read_text("utf-8")) for path in paths}
    sets = {each: "" if "kind" in table else f" (sets {', '.join(table['sets'])})" for each, table in tables.items()}
    return _listed({each: table["title"] + sets[each] for each, table in tables.items()})


@command(_PANEL, "kifu planes", "kifu planes seven")
@_argument("PLANES", "Show the card of this plane set.", names=opts.plane_names)
def planes(name: str | None) -> Outcome:
    """List the plane sets, or show the card of one."""
    if name is None:
        return _listed(read_titles("planes"))
    from kifu.planes.registry import PLANE_SETS, find_plane_set

    found = find_plane_set(name)
    data = {"name": found.name, "planes": list(found.plane_names)}
    if found.name in PLANE_SETS:
        return _card("planes", found.name, {**data, "title": found.title})
    return Outcome(lambda: _print_list({str(k): plane for k, plane in enumerate(found.plane_names)}), data)


@command(_PANEL, "kifu formats", "kifu formats dat2")
@_argument("FORMAT", "Show the card of this format.", names=opts.format_names)
def formats(name: str | None) -> Outcome:
    """List the file formats, or show the card of one."""
    from kifu.datasets.formats import FORMATS
    from kifu.registry import find_name

    lines = {name: f"holds {each.plane_set or 'any planes'}; {each.title}" for name, each in FORMATS.items()}
    lines |= OTHER_FORMATS
    if name is None:
        return _listed(lines)
    full = find_name(lines, name, "format")
    return _card("formats", full, {"name": full, "title": lines[full]})


@command(_PANEL, "kifu nets", "kifu nets b10c128 --planes alphago48")
@_argument("NETWORK", "Show the layers of this network; any bNcM, such as b10c128; or a network file of KataGo.")
@opts.option("--planes", "PLANES", "Plane set.", shown="the network's own", names=opts.plane_names)
@opts.board(_BOARD)
def nets(name: str | None, planes: str | None, board: str) -> Outcome:
    """List the networks with their sizes, or show the layers of one."""
    if (name, planes, board) == (None, None, _BOARD):
        return _listed(read_titles("nets"))
    from kifu.katago.net_file import is_kata_net
    from kifu.learn.registry import KATA, NETS, RESIDUAL, net_card, net_line
    from kifu.point import parse_board

    width, height = parse_board(board)
    if name is not None and is_kata_net(name):
        from kifu.report.describe import describe

        description = describe(Path(name))
        return Outcome(description, description)
    if name is not None:
        text = net_card(name, planes, width, height)
        return Outcome(lambda: _print_markdown(text), {"name": name, "text": text})
    names = [*NETS, RESIDUAL, *([] if planes else [KATA])]
    return _listed({each: net_line(each, planes, width, height) for each in names})


def _listed(entries: Mapping[str, str]) -> Outcome:
    return Outcome(lambda: _print_list(entries), [{"name": name, "title": title} for name, title in entries.items()])


def _card(kind: str, name: str, data: Mapping[str, object]) -> Outcome:
    text = read_card(kind, name)
    return Outcome(lambda: _print_markdown(text), {**data, "card": text})


def _print_list(entries: Mapping[str, str]) -> None:
    """Print names and descriptions, wrapped to the width of a terminal."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize
    indent = max(map(len, entries))
    for name, text in entries.items():
        echo(textwrap.fill(printable(f"{name:<{indent}} {text}"), width, subsequent_indent=" " * (indent + 1)))


def _print_markdown(text: str) -> None:
    """Print Markdown, rendered on a terminal and verbatim elsewhere."""
    if not sys.stdout.isatty():
        echo(text.rstrip("\n"))
        return
    from rich.console import Console
    from rich.markdown import Markdown

    Console().print(Markdown(text))
