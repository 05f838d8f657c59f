"""Compiled kernels: the same results and errors as NumPy, and no compilation for small inputs."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import Array, assert_certified, cases, kernel_setting

import baserate as br
from baserate.core import dual, fit, newton
from baserate.core.contracts import Block
from baserate.core.curvature_choice import FEW_CLASSES
from baserate.core.newton import Target
from baserate.engines.memory import MemoryEngine
from baserate.errors import BadLoss, BadOption, BadProbabilities, BadRates
from baserate.passes import choose_passes
from baserate.solving import parse_request

LOSSES = ["log", "brier"]
SIZES = [1, 2, 63, 64, 65, 127, 128, 129, 400]
CLASSES = [2, 3, 5, 8, 20, 130, 257]


def adjust_with(kernels: str, *args: Any, **options: Any) -> br.Adjustment | br.BaserateError:
    """The result of ``br.adjust`` with a setting for kernels, or the error that it raises."""
    with kernel_setting(kernels):
        try:
            return br.adjust(*args, **options)
        except br.BaserateError as error:
            return error


def assert_same(*args: Any, atol: float = 1e-12, **options: Any) -> br.Adjustment | br.BaserateError:
    """Check that kernels and NumPy give the same result or the same error, and return that of the kernels."""
    fast, plain = adjust_with("always", *args, **options), adjust_with("off", *args, **options)
    if isinstance(plain, br.BaserateError) or isinstance(fast, br.BaserateError):
        assert (type(fast), str(fast)) == (type(plain), str(plain))
        return fast
    assert fast.probs.dtype == plain.probs.dtype
    rounding = 1.2e-7 if fast.probs.dtype == np.float32 else 1e-12  # last digits of float64 decide where float32 rounds
    atol = max(atol, rounding)
    np.testing.assert_allclose(fast.probs, plain.probs, rtol=0, atol=atol)
    np.testing.assert_allclose(fast.rates, plain.rates, rtol=0, atol=atol)
    assert not ((fast.probs == 0) & (plain.probs > 1e-300)).any()
    claim = plain.certificate.loss_reduction
    assert fast.certificate.loss_reduction == pytest.approx(claim, abs=rounding, rel=rounding)
    assert fast.converged == plain.converged
    assert plain.engine == "numpy"
    return fast


def random_rows(rng: np.random.Generator, n: int, k: int, sharpness: float, zeros: float) -> Array:
    """Random predictions; about the share ``zeros`` of the probabilities is 0."""
    logits = sharpness * rng.normal(size=(n, k))
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p[(rng.random((n, k)) < zeros) & (p < p.max(axis=1, keepdims=True))] = 0.0
    return np.asarray(p / p.sum(axis=1, keepdims=True))


@given(
    seed=st.integers(0, 2**32 - 1),
    loss=st.sampled_from(LOSSES),
    n=st.sampled_from(SIZES),
    k=st.sampled_from(CLASSES),
    sharpness=st.sampled_from([0.3, 1.0, 3.0, 10.0]),
    zeros=st.sampled_from([0.0, 0.0, 0.1]),
    dtype=st.sampled_from([np.float64, np.float32]),
    order=st.sampled_from(["C", "F", "strided"]),
    weighted=st.booleans(),
    reading=st.sampled_from([{}, {"normalize": True}, {"zeros": 1e-6}]),
    known=st.sampled_from(["exact", "exact", "a rate of 0", "box"]),
    answer=st.sampled_from([None, "float32", "float64"]),
)
@cases(500)
def test_kernels_and_numpy_agree(
    seed: int,
    loss: str,
    n: int,
    k: int,
    sharpness: float,
    zeros: float,
    dtype: Any,
    order: str,
    weighted: bool,
    reading: dict[str, Any],
    known: str,
    answer: str | None,
) -> None:
    rng = np.random.default_rng(seed)
    p = random_rows(rng, n, k, sharpness, zeros)
    if "normalize" in reading:
        p *= rng.uniform(0.1, 1e6, size=(n, 1))
    p = np.repeat(p, 2, axis=1)[:, ::2] if order == "strided" else np.array(p, order=order)  # type: ignore[call-overload]  # a str
    p = p.astype(dtype, order="K")
    rates: Any = rng.dirichlet(np.ones(k))
    if known == "a rate of 0":
        rates[rng.integers(k)] = 0.0
        rates /= rates.sum()
    if known == "box":
        rates = br.Rates.between(0.8 * rates, np.minimum(1.2 * rates, 1.0))
    weights = rng.random(n) * (rng.random(n) < 0.9) + (np.arange(n) == 0) if weighted else None
    assert_same(p, rates, loss=loss, sample_weight=weights, dtype=answer, **reading)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("k", [3, 60])
@pytest.mark.parametrize("sharpness", [20, 100, 300])
def test_over_confident_predictions_give_the_same_result(loss: str, k: int, sharpness: int) -> None:
    rng = np.random.default_rng(k)
    p = random_rows(rng, 400, k, 1.5 * sharpness, 0.0) + 5e-324  # as small as denormal numbers, but never 0
    result = assert_same(p, rng.dirichlet(np.ones(k)), loss=loss, atol=1e-9)
    assert isinstance(result, br.Adjustment)
    assert result.engine == "numba"
    assert_certified(result)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, -1e-3, 3.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "row", "k"), [(1, 0, 3), (64, 63, 3), (65, 64, 3), (1000, 517, 3), (70, 69, 60)])
@pytest.mark.parametrize("options", [{}, {"normalize": True}])
def test_invalid_values_are_found_in_every_row(
    loss: str, value: float, dtype: Any, n: int, row: int, k: int, options: dict[str, Any]
) -> None:
    p = np.random.default_rng(0).dirichlet(np.ones(k), size=n).astype(dtype)
    p[row, k - 1] = value
    answer = assert_same(p, np.full(k, 1 / k), loss=loss, **options)
    if not (value == 3.0 and options):
        assert isinstance(answer, BadProbabilities)
        assert f"row {row}" in str(answer)


def test_rows_whose_sum_overflows_are_normalised_and_rows_of_zeros_are_rejected() -> None:
    p = np.array([[1e308, 1e308, 1.0], [1.0, 2.0, 3.0]])
    answer = assert_same(p, [0.3, 0.3, 0.4], normalize=True)
    assert isinstance(answer, br.Adjustment)
    p[1] = 0.0
    assert "all entries of row 1 are 0" in str(assert_same(p, [0.3, 0.3, 0.4], normalize=True))


@pytest.mark.parametrize("loss", LOSSES)
def test_denormal_probabilities_do_not_become_zero(loss: str) -> None:
    rng = np.random.default_rng(3)
    p = np.column_stack([10.0 ** rng.uniform(-323, -290, size=200), rng.random(200), np.zeros(200)])
    p[:, 2] = 1.0 - p[:, 0] - p[:, 1]
    answer = assert_same(p, [0.2, 0.3, 0.5], loss=loss, atol=1e-9)
    assert isinstance(answer, br.Adjustment)
    assert_certified(answer)
    assert answer.probs[:, 0].min() > 0


@pytest.mark.parametrize("loss", LOSSES)
def test_a_sample_of_sorted_rows_does_not_change_the_result_or_hide_an_invalid_row(loss: str) -> None:
    rng = np.random.default_rng(4)
    p = random_rows(rng, 70_001, 4, 2.0, 0.0)
    p = p[np.lexsort(p.T)]
    result = assert_same(p, [0.4, 0.3, 0.2, 0.1], loss=loss)
    assert isinstance(result, br.Adjustment)
    assert_certified(result)
    assert result.n_passes <= 6
    p[69_999, 2] = np.nan
    assert "row 69999, column 2 is nan" in str(assert_same(p, [0.4, 0.3, 0.2, 0.1], loss=loss))


@pytest.mark.parametrize("loss", LOSSES)
def test_an_estimated_curvature_gives_the_same_result(loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    p, rates = random_rows(rng, 16_500, 270, 3.0, 0.0).astype(np.float32), rng.dirichlet(np.full(270, 3.0))
    calls: list[Any] = []
    learn = newton.learn_curvature
    monkeypatch.setattr(newton, "learn_curvature", lambda *points: (calls.append(points), learn(*points))[1])
    monkeypatch.setenv("BASERATE_KERNELS", "always")
    monkeypatch.setattr(dual, "many_classes", lambda model, rate_set: False)  # as for rows in files
    result = br.adjust(p, rates, loss=loss, normalize=True)
    assert result.engine == "numba"
    assert calls
    assert_certified(result)
    monkeypatch.setattr(fit, "FEW_CLASSES", 1000)
    summed = br.adjust(p, rates, loss=loss, normalize=True)
    np.testing.assert_allclose(result.probs, summed.probs, rtol=0, atol=1e-7)


@pytest.mark.parametrize("loss", [*LOSSES, "spherical", "ranked", br.losses.Power(1.5)])
def test_an_extrapolated_step_that_is_not_accurate_is_corrected(loss: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(6)
    p, rates = random_rows(rng, 300, 5, 3.0, 0.0), rng.dirichlet(np.ones(5))
    monkeypatch.setenv("BASERATE_KERNELS", "off")
    known = br.adjust(p, rates, loss=loss)
    monkeypatch.setattr(newton, "_next_error", lambda before, now, order: 0.0)
    inexact = br.adjust(p, rates, loss=loss)
    assert_certified(inexact)
    assert inexact.n_passes > known.n_passes
    np.testing.assert_allclose(inexact.probs, known.probs, rtol=0, atol=1e-9)


def test_many_rows_that_kernels_leave_to_numpy_are_adjusted(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(11)
    one_column, two_columns = rng.random(120_000), random_rows(rng, 120_000, 2, 2.0, 0.0)
    positive = br.adjust(one_column[:2000], 0.1)
    unchanged = br.adjust(two_columns[:2000], two_columns[:2000].mean(axis=0))
    for fitted, new in ((positive, one_column), (unchanged, two_columns)):
        answers = []
        for kernels in ("off", "always"):
            monkeypatch.setenv("BASERATE_KERNELS", kernels)
            answers.append(fitted.apply(new))
        np.testing.assert_allclose(answers[1], answers[0], rtol=0, atol=1e-14)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("k", [4, FEW_CLASSES + 1])
def test_apply_gives_the_same_rows_with_kernels_and_numpy(loss: str, k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BASERATE_KERNELS", "always")
    rng = np.random.default_rng(10)
    p, rates = random_rows(rng, 500, k, 2.0, 0.0), rng.dirichlet(np.ones(k))
    if k <= FEW_CLASSES:  # the kernels for many classes need positive rates
        rates[0] = 0.0
    fitted = br.adjust(p, rates / rates.sum(), loss=loss)
    assert fitted.engine == "numba"
    np.testing.assert_allclose(fitted.apply(p), fitted.probs, rtol=0, atol=1e-14)
    n = 600_000 // k  # two blocks
    new = random_rows(rng, n, k, 2.0, 0.0)
    answers = []
    for kernels in ("off", "always"):
        monkeypatch.setenv("BASERATE_KERNELS", kernels)
        answers.append(fitted.apply(new))
    np.testing.assert_allclose(answers[1], answers[0], rtol=0, atol=1e-14)
    new[n - 10, 1] = np.nan
    with pytest.raises(BadProbabilities, match=f"row {n - 10}, column 1 is nan"):
        fitted.apply(new)


class ModifiedLog(br.losses.Log):
    """A loss that overrides a method of a built-in loss, so it must not use the kernel of that loss."""

    name = "modified_log"

    def row_map(self, x: Array, *, bounded: bool = True) -> Array:
        return super().row_map(x, bounded=bounded)


def test_other_losses_subclasses_logits_and_float16_use_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BASERATE_KERNELS", "always")
    p = np.random.default_rng(7).dirichlet(np.ones(3), size=50)
    assert br.adjust(p, [0.2, 0.3, 0.5]).engine == "numba"
    assert br.adjust(p, [0.2, 0.3, 0.5], loss=ModifiedLog()).engine == "numpy"
    assert br.adjust(p, [0.2, 0.3, 0.5], loss="spherical").engine == "numpy"
    assert br.adjust(np.log(p), [0.2, 0.3, 0.5], from_logits=True).engine == "numpy"
    assert br.adjust(p.astype(np.float16), [0.2, 0.3, 0.5]).engine == "numpy"


def test_an_unknown_kernel_setting_is_rejected() -> None:
    answer = adjust_with("on", [[0.5, 0.5]], [0.4, 0.6])
    assert isinstance(answer, BadOption)
    assert "'on'; it must be one of auto, off, always" in str(answer)


def adjusts_to_the_same_shift(shift: Array) -> bool:
    p = np.random.default_rng(8).dirichlet(np.ones(4), size=300_000)
    return bool(np.array_equal(br.adjust(p, [0.4, 0.3, 0.2, 0.1]).shift, shift))


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_process_can_adjust() -> None:
    p = np.random.default_rng(8).dirichlet(np.ones(4), size=300_000)
    shift = br.adjust(p, [0.4, 0.3, 0.2, 0.1]).shift
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply_async(adjusts_to_the_same_shift, (shift,)).get(timeout=60)


def test_no_tasks_run_in_the_background_after_an_error() -> None:
    engine = MemoryEngine(np.zeros((1_000_000, 2)), None)
    seen = []

    def task(block: Any) -> None:
        seen.append(block.start)
        if block.start == 0:
            raise BadProbabilities("invalid rows")

    with pytest.raises(BadProbabilities, match="invalid rows"):
        list(engine.map(task, 1000))
    after = len(seen)
    assert after < 100
    br.adjust(np.random.default_rng(0).dirichlet(np.ones(4), size=300_000), [0.4, 0.3, 0.2, 0.1])
    assert len(seen) == after


def run_in_new_process(code: str, **environment: str) -> str:
    """Run code in a new Python process without BASERATE_KERNELS, and return its output."""
    inherited = {name: value for name, value in os.environ.items() if name != "BASERATE_KERNELS"}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code)],
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_small_inputs_do_not_load_numba() -> None:
    code = """
        import sys, numpy as np, baserate as br
        p = np.random.default_rng(0).dirichlet(np.ones(8), size=1000)
        print(br.adjust(p, np.full(8, 1 / 8)).engine, "numba" in sys.modules, "sklearn" in sys.modules)
    """
    assert run_in_new_process(code) == "numpy False False"


BIG = """
    import sys, numpy as np
    {before}
    import baserate as br
    p = np.random.default_rng(0).dirichlet(np.ones(8), size=20_000)
    print(br.adjust(p, np.full(8, 1 / 8)).engine)
