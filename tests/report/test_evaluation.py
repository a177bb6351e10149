"""Reports of an evaluation: the HTML page, the tables of the command, and its error messages."""

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
from commands import is_error, run
from evaluated import canonical
from kifu.errors import FormatError
from lazy import lazy_import
from nets import tiny_net

learn = lazy_import("kifu.learn")
report = lazy_import("kifu.report")


HOSTILE = "<script>alert('x')</script>"
NAMES = (
    HOSTILE, '"><img src=x onerror=alert(1)>', "&lt;b&gt; {{ 7 * 7 }} {% raw %}", "柯潔", "이세돌", "a\x07b\u202ec",
)  # fmt: skip

TAGS = {
    "html", "head", "meta", "title", "style", "body", "main", "header", "footer", "section", "div", "h1", "h2", "p",
    "br", "b", "small", "span", "table", "thead", "tbody", "tr", "th", "td", "img", "figure", "figcaption", "meter",
    "details", "summary",
}  # fmt: skip
ATTRIBUTES = {"lang", "charset", "name", "content", "http-equiv", "class", "src", "alt", "max", "value"}
VOID = {"meta", "br", "img"}


class Page(HTMLParser):
    """Parses a page and fails if tags are not balanced."""

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
def hostile(tmp_path_factory: pytest.TempPathFactory) -> learn.results.EvalResults:
    folder = tmp_path_factory.mktemp("hostile")
    texts = []
    for k, name in enumerate(NAMES):
        escaped = name.replace("]", r"\]")
        texts.append(evaluated.text(k, 30, root=f"CA[UTF-8]PB[{escaped}]PW[{escaped}]DT[{escaped}]BR[{escaped}]"))
    games = evaluated.catalogue(folder, texts)
    nets = [tiny_net(folder / "plain.safetensors"), tiny_net(folder / "<b>&x.safetensors", seed=1)]
    return learn.evaluate.evaluate([learn.net.open_net(path) for path in nets], games)


@pytest.fixture(scope="module")
def text(hostile: learn.results.EvalResults) -> str:
    return report.evaluation.page(hostile)


def test_names_are_escaped(hostile: learn.results.EvalResults, text: str) -> None:
    parsed = Page(text)
    assert set(parsed.tags) <= TAGS
    assert parsed.attributes <= ATTRIBUTES
    for name in NAMES[:5]:
        assert name in parsed.text
    assert NAMES[5].encode("unicode_escape").decode() in parsed.text
    assert "<b>&x" in parsed.text
    assert parsed.tags["figure"] == len(hostile.examples) > 5


def test_the_page_is_self_contained(hostile: learn.results.EvalResults, text: str) -> None:
    parsed = Page(text)
    assert not re.search(r"https?:|url\(|@import|<link|<script|<iframe", re.sub(r'src="data:[^"]*"', "", text))
    # the calibration, and breakdowns with more than one group
    assert len(hostile.examples) + 1 < len(parsed.images) <= len(hostile.examples) + 7
    for image in parsed.images:
        kind, _, data = image.partition(",")
        assert kind == "data:image/svg+xml;base64"
        picture = ElementTree.fromstring(base64.b64decode(data))
        assert picture.tag == "{http://www.w3.org/2000/svg}svg"
        assert not [each for each in picture.iter() if each.tag.endswith("script")]


def test_the_page_has_the_figures(hostile: learn.results.EvalResults, text: str) -> None:
    parsed = " ".join(Page(text).text.split())
    for net in hostile.nets:
        assert f"{net.score.top1.value:.1%}" in parsed
        assert f"{net.score.nll.value:.3f}" in parsed
    for remark in hostile.remarks:
        assert remark in parsed
    assert hostile.headline() in parsed


@pytest.mark.slow
def test_the_page_is_reproducible(hostile: learn.results.EvalResults, text: str) -> None:
    assert report.evaluation.page(hostile) == text


def test_json_of_hostile_names(hostile: learn.results.EvalResults) -> None:
    parsed = json.loads(hostile.to_json())
    assert HOSTILE in {each["players"][0] for each in parsed["examples"]}


