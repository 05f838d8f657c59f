"""What the user entered about the rates, as the text that ``--rates`` accepts.

Numbers are decimal texts throughout, so that a rate of 20 % is 0.2 and not 0.20000000000000001.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from baserate.app.file_names import RATES
from baserate.errors import BadOption, BadRates

NUMBER, RANGE, COUNTS, POPULATION = "number", "range", "counts", "population"
GROUPS, VALIDATION, LABELS, FILE = "groups", "validation", "labels", "file"
KINDS = (NUMBER, RANGE, COUNTS, POPULATION, GROUPS, VALIDATION, LABELS, FILE)

_MOST_TYPED = 12  # Rates of more classes are written to a file.
_SPACES = "\u00a0\u202f\u2009 '\u2019\u066c"  # between groups of three digits
_MARKS = str.maketrans("\u066b\u066a", ".%")  # decimal mark and percent sign in Arabic


@dataclass(frozen=True)
class Entry:
    """What was entered for one class, as it was typed.

    Attributes
    ----------
    low, high : str
        Percentages; equal unless a range was entered. For counts both are the count.
    """

    low: str
    high: str


@dataclass(frozen=True)
class RatesText:
    """Rates as the value of ``--rates``.

    Attributes
    ----------
    text : str
        The value, or the name of the file with ``content``.
    content : str or None
        Content of a file that has to be written first.
    """

    text: str
    content: str | None = None


def entries_of(given: Any) -> dict[str, Entry]:
    """What was entered by class, from the JSON of the page."""
    if not isinstance(given, list):
        return {}
    found = {}
    for one in given:
        if not isinstance(one, dict) or "class" not in one:
            raise BadOption("Say for each rate to which class it belongs.")
        low, high = str(one.get("low", ""))[:40], str(one.get("high", ""))[:40]
        if low.strip() or high.strip():
            found[str(one["class"])] = Entry(low, high)
    return found


def changes_of(form: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """What was changed for groups, from the JSON of the page."""
    given = form.get("group_changes")
    if not isinstance(given, dict):
        return {}
    return {
        str(group): {str(name): str(text)[:40] for name, text in entries.items()}
        for group, entries in given.items()
        if isinstance(entries, dict) and entries
    }


def parse_number(text: str, *, whole: bool = False) -> Decimal | None:
    """A number with decimal comma or decimal point, with or without a percent sign; None if the text is empty.

    Digits of all scripts are accepted.

    Parameters
    ----------
    text : str
    whole : bool
        Whether it is a count, so that the mark in ``1.200`` and in ``1,200`` separates thousands.

    Examples
    --------
    >>> parse_number("12,5 %"), parse_number("1.234,5"), parse_number("1,200", whole=True)
    (Decimal('12.5'), Decimal('1234.5'), Decimal('1200'))
    """
    plain = re.sub(f"[{_SPACES}]", "", text.strip()).translate(_MARKS).removesuffix("%")
    plain = "".join(str(unicodedata.decimal(c)) if c.isdecimal() else c for c in plain)
    if not plain:
        return None
    if whole:
        plain = re.sub(r"[.,](?=\d{3}(?:[.,]|$))", "", plain)
    marks = [c for c in plain if c in ".,"]
    if len(set(marks)) == 2:  # the last one is the decimal mark
        plain = plain.replace(marks[0], "")
    plain = plain.replace(",", ".")
    try:
        if "_" in plain:
            raise InvalidOperation  # Decimal accepts 1_000
        number = Decimal(plain)
    except InvalidOperation:
        raise BadRates(f"{text.strip()!r} is not a number. Write 12.5 or 12,5.") from None
    if not number.is_finite():
        raise BadRates(f"{text.strip()!r} is not a finite number.")
    return number


def parse_share(text: str) -> Decimal | None:
    """A percentage as a share: ``20`` and ``20 %`` are 0.2."""
    number = parse_number(text)
    if number is None:
        return None
    if not 0 <= number <= 100:
        raise BadRates(f"{text.strip().removesuffix('%').strip()} % is not between 0 and 100 %.")
    return number / 100


def plain(number: Decimal | None) -> str:
    """A number without exponent and trailing zeros; empty for None."""
    if number is None:
        return ""
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") or "0" if "." in text else text


def rates_text(
    kind: str,
    entries: Mapping[str, Entry],
    classes: tuple[str, ...],
    *,
    named: bool,
    one_column: bool,
    file: str = RATES,
) -> RatesText:
    """The value of ``--rates`` for what was entered about the rates of all rows.

    Parameters
    ----------
    kind : "number", "range", "counts" or "population"
    entries : dict
        What was entered, by class. Classes without an entry are unknown.
    classes : tuple of str
        All classes.
    named : bool
        Whether the classes have names. Matrices in NPY files have only positions.
    one_column : bool
        Whether the file has only the probability of the second class.
    file : str
        The name of the file for rates that are too long for an option, or whose names do not fit there.
    """
    unknown = [name for name in entries if name not in classes]
    if unknown:
        raise BadRates(f"There is no class {unknown[0]!r} in this file.")
    parsed = {name: _value(kind, name, entry) for name, entry in entries.items()}
    values = {name: value for name, value in parsed.items() if value is not None}
    if not values:
        raise BadRates("Enter at least one number.")
    _check_sum(kind, values, classes)
    if kind == POPULATION and not one_column:
        values = _with_last_rate(values, classes)
    if kind == COUNTS:
        _check_all_counted(values, classes)
    if one_column:
        return _of_one_column(kind, values, classes)
    if not named:
        return RatesText(_prefix(kind) + ",".join(_typed(values.get(name), kind) for name in classes))
    if len(values) <= _MOST_TYPED and all(_can_be_typed(name) for name in values):
        return RatesText(_prefix(kind) + ",".join(f"{name}={_typed(value, kind)}" for name, value in values.items()))
    return RatesText(file, _as_json(kind, values))


def exact_text(shares: Mapping[str, float], *, named: bool, one_column: bool) -> RatesText:
    """The value of ``--rates`` for rates of all classes that were computed."""
    if one_column:
        return RatesText(repr(list(shares.values())[1]))
    if not named:
        return RatesText(",".join(map(repr, shares.values())))
    if len(shares) <= _MOST_TYPED and all(_can_be_typed(name) for name in shares):
        return RatesText(",".join(f"{name}={value!r}" for name, value in shares.items()))
    return RatesText(RATES, json.dumps(dict(shares), indent=1, ensure_ascii=False) + "\n")


Value = tuple[Decimal | None, Decimal | None]


def _value(kind: str, name: str, entry: Entry) -> Value | None:
    try:
        if kind == COUNTS:
            count = parse_number(entry.low, whole=True)
            if count is not None and (count < 0 or count != count.to_integral_value()):
                raise BadRates(f"{entry.low!r} is not a number of cases.")
            return None if count is None else (count, count)
        low = parse_share(entry.low)
        high = parse_share(entry.high) if kind == RANGE else low
    except BadRates as error:
        raise BadRates(f"The class {name!r}: {error}") from None
    if low is not None and high is not None and low > high:
        raise BadRates(f"The class {name!r}: the lower bound is above the upper bound.")
    return None if low is None and high is None else (low, high)


def _check_sum(kind: str, values: Mapping[str, Value], classes: tuple[str, ...]) -> None:
    """Raise if rates of all rows cannot sum to 100 %."""
    if kind not in (NUMBER, POPULATION):
        return
    total = sum((low for low, _ in values.values() if low is not None), Decimal(0))
    complete = len(values) == len(classes)
    if complete and total * 100 == 1:
        raise BadRates("The rates sum to 1 %, not to 100 %. Enter percentages: 20 for 20 %, not 0.2.")
    if total > 1 or (complete and total != 1):
        raise BadRates(
            f"The rates sum to {plain(total * 100)} %, not to 100 %. Change one of them, or leave one field empty: "
            "this class gets the rest."
        )


def _check_all_counted(values: Mapping[str, Value], classes: tuple[str, ...]) -> None:
    """Raise if a class has no count. An empty field is not a count of 0, which would give a guarantee."""
    missing = [name for name in classes if name not in values]
    if missing:
        many = ", or choose “rates in a file”" if len(classes) > _MOST_TYPED else ""
        raise BadRates(
            f"Enter a count for every class; {missing[0]!r} has none. Enter 0 for a class that was not found{many}."
        )


def _with_last_rate(values: dict[str, Value], classes: tuple[str, ...]) -> dict[str, Value]:
    """The rates of all classes of a population, of which at most one may be left out."""
    missing = [name for name in classes if name not in values]
    if len(missing) > 1:
        raise BadRates(
            f"Enter the rates of all classes of the population, but one; {len(missing)} are missing, such as "
            f"{missing[0]!r}. If you do not know them, choose “a range for each rate”."
        )
    rest = 1 - sum((low for low, _ in values.values() if low is not None), Decimal(0))
    return {name: values.get(name, (rest, rest)) for name in classes}


def _of_one_column(kind: str, values: Mapping[str, Value], classes: tuple[str, ...]) -> RatesText:
    """One number, about the second class."""
    other, own = classes
    if kind == COUNTS:
        total = sum(value[0] or 0 for value in values.values())
        return RatesText(f"counts:{plain(values[own][0])}/{plain(Decimal(total))}")
    if own in values:
        return RatesText(_prefix(kind) + _typed(values[own], kind))
    low, high = values[other]
    swapped = (None if high is None else 1 - high, None if low is None else 1 - low)
    return RatesText(_prefix(kind) + _typed(swapped, kind))


def _prefix(kind: str) -> str:
    return f"{kind}:" if kind in (COUNTS, POPULATION) else ""


def _typed(value: Value | None, kind: str) -> str:
    if value is None:
        return "0..1"
    low, high = value
    if kind == RANGE and low != high:
        return f"{plain(low) or '0'}..{plain(high) or '1'}"
    return plain(low)


def _can_be_typed(name: str) -> bool:
    """Whether ``--rates`` understands a class name in its short form."""
    return name == name.strip() and not re.search(r"[,=:*\x00-\x1f]|\.\.|\.(csv|json)$", name, re.IGNORECASE)


def _as_json(kind: str, values: Mapping[str, Value]) -> str:
    if kind == RANGE:
        bounds = {name: [None if v is None else float(v) for v in value] for name, value in values.items()}
        content: dict[str, Any] = {"between": bounds}
    else:
        numbers = {name: float(value[0] or 0) for name, value in values.items()}
        content = {kind: numbers} if kind in (COUNTS, POPULATION) else numbers
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"
