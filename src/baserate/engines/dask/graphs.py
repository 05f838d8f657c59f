"""Delayed calls, one per partition, in one layer of a graph.

``dask.delayed`` gives every call a layer of its own, and the time that Dask spends on layers grows with the square of
their number: at 4000 partitions it takes three times as long as this.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from baserate.errors import BaserateError


def calls(
    run: Callable[..., Any], arguments: Iterable[tuple[Any, ...]], options: Iterable[Mapping[str, Any]]
) -> list[Any]:
    """Delayed calls of a function.

    Parameters
    ----------
    run : callable
    arguments : iterable of tuples
        The arguments that have to be computed first: delayed objects, or None.
    options : iterable of dict
        The other arguments of each call.

    Returns
    -------
    list of delayed
    """
    name = f"{run.__name__}-{uuid.uuid4().hex}"
    given = list(arguments)
    layer = {
        f"{name}-{i}": (partial(run, **more), *(None if one is None else one.key for one in some))
        for i, (some, more) in enumerate(zip(given, options, strict=True))
    }
    return _in_one_layer(name, layer, [one for some in given for one in some if one is not None])


def concrete(parts: Sequence[Any]) -> list[Any]:
    """Persisted delayed objects, each of which has a graph of its own, in one layer."""
    return _in_one_layer(f"kept-{uuid.uuid4().hex}", {part.key: part.dask[part.key] for part in parts}, [])


def compute_all(parts: Sequence[Any]) -> list[Any]:
    """Compute delayed objects, and return the results in their order.

    If some results are errors, the first one in this order is raised, whichever was computed first.
    """
    from dask.base import compute

    results = list(compute(*parts))
    for result in results:
        if isinstance(result, BaserateError):
            raise result
    return results


def _in_one_layer(name: str, layer: dict[Any, Any], dependencies: Sequence[Any]) -> list[Any]:
    from dask.delayed import Delayed
    from dask.highlevelgraph import HighLevelGraph

    # Most share a graph. The graphs are kept while they are compared, since that of a constant is made anew each time.
    graphs = [(one.dask, one) for one in {id(one): one for one in dependencies}.values()]
    different = {id(graph): one for graph, one in graphs}
    graph = HighLevelGraph.from_collections(name, layer, dependencies=list(different.values()))
    return [Delayed(key, graph, layer=name) for key in layer]
