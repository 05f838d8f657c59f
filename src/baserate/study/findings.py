"""What lies in the folder of a study that has been run, and what it says."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from baserate.errors import BadFile
from baserate.study.claims import Claim, claims
from baserate.study.page import Story, write
from baserate.study.reference import Comparison
from baserate.study.runs import Account
from baserate.study.tables import read_results, skipped_by_cause
from baserate.support.atomic_files import whole

Frame = Any  # a pandas DataFrame

RESULTS, SKIPPED = "results.parquet", "skipped.parquet"
SETTINGS, ACCOUNTS, CLOCK, COMPARISON = "settings.json", "corpus.json", "clock.json", "comparison.json"
SECONDS = b"baserate.seconds"
"""Where a Parquet file keeps how many seconds of work are in it."""

_HINT = "begin anew with --fresh, or choose another folder with --out"


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
        schema_of(self.folder / RESULTS)
        return read_results(self.folder / RESULTS)

    @cached_property
    def accounts(self) -> list[Account]:
        """What became of each run."""
        return [Account(**fields) for fields in read_note(self.folder / ACCOUNTS)]

    @property
    def comparison(self) -> Comparison | None:
        """What a sample of tasks showed that were solved in the paper's way as well, if that was done."""
        if not (self.folder / COMPARISON).exists():
            return None
        try:
            return Comparison(**read_note(self.folder / COMPARISON))
        except TypeError:
            raise BadFile(f"{self.folder / COMPARISON} is damaged; delete it") from None

    @cached_property
    def claims(self) -> list[Claim]:
        """Each claim of the paper with what was found."""
        return claims(self.frame, sum(account.taken for account in self.accounts), self.comparison)

    def write_pages(self, folder: Path) -> list[Path]:
        """Tables, figures and the page that shows them."""
        clock = read_note(self.folder / CLOCK)
        schema_of(self.folder / SKIPPED)
        story = Story(
            read_note(self.folder / SETTINGS),
            self.accounts,
            self.frame,
            skipped_by_cause(self.folder / SKIPPED),
            self.claims,
            self.comparison,
            clock["seconds"],
            float(schema_of(self.folder / RESULTS).metadata[SECONDS]),
            clock["jobs"],
        )
        return write(story, folder)


def write_note(path: Path, fields: Any) -> None:
    """Write a small JSON file; it appears when it is complete."""
    with whole(path) as file:
        file.write((json.dumps(fields, indent=1) + "\n").encode())


def read_note(path: Path) -> Any:
    """What :func:`write_note` wrote."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BadFile(f"{path} is missing; {_HINT}") from None
    except ValueError:
        raise BadFile(f"{path} is damaged; {_HINT}") from None


def schema_of(path: Path) -> Any:
    """The schema of a Parquet file, if it is whole."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.read_schema(path)
    except FileNotFoundError:
        raise BadFile(f"{path} is missing; {_HINT}") from None
    except pa.ArrowInvalid:
        raise BadFile(f"{path} is damaged; {_HINT}") from None
