"""An adjustment of all rows by one shift."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Self

from numpy.typing import ArrayLike

from baserate.errors import BaserateError
from baserate.inputs.validation import as_flag
from baserate.progress import Progress
from baserate.rates import Rates, RatesLike
from baserate.result.record import Result
from baserate.solving import apply_shift, new_row_source, solve_again

if TYPE_CHECKING:
    from baserate.analysis.drift import Drift
    from baserate.result.shift_certificate import ShiftCertificate


class Adjustment(Result):
    """Adjusted predictions, and the shift that can adjust further rows.

    Attributes
    ----------
    rates : array of shape (k,)
        Mean of the adjusted rows.
    wanted : array of shape (k,)
        The requested rates. For a rate set, the rates that were chosen from it.
    before : array of shape (k,)
        Mean of the predictions.
    certificate : Certificate
        The guarantee.
    active : tuple of ActiveBound
        The bounds that determine the rates.
    converged : bool
        Whether the rates were reached to the tolerance ``tol``.
    n_passes : int
        Number of passes over the data: to check the rows, to find the shift and to write the adjusted rows. 3 to 7 are
        usual. Passes of the compiled solver for small problems are not counted if it cannot solve the problem.
    n_rows : int
    engine : str
        The engine and the passes, such as "numpy", "files, numba", "spark" or "torch, triton".
    bounded : bool
    classes : tuple or None
        Names of the classes.
    procedure : str
        "adjust" or "prior".
    """

    @classmethod
    def of(cls, result: Result) -> Self:
        """The adjustment with the values of a result."""
        return cls(**{field.name: getattr(result, field.name) for field in fields(cls)})

    def apply(
        self,
        new_probs: Any,
        *,
        from_logits: bool | None = None,
        normalize: bool = False,
        columns: str | Sequence[Any] | None = None,
        whole: bool = False,
        out: Any = None,
        dtype: Any = None,
        progress: Progress | None = None,
    ) -> Any:
        """Adjust other rows by the same shift.

        The certificate of the fit does not hold for other rows: neither their mean nor a lower loss. Use it for rows
        from the same population, and :meth:`certify` to see what is guaranteed for them.

        Parameters
        ----------
        new_probs : array-like of shape (n, k) or (k,), dataframe, path, pyarrow.dataset.Dataset, or Dask collection
            One row or many. Columns of a dataframe or file are matched by name. If the adjustment was fitted to the
            probabilities of one class, a vector or Series of them, or a single number, is also accepted.
        from_logits : bool, optional
            Whether these are logits; by default as in the fit.
        normalize : bool, default False
            Divide each row by its sum first.
        columns : str or sequence, optional
            The columns of a dataframe or file that hold the probabilities; by default those with the names of the
            columns of the fit, or of its classes.
        whole : bool, default False
            Whether a dataframe is returned with all its columns, and not only those with probabilities.
        out : path-like, optional
            File or folder for the adjusted rows. Required for files, and not allowed for other input.
        dtype : "float32" or "float64", optional
            The dtype of the result; by default that of ``new_probs``, as in :func:`baserate.adjust`.
        progress : Progress, optional
            Receives progress updates.

        Returns
        -------
        array of the same shape, dataframe of the same kind, or the path of the adjusted files

        Examples
        --------
        >>> import baserate as br
        >>> result = br.adjust([[0.7, 0.3], [0.4, 0.6]], [0.3, 0.7])
        >>> result.apply([0.5, 0.5]).round(3)
        array([0.241, 0.759])
        """
        reading = {"from_logits": from_logits, "normalize": normalize, "columns": columns, "dtype": dtype}
        source = new_row_source(self, new_probs, out=out, progress=progress, **reading)
        return apply_shift(self, source, whole=as_flag("whole", whole))

    def certify(
        self,
        new_probs: Any,
        rates: RatesLike,
        *,
        sample_weight: ArrayLike | str | None = None,
        from_logits: bool | None = None,
        normalize: bool = False,
        columns: str | Sequence[Any] | None = None,
        dtype: Any = None,
        progress: Progress | None = None,
    ) -> ShiftCertificate:
        """What the shift guarantees on other rows, without labels, if something is known about their class rates.

        If the rows are adjusted by :meth:`apply`, their mean loss falls by at least ``loss_reduction``. The shift is
        not fitted again, so this number may be negative: then the loss may rise by at most that much.

        Parameters
        ----------
        new_probs, from_logits, normalize, columns, dtype, progress
            As in :meth:`apply`. Rows are read once, and nothing is written.
        rates : float, array-like of shape (k,), dict, Series or Rates
            What is known about the class rates of the new rows, as in :func:`baserate.adjust`.
        sample_weight : array-like of shape (n,), or str, optional
            Weights of the rows in the mean; for files, the name of a column.

        Returns
        -------
        ShiftCertificate
            Its method ``for_population`` has a bound for rows still to come.

        Examples
        --------
        >>> import baserate as br
        >>> result = br.adjust([0.1, 0.4, 0.7, 0.9], 0.25)
        >>> round(result.certify([0.2, 0.3, 0.6, 0.9], 0.3).loss_reduction, 3)
        0.1
        >>> round(result.certify([0.2, 0.3, 0.6, 0.9], 0.6).loss_reduction, 3)
        -0.436
        """
        reading = {"from_logits": from_logits, "normalize": normalize, "columns": columns, "dtype": dtype}
        source = new_row_source(
            self, new_probs, sample_weight=sample_weight, progress=progress, writes=False, **reading
        )
        from baserate.solving.certify import certify_shift

        return certify_shift(self, source, rates)

    def drift(self, new_probs: Any, rates: RatesLike, *, tolerance: float = 0.01, **options: Any) -> Drift:
        """Compare, for new rows: keep this shift, fit again, or do nothing.

        Parameters
        ----------
        new_probs, rates
            As in :meth:`certify`.
        tolerance : float, default 0.01
            How much of the guaranteed fall may be given up to avoid a new fit; see :func:`baserate.drift`, which takes
            a series of batches.
        **options
            ``sample_weight``, ``from_logits``, ``normalize`` and ``columns``, as in :meth:`certify`.

        Examples
        --------
        >>> import baserate as br
        >>> result = br.adjust([0.1, 0.4, 0.7, 0.9], 0.25)
        >>> result.drift([0.2, 0.3, 0.6, 0.9], 0.3)
        What the fixed shift guarantees on 1 batch: fall of the mean log loss
        <BLANKLINE>
          batch     rows     keep    refit  action
          new rows     4  +0.1001  +0.1203   refit
        """
        from baserate.analysis.drift import drift_of_batch

        return drift_of_batch(self, new_probs, rates, tolerance=tolerance, **options)

    def what_if(self, rates: ArrayLike | Mapping[Any, float] | Rates) -> Adjustment:
        """Adjust the same rows to other rates, starting from the present shift.

        The predictions are read again, so they must not have been changed in place since.

        Parameters
        ----------
        rates : array-like of shape (k,), dict or Rates

        Examples
        --------
        >>> import baserate as br
        >>> result = br.adjust([[0.7, 0.3], [0.4, 0.6], [0.9, 0.1]], [0.5, 0.5])
        >>> result.what_if([0.45, 0.55]).certificate.loss_reduction > result.certificate.loss_reduction
        True
        """
        if self.procedure == "prior":
            raise BaserateError("a prior adjustment is defined by its rates; call prior_adjust with the other rates")
        if self.source is None:
            raise BaserateError("this adjustment has a shift but no rows; call adjust(probs, rates) instead")
        return type(self).of(solve_again(self, rates))

    def to_torch(self, *, from_logits: bool | None = None) -> Any:
        """A module of torch that adjusts predictions by the same shift.

        It can be the last module of a network, and can be exported by ``torch.export`` and to ONNX; see
        :doc:`Tensors and GPUs </gpu>`. It needs ``pip install "baserate[torch]"``.

        Parameters
        ----------
        from_logits : bool, optional
            Whether its input is logits; by default as in the fit. Its output is always probabilities.

        Returns
        -------
        baserate.torch.ShiftLayer
        """
        try:
            from baserate.torch import ShiftLayer
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            raise ImportError('to_torch() needs torch: pip install "baserate[torch]"') from None
        logits = None if from_logits is None else as_flag("from_logits", from_logits)
        return ShiftLayer(self, from_logits=logits)

    def report(
        self,
        path: str | os.PathLike[str],
        *,
        y: ArrayLike | None = None,
        old_rates: Any = None,
        title: str = "Predictions adjusted to class rates",
        note: str = "",
    ) -> None:
        """Write a page about this adjustment: one self-contained HTML file, or Markdown.

        The page says what was done, what is guaranteed and under which condition. It shows the class rates before and
        after, and how single rows changed. It needs ``pip install "baserate[report]"``.

        Parameters
        ----------
        path : path-like
            Must end in ``.html`` or ``.md``.
        y : array-like of shape (n,), optional
            Labels of the rows. If they are given, the report also compares the losses of all procedures.
        old_rates : array-like of shape (k,), optional
            Class rates in training, for prior adjustment as one of the procedures.
        title, note : str
        """
        from baserate.report import write_report

        write_report(path, self, y=y, old_rates=old_rates, title=title, note=note)

    def to_sql(
        self,
        *,
        columns: str | Sequence[Any] | None = None,
        table: str | Sequence[str] = "predictions",
        dialect: str = "duckdb",
        keep: Sequence[str] | None = None,
    ) -> str:
        """The shift as a SQL query that adjusts the rows of a table; a statement that starts with ``WITH``.

        Rows that cannot be adjusted become NULL in all classes, such as rows with a NULL. Negative and infinite numbers
        are not checked; see :doc:`/deployment`. It needs ``pip install "baserate[sql]"``.

        Parameters
        ----------
        columns : str or sequence of str, optional
            The columns with probabilities, in the order of the classes: a pattern such as ``"p_*"``, where ``*`` is the
            class name, or a list of names. By default those of the fit, or the class names.
        table : str or sequence of str, default "predictions"
            The table. Dots separate schema and table; a list has one entry per part.
        dialect : str, default "duckdb"
            The database, by its name in sqlglot: "bigquery", "databricks", "postgres", "snowflake", "spark", "sqlite",
            "tsql" and others.
        keep : sequence of str, optional
            The other columns of the result. By default all, which BigQuery, ClickHouse, Databricks, DuckDB, Redshift
            and Snowflake support. All other dialects need it.

        Raises
        ------
        BadLoss
            If the loss has no formula in SQL; see :doc:`/deployment`.

        Notes
        -----
        All names are quoted, so they must be spelled as the database stores them.

        Examples
        --------
        >>> import baserate as br
        >>> result = br.adjust([[0.7, 0.3], [0.4, 0.6]], [0.3, 0.7], classes=["no", "yes"])
        >>> import duckdb
        >>> predictions = duckdb.sql("SELECT 7 AS id, 0.5 AS p_no, 0.5 AS p_yes")
        >>> query = result.to_sql(columns="p_*")
        >>> duckdb.sql(f"SELECT id, round(p_yes, 3) FROM ({query})").fetchall()
        [(7, 0.759)]
        """
        from baserate import deploy

        return deploy.to_sql(self, columns=columns, table=table, dialect=dialect, keep=keep)

    def to_onnx(self, path: str | os.PathLike[str], *, dtype: str = "float32", opset: int = 18) -> None:
        """Write the shift as an ONNX model, which other languages and inference servers can run.

        The model has one input, ``probabilities`` or ``logits``, and one output, ``adjusted``, both of shape (n, k), or
        (n,) if the adjustment was fitted to the probabilities of one class. It computes in float64. Rows that cannot be
        adjusted become NaN. It needs ``pip install "baserate[onnx]"``.

        Parameters
        ----------
        path : path-like
            An existing file is replaced when the new one is complete.
        dtype : "float32" or "float64", default "float32"
            The dtype of input and output.
        opset : int, default 18
            The version of the operators, from 16 to 23.

        Raises
        ------
        BadLoss
            If the loss has no formula; see :doc:`/deployment`.
        """
        from baserate import deploy

        deploy.to_onnx(self, path, dtype=dtype, opset=opset)

    def to_code(self, language: str) -> str:
        """The shift as a function of a few lines that needs no packages, with rows to test it.

        Parameters
        ----------
        language : "python" or "javascript"

        Examples
        --------
        >>> import baserate as br
        >>> result = br.adjust([[0.7, 0.3], [0.4, 0.6]], [0.3, 0.7])
        >>> names = {}
        >>> exec(result.to_code("python"), names)
        >>> [round(value, 3) for value in names["adjust"]([0.5, 0.5])]
        [0.241, 0.759]
        """
        from baserate import deploy

        return deploy.to_code(self, language)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the shift, not the rows, to a JSON file that :func:`baserate.load` reads."""
        from baserate.result.saving import save

        save(self, path)
