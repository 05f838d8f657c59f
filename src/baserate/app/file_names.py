"""Names of files: those of users, and those of what is made from them."""

from __future__ import annotations

import re
from collections.abc import Collection

from baserate.tables.formats import FORMATS

SHIFT, REPORT, SQL, RATES, OLD_RATES = "shift.json", "report.html", "adjust.sql", "rates.json", "old-rates.json"
FIXED = (SHIFT, REPORT, SQL, RATES, OLD_RATES)
"""Names that files have whatever the name of the input is."""

_TABLES = tuple(suffix for one in FORMATS for suffix in one.suffixes)
_SUFFIXES = (*_TABLES, ".json")
_LONGEST_STEM = 120  # Bytes; with what is added, a name stays below 255.


def split_suffix(name: str) -> tuple[str, str]:
    """A name without its suffix, and the suffix; empty if it is not one of a known format.

    Examples
    --------
    >>> split_suffix("my.data.v2.csv.gz"), split_suffix("v1.2")
    (('my.data.v2', '.csv.gz'), ('v1.2', ''))
    """
    n = max((len(suffix) for suffix in _SUFFIXES if name.lower().endswith(suffix)), default=0)
    return name[: len(name) - n], name[len(name) - n :]


def made_from(name: str, what: str, file_format: str, taken: Collection[str]) -> str:
    """The name of a file that is made from another one, and that is not taken.

    Examples
    --------
    >>> made_from("a.v2.csv", "adjusted", "CSV", ()), made_from("a.json", "adjusted", "CSV", ())
    ('a.v2-adjusted.csv', 'a-adjusted.csv')
    """
    stem, suffix = split_suffix(name)
    default = next(one.suffixes[0] for one in FORMATS if one.name == file_format)
    return free_name(f"{stem}-{what}{suffix if suffix.lower() in _TABLES else default}", taken)


def free_name(name: str, taken: Collection[str]) -> str:
    """The name, or one with a number if it is taken. Some file systems do not tell upper from lower case.

    Examples
    --------
    >>> free_name("a.csv", ["b.csv"]), free_name("a.csv", ["A.csv", "a-2.csv"])
    ('a.csv', 'a-3.csv')
    """
    folded = {other.casefold() for other in taken}
    stem, suffix = split_suffix(name)
    number, found = 1, name
    while found.casefold() in folded:
        number += 1
        found = f"{stem}-{number}{suffix}"
    return found


def safe_name(given: str) -> str:
    """The last part of a path, without characters that cannot be in the name of a file."""
    name = "".join(c if c.isprintable() else "_" for c in re.split(r"[\\/]", given)[-1]).strip()
    name = re.sub(r"^[-.~]+", "_", name)
    stem, suffix = split_suffix(name)
    stem = stem.encode()[:_LONGEST_STEM].decode(errors="ignore")
    return f"{stem}{suffix}" if stem else "predictions.csv"
