"""The fuzzer notices wrong answers, and repeats its cases."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from tool_support import ROOT, load_tool

import baserate as br

fuzz = load_tool("fuzz")  # it puts its folder on the path
from fuzzing import checks, ellipsoids, formulas, rate_sets  # noqa: E402  # only found after that
from fuzzing.problems import Known, Problem, evaluate  # noqa: E402  # the same
from fuzzing.random_problems import make_problem  # noqa: E402  # the same
from fuzzing.workers import Lost, run_cases  # noqa: E402  # the same
from fuzzing.worst_labels import Labels  # noqa: E402  # the same

PROBS = np.array([[0.7, 0.2, 0.1], [0.4, 0.4, 0.2], [0.1, 0.3, 0.6], [0.5, 0.25, 0.25]])
RATES = np.array([0.25, 0.25, 0.5])
COVARIANCE = np.array([[0.01, -0.008, -0.002], [-0.008, 0.02, -0.012], [-0.002, -0.012, 0.014]])
BOX = (np.array([0.2, 0.2, 0.4]), np.array([0.3, 0.3, 0.6]))


def problem(formula: formulas.Formula | None = None, code: str = "", **options: Any) -> Problem:
    """A problem without difficulties."""
    known = Known(code or repr(RATES.tolist()), lambda size: rate_sets.exact(RATES))
    return Problem(0, 0, "adjust", formula or formulas.brier(), PROBS, "C", known, options)


def findings(check: str, one: Problem, result: br.Adjustment) -> list[str]:
    return checks.guarded(checks.CHECKS[check], one, result)


def with_certificate(result: br.Adjustment, **changes: Any) -> br.Adjustment:
    return replace(result, certificate=replace(result.certificate, **changes))


@pytest.mark.parametrize("check", list(checks.CHECKS))
@pytest.mark.parametrize("formula", [formulas.log(), formulas.brier(), formulas.spherical()], ids=lambda f: f.name)
def test_checks_have_no_objection_to_a_correct_answer(check: str, formula: formulas.Formula) -> None:
    one = problem(formula, sample_weight=[1, 2, 1, 3])
    assert findings(check, one, one.call()) == []


@pytest.mark.parametrize(("tiny", "expected"), [(1e-300, True), (1e-3, False)])
def test_losses_too_large_for_the_digits_of_a_shift_are_recognised_from_the_input(tiny: float, expected: bool) -> None:
    one = replace(problem(formulas.power(0.5)), probs=np.array([[tiny, 1 - tiny, 0.5], [0.2, 0.3, 0.5]]))
    assert one.beyond_float64 is expected
    assert not replace(one, formula=formulas.brier()).beyond_float64


@pytest.mark.parametrize("check", ["certificate", "whole labels"])
def test_a_guarantee_that_promises_too_much_is_reported(check: str) -> None:
    known = Known("br.Rates.between([0.2, 0.2, 0.4], [0.3, 0.3, 0.6])", lambda size: rate_sets.between(*BOX))
    for one in (problem(), problem(formulas.log()), replace(problem(), known=known)):
        result = one.call()
        best = result.certificate.loss_reduction
        assert findings(check, one, with_certificate(result, loss_reduction=best - 1e-6)) == []
        if check == "certificate":
            assert findings(check, one, with_certificate(result, loss_reduction=best + 1e-9))
        assert findings(check, one, with_certificate(result, loss_reduction=best + 1.0))


def test_a_guarantee_for_a_ball_that_promises_too_much_is_reported() -> None:
    code = f"br.Rates.near({RATES.tolist()!r}, 0.05)"
    one = replace(problem(formulas.log()), known=Known(code, lambda size: rate_sets.near(RATES, 0.05, "euclidean")))
    result = one.call()
    assert findings("certificate", one, result) == []
    best = result.certificate.loss_reduction
    assert findings("certificate", one, with_certificate(result, loss_reduction=best + 1e-6))


def test_a_guarantee_for_an_ellipsoid_that_promises_too_much_is_reported() -> None:
    code = f"br.Rates.near({RATES.tolist()!r}, 0.5, metric={COVARIANCE.tolist()!r})"
    known = Known(code, lambda size: ellipsoids.ellipsoid(RATES, COVARIANCE, 0.5))
    one = replace(problem(formulas.log()), known=known)
    result = one.call()
    for check in ("certificate", "mean", "rate set", "permutation"):
        assert findings(check, one, result) == []
    best = result.certificate.loss_reduction
    assert findings("certificate", one, with_certificate(result, loss_reduction=best + 1e-6))
    smaller = Known(code, lambda size: ellipsoids.ellipsoid(RATES, COVARIANCE, 0.49))
    assert findings("mean", replace(one, known=smaller), result)
    assert findings("rate set", replace(one, known=smaller), result)


def test_a_finite_guarantee_is_reported_where_a_possible_label_has_infinite_loss() -> None:
    one = problem(formulas.log())
    result = one.call()
    rows = result.probs.copy()
    rows[0] = [0.0, 0.5, 0.5]
    for value, wrong in ((0.01, True), (-np.inf, False)):
        answer = with_certificate(replace(result, answer=rows), loss_reduction=value)
        assert bool(findings("certificate", one, answer)) == wrong


def test_the_worst_labels_are_those_of_an_exhaustive_search() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        before, after = rng.random((2, 4, 2))
        labels = Labels.of(before, after, np.full(4, 0.25), rate_sets.exact(np.array([0.5, 0.5])))
        found = labels.solve()
        fall = before - after
        whole = [sum(fall[i, int(i not in pair)] for i in pair_and_rest) / 4 for pair, pair_and_rest in halves()]
        assert found is not None
        np.testing.assert_allclose([found.proved, found.reached], min(whole), atol=1e-12)


def halves() -> Iterator[tuple[tuple[int, int], range]]:
    """The ways to give label 0 to two of four rows."""
    for i in range(4):
        for j in range(i):
            yield (i, j), range(4)


def test_a_mean_other_than_the_rates_is_reported() -> None:
    one = problem()
    result = one.call()
    rows = result.probs + 1e-8 * np.array([1.0, -1.0, 0.0])
    assert "rates differs" in findings("mean", one, replace(result, answer=rows))[0]
    moved = replace(result, answer=rows, rates=rows.mean(axis=0))
    assert any("converged" in text for text in findings("mean", one, moved))
    assert any("residual" in text for text in findings("mean", one, with_certificate(result, residual=1e-3)))


@pytest.mark.parametrize("entry", [np.nan, -0.1, 0.9])
def test_rows_that_are_not_probabilities_are_reported(entry: float) -> None:
    one = problem()
    result = one.call()
    rows = result.probs.copy()
    rows[1, 1] = entry
    assert findings("rows", one, replace(result, answer=rows))
    assert findings("rows", one, replace(result, answer=result.probs.astype(np.float32)))


@pytest.mark.parametrize("formula", [formulas.log(), formulas.brier()], ids=lambda f: f.name)
def test_a_gap_that_is_too_small_is_reported(formula: formulas.Formula) -> None:
    one = problem(formula)
    result = one.call()
    rows = np.tile(RATES, (4, 1))  # they have the rates, but are far from the predictions
    assert findings("gap", one, replace(result, answer=rows))
    assert findings("gap", one, with_certificate(replace(result, answer=rows), gap=10.0)) == []


def test_an_apply_that_differs_is_reported() -> None:
    one = problem()
    result = one.call()
    assert findings("apply", one, replace(result, dual_shift=result.dual_shift + np.array([0, 0, 1e-9])))


def test_a_loaded_adjustment_that_differs_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    one = problem()
    result = one.call()
    other = replace(result, dual_shift=result.dual_shift * (1 + 1e-15))
    monkeypatch.setattr(br, "load", lambda path, loss=None: other)
    assert findings("save", one, result)


@pytest.mark.parametrize("check", ["weights", "permutation"])
def test_another_answer_to_the_same_problem_is_reported(check: str) -> None:
    one = problem(sample_weight=[1, 2, 1, 3])
    result = one.call()
    assert findings(check, one, with_certificate(result, loss_reduction=result.certificate.loss_reduction - 1e-6))
    assert findings(check, one, replace(result, answer=result.probs[::-1]))


def test_the_distance_of_rates_from_a_ball_is_that_of_a_single_rate() -> None:
    ball = rate_sets.near(RATES, 0.1, "euclidean")
    outside = RATES + 0.2 * np.array([1.0, -0.5, -0.5]) / np.sqrt(1.5)
    assert ball.distance(outside) == pytest.approx(0.1 / np.sqrt(3))
    assert ball.least(np.array([1.0, 0.0, 0.0])) == pytest.approx(0.25 - 0.1 / np.sqrt(1.5))
    assert rate_sets.near(RATES, 1.0, "chi2").least(np.array([1.0, 0.0, 0.0])) == 0


def test_support_and_distance_of_an_ellipsoid_are_those_of_a_cone_solver() -> None:
    rng = np.random.default_rng(0)
    for rank in (2, 1):  # the second one is flat
        root = np.array([[1.0, 0.2], [-1.0, 0.3], [0.0, -0.5]])[:, :rank]
        one = ellipsoids.ellipsoid(RATES, root @ root.T, 0.1)
        for price in rng.normal(size=(5, 3)):
            t = cp.Variable(3)
            inside = [cp.sum(t) == 1, *one.constraints(t)]
            assert cp.Problem(cp.Minimize(price @ t), inside).solve() == pytest.approx(one.least(price), abs=1e-6)
            outside = RATES + 0.3 * (price - price.mean())
            nearest = cp.Problem(cp.Minimize(cp.norm(t - outside, "inf")), inside).solve()
            assert 0 < one.distance(outside) <= nearest + 1e-6
        assert one.distance(RATES + 0.05 * root[:, 0]) == 0


def test_an_ellipsoid_around_draws_holds_the_stated_share() -> None:
    draws = np.random.default_rng(1).dirichlet([2.0, 3.0, 5.0], size=99)
    one = ellipsoids.around(draws, 0.6)
    assert sum(one.distance(draw) == 0 for draw in draws) == 60
    np.testing.assert_allclose(one.bounds(), br.Rates.from_samples(draws, 0.6).bounds(), atol=1e-9)


def test_wrong_bounds_are_reported() -> None:
    one = replace(problem(), known=Known("br.Rates.between(None, 0.6)", lambda size: rate_sets.between(*BOX)))
    assert findings("rate set", one, one.call())


class Failing(Problem):
    """A problem whose call fails in a given way."""

    def call(self) -> br.Adjustment:
        if self.case == 1:
            raise ZeroDivisionError("division by zero")
        if self.case == 2:
            warnings.warn("overflow encountered", RuntimeWarning, stacklevel=1)
        if self.case == 3:
            raise br.BaserateError("these rows are not allowed")
        if self.case == 4:
            raise br.InfeasibleRates("impossible", classes=[0], reachable=0.0, wanted=1.0)
        return super().call()


@pytest.mark.parametrize(("case", "check"), [(1, "exception"), (2, "warning"), (3, "refusal"), (4, "refusal")])
def test_exceptions_warnings_and_wrong_refusals_are_reported(case: int, check: str) -> None:
    fine = problem()
    one = Failing(0, case, "adjust", fine.formula, fine.probs, "C", fine.known)
    assert [finding.check for finding in checks.run_case(one).findings] == [check]


def test_a_missing_warning_about_convergence_is_reported() -> None:
    result = problem().call()
    assert list(checks.wrong_warnings([], result)) == []
    assert list(checks.wrong_warnings([], replace(result, converged=False)))


def test_slow_cases_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "SLOW", 0.0)
    assert [finding.check for finding in checks.run_case(problem()).findings] == ["time"]


def solve_or_hang(seed: int, case: int) -> Any:
    if case == 1:
        time.sleep(600)
    if case == 2:
        os._exit(7)
    return case


def test_cases_that_hang_or_crash_are_reported_and_the_others_go_on() -> None:
    outcomes = list(run_cases(solve_or_hang, 0, iter(range(5)), workers=1, seconds=300, hanging=3.0))
    lost = [outcome for outcome in outcomes if isinstance(outcome, Lost)]
    assert [(one.case, one.reason.split()[0]) for one in lost] == [(1, "no"), (2, "the")]
    assert [outcome for outcome in outcomes if not isinstance(outcome, Lost)] == [0, 3, 4]


def test_a_case_is_the_same_each_time_and_its_program_gives_the_same_answer() -> None:
    for case in range(30):
        one, other = make_problem(4, case), make_problem(4, case)
        assert one.source() == other.source()
        if one.probs.size > 500:
            continue
        names: dict[str, Any] = {}
        with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
            warnings.simplefilter("ignore", br.NotConvergedWarning)
            patch.setenv("BASERATE_KERNELS", one.kernels)
            patch.chdir(ROOT)
            patch.setattr(sys, "path", list(sys.path))
            try:
                expected = one.call().probs
            except br.BaserateError as error:
                with pytest.raises(type(error)):
                    exec(one.source(), names)
            else:
                exec(one.source(), names)
                np.testing.assert_array_equal(names["result"].probs, expected)


FORMULAS = [
    formulas.log(), formulas.brier(), formulas.ranked(), formulas.spherical(), formulas.power(0.5), formulas.power(1.0),
    formulas.power(1.0000001), formulas.power(2.0), formulas.power(7.5), formulas.weighted_brier(np.array([1, 5, 0.1])),
    formulas.quadratic(np.array([[2.0, 0.7, -0.3], [0.7, 1.0, 0.2], [-0.3, 0.2, 1.5]])),
    formulas.hierarchical([0, 0, 1], 0.5), *map(formulas.separable, formulas.SEPARABLE),
]  # fmt: skip


@pytest.mark.parametrize("formula", FORMULAS, ids=lambda f: f.code[:40])
def test_the_formulas_agree_with_the_losses_of_the_library(formula: formulas.Formula) -> None:
    loss = evaluate(formula.code)
    expected = np.array([[loss.score(row[None], [j]) for j in range(3)] for row in PROBS])
    np.testing.assert_allclose(formula.scores(PROBS), expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(
        formula.divergence(PROBS, PROBS[::-1]), loss.divergence(PROBS, PROBS[::-1]), rtol=1e-9, atol=1e-9
    )


def run_tool(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, str(ROOT / "tools" / "fuzz.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=ROOT, timeout=300)


def test_a_hundred_cases_pass(tmp_path: Path) -> None:
    path = tmp_path / "findings.json"
    done = run_tool("--cases", "100", "--first", "1000", "--seed", "21", "--workers", "1", "--json", str(path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith("100 cases, seed 21: 0 wrong certificates, 0 wrong gaps")
    assert json.loads(path.read_text()) == []


def test_replay_prints_the_problem_and_every_check() -> None:
    done = run_tool("--replay", "4:3")
    assert "result = br." in done.stdout
    assert all(f"# {name}: " in done.stdout for name in checks.CHECKS)


def test_the_summary_counts_findings_and_fails_if_too_many_did_not_converge() -> None:
    fine = {"findings": [], "answered": True, "converged": True, "beyond_float64": False, "seconds": 0.1}
    text, wrong = fuzz.summarise([fine] * 200, 1)
    assert "0 wrong certificates" in text
    assert not wrong
    finding = {"check": "certificate"}
    text, wrong = fuzz.summarise([fine] * 199 + [{**fine, "findings": [finding]}], 1)
    assert "1 wrong certificates" in text
    assert wrong
    assert not fuzz.summarise([fine] * 199 + [{**fine, "converged": False}], 1)[1]
    assert fuzz.summarise([fine] * 198 + [{**fine, "converged": False}] * 2, 1)[1]
    text, wrong = fuzz.summarise([fine] * 198 + [{**fine, "converged": False, "beyond_float64": True}] * 2, 1)
    assert "2 not converged (1.00%, or 0.00% without inputs beyond float64)" in text
    assert not wrong
