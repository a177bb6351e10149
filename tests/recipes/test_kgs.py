"""The 2015 program: archives of KGS, its sampling of games, and Python 2's hashes and draws."""

from __future__ import annotations

import ast
import hashlib
import itertools
import json
import random
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive_python2 as naive
from kifu.config import check_config
from kifu.errors import RecipeError, SourceError
from kifu.recipes.kgs import (
    MAX_GAMES,
    PAGE_LIMIT,
    Archive,
    Sampler,
    find_links,
    hash_pairs,
    hash_text,
    list_archives,
    order_as_page,
    parse_archive_name,
    parse_index,
    set_order,
    text_set_order,
)
from kifu.recipes.schema import KgsgoRecipe, load_recipe


@pytest.mark.parametrize(
    ("name", "archive"),
    [
        ("KGS-2006-19-10388-.zip", Archive("KGS-2006-19-10388-.zip", 2006, None, 19, 10388)),
        ("KGS-2016_01-19-756-.tar.gz", Archive("KGS-2016_01-19-756-.zip", 2016, 1, 19, 756)),
        ("KGS-2016_12-19-1-.tar.bz2", Archive("KGS-2016_12-19-1-.zip", 2016, 12, 19, 1)),
        ("KGS-2016_12-9-1-.tgz", Archive("KGS-2016_12-9-1-.zip", 2016, 12, 9, 1)),
        ("a/b/KGS-2001-19-2298-.tbz2", Archive("KGS-2001-19-2298-.zip", 2001, None, 19, 2298)),
        ("C:\\kgs\\KGS-2001-19-2298-.zip", Archive("KGS-2001-19-2298-.zip", 2001, None, 19, 2298)),
        ("http://x/KGS-2001-19-2298-.zip", Archive("KGS-2001-19-2298-.zip", 2001, None, 19, 2298)),
    ],
)
def test_names(name: str, archive: Archive) -> None:
    assert parse_archive_name(name) == archive


@pytest.mark.parametrize(
    "name",
    [
        "",
        "KGS-2006-19-10388-",
        "KGS-2006-19-10388-.zip.part",
        "KGS-2006-19-10388-.tar",
        "KGS-2006-19-10388.zip",
        "KGS-2006-19-10388-.zip\n",
        "KGS-2006-19-10388-.zip/",
        "kgs-2006-19-10388-.zip",
        "KGS-2006_00-19-1-.zip",
        "KGS-2006_13-19-1-.zip",
        "KGS-2006_1-19-1-.zip",
        "KGS-\u0662\u0660\u0660\u0661-19-1-.zip",  # digits, but not ours
        "KGS-2006-019-1-.zip",
        "KGS-2006-19-12345678-.zip",
        "xKGS-2006-19-10388-.zip",
    ],
)
def test_no_names(name: str) -> None:
    assert parse_archive_name(name) is None


def test_the_stem_is_the_name_without_its_ending() -> None:
    archive = parse_archive_name("KGS-2006-19-10388-.tar.gz")
    assert archive is not None
    assert archive.stem == "KGS-2006-19-10388-"


def test_the_small_page_of_the_reference(shared: Path) -> None:
    archives = parse_index((shared / "reference/kgsgo/cached_indexpage.html").read_bytes())
    assert [archive.name for archive in archives] == [
        "KGS-2006-19-10388-.zip", "KGS-2003-19-7582-.zip", "KGS-2002-19-3646-.zip", "KGS-2001-19-2298-.zip",
    ]  # fmt: skip


def test_the_full_page_of_the_reference(shared: Path) -> None:
    archives = parse_index((shared / "reference/kgsgo/full_indexpage.html").read_bytes())
    assert (len(archives), sum(archive.games for archive in archives)) == (91, 171_562)  # facts/kgsgo.md
    assert all(archive.size == 19 for archive in archives)
    shuffled = random.Random(1).sample(archives, len(archives))
    assert shuffled != archives
    assert order_as_page(shuffled) == archives


def test_order_of_a_year_and_of_its_months() -> None:
    names = ["2008_02", "2008_01", "2008", "2007_12", "2007"]
    archives = [parse_archive_name(f"KGS-{when}-19-1-.zip") for when in names]
    assert order_as_page(archive for archive in reversed(archives) if archive) == archives


