"""The arguments of a caller, parsed: everything is checked that can be checked without reading the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from baserate.core.contracts import Engine
from baserate.core.row_model import RowModel, is_bounded
from baserate.core.search import Stop
from baserate.engines import open_rows
from baserate.errors import BadOption, BadRates, Option
from baserate.inputs.class_numbers import is_one_number
from baserate.inputs.columns import classes_of_one_column, classes_of_rates
from baserate.inputs.group_columns import GROUPS
from baserate.inputs.row_source import RowSource
from baserate.inputs.validation import as_classes, as_flag, is_number, quoted, quoted_name
from baserate.losses.base import Loss
from baserate.losses.check import check_loss
from baserate.losses.registry import as_loss
from baserate.rates import Rates, RatesLike, as_known, as_margins, is_grouped, is_rates

DEFAULT_STOP = Stop(1e-10, 500)

_CLASSES, _COLUMNS = Option("classes"), Option("columns", "[...]")
_TOL, _MAX_PASSES = Option("tol"), Option("max_passes")


@dataclass(frozen=True, eq=False)
class Request:
    """A problem as a caller stated it.

    Attributes
    ----------
    rows : Engine
    model : RowModel
        With all classes.
    known : Rates
        What is known about the rates, for the classes of the rows.
    bounded : bool
        What the caller asked for; a loss may be bounded by its nature.
    stop : Stop
    kernels : str or None
        The setting for compiled kernels; None for that of the environment.
    """

    rows: Engine
    model: RowModel
    known: Rates
    bounded: bool = True
    stop: Stop = DEFAULT_STOP
    kernels: str | None = None


def parse_request(
    probs: Any,
    rates: RatesLike,
    *,
    loss: str | Loss = "log",
    bounded: bool = True,
    classes: Sequence[Any] | None = None,
    tol: float = DEFAULT_STOP.tol,
    max_passes: int = DEFAULT_STOP.max_passes,
    kernels: str | None = None,
    allow_groups: bool = False,
    **options: Any,
) -> Request:
    """The request of a caller: open the rows, and parse the arguments of :func:`baserate.adjust`.

    Rates per group are refused unless ``allow_groups``. Other options are fields of :class:`RowSource`.
    """
    if is_grouped(rates):
        rates = as_margins(rates)
        if not allow_groups:
            rates.rate_set(None)  # raises the error that says so
    source = RowSource(probs=probs, **options)
    stop, reading, bounded, loss = _as_stop(tol, max_passes), source.reading, as_flag("bounded", bounded), as_loss(loss)
    source = with_classes_of_rates(source, rates)
    rows = open_rows(source)
    k = rows.n_classes
    names = class_names(rows, classes, named=source.named_classes)
    known = known_rates(rows, rates, names, selected=source.columns is not None or is_grouped(rates))
    check_loss(loss, k)
    model = RowModel(loss, is_bounded(loss, bounded), k, np.arange(k), reading, answer_types=rows.answer_types)
    return Request(rows, model, known, bounded, stop, kernels)


def with_classes_of_rates(source: RowSource, rates: RatesLike | None) -> RowSource:
    """The rows, with the classes that the rates name, and the columns of groups by which they are given."""
    if rates is None:
        return source
    if is_grouped(rates):
        margins = as_margins(rates)
        keys, names = margins.keys, margins.named_classes
        return replace(source, named_classes=names, names_all=margins.names_all, group_keys=keys)
    if source.groups is not None:
        raise BadOption(
            f"{GROUPS}= says to which group each row belongs, but the rates are not given per group; pass "
            "Rates.by('name of a column', table)",
            options=[GROUPS],
        )
    names, names_all = classes_of_rates(rates)
    if names is None:  # the source has no class names yet, so there is nothing to change
        return source
    return replace(source, named_classes=names, names_all=names_all)


def known_rates(
    rows: Engine, rates: RatesLike, names: tuple[Any, ...] | None, *, what: str = "rates", selected: bool = True
) -> Rates:
    """What a caller said about the rates, for the classes of the rows.

    Parameters
    ----------
    rows : Engine
    rates : array-like, dict, Series, number or Rates
    names : tuple or None
        Names of the classes.
    what : str
        Name of the argument for messages.
    selected : bool
        Whether the columns with probabilities are the right ones beyond doubt. If not, messages say how to select them.
    """
    one_number = rates.is_one_number if is_rates(rates) else is_one_number(rates)
    if one_number and rows.columns is not None and not rows.one_column and rows.n_classes == 2:
        if is_grouped(rates):
            raise BadRates(
                f"the table of {what} per group has one number per group, but the columns "
                f"{quoted(rows.columns.names)} may be in any order; name the column with these numbers after their "
                "class"
            )
        by_name = Option(what, "{'name of a class': ...}")
        raise BadRates(
            f"{what} is one number, but the columns {quoted(rows.columns.names)} may be in any order; say which class "
            f"it is for: {by_name}",
            options=[by_name],
        )
    try:
        return as_known(rates, names, rows.n_classes, what=what)
    except BadRates as error:
        if rows.one_column and isinstance(rates, (list, tuple, np.ndarray)) and len(rates) > 2:
            raise BadRates(
                f"{error}, because one number per row is the probability of one of two classes; to pass a single row "
                "of several classes, make it a matrix with one row"
            ) from None
        if rows.columns is None or selected:
            raise
        hint = f"the columns are {quoted(rows.columns.names)}; select those with probabilities by {_COLUMNS}"
        raise BadRates(f"{error}; {hint}", options=[*error.options, _COLUMNS]) from None


def class_names(
    rows: Engine, classes: Sequence[Any] | None, named: Sequence[Any] | None = None
) -> tuple[Any, ...] | None:
    """Names of the classes: those that the caller passed, those of the columns, or ``named``, those of the rates."""
    names = None if classes is None else as_classes(classes, rows.n_classes)
    if names is None and rows.one_column:
        return classes_of_one_column(None if rows.columns is None else rows.columns, named)
    if rows.columns is None or rows.one_column:
        return names
    for what, own in (("column names", rows.columns.names), ("class names of the columns", rows.columns.classes)):
        if names is not None and own is not None and names != own and set(names) == set(own):
            raise BadOption(
                f"{_CLASSES} {quoted(names)} are the {what} in another order; leave {_CLASSES}= out", options=[_CLASSES]
            )
    return names or as_classes(rows.columns.classes, rows.n_classes)


def _as_stop(tol: object, max_passes: object) -> Stop:
    if not is_number(tol) or not 0 < float(tol) < 1:  # type: ignore[arg-type]  # it is a number
        raise BadOption(f"{_TOL} must be a number between 0 and 1, not {quoted_name(tol)}", options=[_TOL])
    if not isinstance(max_passes, (int, np.integer)) or isinstance(max_passes, bool) or max_passes < 1:
        raise BadOption(
            f"{_MAX_PASSES} must be a whole number above 0, not {quoted_name(max_passes)}", options=[_MAX_PASSES]
        )
    return Stop(float(tol), int(max_passes))  # type: ignore[arg-type]  # it is a number
