"""Mistakes that are made when rates are estimated have messages that say what to do; see `tools/bad_estimates.py`."""

from __future__ import annotations

from typing import Any

import pytest
from tool_support import load_tool

TOOL = load_tool("bad_estimates")
message_of = load_tool("bad_calls").message_of


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return TOOL.inputs(tmp_path_factory.mktemp("estimates"))


@pytest.mark.parametrize("call", TOOL.CALLS, ids=lambda call: call.code)
def test_a_mistake_has_a_message_that_says_what_to_do(call: Any, names: dict[str, Any]) -> None:
    assert message_of(call.code, names) == call.message


def test_there_are_many_mistakes() -> None:
    assert len({call.message for call in TOOL.CALLS}) >= 25


def test_the_table_has_one_line_per_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    TOOL.main()
    assert len(capsys.readouterr().out.splitlines()) == len(TOOL.CALLS) + 2
