"""Records with missing tokens, empty variations, white space, and text in another character set than CA names.

What is right was decided before the parser ran: by the rules of SGFC for the structure, by FF[4] for white space, and
by the text that was encoded for character sets.
"""

import random
import re
from pathlib import Path

import numba
import pytest

from fuzz_sgf import dirty, trap_records
from kifu.records.containers import blocks
from kifu.records.game import Game, read_games, write_sgf
from kifu.records.games import ParseWarning
from kifu.records.sgf import as_block
from naive_sgf import compare_with_naive
from naive_text_fields import compare_text, compare_text_fields


def moves_of(game: Game) -> str:
    """Return the moves as SGF without brackets, such as "Bcc W"."""
    return " ".join(colour + point for colour, point in re.findall(r";([BW])\[(\w*)\]", write_sgf(game).decode()))


STRUCTURES = {  # record -> moves of each game, and the warnings of all of them that are about the structure
    # The ; of a root is missing.
    "(GM[1]SZ[9];B[cc];W[gg])": (["Bcc Wgg"], "SEMICOLON_MISSING"),
    "(\r\nGM[1]\r\nSZ[9]\r\n;B[cc]\r\n)": (["Bcc"], "SEMICOLON_MISSING"),
    "(GaMe[1]SiZe[9];B[cc];W[gg])": (["Bcc Wgg"], "SEMICOLON_MISSING"),
    "(SZ[9]B[cc];W[gg])": (["Bcc Wgg"], "SEMICOLON_MISSING"),
    "(SZ[9]TE[Cup (final)];B[cc])": (["Bcc"], "SEMICOLON_MISSING"),
    "(SZ[9]KM[5.5](B[cc](W[gg](B[ee]))))": (["Bcc Wgg Bee"], "SEMICOLON_MISSING"),
    "mail (Thu) [1]\n(SZ[9]PB[Ann];B[cc])": (["Bcc"], "SEMICOLON_MISSING"),
    "(SZ[9]PB[a];B[aa])(SZ[9]PB[b];B[bb])\n(SZ[9]PB[c];B[cc])": (["Baa", "Bbb", "Bcc"], "SEMICOLON_MISSING"),
    "(;GM[1]SZ[9];B[cc]\n(GM[1]SZ[9];B[dd])": (["Bcc", "Bdd"], "SEMICOLON_MISSING TRUNCATED"),
    "see (page [1] and [2]) (;SZ[9];B[cc])": (["Bcc"], ""),
    "(A[1]) (;SZ[9];B[cc])": (["Bcc"], ""),  # one value is not enough
    # The ; of the first node of a variation is missing.
    "(;SZ[9];B[cc](W[gg];B[ee])(;W[ff]))": (["Bcc Wgg Bee"], "SEMICOLON_MISSING VARIATIONS"),
    "(;SZ[9];B[cc](\r\n\tW [gg];B[ee]))": (["Bcc Wgg Bee"], "SEMICOLON_MISSING"),
    "(;SZ[9];B[cc](C[a (b;c) d]W[gg];B[ee]))": (["Bcc Wgg Bee"], "SEMICOLON_MISSING"),
    "(;SZ[9];B[cc](White[gg];Black[ee]))": (["Bcc Wgg Bee"], "SEMICOLON_MISSING"),
    "(;SZ[9];B[cc](then W[gg];B[ee]))": (["Bcc Bee"], "TEXT_SKIPPED"),
    "(;SZ[9];B[cc](W[]B[ee];B[ff]))": (["Bcc W Bee Bff"], "SEMICOLON_MISSING"),
    # Variations without nodes are ignored.
    "(;SZ[9];B[cc]()()()(;W[gg];B[ee]))": (["Bcc Wgg Bee"], "EMPTY_VARIATION"),
    "(;SZ[9];B[cc]( )(\r\n)(;W[gg])(;W[ff]))": (["Bcc Wgg"], "EMPTY_VARIATION VARIATIONS"),
    "(;SZ[9];B[cc]();W[gg];B[ee])": (["Bcc Wgg Bee"], "EMPTY_VARIATION"),
    "(;SZ[9];B[cc];W[gg]())": (["Bcc Wgg"], "EMPTY_VARIATION"),
    "(;SZ[9];B[cc](())(;W[gg]))": (["Bcc Wgg"], "EMPTY_VARIATION"),
    "(;SZ[9];B[cc]((;W[gg];B[ee])(;W[ff])))": (["Bcc Wgg Bee"], "VARIATIONS"),
    "(;SZ[9];B[cc](;W[gg]()(;B[ee]))())": (["Bcc Wgg Bee"], "EMPTY_VARIATION VARIATIONS"),
    "() (;SZ[9];B[cc])": (["Bcc"], ""),
    "(;SZ[9];B[cc](;)(;W[gg]))": (["Bcc"], "VARIATIONS"),  # a node without properties is a node
    "(;SZ[9];B[cc]()": (["Bcc"], "EMPTY_VARIATION TRUNCATED"),
    # Text within a game is skipped.
    "(;SZ[9];B[cc]];W[gg])": (["Bcc Wgg"], "TEXT_SKIPPED"),
    "(;SZ[9];B[cc];[dd];W[gg])": (["Bcc Wgg"], "TEXT_SKIPPED"),
    "(;SZ[9];B;W[gg])": (["Wgg"], "TEXT_SKIPPED"),
    "(;SZ[9];B[cc](;W[gg])B[ee])": (["Bcc Wgg"], "TEXT_SKIPPED"),
    "(;SZ[9];B[cc]()W[gg];B[ee])": (["Bcc Bee"], "EMPTY_VARIATION TEXT_SKIPPED"),
    "(;SZ[9];B[cc](;W[gg])(;W[ff] -))": (["Bcc Wgg"], "TEXT_SKIPPED VARIATIONS"),
    "(;SZ[9];B[cc] Black's first;W[gg])": (["Bcc Wgg"], "TEXT_SKIPPED"),
    # Passes and white space.
    "(;SZ[9];B[``];W[ ``]\n;B[`\n`];W[`])": (["B W B Wzz"], ""),
    "(;SZ[9];B[c c];W[\tgg\t];B[e\r\ne];W[ f f ])": (["Bcc Wgg Bee Wff"], ""),
    "(;SZ[9];B[c\\\nc];W[p\nass];B[-\n-])": (["Bcc W B"], ""),
}  # fmt: skip
ABOUT_STRUCTURE = ("SEMICOLON_MISSING", "EMPTY_VARIATION", "TEXT_SKIPPED", "VARIATIONS", "TRUNCATED")


