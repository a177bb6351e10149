"""The loader of tokens: its twin, the laws of an epoch, ranks, resuming, and its sources."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kifu
import naive_tokens
from catalogues import rows
from kifu.datasets.token_loader import TokenLoader
from kifu.datasets.tokenizer import Tokenizer
from kifu.datasets.tokens import TokenGames, TokenWriter
from kifu.errors import FormatError, RecipeError, SourceError
from kifu.point import WHITE_BIT
from loader_games import kept_games, make

SIZES = (19, 9, 13)
PACKINGS = st.sampled_from(["packed", "game"])


def games_as_tokens(count: int, pad: bool = False, seed: int = 0) -> TokenGames:
    """Return random games; with `pad` on boards of several sizes."""
    rng = np.random.default_rng(seed)
    tokenizer = Tokenizer(19, 19, pad, ("board", "komi"))
    sizes = [SIZES[k % 3] if pad else 19 for k in range(count)]
    moves = [rng.integers(0, size * size + 1, rng.integers(1, 12)) for size in sizes]
    words = [(each | (np.arange(len(each)) % 2 * WHITE_BIT)).tolist() for each in moves]
    batch = rows(moves=words, width=sizes, height=sizes, komi=[6.5] * count)
    tokens, ends = tokenizer.encode(batch, np.arange(count))
    return TokenGames(tokenizer, tokens, np.append(0, ends), np.arange(count, dtype=np.uint64) * np.uint64(3))


def loader(data: TokenGames, length: int, batch_size: int, packing: Any = "packed", **options: Any) -> TokenLoader:
    return TokenLoader(data, length, batch_size, packing, kifu.LoaderConfig(**options))


def rows_of(batches: Any) -> list[Any]:
    """Return the rows of batches as (tokens, positions, segment ids, length, game)."""
    return [
        row
        for batch in batches
        for row in zip(
            *(a.tolist() for a in (batch.tokens, batch.positions, batch.segment_ids, batch.lengths, batch.game))
        )
    ]


@pytest.mark.nojit
@given(
    st.integers(1, 12), st.integers(1, 40), st.integers(1, 5), PACKINGS, st.booleans(),
    st.booleans(), st.booleans(), st.integers(0, 2**63 - 1), st.integers(0, 2),
)  # fmt: skip
def test_rows_match_the_twin(
    count: int, length: int, batch_size: int, packing: str, pad: bool, augment: bool, shuffle: bool, seed: int,
    epoch: int,
) -> None:  # fmt: skip
    data = games_as_tokens(count, pad, seed % 7)
    made = loader(data, length, batch_size, packing, seed=seed, augment=augment, shuffle="window" if shuffle else None)
    made.set_epoch(epoch)
    games = [data[g].tolist() for g in range(count)]
    parts = naive_tokens.stream(data.tokenizer, games, seed, epoch, augment, shuffle)
    expected = []
    for row in naive_tokens.pack(parts, length, packing):
        tokens, positions, numbers = map(list, zip(*row))
        segments = np.cumsum(np.diff(numbers, prepend=-1) != 0).tolist()
        fill = length - len(row)
        padding = data.tokenizer.padding
        expected.append(
            (tokens + [padding] * fill, positions + [0] * fill, segments + [0] * fill, len(row), numbers[0] * 3)
        )
    batches = list(made)
    assert rows_of(batches) == expected
    assert {len(batch) for batch in batches[:-1]} <= {batch_size}
    assert made.epoch_number == epoch + 1


@given(st.integers(1, 30), st.integers(1, 50), st.integers(1, 5), st.integers(1, 4), PACKINGS)
def test_ranks_divide_the_epoch(count: int, length: int, batch_size: int, world_size: int, packing: Any) -> None:
    data = games_as_tokens(count)
    whole = rows_of(loader(data, length, batch_size, packing, seed=3))
    ranks = [
        rows_of(loader(data, length, batch_size, packing, seed=3, rank=rank, world_size=world_size))
        for rank in range(world_size)
    ]
    assert [row for rank in ranks for row in rank] == whole
    assert max(map(len, ranks)) - min(map(len, ranks)) <= 1
    full = [
        list(loader(data, length, batch_size, packing, seed=3, rank=rank, world_size=world_size, drop_last=True))
        for rank in range(world_size)
    ]
    assert {len(rank) for rank in full} == {len(whole) // world_size // batch_size}
    assert all(len(batch) == batch_size for rank in full for batch in rank)


@given(st.integers(1, 30), st.integers(1, 50))
def test_packed_epochs_deliver_each_token_once(count: int, length: int) -> None:
    data = games_as_tokens(count)
    made = loader(data, length, 4, augment=False)
    for _ in range(2):
        found = Counter(token for row in rows_of(made) for token in row[0][: row[3]])
        assert found == Counter(data.tokens.tolist())


def test_epochs_and_seeds_differ() -> None:
    data = games_as_tokens(20)
    made = loader(data, 16, 4)
    epochs = [rows_of(made) for _ in range(3)]
    assert epochs[0] != epochs[1] != epochs[2]
    assert rows_of(loader(data, 16, 4, seed=1)) != epochs[0]
    made.set_epoch(1)
    assert rows_of(made) == epochs[1]


@given(st.integers(0, 40), PACKINGS)
def test_resuming_is_exact(delivered: int, packing: Any) -> None:
    data = games_as_tokens(25)
    made = loader(data, 16, 3, packing, seed=5)
    batches = [*made, *made]
    other = loader(data, 16, 3, packing, seed=5)
    delivered = min(delivered, len(batches) - 1)
    taken = 0
    while taken < delivered:
        for _ in other:
            taken += 1
            if taken == delivered:
                break
    resumed = loader(data, 16, 3, packing, seed=5)
    resumed.load_state_dict(other.state_dict())
    rest = [batch for _ in range(2) for batch in resumed]
    assert rows_of(rest)[: len(rows_of(batches[delivered:]))] == rows_of(batches[delivered:])


def test_a_loop_that_ends_early_starts_the_epoch_again() -> None:
    made = loader(games_as_tokens(20), 16, 2)
    first = next(iter(made))
    assert rows_of([next(iter(made))]) == rows_of([first])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seed": 6}, "seed was 5, and is 6"),
        ({"augment": False}, "augment was True, and is False"),
        ({"length": 8}, "length was 16, and is 8"),
        ({"world_size": 2}, "world_size was 1, and is 2"),
        ({"count": 26}, "tokens was"),
    ],
)
def test_states_of_other_loaders(options: dict[str, Any], message: str) -> None:
    state = loader(games_as_tokens(25), 16, 3, seed=5).state_dict()
    options = {"seed": 5, "length": 16, "count": 25} | options
    other = loader(games_as_tokens(options.pop("count")), options.pop("length"), 3, **options)
    with pytest.raises(RecipeError, match=message):
        other.load_state_dict(state)


def test_invalid_states() -> None:
    made = loader(games_as_tokens(5), 16, 3)
    for state, message in (
        ({}, "not a state"),
        (made.state_dict() | {"of": None}, "not a state"),
        (made.state_dict() | {"version": 9}, "version 9"),
        (made.state_dict() | {"batch": -1}, "batch must be an integer >= 0, got -1"),
    ):
        with pytest.raises(RecipeError, match=message):
            made.load_state_dict(state)
    with pytest.raises(RecipeError, match="epoch must be an integer >= 0, got -1"):
        made.set_epoch(-1)


def test_damaged_tokens_are_an_error() -> None:
    data = games_as_tokens(5)
    for at, value in ((4, 60000), (4, 669)):
        tokens = data.tokens.copy()
        tokens[at] = value
        with pytest.raises(FormatError, match="game 0 of the tokens"):
            list(loader(replace(data, tokens=tokens), 16, 3))
    padded = games_as_tokens(5, pad=True)
    for value in (0, 400, 65535):
        tokens = padded.tokens.copy()
        tokens[1] = value
        with pytest.raises(FormatError, match="game 0 of the tokens"):
            list(loader(replace(padded, tokens=tokens), 16, 3))


# Sources


@pytest.fixture(scope="module")
def catalogue(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("games"), smalls=6)


def test_catalogues_give_what_a_build_would_give(catalogue: Path, tmp_path: Path) -> None:
    recipe = kifu.load_recipe("tokens", ["clean=legal"]).model_copy(update={"split": None})
    (built,) = kifu.build(recipe, catalogue, tmp_path)
    assert built.manifest.kept == len(kept_games(catalogue))
    assert rows_of(kifu.load_tokens(built.path, 64)) == rows_of(kifu.load_tokens(catalogue, 64))


def test_several_data_sets_are_joined(catalogue: Path, tmp_path: Path) -> None:
    built = kifu.build(kifu.load_recipe("tokens", ["clean=legal"]), catalogue, tmp_path)
    config = kifu.LoaderConfig(shuffle=None, augment=False)
    paths = [report.path for report in built]
    loaders = [kifu.load_tokens(each, 64, packing="game", config=config) for each in (*paths, paths)]
    *one_by_one, joined = loaders
    one_by_one = [row for each in one_by_one for row in rows_of(each)]
    assert rows_of(joined) == one_by_one
    assert repr(joined).startswith(f"<TokenLoader: {len(one_by_one):,} games")


def test_smaller_boards_are_included_on_demand(catalogue: Path) -> None:
    metadata = ("board",)
    counts = {
        pad: len(rows_of(kifu.load_tokens(catalogue, packing="game", pad=pad, metadata=metadata)))
        for pad in (False, True)
    }
    assert counts[True] - counts[False] == 4  # two of six small boards are not square


def test_invalid_sources_and_options(catalogue: Path, tmp_path: Path) -> None:
    with TokenWriter(tmp_path / "set", Tokenizer()) as writer:
        writer.commit({})
    with TokenWriter(tmp_path / "other", Tokenizer(9, 9)) as writer:
        writer.commit({})
    for sources, options, error, message in (
        (catalogue, {"length": 0}, RecipeError, "length must be >= 1, got 0"),
        (catalogue, {"batch_size": 0}, RecipeError, "batch_size must be >= 1, got 0"),
        (catalogue, {"packing": "row"}, RecipeError, "unknown packing 'row'"),
        (catalogue, {"board": "5x5"}, SourceError, "no game on a 5 x 5 board"),
        ([tmp_path / "set", catalogue], {}, RecipeError, "games.parquet is not a data set of tokens, but"),
        ([tmp_path / "set", tmp_path / "other"], {}, RecipeError, "other has Tokenizer"),
        (tmp_path / "set", {"board": "19x19"}, RecipeError, "apply to games only"),
    ):
        with pytest.raises(error, match=message):
            kifu.load_tokens(sources, **options)  # type: ignore[arg-type]
    assert list(kifu.load_tokens(tmp_path / "set")) == []


def test_global_batches_of_tokens_are_refused(tmp_path: Path) -> None:
    catalogue = make(tmp_path, 3, 20, 0)
    with pytest.raises(RecipeError, match="order of tokens must be 'contiguous', got 'global-batch'"):
        kifu.load_tokens(catalogue, config=kifu.LoaderConfig(order="global-batch"))
