"""The public interface: names, documentation, import time, the order of packages, and who may use the network."""

from __future__ import annotations

import ast
import doctest
import functools
import importlib
import importlib.metadata
import inspect
import pkgutil
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import kifu
from commands import KIFU
from kifu.cli import app

REPOSITORY = Path(__file__).parents[1]
SOURCE = REPOSITORY / "src" / "kifu"
FILES = sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")

# Distributions that take long to import.
HEAVY = {
    "torch", "lightning_fabric", "numba", "pyarrow", "numpy", "matplotlib", "pydantic", "urllib3", "duckdb",
    "ray", "fsspec",
}  # fmt: skip

# Packages and top-level modules: each imports only itself and those before it.
PACKAGES = [
    "errors", "point", "registry", "report", "progress", "retry", "assets", "config", "atomic_io", "kernel",
    "execution", "go", "records",
    "corpus", "viz", "planes", "datasets", "recipes", "katago", "convert", "leaks", "estimate", "fetch", "describe",
    "tables", "learn", "play", "demo", "cli",
]  # fmt: skip

# Imports inside functions that go against this order: (file, package).
LAZY = {("records/game.py", "viz"), ("go/board.py", "viz"), ("corpus/stats.py", "viz")}

NETWORK_LIBRARIES = {"urllib", "urllib3", "http", "socket", "ssl", "requests", "fsspec", "aiohttp"}


def module_names() -> list[str]:
    return ["kifu", *(module.name for module in pkgutil.walk_packages(kifu.__path__, "kifu."))]


STUB = ast.parse((SOURCE / "__init__.pyi").read_text("utf-8"))
HOMES = {
    alias.name: f"kifu.{line.module}" for line in STUB.body if isinstance(line, ast.ImportFrom) for alias in line.names
}
"""The module of each public name."""


def test_public_names_come_from_their_modules() -> None:
    assert sorted(kifu.__all__) == sorted(HOMES.keys() - {"open"})
    homes = {name: getattr(getattr(kifu, name), "__module__", None) for name in HOMES}
    assert {name: home for name, home in homes.items() if home not in (HOMES[name], "kifu.registry", None)} == {}


def test_star_import_gives_the_public_names() -> None:
    names: dict[str, object] = {}
    exec("from kifu import *", names)
    assert set(names) - {"__builtins__"} == set(kifu.__all__)
    assert "open" not in names


def test_unknown_names_raise_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nix"):
        kifu.nix  # noqa: B018


def test_versions_agree() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]
    assert kifu.__version__ == importlib.metadata.version("kifu") == project["version"]


def test_changelog_begins_with_this_version() -> None:
    changelog = REPOSITORY / "CHANGELOG.md"
    if not changelog.is_file():
        pytest.skip("no CHANGELOG.md yet")
    versions = re.findall(r"^## \[?(\d[\w.]*)", changelog.read_text("utf-8"), re.MULTILINE)
    assert versions[0] == kifu.__version__


@pytest.mark.parametrize("name", HOMES)
def test_public_names_are_documented(name: str) -> None:
    value = getattr(kifu, name)
    members = {name: value}
    if inspect.isclass(value):
        members |= {f"{name}.{key}": part for key, part in vars(value).items() if callable(part) and key[0] != "_"}
    assert [key for key, member in members.items() if not inspect.getdoc(member)] == []


@pytest.mark.parametrize("name", module_names())
def test_modules_have_docstrings_and_passing_doctests(name: str) -> None:
    module = importlib.import_module(name)
    assert module.__doc__ or hasattr(module, "__path__")  # packages may leave it to their modules
    assert doctest.testmod(module).failed == 0


def test_docstrings_contain_examples() -> None:
    finder = doctest.DocTestFinder()
    examples = [test for name in module_names() for test in finder.find(importlib.import_module(name)) if test.examples]
    assert len(examples) >= 5


def loaded_distributions(program: str) -> set[str]:
    """Run a program in a fresh Python and return the top-level modules that it has loaded at exit."""
    header = "import atexit, sys\natexit.register(lambda: print(*sys.modules, file=sys.stderr))\n"
    done = subprocess.run([sys.executable, "-c", header + program], check=True, capture_output=True, text=True)
    return {name.partition(".")[0] for name in done.stderr.split()}