@pytest.mark.parametrize("record", STRUCTURES)
def test_structure(record: str) -> None:
    moves, warnings = STRUCTURES[record]
    games = read_games(record.encode())
    assert [(game.size, moves_of(game)) for game in games] == [(9, each) for each in moves]
    for name in ABOUT_STRUCTURE:
        assert any(ParseWarning[name] in game.warnings for game in games) == (name in warnings.split()), name
    compare_with_naive(record.encode())
    compare_text(compare_text_fields(as_block([record.encode()])))


ROOT = "(;GM[1]FF[4]SZ[9]"
INFO = {  # record -> black, white, komi, result, event, handicap; "" if missing
    ROOT + "PB[Ann];PW[Bob];B[cc];RE[B+2])": ("Ann", "Bob", "", "B+2", "", None),
    ROOT + ";B[cc]PB[Ann];W[gg]PW[Bob])": ("Ann", "Bob", "", "", "", None),
    ROOT + "PB[Ann];PB[Eve];B[cc])": ("Ann", "", "", "", "", None),  # the root counts
    ROOT + "PB[]PW[];PB[Ann]PW[Bob];B[cc])": ("Ann", "Bob", "", "", "", None),
    ROOT + "(;PB[Ann];B[cc])(;PB[Eve];B[dd]))": ("Ann", "", "", "", "", None),  # of the main line only
    ROOT + "(;B[cc])(;PB[Eve];B[dd]))": ("", "", "", "", "", None),
    ROOT + "HA[3];HA[2];W[cc])": ("", "", "", "", "", 3),
    ROOT + ";EV[World\r\nCup]KM[ 6.5\n];B[cc])": ("", "", " 6.5 ", "", "World Cup", None),
    ROOT + "C[PB[x\\];PW[y\\]];B[cc];PB[Ann])": ("Ann", "", "", "", "", None),
}


