"""The result of solving one problem, as values."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from baserate.core.contracts import Engine, LazyAnswer
from baserate.core.row_model import RowModel
from baserate.core.search import Stop
from baserate.errors import BaserateError, Option
from baserate.inputs.dataframes import Frame
from baserate.inputs.row_source import Form
from baserate.losses.base import Loss
from baserate.result import text
from baserate.result.certificate import ActiveBound, Certificate
from baserate.support.arrays import FloatArray
from baserate.support.summary import Summary

_OUT = Option("out")
_NO_ROWS = (
    "this adjustment has a shift but no rows: it was loaded, fitted by an estimator, or made from files without "
    f"{_OUT}="
)


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """Adjusted predictions, the shift that makes them, and what is guaranteed.

    Attributes
    ----------
    model : RowModel
        What is done to a row, except for the shift.
    dual_shift : array
        The shift of the kept classes.
    rates : array of shape (k,)
        Mean of the adjusted rows.
    wanted : array of shape (k,)
        The requested rates; for a rate set, those that were chosen in it.
    before : array of shape (k,)
        Mean of the predictions.
    certificate : Certificate
    active : tuple of ActiveBound
        The bounds that determine the rates.
    converged : bool
    n_passes : int
        Number of passes over the data.
    n_rows : int
    engine : str
        Where the work was done, and with which passes.
    bounded : bool
    classes : tuple or None
        Names of the classes.
    procedure : "adjust" or "prior"
    answer : array, Dask collection, LazyAnswer, path or None
        The adjusted rows as the engine keeps them.
    form : Frame, Vector or None
        The form of the dataframe, the Series or the vector that was adjusted.
    one_column : bool
        Whether the predictions are one number per row: the probability of the second of two classes.
    source : Engine or None
        The rows before adjustment, as long as they can be read again.
    stop : Stop or None
        When the search was to stop; used again for other rates.
    """

    model: RowModel
    dual_shift: FloatArray
    wanted: FloatArray
    before: FloatArray
    rates: FloatArray
    certificate: Certificate
    active: tuple[ActiveBound, ...]
    converged: bool
    n_passes: int
    n_rows: int
    engine: str
    bounded: bool
    classes: tuple[Any, ...] | None
    procedure: str
    answer: Any
    form: Form | None
    one_column: bool
    source: Engine | None
    stop: Stop | None

    is_grouped: ClassVar[bool] = False
    """Whether the shift depends on the groups of a row."""

    @property
    def loss(self) -> Loss:
        """The loss whose divergence was minimised."""
        return self.model.loss

    @property
    def shift(self) -> FloatArray:
        """The k numbers of the adjustment, with mean 0: ``gradient(a) = gradient(p) + shift`` up to a constant per row.

        -inf for classes of rate 0, which get probability 0 in every row.
        """
        return self.model.per_class(self.dual_shift - self.dual_shift.mean(), fill=-np.inf)

    @property
    def probs(self) -> Any:
        """The adjusted predictions in the form of the original ones: an array, a dataframe or a Series."""
        if self.answer is None:
            raise BaserateError(f"{_NO_ROWS}; use apply(probs), or apply(files, {_OUT}=...)", options=[_OUT])
        if isinstance(self.answer, LazyAnswer):
            return self.answer.columns()
        return self.answer if self.form is None else self._wrapped

    @property
    def frame(self) -> Any:
        """The dataframe that was adjusted, with all its columns; those with probabilities hold the adjusted ones.

        For a query, a Spark DataFrame or a Ray Dataset, a lazy one of the same kind; see :doc:`/databases` and
        :doc:`/clusters`.
        """
        if isinstance(self.answer, LazyAnswer):
            return self.answer.frame()
        if isinstance(self.form, Frame) and self.form.whole is not None and self.answer is not None:
            return self.form.wrap_whole(self.answer)
        if self.answer is None:
            raise BaserateError(
                f"{_NO_ROWS}; use apply(dataframe, whole=True), or apply(files, {_OUT}=...)", options=[_OUT]
            )
        raise BaserateError(f"there is no dataframe: {self._instead_of_frame}")

    @property
    def _instead_of_frame(self) -> str:
        """Why there is no dataframe, and what there is."""
        if isinstance(self.answer, (str, os.PathLike)):
            return f"the adjusted rows, with all columns, are in {os.fspath(self.answer)}"
        if isinstance(self.form, Frame):
            return "this is a copy that has only the columns with probabilities; use probs, or apply(df, whole=True)"
        return (
            f"the predictions were not one. The adjusted ones are in probs ({type(self.probs).__name__}); or use "
            "apply(dataframe, whole=True)"
        )

    @cached_property
    def _wrapped(self) -> Any:
        assert self.form is not None
        return self.form.wrap(self.answer)

    def without_rows(self) -> Self:
        """The same without any rows: what a long-lived object keeps."""
        return replace(self, answer=None, form=None, source=None)

    def without_guarantee(self) -> Self:
        """The same without a guarantee, for a shift that was made without rows."""
        nothing = replace(self.certificate, loss_reduction=np.nan, gap=np.nan, residual=np.nan)
        return replace(self, certificate=nothing, n_rows=0)

    def __getstate__(self) -> dict[str, Any]:
        # A copy in a file or on another machine has the adjusted rows, but not the predictions.
        form = replace(self.form, whole=None) if isinstance(self.form, Frame) else self.form
        kept = {name: value for name, value in vars(self).items() if name != "_wrapped"}
        return kept | {"source": None, "form": form}

    def summary(self) -> Summary:
        """What a person sees of the result, in terminals and notebooks."""
        return text.summary(self)

    def __repr__(self) -> str:
        return self.summary().text()

    def _repr_html_(self) -> str:
        return self.summary().html()
