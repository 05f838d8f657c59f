"""Find the engine for the predictions that a caller passed."""

from __future__ import annotations

import numpy as np

from baserate.core.contracts import Engine, implementations
from baserate.engines.memory import MemoryEngine
from baserate.errors import BadOption, BadProbabilities, Option
from baserate.inputs.row_source import RowSource
from baserate.inputs.validation import as_progress

_OUT = Option("out")


def open_rows(source: RowSource) -> Engine:
    """The engine that holds these predictions."""
    # Most callers pass an array, and no other engine reads it.
    rows = MemoryEngine.open(source) if type(source.probs) is np.ndarray else _open_other(source)
    if source.out is not None and not rows.takes_out:
        raise BadOption(
            f"{_OUT}= is where adjusted files go, but {source.argument} is a {type(source.probs).__name__}, not a file",
            options=[_OUT],
        )
    if source.progress is not None:
        rows.progress = as_progress(source.progress)
    return rows


def _open_other(source: RowSource) -> Engine:
    for engine in implementations(Engine, _engines(), "open"):  # type: ignore[type-abstract]  # only subclasses are opened
        rows = engine.open(source)
        if rows is not None:
            return rows
    raise BadProbabilities(f"{source.argument} is a {type(source.probs).__name__}, which no engine can read")


def _engines() -> tuple[type[Engine], ...]:
    """The engines of this package, in the order in which they are asked. Other subclasses of ``Engine`` come first."""
    from baserate.engines.arrow_clusters import RayEngine, SparkEngine
    from baserate.engines.arrow_streams import StreamEngine
    from baserate.engines.dask import DaskEngine
    from baserate.engines.files import FilesEngine
    from baserate.engines.torch_tensors import HostTensorEngine, TensorEngine

    return (
        FilesEngine,
        SparkEngine,
        RayEngine,
        StreamEngine,
        DaskEngine,
        HostTensorEngine,
        TensorEngine,
        MemoryEngine,
    )
