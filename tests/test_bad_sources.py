"""Mistakes with queries, URLs and exports have messages that say what to do; see `tools/bad_sources.py`."""

from __future__ import annotations

from typing import Any

import pytest
from tool_support import load_tool

for package in ("duckdb", "polars", "fsspec", "sqlglot", "onnx"):
    pytest.importorskip(package)
TOOL = load_tool("bad_sources")
message_of = load_tool("bad_calls").message_of


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return TOOL.inputs(tmp_path_factory.mktemp("sources"))


@pytest.mark.parametrize("call", TOOL.CALLS, ids=lambda call: call.code)
def test_a_mistake_has_a_message_that_says_what_to_do(call: Any, names: dict[str, Any]) -> None:
    assert message_of(call.code, names) == call.message


def test_there_are_many_mistakes() -> None:
    assert len({call.message for call in TOOL.CALLS}) >= 50
