"""The calls that new users try first return what they expect; `tools/first_calls.py` lists them."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import matplotlib as mpl
import pytest
from support import Finished, run_command

mpl.use("Agg")

ROOT = Path(__file__).parent.parent


def _tool() -> Any:
    found = importlib.util.spec_from_file_location("first_calls", ROOT / "tools" / "first_calls.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules["first_calls"] = module
    found.loader.exec_module(module)
    return module


TOOL = _tool()


def run_here(command: list[str], cwd: Path, **_: Any) -> Finished:
    """Run a command in this process, which is faster than in a process of its own."""
    assert command[:3] == [sys.executable, "-m", "baserate"]
    return run_command(cwd, *command[3:], code=None)


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return TOOL.inputs(tmp_path_factory.mktemp("first"))


@pytest.mark.parametrize("call", [*TOOL.PYTHON, *TOOL.COMMANDS], ids=lambda call: call.code)
def test_a_first_call_returns_what_a_new_user_expects(
    call: Any, names: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TOOL, "subprocess", SimpleNamespace(run=run_here))
    assert TOOL.outcome(call.code, names) == call.returns


def test_there_are_many_first_calls() -> None:
    assert len({call.code for call in (*TOOL.PYTHON, *TOOL.COMMANDS)}) >= 40
