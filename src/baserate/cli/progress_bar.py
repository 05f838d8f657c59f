"""The progress bar of all commands."""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
import time
from collections.abc import Iterator
from typing import Any

from baserate.progress import SILENT, Progress
from baserate.support.text import printable

# Not tqdm's default, which also shows counts and the elapsed time: the residual would not fit on 80 columns.
_FORMAT = "{desc}: {percentage:3.0f}%|{bar}| {remaining} left, {rate_noinv_fmt}{postfix}"
PROGRESS_VARIABLE = "BASERATE_PROGRESS"
_SECONDS_BETWEEN_LINES = 0.1
_SMALLEST = 1e-17  # a residual of exactly 0 has no logarithm


@contextlib.contextmanager
def progress_bar(tol: float | None = None, *, quiet: bool, unit: str = "rows") -> Iterator[Progress]:
    """Show a progress bar on standard error while the block runs, and clear it afterwards.

    Nothing is shown if ``quiet`` is true or if standard error is not a terminal, so that log files contain no bars.
    Programs that call a command set ``BASERATE_PROGRESS=json``, and get lines of JSON on standard error instead.

    Parameters
    ----------
    tol : float, optional
        Tolerance of the fit. With it, the bar also shows how close the residual is to the tolerance.
    quiet : bool
    unit : str
        What is counted.
    """
    if os.environ.get(PROGRESS_VARIABLE) == "json":
        yield JsonLines()
        return
    if quiet or not sys.stderr.isatty():
        yield SILENT
        return
    bar = TqdmBar(tol, unit)
    try:
        yield bar
    finally:
        bar.close()


class JsonLines(Progress):
    """Writes progress as lines of JSON: ``{"progress": "reading", "done": 4096, "of": 10000}``."""

    def __init__(self) -> None:
        self._what, self._n_rows, self._done, self._last = "", 0, 0, -math.inf

    def begin(self, what: str, n_rows: int) -> None:
        self._what, self._n_rows, self._done = what, n_rows, 0
        self._print()

    def rows(self, n_rows: int) -> None:
        self._done += n_rows
        if time.monotonic() - self._last > _SECONDS_BETWEEN_LINES:
            self._print()

    def _print(self) -> None:
        self._last = time.monotonic()
        line = json.dumps({"progress": self._what, "done": self._done, "of": self._n_rows})
        print(line, file=sys.stderr, flush=True)


class TqdmBar(Progress):
    """A tqdm bar that starts again for every pass."""

    def __init__(self, tol: float | None, unit: str) -> None:
        self._tol, self._unit = tol, unit
        self._n_passes = 0
        self._bar: Any = None

    def begin(self, what: str, n_rows: int) -> None:
        from tqdm import tqdm  # not at the top: every command would be slower to start

        # Passes over rows repeat each other, so they are numbered. The steps of a study do not.
        self._n_passes += 1
        text = printable(f"pass {self._n_passes}, {what}" if self._unit == "rows" else what)
        if self._bar is None:
            self._bar = tqdm(
                desc=text,
                total=max(n_rows, 1),  # tqdm shows no percentage of 0
                unit=f" {self._unit}",
                unit_scale=self._unit == "rows",  # 2.5M rows, but 120 tasks
                bar_format=_FORMAT,
                leave=False,
                dynamic_ncols=True,
            )
        else:
            self._bar.initial = 0
            self._bar.set_description_str(text, refresh=False)
            self._bar.reset(total=max(n_rows, 1))

    def skip(self, n_rows: int) -> None:
        # Not update(): tqdm would count these rows as done just now, and show too high a speed.
        self._bar.initial = self._bar.last_print_n = self._bar.n = n_rows
        self._bar.refresh()

    def rows(self, n_rows: int) -> None:
        self._bar.update(n_rows)

    def residual(self, value: float) -> None:
        if self._tol is not None and math.isfinite(value):
            now, goal = math.log10(max(value, _SMALLEST)), math.log10(self._tol)
            self.note(f"log10(residual) {now:.1f} of {goal:.3g}")

    def note(self, text: str) -> None:
        if self._bar is not None:
            self._bar.set_postfix_str(printable(text))

    def close(self) -> None:
        """Clear the line of the bar."""
        if self._bar is not None:
            self._bar.close()
