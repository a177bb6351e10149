"""Data files of the package: cards, recipes, rule sets, the sample archive and the packaged network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

OTHER_FORMATS = {
    "catalogue@3": "games of a corpus, one row each, in Parquet",
    "tokens@1": "games as sequences of tokens, for transformers, in arrays that np.load maps into memory",
    "search-index@3": "positions, captures and results of the games of a catalogue, for searches",
    "olf@1": "games as lines of text, in Schraudolph's one-line format",
    "katago-sgfs@1": "games of KataGo, with the figures of its search for each move",
    "ogs@1": "games of the Online Go Server as JSON, with the time of each move",
    "gib@1": "games of Tygem and eWeiqi",
    "tygem@1": "games of TYGEM and Tom as lines of moves, with the index beside them",
    "ngf@1": "games of WBaduk and Cyberoro",
    "ugf@1": "games of Pandanet, with the time of each move",
    "7z@1": "archives of records, also in volumes",
    "kifu-net@1": "a trained network with its metadata and the games it has seen, in safetensors",
}
"""Formats besides those of data sets, with a one-line description of each."""


def asset(*parts: str) -> Path:
    """Return the data file or folder at that path below `kifu/assets`.

    Examples:
        >>> asset("recipes", "agz17.toml").name
        'agz17.toml'
    """
    return Path(__file__).parent.joinpath(*parts)


def config_names(folder: str) -> list[str]:
    """Return the names of the TOML files in a folder, sorted."""
    return sorted(path.stem for path in asset(folder).glob("*.toml"))


def sample_path() -> Path:
    """Return the path of the bundled archive: games that GNU Go played against itself."""
    return next(asset("sample").glob("KGS-*.tar.gz"))


def read_titles(kind: Literal["nets", "planes"]) -> dict[str, str]:
    """Return the names of all networks or plane sets, each with a line of text, without loading their packages."""
    titles: dict[str, str] = json.loads(asset("titles.json").read_text("utf-8"))[kind]
    return titles


def read_card(kind: str, name: str) -> str:
    """Return the Markdown text of the card of a plane set or a format.

    Args:
        name: Full name of the plane set or format, such as "seven@1".
    """
    return asset("cards", kind, f"{name.partition('@')[0]}.md").read_text("utf-8")
