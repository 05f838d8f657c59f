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

_COMPARISON = (
    "The table shows the losses by the true labels. The procedures were given only the class frequencies, not the "
    "labels. The rows that begin with 'adjusted' are what br.adjust does, here for log loss and for the Brier loss. A "
    "change below 0 is an improvement:"
)
_NOTES = (
    "(For log loss and exact rates the two numbers are equal; other losses can decrease by more.) Prior adjustment "
    "assumes that the model is wrong only about the class rates, but these scans are also noisy. Adjustment for the "
    "Brier loss can set probabilities to 0. If such a digit occurs, the log loss is infinite."
)
_WRONG_RATES = (
    "Suppose that the rates of neighbouring digits were exchanged: 0 with 1, 2 with 3, and so on. If the predictions "
    "are adjusted to these wrong rates, the loss can increase. If they are adjusted to all rates between the correct "
    "and the wrong ones, it cannot, because the correct rates are in this set."
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
        "are equally frequent in its training data.",
    )
    yield _paragraph(
        "2. THE NEW DATA",
        f"The classifier is now used on {len(probs)} noisy scans in which large digits are rare. These scans have no "
        "labels, so the classifier cannot be retrained. But it is known how often each digit occurs. The table shows "
        "these class rates, and the mean of the predicted probabilities:",
        _rates_table(digits, rates, probs.mean(axis=0)),
    )
    result = br.adjust(probs, rates, classes=digits)
    guarantee = result.certificate.loss_reduction
    yield _paragraph(
        "3. THE ADJUSTMENT",
        "br.adjust(probs, rates) makes the smallest change to the predictions that gives the requested class rates: "
        "the mean probability of each digit becomes its rate. The result has a guarantee that needs no labels. If the "
        f"rates are those of these scans, the mean log loss decreases by at least {guarantee:.3f}, whatever the labels "
        "are. "
        "(Log loss is the mean of -log(p), where p is the predicted probability of the true digit.)",
    )
    yield _paragraph("4. COMPARISON WITH THE TRUE LABELS", _COMPARISON, _compare(probs, labels, rates, training_rates))
    log = br.losses.Log()
    decrease = log.score(probs, y) - log.score(result.probs, y)
    promised = f"The guarantee promised a log loss lower by at least {guarantee:.3f}. It fell by {decrease:.3f}."
    yield _paragraph("", f"{promised} {_NOTES}")
    yield _paragraph("5. IF THE RATES ARE WRONG", _WRONG_RATES, _wrong_rates_table(probs, y, rates))
    if report is not None:
        result.report(report, y=labels, old_rates=training_rates, title="Digits with new class rates")
        yield _paragraph("6. THE REPORT", f"A page with the same results and with figures was written to {report}")


def _paragraph(title: str, text: str, table: str = "") -> str:
    lines = [
        title,
        textwrap.fill(text, 100, break_long_words=False, break_on_hyphens=False),
        *(["", table] if table else []),
    ]
    return "\n".join(line for line in lines if line or line is not title)


def _compare(probs: NDArray[Any], labels: NDArray[Any], rates: NDArray[Any], training_rates: NDArray[Any]) -> str:
    return str(br.compare(probs, labels, rates, training_rates, classes=[str(digit) for digit in range(10)]))


def _rates_table(digits: list[str], rates: NDArray[Any], predicted: NDArray[Any]) -> str:
    rows = [("digit", digits), ("occurs", [f"{r:.2f}" for r in rates]), ("predicted", [f"{p:.2f}" for p in predicted])]
    return "\n".join(f"   {name:<10}" + "".join(f"{cell:>7}" for cell in cells) for name, cells in rows)


def _wrong_rates_table(probs: NDArray[Any], y: NDArray[Any], rates: NDArray[Any]) -> str:
    wrong, log = rates.reshape(-1, 2)[:, ::-1].ravel(), br.losses.Log()
    between = br.Rates.between(np.minimum(rates, wrong), np.maximum(rates, wrong))
    before = log.score(probs, y)
    lines = []
    for name, target in (("the correct rates", rates), ("the wrong rates", wrong), ("all rates in between", between)):
        change = log.score(br.adjust(probs, target).probs, y) - before
        lines.append(f"   {'adjusted to ' + name:<36} log loss changes by {change:+.3f}")
    return "\n".join(lines)
