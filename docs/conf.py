"""How ``make docs`` builds the site.

The pages are Markdown. The folder ``_ext`` has the extensions that are written for this site.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import baserate

EXTENSIONS = Path(__file__).parent / "_ext"
sys.path.insert(0, str(EXTENSIONS))

project = "baserate"
author = "The baserate developers"
copyright = author  # noqa: A001 (Sphinx calls it so)
version = release = baserate.__version__

extensions = [
    "myst_parser",  # Markdown
    "sphinx.ext.autodoc",  # docstrings
    "sphinx.ext.autosummary",  # a page for each public name
    "numpydoc",  # their sections
    "sphinx_design",  # cards, grids and tabs
    "sphinx_copybutton",  # a button on each block of code that copies it
    "sphinx_gallery.gen_gallery",  # runs examples/gallery
    "mathml",  # formulas without JavaScript
    "search_terms",  # the words under which the search finds a page
    "generated_parts",  # the navigation and the command line reference
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "_ext"]
nitpicky = True  # a reference that leads nowhere is a warning, and `make docs` treats warnings as errors

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3  # links to headings, as code hosts make them
myst_dmath_double_inline = True  # $$...$$ within a paragraph is a displayed formula
html_math_renderer = "mathml"

html_theme = "furo"  # brings its own style sheet and scripts, and loads nothing from other hosts
html_title = f"baserate {release}"
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_search_scorer = str(EXTENSIONS / "scorer.js")
pygments_style = "default"  # all its colours have a contrast of at least 4.5 to their background
pygments_dark_style = "github-dark"

autodoc_typehints = "none"  # numpydoc's sections give the types in words
autodoc_inherit_docstrings = False  # a method of a subclass is described where the base declares it
autosummary_filename_map = {"baserate.Sensitivity": "baserate.Sensitivity-class"}  # for disks that ignore case
autosummary_context = {
    # The picture on the page of each of these names, and its caption.
    "pictures": {
        "baserate.adjust": ("movement-map.png", "Where the predictions for three kinds of wine move."),
        "baserate.prior_adjust": ("procedures.svg", "Four procedures on the same predictions of two classes."),
        "baserate.additive": ("procedures.svg", "Four procedures on the same predictions of two classes."),
        "baserate.multiplicative": ("procedures.svg", "Multiplicative adjustment is adjust for log loss."),
        "baserate.Rates": ("rates.png", "Adjustment to rates that are known to within one percentage point."),
        "baserate.Adjustment": ("rates.png", "Class rates before and after an adjustment, drawn by RatesDisplay."),
        "baserate.Certificate": ("rate-sensitivity.png", "certificate.sensitivity, drawn by RateSensitivityDisplay."),
        "baserate.sensitivity": ("sensitivity.png", "The result, drawn by SensitivityDisplay."),
        "baserate.compare": ("comparison.png", "The result, drawn by ComparisonDisplay."),
        "baserate.AdjustedClassifier": ("reliability.png", "A classifier of digits before and after an adjustment."),
        "baserate.RatesDisplay": ("rates.png", "Each rate is known to within one percentage point."),
        "baserate.MovementDisplay": ("movement.png", "Ten classes have one panel each."),
        "baserate.ReliabilityDisplay": ("reliability.png", "The most probable class of each row."),
        "baserate.RateSensitivityDisplay": ("rate-sensitivity.png", "The value of one percentage point of each rate."),
        "baserate.SensitivityDisplay": ("sensitivity.png", "The guarantee against the largest error of a rate."),
        "baserate.ComparisonDisplay": ("comparison.png", "Log loss and Brier score of each procedure."),
        "baserate.drift": ("drift.png", "The result, drawn by DriftDisplay."),
        "baserate.DriftDisplay": ("drift.png", "A shift of January, while the prevalence rises."),
        "baserate.GeometryDisplay": ("geometry.png", "One prediction of three classes with both adjustments."),
        **{
            f"baserate.losses.{name}": ("losses.svg", "Adjustment to the same rate for four losses.")
            for name in ("Log", "Brier", "Spherical", "Power")
        },
    },
}
numpydoc_show_class_members = False  # _templates/autosummary/class.rst shows them, each with its description

# The button copies only the lines after a prompt, without the prompt. A block without prompts is copied as it is.
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_line_continuation_character = "\\"

sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "auto_gallery",
    "filename_pattern": "/plot_",
    "within_subsection_order": "gallery_order.CommonFirst",
    "plot_gallery": os.environ.get("BASERATE_GALLERY", "on") != "off",  # "off": pages without running the examples
    "abort_on_example_error": True,
    "download_all_examples": False,  # two archives of what every page already offers
    "remove_config_comments": True,
    "show_memory": False,
    "write_computation_times": False,  # that page loads scripts from other hosts
    "show_signature": False,
    "thumbnail_size": (400, 280),
}
