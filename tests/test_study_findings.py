"""Tables, claims, figures and pages of a study, and the comparison with the paper's solvers."""

from __future__ import annotations

import json
import re
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from study_support import make_plan, predictions, run_study

import baserate as br
from baserate.progress import SILENT
from baserate.study.claims import Claim, claims_text
from baserate.study.figures import FIGURES, draw, save_all
from baserate.study.findings import Findings
from baserate.study.paper_claims import paper_claims
from baserate.study.reference import compare, cvxpy_answer, saerens
from baserate.study.run import Study
from baserate.study.runs import PredictionSet
from baserate.study.tables import cells, means, medians, n_tasks, read_results
from baserate.study.tasks import ADJUSTERS, Task, tasks_of


def test_sizes_of_shifts_are_thirds(findings: Findings) -> None:
    shifted = findings.frame.drop_duplicates(["set", "shift"])
    counts = shifted["size"].value_counts()
    assert counts.max() - counts.min() <= 1
    ends = shifted.groupby("size", observed=True)["distance"].agg(["min", "max"])
    assert ends.loc["low", "max"] <= ends.loc["medium", "min"]
    assert ends.loc["medium", "max"] <= ends.loc["high", "min"]


def test_cells_have_the_statistics_of_their_tasks(findings: Findings) -> None:
    frame = findings.frame
    row = cells(frame, "log").set_index(["adjuster", "size", "off"]).loc[("ppa", "high", 0.02)]
    one = frame[(frame["adjuster"] == "ppa") & (frame["size"] == "high") & (frame["error"].abs() == 0.02)]
    reduction = 1 - one["log_after"] / one["log_before"]
    assert row["tasks"] == len(one)
    assert [row["mean"], row["median"], row["worse"]] == pytest.approx(
        [reduction.mean(), reduction.median(), (reduction < 0).mean()]
    )
    assert means(frame, "log", "ppa").loc["high", 0.02] == pytest.approx(reduction.mean())
    assert medians(frame, "log", "ppa").loc["high", 0.02] == pytest.approx(reduction.median())


def verdict(found: list[Claim], start: str) -> Claim:
    return next(claim for claim in found if claim.text.startswith(start))


def test_guarantees_hold_in_every_task(findings: Findings) -> None:
    found = findings.claims
    assert verdict(found, "On average, BGA reduces log loss").why.startswith("No interval: 1 data set")
    for start in (
        "With exact rates, BGA for the Brier score",
        "With exact rates, BGA for log loss",
        "With exact rates, UGA",
        "New: BGA to a rate set",
    ):
        assert verdict(found, start).holds, start
    exact = findings.frame[(findings.frame["error"] == 0) & (findings.frame["adjuster"] == "bga-log")]
    assert f"0 exceptions in {len(exact)} tasks" in verdict(found, "With exact rates, BGA for log loss").ours
    assert "does not hold" in claims_text(found), "this study is smaller than the paper's"


def spoiled(frame: pd.DataFrame, adjuster: str, error: float, measure: str, by: float) -> pd.DataFrame:
    """The results, changed so that the loss of one task increased."""
    frame = frame.copy()
    row = frame.index[(frame["adjuster"] == adjuster) & (frame["error"] == error)][0]
    frame.loc[row, f"{measure}_after"] = frame.loc[row, f"{measure}_before"] + by
    return frame


@pytest.mark.parametrize(
    ("start", "adjuster", "error", "measure"),
    [
        ("With exact rates, BGA for the Brier score", "bga-brier", 0.0, "brier"),
        ("With exact rates, BGA for log loss", "bga-log", 0.0, "log"),
        ("New: BGA to a rate set that contains the true rates never increases the Br", "set-brier", -0.04, "brier"),
        ("New: BGA to a rate set that contains the true rates never increases log", "set-log", 0.01, "log"),
        ("With exact rates, UGA", "bga-brier", 0.0, "brier"),
    ],
)
def test_one_exception_disproves_a_guarantee(
    findings: Findings, start: str, adjuster: str, error: float, measure: str
) -> None:
    claim = verdict(paper_claims(spoiled(findings.frame, adjuster, error, measure, 1e-9), 6, None), start)
    assert not claim.holds
    assert claim.why == "This contradicts the theorem."
    assert claim.ours.startswith("1 exception in")


def test_rounding_is_no_exception_but_a_missed_guarantee_is(findings: Findings) -> None:
    frame = spoiled(findings.frame, "bga-log", 0.0, "log", 1e-14)
    claim = verdict(paper_claims(frame, 6, None), "With exact rates, BGA for log loss")
    assert "0 exceptions" in claim.ours
    assert "below its guarantee in 1" in claim.ours
    assert not claim.holds


