"""A problem: what is passed to the library, the same as a program, and what it means in our own formulas."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax, xlogy

import baserate as br
from fuzzing.formulas import Array, Formula
from fuzzing.rate_sets import RateSet

ROOT = Path(__file__).resolve().parents[2]
_KERNELS = "BASERATE_KERNELS"
_TINY = float(np.finfo(np.float64).tiny)

LAYOUTS = {
    "C": "probs",
    "F": "np.asfortranarray(probs)",
    "strided": "np.repeat(np.repeat(probs, 2, axis=0), 3, axis=1)[::2, ::3]",
    "negative strides": "probs[::-1, ::-1].copy()[::-1, ::-1]",
    "read-only": "np.frombuffer(probs.tobytes(), probs.dtype).reshape(probs.shape)",
    "other byte order": "probs.astype(probs.dtype.newbyteorder())",
    "list": "probs.tolist()",
}
"""How the matrix is laid out in memory, as Python."""


class Known(NamedTuple):
    """What is known about the rates: the argument of the library as Python, and the same as a set of our own."""

    code: str
    rate_set: Callable[[int], RateSet]
    of_sample: bool = False


@dataclass(frozen=True, eq=False)
class Problem:
    """One call of the library.

    Attributes
    ----------
    seed, case : int
    verb : "adjust", "additive", "multiplicative" or "prior_adjust"
    formula : Formula
        The loss; log loss for the last two verbs, and the Brier score for "additive".
    probs : array of shape (n, k)
        What is passed as the predictions, in the order of C.
    layout : str
        A key of ``LAYOUTS``.
    known : Known
    options : dict
        The other options of the call, as plain values.
    kernels : "auto", "off" or "always"
    old_rates : list, optional
        For "prior_adjust".
    """

    seed: int
    case: int
    verb: str
    formula: Formula
    probs: NDArray[Any]
    layout: str
    known: Known
    options: dict[str, Any] = field(default_factory=dict)
    kernels: str = "auto"
    old_rates: list[float] | None = None

    @property
    def name(self) -> str:
        """The text by which the case is replayed."""
        return f"{self.seed}:{self.case}"

    @property
    def bounded(self) -> bool:
        """Whether the entries of the answer must lie in [0, 1]."""
        asked = self.verb != "additive" and self.options.get("bounded", True)
        return bool(asked) or not self.formula.real

    @property
    def from_logits(self) -> bool:
        return bool(self.options.get("from_logits", False))

    @property
    def uses_kernels(self) -> bool:
        """Whether the library may use compiled kernels."""
        return self.kernels == "always" and self.formula.name in ("log", "brier")

    @cached_property
    def log_predictions(self) -> Array:
        """The logarithms of the predictions, from logits without rounding to 0."""
        rows = self.probs.astype(np.float64)
        if not self.from_logits:
            with np.errstate(divide="ignore"):
                return np.asarray(np.log(self.predictions))
        logs = np.asarray(log_softmax(rows, axis=1))
        zeros = self.options.get("zeros", "keep")
        if zeros != "keep":
            logs = np.logaddexp(logs, np.log(zeros)) - np.log1p(rows.shape[1] * zeros)
        return logs

    @cached_property
    def predictions(self) -> Array:
        """The predictions as probabilities. A finite logit is not an exact 0 under a loss that could not move it."""
        if self.from_logits:
            p = np.exp(self.log_predictions)
            return (
                np.where(np.isfinite(self.log_predictions), np.maximum(p, _TINY), p) if self.formula.pins_zeros else p
            )
        p = self.probs.astype(np.float64)
        p = p / p.max(axis=1, keepdims=True)
        p = p / p.sum(axis=1, keepdims=True)
        zeros = self.options.get("zeros", "keep")
        return p if zeros == "keep" else (p + zeros) / (1.0 + p.shape[1] * zeros)

    @cached_property
    def scores(self) -> Array:
        """The loss of each prediction on each label."""
        return -self.log_predictions if self.formula.name == "log" else self.formula.scores(self.predictions)

    @cached_property
    def weights(self) -> Array:
        """Weights of the rows, with sum 1."""
        given = self.options.get("sample_weight")
        w = np.ones(len(self.probs)) if given is None else np.asarray(given, dtype=np.float64)
        w = w / w.max()
        return w / w.sum()

    @cached_property
    def beyond_float64(self) -> bool:
        """Whether float64 may have too few digits for a shift that meets the tolerance, judged by the input alone.

        One reason is a label whose loss under a prediction is so large that adding the shift loses the digits that
        decide the rates (Power with beta below 1 and probabilities near 0). The other is a row with so little weight,
        or none, that an unbounded spherical answer would need entries in the millions.
        """
        tol = float(self.options.get("tol", 1e-10))
        if self.formula.name == "spherical" and not self.bounded:
            return float(self.weights.min()) < 1e-7
        counted = self.scores[self.weights > 0]
        largest = float(np.abs(counted[np.isfinite(counted)]).max(initial=0.0))
        return self.formula.pins_zeros and bool(largest * np.finfo(np.float64).eps > tol)

    @cached_property
    def batch_size(self) -> int:
        """The number of rows that the rates are for: Kish's effective number, if the rows have weights."""
        if not self.known.of_sample:
            return len(self.probs)
        return max(int((1.0 + 1e-9) / float(self.weights @ self.weights)), 1)

    @cached_property
    def rate_set(self) -> RateSet:
        return self.known.rate_set(self.batch_size)

    @cached_property
    def matrix(self) -> Any:
        """The predictions as they are passed to the library."""
        return evaluate(LAYOUTS[self.layout], probs=self.probs)

    @property
    def answer_dtype(self) -> np.dtype[Any]:
        """The dtype of the answer: that of the option, or of the predictions as they are passed."""
        given = np.asarray(self.matrix).dtype
        narrow = given.kind == "f" and given.itemsize <= 4
        return np.dtype(self.options.get("dtype", "float32" if narrow else "float64"))

    @cached_property
    def loss(self) -> Any:
        """The loss of the library."""
        return library_loss(self.formula.code)

    def call(self) -> br.Adjustment:
        """The answer of the library."""
        rates, options = evaluate(self.known.code), dict(self.options)
        if self.old_rates is not None:
            return br.prior_adjust(self.matrix, self.old_rates, rates, **options)
        if self.verb == "adjust":
            options["loss"] = self.loss
        return getattr(br, self.verb)(self.matrix, rates, **options)

    def source(self) -> str:
        """The problem as a Python program."""
        lines = ["import os", "import numpy as np", "from numpy import inf", "import baserate as br"]
        if "xlogy" in self.formula.code:
            lines.append("from scipy.special import xlogy")
        if "Hierarchical" in self.formula.code:
            lines += ["import sys", 'sys.path.insert(0, "examples")', "from hierarchical_log import HierarchicalLog"]
        lines += [f'os.environ["{_KERNELS}"] = "{self.kernels}"']
        lines += [f'probs = np.array({self.probs.tolist()!r}, dtype="{self.probs.dtype}")']
        arguments = [LAYOUTS[self.layout], *([] if self.old_rates is None else [repr(self.old_rates)]), self.known.code]
        if self.verb == "adjust":
            arguments.append(f"loss={self.formula.code}")
        arguments += [f"{name}={value!r}" for name, value in self.options.items()]
        return "\n".join([*lines, f"result = br.{self.verb}({', '.join(arguments)})"])


@contextmanager
def kernel_setting(setting: str) -> Iterator[None]:
    """Switch the compiled kernels on or off."""
    before = os.environ.get(_KERNELS)
    os.environ[_KERNELS] = setting
    try:
        yield
    finally:
        if before is None:
            del os.environ[_KERNELS]
        else:
            os.environ[_KERNELS] = before


@cache
def _names() -> dict[str, Any]:
    path = ROOT / "examples" / "hierarchical_log.py"
    registered = {cls.name: cls for cls in br.losses.registered()}
    if path.stem not in registered:  # Importing the file registers its loss.
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
        registered = {cls.name: cls for cls in br.losses.registered()}
    return {"br": br, "np": np, "inf": np.inf, "xlogy": xlogy, "HierarchicalLog": registered[path.stem]}


def evaluate(code: str, **names: Any) -> Any:
    """The value of Python code that a problem prints, so that what is printed is what was run."""
    return eval(code, {**_names(), **names})


@cache
def library_loss(code: str) -> Any:
    """The loss that this code creates."""
    return evaluate(code)
