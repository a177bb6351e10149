"""KataGo's rules of play, parsed from RU, and the rules of many games as arrays for kernels.

Source: Rules::tryParseRules and Rules::toString of KataGo v1.17.2, and its description of each rule
(https://lightvector.github.io/KataGo/rules.html). `friendlyPassOk` is accepted and ignored: it concerns play only, and
training data is written without it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NoReturn, TypeAlias, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kifu.arrays import Array, Bytes
from kifu.errors import DropReason, GameError

KataKo: TypeAlias = Literal["simple", "positional", "situational", "spight"]
Scoring: TypeAlias = Literal["area", "territory"]
Tax: TypeAlias = Literal["none", "seki", "all"]
HandicapBonus: TypeAlias = Literal["0", "n", "n-1"]

KO_SIMPLE, KO_POSITIONAL, KO_SITUATIONAL, KO_SPIGHT = range(4)
TAX_NONE, TAX_SEKI, TAX_ALL = range(3)
BONUS_ZERO, BONUS_N, BONUS_N_MINUS_ONE = range(3)

UNKNOWN_HANDICAP = -1
"""The handicap of a game whose record does not give it."""

GAME_RULES = np.dtype(
    [
        ("ko", "u1"),  # KO_*
        ("territory", "u1"),  # 1 for territory scoring, 0 for area scoring
        ("tax", "u1"),  # TAX_*
        ("suicide", "u1"),  # 1 if suicide of two or more stones is allowed
        ("button", "u1"),
        ("bonus", "u1"),  # BONUS_*
        ("komi", "f4"),  # a multiple of 0.5
        ("handicap", "i2"),  # HA of the record, or UNKNOWN_HANDICAP
    ]
)
"""The rules, komi and handicap of one game."""

RULES_COLUMNS = ("rules", "komi", "komi_text", "handicap")
"""The columns of the catalogue that give the rules of a game."""

_MAX_LENGTH = 1000
# KataGo's bounds on a komi within a rules string. The komi in KM is not bounded.
_MAX_JSON_KOMI = 150
_MAX_FIELD_KOMI = 100_000


@dataclass(frozen=True, slots=True)
class KataRules:
    """The rules of a game. The defaults, Tromp-Taylor, are KataGo's for whatever a rules string leaves out.

    Attributes:
        ko: "spight" is situational superko that a pass lifts.
        tax: "seki": no points for territory in seki; "all": also two points less for each living group.
        handicap_bonus: White's points for n handicap stones.

    Examples:
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
        """Parse a rules string as KataGo does.

        Raises GameError if KataGo does not accept the text.

        Args:
            text: A key of `NAMED_RULES` in any case, the output of `str()` or a part of it, or a JSON object. The last
                two may contain komi, which is checked and ignored.
        """
        if len(text) > _MAX_LENGTH or not text.isascii():
            _reject(text)
        named = NAMED_RULES.get(text.strip(_SPACE).lower())
        if named is not None:
            return named
        return _from_json(text) if text.startswith("{") else _from_fields(text)

    def __str__(self) -> str:
        """Return KataGo's spelling, without komi."""
        text = f"ko{self.ko.upper()}score{self.scoring.upper()}tax{self.tax.upper()}sui{self.suicide:d}"
        text += "button1" if self.button else ""
        return text + (f"whb{self.handicap_bonus.upper()}" if self.handicap_bonus != "0" else "")

    def bonus(self, handicap: int) -> int:
        """Return White's points for a number of handicap stones."""
        stones = handicap if handicap > 1 else 0
        return {"0": 0, "n": stones, "n-1": max(stones - 1, 0)}[self.handicap_bonus]

    def to_json(self) -> str:
        """Return KataGo's JSON, without komi."""
        fields = {each: getattr(self, each).upper() for each in ("ko", "scoring", "tax")}
        bonus = {"whiteHandicapBonus": self.handicap_bonus.upper(), "friendlyPassOk": True}
        text = {**fields, "suicide": self.suicide, "hasButton": self.button, **bonus}
        return json.dumps(text, separators=(",", ":"), sort_keys=True)

    @property
    def codes(self) -> tuple[int, ...]:
        """The first six fields of `GAME_RULES`."""
        return (
            get_args(KataKo).index(self.ko), get_args(Scoring).index(self.scoring), get_args(Tax).index(self.tax),
            int(self.suicide), int(self.button), get_args(HandicapBonus).index(self.handicap_bonus),
        )  # fmt: skip