@pytest.mark.parametrize("record", INFO)
def test_game_info_after_the_root(record: str) -> None:
    game = read_games(record.encode())[0]
    texts = tuple(game.text(name) for name in ("PB", "PW", "KM", "RE", "EV"))
    assert (*texts, game.handicap) == INFO[record]
    compare_with_naive(record.encode())
    compare_text(compare_text_fields(as_block([record.encode()])))


ONE_LINE = {  # value -> text of FF[4]'s SimpleText
    "Lee\nSedol": "Lee Sedol",
    "Lee\r\nSedol": "Lee Sedol",
    "Lee\rSedol": "Lee Sedol",
    "Lee\n\rSedol": "Lee Sedol",
    "Lee\tSedol": "Lee Sedol",
    "Lee\n\nSedol": "Lee  Sedol",
    "Lee\\\nSedol": "LeeSedol",  # an escaped line break is removed
    "Lee\\\r\nSedol": "LeeSedol",
    "Lee\\\tSedol": "Lee Sedol",
    "이\n세돌": "이 세돌",
}


@pytest.mark.parametrize("value", ONE_LINE)
def test_one_line_text(value: str) -> None:
    record = f"(;SZ[9]CA[UTF-8]PB[{value}]EV[{value}]C[a\n\tb];B[cc])".encode()
    game = read_games(record)[0]
    assert (game.text("PB"), game.text("EV"), game.text("C")) == (ONE_LINE[value], ONE_LINE[value], "a\n\tb")
    compare_text(compare_text_fields(as_block([record])))


# Players, rank, and comments that end in bytes 5C and 5D in one charset or another.
TEXTS = {
    "ja": ("申ソ", "小野田表", "九段", "黒の能", "白の予", "発表", "貼り目", "十段ソ"),
    "ja kana": ("山田太郎", "ゾ能表", "八段", "黒の一手目は隅。", "白は小目で応じた", "好手", "予想ｿ", "終"),
    "zh-tw": ("許功蓋", "王立誠", "九段", "黑棋成功", "白棋許可", "好棋功", "這步棋很好", "枯"),
    "zh": ("柯洁", "古力", "九段", "黑棋第一手占角。", "白棋应以小目", "好棋", "这步棋很好", "终"),
    "ko": ("이세돌", "박정환", "9단", "흑의 첫 수는 귀다", "백은 소목으로 응했다", "좋은 수", "다음 수", "끝"),
    "fr": ("André", "Zoé", "5 dan", "bien joué", "à côté", "très fort é", "ça va été", "fin é"),
}
CODECS = {
    "ja": ("utf-8", "cp932", "euc_jp"), "ja kana": ("utf-8", "cp932", "euc_jp"), "zh-tw": ("utf-8", "cp950", "gb18030"),
    "zh": ("utf-8", "gb18030"), "ko": ("utf-8", "cp949"), "fr": ("utf-8", "cp1252"),
}  # fmt: skip
DECLARED = (
    "", "UTF-8", "Big5", "Shift_JIS", "cp932", "GBK", "GB2312", "GB18030", "EUC-KR", "EUC-JP", "ISO-8859-1",
    "x-unknown",
)  # fmt: skip
ENCODED = [(language, codec) for language, codecs in CODECS.items() for codec in codecs]


def record_in(language: str, codec: str, declared: str) -> bytes:
    black, white, rank, *comments = TEXTS[language]
    moves = zip(("B[cc]", "W[gg]", "B[gc]", "W[cg]", "B[ee]"), comments)
    text = f"(;GM[1]FF[4]SZ[9]{f'CA[{declared}]' if declared else ''}PB[{black}]PW[{white}]BR[{rank}]KM[6.5]"
    return (text + "".join(f";{move}C[{comment}]" for move, comment in moves) + ")\n").encode(codec)


