"""What is unusual about a CSV file, for people who have saved it in a spreadsheet."""

from __future__ import annotations

import csv
import gzip
import io
import re
from pathlib import Path

_START = 1 << 16  # Bytes that are looked at.
_MOST_LINES = 30
_SEPARATORS = ";\t|,"


def csv_problem(path: Path, separator: str | None = None) -> str | None:
    """Why the first line of a CSV file has no names of columns, and what to do; None if nothing is found.

    Parameters
    ----------
    path : Path
    separator : str, optional
        What is between the columns. By default it is guessed.
    """
    start = _start(path)
    if re.match(r"\ufeff?sep=.\r?\n", start, re.IGNORECASE):
        line = start.splitlines()[0].removeprefix("\ufeff")
        return (
            f"The first line of {path.name} is {line!r}, a setting for Excel. Remove this line in a text editor, so "
            "that the names of the columns are in the first line."
        )
    lines = _cells(start, separator or max(_SEPARATORS, key=start.count))
    n_above = _lines_above_names(lines) or _lines_above_names_of_numbers(lines)
    if n_above:
        which = "line of" if n_above == 1 else f"{n_above} lines of"
        return (
            f"The first {which} {path.name} {'is' if n_above == 1 else 'are'} above the names of the columns, like a "
            "title. Remove what is above the names, and save the file again."
        )
    return None


def _lines_above_names(lines: list[list[str]]) -> int:
    """The number of lines above the names of the columns, if they look like a title; else 0."""
    widths = [sum(bool(cell.strip()) for cell in line) for line in lines]
    widest = max(widths, default=0)
    if widest < 2:
        return 0
    first = next(i for i, width in enumerate(widths) if width == widest)
    is_names = len(set(lines[first])) == len(lines[first]) and not any(map(_is_number, lines[first]))
    # A table without a name for the column of its index has only one cell less in its first line.
    return first if is_names and max(widths[:first], default=widest) < min(widest, max(widest - 1, 2)) else 0


def _lines_above_names_of_numbers(lines: list[list[str]]) -> int:
    """The number of lines above one that has different texts where all lines below it have numbers; else 0."""
    width = max(map(len, lines), default=0)
    for n_above, line in list(enumerate(lines))[1:-1]:
        below = [other for other in lines[n_above + 1 :] if len(other) == width]
        columns = [j for j in range(width) if below and all(_is_number(other[j]) for other in below)]
        names = {line[j].strip() for j in columns if len(line) == width} - {""}
        if len(names) == len(columns) > 1 and not any(map(_is_number, names)):
            return n_above
    return 0


def _start(path: Path) -> str:
    """The beginning of a file as text; empty if it cannot be read, of which another error tells."""
    try:
        with path.open("rb") as file:
            start = file.read(_START)
    except OSError:
        return ""
    if start[:2] == b"\x1f\x8b":
        try:
            with gzip.open(path) as file:
                start = file.read(_START)
        except (OSError, EOFError):
            return ""
    return "" if b"\0" in start else start.decode("utf-8", "replace")  # neither tables in binary formats nor UTF-16


def _cells(start: str, separator: str) -> list[list[str]]:
    try:
        return list(csv.reader(io.StringIO(start), delimiter=separator))[:_MOST_LINES]
    except csv.Error:
        return []


def _is_number(text: str) -> bool:
    return re.fullmatch(r"\s*-?\d+([.,]\d+)?(e[+-]?\d+)?\s*%?\s*", text, re.IGNORECASE) is not None
