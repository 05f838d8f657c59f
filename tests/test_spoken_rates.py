"""Rates as they are typed, and as they stand in small files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import baserate as br
from baserate.errors import BadFile, BadRates


@pytest.mark.parametrize(
    ("text", "meant"),
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
def test_what_is_typed(text: str, meant: br.Rates) -> None:
    heard = br.Rates.parse(text, 0.9)
    assert type(heard) is type(meant)
    assert heard.certainty == meant.certainty
    on = [rates.on(("cat", "dog"), 2).bounds(batch_size=50) for rates in (heard, meant)]
    np.testing.assert_array_equal(on[0], on[1])


def test_a_name_may_hold_equals_signs() -> None:
    heard = br.Rates.parse("x=1=0.25,x=2=0.75")
    assert heard.classes == ("x=1", "x=2")


@pytest.mark.parametrize(
    ("name", "content", "meant"),
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
def test_what_stands_in_files(tmp_path: Path, name: str, content: str, meant: br.Rates) -> None:
    path = tmp_path / name
    path.write_bytes(content.encode())
    heard = br.Rates.parse(str(path))
    assert type(heard) is type(meant)
    on = [rates.on(("cat", "dog"), 2).bounds(batch_size=50) for rates in (heard, meant)]
    np.testing.assert_array_equal(on[0], on[1])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "write cat=0.2,dog=0.8"),
        ("cat", "the rate of 0 is 'cat', which is not a number"),
        ("cat=0.2,0.8", "write cat=0.2,dog=0.8"),
        ("cat=much,dog=0.8", "the rate of 'cat' is 'much', which is not a number"),
        ("cat=,dog=0.8", "the rate of 'cat' is missing"),
        ("cat=0.2,cat=0.8", "rates name 'cat' more than once"),
        ("=0.2,dog=0.8", "a class has no name"),
        ("counts:cat=1..2,dog=3", "counts need one number for each class, not bounds"),
        ("cat=0.7,dog=0.8", "rates sum to 1.5, not 1"),
        ("cat=0.3..0.2,dog=0.8", "the lower bound of class 'cat', 0.3, is above the upper bound, 0.2"),
    ],
)
def test_what_cannot_be_understood(text: str, message: str) -> None:
    with pytest.raises(BadRates) as caught:
        br.Rates.parse(text)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("nowhere.csv", None, "nowhere.csv with the rates cannot be read: No such file"),
        ("r.csv", b"\xff\xfe", "is not text in UTF-8"),
        ("r.csv", b"", "should have a header, class,rate or class,low,high or class,count, but has []"),
        ("r.csv", b"cat,0.2\ndog,0.8\n", "should have a header"),
        ("r.csv", b"class,rate\ncat,0.2,7\n", "the line of 'cat' has 3 entries, but the header 2"),
        ("r.csv", b"class,rate\ncat,0.2\ncat,0.8\n", "name 'cat' more than once"),
        ("r.json", b"{", "is not a JSON file"),
        ("r.json", b'"cat"', "write cat=0.2,dog=0.8"),
    ],
)
def test_files_that_cannot_be_understood(tmp_path: Path, name: str, content: bytes | None, message: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises((BadFile, BadRates)) as caught:
        br.Rates.parse(str(tmp_path / name))
    assert message in str(caught.value)
