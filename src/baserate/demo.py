"""A classifier meets a population with other class rates; ``baserate demo`` runs this.

Real data: 1797 handwritten digits that come with scikit-learn. A model is trained on clean scans in which all ten
digits are equally frequent, and used on noisy scans in which small digits are common and large ones are rare.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

import baserate as br


def two_places() -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Clean scans of all digits alike, and noisy ones of a place where large digits are rare."""
    x, y = load_digits(return_X_y=True)
    x_train, x_new, y_train, y_new = train_test_split(x / 16, y, test_size=0.5, stratify=y, random_state=0)
    rng = np.random.default_rng(0)
    keep = rng.random(len(y_new)) < np.linspace(1.0, 0.05, 10)[y_new]
    return x_train, y_train, x_new[keep] + 0.3 * rng.normal(size=(keep.sum(), 64)), y_new[keep]


def main() -> None:
    """Train, meet the new place, adapt, and compare with the labels."""
    x_train, y_train, x_new, y_new = two_places()
    rates = np.bincount(y_new, minlength=10) / len(y_new)

    print("A model that reads digits was trained on clean scans, where all ten are equally frequent.")
    print(
        f"It now reads {len(y_new)} noisy scans from a place where large digits are rare, and predicts too many.\n"
        "Nobody labels these scans, but the rates of the digits are known there:\n"
    )
    model = br.AdjustedClassifier(LogisticRegression(max_iter=3000)).fit(x_train, y_train)
    probs = model.predict_proba(x_new)
    model.adapt(x_new, rates)
    print(model.adjustment_)

    print("\nWhich procedure fits, before any label is seen:\n")
    print(br.advise(probs, rates, model.training_rates_))

    print("\nHow each turned out, by labels that no procedure has seen (below 0 is better):\n")
    print(br.compare(probs, y_new, rates, model.training_rates_))
    log = br.losses.Log()
    fall = log.score(probs, y_new) - log.score(model.predict_proba(x_new), y_new)
    promised = br.adjust(probs, rates).certificate.loss_reduction
    print(f"\nLog loss was guaranteed to fall by {promised:.4f}; it fell by {fall:.4f}.")
    print("BGA for Brier score may give probability 0 to what then happens: its log loss is infinite if it does.")

    wrong = np.roll(rates, 1)
    careful = br.Rates.between(np.minimum(rates, wrong), np.maximum(rates, wrong))
    print("\nAnd if the rates are wrong? Say each digit got the rate of its neighbour:\n")
    for name, known in (
        ("adjusted to the wrong rates", wrong),
        ("adjusted to all rates between right and wrong", careful),
    ):
        change = log.score(br.adjust(probs, known).probs, y_new) - log.score(probs, y_new)
        print(f"  {name:<48} log loss changes by {change:+.4f}")
    print("\nA set that holds the true rates cannot raise the loss; docs/uncertain-rates.md proves it.")
