"""Names that the top level of a module binds, as tools/size.py counts them."""

import ast

import size


def test_names_bound_twice_are_found() -> None:
    source = """
from typing import overload
import a, b as a
try:
    import c
except ImportError:
    c = None
@overload
def f(x: int): ...
@overload
def f(x: str): ...
def f(x): ...
d, _ = e = 1, 2
_ = [d for d in e]
e[0] = d
class d: ...
"""
    found = size.bound_names(ast.parse(source))
    assert [name for name, count in found.items() if count > 1] == ["a", "d"]
