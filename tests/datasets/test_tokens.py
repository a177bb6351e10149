"""Games as tokens: data sets, the vocabulary, the twin, round trips, and sequences that are not games."""

from __future__ import annotations

import json
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kifu
import naive_tokens
from catalogues import GAMES, rows
from commands import run
from drawn_games import games, one_game
from kifu.corpus.schema import move_arrays
from kifu.datasets.tokens import BEGIN, END, METADATA, TokenGames, Tokenizer, TokenWriter, open_tokens, pack_tokens
from kifu.errors import FormatError, GameError, RecipeError, SourceError
from kifu.io import read_small
from kifu.point import WHITE_BIT, symmetries

TOKENIZER = Tokenizer(metadata=("komi",))


def write(path: Path, tokenizer: Tokenizer = TOKENIZER, parts: int = 2) -> Path:
    with TokenWriter(path, tokenizer) as writer:
        for part in range(parts):
            chosen = np.array([0, 2])
            tokens, ends = tokenizer.encode(GAMES, chosen)
            writer.append(tokens, ends, np.array([7, 2**63], np.uint64) + np.uint64(part))
        report = writer.commit({"set": "mine"})
    assert report.examples == 2 * parts
    return path


def test_files_are_read_without_kifu(tmp_path: Path) -> None:
    path = write(tmp_path / "train")
    tokens, offsets, games = (np.load(path / f"{name}.npy", mmap_mode="r") for name in ("tokens", "offsets", "games"))
    assert [a.dtype.str for a in (tokens, offsets, games)] == ["<u2", "<i8", "<u8"]
    index = json.loads((path / "tokens.json").read_text())
    names = index["vocabulary"]
    assert [[names[k] for k in tokens[a:b]] for a, b in pairwise(offsets)] == 2 * [
        ["begin", "komi 6.5", "A19", "B19", "pass", "end"],
        ["begin", "komi other", "white to play", "Q16", "end"],
    ]
    assert games.tolist() == [7, 2**63, 8, 2**63 + 1]
    del index["vocabulary"], index["kifu-blake3"]
    assert index == {
        "format": "tokens@1", "games": 4, "tokens": 22, "width": 19, "height": 19, "pad": False,
        "metadata": ["komi"], "about": {"set": "mine"}, "files": ["tokens.npy", "offsets.npy", "games.npy"],
    }  # fmt: skip


def test_reading_what_was_written(tmp_path: Path) -> None:
    data = open_tokens(write(tmp_path / "train"))
    assert data.tokenizer == TOKENIZER
    assert (len(data), data[1].tolist()) == (4, data[3].tolist())
    assert TOKENIZER.decode(data[2]).moves.tolist() == GAMES["moves"][0].as_py()
    for game in (-1, 4):
        with pytest.raises(IndexError, match="within 0 to 3"):
            data[game]


def test_sets_without_games(tmp_path: Path) -> None:
    data = open_tokens(write(tmp_path / "none", parts=0))
    assert (len(data), data.tokens.tolist(), data.offsets.tolist()) == (0, [], [0])


def test_errors_of_other_readers_name_the_reader(tmp_path: Path) -> None:
    path = write(tmp_path / "train")
    for reader in (kifu.open, lambda path: kifu.load(path, "seven")):
        with pytest.raises(FormatError, match=r"as tokens, not planes: use kifu\.datasets\.tokens\.open_tokens"):
            reader(path)
    failed = run("show", path, "--row", 1)
    assert (failed.code, failed.err) == (
        2, [f"kifu: {path} has games as tokens, not planes: use kifu.datasets.tokens.open_tokens"],
    )  # fmt: skip


def test_inspect_shows_counts_and_a_game(tmp_path: Path) -> None:
    shown = run("show", write(tmp_path / "train")).out
    assert "games       4\n" in shown
    assert "tokens      22; 8 of them points and passes\n" in shown
    assert "komi        6.5: 2, other: 2\n" in shown
    assert "game 0      begin, komi 6.5, A19, B19, pass, end\n" in shown
    assert "manifest    none\n" in shown
    assert "games       0\n" in run("show", write(tmp_path / "none", parts=0)).out


