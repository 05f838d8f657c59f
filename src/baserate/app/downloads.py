"""The files that can be downloaded: what each is, and for whom."""

from __future__ import annotations

from baserate.app.commands import Settings
from baserate.app.file_names import OLD_RATES, RATES, REPORT, SHIFT, SQL
from baserate.app.forms import LABELS, VALIDATION


def downloads(settings: Settings) -> dict[str, str]:
    """What the files are that belong to these settings, by their names; the most important one first."""
    found = {
        settings.out: "Your file with adjusted probabilities, for all who use them. Other columns are unchanged.",
        REPORT: "What was done, on one page with pictures. For people who want to know what was done and why.",
    }
    if settings.kind == VALIDATION:
        found[RATES] = "The estimated rates. For the commands below, and for this page: choose “rates in a file”."
    elif settings.rates is not None and settings.rates.text == RATES:
        source = "from the labels" if settings.kind == LABELS else "that you entered"
        found[RATES] = f"The rates {source}. For the commands below."
    if settings.has_old_rates_file:
        found[OLD_RATES] = "The rates in training that you entered. For the command that compares the procedures."
    if settings.group_changes:
        found[settings.table] = "The table of rates per group, as you changed it here. For the commands below."
    found[SHIFT] = "The numbers of the adjustment. For programmers, who adjust further rows with “baserate apply”."
    if settings.selectable:
        found[SQL] = "The adjustment as a SQL query. For people who have the predictions in a database."
    return found
