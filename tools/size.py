"""Report the size of the repository by package, and check it against the ceilings in pyproject.toml.

    python tools/size.py            # print the report
    python tools/size.py --check    # exit with 1 if a total exceeds its ceiling in [tool.kifu.size]
    python tools/size.py --tighten  # lower the ceilings to the present totals

Every line of a module has one kind: docstring, import, comment, blank, kernel (code of a function that `kifu.kernel`
compiles) or code. Imports count wherever they stand, also inside functions.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections import Counter, defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROJECT = ROOT / "pyproject.toml"
KINDS = ("code", "kernel", "docstring", "import", "comment", "blank")
MAX_MODULE = 900
TITLES = {
    "lines": "lines of src/kifu",
    "classes": "classes in it",
    "equal-class-names": "names that several classes have, ignoring leading underscores",
    "circles": "groups of modules that import each other",
    "public-names": "names that `import kifu` offers",
    "doc-words": "words of docs/**/*.md",
    "test-lines": "lines of tests/**/*.py",
    "modules-over-900-lines": "modules of src/kifu and tests that are longer",
    "names-bound-twice": "names that the top level of one of these modules binds several times",
}


def module_name(path: Path, source: Path) -> str:
    """Return the dotted name of a module of the package at `source`."""
    return ".".join(path.relative_to(source.parent).with_suffix("").parts).removesuffix(".__init__")


def imported_names(tree: ast.AST) -> set[str]:
    """Return the full names that a module imports anywhere, inside functions too: modules, or names in modules."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def import_graph(trees: dict[str, ast.Module]) -> dict[str, set[str]]:
    """Return the modules among `trees` that each of them imports, inside functions too."""
    graph = {}
    for module, tree in trees.items():
        owners = {name if name in trees else name.rpartition(".")[0] for name in imported_names(tree)}
        graph[module] = (owners & trees.keys()) - {module}
    return graph


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
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
        tuple(sorted(other for other in reachable[node] if node in reachable[other]))
        for node in graph
        if node in reachable[node]
    }
    return sorted(list(group) for group in groups)


