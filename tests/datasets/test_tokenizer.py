"""Games as tokens: the vocabulary, the twin, round trips, symmetries, and sequences that are not games."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive_tokens
from catalogues import rows
from drawn_games import games, one_game
from kifu.corpus.schema import move_arrays
from kifu.datasets.tokens import BEGIN, END, METADATA, Tokenizer
from kifu.errors import FormatError, GameError, RecipeError
from kifu.point import WHITE_BIT, symmetries

ALL = tuple(METADATA)
CARD = Path(__file__).parents[2] / "docs" / "formats" / "tokens.md"
BOARDS = st.integers(1, 7).flatmap(lambda size: st.tuples(st.just(size), st.just(size))) | st.just((4, 5))


def catalogue(*drawn: tuple[int, int, list[Any]], **columns: Any) -> Any:
    """Return drawn games as rows of the catalogue."""
    flat = [one_game(*game) for game in drawn]
    return rows(
        width=[game.width for game in flat],
        height=[game.height for game in flat],
        moves=[list(game.moves) for game in flat],
        setup=[[stone for _, stone in game.setup] for game in flat],
        setup_ply=[[ply for ply, _ in game.setup] for game in flat],
        **columns,
    )


def encode(tokenizer: Tokenizer, batch: Any) -> list[list[int]]:
    """Return the tokens of each row."""
    tokens, ends = tokenizer.encode(batch, np.arange(len(batch)))
    return [part.tolist() for part in np.split(tokens, ends[:-1])]


# The vocabulary


def test_tokens_have_distinct_names() -> None:
    for tokenizer in (Tokenizer(), Tokenizer(1, 1), Tokenizer(25, 25), Tokenizer(4, 7)):
        assert len(set(tokenizer.names)) == len(tokenizer.names) < 2**16
    names = Tokenizer().names
    assert (len(names), names[0], names[360], names[361], names[668]) == (
        669, "A19", "T1", "pass", "ending score over 40",
    )  # fmt: skip


def test_card_lists_the_vocabulary() -> None:
    """The table of the card has a row for each token or field."""
    text, names = CARD.read_text("utf-8"), Tokenizer().names
    ranges = [(0, 361, "points")] + [(361 + k, 362 + k, f"`{names[361 + k]}`") for k in range(9)]
    for name, first in Tokenizer().first_tokens.items():
        ranges.append((first, first + len(METADATA[name].values), f"`{name}`"))
    assert ranges[-1][1] == len(names)
    for first, stop, shown in ranges:
        numbers = f"{first}" if stop == first + 1 else f"{first} to {stop - 1}"
        offset = "0 to P - 1" if first == 0 else "P" if first == 361 else f"P + {first - 361}"
        offset += f" to P + {stop - 362}" if first and stop > first + 1 else ""
        assert f"| {offset} | {numbers} | {shown}" in text
    for field in METADATA.values():
        values = [value for value in field.values if not value.lstrip("-")[0].isdigit()]
        assert [value for value in values if value not in text] == []


def test_prefix_is_in_the_order_of_the_card() -> None:
    fields = Tokenizer(metadata=("result", "board", "komi")).fields
    assert fields == ("board", "komi", "result")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"width": 26}, GameError, "board size 26 x 19"),
        ({"metadata": ("elo",)}, RecipeError, "'elo'"),
        ({"metadata": ("komi", "komi")}, RecipeError, "'komi' is listed twice"),
        ({"pad": True}, RecipeError, "pad requires the metadata 'board'"),
    ],
)
def test_invalid_options(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Tokenizer(**options)


# Games


@pytest.mark.slow
@pytest.mark.nojit
@given(st.lists(BOARDS.flatmap(lambda size: games(st.just(size))), min_size=1, max_size=4), st.booleans())
def test_encode_matches_the_twin_and_decode_inverts_it(drawn: list[Any], pad: bool) -> None:
    """With `pad`, all fit into 7 x 8; without, each has a tokenizer of its own."""
    batch = catalogue(*drawn)
    for k, game in enumerate(batch.to_pylist()):
        tokenizer = Tokenizer(game["width"], game["height"], metadata=("board", "result"))
        if pad:
            tokenizer = Tokenizer(7, 8, pad=True, metadata=("board", "result"))
        row = batch.slice(k, 1)
        assert tokenizer.fits(row).tolist() == [not pad or game["width"] == game["height"]]
        if not tokenizer.fits(row)[0]:
            continue
        (tokens,) = encode(tokenizer, row)
        assert [tokenizer.names[token] for token in tokens] == naive_tokens.token_names(tokenizer, game)
        assert_decodes(tokenizer, tokens, game)


def assert_decodes(tokenizer: Tokenizer, tokens: list[int], row: dict[str, Any]) -> None:
    """Assert that tokens decode to a row of the catalogue."""
    found = tokenizer.decode(tokens)
    facts = naive_tokens.facts_of(row)
    assert found.metadata == {name: facts[name] for name in tokenizer.fields}
    for name in ("setup", "setup_ply", "moves"):
        assert getattr(found, name).tolist() == row[name]
    assert (found.width, found.height) == (row["width"], row["height"])


@pytest.mark.slow
@given(st.lists(games(st.just((5, 5))), min_size=1, max_size=5))
def test_many_games_are_decoded_as_each_one(drawn: list[Any]) -> None:
    tokenizer, batch = Tokenizer(5, 5), catalogue(*drawn)
    tokens, ends = tokenizer.encode(batch, np.arange(len(batch)))
    found, expected = tokenizer.decode_games(tokens, np.append(0, ends)), move_arrays(batch)
    for name in ("width", "height", "moves", "move_offset", "setup", "setup_ply", "setup_offset"):
        assert getattr(found, name).tolist() == getattr(expected, name).tolist()


def test_games_end_at_the_first_illegal_move() -> None:
    batch = rows(moves=[[0, 1 | WHITE_BIT, 0], []], n_legal=[2, 0], setup=[[], []], setup_ply=[[], []])
    names = Tokenizer(metadata=()).names
    assert [[names[token] for token in each] for each in encode(Tokenizer(metadata=()), batch)] == [
        ["begin", "A19", "B19", "end"], ["begin", "end"],
    ]  # fmt: skip


def test_handicap_game() -> None:
    moves = [72 | WHITE_BIT, 361, 361 | WHITE_BIT, 0 | WHITE_BIT]  # White moves twice in a row
    batch = rows(moves=[moves], setup=[[60, 300]], setup_ply=[[0, 0]], root_setup=[2], handicap=[2])
    tokenizer = Tokenizer(metadata=("handicap",))
    (tokens,) = encode(tokenizer, batch)
    assert [tokenizer.names[token] for token in tokens] == [
        "begin", "handicap 2", "black stone", "D16", "black stone", "Q4", "white to play", "Q16", "pass", "pass",
        "white to play", "A19", "end",
    ]  # fmt: skip


@pytest.mark.nojit
@given(BOARDS.flatmap(lambda size: games(st.just(size))), st.integers(0, 7), st.booleans())
def test_symmetry_tables_give_the_tokens_of_the_symmetric_game(drawn: Any, k: int, pad: bool) -> None:
    width, height, nodes = drawn
    if width != height:
        pad, k = False, k % 4
    tokenizer = Tokenizer(7 if pad else width, 7 if pad else height, pad, ("board", "komi"))

    def turn(point: Any) -> Any:
        if point is None:
            return None
        y, x = divmod(int(symmetries(width, height)[k, point[1] * width + point[0]]), width)
        return x, y

    turned = [(name, list(map(turn, what)) if name in ("AB", "AW", "AE") else turn(what)) for name, what in nodes]
    (tokens,), (expected,) = (
        encode(tokenizer, catalogue((width, height, each), komi=[6.5])) for each in (nodes, turned)
    )
    row = k + (8 * (width - 1) if pad else 0)
    assert tokenizer.symmetry_tables[row, tokens].tolist() == expected


@pytest.mark.parametrize("size", [(19, 19), (5, 9)])
@pytest.mark.parametrize("pad", [False, True])
def test_symmetry_tables_are_permutations_that_move_points_only(size: tuple[int, int], pad: bool) -> None:
    tokenizer = Tokenizer(*size, pad, ("board",))
    tables = tokenizer.symmetry_tables
    assert tables.shape == (8 * (26 if pad else 1), len(tokenizer.names))
    every = np.arange(len(tokenizer.names))
    assert (np.sort(tables, 1) == every).all()
    assert (tables[:, tokenizer.points :] == every[tokenizer.points :]).all()
    assert (tables[::8] == every).all()
    assert len(np.unique(tables[-8:], axis=0)) == (8 if size == (19, 19) else 4)


# Metadata


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("rules", [None, "Japanese", " chinese ", "NZ", "New Zealand", "GOE", "Tromp-Taylor", "koSIMPLE", "AGA", "?"]),
        ("handicap", [None, 0, 1, 2, 9, 10, -3]),
        ("komi", [None, 0.0, 6.5, -10.0, 10.0, 10.5, 3.75, -1e18, 7.0]),
        ("black_rating", [None, 0.0, 0.5, 1.0, 2.9, 31.0, 32.0, 40.0, 41.0, 49.0, 49.5]),
        ("white_rating", [None, 33.0]),
        ("year", [None, 1, 1959, 1960, 2006, 2049, 2050]),
        ("winner", [None, "black", "white", "draw"]),
        ("ending", ["score", "resign", "time", "forfeit", "void", "unknown"]),
    ],
)
def test_metadata_matches_the_twin(column: str, values: list[Any]) -> None:
    tokenizer = Tokenizer(metadata=ALL)
    batch = rows(moves=[[]] * len(values), **{column: values})
    for tokens, row in zip(encode(tokenizer, batch), batch.to_pylist()):
        assert_decodes(tokenizer, tokens, row)


def test_margins_have_bins() -> None:
    margins = [None, 0.0, 0.5, 2.0, 2.5, 5.0, 5.5, 40.0, 40.5, 1e6]
    batch = rows(moves=[[]] * len(margins), margin=margins, ending=["score"] * len(margins))
    found = [
        Tokenizer(metadata=("ending",)).decode(tokens) for tokens in encode(Tokenizer(metadata=("ending",)), batch)
    ]
    assert [game.metadata["ending"] for game in found] == [
        "score", *["score up to 2"] * 3, *["score up to 5"] * 2, "score up to 10", "score up to 40",
        *["score over 40"] * 2,
    ]  # fmt: skip


# Sequences that are not games


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([], "game 0 must begin with 2 tokens before its moves, got 0"),
        (["begin"], "game 0 must begin with 2 tokens before its moves, got 1"),
        (["A1", "komi 0"], "token 0 of game 0 must be begin, got A1"),
        (["begin", "A1"], "token 1 of game 0 must be komi, got A1"),
        (["begin", "komi 0", "begin"], "token 2 of game 0 is misplaced: begin"),
        (["begin", "komi 0", "padding"], "is misplaced: padding"),
        (["begin", "komi 0", "black stone", "pass"], "token 3 of game 0 is misplaced: pass"),
        (["begin", "komi 0", "black stone"], "token 2 of game 0 is misplaced: black stone"),
        (["begin", "komi 0", "white to play", "end"], "token 3 of game 0 is misplaced: end"),
        (["begin", "komi 0", "komi 0"], "token 2 of game 0 is misplaced: komi 0"),
    ],
)
def test_decode_refuses_what_is_no_game(names: list[str], message: str) -> None:
    tokenizer = Tokenizer(metadata=("komi",))
    with pytest.raises(FormatError, match=message):
        tokenizer.decode([tokenizer.names.index(name) for name in names])


@pytest.mark.nojit
@given(st.lists(st.integers(0, 40) | st.integers(-9, 2**17), max_size=8))
def test_decode_raises_nothing_else(words: list[int]) -> None:
    tokenizer = Tokenizer(5, 5, pad=True, metadata=("board",))
    with suppress(FormatError):
        tokenizer.decode([tokenizer.points + BEGIN, *words])


def test_decode_refuses_points_outside_a_smaller_board() -> None:
    tokenizer = Tokenizer(9, 9, pad=True, metadata=("board",))
    names = tokenizer.names
    for word, message in (("J1", "is misplaced: J1"), ("A9", "")):
        tokens = [names.index(name) for name in ("begin", "board 5x5", word, "end")]
        if message:
            with pytest.raises(FormatError, match=message):
                tokenizer.decode(tokens)
        else:
            assert tokenizer.decode(tokens).moves.tolist() == [0]
    with pytest.raises(FormatError, match="board must be at most 9x9, got 19x19"):
        tokenizer.decode([names.index(name) for name in ("begin", "board 19x19")])


def test_decode_ignores_what_follows_the_end() -> None:
    tokenizer = Tokenizer(metadata=())
    tokens = [tokenizer.points + BEGIN, 3, tokenizer.points + END, 5000]
    assert tokenizer.decode(np.array(tokens, np.uint16)).moves.tolist() == [3]


@pytest.mark.parametrize("offsets", [[0, 4], [-1, 3]])
def test_offsets_must_be_within_the_tokens(offsets: list[int]) -> None:
    tokenizer = Tokenizer(metadata=())
    tokens = np.array([tokenizer.points + BEGIN, 3, tokenizer.points + END], np.uint16)
    with pytest.raises(FormatError, match="offsets must be within 0 to 3"):
        tokenizer.decode_games(tokens, np.array(offsets))
