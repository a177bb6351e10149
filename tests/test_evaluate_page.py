"""What is shown of an evaluation: the page, the tables of the command, and what it refuses."""

from __future__ import annotations

import base64
import json
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

import evaluated
from commands import run
from evaluated import canonical
from kifu.learn.evaluate import Evaluation, evaluate
from kifu.learn.net import open_net
from kifu.learn.report import page
from nets import tiny_net

HOSTILE = "<script>alert('x')</script>"
NAMES = (
    HOSTILE,
    '"><img src=x onerror=alert(1)>',
    "&lt;b&gt; {{ 7 * 7 }} {% raw %}",
    "柯潔",
    "이세돌",
    "a\x07b\u202ec",
)

TAGS = {
    "html", "head", "meta", "title", "style", "body", "main", "header", "footer", "section", "div", "h1", "h2", "p",
    "br", "b", "small", "span", "table", "thead", "tbody", "tr", "th", "td", "img", "figure", "figcaption", "meter",
    "details", "summary",
}  # fmt: skip
ATTRIBUTES = {"lang", "charset", "name", "content", "http-equiv", "class", "src", "alt", "max", "value"}
VOID = {"meta", "br", "img"}


class Page(HTMLParser):
    """Reads a page, and fails where tags do not fit each other."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.attributes: set[str] = set()
        self.images: list[str] = []
        self.text, self._open = "", []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes |= {name for name, _ in attrs}
        self.images += [value or "" for name, value in attrs if name == "src"]
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] != "style":
            self.text += data


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Evaluation:
    """Two nets, one with a hostile name, on games with hostile names."""
    folder = tmp_path_factory.mktemp("hostile")
    texts = []
    for k, name in enumerate(NAMES):
        escaped = name.replace("]", r"\]")
        texts.append(evaluated.text(k, 30, root=f"CA[UTF-8]PB[{escaped}]PW[{escaped}]DT[{escaped}]BR[{escaped}]"))
    games = evaluated.catalogue(folder, texts)
    nets = [tiny_net(folder / "plain.safetensors"), tiny_net(folder / "<b>&x.safetensors", seed=1)]
    return evaluate([open_net(path) for path in nets], games)


@pytest.fixture(scope="module")
def text(hostile: Evaluation) -> str:
    return page(hostile)


def test_the_page_holds_names_as_text_only(hostile: Evaluation, text: str) -> None:
    told = Page(text)
    assert set(told.tags) <= TAGS
    assert told.attributes <= ATTRIBUTES
    for name in NAMES[:5]:
        assert name in told.text
    assert "a b c" in told.text  # characters that a terminal or a browser would obey
    assert "<b>&x" in told.text
    assert told.tags["figure"] == len(hostile.examples) > 5


def test_the_page_needs_nothing_but_itself(hostile: Evaluation, text: str) -> None:
    told = Page(text)
    assert not re.search(r"https?:|url\(|@import|<link|<script|<iframe", re.sub(r'src="data:[^"]*"', "", text))
    assert len(told.images) == len(hostile.examples) + 7
    for image in told.images:
        kind, _, data = image.partition(",")
        assert kind == "data:image/svg+xml;base64"
        picture = ElementTree.fromstring(base64.b64decode(data))
        assert picture.tag == "{http://www.w3.org/2000/svg}svg"
        assert not [each for each in picture.iter() if each.tag.endswith("script")]


def test_the_page_tells_the_figures(hostile: Evaluation, text: str) -> None:
    told = " ".join(Page(text).text.split())
    for net in hostile.nets:
        assert f"{net.score.top1.value:.1%}" in told
        assert f"{net.score.nll.value:.3f}" in told
    for remark in hostile.remarks():
        assert remark in told
    assert hostile.headline() in told


def test_the_same_page_twice(hostile: Evaluation, text: str) -> None:
    assert page(hostile) == text


def test_json_of_hostile_names(hostile: Evaluation) -> None:
    told = json.loads(hostile.to_json())
    assert {each["black"] for each in told["examples"]} <= {each.players[0] for each in hostile.examples}
    assert HOSTILE in {each["black"] for each in told["examples"]}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """games.parquet, of which b has learned game 2; a and b are nets."""
    folder = tmp_path_factory.mktemp("command")
    evaluated.make(folder)
    learned = evaluated.catalogue(folder / "learned", [evaluated.text(2, symmetry=3)])
    tiny_net(folder / "a.safetensors", games=[1])
    tiny_net(folder / "b.safetensors", planes="one-plane", games=canonical(learned))
    tiny_net(folder / "large.safetensors", "blog", "one-plane", 19)
    return folder


def test_the_command_prints_tables_and_writes_files(place: Path, tmp_path: Path) -> None:
    done = run(
        "evaluate", place / "a.safetensors", place / "games.parquet", "--positions", 100, "--symmetries", "--legal",
        "--json", tmp_path / "found.json", "--html", tmp_path / "found.html",
    )  # fmt: skip
    assert done.code == 0
    assert done.out.startswith("games.parquet: 100 positions of 8 games on 9 x 9; legal moves only; the mean over the")
    for word in (
        "top-1",
        "top-5",
        "nll",
        "calibration error",
        "move number",
        "rank of the mover",
        "corner",
        "handicap",
    ):
        assert word in done.out
    assert max(map(len, done.out.splitlines()[1:])) <= 80
    assert done.err[0] == "asking: 0 of 100 positions"
    told = json.loads(tmp_path.joinpath("found.json").read_text())
    assert f"{told['nets'][0]['score']['top1'][0]:.1%}" in done.out
    assert Page(tmp_path.joinpath("found.html").read_text()).tags["h1"] == 1


def test_the_command_compares_nets(place: Path) -> None:
    done = run(
        "evaluate", place / "a.safetensors", place / "games.parquet", "--with", place / "b.safetensors",
        "--overlap", "drop", "--json", "-",
    )  # fmt: skip
    told = json.loads(done.out)
    assert [net["name"] for net in told["nets"]] == ["a", "b"]
    assert (told["games"], told["overlap"]) == (7, {"games": 1, "done": "drop"})
    text = run("evaluate", *(place / name for name in ("a.safetensors", "games.parquet")), "--with",
               place / "b.safetensors", "--overlap", "keep").out  # fmt: skip
    assert "! NOT A TEST: 1 game" in text
    assert "against the first" in text
    assert max(map(len, text.splitlines()[2:])) <= 80


REFUSED = [
    (["b.safetensors", "games.parquet"], "1 of 8 games were learned from by b (turned, mirrored or not); --overlap"),
    (["large.safetensors", "games.parquet"], "there is no game on a 19 x 19 board in"),
    (["large.safetensors", "games.parquet", "--board", "9x9"], "net large (blog) takes 19 x 19 boards only, not 9 x 9"),
    (["a.safetensors", "no.parquet"], "no.parquet"),
    (["no.safetensors", "games.parquet"], "cannot read the net"),
    (["games.parquet", "games.parquet"], "is no net of kifu"),
    (["a.safetensors", "games.parquet", "--passes"], "net a knows no passes"),
    (["a.safetensors", "games.parquet", "--overlap", "maybe"], "no overlap 'maybe'"),
]


@pytest.mark.parametrize(("arguments", "message"), REFUSED)
def test_the_command_refuses_in_one_line(arguments: list[str], message: str, place: Path) -> None:
    named = [place / each if "." in each and not each.startswith("-") else each for each in arguments]
    done = run("evaluate", *named)
    assert (done.code, done.out) == (2, "")
    *_, line = done.err
    assert line.startswith("kifu: ") and message in line
    assert not any("Traceback" in each for each in done.err)


def test_what_was_found_is_told_even_if_the_page_cannot_be_written(place: Path) -> None:
    done = run("evaluate", place / "a.safetensors", place / "games.parquet", "--html", place / "games.parquet/x.html")
    assert done.code == 2
    assert "top-1" in done.out
    assert done.err[-1].startswith("kifu: cannot write")
