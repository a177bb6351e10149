"""Text of records: detect the character set, decode, unescape, and normalize spellings.

The CA of a record is used if it names a known character set by which the text decodes; else the character set is
detected from the text of that record alone. UTF-8 is recognized by its strictness; among the double-byte character sets
of East Asia, and Latin letters with accents, the one that gives the most common characters is chosen.

Names of players tell programs from people, by the patterns in assets/programs.txt and those that users add.
"""

from __future__ import annotations

import encodings.aliases
import fnmatch
import functools
import re
import unicodedata
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kifu.assets import asset
from kifu.errors import RecipeError, SourceError
from kifu.io import read_small

# How the bytes of a double-byte charset pair up, where it matters: the second byte may look like \ or ].
NO_CHARSET, SINGLE, SHIFT_JIS, BIG5, GB18030 = range(-1, 4)


class Charsets(NamedTuple):
    """The known character sets, for the compiled scanner.

    Attributes:
        key: [C] int64, ascending; see `charset_key`.
        pairing: [C] int64, one of SINGLE, SHIFT_JIS, BIG5 and GB18030.
    """

    key: npt.NDArray[np.int64]
    pairing: npt.NDArray[np.int64]


# Python's codec -> the Windows superset of it, which programs write under its name, and which keeps the backslash.
_SUPERSET = {
    "gb2312": "gb18030", "gbk": "gb18030", "big5": "cp950", "euc_kr": "cp949", "shift_jis": "cp932",
    "shift_jis_2004": "cp932", "shift_jisx0213": "cp932", "latin_1": "cp1252", "iso2022_jp": "iso2022_jp_ext",
}  # fmt: skip

# Names in records that Python lacks; letters and digits only.
_MORE_NAMES = {
    "gb18030": ("gb", "gb231280"),
    "cp950": ("big5eten",),
    "cp949": ("ksc56011987",),
    "cp1252": ("ansi",),
    "utf_8": ("unicode",),
}
_WITHOUT_ALIAS = ("koi8_u", "koi8_t", "cp720", "cp737", "cp874")

# Python codecs that are not character sets, or in which the syntax of SGF would not be ASCII.
_UNUSABLE = re.compile(
    r"utf_(7|16|32)|cp(037|273|424|500|875|1026|1140)$|iso2022_kr|hz$|johab$|mbcs$|tactis$"
    r"|(base64|bz2|hex|quopri|uu|zlib)_codec$|rot_13$"
)

_PAIRING = {"cp932": SHIFT_JIS, "cp950": BIG5, "big5hkscs": BIG5, "gb18030": GB18030}


def _plain(name: str) -> str:
    return re.sub("[^0-9a-z]", "", name.lower())


@functools.cache
def _codecs() -> dict[str, str]:
    """Return a map from charset names, letters and digits only and at most 12 of them, to Python codecs.

    Besides Python's names there are those of registries: x-mac-roman, windows-874.
    """
    codecs = {}
    for alias, codec in (*encodings.aliases.aliases.items(), *zip(_WITHOUT_ALIAS, _WITHOUT_ALIAS)):
        if not _UNUSABLE.match(codec):
            codecs[_plain(alias)] = codecs[_plain(codec)] = _SUPERSET.get(codec, codec)
    for codec, names in _MORE_NAMES.items():
        codecs.update(dict.fromkeys(names, codec))
    codecs |= {re.sub("^cp", "windows", name): codec for name, codec in codecs.items()}
    codecs |= {f"x{name}": codec for name, codec in codecs.items() if f"x{name}" not in codecs}
    return {name: codec for name, codec in codecs.items() if len(name) <= 12}


@functools.cache
def charsets() -> Charsets:
    """Return the table of known character sets for the scanner."""
    pairing = {int(name, 36): _PAIRING.get(codec, SINGLE) for name, codec in _codecs().items()}
    keys = sorted(pairing)
    return Charsets(np.array(keys, np.int64), np.array([pairing[key] for key in keys], np.int64))


def codec_named(ca: bytes) -> str | None:
    """Return Python's codec for a value of CA; None if the name is unknown."""
    return _codecs().get(_plain(ca.decode("latin-1")))


