"""Dirty SGF: cut, joined and pasted records keep their moves, names, komi and result; the kinds of docs/leniency.md."""

from itertools import product

import pytest

from kifu.errors import DropReason
from kifu.records.games import ParseWarning
from kifu.records.sgf import as_block, root_properties, scan

INFO = "PB[Ann]PW[Bob]KM[5.5]RE[W+R]"
HEAD = f"(;GM[1]FF[4]SZ[9]{INFO}"
MOVES = ";B[cc];W[gg];B[ee];W[cg])"
LINE = "cc gg ee cg"


def lines(text: str) -> list[str]:
    """Return the moves of each game, by the letters of their points; of a dropped game, its reason."""
    games, found = scan(as_block([text.encode()])), []
    for g in range(len(games)):
        moves = (games.moves[games.move_offset[g] : games.move_offset[g + 1]] & 0x3FFF).tolist()
        size = int(games.width[g])
        points = [chr(97 + move % size) + chr(97 + move // size) for move in moves]
        found.append(" ".join(points) if games.drop[g] == 0 else DropReason(int(games.drop[g])).name)
    return found


def check(text: str, *expected: str) -> None:
    """Compare the moves of the games, and the first one's names, komi and result, with those of `INFO`."""
    assert lines(text) == list(expected or [LINE])
    root = root_properties(text.encode())
    assert [root[name][0] for name in ("PB", "PW", "KM", "RE")] == [b"Ann", b"Bob", b"5.5", b"W+R"]


TEXTS = [
    "GN[Ann [5k] vs Bob [4k]]", "EV[Open [A] Best [3]]", "PC[Server [KGS] Board [3]]", "SO[x..b[0]=W[1]]", "C[[[a]]]",
    "EV[Cup [final] (game 1)]", "EV[Cup] (game 1)", "US[Matsuyama[3d]]", "US[x [1] ABe [aa]]", "C[a]]", "C[[a]",
    "GC[Ann [5k] RE[B+R] claimed]", "GC[Ann 5k] RE[B+R] claimed]", "GC[note [1]: KM [0.5] ..]", "C[:[ ]", "C[:[]",
    "C[hi] :)", "C[Ann 5k] hi]", "C[(see [1])]", "C[B[aa]]", "C[PB[Eve] wins]", "C[He: [nice] KM[6.5]RE[B+3] PB[Eve]]",
    "C[Ann [5k]: hi :)]", "C[Ann [5k]: hi ;)]", "C[Ann 5k]: hi :)]", "C[Ann [5k]: hi :)\nBob [4k]: hi :)]",
    "C[a [1]: a) attach, b) extend]", "C[x [1]; y [2]; z]", "C[Ann 5k] Bob [4k] says]", "C[Ann 5k]: B[ee] better]",
    "C[White (Ann [5k]) thinks; ok]", "C[(;B[ee];W[cg])]", "C[(;W[dd])(;W[dd]) see [1]]", "C[(see [1]) Bob [4k]: (;]",
    "LB[aa:x [1] :)]", "C[see [1] (;W[dd])]", "C[Black [5k](;B[ee];W[cg])]", "C[aa][bb [5k] :)]",
    "C[seq: B[ee] W[cg] B[gc]]",
    "C[hi [5k] see (;B[ee];W[cg]) ok]", "C[x [5k]: (;B[ee];W[cg])]",
    "C[Ann [5k]: hi ; B[ff] later]", "C[Bob [3k]: no, B[dd] was better]", "C[Ann 5k] B[dd] was better]",
]  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_text_after_an_unescaped_bracket(text: str) -> None:
    check(HEAD + text + MOVES)
    check(f"(;GM[1]FF[4]SZ[9]{text}{INFO}{MOVES}")
    if text.startswith("C"):
        check(f"{HEAD};B[cc];W[gg]{text};B[ee];W[cg])")
        check(f"{HEAD};B[cc];W[gg];B[ee];W[cg]{text})")
        check(
            f"{HEAD};B[cc];{text}W[gg];B[ee];W[cg])" if "B[dd] was" not in text and "5k] " not in text else HEAD + MOVES
        )


@pytest.mark.parametrize(
    ("text", "more"),
    [
        (")\n;B[cc];W[gg];B[ee];W[cg])", []),
        (";B[cc];W[gg]);B[ee];W[cg])", []),
        (";B[cc]));W[gg]));B[ee];W[cg])))", []),
        (";B[cc];W[gg]) :) ;B[ee];W[cg])\n(;SZ[9];B[dd])", ["dd"]),
        (")\n;B[cc];W[gg];B[ee];W[cg])\n(;GM[1]SZ[9];B[dd])", ["dd"]),
    ],
)
def test_early_parenthesis(text: str, more: list[str]) -> None:
    check(HEAD + text, LINE, *more)
    assert scan(as_block([(HEAD + text).encode()])).warnings[0] & ParseWarning.CLOSED_EARLY


def test_other_games_do_not_follow_an_early_parenthesis() -> None:
    check(HEAD + MOVES + ";GM[1]SZ[9];B[dd])", LINE, "dd")
    check(HEAD + MOVES + "\n;PB[Eve];B[dd])")
    check(HEAD + MOVES + "\nFF[4]SZ[9]PB[Eve];B[dd])")
    check(HEAD + ";B[cc](;W[gg];B[ee];W[cg])(;W[dd]));B[ff])")


@pytest.mark.parametrize(
    "moves",
    [
        ";B[cc]W[gg];B[ee]W[cg])", ";W[cc]B[gg];W[ee]B[cg])", ";B[cc]W[gg]B[ee]W[cg])", ";B[cc],W[gg],;B[ee],W[cg])",
        ";B[cc],W[gg],B[ee],W[cg])", "\uff1bB[cc]\uff1bW[gg]\uff1bB[ee]\uff1bW[cg])", "B[cc]W[gg];B[ee]W[cg])",
        ",;B[cc],;W[gg],;B[ee],;W[cg],)", ";B[cc]C[a]W[gg]C[b];B[ee]BL[3]W[cg]WL[3])",
    ],
)  # fmt: skip
def test_several_moves_in_a_node(moves: str) -> None:
    check(HEAD + moves)
    check(HEAD.replace("SZ[9]", "").replace("(;", "(;SZ[9]") + moves)


def test_further_moves_of_one_colour_are_skipped() -> None:
    check(f"{HEAD};B[cc][gg];B[ee]B[cg])", "cc ee")


@pytest.mark.parametrize("root", [f"(;\n;GM[1]SZ[9]{INFO}", f"(;C[intro];GM[1]SZ[9]{INFO}", f"(;;SZ[9]{INFO}"])
def test_second_node_has_the_root(root: str) -> None:
    check(root + MOVES)


SMILEYS = ["Hi Bob (;-) here it is:\n", "nice game (;\n", "nice (;\n\n", "(;-)", "(; hello (;\n", "(;-P [see below]\n"]


@pytest.mark.parametrize("smiley", SMILEYS)
def test_smileys_between_records(smiley: str) -> None:
    check(smiley + HEAD + MOVES)
    check(f"{smiley}(;SZ[9]{INFO}{MOVES}")
    check(f"{HEAD}{MOVES}\n{smiley}{HEAD}{MOVES}", LINE, LINE)
    check(f"{HEAD}{MOVES}\n{smiley}")


NEXT = "\n(;GM[1]FF[4]SZ[9]PB[Cid];B[dd];W[ff])\n"
STARTS = [
    NEXT, NEXT.replace("GM[1]FF[4]", "FF[4]GM[1]"), NEXT.replace("GM[1]FF[4]", "CA[UTF-8]AP[x:1]GM[1]FF[4]"),
    "\r\n" + NEXT.strip(), "\n  " + NEXT.strip(), NEXT.replace("(;", "( ; "), "\r" + NEXT.strip(),
    NEXT.replace("GM[1]FF[4]", "FF[4]\nCA[UTF-8]\nGM[1]"), NEXT.replace("GM[1]FF[4]SZ[9]PB[Cid]", "SZ[9]PB[Cid]GM[1]"),
]  # fmt: skip
CUTS = {
    ";B[cc];W[gg]C[good ga": "cc gg", ";B[cc];W[g": "cc", ";B[cc];W[gg": "cc", ";B[cc];W[gg]BL[12": "cc gg",
    ";B[cc];W[gg]LB[aa:x": "cc gg", ";B[cc];W[gg]AE[aa": "cc gg", ";B[cc];W[gg];": "cc gg", ";B[cc];W[gg]C": "cc gg",
    ";B[cc];W": "cc", "C[options: -p": "", ";B[cc](;W[gg];B[ee": "cc gg", ";B[cc]C[a [b": "cc", ";B[cc]C[a [b] c": "cc",
    ";B[cc]C[a\\": "cc",
}  # fmt: skip


@pytest.mark.parametrize(("cut", "start"), [*product(CUTS, STARTS)])
def test_next_record_after_a_cut(cut: str, start: str) -> None:
    check(f"{HEAD}{cut}{start}", CUTS[cut], "dd ff")
    text = f"{HEAD}{MOVES}\n{HEAD}{cut}{start}{HEAD}{MOVES}"
    check(text, LINE, CUTS[cut], "dd ff", LINE)
    assert scan(as_block([text.encode()])).warnings[1] & ParseWarning.TRUNCATED


def test_escaped_record_in_a_comment() -> None:
    pasted = NEXT.replace("]", "\\]")
    check(f"{HEAD};B[cc];W[gg]C[see:{pasted}];B[ee];W[cg])")
