"""Python 2's hashes, set orders and draws: against what CPython 2.7.18 said, and against the slow twin."""

import ast
import hashlib
import itertools
import json
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive_python2 as naive
from kifu.recipes.kgs import hash_pairs, hash_text, set_order, text_set_order

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
