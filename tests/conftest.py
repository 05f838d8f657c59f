"""What all tests share: a seeded Hypothesis profile, and the losses that the battery runs on."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).parents[1]

settings.register_profile("default", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("default")

# The one line that puts a loss of one's own through the whole battery: import the file that registers it.
_spec = importlib.util.spec_from_file_location("hierarchical_log", ROOT / "examples" / "hierarchical_log.py")
assert _spec is not None
assert _spec.loader is not None
_spec.loader.exec_module(importlib.util.module_from_spec(_spec))


@pytest.fixture
def real_predictions() -> Path:
    """Folder of real predictions; tests that want it are skipped where it is not given."""
    folder = os.environ.get("BASERATE_DATA")
    if not folder:
        pytest.skip("BASERATE_DATA is not set")
    return Path(folder)
