"""Formulas as MathML, which browsers display without JavaScript and without a network.

Not MathJax: Sphinx loads it from another host. Its offline copies add more than 1 MB to the site.
"""

from __future__ import annotations

import re

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number
from sphinx.writers.html5 import HTML5Translator

logger = logging.getLogger(__name__)


PRIME = re.compile(r"<msup>(<mi>\w</mi>)<mi>(&#x0203[23];)</mi></msup>")


def mathml(node: nodes.Element, display: str) -> str:
    """The formula of a node as MathML, with a warning if a command of LaTeX is unknown to the converter."""
    markup = convert(node.astext().strip(), display=display)
    # The glyph of a prime is raised already. As a superscript it would stand far above its letter.
    markup = PRIME.sub(r'<mrow>\1<mo lspace="0" rspace="0">\2</mo></mrow>', markup)
    if "\\" in markup:
        logger.warning("a formula has a command that latex2mathml does not know: %s", node.astext(), location=node)
    return markup


def visit_inline(self: HTML5Translator, node: nodes.math) -> None:
    """A formula in a sentence."""
    self.body.append(self.starttag(node, "span", "", CLASS="math notranslate"))
    self.body.append(mathml(node, "inline") + "</span>")
    raise nodes.SkipNode


def visit_block(self: HTML5Translator, node: nodes.math_block) -> None:
    """A formula on lines of its own, with its number if it has a label. The search reads only the text of the page."""
    self.body.append(self.starttag(node, "div", CLASS="math notranslate"))
    self.body.append(mathml(node, "block"))
    if node["number"]:
        self.body.append(f'<span class="eqno">({get_node_equation_number(self, node)})')
        self.add_permalink_ref(node, "Link to this equation")
        self.body.append("</span>")
    self.body.append("</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
