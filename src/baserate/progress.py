"""Who is told how far the work is: a bar on a terminal, a log, nobody."""

from __future__ import annotations


class Progress:
    """Nobody. A subclass overrides what it wants to hear; it must be quick, since it is called for every block."""

    def begin(self, what: str, n_rows: int) -> None:
        """A pass over so many rows begins; ``what`` it does is one word, such as "reading" or "writing"."""

    def rows(self, n_rows: int) -> None:
        """So many rows more are in hand."""

    def residual(self, value: float) -> None:
        """The rates are now off by this much; the work ends when that is below the tolerance."""


SILENT = Progress()
