"""Who sums the rows. The engine follows from the type of the predictions; see :mod:`baserate.engines.base`.

A new engine is one new file in this folder with a subclass of :class:`Engine`: nothing else has to know of it.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

from numpy.typing import ArrayLike

from baserate.engines.base import Engine

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")


def engine_for(probs: Any, sample_weight: ArrayLike | None) -> Engine:
    """The engine that takes these predictions; arrays in memory are the last resort."""
    engines = sorted(Engine.__subclasses__(), key=lambda cls: cls.last_resort)
    return next(engine for cls in engines if (engine := cls.open(probs, sample_weight)) is not None)
