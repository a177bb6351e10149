"""The lists in docs name every guide, plane set, format and recipe, with links that work."""

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from kifu.assets import OTHER_FORMATS, config_names
from kifu.datasets.formats import FORMATS
from kifu.planes.registry import PLANE_SETS

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(
    ("page", "names"),
    [("plane-sets", PLANE_SETS), ("formats", [*FORMATS, *OTHER_FORMATS]), ("recipes", config_names("recipes"))],
)
def test_a_reference_page_lists_all_names(page: str, names: Iterable[str]) -> None:
    text = (DOCS / f"reference/{page}.md").read_text("utf-8")
    assert sorted(re.findall(r"^- \[(.*?)\]", text, re.MULTILINE)) == sorted(names)


def test_the_guides_list_all_pages() -> None:
    text = (DOCS / "guides.md").read_text("utf-8")
    pages = {path.name for path in DOCS.glob("*.md")} - {"guides.md", "index.md", "install.md"}
    assert pages <= set(re.findall(r"\((\S+)\)", text))


@pytest.mark.parametrize(
    "page", ["guides.md", *(f"reference/{path.name}" for path in (DOCS / "reference").glob("*.md"))]
)
def test_links_lead_to_files(page: str) -> None:
    links = re.findall(r"\]\(([^)#]+)", (DOCS / page).read_text("utf-8"))
    assert links
    assert all((DOCS / page).parent.joinpath(link).is_file() for link in links)
