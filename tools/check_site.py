"""Check the built site; ``make docs`` runs this on ``docs/_build/html``.

Links and anchors inside the site must lead somewhere. Only the form of links to other sites is checked, because they
cannot be followed without a network. No page may weigh more than 1 MB with its images. In Chromium, no page may load
anything from another host, be wider than a phone (360 px), or cut off code or tables on a desktop (1200 px).
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

MAX_BYTES = 1_000_000
WIDTHS = {"phone": 360, "desktop": 1200}

# What is wider than the window, which the theme cuts off or lets scroll. Blocks that scroll inside themselves are
# allowed, except code and tables on a desktop.
TOO_WIDE = """(desktop) => {
  const scrolls = "pre, .table-wrapper, .math-wrapper, .output_html";
  const limit = document.documentElement.clientWidth + 1;
  const shown = e => `${e.tagName.toLowerCase()} "${e.textContent.trim().replace(/\\s+/g, " ").slice(0, 40)}"`;
  const outside = [...document.querySelectorAll("article *")].filter(
    e => e.getBoundingClientRect().right > limit && !e.parentElement.closest(scrolls));
  const outermost = outside.filter(e => !outside.includes(e.parentElement));
  const found = outermost.map(e => `${shown(e)} is wider than the page`);
  if (desktop) for (const e of document.querySelectorAll("article pre, article .table-wrapper"))
    if (e.scrollWidth > e.clientWidth + 1) found.push(`${shown(e)} is cut off`);
  return found;
}"""


@dataclass
class Page(HTMLParser):
    """The anchors, links and images of one page."""

    path: Path
    anchors: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    images: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect what is of interest."""
        values = {name: value for name, value in attrs if value is not None}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if tag in ("img", "object") and (source := values.get("src", values.get("data"))):
            self.images.append(source)


@cache
def parse(path: Path) -> Page:
    """The page in a file. Each file is read once."""
    return Page(path)


def pages_of(root: Path) -> list[Path]:
    """All pages that people open."""
    return sorted(path for path in root.rglob("*.html") if "_static" not in path.relative_to(root).parts)


def bad_form(link: str) -> bool:
    """Whether the address of another site is malformed. Plain http is not allowed either."""
    parts = urlsplit(link)
    if parts.scheme == "mailto":
        return "@" not in parts.path
    return parts.scheme != "https" or re.fullmatch(r"[\w-]+(\.[\w-]+)+(:\d+)?", parts.netloc) is None or " " in link


def broken_links(root: Path, page: Page) -> Iterator[str]:
    """Links of a page that lead nowhere, or have no proper form."""
    for link in dict.fromkeys(page.links):
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            if bad_form(link):
                yield f"has a malformed link: {link}"
            continue
        target = (page.path.parent / unquote(parts.path)).resolve() if parts.path else page.path
        target = target / "index.html" if target.is_dir() else target
        if not target.is_relative_to(root.resolve()) or not target.exists():
            yield f"links to a page that is not there: {link}"
        elif parts.fragment and target.suffix == ".html" and unquote(parts.fragment) not in parse(target).anchors:
            yield f"links to an anchor that is not there: {link}"


def weight(page: Page) -> int:
    """Bytes of a page with its images."""
    images = {
        (page.path.parent / unquote(urlsplit(source).path)).resolve() for source in page.images if ":" not in source
    }
    return page.path.stat().st_size + sum(image.stat().st_size for image in images if image.exists())


def check_files(root: Path) -> Iterator[str]:
    """Findings about links and weights."""
    for path in pages_of(root):
        page = parse(path.resolve())
        name = path.relative_to(root)
        yield from (f"{name} {finding}" for finding in broken_links(root, page))
        if weight(page) > MAX_BYTES:
            yield f"{name} weighs {weight(page) / 1e6:.2f} MB with its images; at most 1 MB is allowed"


def check_layout(browser: Any, root: Path, paths: Iterable[Path]) -> Iterator[str]:
    """Findings about widths and about other hosts, in a browser."""
    for kind, width in WIDTHS.items():
        context = browser.new_context(viewport={"width": width, "height": 900}, offline=True)
        shown = context.new_page()
        asked: list[str] = []
        shown.on("request", lambda request, asked=asked: asked.append(request.url))
        for path in paths:
            name = path.relative_to(root)
            shown.goto(path.resolve().as_uri())
            found = shown.evaluate(TOO_WIDE, kind == "desktop")
            yield from (f"{name} at {width} px: {finding}" for finding in found)
            yield from (f"{name} loads {url}" for url in asked if not url.startswith(("file:", "data:")))
            asked.clear()
        context.close()


def check_in_browser(root: Path) -> list[str]:
    """Findings about every page in the Chromium of this machine; none, with a message, where there is no Chromium."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        print("there is no Chromium on this machine; widths and requests to other hosts are not checked")
        return []
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        found = list(check_layout(browser, root, pages_of(root)))
        browser.close()
    return found


def main(root: Path) -> None:
    """Print all findings, and fail if there are any."""
    findings = [*check_files(root), *check_in_browser(root)]
    if findings:
        raise SystemExit("\n".join([*findings, f"{len(findings)} findings in {root}"]))
    paths = pages_of(root)
    heaviest = max(paths, key=lambda path: weight(parse(path.resolve())))
    kilobytes = weight(parse(heaviest.resolve())) // 1000
    print(
        f"{len(paths)} pages: all links work, nothing is cut off; "
        f"the heaviest is {heaviest.relative_to(root)} with {kilobytes} kB"
    )


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: check_site.py FOLDER")
    main(Path(sys.argv[1]))
