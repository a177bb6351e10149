"""Reports: files that `kifu evaluate --json`, `kifu benchmark --json` and `kifu audit --json` wrote."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kifu.config import Line
from kifu.errors import FormatError, SourceError, first_line, printable
from kifu.files import read_small, utf8_name

MAX_BYTES = 16 << 20
"""Maximum size of a report."""

_Count = Annotated[int, Field(ge=0)]
_Number = Annotated[float, Field(allow_inf_nan=False)]
_Interval = tuple[_Number, _Number, _Number]
"""Value, lower and upper bound."""


class _Model(BaseModel):
    """Base of the parts of a report. Fields that are not shown are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class _Score(_Model):
    """The accuracy of a net on some positions, see `kifu.learn.scores.Score`."""

    positions: _Count
    games: _Count
    top1: _Interval
    top3: _Interval
    top5: _Interval
    nll: _Interval


class _CalibrationBin(_Model):
    """A bin of the calibration: confidence `sure` and accuracy `right`."""

    start: _Number = Field(alias="from")
    stop: _Number = Field(alias="to")
    positions: _Count
    sure: _Number
    right: _Interval


class _Calibration(_Model):
    """The calibration of a net."""

    error: _Interval
    bins: Annotated[list[_CalibrationBin], Field(max_length=1000)]


class _ValueErrors(_Model):
    """Errors of a net's value; None where there are no positions."""

    positions: _Count
    games: _Count
    squared: _Interval | None
    bias_black: _Interval | None
    bias_white: _Interval | None


class _EvaluatedNet(_Model):
    """The results of a net."""

    name: Line
    net: Line
    known_games: _Count
    learned: _Count
    score: _Score
    calibration: _Calibration
    entropy: _Interval
    value: _ValueErrors | None
    by: dict[Line, dict[Line, _Score]]
    to_first: dict[Line, _Interval] | None


class _LikelyMove(_Model):
    """A move and its probability."""

    move: Line
    p: _Number


class _Answer(_Model):
    """The prediction of a net for an example."""

    net: Line
    p: _Number
    place: _Count
    best: Annotated[list[_LikelyMove], Field(max_length=1000)]


class _ExamplePosition(_Model):
    """An example, see `kifu.learn.examples.Example`."""

    kind: Line
    black: str
    white: str
    ranks: tuple[str, str]
    date: str
    where: str
    move: Annotated[int, Field(ge=1)]
    to_play: Literal["black", "white"]
    played: Line
    answers: Annotated[list[_Answer], Field(max_length=1000)]


class _EvaluationFile(_Model):
    """The results of `kifu evaluate`, in the format of docs/evaluation.md."""

    version: Literal[1]
    kifu: Line
    board: Line
    sources: list[str]
    games: _Count
    positions: _Count
    remarks: list[str]
    nets: Annotated[list[_EvaluatedNet], Field(min_length=1, max_length=1000)]
    examples: Annotated[list[_ExamplePosition], Field(max_length=1000)]


class _GameLocation(_Model):
    """The location of a game, see `kifu.leaks.sets.GameLocation`."""

    archive: str
    entry: _Count
    index: _Count


class _SharedGame(_Model):
    """A game that two sets share; None where a set does not record its games."""

    first: _GameLocation | None
    second: _GameLocation | None
    positions: _Count
    cluster: bool
    record: bool


class _AuditedSet(_Model):
    """A set."""

    path: str
    kind: str
    games: _Count | None
    positions: _Count


class _AuditedPair(_Model):
    """Two sets and the positions that they share, by number of stones."""

    first: str
    second: str
    distinct: list[_Count]
    first_rows: list[_Count]
    second_rows: list[_Count]
    first_games: _Count
    second_games: _Count
    games: list[_SharedGame]


class _AuditFile(_Model):
    """The results of `kifu audit`, in the format of docs/audit.md."""

    leaks: bool
    stones: list[tuple[_Count, _Count | None]]
    sets: list[_AuditedSet]
    pairs: list[_AuditedPair]


@dataclass(frozen=True, slots=True)
class ReportFile:
    """An open report."""

    name: str
    kind: Literal["evaluation", "benchmark", "audit"]
    values: dict[str, Any]


def open_report(path: str | os.PathLike[str]) -> ReportFile:
    """Read a report.

    Raises:
        SourceError: The file cannot be read.
        FormatError: It is not a report.
    """
    name = utf8_name(Path(path).name)
    try:
        data = read_small(path, MAX_BYTES)
        content = orjson.loads(data)
        if isinstance(content, dict) and "pairs" in content:
            return ReportFile(name, "audit", _AuditFile.model_validate(content).model_dump(mode="json"))
        if isinstance(content, dict) and "sets" in content:
            return ReportFile(name, "benchmark", _read_benchmark(path))
        evaluation = _EvaluationFile.model_validate(content)
    except OSError as error:
        raise SourceError(f"cannot read {path}: {error.strerror or first_line(error)}") from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        message = printable(": ".join([".".join(map(str, first["loc"])), first["msg"]]).removeprefix(": "))[:200]
        raise FormatError(f"{path} is not a report of kifu evaluate, benchmark or audit: {message}") from None
    except FormatError:
        raise
    except ValueError as error:  # no JSON
        raise FormatError(f"{path}: {first_line(error)}") from None
    return ReportFile(name, "evaluation", evaluation.model_dump(mode="json", by_alias=True))


def _read_benchmark(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the results of a benchmark, with the remarks on each set."""
    from kifu.learn.benchmark import read_results

    results = read_results(path)
    values = results.model_dump(mode="json")
    for each, found in zip(values["sets"], results.sets):
        each["remarks"] = found.remarks()
    return values
