"""Catalogues with values that no record has: examples or a KifuError come of them; the slow tests check bounds, too."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import kifu
from catalogues import rows, write_catalogue
from kifu.corpus.catalogue import open_catalogue
from kifu.corpus.export import rows_to_olf, rows_to_sgf
from kifu.errors import KifuError
from kifu.execution.executor import Executor
from kifu.leaks.audit import open_set
from kifu.records.game import write_sgf

WORDS = st.one_of(st.integers(0, 0xFFFF), st.integers(0, 362), st.integers(0x8000, 0x8000 + 362))
PLIES = st.sampled_from([0, 1, 2, 5, 6, 7, 255, 0xFFFF])
NUMBERS = st.one_of(st.none(), st.floats(width=32), st.sampled_from([0.0, 1e38, -1e38, 40.0, 1e10]))
COUNTS = st.sampled_from([-(2**31), -1, 0, 1, 3, 6, 7, 2**31 - 1])

GAME = st.fixed_dictionaries(
    {
        "width": st.sampled_from([19, 19, 19, 0, 1, 9, 25, 26, 255]),
        "height": st.sampled_from([19, 19, 19, 0, 1, 13, 255]),
        "moves": st.lists(WORDS, max_size=8),
        "setup": st.lists(WORDS, max_size=4),
        "setup_ply": st.lists(PLIES, max_size=4),
        "root_setup": st.integers(0, 5),
        "n_legal": COUNTS,
        "n_moves": COUNTS,
        "territory": st.none() | st.lists(WORDS, max_size=4),
        "handicap": st.none() | st.sampled_from([-32768, -1, 0, 2, 32767]),
        "to_play": st.sampled_from([0, 1, 2, 255]),
        "komi": NUMBERS,
        "black_rating": NUMBERS,
        "white_rating": NUMBERS,
        "rules": st.sampled_from([None, "japanese", "chinese", "nonsense"]),
        "winner": st.sampled_from([None, "black", "white", "neither"]),
    }
)

PLAIN = {
    "width": 19, "height": 19, "moves": [72, 0x8000 | 288, 361], "setup": [], "setup_ply": [], "root_setup": 0,
    "n_legal": 3, "n_moves": 3, "territory": [1, 0x8002], "handicap": 0, "to_play": 0, "komi": 6.5,
    "black_rating": 32.0, "white_rating": 40.0, "rules": "japanese", "winner": "black",
}  # fmt: skip


def uses(path: Path) -> list[Callable[[], Any]]:
    """Return what may be done with a catalogue."""
    labels = ["move", "next5", "result", "ownership", "ranks", "komi"]
    chosen = kifu.PositionFilter(passes=True)
    return [
        lambda: [*kifu.load(path, "seven", labels=labels, filter=chosen)],
        lambda: [*kifu.load(path, "seven", labels=labels, filter=chosen, pad=True)],
        lambda: [*kifu.load(path, "katago22", pad=True)],
        lambda: [*open_set(path).positions(Executor(1))],
        lambda: [write_sgf(game) for game in open_catalogue(path).games()],
        lambda: [rows_to_sgf(batch) for batch in open_catalogue(path).batches()],
        lambda: [rows_to_olf(batch) for batch in open_catalogue(path).batches()],
    ]


def replayable(game: dict[str, Any]) -> dict[str, Any]:
    """Return a plain game with the moves and setup of another."""
    return PLAIN | {"moves": game["moves"], "setup": game["setup"], "setup_ply": [0] * len(game["setup"])}


@settings(max_examples=settings().max_examples // 5, suppress_health_check=[HealthCheck.too_slow])
@given(games=st.lists(GAME | GAME.map(replayable), min_size=1, max_size=4))
@example(games=[PLAIN])
def test_extreme_rows(games: list[dict[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = write_catalogue(Path(folder, "x.parquet"), rows(**{key: [game[key] for game in games] for key in PLAIN}))
        for use in uses(path):
            if games == [PLAIN]:
                assert use()
            else:
                with suppress(KifuError):
                    use()
