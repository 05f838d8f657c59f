"""Draws the pictures of docs/app.md: the page in a browser; `make pictures` runs this.

Needs Chromium on this machine, and playwright to drive it.
"""

from __future__ import annotations

import argparse
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from playwright.sync_api import sync_playwright

FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
RATES = {"fine": "96", "suspect": "3", "fraud": "1"}
SHOTS = [  # name, width, height, colour scheme, and what comes to the top of the window
    ("app-wide.png", 1400, 1150, "light", ".two"),
    ("app-dark.png", 1400, 1150, "dark", ".two"),
    ("app-phone.png", 360, 1100, "light", ".results"),
    ("app-phone-dark.png", 360, 1100, "dark", ".inputs"),
]


def payments(path: Path) -> None:
    """Write predictions of a model for payments that was trained with too many frauds."""
    rng = np.random.default_rng(0)
    n = 5000
    p = rng.dirichlet([6.0, 1.2, 0.8], size=n)
    y = (rng.random((n, 1)) > (p * [1.6, 0.5, 0.25] / (p @ [1.6, 0.5, 0.25])[:, None]).cumsum(axis=1)).sum(axis=1)
    table = pd.DataFrame(p.round(5), columns=[f"p_{name}" for name in RATES])
    table.insert(0, "payment", [f"{i:05d}" for i in range(n)])
    table["country"] = rng.choice(["DE", "EE", "FR", "PT"], n)
    table["outcome"] = np.array(list(RATES))[y]
    table.to_csv(path, index=False)


def take_picture(browser: Any, url: str, out: Path, width: int, height: int, scheme: str, at: str) -> None:
    """Open the file, enter rates, and take a picture of the part of the page that begins at an element."""
    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
    page.goto(url)
    page.click(".open")
    page.wait_for_selector("#rates-form")
    page.check("input[value=population]", force=True)
    for name, share in RATES.items():
        page.fill(f".panel:not([hidden]) [data-class={name}] .low", share)
    page.wait_for_selector("#further table", timeout=120_000)
    page.evaluate("document.activeElement.blur()")
    page.evaluate("s => { scrollTo(0, document.querySelector(s).offsetTop - 60) }", at)
    page.screenshot(path=out)
    page.close()


def main() -> None:
    """Start a server, and take all pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs/pictures"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        payments(Path(folder) / "payments.csv")
        command = [sys.executable, "-m", "baserate", "app", f"{folder}/payments.csv", "--no-open"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            found = re.search(r"http://\S+", server.stdout.readline())
            assert found
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
            try:
                for name, width, height, scheme, at in SHOTS:
                    take_picture(browser, found[0], options.out / name, width, height, scheme, at)
            finally:
                browser.close()
                server.send_signal(signal.SIGINT)


if __name__ == "__main__":
    main()
