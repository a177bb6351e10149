"""The order of packages, circles of imports, who may use the network, and dependencies against what is imported."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest

import size
from kifu.errors import EXTRAS

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "kifu"
FILES = sorted(SOURCE.rglob("*.py"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

# Packages and top-level modules: each imports only itself and those before it.
PACKAGES = [
    "errors", "text", "point", "arrays", "registry", "progress", "retry", "process", "assets", "checksums", "io",
    "config", "viz", "download", "compiler", "kernel", "execution", "go", "records",
    "corpus", "planes", "datasets", "recipes", "katago", "convert", "leaks", "fetch", "publication", "search",
    "learn", "play", "report", "web", "cli", "__main__",
]  # fmt: skip

NETWORK_LIBRARIES = {"urllib", "urllib3", "http", "socket", "ssl", "requests", "fsspec", "aiohttp"}


class Parsed(NamedTuple):
    """The modules of the package: their trees, and the names that they import, inside functions too."""

    trees: dict[Path, ast.Module]
    imports: dict[Path, set[str]]


@pytest.fixture(scope="module")
def parsed() -> Parsed:
    trees = {path: ast.parse(path.read_text("utf-8")) for path in FILES}
    return Parsed(trees, {path: size.imported_names(tree) for path, tree in trees.items()})


def test_packages_import_only_earlier_packages(parsed: Parsed) -> None:
    texts = {path: path.read_text("utf-8") for path in FILES}
    wrong = [f"{path} has a relative import" for path, text in texts.items() if re.search(r"(?m)^ *from \.", text)]
    for path in FILES:
        if path == SOURCE / "__init__.py":
            continue
        where = path.relative_to(SOURCE).as_posix()
        package = where.partition("/")[0].removesuffix(".py")
        for name in {"kifu." + package, *parsed.imports[path]}:
            if name.startswith("kifu.") and name != "kifu.__version__":
                other = name.split(".")[1]
                if other not in PACKAGES:
                    wrong.append(f"{where}: {other} is in no package of the list")
                elif PACKAGES.index(other) > PACKAGES.index(package):
                    wrong.append(f"{where} imports {name}")
    assert wrong == []


def test_modules_have_no_import_cycles(parsed: Parsed) -> None:
    graph = size.import_graph({size.module_name(path, SOURCE): tree for path, tree in parsed.trees.items()})
    assert size.circles(graph) == []


def test_circles_are_found() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": {"d"}, "f": {"a"}}
    assert size.circles(graph) == [["a", "b", "c"], ["d", "e"]]
    assert size.circles({"a": {"b"}, "b": set()}) == []


def test_only_these_modules_use_the_network(parsed: Parsed) -> None:
    """Downloads, records at URLs, the connection to a cluster, and the web application."""
    users = {path for path in FILES if {name.partition(".")[0] for name in parsed.imports[path]} & NETWORK_LIBRARIES}
    users.remove(SOURCE / "corpus" / "query.py")  # only derives a local file system from fsspec's class
    named = {path.relative_to(SOURCE).as_posix() for path in users if path.parent.name != "fetch"}
    assert named == {
        "download.py", "retry.py", "records/paths.py", "execution/ray_executor.py", "web/server.py",
        "cli/serve.py",
    }  # fmt: skip


# Dependencies


def modules(requirements: list[str]) -> set[str]:
    """The names under which requirements are imported, without those on kifu itself."""
    names = {re.split(r"[\[<>=]", each)[0] for each in requirements}
    return {name.replace("-", "_") if name == "lazy-loader" else name for name in names - {"kifu"}}


def test_each_package_of_an_extra_is_listed_with_it() -> None:
    users = {name: modules(packages) for name, packages in PROJECT["optional-dependencies"].items()}
    listed = {name: {package for package, extra in EXTRAS.items() if extra == name} for name in set(EXTRAS.values())}
    assert {name: users[name] for name in listed} == listed


def test_each_import_is_a_dependency_or_in_an_extra(parsed: Parsed) -> None:
    names = {name.partition(".")[0] for names in parsed.imports.values() for name in names}
    imported = names - set(sys.stdlib_module_names) - {"kifu"}
    core = modules(PROJECT["dependencies"])
    assert not core & set(EXTRAS)
    assert core <= imported
    indirect = {"grpc", "pydantic_core", "anyio", "h11"}  # of ray, pydantic, starlette, uvicorn
    assert imported - indirect <= core | set(EXTRAS)


def test_all_has_every_extra_for_users_and_each_is_documented() -> None:
    (every,) = PROJECT["optional-dependencies"]["all"]
    assert set(every[len("kifu[") : -1].split(",")) == set(EXTRAS.values())
    page = (ROOT / "docs" / "install.md").read_text("utf-8")
    assert set(re.findall(r"^\| `kifu\[(\w+)\]`", page, re.MULTILINE)) == {*EXTRAS.values(), "all"}


def test_each_direct_dependency_is_pinned_and_explained() -> None:
    pins = {
        line.partition("==")[0].lower().replace("_", "-")
        for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    }
    reasons = (ROOT / "docs" / "architecture.md").read_text("utf-8").partition("## Dependencies")[2]
    groups = [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    direct = {re.split(r"[\[<>=]", each)[0] for group in groups for each in group} - {"kifu"}
    assert {name for name in direct if name not in pins} == set()
    assert {
        name for name in direct if name not in reasons.lower().replace("hugging face datasets", "datasets")
    } == set()


# Libraries that a command does without


@pytest.mark.subprocess
@pytest.mark.slow
def test_commands_do_not_import_pandas_beside_arrow(tmp_path: Path) -> None:
    """A module of this name, found first, writes down that it is imported."""
    sample, imported, fake = SOURCE / "assets" / "sample", tmp_path / "imported", tmp_path / "fake"

    def run(*line: str | Path) -> None:
        path = os.pathsep.join([str(fake), str(SOURCE.parent)])
        done = subprocess.run(
            [sys.executable, "-m", "kifu", *line], cwd=tmp_path, env=os.environ | {"PYTHONPATH": path},
            stdin=subprocess.DEVNULL, capture_output=True,
        )  # fmt: skip
        assert (done.returncode, imported.exists()) == (0, False), (line, done.stderr)

    run("ingest", sample, "-o", "games.parquet")
    fake.mkdir()
    (fake / "pandas.py").write_text(f"open({str(imported)!r}, 'w').close()\n")
    run("show", "games.parquet")
    run("split", "games.parquet", "-o", "sets")
    run("query", "select count(*) from kept", "games.parquet")
    run("predict", sample, "--game", "3", "--net", "small")
    run("gtp", "--net", "small")
