"""Whether predictions fit into memory beside what is there: on the workers of a cluster, or on this machine."""

from __future__ import annotations

import logging
import os
from typing import Any

from baserate.engines.dask.graphs import concrete

_SHARE = 0.5  # Of the free memory; the other half is for what is computed from the predictions.
_GIGABYTE = 1e9

logger = logging.getLogger("baserate")


def persisted(parts: list[Any], n_bytes: int) -> list[Any] | None:
    """Delayed partitions, kept in memory from now on, and released with the last reference; None if they do not fit.

    Parameters
    ----------
    parts : list of delayed
    n_bytes : int
        What they take in all.
    """
    from dask import local, threaded
    from dask.base import get_scheduler, persist

    get = get_scheduler(collections=parts)
    client = _client(get)
    if client is None and get not in (threaded.get, local.get_sync):
        # What other processes have computed would all come here, and travel back in every pass.
        logger.info("the predictions are read again in each pass: the workers of this scheduler keep nothing")
        return None
    where = "this machine's" if client is None else "the cluster's"
    if n_bytes > _SHARE * (_free_here() if client is None else _free_there(client)):
        logger.info(
            "the predictions (%s) are read again in each pass: they do not fit into half of %s free memory",
            _size(n_bytes),
            where,
        )
        return None
    kept = concrete(persist(*parts))
    logger.info("persisted %s of predictions in %s memory", _size(n_bytes), where)
    return kept


def _client(get: Any) -> Any:
    """The client of a cluster, if that is who computes; distributed is not imported for it."""
    owner = getattr(get, "__self__", None)
    return owner if hasattr(owner, "scheduler_info") else None


def _free_there(client: Any) -> float:
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    # A worker without a limit says 0; it may use what its machine has, of which nothing is known here.
    return float(sum(max((w["memory_limit"] or 0) - w.get("metrics", {}).get("memory", 0), 0) for w in workers))


def _free_here() -> float:
    try:
        import psutil
    except ImportError:
        try:
            return float(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
        except (AttributeError, ValueError, OSError):  # this system does not tell
            return 0.0
    return float(psutil.virtual_memory().available)


def _size(n_bytes: int) -> str:
    return f"{n_bytes / _GIGABYTE:.1f} GB" if n_bytes >= _GIGABYTE / 10 else f"{n_bytes / 1e6:.1f} MB"
