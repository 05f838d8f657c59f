"""What is computed on a block of rows: NumPy for every loss, compiled kernels for log loss and the Brier score.

A new implementation is one file with a subclass of :class:`baserate.core.contracts.RowPasses`.
"""

from baserate.passes.choice import choose_passes

__all__ = ["choose_passes"]
