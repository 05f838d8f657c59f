"""The text that ``baserate demo`` prints: a classifier is used on data with other class rates than its training data.

The data are the 1797 handwritten digits that scikit-learn includes. The classifier is trained on clean scans in which
all ten digits are equally frequent. It is used on noisy scans in which small digits are common and large ones are rare.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

import baserate as br

_NEW_DATA = (
    "These scans have no labels, so the classifier cannot be retrained. But it is known how often each digit occurs: "
    "these are the class rates. If the predictions were right, the mean probability of each digit would be about equal "
    "to its class rate. For the small and the large digits it is not:"
)
_ADJUSTMENT = (
    "br.adjust(probs, rates) makes the smallest change to the predictions that gives the requested class rates: "
    "afterwards, the mean probability of each digit equals its class rate."
)
_LOG_LOSS = (
    "Are the predictions better now? A common measure is the log loss. For one scan, it depends only on the "
    "probability that the classifier gave to the true digit. It is 0 if this probability was 1, and it grows as the "
    "probability comes closer to 0. So a lower mean log loss means better predictions. Without labels, nobody can "
    "compute the log loss of these scans. But br.adjust gives a guarantee:"
)
_COMPARISON = (
    "In this example the true digits are known, although neither the classifier nor br.adjust used them. So the "
    "guarantee can be checked. The table also shows prior probability adjustment (br.prior_adjust), the usual "
    "correction by Bayes' rule. It assumes that only the class rates have changed, but these scans are also noisy."
)
_WRONG_RATES = (
    "The guarantee needs the correct class rates. Suppose that the rates of neighbouring digits were exchanged by "
    "mistake: 0 with 1, 2 with 3, and so on. If the predictions are adjusted to these wrong rates, the log loss can "
    "rise. If the rates are known only roughly, state a range for each rate instead: br.Rates.between(low, high). If "
    "the correct rates are in these ranges, the log loss cannot rise. Here the ranges contain the correct and the "
    "wrong rates:"
)


class Places(NamedTuple):
    """The training data of the model, and the data of the target population."""

    x_train: NDArray[Any]
    y_train: NDArray[Any]
    x_new: NDArray[Any]
    y_new: NDArray[Any]


def two_places() -> Places:
    """Clean scans with equally frequent digits for training, and noisy scans in which large digits are rare."""
    x, y = load_digits(return_X_y=True)
    x_train, x_new, y_train, y_new = train_test_split(x / 16, y, test_size=0.5, stratify=y, random_state=0)
    rng = np.random.default_rng(0)
    keep = rng.random(len(y_new)) < np.linspace(1.0, 0.05, 10)[y_new]
    return Places(x_train, y_train, x_new[keep] + 0.3 * rng.normal(size=(keep.sum(), 64)), y_new[keep])


def story(report: Path | None) -> Iterator[str]:
    """Yield the text paragraph by paragraph; write a report unless ``report`` is None."""
    places = two_places()
    model = LogisticRegression(max_iter=3000).fit(places.x_train, places.y_train)
    probs, y = model.predict_proba(places.x_new), places.y_new
    digits = [str(digit) for digit in model.classes_]
    rates, training_rates = np.bincount(y, minlength=10) / len(y), np.full(10, 0.1)
    labels = np.array(digits)[y]

    yield _paragraph(
        "1. THE MODEL",
        f"A classifier was trained to read handwritten digits from {len(places.y_train)} clean scans. All ten digits "
        "are equally frequent in its training data. For each new scan it returns ten probabilities, one per digit.",
    )
    yield _paragraph(
        "2. THE NEW DATA",
        f"The classifier is now used on {len(probs)} noisy scans in which large digits are rare. {_NEW_DATA}",
        _rates_table(digits, rates, probs.mean(axis=0)),
    )
    result = br.adjust(probs, rates, classes=digits)
    guarantee = result.certificate.loss_reduction
    yield _paragraph("3. THE ADJUSTMENT", _ADJUSTMENT)
    yield _paragraph("", _LOG_LOSS, _guarantee_text(guarantee))
    prior = br.prior_adjust(probs, training_rates, rates)
    compared = {"as predicted": probs, "prior adjustment": prior.probs, "br.adjust": result.probs}
    yield _paragraph("4. COMPARISON WITH THE TRUE DIGITS", _COMPARISON, _comparison_table(compared, y))
    decrease = _log_loss(probs, y) - _log_loss(result.probs, y)
    promised = f"The guarantee promised a log loss lower by at least {guarantee:.3f}. It fell by {decrease:.3f}."
    yield _paragraph("", f"{promised} br.compare shows more procedures and losses, with confidence intervals.")
    yield _paragraph("5. IF THE RATES ARE WRONG", _WRONG_RATES, _wrong_rates_table(probs, y, rates))
    if report is not None:
        result.report(report, y=labels, old_rates=training_rates, title="Digits with new class rates")
        yield _paragraph("6. THE REPORT", f"A page with these results and with figures was written to {report}")


def _paragraph(title: str, text: str, table: str = "") -> str:
    filled = textwrap.fill(text, 100, break_long_words=False, break_on_hyphens=False)
    return "\n".join([*([title] if title else []), filled, *(["", table] if table else [])])


def _guarantee_text(guarantee: float) -> str:
    return (
        f"   If the class rates are correct, the mean log loss falls by at least {guarantee:.3f},\n"
        "   whichever digit each scan shows."
    )


def _log_loss(probs: NDArray[Any], y: NDArray[Any]) -> float:
    return br.losses.Log().score(probs, y)


def _comparison_table(compared: dict[str, NDArray[Any]], y: NDArray[Any]) -> str:
    lines = [f"   {'predictions':<20}{'mean log loss':>15}{'share read correctly':>25}"]
    for name, probs in compared.items():
        correct = (probs.argmax(axis=1) == y).mean()
        lines.append(f"   {name:<20}{_log_loss(probs, y):>15.3f}{correct:>25.3f}")
    return "\n".join(lines)


def _rates_table(digits: list[str], rates: NDArray[Any], predicted: NDArray[Any]) -> str:
    means = [f"{p:.2f}" for p in predicted]
    rows = [("digit", digits), ("class rate", [f"{r:.2f}" for r in rates]), ("mean prediction", means)]
    return "\n".join(f"   {name:<17}" + "".join(f"{cell:>7}" for cell in cells) for name, cells in rows)


def _wrong_rates_table(probs: NDArray[Any], y: NDArray[Any], rates: NDArray[Any]) -> str:
    wrong = rates.reshape(-1, 2)[:, ::-1].ravel()
    ranges = br.Rates.between(np.minimum(rates, wrong), np.maximum(rates, wrong))
    before = _log_loss(probs, y)
    lines = []
    for name, target in (("the correct rates", rates), ("the wrong rates", wrong), ("the ranges of rates", ranges)):
        change = _log_loss(br.adjust(probs, target).probs, y) - before
        lines.append(f"   {'adjusted to ' + name:<36} log loss changes by {change:+.3f}")
    return "\n".join(lines)
