"""What the columns of a file are: probabilities, true classes, groups, weights. A guess that the user can correct."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from baserate.app.csv_problems import csv_problem
from baserate.errors import BadFile
from baserate.inputs.labels import match_labels
from baserate.support.arrays import FloatArray
from baserate.tables import Files, first_rows
from baserate.tables.dialect import Dialect

N_ROWS = 1000
"""Rows from which columns are recognised."""

MAX_COLUMNS = 20_000
"""Columns of a file that the page can show."""

PROBABILITY, LABEL, GROUP, WEIGHT, OTHER = "probability", "label", "group", "weight", "other"
_SUM_TOLERANCE = 0.005  # Rounded probabilities of many classes do not sum to exactly 1.
_ROUNDING = 5e-6  # Rows whose sum differs more are divided by it; the library refuses to guess that.
_ROUNDED_PERCENTAGES = 0.02  # Percentages without decimals, such as 33, 33, 33.
_MOSTLY = 0.9  # Share of the first rows that decides what a column is.
_LABEL_NAMES = ("y", "label", "labels", "target", "class", "truth", "true", "actual", "outcome", "y_true", "true_class")
_PROBABILITY_PREFIXES = ("p_", "prob", "proba", "p.", "score", "pred", "p(")
_PERCENTAGE = re.compile(r"\s*\d+([.,]\d+)?\s*%\s*")
_MOST_GROUPS = 200  # Columns with more different values among the first rows are not groups but names of rows.


@dataclass(frozen=True)
class Preview:
    """The first rows of a file.

    Attributes
    ----------
    files : Files
        The file, with delimiter and decimal point.
    format : str
    selectable : bool
        Whether the columns with probabilities can be selected.
    columns : dict
        The first values of each column, as text.
    numbers : dict
        The same as numbers, for columns in which most entries are numbers; NaN for the others.
    """

    files: Files
    format: str
    selectable: bool
    columns: dict[str, list[str]]
    numbers: dict[str, FloatArray] = field(repr=False)

    @property
    def names(self) -> list[str]:
        """Names of all columns."""
        return list(self.columns)


@dataclass(frozen=True)
class Roles:
    """What each column is.

    Attributes
    ----------
    probabilities : tuple of str
        The columns with probabilities. A single one is for the second of two classes.
    label : str or None
        The column with the true classes.
    groups : tuple of str
        Columns by which rates may be given.
    weight : str or None
    from_logits, normalize : bool
        Whether the columns contain scores, and whether each row is divided by its sum.
    has_zeros : bool
        Whether a small number is added to every probability, because some are exactly 0.
    """

    probabilities: tuple[str, ...]
    label: str | None = None
    groups: tuple[str, ...] = ()
    weight: str | None = None
    from_logits: bool = False
    normalize: bool = False
    has_zeros: bool = False

    @property
    def pattern(self) -> tuple[str, str] | None:
        """Prefix and suffix that all columns with probabilities have, around the name of the class."""
        names = self.probabilities
        if len(names) < 2:
            return None
        prefix = _common_start(names)
        prefix = prefix[: max((i + 1 for i, c in enumerate(prefix) if not c.isalnum()), default=0)]
        reversed_suffix = _common_start([name[len(prefix) :][::-1] for name in names])
        ends = [i + 1 for i, c in enumerate(reversed_suffix) if not c.isalnum()]
        suffix = reversed_suffix[: max(ends, default=0)][::-1]
        whole = len(prefix) + len(suffix)
        return (prefix, suffix) if prefix and all(len(name) > whole for name in names) else None

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes, as the library derives them from the columns."""
        if len(self.probabilities) == 1:
            return f"not {self.probabilities[0]}", self.probabilities[0]
        if self.pattern is None:
            return self.probabilities
        prefix, suffix = self.pattern
        return tuple(name[len(prefix) : len(name) - len(suffix)] for name in self.probabilities)


def _common_start(texts: Sequence[str]) -> str:
    """The characters with which all texts begin."""
    first, last = min(texts), max(texts)
    n = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))
    return first[:n]


