"""The built site: the search finds the right page first, links lead somewhere, and pages fit a phone and a desktop.

The site is built once, without running the gallery. `make docs` runs the gallery, and checks every page in the browser.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from tool_support import ROOT, load_tool

for package in ("sphinx", "furo", "myst_parser", "sphinx_design", "sphinx_copybutton", "sphinx_gallery", "playwright"):
    pytest.importorskip(package, reason="the site is built with the extra docs")

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")

SEARCHES = [
    ("undersampling", "guides/undersampling"),
    ("oversampling", "guides/undersampling"),
    ("SMOTE", "guides/undersampling"),
    ("class weights", "guides/undersampling"),
    ("imbalanced", "guides/undersampling"),
    ("prevalence", "guides/new-hospital"),
    ("hospital", "guides/new-hospital"),
    ("monthly", "guides/monthly-batches"),
    ("survey", "guides/survey-counts"),
    ("parquet", "guides/parquet-larger-than-memory"),
    ("groups", "groups"),
    ("margins", "groups"),
    ("per region", "guides/rates-per-group"),
    ("small area", "guides/rates-per-group"),
    ("post-stratification", "glossary"),
    ("larger than memory", "guides/parquet-larger-than-memory"),
    ("calibration", "guides/wrap-a-fitted-model"),
    ("FrozenEstimator", "guides/wrap-a-fitted-model"),
    ("sql", "deployment"),
    ("onnx", "deployment"),
    ("javascript", "deployment"),
    ("export", "deployment"),
    ("dask", "clusters"),
    ("spark", "clusters"),
    ("csv", "files"),
    ("s3", "object-stores"),
    ("duckdb", "databases"),
    ("LazyFrame", "databases"),
    ("torch", "gpu"),
    ("GPU", "gpu"),
    ("scikit-learn", "scikit-learn"),
    ("sklearn", "scikit-learn"),
    ("pandas", "scikit-learn"),
    ("zeros", "zeros"),
    ("multilabel", "multilabel"),
    ("notebook", "quickstart"),
    ("install", "installation"),
    ("QuaPy", "comparison"),
    ("report", "reports"),
    ("browser", "app"),
    ("read report", "guides/read-the-report"),
    ("survey counts", "guides/survey-counts"),
    ("prefit", "guides/wrap-a-fitted-model"),
    ("wrap classifier", "guides/wrap-a-fitted-model"),
    ("out of core", "guides/parquet-larger-than-memory"),
    ("chunks", "guides/parquet-larger-than-memory"),
    ("stream parquet", "guides/parquet-larger-than-memory"),
    ("prior correction", "guides/undersampling"),
    ("scale_pos_weight", "guides/undersampling"),
    ("brier", "api/baserate.losses.Brier"),
    ("log loss", "api/baserate.losses.Log"),
    ("certificate", "api/baserate.Certificate"),
    ("certify", "fixed-shift"),
    ("drift", "fixed-shift"),
    ("old shift", "fixed-shift"),
    ("base rate", "glossary"),
    ("class prior", "glossary"),
    ("prior probability shift", "glossary"),
    ("label shift", "glossary"),
    ("Saerens", "glossary"),
    ("EM", "unknown-rates"),
    ("BBSE", "unknown-rates"),
    ("quantification", "unknown-rates"),
    ("unknown prevalence", "unknown-rates"),
    ("King-Zeng", "glossary"),
    ("Elkan", "glossary"),
    ("logit shift", "glossary"),
    ("intercept correction", "glossary"),
    ("central tendency", "glossary"),
    ("raking", "glossary"),
    ("IPF", "glossary"),
    ("Sinkhorn", "glossary"),
    ("domain adaptation", "glossary"),
    ("threshold", "glossary"),
    ("BGA", "glossary"),
]
"""What users type, and the page that the search must show first."""

LOOKED_AT = ["index", "installation", "theory", "api", "comparison", "glossary", "guides/undersampling", "benchmarks"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the built site. Sphinx writes into its source folder, so that is a copy."""
    folder = tmp_path_factory.mktemp("site")
    generated = shutil.ignore_patterns("_build", "auto_gallery", "api", "__pycache__")
    shutil.copytree(ROOT / "docs", folder / "docs", ignore=generated)
    for linked in ("examples", "benchmarks", "README.md"):  # pages link to them
        (folder / linked).symlink_to(ROOT / linked)
    built = folder / "html"
    command = ["-m", "sphinx", "-q", "-n", "-W", "--keep-going", "-b", "html", folder / "docs", built]
    environment = {**os.environ, "BASERATE_GALLERY": "off", "PYTHONPATH": str(ROOT / "src")}
    answer = subprocess.run([sys.executable, *command], env=environment, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    return built


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """The address of a server for the site. Browsers do not let the search read files."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *words: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if BROWSER is None:
        pytest.skip("there is no chromium on this machine")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def shown(browser: Any) -> Iterator[Any]:
    """One tab for all searches."""
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    yield context.new_page()
    context.close()


def first_result(shown: Any) -> str:
    """The page of the first result, without its ending and anchor."""
    link = shown.locator("#search-results ul.search li a").first
    return link.get_attribute("href").split(".html")[0].split("?")[0]


@pytest.mark.parametrize(("words", "page"), SEARCHES, ids=[words for words, _ in SEARCHES])
def test_search_shows_the_right_page_first(words: str, page: str, address: str, shown: Any) -> None:
    shown.goto(f"{address}/search.html?q={quote(words)}")
    assert first_result(shown) == page


def test_search_works_from_the_box_on_the_landing_page(address: str, shown: Any) -> None:
    shown.goto(f"{address}/index.html")
    shown.locator("input.sidebar-search").fill("undersampling")
    shown.keyboard.press("Enter")
    assert first_result(shown) == "guides/undersampling"


def test_copy_button_leaves_out_prompts_and_outputs(address: str, shown: Any) -> None:
    shown.goto(f"{address}/index.html")
    shown.locator("article .highlight:has-text('>>> ')").first.hover()
    shown.locator("article .highlight button.copybtn").first.click()
    copied = shown.evaluate("navigator.clipboard.readText()")
    assert copied.startswith("import numpy as np")
    assert "result.probs.round(3)" in copied
    assert ">>>" not in copied
    assert "array(" not in copied.replace("np.array(", "")


def test_links_work_and_no_page_is_heavy(site: Path) -> None:
    assert list(load_tool("check_site").check_files(site)) == []


def test_pages_fit_a_phone_and_a_desktop_and_load_nothing_from_other_hosts(site: Path, browser: Any) -> None:
    paths = [site / f"{page}.html" for page in LOOKED_AT]
    assert list(load_tool("check_site").check_layout(browser, site, paths)) == []


def test_tables_that_scroll_on_a_desktop_are_found(tmp_path: Path, browser: Any) -> None:
    table = '<table><tr><td style="min-width: 1300px">wide</td></tr></table>'
    page = tmp_path / "page.html"
    page.write_text(f'<article><div class="table-wrapper" style="overflow-x: auto">{table}</div></article>')
    found = list(load_tool("check_site").check_layout(browser, tmp_path, [page]))
    assert found == ['page.html at 1200 px: div "wide" is cut off']  # on a phone, tables may scroll


def test_per_cent_signs_stay_on_the_line_of_their_numbers(site: Path) -> None:
    page = (site / "index.html").read_text(encoding="utf-8")
    assert "10.5\N{NO-BREAK SPACE}% are" in page
    assert "10.5 % are" not in page


def test_primes_stand_next_to_their_letters(site: Path) -> None:
    page = (site / "theory.html").read_text(encoding="utf-8")
    assert '<mi>f</mi><mo lspace="0" rspace="0">&#x02032;</mo>' in page
    assert "<mi>&#x02032;</mi></msup>" not in page


def test_formulas_are_typeset_without_scripts(site: Path) -> None:
    page = (site / "theory.html").read_text(encoding="utf-8")
    assert page.count("<math") > 100
    assert "tex-mml-chtml" not in page  # MathJax, which Sphinx would load from another host
