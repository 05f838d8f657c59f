"""The text of `baserate demo`: its numbers are consistent, and docs/demo.md shows the same text."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from baserate.cli.story import story

PAGE = (Path(__file__).parents[1] / "docs" / "demo.md").read_text(encoding="utf-8")
NUMBER = re.compile(r"[-+]?\d+\.\d+")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the demo writes its report."""
    return tmp_path_factory.mktemp("demo") / "baserate-demo.html"


@pytest.fixture(scope="module")
def paragraphs(report: Path) -> list[str]:
    """The text of the demo."""
    return list(story(report))


def test_docs_show_the_output_of_the_demo(paragraphs: list[str], report: Path) -> None:
    printed = "\n\n".join(paragraphs).replace(f"{report.parent}/", "")
    shown = PAGE.split("<!-- demo -->\n```text\n")[1].split("\n```\n<!-- /demo -->")[0]
    # The model is trained again, so the last digits can differ between versions of scikit-learn. The words must not.
    assert re.sub(r"\s+", " ", NUMBER.sub("#", printed)) == re.sub(r"\s+", " ", NUMBER.sub("#", shown))
    numbers = [[float(value) for value in NUMBER.findall(text)] for text in (printed, shown)]
    assert numbers[0] == pytest.approx(numbers[1], abs=0.005)


def test_loss_decreases_by_the_guarantee_and_increases_only_with_wrong_rates(
    paragraphs: list[str], report: Path
) -> None:
    printed = " ".join("\n".join(paragraphs).split())
    (guarantee,) = re.findall(r"falls by at least (\d\.\d+), whichever", printed)
    (decrease,) = re.findall(r"It fell by (\d\.\d+)", printed)
    assert float(decrease) >= float(guarantee) - 0.001 > 0
    correct, wrong, between = (float(value) for value in re.findall(r"log loss changes by ([-+]\d\.\d+)", printed))
    assert correct < 0 < wrong
    assert between <= 0
    assert "Losses according to the labels" in report.read_text(encoding="utf-8")


def test_demo_works_without_a_report(tmp_path: Path) -> None:
    assert not any("REPORT" in paragraph for paragraph in story(None))