def preview(path: Path) -> Preview:
    """Read the first rows of a file, and find out how its columns are separated."""
    try:
        files, found = _first_rows(path)
    except BadFile as error:
        problem = csv_problem(path)
        if problem is None:
            raise
        raise BadFile(problem) from error
    n_columns = len(found.rows.column_names)
    if n_columns > MAX_COLUMNS:
        raise BadFile(
            f"The file {path.name} has {n_columns:,} columns. The page can show at most {MAX_COLUMNS:,}. Remove "
            "columns that have no probabilities, or use the command “baserate adjust”."
        )
    columns = {name: [_text(value) for value in found.rows[name].to_pylist()] for name in found.rows.column_names}
    decimal = _decimal(columns) if files.delimiter not in (None, ",") else "."
    numbers = {name: _numbers(values, decimal) for name, values in columns.items()}
    known = {name: values for name, values in numbers.items() if 2 * np.isfinite(values).sum() >= len(values) > 0}
    return Preview(Files(str(path), files.delimiter, decimal), found.format, found.selectable, columns, known)


def _first_rows(path: Path) -> tuple[Files, Any]:
    """How the columns of a file are separated, and its first rows."""
    files = Files(str(path))
    try:
        return files, first_rows(files, N_ROWS)
    except BadFile as error:
        suggested = {option.name: str(option.value).strip("'\"") for option in error.options}
        if "delimiter" not in suggested:
            raise
    files = Files(str(path), delimiter=suggested["delimiter"].replace("\\t", "\t"))
    return files, first_rows(files, N_ROWS)


def check_rows(seen: Preview) -> None:
    """Raise if a file has no rows, or no header."""
    name = Path(str(seen.files.where)).name
    if not seen.columns or not next(iter(seen.columns.values())):
        raise BadFile(f"The file {name} has the names of columns, but no rows. Choose a file with one row per case.")
    if seen.format == "CSV":
        path = Path(str(seen.files.where))
        problem = csv_problem(path, Dialect(seen.files.delimiter, seen.files.decimal).delimiter_for(path.name))
        if problem is not None:
            raise BadFile(problem)
    entries = _entries_as_names(seen)
    if seen.format == "CSV" and entries:
        raise BadFile(
            f"The first line of {name} has numbers, such as {entries[0]}, instead of the names of the columns. "
            "Add a line with names at the top, for example p_yes,p_no."
        )


def check_percent_signs(seen: Preview, roles: Roles) -> None:
    """Raise if columns have percent signs that may be all probabilities, or those that are missing from the others."""
    chosen = roles.probabilities
    if max(_share(seen, chosen, total) for total in (1, 100)) >= _MOSTLY:
        return
    prefixes = {prefix for name in chosen for prefix in _prefixes(name)}
    names = [
        name
        for name, values in seen.columns.items()
        if values
        and all(map(_PERCENTAGE.fullmatch, values))
        and (not chosen or not prefixes.isdisjoint(_prefixes(name)))
    ]
    if not names:
        return
    entry = " ".join(seen.columns[names[0]][0].split())  # without no-break spaces
    raise BadFile(
        f"The entries of the column {names[0]!r} have percent signs, such as {entry!r}. Remove "
        "them: format the cells as numbers in your spreadsheet, and save the file again. Percentages without the sign "
        "can be read."
    )


def check_percentages(seen: Preview, roles: Roles) -> None:
    """Raise if most rows are percentages, and a few are not. Reading them would name all rows."""
    if not are_percentages(seen, roles):
        return
    sums = np.sum([seen.numbers[name] for name in roles.probabilities], axis=0)
    wrong = np.flatnonzero(np.abs(sums - 100) > 100 * _ROUNDED_PERCENTAGES)
    if wrong.size:
        raise BadFile(
            f"row {wrong[0]} of {Path(str(seen.files.where)).name} sums to {sums[wrong[0]]:.6g}, but most rows sum to "
            "100; correct this row in your file, or remove it"
        )


