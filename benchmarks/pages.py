"""Write measured tables into pages of the documentation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def fill(page: str, name: str, text: str) -> None:
    """Replace the text between ``<!-- name -->`` and ``<!-- /name -->`` in a page of this repository."""
    path = ROOT / page
    before, rest = path.read_text(encoding="utf-8").split(f"<!-- {name} -->\n")
    after = rest.split(f"<!-- /{name} -->")[1]
    path.write_text(f"{before}<!-- {name} -->\n{text}\n<!-- /{name} -->{after}", encoding="utf-8")


def readme_sentences(rows: Iterable[Mapping[str, Any]], cores: int | None) -> str:
    """What the README says about speed, from the results for the small problem with log loss."""
    ms = {row["name"]: f"{1e3 * row['seconds']:.3g} ms" for row in rows if row["loss"] == "log" and "seconds" in row}
    ours, fast, paper = (ms[name] for name in ("baserate, without numba", "baserate", "CVXPY + ECOS"))
    return (
        f"On {cores} cores, 1000 rows with 8 classes take {ours} for log loss, and {fast} with the compiled\n"
        f"kernels. CVXPY with ECOS, which the paper used, takes {paper} for the same result (`make bench`)."
    )


COMPARED = {
    "POT sinkhorn": "POT: `ot.sinkhorn`",
    "POT smooth_ot_semi_dual": "POT: `ot.smooth.smooth_ot_semi_dual`",
    "probcal LogitOffset": "probcal: `LogitOffset`",
    "ipfn": "ipfn (raking)",
}


def comparison_table(rows: Iterable[Mapping[str, Any]]) -> str:
    """The table of docs/comparison.md, from the results of the alternatives."""
    lines = ["| predictions | loss | call | time | times ours | largest error of a rate |", "|---|---|---|--:|--:|--:|"]
    for row in rows:
        if row["name"] in COMPARED and row.get("failure") != "not tried":
            figures = [row.get("failure", ""), "", ""]
            if "failure" not in row:
                figures = [f"{1e3 * row['seconds']:,.1f} ms", f"{row['times_ours']:,.1f}", f"{row['residual']:.0e}"]
            cells = [f"{row['data']}, {row['n']:,} x {row['k']}", row["loss"], COMPARED[row["name"]], *figures]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
