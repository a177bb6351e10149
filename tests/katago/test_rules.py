"""KataGo's rules: known and unknown spellings, and the rules of many games."""

import json
import re
import tarfile

import numpy as np
import pyarrow as pa
import pytest

from kifu.errors import DropReason, GameError
from kifu.katago import rules as kata

JAPANESE = "koSIMPLEscoreTERRITORYtaxSEKIsui0"
CHINESE = "koSIMPLEscoreAREAtaxNONEsui0whbN"
CHINESE_KGS = "koPOSITIONALscoreAREAtaxNONEsui0whbN"
AGA = "koSITUATIONALscoreAREAtaxNONEsui0whbN-1"
AGA_BUTTON = "koSITUATIONALscoreAREAtaxNONEsui0button1whbN-1"
NEW_ZEALAND = "koSITUATIONALscoreAREAtaxNONEsui1"
TROMP_TAYLOR = "koPOSITIONALscoreAREAtaxNONEsui1"
ANCIENT_AREA = "koSIMPLEscoreAREAtaxALLsui0"
ANCIENT_TERRITORY = "koSIMPLEscoreTERRITORYtaxALLsui0"

NAMES = {
    JAPANESE: "japanese korean",
    CHINESE: "chinese",
    CHINESE_KGS: "chinesekgs chinese-kgs chinese_kgs chineseogs chinese-ogs chinese_ogs",
    AGA: "aga bga french",
    AGA_BUTTON: "agabutton aga-button aga_button aga~button",
    NEW_ZEALAND: "nz newzealand new-zealand new_zealand new~zealand",
    TROMP_TAYLOR: "tromptaylor tromp-taylor tromp_taylor tromp~taylor goe ing",
    ANCIENT_AREA: "ancientarea ancient-area ancient_area ancient~area "
    "stonescoring stone-scoring stone_scoring stone~scoring",
    ANCIENT_TERRITORY: "ancientterritory ancient-territory ancient_territory ancient~territory",
}


@pytest.mark.parametrize("expected", NAMES)
def test_named_rules_parse_in_any_case(expected):
    for spelled in NAMES[expected].split():
        name = spelled.replace("~", " ")
        for text in (name, name.upper(), name.title(), f" \t{name}\r\n"):
            assert str(kata.KataRules.parse(text)) == expected


def test_there_are_no_other_names():
    assert sorted(kata.NAMED_RULES) == sorted(
        name.replace("~", " ") for names in NAMES.values() for name in names.split()
    )


FIELDS = {
    "koSIMPLE": "koSIMPLEscoreAREAtaxNONEsui1",
    "scoreTERRITORY": "koPOSITIONALscoreTERRITORYtaxSEKIsui1",
    "scoringTERRITORYtaxNONE": "koPOSITIONALscoreTERRITORYtaxNONEsui1",
    "taxALLscoreTERRITORY": "koPOSITIONALscoreTERRITORYtaxALLsui1",
    "ko SPIGHT score AREA tax SEKI sui 0 button 1 whb N-1 fpok 1": "koSPIGHTscoreAREAtaxSEKIsui0button1whbN-1",
    " koSITUATIONAL sui0button0whbN ": "koSITUATIONALscoreAREAtaxNONEsui0whbN",
    "koSIMPLEkoPOSITIONALsui0sui1": TROMP_TAYLOR,
    "komi7.5": TROMP_TAYLOR,
    "koSIMPLEkomi-0.5sui0": "koSIMPLEscoreAREAtaxNONEsui0",
    "komi .5 koSIMPLE": "koSIMPLEscoreAREAtaxNONEsui1",
    "komi+100000": TROMP_TAYLOR,
}
JSON = {
    "{}": TROMP_TAYLOR,
    '{"ko":"SPIGHT","scoring":"AREA","suicide":true}': "koSPIGHTscoreAREAtaxNONEsui1",
    '{"ko":"SPIGHT","scoring":"AREA","tax":"SEKI","suicide":false}': "koSPIGHTscoreAREAtaxSEKIsui0",
    '{"score":"TERRITORY"}': "koPOSITIONALscoreTERRITORYtaxSEKIsui1",
    '{"scoring":"AREA","score":"TERRITORY"}': TROMP_TAYLOR,
    '{"scoring": "TERRITORY", "tax": "NONE"}': "koPOSITIONALscoreTERRITORYtaxNONEsui1",
    '{"hasButton":true, "whiteHandicapBonus":"N-1", "friendlyPassOk":false}\n': (
        "koPOSITIONALscoreAREAtaxNONEsui1button1whbN-1"
    ),
    '{"whiteHandicapBonus":"0", "komi":150}': TROMP_TAYLOR,
    '{"komi":-6.5}': TROMP_TAYLOR,
}


