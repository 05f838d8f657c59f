"""A table with rates per group whose numbers can be changed on the page: what if a group had another rate."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from baserate.app.forms import parse_number, parse_share, plain
from baserate.errors import BadRates

MAX_GROUPS = 2000
"""Groups that the page can list."""


@dataclass(frozen=True)
class GroupRates:
    """A CSV file with one rate per group and class.

    Attributes
    ----------
    lines : list of lists
        The cells, the header first.
    key : int
        The column with the groups.
    places : dict
        Where the rate of each group and class is: line and column.
    """

    lines: list[list[str]]
    key: int
    places: dict[tuple[str, str], tuple[int, int]]

    @classmethod
    def read(cls, path: Path, by: str, classes: tuple[str, ...], *, rate_alone: bool) -> GroupRates | None:
        """Read a table. None if it has bounds or counts, which are changed in the file itself, or is not a table.

        Parameters
        ----------
        path : Path
        by : str
        classes : tuple of str
        rate_alone : bool
            Whether it is known of which class a column "rate" is, if there are two classes.
        """
        try:
            lines = list(csv.reader(io.StringIO(path.read_text(encoding="utf-8-sig"))))
        except (UnicodeDecodeError, csv.Error):
            return None
        lines = [line for line in lines if any(cell.strip() for cell in line)]
        header = [name.strip() for name in lines[0]] if lines else []
        if by not in header or any(len(line) != len(header) for line in lines) or len(lines) > MAX_GROUPS * 20:
            return None
        key = header.index(by)
        found = cls(lines, key, _places(lines, header, key, classes, rate_alone))
        return found if found.places and len(found.groups) <= MAX_GROUPS else None

    @property
    def groups(self) -> list[str]:
        """The groups, in the order of the table."""
        return list(dict.fromkeys(group for group, _ in self.places))

    def shares(self) -> dict[str, dict[str, str]]:
        """The rate of each class in percent, as text, for each group; empty where nothing is known."""
        found: dict[str, dict[str, str]] = {group: {} for group in self.groups}
        for (group, name), (line, column) in self.places.items():
            text = self.lines[line][column].strip()
            number = parse_number(text)
            found[group][name] = plain(number if number is None or text.endswith("%") else number * 100)
        return found

    def changed(self, changes: Mapping[str, Mapping[str, str]]) -> str:
        """The text of the table with other percentages."""
        lines = [list(line) for line in self.lines]
        for group, entries in changes.items():
            for name, text in entries.items():
                if (group, name) not in self.places:
                    raise BadRates(f"The table has no rate of {name!r} for the group {group!r}.")
                line, column = self.places[group, name]
                lines[line][column] = plain(parse_share(text))
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows(lines)
        return out.getvalue()


def _places(
    lines: list[list[str]], header: list[str], key: int, classes: tuple[str, ...], rate_alone: bool
) -> dict[Any, tuple[int, int]]:
    """Where the rates are: in a column "rate", with or without a column "class", or in one column per class."""
    numbered = list(enumerate(lines))[1:]
    if "rate" in header and "class" in header:
        rate, of = header.index("rate"), header.index("class")
        return {(line[key].strip(), line[of].strip()): (i, rate) for i, line in numbered}
    if "rate" in header and len(classes) == 2 and rate_alone:
        return {(line[key].strip(), classes[1]): (i, header.index("rate")) for i, line in numbered}
    columns = {name: header.index(name) for name in classes if name in header}
    return {(line[key].strip(), name): (i, column) for i, line in numbered for name, column in columns.items()}
