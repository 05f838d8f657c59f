"""What the page says about an adjustment, as values that the templates render."""

from __future__ import annotations

from typing import Any

from baserate.adjustment import Adjustment
from baserate.analysis.advise import advise
from baserate.analysis.compare import compare
from baserate.analysis.row_changes import row_changes
from baserate.app import charts
from baserate.app.analyses import Analysis
from baserate.app.commands import Settings, all_commands, compare_command, python_text, shell_text
from baserate.app.jobs import Job, Jobs
from baserate.app.what_if import OpenRows
from baserate.app.wording import on_page, respelled, sentence, without_code
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
    about = facts(rows.adjust_sample(Rates.between(None, None), "log"))
    shares = [round(100 * one["before"], 2) for one in about["classes"]]
    return {"means": list(zip(analysis.classes, shares, strict=True))}


def quick_answer(analysis: Analysis, rows: OpenRows, settings: Settings) -> dict[str, Any]:
    """The answer for a sample of the rows, while the user still changes the rates."""
    result = rows.adjust_sample(analysis.parsed(settings.rates), settings.loss)
    return _page(result, rows, exact=rows.sample_is_whole) | {"changes": None}


def exact_answer(analysis: Analysis, form: dict[str, Any], jobs: Jobs, job: Job) -> dict[str, Any]:
    """The answer for all rows."""
    settings = analysis.settings(form)
    with analysis.lock:
        rows = analysis.rows(settings, job)
        settings, rates = analysis.rates(settings, rows, jobs, job)
        result = rows.adjust_all(settings, rates, job)
        page = _page(result, rows, exact=True)
        same = settings.by is not None or rows.sample_is_whole
        changed = result if same else rows.adjust_sample(rates, settings.loss)
        page["changes"] = _changes(changed, rows.n_rows)
    page["commands"] = [shell_text(command) for command in all_commands(settings)]
    page["python"] = python_text(settings)
    page["compares"] = shell_text(compare_command(settings)) if settings.roles.label is not None else None
    return page


def further_answer(analysis: Analysis, form: dict[str, Any], jobs: Jobs, job: Job) -> dict[str, Any]:
    """What takes longer: whether the rates are plausible, and how the procedures compare on labelled rows."""
    settings = analysis.settings(form)
    with analysis.lock:
        rows = analysis.rows(settings, job)
        settings, rates = analysis.rates(settings, rows, jobs, job)
        if settings.by is not None:
            return {"plausibility": None, "comparison": None}
        old = None if settings.old_rates is None else Rates.parse(settings.old_rates)
        plausibility = _plausibility(rows, rates, old, settings.loss)
        job.check()
        comparison = None
        if settings.roles.label is not None:
            comparison = _comparison(rows, settings, rates, old, job)
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
        "is_exact_rates": about["rates_kind"] == "exact",
        "margins": [],
        "movement": None,
    }
    if about["n_classes"] > charts.MAX_CLASSES and exact:
        page["all_rates"] = tables.rates_table(about, about["classes"][:_MANY])
    if isinstance(result, GroupedResult):
        return page | group_page(result, about)
    page["movement"] = charts.movement(result, rows.sample, about)
    given = sentences.guarantee(about)
    return page | {
        "description": sentences.description(about),
        "guarantee": given,
        "caveats": [without_code(line) for line in sentences.caveats(about)],
        "details": tables.details(about),
    }


def _changes(result: Adjustment, n_rows: int) -> dict[str, Any]:
    """How many rows changed in a way that matters; those of the result may be a sample of ``n_rows``."""
    n_shown = result.n_rows
    about = group_facts(result) if isinstance(result, GroupedResult) else facts(result)
    found = row_changes(result)
    note = "" if n_shown == n_rows else f"Counted in a sample of {counted(n_shown, 'row')} of {n_rows:,}."
    return {
        "sentences": sentences.row_change_sentences(about, found),
        "extreme": tables.extreme_rows(about, found)[:5] if n_shown == n_rows else [],
        "note": note,
    }


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
        "summary": sentence(respelled(found.summary, found.options)),
        "reasons": [sentence(respelled(reason.says, found.options)) for reason in found.reasons],
        "doubtful": found.doubtful,
        "note": note,
    }


def _comparison(rows: OpenRows, settings: Settings, rates: Rates, old: Rates | None, job: Job) -> dict[str, Any] | None:
    if rows.held is None:
        return None
    column = str(settings.roles.label)
    try:
        labels = rows.labels(column)
        probs = rows.held.probs[:, 1] if rows.one_column else rows.held.probs
        losses = tuple(dict.fromkeys((settings.loss, "log", "brier")))
        shared: dict[str, Any] = {"losses": losses, "sample_weight": rows.held.weights, "classes": rows.classes}
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
        "notes": [respelled(note, found.options) for note in found.notes],
        "confidence": f"{100 * found.confidence:g} %",
    }