def test_claims_without_tasks_cannot_be_told(findings: Findings) -> None:
    wrong = paper_claims(findings.frame[findings.frame["error"] != 0], 6, None)
    for start in ("With exact rates, BGA for log", "With exact rates, UGA", "On average, BGA reduces log loss"):
        assert verdict(wrong, start).holds is None, start
        assert verdict(wrong, start).why
    exact = paper_claims(findings.frame[findings.frame["error"] == 0], 6, None)
    assert verdict(exact, "With wrong rates").holds is None
    assert "undecided" in claims_text(exact)
    assert all(claim.why for claim in [*wrong, *exact] if not claim.holds), "each has a reason"


def test_claims_that_something_can_occur_need_an_example(findings: Findings) -> None:
    frame = findings.frame.copy()
    frame["brier_after"] = frame["brier_before"] - 0.01
    found = paper_claims(frame, 6, None)
    for start in ("PPA sometimes increases the Brier", "BGA for log loss can increase"):
        assert verdict(found, start).holds is None
        assert verdict(found, start).why == "It did not occur in these tasks."


def test_figure_shows_the_means_of_every_cell(findings: Findings) -> None:
    figure = draw(pd.concat([findings.frame] * 10), "bga-and-ppa")
    axes = figure.get_axes()
    assert len(axes) == 2 * 3 * 5
    assert [ax.get_title() for ax in axes[:5]] == [
        "exact rates",
        *(f"rates off by {e}" for e in (0.01, 0.02, 0.04, 0.08)),
    ]
    for panel, (measure, adjuster) in enumerate((("brier", "bga-brier"), ("log", "bga-log"))):
        for i, size in enumerate(("high", "medium", "low")):
            for j, off in enumerate((0.0, 0.01, 0.02, 0.04, 0.08)):
                ax = axes[15 * panel + 5 * i + j]
                solid = [line for line in ax.get_lines() if line.get_linewidth() == 2.0]
                heights = [line.get_ydata()[0] for line in solid]
                wanted = [means(findings.frame, measure, name).loc[size, off] for name in (adjuster, "ppa")]
                assert heights == pytest.approx([value for value in wanted if value >= -0.6])
                assert len(ax.collections) == 2, "two half violins"
    plt.close(figure)


def test_few_values_are_drawn_as_points(findings: Findings) -> None:
    few = findings.frame[findings.frame["set"] == "mine/mine/0"]
    figure = draw(few, "point-and-set")
    drawn = [line.get_ydata() for ax in figure.get_axes() for line in ax.get_lines() if line.get_marker() == "o"]
    for measure in ("brier", "log"):
        for adjuster in (f"bga-{measure}", f"set-{measure}"):
            values = few[few["adjuster"] == adjuster][f"{measure}_reduction"]
            assert set(values[values >= -0.6]) <= set(np.concatenate(drawn))
    plt.close(figure)