# Common characters in names, ranks, results and events of Go records, to tell the East Asian character sets apart.
_CHINESE = frozenset(
    "王李张刘陈杨黄赵吴周徐孙马朱胡郭何高林罗郑梁谢宋唐许韩冯邓曹彭曾肖田董袁潘于蒋蔡余杜叶程苏魏吕丁任沈姚卢姜崔钟谭陆汪范金石廖贾夏韦付方白邹孟熊秦邱江尹薛"
    "闫段雷侯龙史陶黎贺顾毛郝龚邵万钱严覃武戴莫孔向汤常芮柯古檀时连辜聂俞华伟芳娜秀英敏静丽强磊军洋勇艳杰娟涛明超兰霞平刚桂文辉玲斌宇浩凯健俊帆帅旭宁然轩"
    "子涵欣怡雨泽天佑昊志国建新春光永东海波成家豪昱廷羽洁毅宏博星晓小大一二三四五六七八九十段级黑白方中盘胜负目子半和棋围局赛杯届第轮决冠军名人战联甲乙先让贴职业"
    "年月日中国韩日本网络快电视手谈弈城野狐人的不是在了有我他这们来上个到说时要就出会可也你对生能而过道得着自之后心风云山水梦无情雪剑飞神仙狼虎鸟花爱老少侠客"
)
_TRADITIONAL = _CHINESE | frozenset(
    "張劉陳楊黃趙吳孫馬羅鄭謝許韓馮鄧蕭蔣葉蘇魏呂盧鐘譚陸賈韋鄒龍賀顧龔萬錢嚴湯時連聶華偉麗強軍勇艷傑濤蘭剛輝凱健俊帥寧軒潔級盤勝負圍賽屆輪決冠戰聯讓貼職業國"
    "網絡電視談個說時會對過無飛愛臺灣應氏祺圓淵翰庭旭嘉宏達棋院最高位王座天元本因坊碁聖緯來進東樂鳥樹夢劍俠客見將風雲"
)
_JAPANESE = frozenset(
    "田中山本木村林井上小大高橋佐藤伊渡辺加吉松鈴斎清水池原石長島前岡後近谷川内河野菊森阿部青福西三浦宮崎坂口金丸安今杉武依趙治勲張栩羽根直樹結城聡光一井山裕太芝正啓吾"
    "余正麒虎丸芝野許家元関航太郎健二実優也子美由紀恵奈真理香里沙彩和男夫雄介輔悟之伸剛誠進秀行義敬俊宏明昭彦博司史道策秀栄寿文智仁平次郎段級黒白番勝負中押半目先"
    "譲置碁囲棋聖名人本因坊王座天元十段杯戦第期局回院日年月持時間不計持碁対優勝決定挑手合大会世界国際全新聞社位者初二三四五六七八九"
)
_KOREAN = frozenset(
    "김이박최정강조윤장임한신오서권황안송류유전홍고문양손배백허남심노하곽성차주우구민진지나엄원천방공현함변염여추도소석선설마길연위표명기반왕금옥육인맹제모탁국어은편"
    "용예경봉사부가복태목형피두감음빈동온호범좌팽승간상시갈수영준재철광훈창세돌규환병희욱목찬건식대일중대근섭한아름다운의을를는에서로와과도만해요네바람사랑하늘단급흑"
    "백승불계집반무제대회기성전배국수왕위명인천원십단결승전본선예선일월년한국중국일본타이젬왕자전설검신귀풍산강물달별꽃나무새용호랑봉황독고무림초보고수프로아마스트"
)

_DOUBLE_BYTE = ("gb18030", "cp950", "cp949", "cp932", "euc_jp")
_CANDIDATES = (*_DOUBLE_BYTE, "cp1252")


def _lead(char: str, codec: str) -> int:
    """Return the first byte of a two-byte character in a charset; 0 if it is not one there."""
    coded = char.encode(codec, "ignore")
    return coded[0] if len(coded) == 2 else 0


