"""All pages in both sizes, both themes and all languages: accessible, readable, and without errors."""

import re
from typing import Any

import pytest

from web_site import SIZES, ServedSite, expect, layout_problems, problems, settled

pytestmark = pytest.mark.slow

PAGES = {
    "/": ".facets li",
    "/?corpus=1": ".facets li",
    "/?sql=nonsense": "[role=status] button",
    "/game/0/0?ply=30&nets=0,1&numbers=1": "#leastExpected",
    "/game/1/0?ply=1&line=ddqq": "nav.row button",
    "/game/0/999": "[role=alert]",
    "/explore?moves=pddp": "ul.plain-list a",
    "/search?pattern=XO/OX": ".hits li",
    "/play": "form",
    "/play?size=9&moves=eeccddzzzz": ".move-list li",
    "/problems": "main p",
    "/planes?corpus=0&row=0&ply=30&planes=alphago48@1": ".planes li",
    "/corpus": "main h2",
    "/corpus?view=dropped": "main p",
    "/corpus?view=clusters": "main h2",
    "/corpus?view=splits": "main table",
    "/reports": "main h1",
    "/nowhere/at-all": "main a",
}
"""The address of each page, and what it shows once it has loaded."""

TEXT = """() => [...document.querySelectorAll("main")].map((each) => {
    const copy = each.cloneNode(true);
    copy.querySelectorAll("code, .code").forEach((code) => code.remove());
    return copy.textContent;
}).join()"""
"""The text of a page without code, in which names of columns may stand."""

FOCUS = """() => {
    const marked = (style) => [style.outlineStyle, style.boxShadow, style.stroke].some((each) => each !== "none");
    window.focused = new Map();
    addEventListener("focusin", ({target}) => {
        focused.set(target, [target, ...target.children].some((each) => marked(getComputedStyle(each))));
    });
    const named = (each) => each.ariaLabel || each.innerText || each.title || each.labels?.length
        || each.getAttribute("aria-labelledby") || each.textContent;
    window.controls = [...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex]")]
        .filter((each) => each.tabIndex >= 0 && !each.disabled && each.checkVisibility());
    return controls.filter((each) => !named(each)).map((each) => `no name: ${each.outerHTML.slice(0, 150)}`);
}"""
UNFOCUSED = """() => controls.filter((each) => each.isConnected && !focused.get(each))
    .map((each) => `${focused.has(each) ? "focus not visible" : "not reached"}: ${each.outerHTML.slice(0, 150)}`)"""


@pytest.fixture
def wide_page(full_page: Any) -> Any:
    """An empty page for which statistics count many games of all ranks and endings."""

    def fill(route: Any) -> None:
        stats = route.fetch().json()
        ranks = stats["ranks"]
        ranks["games"] = [[9_999 + black * white for white in range(15)] for black in range(len(ranks["bands"]))]
        endings = dict.fromkeys(("score", "resign", "time", "forfeit", "void", "unknown"), 12_345)
        stats["results"] = dict.fromkeys(("black", "white", "draw", "unknown"), endings)
        route.fulfill(json=stats | {"programs": {"people": 9, "behaviour+list": 3}})

    full_page.route("**/api/stats*", fill)
    return full_page


def show(page: Any, url: str, ready: str) -> None:
    page.goto(url)
    page.locator(ready).first.wait_for(state="attached")
    page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    if "alert" in ready or "nowhere" in url:
        problems(page)[:] = [each for each in problems(page) if "the server responded with a status of 40" not in each]


def focus_problems(page: Any) -> list[str]:
    """Return the controls without a name, and those that Tab does not reach with a visible focus."""
    found: list[str] = page.evaluate(FOCUS)
    page.evaluate("document.activeElement.blur()")

    def check() -> list[str]:
        for _ in range(page.evaluate("controls.length + 2")):
            page.keyboard.press("Tab")
        unfocused: list[str] = page.evaluate(UNFOCUSED)
        return unfocused

    return found + settled(page, check)  # controls that come while Tab is pressed hold it up


@pytest.mark.parametrize("path", PAGES)
def test_page_in_all_sizes_and_themes(full_server: ServedSite, wide_page: Any, path: str) -> None:
    page, found = wide_page, []
    for size, window in SIZES.items():
        page.set_viewport_size(window["viewport"])
        show(page, full_server.url + path, PAGES[path])
        for theme in ("light", "dark"):
            page.emulate_media(color_scheme=theme)
            found += [f"{size}, {theme}: {each}" for each in layout_problems(page)]
        found += [f"{size}: {each}" for each in focus_problems(page)]
    assert found == []
    assert "hostile" not in page.title()


@pytest.mark.parametrize(
    ("language", "script"), [("ja", "[ぁ-ヶ]|棋譜"), ("zh", "[一-鿿]"), ("ko", "[가-힣]")], ids=["ja", "zh", "ko"]
)
def test_pages_in_language(full_server: ServedSite, wide_page: Any, language: str, script: str) -> None:
    page, found = wide_page, []
    page.set_viewport_size(SIZES["phone"]["viewport"])
    show(page, full_server.url, PAGES["/"])
    page.locator("header select").last.select_option(language)
    for path, ready in PAGES.items():
        show(page, full_server.url + path, ready)
        wrong = layout_problems(page)
        text = page.evaluate(TEXT)
        wrong += re.findall(r"\{\w+\}|undefined|NaN|[a-z0-9]+_[a-z_0-9]+", text)
        if not re.search(script, text):
            wrong.append(f"no text in {language}")
        found += [f"{path}: {each}" for each in wrong]
    expect(page.locator("html")).to_have_attribute("lang", language)
    assert found == []
