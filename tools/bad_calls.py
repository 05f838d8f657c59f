"""Calls that are mistakes, with the message of each: what the scripts ``bad_*.py`` share."""

from __future__ import annotations

import contextlib
import os
import shlex
import tempfile
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from click.testing import CliRunner

import baserate as br
from baserate.cli import main as command_line


class BadCall(NamedTuple):
    """A call, and the message of its error or warning."""

    code: str
    message: str


def message_of(code: str, names: dict[str, Any]) -> str:
    """The message of the error or the warning of a call; empty if it has none."""
    if code.startswith("baserate "):
        with contextlib.chdir(names["folder"]):
            answer = CliRunner().invoke(command_line, shlex.split(code)[1:])
        lines = [line for line in answer.output.splitlines() if line.startswith(("Error:", "Warning:"))]
        return lines[0] if lines else ""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            eval(code, dict(names))
        except (br.BaserateError, Warning) as error:
            where = f"{names['folder']}{os.sep}"
            return f"{type(error).__name__}: {' '.join(str(error).replace(where, '').split())}"
    return ""


def print_table(calls: Iterable[BadCall], inputs: Callable[[Path], dict[str, Any]]) -> None:
    """Print a Markdown table of calls and messages. ``inputs`` makes the names that the calls use, in a folder."""
    print("| call | message |\n|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        names = inputs(Path(folder))
        for call in calls:
            print(f"| `{call.code}` | {message_of(call.code, names).replace('|', chr(92) + '|')} |")
