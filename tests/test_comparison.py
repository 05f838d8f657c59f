"""The comparison page: its code runs where the other packages are installed, and its figures were measured."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "comparison.md").read_text(encoding="utf-8")
BLOCKS: dict[str, str] = dict(re.findall(r"^```python\n# ([\w-]+)\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE))
MODULES = {"scikit-learn": "sklearn"}


@pytest.mark.parametrize("name", [name for name in BLOCKS if name != "predictions"])
@pytest.mark.filterwarnings("ignore")  # warnings of the other packages are theirs
def test_code_for_the_other_package_runs(name: str) -> None:
    pytest.importorskip(MODULES.get(name, name), exc_type=ImportError)
    assert "assert " in BLOCKS[name]
    names: dict[str, Any] = {}
    exec(BLOCKS["predictions"], names)
    exec(BLOCKS[name], names)


def test_figures_are_those_that_were_measured() -> None:
    results = json.loads((ROOT / "benchmarks" / "results.json").read_text(encoding="utf-8"))
    table = runpy.run_path(str(ROOT / "benchmarks" / "pages.py"))["comparison_table"]
    assert table(results["sections"]["alternatives"]) in PAGE
    stated = dict(re.findall(r"^\| \[(probcal|POT)\]\([^)]*\) ([\d.]+) \|", PAGE, re.MULTILINE))
    assert stated.keys() == {"probcal", "POT"}
    assert all(results["versions"][name].startswith(version) for name, version in stated.items())
