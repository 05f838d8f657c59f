"""How long computations report their progress."""

from __future__ import annotations


class Progress:
    """Receives progress updates. This class ignores them all.

    Subclasses override the methods that they need. A method should return quickly, because it is called for every
    block of rows. Computations whose unit is not a row, such as the prediction sets of a study, use the same methods
    and count their own unit.
    """

    def begin(self, what: str, n_rows: int) -> None:
        """A pass over ``n_rows`` rows begins; ``what`` is a short description such as "reading" or "writing"."""

    def skip(self, n_rows: int) -> None:
        """An earlier, interrupted call has already processed ``n_rows`` rows of this pass."""
        self.rows(n_rows)

    def rows(self, n_rows: int) -> None:
        """Another ``n_rows`` rows have been processed."""

    def residual(self, value: float) -> None:
        """The largest error of a class rate is now ``value``; the fit ends when it is below the tolerance."""

    def note(self, text: str) -> None:
        """Details of the last step, such as the name of the item that was processed."""


SILENT = Progress()