def are_percentages(seen: Preview, roles: Roles) -> bool:
    """Whether the rows sum to 100."""
    return _share(seen, roles.probabilities, 100, _ROUNDED_PERCENTAGES) >= _MOSTLY


def _entries_as_names(seen: Preview) -> list[str]:
    """Names of columns that are entries of a row. Classes may have numbers as names, too."""
    parts = re.split("[;\t]", ",".join(seen.columns))  # 0,2;0,8 was split at its decimal commas
    if len(parts) > 1 and (found := [text for text in parts if "," in text and math.isfinite(_number(text, ","))]):
        return found
    numbers = {name: _number(name, seen.files.decimal) for name in seen.numbers}
    if abs(sum(numbers.values()) - 100) <= 100 * _SUM_TOLERANCE and _share(seen, seen.names, 100) >= _MOSTLY:
        return seen.names
    return [name for name, number in numbers.items() if _is_entry(number, seen.numbers[name])]


def _is_entry(number: float, values: FloatArray) -> bool:
    """Whether the name of a column, as a number, is like its values: a probability, or a number that cannot be one."""
    if 0 < number < 1:
        return True
    other = number < 0 or (math.isfinite(number) and number % 1 > 0)
    return other and not _is_mostly(_inside(values, 1))


def recognise(seen: Preview) -> Roles:
    """Guess what each column is."""
    if not seen.selectable:
        probabilities = tuple(name for name in seen.names if name.startswith("p_"))
    else:
        probabilities = _probabilities(seen)
    roles = Roles(probabilities)
    chosen = set(probabilities)
    rest = [name for name in seen.names if name not in chosen]
    label = next((name for name in rest if _is_label(seen, name, roles)), None)
    weight = next((name for name in rest if name.lower() in ("weight", "weights", "sample_weight")), None)
    groups = tuple(name for name in rest if name not in (label, weight) and _is_group(seen.columns[name]))
    columns = [seen.numbers[name] for name in probabilities if name in seen.numbers]
    weight = weight if weight in seen.numbers else None
    return Roles(probabilities, label, groups, weight, normalize=len(columns) > 1 and _needs_division(columns))


def _numbers(values: Sequence[str], decimal: str) -> FloatArray:
    """Texts as numbers; NaN for other texts."""
    return np.array([_number(text, decimal) for text in values], dtype=float)


def _number(text: str, decimal: str) -> float:
    try:
        return float(text.replace(decimal, "."))
    except ValueError:
        return math.nan


def _is_mostly(flags: Any) -> bool:
    """Whether hardly any entry is False. A few wrong rows must not change what a column is taken for."""
    return len(flags) > 0 and bool(flags.mean() >= _MOSTLY)


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return "" if value is None else str(value)


def _decimal(columns: dict[str, list[str]]) -> str:
    """A comma if that makes more columns numeric."""
    with_comma, with_point = (
        sum(_is_mostly(np.isfinite(_numbers(values[:50], mark))) for values in columns.values()) for mark in (",", ".")
    )
    return "," if with_comma > with_point else "."


def _probabilities(seen: Preview) -> tuple[str, ...]:
    for total in (1, 100):
        for names in _candidate_sets([name for name, x in seen.numbers.items() if _is_mostly(_inside(x, total))]):
            found = max(_with_fewer(seen, names), key=lambda chosen: _share(seen, chosen, total))
            if _share(seen, found, total) >= _MOSTLY:
                return tuple(found)
    return _from_names(seen)


def _candidate_sets(names: list[str]) -> list[list[str]]:
    """Sets of columns that may hold the probabilities of all classes: those with a common prefix first, then all."""
    prefixes: dict[str, list[str]] = {}
    for name in names:
        for prefix in _prefixes(name):
            prefixes.setdefault(prefix, []).append(name)
    return [*sorted(prefixes.values(), key=len, reverse=True), names]


def _prefixes(name: str) -> list[str]:
    """Prefixes of a column name, which the other columns with probabilities may share."""
    return [name.split(mark)[0] + mark for mark in "_.( -" if mark in name]


