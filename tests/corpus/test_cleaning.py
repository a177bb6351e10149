"""Cleaning rules: each rule finds its violations only; tables are validated and overridden."""

import random
from collections import Counter
from pathlib import Path

import pytest

from kgs_archives import zipped
from kifu.assets import config_names
from kifu.corpus.catalogue import open_catalogue
from kifu.corpus.cleaning import load_cleaning_rules
from kifu.corpus.ingest import ingest
from kifu.corpus.rows import rows_from_catalogue
from kifu.errors import DropReason, RecipeError
from kifu.point import to_sgf
from kifu.records.games import ParseWarning


def game(properties: str, moves: str, size: str = "19") -> bytes:
    return f"(;GM[1]FF[4]SZ[{size}]{properties}{moves})".encode()


def line(count: int, start: int = 0) -> str:
    """Return `count` moves on distinct points, none beside a stone of the other colour."""
    points = [to_sgf(x + 19 * y, 19) for y in (*range(0, 19, 4), *range(2, 19, 4)) for x in range(0, 19, 2)]
    return "".join(f";{'BW'[k % 2]}[{points[start + k]}]" for k in range(count))


# rules (as overrides of "legal"), the reason, a game that has it, and one that just has not
PATHOLOGIES: dict[str, tuple[list[str], DropReason, bytes, bytes]] = {
    "no moves": (["min_moves=1"], DropReason.NO_MOVES, game("", ""), game("", line(1))),
    "five stones": (["min_stones=6"], DropReason.FEW_STONES, game("", line(5) + ";W[]"), game("", line(6))),
    "short": (["min_moves=30"], DropReason.TOO_SHORT, game("", line(29)), game("", line(30))),
    "long": (["max_moves=30"], DropReason.TOO_LONG, game("", line(31)), game("", line(30))),
    "against himself": (
        ["self_play=3.5"], DropReason.SELF_PLAY, game("PB[x]PW[x]", line(31)), game("PB[x]PW[y]", line(31)),
    ),
    "against himself, long enough": (
        ["self_play=1.0"], DropReason.SELF_PLAY, game("PB[x]PW[x]", line(18)), game("PB[x]PW[x]", line(19)),
    ),
    "against himself, named": (
        ["self_play=3.5"], DropReason.SELF_PLAY, game("PB[一]PW[一]", line(31)), game("PB[?]PW[?]", line(31)),
    ),
    "against himself, with a handicap as moves": (
        ["self_play=1.0"],
        DropReason.SELF_PLAY,
        game("PB[x]PW[x]HA[2]", ";B[ss];B[qs];W[os]" + line(17)),
        game("PB[x]PW[x]HA[2]", ";B[ss];B[qs];W[os]" + line(18)),
    ),
    "score too high": (["max_score=2.0"], DropReason.HUGE_SCORE, game("RE[B+723]", line(2)), game("RE[B+722]", line(2))),  # noqa: E501 - one case per line
    "score and komi": (
        ["whole_score=true"],
        DropReason.FRACTION_SCORE,
        game("RE[W+3.5]KM[6]", line(2)),
        game("RE[W+3.5]KM[6.5]", line(2)),
    ),
    "score without komi": (
        ["whole_score=true"], DropReason.FRACTION_SCORE, game("RE[B+3]KM[0.5]", line(2)), game("RE[B+3.5]", line(2)),
    ),
    "no result": (["finished=true"], DropReason.UNFINISHED, game("RE[?]", line(2)), game("RE[0]", line(2))),
    "void": (["finished=true"], DropReason.UNFINISHED, game("RE[Void]", line(2)), game("RE[W+]", line(2))),
    "rank unknown": (["ranked=true"], DropReason.RANK_UNKNOWN, game("BR[5d]WR[NR]", line(2)), game("BR[5d]WR[30k]", line(2))),  # noqa: E501 - one case per line
    "rank low": (["min_rating=36"], DropReason.RANK_LOW, game("BR[4d]WR[9d]", line(2)), game("BR[5d]WR[9p]", line(2))),
    "program": (["programs=false"], DropReason.PROGRAM, game("PB[GNU Go]PW[x]", line(2)), game("PB[Gnug]PW[x]", line(2))),  # noqa: E501 - one case per line
    "program of one's own": (
        ["programs=false", 'program_names=["mybot*"]'],
        DropReason.PROGRAM,
        game("PB[a]PW[MyBot 7]", line(2)),
        game("PB[a]PW[bot 7]", line(2)),
    ),
    "blitz": (
        ["min_seconds=600"],
        DropReason.BLITZ,
        game("TM[0]OT[1x3 byo-yomi]", line(2)),
        game("TM[600]OT[1x3 byo-yomi]", line(2)),
    ),
    "time unknown": (["min_seconds=600"], DropReason.BLITZ, game("TM[60]", line(2)), game("", line(2))),
    "two in a row": (
        ["alternating=true"],
        DropReason.NOT_ALTERNATING,
        game("", ";B[aa];B[cc];W[ee]"),
        game("HA[2]AB[dd][pp]", ";W[aa];B[cc];W[];B[ee]"),
    ),
    "more in a row than the handicap": (
        ["alternating=true"],
        DropReason.NOT_ALTERNATING,
        game("HA[2]", ";B[aa];B[cc];B[gg];W[ee]"),
        game("HA[3]", ";B[aa];B[cc];B[gg];W[ee]"),
    ),
    "two in a row after the handicap": (
        ["alternating=true"],
        DropReason.NOT_ALTERNATING,
        game("HA[2]", ";B[aa];B[cc];W[ee];W[gg]"),
        game("HA[2]AB[aa]", ";B[cc];W[ee];B[gg]"),
    ),
    "five stones with the handicap": (
        ["min_stones=6"],
        DropReason.FEW_STONES,
        game("HA[2]AB[aa][cc]", ";W[ee];B[gg];W[ii]"),
        game("HA[3]AB[aa][cc][cg]", ";W[ee];B[gg];W[ii]"),
    ),
    "five stones after a position": (
        ["min_stones=6"],
        DropReason.FEW_STONES,
        game("AB[aa][cc][cg]", ";W[ee];B[gg];W[ii]"),
        game("AB[ss][qs][os]", line(6)),
    ),
    "another size": (['sizes=["19x19","9x9"]'], DropReason.WRONG_SIZE, game("", ";B[aa]", "9:19"), game("", ";B[aa]", "9")),  # noqa: E501 - one case per line
    "damaged": (
        ['repairs=["text_skipped","truncated"]'],
        DropReason.REPAIRED,
        game("", line(6))[:-1],
        game("", line(6) + ";B[tt](;W[ss])(;W[rr])"),
    ),
    "size unknown": (["known_size=true"], DropReason.BAD_SIZE, b"(;GM[1];B[aa])", game("", ";B[aa]")),
    "ko": (
        ["rules=japanese"],
        DropReason.KO,
        game("AB[ba][ab][bc]AW[ca][db][cc][bb]", ";B[cb];W[bb]", "5"),
        game("AB[ba][ab][bc]AW[ca][db][cc][bb]", ";B[cb];W[ee];B[dd];W[bb]", "5"),
    ),
    "suicide": (
        ["rules=japanese"],
        DropReason.SUICIDE,
        game("AW[ca][bb][ab]", ";B[ba];W[];B[aa]", "5"),
        game("AW[ca][bb]", ";B[ba];W[];B[aa]", "5"),
    ),
}  # fmt: skip


