"""kifu turns Go game records into clean, reproducible training sets, and trains nets on them.

    for game in kifu.read("KGS-2006-19-10388-.tar.gz"): ...     iterate over games of archives, folders and records
    kifu.ingest("kgs", "games.parquet")                         write them to a catalogue, cleaned
    kifu.split("games.parquet", "sets")                         split it into sets that share no game
    kifu.build("agz17", "sets/train.parquet", "data")           build the data sets of a recipe
    for batch in kifu.load("games.parquet", "seven"): ...       stream shuffled, augmented batches
    planes, labels = kifu.encode(game, "seven")                 encode positions as feature planes and moves
    with kifu.open("data/train.parquet") as data: data[0]       read a data set
    kifu.train("quick-cpu", "games.parquet", "run")             train a net (requires kifu[learn])
    board = kifu.Board(19); board.play("D4")                    play by the rules

`__init__.pyi` lists the public names. They are imported when they are first used, so `import kifu` is fast.
"""

from __future__ import annotations

from typing import Any

import lazy_loader

from kifu.errors import missing_extras

__version__ = "0.17.0"

_import, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__all__.remove("open")  # so that `from kifu import *` keeps the builtin


def __getattr__(name: str) -> Any:
    with missing_extras():
        return _import(name)
