"""The pictures of a report, as SVG that stands in the page itself."""

from __future__ import annotations

import io
import re
from typing import Any

from baserate.result import Adjustment


def pictures(result: Adjustment, about: dict[str, Any]) -> dict[str, str]:
    """SVG by name."""
    return {}


def _svg(figure: Any) -> str:
    import matplotlib as mpl

    out = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "path", "svg.hashsalt": "baserate"}):
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    return re.sub(r"^.*?(?=<svg)", "", out.getvalue(), flags=re.S)
