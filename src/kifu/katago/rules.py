"""The rules of a game as KataGo reads them from RU, and the terms of many games as kernels take them.

Source: Rules::tryParseRules and Rules::toString of KataGo v1.17.2, and its page on what each rule says
(https://lightvector.github.io/KataGo/rules.html). `friendlyPassOk` is read and forgotten: it says how to play, and
training data is written without it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NoReturn, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kifu.errors import DropReason, GameError

KataKo: TypeAlias = Literal["simple", "positional", "situational", "spight"]
Scoring: TypeAlias = Literal["area", "territory"]
Tax: TypeAlias = Literal["none", "seki", "all"]
HandicapBonus: TypeAlias = Literal["0", "n", "n-1"]

KO_SIMPLE, KO_POSITIONAL, KO_SITUATIONAL, KO_SPIGHT = range(4)
TAX_NONE, TAX_SEKI, TAX_ALL = range(3)
BONUS_ZERO, BONUS_N, BONUS_N_MINUS_ONE = range(3)

NO_HANDICAP = -1
"""The handicap of a game whose record tells none."""

TERMS = np.dtype(
    [
        ("ko", "u1"),  # KO_*
        ("territory", "u1"),  # whether territory is counted, not area
        ("tax", "u1"),  # TAX_*
        ("suicide", "u1"),  # whether a chain of two or more stones may take itself off
        ("button", "u1"),
        ("bonus", "u1"),  # BONUS_*
        ("komi", "f4"),  # a multiple of a half
        ("handicap", "i2"),  # HA as the record tells it, or NO_HANDICAP
    ]
)
"""What a game is played for: one record a game."""

RULES_COLUMNS = ("rules", "komi", "komi_text", "handicap")
"""The columns of the catalogue that give the rules of a game."""

_MOST_CHARACTERS = 1000
# What KataGo bounds a komi by that stands within rules; that of KM it does not bound.
_MOST_KOMI_OF_JSON = 150
_MOST_KOMI_OF_FIELDS = 100_000


@dataclass(frozen=True, slots=True)
class KataRules:
    """What a game is played by. The defaults, Tromp and Taylor's, are what KataGo takes where a text is silent.

    ko: spight is situational superko that a pass lifts.  tax: seki, no points for territory in seki; all, besides two
    points less for each living group.  suicide: whether a move may take off its own chain of two or more stones.
    button: the first pass earns half a point.  handicap_bonus: what White gets for n handicap stones.

    >>> str(KataRules.parse("AGA"))
    'koSITUATIONALscoreAREAtaxNONEsui0whbN-1'
    """

    ko: KataKo = "positional"
    scoring: Scoring = "area"
    tax: Tax = "none"
    suicide: bool = True
    button: bool = False
    handicap_bonus: HandicapBonus = "0"

    @classmethod
    def parse(cls, text: str) -> KataRules:
        """The rules that a text names: one of `NAMED` in any case, what `str` writes or a part of it, or JSON.

        Komi, which may stand in the last two, is checked and left out. Raises GameError.
        """
        if len(text) > _MOST_CHARACTERS or not text.isascii():
            _refuse(text)
        named = NAMED.get(text.strip(_SPACE).lower())
        if named is not None:
            return named
        return _from_json(text) if text.startswith("{") else _from_fields(text)

    def __str__(self) -> str:
        """As KataGo writes it, without komi."""
        text = f"ko{self.ko.upper()}score{self.scoring.upper()}tax{self.tax.upper()}sui{self.suicide:d}"
        text += "button1" if self.button else ""
        return text + (f"whb{self.handicap_bonus.upper()}" if self.handicap_bonus != "0" else "")

    @property
    def codes(self) -> tuple[int, ...]:
        """The first six fields of `TERMS`."""
        return (
            get_args(KataKo).index(self.ko),
            get_args(Scoring).index(self.scoring),
            get_args(Tax).index(self.tax),
            int(self.suicide),
            int(self.button),
            get_args(HandicapBonus).index(self.handicap_bonus),
        )


_JAPANESE = KataRules("simple", "territory", "seki", suicide=False)
_CHINESE = KataRules("simple", suicide=False, handicap_bonus="n")
_CHINESE_KGS = replace(_CHINESE, ko="positional")
_ANCIENT_AREA = KataRules("simple", "area", "all", suicide=False)
_ANCIENT_TERRITORY = KataRules("simple", "territory", "all", suicide=False)
_AGA = KataRules("situational", suicide=False, handicap_bonus="n-1")
_AGA_BUTTON = replace(_AGA, button=True)
_NEW_ZEALAND = KataRules("situational")
_TROMP_TAYLOR = KataRules()

NAMED: Mapping[str, KataRules] = {
    "japanese": _JAPANESE, "korean": _JAPANESE, "chinese": _CHINESE,
    **{f"chinese{mark}{server}": _CHINESE_KGS for mark in ("", "-", "_") for server in ("kgs", "ogs")},
    "aga": _AGA, "bga": _AGA, "french": _AGA, "nz": _NEW_ZEALAND, "goe": _TROMP_TAYLOR, "ing": _TROMP_TAYLOR,
    **{
        mark.join(words): rules
        for mark in ("", "-", "_", " ")
        for words, rules in (
            (("ancient", "area"), _ANCIENT_AREA), (("stone", "scoring"), _ANCIENT_AREA),
            (("ancient", "territory"), _ANCIENT_TERRITORY), (("aga", "button"), _AGA_BUTTON),
            (("new", "zealand"), _NEW_ZEALAND), (("tromp", "taylor"), _TROMP_TAYLOR),
        )
    },
}  # fmt: skip
"""Every name that KataGo knows."""

_SPACE = " \t\r\n\v\f"
_ALLOWED: Mapping[str, tuple[str, ...]] = {
    "ko": get_args(KataKo),
    "scoring": get_args(Scoring),
    "tax": get_args(Tax),
    "handicap_bonus": get_args(HandicapBonus),
}
"""What the fields of rules that are words may be."""
_SWITCHES = {"suicide": "suicide", "hasButton": "button"}
"""The other fields, by KataGo's names."""

