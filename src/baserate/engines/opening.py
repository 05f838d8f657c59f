"""Find the engine for the predictions that a caller passed."""

from __future__ import annotations

import numpy as np

from baserate.core.contracts import Engine, implementations
from baserate.engines.arrow_clusters import RayEngine, SparkEngine
from baserate.engines.arrow_streams import StreamEngine
from baserate.engines.dask import DaskEngine
from baserate.engines.files import FilesEngine
from baserate.engines.memory import MemoryEngine
from baserate.engines.torch_tensors import HostTensorEngine, TensorEngine
from baserate.errors import BadOption, BadProbabilities, Option
from baserate.inputs.row_source import RowSource
from baserate.inputs.validation import as_progress

_OUT = Option("out")

ENGINES: tuple[type[Engine], ...] = (
    FilesEngine,
    SparkEngine,
    RayEngine,
    StreamEngine,
    DaskEngine,
    HostTensorEngine,
    TensorEngine,
    MemoryEngine,
)
"""The engines of this package, in the order in which they are asked. Other subclasses of ``Engine`` come first."""


def open_rows(source: RowSource) -> Engine:
    """The engine that holds these predictions."""
    progress = as_progress(source.progress)
    is_array = type(source.probs) is np.ndarray  # which is what most callers pass, and no other engine reads it
    candidates = [MemoryEngine] if is_array else implementations(Engine, ENGINES, "open")  # type: ignore[type-abstract]  # only subclasses are opened
    for engine in candidates:
        rows = engine.open(source)
        if rows is not None:
            break
    else:
        raise BadProbabilities(f"{source.argument} is a {type(source.probs).__name__}, which no engine can read")
    if source.out is not None and not rows.takes_out:
        raise BadOption(
            f"{_OUT}= is where adjusted files go, but {source.argument} is a {type(source.probs).__name__}, not a file",
            options=[_OUT],
        )
    rows.progress = progress
    return rows
