"""KGS archives, from their index page into a folder: the only room that uses the network.

Each archive is received into NAME.part, checked to its end, and only then given its name; what has its name is never
fetched again, and a .part is gone on with where it ends, within a run and from one run to the next. What servers answer
is not trusted: sizes are bounded, and nothing but the strict form of an archive's name becomes part of a path.
"""

from kifu.fetch._client import Patience
from kifu.fetch._kgs import KGS_INDEX, FetchError, FetchReport, fetch_kgs, parse_years

__all__ = ["KGS_INDEX", "FetchError", "FetchReport", "Patience", "fetch_kgs", "parse_years"]
