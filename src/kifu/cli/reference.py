"""The command list: what kifu knows by name."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Callable, Mapping
from typing import Any

from kifu.assets import OTHER_FORMATS, asset, config_names, read_card, read_titles
from kifu.cli import options as opts
from kifu.cli.app import Outcome, command, echo
from kifu.errors import RecipeError, printable

_BOARD = "19x19"

_KINDS = {
    "recipes": "data sets to build, and training runs",
    "planes": "planes of features, the inputs of networks",
    "formats": "files that kifu reads and writes",
    "nets": "architectures of networks",
    "rules": "sets of cleaning rules",
    "sets": "fixed sets of games to evaluate nets on",
    "ranks": "equally strong ranks of the 1990s in six places, see docs/ranks.md",
}


@command("kifu list", "kifu list recipes kgsgo-v2", "kifu list nets b10c128 --planes alphago48", kernels=False)
@opts.argument("kind", "KIND", f"Kind of names: {', '.join(_KINDS)}.", shown="lists the kinds", names=_KINDS)
@opts.argument(
    "name", "NAME", "Show this recipe, rules (also a .toml file), card, network (also any bNcM) or set.",
    shown="lists all", type=opts.PLACE, names=opts.names_of(),
)  # fmt: skip
@opts.option("--planes", "PLANES", "Plane set of a network.", shown="the network's own", names=opts.names_of("planes"))
@opts.board(_BOARD)
def list_(kind: str | None, name: str | None, planes: str | None, board: str) -> Outcome:
    """List recipes, plane sets, formats, networks, rules, sets or ranks, or show one."""
    if kind is None:
        return _listed(_KINDS)
    if kind == "nets":
        return _nets(name, planes, board)
    if (planes, board) != (None, _BOARD):
        raise RecipeError(f"--planes and --board are options of kifu list nets, got kifu list {kind}")
    listings: dict[str, Callable[[str | None], Outcome]] = {
        "recipes": _recipes, "planes": _planes, "formats": _formats, "rules": _rules, "sets": _sets, "ranks": _ranks,
    }  # fmt: skip
    from kifu.registry import check_choice

    check_choice("kind", kind, tuple(_KINDS))
    return listings[kind](name)


def _recipes(name: str | None) -> Outcome:
    if name is not None:
        from kifu.recipes.schema import load_recipe, recipe_text

        return _toml(recipe_text(name), load_recipe(name).model_dump(mode="json"))
    tables = _tables("recipes")
    sets = {each: "" if "kind" in table else f" (sets {', '.join(table['sets'])})" for each, table in tables.items()}
    return _listed({each: table["title"] + sets[each] for each, table in tables.items()})


def _rules(name: str | None) -> Outcome:
    if name is not None:
        from kifu.config import config_text
        from kifu.corpus.cleaning import load_cleaning_rules

        rules = load_cleaning_rules(name).model_dump(mode="json")
        return _toml(config_text("cleaning", "set of cleaning rules", name), rules)
    return _listed({each: table["title"] for each, table in _tables("cleaning").items()})


def _tables(folder: str) -> dict[str, dict[str, Any]]:
    import tomllib  # slow to load

    return {each: tomllib.loads(asset(folder, f"{each}.toml").read_text("utf-8")) for each in config_names(folder)}


def _toml(text: str, data: Any) -> Outcome:
    return Outcome(text.expandtabs().rstrip("\n"), data)


def _sets(name: str | None) -> Outcome:
    from kifu.learn.benchmark import load_set, set_names
    from kifu.report.evaluation import print_sets

    found = [load_set(each) for each in ([name] if name else set_names())]
    data = [each.model_dump(mode="json", exclude={"hashes"}) for each in found]
    return Outcome(found[0].listing().rstrip("\n") if name else print_sets, data)


def _ranks(name: str | None) -> Outcome:
    from kifu.records.ranks import rank_table

    if name is not None:
        raise RecipeError(f"kifu list ranks shows one table, got {name!r}")
    rows = rank_table()
    lines = [list(rows[0]), *(["-" if cell is None else str(cell) for cell in row.values()] for row in rows)]
    return Outcome("\n".join("".join(f"{cell:10}" for cell in line).rstrip() for line in lines), rows)


def _planes(name: str | None) -> Outcome:
    if name is None:
        return _listed(read_titles("planes"))
    from kifu.planes.registry import PLANE_SETS, find_plane_set

    found = find_plane_set(name)
    data = {"name": found.name, "planes": list(found.plane_names)}
    if found.name in PLANE_SETS:
        return _card("planes", found.name, {**data, "title": found.title})
    return Outcome(lambda: _print_list({str(k): plane for k, plane in enumerate(found.plane_names)}), data)


def _formats(name: str | None) -> Outcome:
    from kifu.datasets.formats import FORMATS
    from kifu.registry import find_name

    lines = {name: f"holds {each.plane_set or 'any planes'}; {each.title}" for name, each in FORMATS.items()}
    lines |= OTHER_FORMATS
    if name is None:
        return _listed(lines)
    full = find_name(lines, name, "format")
    return _card("formats", full, {"name": full, "title": lines[full]})


def _nets(name: str | None, planes: str | None, board: str) -> Outcome:
    if (name, planes, board) == (None, None, _BOARD):
        return _listed(read_titles("nets"))
    from kifu.learn.registry import KATA, NETS, RESIDUAL, net_card, net_line
    from kifu.point import parse_board

    width, height = parse_board(board)
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
