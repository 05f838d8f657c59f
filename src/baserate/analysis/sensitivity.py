"""How the guarantee depends on how precisely the class rates are known."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from baserate.errors import BadOption
from baserate.losses.base import Loss
from baserate.rates import Rates, RatesLike
from baserate.solving import parse_request, solve, solve_again
from baserate.support.arrays import FloatArray
from baserate.support.numbers import format_column
from baserate.support.summary import Summary, Table

_STEPS = 10  # Steps between the default widths.


@dataclass(frozen=True, eq=False, repr=False)
class Sensitivity:
    """The guaranteed fall of the loss as a function of how precisely the class rates are known.

    Attributes
    ----------
    widths : array of shape (m,)
        Largest error of a rate, in either direction.
    loss_reduction : array of shape (m,)
        The guaranteed fall of the loss if no rate is off by more than the width.
    rates : array of shape (m, k)
        Class rates of the predictions that are adjusted under this condition.
    loss : Loss
    classes : tuple or None
    """

    widths: FloatArray
    loss_reduction: FloatArray
    rates: FloatArray
    loss: Loss
    classes: tuple[Any, ...] | None

    def as_dict(self) -> dict[str, FloatArray]:
        """Columns of a table, for ``pandas.DataFrame`` or ``polars.DataFrame``."""
        names = range(self.rates.shape[1]) if self.classes is None else self.classes
        rates = {f"rate {name}": column for name, column in zip(names, self.rates.T, strict=True)}
        return {"width": self.widths, "loss_reduction": self.loss_reduction, **rates}

    def __repr__(self) -> str:
        return self._summary().text()

    def _repr_html_(self) -> str:
        return self._summary().html()

    def _summary(self) -> Summary:
        title = f"Mean loss ({self.loss!r}) falls by at least this much if no rate is off by more than the width:"
        columns = {"width": format_column(self.widths), "guaranteed fall": format_column(self.loss_reduction)}
        return Summary(title, tables=[Table.of(columns)])


def sensitivity(probs: ArrayLike, rates: RatesLike, *, widths: ArrayLike | None = None, **options: Any) -> Sensitivity:
    """The guaranteed fall of the loss if the class rates are only known to within a width.

    Parameters
    ----------
    probs : array-like of shape (n, k)
    rates : array-like of shape (k,), dict or Rates
        The best estimate of the class rates of these rows.
    widths : array-like of shape (m,), optional
        Largest errors of a rate. By default 11 widths, from 0 (exact rates) to the width at which the mean of the
        predictions is a possible rate as well, so that the guaranteed fall is 0.
    **options
        Options of :func:`adjust`.

    Returns
    -------
    Sensitivity

    Examples
    --------
    >>> import baserate as br
    >>> br.sensitivity([[0.9, 0.1], [0.6, 0.4], [0.3, 0.7], [0.1, 0.9]], [0.75, 0.25], widths=[0, 0.1, 0.2, 0.3])
    Mean loss (Log()) falls by at least this much if no rate is off by more than the width:
    <BLANKLINE>
      width   guaranteed fall
      0.0000           0.2406
      0.1000           0.0965
      0.2000           0.0177
      0.3000           0.0000
    """
    request = parse_request(probs, rates, **options)
    centre, k = request.known.estimate(), request.model.n_classes
    anything = Rates.between(None, None).on(request.known.classes, k)
    result = solve(replace(request, known=anything))  # changes nothing; the search starts here
    if widths is None:
        last = float(np.abs(centre - result.before).max())
        steps = np.linspace(0.0, last, _STEPS + 1) if last > 0 else np.zeros(1)
    else:
        steps = _as_widths(widths)
    loss_reduction, chosen_rates = [], []
    for width in steps:
        rates_within = Rates.between(np.maximum(centre - width, 0.0), np.minimum(centre + width, 1.0))
        result = solve_again(result, rates_within, keep_rows=False)
        loss_reduction.append(result.certificate.loss_reduction)
        chosen_rates.append(result.rates)
    return Sensitivity(
        widths=steps,
        loss_reduction=np.array(loss_reduction),
        rates=np.array(chosen_rates),
        loss=result.loss,
        classes=result.classes,
    )


def _as_widths(widths: ArrayLike) -> FloatArray:
    try:
        values = np.asarray(widths, dtype=np.float64)
    except (TypeError, ValueError):
        raise BadOption(f"widths must be a list of numbers from 0 to 1, not {widths!r}") from None
    if values.ndim != 1 or values.size == 0 or not ((values >= 0) & (values <= 1)).all():
        raise BadOption(f"widths must be a list of numbers from 0 to 1, not {widths!r}")
    return values
