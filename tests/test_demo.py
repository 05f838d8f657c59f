"""The demo: its story, its report, and that the README shows what it prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from baserate.cli.story import story

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
NUMBER = re.compile(r"[-+]?\d+\.\d+")


def test_the_readme_shows_what_the_demo_prints(tmp_path: Path) -> None:
    said = "\n\n".join(story(tmp_path / "baserate-demo.html")).replace(f"{tmp_path}/", "")
    shown = README.split("<!-- demo -->\n```text\n")[1].split("\n```\n<!-- /demo -->")[0]
    # Models are trained anew, so the last digits may differ between versions; not the words.
    assert re.sub(r"\s+", " ", NUMBER.sub("#", said)) == re.sub(r"\s+", " ", NUMBER.sub("#", shown))
    numbers = [[float(value) for value in NUMBER.findall(text)] for text in (said, shown)]
    assert numbers[0] == pytest.approx(numbers[1], abs=0.005)


def test_the_story_holds(tmp_path: Path) -> None:
    said = " ".join("\n".join(story(tmp_path / "report.html")).split())
    (sure,) = re.findall(r"falls by at least (\d\.\d+), whatever", said)
    (fell,) = re.findall(r"it fell by (\d\.\d+)", said)
    assert float(fell) >= float(sure) - 0.001 > 0
    right, wrong, between = (float(value) for value in re.findall(r"log loss changes by ([-+]\d\.\d+)", said))
    assert right < 0 < wrong
    assert between <= 0
    assert "What it was worth, by the labels" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_without_a_report(tmp_path: Path) -> None:
    assert not any("REPORT" in paragraph for paragraph in story(None))
