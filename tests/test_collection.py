"""Collecting the tests is quick and takes little memory."""


def test_collection_imports_no_large_package(imported_by_collection: frozenset[str]) -> None:
    """Each process that runs tests collects all of them."""
    assert not imported_by_collection & {"torch", "ray", "keras", "datasets", "moto"}