@pytest.mark.parametrize("declared", DECLARED)
@pytest.mark.parametrize(("language", "codec"), ENCODED)
def test_any_charset_under_any_ca(language: str, codec: str, declared: str) -> None:
    record = record_in(language, codec, declared)
    games = read_games(record)
    assert [moves_of(game) for game in games] == ["Bcc Wgg Bgc Wcg Bee"]
    assert (*games[0].players, games[0].text("BR"), games[0].komi) == (*TEXTS[language][:3], 6.5)
    compare_with_naive(record)
    compare_text(compare_text_fields(as_block([record])))


@pytest.mark.parametrize("declared", ["", "Big5", "Shift_JIS"])
def test_each_game_of_a_file_has_its_charset(declared: str) -> None:
    """A comment that ends in 5C or 5D also ends its game, so a wrong reading would continue in the next one."""
    for first in ENCODED:
        for second in ENCODED:
            record = record_in(*first, declared) + record_in(*second, declared)
            games = read_games(record)
            assert [moves_of(game) for game in games] == ["Bcc Wgg Bgc Wcg Bee"] * 2, (first, second)
            assert [game.players for game in games] == [TEXTS[first[0]][:2], TEXTS[second[0]][:2]], (first, second)


DIFFERING = {  # record -> moves, and whether a warning says that values end by another charset
    "(;SZ[9]CA[UTF-8];B[cc]C[表];W[gg]C[予])".encode("cp932"): ("Bcc Wgg", True),
    "(;SZ[9]CA[Big5];B[cc]C[é];W[gg]C[à])".encode("cp1252"): ("Bcc Wgg", True),
    "(;SZ[9];B[cc]C[\\[Zoé\\]];W[gg])".encode("cp1252"): ("Bcc Wgg", False),
    "(;SZ[9];B[cc]C[\\[柯洁\\]];W[gg])".encode("gb18030"): ("Bcc Wgg", False),
    "(;SZ[9];B[cc]C[\\[이세돌\\]];W[gg])".encode(): ("Bcc Wgg", False),
    "(;SZ[9]CA[GBK];B[cc]C[\\[이\\]];W[gg])".encode(): ("Bcc Wgg", False),
    "(;SZ[9];B[cc]C[Zoé\\\\];W[gg]C[é\\\\])".encode("cp1252"): ("Bcc Wgg", False),
}


@pytest.mark.parametrize("record", DIFFERING)
def test_differing_readings(record: bytes) -> None:
    moves, warns = DIFFERING[record]
    game = read_games(record)[0]
    assert (moves_of(game), ParseWarning.OTHER_CHARSET in game.warnings) == (moves, warns)
    compare_with_naive(record)


def test_dirty_records() -> None:
    draw = random.Random(1)
    for _ in range(100):
        record = dirty(draw, trap_records())
        compare_with_naive(record)
        compare_text_fields(as_block([record]))


@pytest.mark.slow
def test_dirty_real_records(shared: Path) -> None:
    draw, data = random.Random(2), shared / "data"
    records = [path.read_bytes() for path in sorted(data.glob("cases*/*.sgf*"))] + trap_records()
    for record in records:
        compare_with_naive(record)
        compare_text_fields(as_block([record]))
    sources = [*sorted(data.glob("kgs/*.tar.gz"))[::6], *sorted(data.glob("wild/*.tar.gz")), *data.glob("fox/*.7z")]
    for source in [*sources, data / "formats/katago-sgfs"]:
        block = next(blocks(source, block_bytes=1 << 20))
        members = [block.data[start:stop].tobytes() for start, stop in zip(block.start, block.stop)]
        records += draw.sample([member[:4000] for member in members], min(300, len(members)))
    for number in range(3000 if not numba.config.DISABLE_JIT else 100):
        record = dirty(draw, records)
        compare_with_naive(record)
        if number % 4 == 0:
            compare_text_fields(as_block([record]))
