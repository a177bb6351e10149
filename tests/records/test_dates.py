"""Dates in the spellings of records."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kifu.records.meta import Date, parse_date

# Expected: year-month-day, a year only, or None.
DATES = {
    "2016-01-12": "2016-01-12", "2016-01-12,13": "2016-01-12", "2001-02-10,2001-02-11": "2001-02-10",
    "2000-7-20": "2000-07-20",
    "2016/1/2": "2016-01-02", "2016.01.01 00:02": "2016-01-01", "C2016.01.01 00:02": "2016-01-01",
    "2017-04-03T20:34:10.504419275+00:00": "2017-04-03", "2016-12-29 19:01:34": "2016-12-29", "20160112": "2016-01-12",
    "1846-09-11 to 1846-09-15": "1846-09-11", "1846.9.11~15": "1846-09-11",
    "1998-03": "1998", "1998-03,04": "1998", "1998": "1998", "c. 1820": "1820", "ca 1820?": "1820", "1830s": "1830",
    "Published 1717": "1717", "0196": "196", "2018年": "2018", "1998-??-??": "1998",
    "12 Mar 1998": "1998-03-12", "12-Mar-1998": "1998-03-12", "12th of March, 1998": "1998-03-12",
    "12mar1998": "1998-03-12",
    "Mar 12, 1998": "1998-03-12", "March 1st 1998": "1998-03-01", "Sept. 5, 2001": "2001-09-05", "May 2001": "2001",
    "Sat Mar 12 14:30:11 1998": "1998-03-12", "Sat Mar 12 14:30:11 UTC 1998": "1998-03-12",
    "2018年7月30日": "2018-07-30", "2018 年 7 月 30 日": "2018-07-30", "二〇一八年七月三十日": "2018-07-30",
    "２０１８年７月３０日": "2018-07-30", "2018년 7월 30일": "2018-07-30",
    "平成10年3月1日": "1998-03-01", "平成十年三月一日": "1998-03-01", "平成元年": "1989",
    "令和元年5月1日": "2019-05-01",
    "昭和 64年 1月 7日": "1989-01-07", "大正15年12月": "1926", "明治6年1月1日": "1873-01-01", "明治5年11月9日": "1872",
    "3.12.1998": "1998-12-03", "3/12/1998": "1998", "13/12/1998": "1998-12-13", "12/13/1998": "1998-12-13",
    "4-4-1998": "1998-04-04", "20-07-2016 14:30": "2016-07-20",
    "2018-02-31": "2018", "2018-13-01": "2018", "2018-00-00": "2018", "31 Feb 2018": "2018",
    "": None, "?": None, "unknown": None, "0000-00-00": None, "1970-01-01": None, "1970-01-02": "1970-01-02",
    "98-03-12": None, "12 Mar": None, "123456789": None, "9999-01-01": None, "2200": None, "平成年": None,
}  # fmt: skip


def as_text(date: Date | None) -> str | None:
    if date is None:
        return None
    assert date.first is None or date.first.year == date.year
    return date.first.isoformat() if date.first else str(date.year)


@pytest.mark.parametrize("text", DATES)
def test_date(text: str) -> None:
    assert as_text(parse_date(text)) == DATES[text]


ONE_DAY = st.dates(datetime.date(1900, 1, 1), datetime.date(2199, 12, 31)).filter(
    lambda day: day != datetime.date(1970, 1, 1)
)


@given(
    ONE_DAY, st.sampled_from(["%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d %H:%M", "%d %b %Y", "%B %d, %Y", "%Y年%m月%d日", "%c"])
)
def test_spellings_of_a_day(day: datetime.date, form: str) -> None:
    assert parse_date(day.strftime(form)) == Date(day.year, day)
