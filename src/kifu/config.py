"""TOML configuration: read from the package or a file, overridden by options, validated by a pydantic model."""

from __future__ import annotations

import contextlib
import json
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from kifu.assets import asset, config_names
from kifu.errors import FormatError, RecipeError, SourceError
from kifu.io import read_small
from kifu.registry import suggestion, unknown
from kifu.text import shorten

TEXT_LIMIT = 16 << 10
"""Largest size of a file in bytes: tomllib takes a minute for a key of 30,000 dotted parts."""

STRICT = ConfigDict(extra="forbid", frozen=True, strict=True)
"""The settings of `StrictModel`."""

Model = TypeVar("Model", bound=BaseModel)


class StrictModel(BaseModel):
    """Base of configurations and results: no unknown keys, immutable, no type coercion."""

    model_config = STRICT


class NamedConfig(StrictModel):
    """Base of configurations with a name and a title. It has no fields, since files list them in their own order."""

    if TYPE_CHECKING:
        name: str
        title: str

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}: {self.title}>"


def one_line(text: str) -> str:
    """Return the text. Raises ValueError unless it is one line of printable characters."""
    if not text.isprintable():
        raise ValueError(f"{text!r} is not one line of printable characters")
    return text


def _board_size(text: str) -> str:
    if not re.fullmatch(r"[1-9]\d?x[1-9]\d?", text, re.ASCII):
        raise ValueError(f"a board size is like 19x19, got {text!r}")
    return text


BoardSize = Annotated[str, AfterValidator(_board_size)]
"""Width and height of a board, such as "19x19"; `kifu.point.parse_board` parses it."""

Count = Annotated[int, Field(ge=1, le=10**9)]
"""A number of games, positions or steps."""

Line = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(one_line)]
"""A line of printable text."""


def config_text(folder: str, kind: str, name: str | os.PathLike[str]) -> str:
    """Return the text of a TOML file: a name in a folder of `kifu.assets`, or a path that ends in .toml.

    Raises RecipeError, which names the kind of file, such as "recipe", if there is no such file, or it cannot be read.
    """
    name = os.fspath(name)
    if name.endswith(".toml"):
        try:
            return read_small(name, TEXT_LIMIT).decode()
        except OSError as error:
            raise RecipeError(f"cannot read the {kind} {name}: {error.strerror}") from None
        except ValueError as error:  # not UTF-8
            raise RecipeError(f"cannot read the {kind} {name!r}: {error}") from None
    if name not in config_names(folder):
        raise unknown(kind, name, config_names(folder), ", or a file that ends in .toml")
    return asset(folder, f"{name}.toml").read_text("utf-8")


def load_config(
    folder: str,
    kind: str,
    name: str | os.PathLike[str],
    overrides: Iterable[str] = (),
    default_table: Callable[[Mapping[str, Any], str], dict[str, Any]] = lambda table, key: {},
) -> dict[str, Any]:
    """Return the table in a TOML file, not yet validated.

    Raises RecipeError if there is no such file, it is not TOML, or an override does not fit.

    Args:
        name: A name in that folder of `kifu.assets`, or the path of a file that ends in .toml.
        overrides: "key=value", with dots for inner keys ("sets.test.games=20"). A value that is not TOML is a string.
            Tables that the file leaves out are created.
        default_table: Returns the default of an inner table that the file leaves out, given the file's table and the
            key, so that an override changes one of its values only; by default it is empty.
    """
    text = config_text(folder, kind, name)
    try:
        table = tomllib.loads(text)
    except ValueError as error:  # also a number of thousands of digits
        raise RecipeError(f"{kind} {name} is not TOML: {shorten(str(error))}") from None
    except RecursionError:
        raise RecipeError(f"{kind} {name} is nested too deeply") from None
    for override in overrides:
        _override(table, override, kind, default_table)
    return table


def default_table(model: type[BaseModel], key: str) -> dict[str, Any]:
    """Return the default of a model's field as a table of those values that its own model does not default to."""
    field = model.model_fields.get(key)
    default = None if field is None else field.get_default(call_default_factory=True)
    if isinstance(default, BaseModel):
        return default.model_dump(exclude_defaults=True)
    return dict(default) if isinstance(default, dict) else {}


_EXPECTED = {
    "greater_than": "> {gt}",
    "greater_than_equal": ">= {ge}",
    "less_than": "< {lt}",
    "less_than_equal": "<= {le}",
    "literal_error": "{expected}",
    "union_tag_invalid": "{expected_tags}",
    "string_pattern_mismatch": "like {pattern}",
    "string_too_short": "text of {min_length} or more characters",
    "string_too_long": "text of at most {max_length} characters",
    "too_short": "{min_length} or more values",
    "too_long": "at most {max_length} values",
    "int": "an integer",
    "float": "a number",
    "finite": "a finite number",
    "bool": "true or false",
    "string": "text",
    "tuple": "a list",
    "list": "a list",
    "date": "a date such as 2016-01-31",
}
"""Requirements on values by the type of an error of pydantic, or by the first word of it; all else is a table."""