def test_links_of_every_form() -> None:
    page = b"""
        <A HREF='/x/KGS-2003-19-1-.tar.gz'>a</A> <a class=x\n href=KGS-2001-19-3-.zip>b</a>
        <a name="KGS-2009-19-3-.zip"> <address href="KGS-2000-19-1-.zip"> <a href="KGS-2008-19-1-.rar">
        <!-- <a href="KGS-2007-19-1-.zip"> <!-- --> <a href="http://y/?a&amp;b/KGS-2002-19-2-.tgz"> \xff <a href>
        <!--[if !IE]><!--><a href="other/KGS-2003-19-1-.tar.gz"><!--> <a href="z/KGS-2003-19-1-.zip">
        <!-- <a href="KGS-2010-19-1-.zip">
    """
    assert [href for href, _, _ in find_links(page.decode("latin-1"))] == [
        "/x/KGS-2003-19-1-.tar.gz", "KGS-2001-19-3-.zip", "KGS-2008-19-1-.rar", "http://y/?a&b/KGS-2002-19-2-.tgz",
        "other/KGS-2003-19-1-.tar.gz", "z/KGS-2003-19-1-.zip",
    ]  # fmt: skip
    names = ["KGS-2003-19-1-.zip", "KGS-2001-19-3-.zip", "KGS-2002-19-2-.zip"]
    assert [archive.name for archive in parse_index(page)] == names


def test_a_page_without_archives() -> None:
    with pytest.raises(SourceError, match=r"no link to an archive with a name like KGS-2006-19-10388-.zip$"):
        parse_index(b"<a href='KGS.zip'>")
    with pytest.raises(SourceError, match="more than 4,194,304 bytes"):
        parse_index(bytes(PAGE_LIMIT + 1))


LINK = b'<a href="KGS-2006-19-1-.zip">'


@given(
    st.lists(st.sampled_from([LINK, b"<a ", b"<!--", b"-->", b"&#", b"'", b"\xff", b"<a href=", b">"]) | st.binary())
)
def test_any_bytes_are_a_page_or_a_source_error(pieces: list[bytes]) -> None:
    try:
        archives = parse_index(b"".join(pieces))
    except SourceError:
        assert pieces != [LINK]
    else:
        assert archives
        assert all(parse_archive_name(archive.name) == archive for archive in archives)