def _commonness(char: str, codec: str) -> float:
    """Rate how likely a record in this charset contains the character: 1 for common ones, down to -1."""
    if "\u3000" <= char <= "\u3015" or "\uff01" <= char <= "\uff5e":  # East Asian punctuation
        return 0.3
    if codec == "gb18030":
        if char in _CHINESE:
            return 1
        return 0.42 if 0xB0 <= _lead(char, "gb2312") <= 0xD7 else 0.6 if char in _TRADITIONAL else -0.3
    if codec == "cp950":
        return 1 if char in _TRADITIONAL else 0.4 if 0xA4 <= _lead(char, "big5") <= 0xC6 else -0.3
    if codec == "cp949":
        return 1 if char in _KOREAN else 0.45 if 0xB0 <= _lead(char, "euc_kr") <= 0xC8 else -0.3
    if "ぁ" <= char <= "ヿ":
        return 0.9
    return 1 if char in _JAPANESE else 0.4 if 0xB0 <= _lead(char, "euc_jp") <= 0xCF else -0.5


def _latin(run: str) -> float:
    """Rate a run of accented Latin letters, summed; they stand alone among plain letters, seldom in pairs."""
    if len(run) == 1:
        return 0.8 if run.isalpha() else 0.3
    return 0.6 if len(run) == 2 and run.isalpha() else -0.5 * len(run)


def _score(text: str, codec: str) -> float:
    """Return the mean rating of all non-ASCII characters of a text that was decoded by `codec`."""
    runs = re.findall("[^\0-\x7f]+", text)
    chars = "".join(runs)
    if codec == "cp1252":
        return sum(map(_latin, runs)) / len(chars)
    return sum(_commonness(char, codec) for char in chars) / len(chars)


STATEFUL = frozenset(codec for codec in encodings.aliases.aliases.values() if codec.startswith("iso2022_jp"))
"""Codecs of seven bits, in which escape sequences make ASCII parts of characters."""


def decodes(text: bytes, codec: str) -> bool:
    """Return whether the whole text is valid in a charset, given Python's name of its codec."""
    try:
        text.decode(codec)
    except UnicodeDecodeError:
        return False
    return True


def _rate(text: bytes, more: bytes) -> dict[str, float]:
    """Return the mean rating of all characters by each candidate in which a text is valid.

    `more` is further text, which counts if it is valid in a double-byte candidate too.
    """
    valid = [codec for codec in _CANDIDATES if decodes(text, codec)]
    both = [codec for codec in valid if decodes(more, codec)] if more else []
    if any(codec in _DOUBLE_BYTE for codec in both):
        return {codec: _score(more.decode(codec), codec) for codec in both}
    return {codec: _score(text.decode(codec), codec) for codec in valid}


def detect_codec(text: bytes, more: bytes = b"") -> str:
    """Return Python's codec for text without a usable CA, given further text of the record, see `_rate`.

    Never fails: text that fits no character set is read as UTF-8 with replacement characters.
    """
    if decodes(text, "utf_8"):
        return "utf_8"
    scores = _rate(text, more)
    best = max(scores, key=scores.__getitem__, default="utf_8")
    score = scores.get(best, -1)
    # Three-byte characters, which other charsets hardly ever produce, indicate UTF-8 even if as many bytes are damaged.
    damaged = text.decode("utf_8", "surrogateescape")
    if score < 0.35 and 3 * len(re.findall("[\u0800-\ud7ff\ue000-\uffff]", damaged)) >= len(
        re.findall("[\udc80-\udcff]", damaged)
    ):
        return "utf_8"
    if score > 0.1:
        return best
    # In Latin text three accented letters hardly ever stand side by side.
    single_byte = "cp1251" if re.search("[\u0410-\u044f]{3}", text.decode("cp1251", "replace")) else "cp1252"
    return single_byte if decodes(text, single_byte) else best


def keeps_utf8(ca: bytes | None) -> bool:
    """Return whether text that is valid UTF-8 is certain to be read as UTF-8 under this CA, None if it is missing."""
    codec = codec_named(ca) if ca else None
    return codec is None or codec == "utf_8" or len(bytes(range(128, 256)).decode(codec, "replace")) == 128


def _looks_like_utf8(text: bytes) -> bool:
    """Return whether text that is valid UTF-8 is so by more than chance.

    A two-byte character of another charset often is one of UTF-8: a letter of any script, a sign. In real text, letters
    of one script form words, and Latin ones stand beside plain letters.
    """
    decoded = text.decode()
    if re.search("[\u0800-\U0010ffff]", decoded):
        return True
    runs = re.findall("[a-zA-Z]?[^\0-\x7f]+[a-zA-Z]?", decoded)
    good = 0
    for run in runs:
        scripts = {unicodedata.name(char, "").split(" ")[0] for char in run}
        good += run.isalpha() and len(scripts) == 1 and (scripts != {"LATIN"} or run[0].isascii() or run[-1].isascii())
    return 2 * good > len(runs)


