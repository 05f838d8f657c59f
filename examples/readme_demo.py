"""Puts what `baserate demo` prints into the README; `make pictures` runs this."""

from __future__ import annotations

import tempfile
from pathlib import Path

from baserate.cli.story import story

README = Path(__file__).parents[1] / "README.md"
REPORT = "baserate-demo.html"


def told() -> str:
    """What the demo prints."""
    with tempfile.TemporaryDirectory() as folder:
        text = "\n\n".join(story(Path(folder) / REPORT))
        return text.replace(f"{folder}/", "")


def main() -> None:
    """Write it between the marks."""
    before, rest = README.read_text(encoding="utf-8").split("<!-- demo -->\n")
    after = rest.split("<!-- /demo -->")[1]
    text = f"{before}<!-- demo -->\n```text\n{told()}\n```\n<!-- /demo -->{after}"
    README.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
