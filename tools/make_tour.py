"""Draw the pictures of docs/serve.md: the pages of `kifu serve` over the bundled sample.

    python tools/make_tour.py --net b10c384h6nbttflrs.bin.gz

Needs kifu[test], Chromium (Debian: apt-get install chromium) and a network file of KataGo, such as that of the wheel of
katrain; the client must have been built (`make client`). The same sources and the same fonts give the same pictures.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

import kifu

FOLDER = Path(__file__).parents[1] / "docs" / "tour"
WIDTH = 1280
COLOURS = 256
MOVES = ("Q16", "D4", "Q4", "D16", "C6", "R10", "K4", "K16")  # of Black on the page of play, as far as they are free
KIFU = [sys.executable, "-c", "from kifu.cli import main; main()"]


def play(page: Page) -> None:
    """Play some moves against the net."""
    page.get_by_label("Variety").fill("0")
    page.get_by_role("button", name="Start the game").click()
    for move in MOVES:
        column, line = "ABCDEFGHJKLMNOPQRST".index(move[0]), 19 - int(move[1:])
        point = page.locator(f'.shudan-vertex[data-x="{column}"][data-y="{line}"]')
        page.get_by_text("Your turn").wait_for()
        if "shudan-sign_0" in (point.get_attribute("class") or ""):
            point.click()
            point.and_(page.locator(":not(.shudan-sign_0)")).wait_for()
    page.get_by_text("Your turn").wait_for()


@dataclass(frozen=True)
class View:
    """A picture.

    Attributes:
        path: The address of the page.
        ready: A selector of what it shows once it has loaded.
        height: The height of the picture in pixels.
        prepare: What a visitor does on the page.
    """

    path: str
    ready: str
    height: int = 800
    prepare: Callable[[Page], None] = lambda page: None


VIEWS = {
    "games": View("/?winner=white", ".facets li", 572),
    "game": View("/game/0/7?ply=90&nets=0,1", "#leastExpected", 796),
    "explorer": View("/explore?moves=pd", ".continuations tbody tr", 760),
    "patterns": View("/search?pattern=anchor: anywhere/****/*XO*/*OX*/****", ".hits li", 900),
    "play": View("/play", "form", 780, play),
    "planes": View("/planes?row=7&ply=90&planes=alphago48@1", ".planes li", 840),
    "corpus": View("/corpus", "main h2", 696),
    "reports": View("/reports", "main table", 1040),
}


@contextmanager
def served(folder: Path, net: Path) -> Iterator[str]:
    """Serve the sample with `human`, a net of KataGo and an evaluation of the packaged nets, and yield the address."""
    catalogue = folder / "games.parquet"
    kifu.ingest(kifu.sample_path(), catalogue)
    kifu.build_index(catalogue)
    report = "evaluation.json"
    packaged = ["--net", "small", "--net", "human"]
    evaluate = ["evaluate", catalogue.name, *packaged, "--per-game", "4", "--json", report, "--quiet"]
    subprocess.run([*KIFU, *evaluate], check=True, cwd=folder, stdout=subprocess.DEVNULL)
    nets = ["--net", "human", "--net", str(net.resolve())]
    serve = [*KIFU, "serve", catalogue.name, *nets, "--report", report, "--port", "0"]
    with subprocess.Popen(serve, cwd=folder, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield server.stdout.readline().split("/ serves ")[0]
        finally:
            server.terminate()


def take(page: Page, url: str, view: View) -> bytes:
    """Return the picture of a page as a PNG with few colours."""
    page.set_viewport_size({"width": WIDTH, "height": view.height})
    page.goto(url + view.path)
    page.locator(view.ready).first.wait_for()
    view.prepare(page)
    page.mouse.move(0, 0)
    page.wait_for_load_state("networkidle")
    picture = Image.open(BytesIO(page.screenshot(animations="disabled"))).convert("RGB")
    data = BytesIO()
    picture.quantize(COLOURS, Image.Quantize.MAXCOVERAGE, kmeans=8, dither=Image.Dither.NONE).save(
        data, "PNG", optimize=True
    )
    return data.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(description="Draw the pictures of docs/serve.md.")
    parser.add_argument("views", nargs="*", metavar="VIEW", help=f"some of {', '.join(VIEWS)}; by default all")
    parser.add_argument("--net", type=Path, required=True, help="a network file of KataGo")
    arguments = parser.parse_args()
    names = arguments.views or VIEWS
    FOLDER.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        served(Path(folder), arguments.net) as url,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(locale="en-GB", color_scheme="light")
        page.set_default_timeout(300_000)
        for name in names:
            data = take(page, url, VIEWS[name])
            FOLDER.joinpath(f"{name}.png").write_bytes(data)
            print(f"docs/tour/{name}.png: {len(data):,} bytes")
        browser.close()


if __name__ == "__main__":
    main()
