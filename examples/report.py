"""Draws docs/pictures/report.png: the beginning of the demo's report, in a browser; `make pictures` runs this.

Needs Chromium on this machine, and playwright to drive it.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from baserate.cli.story import story


def main() -> None:
    """Write the report, open it, and take a picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs/pictures"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page = Path(folder) / "report.html"
        for _ in story(page):
            pass
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        shown = browser.new_page(viewport={"width": 1000, "height": 1000})
        shown.goto(page.as_uri())
        shown.screenshot(path=options.out / "report.png")
        browser.close()


if __name__ == "__main__":
    main()
