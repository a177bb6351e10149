"""Every regular expression of kifu takes linear time: a megabyte of its worst input ends before the tests' time limit.

After a beginning that matches, the inputs repeat a part of the pattern that may be repeated, and end otherwise.
"""

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from random import Random
from re import _compiler as compiler
from re import _constants as op
from re import _parser as parser
from typing import Any

import pytest

import kifu
from kifu.records.text import MAX_TEXT

FOLDER = Path(kifu.__file__).parent
SOURCES = {str(path.relative_to(FOLDER)): path.read_text() for path in sorted(FOLDER.rglob("*.py"))}
SIZE = 1 << 20
CAPPED = {f"records/{name}.py": MAX_TEXT for name in ("meta", "ranks", "text")} | {"corpus/update.py": 255}
"""Characters of the text that the patterns of a module see."""
LOCAL = {
    "collection.pattern", "f'{collection.pattern}|{_SUMS.pattern}'", "form", "f'bytes {begin}-'", "self.pattern",
    "f'{_NO_VALUE}|{_NO_VALUE_OF[subject]}'", "'|'.join(map(fnmatch.translate, patterns)) or '(?!)'",
    r"'[0-9]+|\\S' if spaced else '\\S'",
    r"f'{row_number}(?![0-9])\\s*(?:\\|(?P<framed>[^|]*)\\||(?P<plain>[^0-9]*))'",
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


def patterns_of(source: str, values: dict[str, Any]) -> Iterator[tuple[re.Pattern[Any], set[str]]]:
    """Yield the patterns of a module, each with the methods by which it is used."""
    for name, value in values.items():
        used = re.findall(rf"\b{name}\.({METHODS})\b", source) or re.findall(rf"\bform\.({METHODS})\b", source)
        yield from ((pattern, set(used)) for pattern in patterns_in(value))
    for call in ast.walk(ast.parse(source)):
        match call:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="re"), attr=method)) if method != "escape":
                text = ast.unparse(call.args[0])
                try:
                    pattern = re.compile(eval(text, values))
                except NameError:
                    assert text in LOCAL, f"try this regular expression with a megabyte: {text}"
                else:
                    yield from [(pattern, {method})] if method != "compile" else []  # those are among the values


def inner_trees(kind: Any, value: Any) -> list[Any]:
    inner = {op.BRANCH: 1, op.SUBPATTERN: 3, **dict.fromkeys(REPEATS, 2)}.get(kind)
    found = value if kind is op.ATOMIC_GROUP else [] if inner is None else value[inner]
    return found if isinstance(found, list) else [found]


def example(tree: Any, random: Random) -> str:
    """Return a text that matches a parsed pattern, apart from look-arounds."""
    text = ""
    for part in tree:
        kind, value = part
        if kind is op.LITERAL:
            text += chr(value)
        elif kind in (op.NOT_LITERAL, op.ANY, op.IN):
            matches = compiler.compile(parser.SubPattern(tree.state, [part])).match
            listed = (
                (
                    limits if of is op.LITERAL else limits[0]
                    for of, limits in value or ()
                    if of in (op.LITERAL, op.RANGE)
                )
                if kind is op.IN
                else ()
            )
            text += random.choice([c for c in CHARACTERS if matches(c)] or [*map(chr, listed)])
        else:
            texts = [example(inner, random) for inner in inner_trees(kind, value)]
            repeats = max(value[0], min(value[1], random.randint(0, 2))) if kind in REPEATS else 1
            text += random.choice(texts or [""]) * repeats
    return text


def repeated(tree: Any, before: str, random: Random) -> Iterator[tuple[str, str]]:
    """Yield what comes before each repeated part of a parsed pattern, and the part."""
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
@pytest.mark.parametrize(
    "file", [file for file, text in SOURCES.items() if re.search(r"^import re$|lazy_pat", text, re.M)]
)
def test_linear(file: str) -> None:
    module = importlib.import_module("kifu." + file.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
    for pattern, methods in patterns_of(SOURCES[file], vars(module)):
        for text in worst_texts(pattern, CAPPED.get(file, SIZE)):
            for method in methods or {"match"}:
                found = getattr(pattern, method)(*[text[:0]] * method.startswith("sub"), text)
                if method == "finditer":
                    list(found)
