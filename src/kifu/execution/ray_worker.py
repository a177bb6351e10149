"""Runs a shard in a worker process of a cluster."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any
from uuid import uuid4

from ray import cloudpickle

from kifu.errors import KifuError, OutputError
from kifu.execution.executor import Job
from kifu.execution.serialization import dump_results, write_results
from kifu.io import cannot_write


def run(job: bytes, call: bytes) -> tuple[str, Any]:
    """Process a shard.

    `job` is a pickled `Job`; `call` is the pickled directory that relative paths start from, the shard, and the file
    for its results or None. Returns ("done", the results as bytes, empty if they are in the file), or ("failed",
    (class, message)) for an error of kifu. All other errors are raised.
    """
    directory, shard, path = cloudpickle.loads(call)
    if path is not None and path.exists():  # written by a node that died before it could answer
        return "done", b""
    with suppress(OSError):  # without that directory, relative paths are not found
        os.chdir(directory)
    try:
        results = _results(_load_job(job), shard)
        if path is None:
            return "done", dump_results(results)
        _write(path, results)
    except KifuError as error:
        return "failed", (type(error), str(error))
    return "done", b""


@lru_cache(1)
def _load_job(data: bytes) -> Job[Any, Any, Any]:
    """Return the job, which is kept from shard to shard, as it is on threads."""
    job: Job[Any, Any, Any] = cloudpickle.loads(data)
    return job


def _results(job: Job[Any, Any, Any], shard: Any) -> Iterator[Any]:
    for item in job.read(shard):
        result = job.process(item)
        yield result
        job.recycle(result)


def _write(path: Path, results: Iterator[Any]) -> None:
    # Every attempt writes to a unique name: after a network failure, two may run at the same time.
    attempt = path.with_name(f"{uuid4().hex}.{path.name}")
    if not path.parent.is_dir():  # the caller has gone, and would not remove a new directory
        raise OutputError(f"cannot write {path}: its folder is gone")
    write_results(attempt, results)
    try:
        attempt.replace(path)
    except OSError as error:
        raise cannot_write(path, error) from None
