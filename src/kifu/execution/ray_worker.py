"""A unit made in a process of the cluster, and its results put where the caller finds them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any
from uuid import uuid4

from ray import cloudpickle

from kifu.atomic_io import cannot_write
from kifu.errors import KifuError, OutputError
from kifu.execution.executor import Job
from kifu.execution.serialization import Parcel, pack_parcels, write_parcels


def make(job: bytes, call: bytes) -> tuple[str, Any]:
    """Makes a unit. Returns ("made", parcels as bytes, or none if they are in a file), or ("failed", (type, message))
    for an error of kifu's; every other one is raised.

    job: a pickled `Job`. call: pickled, the folder that relative paths start from, the unit, and the file or None.
    """
    folder, unit, path = cloudpickle.loads(call)
    if path is not None and path.exists():  # by a node that died before it could say so
        return "made", b""
    with suppress(OSError):  # where there is no such folder, relative paths mean nothing, and are not found
        os.chdir(folder)
    try:
        parcels = _parcels(_job(job), unit)
        if path is None:
            return "made", pack_parcels(parcels)
        _write(path, parcels)
    except KifuError as error:
        return "failed", (type(error), str(error))
    return "made", b""


@lru_cache(1)
def _job(data: bytes) -> Job[Any, Any, Any]:
    """The job, which is kept from unit to unit, as where threads do it."""
    job: Job[Any, Any, Any] = cloudpickle.loads(data)
    return job


def _parcels(job: Job[Any, Any, Any], unit: Any) -> Iterator[Parcel]:
    for item in job.items(unit):
        result = job.make(item)
        yield job.pack(result)
        job.release(result)


def _write(path: Path, parcels: Iterator[Parcel]) -> None:
    """Under a name of its own first: where a network fails, a unit may be made again while this try of it goes on."""
    own = path.with_name(f"{uuid4().hex}.{path.name}")
    if not path.parent.is_dir():  # whoever has asked for it has gone; nobody would remove a folder that is made anew
        raise OutputError(f"cannot write {path}: its folder is gone")
    write_parcels(own, parcels)
    try:
        own.replace(path)
    except OSError as error:
        raise cannot_write(path, error) from None
