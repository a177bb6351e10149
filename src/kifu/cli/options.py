"""Options and arguments that several commands share: one name, unit and help text for each meaning."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from kifu.assets import config_names, read_titles
from kifu.errors import OutputError, RecipeError
from kifu.learn import PACKAGED

_UNITS = {"s": 1, "m": 60, "h": 3600}
"""Seconds of each unit of a duration."""


def output_path(text: str | Path) -> Path:
    """Return the path of an output; raise OutputError for a URL, which as a path would become local folders."""
    from kifu.records.paths import Remote, as_path

    path = as_path(text)
    if isinstance(path, Remote):
        raise OutputError(f"cannot write {path}: outputs must be local paths")
    return path


def parse_duration(text: str | float) -> float:
    """Return the seconds of a duration such as "90s", "15m" or "2h"; raise BadParameter without a unit."""
    if isinstance(text, float):  # the default
        return text
    number, seconds = text[:-1], _UNITS.get(text[-1:], 0)
    if not (seconds and re.fullmatch(r"\d{1,6}(\.\d{1,6})?", number) and float(number)):
        raise typer.BadParameter(f"a duration needs a unit, such as 90s, 15m or 2h; got {text!r}")
    return float(number) * seconds


def parse_rank(text: str | float) -> float:
    """Return the rating (`kifu.Rank.rating`) of a rank such as "3d" or "10k"; raise BadParameter for other text."""
    from kifu.records.ranks import Rank

    try:
        return text if isinstance(text, float) else Rank.parse_rating(text)
    except RecipeError as error:
        raise typer.BadParameter(str(error)) from None


def complete(kind: str) -> Callable[[str], list[str]]:
    """Return the completion of a name by the shell, which adds files; names have no version."""
    return lambda incomplete: [
        short for name in _names(kind) if (short := name.partition("@")[0]).startswith(incomplete)
    ]


def _names(kind: str) -> Iterable[str]:
    if kind == "formats":
        from kifu.datasets.formats import FORMATS

        return FORMATS
    if kind == "collections":
        from kifu.fetch.collections import COLLECTIONS

        return ("sample", *COLLECTIONS)
    return read_titles("planes") if kind == "planes" else PACKAGED if kind == "nets" else config_names(kind)


def option(metavar: str, help: str, default: str | bool = True, *, name: str | None = None, **settings: Any) -> Any:
    """Return an option with a value. default: what the help shows as the default; by default the value itself."""
    names = () if name is None else (name,)
    return typer.Option(*names, metavar=metavar, help=help, show_default=default, **settings)


def number(help: str, *, least: int = 1, **settings: Any) -> Any:
    """Return an option for a whole number."""
    return option("N", help, min=least, **settings)


def flag(name: str, help: str) -> Any:
    """Return an option without a value."""
    return typer.Option(name, help=help)


def argument(metavar: str, help: str, default: str | bool = True, **settings: Any) -> Any:
    """Return an argument, see `option`."""
    return typer.Argument(metavar=metavar, help=help, show_default=default, **settings)


Output = partial(typer.Option, "-o", "--output", parser=output_path, metavar="PATH")
"""The option for the file or folder that a command writes."""

OutputFile = partial(typer.Option, parser=output_path, metavar="FILE")
"""An option for a further file."""

Duration = partial(typer.Option, parser=parse_duration, metavar="DURATION")
"""An option for a duration with its unit."""

Picture = Annotated[Path | None, Output(help="Draw a picture into this .svg or .png file.")]
Sources = Annotated[list[str], argument("SOURCE", "Any mix of archives, folders, records and catalogues.")]
"""Paths or URLs as strings, since `Path` would turn s3://x into s3:/x."""

Catalogues = Annotated[list[str], argument("CATALOGUE", "Catalogues made by `kifu ingest`.")]
Recipe = Annotated[
    str,
    argument("RECIPE", "A recipe: a name (see `kifu recipes`), or a .toml file.", autocompletion=complete("recipes")),
]
Clean = partial(
    typer.Option,
    metavar="RULES",
    help="Cleaning rules: legal, schraudolph, training, or a .toml file.",
    autocompletion=complete("cleaning"),
)
Container = Annotated[str, argument("GAME", "A record, an archive or folder of records, or a catalogue.")]
GameNumber = Annotated[int, option("N", "Number of the game in its container.", name="--game", min=1)]
Move = Annotated[int | None, number("Number of moves played.", least=0, default="all")]
Checkpoint = Annotated[
    str, argument("NET", "A net: human, small, a run directory, or a file.", autocompletion=complete("nets"))
]
NetOption = partial(typer.Option, "--net", metavar="NET", autocompletion=complete("nets"))
_NET_HELP = "A net: human, small, a run directory, a file (.safetensors, .onnx, .bin.gz, .mix), or several joined by +."

Net = Annotated[str, NetOption(help=_NET_HELP)]
"""The name of a net, see `kifu.open_net`."""

Nets = Annotated[list[str] | None, NetOption(help=f"{_NET_HELP} Repeatable.", show_default=PACKAGED[0])]

Board = partial(typer.Option, metavar="WIDTHxHEIGHT", help="Size of the board.")
Rules = Annotated[
    str, option("RULES", "Rules: chinese, aga, japanese, korean, new-zealand, tromp-taylor, records (lenient).")
]
Precision = Annotated[str, option("float32|bfloat16", "Precision of the network.")]
Symmetries = Annotated[bool, flag("--symmetries", "Average over the board's symmetries.")]
PlayerRank = partial(typer.Option, parser=parse_rank, metavar="RANK")
"""An option for the rank of a player."""

Mover = Annotated[
    float | None, PlayerRank("--rank", help="Rank of the side to move, such as 3d.", show_default="the player's")
]
Opponent = Annotated[
    float | None, PlayerRank("--opponent", help="Rank of its opponent.", show_default="the opponent's")
]
Server = Annotated[
    str | None,
    typer.Option(
        metavar="SERVER",
        help="Server whose players a human-style net of KataGo imitates: katago, ogs, kgs, fox, tygem, gogod,"
        " go4go; or profile: ranks and year alone count.",
        show_default="the record's, else kgs",
    ),
]
Jobs = Annotated[int | None, number("Number of threads.", default="one per core")]
Engine = Annotated[str, option("ENGINE", "Execution backend: threads, ray, or ray=HOST:PORT.")]
Overwrite = Annotated[
    bool, flag("--overwrite", "Replace an existing output of other inputs or options, if kifu wrote it.")
]
Strict = Annotated[bool, flag("--strict", "Stop at an archive that is damaged or unreadable.")]
DryRun = Annotated[bool, flag("--dry-run", "Check everything and list inputs and outputs; write nothing.")]


def overrides(what: str, example: str) -> Any:
    """Return the repeatable option --set KEY=VALUE."""
    return option("KEY=VALUE", f"Override a value of {what}, such as {example}. Repeatable.", name="--set")
