"""Collecting the tests is quick and takes little memory."""

from pathlib import Path

TESTS = Path(__file__).parent


def test_collection_imports_no_large_package(imported_by_collection: frozenset[str]) -> None:
    """Each process that runs tests collects all of them."""
    assert not imported_by_collection & {"torch", "ray", "keras", "datasets", "moto"}


def test_no_two_test_files_share_a_name() -> None:
    """Tests are in no packages, so pytest imports each file by its name."""
    names = [path.name for path in TESTS.rglob("*.py") if path.name != "conftest.py"]
    assert sorted(names) == sorted(set(names))
