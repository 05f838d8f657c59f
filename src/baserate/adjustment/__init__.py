"""An adjustment: the result of solving a problem, with everything that can be done with it."""

from __future__ import annotations

import os

from baserate.adjustment.adjustment import Adjustment
from baserate.losses.base import Loss
from baserate.result.record import Result

__all__ = ["Adjustment", "as_adjustment", "load"]


def as_adjustment(result: Result) -> Adjustment:
    """The adjustment with the values of a result, with or without groups."""
    if not result.is_grouped:
        return Adjustment.of(result)
    from baserate.adjustment.grouped import GroupedAdjustment

    return GroupedAdjustment.of(result)


def load(path: str | os.PathLike[str], *, loss: Loss | None = None) -> Adjustment:
    """Read an adjustment that :meth:`Adjustment.save` wrote.

    Parameters
    ----------
    path : path-like
    loss : Loss, optional
        Required if the loss was created from Python functions, because these are not saved. It must have the same
        ``label``.

    Raises
    ------
    BadFile
        If the file is not a saved adjustment, has another version, or was changed.
    """
    from baserate.adjustment.grouped import GroupedAdjustment
    from baserate.result import saving

    return saving.load(Adjustment, GroupedAdjustment, path, loss)
