"""The linter for our language finds what it is meant to find, and accepts plain sentences."""

from __future__ import annotations

import sys

import pytest
from tool_support import ROOT, load_tool

pytest.importorskip("proselint", reason="the linter uses it; the extra docs installs it")
sys.path.insert(0, str(ROOT / "tools"))  # prose.py imports its neighbour
prose = load_tool("prose")
texts = load_tool("prose_texts")

REWRITTEN = [
    ("It has one number a class.", "It has one number per class."),
    ("One row a patient is enough.", "One row per patient is enough."),
    (
        "Labels of which no procedure has seen more than their rates.",
        "The true labels. The procedures were given only the class frequencies, not the labels.",
    ),
    (
        "It changes the predictions, and no more than that takes.",
        "It makes the smallest change that gives the requested class rates.",
    ),
    ("Guaranteed was a fall of log loss by 0.048.", "The guarantee was a log loss lower by at least 0.048."),
    ("Told how far the work is", "Receives progress updates."),
    ("Most values of the dual that are computed, each a pass over the rows", "Maximum number of passes."),
    ("Have the rows written of which no sums are wanted.", "Write the adjusted rows."),
    ("This is a pattern whose star is the class.", "This is a pattern where the star matches the class name."),
    ("The dictionary has no rate for 0.", "The dictionary has no entry for class 0."),
    ("The rows are gone, so it cannot be said how they moved.", "Their change cannot be computed."),
    ("Better no answer than a wrong one.", "Returns None rather than guessing."),
    ("The model is used in a new place.", "The model is used on the target population."),
    ("The map of the house", "Package layout"),
    ("Never does the loss rise.", "The loss never rises."),
    ("The the loss falls.", "The loss falls."),
    ("BGA lowers the loss.", "Bounded general adjustment (BGA) lowers the loss. BGA is fast."),
]


def found_in(page: str) -> list[str]:
    source = texts.Source("page.md", texts.of_page(page))
    own = [finding for text in source.texts for finding in prose.vocabulary(source, text)]
    return [str(finding) for finding in [*own, *prose.abbreviations(source), *prose.general(source)]]


@pytest.mark.parametrize(("before", "after"), REWRITTEN, ids=[before[:30] for before, _ in REWRITTEN])
def test_hard_sentences_are_found_and_plain_ones_accepted(before: str, after: str) -> None:
    assert found_in(before)
    assert not found_in(after)


def test_long_sentences_are_found() -> None:
    assert found_in("The " + "very long " * 25 + "sentence ends here.")


def test_code_and_formulas_are_not_read_as_prose() -> None:
    page = "Use `one number a class` and $one row a patient$.\n\n```python\n# one number a class\n```\n\nThat is all."
    assert not found_in(page)


def test_tables_and_lists_are_read() -> None:
    assert found_in("| what | why |\n|---|---|\n| one number a class | short |")
    assert found_in("- first\n- one number a class")


def test_docstrings_messages_and_help_are_read() -> None:
    module = '''
"""Good text."""

def adjust(probs):
    """Return one number a class.

    Parameters
    ----------
    probs : array
        Predictions.

    Examples
    --------
    >>> "one row a patient"
    """
    raise BadRates(f"{probs} has no rate for 0")

option(help="one panel a digit")
'''
    source = texts.Source("module.py", texts.of_module(module))
    found = [finding.words for text in source.texts for finding in prose.vocabulary(source, text)]
    assert sorted(found) == ["has no rate for", "one number a class", "one panel a digit"]
