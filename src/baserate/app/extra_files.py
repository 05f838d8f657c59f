"""Checks of further files, before they replace earlier ones: rates, rates per group, and validation data."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from baserate.app.recognition import Preview, check_rows, preview
from baserate.errors import BadFile
from baserate.rates import Rates
from baserate.tables.dialect import Dialect

if TYPE_CHECKING:
    from baserate.app.analyses import Analysis

PURPOSES = ("rates", "groups", "validation")


def check_extra_file(path: Path, purpose: str, analysis: Analysis, chosen: Mapping[str, str]) -> list[str]:
    """Raise if a file cannot be used for its purpose. Returns its columns.

    Parameters
    ----------
    path : Path
    purpose : "rates", "groups" or "validation"
    analysis : Analysis
        The open file that it is for.
    chosen : dict
        What is chosen on the page: the column of groups (``by``) and what the numbers are (``rates_kind``).
    """
    if purpose == "validation":
        return _validation_columns(path, analysis)
    check_commas(path)
    if purpose == "groups":
        return _group_columns(path, analysis, chosen)
    rates = Rates.parse(str(path))
    if analysis.seen.selectable and len(analysis.roles.probabilities) > 1:
        rates.on(analysis.classes, len(analysis.classes))
    return []


def check_commas(path: Path) -> None:
    """Raise if a table of rates has other separators, which spreadsheets write in some languages."""
    with path.open("rb") as file:
        first = file.readline(10_000)
    if path.name.lower().endswith(".csv") and b"," not in first and (b";" in first or b"\t" in first):
        raise BadFile(
            f"The file {path.name} has semicolons or tabs between its columns. Save it with commas between columns, "
            "and with decimal points in numbers."
        )


def _validation_columns(path: Path, analysis: Analysis) -> list[str]:
    seen = preview(path)
    check_rows(seen)
    _check_separators(path, seen, analysis)
    missing = [name for name in analysis.roles.probabilities if name not in seen.columns]
    if analysis.seen.selectable and missing:
        raise BadFile(
            f"The file {path.name} has no column {missing[0]!r}. It needs the same columns with probabilities as "
            f"{analysis.name}."
        )
    return seen.names


def _check_separators(path: Path, seen: Preview, analysis: Analysis) -> None:
    """Raise if a CSV file has other separators than the predictions: one command reads both in the same way."""
    if seen.format != "CSV":
        return
    own, read = (
        (Dialect(files.delimiter, files.decimal).delimiter_for(path.name), files.decimal)
        for files in (seen.files, analysis.seen.files)
    )
    if own != read:
        raise BadFile(
            f"The file {path.name} has {_separators(*own)}. Save it with {_separators(*read)}, so that it can be read "
            f"in the same way as {analysis.name}."
        )


def _separators(delimiter: str, decimal: str) -> str:
    name = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}.get(delimiter, repr(delimiter))
    return f"{name} between columns and decimal {'commas' if decimal == ',' else 'points'}"


def _group_columns(path: Path, analysis: Analysis, chosen: Mapping[str, str]) -> list[str]:
    seen = preview(path)
    if not any(seen.columns.values()):
        raise BadFile(f"The file {path.name} has no rows. It needs one row per group.")
    if chosen.get("by") in seen.columns:
        rates = Rates.by(chosen["by"], path, kind=chosen.get("rates_kind", "rates"))
        if rates.is_one_number and len(analysis.roles.probabilities) > 1 and analysis.seen.selectable:
            raise BadFile(
                f"The file {path.name} has one number per group, but {analysis.name} has a column for each class. Name "
                f"the column with these numbers after their class, such as {analysis.classes[-1]!r}."
            )
    return seen.names
