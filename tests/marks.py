"""Marks for single cases of a parametrized test."""

from typing import Any

import pytest


def slow(*cases: Any) -> list[Any]:
    """Return the cases, each a value or a tuple of values, for make test-all only."""
    return [pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow) for case in cases]
