"""Network inputs computed by KataGo for real and constructed games, and these games from a catalogue."""

import tarfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kifu.corpus.catalogue import open_catalogue
from kifu.corpus.ingest import ingest
from kifu.corpus.schema import game_arrays
from kifu.katago.rules import KataRules, resolve_rules
from kifu.records.games import GameArrays

ARCHIVES = {
    "KGS2001": "KGS-2001-19-2298-.tar.gz",
    "kgs-19-2006": "KGS-2006-19-10388-.tar.gz",
    "kgs-19-2016-01-new": "KGS-2016_01-19-756-.tar.gz",
}


class Reference(NamedTuple):
    """A reference file and its games.

    rows: its arrays by name.  games: the games of the catalogue.  order: [G], the rows there of the file's games.
    rules: [G] of `GAME_RULES`.
    """

    rows: dict[str, npt.NDArray]
    games: GameArrays
    order: npt.NDArray[np.int64]
    rules: npt.NDArray


def read_reference(shared: Path, name: str, folder: Path) -> Reference:
    """Read the reference `name` (dev, area, handmade) and unpack its records into a folder."""
    with np.load(shared / "reference" / "katago" / f"{name}.npz") as file:
        rows = {key: file[key] for key in file.files}
    wanted = set(rows["names"].tolist())
    if name == "handmade":
        archives = [shared / "reference" / "katago" / "handmade-sgf.tar.gz"]
    else:
        archives = [shared / "data" / "kgs" / ARCHIVES[top] for top in sorted({each.split("/")[0] for each in wanted})]
    for archive in archives:
        unpack(archive, wanted, folder / name)
    ingest(folder / name, folder / f"{name}.parquet", jobs=1)
    (batch,) = open_catalogue(folder / f"{name}.parquet").batches()
    row_of = {member: i for i, member in enumerate(batch.column("member").to_pylist())}
    rules, _ = resolve_rules(batch.column("rules"), batch.column("komi"), batch.column("handicap"), KataRules(), 6.5)
    order = np.array([row_of[each] for each in rows["names"].tolist()])
    return Reference(rows, game_arrays(batch), order, rules[order])


def unpack(archive: Path, wanted: set[str], folder: Path) -> None:
    """Write the wanted members of an archive to a folder, under the given names."""
    with tarfile.open(archive) as tar:
        for member in tar:
            for name in (member.name, Path(member.name).name):
                if name in wanted:
                    path = folder / name
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(tar.extractfile(member).read())