"""


def test_large_inputs_use_kernels_and_cache_them(tmp_path: Path) -> None:
    package, cache = tmp_path / "baserate", tmp_path / "cache"
    shutil.copytree(Path(br.__file__).parent, package)
    options = {"NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": str(tmp_path)}
    assert run_in_new_process(BIG.format(before=""), **options) == "numba"
    cached = {path: path.stat().st_mtime_ns for path in cache.rglob("*.nbc")}
    assert cached
    for path in cache.rglob("*.nbi"):  # compiling again would write the index files again
        path.chmod(0o444)
        cached[path] = path.stat().st_mtime_ns
    assert run_in_new_process(BIG.format(before=""), **options) == "numba"
    assert {path: path.stat().st_mtime_ns for path in cached} == cached
    # A change of one file makes all code new, since parts of it may be compiled into any other.
    with (package / "passes" / "kernels" / "tiles.py").open("a") as file:
        file.write("\n# changed\n")
    assert run_in_new_process(BIG.format(before=""), **options) == "numba"
    new = [path for path in cache.rglob("*.nbc") if path not in cached]
    assert len(new) == len([path for path in cached if path.suffix == ".nbc"])


def test_kernels_work_without_a_writable_cache() -> None:
    # Patched, since a read-only folder would not stop root from writing.
    read_only = """
    from numba.core import caching
    def none(*_): raise OSError("read-only")
    for locator in caching.CacheImpl._locator_classes: locator.ensure_cache_path = none
    """
    assert run_in_new_process(BIG.format(before=textwrap.dedent(read_only).replace("\n", "\n    "))) == "numba"


def test_numpy_is_used_if_numba_is_not_installed() -> None:
    without_numba = "sys.modules['numba'] = None"
    assert run_in_new_process(BIG.format(before=without_numba)) == "numpy"
    code = """
        import sys; sys.modules["numba"] = None
        import baserate as br
        try: br.adjust([[0.5, 0.5]], [0.4, 0.6])
        except br.BaserateError as error: print(error)
    """
    message = 'BASERATE_KERNELS is "always", but numba is not installed; pip install "baserate[fast]"'
    assert run_in_new_process(code, BASERATE_KERNELS="always") == message


@pytest.mark.parametrize("loss", [*LOSSES, "spherical"])
def test_adjust_many_gives_the_same_results_as_adjust(loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BASERATE_KERNELS", "always")
    rng = np.random.default_rng(9)
    batches = [
        (random_rows(rng, n, k, 2.0, 0.0), rng.dirichlet(np.ones(k)))
        for n in (1, 50, 700)
        for k in (2, 3, 8)
        for _ in "12"
    ]
    answers = br.adjust_many(batches, loss=loss)
    for answer, (p, rates) in zip(answers, batches, strict=True):
        np.testing.assert_array_equal(answer.probs, br.adjust(p, rates, loss=loss).probs)


def test_adjust_many_accepts_options_per_batch() -> None:
    p = [[0.7, 0.3], [0.4, 0.6]]
    plain, brier = br.adjust_many([(p, [0.3, 0.7]), {"probs": p, "rates": [0.3, 0.7], "loss": "brier"}], loss="log")
    assert (plain.loss, brier.loss) == (br.losses.Log(), br.losses.Brier())
    assert br.adjust_many([]) == []


def test_adjust_many_says_which_batch_is_invalid() -> None:
    p = [[0.7, 0.3], [0.4, 0.6]]
    batches: list[Any] = [(p, [0.3, 0.7]), (p, [0.3, 0.6]), (p, [0.5, 0.5])]
    with pytest.raises(BadRates) as caught:
        br.adjust_many(batches)
    assert caught.value.__notes__ == ["This was problem 1 of 3, counted from 0."]
    first, second, third = br.adjust_many(batches, errors="keep")
    assert isinstance(first, br.Adjustment)
    assert isinstance(second, BadRates)
    assert isinstance(third, br.Adjustment)
    with pytest.raises(BadOption, match="errors must be 'raise' or 'keep'"):
        br.adjust_many(batches, errors="drop")  # type: ignore[call-overload]  # invalid on purpose
    with pytest.raises(BadOption, match=r"a problem must be a pair \(probs, rates\) or a dict of arguments, not int"):
        br.adjust_many([3])  # type: ignore[list-item]  # invalid on purpose
    with pytest.raises(BadOption, match="the problem has no rates"):
        br.adjust_many([{"probs": p}])
    odd: list[Any] = [3, {"probs": p}, {"probs": p, "rates": [0.5, 0.5], "loss": "nonsense"}]
    assert [type(error) for error in br.adjust_many(odd, errors="keep")] == [BadOption, BadOption, BadLoss]


def test_adjust_many_loads_kernels_only_for_many_batches() -> None:
    code = """
        import sys, numpy as np, pandas as pd, baserate as br
        rng = np.random.default_rng(0)
        def batches(k): return [(rng.dirichlet(np.ones(k), size=500), np.full(k, 1 / k)) for _ in range(40)]
        print(br.adjust_many(batches(8), loss="spherical")[0].engine, "numba" in sys.modules)
        print({a.engine for a in br.adjust_many(batches(8)[:10])}, "numba" in sys.modules)
        print({a.engine for a in br.adjust_many(batches(8) + batches(60))})
        print({a.engine for a in br.adjust_many([(pd.DataFrame(p), r) for p, r in batches(8)], loss="brier")})
    """
    assert run_in_new_process(code).splitlines() == ["numpy False", "{'numpy'} False", "{'numba'}", "{'numba'}"]


@pytest.mark.parametrize("loss", LOSSES)
def test_kernels_and_numpy_report_many_invalid_rows_alike(loss: str) -> None:
    rng = np.random.default_rng(11)
    p = random_rows(rng, 40_000, 4, 1.0, 0.0)
    off_sum = p.copy()
    off_sum[[10_000, 16_000, 39_000]] *= [[0.7], [0.5], [0.2]]
    assert "the worst is row 16000" in str(assert_same(off_sum, np.full(4, 0.25), loss=loss))
    p[[10_000, 16_000, 39_000], 2] = np.nan
    assert "2 of the 16384 rows" in str(assert_same(p, np.full(4, 0.25), loss=loss))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("k", [2, 3, 8, 40])
def test_the_compiled_newton_method_takes_the_same_steps_as_the_general_one(
    loss: str, k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BASERATE_KERNELS", "always")
    rng = np.random.default_rng(12)
    solved = 0
    for _ in range(20):
        p, rates = random_rows(rng, 300, k, 1.5, 0.0), rng.dirichlet(np.full(k, 3.0))
        request = parse_request(p, rates, loss=loss)
        passes = choose_passes(request.model, request.rows)
        block = Block(p, np.full(len(p), 1 / len(p)), 0)
        found = passes.solve(block, rates, Target(1e-10, 500))
        with monkeypatch.context() as patch:
            patch.setattr(type(passes), "solves", lambda self, rows: False)
            general = br.adjust(p, rates, loss=loss)
        if found is None:  # the problem needs the general method
            continue
        solved += 1
        assert found.sums.n_passes == general.n_passes
        shift = found.sums.shift - found.sums.shift.mean()
        np.testing.assert_allclose(shift, general.shift, rtol=0, atol=1e-12)
        np.testing.assert_allclose(found.rows, general.probs, rtol=0, atol=1e-13)
    assert solved >= 15


def test_small_problems_with_kernels_are_solved_in_compiled_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BASERATE_KERNELS", "always")
    monkeypatch.setattr(fit, "begin", None)  # so that the general method fails
    p = np.random.default_rng(13).dirichlet(np.ones(4), size=500)
    assert_certified(br.adjust(p, [0.1, 0.2, 0.3, 0.4]))
    assert_certified(br.adjust_many([(p, [0.1, 0.2, 0.3, 0.4])])[0])


def test_adjust_many_takes_and_rejects_the_options_of_adjust() -> None:
    p, rates = [[0.7, 0.3], [0.4, 0.6]], [0.3, 0.7]
    (result,) = br.adjust_many([(p, rates)], progress=None, tol=1e-8)
    np.testing.assert_array_equal(result.probs, br.adjust(p, rates, tol=1e-8).probs)
    for option in ("fitted", "keep_rows", "kernels", "no_such_option"):
        with pytest.raises(TypeError, match=f"unexpected option '{option}'"):
            br.adjust_many([(p, rates)], **{option: True})


@pytest.mark.parametrize("batch", [(), [], ([[0.5, 0.5], [1.0]], [0.5, 0.5])])
def test_a_batch_that_is_not_a_problem_leaves_its_error_among_the_results(batch: Any) -> None:
    (error,) = br.adjust_many([batch], errors="keep")
    assert isinstance(error, br.BaserateError)


@pytest.mark.parametrize("kernels", ["off", "always"])
@pytest.mark.parametrize("loss", LOSSES)
def test_the_shift_is_anchored_at_the_rates(loss: str, kernels: str) -> None:
    # With another free constant, the huge shift of a rare class would push all others to where they have few digits.
    p, rates = np.random.default_rng(3).dirichlet(np.ones(4), size=50), np.array([0.1, 0.2, 0.3, 0.4])
    with kernel_setting(kernels):
        result = br.adjust(p, rates, loss=loss)
    assert abs(rates @ result.dual_shift) < 1e-13
