"""Print what ``AdjustedClassifier(method="prior")`` makes of classifiers that weight or sample the classes.

5 % of the rows are positive. Each classifier balances the classes in its own way, so that its mean prediction is far
too high. Prior adjustment should bring it back to the rate of the positives. The means are those on new rows.

    python tools/training_rates_table.py

A classifier whose package is not installed is left out. ``tests/test_training_rates.py`` checks the same cases.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import baserate as br
from baserate.errors import TrainingRatesWarning

RATE = 0.05
BOOSTING = {"n_estimators": 50, "max_depth": 2, "random_state": 0, "n_jobs": 1}


class Outcome(NamedTuple):
    """The mean predictions for new rows, the training rate that was found, and whether there was a warning."""

    before: float
    after: float
    training_rate: float
    warned: bool

    @property
    def verdict(self) -> str:
        """What a user gets: a warning, a mean within a quarter of the rate, or a wrong mean without a warning."""
        if self.warned:
            return "warned"
        return "corrected" if abs(self.after - RATE) < RATE / 4 else "WRONG"


def under_sampled() -> Any:
    """A pipeline that drops most negatives."""
    from imblearn.pipeline import make_pipeline as make_sampling_pipeline
    from imblearn.under_sampling import RandomUnderSampler

    return make_sampling_pipeline(RandomUnderSampler(random_state=0), LogisticRegression())


def over_sampled() -> Any:
    """A pipeline that adds synthetic positives."""
    from imblearn.over_sampling import SMOTE
    from imblearn.pipeline import make_pipeline as make_sampling_pipeline

    return make_sampling_pipeline(SMOTE(random_state=0), LogisticRegression())


def balanced_forest() -> Any:
    """A forest whose trees are trained on balanced samples."""
    from imblearn.ensemble import BalancedRandomForestClassifier

    return BalancedRandomForestClassifier(50, min_samples_leaf=10, random_state=0)


def balanced_bagging() -> Any:
    """Bags whose members are trained on balanced samples."""
    from imblearn.ensemble import BalancedBaggingClassifier

    return BalancedBaggingClassifier(LogisticRegression(), random_state=0)


def catboost() -> Any:
    """CatBoost with weights that balance the classes."""
    from catboost import CatBoostClassifier

    options = {"iterations": 50, "depth": 2, "random_seed": 0, "thread_count": 1}
    return CatBoostClassifier(auto_class_weights="Balanced", verbose=False, allow_writing_files=False, **options)


def lightgbm() -> Any:
    """LightGBM with weights that balance the classes."""
    from lightgbm import LGBMClassifier

    return LGBMClassifier(is_unbalance=True, verbose=-1, **BOOSTING)


def weighted_pipeline() -> Any:
    """A pipeline whose last step weights the classes."""
    return make_pipeline(StandardScaler(), LogisticRegression(class_weight="balanced"))


def xgboost() -> Any:
    """XGBoost with a weight for the positives."""
    from xgboost import XGBClassifier

    return XGBClassifier(scale_pos_weight=(1 - RATE) / RATE, **BOOSTING)


CASES: dict[str, Callable[[], Any]] = {
    "imbalanced-learn pipeline, RandomUnderSampler": under_sampled,
    "imbalanced-learn pipeline, SMOTE": over_sampled,
    "BalancedRandomForestClassifier": balanced_forest,
    "BalancedBaggingClassifier": balanced_bagging,
    'CatBoost, auto_class_weights="Balanced"': catboost,
    "LightGBM, is_unbalance=True": lightgbm,
    'scikit-learn pipeline, class_weight="balanced"': weighted_pipeline,
    "XGBoost, scale_pos_weight=19": xgboost,
}


def labelled_rows(n: int, seed: int) -> tuple[Any, Any]:
    """Two normal distributions in three dimensions, as a table, and their labels."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    y = (rng.random(n) < RATE).astype(int)
    x = rng.normal(size=(n, 3)) + 1.5 * y[:, None] * [1.0, 0.0, 0.0]
    return pd.DataFrame(x, columns=["a", "b", "c"]), y


def outcome(classifier: Any, n: int = 10_000) -> Outcome:
    """Train a classifier, adjust it to the true rate, and predict for new rows."""
    x, y = labelled_rows(n, seed=0)
    new, _ = labelled_rows(n, seed=1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", TrainingRatesWarning)
        model = br.AdjustedClassifier(classifier, rates=[1 - RATE, RATE], method="prior").fit(x, y)
    before, after = (float(one.predict_proba(new)[:, 1].mean()) for one in (model.estimator_, model))
    warned = any(issubclass(one.category, TrainingRatesWarning) for one in caught)
    return Outcome(before, after, float(model.training_rates_[1]), warned)


def main() -> None:
    """Print the table."""
    print("| classifier | rate in training | mean before | mean after | wanted | |\n|---|--:|--:|--:|--:|---|")
    for name, build in CASES.items():
        try:
            classifier = build()
        except ImportError:
            continue
        one = outcome(classifier)
        numbers = (one.training_rate, one.before, one.after, RATE)
        print(f"| {name} | {' | '.join(f'{number:.3f}' for number in numbers)} | {one.verdict} |")


if __name__ == "__main__":
    main()
