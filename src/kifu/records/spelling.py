"""One spelling for words of many alphabets, before they are read: plain digits and letters."""

from __future__ import annotations

import re
import unicodedata

LONGEST = 80
"""Characters of a value that are looked at."""

_DIGITS = str.maketrans("〇零初一二三四五六七八九", "001123456789")
_TENS = re.compile("([二三四五六七八九]?)十([一二三四五六七八九]?)")


def respell(text: str) -> str:
    """The value without outer white space, full-width forms and East Asian numerals; at most its first 80 characters.

    >>> respell(" ９段"), respell("十五级"), respell("初段"), respell("３½目")
    ('9段', '15级', '1段', '3 1/2目')
    """
    text = text.strip()[:LONGEST]
    if text.isascii():
        return text
    text = re.sub("([¼½¾])", r" \1", text)
    text = unicodedata.normalize("NFKC", text).replace("\u2044", "/").replace("\u2212", "-").strip()
    return _TENS.sub(lambda ten: (ten[1] or "1") + (ten[2] or "0"), text).translate(_DIGITS)
