"""Whether probability visibly flows between all classes at a solution.

If it does not, hard zeros may separate groups of classes, and the solution may be a limit at infinity.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from baserate.core.contracts import Block
from baserate.core.curvature_choice import fits_memory
from baserate.core.dual import Dual, Survey
from baserate.core.newton import Point
from baserate.core.row_model import RowModel
from baserate.support.arrays import FloatArray, IndexArray

_VISIBLE = 1e-6  # Flow between two classes, as a share of the smaller of their rates.


def is_coupled(dual: Dual, survey: Survey, point: Point) -> bool:
    """Whether the classes are connected by visible flow; True as well if there are too many to find out.

    Without a matrix, only flow to and from the largest entry of a row is seen. If that is not enough, the matrix is
    computed, up to 5000 classes.
    """
    if isinstance(point.curvature, np.ndarray) and point.curvature.size:
        return _is_connected(point)
    task = partial(_components_of_rows, dual.model, point.shift, point.wanted)
    components = np.zeros((2, 0), dtype=np.intp)
    for labels in dual.rows.map(task):
        components = np.column_stack([components, _as_edges(labels)])
    if _n_components(components, len(point.shift)) == 1 or not fits_memory(dual.model):
        return True
    return _is_connected(dual.evaluate(survey, point.shift))


def _is_connected(point: Point) -> bool:
    flow = -point.curvature > _VISIBLE * np.minimum.outer(point.wanted, point.wanted)
    return _n_components(np.array(np.nonzero(flow)), len(flow)) == 1


def _components_of_rows(model: RowModel, shift: FloatArray, wanted: FloatArray, block: Block) -> IndexArray:
    """For each class, the lowest class that it is connected with in some rows."""
    block = block.as_numpy()
    a = model.shifted(model.kept(model.read(block.rows)[1]), shift)[1]
    top = a.argmax(axis=1)
    largest = np.take_along_axis(a, top[:, None], axis=1)
    flow = block.weights[:, None] * largest * a
    row, other = np.nonzero(flow > _VISIBLE * np.minimum(wanted[top][:, None], wanted))
    return _lowest_connected(np.array([top[row], other]), len(wanted))


def _as_edges(labels: IndexArray) -> IndexArray:
    return np.array([np.arange(len(labels)), labels])[:, labels != np.arange(len(labels))]


def _lowest_connected(edges: IndexArray, n_classes: int) -> IndexArray:
    _, component = _connected(edges, n_classes)
    _, lowest = np.unique(component, return_index=True)
    return np.asarray(lowest[component])


def _n_components(edges: IndexArray, n_classes: int) -> int:
    return _connected(edges, n_classes)[0]


def _connected(edges: IndexArray, n_classes: int) -> tuple[int, IndexArray]:
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    graph = coo_array((np.ones(edges.shape[1], dtype=np.int8), (edges[0], edges[1])), shape=(n_classes, n_classes))
    n_components, component = connected_components(graph.tocsr(), directed=False)
    return int(n_components), np.asarray(component, dtype=np.intp)
