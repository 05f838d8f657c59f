"""Assertions and random problems that are shared by several test files."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import math
import os
import signal
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import baserate as br
from baserate.cli import main

Array = NDArray[np.float64]

# Importing this example registers its loss, so that all tests of losses also run on it.
_EXAMPLE = Path(__file__).parents[1] / "examples" / "hierarchical_log.py"
_spec = importlib.util.spec_from_file_location("hierarchical_log", _EXAMPLE)
assert _spec is not None
assert _spec.loader is not None
sys.modules["hierarchical_log"] = importlib.util.module_from_spec(_spec)  # so that it is not imported a second time
_spec.loader.exec_module(sys.modules["hierarchical_log"])

ALL_LOSSES = [example for cls in br.losses.registered() for example in cls.examples()]
"""Examples of every registered loss, each with a number of classes that it supports."""

COMMON_LOSSES = [
    br.losses.Log(),
    br.losses.Brier(),
    br.losses.Spherical(),
    br.losses.Power(1.5),
    br.losses.RankedProbability(),
]
"""One loss of each common family."""

KERNEL_LOSSES = [br.losses.Log(), br.losses.Brier()]
"""The losses that have compiled kernels."""


class NoFallback:
    """Stands for the NumPy passes of kernels that must compute a block themselves."""

    def __getattr__(self, name: str) -> Any:
        def fail(*_: Any, **__: Any) -> None:
            raise AssertionError(f"the kernels left {name} to NumPy")

        return fail


CASES = float(os.environ.get("BASERATE_CASES", "0.25"))
"""The share of the random cases that a test runs. `make stress` sets it to 1 or more."""


def number_of_cases(n: int) -> int:
    """The number of random cases that a test runs in place of ``n``."""
    return max(1, math.ceil(n * CASES))


def cases(n: int) -> settings:
    """Hypothesis settings for ``n`` examples, or for a share of them; see :data:`CASES`."""
    return settings(max_examples=number_of_cases(n))


@contextmanager
def kernel_setting(setting: str) -> Iterator[None]:
    """Set the environment variable BASERATE_KERNELS to "auto", "off" or "always" inside a ``with`` block."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BASERATE_KERNELS", setting)
        yield


class Finished(NamedTuple):
    """What a command has printed, and its exit code."""

    returncode: int
    stdout: str
    stderr: str


def run_command(folder: Path, *arguments: str, code: int | None = 0) -> Finished:
    """Run a command of ``baserate`` in this process, with ``folder`` as the working folder.

    A process of its own would need a second for imports. The kernels have their default setting, which a user has.
    Fails if the exit code is not ``code`` (unless that is None), or if the command changes the state of this process.
    """
    # Not click's CliRunner: with click 8.1, which pyproject.toml allows, it mixes standard output and standard error.
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    before = _process_state()
    with pytest.MonkeyPatch.context() as patch, contextlib.chdir(folder):
        patch.delenv("BASERATE_KERNELS", raising=False)
        patch.setattr(sys, "argv", ["baserate", *arguments])
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as ended:
            main(prog_name="baserate")
    stdout, stderr = (stream.buffer.getvalue().decode() for stream in (out, err))
    assert code in (None, ended.value.code), stderr
    assert _process_state() == before, "the command has changed the state of the process"
    return Finished(ended.value.code, stdout, stderr)


