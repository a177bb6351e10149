"""Copies of remote archives, made while they are hashed, so that each byte is fetched once.

A compressed archive can only be read from its beginning. Processes that read parts of it at a URL would each fetch all
that comes before.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias
from uuid import uuid4

from blake3 import blake3

from kifu.atomic_io import AtomicFile
from kifu.errors import OutputError
from kifu.execution.staging import copy_name
from kifu.files import hash_bytes
from kifu.folders import cannot_write
from kifu.records._remote import FullCopy
from kifu.records._volumes import open_volumes
from kifu.records.containers import is_zip
from kifu.records.paths import AnyPath, Remote, etag, open_file

_ReadInto: TypeAlias = Callable[[memoryview], int]


def hash_and_copy(path: AnyPath, staging: Path | None) -> dict[str, Any]:
    """Hash a file, and copy it meanwhile if it is remote.

    Without a staging directory, `path` is read from an unnamed copy from now on. A staging directory gets a copy of any
    file but a .zip, of which each part can be read without the others.

    Args:
        path: The file. Volumes of a .7z, of which it is the first, are joined.
        staging: See `kifu.execution.executor.Executor`.

    Returns:
        The keys bytes and blake3.

    Raises:
        OSError: If the file cannot be read, or an unnamed copy cannot be written.
        OutputError: If the staging directory cannot be written.
    """
    with open_file(path) as file, open_volumes(path, file) as volumes:
        if not isinstance(path, Remote) or path.is_copied or (staging is not None and is_zip(file)):
            digest = hash_bytes(volumes.readinto)
        elif staging is not None:
            digest = _copy_to(_staged_path(path, staging), volumes.readinto)
        else:
            copy = FullCopy()
            digest = hash_bytes(partial(_read_and_write, volumes.readinto, copy.write))
            path.use_copy(copy)
        return {"bytes": volumes.size, "blake3": digest.hexdigest()}


def use_staged_copies(paths: Iterable[AnyPath], staging: Path | None) -> None:
    """Read remote files from their copies in a staging directory, where there are any. Raises OSError."""
    for path in paths:
        if staging is not None and isinstance(path, Remote) and not path.is_dir():
            staged = _staged_path(path, staging)
            if staged.exists():
                path.use_copy(FullCopy(staged))


def _staged_path(path: Remote, staging: Path) -> Path:
    version = json.dumps([os.fspath(path), etag(path)], sort_keys=True)
    return staging / copy_name(blake3(version.encode()).hexdigest(16))


def _copy_to(path: Path, read_into: _ReadInto) -> blake3:
    """Write a copy and return its hash."""
    if not path.parent.is_dir():  # the caller has gone, and would not remove a new directory
        raise OutputError(f"cannot write {path}: its folder is gone")
    attempt = path.with_name(f"{uuid4().hex}.{path.name}")  # two may run at the same time, as for results
    with AtomicFile(attempt) as output:
        digest = hash_bytes(partial(_read_and_write, read_into, output.write))
        output.commit()
    try:
        attempt.replace(path)
    except OSError as error:
        raise cannot_write(path, error) from None
    return digest


def _read_and_write(read_into: _ReadInto, write: Callable[[memoryview], None], view: memoryview) -> int:
    count = read_into(view)
    write(view[:count])
    return count