_GAP = rf"[{_SPACE}]*"
_FIELD = re.compile(
    rf"{_GAP}(?:komi{_GAP}(?P<points>[+-]?(?:\d+\.?\d*|\.\d+))(?![^A-Za-z{_SPACE}])"
    rf"|ko{_GAP}(?P<ko>SIMPLE|POSITIONAL|SITUATIONAL|SPIGHT)|scor(?:e|ing){_GAP}(?P<scoring>AREA|TERRITORY)"
    rf"|tax{_GAP}(?P<tax>NONE|SEKI|ALL)|sui{_GAP}(?P<suicide>[01])|button{_GAP}(?P<button>[01])"
    rf"|whb{_GAP}(?P<handicap_bonus>0|N-1|N)|fpok{_GAP}[01]){_GAP}"
)


def _refuse(text: str) -> NoReturn:
    shown = repr(text) if len(text) <= 80 else f"{text[:80]!r}..."
    raise GameError(
        f"rules {shown} are none that KataGo knows: a name such as japanese, chinese, aga, nz or tromp-taylor, "
        "fields such as koSIMPLEscoreAREAtaxNONEsui0, or an object of JSON"
    )


def _made(values: dict[str, Any]) -> KataRules:
    """The rules of these fields; where none is told, tax goes by the way of scoring."""
    values.setdefault("tax", "seki" if values.get("scoring") == "territory" else "none")
    return KataRules(**values)


def _from_fields(text: str) -> KataRules:
    if not text.strip(_SPACE):
        _refuse(text)
    values: dict[str, Any] = {}
    at = 0
    while at < len(text):
        field = _FIELD.match(text, at)
        if field is None or abs(float(field["points"] or 0)) > _MOST_KOMI_OF_FIELDS:
            _refuse(text)
        values |= {name: field[name].lower() for name in _ALLOWED if field[name]}
        values |= {name: field[name] == "1" for name in _SWITCHES.values() if field[name]}
        at = field.end()
    return _made(values)


