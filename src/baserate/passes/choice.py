"""Which passes a problem uses.

The choice is a function of the problem and of one setting, never of earlier calls, so that equal calls give equal
results to the last bit. The setting is an argument, or the environment variable ``BASERATE_KERNELS``: ``auto`` uses
compiled kernels for inputs that are large enough to wait for them, ``off`` never does, and ``always`` does so for small
inputs as well, and requires numba.
"""

from __future__ import annotations

import os

from baserate.core.contracts import Engine, RowPasses, implementations
from baserate.core.row_model import RowModel
from baserate.errors import BadOption
from baserate.passes import numba_passes, numpy_brier, numpy_log, numpy_passes, torch_passes, triton_passes

_VARIABLE = "BASERATE_KERNELS"
_SETTINGS = ("auto", "off", "always")

IMPLEMENTATIONS: tuple[type[RowPasses], ...] = (
    triton_passes.TritonPasses,
    torch_passes.TorchPasses,
    numba_passes.NumbaPasses,
    numpy_log.NumpyLogPasses,
    numpy_brier.NumpyBrierPasses,
    numpy_passes.NumpyPasses,
)
"""The implementations of this package; other subclasses of ``RowPasses`` are asked before them."""


def choose_passes(model: RowModel, rows: Engine, kernels: str | None = None) -> RowPasses:
    """The passes for a row model and the blocks of an engine.

    Parameters
    ----------
    model : RowModel
    rows : Engine
    kernels : "auto", "off" or "always", optional
        By default the environment variable ``BASERATE_KERNELS``, and "auto" without it. Without numba, NumPy is used.
    """
    setting = kernel_setting() if kernels is None else kernels
    for implementation in implementations(RowPasses, IMPLEMENTATIONS, "for_rows"):  # type: ignore[type-abstract]  # subclasses only
        if implementation.array_module not in (None, rows.array_module):
            continue
        if rows.n_cells is not None and not implementation.sums_cells:
            continue
        passes = implementation.for_rows(model, rows, setting)
        if passes is not None:
            return passes
    raise BadOption(f"nothing can compute {model.loss!r} on blocks of {rows.array_module} arrays")


def kernels_for_batches(n_values: int) -> str:
    """The setting for small batches with this many values in total: together they may be worth the kernels."""
    setting = kernel_setting()
    return "always" if setting == "auto" and n_values >= numba_passes.LARGE_VALUES else setting


def kernel_setting() -> str:
    """The setting of the environment."""
    setting = os.environ.get(_VARIABLE, "auto")
    if setting not in _SETTINGS:
        raise BadOption(
            f"the environment variable {_VARIABLE} is {setting!r}; it must be one of {', '.join(_SETTINGS)}"
        )
    if setting == "always" and not numba_passes.is_installed():
        raise BadOption(f'{_VARIABLE} is "always", but numba is not installed; pip install "baserate[fast]"')
    return setting
