"""What commands print about an adjustment."""

from __future__ import annotations

import json
from typing import Any

import click
import numpy as np

from baserate.result import text
from baserate.result.adjustment import Adjustment


def say(result: Adjustment, lines: list[str], *, as_json: bool, quiet: bool, err: bool, **more: Any) -> None:
    """Print a summary and some lines after it, or all as JSON; on standard error if the other one holds the rows."""
    if as_json:
        click.echo(json.dumps(facts(result) | more, indent=1, ensure_ascii=False), err=err)
    elif not quiet:
        click.echo("\n".join([text.summary(result), *lines]), err=err)


def facts(result: Adjustment) -> dict[str, Any]:
    """The same for scripts."""
    certificate = result.certificate
    low, high = certificate.bounds
    names = range(len(result.rates)) if result.classes is None else result.classes
    return {
        "procedure": result.procedure,
        "loss": repr(result.loss),
        "bounded": result.bounded,
        "rows": result.n_rows,
        "passes": result.n_passes,
        "engine": result.engine,
        "converged": result.converged,
        "loss_reduction": plain(certificate.loss_reduction),
        "condition": certificate.known.condition(approximate=certificate.batch_size != result.n_rows),
        "gap": plain(certificate.gap),
        "residual": plain(certificate.residual),
        "classes": [
            {
                "class": str(name),
                "before": plain(result.before[j]),
                "at_least": plain(low[j]),
                "at_most": plain(high[j]),
                "achieved": plain(result.rates[j]),
                "shift": plain(result.shift[j]),
            }
            for j, name in enumerate(names)
        ],
    }


def plain(value: float) -> float | None:
    """A number that JSON has."""
    return float(value) if np.isfinite(value) else None
