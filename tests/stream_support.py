"""Rows, rates and losses with which sources of rows are compared with the same rows in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

import baserate as br

CLASSES = ("cat", "dog", "owl", "yak", "ant", "bee", "cow", "doe")
RATES = {"cat": 0.2, "dog": 0.3, "owl": 0.5}
TOL = 1e-13  # so that the search ends at the same shift, whatever rows are in its sample


def rows(n: int = 600, k: int = 3, *, seed: int = 0, dtype: str = "float64") -> pa.Table:
    """Predictions, with an identifier, weights and two columns of groups."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(1.0 + np.arange(k), size=n).astype(dtype)
    columns: dict[str, Any] = {"id": np.arange(n)}
    columns |= {f"p_{name}": p[:, j] for j, name in enumerate(CLASSES[:k])}
    columns |= {"weight": rng.random(n), "region": rng.choice(["north", "south"], n), "age": rng.integers(0, 3, n)}
    return pa.table(columns)


def exact_rates(k: int) -> dict[str, float]:
    """Rates of k classes that the predictions do not have."""
    values = np.arange(1.0, k + 1)[::-1] + 1.0
    return dict(zip(CLASSES[:k], (values / values.sum()).tolist(), strict=True))


def _by(key: str, groups: list[Any]) -> br.Rates:
    tables = [{"cat": 0.2 + 0.05 * i, "dog": 0.3, "owl": 0.5 - 0.05 * i} for i in range(len(groups))]
    return br.Rates.by(key, dict(zip(groups, tables, strict=True)))


def _matrix(table: pa.Table) -> Any:
    return np.column_stack([table[name] for name in table.column_names if name.startswith("p_")])


def _labels(p: Any, seed: int) -> list[str]:
    """Labels of which the predictions are wrong, so that estimated rates change them."""
    posterior = p * [3.0, 1.0, 0.4]
    posterior /= posterior.sum(axis=1, keepdims=True)
    drawn = (np.random.default_rng(seed).random((len(p), 1)) > posterior.cumsum(axis=1)).sum(axis=1)
    return [CLASSES[j] for j in np.minimum(drawn, 2)]


def estimated(table: pa.Table) -> br.Rates:
    """Rates of these rows, estimated from validation data."""
    validation = _matrix(rows(2000, seed=9))
    return br.estimate(_matrix(table), probs_val=validation, y_val=_labels(validation, 1), classes=CLASSES[:3])


def labelled(table: pa.Table) -> br.Rates:
    """Rates of these rows, estimated from some labels of them."""
    p, numbers = _matrix(table), np.random.default_rng(2).choice(len(table), size=100, replace=False)
    return br.estimate(p, labelled=numbers, y_labelled=_labels(p[numbers], 3), classes=CLASSES[:3])


def _draws() -> br.Rates:
    draws = np.random.default_rng(4).dirichlet([80.0, 60.0, 60.0], size=500)
    return br.Rates.from_samples(draws, 0.8, classes=CLASSES[:3])


KINDS_OF_RATES: dict[str, Any] = {
    "exact": br.Rates.exact(RATES),
    "rate of 0": {"cat": 0.0, "dog": 0.4, "owl": 0.6},
    "between": br.Rates.between({"cat": 0.25, "dog": 0.1, "owl": 0.2}, {"cat": 0.4, "dog": 0.5, "owl": 0.6}),
    "between, in part": br.Rates.between({"cat": 0.3}, {"owl": 0.4}),
    "near": br.Rates.near(RATES, 0.02),
    "chi2": br.Rates.near(RATES, 0.05, metric="chi2"),
    "ellipsoid": br.Rates.near(RATES, 1.0, metric=[[4e-4, 0, 0], [0, 1e-4, 0], [0, 0, 9e-4]]),
    "samples": _draws(),
    "counts": br.Rates.from_counts({"cat": 600, "dog": 500, "owl": 900}),
    "population": br.Rates.of_population({"cat": 0.3, "dog": 0.3, "owl": 0.4}),
    "estimated": estimated(rows()),
    "labelled": labelled(rows()),
    "groups": _by("region", ["north", "south"]),
    "margins": br.Margins(br.Rates.by("region", {"north": RATES, "south": RATES}), br.Rates.exact(RATES)),
    "pairs": br.Rates.by(
        ["region", "age"], {(region, age): RATES for region in ("north", "south") for age in range(3)}
    ),
}
"""Every kind of rates, for the rows that :func:`rows` returns by default. All of them change the predictions."""


def adjusted_in_memory(table: pa.Table, rates: Any, **options: Any) -> br.Adjustment:
    """The adjustment of the same rows as a table in memory."""
    return br.adjust(table, rates, columns="p_*", tol=TOL, **options)


def assert_same(found: br.Adjustment, found_rows: pa.Table, expected: br.Adjustment) -> None:
    """Shift, guarantee and rows are those in memory, and all other columns are unchanged."""
    np.testing.assert_allclose(found.dual_shift, expected.dual_shift, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.rates, expected.rates, rtol=0, atol=1e-12)
    assert abs(found.certificate.loss_reduction - expected.certificate.loss_reduction) <= 1e-12
    wanted, ordered = expected.frame, found_rows.sort_by("id")
    assert ordered.column_names == wanted.column_names
    for name in wanted.column_names:
        if name.startswith("p_"):
            np.testing.assert_allclose(ordered[name].to_numpy(), wanted[name].to_numpy(), rtol=0, atol=1e-12)
        else:
            assert ordered[name].to_pylist() == wanted[name].to_pylist()
