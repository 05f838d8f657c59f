"""Check the language of pages, docstrings, messages and help texts; ``make docs`` runs this.

Our own rules are in ``prose.toml``. proselint adds general ones. Both work offline.

    python tools/prose.py                 check everything, print the findings, and fail if there are any
    python tools/prose.py --count ROOT    only count the findings of each rule, in another checkout
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from prose_texts import Source, Text, sources
from proselint.checks import __register__ as proselint_checks
from proselint.config import DEFAULT
from proselint.registry import CheckRegistry
from proselint.tools import LintFile

CheckRegistry().register_many(proselint_checks)  # the registry is one object, which LintFile uses

SETTINGS = tomllib.loads(Path(__file__).with_name("prose.toml").read_text(encoding="utf-8"))
RULES = [(re.compile(rule["pattern"], re.IGNORECASE), rule["instead"]) for rule in SETTINGS["rule"]]
SENTENCE_END = re.compile(r"(?<=[.!?:])\s+(?=[A-Z\"'(`])|(?<=\.)\s+(?=code\b)|(?<=;)\s+")


class Finding(NamedTuple):
    """Something to rewrite."""

    path: str
    line: int
    rule: str
    words: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}: {self.words!r}"


def sentences(text: str) -> list[str]:
    """Split a paragraph at semicolons, and at full stops and colons before a capital letter."""
    return [sentence for sentence in SENTENCE_END.split(text) if sentence.strip()]


def vocabulary(source: Source, text: Text) -> Iterator[Finding]:
    """Matches of our rules, and sentences with too many words."""
    for sentence in sentences(text.words):
        for pattern, instead in RULES:
            for match in pattern.finditer(sentence):
                yield Finding(source.path, text.line, instead, match.group())
        length = len(re.findall(r"\w[\w'-]*", sentence))
        if text.shown and length > SETTINGS["max_words_in_a_sentence"]:
            yield Finding(source.path, text.line, f"a sentence has {length} words; split it", sentence[:60])


def abbreviations(source: Source) -> Iterator[Finding]:
    """Abbreviations that are not spelled out at their first use in a page, docstring or message that users see."""
    for unit in source.units():
        if not unit[0].shown:
            continue
        words = re.sub(r'"[^"]*"', "", " ".join(text.words for text in unit))  # quoted names keep their abbreviations
        for short, long in SETTINGS["abbreviations"].items():
            first = re.search(rf"\b{short}\b", words)
            if first and not re.search(long, words[: first.end() + 40].lower()):
                line = next(text.line for text in unit if re.search(rf"\b{short}\b", text.words))
                yield Finding(source.path, line, "spell out the abbreviation at its first use", short)


def general(source: Source) -> Iterator[Finding]:
    """What proselint finds."""
    content, starts = "", []
    for text in source.texts:
        starts.append((len(content), text.line))
        content += text.words + " .\n\n"  # the full stop keeps neighbours apart
    for result in LintFile(source.path, content).lint(DEFAULT):
        if result.check_result.check_path.startswith(tuple(SETTINGS["proselint_off"])):
            continue
        start, end = (max(position - 1, 0) for position in result.check_result.span)
        if "code" in content[start:end].split():  # two pieces of code in a row are no repeated word
            continue
        line = max((line for begin, line in starts if begin <= start), default=1)
        yield Finding(source.path, line, f"proselint {result.check_result.check_path}", content[start:end].strip())


def findings(root: Path) -> Iterator[Finding]:
    """Everything in a checkout."""
    for source in sources(root):
        for text in source.texts:
            yield from vocabulary(source, text)
        yield from abbreviations(source)
        yield from general(source)


def main(arguments: list[str]) -> None:
    """Print findings or their numbers."""
    if arguments[:1] == ["--count"]:
        found = list(findings(Path(arguments[1])))
        kinds = Counter((kind_of(finding), re.sub(r"\d+", "N", finding.rule)) for finding in found)
        for (kind, rule), number in sorted(kinds.items(), key=lambda item: (item[0][0], -item[1])):
            print(f"{number:5d}  {kind:10}  {rule}")
        print(f"{len(found):5d}  in total")
        return
    found = list(findings(Path(__file__).parents[1]))
    for finding in found:
        print(finding)
    if found:
        raise SystemExit(f"{len(found)} findings")
    print("no findings about the language")


def kind_of(finding: Finding) -> str:
    """Where a finding is: in a page, in the gallery, or in the package."""
    return {".md": "pages"}.get(Path(finding.path).suffix, "gallery" if "gallery" in finding.path else "package")


if __name__ == "__main__":
    main(sys.argv[1:])
