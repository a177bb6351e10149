"""Foreign text as one printable line."""

import pytest

from kifu.errors import FormatError, join_lines, printable


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("柯洁 - 이세돌, Müller, עברית", "柯洁 - 이세돌, Müller, עברית"),
        ("両儀\u3000式", "両儀 式"),  # a player of KGS
        ("a\xa0b\u2009c", "a b c"),
        ("\U0001f469\u200d\U0001f680", "\U0001f469\\u200d\U0001f680"),
        ("\x1b]0;owned\x07\x9b31m\x7f", r"\x1b]0;owned\x07\x9b31m\x7f"),
        ("a\r\nb\tc\x08", r"a\r\nb\tc\x08"),
        ("\u202e\u2028\ufeff\u200b\xad\ue000", r"\u202e\u2028\ufeff\u200b\xad\ue000"),
        ("\udcff.sgf", r"\udcff.sgf"),
    ],
)
def test_foreign_text_is_one_printable_line(text: str, line: str) -> None:
    assert printable(text) == line
    assert line.isprintable()
    assert str(FormatError(text)) == line


def test_a_line_cannot_pass_for_two() -> None:
    assert join_lines(["a\nb", 3]) == "a\\nb\n3"
