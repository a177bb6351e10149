"""Sampling of games: the 2015 program's own lists, and laws for any archives."""

import ast
import hashlib
import json
import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive_python2 as naive
from kifu.config import check_config
from kifu.errors import RecipeError
from kifu.recipes.kgs import MAX_GAMES, Sampler, list_archives, parse_archive_name, parse_index
from kifu.recipes.schema import KgsgoRecipe, load_recipe

RECIPE = load_recipe("kgsgo-v2")


def archives(*games, year=2001):
    """One archive a year, with so many games each."""
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


# The program's own lists


def test_the_program_s_test_set(reference, small_page):
    assert Sampler(RECIPE, small_page).pairs("test") == samples(reference / "test_samples.txt")


def test_in_the_order_of_the_draw(reference, small_page):
    rows = Sampler(RECIPE, small_page)._added("test")
    every = [(a.name, number) for a in small_page for number in range(a.games)]
    assert [every[row] for row in rows] == samples(reference / "test_samples_in_draw_order.txt")


def test_the_list_that_the_program_ships(reference, full_page):
    assert len(full_page) == 91
    assert sum(a.games for a in full_page if a.year <= 2014) == 171_562
    assert Sampler(RECIPE, full_page).pairs("test") == samples(reference / "full_index_test_samples.txt")


@pytest.mark.parametrize("count", [1, 5, 8, 20, 500, 2000])
def test_draws_of_other_sizes(reference, small_page, count):
    expected = json.loads((reference / "py2_dump.json").read_text())[f"draw_samples_{count}"]
    pairs = Sampler(recipe(f"sets.test.games={count}"), small_page).pairs("test")
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
        pairs = sampler.pairs(name)
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
        assert sampler.pairs(name) == expected
        order = naive.Set()
        for archive, _ in expected:
            order.add(naive.hash_text(archive), archive)
        assert [archive.name for archive in sampler.select(name)] == list(order)
        assert Counter(drawn(sampler.select(name))) == Counter(expected)


def test_a_set_may_take_every_game():
    sampler = Sampler(recipe("sets.test.games=50"), archives(20, 30))
    assert len(set(sampler.pairs("test"))) == 50


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
    assert len(Sampler(few, listed).pairs("trainall")) == 20 + 30 - 10
    assert len(Sampler(all_of_them, listed).pairs("trainall")) == 20 + 30 + 40 - 10
    # but an archive of its own is a draw from nothing
    assert [len(games) for games in Sampler(few, listed).select("archives").values()] == [20, 30, 40]


def test_an_archive_of_no_games_is_passed_over():
    sampler = Sampler(recipe("sets.test.games=10"), archives(20, 0, 30))
    assert {name for name, _ in sampler.pairs("trainall")} == {"KGS-2001-19-20-.zip", "KGS-2003-19-30-.zip"}
    assert [len(games) for games in sampler.select("archives").values()] == [20, 0, 30]


def test_an_index_may_not_fill_the_memory():
    listed = [parse_archive_name(f"KGS-{1000 + k}-19-9999999-.zip") for k in range(1000)]
    with pytest.raises(RecipeError, match="the archives hold 9,999,999,000 games; the maximum is 10,000,000"):
        Sampler(RECIPE, listed)
    assert MAX_GAMES == 10_000_000


def test_the_seed_makes_the_draw():
    listed = archives(500, 500)
    draws = {tuple(Sampler(recipe(f"seed={seed}"), listed).pairs("test")) for seed in range(5)}
    assert len(draws) == 5


def test_the_order_of_the_archives_makes_the_draw():
    listed = archives(500, 500)
    assert set(Sampler(RECIPE, listed).pairs("test")) != set(Sampler(RECIPE, listed[::-1]).pairs("test"))


def test_two_sets_without_the_same_one():
    table = RECIPE.model_dump()
    table["sets"]["test"]["games"] = 10
    table["sets"]["other"] = table["sets"]["test"] | {"file": "other.dat", "without": "test"}
    sampler = Sampler(check_config(KgsgoRecipe, table, "recipe", "two"), archives(200))
    assert len(sampler.pairs("other")) == 10
    assert not set(sampler.pairs("test")) & set(sampler.pairs("other"))


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
