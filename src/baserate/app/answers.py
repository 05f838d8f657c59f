"""What the page says about an adjustment, as values that the templates render."""

from __future__ import annotations

from typing import Any

import numpy as np

from baserate.adjustment import Adjustment
from baserate.analysis.advise import advise
from baserate.analysis.compare import compare
from baserate.analysis.row_changes import RowChanges, expected_loss, row_changes
from baserate.app import charts
from baserate.app.analyses import Analysis
from baserate.app.commands import Settings, all_commands, compare_command, python_text, shell_text
from baserate.app.file_names import RATES
from baserate.app.forms import FILE, GROUPS, LABELS, VALIDATION
from baserate.app.jobs import Job, Jobs
from baserate.app.rate_texts import condition, rows_in_percent
from baserate.app.what_if import OpenRows
from baserate.app.wording import first_row, how_counted, in_percent, on_page, respelled, sentence, shifted, without_code
from baserate.app.work_folders import ANSWER
from baserate.errors import BaserateError
from baserate.rates import Rates
from baserate.report import sentences, tables
from baserate.report.groups import group_page
from baserate.result.facts import facts
from baserate.result.group_facts import group_facts
from baserate.result.grouped import GroupedResult
from baserate.support.numbers import counted

_MANY = 3000  # Classes in the table of all classes.


def means(analysis: Analysis, job: Job) -> dict[str, Any]:
    """Read the rows of a file. Returns the mean prediction for each class, in percent, from the sample."""
    with analysis.lock:
        rows = analysis.rows(analysis.reading_settings(), job)
    shares = np.average(rows.sample.probs, axis=0, weights=rows.sample.weights)
    return {"means": list(zip(analysis.classes, (100 * shares).round(2).tolist(), strict=True))}


def quick_answer(analysis: Analysis, rows: OpenRows, settings: Settings) -> dict[str, Any]:
    """The answer for a sample of the rows, while the user still changes the rates."""
    with analysis.work.temporary() as folder:
        rates = analysis.parsed(settings.rates, folder)
    result = rows.adjust_sample(rates, settings.loss)
    return _page(result, rows, exact=rows.sample_is_whole) | {"premise": _premise(settings)}


def exact_answer(analysis: Analysis, form: dict[str, Any], jobs: Jobs, job: Job) -> dict[str, Any]:
    """The answer for all rows."""
    settings = analysis.settings(form)
    with analysis.lock, analysis.work.kept(ANSWER) as folder:
        settings, rows, rates = analysis.rows_and_rates(settings, folder, jobs, job)
        result = rows.adjust_all(settings, rates, job)
        page = _page(result, rows, exact=True)
        same = settings.by is not None or rows.sample_is_whole
        changed = result if same else rows.adjust_sample(rates, settings.loss)
        page |= _changes(changed, rows.n_rows, first_row(has_names=analysis.seen.format == "CSV"))
        analysis.check_unchanged()
    if settings.kind == LABELS:
        page |= _known_from_labels(result, settings)
    page["commands"] = [shell_text(command) for command in all_commands(settings)]
    page["python"] = python_text(settings)
    page["needed_files"] = settings.needed_files
    page["premise"] = _premise(settings)
    page["id"], page["folder"] = analysis.id, folder.name
    page["compares"] = shell_text(compare_command(settings)) if settings.roles.label is not None else None
    return page


def further_answer(analysis: Analysis, form: dict[str, Any], jobs: Jobs, job: Job) -> dict[str, Any]:
    """What takes longer: whether the rates are plausible, and how the procedures compare on labelled rows."""
    settings = analysis.settings(form)
    with analysis.lock, analysis.work.temporary() as folder:
        settings, rows, rates = analysis.rows_and_rates(settings, folder, jobs, job)
        if settings.by is not None:
            return {"plausibility": None, "comparison": None}
        old = None if settings.old_rates is None else analysis.parsed(settings.old_rates, folder)
        if settings.kind == LABELS:
            plausibility = _plausibility_of_labels(settings)
        else:
            plausibility = _plausibility(rows, rates, old, settings.loss)
        job.check()
        comparison = None
        if settings.roles.label is not None:
            comparison = _comparison(rows, settings, rates, old, job)
        analysis.check_unchanged()
    return {"plausibility": plausibility, "comparison": comparison}


def _page(result: Adjustment, rows: OpenRows, *, exact: bool) -> dict[str, Any]:
    """What is said about every answer."""
    grouped = isinstance(result, GroupedResult)
    about = group_facts(result) if isinstance(result, GroupedResult) else facts(result)
    page: dict[str, Any] = {
        "exact": exact,
        "grouped": grouped,
        "n_rows": f"{rows.n_rows:,}",
        "n_sample": f"{len(rows.sample.probs):,}",
        "rates": charts.rate_rows(about),
        "n_classes": about["n_classes"],
        "all_rates": [],
        "sensitivity": [] if grouped else charts.sensitivity_rows(about),
        "is_held": rows.held is not None,
        "is_exact_rates": about["rates_kind"] == "exact",
        "margins": [],
        "movement": None,
        "changes": None,
        "effect": [],
    }
    if about["n_classes"] > charts.MAX_CLASSES and exact:
        page["all_rates"] = rows_in_percent(tables.rates_table(about, about["classes"][:_MANY]))
    if isinstance(result, GroupedResult):
        return page | _of_groups(result, about)
    page["movement"] = charts.movement(result, rows.sample, about)
    given = sentences.guarantee(about)
    return page | {
        "description": sentences.description(about),
        "guarantee": given | {"condition": condition(about, given["condition"])},
        "caveats": [without_code(line) for line in sentences.caveats(about)],
    }


