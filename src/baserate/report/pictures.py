"""The pictures of a report, as SVG that stands in the page itself."""

from __future__ import annotations

import io
import re
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from baserate.displays import MovementDisplay, RatesDisplay, RateSensitivityDisplay, ReliabilityDisplay
from baserate.moves import Moves, predictions
from baserate.result import Adjustment


def pictures(result: Adjustment, moved: Moves, y: ArrayLike | None) -> dict[str, str]:
    """SVG by name."""
    drawn: dict[str, Any] = {"rates": RatesDisplay.from_adjustment(result)}
    drawn["moves"] = MovementDisplay.from_predictions(moved.before, moved.after, classes=result.classes)
    if np.isfinite(result.certificate.sensitivity).any() and result.procedure != "prior":
        drawn["sensitivity"] = RateSensitivityDisplay.from_adjustment(result)
    if y is not None:
        before, _ = predictions(result)
        drawn["reliability"] = ReliabilityDisplay.from_predictions(before, adjusted(result), y, classes=result.classes)
    return {name: _svg(display.figure_) for name, display in drawn.items()}


def adjusted(result: Adjustment) -> Any:
    """The adjusted rows, in memory."""
    before, _ = predictions(result)
    return result.apply(before, from_logits=False)


def _svg(figure: Any) -> str:
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    out = io.StringIO()
    try:
        # Letters as shapes: they look alike everywhere, and a name in them cannot be markup.
        with mpl.rc_context({"svg.fonttype": "path", "svg.hashsalt": "baserate"}):
            figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    finally:
        plt.close(figure)
    return re.sub(r"^.*?(?=<svg)|<metadata>.*?</metadata>", "", out.getvalue(), flags=re.DOTALL)
