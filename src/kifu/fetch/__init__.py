"""Downloads of the KGS archives, from their index page into a folder. The only package that connects to the internet.

Each archive is received into NAME.part, checked to its end, and only then renamed. What has its final name is never
fetched again, and a .part file is resumed, within a run and in later ones. What servers send is not trusted: sizes are
bounded, and only the strict form of an archive's name becomes part of a path.
"""

from kifu.fetch.kgs import KGS_INDEX, FetchError, FetchReport, fetch_kgs, fetch_sample, parse_years
from kifu.retry import RetryPolicy

__all__ = ["KGS_INDEX", "FetchError", "FetchReport", "RetryPolicy", "fetch_kgs", "fetch_sample", "parse_years"]
