"""Delayed calls, one a partition, in one layer of a graph.

``dask.delayed`` gives every call a layer of its own, and what Dask does with layers takes a time that grows with the
square of their number: at 4000 partitions three times as long as this.
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
        What each call gets that has to be computed first; delayed objects, or None.
    options : iterable of dict
        What each call gets besides.

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
    """Delayed objects that were persisted, each with a graph of its own, in one layer."""
    return _in_one_layer(f"kept-{uuid.uuid4().hex}", {part.key: part.dask[part.key] for part in parts}, [])


def ask(parts: Sequence[Any]) -> list[Any]:
    """Compute delayed objects, and gather the answers in their order.

    Of several errors among the answers the first is raised, whoever was quicker.
    """
    from dask.base import compute

    answers = list(compute(*parts))
    for answer in answers:
        if isinstance(answer, BaserateError):
            raise answer
    return answers


def _in_one_layer(name: str, layer: dict[Any, Any], dependencies: Sequence[Any]) -> list[Any]:
    from dask.delayed import Delayed
    from dask.highlevelgraph import HighLevelGraph

    different = {id(one.dask): one for one in dependencies}  # most share a graph
    graph = HighLevelGraph.from_collections(name, layer, dependencies=list(different.values()))
    return [Delayed(key, graph, layer=name) for key in layer]
