"""The procedures as functions of what a caller passes. They return plain results, which every package can use."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from baserate.inputs.row_source import RowSource
from baserate.rates import RatesLike, is_grouped
from baserate.result.record import Result
from baserate.solving.grouped import solve_groups
from baserate.solving.request import Request, parse_request
from baserate.solving.solve import solve, solve_prior

_ROW_OPTIONS = {field.name for field in fields(RowSource)}


def adjusted(probs: Any, rates: RatesLike, *, keep_rows: bool = True, **options: Any) -> Result:
    """Bounded or unbounded adjustment; takes the options of :func:`baserate.adjust`."""
    request = requested(probs, rates, allow_groups=True, **options)
    if is_grouped(request.known):
        return solve_groups(request, keep_rows=keep_rows)
    return solve(request, keep_rows=keep_rows)


def prior_adjusted(
    probs: Any, old_rates: RatesLike, new_rates: RatesLike, *, keep_rows: bool = True, **options: Any
) -> Result:
    """Prior probability adjustment; takes the options of :func:`baserate.prior_adjust`."""
    return solve_prior(requested(probs, new_rates, **options), old_rates, keep_rows=keep_rows)


def requested(probs: Any, rates: RatesLike, **options: Any) -> Request:
    """The request of a caller; takes the options of :func:`baserate.adjust`."""
    rows = {name: value for name, value in options.items() if name in _ROW_OPTIONS}
    rest = {name: value for name, value in options.items() if name not in _ROW_OPTIONS}
    return parse_request(RowSource(probs=probs, **rows), rates, **rest)
