"""What a caller passes, posed as a problem: everything is checked that can be checked without reading the rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from baserate.core.problem import Problem, RowModel, kept_classes
from baserate.engines import engine_for
from baserate.engines.base import Engine
from baserate.engines.dask.collections import is_partitioned, partitioned
from baserate.errors import BadOption, BadRates
from baserate.inputs.columns import Choice, Columns, classes_named
from baserate.inputs.dataframes import Frame, is_frame, take_apart
from baserate.inputs.reading import Naming, Reading
from baserate.inputs.validation import as_classes, as_flag, as_smoothing, listed
from baserate.losses.base import NONNEGATIVE, Loss
from baserate.losses.check import check_loss
from baserate.losses.registry import as_loss
from baserate.progress import SILENT, Progress
from baserate.rates import Rates, as_known
from baserate.tables import Table, is_table

RatesLike = ArrayLike | Mapping[Any, float] | Rates


@dataclass(frozen=True, kw_only=True)
class Rows:
    """The rows that a caller passed, and what was said about how to read them: options of :func:`baserate.adjust`."""

    probs: Any
    sample_weight: Any = None
    from_logits: bool = False
    normalize: bool = False
    zeros: str | float = "keep"
    classes: Sequence[Any] | None = None
    columns: str | Sequence[Any] | None = None
    out: Any = None
    progress: Progress | None = None

    @property
    def reading(self) -> Reading:
        """How single rows become probabilities."""
        return Reading(
            as_flag("from_logits", self.from_logits), as_flag("normalize", self.normalize), as_smoothing(self.zeros)
        )


class Opened(NamedTuple):
    """Rows with an engine on them."""

    engine: Engine
    columns: Columns | None
    frame: Frame | None


def opened(rows: Rows, named: Sequence[Any] | None, *, what: str = "probs", ordered: bool = False) -> Opened:
    """Find the engine for some rows, and the columns.

    ``named`` are the classes that the caller names; if ``ordered``, they are all, and the columns come in their order.
    """
    probs, columns, frame, chosen = rows.probs, rows.columns, None, None
    if is_table(probs):
        probs = Table.open(probs, Choice(columns, named, ordered), weight=rows.sample_weight, out=rows.out)
        chosen = probs.columns
        if rows.from_logits and len(chosen.names) == 1:
            raise BadOption(f"{chosen.names[0]!r} is one column of logits, but one for each class is needed")
    elif rows.out is not None:
        raise BadOption(f"out= is where adjusted files go, but {what} is a {type(probs).__name__}, not a file")
    elif is_partitioned(probs):
        probs = partitioned(probs, Choice(columns, named, ordered), what=what)
        chosen = probs.columns
    elif is_frame(probs):
        probs, frame = take_apart(probs, columns, what=what)
        chosen = Columns(frame.columns, frame.classes)
    elif columns is not None:
        raise BadOption(f"columns= selects columns of a dataframe, but {what} is a {type(probs).__name__}")
    engine = engine_for(probs, rows.sample_weight)
    engine.progress = rows.progress or SILENT
    if frame is not None:
        engine.naming = Naming(frame.columns)
    return Opened(engine, chosen, frame)


class Case(NamedTuple):
    """A problem as it was posed, and what the caller knows of the rates."""

    problem: Problem
    known: Rates
    batch_size: int
    bounded: bool
    frame: Frame | None


def pose(rows: Rows, rates: RatesLike, loss: str | Loss, bounded: bool) -> Case:
    """The problem of a caller."""
    reading = rows.reading
    inside = as_flag("bounded", bounded)
    chosen = as_loss(loss)
    engine, columns, frame = opened(rows, classes_named(rates))
    k = engine.n_classes
    names = as_classes(rows.classes, k)
    if columns is not None:
        if names is not None and names != columns.names and set(names) == set(columns.names):
            raise BadOption(f"classes {listed(names)} are the column names in another order; leave classes= out")
        names = names or as_classes(columns.classes, k)
    try:
        known = as_known(rates, names, k)
    except BadRates as error:
        if columns is None or rows.columns is not None:
            raise
        hint = f"the columns are {listed(columns.names)}; select those with probabilities by columns=[...]"
        raise BadRates(f"{error}; {hint}") from None
    check_loss(chosen, k)
    model = RowModel(chosen, inside or chosen.domain == NONNEGATIVE, k, np.arange(k), reading)
    return case(engine, model, known, inside, frame)


def case(engine: Engine, model: RowModel, known: Rates, bounded: bool, frame: Frame | None) -> Case:
    """The problem of known rates on the rows of an engine."""
    region = known.rate_set(engine.n_rows)
    keep = kept_classes(region, model.bounded)
    problem = Problem(engine, replace(model, keep=keep), region)
    if known.certainty is None or not engine.weighted:
        return Case(problem, known, engine.n_rows, bounded, frame)
    # A weighted batch varies by chance as much as one of fewer rows.
    rows = max(int(problem.survey.effective_rows * (1 + 1e-9)), 1)
    return Case(problem.with_region(known.rate_set(rows)), known, rows, bounded, frame)
