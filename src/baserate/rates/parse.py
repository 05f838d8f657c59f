"""Parsing of class rates from a string on the command line, or from a small CSV or JSON file."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

from baserate.errors import BadFile, BadRates, BaserateError
from baserate.inputs.class_numbers import sum_is_below_one
from baserate.inputs.validation import quoted_name
from baserate.rates.sets import ROUNDING
from baserate.support.locations import read_bytes
from baserate.support.text import LONGEST_PATH, shortened

_KINDS = ("counts", "population", "between", "exact")
_FORMS = (
    "write cat=0.2,dog=0.8, or fraud=0.01..0.03, or counts:cat=20,dog=80, or 0.02 for a single column, or the name of "
    "a CSV or JSON file"
)


class ParsedRates(NamedTuple):
    """What a text says about rates.

    Attributes
    ----------
    kind : "exact", "between", "counts" or "population"
    numbers : dict
        The arguments of this kind of rates; each has one number per class, as a dict or a list, or is one number.
    classes : list or None
        Names of the classes, if the text names all of them.
    """

    kind: str
    numbers: dict[str, Any]
    classes: list[Any] | None = None


def parse_rates(text: str) -> ParsedRates:
    """Parse rates; see :meth:`baserate.Rates.parse` for the forms of ``text``."""
    if not isinstance(text, str):
        raise BadRates(f"the text with the rates must be a string, not {quoted_name(text)}; {_FORMS}")
    # os.path.isfile, not Path.is_file: the latter raises an error for some strings that are not paths.
    if text.lower().endswith((".csv", ".json")) or ("=" not in text and os.path.isfile(text)):  # noqa: PTH113  # see above
        return _read_file(text)
    kind, _, rest = text.partition(":")
    if rest and kind.lower() in _KINDS:
        return _interpret(kind.lower(), _split_entries(rest), text)
    return _interpret(None, _split_entries(text), text)


def _split_entries(text: str) -> Any:
    """The entries between the commas: a dict by class if they contain equals signs, else a list."""
    pieces = [piece.strip() for piece in text.split(",") if piece.strip()]
    pairs = [piece.rpartition("=") for piece in pieces]
    named = [bool(mark) for _, mark, _ in pairs]
    if not pieces or any(named) != all(named):
        raise BadRates(f"the rates {quoted_name(text)} cannot be parsed; {_FORMS}")
    if not any(named):
        return pieces
    return _by_class([name.strip() for name, _, _ in pairs], [value.strip() for _, _, value in pairs], "the rates")


def _by_class(names: list[str], values: list[Any], where: str) -> dict[str, Any]:
    repeated = [name for name in names if names.count(name) > 1]
    if repeated:
        raise BadRates(f"{where} contain class {quoted_name(repeated[0])} more than once")
    if "" in names:
        raise BadRates(f"{where} contain a class without a name")
    return dict(zip(names, values, strict=True))


def _read_file(path: str) -> ParsedRates:
    try:
        text = read_bytes(path).decode("utf-8-sig")
    except BaserateError:
        raise
    except OSError as error:
        raise BadFile(
            f"the file {shortened(path, LONGEST_PATH)} with the rates cannot be read: {error.strerror}"
        ) from None
    except UnicodeDecodeError:
        raise BadFile(f"the file {path} with the rates is not UTF-8 text; save it in UTF-8") from None
    if not path.lower().endswith(".json"):
        return _parse_csv(path, text)
    try:
        return _parse_json(path, text)
    except RecursionError:
        raise BadFile(
            f"{path} does not contain rates: its lists or objects are nested too deeply; write one number per class"
        ) from None


def _parse_json(path: str, text: str) -> ParsedRates:
    try:
        given = json.loads(text, object_pairs_hook=partial(_unique_keys, path))
    except ValueError as error:
        raise BadFile(f"{path} is not a JSON file: {error}") from None
    kind = next(
        (name for name in _KINDS if isinstance(given, Mapping) and isinstance(given.get(name), (dict, list))), None
    )
    return _interpret(kind, given if kind is None else given[kind], path)


def _unique_keys(path: str, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return _by_class([name for name, _ in pairs], [value for _, value in pairs], f"the entries of {path}")


def _parse_csv(path: str, text: str) -> ParsedRates:
    columns = _csv_columns(path, text)
    names, where = columns["class"], f"the lines of {path}"
    if "count" in columns:
        return _interpret("counts", _by_class(names, columns["count"], where), path)
    values = columns.get("rate") or [f"{a}..{b}" for a, b in zip(columns["low"], columns["high"], strict=True)]
    return _interpret(None, _by_class(names, values, where), path)


def _csv_columns(path: str, text: str) -> dict[str, list[str]]:
    """The columns of a CSV file by their name in lower case."""
    try:
        rows = [row for row in csv.reader(text.splitlines()) if any(cell.strip() for cell in row)]
    except csv.Error as error:
        raise BadFile(f"{path} is not a CSV file with rates: {error}") from None
    header = [cell.strip().lower() for cell in rows[0]] if rows else []
    has_values = {"rate"} < {*header} or {"low", "high"} < {*header} or "count" in header
    if not header or header[0] != "class" or not has_values:
        raise BadFile(
            f"the first line of {path} must be class,rate or class,low,high or class,count, not "
            f"{quoted_name(','.join(header))}"
        )
    if len(rows) == 1:
        raise BadFile(f"{path} has a header, but no rows: {quoted_name(','.join(header))}")
    if len(set(header)) < len(header):
        raise BadFile(f"the header of {path} contains a column twice: {quoted_name(','.join(header))}")
    odd = [row for row in rows[1:] if len(row) != len(header)]
    if odd:
        raise BadFile(
            f"{path}: the line of class {quoted_name(odd[0][0])} has {len(odd[0])} entries, but the header has "
            f"{len(header)}"
        )
    return {name: [row[i].strip() for row in rows[1:]] for i, name in enumerate(header)}


def _interpret(kind: str | None, given: Any, source: str) -> ParsedRates:
    """The rates from parsed entries; without a kind, it follows from the entries."""
    if not isinstance(given, (Mapping, list)) or not given:
        raise BadRates(f"the rates {quoted_name(source)} cannot be parsed; {_FORMS}")
    entries = given if isinstance(given, Mapping) else dict(enumerate(given))
    if kind == "counts" and len(entries) == 1 and "/" in str(*entries.values()):
        return _parse_share(*entries.items(), named=isinstance(given, Mapping))
    bounds = {name: parse_bounds(entry, name) for name, entry in entries.items()}
    low = {name: a for name, (a, _) in bounds.items()}
    high = {name: b for name, (_, b) in bounds.items()}
    between = any(a != b for a, b in bounds.values())
    if kind is None and isinstance(given, Mapping) and not between:
        # Rates that sum to less than 1 leave the rest to classes that are not named.
        between = len(given) == 1 or sum(value or 0.0 for value in low.values()) < 1 - ROUNDING
    if kind == "between" or (kind is None and between):
        return ParsedRates("between", {"low": _same_type(low, given), "high": _same_type(high, given)})
    if between:
        raise BadRates(f"{kind} needs one number per class, not bounds: {quoted_name(source)}")
    values = _same_type(low, given)
    # Rates that sum to less than 1 leave the rest to a class that is not named.
    names_all = isinstance(given, Mapping) and (kind == "counts" or not sum_is_below_one(low))
    names = list(given) if names_all else None
    return ParsedRates(kind or "exact", {"counts" if kind == "counts" else "values": values}, names)


def _same_type(numbers: dict[Any, Any], given: Any) -> Any:
    """The numbers as a dict if the entries were given as a dict, else as a list; or as one number if it is only one."""
    if isinstance(given, Mapping):
        return numbers
    return list(numbers.values()) if len(numbers) > 1 else numbers[0]


def _parse_share(entry: tuple[Any, Any], *, named: bool) -> ParsedRates:
    """The counts of an entry such as ``4/50``: 4 of 50 cases are of this class."""
    name, text = entry
    count, total = (_parse_number(part, name) for part in str(text).split("/", 1))
    return ParsedRates("counts", {"counts": {name: count} if named else count, "total": total})


def parse_bounds(entry: Any, name: Any) -> tuple[float | None, float | None]:
    """The lower and the upper bound of an entry; both are the same for a single number."""
    if isinstance(entry, list) and len(entry) == 2:
        return _parse_number(entry[0], name), _parse_number(entry[1], name)
    if isinstance(entry, str) and ".." in entry:
        low, _, high = entry.partition("..")
        return _parse_number(low, name), _parse_number(high, name)
    number = _parse_number(entry, name)
    if number is None:
        raise BadRates(f"the rate of {_label(name)} is missing; if it is unknown, leave the class out or write 0..1")
    return number, number


def _parse_number(entry: Any, name: Any) -> float | None:
    """The number of an entry such as ``0.02`` or ``2%``; None if the entry is empty."""
    if entry is None or (isinstance(entry, str) and not entry.strip()):
        return None
    text = str(entry).strip()
    try:
        if isinstance(entry, bool):
            raise ValueError
        return float(text.removesuffix("%")) / 100 if text.endswith("%") else float(text)
    except ValueError:
        raise BadRates(f"the rate of {_label(name)} is {quoted_name(entry)}, which is not a number; {_FORMS}") from None


def _label(name: Any) -> str:
    return f"class {quoted_name(name)}"
