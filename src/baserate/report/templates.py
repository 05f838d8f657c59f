"""Render the templates of a report."""

from __future__ import annotations

import re
from typing import Any

_TEMPLATES = {"html": "page.html.j2", "markdown": "page.md.j2"}


def render(page_format: str, page: dict[str, Any], pictures: dict[str, str]) -> str:
    """The text of a page. In HTML everything is escaped except the pictures, which this package draws."""
    import jinja2
    from markupsafe import Markup

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("baserate", "report"),
        autoescape=page_format == "html",
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["md"] = _escape_markdown
    trusted = {name: Markup(svg) for name, svg in pictures.items()}  # class names in them are paths, not text
    return environment.get_template(_TEMPLATES[page_format]).render(**page, pictures=trusted)


def _escape_markdown(text: object) -> str:
    """Text in one line, without anything that Markdown would interpret."""
    line = re.sub(r"\s+", " ", str(text))
    line = re.sub(r"([\\`*_{}\[\]<>()#+!|~&$])", r"\\\1", line)
    return re.sub(r"^(\s*)(\d*)([-.)=])", r"\1\2\\\3", line)  # no list, rule or heading at the start of a line