def test_import_loads_nothing_heavy() -> None:
    assert loaded_distributions("import kifu; dir(kifu); kifu.__version__") & (HEAVY | {"typer", "rich"}) == set()


@pytest.mark.parametrize("arguments", [["--help"], ["--version"]])
def test_help_and_version_load_nothing_heavy(arguments: list[str]) -> None:
    program = f"import sys\nfrom kifu.cli import main\nsys.argv = {['kifu', *arguments]}\nmain()"
    assert loaded_distributions(program) & HEAVY == set()


@pytest.mark.parametrize("command", [command.callback.__name__ for command in app.registered_commands])
def test_help_of_a_command_loads_no_compiler(command: str) -> None:
    program = f"import sys\nfrom kifu.cli import main\nsys.argv = ['kifu', '{command}', '--help']\nmain()"
    assert loaded_distributions(program) & {"torch", "numba", "pyarrow", "numpy", "matplotlib"} == set()


def test_installed_command_runs_this_package() -> None:
    done = subprocess.run([KIFU, "--version"], check=True, capture_output=True, text=True)
    assert done.stdout == f"kifu {kifu.__version__}\n"


@functools.cache
def imported_names(path: Path) -> frozenset[str]:
    """Return the full names that a file imports anywhere, inside functions too: modules, or names in modules."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(names)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_packages_import_only_earlier_packages(path: Path) -> None:
    where = path.relative_to(SOURCE).as_posix()
    package = where.partition("/")[0].removesuffix(".py")
    assert package in PACKAGES, f"{where} is in no package of the list"
    for name in imported_names(path):
        if name.startswith("kifu.") and name != "kifu.__version__":
            other = name.split(".")[1]
            assert other in PACKAGES, f"{where} imports {name}, which is in no package of the list"
            assert PACKAGES.index(other) <= PACKAGES.index(package) or (where, other) in LAZY, f"{where} imports {name}"


def test_lazy_imports_are_still_needed() -> None:
    for where, package in LAZY:
        assert any(name.startswith(f"kifu.{package}.") for name in imported_names(SOURCE / where)), (where, package)


def module_name(path: Path) -> str:
    parts = ["kifu", *path.relative_to(SOURCE).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def import_graph() -> dict[str, set[str]]:
    """Return the modules that each module of kifu imports, inside functions too, but for the lazy imports in LAZY."""
    paths = {module_name(path): path for path in FILES}
    graph: dict[str, set[str]] = {}
    for module, path in paths.items():
        where = path.relative_to(SOURCE).as_posix()
        names = {name for name in imported_names(path) if (where, ".".join(name.split(".")[1:2])) not in LAZY}
        owners = {name if name in paths else name.rpartition(".")[0] for name in names}
        graph[module] = (owners & paths.keys()) - {module}
    return graph


def strongly_connected(graph: dict[str, set[str]]) -> list[list[str]]:
    """Return the groups of two or more nodes that reach each other, sorted."""
    reachable: dict[str, set[str]] = {}
    for start in graph:
        seen: set[str] = set()
        pending = [start]
        while pending:
            for node in graph[pending.pop()] - seen:
                seen.add(node)
                pending.append(node)
        reachable[start] = seen
    groups = {
        tuple(sorted(other for other in reachable[node] if node in reachable[other])): None
        for node in graph
        if node in reachable[node]
    }
    return sorted(list(group) for group in groups)


def test_strongly_connected_groups_are_found() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": {"d"}, "f": {"a"}}
    assert strongly_connected(graph) == [["a", "b", "c"], ["d", "e"]]
    assert strongly_connected({"a": {"b"}, "b": set()}) == []


def test_modules_have_no_import_cycles() -> None:
    assert strongly_connected(import_graph()) == []


def test_only_these_modules_use_the_network() -> None:
    """Downloads, records at URLs, and the connection to a cluster."""
    users = {path for path in FILES if {name.partition(".")[0] for name in imported_names(path)} & NETWORK_LIBRARIES}
    assert {path.relative_to(SOURCE).parent.name for path in users} == {"fetch", "records", "execution"}
    others = {path.name for path in users if path.parent.name != "fetch"}
    assert others <= {"paths.py", "_remote.py", "_store.py", "ray_cluster.py"}
