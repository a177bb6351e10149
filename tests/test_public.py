"""The public interface: names, documentation and import time."""

import ast
import doctest
import importlib
import importlib.metadata
import inspect
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import pytest

import kifu
import size
from commands import KIFU
from kifu.errors import EXTRAS

REPOSITORY = Path(__file__).parents[1]
SOURCE = REPOSITORY / "src" / "kifu"
FILES = sorted(SOURCE.rglob("*.py"))
MODULES = {size.module_name(path, SOURCE): path for path in FILES}

# Distributions that take long to import.
HEAVY = {
    "torch", "numba", "pyarrow", "numpy", "matplotlib", "pydantic", "urllib3", "duckdb",
    "ray", "fsspec",
}  # fmt: skip

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
    assert kifu.__version__ == importlib.metadata.version("kifu")


def test_changelog_begins_with_this_version() -> None:
    changelog = REPOSITORY / "CHANGELOG.md"
    if not changelog.is_file():
        pytest.skip("no CHANGELOG.md yet")
    versions = re.findall(r"^## \[?(\d[\w.]*)", changelog.read_text("utf-8"), re.MULTILINE)
    assert versions[0] == kifu.__version__


def test_public_names_are_documented() -> None:
    members: dict[str, object] = {name: getattr(kifu, name) for name in HOMES if not name.isupper()}
    for name, value in list(members.items()):
        if inspect.isclass(value):
            members |= {f"{name}.{key}": part for key, part in vars(value).items() if callable(part) and key[0] != "_"}
    assert [name for name, member in members.items() if not inspect.getdoc(member)] == []


@pytest.mark.slow
def test_modules_have_docstrings_and_passing_doctests() -> None:
    modules = [importlib.import_module(name) for name in MODULES]
    # Packages may leave their docstring to their modules.
    assert [module.__name__ for module in modules if not (module.__doc__ or hasattr(module, "__path__"))] == []
    results = {module.__name__: doctest.testmod(module) for module in modules}
    assert [name for name, result in results.items() if result.failed] == []
    assert sum(result.attempted for result in results.values()) >= 5


LOADED = """
import contextlib, sys

def loaded(what):
    print(what, *{name.partition(".")[0] for name in sys.modules}, *sys.modules, file=sys.stderr)

import kifu

dir(kifu), kifu.__version__
loaded("import")
from kifu.cli import app, main

kinds = "list planes", "list formats", "list nets", "list recipes", "list rules"
for line in ["--help", "--version", "list", "fetch", *kinds]:
    sys.argv = ["kifu", *line.split()]
    try:
        main()
    except SystemExit as leaving:
        assert not leaving.code, line
loaded("lists")
for arguments in [[], ["--version"], *([name] for name in app.list_commands(None))]:
    sys.argv = ["kifu", *arguments, *([] if "--version" in arguments else ["--help"])]
    try:
        main()
    except SystemExit as leaving:
        assert not leaving.code, arguments
    loaded(" ".join(["kifu", *arguments]).replace(" ", "-"))
for line in ["train small no.sgf -o no --set per_game=4", "train small no.sgf -o no", "evaluate no.sgf --net no"]:
    sys.argv = ["kifu", *line.split()]
    with contextlib.suppress(SystemExit):
        main()
loaded("refused")
"""


@pytest.mark.subprocess
def test_import_and_help_load_nothing_heavy() -> None:
    """One process imports kifu, then shows the version and every help; what each step loads stays loaded."""
    done = subprocess.run([sys.executable, "-c", LOADED], check=True, capture_output=True, text=True, timeout=120)
    loaded = {what: set(names) for what, *names in map(str.split, done.stderr.splitlines())}
    assert len(loaded) > 20
    assert loaded["import"] & (HEAVY | {"click", "rich"}) == set()
    assert loaded["lists"] & (HEAVY | {"rich", "pydantic", "importlib.metadata"}) == set()
    assert loaded["kifu"] & HEAVY == set()
    assert loaded["kifu---version"] & HEAVY == set()
    assert "torch" not in loaded.pop("refused")
    compilers = {"torch", "numba", "pyarrow", "numpy", "matplotlib"}
    assert {what: names & compilers for what, names in loaded.items() if names & compilers} == {}


@pytest.mark.subprocess
def test_installed_command_runs_this_package() -> None:
    done = subprocess.run([KIFU, "--version"], check=True, capture_output=True, text=True, timeout=120)
    assert done.stdout == f"kifu {kifu.__version__}\n"


