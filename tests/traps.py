"""Modules in the working directory that no program of kifu may import."""

from __future__ import annotations

from pathlib import Path

_NAMES = [
    "json",
    "kifu",
    "multiprocessing",
    "numba",
    "numpy",
    "pickle",
    "pyarrow",
    "random",
    "ray",
    "socket",
    "torch",
    "typer",
]


def set_traps(folder: Path) -> None:
    """Write modules with the names of modules that kifu imports; each fails, and says so, once it is imported."""
    for name in _NAMES:
        (folder / f"{name}.py").write_text("open(f'{__file__}.imported', 'w')\nraise SystemExit('imported a trap')\n")


def sprung(folder: Path) -> list[str]:
    """Return the names of the modules that were imported."""
    return sorted(path.name.partition(".")[0] for path in folder.glob("*.imported"))
