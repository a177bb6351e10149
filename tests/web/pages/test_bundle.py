"""The bundle of the client: small, complete, and reproducible from its sources."""

import gzip
import json
import re
import shutil
import subprocess
from collections import Counter
from importlib.resources import files
from pathlib import Path

import pytest

from kifu.errors import DropReason
from web_site import CLIENT

BUNDLE = Path(str(files("kifu").joinpath("assets", "web")))
NAMES = ["LICENSES.txt", "app.css", "app.js", "icon.svg", "index.html"]


def test_the_bundle_is_complete_and_small() -> None:
    assert sorted(path.name for path in BUNDLE.iterdir()) == NAMES
    assert sum(len(gzip.compress((BUNDLE / name).read_bytes())) for name in NAMES) < 90_000
    for name in ("preact", "@sabaki/shudan"):
        assert f"{name}\n\n" in (BUNDLE / "LICENSES.txt").read_text("utf-8")


def test_the_lock_file_names_hashes_and_no_addresses() -> None:
    """Addresses would tie `npm ci` to the registry of the author."""
    packages = json.loads((CLIENT / "package-lock.json").read_text("utf-8"))["packages"]
    assert [name for name, each in packages.items() if "resolved" in each] == []
    assert [name for name, each in packages.items() if name and "integrity" not in each] == []


def test_texts_are_defined_once_and_used() -> None:
    """The tables are merged into one, in which a second definition would replace the first."""
    sources = {path: path.read_text("utf-8") for path in (CLIENT / "src").rglob("*.ts*")}
    tables = "".join(text for path, text in sources.items() if path.parent.name == "texts")
    reasons = re.findall(r"^  (\w+):", sources[CLIENT / "src" / "texts" / "reasons.ts"], re.MULTILINE)
    assert reasons == [each.name.lower() for each in DropReason if each]
    code = "".join(text for path, text in sources.items() if path.parent.name != "texts")
    entries = re.findall(r"^  (\w+): \[(.*?)\],$", tables, re.MULTILINE | re.DOTALL)
    keys = Counter(key for key, _ in entries)
    assert len(keys) > 250
    assert len(entries) == len(re.findall(r"^  \w+:", tables, re.MULTILINE))
    assert [key for key, count in keys.items() if count > 1] == []
    assert [key for key in keys if f'"{key}"' not in code and key not in reasons] == []
    for key, texts in entries:
        placeholders = [sorted(re.findall(r"{\w+}", each)) for each in json.loads(f"[{texts.strip().rstrip(',')}]")]
        assert placeholders == [placeholders[0]] * 4, key


@pytest.mark.subprocess
def test_the_bundle_is_reproducible(tmp_path: Path) -> None:
    if shutil.which("node") is None:
        pytest.skip("needs node")
    if not (CLIENT / "node_modules" / "esbuild").is_dir():
        pytest.skip("needs the packages of the client: run npm ci in client/")
    subprocess.run(["node", "build.mjs", tmp_path / "web"], cwd=CLIENT, check=True, capture_output=True, timeout=60)
    assert sorted(path.name for path in (tmp_path / "web").iterdir()) == NAMES
    for name in NAMES:
        assert (tmp_path / "web" / name).read_bytes() == (BUNDLE / name).read_bytes(), name
