"""Whether the predictions of a fitted classifier agree with the class rates for which it seems to be trained."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from baserate.errors import TrainingRatesWarning, warn
from baserate.estimators.resampling import TrainingRows
from baserate.inputs.validation import class_label
from baserate.support.arrays import FloatArray

# Both limits must be exceeded. Regularised or overfitted classifiers, such as forests on a resample, are often off by a
# factor of 1.3, and prior adjustment still works. Classifiers trained for rates other than assumed are off by more.
_ODDS_FACTOR = 1.5
_STANDARD_ERRORS = 4.0


def warn_if_not_trained_for(rates: FloatArray, rows: TrainingRows, probs: NDArray[np.floating], name: str) -> None:
    """Warn if the mean prediction on the training rows, weighted to the assumed rates, differs from them.

    A classifier that minimises a proper loss on weighted rows predicts the weighted class rates on average. So the rows
    are weighted to the rates for which the classifier seems to be trained. The check does not compare the mean after
    prior adjustment: that also depends on how well the classifier is calibrated at other rates.

    A classifier that separates the training rows perfectly agrees with all rates, so nothing is found.

    Parameters
    ----------
    rates : array of shape (k,)
        The assumed class rates in training.
    rows : TrainingRows
        The rows that were passed to ``fit``.
    probs : array of shape (n, k)
        The predictions for these rows.
    name : str
        Name of the classifier.
    """
    row_weights = np.ones(len(rows.labels)) if rows.weights is None else rows.weights
    factors = np.divide(rates, rows.totals, out=np.zeros_like(rates), where=rows.totals > 0)
    weights = row_weights * factors[rows.labels]
    errors = probs - np.eye(len(rates))[rows.labels]
    difference, standard_error = weights @ errors, np.sqrt(np.square(weights) @ np.square(errors))
    with np.errstate(divide="ignore", invalid="ignore"):  # rates of 0 and 1 have no odds, and are not compared
        mean = np.clip(rates + difference, 1e-12, 1.0 - 1e-12)
        ratio = np.abs(np.log(mean / (1.0 - mean)) - np.log(rates / (1.0 - rates)))
    suspicious = (np.abs(difference) > _STANDARD_ERRORS * standard_error) & (ratio > np.log(_ODDS_FACTOR))
    suspicious &= (rates > 0) & (rates < 1)
    if not suspicious.any():
        return
    j = int(np.where(suspicious, ratio, 0.0).argmax())
    warn(
        TrainingRatesWarning(
            f"the predictions of {name} do not agree with the class rates for which it seems to be trained: the rate "
            f"of {class_label(tuple(rows.classes.tolist()), j)} is {rates[j]:.3g}, but the mean prediction on the "
            f"training rows, weighted to these rates, is {mean[j]:.3g}. Prior adjustment from these rates would be "
            "wrong. If the classifier weights or samples the classes, pass the class rates after that as old_rates=; "
            "else calibrate it, for example with sklearn.calibration.CalibratedClassifierCV"
        )
    )