def bound_names(tree: ast.Module) -> Counter[str]:
    """Return how often the top level of a module binds each name.

    Overloads and `_` do not count, and neither do the branches of an `if` or a `try`, of which only one is run.
    """
    names: Counter[str] = Counter()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names[node.name] += "overload" not in map(ast.unparse, node.decorator_list)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names.update(alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            bound = [each for each in targets if not isinstance(each, ast.Attribute | ast.Subscript)]
            names.update({part.id for each in bound for part in ast.walk(each) if isinstance(part, ast.Name)} - {"_"})
    return names


def line_kinds(text: str, tree: ast.Module) -> Counter[str]:
    """Return the number of lines of each kind."""
    lines = text.splitlines()
    kinds = ["blank" if not line.strip() else "comment" if line.lstrip().startswith("#") else "code" for line in lines]

    def mark(node: ast.expr | ast.stmt, kind: str, kept: tuple[str, ...] = ()) -> None:
        assert node.end_lineno is not None
        for at in range(node.lineno - 1, node.end_lineno):
            if kinds[at] not in kept:
                kinds[at] = kind

    # Outer nodes come first, so that the docstrings and imports of kernels keep their kind.
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and {"kernel", "inline_kernel"} & set(
            map(ast.unparse, node.decorator_list)
        ):
            mark(node, "kernel", ("blank", "comment"))
        elif isinstance(node, ast.Import | ast.ImportFrom):
            mark(node, "import")
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            mark(node, "docstring")
    return Counter(kinds)


def count_lines(paths: list[Path]) -> int:
    """Return the number of lines of all files."""
    return sum(len(path.read_text("utf-8").splitlines()) for path in paths)


def python_files(folder: Path) -> list[Path]:
    """Return the Python files below a folder."""
    return sorted(path for path in folder.rglob("*.py") if "__pycache__" not in path.parts)


def tests_of(package: str) -> list[Path]:
    """Return the test files of a package, or of a single module."""
    tests = ROOT / "tests"
    return python_files(tests / package) if (tests / package).is_dir() else sorted(tests.glob(f"test_{package}.py"))


def measure() -> tuple[dict[str, int], dict[str, Counter[str]], list[str]]:
    """Return the totals, the figures of each package, and what the figures for names and circles consist of."""
    source = ROOT / "src" / "kifu"
    texts = {module_name(path, source): path.read_text("utf-8") for path in python_files(source)}
    trees = {name: ast.parse(text) for name, text in texts.items()}
    packages: dict[str, Counter[str]] = defaultdict(Counter)
    homes = defaultdict(list)
    for name, tree in trees.items():
        row = packages[name.split(".")[1] if "." in name else "kifu"]
        row["modules"] += 1
        row["lines"] += len(texts[name].splitlines())
        row += line_kinds(texts[name], tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                row["classes"] += 1
                homes[node.name.lstrip("_")].append(name)
    stub = ast.parse((source / "__init__.pyi").read_text("utf-8"))
    public = [node.module or "" for node in stub.body if isinstance(node, ast.ImportFrom) for _ in node.names]
    for module in public:
        packages[module.split(".")[0]]["public-names"] += 1
    for package, row in packages.items():
        row["test-lines"] = count_lines(tests_of(package))
    tests = ROOT / "tests"
    texts |= {str(path.relative_to(ROOT)): path.read_text("utf-8") for path in python_files(tests)}
    long = [name for name, text in texts.items() if len(text.splitlines()) > MAX_MODULE]
    bound = {name: bound_names(trees.get(name) or ast.parse(text)) for name, text in texts.items()}
    twice = [f"{name} in {module}" for module, names in bound.items() for name, n in names.items() if n > 1]
    groups = circles(import_graph(trees))
    shared = {name: modules for name, modules in sorted(homes.items()) if len(modules) > 1}
    totals = {key: sum(row[key] for row in packages.values()) for key in ("modules", "lines", "classes", *KINDS)}
    totals |= {
        "equal-class-names": len(shared),
        "circles": len(groups),
        "public-names": len(public),
        "doc-words": sum(len(path.read_text("utf-8").split()) for path in (ROOT / "docs").rglob("*.md")),
        "test-lines": count_lines(python_files(tests)),
        "modules-over-900-lines": len(long),
        "names-bound-twice": len(twice),
    }
    notes = [f"equal class names: {name} in {', '.join(modules)}" for name, modules in shared.items()]
    notes += [f"circle: {', '.join(group)}" for group in groups]
    notes += [f"over {MAX_MODULE} lines: {name}" for name in long]
    return totals, packages, notes + [f"bound twice: {name}" for name in twice]


def print_report(totals: dict[str, int], packages: dict[str, Counter[str]], notes: list[str]) -> None:
    """Print a table of the packages, then the totals."""
    columns = ("modules", "lines", *KINDS, "classes", "public-names", "test-lines")
    print(" " * 14, *(f"{column:>12}" for column in columns), sep="")
    for name, row in sorted(packages.items(), key=lambda item: -item[1]["lines"]):
        print(f"{name:14}", *(f"{row[column]:12,}" for column in columns), sep="")
    print(f"{'all':14}", *(f"{totals[column]:12,}" for column in columns), sep="")
    print(*notes, sep="\n")
    for key, title in TITLES.items():
        print(f"{key:24}{totals[key]:8,}  (at most {ceilings()[key]:,})  {title}")


def ceilings() -> dict[str, int]:
    """Return the ceilings in pyproject.toml."""
    return dict(tomllib.loads(PROJECT.read_text("utf-8"))["tool"]["kifu"]["size"])


def tighten(totals: dict[str, int]) -> None:
    """Lower the ceilings to the totals. A ceiling is only raised by hand, in a commit that gives the reason."""
    text = PROJECT.read_text("utf-8")
    for key, ceiling in ceilings().items():
        text = re.sub(rf"(?m)^{key} = \d+$", f"{key} = {min(ceiling, totals[key])}", text)
    PROJECT.write_text(text, "utf-8")


def main(arguments: list[str]) -> int:
    """Run the command line, and return its exit status."""
    totals, packages, notes = measure()
    if arguments == ["--tighten"]:
        tighten(totals)
    elif arguments == ["--check"]:
        exceeded = [
            f"size: {key} is {totals[key]:,}, at most {most:,}"
            for key, most in ceilings().items()
            if totals[key] > most
        ]
        print(*exceeded, sep="\n", end="\n" if exceeded else "")
        return int(bool(exceeded))
    else:
        print_report(totals, packages, notes)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
