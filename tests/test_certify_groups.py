"""The guarantee of the shifts of groups on other rows, against all possible labels of a few rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from support import Array, number_of_cases
from test_certify import falls, labellings, predictions

import baserate as br
from baserate.losses import Loss

REGION = np.array(["north", "south"])[[0, 0, 0, 1, 1, 1]]
AGE = np.array(["young", "old"])[[0, 1, 0, 1, 0, 1]]
LOSSES: list[Loss] = [br.losses.Log(), br.losses.Brier(), br.losses.Spherical(), br.losses.Power(3.0)]


def rates_of(labels: Array, groups: Array, k: int) -> dict[str, Any]:
    return {
        str(name): np.bincount(labels[groups == name], minlength=k) / (groups == name).sum() for name in set(groups)
    }


def fitted(rng: np.random.Generator, loss: Loss, k: int, *, two_margins: bool = False) -> Any:
    p, groups = predictions(rng, k, 60), {"region": np.tile(REGION, 10), "age": np.tile(AGE, 10)}
    y = rng.integers(k, size=60)
    if k > 2 and rng.random() < 0.3:
        y[(y == 2) & (groups["region"] == "north")] = 0  # a class of rate 0 in one group
    tables = [br.Rates.by(key, _table(y, values, k)) for key, values in groups.items()]
    return br.adjust(p, br.Margins(*tables) if two_margins else tables[0], loss=loss, groups=groups)


def _table(y: Array, groups: Array, k: int) -> dict[str, Any]:
    return {name: br.Rates.exact(rates) for name, rates in rates_of(y, groups, k).items()}


def around(rates: dict[str, Any], width: float) -> dict[str, Any]:
    return {
        name: br.Rates.between(np.maximum(one - width, 0), np.minimum(one + width, 1)) for name, one in rates.items()
    }


def changes(result: Any, p: Array) -> Array:
    """The fall of the loss of each row, for each labelling."""
    a = result.apply(p, groups={"region": REGION, "age": AGE})
    fall = falls(result.loss, p, a)
    return fall[np.arange(len(p)), labellings(*p.shape)]


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("width", [0.0, 0.34])
def test_no_possible_labels_of_a_group_do_worse_than_certified(loss: Loss, width: float) -> None:
    for seed in range(number_of_cases(12)):
        rng = np.random.default_rng(seed)
        result, p = fitted(rng, loss, 3), predictions(rng, 3, 6)
        labels = labellings(6, 3)
        table = around(rates_of(rng.choice(labels), REGION, 3), width)
        certificate = result.certify(p, table, groups=REGION)
        fall, by_group = changes(result, p), certificate.by_group().set_index("region")["loss_reduction"]
        possible = np.ones(len(labels), dtype=bool)
        for name, rates in table.items():
            rows = name == REGION
            counts = np.stack([(labels[:, rows] == j).mean(axis=1) for j in range(3)], axis=1)
            inside = np.array([rates.contains(one) for one in np.unique(counts.round(9), axis=0)])
            of_labels = inside[np.unique(counts.round(9), axis=0, return_inverse=True)[1].ravel()]
            assert by_group[name] <= fall[of_labels][:, rows].mean(axis=1).min() + 1e-12
            possible &= of_labels
        assert certificate.loss_reduction <= fall[possible].mean(axis=1).min() + 1e-12
        assert certificate.loss_reduction == pytest.approx(by_group.mean(), abs=1e-12)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_no_possible_labels_do_worse_than_certified_where_groups_overlap(loss: Loss) -> None:
    for seed in range(number_of_cases(16)):
        rng = np.random.default_rng(seed)
        result, p, y = fitted(rng, loss, 2, two_margins=True), predictions(rng, 2, 6), rng.integers(2, size=6)
        tables = [rates_of(y, groups, 2) for groups in (REGION, AGE)]
        margins = [br.Rates.by(key, _table(y, groups, 2)) for key, groups in (("region", REGION), ("age", AGE))]
        certificate = result.certify(p, br.Margins(*margins[::-1]), groups={"region": REGION, "age": AGE})
        labels = labellings(6, 2)
        wanted = np.concatenate([list(table.values()) for table in tables])
        same = [
            np.allclose(np.concatenate([list(rates_of(one, groups, 2).values()) for groups in (REGION, AGE)]), wanted)
            for one in labels
        ]
        assert certificate.loss_reduction <= changes(result, p)[same].mean(axis=1).min() + 1e-12
        assert certificate.groups is None
        assert "the groups overlap" in repr(certificate)


def test_a_single_group_is_certified_as_rows_without_groups() -> None:
    rng = np.random.default_rng(1)
    p, new = predictions(rng, 2, 50), predictions(rng, 2, 40)
    grouped: Any = br.adjust(p, br.Rates.by("g", {"x": 0.3}), groups=["x"] * 50)
    plain = br.adjust(p, [0.7, 0.3])
    found = grouped.certify(new, {"x": 0.4}, groups=["x"] * 40)
    assert found.loss_reduction == pytest.approx(plain.certify(new, [0.6, 0.4]).loss_reduction)


def test_groups_that_are_unseen_or_unknown_are_certified_with_what_is_known() -> None:
    rng = np.random.default_rng(2)
    result = fitted(rng, br.losses.Log(), 2)
    p = predictions(rng, 2, 6)
    with pytest.raises(br.errors.BadGroups, match="not there in the fit"):
        result.certify(p, {"north": 0.5, "west": 0.5}, groups=["north", "west"] * 3)
    pooled = result.certify(p, {"north": 1 / 3, "west": 2 / 3}, groups=["north", "west"] * 3, unseen="pooled")
    assert np.isfinite(pooled.loss_reduction)
    known = result.certify(p, {"north": 1 / 3, "south": 1 / 3}, groups=REGION).by_group()
    unknown = result.certify(p, {"north": 1 / 3, "south": None}, groups=REGION).by_group()
    assert unknown["loss_reduction"][0] == pytest.approx(known["loss_reduction"][0])
    assert unknown["loss_reduction"][1] < known["loss_reduction"][1]


def test_a_class_that_a_group_excludes_guarantees_nothing_where_it_may_occur() -> None:
    p, groups = [[0.5, 0.3, 0.2], [0.3, 0.4, 0.3]] * 2, ["x", "x", "y", "y"]
    rates = br.Rates.by("g", {"x": br.Rates.exact([0.5, 0.5, 0]), "y": br.Rates.exact([0.25, 0.5, 0.25])})
    result: Any = br.adjust(p, rates, groups=groups)
    assert np.isfinite(result.certify(p, rates, groups=groups).loss_reduction)
    open_rates = br.Rates.by("g", {"x": br.Rates.between(None, None), "y": br.Rates.exact([0.5, 0.5, 0])})
    certificate = result.certify(p, open_rates, groups=groups)
    assert certificate.loss_reduction == -np.inf
    assert np.isfinite(certificate.by_group()["loss_reduction"][1])
    assert "may become infinite" in repr(certificate)


def test_frames_files_and_loaded_adjustments_are_certified_alike(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    result = fitted(rng, br.losses.Brier(), 2)
    p = predictions(rng, 2, 6)
    rates = {"north": {"0": 2 / 3, "1": 1 / 3}, "south": {"0": 1 / 3, "1": 2 / 3}}
    by_position = {name: br.Rates.exact(list(one.values())) for name, one in rates.items()}
    wanted = result.certify(p, by_position, groups=REGION).loss_reduction
    frame = pd.DataFrame({"region": REGION, "0": p[:, 0], "1": p[:, 1]})
    frame.to_parquet(tmp_path / "new.parquet")
    result.save(tmp_path / "shift.json")
    loaded: Any = br.load(tmp_path / "shift.json")
    for probs in (frame, tmp_path / "new.parquet"):
        found = loaded.certify(probs, br.Rates.by("region", rates), columns=["0", "1"])
        assert found.loss_reduction == pytest.approx(wanted, rel=1e-12)
    weighted = result.certify(p, by_position, groups=REGION, sample_weight=[2, 1, 1, 1, 1, 1])
    doubled = result.certify(p[[0, *range(6)]], by_position, groups=REGION[[0, *range(6)]])
    assert weighted.loss_reduction == pytest.approx(doubled.loss_reduction)


def test_messages_about_groups() -> None:
    rng = np.random.default_rng(4)
    result, both = fitted(rng, br.losses.Log(), 2), fitted(rng, br.losses.Log(), 2, two_margins=True)
    p = predictions(rng, 2, 6)
    with pytest.raises(br.errors.BadGroups, match="fitted by region, but these are rates of all rows"):
        result.certify(p, br.Rates.exact([0.5, 0.5]), groups=REGION)
    with pytest.raises(br.errors.BadGroups, match="fitted by region, but the rates are given by age"):
        result.certify(p, br.Rates.by("age", {"young": 0.5, "old": 0.5}), groups={"region": REGION, "age": AGE})
    with pytest.raises(br.errors.BadGroups, match=r"pass br\.Margins"):
        both.certify(p, {"north": 0.5, "south": 0.5}, groups={"region": REGION, "age": AGE})
    certificate = result.certify(p, {"north": 1 / 3, "south": 1 / 3}, groups=REGION)
    with pytest.raises(br.BaserateError, match="shift per group; certify the rows of one group"):
        certificate.for_population()
    with pytest.raises(br.errors.BadRates, match="each group has its own bounds"):
        _ = certificate.bounds
    assert certificate.holds_for({"north": 1 / 3, "south": 1 / 3})
    assert "region" in certificate._repr_html_()
    assert certificate.to_json()["groups"][0]["group"] == "north"