def _refute(text: bytes, more: bytes, codec: str) -> str | None:
    """Return a codec that gives so many more common characters than the one of CA that CA must be wrong; else None."""
    if codec not in _CANDIDATES:
        return None
    scores = _rate(text, more)
    best = max(scores, key=scores.__getitem__, default=codec)
    gain = scores.get(best, 0) - scores.get(codec, 0)
    count = sum(char > "\x7f" for char in text.decode(best, "replace"))
    return best if scores.get(best, 0) > 0.4 and gain > 0.3 and gain * count > 1.2 else None


def choose_codec(ca: bytes | None, text: bytes, more: bytes = b"") -> str:
    """Return Python's codec for a record.

    A single-byte charset decodes any text, so its name alone is no evidence: valid UTF-8 is read as UTF-8. So it is
    under a double-byte charset, unless it seems to be UTF-8 by chance. Other text is read by CA, unless another charset
    gives more common characters.

    Args:
        more: Further text of the record, which counts if it is in the same charset.
    """
    codec = codec_named(ca) if ca else None
    decoded = text.decode(codec, "replace") if codec else ""
    usable = bool(codec) and 4 * decoded.count("\ufffd") <= sum(char > "\x7f" for char in decoded)
    if codec and usable and codec in STATEFUL and b"\x1b" in text:
        return codec
    if text.isascii() or (decodes(text, "utf_8") and (keeps_utf8(ca) or not usable or _looks_like_utf8(text))):
        return "utf_8"
    return (_refute(text, more, codec) or codec) if codec and usable else detect_codec(text, more)


def unescape(value: str) -> str:
    """Return the text of a value: a backslash makes the next character literal and removes a line break after it."""
    return re.sub(r"\\(\r\n|\n\r|.)", lambda m: m[1].strip("\r\n"), value, flags=re.DOTALL)


def simple_text(value: str) -> str:
    """Return the text of a value in one line: unescaped, each line break and other white space as one space."""
    return re.sub("\r\n|\n\r|[\t-\r]", " ", unescape(value))


def escape(text: str) -> str:
    r"""Return text as a value in canonical form; line breaks become \n."""
    return canonical_value(text.replace("\\", "\\\\"))


def canonical_value(value: str) -> str:
    r"""Return the same value as kifu writes it: escaped only where required, line breaks as \n. Idempotent.

    A colon keeps its backslash, which distinguishes it from the colon between two values.
    """

    def one(match: re.Match[str]) -> str:
        char = match[0].removeprefix("\\") if len(match[0]) > 1 else match[0]
        if char in ("\r\n", "\n\r", "\r", "\n"):
            return "" if match[0][0] == "\\" else "\n"
        if char == ":" and len(match[0]) > 1:
            return match[0]
        return "\\" + char if char in ("\\", "]") else char

    return re.sub(r"\\?(?:\r\n|\n\r)|\\.|[\r\]\\]", one, value, flags=re.DOTALL)


MAX_TEXT = 80
"""Characters of a value that are read."""

_DIGITS = str.maketrans("〇零初一二三四五六七八九两兩", "00112345678922")
_DIGIT = "[一二三四五六七八九两兩]?"
_NUMERAL = re.compile(rf"(?<!\d){_DIGIT}(?:百[零〇]?(?:{_DIGIT}十)?|十){_DIGIT}")


def _spell_numeral(match: re.Match[str]) -> str:
    value = digit = 0
    for char in match[0].translate(_DIGITS):
        weight = {"百": 100, "十": 10}.get(char)
        value, digit = (value + (digit or 1) * weight, 0) if weight else (value, int(char))
    return str(value + digit)


def normalize(text: str) -> str:
    """Return text without outer white space, full-width forms and East Asian numerals.

    White space within is one space, and only the first 80 characters are kept, so patterns need no time for either.

    Examples:
        >>> normalize(" ９段"), normalize("十五级"), normalize("初段"), normalize("３½目")
        ('9段', '15级', '1段', '3 1/2目')
    """
    text = " ".join(text.split())[:MAX_TEXT]
    if text.isascii():
        return text
    text = re.sub("([¼½¾])", r" \1", text)
    text = unicodedata.normalize("NFKC", text).replace("\u2044", "/").replace("\u2212", "-").strip()
    return _NUMERAL.sub(_spell_numeral, text).translate(_DIGITS)