def catalogue(folder: Path, games: list[bytes], *overrides: str, base: str = "legal", jobs: int = 1) -> Path:
    archive, path = zipped(folder / "games.zip", games), folder / "games.parquet"
    report = ingest(archive, path, clean=load_cleaning_rules(base, overrides), overwrite=True, jobs=jobs)
    assert report.read == len(games) == report.kept + sum(report.drops.values())
    return path


def reasons(path: Path) -> list[str | None]:
    return [drop for batch in open_catalogue(path).batches(("drop",)) for drop in batch["drop"].to_pylist()]


@pytest.mark.parametrize("name", PATHOLOGIES)
def test_rule_drops_its_violations_only(tmp_path: Path, name: str) -> None:
    overrides, why, bad, good = PATHOLOGIES[name]
    assert reasons(catalogue(tmp_path, [bad, good], *overrides)) == [why.name.lower(), None]


@pytest.mark.parametrize("name", [name for name in PATHOLOGIES if name not in ("suicide",)])
def test_disabled_rule_drops_nothing(tmp_path: Path, name: str) -> None:
    _, why, bad, good = PATHOLOGIES[name]
    expected = why.name.lower() if why == DropReason.KO else None  # a ko is against all rules
    assert reasons(catalogue(tmp_path, [bad, good])) == [expected, None]


