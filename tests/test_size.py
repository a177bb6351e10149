"""The counts of tools/size.py."""

import size


def test_circles_are_found() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": {"d"}, "f": {"a"}}
    assert size.circles(graph) == [["a", "b", "c"], ["d", "e"]]
    assert size.circles({"a": {"b"}, "b": set()}) == []