def test_errors_are_also_builtin_errors(tmp_path: Path) -> None:
    (tmp_path / "not.dat").write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"^unknown recipe 'nix'; available: "):
        kifu.load_recipe("nix")
    with pytest.raises(ValueError, match=r"^no game record in 2 bytes"):
        kifu.read_sgf(b"()")
    with pytest.raises(ValueError, match=r"^move 1 is illegal"):
        kifu.Board(5).play(25 + 1)
    with pytest.raises(ValueError, match=r"not\.dat"):
        kifu.open(tmp_path / "not.dat")
    with pytest.raises(OSError, match=r"^nowhere: No such file or directory$"):
        list(kifu.read("nowhere"))
    with pytest.raises(OSError, match=r"^cannot write .*: Not a directory$"):
        kifu.ingest(kifu.sample_path(), tmp_path / "not.dat" / "games.parquet")


def test_extras_install_the_packages_that_errors_name() -> None:
    extras = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    names = {extra: [re.split(r"[\[<>=]", line)[0].replace("-", "_") for line in extras[extra]] for extra in extras}
    assert {package: extra for package, extra in EXTRAS.items() if package not in names[extra]} == {}


@pytest.mark.parametrize(("package", "name"), [("torch", "train"), ("duckdb", "query")])
def test_missing_extras_are_named(monkeypatch: pytest.MonkeyPatch, package: str, name: str) -> None:
    for module in [module for module in sys.modules if module == HOMES[name] or module.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(vars(kifu), name, raising=False)
    message = f"{package} is required: pip install 'kifu[{EXTRAS[package]}]'"
    with pytest.raises(kifu.MissingExtra, match=f"^{re.escape(message)}$") as raised:
        getattr(kifu, name)
    assert isinstance(raised.value, ImportError)


def test_objects_have_a_repr_of_one_line(tmp_path: Path) -> None:
    catalogue = tmp_path / "games.parquet"
    report = kifu.ingest(kifu.sample_path(), catalogue, clean="schraudolph")
    game = next(kifu.read(kifu.sample_path()))
    recipe = kifu.load_recipe("agz17", ["clean=legal"])
    (built,) = kifu.build(recipe, catalogue, tmp_path / "data", sets=["test"])
    with kifu.open(built.path) as data:
        shown = [
            report, kifu.open_catalogue(catalogue), kifu.stats(catalogue), kifu.audit([catalogue, catalogue]), game,
            game.board(20), kifu.load(catalogue, "seven"), built, built.manifest, data, kifu.load_recipe("quick-cpu"),
        ]  # fmt: skip
        texts = [repr(each).replace(f"{tmp_path}/", "") for each in shown]
    assert [text for text in texts if len(text) > 150 or "\n" in text] == []
    assert texts[:2] == [
        "<IngestReport: 320 games = 320 kept; 54,734 legal moves, 93.0 kB; kept with repairs: pass_as_tt 24>",
        "<Catalogue 'games.parquet': 320 games, 320 kept>",
    ]
    assert texts[5:7] == [
        "<Board 19 x 19, ply 20, White to play>",
        "<Loader: seven@1 (7 x 19 x 19), labels move, batches of 256, epoch 0, batch 0>",
    ]
    batch = next(iter(kifu.load(catalogue, "seven")))
    assert repr(batch) == "<Batch: planes [256, 7, 46] uint8, move [256] int16, game [256] uint64, ply [256] int32>"


def test_notebooks_show_pictures_if_matplotlib_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    game = next(kifu.read(kifu.sample_path()))
    board = game.board(20)
    for shown in (game, board):
        picture = shown._repr_svg_()
        assert picture is not None
        assert ElementTree.fromstring(picture).tag == "{http://www.w3.org/2000/svg}svg"
    for module in [module for module in sys.modules if module.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert game._repr_svg_() is board._repr_svg_() is None


@pytest.mark.slow
@pytest.mark.subprocess
def test_type_checkers_know_the_type_of_every_public_name(tmp_path: Path) -> None:
    lines = ["import kifu", *(f"reveal_type(kifu.{name})" for name in HOMES)]
    lines.append("kifu.nix  # type: ignore[attr-defined]")  # strict mode reports an unneeded comment
    script = tmp_path / "names.py"
    script.write_text("\n".join(lines))
    command = [sys.executable, "-m", "mypy", "--config-file", REPOSITORY / "pyproject.toml", script]
    done = subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY, check=False, timeout=120)
    revealed = re.findall(r'note: Revealed type is "(.*)"', done.stdout)
    assert (done.returncode, len(revealed)) == (0, len(HOMES)), done.stdout
    assert [kind for kind in revealed if kind == "Any"] == []
