"""Every regular expression of kifu takes linear time: a megabyte of its worst input ends before the tests' time limit.

The inputs repeat, after a beginning that matches, each part of a pattern that may be repeated, and end otherwise.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from functools import cache
from random import Random
from re import _compiler as compiler  # type: ignore[attr-defined]
from re import _constants as op  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from types import ModuleType
from typing import Any

import pytest

import kifu
from kifu.records.text import MAX_TEXT

SIZE = 1 << 20
CAPPED = {
    "kifu.records.meta": MAX_TEXT,  # by normalize()
    "kifu.records.text": MAX_TEXT,
    "kifu.corpus.update": 255,
}
"""Characters of the text that the patterns of a module see."""
LOCAL = {
    "collection.pattern", "f'{collection.pattern}|{_SUMS.pattern}'", "form", "f'bytes {begin}-'", "self.pattern",
    "f'{_NO_VALUE}|{_NO_VALUE_OF[subject]}'", "'|'.join(map(fnmatch.translate, patterns)) or '(?!)'",
    "'[0-9]+|\\\\S' if spaced else '\\\\S'",
    "f'{row_number}(?![0-9])\\\\s*(?:\\\\|(?P<framed>[^|]*)\\\\||(?P<plain>[^0-9]*))'",
}  # fmt: skip
"""Patterns that depend on arguments, all of which were tried by hand."""
METHODS = "match|search|sub|subn|findall|fullmatch|split|finditer"
REPEATS = (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT)
CHARACTERS = 'xaA10 -.,:/_)([<\\"\n\u00e0\u4e00'


def patterns_in(value: Any) -> Iterator[re.Pattern[Any]]:
    if hasattr(value, "fullmatch") and hasattr(value, "pattern"):
        yield re.compile(value.pattern, value.flags)
    elif isinstance(value, tuple | list | dict):
        for each in value.values() if isinstance(value, dict) else value:
            yield from patterns_in(each)


def patterns_of(module: ModuleType) -> Iterator[tuple[re.Pattern[Any], set[str]]]:
    """Yield the patterns of a module, each with the methods by which it is used."""
    source = inspect.getsource(module)
    for name, value in vars(module).items():
        used = re.findall(rf"\b{name}\.({METHODS})\b", source) or re.findall(rf"\bform\.({METHODS})\b", source)
        yield from ((pattern, set(used)) for pattern in patterns_in(value))
    for call in ast.walk(ast.parse(source)):
        match call:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="re"), attr=method)) if method != "escape":
                text = ast.unparse(call.args[0])
                try:
                    pattern = re.compile(eval(text, vars(module)))
                except NameError:
                    assert text in LOCAL, f"{module.__name__}: try this regular expression with a megabyte: {text}"
                else:
                    yield from [(pattern, {method})] if method != "compile" else []  # those are among the variables


@cache
def modules() -> dict[str, ModuleType]:
    names = (each.name for each in pkgutil.walk_packages(kifu.__path__, "kifu."))
    found = {name: importlib.import_module(name) for name in names if not name.endswith(("__main__", "keras_data"))}
    return {name: module for name, module in found.items() if any(True for _ in patterns_of(module))}


def example(tree: Any, random: Random) -> str:
    """Return a text that matches a parsed pattern, apart from look-arounds."""
    text = ""
    for part in tree:
        kind, value = part
        if kind is op.LITERAL:
            text += chr(value)
        elif kind in (op.NOT_LITERAL, op.ANY, op.IN):
            allowed = compiler.compile(parser.SubPattern(tree.state, [part]))
            listed = (
                [chr(low if of is op.LITERAL else low[0]) for of, low in value if of in (op.LITERAL, op.RANGE)]
                if kind is op.IN
                else []
            )
            text += random.choice([c for c in CHARACTERS if allowed.match(c)] or listed)
        else:
            texts = [example(inner, random) for inner in inner_trees(kind, value)]
            repeats = max(value[0], min(value[1], random.randint(0, 2))) if kind in REPEATS else 1
            text += random.choice(texts or [""]) * repeats
    return text


def inner_trees(kind: Any, value: Any) -> list[Any]:
    if kind is op.BRANCH:
        return list(value[1])
    return (
        [value[2]]
        if kind in REPEATS
        else [value[3]]
        if kind is op.SUBPATTERN
        else [value]
        if kind is op.ATOMIC_GROUP
        else []
    )


def repeated(tree: Any, before: str, random: Random) -> Iterator[tuple[str, str]]:
    """Yield each repeated part of a parsed pattern as a text, with one for what comes before it."""
    for k, (kind, value) in enumerate(tree):
        start = before + example(tree[:k], random)
        for inner in inner_trees(kind, value):
            if kind in REPEATS:
                yield start, example(inner, random)
            yield from repeated(inner, start, random)


def worst_texts(pattern: re.Pattern[Any], size: int) -> Iterator[Any]:
    random, tree = Random(1), parser.parse(pattern.pattern, pattern.flags)
    parts = [("", example(tree, random)), ("", " ")]
    for start, part in repeated(tree, "", random):
        parts += [(start, part), ("", start + part)]
    for start, part in dict.fromkeys(parts):
        text = (start + part * (size // max(len(part), 1)))[:size] + "\0"
        yield text.encode("latin-1", "replace") if isinstance(pattern.pattern, bytes) else text


@pytest.mark.slow
@pytest.mark.parametrize("name", modules())
def test_linear(name: str) -> None:
    for pattern, methods in patterns_of(modules()[name]):
        for text in worst_texts(pattern, CAPPED.get(name, SIZE)):
            for method in methods or {"match"}:
                found = getattr(pattern, method)(*[text[:0]] * method.startswith("sub"), text)
                if method == "finditer":
                    assert sum(1 for _ in found) >= 0
