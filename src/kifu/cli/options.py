"""Options and arguments that several commands share: one name, unit and help text for each meaning.

Each is a decorator of a command's function, or a function that returns one.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable, Iterable
from copy import copy
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click

from kifu.assets import config_names, read_titles
from kifu.errors import OutputError
from kifu.learn import PACKAGED

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

F = TypeVar("F", bound=Callable[..., Any])
Names = Iterable[str] | Callable[[click.Context], Iterable[str]]
"""Names that the shell completes, or a function that returns them."""

Strings = tuple[str, ...]


class Decorator(Protocol):
    """A decorator of a command's function."""

    def __call__(self, function: F, /) -> F:
        """Return the function with an option or argument."""
        ...


_UNITS = {"s": 1, "m": 60, "h": 3600}
"""Seconds of each unit of a duration."""


class Value(click.ParamType[Any]):
    """Values that a function reads from text.

    Attributes:
        name: What a value must be, for messages: "a number".
    """

    def __init__(
        self, read: Callable[[str], Any], name: str, *, is_path: bool = False, is_stream: bool = False
    ) -> None:
        """Create a type.

        Args:
            read: Raises ValueError.
            is_path: The shell completes files.
            is_stream: "-" becomes the path of a copy of standard input, which lasts as long as the command.
        """
        self._read, self.name, self._is_path, self._is_stream = read, name, is_path, is_stream
        self._names: Names = ()

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the value; raise BadParameter if it is not of this type."""
        if not isinstance(value, str):  # a default
            return value
        if value == "-" and self._is_stream and ctx is not None and not ctx.resilient_parsing:
            from tempfile import TemporaryDirectory

            path = Path(ctx.with_resource(TemporaryDirectory(prefix="kifu-")), "standard-input")
            with path.open("wb") as file:
                shutil.copyfileobj(sys.stdin.buffer, file)
            return str(path)
        try:
            return self._read(value)
        except ValueError:
            return self.fail(f"must be {self.name}, got {value!r}", param, ctx)

    def naming(self, names: Names) -> Value:
        """Return this type with names that the shell completes, without their versions, besides files."""
        named = copy(self)
        named._names = names
        return named

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the completion. bash forgets the items before that of files, and shows files where no name fits."""
        from click.shell_completion import CompletionItem

        names = self._names(ctx) if callable(self._names) else self._names
        known = [
            name for name in dict.fromkeys(each.partition("@")[0] for each in names) if name.startswith(incomplete)
        ]
        files = [CompletionItem(incomplete, type="file")] * self._is_path
        return [*files, *map(CompletionItem, known)]


def output_path(text: str) -> Path:
    """Return the path of an output; raise OutputError for a URL, which as a path would become local folders."""
    from kifu.records.paths import Remote, as_path

    path = as_path(text)
    if isinstance(path, Remote):
        raise OutputError(f"cannot write {path}: outputs must be local paths")
    return path


def _read_text(text: str) -> str:
    text.encode()  # an error for bytes that are no text
    return text


def _read_duration(text: str) -> float:
    number, seconds = text[:-1], _UNITS.get(text[-1:], 0)
    if not (seconds and re.fullmatch(r"\d{1,6}(\.\d{1,6})?", number, re.ASCII) and float(number)):
        raise ValueError
    return float(number) * seconds


def _read_rank(text: str) -> float:
    from kifu.records.ranks import Rank

    return Rank.parse_rating(text)


def _read_number(text: str, least: int, most: int | None) -> int:
    value = int(text) if re.fullmatch(r"\d{1,9}", text, re.ASCII) else -1
    if value < least or (most is not None and value > most):
        raise ValueError
    return value


TEXT = Value(_read_text, "text in UTF-8")
PLACE = Value(str, "a name or path", is_path=True)
"""Names, paths and URLs as strings, since `Path` would turn s3://x into s3:/x; their bytes need not be text."""
SOURCE = Value(str, "a path", is_path=True, is_stream=True)
"""Paths and URLs of games."""
PATH = Value(Path, "a path", is_path=True)
OUTPUT = Value(output_path, "a path", is_path=True)
NUMBER = Value(float, "a number")
DURATION = Value(_read_duration, "a duration with a unit, such as 90s, 15m or 2h")
RANK = Value(_read_rank, "a rank, 30k to 1k, 1d to 9d or 1p to 9p")


def argument(
    name: str, metavar: str, help: str, *, type: Value = TEXT, shown: str = "", names: Names = (), **settings: Any
) -> Decorator:
    """Return an argument.

    Args:
        shown: What the help shows as the default; the argument is optional then.
        names: Names that the shell completes.
        settings: `nargs` -1 for any number of values, `default`, `required`.
    """
    settings.setdefault("required", not shown)
    metavar = metavar if settings["required"] else f"[{metavar}]"
    metavar += "..." * (settings.get("nargs") == -1)
    text = f"{help}  [default: ({shown})]" if shown else help
    return click.argument(name, metavar=metavar, help=text, type=type.naming(names), **settings)


def option(
    name: str, metavar: str, help: str, *, type: Value = TEXT, shown: str = "", names: Names = (), **settings: Any
) -> Decorator:
    """Return an option with a value.

    Args:
        name: "--name", or several names, of which the last one without dashes is that of the parameter.
        shown: What the help shows as the default; by default the default itself.
        names: Names that the shell completes.
        settings: `default`, `required`, or `multiple` if the option can be repeated.
    """
    settings |= {"metavar": metavar, "help": help, "type": type.naming(names), "show_default": shown or True}
    return click.option(*name.split(), **settings)