def _of_groups(result: GroupedResult, about: dict[str, Any]) -> dict[str, Any]:
    """What is said about groups."""
    page = group_page(result, about)
    margins = [margin | {"rows": rows_in_percent(margin["rows"])} for margin in page["margins"]]
    return page | {"margins": margins, "caveats": [without_code(line) for line in page["caveats"]]}


def _premise(settings: Settings) -> str:
    """What has to be true so that the guarantee holds."""
    if settings.kind == VALIDATION:
        return "only the rates have changed since the validation data"
    if settings.kind == LABELS:
        return "the rows with labels were drawn at random" if _are_some(settings) else "the labels are right"
    return "the rates in your file are right" if settings.kind in (FILE, GROUPS) else "the rates you entered are right"


def _are_some(settings: Settings) -> bool:
    """Whether the rates follow from the labels of some rows."""
    return settings.rates is not None and settings.rates.text == RATES and settings.rates.content is None


def _known_from_labels(result: Adjustment, settings: Settings) -> dict[str, Any]:
    """What is said otherwise if the rates follow from labels: nobody has to find them out."""
    if _are_some(settings):
        return {}
    about = facts(result) | {"rates_kind": "labels", "rate_variation": np.nan}
    return {"sensitivity": [], "caveats": [without_code(line) for line in sentences.caveats(about)]}


def _plausibility_of_labels(settings: Settings) -> dict[str, Any]:
    column = settings.roles.label
    if _are_some(settings):
        summary = (
            f"The rates were estimated from the labels in the column {column}. They are right if the rows with labels "
            "were drawn at random."
        )
    else:
        summary = f"The rates were counted in the column {column}, so they are right if its labels are."
    return {"summary": summary, "reasons": [], "doubtful": False, "note": ""}


def _changes(result: Adjustment, n_rows: int, first: int) -> dict[str, Any]:
    """How many rows changed in a way that matters; those of the result may be a sample of ``n_rows``.

    Parameters
    ----------
    result : Adjustment
    n_rows : int
    first : int
        The number that people give to the first row.
    """
    n_shown = result.n_rows
    about = group_facts(result) if isinstance(result, GroupedResult) else facts(result)
    found = row_changes(result)
    note = "" if n_shown == n_rows else f"Counted in a sample of {counted(n_shown, 'row')} of {n_rows:,}."
    new_top, *others = sentences.row_change_sentences(about, found)
    new_top = new_top.replace("%", "\N{NO-BREAK SPACE}%")  # as in the rest of the page
    extreme = tables.extreme_rows(about, found)[:5] if n_shown == n_rows else []
    rows = [one | {"row": shifted(one["row"], first)} for one in extreme]
    changes = {"sentences": others, "extreme": rows, "note": note, "counted": how_counted(first)}
    return {"changes": changes, "effect": [*_share_of_loss(result, about, found), f"{new_top} {note}".strip()]}


def _share_of_loss(result: Adjustment, about: dict[str, Any], changes: RowChanges) -> list[str]:
    """The guaranteed fall relative to the loss, in a sentence, if there is one to tell."""
    expected = expected_loss(result.loss, changes)
    share = about["loss_reduction"] / expected if expected > 0 else 0.0
    if about["weighted"] or not 1e-4 <= share <= 1:
        return []
    return [
        f"This fall is about {100 * share:.2g} % of the loss that the predictions are expected to have now, if the "
        "adjusted probabilities are right."
    ]


def _plausibility(rows: OpenRows, rates: Rates, old: Rates | None, loss: str) -> dict[str, Any]:
    sample = rows.sample
    probs = sample.probs[:, 1] if rows.one_column else sample.probs
    try:
        shared: dict[str, Any] = {"loss": loss, "sample_weight": sample.weights, "classes": rows.classes}
        # Rates that were estimated for all rows are refused for a sample of them.
        found = advise(probs, rows.for_sample(rates), old, **shared)
    except BaserateError as error:
        return {"summary": "", "reasons": [sentence(on_page(error))], "doubtful": False, "note": ""}
    note = "" if rows.sample_is_whole else f"Based on a sample of {counted(len(sample.probs), 'row')}."
    return {
        "summary": sentence(in_percent(respelled(found.summary, found.options))),
        "reasons": [sentence(in_percent(respelled(reason.says, found.options))) for reason in found.reasons],
        "doubtful": found.doubtful,
        "note": note,
    }


def _comparison(rows: OpenRows, settings: Settings, rates: Rates, old: Rates | None, job: Job) -> dict[str, Any]:
    column = str(settings.roles.label)
    losses = tuple(dict.fromkeys((settings.loss, "log", "brier")))
    try:
        held = rows.with_labels()
        labels = held.labels(column)
        probs = held.probs[:, 1] if rows.one_column else held.probs
        shared: dict[str, Any] = {"losses": losses, "sample_weight": held.weights, "classes": rows.classes}
        found = compare(probs, labels, rates, old, progress=job, **shared)
    except BaserateError as error:
        job.check()
        return {"losses": [], "rows": [], "legend": [], "notes": [sentence(on_page(error))], "confidence": ""}
    by_loss = [found.table(j, joint=False).rows for j in range(len(losses))]
    return {
        "losses": list(losses),
        "rows": [
            {"procedure": cells[0][0], "cells": [cell[1:4] for cell in cells]} for cells in zip(*by_loss, strict=True)
        ],
        "legend": found.legend(joint=False),
        "notes": [in_percent(respelled(note, found.options)) for note in found.notes],
        "confidence": f"{100 * found.confidence:g} %",
    }