def change_index(path: Path, **changes: Any) -> None:
    index = json.loads(read_small(path / "tokens.json"))
    (path / "tokens.json").write_text(json.dumps(index | changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "tokens@2"}, "lists format 'tokens@2', expected 'tokens@1'"),
        ({"games": 5}, "offsets.npy does not begin with the header"),
        ({"tokens": -1}, "tokens must be >="),
        ({"width": 300}, "board size 300 x 19"),
        ({"metadata": ["elo"]}, "'elo'"),
        ({"vocabulary": ["a"]}, "lists another vocabulary"),
        ({"metadata": ["komi", "year", "rules", "board"]}, "in steps of at least 6"),
    ],
)
def test_damaged_indices(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    path = write(tmp_path / "train")
    change_index(path, **changes)
    with pytest.raises(FormatError, match=message):
        open_tokens(path)


def test_damaged_files(tmp_path: Path) -> None:
    path = write(tmp_path / "train")
    whole = (path / "tokens.npy").read_bytes()
    (path / "tokens.npy").write_bytes(whole[:-2])
    with pytest.raises(FormatError, match="has 170 bytes, expected 172"):
        open_tokens(path)
    (path / "tokens.npy").unlink()
    with pytest.raises(SourceError, match="No such file"):
        open_tokens(path)
    (path / "tokens.npy").write_bytes(whole[:-4] + b"\x00\xff\xff\xff")
    failed = run("show", path)
    assert failed.code == 2
    assert "tokens must be below 669, got 65535" in failed.err[-1]
    offsets = np.load(path / "offsets.npy")
    for bad in ([1, 6, 11, 17, 22], [0, 6, 5, 17, 22], [0, 6, 11, 17, 23]):
        np.save(path / "offsets.npy", np.array(bad, offsets.dtype))
        with pytest.raises(FormatError, match=r"must ascend from 0 to 22 in steps of at least 3"):
            open_tokens(path)


def games_as_tokens(count: int, pad: bool, seed: int) -> TokenGames:
    """Return random games; with `pad` on boards of several sizes."""
    rng = np.random.default_rng(seed)
    tokenizer = Tokenizer(19, 19, pad, ("board", "komi"))
    sizes = [(19, 9, 13)[k % 3] if pad else 19 for k in range(count)]
    moves = [rng.integers(0, size * size + 1, rng.integers(1, 12)) for size in sizes]
    words = [(points | (np.arange(len(points)) % 2 * WHITE_BIT)).tolist() for points in moves]
    batch = rows(moves=words, width=sizes, height=sizes, komi=[6.5] * count)
    tokens, ends = tokenizer.encode(batch, np.arange(count))
    return TokenGames(tokenizer, tokens, np.append(0, ends), np.arange(count, dtype=np.uint64))


@given(st.integers(0, 12), st.integers(1, 40), st.booleans(), st.booleans(), st.integers(0, 2**32))
def test_packed_rows_match_the_twin(count: int, length: int, pad: bool, augment: bool, seed: int) -> None:
    data = games_as_tokens(count, pad, seed)
    rng = np.random.default_rng(seed)
    order, symmetry = rng.permutation(count), rng.integers(0, 8 if augment else 1, count)
    packed = pack_tokens(data, order, length, symmetry if augment else None)
    games = [data[g].tolist() for g in order]
    expected = naive_tokens.pack(data.tokenizer, games, symmetry.tolist(), length)
    arrays = (packed.tokens, packed.positions, packed.segment_ids)
    assert [array.dtype.name for array in arrays] == ["uint16", "int32", "int32"]
    assert [list(zip(*row)) for row in zip(*(array.tolist() for array in arrays))] == expected
    assert packed.tokens.shape == (len(expected), length)


def test_packing_refuses_tokens_that_are_not_in_the_vocabulary() -> None:
    data = games_as_tokens(3, True, 0)
    for index, token in ((1, 0), (3, 65535)):
        damaged = data.tokens.copy()
        damaged[index] = token
        with pytest.raises(FormatError, match="not in the vocabulary, or no board"):
            pack_tokens(
                TokenGames(data.tokenizer, damaged, data.offsets, data.games), np.arange(3), 8, np.zeros(3, np.int64)
            )


ALL = tuple(METADATA)
CARD = Path(__file__).parents[2] / "docs" / "formats" / "tokens.md"
BOARDS = st.integers(1, 7).flatmap(lambda size: st.tuples(st.just(size), st.just(size))) | st.just((4, 5))


def catalogue(*drawn: tuple[int, int, list[Any]], **columns: Any) -> Any:
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
