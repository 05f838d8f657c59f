"""Write measured tables into pages of the documentation."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[1]


def fill(page: str, name: str, text: str) -> None:
    """Replace the text between ``<!-- name -->`` and ``<!-- /name -->`` in a page of this repository."""
    path = ROOT / page
    before, rest = path.read_text(encoding="utf-8").split(f"<!-- {name} -->\n")
    after = rest.split(f"<!-- /{name} -->")[1]
    path.write_text(f"{before}<!-- {name} -->\n{text}\n<!-- /{name} -->{after}", encoding="utf-8")
