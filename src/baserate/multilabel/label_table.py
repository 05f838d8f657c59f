"""Read multi-label predictions, and return adjusted ones in the form in which they were passed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from baserate.errors import BadOption, BadProbabilities, Option
from baserate.inputs.class_numbers import one_per_class, series_to_dict
from baserate.inputs.columns import COLUMN_LIST
from baserate.inputs.dataframes import Frame, is_dataframe, replace_columns, split_dataframe
from baserate.inputs.reading import FROM_LOGITS, Naming, Reading, raise_if_any
from baserate.inputs.validation import as_classes, as_matrix
from baserate.inputs.vectors import two_columns

_COLUMNS = Option("columns")


@dataclass(frozen=True, eq=False)
class LabelTable:
    """Multi-label predictions, one column per label.

    Attributes
    ----------
    source : array-like or dataframe
        The predictions as they were passed.
    raw : array of shape (n, L)
        Probabilities that the label is present, or their logits, as floating numbers.
    labels : tuple
        Names of the labels; their numbers if they have no names.
    from_logits : bool
    frame : Frame or None
        The columns of the labels, if the predictions are a dataframe.
    is_one_row : bool
        Whether the predictions are a vector: a single row.
    """

    source: Any
    raw: NDArray[Any]
    labels: tuple[Any, ...]
    from_logits: bool
    frame: Frame | None = None
    is_one_row: bool = False

    def column(self, label: int) -> Any:
        """The predictions of one label, which is given by its number, in their own dtype: an array or a Series."""
        if self.frame is None:
            return self.raw[:, label]
        import narwhals as nw

        return nw.from_native(self.source, eager_only=True).get_column(self.frame.columns[label]).to_native()

    def probabilities(self, label: int) -> NDArray[Any]:
        """The probabilities of one label, which is given by its number, without adjustment."""
        if not self.from_logits:
            return self.raw[:, label]
        return np.exp(Reading(from_logits=True).clean(two_columns(self.raw[:, label], from_logits=True))[:, 1])

    def with_columns(self, adjusted: Sequence[Any]) -> Any:
        """The predictions in the form in which they were passed, with adjusted columns; None for no adjustment."""
        columns = [np.asarray(self.probabilities(j) if column is None else column) for j, column in enumerate(adjusted)]
        answer = np.stack(columns, axis=1)
        if self.frame is None:
            return answer[0] if self.is_one_row else answer
        # A column that stays as it is keeps its dtype, even if that is not a floating one.
        changed = [
            name for name, new in zip(self.frame.columns, adjusted, strict=True) if new is not None or self.from_logits
        ]
        return replace_columns(self.source, self.frame.wrap(answer), changed)


def read_labels(
    probs: Any,
    *,
    from_logits: bool,
    classes: Sequence[Any] | None = None,
    columns: str | Sequence[Any] | None = None,
    argument: str = "probs",
    fitted: bool = False,
) -> LabelTable:
    """Check multi-label predictions.

    Parameters
    ----------
    probs : array-like or dataframe of shape (n, L)
    from_logits : bool
    classes : sequence, optional
        Names of the labels.
    columns : str or sequence, optional
        The columns of a dataframe that hold the labels.
    argument : str
        The name of the argument, for messages.
    fitted : bool
        Whether the predictions are for a fitted adjustment: then they may be one row, by position or label name, or a
        dataframe with other columns.
    """
    frame = None
    if is_dataframe(probs):
        matrix, frame = split_dataframe(probs, columns, what=argument, selected=fitted or columns is not None)
    elif columns is not None and not fitted:
        kind = type(probs).__name__
        raise BadOption(f"{_COLUMNS}= selects columns of a dataframe, but {argument} is a {kind}", options=[_COLUMNS])
    elif isinstance(probs, list) and probs and all(getattr(one, "ndim", 0) == 2 for one in probs):
        raise BadProbabilities(
            f"{argument} is a list of {len(probs)} matrices, one for each label, as from some classifiers of "
            f"scikit-learn; pass the probabilities that the labels are present: np.column_stack([p[:, 1] for p in "
            f"{argument}])"
        )
    else:
        matrix = _row_by_name(probs, classes, argument) if fitted else probs
    raw = as_matrix(matrix, what=argument, one_row=fitted, min_columns=1)
    raw = raw if raw.dtype.kind == "f" else raw.astype(np.float64)
    if fitted and classes is not None and len(classes) != raw.shape[1]:
        raise BadProbabilities(
            f"{argument} has {raw.shape[1]} columns, but the adjustment was fitted on {len(classes)} labels"
        )
    names = as_classes(classes if frame is None or classes is not None else frame.classes, raw.shape[1])
    _check_entries(raw, from_logits, Naming(names if frame is None else frame.columns), can_select=frame is not None)
    labels = names or tuple(range(raw.shape[1]))
    return LabelTable(probs, raw, labels, from_logits, frame, is_one_row=np.ndim(matrix) == 1)


def _row_by_name(probs: Any, classes: Sequence[Any] | None, argument: str) -> Any:
    """One row as an array in the order of the labels, if it is a Series by label name; anything else unchanged."""
    names = None if classes is None else tuple(classes)
    row = series_to_dict(probs, names)
    return one_per_class(row, names, len(names or ()), argument, missing=np.nan) if isinstance(row, Mapping) else probs


def _check_entries(raw: NDArray[Any], from_logits: bool, naming: Naming, *, can_select: bool) -> None:
    if from_logits:
        raise_if_any(np.isnan(raw), raw, 0, naming, "the logit of a label must be a number")
        return
    rule = f"the probability of a label must be between 0 and 1; for logits pass {FROM_LOGITS}"
    if can_select:
        rule += f"; if there are other columns, select those of the labels by {COLUMN_LIST}"
    raise_if_any(~((raw >= 0) & (raw <= 1)), raw, 0, naming, rule, FROM_LOGITS, *([COLUMN_LIST] if can_select else []))
