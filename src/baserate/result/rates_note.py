"""A short note on an adjustment whose rates differ more from the predictions than chance explains."""

from __future__ import annotations

from typing import Any

import numpy as np

from baserate.errors import Option

ADVISE = Option("br.advise")  # what the note mentions that has another name on the command line
_SIGMAS = 3.0  # A difference of this many standard deviations is worth a note.


def rates_note(about: dict[str, Any]) -> str | None:
    """One sentence if the requested rates contradict the predictions of a calibrated model, else None.

    It uses only sums that every adjustment computes, so it takes no further pass: the label rates of n rows whose
    predictions have the mean ``m`` vary by at most ``sqrt(m (1 - m) / n)``. :func:`baserate.advise` reads the rows and
    tests more.

    Parameters
    ----------
    about : dict
        The facts about a result, see :func:`baserate.result.facts.facts`.

    Examples
    --------
    >>> import baserate as br
    >>> from baserate.result.facts import facts
    >>> result = br.adjust([[0.9, 0.1], [0.5, 0.5]] * 100, [0.45, 0.55])
    >>> print(rates_note(facts(result)))
    the mean prediction for class 1 is 0.3, not 0.55; if the predictions are right and the rates are wrong, the loss
    rises: see br.advise
    >>> rates_note(facts(result.what_if([0.68, 0.32]))) is None
    True
    """
    if about["procedure"] != "adjust" or not about["n_rows"] or np.isnan(about["loss_reduction"]):
        return None
    classes = about["classes"]
    before, wanted = (np.array([one[column] for one in classes]) for column in ("before", "wanted"))
    deviation = np.sqrt(np.maximum(before * (1 - before), 0.0) / about["batch_size"])
    excess = np.abs(wanted - before) - _SIGMAS * deviation
    j = len(excess) - 1 - int(excess[::-1].round(9).argmax())  # of equal ones the last
    # A difference of less than one row is no contradiction, even if the predictions are certain and cannot vary.
    if excess[j] <= 1.0 / about["batch_size"]:
        return None
    name = classes[j]["class"] if about["classes_named"] else f"class {j}"
    stated = f"not {wanted[j]:.4g}"
    if about["rates_kind"] != "exact":
        stated = f"outside the stated range from {classes[j]['at_least']:.4g} to {classes[j]['at_most']:.4g}"
    return (
        f"the mean prediction for {name} is {before[j]:.4g}, {stated}; if the predictions are right and the rates are "
        f"wrong, the loss rises: see {ADVISE}"
    )
