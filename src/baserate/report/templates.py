"""The pages, filled."""

from __future__ import annotations

import re
from typing import Any

_TEMPLATES = {"html": "page.html.j2", "markdown": "page.md.j2"}


def filled(kind: str, about: dict[str, Any], pictures: dict[str, str]) -> str:
    """A page; in HTML everything is escaped but the pictures, which are ours."""
    import jinja2
    from markupsafe import Markup

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("baserate", "report"),
        autoescape=kind == "html",
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["md"] = _in_markdown
    drawn = {name: Markup(svg) for name, svg in pictures.items()}  # drawn by matplotlib, names as paths
    return environment.get_template(_TEMPLATES[kind]).render(**about, pictures=drawn)


def _in_markdown(text: object) -> str:
    """Text that is no markup, in one line."""
    line = re.sub(r"\s+", " ", str(text))
    line = re.sub(r"([\\`*_{}\[\]<>()#+!|~&$])", r"\\\1", line)
    return re.sub(r"^(\s*)(\d*)([-.)=])", r"\1\2\\\3", line)  # no list, rule or heading either