def test_width_of_a_half_violin_is_the_share_of_visible_tasks(findings: Findings) -> None:
    frame = pd.concat([findings.frame] * 10, ignore_index=True)

    def width(table: pd.DataFrame) -> float:
        figure = draw(table, "bga-and-ppa")
        x = figure.get_axes()[0].collections[0].get_paths()[0].vertices[:, 0]
        plt.close(figure)
        return float(np.ptp(x))

    cell = frame.index[(frame["adjuster"] == "bga-brier") & (frame["size"] == "high") & (frame["off"] == 0)]
    whole = width(frame)
    frame.loc[cell[: len(cell) // 2], "brier_reduction"] = -np.inf
    assert width(frame) == pytest.approx(whole / 2, rel=0.1)


def test_mean_below_the_visible_range_is_marked(findings: Findings) -> None:
    frame = findings.frame.copy()
    frame.loc[frame["adjuster"] == "ppa", "log_reduction"] = -np.inf
    figure = draw(frame, "bga-and-ppa")
    ax = figure.get_axes()[15]
    assert [line.get_marker() for line in ax.get_lines()].count("v") == 1
    plt.close(figure)


@pytest.fixture(scope="module")
def pages(findings: Findings, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The files of the page, in one folder."""
    return findings.write_pages(tmp_path_factory.mktemp("pages"))


def test_figures_are_reproducible(
    findings: Findings, pages: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = [f"{name}{suffix}" for name in FIGURES for suffix in (".png", ".svg")]
    assert [path.name for path in pages][-len(saved) :] == saved
    monkeypatch.setattr("baserate.study.figures.FIGURES", {"bga-and-ppa": FIGURES["bga-and-ppa"]})
    again = save_all(findings.frame, tmp_path)
    assert [path.name for path in again] == saved[:2]
    for path in again:
        assert path.read_bytes() == (pages[0].parent / path.name).read_bytes()


def test_page_contains_the_results_and_working_links(findings: Findings, pages: list[Path]) -> None:
    folder = pages[0].parent
    page = (folder / "README.md").read_text()
    assert f"**{n_tasks(findings.frame)} adjustment tasks**" in page
    assert "6 prediction sets" in page
    for claim in findings.claims:
        assert f"| {claim.text} | {claim.paper} | {claim.ours} | {claim.certainty} |" in page
    for link in re.findall(r"\]\(([^)]+)\)", page):
        assert link.startswith("https://") or (folder / link).exists(), link
    settings = json.loads((folder / "settings.json").read_text())
    assert settings["study_seed"] == 0
    assert settings["versions"]["baserate"] == br.__version__
    corpus = pd.read_csv(folder / "corpus.csv")
    assert corpus["taken"].tolist() == [6]
    table = pd.read_csv(folder / "cells-log.csv")
    assert table["tasks"].sum() == findings.frame["log_reduction"].notna().sum()
    assert all(path.exists() for path in pages)


def test_special_characters_in_file_names_are_escaped_on_the_page(tmp_path: Path, figures_not_saved: None) -> None:
    file = tmp_path / "a|b <i> *c* _d_.csv"
    predictions(1).to_csv(file, index=False)
    found = run_study(Study(tmp_path / "out", make_plan(file, errors=(0.0,))))
    found.write_pages(tmp_path / "pages")
    page = (tmp_path / "pages" / "README.md").read_text()
    assert "<i>" not in page
    rows = [line for line in page.splitlines() if "&lt;i>" in line]
    assert len(rows) >= 3, "in the two tables by model, and in the table of the corpus"
    for row in rows:
        assert r"a\|b &lt;i> \*c\* \_d\_" in row


def test_read_results_splits_ties_evenly(tmp_path: Path) -> None:
    rows = [{"set": f"s{j}", "shift": "prior", "distance": 0.1, "error": 0.0} for j in range(9)]
    pd.DataFrame(rows).to_parquet(tmp_path / "r.parquet")
    assert read_results(tmp_path / "r.parquet")["size"].value_counts().tolist() == [3, 3, 3]


def test_prior_adjust_agrees_with_the_formula_of_saerens() -> None:
    rng = np.random.default_rng(0)
    p, old, new = rng.dirichlet(np.ones(4), size=50), rng.dirichlet(np.ones(4)), rng.dirichlet(np.ones(4))
    assert br.prior_adjust(p, old, new).probs == pytest.approx(saerens(p, old, new), abs=1e-15)
    posterior = p * new / old  # Bayes' rule
    assert saerens(p, old, new)[3] == pytest.approx(posterior[3] / posterior[3].sum())


def test_package_agrees_with_cvxpy_on_a_sample_of_the_tasks(study: Study, findings: Findings) -> None:
    paths = study.collect(1, SILENT)
    study.compare(paths, 12, SILENT)
    found = findings.comparison
    assert found is not None
    assert found.tasks == 12
    assert found.brier_checked == 12
    assert found.log_checked >= 6
    assert found.ppa_difference < 1e-14
    assert found.brier_difference < 1e-6
    assert found.log_difference < 1e-6
    assert found.largest_gap < 1e-9
    assert found.papers_seconds > found.seconds > 0
    written = (study.folder / "comparison.json").stat().st_mtime_ns
    study.compare(paths, 12, SILENT)
    assert (study.folder / "comparison.json").stat().st_mtime_ns == written, "not solved again"


def test_claim_cannot_be_told_if_the_reference_solver_fails(
    findings: Findings, one_set: PredictionSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cvxpy.error import SolverError

    def fails(*_: object, **options: object) -> None:
        raise SolverError("no")

    task = next(task for task in tasks_of(one_set, 0) if isinstance(task, Task))
    monkeypatch.setattr("baserate.study.reference.cvxpy_answer", fails)
    found = compare([task], SILENT)
    assert (found.brier_checked, found.log_checked, found.papers_failures) == (0, 0, 2)
    assert verdict(paper_claims(findings.frame, 6, found), "BGA of this package").holds is None


def test_comparison_detects_wrong_adjusters(one_set: PredictionSet, monkeypatch: pytest.MonkeyPatch) -> None:
    task = next(task for task in tasks_of(one_set, 0) if isinstance(task, Task))
    monkeypatch.setitem(ADJUSTERS, "bga-brier", lambda task: br.additive(task.shifted.probs, task.stated))
    monkeypatch.setitem(ADJUSTERS, "ppa", lambda task: br.adjust(task.shifted.probs, task.stated))
    found = compare([task], SILENT)
    assert found.brier_difference > 1e-3
    assert found.ppa_difference > 1e-3


def test_reference_solution_agrees_with_a_hand_computation() -> None:
    p = np.array([[0.7, 0.3], [0.1, 0.9]])
    answer, is_optimal = cvxpy_answer(p, np.array([0.2, 0.8]), "brier", solver="CLARABEL")
    assert is_optimal
    assert answer == pytest.approx(np.array([[0.4, 0.6], [0.0, 1.0]]), abs=1e-4)
