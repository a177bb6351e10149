"""Collecting the tests is quick and takes little memory, and their files mirror those of the package."""

from pathlib import Path

TESTS = Path(__file__).parent
SOURCE = TESTS.parent / "src" / "kifu"
OTHERS = {"collection", "public", "scale"}
"""Subjects of files that are no modules: pytest, `import kifu`, benchmarks."""


def test_collection_imports_no_large_package(imported_by_collection: frozenset[str]) -> None:
    """Each process that runs tests collects all of them."""
    assert not imported_by_collection & {"torch", "ray", "keras", "datasets", "moto"}


def test_files_are_named_after_a_module_with_an_optional_topic() -> None:
    """Those of promises and of the pages of the client have names of their own."""
    wrong = []
    for path in TESTS.rglob("test_*.py"):
        folder = path.parent.relative_to(TESTS)
        if folder.as_posix() in ("promises", "web/pages"):
            continue
        modules = {module.stem.strip("_") for module in (SOURCE / folder).glob("*.py")} | OTHERS
        words = path.stem.removeprefix("test_").split("_")
        if not any("_".join(words[:count]) in modules for count in range(1, len(words) + 1)):
            wrong.append(path.relative_to(TESTS).as_posix())
    assert wrong == []