@pytest.mark.parametrize(("text", "expected"), [*FIELDS.items(), *JSON.items()])
def test_fields_and_json_parse(text, expected):
    assert str(kata.KataRules.parse(text)) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "chinese kgs", "Japanese rules", "japanese2", "日本", "\u212aorean", "nz nz", "komi", "\xa0aga"),
        *("kosimple", "koSIMPLE, sui0", "koNONE", "score", "sui2", "whbN-2", "buttonN", "fpok", "SIMPLE", "koSIMPLE;"),
        *("komi7,5", "komi1e5", "komi100000.5", "komi7.5.5", "komi-", "kominan", "komi0x1"),
        *("{", "[]", "{}{}", '{"ko":"simple"}', '{"ko":1}', '{"suicide":1}', '{"suicide":"true"}', '{"Ko":"SIMPLE"}'),
        *('{"komi":"6.5"}', '{"komi":6.25}', '{"komi":150.5}', '{"komi":NaN}', '{"komi":1e999}', '{"komi":null}'),
        *('{"x":1}', ' {"ko":"SIMPLE"}', '{"ko":"SIMPLE",}', '{"friendlyPassOk":0}', '{"hasButton":null}'),
        *('{"komi":' * 1000, "koSIMPLE" * 1000, '{"komi":' + "9" * 900 + "}", '{"x":' * 150 + "1" + "}" * 150),
    ],
)
def test_unknown_rules_raise(text):
    with pytest.raises(GameError, match="allowed are a name such as japanese") as error:
        kata.KataRules.parse(text)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 300


def test_str_round_trips():
    seen = set()
    for ko in ("simple", "positional", "situational", "spight"):
        for scoring in ("area", "territory"):
            for tax in ("none", "seki", "all"):
                for bits in range(4):
                    for bonus in ("0", "n", "n-1"):
                        rules = kata.KataRules(ko, scoring, tax, bool(bits & 1), bool(bits & 2), bonus)
                        fields = {
                            "ko": ko.upper(), "scoring": scoring.upper(), "tax": tax.upper(), "suicide": rules.suicide,
                            "hasButton": rules.button, "whiteHandicapBonus": bonus.upper(), "komi": 7.5,
                        }  # fmt: skip
                        assert kata.KataRules.parse(str(rules)) == kata.KataRules.parse(json.dumps(fields)) == rules
                        seen.add(str(rules))
    assert len(seen) == 4 * 2 * 3 * 4 * 3


def columns(rules, komi, handicap):
    return pa.array(rules, pa.string()), pa.array(komi, pa.float32()), pa.array(handicap, pa.int16())