_LARGEST_FILE = 1 << 20
_MAX_NAMES = 1 << 16


def _compared(name: str, separator: str) -> str:
    """Return a name without what does not distinguish names: its case, and spaces, _ and -; a set [0-9] keeps its -."""
    name = unicodedata.normalize("NFKC", name[:MAX_TEXT]).casefold()
    return re.sub(r"(\[[^]]*])|[\s\u1160_-]", lambda each: each[1] or separator, name)


_SEPARATED = re.compile(r"[\s_-][*?[]")


class Programs:
    """Name patterns of Go programs: * matches any characters, ? one, [0-9] one of a set.

    A pattern matches whole names, ignoring case, spaces, _ and -; but one of these before a *, ? or [ has to be there,
    in any of the three forms. After =, a pattern is a name as it is spelled, with its case. Raises RecipeError if a
    pattern has fewer than two letters or digits, as it would match nearly every name.

    Args:
        patterns: Each with the reason why such a name is a program's after a #, if it is not obvious.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        self.patterns = tuple(dict.fromkeys(patterns))
        self._reasons: dict[str, str] = {}
        for line in self.patterns:
            pattern, _, comment = (part.strip() for part in line.partition("#"))
            how = f"pattern {pattern}" if re.search(r"[*?[]", pattern) else "list"
            self._reasons.setdefault(
                pattern, comment if comment.startswith("behaviour, ") else ", ".join(filter(None, (how, comment)))
            )
            if len(re.findall(r"\w", re.sub(r"\[[^]]*]", "", pattern[:MAX_TEXT]))) < 2:
                raise RecipeError(
                    f"a program name needs at least two letters or digits besides *, ? and [...], got {pattern!r}"
                )
        self._exact = frozenset(pattern[1:] for pattern in self._reasons if pattern.startswith("="))
        inexact = [pattern for pattern in self._reasons if not pattern.startswith("=")]
        bare = [_compared(pattern, "") for pattern in inexact if not _SEPARATED.search(pattern)]
        separated = [_compared(pattern, "-") for pattern in inexact if _SEPARATED.search(pattern)]
        self._match_bare, self._match_separated = (
            re.compile("|".join(map(fnmatch.translate, patterns)) or "(?!)").match for patterns in (bare, separated)
        )
        self._reason = functools.lru_cache(_MAX_NAMES)(self._find_reason)

    def _matches(self, name: str) -> bool:
        if name in self._exact or self._match_bare(_compared(name, "")):
            return True
        return self._match_separated(_compared(name, "-")) is not None

    def reason(self, name: str | None) -> str | None:
        """Return why a name is a program's, None if it is not. The last 65,536 names are cached.

        The reason is "list", "pattern GNUGo*" or "behaviour"; what a pattern has after its # follows.
        """
        return self._reason(name) if name else None

    def _find_reason(self, name: str) -> str | None:
        if not self._matches(name):
            return None
        return next((reason for program, reason in self._single if program._matches(name)), None)

    @functools.cached_property
    def _single(self) -> list[tuple[Programs, str]]:
        return [(Programs([pattern]), reason) for pattern, reason in self._reasons.items()]

    def __reduce__(self) -> tuple[type[Programs], tuple[tuple[str, ...]]]:
        return Programs, (self.patterns,)

    def __len__(self) -> int:
        return len(self.patterns)


def _patterns(text: str) -> list[str]:
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def known_programs(*more: str, file: Path | None = None) -> Programs:
    """Return the patterns that kifu ships, with more patterns and those of a file.

    Args:
        file: A UTF-8 file with one pattern per line and # comments.

    Raises:
        SourceError: The file cannot be read, is not UTF-8, or is larger than 1 MiB.
        RecipeError: As `Programs` does.
    """
    patterns = _patterns(asset("programs.txt").read_text("utf-8"))
    if file is not None:
        try:
            patterns += _patterns(read_small(file, _LARGEST_FILE).decode("utf-8-sig"))
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise SourceError(f"{file}: cannot read the list of programs: {reason}") from None
    return Programs([*patterns, *more])