def _from_json(text: str) -> KataRules:
    try:
        told = json.loads(text, parse_constant=lambda _: _refuse(text))
    except (ValueError, RecursionError):
        _refuse(text)
    values: dict[str, Any] = {}
    for key, value in sorted(told.items()):  # so "scoring" goes before "score", whichever comes first
        name = {"score": "scoring", "whiteHandicapBonus": "handicap_bonus"}.get(key, key)
        if name in _ALLOWED and isinstance(value, str) and value.lower() in _ALLOWED[name] and value == value.upper():
            values[name] = value.lower()
        elif key in _SWITCHES and isinstance(value, bool):
            values[_SWITCHES[key]] = value
        elif not (key == "friendlyPassOk" and isinstance(value, bool)) and not (key == "komi" and _is_komi(value)):
            _refuse(text)
    return _made(values)


def _is_komi(value: Any) -> bool:
    """Whether JSON's komi is one that KataGo takes."""
    return isinstance(value, int | float) and abs(value) <= _MOST_KOMI_OF_JSON and float(np.float32(value)) % 0.5 == 0


def terms_of(
    rules: pa.StringArray,
    komi: pa.FloatArray,
    handicap: pa.Int16Array,
    default: KataRules | None = None,
    default_komi: float | None = None,
) -> tuple[npt.NDArray[Any], npt.NDArray[np.uint8]]:
    """The terms of G games, and why some have none.

    rules, komi, handicap: the columns of the catalogue so named, [G] each.
    default, default_komi: for games without rules, or without a komi that is understood; None: these are set aside.
    Rules that are told but not known are never replaced. Each distinct text is read once.

    Returns (terms [G] of `TERMS`, drop [G] uint8): `DropReason.RULES_UNKNOWN`, or else `DropReason.KOMI_UNKNOWN` for a komi that
    is no multiple of a half, or KEPT; the terms of games set aside are of no meaning.
    """
    texts = rules.dictionary_encode()
    codes = [_codes(text) for text in texts.dictionary.to_pylist()]
    codes.append(default.codes if default is not None else None)
    which = pc.fill_null(texts.indices, len(codes) - 1).to_numpy()
    known = np.array([code is not None for code in codes])
    table = np.array([(*(code or (0,) * 6), 0, 0) for code in codes], TERMS)  # [texts + 1]
    terms = table[which]
    points = pc.fill_null(komi, np.nan if default_komi is None else default_komi).to_numpy()
    terms["komi"] = points
    terms["handicap"] = pc.fill_null(handicap, NO_HANDICAP).to_numpy()
    drop = np.zeros(len(terms), np.uint8)
    with np.errstate(invalid="ignore"):  # NaN and infinity are no multiple of anything
        drop[~(points % 0.5 == 0)] = DropReason.KOMI_UNKNOWN
    drop[~known[which]] = DropReason.RULES_UNKNOWN
    return terms, drop


def recorded_komi(batch: pa.RecordBatch) -> pa.FloatArray:
    """[G] the komi of these rows: null where none is told, and NaN where it is told but not understood."""
    wrong = pc.and_(pc.is_null(batch["komi"]), pc.is_valid(batch["komi_text"]))
    return pc.if_else(wrong, pa.scalar(float("nan"), pa.float32()), batch["komi"])


def usual_terms(
    rules: pa.StringArray, komi: pa.FloatArray, handicap: pa.Int16Array
) -> tuple[npt.NDArray[Any], npt.NDArray[np.uint8]]:
    """`terms_of`, where a record that is silent means what KataGo takes it to mean wherever it does not insist on more.

    Without rules they are Tromp's and Taylor's; without a komi it is 6.5 where territory is counted, 7 with a button,
    else 7.5 (CompactSgf::getRulesOrFailAllowUnspecified, Rules::parseRules). The terms of games set aside are zeros.
    """
    terms, drop = terms_of(rules, komi, handicap, KataRules(), 0.0)
    usual = np.where(terms["territory"] != 0, 6.5, np.where(terms["button"] != 0, 7.0, 7.5))
    terms["komi"] = np.where(komi.is_null().to_numpy(zero_copy_only=False), usual, terms["komi"])
    terms[drop != DropReason.KEPT] = np.zeros((), TERMS)
    return terms, drop


def _codes(text: str) -> tuple[int, ...] | None:
    try:
        return KataRules.parse(text).codes
    except GameError:
        return None
