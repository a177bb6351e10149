"""What other programs build on: the public names, their documentation, how soon they are there, the order of rooms."""

from __future__ import annotations

import ast
import doctest
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
PACKAGE = REPOSITORY / "src" / "kifu"
HEAVY = {
    "torch", "lightning", "numba", "pyarrow", "numpy", "matplotlib", "pydantic", "urllib3", "duckdb", "ray", "fsspec",
}  # fmt: skip

# A room imports only rooms above it.
ROOMS = [
    "errors", "point", "registry", "kernel", "progress", "assets", "config", "atomic_io", "execution", "go", "records",
    "corpus", "viz", "planes", "datasets", "recipes", "katago", "convert", "audit", "estimate", "fetch", "describe",
    "tables", "learn", "play", "demo", "cli",
]  # fmt: skip
LAZY = {
    ("records/game.py", "viz"),
}


def modules() -> list[str]:
    return ["kifu", *(found.name for found in pkgutil.walk_packages(kifu.__path__, "kifu."))]


def test_the_public_names_are_listed_in_order() -> None:
    assert kifu.__all__ == sorted(kifu.__all__)  # as ruff sorts them
    assert len(set(kifu.__all__)) == len(kifu.__all__)
    assert set(kifu.__all__) == set(kifu._HOMES)
    assert dir(kifu) == sorted([*kifu.__all__, "__version__"])


def test_what_is_listed_is_all_that_is_public() -> None:
    for name in kifu.__all__:
        getattr(kifu, name)
    ours = {
        name
        for name, value in vars(kifu).items()
        if not name.startswith("_") and getattr(value, "__module__", "").startswith("kifu.")
    }
    assert ours == set(kifu.__all__)


@pytest.mark.parametrize("name", kifu.__all__)
def test_a_public_name_is_defined_where_it_is_told_to_be(name: str) -> None:
    assert getattr(kifu, name).__module__ == kifu._HOMES[name]


def test_type_checkers_see_the_same_names_from_the_same_modules() -> None:
    tree = ast.parse((PACKAGE / "__init__.py").read_text("utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    assert {alias.name: line.module for line in block.body for alias in line.names} == kifu._HOMES


def test_star_import_gives_the_public_names() -> None:
    names: dict[str, object] = {}
    exec("from kifu import *", names)
    assert set(names) - {"__builtins__"} == set(kifu.__all__)


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'kifu' has no attribute 'nix'"):
        kifu.nix  # noqa: B018


def test_the_version_is_one_everywhere() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]
    assert kifu.__version__ == importlib.metadata.version("kifu") == project["version"]


def test_the_changelog_tells_of_this_version() -> None:
    changelog = REPOSITORY / "CHANGELOG.md"
    if not changelog.is_file():
        pytest.skip("no CHANGELOG.md yet")
    versions = re.findall(r"^## \[?(\d[\w.]*)", changelog.read_text("utf-8"), re.MULTILINE)
    assert versions[0] == kifu.__version__


@pytest.mark.parametrize("name", kifu.__all__)
def test_public_names_are_documented(name: str) -> None:
    value = getattr(kifu, name)
    parts = {name: value}
    if inspect.isclass(value):
        parts |= {f"{name}.{key}": part for key, part in vars(value).items() if callable(part) and key[0] != "_"}
    assert [part for part, thing in parts.items() if not inspect.getdoc(thing)] == []


@pytest.mark.parametrize("name", modules())
def test_modules_are_documented_and_their_examples_are_true(name: str) -> None:
    module = importlib.import_module(name)
    assert module.__doc__ or hasattr(module, "__path__")  # a folder leaves it to its modules
    assert doctest.testmod(module).failed == 0


def test_there_are_examples() -> None:
    finder = doctest.DocTestFinder()
    found = [test for name in modules() for test in finder.find(importlib.import_module(name)) if test.examples]
    assert len(found) >= 5


def test_the_readme_is_true() -> None:
    readme = REPOSITORY / "README.md"
    if not readme.is_file():
        pytest.skip("no README.md yet")
    result = doctest.testfile(str(readme), module_relative=False, encoding="utf-8")
    assert result.failed == 0
    assert result.attempted > 0


def loaded(program: str) -> set[str]:
    """Which modules a Python has loaded at the end of a program."""
    told = "import atexit, sys\natexit.register(lambda: print(*sys.modules, file=sys.stderr))\n"
    done = subprocess.run([sys.executable, "-c", told + program], check=True, capture_output=True, text=True)
    return {name.partition(".")[0] for name in done.stderr.split()}


def test_import_loads_nothing_that_takes_time() -> None:
    assert loaded("import kifu; dir(kifu); kifu.__version__") & (HEAVY | {"typer", "rich"}) == set()


@pytest.mark.parametrize("arguments", [["--help"], ["--version"]])
def test_the_first_screens_load_nothing_that_takes_time(arguments: list[str]) -> None:
    program = f"import sys\nfrom kifu.cli import main\nsys.argv = {['kifu', *arguments]}\nmain()"
    assert loaded(program) & HEAVY == set()


@pytest.mark.parametrize("command", [command.callback.__name__ for command in app.registered_commands])
def test_the_help_of_a_command_loads_no_compiler(command: str) -> None:
    program = f"import sys\nfrom kifu.cli import main\nsys.argv = ['kifu', '{command}', '--help']\nmain()"
    assert loaded(program) & {"torch", "numba", "pyarrow", "numpy", "matplotlib"} == set()


def test_the_installed_command_is_this_package() -> None:
    done = subprocess.run([KIFU, "--version"], check=True, capture_output=True, text=True)
    assert done.stdout == f"kifu {kifu.__version__}\n"


def imports(path: Path) -> set[str]:
    """Full names of the modules, or of names in modules, that a file imports, wherever it does."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relative to itself"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


FILES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_room_imports_only_rooms_above_it(path: Path) -> None:
    where = path.relative_to(PACKAGE).as_posix()
    room = where.partition("/")[0].removesuffix(".py")
    assert room in ROOMS, f"{where} is in no room of the list"
    for name in imports(path):
        if name.startswith("kifu.") and name != "kifu.__version__":
            other = name.split(".")[1]
            assert other in ROOMS, f"{where} imports {name}, which is in no room"
            assert ROOMS.index(other) <= ROOMS.index(room) or (where, other) in LAZY, f"{where} imports {name}"


def test_who_uses_the_network() -> None:
    """Downloads; archives at addresses, whose parts are taken to pieces where they are named; the way to a cluster."""
    network = {"urllib", "urllib3", "http", "socket", "ssl", "requests", "fsspec", "aiohttp"}
    users = {path for path in FILES if {name.partition(".")[0] for name in imports(path)} & network}
    assert {path.relative_to(PACKAGE).parent.name for path in users} == {"fetch", "records", "execution"}
    others = {path.name for path in users if path.parent.name != "fetch"}
    assert others <= {"places.py", "_remote.py", "_store.py", "ray_cluster.py"}
