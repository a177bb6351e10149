"""Marks for single cases of a parametrized test."""

from typing import Any

import pytest


def slow(*cases: Any) -> list[Any]:
    """Return the cases, each a value or a tuple of values, for make test-all only."""
    return _marked(pytest.mark.slow, cases)


def thorough(*cases: Any) -> list[Any]:
    """Return the cases, each a value or a tuple of values, for make test-thorough only."""
    return _marked(pytest.mark.thorough, cases)


def _marked(mark: pytest.MarkDecorator, cases: tuple[Any, ...]) -> list[Any]:
    return [pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=mark) for case in cases]