def _process_state() -> dict[str, Any]:
    """What a command may change while it runs, and must restore."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    return {
        "folder": Path.cwd(),
        # Not those of OpenMP: importing scikit-learn for the first time sets one of them.
        "environment": {name: value for name, value in os.environ.items() if not name.startswith("KMP_")},
        "signals": [signal.getsignal(number) for number in signal.valid_signals()],
        "timer": signal.getitimer(signal.ITIMER_REAL),
        "warnings": (list(warnings.filters), warnings.showwarning),
        "figures": pyplot.get_fignums() if pyplot else [],
    }


def loss_id(value: object) -> str | None:
    """The name of a loss in the id of a parametrized test; None for parameters that are not losses."""
    return repr(value)[:60] if isinstance(value, br.losses.Loss) else None


def assert_certified(result: br.Adjustment, *, bounded: bool = True, relative: bool = False) -> None:
    """Check what must hold for every converged result; residual, gap and sums may have rounding errors of float32.

    With ``relative`` the gap may grow with the objective, which reaches 1e10 for Power with a small beta.
    """
    certificate, a = result.certificate, result.probs
    rounding = 1e-6 if a.dtype == np.float32 else 0.0
    assert result.converged
    assert certificate.residual <= 1e-10 + rounding
    assert certificate.gap <= 1e-9 * (max(1.0, certificate.loss_reduction) if relative else 1.0) + rounding
    assert certificate.loss_reduction >= -rounding
    sums = a.sum(axis=1, dtype=np.float64)
    assert np.abs(sums - 1).max() <= (1e-12 if bounded else 1e-12 * max(1, np.abs(a).max())) + rounding
    if bounded:
        assert a.min() >= 0
    assert np.abs(result.rates - result.wanted).max() == certificate.residual


def random_loss(rng: np.random.Generator, k: int) -> br.losses.Loss:
    """A random loss for ``k`` classes."""
    root = rng.normal(size=(k, k))
    return [
        br.losses.Log(),
        br.losses.Brier(),
        br.losses.Spherical(),
        br.losses.RankedProbability(),
        br.losses.Power(float(rng.choice([0.1, 0.5, 1.0, 1.3, 1.7, 2.0, 3.0, 5.0]))),
        br.losses.Quadratic(root @ root.T + 0.1 * np.eye(k)),
        br.losses.WeightedBrier(rng.uniform(0.2, 5.0, size=k)),
    ][rng.integers(7)]


@st.composite
def labelled_problems(
    draw: st.DrawFn, *, zeros: bool = False, losses: Sequence[br.losses.Loss] | None = None
) -> dict[str, Any]:
    """Arguments of ``br.adjust``, and labels ``y`` (one-hot rows or posteriors) that have exactly these rates.

    With ``zeros`` some probabilities are 0 if the loss can move them. The loss is one of ``losses`` if they are given.
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, k = draw(st.integers(1, 12)), draw(st.integers(2, 5))
    sharpness = draw(st.sampled_from([0.3, 1.0, 3.0, 10.0]))
    loss = random_loss(rng, k) if losses is None else draw(st.sampled_from(losses))
    if isinstance(loss, br.losses.Power) and loss.beta < 1:
        # Sharper predictions have dual points above 1e15, where float64 cannot represent fractions.
        sharpness = min(sharpness, 3.0)
    logits = sharpness * rng.normal(size=(n, k))
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    weights = None if draw(st.booleans()) else rng.uniform(0.1, 3.0, size=n)
    y = np.eye(k)[rng.integers(k, size=n)] if draw(st.booleans()) else rng.dirichlet(np.ones(k), size=n)
    if zeros and not loss.pins_zeros:
        p = np.where(rng.random(p.shape) < 0.3, 0.0, p)
        p[np.arange(n), rng.integers(k, size=n)] += 0.1
        p /= p.sum(axis=1, keepdims=True)
    rates = np.average(y, axis=0, weights=weights)
    return {"probs": p, "y": y, "rates": rates, "loss": loss, "sample_weight": weights}


@st.composite
def problems_with_sets(draw: st.DrawFn, *, zeros: bool = False) -> dict[str, Any]:
    """A labelled problem with a rate set that contains the rates of the labels."""
    problem = draw(labelled_problems(zeros=zeros))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return {**problem, "rates": random_set(rng, problem["rates"])}


def random_set(rng: np.random.Generator, rates: Array) -> br.Rates:
    """A rate set that contains the given rates: bounds, bounds on some classes only, or a ball."""
    k = len(rates)
    width = float(rng.choice([0.0, 0.01, 0.1, 0.5]))
    low, high = np.maximum(rates - width * rng.random(k), 0), np.minimum(rates + width * rng.random(k), 1)
    kind = rng.integers(4)
    if kind == 0:
        return br.Rates.between(low, high)
    if kind == 1:
        known = rng.random((2, k)) < 0.5
        sides = [
            [float(v) if here else None for v, here in zip(*side, strict=True)]
            for side in ((low, known[0]), (high, known[1]))
        ]
        return br.Rates.between(*sides)
    centre = rng.dirichlet(np.ones(k))
    metric, scale = ("euclidean", np.ones(k)) if kind == 2 else ("chi2", 1 / centre)
    radius = float(np.sqrt(scale @ (rates - centre) ** 2))
    return br.Rates.near(centre, radius * float(rng.choice([1 + 1e-9, 1.1, 2.0])), metric=metric)


def mean_loss(loss: br.losses.Loss, p: Array, y: Array, weights: Array | None) -> float:
    """Weighted mean divergence from predictions to labels, computed row by row and without ``Loss.score``."""
    with np.errstate(divide="ignore", invalid="ignore"):
        rows = [loss.divergence(p[i : i + 1], y[i : i + 1])[0] for i in range(len(p))]
    return float(np.average(rows, weights=weights))
