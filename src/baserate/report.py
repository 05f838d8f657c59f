"""One page about an adjustment, to keep or to send."""

from __future__ import annotations

import html
import os
import platform
from importlib import metadata

from baserate import files, text
from baserate.result import Adjustment

_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid color-mix(in srgb, currentColor 25%, transparent); overflow-wrap: anywhere; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; padding: 0.6rem; border: 1px solid currentColor; }
"""


def write_report(path: str | os.PathLike[str], result: Adjustment, *, command: str | None = None) -> None:
    """Write one HTML file that needs no other; ``command`` is what to type to do the same again."""
    with files.whole(path) as file:
        file.write(page(result, command=command).encode())


def page(result: Adjustment, *, command: str | None = None) -> str:
    """The page; everything that comes from outside is escaped."""
    again = f"<h2>To do it again</h2><pre>{html.escape(command)}</pre>" if command else ""
    return (
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>Adjusted predictions</title><style>{_STYLE}</style></head>\n<body>"
        f"<h1>Adjusted predictions</h1>{text.html(result)}{again}"
        f"<h2>Made with</h2><p>{html.escape(_versions())}</p></body></html>\n"
    )


def _versions() -> str:
    packages = ", ".join(f"{name} {metadata.version(name)}" for name in ("baserate", "numpy", "scipy"))
    return f"{packages}, Python {platform.python_version()}"
