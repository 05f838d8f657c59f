"""Parts of pages that are generated: the navigation, and the command line reference."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click
from docutils import nodes
from sphinx.application import Sphinx

from baserate.cli import main

LINK = re.compile(r"^- .*?\[([^\]]+)\]\(([^)#:]+)\.(?:md|rst)\)", re.MULTILINE)


def navigation(text: str) -> str:
    """The sidebar, from index.md: its headings, and below each the page that each item of its list links to first."""
    parts = []
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        pages = [f"{title} <{page}>" for title, page in LINK.findall(section)]
        parts += ["```{toctree}", ":hidden:", f":caption: {section.splitlines()[0]}", "", *pages, "```", ""]
    return "\n".join(parts)


def commands(command: click.Command, name: str, above: click.Context | None = None) -> Iterator[str]:
    """What ``--help`` prints for a command and for those below it."""
    context = click.Context(command, above, name, terminal_width=88, **command.context_settings)
    yield f"## {context.command_path}\n\n```text\n{command.get_help(context)}\n```\n"
    for below in getattr(command, "commands", {}).values():
        yield from commands(below, below.name, context)


def add_generated_parts(app: Sphinx, page: str, source: list[str]) -> None:
    """Add what only the site has below the Markdown of a page."""
    if page == "index":
        source[0] += "\n" + navigation(source[0])
    if page == "command-line":
        source[0] += "\n" + "\n".join(commands(main, "baserate"))


def trim_code(app: Sphinx, tree: nodes.document) -> None:
    """Remove the empty line at the end of a block of code, which doctest needs and readers do not."""
    for block in tree.findall(nodes.literal_block):
        if len(block.children) == 1:  # blocks of sphinx-gallery may be highlighted already
            block.rawsource = block.astext().rstrip()
            block.replace(block[0], nodes.Text(block.rawsource))


def keep_units_together(app: Sphinx, tree: nodes.document) -> None:
    """Put a no-break space between a number and its per cent sign. Code and formulas are left as they are."""
    fixed = nodes.literal, nodes.FixedTextElement, nodes.math, nodes.math_block, nodes.raw
    for text in list(tree.findall(nodes.Text)):
        joined = re.sub(r"(\d)\s+%", "\\1\N{NO-BREAK SPACE}%", text)
        if joined != text and not isinstance(text.parent, fixed):
            text.parent.replace(text, nodes.Text(joined))


def skip(app: Sphinx, what: str, name: str, *rest: object) -> bool | None:
    """Leave out what scikit-learn adds to estimators. Its texts refer to scikit-learn's own pages."""
    return True if re.fullmatch(r"set_\w+_request", name) else None


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("source-read", add_generated_parts)
    app.connect("doctree-read", trim_code)
    app.connect("doctree-read", keep_units_together)
    app.connect("autodoc-skip-member", skip)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
