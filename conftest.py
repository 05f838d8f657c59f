"""Shared by the examples in the documentation: a fixed choice of the code that sums the rows."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

collect_ignore = ["docs/conf.py"]  # needs Sphinx; `make docs` runs it


@pytest.fixture(scope="module", autouse=True)
def kernels() -> Iterator[None]:
    """Examples are small, and a reader's fresh process does not wait for kernels."""
    before = os.environ.get("BASERATE_KERNELS")
    os.environ["BASERATE_KERNELS"] = "off"
    yield
    os.environ.pop("BASERATE_KERNELS")
    if before is not None:
        os.environ["BASERATE_KERNELS"] = before
