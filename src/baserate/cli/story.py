"""A classifier meets a population with other class rates; ``baserate demo`` tells this story.

Real data: 1797 handwritten digits that come with scikit-learn. A model is trained on clean scans in which all ten
digits are equally frequent, and used on noisy scans in which small digits are common and large ones are rare.
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


class Places(NamedTuple):
    """Where the model was trained, and where it is used."""

    x_train: NDArray[Any]
    y_train: NDArray[Any]
    x_new: NDArray[Any]
    y_new: NDArray[Any]


def two_places() -> Places:
    """Clean scans of all digits alike, and noisy ones of a place where large digits are rare."""
    x, y = load_digits(return_X_y=True)
    x_train, x_new, y_train, y_new = train_test_split(x / 16, y, test_size=0.5, stratify=y, random_state=0)
    rng = np.random.default_rng(0)
    keep = rng.random(len(y_new)) < np.linspace(1.0, 0.05, 10)[y_new]
    return Places(x_train, y_train, x_new[keep] + 0.3 * rng.normal(size=(keep.sum(), 64)), y_new[keep])


def story(report: Path | None) -> Iterator[str]:
    """Train, meet the new place, adjust, compare with the labels, be wrong about the rates: one paragraph at a time."""
    places = two_places()
    model = LogisticRegression(max_iter=3000).fit(places.x_train, places.y_train)
    probs = model.predict_proba(places.x_new)
    digits = [str(digit) for digit in model.classes_]
    labels, old = np.array(digits)[places.y_new], np.full(10, 0.1)
    rates = np.bincount(places.y_new, minlength=10) / len(places.y_new)

    yield _told(
        "1. A MODEL",
        f"A classifier learned to read handwritten digits from {len(places.y_train)} clean scans, in which all ten "
        "digits are equally frequent.",
    )
    yield _told(
        "2. ANOTHER PLACE",
        f"It now reads {len(probs)} noisy scans from a place where large digits are rare. Nobody labels these scans, "
        "so it cannot be trained again. But how often each digit occurs there is known:",
        _rates_table(digits, rates, probs.mean(axis=0)),
    )
    result = br.adjust(probs, rates, classes=digits)
    sure = result.certificate.loss_reduction
    yield _told(
        "3. ADJUSTMENT",
        "br.adjust(probs, rates) changes the predictions so that the mean probability of each digit is its rate, "
        "and no more than that takes. What is sure before any label is seen: if these are the rates of these scans, "
        f"the mean log loss falls by at least {sure:.3f}, whatever their labels are. (Log loss is the usual measure "
        "of predicted probabilities: the mean of -log of the probability that was given to what then happened.)",
    )
    yield _told(
        "4. THE TRUTH",
        "Labels of which no procedure has seen more than their rates. PPA is Bayes' rule from the old to the new "
        "rates; BGA is what br.adjust does, for the loss that is named; below 0 is better:",
        str(br.compare(probs, labels, rates, old, classes=digits)),
    )
    log, y = br.losses.Log(), places.y_new
    fall = log.score(probs, y) - log.score(result.probs, y)
    yield _told(
        "",
        f"Guaranteed was a fall of log loss by {sure:.3f}; it fell by {fall:.3f}. (At exactly right rates the two "
        "are the same for log loss; for other losses it may fall by more.) PPA trusts the model to be right about "
        "all but the rates, and these scans are noisy, too. BGA for the Brier score may set probabilities to 0; if "
        "such a digit then occurs, log loss is infinite.",
    )
    yield _told(
        "5. IF THE RATES ARE WRONG",
        "Say the rates of neighbours were mixed up: 0 got that of 1, 1 that of 0, 2 that of 3, and so on. Adjusted to "
        "wrong rates, the loss can rise. Adjusted to all rates between right and wrong it cannot: the right ones are "
        "among them.",
        _if_wrong(probs, y, rates),
    )
    if report is not None:
        result.report(report, y=labels, old_rates=old, title="Digits from another place")
        yield _told("6. A REPORT", f"The same for a colleague, with pictures: {report}")


def _told(title: str, text: str, table: str = "") -> str:
    lines = [
        title,
        textwrap.fill(text, 100, break_long_words=False, break_on_hyphens=False),
        *(["", table] if table else []),
    ]
    return "\n".join(line for line in lines if line or line is not title)


def _rates_table(digits: list[str], rates: NDArray[Any], predicted: NDArray[Any]) -> str:
    rows = [("digit", digits), ("occurs", [f"{r:.2f}" for r in rates]), ("predicted", [f"{p:.2f}" for p in predicted])]
    return "\n".join(f"   {name:<10}" + "".join(f"{cell:>7}" for cell in cells) for name, cells in rows)


def _if_wrong(probs: NDArray[Any], y: NDArray[Any], rates: NDArray[Any]) -> str:
    wrong, log = rates.reshape(-1, 2)[:, ::-1].ravel(), br.losses.Log()
    between = br.Rates.between(np.minimum(rates, wrong), np.maximum(rates, wrong))
    before = log.score(probs, y)
    lines = []
    for name, known in (("the right rates", rates), ("the wrong rates", wrong), ("all rates in between", between)):
        change = log.score(br.adjust(probs, known).probs, y) - before
        lines.append(f"   {'adjusted to ' + name:<36} log loss changes by {change:+.3f}")
    return "\n".join(lines)
