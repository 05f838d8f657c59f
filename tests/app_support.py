"""A server of ``baserate app`` and a browser for tests of the page."""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pandas as pd
import pytest
from support import run_command

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
CLASSES = ("cat", "dog", "owl")


@dataclass
class Server:
    """A running server."""

    url: str
    process: subprocess.Popen[str]
    temporary: Path

    @property
    def address(self) -> tuple[str, int]:
        parts = urlsplit(self.url)
        assert parts.hostname is not None
        assert parts.port is not None
        return parts.hostname, parts.port

    @property
    def token(self) -> str:
        return urlsplit(self.url).path.strip("/")

    def left_over(self) -> list[str]:
        """What the server keeps in the folder for temporary files."""
        return sorted(path.name for path in self.temporary.iterdir() if path.name.startswith("baserate"))

    def ask(
        self,
        path: str,
        method: str = "GET",
        body: Any = None,
        headers: dict[str, str | None] | None = None,
        **options: Any,
    ) -> tuple[int, bytes, dict[str, str]]:
        """Send a request as the page would, with changed headers where these are given; None removes a header."""
        host, port = self.address
        origin = {"Origin": f"http://{host}:{port}"} if method != "GET" else {}
        given = {name: value for name, value in (origin | (headers or {})).items() if value is not None}
        connection = http.client.HTTPConnection(host, port, timeout=30)
        try:
            connection.request(
                method, f"/{self.token}{path}" if path.startswith("/") else path[1:], body, given, **options
            )
            answer = connection.getresponse()
            return answer.status, answer.read(), {name.lower(): value for name, value in answer.getheaders()}
        finally:
            connection.close()


def environment(temporary: Path) -> dict[str, str]:
    """The environment of commands: this copy of the package, and a folder of its own for temporary files."""
    paths = os.pathsep.join(filter(None, sys.path))
    return {**os.environ, "PYTHONPATH": paths, "TMPDIR": str(temporary), "NO_COLOR": "1"}


@contextlib.contextmanager
def running_server(temporary: Path, *arguments: str) -> Iterator[Server]:
    """A server, which is stopped by Ctrl-C at the end and must leave nothing behind."""
    command = [sys.executable, "-m", "baserate", "app", "--no-open", *arguments]
    process = subprocess.Popen(
        command, env=environment(temporary), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    found = re.search(r"http://\S+", line)
    assert found, line + process.stdout.read()
    server = Server(found[0], process, temporary)
    try:
        yield server
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=30)
    assert process.returncode in (0, -signal.SIGKILL), output
    if process.returncode == 0:
        assert "Traceback" not in output, output
        assert server.left_over() == []


@dataclass
class Watched:
    """A page of the browser, with everything that it must not do."""

    page: Any
    problems: list[str] = field(default_factory=list)

    def watch(self, host: str) -> None:
        def check(request: Any) -> None:
            if not request.url.startswith((host, "data:", "blob:")):
                self.problems.append(f"request to another host: {request.url}")

        self.page.on("request", check)
        self.page.on("console", lambda message: self.problems.append(f"console: {message.text}"))
        self.page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        self.page.on("dialog", lambda dialog: self.problems.append(f"dialog: {dialog.message}"))


@contextlib.contextmanager
def running_browser() -> Iterator[Any]:
    """The browser that is installed on this machine."""
    if BROWSER is None:
        pytest.skip("there is no chromium on this machine")
    playwright_api = pytest.importorskip("playwright.sync_api")
    with playwright_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=FLAGS)
        yield browser
        browser.close()


def animals(n: int = 400, seed: int = 0) -> pd.DataFrame:
    """Predictions for three classes, with labels, a group, and an identifier that begins with zeros."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet([2.0, 1.5, 1.0], size=n)
    y = (rng.random((n, 1)) > p.cumsum(axis=1)).sum(axis=1)
    table = pd.DataFrame(p.round(6), columns=[f"p_{name}" for name in CLASSES])
    table["p_owl"] = (1 - table["p_cat"] - table["p_dog"]).round(6)
    table.insert(0, "id", [f"{i:04d}" for i in range(n)])
    table["region"] = rng.choice(["north", "south", "east"], n)
    table["y"] = np.array(CLASSES)[y]
    return table


def run_here(commands: Sequence[str], folder: Path) -> None:
    """Run commands in this process, which is faster than :func:`run_shown`."""
    for command in commands:
        name, *arguments = shlex.split(command)
        assert name == "baserate"
        run_command(folder, *arguments)


def run_shown(commands: Sequence[str], folder: Path) -> None:
    """Run commands as a user would, in a shell."""
    shell = {**environment(folder), "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    for command in commands:
        assert command.startswith("baserate ")
        line = f'"{sys.executable}" -m {command}'
        done = subprocess.run(line, shell=True, cwd=folder, env=shell, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
