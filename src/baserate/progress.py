"""Receivers of progress updates, such as a progress bar or a log."""

from __future__ import annotations


class Progress:
    """Receives progress updates and ignores them.

    Subclasses override the methods that they need. The methods are called for every block, so they must be fast.
    """

    def begin(self, what: str, n_rows: int) -> None:
        """A pass over ``n_rows`` rows begins. ``what`` is its purpose in one word, such as "reading" or "writing"."""

    def rows(self, n_rows: int) -> None:
        """``n_rows`` more rows have been processed in this pass."""

    def residual(self, value: float) -> None:
        """The class rates differ from the requested rates by ``value``. Fitting ends when it is below the tolerance."""


SILENT = Progress()
