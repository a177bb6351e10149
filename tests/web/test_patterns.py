"""The pattern search answers like `kifu.search`."""

from contextlib import closing
from pathlib import Path

import pytest

from kifu.search.notation import format_pattern, parse_pattern
from kifu.search.pattern import Rectangle
from kifu.search.position import pattern_from_position
from kifu.search.searcher import Searcher
from web_site import ServedSite

CORNER = "anchor: corner/......../......../......../...X..../......../......../......../........"
PATTERNS = [CORNER, "XO/OX", "colours: fixed/next: white/+----/|..../|..X./|.O../|....", "..O.|/.X..|/....|/----+"]
PATTERNS += ["moves: white/consecutive: yes/+-----/|...../|..1../|...../|...X./|....."]


@pytest.mark.parametrize("text", PATTERNS)
def test_counts_and_hits_are_those_of_the_search(site_server: ServedSite, searcher: Searcher, text: str) -> None:
    answer = site_server.post("/api/search", {"pattern": text, "first": 1, "count": 5, "every": True}).json
    hits = searcher.find(parse_pattern(text))
    assert (answer["hits"], answer["games"]) == (len(hits), hits.games)
    assert (answer["black_wins"], answer["white_wins"]) == hits.wins
    assert answer["pattern"]["text"] == format_pattern(hits.pattern)
    for given, each in zip(answer["continuations"], hits.continuations(), strict=True):
        years = [[count.year, count.count] for count in hits.by_year(each) if count.year is not None]
        assert given == each.to_dict() | {"letter": given["letter"], "years": years}
    for given, hit in zip(answer["page"], hits.table.slice(1, 5).to_pylist(), strict=True):
        assert (given["row"], given["ply"], given["exchanged"]) == (hit["row"], hit["ply"], hit["exchanged"])
        assert given["region"][:2] == [hit["x"], hit["y"]]
        assert given["stones"] == searcher.position(hit["row"], hit["ply"]).stones.tolist()
    first = dict(zip(*(reversed(hits.table[key].to_pylist()) for key in ("row", "ply"))))
    page = site_server.post("/api/search", {"pattern": text, "first": 1, "count": 48}).json["page"]
    assert [(each["row"], each["ply"]) for each in page] == sorted(first.items())[1:49]


def test_pages_of_equal_searches_are_cached(web_catalogue: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kifu.web import patterns
    from kifu.web.api import Deadline
    from kifu.web.site import Filter, Site

    monkeypatch.setattr(patterns, "_MAX_RESULTS", 2)
    results, texts = patterns.SearchResults(), (*PATTERNS[:2], PATTERNS[1], PATTERNS[2], PATTERNS[0])
    with closing(Site([web_catalogue])) as site:
        found = [results.find(site.corpora[0], 0, Filter(), parse_pattern(text), Deadline(60)) for text in texts]
    assert found[1] is found[2]
    assert found[0] is not found[4]
    assert found[0].table.equals(found[4].table)


def test_a_vague_pattern_is_refused(site_server: ServedSite, monkeypatch: pytest.MonkeyPatch) -> None:
    from kifu.web import patterns

    monkeypatch.setattr(patterns, "_MAX_HITS", 1000)
    monkeypatch.setattr(patterns, "_SAMPLE", 20)
    assert "more than 1,000: add stones" in site_server.post("/api/search", {"pattern": "X"}).error


@pytest.mark.parametrize(
    "body",
    [
        {"pattern": "*"},
        {"pattern": "X<script>"},
        {"pattern": ""},
        {"pattern": "." * 5000},
        {"pattern": "XO", "count": 1000},
        {"pattern": "XO", "first": -1},
        {"pattern": ["XO"]},
        {"pattern": "XO", "sql": "1; DROP TABLE summaries"},
        {},
    ],
)
def test_invalid_searches_are_refused(site_server: ServedSite, body: dict[str, object]) -> None:
    answer = site_server.post("/api/search", body)
    assert answer.status == 400
    assert answer.error


def test_the_corner_of_the_last_move_is_cut_out(site_server: ServedSite, searcher: Searcher) -> None:
    row = next(row for row in range(searcher.catalogue.rows) if len(searcher.moves(row).moves) > 40)
    games = searcher.moves(row)
    y, x = divmod(int(games.moves[0]) & 0x3FFF, 19)
    cut = site_server.get("/api/pattern", game=row, ply=1).json
    region = Rectangle(10 * (2 * x >= 19), 8 + 10 * (2 * x >= 19), 10 * (2 * y >= 19), 8 + 10 * (2 * y >= 19))
    assert cut["text"] == format_pattern(pattern_from_position(searcher.position(row, 1), region))
    assert site_server.get("/api/pattern", pattern=cut["text"]).json == cut
