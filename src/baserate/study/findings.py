"""The files in the folder of a finished study, and the claims and pages that are derived from them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from baserate.errors import BadFile
from baserate.study.claims import Claim
from baserate.study.page import PageContent, write_page
from baserate.study.paper_claims import paper_claims
from baserate.study.reference import Comparison
from baserate.study.runs import RunSummary
from baserate.study.tables import read_results, skipped_by_cause
from baserate.support.atomic_files import write_atomically

Frame = Any  # a pandas DataFrame

RESULTS, SKIPPED = "results.parquet", "skipped.parquet"
SETTINGS, RUN_SUMMARIES, CLOCK, COMPARISON = "settings.json", "corpus.json", "clock.json", "comparison.json"
SECONDS = b"baserate.seconds"
"""Metadata key of a Parquet file: the seconds of computation that its results took."""

_HINT = "run the study again with --fresh, or choose another folder with --out"


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
        """The results: one row per task and adjuster."""
        read_schema(self.folder / RESULTS)  # raises an error if the file is damaged
        return read_results(self.folder / RESULTS)

    @cached_property
    def summaries(self) -> list[RunSummary]:
        """How much of each run the study uses."""
        return [RunSummary(**fields) for fields in read_json(self.folder / RUN_SUMMARIES)]

    @property
    def comparison(self) -> Comparison | None:
        """The comparison with the paper's solvers, or None if it was not made."""
        if not (self.folder / COMPARISON).exists():
            return None
        try:
            return Comparison(**read_json(self.folder / COMPARISON))
        except TypeError:
            raise BadFile(f"{self.folder / COMPARISON} is damaged; delete it and run the study again") from None

    @cached_property
    def claims(self) -> list[Claim]:
        """The claims of the paper, each with the result of this study."""
        return paper_claims(self.frame, sum(summary.taken for summary in self.summaries), self.comparison)

    def write_pages(self, folder: Path) -> list[Path]:
        """Write the page with its tables and figures, and return the paths of all files."""
        clock = read_json(self.folder / CLOCK)
        read_schema(self.folder / SKIPPED)  # raises an error if the file is damaged
        content = PageContent(
            settings=read_json(self.folder / SETTINGS),
            summaries=self.summaries,
            frame=self.frame,
            skipped=skipped_by_cause(self.folder / SKIPPED),
            claims=self.claims,
            comparison=self.comparison,
            seconds=clock["seconds"],
            core_seconds=float(read_schema(self.folder / RESULTS).metadata[SECONDS]),
            jobs=clock["jobs"],
        )
        return write_page(content, folder)


def write_json(path: Path, fields: Any) -> None:
    """Write a JSON file atomically."""
    with write_atomically(path) as file:
        file.write((json.dumps(fields, indent=1) + "\n").encode())


def read_json(path: Path) -> Any:
    """Read a JSON file of the study."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BadFile(f"{path} is missing; {_HINT}") from None
    except ValueError:
        raise BadFile(f"{path} is damaged; {_HINT}") from None


def read_schema(path: Path) -> Any:
    """The schema of a Parquet file; raises BadFile if the file is missing or damaged."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.read_schema(path)
    except FileNotFoundError:
        raise BadFile(f"{path} is missing; {_HINT}") from None
    except pa.ArrowInvalid:
        raise BadFile(f"{path} is damaged; {_HINT}") from None
