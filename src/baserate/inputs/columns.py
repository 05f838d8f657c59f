"""Which columns of a table hold the probabilities, and which classes they stand for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from baserate.errors import BadOption, BadProbabilities
from baserate.inputs.validation import listed


class Columns(NamedTuple):
    """Names of columns with probabilities, and of their classes if they have any, in the same order."""

    names: tuple[Any, ...]
    classes: tuple[Any, ...] | None


class Choice(NamedTuple):
    """What a caller says about the columns.

    Attributes
    ----------
    columns : str or sequence, optional
        A pattern such as ``"p_*"``, whose star is the class, or names in the order that is wanted.
    named : sequence, optional
        Classes that the rates name. Without ``columns`` they are looked for among the columns: as they are, or with
        something before or after them that is the same for all.
    ordered : bool
        Whether the classes are all, and the columns are wanted in their order.
    """

    columns: str | Sequence[Any] | None
    named: Sequence[Any] | None = None
    ordered: bool = False

    def among(self, there: Sequence[Any], *, what: str, all_of: bool = False) -> Columns:
        """The columns of a table that are meant; if ``all_of``, all are meant where nothing is said."""
        return self.in_order(self._found(there, what, all_of), what)

    def in_order(self, found: Columns, what: str) -> Columns:
        """The columns in the order of the classes, if that is wanted."""
        if not self.ordered or self.named is None or found.classes is None:
            return found
        if set(found.classes) != set(self.named):
            raise BadProbabilities(
                f"the columns {listed(found.names)} of {what} stand for the classes {listed(found.classes)}, but the "
                f"adjustment was fitted on {listed(self.named)}"
            )
        order = [found.classes.index(name) for name in self.named]
        return Columns(tuple(found.names[j] for j in order), tuple(self.named))

    def _found(self, there: Sequence[Any], what: str, all_of: bool) -> Columns:
        if isinstance(self.columns, str) and "*" in self.columns:
            return _matching(self.columns, there)
        if self.columns is not None:
            names = as_names(self.columns)
            if any(name not in there for name in names):
                raise BadProbabilities(f"{what} has the columns {listed(there)}, but {listed(names)} are needed")
            return Columns(tuple(names), _classes_of(names, self.named))
        if all_of:
            return Columns(tuple(there), _classes_of(there, self.named))
        return _of_classes(there, self.named, what)


def as_names(columns: Sequence[Any]) -> list[Any]:
    """A list of different column names."""
    if isinstance(columns, (str, bytes)) or not hasattr(columns, "__iter__"):
        raise BadOption(f"columns must be a list of column names, or a pattern such as 'p_*', not {columns!r}")
    names = list(columns)
    if len(set(names)) < len(names):
        raise BadOption(f"columns names {listed([c for c in names if names.count(c) > 1][:1])} more than once")
    return names


def classes_named(rates: object) -> tuple[Any, ...] | None:
    """The classes that rates go by, if they do."""
    if isinstance(rates, Mapping):
        return tuple(rates)
    own = getattr(rates, "classes", None)
    if own is not None:
        return tuple(own)
    numbers = [getattr(rates, name, None) for name in ("values", "low", "high", "counts")]
    names = [name for given in numbers if isinstance(given, Mapping) for name in given]
    return tuple(dict.fromkeys(names)) or None


def _matching(pattern: str, there: Sequence[Any]) -> Columns:
    if pattern.count("*") > 1:
        raise BadOption(f"columns is {pattern!r}; a pattern has one star, which stands for the class")
    before, after = pattern.split("*")
    found = [name for name in there if _between(name, before, after) is not None]
    if not found:
        raise BadProbabilities(f"no column matches {pattern!r}; the columns are {listed(there)}")
    return Columns(tuple(found), tuple(str(_between(name, before, after)) for name in found))


def _between(name: Any, before: str, after: str) -> str | None:
    """What stands for the star."""
    if not isinstance(name, str) or len(name) <= len(before) + len(after):
        return None
    if not (name.startswith(before) and name.endswith(after)):
        return None
    return name[len(before) : len(name) - len(after)]


def _classes_of(names: Sequence[Any], named: Sequence[Any] | None) -> tuple[Any, ...]:
    """The column names themselves, unless the rates call the classes by a part of them."""
    if named and not set(named) <= set(names):
        for before, after in _patterns(names, named):
            classes = [_between(name, before, after) for name in names]
            if None not in classes:
                return tuple(classes)
    return tuple(names)


def _of_classes(there: Sequence[Any], named: Sequence[Any] | None, what: str) -> Columns:
    hint = "say which columns hold the probabilities: columns='p_*' (the star is the class), or their names"
    if not named:
        raise BadOption(f"{what} has the columns {listed(there)}; {hint}")
    if all(name in there for name in named):
        same = tuple(name for name in there if name in named)
        return Columns(same, same)
    patterns = _patterns(there, named)
    found = [_matching("*".join(pattern), there) for pattern in patterns]
    found = [columns for columns in found if len(columns.names) > 1 or len(named) == 1]
    if len(found) == 1:
        return found[0]
    fit = "several sets of columns" if found else "none of the columns"
    raise BadOption(f"{fit} of {what}, {listed(there)}, fit the classes {listed(named)}; {hint}")


def _patterns(names: Sequence[Any], classes: Sequence[Any]) -> list[tuple[str, str]]:
    """What may stand before and after every class in the name of its column."""
    texts, first = {name for name in names if isinstance(name, str)}, str(classes[0])
    places = [(name, at) for name in sorted(texts) for at in range(len(name)) if name.startswith(first, at)]
    tried = dict.fromkeys((name[:at], name[at + len(first) :]) for name, at in places)
    apart = [(before, after) for before, after in tried if not (before[-1:].isalnum() or after[:1].isalnum())]
    return [(before, after) for before, after in apart if all(f"{before}{c}{after}" in texts for c in classes)]
