"""kifu turns Go game records into clean, reproducible training sets.

    for game in kifu.read("KGS-2006-19-10388-.tar.gz"): ...     iterate over games of archives, folders and records
    kifu.ingest("kgs", "games.parquet")                         write them to a catalogue, cleaned
    kifu.append("fox", "games")                                 extend a partitioned catalogue
    planes, labels = kifu.encode(game, "seven")                 encode positions as feature planes and moves
    for batch in kifu.load("games.parquet", "seven"): ...       stream shuffled, augmented batches
    with kifu.open("kgsgo-test-v2.dat") as data: data[0]        memory-map a data set
    board = kifu.Board(19); board.play("D4")                    play by the rules

Names are imported when they are first used, so `import kifu` is fast. Functions that need torch are not among them:
`kifu.learn.train.train`, `kifu.learn.net.open_net`, `kifu.learn.predict.Predictor`, `kifu.learn.evaluate.evaluate`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kifu.corpus.catalogue import Catalogue, open_catalogue
    from kifu.corpus.cleaning import CleaningRules, load_cleaning_rules
    from kifu.corpus.ingest import ingest
    from kifu.corpus.update import append, compact
    from kifu.datasets.dat import Dat
    from kifu.datasets.epoch_plan import LoaderConfig
    from kifu.datasets.formats import open
    from kifu.datasets.loader import Loader, load
    from kifu.datasets.position_filter import PositionFilter
    from kifu.errors import (
        ClusterError,
        DropReason,
        FormatError,
        GameError,
        IllegalMove,
        KifuError,
        OutputError,
        RecipeError,
        RecordError,
        SourceError,
    )
    from kifu.go.board import Board
    from kifu.go.rules import Rules
    from kifu.planes.encode import encode
    from kifu.recipes.kgsgo import build
    from kifu.recipes.schema import load_recipe
    from kifu.records.game import Game, read, read_games, read_sgf, write_sgf
    from kifu.records.meta import Rank, Result

_HOMES = {
    "Board": "kifu.go.board",
    "Catalogue": "kifu.corpus.catalogue",
    "CleaningRules": "kifu.corpus.cleaning",
    "ClusterError": "kifu.errors",
    "Dat": "kifu.datasets.dat",
    "DropReason": "kifu.errors",
    "FormatError": "kifu.errors",
    "Game": "kifu.records.game",
    "GameError": "kifu.errors",
    "IllegalMove": "kifu.errors",
    "KifuError": "kifu.errors",
    "Loader": "kifu.datasets.loader",
    "LoaderConfig": "kifu.datasets.epoch_plan",
    "OutputError": "kifu.errors",
    "PositionFilter": "kifu.datasets.position_filter",
    "Rank": "kifu.records.meta",
    "RecipeError": "kifu.errors",
    "RecordError": "kifu.errors",
    "Result": "kifu.records.meta",
    "Rules": "kifu.go.rules",
    "SourceError": "kifu.errors",
    "append": "kifu.corpus.update",
    "build": "kifu.recipes.kgsgo",
    "compact": "kifu.corpus.update",
    "encode": "kifu.planes.encode",
    "ingest": "kifu.corpus.ingest",
    "load": "kifu.datasets.loader",
    "load_cleaning_rules": "kifu.corpus.cleaning",
    "load_recipe": "kifu.recipes.schema",
    "open": "kifu.datasets.formats",
    "open_catalogue": "kifu.corpus.catalogue",
    "read": "kifu.records.game",
    "read_games": "kifu.records.game",
    "read_sgf": "kifu.records.game",
    "write_sgf": "kifu.records.game",
}

__all__ = [
    "Board",
    "Catalogue",
    "CleaningRules",
    "ClusterError",
    "Dat",
    "DropReason",
    "FormatError",
    "Game",
    "GameError",
    "IllegalMove",
    "KifuError",
    "Loader",
    "LoaderConfig",
    "OutputError",
    "PositionFilter",
    "Rank",
    "RecipeError",
    "RecordError",
    "Result",
    "Rules",
    "SourceError",
    "append",
    "build",
    "compact",
    "encode",
    "ingest",
    "load",
    "load_cleaning_rules",
    "load_recipe",
    "open",
    "open_catalogue",
    "read",
    "read_games",
    "read_sgf",
    "write_sgf",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("kifu")
    if name not in _HOMES:
        raise AttributeError(f"module 'kifu' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
