"""The example notebook runs, and its cells show tables, guarantees and pictures."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

ROOT = Path(__file__).parents[1]
NOTEBOOK = ROOT / "examples" / "quickstart.ipynb"


def executed(notebook: Any, folder: Path) -> Any:
    """The notebook with the outputs of its cells."""
    client = nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(folder)}})
    path = os.pathsep.join([str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])])
    return client.execute(env={**os.environ, "PYTHONPATH": path})


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """The outputs of the cells of the example notebook, by the last line of their code."""
    notebook = executed(nbformat.read(NOTEBOOK, as_version=4), tmp_path_factory.mktemp("notebook"))
    return {cell.source.splitlines()[-1]: cell.outputs for cell in notebook.cells if cell.cell_type == "code"}


def test_notebook_is_stored_without_outputs() -> None:
    cells = [cell for cell in nbformat.read(NOTEBOOK, as_version=4).cells if cell.cell_type == "code"]
    assert cells
    assert all(cell.outputs == [] and cell.execution_count is None for cell in cells)


@pytest.mark.parametrize(
    ("cell", "texts"),
    [
        (
            "result",
            ["Bounded adjustment for Log(): 500 rows, 2 classes", "mean loss falls by at least", "<td>ill</td>"],
        ),
        ("br.adjust(table, rates).probs.head(3).round(3)", ["patient 0", "<th>ill</th>"]),
        ("result.certificate", ["Guarantee for 500 rows", "mean loss falls by at least", "sensitivity"]),
        ("survey", ["Rates counted in a survey of 200 cases", "<td>178</td>", "95 % confidence"]),
        ("br.adjust(probs, survey)", ["with 95 % confidence, if the survey", "<th>at most</th>"]),
        ("br.advise(probs, rates, old_rates=[0.5, 0.5], classes=classes)", ["use adjust: the mean loss falls", "<li>"]),
        ("comparison", ["mean log loss", "<td>adjusted for log loss, to likely rates</td>", "prior adjustment: Bayes"]),
    ],
)
def test_cells_show_their_result_as_html(outputs: dict[str, list[Any]], cell: str, texts: list[str]) -> None:
    (output,) = outputs[cell]
    assert output.output_type == "execute_result"
    assert "<table" in output.data["text/html"] or "<ul>" in output.data["text/html"]
    for text in texts:
        assert text in output.data["text/html"]


@pytest.mark.parametrize("cell", ["br.RatesDisplay.from_adjustment(result)", "br.ComparisonDisplay(comparison)"])
def test_cells_show_a_display_as_one_picture(outputs: dict[str, list[Any]], cell: str) -> None:
    (output,) = outputs[cell]
    assert output.data["image/png"].startswith("iVBORw0KGgo")
    assert len(output.data["text/plain"]) < 120


def test_a_display_is_shown_again_in_a_later_cell_but_never_twice(tmp_path: Path) -> None:
    cells = [
        "import baserate as br, matplotlib.pyplot as plt\nprobs = [[0.9, 0.1], [0.3, 0.7]]",
        "display = br.RatesDisplay.from_predictions(probs, [0.7, 0.3])\ndisplay",
        "display",
        "figure, (left, right) = plt.subplots(1, 2)\n"
        "br.RatesDisplay.from_predictions(probs, [0.7, 0.3], ax=left)\n"
        "br.RatesDisplay.from_predictions(probs, [0.7, 0.3], ax=right)",
        "hidden = br.RatesDisplay.from_predictions(probs, [0.7, 0.3])",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    pictures = [
        [output for output in cell.outputs if "image/png" in output.data] for cell in executed(notebook, tmp_path).cells
    ]
    # In the last cell the display is not the last expression: matplotlib shows its figure, as it shows any other.
    assert list(map(len, pictures)) == [0, 1, 1, 1, 1]
