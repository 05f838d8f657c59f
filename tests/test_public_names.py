"""The names of the package: all are there, and most are loaded only when they are used."""

from __future__ import annotations

import ast
import importlib
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import baserate as br

NOT_NEEDED_FOR_ARRAYS = [
    "baserate.analysis",
    "baserate.core.cells.fit",
    "baserate.deploy",
    "baserate.displays",
    "baserate.engines.arrow_streams",
    "baserate.engines.dask",
    "baserate.engines.files",
    "baserate.estimation",
    "baserate.estimators",
    "baserate.multilabel",
    "baserate.report",
    "baserate.solving.grouped",
    "baserate.tables",
    "click",
    "jinja2",
    "narwhals",
    "tempfile",
    "urllib.request",
]
"""Modules that a call of ``br.adjust`` with an array does not load, besides the heavy packages."""

HEAVY_PACKAGES = ["dask", "matplotlib", "numba", "pandas", "polars", "pyarrow", "scipy", "sklearn", "torch"]


def output_of(code: str) -> list[str]:
    """What a fresh process prints, line by line."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.split()


def names_for_type_checkers() -> dict[str, str]:
    """The module of each name that ``baserate/__init__.py`` imports only for type checkers."""
    tree = ast.parse(Path(br.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: node.module or "" for node in imports for alias in node.names}


def test_importing_the_package_loads_only_what_arrays_need() -> None:
    loaded = set(output_of("import sys, baserate; print(*sys.modules)"))
    assert not loaded & {*NOT_NEEDED_FOR_ARRAYS, *HEAVY_PACKAGES}


def test_adjusting_an_array_loads_only_what_arrays_need() -> None:
    call = "br.adjust(np.array([[0.7, 0.3], [0.4, 0.6]]), [0.3, 0.7]).probs"
    loaded = set(output_of(f"import sys, numpy as np, baserate as br; {call}; print(*sys.modules)"))
    assert not loaded & {*NOT_NEEDED_FOR_ARRAYS, *HEAVY_PACKAGES}


@pytest.mark.parametrize("name", br.__all__)
def test_every_name_is_there(name: str) -> None:
    assert name in dir(br)
    assert getattr(br, name) is not None


def test_packages_are_there_without_an_import_of_their_own() -> None:
    names = output_of("import baserate as br; print(br.displays.__name__, br.tables.__name__, br.analysis.__name__)")
    assert names == ["baserate.displays", "baserate.tables", "baserate.analysis"]


def test_other_names_are_not_there() -> None:
    with pytest.raises(AttributeError, match="module 'baserate' has no attribute 'adjsut'"):
        br.adjsut  # type: ignore[attr-defined]  # noqa: B018  # that it is read is the test


@pytest.mark.parametrize(("name", "module"), names_for_type_checkers().items())
def test_type_checkers_see_what_is_loaded(name: str, module: str) -> None:
    from_module = getattr(importlib.import_module(module), name)
    assert getattr(br, name) is from_module
    assert name not in vars(br)


def test_a_star_import_has_all_names() -> None:
    names = output_of("from baserate import *; print(*globals())")
    assert set(br.__all__) <= set(names)


def test_classes_that_are_loaded_when_they_are_used_can_be_pickled() -> None:
    adjuster = pickle.loads(pickle.dumps(br.Adjuster(rates=[0.3, 0.7])))
    assert adjuster.rates == [0.3, 0.7]