def test_illegal_cut_cuts_before_the_illegal_move(tmp_path: Path) -> None:
    bad = game("PB[x]", ";B[aa];W[bb];B[aa];W[cc];AB[dd];W[ee]")
    path = catalogue(tmp_path, [bad, game("", line(3))], "illegal=cut")
    (batch,) = open_catalogue(path).batches()
    first, second = batch.to_pylist()
    assert (first["drop"], first["repairs"], first["moves"]) == (None, "setup_after_root,cut", [0, 20 | 0x8000])
    assert (first["n_moves"], first["n_legal"], first["setup"]) == (5, 2, [])
    assert (second["repairs"], second["n_moves"]) == (None, 3)
    dropped = catalogue(tmp_path, [bad])
    (row,) = next(open_catalogue(dropped).batches()).to_pylist()
    assert (row["drop"], row["drop_detail"], row["n_legal"]) == ("occupied", "move 3 at A19", 2)
    assert len(row["moves"]) == 5


def test_first_of_equal_games_is_kept(tmp_path: Path) -> None:
    games = [game("PB[x]", line(30)), game("PB[y]", line(30)), game("PB[x]", line(30)), game("PB[x]RE[B+R]", line(30))]
    assert reasons(catalogue(tmp_path, games, "duplicates=fields")) == [None, None, "duplicate", None]
    assert reasons(catalogue(tmp_path, games)) == [None] * 4


def test_longest_of_equal_games_and_beginnings_is_kept(tmp_path: Path) -> None:
    moves = [to_sgf(p, 19) for p in random.Random(3).sample(range(361), 80)]
    mirrored = ["".join((m[1], m[0])) for m in moves]

    def of(points: list[str], first: str = "BW") -> bytes:
        return game("", "".join(f";{first[k % 2]}[{p}]" for k, p in enumerate(points)))

    games = [of(moves[:60]), of(mirrored), of(moves, "WB"), of(moves[:20]), of(moves[:60][::-1])]
    found = reasons(catalogue(tmp_path, games, "duplicates=games"))
    assert found == ["cut_off", None, "same_game", None, None]
    (batch,) = open_catalogue(tmp_path / "games.parquet").batches(("id", "drop_detail"))
    assert batch["drop_detail"].to_pylist()[2] == f"of game {batch['id'][1].as_py():016x}"
    assert sorted(tmp_path.iterdir()) == [tmp_path / "games.parquet", tmp_path / "games.zip"]


@pytest.mark.parametrize("name", config_names("cleaning"))
def test_built_in_rules_have_their_name_and_a_title(name: str) -> None:
    assert load_cleaning_rules(name).name == name


def test_rules_of_schraudolphs_archive() -> None:
    rules = load_cleaning_rules("schraudolph")
    assert (rules.min_stones, rules.self_play, rules.max_score, rules.whole_score) == (6, 3.5, 2.0, True)
    assert rules.duplicates == "fields"


@pytest.mark.parametrize("name", ["schraudolph", "training"])
def test_damaged_records_are_dropped_with_their_repairs(tmp_path: Path, name: str) -> None:
    whole = game("PB[x]PW[y]RE[B+R]TM[3600]", line(40))
    records = [
        whole[:-1], whole[:-4], whole[:-3], whole.replace(b";W", b" 0 % ,,, \\ 0 ;W", 1),
        whole.replace(b"PB", b"AB[ss]AW[ss]PB"), whole,
    ]  # fmt: skip
    path = catalogue(tmp_path, records, base=name)
    (batch,) = open_catalogue(path).batches(("drop", "drop_detail", "repairs"))
    assert batch["drop"].to_pylist() == ["repaired"] * 4 + [None] * 2
    assert batch["drop_detail"].to_pylist() == ["truncated"] * 3 + ["text_skipped", None, None]
    assert batch["repairs"].to_pylist() == ["truncated"] * 3 + ["text_skipped", "setup_twice", None]


