"""The templates of the page. Everything in them is escaped, since names come from the files of users."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any

SCRIPTS = (
    *("app.js", "page.js", "start.js", "analysis.js", "rates_form.js", "fields.js", "numbers.js"),
    *("group_changes.js", "answers.js", "downloads.js", "requests.js"),
)
STATIC = (*SCRIPTS, "app.css", "icon.svg")
_TYPES = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}


@cache
def _environment() -> Any:
    import jinja2

    return jinja2.Environment(
        loader=jinja2.PackageLoader("baserate.app", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def render(template: str, **values: Any) -> str:
    """The HTML of a template."""
    return str(_environment().get_template(f"{template}.html.j2").render(**values))


@cache
def static_file(name: str) -> tuple[bytes, str]:
    """Content and media type of a script, style sheet or picture."""
    content = resources.files("baserate.app").joinpath("static", name).read_bytes()
    return content, _TYPES[name.rpartition(".")[2]]
