"""Loads the scripts in ``tools``, which are not part of the package."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "tools"))  # where the scripts find what they share


def load_tool(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # Not left out: annotations of named tuples and dataclasses are looked up there.
    spec.loader.exec_module(module)
    return module
