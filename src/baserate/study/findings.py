"""What lies in the folder of a study that has been run, and what it says."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from baserate.errors import BadFile
from baserate.files import whole
from baserate.study.claims import Claim, claims
from baserate.study.page import Story, write
from baserate.study.reference import Comparison
from baserate.study.runs import Account
from baserate.study.tables import read_results, skipped_by_cause

Frame = Any  # a pandas DataFrame

RESULTS, SKIPPED = "results.parquet", "skipped.parquet"
SETTINGS, ACCOUNTS, CLOCK, COMPARISON = "settings.json", "corpus.json", "clock.json", "comparison.json"
SECONDS = b"baserate.seconds"
"""Where a Parquet file keeps how many seconds of work are in it."""


@dataclass(frozen=True, eq=False)
class Findings:
    """The results of a study.

    Attributes
    ----------
    folder : Path
    """

    folder: Path

    def __post_init__(self) -> None:
        if not (self.folder / RESULTS).exists():
            raise BadFile(f"there are no results in {self.folder}; run `baserate study` with the same --out first")

    @cached_property
    def frame(self) -> Frame:
        """One row a task and adjuster, with the size of the shift and of the error."""
        return read_results(self.folder / RESULTS)

    @cached_property
    def accounts(self) -> list[Account]:
        """What became of each run."""
        return [Account(**fields) for fields in self._note(ACCOUNTS)]

    @property
    def comparison(self) -> Comparison | None:
        """What a sample of tasks showed that were solved in the paper's way as well, if that was done."""
        return Comparison(**self._note(COMPARISON)) if (self.folder / COMPARISON).exists() else None

    @cached_property
    def claims(self) -> list[Claim]:
        """Each claim of the paper with what was found."""
        return claims(self.frame, sum(account.taken for account in self.accounts), self.comparison)

    def write_pages(self, folder: Path) -> list[Path]:
        """Tables, figures and the page that shows them."""
        import pyarrow.parquet as pq

        clock = self._note(CLOCK)
        story = Story(
            self._note(SETTINGS),
            self.accounts,
            self.frame,
            skipped_by_cause(self.folder / SKIPPED),
            self.claims,
            self.comparison,
            clock["seconds"],
            float(pq.read_schema(self.folder / RESULTS).metadata[SECONDS]),
            clock["jobs"],
        )
        return write(story, folder)

    def _note(self, name: str) -> Any:
        return json.loads((self.folder / name).read_text(encoding="utf-8"))


def write_note(path: Path, fields: Any) -> None:
    """Write a small JSON file; it appears when it is complete."""
    with whole(path) as file:
        file.write((json.dumps(fields, indent=1) + "\n").encode())
