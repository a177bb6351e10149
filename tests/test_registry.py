"""The registry of named, versioned things."""

import pytest

from kifu.errors import RecipeError
from kifu.registry import Registry


def test_names_without_a_version_mean_the_newest() -> None:
    registry = Registry("shape", {"square@1": 1, "square@2": 2, "round@1": 3})
    for get in (registry.lookup, registry.__getitem__):
        assert [get(name) for name in ("square@1", "square", "round")] == [1, 2, 3]
    registry.register("round@2", 4)
    assert registry.lookup("round") == 4
    assert list(registry) == ["square@1", "square@2", "round@1", "round@2"]


def test_unknown_and_taken_names() -> None:
    registry = Registry("shape", {"square@1": 1})
    with pytest.raises(RecipeError, match=r"unknown shape 'squares'; did you mean 'square'\? available: square@1"):
        registry.lookup("squares")
    with pytest.raises(RecipeError, match="there is already a shape 'square@1'"):
        registry.register("square@1", 2)


def test_lazy_entries_are_imported_when_they_are_used() -> None:
    registry: Registry[object] = Registry("thing", {"pi@1": "math:pi", "missing@1": "no_such_module:x"})
    assert len(registry) == 2
    assert registry.lookup("pi") == pytest.approx(3.14159, abs=1e-5)
    with pytest.raises(ModuleNotFoundError):
        registry.lookup("missing")
