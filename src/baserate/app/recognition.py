"""What the columns of a file are: probabilities, true classes, groups, weights. A guess that the user can correct."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from baserate.errors import BadFile
from baserate.inputs.labels import match_labels
from baserate.support.arrays import FloatArray
from baserate.tables import Files, first_rows

N_ROWS = 1000
"""Rows from which columns are recognised."""

PROBABILITY, LABEL, GROUP, WEIGHT, OTHER = "probability", "label", "group", "weight", "other"
_SUM_TOLERANCE = 0.005  # Rounded probabilities of many classes do not sum to exactly 1.
_ROUNDING = 5e-6  # Rows whose sum differs more are divided by it; the library refuses to guess that.
_LABEL_NAMES = ("y", "label", "labels", "target", "class", "truth", "true", "actual", "outcome", "y_true", "true_class")
_PROBABILITY_PREFIXES = ("p_", "prob", "proba", "p.", "score", "pred", "p(")
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
        The same as numbers, for columns that contain only numbers.
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
    """

    probabilities: tuple[str, ...]
    label: str | None = None
    groups: tuple[str, ...] = ()
    weight: str | None = None
    from_logits: bool = False
    normalize: bool = False

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
    files = Files(str(path))
    try:
        found = first_rows(files, N_ROWS)
    except BadFile as error:
        suggested = {option.name: str(option.value).strip("'\"") for option in error.options}
        if "delimiter" not in suggested:
            raise
        files = Files(str(path), delimiter=suggested["delimiter"].replace("\\t", "\t"))
        found = first_rows(files, N_ROWS)
    columns = {name: [_text(value) for value in found.rows[name].to_pylist()] for name in found.rows.column_names}
    decimal = _decimal(columns) if files.delimiter not in (None, ",") else "."
    numbers = {name: as_numbers(values, decimal) for name, values in columns.items()}
    known = {name: values for name, values in numbers.items() if values is not None}
    return Preview(Files(str(path), files.delimiter, decimal), found.format, found.selectable, columns, known)


def recognise(seen: Preview) -> Roles:
    """Guess what each column is."""
    if not seen.selectable:
        probabilities = tuple(name for name in seen.names if name.startswith("p_"))
    else:
        probabilities = _probabilities(seen)
    roles = Roles(probabilities)
    rest = [name for name in seen.names if name not in probabilities]
    label = next((name for name in rest if _is_label(seen, name, roles)), None)
    weight = next((name for name in rest if name.lower() in ("weight", "weights", "sample_weight")), None)
    groups = tuple(name for name in rest if name not in (label, weight) and _is_group(seen.columns[name]))
    columns = [seen.numbers[name] for name in probabilities if name in seen.numbers]
    rounded = len(columns) > 1 and not _sums_to_one(columns, _ROUNDING)
    return Roles(probabilities, label, groups, weight if weight in seen.numbers else None, normalize=rounded)


def as_numbers(values: Sequence[str], decimal: str) -> FloatArray | None:
    """Texts as numbers, or None if one is not a number."""
    try:
        return np.array([float(text.replace(decimal, ".")) for text in values])
    except ValueError:
        return None


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return "" if value is None else str(value)


def _decimal(columns: dict[str, list[str]]) -> str:
    """A comma if that makes more columns numeric."""
    with_comma, with_point = (
        sum(as_numbers(values[:50], mark) is not None for values in columns.values()) for mark in (",", ".")
    )
    return "," if with_comma > with_point else "."


def _probabilities(seen: Preview) -> tuple[str, ...]:
    inside = [name for name, values in seen.numbers.items() if len(values) and ((values >= 0) & (values <= 1)).all()]
    for names in _candidate_sets(inside):
        if len(names) > 1 and _sums_to_one([seen.numbers[name] for name in names]):
            return tuple(names)
    fractional = [name for name in inside if (seen.numbers[name] % 1 != 0).any()]
    named = [name for name in fractional if name.lower().startswith(_PROBABILITY_PREFIXES)]
    return tuple((named or fractional or inside)[-1:])


def _candidate_sets(names: list[str]) -> list[list[str]]:
    """Sets of columns that may hold the probabilities of all classes: those with a common prefix first, then all."""
    prefixes: dict[str, list[str]] = {}
    for name in names:
        for mark in "_.( -":
            if mark in name:
                prefixes.setdefault(name.split(mark)[0] + mark, []).append(name)
    fractional = sorted(prefixes.values(), key=len, reverse=True)
    return [*fractional, names]


def _sums_to_one(columns: list[FloatArray], tolerance: float = _SUM_TOLERANCE) -> bool:
    return bool(np.abs(np.sum(columns, axis=0) - 1).max() <= tolerance)


def _is_label(seen: Preview, name: str, roles: Roles) -> bool:
    values = [value for value in set(seen.columns[name]) if value]
    if not values or not roles.probabilities:
        return False
    one_column = len(roles.probabilities) == 1
    matched = match_labels(values, roles.classes, one_column=one_column)
    if None in matched:
        return False
    return name.lower() in _LABEL_NAMES or (len(values) > 1 and not one_column)


def _is_group(values: list[str]) -> bool:
    return 1 < len(set(values)) <= min(_MOST_GROUPS, max(len(values) // 3, 2))