@pytest.mark.parametrize("name", [str(warning.name).lower() for warning in ParseWarning])
def test_each_repair_can_be_a_rule(name: str) -> None:
    assert load_cleaning_rules("legal", [f'repairs=["{name}"]']).repairs == (name,)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("min_moves=-1", "min_moves must be >= 0, got -1"),
        ("rules=chess", "rules: unknown rule set 'chess'; did you mean 'chinese'? available: records, japanese"),
        ('sizes=["19"]', "sizes: board must be like 19x19, got '19'"),
        ('repairs=["ko"]', "repairs: unknown repair 'ko'; available: truncated, junk_before, variations, "),
        ("nix=1", "nix: no such key; available: name, title, rules, illegal"),
        ("illegal=keep", "illegal must be 'drop' or 'cut'"),
    ],
)
def test_invalid_rules_raise_one_line_errors(override: str, message: str) -> None:
    with pytest.raises(RecipeError) as caught:
        load_cleaning_rules("legal", [override])
    assert str(caught.value).startswith("set of cleaning rules legal: " + message)


def test_unknown_rules_are_rejected() -> None:
    with pytest.raises(
        RecipeError, match="unknown set of cleaning rules 'nix'; available: legal, schraudolph, training"
    ):
        load_cleaning_rules("nix")


def test_report_as_text(tmp_path: Path) -> None:
    games = [game("RE[B+R]DT[the day after]", line(3)), game("", "")[:-1], game("HA[1]", ";B[tt]")]
    archive = zipped(tmp_path / "a.zip", [*games, games[2]])
    rules = load_cleaning_rules("legal", ["min_moves=1", "duplicates=fields"])
    report = ingest(archive, tmp_path / "a.parquet", clean=rules)
    first, repairs, second = str(report).splitlines()
    assert first.startswith("4 games = 2 kept + 1 no moves + 1 duplicate; 4 legal moves, ")
    assert repairs == "  kept with repairs: pass_as_tt 1, handicap_one 1"
    assert report.repairs == {"pass_as_tt": 1, "handicap_one": 1}
    assert second == "  not parsed, kept as text: 1 of date_text: 'the day after' 1"
    assert report.unparsed == {"date_text": Counter({"the day after": 1})}


def test_games_of_programs_state_the_reason(tmp_path: Path) -> None:
    games = [game("PB[AI (x)]PW[MIss]", line(2)), game("PB[Bob]PW[me2]", line(2)), game("PB[Ann]PW[Bob]", line(2))]
    path = catalogue(tmp_path, games, "programs=false", 'program_names=["me[0-9]  # mine"]')
    (batch,) = open_catalogue(path).batches(("drop", "drop_detail", "program", "black_program", "white_program"))
    assert batch["drop"].to_pylist() == ["program", "program", None]
    assert batch["program"].to_pylist() == [
        "black: pattern AI (*; white: behaviour, 234 games in 12 days, up to 50 a day, against 4 players, 0 won",
        "white: pattern me[0-9], mine",
        None,
    ]
    assert batch["drop_detail"].equals(batch["program"])
    assert [batch[f"{side}_program"].to_pylist() for side in ("black", "white")] == [
        [True, False, False],
        [True, True, False],
    ]


def test_rules_applied_anew_know_new_programs(tmp_path: Path) -> None:
    path = catalogue(tmp_path, [game("PB[me2]PW[Zen19]", line(2))])
    (batch,) = open_catalogue(path).batches()
    rows = rows_from_catalogue(
        batch, load_cleaning_rules("legal", ["programs=false", 'program_names=["me[0-9]", "Zen19"]'])
    )
    assert rows.columns["black_program"].to_pylist() == rows.columns["white_program"].to_pylist() == [True]
    assert rows.columns["program"].to_pylist() == ["white: list; black: pattern me[0-9]"]
    assert rows.drop.tolist() == [DropReason.PROGRAM]


def test_a_rating_may_be_a_rank() -> None:
    assert load_cleaning_rules("training", ["min_rating=6d"]) == load_cleaning_rules("training", ["min_rating=37"])
    with pytest.raises(RecipeError, match="min_rating: a rank is 30k to 1k, 1d to 9d or 1p to 9p, got '6x'"):
        load_cleaning_rules("training", ["min_rating=6x"])
