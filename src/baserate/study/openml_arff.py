"""A reader of OpenML's predictions files: ARFF, in all variants that programs have uploaded over the years."""

from __future__ import annotations

import gzip
import operator
import re
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from baserate.errors import BadFile
from baserate.support.arrays import FloatArray, IndexArray


@dataclass(frozen=True, eq=False)
class Predictions:
    """The content of a predictions file of OpenML.

    Attributes
    ----------
    fold : array of int, shape (n,)
    row_id : array of int, shape (n,)
        Row of the data set, counted from 0.
    y : array of int, shape (n,)
        Position of the true class.
    probs : array of shape (n, k)
    classes : tuple of str
        In the order in which the file declares them.
    """

    fold: IndexArray
    row_id: IndexArray
    y: IndexArray
    probs: FloatArray
    classes: tuple[str, ...]


def read_predictions(source: str | Path, *, name: str | None = None) -> Predictions:
    """Read the first repeat of a predictions file, and the largest sample of each of its folds.

    Parameters
    ----------
    source : str or Path
        The text of the file, or its path. A file may be compressed with gzip.
    name : str, optional
        The name of the file in error messages.
    """
    import arff

    name = name or (str(source) if isinstance(source, Path) else "the predictions")
    lines = _Lines(_text(source) if isinstance(source, Path) else source)
    try:
        document = arff.ArffDecoder().decode(lines, return_type=arff.DENSE_GEN)
        layout = _Layout(document["attributes"])
        numbers, y = layout.read(document["data"])
    except arff.ArffException as error:
        error.line = lines.number  # the decoder does not set it in generator mode
        raise BadFile(f"{name}, line {lines.number}: {_message(error)}") from None
    except (ValueError, IndexError) as error:
        raise BadFile(f"{name}, line {lines.number}: {error}") from None
    try:
        return _select(layout, numbers, y)
    except ValueError as error:
        raise BadFile(f"{name}: {error}") from None


class _Lines:
    """The lines of a text. Counts them, and removes white space in the header that the decoder cannot parse."""

    def __init__(self, text: str) -> None:
        # Not splitlines: it also splits at characters that class names may contain. Some files end with a NUL.
        self._lines = re.split(r"\r*\n|\r", text.rstrip("\0\x1a \r\n"))
        self.number = 0

    def __iter__(self) -> Iterator[str]:
        for line in self._lines:
            self.number += 1
            if line.lstrip().startswith("@"):
                line = re.sub(r"^\s*(@\w+)\s+", r"\1 ", line)  # the decoder rejects a tab after a keyword
                line = re.sub(r"(['\"])\s+(?=[,}])", r"\1", line)  # and white space between a quoted name and a comma
            yield line


class _Layout:
    """The positions of the columns in a predictions file."""

    def __init__(self, attributes: Sequence[tuple[str, Any]]) -> None:
        names = [name for name, _ in attributes]
        position = {name.lower(): j for j, name in enumerate(names)}
        scores = {name[11:]: j for j, name in enumerate(names) if name.lower().startswith("confidence.")}
        truth = position.get("correct", position.get("truth"))
        if truth is None:
            raise ValueError("there is no column 'correct' or 'truth'")
        if missing := [column for column in ("fold", "row_id") if column not in position]:
            raise ValueError(f"there is no column {missing[0]!r}")
        declared = attributes[truth][1]
        self.classes = tuple(declared if isinstance(declared, list) else scores)  # some files declare a string
        if None in self.classes or len(set(self.classes)) < max(1, len(self.classes)):
            raise ValueError(f"the classes {list(self.classes)} are not distinct names")
        self.truth = truth
        self.counts = [column for column in ("fold", "row_id", "repeat", "sample") if column in position]
        self.columns = [position[column] for column in self.counts] + self._scores(scores)

    def _scores(self, scores: dict[str, int]) -> list[int]:
        plain = {_plain(name): j for name, j in scores.items()}
        columns = [scores.get(name, plain.get(_plain(name))) for name in self.classes]
        for name, column in zip(self.classes, columns, strict=True):
            if column is None or columns.count(column) > 1:
                raise ValueError(f"there is no column 'confidence.{name}'")
        if extra := set(scores.values()) - set(columns):
            name = next(name for name, j in scores.items() if j in extra)
            raise ValueError(f"column 'confidence.{name}' does not belong to a declared class")
        return [column for column in columns if column is not None]

    def read(self, rows: Iterator[list[Any]]) -> tuple[FloatArray, IndexArray]:
        """The numbers and labels of all rows."""
        # Not lists: those of a million rows need too much memory.
        code, pick = {name: j for j, name in enumerate(self.classes)}, operator.itemgetter(*self.columns)
        numbers, labels = array("d"), array("q")
        for row in rows:
            if (label := code.get(row[self.truth])) is None:
                raise ValueError(f"the true class {row[self.truth]!r} is not one of {list(code)}")
            try:
                numbers.extend(pick(row))
            except TypeError:
                raise ValueError(f"a value is missing or not a number: {list(pick(row))}") from None
            labels.append(label)
        if not labels:
            raise ValueError("there are no rows")
        return np.array(numbers).reshape(len(labels), -1), np.array(labels, dtype=np.intp)


def _select(layout: _Layout, numbers: FloatArray, y: IndexArray) -> Predictions:
    counts = {name: _as_integers(numbers[:, j], name) for j, name in enumerate(layout.counts)}
    fold, row_id = counts["fold"], counts["row_id"]
    zero = np.zeros_like(fold)
    repeat, sample = counts.get("repeat", zero), counts.get("sample", zero)
    keep = repeat == repeat.min()
    folds, group = np.unique(fold, return_inverse=True)
    largest = np.full(len(folds), -1)
    np.maximum.at(largest, group[keep], sample[keep])
    keep &= sample == largest[group]
    rows, times = np.unique(row_id[keep], return_counts=True)
    if times.max() > 1:
        raise ValueError(f"row_id {rows[times.argmax()]} occurs {times.max()} times")
    probs = numbers[keep, len(counts) :]
    if not np.isfinite(probs).all():
        bad = np.flatnonzero(~np.isfinite(probs).all(axis=1))[0]
        raise ValueError(f"row_id {row_id[keep][bad]} has a confidence that is not a number")
    return Predictions(fold[keep], row_id[keep], y[keep], probs, layout.classes)


def _as_integers(values: FloatArray, name: str) -> IndexArray:
    bad = ~((values >= 0) & (values < 2**53) & (values == np.floor(values)))
    if bad.any():
        raise ValueError(f"{name} is {values[bad][0]} in row {np.flatnonzero(bad)[0] + 1} of the data")
    return values.astype(np.intp)


def _plain(name: str) -> str:
    """A class name without quotes and escapes, which some programs write differently in column names."""
    return re.sub(r"\\(.)", r"\1", name).strip("'\" ")


def _message(error: Exception) -> str:
    try:
        return str(error)[:200]
    except (TypeError, ValueError):  # the decoder fails to format messages that contain a percent sign
        return type(error).__name__


def _text(path: Path) -> str:
    data = path.read_bytes()
    return decode_text(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)


def decode_text(data: bytes) -> str:
    """Decode UTF-8, or Latin-1 if the data are not valid UTF-8."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("latin-1")  # written by older programs on Windows
