"""Text from the data of a user, made safe and short enough for a terminal."""

from __future__ import annotations

_LONGEST = 80  # Of the name of a class or column.
LONGEST_PATH = 300
"""Longer paths are shortened in messages."""


def printable(text: str) -> str:
    r"""The text with all characters escaped that a terminal would obey or hide, such as ``\x1b`` and ``\n``.

    The same characters are escaped as by ``repr``: control characters, marks that reverse the direction of text, and
    separators other than the space.
    """
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def shortened(text: str, longest: int = _LONGEST) -> str:
    """The text, with an ellipsis in place of its middle if it is longer than ``longest`` characters."""
    if len(text) <= longest:
        return text
    end = (longest - 3) // 2
    return f"{text[: longest - 3 - end]}...{text[-end:]}"
