"""Check the prose of the repository against CONTRIBUTING.md: first words of docstrings and banned phrases.

    python tools/check_prose.py

Prints one line per finding and exits with 1 if there are any.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

CODE = ("src", "tests", "benchmarks", "tools", "examples")
DOCS = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/**/*.md")

QUESTION = re.compile(r"(What|How|Whether|Which|Who)\b")
BANNED = re.compile(
    r"\b(whoever|nobody|somebody|(gone|goes|go|going) on with|there is none|in the making|set aside|tells of|told of"
    r"|(is|are|was|were) told|judged anew|by what it says|is no more|are no more)\b",
    re.IGNORECASE,
)


def docstrings(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of every docstring, including those of constants and fields."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value.strip()


def prose(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of every comment and string literal."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING):
            yield token.start[0], token.string


def findings(root: Path) -> Iterator[str]:
    """Yield one line per violation in the files below `root`."""
    for path in sorted(found for folder in CODE for found in (root / folder).rglob("*.py")):
        source = path.read_text("utf-8")
        for line, text in docstrings(source):
            if match := QUESTION.match(text):
                yield f"{path.relative_to(root)}:{line}: docstring begins with {match[1]!r}"
        if path.resolve() != Path(__file__).resolve():
            for line, text in prose(source):
                yield from (f"{path.relative_to(root)}:{line}: banned phrase {m[0]!r}" for m in BANNED.finditer(text))
    for path in sorted(found for pattern in DOCS for found in root.glob(pattern)):
        for line, text in enumerate(path.read_text("utf-8").splitlines(), 1):
            yield from (f"{path.relative_to(root)}:{line}: banned phrase {m[0]!r}" for m in BANNED.finditer(text))


if __name__ == "__main__":
    lines = list(findings(Path(__file__).resolve().parents[1]))
    print(*lines, sep="\n", end="\n" if lines else "")
    sys.exit(1 if lines else 0)