def first_invalid(error: ValidationError, table: Any = None) -> str:
    """Return the first invalid value as one line: "sets.0.games must be >= 1, got 0".

    table: The values; with it, the line leaves out the members of unions that pydantic names.
    """
    first = error.errors(include_url=False)[0]
    kind, location = first["type"], first["loc"]
    context = {key: f"{each:g}" if isinstance(each, float) else each for key, each in first.get("ctx", {}).items()}
    path = location if table is None else (*_written_path(location, table), *location[-1:][: kind == "missing"])
    where = shorten(".".join(map(str, path)))
    if kind == "missing":
        return f"{where} is missing"
    if kind == "json_invalid":
        return f"invalid JSON: {context['error']}"
    if kind in _UNKNOWN_KEY:
        return f"{where}: no such key"
    if kind == "value_error":
        return f"{where}{': ' * bool(where)}{shorten(str(context['error']), 300)}"
    value = first["input"]
    if kind == "union_tag_invalid":
        where, value = f"{where}.kind", context["tag"]
    expected = _EXPECTED.get(kind) or _EXPECTED.get(kind.partition("_")[0], "a table")
    return f"{where} must be {expected.format(**context)}, got {_shown(value)}".lstrip()


_UNKNOWN_KEY = ("extra_forbidden", "unexpected_keyword_argument")


def read_model(model: type[Model], path: str | os.PathLike[str], content: str, limit: int = 16 << 20) -> Model:
    """Read a JSON file, of at most `limit` bytes, that a model describes.

    Raises FormatError if it does not hold what `content` names, such as "results of kifu evaluate".
    """
    try:
        return model.model_validate_json(read_small(path, limit))
    except OSError as error:
        raise SourceError(f"cannot read {path}: {error.strerror}") from None
    except ValidationError as error:
        raise FormatError(f"{path} does not hold {content}: {first_invalid(error)}") from None


def check_config(model: type[Model], table: Mapping[str, Any], kind: str, name: str | os.PathLike[str]) -> Model:
    """Validate a table. Raises RecipeError, which names the first invalid value."""
    try:
        return model.model_validate(table)
    except ValidationError as error:
        first, hint = error.errors(include_url=False)[0], ""
        if first["type"] in _UNKNOWN_KEY:
            hint = _nearest_key(_written_path(first["loc"], table), model, table)
        raise RecipeError(f"{kind} {name}: {first_invalid(error, table)}{hint}") from None


def _written_path(location: Sequence[int | str], table: Any) -> tuple[str, ...]:
    """Return the keys of a table that lead to the location of an error, which also names members of unions."""
    path = []
    for part in location:
        with contextlib.suppress(LookupError, TypeError):
            table = table[part]
            path.append(str(part))
    return tuple(path)


def _nearest_key(path: tuple[str, ...], model: type[BaseModel], table: Mapping[str, Any]) -> str:
    """Return a hint for an unknown key: a similar one beside it, the same elsewhere, or all beside it."""
    schema = model.model_json_schema()
    paths = [each for each in _known_paths(schema, schema.get("$defs", {}), table) if each != path]
    beside = {each[-1]: ".".join(each) for each in paths if each[:-1] == path[:-1]}
    others = {each[-1]: ".".join(each) for each in reversed(paths) if len(path) == 1 or each[-1] == path[-1]}
    return suggestion(path[-1], others | beside, others | beside) or f"; available: {', '.join(beside)}"


def _known_paths(part: Mapping[str, Any], definitions: Mapping[str, Any], table: Any) -> Iterator[tuple[str, ...]]:
    """Yield the path of each key in a part of a JSON schema, for the kinds and names of a table."""
    part = definitions.get(part.get("$ref", "").rpartition("/")[2], part)
    table = table if isinstance(table, Mapping) else {}
    keys = part.get("properties", {})
    if table.get("kind") != keys.get("kind", {}).get("const", table.get("kind")):
        return
    if isinstance(part.get("additionalProperties"), dict):
        keys = dict.fromkeys(table, part["additionalProperties"])
    for name, inner in keys.items():
        yield (name,)
        yield from ((name, *rest) for rest in _known_paths(inner, definitions, table.get(name)))
    for each in (*part.get("anyOf", ()), *part.get("oneOf", ())):
        yield from _known_paths(each, definitions, table)


def _shown(value: Any) -> str:
    try:
        return shorten(json.dumps(value, default=str))
    except (ValueError, RecursionError):  # a number of thousands of digits; thousands of tables in one another
        return "a value too large to show"


def _override(
    table: dict[str, Any],
    override: str,
    kind: str,
    default_table: Callable[[Mapping[str, Any], str], dict[str, Any]],
) -> None:
    key, equals, text = override.partition("=")
    *outer, last = path = key.strip().split(".")
    if not equals or not all(path):
        raise RecipeError(f"--set takes key=value, not {override!r}")
    value: Any = text
    with contextlib.suppress(ValueError, RecursionError):
        parsed = tomllib.loads(f"value = {text}")
        if len(parsed) == 1:  # else there are lines after the value
            value = parsed["value"]
    inner: Any = table
    for depth, part in enumerate(outer, 1):
        if part not in inner:
            inner[part] = default_table(table, part) if depth == 1 else {}
        inner = inner[part]
        if not isinstance(inner, dict):
            where = ".".join(outer[:depth])
            raise RecipeError(f"--set {override!r}: {where} of the {kind} must be a table, got {_shown(inner)}")
    inner[last] = value