def test_rules_of_many_games():
    rules = ["AGA", None, "Japanese", "AGA", "nonsense", "koSPIGHTtaxALL", "aga-button", "chinese", "aga", ""]
    komi = [7.5, 6.5, 0, None, 6.5, -100.5, 7, 3.75, 400, 7]
    handicap = [None, 0, 2, 9, 1, 5, None, 3, -4, 0]
    terms, drop = kata.resolve_rules(*columns(rules, komi, handicap))
    assert terms.dtype == kata.GAME_RULES
    assert drop.dtype == np.uint8
    unknown, no_komi = DropReason.RULES_UNKNOWN, DropReason.KOMI_UNKNOWN
    assert drop.tolist() == [0, unknown, 0, no_komi, unknown, 0, 0, no_komi, 0, unknown]
    assert terms[drop == 0].tolist() == [
        (kata.KO_SITUATIONAL, 0, kata.TAX_NONE, 0, 0, kata.BONUS_N_MINUS_ONE, 7.5, kata.UNKNOWN_HANDICAP),
        (kata.KO_SIMPLE, 1, kata.TAX_SEKI, 0, 0, kata.BONUS_ZERO, 0, 2),
        (kata.KO_SPIGHT, 0, kata.TAX_ALL, 1, 0, kata.BONUS_ZERO, -100.5, 5),
        (kata.KO_SITUATIONAL, 0, kata.TAX_NONE, 0, 1, kata.BONUS_N_MINUS_ONE, 7, kata.UNKNOWN_HANDICAP),
        (kata.KO_SITUATIONAL, 0, kata.TAX_NONE, 0, 0, kata.BONUS_N_MINUS_ONE, 400, -4),
    ]
    terms, drop = kata.resolve_rules(*columns(rules, komi, handicap), kata.KataRules.parse("chinese-kgs"), 6.5)
    assert drop.tolist() == [0, 0, 0, 0, unknown, 0, 0, no_komi, 0, unknown]
    assert terms[[1, 3]].tolist() == [
        (kata.KO_POSITIONAL, 0, kata.TAX_NONE, 0, 0, kata.BONUS_N, 6.5, 0),
        (kata.KO_SITUATIONAL, 0, kata.TAX_NONE, 0, 0, kata.BONUS_N_MINUS_ONE, 6.5, 9),
    ]


@pytest.mark.parametrize("games", [0, 3])
def test_rules_of_no_games(games):
    terms, drop = kata.resolve_rules(*columns([None] * games, [np.inf] * games, [None] * games))
    assert terms.shape == (games,)
    assert drop.tolist() == [DropReason.RULES_UNKNOWN] * games
    assert (
        kata.resolve_rules(*columns([None] * games, [np.inf] * games, [None] * games), kata.KataRules())[1].tolist()
        == [DropReason.KOMI_UNKNOWN] * games
    )


def test_sliced_columns():
    whole = columns(["aga", "nz", None, "japanese"], [1, 2, None, 3.5], [1, None, 3, 4])
    terms, drop = kata.resolve_rules(*(column.slice(1) for column in whole))
    all_terms, all_drop = kata.resolve_rules(*whole)
    assert drop.tolist() == all_drop[1:].tolist() == [0, DropReason.RULES_UNKNOWN, 0]
    assert terms[drop == 0].tolist() == all_terms[1:][drop == 0].tolist()


def test_katagos_own_rules_strings(shared):
    reference = dict(np.load(shared / "reference/katago/handmade.npz"))
    has_rules = dict(zip(reference["names"].tolist(), reference["rules"].tolist(), strict=True))
    texts, komis, expected = [], [], []
    with tarfile.open(shared / "reference/katago/handmade-sgf.tar.gz") as file:
        for member in file:
            record = file.extractfile(member).read().decode("latin-1") if member.isfile() else ""
            rules, komi = (re.search(rf"{name}\[([^\]]*)\]", record) for name in ("RU", "KM"))
            if rules and komi and has_rules[member.name.removeprefix("handmade/")]:
                texts.append(rules[1])
                komis.append(float(komi[1]))
                expected.append(has_rules[member.name.removeprefix("handmade/")])
    terms, drop = kata.resolve_rules(*columns(texts, komis, [None] * len(texts)))
    assert not drop.any()
    assert len(texts) == 163
    assert [
        f"{kata.KataRules.parse(t)}komi{k:g}" for t, k in zip(texts, terms["komi"].tolist(), strict=True)
    ] == expected
