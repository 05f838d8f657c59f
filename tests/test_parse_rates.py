"""Rates.parse: strings from the command line, and CSV and JSON files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import baserate as br
from baserate.errors import BadFile, BadRates


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cat=0.2,dog=0.8", br.Rates.exact({"cat": 0.2, "dog": 0.8})),
        (" dog = 80% , cat=0.2,", br.Rates.exact({"cat": 0.2, "dog": 0.8})),
        ("0.2,0.8", br.Rates.exact([0.2, 0.8])),
        ("cat=0.1..0.3", br.Rates.between({"cat": 0.1}, {"cat": 0.3})),
        ("cat=..0.3,dog=0.6..", br.Rates.between({"dog": 0.6}, {"cat": 0.3})),
        ("cat=0.2", br.Rates.between({"cat": 0.2}, {"cat": 0.2})),
        ("0.1..0.2,0.8..0.9", br.Rates.between([0.1, 0.8], [0.2, 0.9])),
        ("counts:cat=20,dog=80", br.Rates.from_counts({"cat": 20, "dog": 80}, 0.9)),
        ("counts:20,80", br.Rates.from_counts([20, 80], 0.9)),
        ("population:cat=0.2,dog=0.8", br.Rates.of_population({"cat": 0.2, "dog": 0.8}, 0.9)),
        ("exact:cat=0.2,dog=0.8", br.Rates.exact({"cat": 0.2, "dog": 0.8})),
    ],
)
def test_strings_are_parsed(text: str, expected: br.Rates) -> None:
    parsed = br.Rates.parse(text, 0.9)
    assert type(parsed) is type(expected)
    assert parsed.certainty == expected.certainty
    bounds = [rates.on(("cat", "dog"), 2).bounds(batch_size=50) for rates in (parsed, expected)]
    np.testing.assert_array_equal(bounds[0], bounds[1])


def test_class_names_may_contain_equals_signs() -> None:
    parsed = br.Rates.parse("x=1=0.25,x=2=0.75")
    assert parsed.classes == ("x=1", "x=2")


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("r.csv", "\ufeffclass,rate\r\ndog,80%\r\ncat,0.2\r\n", br.Rates.exact({"cat": 0.2, "dog": 0.8})),
        ("r.csv", 'class,rate\n"dog",0.8\ncat,0.2\n\n', br.Rates.exact({"cat": 0.2, "dog": 0.8})),
        ("r.csv", "class,low,high\ncat,0.1,0.3\ndog,,0.9\n", br.Rates.between({"cat": 0.1}, {"cat": 0.3, "dog": 0.9})),
        ("r.csv", "class,count\ncat,20\ndog,80\n", br.Rates.from_counts({"cat": 20, "dog": 80})),
        ("r.json", '{"cat": 0.2, "dog": 0.8}', br.Rates.exact({"cat": 0.2, "dog": 0.8})),
        ("r.json", "[0.2, 0.8]", br.Rates.exact([0.2, 0.8])),
        ("r.json", '{"cat": [0.1, null]}', br.Rates.between({"cat": 0.1}, None)),
        ("r.json", '{"counts": {"cat": 20, "dog": 80}}', br.Rates.from_counts({"cat": 20, "dog": 80})),
    ],
)
def test_files_are_parsed(tmp_path: Path, name: str, content: str, expected: br.Rates) -> None:
    path = tmp_path / name
    path.write_bytes(content.encode())
    parsed = br.Rates.parse(str(path))
    assert type(parsed) is type(expected)
    bounds = [rates.on(("cat", "dog"), 2).bounds(batch_size=50) for rates in (parsed, expected)]
    np.testing.assert_array_equal(bounds[0], bounds[1])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "write cat=0.2,dog=0.8"),
        ("cat", "the rate of class 0 is 'cat', which is not a number"),
        ("cat=0.2,0.8", "write cat=0.2,dog=0.8"),
        ("cat=much,dog=0.8", "the rate of class 'cat' is 'much', which is not a number"),
        ("cat=,dog=0.8", "the rate of class 'cat' is missing; if it is unknown, leave the class out or write 0..1"),
        ("cat=0.2,cat=0.8", "the rates contain class 'cat' more than once"),
        ("=0.2,dog=0.8", "the rates contain a class without a name"),
        ("counts:cat=1..2,dog=3", "counts needs one number per class, not bounds"),
        ("cat=0.7,dog=0.8", "rates sum to 1.5, not 1"),
        ("cat=0.3..0.2,dog=0.8", "the lower bound of class 'cat' (0.3) is above the upper bound (0.2)"),
    ],
)
def test_invalid_strings_get_a_message_that_names_the_problem(text: str, message: str) -> None:
    with pytest.raises(BadRates) as caught:
        br.Rates.parse(text)
    assert message in str(caught.value)


@pytest.mark.parametrize("text", [None, 3, Path("r.csv")])
def test_rates_that_are_not_a_string_are_not_parsed(text: Any) -> None:
    with pytest.raises(BadRates, match=r"the text with the rates must be a string, not .*; write cat=0\.2,dog=0\.8"):
        br.Rates.parse(text)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("nowhere.csv", None, "nowhere.csv with the rates cannot be read: No such file"),
        ("r.csv", b"\xff\xfe", "is not UTF-8 text; save it in UTF-8"),
        ("r.csv", b"", "must be class,rate or class,low,high or class,count, not ''"),
        ("r.csv", b"cat,0.2\ndog,0.8\n", "r.csv must be class,rate or class,low,high or class,count, not 'cat,0.2'"),
        ("r.csv", b"class,rate\ncat,0.2,7\n", "the line of class 'cat' has 3 entries, but the header has 2"),
        ("r.csv", b"class,rate\ncat,0.2\ncat,0.8\n", "contain class 'cat' more than once"),
        ("r.csv", b"class,rate\n" + b"c" * 200_000 + b",0.2\n", "r.csv is not a CSV file with rates: field larger"),
        ("r.json", b"{", "is not a JSON file"),
        ("r.json", b'{"cat": ' + b"[" * 100_000, "does not contain rates: its lists or objects are nested too deeply"),
        ("r.json", b'{"cat": ' + b"[" * 900 + b"]" * 900 + b"}", "the rate of class 'cat' is [[["),
        ("r.json", b'"cat"', "write cat=0.2,dog=0.8"),
    ],
)
def test_invalid_files_get_a_message_that_names_the_problem(
    tmp_path: Path, name: str, content: bytes | None, message: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises((BadFile, BadRates)) as caught:
        br.Rates.parse(str(tmp_path / name))
    assert message in str(caught.value)


@pytest.mark.parametrize("text", ["population:ill=0.25", "exact:ill=0.25"])
def test_a_kind_of_rates_may_name_one_of_two_classes(text: str) -> None:
    result = br.adjust([[0.4, 0.6], [0.7, 0.3]] * 2000, br.Rates.parse(text), classes=["well", "ill"])
    low, high = result.certificate.known.bounds(4000)
    assert low[1] <= 0.25 <= high[1]
    assert low[0] <= 0.75 <= high[0]
    assert result.rates[1] == pytest.approx(high[1], abs=1e-9)  # the predictions expect more than the upper bound
