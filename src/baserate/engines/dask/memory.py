"""Whether predictions fit into the free memory of the workers of a cluster, or of this machine."""

from __future__ import annotations

import logging
import os
from typing import Any

from baserate.engines.dask.graphs import concrete

_SHARE = 0.5  # Share of the free memory; the rest is for what is computed from the predictions.
_GIGABYTE = 1e9

logger = logging.getLogger("baserate")


def persisted(parts: list[Any], n_bytes: int) -> list[Any] | None:
    """Delayed partitions, kept in memory until the last reference is gone; None if they do not fit.

    Parameters
    ----------
    parts : list of delayed
    n_bytes : int
        Their size in total.
    """
    from dask import local, threaded
    from dask.base import get_scheduler, persist

    get = get_scheduler(collections=parts)
    client = _client(get)
    if client is None and get not in (threaded.get, local.get_sync):
        # The partitions would be sent to this process, and back to the others in every pass.
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
    """The client of a cluster, if there is one; this does not import distributed."""
    owner = getattr(get, "__self__", None)
    return owner if hasattr(owner, "scheduler_info") else None


def _free_there(client: Any) -> float:
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    # A worker without a limit reports 0. The memory of its machine is not known here.
    return float(sum(max((w["memory_limit"] or 0) - w.get("metrics", {}).get("memory", 0), 0) for w in workers))


def _free_here() -> float:
    try:
        import psutil
    except ImportError:
        try:
            return float(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
        except (AttributeError, ValueError, OSError):  # not available on this system
            return 0.0
    return float(psutil.virtual_memory().available)


def _size(n_bytes: int) -> str:
    return f"{n_bytes / _GIGABYTE:.1f} GB" if n_bytes >= _GIGABYTE / 10 else f"{n_bytes / 1e6:.1f} MB"
