"""A classifier meets a population with other class rates; `make demo` runs this.

Real data: 1797 handwritten digits that come with scikit-learn. A model is trained on clean scans in which all ten
digits are equally frequent, and used on noisy scans in which small digits are common and large ones are rare.
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

import baserate as br


def shifted_population() -> tuple[LogisticRegression, np.ndarray, np.ndarray, np.ndarray]:
    """A trained model, the class rates that it was trained on, and the images and labels of the new place."""
    x, y = load_digits(return_X_y=True)
    x_train, x_test, y_train, y_test = train_test_split(x, y, test_size=0.5, stratify=y, random_state=0)
    model = LogisticRegression(max_iter=3000).fit(x_train / 16, y_train)
    rng = np.random.default_rng(0)
    keep = rng.random(len(y_test)) < np.linspace(1.0, 0.05, 10)[y_test]
    x_new = x_test[keep] / 16 + 0.3 * rng.normal(size=(keep.sum(), 64))
    return model, np.bincount(y_train) / len(y_train), x_new, y_test[keep]


def main() -> None:
    """Train, meet the new place, adjust, and compare with the labels."""
    model, old_rates, x, y = shifted_population()
    probs = model.predict_proba(x)
    rates = np.bincount(y, minlength=10) / len(y)

    print("A model that reads digits was trained on clean scans, where all ten are equally frequent.")
    print(
        f"It now reads {len(y)} noisy scans from a place where large digits are rare, and predicts too many of them.\n"
    )
    result = br.adjust(probs, rates, classes=range(10))
    print(result)

    procedures = {
        "as predicted": probs,
        "prior adjustment (PPA)": br.prior_adjust(probs, old_rates, rates).probs,
        "BGA for log loss": result.probs,
        "BGA for Brier score": br.adjust(probs, rates, loss="brier").probs,
    }
    print("\nHow that turned out, by labels that no procedure has seen:\n")
    print(f"  {'':24}{'log loss':>10}{'Brier':>10}{'accuracy':>10}")
    for name, p in procedures.items():
        with np.errstate(divide="ignore"):
            log, brier = br.losses.Log().score(p, y), br.losses.Brier().score(p, y)
        print(f"  {name:24}{log:10.4f}{brier:10.4f}{np.mean(p.argmax(axis=1) == y):10.3f}")
    fall = br.losses.Log().score(probs, y) - br.losses.Log().score(result.probs, y)
    print(f"\nLog loss was guaranteed to fall by {result.certificate.loss_reduction:.4f}; it fell by {fall:.4f}.")
    print("BGA for Brier score may give probability 0 to what then happens: its log loss is infinite if it does.")
    print("Each procedure is for its own loss; here the one for log loss happens to do best on both.")


if __name__ == "__main__":
    main()
