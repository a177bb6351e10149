"""The spec cards that come with the package, which are the files of docs/planes and docs/formats."""

from __future__ import annotations

from importlib import resources

OTHER_FORMATS = {
    "catalogue@1": "games of a corpus, one row each, in Parquet",
    "olf@1": "games as lines of text, in Schraudolph's one-line format",
    "tygem@1": "games of TYGEM as lines of moves, and the index beside them",
    "katago-npz@1": "KataGo's training rows, planes and targets, in a folder of .npz files",
    "kifu-net@1": "a trained net: its weights, what it is, and which games it was learned from, in safetensors",
}
"""What is not made of any planes that one names, with one line for people each."""


def card(kind: str, name: str) -> str:
    """The card of a plane set (kind "planes") or format (kind "formats"), by its full name: its Markdown text."""
    stem = name.partition("@")[0]
    return resources.files("kifu.cards").joinpath(kind, f"{stem}.md").read_text("utf-8")
