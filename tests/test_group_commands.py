"""Rates per group on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner, Result

import baserate as br
from baserate.cli import main

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(RNG.dirichlet([2, 1], 200), columns=["p_ok", "p_bad"]).assign(
    region=RNG.choice(["n", "s"], 200), age=RNG.integers(1, 4, 200)
)
REGIONS = pd.DataFrame({"region": ["n", "s"], "ok": [0.6, 0.7], "bad": [0.4, 0.3]})
AGES = pd.DataFrame({"age": [1, 2, 3], "low": [0.3, 0.3, 0.3], "high": [0.4, 0.4, 0.4], "class": ["bad"] * 3})


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    FRAME.to_csv("preds.csv", index=False)
    FRAME.to_parquet("preds.parquet")
    FRAME.to_feather("preds.arrow")
    REGIONS.to_csv("regions.csv", index=False)
    AGES.to_csv("ages.csv", index=False)


def run(line: str) -> Result:
    return CliRunner().invoke(main, line.split())


READERS: dict[str, Any] = {"csv": pd.read_csv, "parquet": pd.read_parquet, "arrow": pd.read_feather}


@pytest.mark.parametrize("suffix", READERS)
def test_each_file_format_can_be_adjusted_by_groups(suffix: str) -> None:
    answer = run(f"adjust preds.{suffix} --by region --rates-file regions.csv --out out.{suffix}")
    assert answer.exit_code == 0, answer.output
    written = READERS[suffix](f"out.{suffix}")
    means = written.groupby("region")[["p_ok", "p_bad"]].mean()
    np.testing.assert_allclose(means, [[0.6, 0.4], [0.7, 0.3]], atol=1e-9)
    assert "200 rows, 2 classes, 2 groups by region" in answer.output


def test_one_number_per_group_needs_the_name_of_its_class() -> None:
    pd.DataFrame({"region": ["n", "s"], "rate": [0.4, 0.3]}).to_csv("rates.csv", index=False)
    answer = run("adjust preds.csv --columns p_* --by region --rates-file rates.csv --out out.csv")
    assert answer.exit_code == 1
    assert "one number per group" in answer.output
    assert "name the column with these numbers after their class" in answer.output
    assert "--rates " not in answer.output  # another option
    pd.DataFrame({"region": ["n", "s"], "bad": [0.4, 0.3]}).to_csv("rates.csv", index=False)
    assert run("adjust preds.csv --columns p_* --by region --rates-file rates.csv --out out.csv").exit_code == 0


def test_several_margins_and_rates_of_all_rows() -> None:
    answer = run(
        "adjust preds.csv --by region --rates-file regions.csv --by age --rates-file ages.csv --rates bad=0.3..0.4 "
        "--out out.csv --json"
    )
    assert answer.exit_code == 0, answer.output
    facts = json.loads(answer.output)
    assert [margin["by"] for margin in facts["margins"]] == [["region"], ["age"], []]
    assert facts["guarantee_level"] == "all rows"
    written = pd.read_csv("out.csv")
    np.testing.assert_allclose(written.groupby("region")["p_bad"].mean(), [0.4, 0.3], atol=1e-9)
    assert written.groupby("age")["p_bad"].mean().between(0.3 - 1e-9, 0.4 + 1e-9).all()
    groups = facts["margins"][0]["groups"]
    assert [one["group"] for one in groups] == ["n", "s"]
    assert groups[0]["classes"][1]["achieved"] == pytest.approx(0.4)


def test_combinations_of_columns_and_a_saved_shift() -> None:
    table = FRAME.groupby(["region", "age"])["p_bad"].mean().rename("rate").reset_index().assign(**{"class": "bad"})
    table.to_csv("crossed.csv", index=False)
    answer = run("fit preds.csv --by region,age --rates-file crossed.csv --save-shift shift.json")
    assert answer.exit_code == 0, answer.output
    assert isinstance(br.load("shift.json"), br.GroupedAdjustment)
    answer = run("apply preds.parquet --shift shift.json --out out.parquet")
    assert answer.exit_code == 0, answer.output
    np.testing.assert_allclose(pd.read_parquet("out.parquet")["p_bad"], FRAME["p_bad"], atol=1e-9)


def test_new_groups_are_refused_or_pooled() -> None:
    run("fit preds.csv --by region --rates-file regions.csv --save-shift shift.json")
    FRAME.assign(region="w").to_csv("west.csv", index=False)
    refused = run("apply west.csv --shift shift.json --out out.csv")
    assert refused.exit_code == 1
    assert "pass --unseen pooled" in refused.output
    assert not Path("out.csv").exists()
    assert run("apply west.csv --shift shift.json --out out.csv --unseen pooled").exit_code == 0
    run("fit preds.csv --rates bad=0.3 --save-shift plain.json")
    assert "one shift for all rows" in run("apply west.csv --shift plain.json --out o.csv --unseen pooled").output


def test_options_of_tables() -> None:
    REGIONS.iloc[:1].round(1).to_csv("short.csv", index=False)
    answer = run("fit preds.csv --by region --rates-file short.csv --unlisted free --rounding 0.05 --json")
    groups = json.loads(answer.output)["margins"][0]["groups"]
    assert [(one["group"], one["known"]) for one in groups] == [("n", True), ("not in the table", False)]
    assert groups[0]["classes"][1]["at_most"] == pytest.approx(0.45)
    pd.DataFrame({"region": ["n", "s"], "ok": [30, 40], "bad": [20, 10]}).to_csv("counts.csv", index=False)
    line = "fit preds.csv --by region --rates-file counts.csv --rates-kind counts --confidence 0.9"
    assert "90 % confidence for all groups together" in run(line).output
    assert "90 % confidence for each group by itself" in run(f"{line} --each-group").output


def test_check_previews_an_adjustment_by_groups() -> None:
    answer = run("check preds.csv --by region --rates-file regions.csv")
    assert answer.exit_code == 0, answer.output
    assert "all rows are valid" in answer.output
    assert "2 groups by region" in answer.output


def test_groups_without_rows_are_a_warning() -> None:
    pd.concat([REGIONS, REGIONS.iloc[:1].assign(region="w")]).to_csv("more.csv", index=False)
    answer = run("fit preds.csv --by region --rates-file more.csv")
    assert answer.exit_code == 0
    assert "Warning: 1 group has rates but no rows" in answer.output


def test_standard_input_and_output() -> None:
    text = Path("preds.csv").read_text(encoding="utf-8")
    line = "adjust - --by region --rates-file regions.csv --out -"
    answer = CliRunner().invoke(main, line.split(), input=text)
    assert answer.exit_code == 0, answer.output
    assert answer.stdout.startswith("p_ok,p_bad,region,age\n")


@pytest.mark.parametrize("page", ["page.md", "page.html"])
def test_a_report_of_files_has_their_groups(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("baserate.engines.files._HELD_VALUES", 0)
    answer = run(f"fit preds.parquet --by region --rates-file regions.csv --report {page}")
    assert answer.exit_code == 0, answer.output
    text = Path(page).read_text(encoding="utf-8")
    assert "Groups by region" in text
