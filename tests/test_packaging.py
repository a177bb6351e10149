"""The dependencies and extras of pyproject.toml, against the imports of the source and the documentation."""

import ast
import functools
import re
import sys
import tomllib
from pathlib import Path

from kifu.errors import EXTRAS

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
MODULES = {
    "lazy-loader": "lazy_loader",
}


def modules(requirements: list[str]) -> set[str]:
    """The names under which requirements are imported, without those on kifu itself."""
    names = {re.split(r"[\[<>=]", each)[0] for each in requirements}
    return {MODULES.get(name, name) for name in names - {"kifu"}}


@functools.cache
def imported() -> set[str]:
    """The packages that the source imports, at the top of a module or in a function."""
    found = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module)
    return {name.partition(".")[0] for name in found} - set(sys.stdlib_module_names) - {"kifu"}


def test_each_package_of_an_extra_is_listed_with_it() -> None:
    users = {name: modules(packages) for name, packages in PROJECT["optional-dependencies"].items()}
    listed = {name: {package for package, extra in EXTRAS.items() if extra == name} for name in set(EXTRAS.values())}
    assert {name: users[name] for name in listed} == listed


def test_each_import_is_a_dependency_or_in_an_extra() -> None:
    core = modules(PROJECT["dependencies"])
    assert not core & set(EXTRAS)
    assert core <= imported()
    assert imported() - {"grpc", "pydantic_core", "anyio", "h11"} <= core | set(
        EXTRAS
    )  # of ray, pydantic, starlette, uvicorn


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
