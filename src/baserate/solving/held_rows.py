"""Rows of files in memory, with the columns beside the probabilities that an analysis needs: labels and groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from baserate.engines.files import FilesEngine
from baserate.errors import BadLabels, BadOption, Option
from baserate.inputs.labels import match_labels
from baserate.inputs.validation import quoted, quoted_name
from baserate.rates import Rates, RatesLike
from baserate.solving.predictions import read_predictions
from baserate.solving.request import Request, parse_request
from baserate.support.arrays import FloatArray, IndexArray

_CLASSES = Option("classes", "[...]")


class HeldRows(NamedTuple):
    """All rows of some files.

    Attributes
    ----------
    probs : array of shape (n, k)
    weights : array of shape (n,) or None
    known : Rates
        What is known about the rates, for the classes of the columns.
    rows : FilesEngine
    """

    probs: FloatArray
    weights: FloatArray | None
    known: Rates
    rows: FilesEngine

    @classmethod
    def read(cls, files: Any, rates: RatesLike, *, other_columns: Mapping[str, str | None], **options: Any) -> Self:
        """Read files.

        Parameters
        ----------
        files : Files or path
        rates : Rates
            What is known about the rates. The columns with probabilities may follow from the classes that it names.
        other_columns : dict
            Columns that will be read besides, by what they contain; None where there is no such column.
        **options
            How rows are read: options of :func:`baserate.adjust`.
        """
        others = {what: name for what, name in other_columns.items() if name is not None}
        return cls.of(parse_request(files, rates, other_columns=others, **options))

    def read_validation(self, files: Any, labels: str, **options: Any) -> Self:
        """Read other files with the same columns, and with labels."""
        assert self.rows.columns is not None
        same = {
            "columns": list(self.rows.columns.names),  # in this order, whatever the order in the other files
            "classes": self.known.classes,
            "sample_weight": None,
            "other_columns": {"labels": labels},
        }
        return self.of(parse_request(files, self.known, **(options | same)))

    @classmethod
    def of(cls, request: Request) -> Self:
        """Read the rows of a request."""
        rows = request.rows
        assert isinstance(rows, FilesEngine)
        probs, weights = read_predictions(request)
        return cls(probs, weights if rows.weighted else None, request.known, rows)

    @property
    def classes(self) -> tuple[Any, ...] | None:
        """Names of the classes; None if the file has none."""
        return self.known.classes

    def labels(self, column: str) -> NDArray[Any]:
        """The label of each row: the name of its class, or its number if the classes have no names."""
        found = self.rows.read_column(column)
        self._check_present(column, found.codes, "label")
        names = self.classes or tuple(range(self.probs.shape[1]))
        numbers = match_labels(found.values, names, one_column=self.rows.one_column)
        unknown = np.array([number is None for number in numbers], dtype=bool)[found.codes]
        if unknown.any():
            i = int(unknown.argmax())
            n_others = int(unknown.sum()) - 1
            more = f" ({n_others:,} more rows have labels that are not classes)" if n_others else ""
            raise BadLabels(
                f"{self._cell(i, column)} is {quoted_name(found.values[found.codes[i]])}, which is not among the "
                f"classes {quoted(names)}{more}; correct the labels, or name the classes of the columns as the labels "
                f"do: {_CLASSES}",
                options=[_CLASSES],
            )
        return np.array(names)[np.array(numbers, dtype=np.intp)[found.codes]]

    def groups(self, column: str) -> IndexArray:
        """The number of the group of each row."""
        codes = self.rows.read_column(column).codes
        self._check_present(column, codes, "group")
        return codes

    def _check_present(self, column: str, codes: IndexArray, what: str) -> None:
        missing = np.flatnonzero(codes < 0)
        if missing.size:
            more = f" ({missing.size - 1:,} more rows have none)" if missing.size > 1 else ""
            raise (BadLabels if what == "label" else BadOption)(
                f"{self._cell(int(missing[0]), column)} is empty{more}; give every row a {what}, or remove these rows"
            )

    def _cell(self, row: int, column: str) -> str:
        return f"{self.rows.naming.row(row)}, column {quoted_name(column)}"
