"""Selection of the columns that hold the probabilities, and the classes that they belong to."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

from baserate.errors import BadOption, BadProbabilities, BadRates, Option
from baserate.inputs.class_names import matched_names, same_text
from baserate.inputs.class_numbers import ARRAY_LIKE, series_to_dict, sum_is_below_one
from baserate.inputs.validation import quoted, quoted_name

COLUMN_PATTERN = Option("columns", "'p_*'")
COLUMN_LIST = Option("columns", "[...]")
_COLUMNS = Option("columns")
_CLASSES = Option("classes", "[...]")

SELECT_COLUMNS = (
    f"Select the columns with probabilities by a pattern, {COLUMN_PATTERN} (where * matches the class name), or by a "
    f"list of names, {COLUMN_LIST}; one name is enough for the probabilities of one of two classes"
)
"""Advice for messages. An error with this text has both options attached."""


class Columns(NamedTuple):
    """The columns with probabilities.

    Attributes
    ----------
    names : tuple
        Column names.
    classes : tuple or None
        The class of each column, if known.
    """

    names: tuple[Any, ...]
    classes: tuple[Any, ...] | None


class ColumnSelection(NamedTuple):
    """What is known about which columns of a table hold the probabilities.

    Attributes
    ----------
    columns : str or sequence, optional
        The caller's selection: a pattern such as ``"p_*"``, where ``*`` matches the class name, or a list of names.
    named : sequence, optional
        Classes that the rates name. If ``columns`` is None, the columns are found by them: their names are the class
        names, perhaps with a common prefix and suffix.
    ordered : bool
        Whether ``named`` contains all classes and the columns should be returned in its order.
    excluded : sequence
        Columns that hold something else, such as groups. They are not considered unless the caller selects them.
    """

    columns: str | Sequence[Any] | None
    named: Sequence[Any] | None = None
    ordered: bool = False
    excluded: Sequence[Any] = ()

    def among(self, there: Sequence[Any], *, what: str, all_of: bool = False) -> Columns:
        """Select columns of a table.

        Parameters
        ----------
        there : sequence
            Names of all columns of the table.
        what : str
            Name of the table for messages.
        all_of : bool
            Whether all columns are selected if ``columns`` is None.
        """
        if self.excluded and not isinstance(self.columns, (list, tuple)):
            there = [name for name in there if name not in self.excluded]
        return self.in_order(self._select(there, what, all_of), what)

    def in_order(self, found: Columns, what: str) -> Columns:
        """The columns in the order of ``named``, if ``ordered``; else unchanged."""
        if not self.ordered or self.named is None or found.classes is None:
            return found
        meant = matched_names(self.named, found.classes)
        if set(found.classes) != set(meant):
            raise BadProbabilities(
                f"the columns {quoted(found.names)} of {what} belong to the classes {quoted(found.classes)}, but the "
                f"adjustment was fitted on {quoted(self.named)}{same_text(self.named, found.classes)}"
            )
        order = [found.classes.index(name) for name in meant]
        return Columns(tuple(found.names[j] for j in order), tuple(self.named))

    def _select(self, all_names: Sequence[Any], what: str, all_of: bool) -> Columns:
        if isinstance(self.columns, str) and "*" in self.columns:
            return _matching_pattern(self.columns, all_names)
        if self.columns is not None:
            names = [self.columns] if isinstance(self.columns, str) else self.columns
            names = matched_names(as_names(names), all_names)
            missing = [name for name in names if name not in all_names]
            if missing:
                raise BadProbabilities(
                    f"{what} has no column {quoted(missing)}; the columns {quoted(names)} are needed, but it has "
                    f"{quoted(all_names)}{same_text(missing, all_names)}"
                )
            return Columns(tuple(names), _classes_of(names, self.named))
        if all_of:
            return Columns(tuple(all_names), _classes_of(all_names, self.named))
        return _matching_classes(all_names, self.named, what)


def as_names(columns: Sequence[Any], option: Option = _COLUMNS) -> list[Any]:
    """A list of distinct column names, which were passed as an option."""
    if isinstance(columns, (str, bytes)) or not hasattr(columns, "__iter__"):
        pattern = ", or a pattern such as 'p_*'" if option is _COLUMNS else ""
        raise BadOption(
            f"{option} must be a list of column names{pattern}, not {quoted_name(columns)}", options=[option]
        )
    names = list(columns)
    if (no_name := next((name for name in names if not isinstance(name, Hashable)), None)) is not None:
        raise BadOption(
            f"{option} must be a list of column names, but contains {quoted_name(no_name)}", options=[option]
        )
    if len(set(names)) < len(names):
        repeated = quoted([c for c in names if names.count(c) > 1][:1])
        raise BadOption(f"{option} contains {repeated} more than once", options=[option])
    return names


class NamedClasses(NamedTuple):
    """The classes that rates name, or None for rates by position, and whether nothing is left to other classes."""

    names: tuple[Any, ...] | None
    are_all: bool


def classes_of_rates(rates: object) -> NamedClasses:
    """The classes that the rates name."""
    if isinstance(rates, ARRAY_LIKE):  # as in ``is_mapping``, for speed
        return NamedClasses(None, False)
    rates = series_to_dict(rates)
    if isinstance(rates, Mapping):
        return NamedClasses(tuple(rates), not sum_is_below_one(rates))
    own = getattr(rates, "classes", None)
    if own is not None:
        return NamedClasses(tuple(own), True)
    numbers = [getattr(rates, name, None) for name in ("values", "low", "high", "counts")]
    names = [name for given in numbers if isinstance(given, Mapping) for name in given]
    return NamedClasses(tuple(dict.fromkeys(names)) or None, False)


def classes_of_one_column(column: Columns | None, named: Sequence[Any] | None) -> tuple[Any, Any] | None:
    """The two classes of a column that holds the probabilities of one of them: the other class, and its own.

    Parameters
    ----------
    column : Columns or None
        The column, if it has a name.
    named : sequence, optional
        Classes that the rates name.
    """
    name = None if column is None else (column.classes or column.names)[-1]
    if not named or (name is None and set(named) <= {0, 1}):  # 0 and 1 are the numbers of the classes
        return None if name is None else (f"not {name}", name)
    if len(named) > 2:
        raise BadRates(f"the rates name {len(named)} classes, {quoted(named)}, but one column is for two classes")
    own = [c for c in named if name is not None and _classes_of([name], [c]) == (c,)]
    own = own or [c for c in named if f"not {c}" in named] or ([] if name is not None else list(named))
    if not own:
        raise BadRates(
            f"the rates name {quoted(named)}, but the column is {quoted_name(name)}, and it is not known to which "
            f"class it belongs; pass {_CLASSES} with both names, the name for this column last, or only the rate",
            options=[_CLASSES],
        )
    if len(own) > 1:
        raise BadRates(
            f"the rates name the classes {quoted(named)}, but there is one column, and it is not known to which of "
            f"them it belongs; pass {_CLASSES} with both names, the name for this column last",
            options=[_CLASSES],
        )
    others = [c for c in named if c != own[0]]
    return (others[0] if others else f"not {own[0]}", own[0])


def _matching_pattern(pattern: str, all_names: Sequence[Any]) -> Columns:
    if pattern.count("*") > 1:
        raise BadOption(
            f"columns is {quoted_name(pattern)}; a pattern must contain a single *, which matches the class name"
        )
    prefix, suffix = pattern.split("*")
    found = [name for name in all_names if _class_in(name, prefix, suffix) is not None]
    if not found:
        raise BadProbabilities(f"no column matches {quoted_name(pattern)}; the columns are {quoted(all_names)}")
    return Columns(tuple(found), tuple(str(_class_in(name, prefix, suffix)) for name in found))


def _class_in(name: Any, prefix: str, suffix: str) -> str | None:
    """The class name between prefix and suffix of a column name, or None if the column name does not match."""
    if not isinstance(name, str) or len(name) <= len(prefix) + len(suffix):
        return None
    if not (name.startswith(prefix) and name.endswith(suffix)):
        return None
    return name[len(prefix) : len(name) - len(suffix)]


def _classes_of(names: Sequence[Any], named: Sequence[Any] | None) -> tuple[Any, ...]:
    """The column names, without a common prefix and suffix if the rates name the classes without them."""
    if named and not set(named) <= set(names):
        for prefix, suffix in _prefixes_and_suffixes(names, named):
            classes = [_class_in(name, prefix, suffix) for name in names]
            if None not in classes:
                return tuple(classes)
    return tuple(names)


def _matching_classes(all_names: Sequence[Any], named: Sequence[Any] | None, what: str) -> Columns:
    """The columns whose names consist of a class name, a common prefix and a common suffix."""
    options = [COLUMN_PATTERN, COLUMN_LIST]
    if len(all_names) == 1:
        return Columns(tuple(all_names), _classes_of(all_names, named))
    if not named:
        raise BadOption(f"{what} has the columns {quoted(all_names)}. {SELECT_COLUMNS}", options=options)
    meant = set(matched_names(named, all_names))
    if meant <= set(all_names):
        same = tuple(name for name in all_names if name in meant)
        return Columns(same, same)
    found = [_matching_pattern(f"{a}*{b}", all_names) for a, b in _prefixes_and_suffixes(all_names, named)]
    found = [columns for columns in found if len(columns.names) > 1 or len(named) == 1]
    if len(found) == 1:
        return found[0]
    problem = f"several sets of columns match the classes {quoted(named)}" if found else _unmatched(all_names, named)
    raise BadOption(f"{what} has the columns {quoted(all_names)}; {problem}. {SELECT_COLUMNS}", options=options)


def _unmatched(all_names: Sequence[Any], named: Sequence[Any]) -> str:
    """Which of the classes that the rates name have no column."""
    # Only some classes: to look for all of thousands of classes in all names would take long.
    pairs = {pair: None for c in named[:20] for pair in _prefixes_and_suffixes(all_names, [c])}
    texts = set(all_names)
    unmatched = [[c for c in named if f"{a}{c}{b}" not in texts] for a, b in pairs]
    missing = min(unmatched, key=len, default=named)
    if len(missing) in (0, len(named)):
        return f"no set of columns matches the classes {quoted(named)}"
    return (
        f"the rates name {len(named)} classes, {quoted(named)}, but {quoted(missing)} has no column. If there is no "
        "such class, leave it out of the rates"
    )


def _prefixes_and_suffixes(names: Sequence[Any], classes: Sequence[Any]) -> list[tuple[str, str]]:
    """Pairs of prefix and suffix for which every class has a column; each pair is separated from the class name."""
    texts, first = {name for name in names if isinstance(name, str)}, str(classes[0])
    places = [(name, at) for name in sorted(texts) for at in range(len(name)) if name.startswith(first, at)]
    tried = dict.fromkeys((name[:at], name[at + len(first) :]) for name, at in places)
    # "fraud" must not match "p_frauds", nor "a" the column "data".
    separated = [(a, b) for a, b in tried if not (a[-1:].isalnum() or b[:1].isalnum())]
    return [(a, b) for a, b in separated if all(f"{a}{c}{b}" in texts for c in classes)]
