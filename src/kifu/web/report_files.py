"""Reports: files that `kifu evaluate --json`, `kifu benchmark --json` and `kifu audit --json` wrote."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import orjson

from kifu.errors import FormatError, SourceError, first_line
from kifu.files import read_small, utf8_name
from kifu.leaks.audit import read_audit
from kifu.learn.results import read_evaluation, read_results

MAX_BYTES = 16 << 20
"""Maximum size of a report."""


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
        content = orjson.loads(read_small(path, MAX_BYTES))
    except OSError as error:
        raise SourceError(f"cannot read {path}: {error.strerror or first_line(error)}") from None
    except ValueError as error:  # no JSON
        raise FormatError(f"{path}: {first_line(error)}") from None
    keys = content if isinstance(content, dict) else {}
    if "pairs" in keys:
        return ReportFile(name, "audit", read_audit(path).model_dump(mode="json"))
    if "nets" in keys:
        return ReportFile(name, "evaluation", read_evaluation(path).model_dump(mode="json"))
    if "sets" not in keys:
        raise FormatError(f"{path} is not a report of kifu evaluate, benchmark or audit")
    results = read_results(path)
    values = results.model_dump(mode="json")
    for each, of_set in zip(values["sets"], results.sets):
        each["remarks"] = of_set.remarks()
    return ReportFile(name, "benchmark", values)
