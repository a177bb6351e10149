"""The metrics of a run: a CSV file and, if tensorboard is installed, TensorBoard events."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from kifu.atomic_io import append_to, write_file
from kifu.errors import FormatError, OutputError
from kifu.files import read_small
from kifu.folders import cannot_write, make_folder, require_no_link, was_changed
from kifu.learn.loss import SUMS

COLUMNS = (
    "step", "epoch", "positions", "seconds", "lr", "rate", "loss", "top1", "top5", "value", "ownership",
    "validation_loss", "validation_top1", "validation_top5", "validation_value", "validation_ownership", "averaged",
)  # fmt: skip
"""Columns of the CSV file; a row leaves unknown values empty.

seconds: since the start of the run, including validation and checkpoints. rate: training positions per second. loss:
mean cross-entropy of the policy in nats. top1, top5: share of positions whose move is the first, or among the first
five. value, ownership: mean squared errors. Columns with the prefix `validation_` refer to held-out positions, the
others to the training positions since the previous row. averaged: 1 if the averaged weights were validated, 0 if the
raw weights of a run that averages.
"""

Row = dict[str, float]

_MAX_ROWS = 1_000_000
"""A row takes up to 2 kB of memory."""

_MIN_SHARE = 2 / 3
"""A run whose average rate is below this share of its first rate gets a remark."""


def mean_metrics(sums: Sequence[float], prefix: str = "") -> Row:
    """Return means of the sums listed in `kifu.learn.loss.SUMS`; an empty row if there are no positions.

    Args:
        sums: [8] sums over positions.
        prefix: Prefix of the names in the result.
    """
    named = dict(zip(SUMS, sums))
    if not named["positions"]:
        return {}
    row = {name: named[name] / named["positions"] for name in ("loss", "top1", "top5")}
    row |= {name: named[name] / named[f"{name}_known"] for name in ("value", "ownership") if named[f"{name}_known"]}
    return {prefix + name: value for name, value in row.items()}


def latest_values(rows: Sequence[Row]) -> Row:
    """Return the last value of each column."""
    return {name: value for row in rows for name, value in row.items()}


def slowdown(rows: Sequence[Row], minutes: float) -> str | None:
    """Return a remark if a run that was limited by time trained on far fewer positions than it began with.

    Args:
        minutes: The time limit, in whose first tenth the run began.
    """
    trained = [row for row in rows if "rate" in row]
    first = max((row["rate"] for row in trained if row["seconds"] <= 6 * minutes), default=0.0)
    positions = [row["positions"] for row in trained]
    seconds = sum((after - before) / row["rate"] for before, after, row in zip([0, *positions], positions, trained))
    average = positions[-1] / seconds if positions else 0.0
    if average >= _MIN_SHARE * first:
        return None
    return f"{average:,.0f} positions/s on average, {first:,.0f} at the beginning: the machine was busy"


class MetricsWriter:
    """Appends rows to a run's CSV file and, if tensorboard is installed, to TensorBoard event files.

    Attributes:
        rows: All rows so far, including those of the resumed part of the run.
    """

    def __init__(self, path: Path, resume_step: int | None = None, tensorboard: Path | None = None) -> None:
        """Create the CSV file, or continue it.

        Args:
            resume_step: Keep the file's rows up to this step; None starts a new file.
            tensorboard: Directory for TensorBoard events, which are written if tensorboard is installed.

        Raises:
            FormatError: The existing file cannot be read.
            OutputError: The file cannot be written.
        """
        self.path = path
        self.rows = [] if resume_step is None else [row for row in read_metrics(path) if row["step"] <= resume_step]
        write_file(path, (",".join(COLUMNS) + "\n" + "".join(map(_csv_line, self.rows))).encode())
        self._events = None
        if tensorboard is not None and find_spec("tensorboard"):
            from torch.utils.tensorboard import SummaryWriter

            with _as_output_error(tensorboard):
                make_folder(tensorboard)
                for entry in (tensorboard, *tensorboard.iterdir()):
                    require_no_link(entry)
                self._events = SummaryWriter(str(tensorboard))

    def add(self, row: Row) -> None:
        """Append a row."""
        self.rows.append(row)
        append_to(self.path, _csv_line(row).encode())
        if self._events is not None:
            with _as_output_error(self.path):
                if not self._has_events_folder():
                    raise was_changed(Path(self._events.log_dir))
                for name, value in row.items():
                    self._events.add_scalar(name.replace("validation_", "validation/"), value, int(row["step"]))
                self._events.flush()

    def close(self) -> None:
        """Flush and close the TensorBoard events. Raises OutputError."""
        if self._events is not None and self._has_events_folder():
            with _as_output_error(self.path):
                self._events.close()

    def _has_events_folder(self) -> bool:
        """Return whether the directory of the events exists; TensorBoard's thread prints a traceback if it does not."""
        return self._events is not None and Path(self._events.log_dir).is_dir()


@contextmanager
def _as_output_error(path: Path) -> Iterator[None]:
    """Convert the OSError of a writer of TensorBoard."""
    try:
        yield
    except OutputError:
        raise
    except OSError as error:
        raise cannot_write(path, error) from None


def _csv_line(row: Mapping[str, float]) -> str:
    return ",".join(f"{row[name]:.8g}" if name in row else "" for name in COLUMNS) + "\n"


def read_metrics(path: Path) -> list[Row]:
    """Return the rows of a run's CSV file, without an incomplete last row; no rows if there is no file.

    Raises:
        FormatError: The file cannot be read.
    """
    try:
        text = read_small(path).decode()
        complete = text[: text.rfind("\n") + 1]
        rows = []
        for cells in csv.DictReader(io.StringIO(complete)):
            row = {name: _parse_number(cells.get(name)) for name in COLUMNS}
            rows.append({name: value for name, value in row.items() if math.isfinite(value)})
            if len(rows) > _MAX_ROWS:
                raise FormatError(f"{path} has more than {_MAX_ROWS:,} rows")
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise FormatError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    return [row for row in rows if "step" in row]


def _parse_number(cell: str | None) -> float:
    try:
        return float(cell or "nan")
    except ValueError:
        return math.nan
