"""The order of packages, circles of imports, and who may use the network."""

import ast
from pathlib import Path

import size

SOURCE = Path(__file__).parents[1] / "src" / "kifu"
FILES = sorted(SOURCE.rglob("*.py"))
TREES = {path: ast.parse(path.read_text("utf-8")) for path in FILES}
IMPORTS = {path: size.imported_names(tree) for path, tree in TREES.items()}

# Packages and top-level modules: each imports only itself and those before it.
PACKAGES = [
    "errors", "text", "point", "registry", "progress", "retry", "process", "assets", "io", "config",
    "viz", "download", "compiler", "kernel", "execution", "go", "records",
    "corpus", "planes", "datasets", "recipes", "katago", "convert", "leaks", "publication", "search", "fetch",
    "learn", "play", "report", "web", "cli",
]  # fmt: skip

NETWORK_LIBRARIES = {"urllib", "urllib3", "http", "socket", "ssl", "requests", "fsspec", "aiohttp"}


def test_packages_import_only_earlier_packages() -> None:
    wrong = [
        f"{path} has a relative import"
        for path, tree in TREES.items()
        if any(isinstance(node, ast.ImportFrom) and node.level for node in ast.walk(tree))
    ]
    for path in FILES:
        if path == SOURCE / "__init__.py":
            continue
        where = path.relative_to(SOURCE).as_posix()
        package = where.partition("/")[0].removesuffix(".py")
        for name in {"kifu." + package, *IMPORTS[path]}:
            if name.startswith("kifu.") and name != "kifu.__version__":
                other = name.split(".")[1]
                if other not in PACKAGES:
                    wrong.append(f"{where}: {other} is in no package of the list")
                elif PACKAGES.index(other) > PACKAGES.index(package):
                    wrong.append(f"{where} imports {name}")
    assert wrong == []


def test_modules_have_no_import_cycles() -> None:
    """Imports inside functions count."""
    graph = size.import_graph({size.module_name(path, SOURCE): tree for path, tree in TREES.items()})
    assert size.circles(graph) == []


def test_only_these_modules_use_the_network() -> None:
    """Downloads, records at URLs, the connection to a cluster, and the web application."""
    users = {path for path in FILES if {name.partition(".")[0] for name in IMPORTS[path]} & NETWORK_LIBRARIES}
    users.remove(SOURCE / "corpus" / "query.py")  # only derives a local file system from fsspec's class
    assert {path.relative_to(SOURCE).parent.name for path in users} == {"", "fetch", "records", "execution", "web", "cli"}
    others = {path.name for path in users if path.parent.name != "fetch"}
    assert others <= {"download.py", "retry.py", "paths.py", "ray_executor.py", "guard.py", "server.py", "serve.py"}
