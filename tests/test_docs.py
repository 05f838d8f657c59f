"""The documentation: all links work, the navigation has every page, and the reference has every public name.

`tests/test_site.py` builds the site and looks at it in a browser.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

import baserate as br
from baserate.cli import main

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
GENERATED = {"auto_gallery/index.rst"}
"""Pages of the navigation that `make docs` generates."""
MADE = {"_build", "auto_gallery"}
PAGES = sorted([*ROOT.glob("*.md"), *(page for page in DOCS.rglob("*.md") if not MADE & set(page.parts))])
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def without_code(text: str) -> str:
    return re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)


def anchor(heading: str) -> str:
    """The anchor that code hosts and MyST give to a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def page_id(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_links_point_to_existing_files_and_headings(page: Path) -> None:
    missing = []
    for link, heading in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]+))?[^)]*\)", without_code(text_of(page))):
        if link.startswith(("http", "mailto:")) or link in GENERATED:
            continue
        target = page.parent / link if link else page
        if not target.exists():
            missing.append(link)
        elif heading and heading not in map(anchor, HEADING.findall(without_code(text_of(target)))):
            missing.append(f"{link}#{heading}")
    assert not missing


def named_pages(text: str) -> list[tuple[str, str]]:
    """Text and target of the links in the lists of the navigation, of the README and of "Read more"."""
    lists = re.split(r"^## (?:Start|Documentation|Read more)$", text, maxsplit=1, flags=re.MULTILINE)[1:]
    return re.findall(r"\[([^\]]+)\]\(([^)#:]+\.md)\)", "".join(lists))


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_lists_of_pages_use_the_titles_of_the_pages(page: Path) -> None:
    others = {}
    for name, link in named_pages(text_of(page)):
        title = HEADING.findall(text_of(page.parent / link))[0]
        if "/docs/" in str(page.parent / link) and " ".join(name.split()).lower() != title.lower():
            others[name] = title
    assert others == {}


def test_every_page_is_in_the_navigation_once() -> None:
    sections = text_of(DOCS / "index.md").partition("\n## ")[2]  # the cards above link to some of the pages as well
    linked = re.findall(r"\]\(([^)#:]+\.(?:md|rst))\)", sections)
    pages = [page.relative_to(DOCS).as_posix() for page in PAGES if page.is_relative_to(DOCS)]
    assert sorted(linked) == sorted({*pages, *GENERATED} - {"index.md"})


def test_cards_of_the_landing_page_lead_to_pages() -> None:
    cards = re.findall(r"^:link: (\S+)$", text_of(DOCS / "index.md"), re.MULTILINE)
    assert len(cards) >= 5
    assert [card for card in cards if not (DOCS / f"{card}.md").exists()] == []


def test_code_on_pages_fits_the_width_of_the_site() -> None:
    blocks = [
        (page_id(page), line)
        for page in PAGES
        for block in re.findall(r"^```(?:python|sh|console|text)\n(.*?)^```", text_of(page), re.DOTALL | re.MULTILINE)
        for line in block.split("\n")
        if line.startswith((">>> ", "... ", "$ "))
    ]
    assert len(blocks) > 100
    assert [block for block in blocks if len(block[1]) > 120] == []


def test_every_public_name_is_in_the_reference() -> None:
    page = text_of(DOCS / "api.md")
    listed = {
        line.strip() for block in re.findall(r"```{eval-rst}(.*?)```", page, re.DOTALL) for line in block.split("\n")
    }
    modules = {"errors", "losses", "shifts", "theory"}  # their names are listed one by one
    wanted = set(br.__all__) - modules - {"__version__"}
    wanted |= {f"losses.{name}" for name in br.losses.__all__}
    for module in modules - {"losses"}:
        public = getattr(br, module)
        own = {name for name, it in vars(public).items() if getattr(it, "__module__", "") == public.__name__}
        own = {name for name in own if not name.startswith("_")}
        wanted |= {name if name in br.__all__ else f"{module}.{name}" for name in own}
    assert wanted - listed == {"errors.Option", "errors.respell", "errors.warn"}  # not for users
    assert "`br.__version__`" in page


@pytest.mark.parametrize("name", ["comparing.md", "which-procedure.md"])
def test_console_examples_print_what_the_page_shows(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = text_of(DOCS / name)
    monkeypatch.chdir(tmp_path)
    for file, content in re.findall(r"With `([\w.]+)`:\n\n```text\n(.*?)```", page, re.DOTALL):
        Path(file).write_text(content, encoding="utf-8")
    examples = re.findall(r"```console\n\$ baserate (.*?)\n(.*?)```", page, re.DOTALL)
    assert examples
    for line, shown in examples:
        answer = CliRunner().invoke(main, shlex.split(line))
        assert answer.exit_code == 0, answer.output
        assert answer.stdout == shown


def test_commands_of_the_quickstart_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = text_of(DOCS / "quickstart.md")
    (table,) = re.findall(r"```text\n(id,.*?)```", page, re.DOTALL)
    (commands,) = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    Path("preds.csv").write_text(table, encoding="utf-8")
    for line in commands.splitlines():
        program, *words = shlex.split(line)
        answer = CliRunner().invoke(main, words)
        assert (program, answer.exit_code) == ("baserate", 0), answer.output
    assert Path("adjusted.csv").read_text(encoding="utf-8").startswith("id,p_healthy,p_ill\n007,0.97")
    assert Path("new.csv").read_bytes() == Path("adjusted.csv").read_bytes()
