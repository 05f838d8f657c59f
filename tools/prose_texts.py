"""The texts that a user reads: pages, docstrings, messages, help texts and the text of the gallery, without code.

Code, formulas and addresses are replaced by the word "code", so that sentences stay sentences.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

SECTION = re.compile(r"^(\w[\w ]*)\n-{3,}$", re.MULTILINE)


class Text(NamedTuple):
    """One paragraph, table cell, item or message."""

    line: int
    words: str
    unit: int = 0
    """Number of the page or docstring to which it belongs, within its file."""
    shown: bool = True
    """Whether users see it. Docstrings of internal names are only seen by developers."""


@dataclass
class Source:
    """The texts of one file."""

    path: str
    texts: list[Text] = field(default_factory=list)

    def units(self) -> Iterator[list[Text]]:
        """The texts of each page or docstring."""
        for _, group in groupby(self.texts, key=lambda text: text.unit):
            yield list(group)


def without_markup(text: str) -> str:
    """Running text: code, formulas and addresses become "code", links become their text, emphasis is dropped."""
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r":\w+(?::\w+)*:`~?\.?([^`<]*?)(?:\s*<[^>]*>)?`", r"\1", text)
    text = re.sub(r"\{\w+\}`[^`]*`|``[^`]+``|`[^`]+`_?|\$[^$]+\$|https?://\S+|<[^>\s]+>", "code", text)
    return " ".join(re.sub(r"\*+|(?<!\w)_(?=\w)|(?<=\w)_(?!\w)|∎", "", text).split())


def paragraphs(text: str, first_line: int = 1, unit: int = 0) -> Iterator[Text]:
    """Split text at empty lines, list items and table cells; blocks of code are left out."""
    block: list[str] = []
    start, fence = first_line, ""
    for number, line in enumerate([*text.split("\n"), ""], start=first_line):
        bare = line.strip()
        opens = re.match(r"(`{3,}|:{3,}|\${2})", bare)
        if opens or fence:
            if opens and not fence and not bare.startswith(":"):
                fence = opens.group()
            elif fence and bare.startswith(fence):
                fence = ""
            bare = ""
        if block and (not bare or re.match(r"([-*|#]|\d+\.) ", bare) or bare.startswith("|")):
            yield from cells(" ".join(block), start, unit)
            block = []
        if bare:
            start = start if block else number
            block.append(bare)


def cells(block: str, line: int, unit: int) -> Iterator[Text]:
    """The cells of a table row, or the block as it is."""
    parts = block.strip("|").split("|") if block.startswith("|") else [re.sub(r"^(?:[-*#]+|\d+\.) ", "", block)]
    for part in parts:
        words = without_markup(part)
        if re.search(r"[A-Za-z]{2}", words):
            yield Text(line, words, unit)


def of_page(text: str) -> list[Text]:
    """The texts of a Markdown page. Indented code and comments are left out, and older entries of a changelog."""
    text = re.sub(r"<!--.*?-->", lambda match: "\n" * match.group().count("\n"), text, flags=re.DOTALL)
    text = re.sub(r"(?m)(?<=\n\n)(?: {4}.*\n)+", lambda match: "\n" * match.group().count("\n"), text)
    if text.startswith("# Changelog"):
        text = (
            text[: second.start()]
            if (second := re.search(r"(?s)\n## .*?(?=\n## )\n", text)) is None
            else text[: second.end()]
        )
    return list(paragraphs(text))


def of_docstring(docstring: str, line: int, unit: int) -> Iterator[Text]:
    """The texts of a docstring without its examples, its formulas, and the names and types of parameters."""
    text = re.sub(r"(?ms)^(Examples|References|See Also)\n-+\n.*?(?=^\w[\w ]*\n-{3,}$|\Z)", "", docstring) + "\n"
    text = re.sub(r"(?m)^(>>>|\.\.\.).*\n(?:.+\n)*", "", text)
    text = re.sub(r"(?m)^[*\w`, ]+ : .*$", "", text)
    if SECTION.search(text):
        text = re.sub(r"(?m)^[*\w`, ]+\n(?=    )", "\n", SECTION.sub("", text))
    else:
        text = re.sub(r"(?m)(?<=\n\n)(?: {4}.*\n)+", "\n", text)
    for block in paragraphs(text, line, unit):
        yield Text(line, block.words, unit)


def string_of(node: ast.AST) -> str | None:
    """The text of a string constant or of an f-string, whose values become "code"."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(string_of(part) or "code" for part in node.values)
    return None


def messages(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Texts of errors and warnings, and help texts of the command line."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        told = called == "warn" or re.match(r"Bad|Infeasible|Impossible|\w+(Error|Warning|Exception)$", called)
        wanted = [*node.args] if told else [word.value for word in node.keywords if word.arg in ("help", "epilog")]
        for argument in wanted:
            if (text := string_of(argument)) and " " in text:
                yield argument.lineno, re.sub(r"\x08\n(?:.+\n?)*", "", text)  # click prints such examples as they are


def of_module(text: str, names: frozenset[str] = frozenset()) -> list[Text]:
    """Docstrings of names without underscore, messages and help texts; users see the docstrings of public ``names``."""
    tree, found = ast.parse(text), []
    public = {inner for node in tree.body if getattr(node, "name", "") in names for inner in ast.walk(node)}
    for unit, node in enumerate(ast.walk(tree)):
        documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        if documented and not getattr(node, "name", "").startswith("_") and (docstring := ast.get_docstring(node)):
            texts = of_docstring(docstring, getattr(node, "lineno", 1), unit)
            found += [text._replace(shown=node in public) for text in texts]
    return found + [Text(line, without_markup(message), -line) for line, message in messages(tree)]


def public_names(root: Path) -> frozenset[str]:
    """The names that the Python reference lists, without their modules."""
    listed = re.findall(r"^   ([\w.]+)$", (root / "docs" / "api.md").read_text(encoding="utf-8"), re.MULTILINE)
    return frozenset(name.rpartition(".")[2] for name in listed)


def of_example(text: str) -> list[Text]:
    """The docstring of an example of the gallery, and its cells of text."""
    tree = ast.parse(text)
    found = [*of_docstring(ast.get_docstring(tree) or "", 1, 0)]
    for match in re.finditer(r"(?m)^# %%.*\n((?:#.*\n)+)", text):
        cell = re.sub(r"(?m)^# ?", "", match.group(1))
        found += paragraphs(cell, text[: match.start()].count("\n") + 2)
    return found


def sources(root: Path) -> Iterator[Source]:
    """Every file of a checkout that has texts for users."""
    pages = [*root.glob("*.md"), *(root / "docs").rglob("*.md")]
    for path in sorted(page for page in pages if not {"_build", "auto_gallery", "api"} & set(page.parts)):
        yield Source(path.relative_to(root).as_posix(), of_page(path.read_text(encoding="utf-8")))
    for path in sorted((root / "examples" / "gallery").glob("*.py")):
        yield Source(path.relative_to(root).as_posix(), of_example(path.read_text(encoding="utf-8")))
    names = public_names(root)
    for path in sorted((root / "src").rglob("*.py")):
        shown = frozenset() if "study" in path.parts else names  # the study has functions of the same names
        yield Source(path.relative_to(root).as_posix(), of_module(path.read_text(encoding="utf-8"), shown))
