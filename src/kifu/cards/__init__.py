"""The spec cards that come with the package, which are the files of docs/planes and docs/formats."""

from __future__ import annotations

from importlib import resources


def card(kind: str, name: str) -> str:
    """The card of a plane set (kind "planes") or format (kind "formats"), by its full name: its Markdown text."""
    stem = name.partition("@")[0]
    return resources.files("kifu.cards").joinpath(kind, f"{stem}.md").read_text("utf-8")
