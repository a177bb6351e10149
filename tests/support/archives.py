"""Archives of given members, as bytes or as files."""

import io
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

Members = Mapping[str, bytes] | Sequence[bytes]
"""Content by name, where a name that ends in / is a folder; or records, which are numbered."""


def _named(members: Members) -> Mapping[str, bytes]:
    return members if isinstance(members, Mapping) else {f"{k:05}.sgf": data for k, data in enumerate(members)}


def zip_of(members: Members, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in _named(members).items():
            archive.writestr(zipfile.ZipInfo(name), data, method, compresslevel=1)
    return file.getvalue()


def tar_of(members: Members, mode: str = "w") -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode=mode) as archive:
        for name, data in _named(members).items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.type = len(data), tarfile.DIRTYPE if name.endswith("/") else tarfile.REGTYPE
            archive.addfile(entry, io.BytesIO(data))
    return file.getvalue()


def put(path: Path, data: bytes) -> Path:
    """Write a file, and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def zipped(path: Path, members: Members) -> Path:
    return put(path, zip_of(members))


def tarred(path: Path, members: Members) -> Path:
    """Write a .tar, or a .tar.gz or .tgz."""
    return put(path, tar_of(members, "w:gz" if path.name.endswith("gz") else "w"))