def _with_fewer(seen: Preview, names: list[str]) -> list[list[str]]:
    """All columns, and those without columns that may hold classes. The first set with the best sums is taken."""
    fractional = [name for name in names if _has_fractions(seen.numbers[name])]
    no_label = [name for name in names if name.lower() not in _LABEL_NAMES]
    return [names, *(fewer for fewer in (fractional, no_label) if len(fewer) < len(names))]


def _from_names(seen: Preview) -> tuple[str, ...]:
    """The columns with probabilities if no columns have the right sums.

    Columns with a common prefix are taken together: reading them will say what is wrong. One of them would be a wrong
    guess. Else it is a single column.
    """
    inside = [name for name, values in seen.numbers.items() if _is_mostly(_inside(values, 1))]
    fractional = [name for name in inside if _has_fractions(seen.numbers[name])]
    named = [name for name in fractional if name.lower().startswith(_PROBABILITY_PREFIXES)]
    together = _named_together(seen)
    with_probabilities = [names for names in together if any(_inside(seen.numbers[n], 1).mean() > 0.5 for n in names)]
    return tuple(next(iter(with_probabilities), named[-1:] or next(iter(together), (fractional or inside)[-1:])))


def _named_together(seen: Preview) -> list[list[str]]:
    """Sets of columns whose names begin as those of probabilities, largest first, that are not only one prediction."""
    sets = [[name for name in seen.numbers if name.lower().startswith(prefix)] for prefix in _PROBABILITY_PREFIXES]
    several = [
        names
        for names in sets
        if sum(_has_fractions(seen.numbers[name]) for name in names) > 1
        or _share(seen, names, 100, _ROUNDED_PERCENTAGES) >= _MOSTLY
    ]
    return sorted(several, key=len, reverse=True)


def _inside(values: FloatArray, total: float) -> NDArray[np.bool_]:
    flags: NDArray[np.bool_] = (values >= 0) & (values <= total)
    return flags


def _has_fractions(values: FloatArray) -> bool:
    return bool((values[np.isfinite(values)] % 1 > 0).any())


def _share(seen: Preview, names: Sequence[str], total: float, tolerance: float = _SUM_TOLERANCE) -> float:
    """Share of the rows in which the columns have this sum; 0 for a single column."""
    if len(names) < 2 or not all(name in seen.numbers for name in names):
        return 0.0
    sums = _sums(seen.numbers[name] for name in names)
    return float((np.abs(sums - total) <= total * tolerance).mean()) if len(sums) else 0.0


def _sums(columns: Iterable[FloatArray]) -> FloatArray:
    """Sums of the rows in which all entries are numbers."""
    sums: FloatArray = np.sum(list(columns), axis=0)
    return sums[np.isfinite(sums)]


def _needs_division(columns: list[FloatArray]) -> bool:
    """Whether rows are rounded probabilities, or percentages, so that each is divided by its sum.

    All rows must be. Another row is probably a mistake, which is reported if the rows are read as they are.
    """
    sums = _sums(columns)
    rounded, percent = np.abs(sums - 1), np.abs(sums - 100)
    if _is_mostly(percent <= _SUM_TOLERANCE * 100):
        return bool((percent <= _ROUNDED_PERCENTAGES * 100).all())
    return bool((rounded <= _SUM_TOLERANCE).all() and (rounded > _ROUNDING).any())


def _is_label(seen: Preview, name: str, roles: Roles) -> bool:
    values = [value for value in set(seen.columns[name]) if value]
    if not values or not roles.probabilities:
        return False
    one_column = len(roles.probabilities) == 1
    known = np.array([number is not None for number in match_labels(values, roles.classes, one_column=one_column)])
    if name.lower() in _LABEL_NAMES:
        return bool(known.mean() > 0.5)  # the comparison names the others, which may be mistakes
    return bool(known.all()) and len(values) > 1 and not one_column


def _is_group(values: list[str]) -> bool:
    return 1 < len(set(values)) <= min(_MOST_GROUPS, max(len(values) // 3, 2))
