"""Check the sdist and the wheel in a directory, and try the wheel in empty environments.

    python tools/check_dist.py dist [--every-python]

The wheel has to hold every file of src/kifu as a regular file, and to equal a wheel that is built without the sdist. It
is installed with this Python, or with every supported Python on PATH, where tools/smoke.py runs outside the repository.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import zipfile
from email.parser import BytesParser
from email.policy import compat32
from pathlib import Path

import kifu

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
KERNELS = "kifu/assets/kernels/"
VERSIONS = [each.rpartition(" ")[2] for each in PROJECT["classifiers"] if " :: Python :: 3." in each]


def check(condition: bool, message: str) -> None:
    """Exit with a message unless the condition holds."""
    if not condition:
        sys.exit(f"check_dist: {message}")


def compiled(name: str) -> bool:
    """Return True for a compiled kernel, and for the list of all files, which tools/compile_kernels.py adds."""
    return name.startswith(KERNELS) or name.endswith("/RECORD")


def check_wheel(wheel: Path) -> None:
    """Compare the wheel with the source tree, and check its metadata."""
    package = ROOT / "src" / "kifu"
    files = {
        (Path("kifu") / path.relative_to(package)).as_posix(): path
        for folder, _, names in os.walk(package, followlinks=True)
        for path in (Path(folder, name) for name in names)
        if "__pycache__" not in path.parts
    }
    with zipfile.ZipFile(wheel) as archive:
        info = f"kifu-{kifu.__version__}.dist-info/"
        packed = {name for name in archive.namelist() if not name.startswith((info, KERNELS))}
        check(packed == set(files), f"the wheel and src/kifu differ by {sorted(packed ^ set(files))}")
        for name, path in files.items():
            check(archive.read(name) == path.read_bytes(), f"{name} differs in the wheel")
        for name in ("app.js", "app.css", "index.html", "icon.svg", "LICENSES.txt"):
            check(f"kifu/assets/web/{name}" in packed, f"the wheel has no assets/web/{name}; `make client` builds it")
        check(info + "licenses/LICENSE" in archive.namelist(), "the wheel has no LICENSE")
        metadata = BytesParser(policy=compat32).parsebytes(archive.read(info + "METADATA"))
    description = str(metadata.get_payload())
    check(description.startswith("# kifu"), "the description is not README.md")
    relative = re.search(r"""\]\((?!https?:|#)[^)]*|(src|href)=["'](?!https?:|#)[^"']*""", description)
    check(relative is None, f"the description has a relative link: {relative and relative[0]}")
    print(f"{wheel.name}: {len(files)} files, {wheel.stat().st_size / 1e6:.1f} MB")


def check_sdist(sdist: Path) -> None:
    """Check the members of the sdist."""
    with tarfile.open(sdist) as archive:
        members = archive.getmembers()
    check(all(each.isfile() or each.isdir() for each in members), "the sdist holds links")
    names = {each.name.partition("/")[2] for each in members}
    for name in ("LICENSE", "README.md", "CHANGELOG.md", "pyproject.toml", "setup.py", "src/kifu/py.typed"):
        check(name in names, f"the sdist has no {name}")
    check("client/package-lock.json" in names, "the sdist has no client/package-lock.json")
    check(not any("node_modules" in name for name in names), "the sdist holds node_modules")
    print(f"{sdist.name}: {len(members)} members, {sdist.stat().st_size / 1e6:.1f} MB")


def check_direct_build(wheel: Path) -> None:
    """Compare the wheel with one that is built from the source tree."""
    with tempfile.TemporaryDirectory() as folder:
        build = [sys.executable, "-m", "build", "--wheel", "--outdir", folder, str(ROOT)]
        done = subprocess.run(build, capture_output=True, text=True, check=False)
        check(done.returncode == 0, f"the wheel cannot be built without the sdist:\n{done.stderr}")
        (direct,) = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as ours, zipfile.ZipFile(direct) as theirs:
            contents = [
                {member.filename: member.CRC for member in archive.infolist() if not compiled(member.filename)}
                for archive in (ours, theirs)
            ]
    check(contents[0] == contents[1], "the wheels built with and without the sdist differ")
    print("the wheel equals one that is built without the sdist")


def find_pythons() -> list[Path]:
    """Return the supported Pythons on PATH, and print the versions that are missing."""
    found: dict[str, Path] = {}
    for version in VERSIONS:
        for path in (Path(folder) / f"python{version}" for folder in os.get_exec_path()):
            # A shim of pyenv runs only if its version is selected.
            if version not in found and path.is_file():
                done = subprocess.run([path, "-V"], capture_output=True, check=False)
                found |= {} if done.returncode else {version: path}
    if missing := [version for version in VERSIONS if version not in found]:
        print(f"not on PATH, so not tried: Python {', '.join(missing)}")
    return list(found.values())


def try_wheel(wheel: Path, python: Path) -> None:
    """Install the wheel in an empty environment and run the smoke test there."""
    with tempfile.TemporaryDirectory() as folder:
        begin = time.monotonic()
        subprocess.run([python, "-m", "venv", "venv"], check=True, cwd=folder)
        installed = Path(folder) / "venv" / "bin" / "python"
        subprocess.run([installed, "-m", "pip", "install", "--quiet", wheel.resolve()], check=True, cwd=folder)
        size = sum(path.lstat().st_size for path in Path(folder, "venv").rglob("*"))
        print(f"{python.name}: installed in {time.monotonic() - begin:.0f} s, {size / 1e6:.0f} MB", flush=True)
        shutil.copy(ROOT / "tools" / "smoke.py", folder)
        done = subprocess.run([installed, "-I", "smoke.py"], check=False, cwd=folder)
        check(done.returncode == 0, f"the smoke test failed with {python.name}")


def main(folder: Path, *options: str) -> None:
    """Check the wheel and the sdist of a directory."""
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    check_sdist(sdist)
    check_wheel(wheel)
    check_direct_build(wheel)
    for python in find_pythons() if "--every-python" in options else [Path(sys.executable)]:
        try_wheel(wheel, python)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
