"""What is measured in a run: rows of a CSV file, which goes on where a run does, and the same for TensorBoard."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from kifu.atomic_io import cannot_write, write_file
from kifu.errors import FormatError
from kifu.learn.module import COUNTED

COLUMNS = (
    "step", "epoch", "positions", "seconds", "lr", "rate", "loss", "top1", "top5", "value", "ownership",
    "validation_loss", "validation_top1", "validation_top5", "validation_value", "validation_ownership",
)  # fmt: skip
"""seconds: since the run began, validation and checkpoints included.  rate: positions a second.

loss: of the policy, mean cross-entropy in nats; top1, top5: the share of positions whose move was the first, or among
the first five; value, ownership: mean square errors. Without `validation_` they are of the training since the row
before, as it went; with it they are of the positions held out. What a row does not tell is left empty."""

Row = dict[str, float]


def figures(sums: Sequence[float], prefix: str = "") -> Row:
    """Means of sums as `kifu.learn.module.COUNTED` lists them; empty if there were no positions."""
    told = dict(zip(COUNTED, sums))
    if not told["positions"]:
        return {}
    row = {name: told[name] / told["positions"] for name in ("loss", "top1", "top5")}
    row |= {name: told[name] / told[f"{name}_known"] for name in ("value", "ownership") if told[f"{name}_known"]}
    return {prefix + name: value for name, value in row.items()}


def latest(rows: Sequence[Row]) -> Row:
    """The last figure of each kind."""
    return {name: value for row in rows for name, value in row.items()}


class Metrics:
    """The rows of a run, and their file. A row is appended as it comes; one that a kill has torn is not read."""

    def __init__(self, path: Path, until: int | None = None) -> None:
        """until: keeps the rows of an earlier part of the run up to that step; None: begins anew.

        Raises FormatError, OutputError.
        """
        self.path = path
        self.rows = [] if until is None else [row for row in read_metrics(path) if row["step"] <= until]
        write_file(path, (",".join(COLUMNS) + "\n" + "".join(map(_line, self.rows))).encode())

    def add(self, row: Row) -> None:
        """Raises OutputError."""
        self.rows.append(row)
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(_line(row))
        except OSError as error:
            raise cannot_write(self.path, error) from None


def _line(row: Mapping[str, float]) -> str:
    return ",".join(f"{row[name]:.8g}" if name in row else "" for name in COLUMNS) + "\n"


def read_metrics(path: Path) -> list[Row]:
    """The rows of a run's file, without one that is not whole. Raises FormatError."""
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise FormatError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    whole = text[: text.rfind("\n") + 1]
    rows = []
    for cells in csv.DictReader(io.StringIO(whole)):
        row = {name: _number(cells.get(name)) for name in COLUMNS}
        rows.append({name: value for name, value in row.items() if math.isfinite(value)})
    return [row for row in rows if "step" in row]


def _number(cell: str | None) -> float:
    try:
        return float(cell or "nan")
    except ValueError:
        return math.nan
