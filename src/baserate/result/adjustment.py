"""The answer: adjusted predictions, the shift that makes them, and what is guaranteed."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from baserate.core.problem import Problem, RowModel
from baserate.engines.dask.collections import is_partitioned
from baserate.engines.memory import NumpyBlocks
from baserate.errors import BadFile, BadOption, BadProbabilities, BaserateError
from baserate.inputs.columns import Choice
from baserate.inputs.dataframes import Frame, is_frame, take_apart
from baserate.inputs.reading import Reading
from baserate.inputs.validation import as_classes, as_flag, as_matrix, by_name, one_per_class
from baserate.losses.base import Loss
from baserate.losses.registry import as_loss, from_json, to_json
from baserate.progress import Progress
from baserate.rates import Rates
from baserate.rates import from_json as known_from_json
from baserate.rates.sets import RateSet
from baserate.result import text
from baserate.result.origin import Origin
from baserate.solving.request import Rows, opened
from baserate.support import atomic_files as files
from baserate.support.arrays import FloatArray
from baserate.tables import is_table


@dataclass(frozen=True, eq=False)
class Certificate:
    """What is proved about an adjustment.

    Attributes
    ----------
    loss_reduction : float
        The mean loss on these rows falls by at least this much, whatever the labels, if :meth:`holds_for` their class
        rates. It is a value of the dual problem, so it holds even if the solver did not converge.
    gap : float
        Mean divergence of the answer from the predictions, minus the best lower bound on it: how far the answer may
        be from the smallest change.
    residual : float
        Largest absolute difference between the mean of the answer and a wanted rate.
    sensitivity : array of shape (k,)
        Change of ``loss_reduction`` per unit of each rate, or of the bound that holds it. Rates sum to 1, so of exact
        rates only differences count: moving 0.01 from class j to class l changes it by about
        ``0.01 * (sensitivity[l] - sensitivity[j])``. Between bounds, a class that no bound holds has 0, and raising
        the bound that holds class j by 0.01 changes it by about ``0.01 * sensitivity[j]``; if every class is at a
        bound, again only differences count. NaN for classes of rate 0.
    known : Rates
        What was known of the rates.
    batch_size : int
        The number of rows for which that was taken; with unequal weights, their effective number.
    """

    loss_reduction: float
    gap: float
    residual: float
    sensitivity: FloatArray
    known: Rates
    batch_size: int

    @property
    def bounds(self) -> tuple[FloatArray, FloatArray]:
        """The smallest and the largest rate of each class for which the certificate holds; see :meth:`holds_for`."""
        return self.known.bounds(self.batch_size)

    @property
    def confidence(self) -> float | None:
        """How sure it is that the rates of these rows are among those; None where that was said, not estimated."""
        return self.known.certainty

    def holds_for(self, rates: ArrayLike | Mapping[Any, float]) -> bool:
        """Whether the certificate holds if these are the class rates of the adjusted rows."""
        return self.known.contains(rates, self.batch_size)


class ActiveBound(NamedTuple):
    """A bound that holds the rates where they are.

    Attributes
    ----------
    of : class name or column number
        None for the ball of ``Rates.near``.
    side : "low", "high", "exact" or "radius"
    value : float
    """

    of: Any
    side: str
    value: float


@dataclass(frozen=True, eq=False, repr=False)
class Adjustment:
    """Adjusted predictions, and the shift that can adjust further rows.

    Attributes
    ----------
    rates : array of shape (k,)
        Mean of the adjusted rows.
    wanted : array of shape (k,)
        The rates that were asked for; of a set, those that were chosen in it.
    before : array of shape (k,)
        Mean of the predictions.
    certificate : Certificate
    active : tuple of ActiveBound
        The bounds that hold the rates where they are.
    converged : bool
    n_passes : int
        How often the rows were read to check them and to find the shift.
    n_rows : int
    engine : str
    bounded : bool
    classes : tuple or None
        Names of the columns.
    procedure : str
        "adjust" or "prior".
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
    answer: FloatArray | None
    frame: Frame | None
    origin: Origin | None

    @property
    def loss(self) -> Loss:
        """The loss whose divergence was minimised."""
        return self.model.loss

    @property
    def shift(self) -> FloatArray:
        """The k numbers of the adjustment, with mean 0: ``gradient(a) = gradient(p) + shift`` up to a constant a row.

        -inf for classes of rate 0, which get probability 0 everywhere.
        """
        return self.model.spread(self.dual_shift - self.dual_shift.mean(), fill=-np.inf)

    @property
    def probs(self) -> Any:
        """The adjusted predictions, shape (n, k): a float64 array, or a dataframe of the kind that was adjusted."""
        if self.answer is None:
            raise BaserateError(
                "this adjustment holds the shift but no rows: it was loaded, learned by an estimator, or made of files "
                "without out=; use apply(probs), or apply(files, out=...)"
            )
        return self.answer if self.frame is None else self._wrapped

    @cached_property
    def _wrapped(self) -> Any:
        assert self.frame is not None
        assert self.answer is not None
        return self.frame.wrap(self.answer)

    def apply(
        self,
        new_probs: Any,
        *,
        from_logits: bool | None = None,
        normalize: bool = False,
        columns: str | Sequence[Any] | None = None,
        out: Any = None,
        progress: Progress | None = None,
    ) -> Any:
        """Adjust other rows by the same shift.

        Nothing is guaranteed for rows other than the fitted ones: neither their mean nor a fall of their loss. It is
        sound where they come from the same place.

        Parameters
        ----------
        new_probs : array-like of shape (n, k) or (k,), dataframe, path, pyarrow.dataset.Dataset, or Dask collection
            One row or many. A dataframe or file goes by column name.
        from_logits : bool, optional
            Whether these are logits; by default as in the fit.
        normalize : bool, default False
        columns : str or sequence, optional
            The columns of a dataframe or file that hold the probabilities; by default those that are named like the
            columns of the fit, or like its classes.
        out : path-like, optional
            Where adjusted files go; needed for files, and only for them.
        progress : Progress, optional

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
        shape, frame = None, None
        if is_table(new_probs) or is_partitioned(new_probs):
            rows = Rows(probs=new_probs, columns=columns, out=out, progress=progress)
            engine = opened(rows, self.classes, what="new_probs", ordered=True).engine
            if out is None and is_table(new_probs):
                raise BadOption("say where the adjusted files should go: out=")
        elif out is not None:
            raise BadOption(
                f"out= is where adjusted files go, but new_probs is a {type(new_probs).__name__}, not a file"
            )
        else:
            new_probs, frame = self._in_memory(new_probs, columns)
            shape = np.shape(new_probs)
            engine = NumpyBlocks(as_matrix(new_probs, what="new_probs", one_row=True), None)
        k = self.model.n_classes
        if engine.n_classes != k:
            raise BadProbabilities(
                f"new_probs has {engine.n_classes} columns, but the adjustment was fitted on {k} classes"
            )
        logits = self.model.reading.from_logits if from_logits is None else as_flag("from_logits", from_logits)
        reading = replace(self.model.reading, from_logits=logits, normalize=as_flag("normalize", normalize))
        model = replace(self.model, reading=reading)
        Problem(engine, model, RateSet.point(self.wanted)).apply(self.dual_shift)
        a = engine.answer()
        if frame is not None:
            return frame.wrap(a)
        return a if shape is None else a.reshape(shape)

    def _in_memory(self, new_probs: Any, columns: str | Sequence[Any] | None) -> tuple[Any, Frame | None]:
        """Rows as an array, and what they were if that was a dataframe."""
        if is_frame(new_probs):
            if columns is None and self.frame is not None:
                return take_apart(new_probs, self.frame.columns, what="new_probs", selected=self.frame.selected)
            chosen, selected = self.classes if columns is None else columns, columns is not None
            there: list[Any] = list(getattr(new_probs, "column_names", None) or new_probs.columns)
            if columns is None and self.classes is not None and not set(self.classes) & set(there):
                chosen, selected = Choice(None, self.classes, ordered=True).among(there, what="new_probs").names, True
            return take_apart(new_probs, chosen, what="new_probs", selected=selected)
        named = by_name(new_probs, self.classes)
        if isinstance(named, Mapping):
            return one_per_class(named, self.classes, self.model.n_classes, "new_probs", missing=np.nan), None
        return new_probs, None

    def what_if(self, rates: ArrayLike | Mapping[Any, float] | Rates) -> Adjustment:
        """Adjust the same rows to other rates, starting from the present shift.

        It reads the predictions again, so they must not have been changed in place since.

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
        if self.origin is None or self.origin.what_if is None:
            why = "is Bayes' rule for its rates" if self.procedure == "prior" else "holds the shift but no rows"
            raise BaserateError(f"this adjustment {why}; call adjust(probs, rates) instead")
        adjustment: Adjustment = self.origin.what_if(rates, self)
        return adjustment

    def without_rows(self) -> Adjustment:
        """The same without the adjusted rows: what a long-lived object keeps."""
        return replace(self, answer=None, frame=None, origin=None)

    def without_guarantee(self) -> Adjustment:
        """The same without what is guaranteed, for a shift that was made without rows."""
        nothing = replace(self.certificate, loss_reduction=np.nan, gap=np.nan, residual=np.nan)
        return replace(self, certificate=nothing, n_rows=0)

    def __getstate__(self) -> dict[str, Any]:
        # A copy in a file or on another machine is the answer, not the question.
        return {name: value for name, value in vars(self).items() if name != "_wrapped"} | {"origin": None}

    def report(
        self,
        path: str | os.PathLike[str],
        *,
        y: ArrayLike | None = None,
        old_rates: Any = None,
        title: str = "Predictions adjusted to class rates",
        note: str = "",
    ) -> None:
        """Write a page about this adjustment: HTML in one file that needs no other, or Markdown.

        It says what was done, what is guaranteed and under which condition, shows the rates, and how rows moved. It
        needs ``pip install "baserate[report]"``.

        Parameters
        ----------
        path : path-like
            Its ending is ``.html`` or ``.md``.
        y : array-like of shape (n,), optional
            Labels of the rows; with them it also says what the adjustment was worth, beside all procedures.
        old_rates : array-like of shape (k,), optional
            Rates in training, for prior adjustment beside the others.
        title, note : str
        """
        from baserate.report import write_report  # the page looks at the answer, not the answer at the page

        write_report(path, self, y=y, old_rates=old_rates, title=title, note=note)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the shift, not the rows, to a JSON file that :func:`baserate.load` reads."""
        files.write_json(path, self._fields())

    def _fields(self) -> dict[str, Any]:
        model = self.model
        for name in self.classes or ():
            if not isinstance(name, (str, int, float, bool)) or (isinstance(name, float) and not np.isfinite(name)):
                raise BadOption(f"class names must be strings, finite numbers or booleans to be saved, not {name!r}")
        return {
            "procedure": self.procedure,
            "loss": to_json(self.loss),
            "bounded": self.bounded,
            "classes": None if self.classes is None else list(self.classes),
            "n_classes": model.n_classes,
            "kept_classes": model.keep.tolist(),
            "levels": None if model.levels is None else model.levels.tolist(),
            "softness": model.softness,
            "smoothing": model.reading.smoothing,
            "from_logits": model.reading.from_logits,
            "shift": self.dual_shift.tolist(),
            "wanted": self.wanted.tolist(),
            "before": self.before.tolist(),
            "rates": self.rates.tolist(),
            "loss_reduction": _plain(self.certificate.loss_reduction),
            "gap": _plain(self.certificate.gap),
            "residual": _plain(self.certificate.residual),
            "sensitivity": [_plain(v) for v in self.certificate.sensitivity.tolist()],
            "known": self.certificate.known.to_json(),
            "batch_size": self.certificate.batch_size,
            "active": [[None if b.of is None else self._column(b.of), b.side, b.value] for b in self.active],
            "converged": self.converged,
            "n_passes": self.n_passes,
            "n_rows": self.n_rows,
            "engine": self.engine,
        }

    def _column(self, name: Any) -> int:
        return int(name) if self.classes is None else self.classes.index(name)

    def __repr__(self) -> str:
        return text.summary(self)

    def _repr_html_(self) -> str:
        return text.html(self)


def load(path: str | os.PathLike[str], *, loss: Loss | None = None) -> Adjustment:
    """Read an adjustment that :meth:`Adjustment.save` wrote.

    Parameters
    ----------
    path : path-like
    loss : Loss, optional
        The loss, where it was made of Python functions that a file cannot hold; it must have the same ``label``.

    Raises
    ------
    BadFile
        If the file is not a saved adjustment, is of another version, or was changed.
    """
    fields = files.read_json(path)
    try:
        return _from_fields(fields, loss)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadFile(f"{path} does not describe an adjustment: {type(error).__name__}: {error}") from error


def _from_fields(fields: Mapping[str, Any], loss: Loss | None) -> Adjustment:
    k = int(fields["n_classes"])
    keep = np.asarray(fields["kept_classes"], dtype=np.intp)
    levels = None if fields["levels"] is None else _vector(fields["levels"], len(keep)).astype(np.intp)
    if not len(keep) or (np.diff(keep) <= 0).any() or keep[0] < 0 or keep[-1] >= k:
        raise ValueError(f"kept_classes is {keep.tolist()}, not rising numbers of {k} classes")
    chosen = from_json(fields["loss"]) if loss is None else as_loss(loss)
    if to_json(chosen) != dict(fields["loss"]):
        raise ValueError(f"it was saved for the loss {fields['loss']}, not for {to_json(chosen)}")
    bounded = as_flag("bounded", fields["bounded"])
    reading = Reading(as_flag("from_logits", fields["from_logits"]), False, _share(fields["smoothing"]))
    inside = bounded or np.isfinite(chosen.domain.low)
    model = RowModel(chosen, bool(inside), k, keep, reading, levels, _share(fields["softness"]))
    shift = _vector(fields["shift"], len(keep))
    names = as_classes(fields["classes"], k)
    certificate = Certificate(
        _number(fields["loss_reduction"]),
        _number(fields["gap"]),
        _number(fields["residual"]),
        np.array([_number(v) for v in fields["sensitivity"]]),
        known_from_json(fields["known"], names),
        int(fields["batch_size"]),
    )
    of = {None: None} | dict(enumerate(range(k) if names is None else names))
    return Adjustment(
        model=model,
        dual_shift=shift,
        wanted=_vector(fields["wanted"], k),
        before=_vector(fields["before"], k),
        rates=_vector(fields["rates"], k),
        certificate=certificate,
        active=tuple(ActiveBound(of[j], str(side), float(value)) for j, side, value in fields["active"]),
        converged=as_flag("converged", fields["converged"]),
        n_passes=int(fields["n_passes"]),
        n_rows=int(fields["n_rows"]),
        engine=str(fields["engine"]),
        bounded=bounded,
        classes=names,
        procedure=str(fields["procedure"]),
        answer=None,
        frame=None,
        origin=None,
    )


def _plain(value: float) -> float | None:
    """A number that JSON has; it has none for "not known"."""
    return None if np.isnan(value) else value


def _number(value: Any) -> float:
    return float("nan") if value is None else float(value)


def _share(value: Any) -> float:
    share = float(value)
    if not 0 <= share < 1:
        raise ValueError(f"expected a number from 0 up to 1, not {value!r}")
    return share


def _vector(values: Any, length: int) -> FloatArray:
    array = np.asarray(values, dtype=np.float64)
    if array.shape != (length,) or not np.isfinite(array).all():
        raise ValueError(f"expected {length} finite numbers, not {values!r}")
    return array