@pytest.mark.slow
@pytest.mark.parametrize(
    "text", [b"<", b"<a ", b"<!--", b"</a", b"<a href='", b"<a a", b"<![CDATA[", b"<a" + b" b" * 490 + b">"]
)
def test_the_worst_pages_take_seconds_at_most(text: bytes) -> None:
    page = text * ((PAGE_LIMIT - len(LINK) - 3) // len(text)) + b"-->" + LINK
    began = time.process_time()
    assert [archive.games for archive in parse_index(page)] == [1]
    assert time.process_time() - began < 20.0


RECIPE = load_recipe("kgsgo-v2")


def archives(*games, year=2001):
    return [parse_archive_name(f"KGS-{year + k}-19-{count}-.zip") for k, count in enumerate(games)]


def recipe(*overrides):
    return load_recipe("kgsgo-v2", overrides)


def drawn(selections):
    """Each game of a selection as the program would name it."""
    return [(archive.name, number) for archive, games in selections.items() for number in games.tolist()]


@pytest.fixture(scope="module")
def reference(shared):
    return shared / "reference/kgsgo"


@pytest.fixture(scope="module")
def small_page(reference):
    return parse_index((reference / "cached_indexpage.html").read_bytes())


@pytest.fixture(scope="module")
def full_page(reference):
    return parse_index((reference / "full_indexpage.html").read_bytes())


def samples(path):
    """The lines of a list that the program printed: (u'KGS-2003-19-7582-.zip', 3378)."""
    return [ast.literal_eval(line) for line in path.read_text().splitlines()]


def held(sampler, name):
    """A drawn set as the program held it, `list(set)`: names of archives and indices of games."""
    rows = sampler._draw(name)
    return [(sampler._archives[sampler._archive_of[k]].name, int(sampler._game_of[k])) for k in rows]


# The program's own lists


def test_the_program_s_test_set(reference, small_page):
    assert held(Sampler(RECIPE, small_page), "test") == samples(reference / "test_samples.txt")


def test_in_the_order_of_the_draw(reference, small_page):
    rows = Sampler(RECIPE, small_page)._added("test")
    every = [(a.name, number) for a in small_page for number in range(a.games)]
    assert [every[row] for row in rows] == samples(reference / "test_samples_in_draw_order.txt")


def test_the_list_that_the_program_ships(reference, full_page):
    assert len(full_page) == 91
    assert sum(a.games for a in full_page if a.year <= 2014) == 171_562
    assert held(Sampler(RECIPE, full_page), "test") == samples(reference / "full_index_test_samples.txt")


@pytest.mark.parametrize("count", [1, 5, 8, 20, 500, 2000])
def test_draws_of_other_sizes(reference, small_page, count):
    expected = json.loads((reference / "py2_dump.json").read_text())[f"draw_samples_{count}"]
    pairs = held(Sampler(recipe(f"sets.test.games={count}"), small_page), "test")
    if isinstance(expected, str):
        lines = "\n".join(f"(u'{name}', {number})" for name, number in pairs)
        assert hashlib.md5(lines.encode()).hexdigest() == expected
    else:
        assert [list(pair) for pair in pairs] == expected


def test_the_archives_stand_in_the_program_s_order(small_page):
    for name, years in (("test", [2006, 2001, 2003, 2002]), ("train10k", [2006, 2003, 2002, 2001])):
        assert [archive.year for archive in Sampler(RECIPE, small_page).select(name)] == years


def test_within_an_archive_the_samples_keep_their_order(small_page):
    sampler = Sampler(RECIPE, small_page)
    for name in ("test", "train10k", "trainall"):
        pairs = held(sampler, name)
        for archive, games in sampler.select(name).items():
            assert games.tolist() == [number for other, number in pairs if other == archive.name]


def test_the_whole_of_kgs(full_page):
    """No game of the test set is in a training set, and all the others are in one."""
    sampler = Sampler(RECIPE, full_page)
    test, some, all_others = (set(drawn(sampler.select(name))) for name in ("test", "train10k", "trainall"))
    assert (len(test), len(some), len(all_others)) == (100, 10_000, 171_462)
    assert not test & all_others
    assert some < all_others


# What must hold for any archives


@given(st.lists(st.integers(0, 60), min_size=1, max_size=6), st.data())
def test_sets_are_drawn_as_the_program_drew(games, data):
    """The program, word by word: draw pairs into a set until it is full; list(set); archive by archive."""
    total = sum(games)
    if total < 2:
        return
    test_games = data.draw(st.integers(1, total - 1))
    train_games = data.draw(st.integers(1, total - test_games))
    seed = data.draw(st.integers(0, 5))
    listed = archives(*games)
    every = [(a.name, number) for a in listed for number in range(a.games)]

    def draw(count, without):
        chance, grown, have = random.Random(seed), naive.Set(), set()
        while len(have) < count:
            pair = every[int(chance.random() * len(every))]
            if pair not in without:
                grown.add(naive.hash_of(pair), pair)
                have.add(pair)
        return list(grown)

    test = draw(test_games, set())
    train = draw(train_games, set(test))
    rest = naive.Set()
    for pair in every:
        if pair not in test:
            rest.add(naive.hash_of(pair), pair)
    settings = (f"seed={seed}", f"sets.test.games={test_games}", f"sets.train10k.games={train_games}")
    sampler = Sampler(recipe(*settings), listed)
    for name, expected in (("test", test), ("train10k", train), ("trainall", list(rest))):
        assert held(sampler, name) == expected
        order = naive.Set()
        for archive, _ in expected:
            order.add(naive.hash_text(archive), archive)
        assert [archive.name for archive in sampler.select(name)] == list(order)
        assert Counter(drawn(sampler.select(name))) == Counter(expected)


def test_a_set_may_take_every_game():
    sampler = Sampler(recipe("sets.test.games=50"), archives(20, 30))
    assert len(set(held(sampler, "test"))) == 50


@pytest.mark.parametrize(
    ("overrides", "name", "message"),
    [
        (["sets.test.games=51"], "test", "set 'test' takes 51 games, but 50 are left (50 up to 2014 in 2 archives)"),
        (["sets.test.games=1000000000"], "test", "set 'test' takes 1,000,000,000 games, but 50 are left"),
        (["sets.test.games=41"], "train10k", "set 'train10k' takes 10,000 games, but 9 are left"),
        (["sets.test.games=50"], "trainall", "set 'trainall' takes 1 games, but 0 are left"),
        (["until=2000"], "test", "set 'test' takes 100 games, but 0 are left (0 up to 2000 in 0 archives)"),
        ([], "train10k", "set 'test' takes 100 games, but 50 are left"),
    ],
)
def test_too_few_games(overrides, name, message):
    """An error that names the numbers, where the program of 2015 would have drawn for ever."""
    with pytest.raises(RecipeError) as caught:
        Sampler(recipe(*overrides), archives(20, 30)).select(name)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_later_years_are_left_out():
    listed = archives(20, 30, 40, year=2013)
    few, all_of_them = recipe("sets.test.games=10"), recipe("sets.test.games=10", "until=2015")
    assert len(held(Sampler(few, listed), "trainall")) == 20 + 30 - 10
    assert len(held(Sampler(all_of_them, listed), "trainall")) == 20 + 30 + 40 - 10
    # but an archive of its own is a draw from nothing
    assert [len(games) for games in Sampler(few, listed).select("archives").values()] == [20, 30, 40]


def test_an_archive_of_no_games_is_passed_over():
    sampler = Sampler(recipe("sets.test.games=10"), archives(20, 0, 30))
    assert {name for name, _ in held(sampler, "trainall")} == {"KGS-2001-19-20-.zip", "KGS-2003-19-30-.zip"}
    assert [len(games) for games in sampler.select("archives").values()] == [20, 0, 30]


def test_an_index_may_not_fill_the_memory():
    listed = [parse_archive_name(f"KGS-{1000 + k}-19-9999999-.zip") for k in range(1000)]
    with pytest.raises(RecipeError, match="the archives hold 9,999,999,000 games; the maximum is 10,000,000"):
        Sampler(RECIPE, listed)
    assert MAX_GAMES == 10_000_000


def test_the_seed_makes_the_draw():
    listed = archives(500, 500)
    draws = {tuple(held(Sampler(recipe(f"seed={seed}"), listed), "test")) for seed in range(5)}
    assert len(draws) == 5


def test_the_order_of_the_archives_makes_the_draw():
    listed = archives(500, 500)
    assert set(held(Sampler(RECIPE, listed), "test")) != set(held(Sampler(RECIPE, listed[::-1]), "test"))


def test_two_sets_without_the_same_one():
    table = RECIPE.model_dump()
    table["sets"]["test"]["games"] = 10
    table["sets"]["other"] = table["sets"]["test"] | {"file": "other.dat", "without": "test"}
    sampler = Sampler(check_config(KgsgoRecipe, table, "recipe", "two"), archives(200))
    assert len(held(sampler, "other")) == 10
    assert not set(held(sampler, "test")) & set(held(sampler, "other"))


def test_without_an_index_page_the_newest_archives_come_first(small_page, reference):
    assert list_archives(None, sorted(small_page, key=lambda a: a.games)) == small_page
    assert list_archives(reference / "cached_indexpage.html", []) == small_page


def test_draws_are_rows_of_all_pairs():
    listed = archives(3, 4)
    chosen = Sampler(recipe("sets.test.games=7"), listed).select("test")
    assert {archive.name: np.sort(games).tolist() for archive, games in chosen.items()} == {
        "KGS-2001-19-3-.zip": [0, 1, 2],
        "KGS-2002-19-4-.zip": [0, 1, 2, 3],
    }


NAMES = ["KGS-2001-19-2298-.zip", "KGS-2002-19-3646-.zip", "KGS-2003-19-7582-.zip", "KGS-2006-19-10388-.zip"]
GAMES = 23914

HASHES = st.integers(-(2**63), 2**63 - 1)
CROWDED = st.lists(st.one_of(st.integers(0, 40), st.integers(-32, 31).map(lambda x: x << 58), HASHES), max_size=300)


@pytest.fixture(scope="module")
def dump(shared):
    return json.loads((shared / "reference/kgsgo/py2_dump.json").read_text())


def choices(count):
    """The first of `count` draws with `random.choice` over as many items as the four archives have games."""
    draw = random.Random(0).random
    return [int(draw() * GAMES) for _ in range(count)]


# CPython 2.7.18 said all this


def test_hashes(dump):
    assert len(dump["hash_examples"]) == 19
    for source, expected in dump["hash_examples"]:
        value = ast.literal_eval(source)
        assert naive.hash_of(value) == expected, source
        if isinstance(value, str):
            assert hash_text(value) == expected, source
        elif isinstance(value, tuple) and len(value) == 2:
            first = hash_text(value[0]) if isinstance(value[0], str) else value[0]
            assert hash_pairs([first], [value[1]]).tolist() == [expected], source


def test_hashes_of_archive_names(dump):
    assert [[name, hash_text(name)] for name in NAMES] == dump["b_hashes"]


def test_set_of_archive_names(dump):
    assert text_set_order(NAMES) == dump["b_set_iteration_order"]
    orders = {tuple(text_set_order(names)) for names in itertools.permutations(NAMES)}
    assert sorted(map(list, orders)) == sorted(dump["b_distinct_orders_over_all_24_insertion_orders"])


def test_draws_need_nothing_of_python_2(dump):
    draw = random.Random(0).random
    assert [repr(draw()) for _ in range(5)] == dump["random_seed0_first5_random"]
    assert choices(30) == dump["a_random_seed0_choice_n23914_first30"]
    joined = "\n".join(map(str, choices(12000))).encode()
    assert hashlib.md5(joined).hexdigest() == dump["a_first12000_md5_of_newline_joined"]


# and the twin says the rest


def test_text_without_characters():
    assert hash_text("") == naive.hash_text("") == 0


@given(st.text(st.characters(max_codepoint=0xFFFF)))
def test_hash_text(text):
    assert hash_text(text) == naive.hash_text(text)


@given(st.lists(st.tuples(HASHES, HASHES), min_size=1))
def test_hash_pairs(pairs):
    first, second = np.array(pairs, np.int64).T
    # A hash is never -1 itself, but both take what they are given; the twin turns an item -1 into -2.
    expected = [naive.hash_tuple(pair) for pair in pairs if -1 not in pair]
    assert [h for h, pair in zip(hash_pairs(first, second).tolist(), pairs) if -1 not in pair] == expected


def test_hash_pairs_broadcasts():
    name = hash_text(NAMES[0])
    expected = [naive.hash_tuple((NAMES[0], number)) for number in range(50)]
    assert hash_pairs(name, np.arange(50)).tolist() == expected


@pytest.mark.nojit
@given(CROWDED)
def test_set_order(hashes):
    """Many items with one hash, or hashes that differ only in bits that the first probes do not see."""
    assert set_order(np.array(hashes, np.int64)).tolist() == naive.set_order(hashes)


@pytest.mark.nojit
@pytest.mark.parametrize("filled", [0, 1, 5, 21, 85, 341])
def test_set_grows_where_it_did(filled):
    """A table of 8 is two thirds full with 6 items, one of 32 with 22, and so on."""
    rng = np.random.default_rng(filled)
    for size in (filled, filled + 1, filled + 2):
        hashes = rng.integers(-(2**63), 2**63, size, endpoint=False)
        assert set_order(hashes).tolist() == naive.set_order(hashes.tolist())


@pytest.mark.slow
@pytest.mark.parametrize("size", [50_000, 87_381, 87_382, 175_000])
def test_large_sets_grow_less(size):
    """More than 50,000 items make a set twice as large, not four times: seen with 87,382 and 174,763 of them."""
    hashes = hash_pairs(hash_text(NAMES[0]), np.arange(size))
    assert set_order(hashes).tolist() == naive.set_order(hashes.tolist())


@given(st.lists(st.text("abc", max_size=3), max_size=40))
def test_text_set_order_takes_repeated_texts(texts):
    expected = naive.Set()
    for text in texts:
        expected.add(naive.hash_text(text), text)
    assert text_set_order(texts) == list(expected)
