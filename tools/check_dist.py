"""Check the sdist and the wheel in a directory, and make a wheel with compiled kernels for each Python.

    python tools/check_dist.py dist

The wheel has to hold every file of src/kifu as a regular file, and to equal a wheel that is built without the sdist. It
is installed in an empty environment of each supported Python on PATH, which compiles the kernels. Then the wheel with
these replaces it there, and tools/smoke.py runs outside the repository.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import zipfile
from collections.abc import Iterable
from email.parser import BytesParser
from email.policy import compat32
from pathlib import Path

import kifu
from kifu.compiler import PACKAGED

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
VERSIONS = [each.rpartition(" ")[2] for each in PROJECT["classifiers"] if " :: Python :: 3." in each]


def check(condition: bool, message: str) -> None:
    """Exit with a message unless the condition holds."""
    if not condition:
        sys.exit(f"check_dist: {message}")


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
        packed = {name for name in archive.namelist() if not name.startswith(info)}
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
            contents = [{each.filename: each.CRC for each in archive.infolist()} for archive in (ours, theirs)]
    check(contents[0] == contents[1], "the wheels built with and without the sdist differ")
    print("the wheel equals one that is built without the sdist")


def find_pythons() -> list[Path]:
    """Return this Python and the other supported ones on PATH, and print the versions that are missing."""
    found = {".".join(platform.python_version_tuple()[:2]): Path(sys.executable)}
    for version in VERSIONS:
        for path in (Path(folder) / f"python{version}" for folder in os.get_exec_path()):
            # A shim of pyenv runs only if its version is selected, and Debian's Python may lack venv.
            if version not in found and path.is_file():
                done = subprocess.run([path, "-c", "import ensurepip, venv"], capture_output=True, check=False)
                found |= {} if done.returncode else {version: path}
    if missing := [version for version in VERSIONS if version not in found]:
        print(f"not on PATH, so without a wheel: Python {', '.join(missing)}")
    return [found[version] for version in VERSIONS if version in found]


def platform_tag() -> str:
    """Return the tag of wheels with kernels for this machine. They call old functions of the C library only."""
    machine = platform.machine().lower()
    return {"darwin": f"macosx_11_0_{machine}", "win32": f"win_{machine}"}.get(sys.platform, f"manylinux2014_{machine}")


def add_kernels(wheel: Path, kernels: Iterable[Path], python: str, folder: Path) -> Path:
    """Return a copy of a wheel, in a folder, with compiled kernels, for a version of Python and this platform."""
    command = [sys.executable, "-m", "wheel"]
    subprocess.run([*command, "unpack", wheel, "--dest", folder], check=True, stdout=subprocess.DEVNULL)
    (unpacked,) = folder.glob("kifu-*")
    target = unpacked / "kifu" / PACKAGED.relative_to(Path(kifu.__file__).parent)
    target.mkdir()
    for kernel in kernels:
        shutil.copy(kernel, target)
    subprocess.run([*command, "pack", unpacked, "--dest-dir", folder], check=True, stdout=subprocess.DEVNULL)
    tags = ["--python-tag", python, "--abi-tag", "none", "--platform-tag", platform_tag()]
    command += ["tags", "--remove", *tags, str(folder / wheel.name)]
    return folder / subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def make_wheel(pure: Path, python: Path) -> None:
    """Make the wheel with compiled kernels for a Python beside one without them, and try it in an empty environment."""
    with tempfile.TemporaryDirectory() as name:
        begin, folder = time.monotonic(), Path(name)
        subprocess.run([python, "-m", "venv", folder / "venv"], check=True)
        installed = folder / "venv" / ("Scripts" if sys.platform == "win32" else "bin") / "python"
        install: list[str | Path] = [installed, "-m", "pip", "install", "--quiet"]
        subprocess.run([*install, pure], check=True)
        size = sum(path.lstat().st_size for path in Path(folder, "venv").rglob("*"))
        subprocess.run([installed, ROOT / "tools" / "compile_kernels.py", folder], check=True)
        kernels = sorted(folder.glob("kifu/*.kernel"))
        version = subprocess.run([installed, "-V"], check=True, capture_output=True, text=True).stdout.split(".")
        tag = f"cp{version[0][-1]}{version[1]}"
        wheel = Path(shutil.move(add_kernels(pure, kernels, tag, folder), pure.parent))
        subprocess.run([*install, "--force-reinstall", "--no-deps", wheel], check=True)
        print(
            f"{wheel.name}: {len(kernels)} kernels, {wheel.stat().st_size / 1e6:.1f} MB; installed {size / 1e6:.0f} MB"
        )
        shutil.copy(ROOT / "tools" / "smoke.py", folder)
        environment = os.environ | {"NUMBA_CACHE_DIR": str(folder / "compiled")}
        done = subprocess.run([installed, "-I", "smoke.py"], check=False, cwd=folder, env=environment)
        check(done.returncode == 0, f"the smoke test failed with {python.name}")
        compiled = [path.name.partition("-")[0] for path in folder.glob("compiled/kifu/*.kernel")]
        check(not compiled, f"the smoke test compiled kernels that WORK lacks: {', '.join(compiled)}")
        print(f"{wheel.name}: made and tried in {time.monotonic() - begin:.0f} s", flush=True)


def main(folder: Path) -> None:
    """Check the wheel and the sdist of a directory, and make the wheels with kernels."""
    (pure,), (sdist,) = folder.glob("*-none-any.whl"), folder.glob("*.tar.gz")
    check_sdist(sdist)
    check_wheel(pure)
    check_direct_build(pure)
    for python in find_pythons():
        make_wheel(pure, python)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
