"""The garbage collector is switched off while kernels are compiled, and left as the caller set it."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from baserate.support.garbage import without_garbage_collection


@pytest.fixture(params=[True, False])
def enabled(request: pytest.FixtureRequest) -> Iterator[bool]:
    if not request.param:
        gc.disable()
    yield request.param
    gc.enable()


def test_the_collector_is_left_as_it_was(enabled: bool) -> None:
    with without_garbage_collection():
        assert not gc.isenabled()
        with without_garbage_collection():  # as by another thread
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled() == enabled


def test_the_collector_runs_again_after_an_error(enabled: bool) -> None:
    with pytest.raises(OSError, match="disk full"), without_garbage_collection():
        raise OSError("disk full")
    assert gc.isenabled() == enabled
