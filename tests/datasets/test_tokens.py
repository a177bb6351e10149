"""The format tokens@1: what NumPy reads, and damaged directories."""

from __future__ import annotations

import json
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
from kifu.datasets.tokens import TokenGames, Tokenizer, TokenWriter, open_tokens, pack_tokens
from kifu.errors import FormatError, OutputError, SourceError
from kifu.io import read_small
from kifu.point import WHITE_BIT

TOKENIZER = Tokenizer(metadata=("komi",))


def write(path: Path, tokenizer: Tokenizer = TOKENIZER, parts: int = 2) -> Path:
    """Write the first and the last game of `GAMES`, `parts` times."""
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


def test_failed_writes_leave_nothing(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), TokenWriter(tmp_path / "train", TOKENIZER):
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "train").mkdir()
    (tmp_path / "train" / "mine.txt").touch()
    with pytest.raises(OutputError, match=r"contains mine\.txt"):
        TokenWriter(tmp_path / "train", TOKENIZER)


def test_errors_of_other_readers_name_the_reader(tmp_path: Path) -> None:
    path = write(tmp_path / "train")
    for reader in (kifu.open, lambda path: kifu.load(path, "seven")):
        with pytest.raises(FormatError, match=r"as tokens, not planes: use kifu\.datasets\.tokens\.open_tokens"):
            reader(path)
    failed = run("inspect", path, "--row", 1)
    assert (failed.code, failed.err) == (
        2, [f"kifu: {path} has games as tokens, not planes: use kifu.datasets.tokens.open_tokens"],
    )  # fmt: skip


def test_inspect_shows_counts_and_a_game(tmp_path: Path) -> None:
    shown = run("inspect", write(tmp_path / "train")).out
    assert "games       4\n" in shown
    assert "tokens      22; 8 of them points and passes\n" in shown
    assert "komi        6.5: 2, other: 2\n" in shown
    assert "game 0      begin, komi 6.5, A19, B19, pass, end\n" in shown
    assert "manifest    none\n" in shown
    assert "games       0\n" in run("inspect", write(tmp_path / "none", parts=0)).out


def change_index(path: Path, **changes: Any) -> None:
    index = json.loads(read_small(path / "tokens.json"))
    (path / "tokens.json").write_text(json.dumps(index | changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "tokens@2"}, "lists format 'tokens@2', expected 'tokens@1'"),
        ({"games": 5}, "offsets.npy does not begin with the header"),
        ({"tokens": -1}, "tokens: Input should be greater"),
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
    failed = run("inspect", path)
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