_JAPANESE = KataRules("simple", "territory", "seki", suicide=False)
_CHINESE = KataRules("simple", suicide=False, handicap_bonus="n")
_CHINESE_KGS = replace(_CHINESE, ko="positional")
_ANCIENT_AREA = KataRules("simple", "area", "all", suicide=False)
_AGA = KataRules("situational", suicide=False, handicap_bonus="n-1")
_NEW_ZEALAND = KataRules("situational")
_TROMP_TAYLOR = KataRules()

NAMED_RULES: Mapping[str, KataRules] = {
    "japanese": _JAPANESE, "korean": _JAPANESE, "chinese": _CHINESE,
    **{f"chinese{separator}{server}": _CHINESE_KGS for separator in ("", "-", "_") for server in ("kgs", "ogs")},
    "aga": _AGA, "bga": _AGA, "french": _AGA, "nz": _NEW_ZEALAND, "goe": _TROMP_TAYLOR, "ing": _TROMP_TAYLOR,
    **{
        separator.join(words): rules
        for separator in ("", "-", "_", " ")
        for words, rules in (
            (("ancient", "area"), _ANCIENT_AREA), (("stone", "scoring"), _ANCIENT_AREA),
            (("ancient", "territory"), replace(_ANCIENT_AREA, scoring="territory")),
            (("aga", "button"), replace(_AGA, button=True)),
            (("new", "zealand"), _NEW_ZEALAND), (("tromp", "taylor"), _TROMP_TAYLOR),
        )
    },
}  # fmt: skip
"""Every named rule set of KataGo."""

_SPACE = " \t\r\n\v\f"
_ALLOWED: Mapping[str, tuple[str, ...]] = {
    "ko": get_args(KataKo),
    "scoring": get_args(Scoring),
    "tax": get_args(Tax),
    "handicap_bonus": get_args(HandicapBonus),
}
"""The values of the fields that are words."""
_SWITCHES = {"suicide": "suicide", "hasButton": "button"}
"""The boolean fields, by KataGo's JSON keys."""

_GAP = rf"[{_SPACE}]*"
_FIELD = re.compile(
    rf"{_GAP}(?:komi{_GAP}(?P<points>[+-]?(?:\d++\.?\d*+|\.\d++))(?![^A-Za-z{_SPACE}])"
    rf"|ko{_GAP}(?P<ko>SIMPLE|POSITIONAL|SITUATIONAL|SPIGHT)|scor(?:e|ing){_GAP}(?P<scoring>AREA|TERRITORY)"
    rf"|tax{_GAP}(?P<tax>NONE|SEKI|ALL)|sui{_GAP}(?P<suicide>[01])|button{_GAP}(?P<button>[01])"
    rf"|whb{_GAP}(?P<handicap_bonus>0|N-1|N)|fpok{_GAP}[01]){_GAP}"
)


def _reject(text: str) -> NoReturn:
    shown = repr(text) if len(text) <= 80 else f"{text[:80]!r}..."
    raise GameError(
        f"rules {shown} are unknown to KataGo; allowed are a name such as japanese, chinese, aga, nz or tromp-taylor, "
        "fields such as koSIMPLEscoreAREAtaxNONEsui0, or a JSON object"
    )


def _with_default_tax(values: dict[str, Any]) -> KataRules:
    """Return the rules of these fields; by default, tax depends on the scoring."""
    values.setdefault("tax", "seki" if values.get("scoring") == "territory" else "none")
    return KataRules(**values)


def _from_fields(text: str) -> KataRules:
    if not text.strip(_SPACE):
        _reject(text)
    values: dict[str, Any] = {}
    at = 0
    while at < len(text):
        field = _FIELD.match(text, at)
        if field is None or abs(float(field["points"] or 0)) > _MAX_FIELD_KOMI:
            _reject(text)
        values |= {name: field[name].lower() for name in _ALLOWED if field[name]}
        values |= {name: field[name] == "1" for name in _SWITCHES.values() if field[name]}
        at = field.end()
    return _with_default_tax(values)


