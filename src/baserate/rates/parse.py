"""Rates in words: as they are typed on a command line, or stand in a small file."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from baserate.errors import BadFile, BadRates
from baserate.rates.base import ROUNDING, Rates

_KINDS = ("counts", "population", "between", "exact")
_FORMS = "write cat=0.2,dog=0.8, or fraud=0.01..0.03, or counts:cat=20,dog=80, or name a CSV or JSON file"


def spoken(text: str, confidence: float = 0.95) -> Rates:
    """See :meth:`Rates.parse`."""
    if text.lower().endswith((".csv", ".json")) or ("=" not in text and os.path.isfile(text)):  # noqa: PTH113  # no error
        return _from_file(Path(text), confidence)
    kind, _, rest = text.partition(":")
    if rest and kind.lower() in _KINDS:
        return _made(kind.lower(), _entries(rest), confidence, text)
    return _made(None, _entries(text), confidence, text)


def _entries(text: str) -> Any:
    """What stands between the commas: by class if there are equals signs, else in order."""
    pieces = [piece.strip() for piece in text.split(",") if piece.strip()]
    pairs = [piece.rpartition("=") for piece in pieces]
    named = [bool(mark) for _, mark, _ in pairs]
    if not pieces or any(named) != all(named):
        raise BadRates(f"rates are {text!r}; {_FORMS}")
    if not any(named):
        return pieces
    return _by_class([name.strip() for name, _, _ in pairs], [value.strip() for _, _, value in pairs], "rates")


def _by_class(names: list[str], values: list[Any], what: str) -> dict[str, Any]:
    repeated = [name for name in names if names.count(name) > 1]
    if repeated:
        raise BadRates(f"{what} name {repeated[0]!r} more than once")
    if "" in names:
        raise BadRates(f"{what}: a class has no name")
    return dict(zip(names, values, strict=True))


def _from_file(path: Path, confidence: float) -> Rates:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise BadFile(f"the file {path} with the rates cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadFile(f"the file {path} with the rates is not text in UTF-8") from None
    if path.suffix.lower() != ".json":
        return _from_csv(path, text, confidence)
    try:
        given = json.loads(text, object_pairs_hook=partial(_pairs, str(path)))
    except ValueError as error:
        raise BadFile(f"{path} is not a JSON file: {error}") from None
    kind = next(
        (name for name in _KINDS if isinstance(given, Mapping) and isinstance(given.get(name), (dict, list))), None
    )
    return _made(kind, given if kind is None else given[kind], confidence, str(path))


def _pairs(path: str, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return _by_class([name for name, _ in pairs], [value for _, value in pairs], f"the entries of {path}")


def _from_csv(path: Path, text: str, confidence: float) -> Rates:
    rows = [row for row in csv.reader(text.splitlines()) if any(cell.strip() for cell in row)]
    header = [cell.strip().lower() for cell in rows[0]] if rows else []
    if (
        not header
        or header[0] != "class"
        or not ({"rate"} < {*header} or {"low", "high"} < {*header} or "count" in header)
    ):
        raise BadFile(f"{path} should have a header, class,rate or class,low,high or class,count, but has {header}")
    if len(set(header)) < len(header) or len(rows) == 1:
        raise BadFile(
            f"{path} has {'a column twice' if len(rows) > 1 else 'a header, but no rows'}: {','.join(header)}"
        )
    odd = [row for row in rows[1:] if len(row) != len(header)]
    if odd:
        raise BadFile(f"{path}: the line of {odd[0][0]!r} has {len(odd[0])} entries, but the header {len(header)}")
    columns = {name: [row[i].strip() for row in rows[1:]] for i, name in enumerate(header)}
    names = columns["class"]
    if "count" in columns:
        return _made("counts", _by_class(names, columns["count"], f"the lines of {path}"), confidence, str(path))
    values = columns.get("rate") or [f"{a}..{b}" for a, b in zip(columns["low"], columns["high"], strict=True)]
    return _made(None, _by_class(names, values, f"the lines of {path}"), confidence, str(path))


def _made(kind: str | None, given: Any, confidence: float, said: str) -> Rates:
    if not isinstance(given, (Mapping, list)) or not given:
        raise BadRates(f"rates are {said!r}; {_FORMS}")
    entries = given if isinstance(given, Mapping) else dict(enumerate(given))
    bounds = {name: _bounds(entry, name) for name, entry in entries.items()}
    low = {name: a for name, (a, _) in bounds.items()}
    high = {name: b for name, (_, b) in bounds.items()}
    between = any(a != b for a, b in bounds.values())
    if kind is None and isinstance(given, Mapping) and not between:
        # Other classes may have the rest.
        between = len(given) == 1 or sum(value or 0.0 for value in low.values()) < 1 - ROUNDING
    if kind == "between" or (kind is None and between):
        return Rates.between(_like(low, given), _like(high, given))
    if between:
        raise BadRates(f"{kind} need one number for each class, not bounds: {said!r}")
    values = _like(low, given)
    names = list(given) if isinstance(given, Mapping) else None
    if kind == "counts":
        return Rates.from_counts(values, confidence, classes=names)
    if kind == "population":
        return Rates.of_population(values, confidence, classes=names)
    return Rates.exact(values, classes=names)


def _like(numbers: dict[Any, Any], given: Any) -> Any:
    return numbers if isinstance(given, Mapping) else list(numbers.values())


def _bounds(entry: Any, name: Any) -> tuple[float | None, float | None]:
    """The lower and the upper bound in one entry; the same number twice if it is one."""
    if isinstance(entry, list) and len(entry) == 2:
        return _number(entry[0], name), _number(entry[1], name)
    if isinstance(entry, str) and ".." in entry:
        low, _, high = entry.partition("..")
        return _number(low, name), _number(high, name)
    number = _number(entry, name)
    if number is None:
        raise BadRates(f"the rate of {name!r} is missing; for one that is not known leave the class out, or write 0..1")
    return number, number


def _number(entry: Any, name: Any) -> float | None:
    if entry is None or (isinstance(entry, str) and not entry.strip()):
        return None
    text = str(entry).strip()
    try:
        if isinstance(entry, bool):
            raise ValueError
        return float(text.removesuffix("%")) / 100 if text.endswith("%") else float(text)
    except ValueError:
        raise BadRates(f"the rate of {name!r} is {entry!r}, which is not a number; {_FORMS}") from None
