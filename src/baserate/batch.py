"""Thousands of small batches, each with rates of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike

from baserate.adjust import adjust
from baserate.errors import BadOption, BaserateError
from baserate.losses.base import Loss
from baserate.losses.registry import as_loss
from baserate.passes.numba_passes import prepare
from baserate.result.adjustment import Adjustment
from baserate.solving.request import RatesLike

Item = tuple[ArrayLike, RatesLike] | Mapping[str, Any]


@overload
def adjust_many(
    problems: Iterable[Item], *, errors: Literal["raise"] = "raise", **options: Any
) -> list[Adjustment]: ...


@overload
def adjust_many(
    problems: Iterable[Item], *, errors: Literal["keep"], **options: Any
) -> list[Adjustment | BaserateError]: ...


def adjust_many(problems: Iterable[Item], *, errors: str = "raise", **options: Any) -> Any:
    """Adjust many batches, each to its own rates: what :func:`adjust` does for each, without waiting for it.

    It is made for thousands of small batches. A single small batch does not wait for the kernels of numba to be loaded;
    many are worth it, and a batch of 1000 x 8 then takes a fraction of a millisecond.

    Parameters
    ----------
    problems : iterable of pairs or dicts
        Read to its end first. Each a pair ``(probs, rates)``, or a dict of arguments of :func:`adjust` for a batch with
        options of its own.
    errors : "raise" or "keep", default "raise"
        Whether a batch that cannot be adjusted stops all, with an error that says which one it was; or leaves its
        error in its place among the answers.
    **options
        Options of :func:`adjust` for all batches.

    Returns
    -------
    list of Adjustment
        In the order of the problems.

    Examples
    --------
    >>> import baserate as br
    >>> batches = [([[0.7, 0.3], [0.4, 0.6]], [0.3, 0.7]), ([[0.9, 0.1]], [0.8, 0.2])]
    >>> [round(result.certificate.loss_reduction, 4) for result in br.adjust_many(batches)]
    [0.14, 0.0444]
    >>> br.adjust_many([([[0.7, 0.3]], [0.3, 0.6])], errors="keep")
    [BadRates('rates sum to 0.9, not 1; if they are proportions, divide them by their sum')]
    """
    if errors not in ("raise", "keep"):
        raise BadOption(f"errors must be 'raise' or 'keep', not {errors!r}")
    items = list(problems)
    _load_kernels(items, options)
    answers: list[Adjustment | BaserateError] = []
    # One after the other: a large batch uses all cores by itself, and on small ones threads would wait for each other.
    for i, item in enumerate(items):
        try:
            answers.append(adjust(**_as_call(item, options)))
        except BaserateError as error:
            if errors == "raise":
                error.add_note(f"This was problem {i} of {len(items)}, counted from 0.")
                raise
            answers.append(error)
    return answers


def _as_call(item: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(item, Mapping):
        call = {**options, **item}
    elif isinstance(item, (tuple, list)) and len(item) == 2:
        call = {**options, "probs": item[0], "rates": item[1]}
    else:
        raise BadOption(f"a problem must be a pair (probs, rates) or a dict of arguments, not {type(item).__name__}")
    if absent := [name for name in ("probs", "rates") if name not in call]:
        raise BadOption(f"the problem has no {' and no '.join(absent)}")
    return call


def _load_kernels(items: Sequence[Any], options: Mapping[str, Any]) -> None:
    """Load what all of the batches together are worth, though each of them may be too small for it."""
    wanted: dict[tuple[str, int, np.dtype[Any]], Loss] = {}
    n_values = 0
    for item in items:
        try:
            call = _as_call(item, options)
            loss, probs = as_loss(call.get("loss", "log")), call["probs"]
        except BaserateError:  # told in its turn
            continue
        shape = np.shape(probs) if isinstance(probs, (np.ndarray, list)) else getattr(probs, "shape", ())
        if len(shape) == 2 and call.get("bounded", True) and not call.get("from_logits"):
            dtype = probs.dtype if isinstance(probs, np.ndarray) else np.dtype(np.float64)
            wanted[loss.name, shape[1], dtype] = loss
            n_values += shape[0] * shape[1]
    for (_, n_classes, dtype), loss in wanted.items():
        prepare(loss, n_classes, dtype, n_values)
