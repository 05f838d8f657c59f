"""What is computed on a block of rows: in NumPy, in compiled kernels, and in torch and Triton for tensors on a GPU.

NumPy supports every loss, and the compiled kernels log loss and the Brier score. A new implementation is one file with
a subclass of :class:`baserate.core.contracts.RowPasses`.
"""

from baserate.passes.choice import choose_passes

__all__ = ["choose_passes"]
