"""The order of the examples in the gallery: from the most common question to special ones."""

from __future__ import annotations

from pathlib import Path

FIRST = [
    "plot_undersampling.py",
    "plot_new_hospital.py",
    "plot_survey.py",
    "plot_wrong_rates.py",
    "plot_small_batch.py",
    "plot_groups.py",
    "plot_next_month.py",
    "plot_which_loss.py",
    "plot_calibrate_first.py",
    "plot_decisions.py",
    "plot_value_of_rates.py",
    "plot_single_rows.py",
    "plot_multilabel.py",
]


class CommonFirst:
    """Sort key for sphinx-gallery. Examples that are not listed come last, by name."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)

    def __call__(self, name: str) -> tuple[int, str]:
        """Position in the list, then the name."""
        return (FIRST.index(name) if name in FIRST else len(FIRST), name)
