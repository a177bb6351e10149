"""Modules in the working directory that no program of kifu may import."""

import ast
import sys
from pathlib import Path

import size

_SOURCE = Path(__file__).parents[2] / "src" / "kifu"


def set_traps(folder: Path) -> None:
    """Write a module for each name that kifu imports; each fails, and leaves a file, once it is imported."""
    trees = (ast.parse(path.read_text("utf-8")) for path in _SOURCE.rglob("*.py"))
    names = {name.partition(".")[0] for tree in trees for name in size.imported_names(tree)}
    for name in {*names, *sys.stdlib_module_names, "kifu"}:
        (folder / f"{name}.py").write_text("open(f'{__file__}.imported', 'w')\nraise SystemExit('imported a trap')\n")


def sprung(folder: Path) -> list[str]:
    return sorted(path.name.partition(".")[0] for path in folder.glob("*.imported"))
