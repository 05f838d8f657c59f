"""How ``make docs`` builds the site.

The pages are plain Markdown, so that they also read well where the code is hosted. What only the site has is made here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import click
from docutils import nodes
from sphinx.application import Sphinx

import baserate
from baserate.cli import main

project = "baserate"
author = "The baserate developers"
copyright = author  # noqa: A001 (Sphinx calls it so)
version = release = baserate.__version__

extensions = [
    "myst_parser",  # Markdown
    "sphinx.ext.autodoc",  # docstrings
    "sphinx.ext.autosummary",  # a page for each public name
    "numpydoc",  # their sections
]
templates_path = ["_templates"]
exclude_patterns = ["_build"]
nitpicky = True  # a reference that leads nowhere is a warning, and `make docs` takes warnings for errors

myst_heading_anchors = 3  # links to headings, as code hosts make them

html_theme = "furo"  # brings its own style sheet and scripts, and asks no other host for anything
html_title = f"baserate {release}"
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["wide.css"]

autodoc_typehints = "none"  # numpydoc's sections say the types in words
autodoc_inherit_docstrings = False  # a method of a subclass is described where the base declares it
autosummary_filename_map = {"baserate.Sensitivity": "baserate.Sensitivity-class"}  # some disks know no upper case
numpydoc_show_class_members = False  # _templates/autosummary/class.rst shows them, each with its description


def navigation(text: str) -> str:
    """The sidebar, from index.md: its headings, and below each the pages that it links to, in that order."""
    parts = []
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        links = re.findall(r"\[([^\]]+)\]\(([^)#:]+)\.md\)", section)
        pages = [f"{title} <{page}>" for title, page in links]
        parts += ["```{toctree}", ":hidden:", f":caption: {section.splitlines()[0]}", "", *pages, "```", ""]
    return "\n".join(parts)


def commands(command: click.Command, name: str, above: click.Context | None = None) -> Iterator[str]:
    """What --help prints, of a command and of those below it."""
    context = click.Context(command, above, name, terminal_width=88, **command.context_settings)
    yield f"## {context.command_path}\n\n```text\n{command.get_help(context)}\n```\n"
    for below in getattr(command, "commands", {}).values():
        yield from commands(below, below.name, context)


def add_what_is_made(app: Sphinx, page: str, source: list[str]) -> None:
    """Below the Markdown of a page, what only the site has."""
    if page == "index":
        source[0] += "\n" + navigation(source[0])
    if page == "command-line":
        source[0] += "\n" + "\n".join(commands(main, "baserate"))


def trim_code(app: Sphinx, tree: nodes.document) -> None:
    """Doctest wants an empty line before the end of a block of code; readers do not."""
    for block in tree.findall(nodes.literal_block):
        block.rawsource = block.astext().rstrip()
        block.children = [nodes.Text(block.rawsource)]


def skip(app: Sphinx, what: str, name: str, *rest: object) -> bool | None:
    """Leave out what scikit-learn adds to estimators; its texts refer to its own pages."""
    return True if re.fullmatch(r"set_\w+_request", name) else None


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("source-read", add_what_is_made)
    app.connect("doctree-read", trim_code)
    app.connect("autodoc-skip-member", skip)
