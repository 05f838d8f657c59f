"""Random and adversarial problems. Each follows from a seed and the number of the case alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzzing import ellipsoids, formulas, rate_sets
from fuzzing.formulas import Array, Formula
from fuzzing.problems import LAYOUTS, Known, Problem


def make_problem(seed: int, case: int) -> Problem:
    """The problem of a case."""
    rng = np.random.default_rng([seed, case])
    verb = str(rng.choice(["adjust", "additive", "multiplicative", "prior_adjust"], p=[0.85, 0.04, 0.04, 0.07]))
    n, k = _size(rng, [(1, 12), (13, 60), (61, 300)]), _size(rng, [(2, 6), (7, 20), (21, 80)])
    formula, k = _loss(rng, verb, k)
    probs, options = _rows(rng, n, k)
    weights = _weights(rng, n)
    if weights is not None:
        options["sample_weight"] = weights
    draft = Problem(seed, case, verb, formula, probs, "C", Known("", lambda size: rate_sets.exact(np.ones(k))), options)
    hard_zeros = bool((draft.predictions == 0).any())
    if hard_zeros and rng.random() < 0.25:
        options["zeros"] = float(rng.choice([1e-12, 1e-6, 1e-3, 0.1]))
        draft = Problem(seed, case, verb, formula, probs, "C", draft.known, options)
    known = _known(rng, draft, options)
    old_rates = None
    if verb == "prior_adjust":
        old_rates = _normalised(np.maximum(_simplex_point(rng, k), 1e-12)).tolist()
    else:
        _solver_options(rng, verb, options)
    layout = str(rng.choice(list(LAYOUTS), p=[0.4, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1]))
    if layout == "list" and probs.dtype == np.float16 and "from_logits" not in options:
        options["normalize"] = True  # a list of Python numbers does not say that it was rounded so much
    kernels = str(rng.choice(["auto", "off", "always"], p=[0.3, 0.3, 0.4]))
    if rng.random() < 0.2:
        options["dtype"] = str(rng.choice(["float32", "float64"]))
    return Problem(seed, case, verb, formula, probs, layout, known, options, kernels, old_rates)


def _solver_options(rng: np.random.Generator, verb: str, options: dict[str, Any]) -> None:
    if verb == "adjust" and rng.random() < 0.25:
        options["bounded"] = False
    if rng.random() < 0.5:
        options["tol"] = float(10.0 ** -rng.uniform(3, 12))
    if rng.random() < 0.04:
        options["max_passes"] = int(rng.integers(1, 6))


def _size(rng: np.random.Generator, ranges: list[tuple[int, int]]) -> int:
    low, high = ranges[rng.choice(3, p=[0.8, 0.14, 0.06])]
    return int(rng.integers(low, high + 1))


def _loss(rng: np.random.Generator, verb: str, k: int) -> tuple[Formula, int]:
    """A loss, and the number of classes, which a few losses limit."""
    if verb != "adjust":
        return (formulas.brier() if verb == "additive" else formulas.log()), k
    kinds = ["log", "brier", "power", "spherical", "ranked", "quadratic", "weighted", "separable", "hierarchical"]
    kind = str(rng.choice(kinds, p=[0.22, 0.17, 0.22, 0.08, 0.07, 0.07, 0.07, 0.06, 0.04]))
    if kind == "power":
        special = [0.5, 0.9, 0.999, 1.0, 1.0000001, 1.001, 1.005, 1.1, 1.5, 2.0, 2.5, 3.0]
        flat = rng.random() < 0.02  # few, because they take many seconds
        beta = rng.uniform(3.0, 20.0) if flat else rng.choice(special) if rng.random() < 0.7 else rng.uniform(0.5, 3.0)
        return formulas.power(float(beta)), k
    if kind == "quadratic":
        k = min(k, 20)  # more classes take seconds, as its docstring says
        root = rng.normal(size=(k, k)) * 10.0 ** rng.uniform(0, rng.choice([0.0, 1.0, 2.5]), size=(k, 1))
        product = root @ root.T + 0.05 * np.eye(k)
        return formulas.quadratic((product + product.T) / 2), k
    if kind == "weighted":
        return formulas.weighted_brier(10.0 ** rng.uniform(0, rng.choice([0.0, 1.0, 5.0]), size=k)), k
    if kind == "separable":
        return formulas.separable(str(rng.choice(list(formulas.SEPARABLE)))), k
    if kind == "hierarchical":
        return formulas.hierarchical(
            rng.integers(0, max(k // 2, 1), size=k).tolist(), float(rng.choice([0.1, 1, 5]))
        ), k
    return getattr(formulas, kind)(), k


def _rows(rng: np.random.Generator, n: int, k: int) -> tuple[NDArray[Any], dict[str, Any]]:
    """The matrix to pass, and the options that say how to read it."""
    dtype = str(rng.choice(["float64", "float32", "float16"], p=[0.7, 0.2, 0.1]))
    if rng.random() < 0.2:
        logits = rng.normal(size=(n, k)) * float(rng.choice([1.0, 10.0, 100.0, 400.0]))
        if rng.random() < 0.2:
            logits[_mask(rng, n, k, 0.3)] = -np.inf
        return np.clip(_repeated(rng, logits), -np.inf, 1000.0).astype(dtype), {"from_logits": True}
    styles = rng.choice(5, size=int(rng.integers(1, 3)))
    p = np.stack([_row(rng, k, int(rng.choice(styles))) for _ in range(n)])
    if rng.random() < 0.3:
        p[_mask(rng, n, k, 0.4)] = 0.0
        p[~p.any(axis=1)] = 1.0
    p = _repeated(rng, p / p.sum(axis=1, keepdims=True))
    if rng.random() < 0.1:
        scaled = (p * rng.uniform(0.1, 50.0, size=(n, 1))).astype(dtype)
        return scaled, {"normalize": True}
    return p.astype(dtype), {}


def _row(rng: np.random.Generator, k: int, style: int) -> Array:
    """One row of probabilities: soft, confident, with tiny entries, counted votes, or equal."""
    if style == 0:
        return np.asarray(rng.dirichlet(np.full(k, rng.choice([0.5, 1.0, 5.0]))) + 1e-9)
    if style == 1:
        logits = rng.normal(size=k) * float(rng.choice([5.0, 30.0, 200.0]))
        return np.exp(logits - logits.max())
    if style == 2:
        row = 10.0 ** -rng.uniform(0, rng.choice([3, 20, 300]), size=k)
        return row / row.max()
    if style == 3:
        return rng.multinomial(int(rng.integers(1, 20)), np.full(k, 1.0 / k)).astype(np.float64)
    return np.ones(k)


def _mask(rng: np.random.Generator, n: int, k: int, share: float) -> NDArray[np.bool_]:
    """Entries to set to 0, never all of a row."""
    mask = rng.random((n, k)) < share
    mask[np.arange(n), rng.integers(k, size=n)] = False
    return mask


def _repeated(rng: np.random.Generator, rows: Array) -> Array:
    """The rows, in some problems with only a few different ones."""
    return rows[rng.integers(max(len(rows) // 4, 1), size=len(rows))] if rng.random() < 0.1 else rows


def _weights(rng: np.random.Generator, n: int) -> list[float] | None:
    kind = rng.choice(5, p=[0.5, 0.2, 0.15, 0.08, 0.07])
    if kind == 0:
        return None
    if kind == 1:
        return [int(one) for one in rng.integers(1, 5, size=n)]
    if kind == 2:
        return rng.uniform(0.1, 3.0, size=n).tolist()
    if kind == 3:
        weights = rng.integers(0, 3, size=n)
        weights[rng.integers(n)] = 1
        return [int(one) for one in weights]
    return (10.0 ** rng.uniform(-10, 10, size=n)).tolist()


# Rates


def _known(rng: np.random.Generator, draft: Problem, options: dict[str, Any]) -> Known:
    """What the problem says about the rates. May add class names to the options."""
    target = _target(rng, draft)
    kinds = ["exact", "between", "near", "from_counts", "from_labels", "of_population", "by_matrix", "from_samples"]
    kind = str(rng.choice(kinds, p=[0.42, 0.16, 0.12, 0.07, 0.03, 0.06, 0.1, 0.04]))
    if draft.verb == "prior_adjust":
        target = _normalised(np.maximum(target, 1e-9))  # a class without rate cannot be rescaled
        kind = "exact" if kind == "between" else kind
    return globals()[f"_{kind}"](rng, target, options)


def _target(rng: np.random.Generator, draft: Problem) -> Array:
    """Rates of which most are possible for the rows, some only just."""
    p, k = draft.predictions, draft.probs.shape[1]
    pinned = draft.formula.pins_zeros and bool((p == 0).any())
    kind = rng.choice(6, p=[0.04, 0.4, 0.25, 0.25, 0.03, 0.03] if pinned else [0.35, 0.2, 0.2, 0.1, 0.1, 0.05])
    allowed = p > 0 if pinned else np.ones(p.shape, dtype=bool)
    if kind == 0:
        return _simplex_point(rng, k)
    if kind == 1:  # those of random labels
        labels = np.where(allowed, rng.random(p.shape), -1.0).argmax(axis=1)
        return _normalised(draft.weights @ np.eye(k)[labels])
    if kind == 2:  # near the mean prediction, or equal to it
        step = float(rng.choice([0.0, 1e-12, 1e-6, 0.01, 0.3, 2.0]))
        return _normalised((draft.weights @ p) * np.exp(step * rng.normal(size=k)))
    if kind == 3:  # on the boundary of what is possible: classes take all rows that they can get, one class at a time
        order = rng.random(k)
        labels = np.where(allowed, order, -1.0).argmax(axis=1)
        share = float(rng.choice([0.0, 0.0, 1e-9, 0.01]))
        return _normalised((1 - share) * (draft.weights @ np.eye(k)[labels]) + share * (draft.weights @ p))
    if kind == 4:  # some classes do not occur
        rates = _simplex_point(rng, k) * (rng.random(k) < 0.6)
        rates[rng.integers(k)] += 0.1
        return _normalised(rates)
    return np.eye(k)[rng.integers(k)]


def _simplex_point(rng: np.random.Generator, k: int) -> Array:
    if rng.random() < 0.2:
        return _normalised(10.0 ** -rng.uniform(0, 12, size=k))
    return _normalised(rng.dirichlet(np.full(k, rng.choice([0.3, 1.0, 5.0]))) + 1e-12)


def _normalised(rates: Array) -> Array:
    return rates / rates.sum()


def _exact(rng: np.random.Generator, target: Array, options: dict[str, Any]) -> Known:
    rates, form = target.tolist(), int(rng.integers(6))
    code = repr(rates)
    if form == 1:
        code = f"np.array({rates!r})"
    elif form == 2:
        target = target.astype(np.float32).astype(np.float64)
        code = f"np.array({target.tolist()!r}, dtype='float32')"
    elif form == 3:
        code = repr(dict(enumerate(rates)))
    elif form == 4:
        options["classes"] = [f"c{j}" for j in range(len(rates))]
        code = repr({f"c{j}": rates[j] for j in rng.permutation(len(rates))})
    elif form == 5:
        code = f"br.Rates.exact({rates!r})"
    values = _normalised(target)
    return Known(code, lambda size: rate_sets.exact(values))


def _between(rng: np.random.Generator, target: Array, options: dict[str, Any]) -> Known:
    width = float(rng.choice([0.0, 1e-9, 1e-3, 0.05, 0.3, 1.0]))
    low = np.maximum(target - width * rng.random(len(target)), 0.0)
    high = np.minimum(target + width * rng.random(len(target)), 1.0)
    if rng.random() < 0.4:
        low, high = (
            np.where(rng.random(len(target)) < 0.5, 0.0, low),
            np.where(rng.random(len(target)) < 0.5, 1.0, high),
        )
    sides = [[None if value == end else value for value in side.tolist()] for side, end in ((low, 0.0), (high, 1.0))]
    return Known(f"br.Rates.between({sides[0]!r}, {sides[1]!r})", lambda size: rate_sets.between(low, high))


def _near(rng: np.random.Generator, target: Array, options: dict[str, Any]) -> Known:
    radius, metric = float(rng.choice([0.0, 1e-6, 0.01, 0.1, 0.5, 2.0])), str(rng.choice(["euclidean", "chi2"]))
    # Rates of 1e-300 would make a ball whose axes differ by more than float64 can hold.
    target = _normalised(np.where(target > 0, np.maximum(target, 1e-12), 0.0))
    code = f"br.Rates.near({target.tolist()!r}, {radius!r}, metric={metric!r})"
    if radius == 0:
        return Known(code, lambda size: rate_sets.exact(target))
    return Known(code, lambda size: rate_sets.near(target, radius, metric))


def _by_matrix(rng: np.random.Generator, target: Array, options: dict[str, Any]) -> Known:
    k = len(target)
    rank = int(rng.choice([k, k, k, max(k // 2, 1), 1]))
    root = rng.normal(size=(k, rank)) * 10.0 ** -rng.uniform(0, rng.choice([0.0, 1.0, 4.0]), size=(k, 1))
    covariance = root @ root.T * 10.0 ** (2 * rng.choice([-6.0, -3.0, -2.0, -1.0, 0.0]))
    if rng.random() < 0.3:  # that of the rates of a few labels, in which the rates of rare classes hardly vary
        covariance = (np.diag(target) - np.outer(target, target)) / float(rng.choice([10, 1000]))
    covariance = (covariance + covariance.T) / 2
    radius = float(rng.choice([0.0, 0.3, 1.0, 2.5, 8.0]))
    code = f"br.Rates.near({target.tolist()!r}, {radius!r}, metric=np.array({covariance.tolist()!r}))"
    return Known(code, lambda size: ellipsoids.ellipsoid(target, covariance, radius))


def _from_samples(rng: np.random.Generator, target: Array, options: dict[str, Any]) -> Known:
    # Not below 0.5: the variance of a class whose draws are nearly all 0 has few digits, and so have distances.
    weights = np.maximum(target * float(rng.choice([3.0, 30.0, 1000.0])), 0.5)
    draws = rng.dirichlet(weights, size=int(rng.choice([25, 80])))
    confidence = float(rng.uniform(0.3, 0.95))
    draws = draws / draws.sum(axis=1, keepdims=True)
    code = f"br.Rates.from_samples(np.array({draws.tolist()!r}), {confidence!r})"
    return Known(code, lambda size: ellipsoids.around(draws, confidence), of_sample=True)


def _counted(rng: np.random.Generator, target: Array) -> tuple[NDArray[np.int64], float]:
    counts = rng.multinomial(int(rng.choice([1, 5, 30, 200, 5000])), target)
    return counts, float(rng.uniform(0.5, 0.999))


def _from_counts(rng: np.random.Generator, target: Array, options: dict[str, Any]) -> Known:
    counts, confidence = _counted(rng, target)
    code = f"br.Rates.from_counts({counts.tolist()!r}, {confidence!r})"
    return Known(code, lambda size: rate_sets.from_counts(counts, confidence, size), of_sample=True)


def _from_labels(rng: np.random.Generator, target: Array, options: dict[str, Any]) -> Known:
    counts, confidence = _counted(rng, target)
    counts = np.minimum(counts, 50)
    labels = np.repeat(np.arange(len(counts)), counts).tolist()
    code = f"br.Rates.from_labels({labels!r}, {confidence!r})"
    return Known(code, lambda size: rate_sets.from_counts(counts, confidence, size), of_sample=True)


def _of_population(rng: np.random.Generator, target: Array, options: dict[str, Any]) -> Known:
    confidence = float(rng.uniform(0.5, 0.999))
    code = f"br.Rates.of_population({target.tolist()!r}, {confidence!r})"
    return Known(code, lambda size: rate_sets.of_population(target, confidence, size), of_sample=True)
