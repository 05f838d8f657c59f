"""The pictures of a report, as SVG that stands in the page itself."""

from __future__ import annotations

import io
import re
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from baserate.analysis.row_changes import AllRows, RowChanges
from baserate.displays import MovementDisplay, RatesDisplay, RateSensitivityDisplay, ReliabilityDisplay
from baserate.result.record import Result


def pictures(result: Result, changes: RowChanges, rows: AllRows | None, y: ArrayLike | None) -> dict[str, str]:
    """SVG by name; ``rows`` and ``y`` are needed for reliability only."""
    import matplotlib as mpl

    # In the usual style, whatever the caller has chosen for pictures of their own. Letters are shapes: they look alike
    # everywhere, and a name in them cannot be markup.
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update({"svg.fonttype": "path", "svg.hashsalt": "baserate"})
        drawn: dict[str, Any] = {"rates": RatesDisplay.from_adjustment(result)}
        drawn["moves"] = MovementDisplay.from_predictions(changes.before, changes.after, classes=result.classes)
        if np.isfinite(result.certificate.sensitivity).any() and result.procedure != "prior":
            drawn["sensitivity"] = RateSensitivityDisplay.from_adjustment(result)
        if rows is not None and y is not None:
            drawn["reliability"] = ReliabilityDisplay.from_predictions(
                rows.before, rows.after, y, classes=result.classes
            )
        return {name: _svg(display.figure_) for name, display in drawn.items()}


def _svg(figure: Any) -> str:
    import matplotlib.pyplot as plt

    out = io.StringIO()
    try:
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    finally:
        plt.close(figure)
    return re.sub(r"^.*?(?=<svg)|<metadata>.*?</metadata>", "", out.getvalue(), flags=re.DOTALL)
