"""The content of a report, as plain values that the templates render."""

from __future__ import annotations

import platform
from importlib import metadata
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from baserate.analysis.compare import compare
from baserate.analysis.comparison import Comparison
from baserate.analysis.row_changes import AllRows, RowChanges, all_rows, row_changes
from baserate.inputs.labels import as_targets
from baserate.losses.brier import Brier
from baserate.losses.log import Log
from baserate.rates import Rates
from baserate.report import sentences, tables
from baserate.report.formatting import format_number
from baserate.report.groups import group_page
from baserate.report.python_code import python_code
from baserate.result.facts import facts, most_changed
from baserate.result.group_facts import group_facts
from baserate.result.grouped import GroupedResult
from baserate.result.record import Result
from baserate.support.arrays import FloatArray

MAX_SHOWN = 12
"""Number of classes in the first table. If there are more, it shows those that changed most."""

_PACKAGES = ("baserate", "numpy", "scipy", "scikit-learn", "narwhals", "numba", "pyarrow", "dask")


class Content(NamedTuple):
    """What a report contains.

    Attributes
    ----------
    page : dict
        Texts, lists and dictionaries, by the names that the templates use.
    about : dict
        The facts about the result.
    changes : RowChanges
    rows : AllRows or None
        All rows, if there are labels.
    """

    page: dict[str, Any]
    about: dict[str, Any]
    changes: RowChanges
    rows: AllRows | None


def report_content(
    result: Result,
    *,
    y: ArrayLike | None = None,
    old_rates: Any = None,
    title: str = "Predictions adjusted to class rates",
    note: str = "",
    command: str | None = None,
) -> Content:
    """Everything that a report contains except its pictures.

    Parameters
    ----------
    result : Result
        Its rows are read once more.
    y : array-like of shape (n,), optional
        Labels of the rows. With them the report compares the losses of this adjustment and of all procedures.
    old_rates : array-like of shape (k,), optional
        Class rates in training; with them prior adjustment is one of these procedures.
    title, note : str
    command : str, optional
        The command line that made the adjustment.
    """
    about = group_facts(result) if isinstance(result, GroupedResult) else facts(result)
    changes = row_changes(result)
    page = {
        "title": title,
        "note": note,
        "is_log_loss": about["loss_key"] == "log",
        "rates": tables.rates_table(about, most_changed(about, MAX_SHOWN)),
        "all_rates": tables.rates_table(about, about["classes"]) if about["n_classes"] > MAX_SHOWN else [],
        "row_changes": sentences.row_change_sentences(about, changes),
        "extreme_rows": tables.extreme_rows(about, changes),
        "sample_note": sentences.sample_note(about, changes),
        "comparison": None,
        "versions": _versions(),
        "command": command,
        **(group_page(result, about) if isinstance(result, GroupedResult) else _page(about)),
    }
    if y is None:
        return Content(page, about, changes, None)
    rows = all_rows(result)
    targets = as_targets(y, rows.before.shape, result.classes, one_column=result.one_column)
    comparison = _compare(result, rows, targets, old_rates)
    page["comparison"] = tables.comparison_table(comparison, about)
    page["guarantee"]["check"] = _check_condition(result, about, rows, targets, comparison)
    return Content(page, about, changes, rows)


def _page(about: dict[str, Any]) -> dict[str, Any]:
    """What a report says about an adjustment without groups."""
    return {
        "description": sentences.description(about),
        "guarantee": sentences.guarantee(about) | {"check": ""},
        "caveats": sentences.caveats(about),
        "is_exact": about["rates_kind"] == "exact",
        "margins": [],
        "details": tables.details(about),
        "code": python_code(about),
    }


def _compare(result: Result, rows: AllRows, targets: FloatArray, old_rates: Any) -> Comparison:
    """The losses of this adjustment and of all procedures; the loss that was adjusted for comes first."""
    # The other procedures adjust all rows to the same rates.
    known = Rates.exact(result.rates) if isinstance(result, GroupedResult) else result.certificate.known
    return compare(
        rows.before,
        targets,
        known,
        old_rates,
        losses=(result.loss, Log(), Brier()),
        classes=result.classes,
        sample_weight=rows.weights,
        others={tables.THIS: rows.after},
    )


def _check_condition(
    result: Result, about: dict[str, Any], rows: AllRows, targets: FloatArray, comparison: Comparison
) -> str:
    """Whether the labels meet the condition of the guarantee, and what the adjustment did to its loss."""
    change = float(comparison.change[comparison.procedures.index(tables.THIS), 0])
    if isinstance(result, GroupedResult):
        return f"According to the labels, the loss {'fell' if change <= 0 else 'rose'} by {format_number(abs(change))}."
    true_rates = np.average(targets, axis=0, weights=rows.weights)
    is_met = result.certificate.holds_for(true_rates)
    return sentences.condition_check(about, true_rates, is_met=is_met, loss_change=change)


def _versions() -> list[tuple[str, str]]:
    """Names and versions of Python and the packages that were used."""
    found = [("Python", platform.python_version())]
    for name in _PACKAGES:
        try:
            found.append((name, metadata.version(name)))
        except metadata.PackageNotFoundError:
            continue
    return found
