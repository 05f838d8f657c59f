"""A bar that shows how far a pass is, how fast it goes, and how far the rates are from the tolerance."""

from __future__ import annotations

import math
import shutil
import sys
import time

from baserate.progress import Progress

_WIDTH = 24
_INTERVAL = 0.1  # seconds between two drawings


class Bar(Progress):
    """One line on a terminal, drawn again and again."""

    def __init__(self, tol: float | None) -> None:
        self._tol = tol
        self._passes, self._what, self._total, self._done = 0, "", 1, 0
        self._residual: float | None = None
        self._began = self._drawn = 0.0

    def begin(self, what: str, n_rows: int) -> None:
        self._passes += 1
        self._what, self._total, self._done = what, max(n_rows, 1), 0
        self._began = time.monotonic()
        self._draw()

    def rows(self, n_rows: int) -> None:
        self._done += n_rows
        if time.monotonic() - self._drawn > _INTERVAL:
            self._draw()

    def residual(self, value: float) -> None:
        self._residual = value
        self._draw()

    def line(self) -> str:
        """What is shown."""
        share = min(self._done / self._total, 1.0)
        filled = round(share * _WIDTH)
        bar = "#" * filled + "-" * (_WIDTH - filled)
        speed = self._done / max(time.monotonic() - self._began, 1e-9)
        fast = f"  {_short(speed)}rows/s" if self._done else ""
        return f"pass {self._passes}, {self._what} [{bar}] {share:4.0%}{fast}{self._way()}"

    def _way(self) -> str:
        """The logarithm of the residual, on its way to that of the tolerance."""
        if self._residual is None or self._tol is None or not math.isfinite(self._residual):
            return ""
        now, goal = math.log10(max(self._residual, 1e-17)), math.log10(self._tol)
        return f"  log10 of the residual {now:.1f}, towards {goal:.3g}"

    def _draw(self) -> None:
        self._drawn = time.monotonic()
        width = shutil.get_terminal_size().columns - 1
        sys.stderr.write(f"\r\x1b[K{self.line()[:width]}")  # not by click, which would strip the code with the colours
        sys.stderr.flush()

    def clear(self) -> None:
        """Leave the line empty."""
        if self._passes:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


class NoBar(Progress):
    """Where nobody looks, or nobody wants to."""

    def clear(self) -> None:
        """There is nothing to clear."""


def bar(tol: float | None, quiet: bool) -> Bar | NoBar:
    """A bar on a terminal; in a log, nothing."""
    return Bar(tol) if sys.stderr.isatty() and not quiet else NoBar()


def _short(number: float) -> str:
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:.1f} {unit} "
    return f"{number:.0f} "
