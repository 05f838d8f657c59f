"""Where an adjustment came from: its rows, as long as they are there to be read again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from baserate.engines.base import Engine


@dataclass(frozen=True, eq=False)
class Origin:
    """The question to which an adjustment is the answer.

    Attributes
    ----------
    engine : Engine
        On the rows.
    what_if : callable, optional
        Adjusts the same rows to other rates, given these and the present adjustment.
    """

    engine: Engine
    what_if: Callable[..., Any] | None
