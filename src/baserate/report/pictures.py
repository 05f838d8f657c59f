"""The pictures of a report, as SVG that is embedded in the page."""

from __future__ import annotations

import io
import re
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from baserate.displays import (
    GroupRatesDisplay,
    MovementDisplay,
    RatesDisplay,
    RateSensitivityDisplay,
    ReliabilityDisplay,
)
from baserate.report.content import Content
from baserate.result.grouped import GroupedResult
from baserate.result.record import Result


def draw_pictures(result: Result, content: Content, y: ArrayLike | None) -> dict[str, str]:
    """The pictures of a report by name, as SVG. The one of reliability needs labels."""
    import matplotlib as mpl

    # The default style, whatever style the caller uses for other plots. Letters are drawn as paths: they look the same
    # on every machine, and a class name cannot be interpreted as markup.
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update({"svg.fonttype": "path", "svg.hashsalt": "baserate"})
        return {name: _svg(display.figure_) for name, display in _displays(result, content, y).items()}


def _displays(result: Result, content: Content, y: ArrayLike | None) -> dict[str, Any]:
    about, changes, rows = content.about, content.changes, content.rows
    displays: dict[str, Any] = {
        "rates": RatesDisplay.from_adjustment(result),
        "row_changes": MovementDisplay.from_predictions(changes.before, changes.after, classes=result.classes),
    }
    if isinstance(result, GroupedResult):
        for i, margin in enumerate(result.groups.margins):
            if margin.keys:
                displays[f"groups{i}"] = GroupRatesDisplay.from_adjustment(result, margin.name)
    elif about["procedure"] != "prior" and any(np.isfinite(one["sensitivity"]) for one in about["classes"]):
        displays["sensitivity"] = RateSensitivityDisplay.from_adjustment(result)
    if rows is not None and y is not None:
        both = (rows.before[:, 1], rows.after[:, 1]) if result.one_column else (rows.before, rows.after)
        displays["reliability"] = ReliabilityDisplay.from_predictions(*both, y, classes=result.classes)
    return displays


def _svg(figure: Any) -> str:
    import matplotlib.pyplot as plt

    out = io.StringIO()
    try:
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    finally:
        plt.close(figure)
    return re.sub(r"^.*?(?=<svg)|<metadata>.*?</metadata>", "", out.getvalue(), flags=re.DOTALL)