def _from_json(text: str) -> KataRules:
    try:
        fields = json.loads(text, parse_constant=lambda _: _reject(text))
    except (ValueError, RecursionError):
        _reject(text)
    values: dict[str, Any] = {}
    for key, value in sorted(fields.items()):  # "score" overrides "scoring", in either order
        name = {"score": "scoring", "whiteHandicapBonus": "handicap_bonus"}.get(key, key)
        if name in _ALLOWED and isinstance(value, str) and value.lower() in _ALLOWED[name] and value == value.upper():
            values[name] = value.lower()
        elif key in _SWITCHES and isinstance(value, bool):
            values[_SWITCHES[key]] = value
        elif not (_is_komi(value) if key == "komi" else key == "friendlyPassOk" and isinstance(value, bool)):
            _reject(text)
    return _with_default_tax(values)


def _is_komi(value: Any) -> bool:
    return isinstance(value, int | float) and abs(value) <= _MAX_JSON_KOMI and float(np.float32(value)) % 0.5 == 0


def resolve_rules(
    rules: pa.StringArray,
    komi: pa.FloatArray,
    handicap: pa.Int16Array,
    default: KataRules | None = None,
    default_komi: float | None = None,
) -> tuple[Array, Bytes]:
    """Parse the rules of G games. Each distinct text is parsed once.

    Args:
        default: The rules of games whose record gives none; None drops these games. Unknown rules are never replaced.
        default_komi: The komi of games whose record gives none; None drops them.

    Returns:
        The rules, [G] of `GAME_RULES`, and the drop reasons, [G] uint8: RULES_UNKNOWN, else KOMI_UNKNOWN for a komi
        that is not a multiple of 0.5, else KEPT. The rules of dropped games are undefined.
    """
    texts = rules.dictionary_encode()
    codes = [_codes(text) for text in texts.dictionary.to_pylist()]
    codes.append(default.codes if default is not None else None)
    text_index = pc.fill_null(texts.indices, len(codes) - 1).to_numpy()
    known = np.array([code is not None for code in codes])
    table = np.array([(*(code or (0,) * 6), 0, 0) for code in codes], GAME_RULES)  # [texts + 1]
    resolved = table[text_index]
    points = pc.fill_null(komi, np.nan if default_komi is None else default_komi).to_numpy()
    resolved["komi"] = points
    resolved["handicap"] = pc.fill_null(handicap, UNKNOWN_HANDICAP).to_numpy()
    drop = np.zeros(len(resolved), np.uint8)
    with np.errstate(invalid="ignore"):  # NaN and infinity are not multiples of 0.5
        drop[~(points % 0.5 == 0)] = DropReason.KOMI_UNKNOWN
    drop[~known[text_index]] = DropReason.RULES_UNKNOWN
    return resolved, drop


def recorded_komi(batch: pa.RecordBatch) -> pa.FloatArray:
    """Return the komi of rows of a catalogue, [G]: null if the record gives none, NaN if it could not be parsed."""
    unparsed = pc.and_(pc.is_null(batch["komi"]), pc.is_valid(batch["komi_text"]))
    return pc.if_else(unparsed, pa.scalar(float("nan"), pa.float32()), batch["komi"])


def resolve_rules_or_default(
    rules: pa.StringArray, komi: pa.FloatArray, handicap: pa.Int16Array
) -> tuple[Array, Bytes]:
    """Parse the rules of G games like `resolve_rules`, with KataGo's defaults for records that give none.

    The default rules are Tromp-Taylor. The default komi is 6.5 for territory scoring, 7 with a button, else 7.5
    (CompactSgf::getRulesOrFailAllowUnspecified, Rules::parseRules). The rules of dropped games are zeros.
    """
    resolved, drop = resolve_rules(rules, komi, handicap, KataRules(), 0.0)
    default_komi = np.where(resolved["territory"] != 0, 6.5, np.where(resolved["button"] != 0, 7.0, 7.5))
    resolved["komi"] = np.where(komi.is_null().to_numpy(zero_copy_only=False), default_komi, resolved["komi"])
    resolved[drop != DropReason.KEPT] = np.zeros((), GAME_RULES)
    return resolved, drop


def _codes(text: str) -> tuple[int, ...] | None:
    try:
        return KataRules.parse(text).codes
    except GameError:
        return None
