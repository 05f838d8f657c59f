"""The README and the how-to guides: their commands run, and their figures are those that were measured."""

from __future__ import annotations

import json
import re
import runpy
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from baserate.cli import main

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
GUIDES = sorted((ROOT / "docs" / "guides").glob("*.md"))


def run(line: str) -> None:
    program, *words = shlex.split(line, comments=True)
    answer = CliRunner().invoke(main, words)
    assert (program, answer.exit_code) == ("baserate", 0), f"{line}\n{answer.output}"


def commands(page: str) -> list[str]:
    """The lines of all blocks of shell commands; a backslash continues a line."""
    blocks = re.findall(r"^```sh\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    return [line for block in blocks for line in block.replace("\\\n", " ").splitlines() if line.strip()]


def write_tables(folder: Path) -> None:
    """The files that the commands name, with columns of these names."""
    rng = np.random.default_rng(0)
    p = rng.beta(1, 4, size=300)
    table = pd.DataFrame({"id": [f"{i:03}" for i in range(300)], "p_ill": p, "p_fraud": p, "p_malignant": p})
    table["y"] = np.where(rng.random(300) < p, "ill", "not ill")
    for name in ("patients.csv", "new.csv"):
        table[["id", "p_ill", "y"]].to_csv(folder / name, index=False)
    visits = table[["p_ill"]].assign(clinic=np.tile(list("abc"), 100), age=np.repeat(["under 50", "over 50"], 150))
    visits.to_csv(folder / "visits.csv", index=False)
    pd.Series({"a": 0.1, "b": 0.2, "c": 0.3}, name="rate").rename_axis("clinic").to_csv(folder / "clinics.csv")
    pd.Series({"under 50": 0.1, "over 50": 0.3}, name="rate").rename_axis("age").to_csv(folder / "ages.csv")
    others = rng.beta(1, 4, size=400)
    validation = pd.DataFrame({"p_ill": others, "y": np.where(rng.random(400) < others, "ill", "not ill")})
    validation.to_csv(folder / "validation.csv", index=False)
    table[["id", "p_malignant"]].to_csv(folder / "masses.csv", index=False)
    for name in ("january.parquet", "february.parquet"):
        table[["id", "p_fraud"]].to_parquet(folder / name)
    for part in range(3):
        (folder / "predictions").mkdir(exist_ok=True)
        table[["id", "p_fraud"]][part::3].to_parquet(folder / "predictions" / f"{part}.parquet")


@pytest.mark.parametrize("page", [ROOT / "README.md", *GUIDES], ids=lambda page: page.stem)
def test_commands_of_the_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_tables(tmp_path)
    for line in commands(page.read_text(encoding="utf-8")):
        run(line)


def test_readme_command_and_code_give_the_same_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shown = re.findall(r"^\d  (\d{3})  (0\.\d{3})$", README, re.MULTILINE)
    (given,) = re.findall(r">>> p = \[(.*?)\]", README)
    rows = zip([name for name, _ in shown], given.split(", "), strict=True)
    Path("patients.csv").write_text("id,p_ill\n" + "\n".join(map(",".join, rows)) + "\n", encoding="utf-8")
    run(commands(README)[0])
    written = pd.read_csv("adjusted.csv", dtype={"id": str})
    assert written["id"].tolist() == [name for name, _ in shown]
    assert written["p_ill"].round(3).tolist() == [float(value) for _, value in shown]


def test_readme_is_short_and_its_speed_was_measured() -> None:
    assert len(README.splitlines()) <= 150
    results = json.loads((ROOT / "benchmarks" / "results.json").read_text(encoding="utf-8"))
    sentences = runpy.run_path(str(ROOT / "benchmarks" / "pages.py"))["readme_sentences"]
    measured = sentences(results["sections"]["small"], results["cores"])
    assert measured in README


def test_readme_caption_states_the_numbers_of_its_picture() -> None:
    demo = runpy.run_path(str(ROOT / "examples" / "readme_demo.py"))
    probs, y = demo["new_hospital"]()
    loss, adjusted = demo["br"].losses.Log(), demo["br"].adjust(probs, y.mean()).probs
    before, after = (f"{loss.score(p, y):.3f}" for p in (probs, adjusted))
    words = " ".join(README.split())
    assert f"{len(y)} masses of which {100 * y.mean():.1f} % are" in words
    assert f"the mean is {100 * probs.mean():.0f} %" in words
    assert f"falls from {before} to {after}" in words


def test_landing_page_and_readme_have_the_same_example() -> None:
    index = " ".join((ROOT / "docs" / "index.md").read_text(encoding="utf-8").split())
    demo = runpy.run_path(str(ROOT / "examples" / "readme_demo.py"))
    probs, y = demo["new_hospital"]()
    loss, adjusted = demo["br"].losses.Log(), demo["br"].adjust(probs, y.mean()).probs
    assert f"is {probs.mean():.1%} before and {adjusted.mean():.1%} after".replace("%", " %") in index
    assert f"Log loss falls from {loss.score(probs, y):.3f} to {loss.score(adjusted, y):.3f}, as guaranteed" in index
    (given,) = re.findall(r">>> p = \[(.*?)\]", README)
    assert f">>> p = np.array([{given}])" in index


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.stem)
def test_guides_say_the_task_what_to_check_and_what_can_go_wrong(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert {"What to check", "What can go wrong", "Read more"} <= set(headings)
    assert re.match(r"# .+\n\n\*\*Task:\*\* [A-Z][^.]+\.\n\n", text)
    assert 60 <= len(text.splitlines()) <= 140