def number(
    name: str, help: str, default: int | None = None, *, least: int = 1, most: int | None = None, shown: str = ""
) -> Decorator:
    """Return an option for a whole number."""
    limits = f">= {least}" if most is None else f"from {least} to {most}"
    kind = Value(partial(_read_number, least=least, most=most), f"a whole number {limits}")
    return option(name, "N", help, type=kind, default=default, shown=shown)


def flag(name: str, help: str) -> Decorator:
    """Return an option without a value."""
    return click.option(*name.split(), is_flag=True, help=help)


def output(help: str, **settings: Any) -> Decorator:
    """Return the option for the file or folder that a command writes; required unless a default is shown or given."""
    settings.setdefault("required", not settings.keys() & {"shown", "default"})
    return option("-o --output", "PATH", help, type=OUTPUT, **settings)


def overrides(what: str, example: str) -> Decorator:
    """Return the repeatable option --set KEY=VALUE."""
    text = f"Override a value of {what}, such as {example}. Repeatable."
    return option("--set set_", "KEY=VALUE", text, type=PLACE, multiple=True)


def board(default: str | None = None, shown: str = "") -> Decorator:
    """Return the option for the size of the board."""
    return option("--board", "WIDTHxHEIGHT", "Size of the board.", default=default, shown=shown)


_FOLDERS = {"recipes": "recipes", "rules": "cleaning", "sets": "benchmarks"}


def names_of(kind: str | None = None) -> Callable[[click.Context], Iterable[str]]:
    """Return the completion by names of a kind, by default of the value of the argument KIND."""

    def names(ctx: click.Context) -> Iterable[str]:
        wanted: Any = kind or ctx.params["kind"]
        if wanted == "formats":
            from kifu.datasets.formats import FORMATS

            return FORMATS
        if wanted == "collections":
            from kifu.fetch.collections import COLLECTIONS

            return ("sample", *COLLECTIONS)
        if wanted in ("planes", "nets"):
            return read_titles(wanted)
        return config_names(_FOLDERS[wanted]) if wanted in _FOLDERS else ()

    return names


_NET = "A net: human, small, a run directory, a file (.safetensors, .onnx, .bin.gz, .mix), or several joined by +."
_CATALOGUE = "made by `kifu ingest`."

picture = output("Draw a picture into this .svg or .png file.", required=False)
_sources = partial(
    argument, "sources", "SOURCE", "Any mix of archives, folders, records and catalogues; - is standard input.",
    type=SOURCE, nargs=-1,
)  # fmt: skip
sources = _sources()
sources_or_none = _sources(required=False)
catalogues = argument("catalogues", "CATALOGUE", f"Catalogues {_CATALOGUE}", type=PLACE, nargs=-1)
catalogue = argument("catalogue", "CATALOGUE", f"A catalogue {_CATALOGUE}", type=PATH)
recipe = argument(
    "recipe",
    "RECIPE",
    "A recipe: a name (see `kifu list recipes`), or a .toml file.",
    type=PLACE,
    names=names_of("recipes"),
)
clean = option(
    "--clean", "RULES", "Cleaning rules: a name (see `kifu list rules`), or a .toml file.", default="legal", type=PLACE,
    names=names_of("rules"),
)  # fmt: skip
game = argument("game", "GAME", "A record, an archive or folder of records, or a catalogue.", type=SOURCE)
game_number = number("--game number", "Number of the game in its container.", 1)
move = number("--move", "Number of moves played.", least=0, shown="all")
net = option("--net", "NET", _NET, default=PACKAGED[0], type=PLACE, names=PACKAGED)
nets = option("--net nets", "NET", f"{_NET} Repeatable.", type=PLACE, names=PACKAGED, multiple=True, shown=PACKAGED[0])
rules = option(
    "--rules", "RULES", "Rules: chinese, aga, japanese, korean, new-zealand, tromp-taylor, records (lenient).",
    default="chinese", names=("chinese", "aga", "japanese", "korean", "new-zealand", "tromp-taylor", "records"),
)  # fmt: skip
precision = option(
    "--precision", "float32|bfloat16", "Precision of the network.", default="float32", names=("float32", "bfloat16")
)
overlap = option(
    "--overlap", "refuse|drop|keep", "Treatment of games that a net was trained on or validated with.",
    default="refuse", names=("refuse", "drop", "keep"),
)  # fmt: skip
symmetries = flag("--symmetries", "Average over the board's symmetries.")
rank = partial(option, "--rank rating", "RANK", type=RANK)
opponent = partial(option, "--opponent", "RANK", type=RANK)
mover_rank = rank("Rank of the side to move, such as 3d.", shown="the player's")
opponent_rank = opponent("Rank of its opponent.", shown="the opponent's")
server = option(
    "--server", "SERVER",
    "Server whose players a human-style net of KataGo imitates: katago, ogs, kgs, fox, tygem, gogod, go4go; or profile:"
    " ranks and year alone count.",
    shown="the record's, else kgs", names=("katago", "ogs", "kgs", "fox", "tygem", "gogod", "go4go", "profile"),
)  # fmt: skip
where = option("--where", "SQL", "Only games for which this holds, such as 'black_rating >= 36'.")
no_index = flag("--no-index", "Do not use and make the search index beside the catalogue.")
jobs = number("--jobs", "Number of threads.", shown="one per core")
engine = option(
    "--engine", "ENGINE", "Execution backend: threads, ray, or ray=HOST:PORT.", default="threads",
    names=("threads", "ray"),
)  # fmt: skip
overwrite = flag("--overwrite", "Replace an existing output of other inputs or options, if kifu wrote it.")
strict = flag("--strict", "Stop at an archive that is damaged or unreadable.")
dry_run = flag("--dry-run", "Check everything and list inputs and outputs; write nothing.")