def test_the_json_is_read_again(hostile: learn.results.EvalResults, tmp_path: Path) -> None:
    path = tmp_path / "evaluation.json"
    path.write_text(hostile.to_json())
    assert learn.results.read_evaluation(path).to_dict() == hostile.to_dict()
    path.write_text(hostile.to_json().replace('"confidence"', '"sure"', 1))
    with pytest.raises(FormatError, match=r"does not hold results of kifu evaluate: nets\.0\.calibration\.bins\.0\."):
        learn.results.read_evaluation(path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """games.parquet, nets a and b; b was trained on game 2."""
    folder = tmp_path_factory.mktemp("command")
    evaluated.make(folder)
    learned = evaluated.catalogue(folder / "learned", [evaluated.text(2, symmetry=3)])
    tiny_net(folder / "a.safetensors", games=[1])
    tiny_net(folder / "b.safetensors", planes="one-plane", games=canonical(learned))
    tiny_net(folder / "large.safetensors", "blog", "one-plane", 19)
    return folder


@pytest.mark.slow
def test_the_command_prints_tables_and_writes_files(folder: Path, tmp_path: Path) -> None:
    done = run(
        "evaluate", "--net", folder / "a.safetensors", folder / "games.parquet", "--positions", 100, "--symmetries",
        "--legal",
        "--json", tmp_path / "evaluation.json", "--html", tmp_path / "evaluation.html",
    )  # fmt: skip
    assert done.code == 0
    assert done.out.startswith("games.parquet: 100 positions of 8 games on 9 x 9; legal moves only; averaged over the")
    for word in (
        "top-1",
        "top-5",
        "nll",
        "calibration error",
        "move number",
        "rank of the player",
        "corner",
        "handicap",
    ):
        assert word in done.out
    assert max(map(len, done.out.splitlines()[1:])) <= 80
    assert done.err[0] == "evaluating: 0 of 100 positions"
    parsed = json.loads(tmp_path.joinpath("evaluation.json").read_text())
    assert f"{parsed['nets'][0]['score']['top1'][0]:.1%}" in done.out
    assert Page(tmp_path.joinpath("evaluation.html").read_text()).tags["h1"] == 1


def test_the_command_compares_nets(folder: Path) -> None:
    done = run(
        "evaluate", "--net", folder / "a.safetensors", folder / "games.parquet", "--net", folder / "b.safetensors",
        "--overlap", "drop", "--json", "-",
    )  # fmt: skip
    parsed = json.loads(done.out)
    assert [net["name"] for net in parsed["nets"]] == ["a", "b"]
    assert (parsed["games"], parsed["learned"], parsed["options"]["overlap"]) == (7, 1, "drop")
    nets = (argument for name in "ab" for argument in ("--net", folder / f"{name}.safetensors"))
    text = run("evaluate", folder / "games.parquet", *nets, "--overlap", "keep").out
    assert "! NOT A TEST: a net was trained on or validated with 1 game" in text
    assert "against the first" in text
    assert max(map(len, text.splitlines()[2:])) <= 80


REFUSED = [
    (
        ["b.safetensors", "games.parquet"],
        "b was trained on or validated with 1 of 8 games (rotated, mirrored or not); --overlap",
    ),
    (["large.safetensors", "games.parquet"], "there is no game on a 19 x 19 board in"),
    (
        ["large.safetensors", "games.parquet", "--board", "9x9"],
        "net large (blog) supports 19 x 19 boards only, got 9 x 9",
    ),
    (["a.safetensors", "no.parquet"], "no.parquet"),
    (["no.safetensors", "games.parquet"], "cannot read the net"),
    (["games.parquet", "games.parquet"], "is not a net of kifu"),
    (["a.safetensors", "games.parquet", "--passes"], "net a does not predict passes"),
    (["a.safetensors", "games.parquet", "--overlap", "maybe"], "unknown overlap 'maybe'"),
]


@pytest.mark.parametrize(("arguments", "message"), REFUSED)
def test_the_command_refuses_in_one_line(arguments: list[str], message: str, folder: Path) -> None:
    named = [folder / each if "." in each and not each.startswith("-") else each for each in arguments]
    is_error(run("evaluate", "--net", *named), message)


@pytest.mark.slow
def test_figures_are_printed_even_if_the_page_cannot_be_written(folder: Path) -> None:
    done = run(
        "evaluate",
        "--net",
        folder / "a.safetensors",
        folder / "games.parquet",
        "--html",
        folder / "games.parquet/x.html",
    )
    assert done.code == 2
    assert "top-1" in done.out
    assert done.err[-1].startswith("kifu: cannot write")
