"""Conversion between dataframes (pandas, polars, pyarrow and others that narwhals supports) and matrices.

Other modules see only a matrix and a :class:`Frame`. The frame holds what is needed to return adjusted predictions as a
dataframe of the same kind: library, column names, index and dtypes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from baserate.errors import BadOption, BadProbabilities
from baserate.inputs.class_names import matched_names
from baserate.inputs.columns import COLUMN_LIST, ColumnSelection
from baserate.inputs.validation import quoted, quoted_name
from baserate.support.answer_types import AnswerTypes


@dataclass(frozen=True, eq=False)
class Frame:
    """What a dataframe was besides its probabilities.

    Attributes
    ----------
    kind : narwhals.Implementation
        The dataframe library.
    columns : tuple
        Names of the columns with probabilities, in their order.
    classes : tuple
        The class of each column: the column name, or the part of it that ``*`` matched.
    selected : bool
        Whether the dataframe may have other columns.
    dtypes : tuple
        The narwhals dtype of each column.
    index : pandas Index or None
    native : tuple or None
        For pandas: the column index and the pandas dtype of each column.
    whole : dataframe or None
        The dataframe that was passed, with all its columns.
    """

    kind: Any
    columns: tuple[Any, ...]
    classes: tuple[Any, ...]
    selected: bool
    dtypes: tuple[Any, ...]
    index: Any
    native: Any = None
    whole: Any = None

    def wrap_whole(self, answer: NDArray[Any]) -> Any:
        """The dataframe that was passed, with the adjusted probabilities in the place of the predicted ones."""
        return replace_columns(self.whole, self.wrap(answer), self.columns)

    @property
    def numpy_dtypes(self) -> list[np.dtype[Any]]:
        """The dtype in which each column is returned: floating ones are kept, all others become float64."""
        if self.kind.is_pandas_like():
            sizes = [min(dtype.itemsize, 8) if dtype.kind == "f" else 8 for dtype in self.native[1]]
            return [np.dtype(f"f{size}") for size in sizes]
        return [np.dtype(str(dtype).lower() if dtype.is_float() else np.float64) for dtype in self.dtypes]

    @property
    def answer_types(self) -> AnswerTypes:
        """The dtypes of the adjusted rows."""
        return AnswerTypes.of_columns(self.numpy_dtypes)

    def with_dtype(self, dtype: np.dtype[Any] | None) -> Frame:
        """The same with all columns of one dtype; None for no change."""
        if dtype is None:
            return self
        import narwhals as nw

        narwhals_dtype = nw.Float32() if dtype == np.float32 else nw.Float64()
        native = None if self.native is None else (self.native[0], (dtype,) * len(self.columns))
        return replace(self, dtypes=(narwhals_dtype,) * len(self.columns), native=native)

    def wrap(self, answer: NDArray[Any]) -> Any:
        """A dataframe of the same kind that holds the matrix ``answer``, whose numbers are rounded already."""
        import narwhals as nw

        answer = answer[:, -len(self.columns) :]  # a single column holds the probabilities of the second class
        if self.kind.is_pandas_like():
            return self._wrap_pandas(answer)
        columns = zip(self.columns, answer.T, self.numpy_dtypes, strict=True)
        arrays = {name: np.ascontiguousarray(column, dtype=dtype) for name, column, dtype in columns}
        return nw.from_dict(arrays, backend=self.kind).to_native()

    def _wrap_pandas(self, answer: NDArray[Any]) -> Any:
        labels, native_dtypes = self.native
        pandas = self.kind.to_native_namespace()
        casts = {
            name: dtype
            for name, dtype in zip(labels, native_dtypes, strict=True)
            if dtype.kind == "f" and str(dtype) != str(answer.dtype)
        }
        frame = pandas.DataFrame(answer, columns=labels, index=self.index.copy(), copy=False)
        return frame.astype(casts) if casts else frame


def is_dataframe(probs: object) -> bool:
    """Whether this is an eager or lazy dataframe. Imports no dataframe library."""
    kind = type(probs)  # not probs itself: a property of a lazy dataframe may start a computation
    return any(
        hasattr(kind, name) for name in ("__narwhals_dataframe__", "__narwhals_lazyframe__", "columns", "column_names")
    )


def column_names(frame: Any) -> list[Any]:
    """The names of the columns of a dataframe; empty for other objects."""
    # The attribute ``columns`` of a pyarrow table holds the values, not the names.
    if hasattr(frame, "column_names"):
        return list(frame.column_names)
    if hasattr(frame, "collect_schema"):  # polars warns if the columns of a LazyFrame are read
        return list(frame.collect_schema().names())
    return list(getattr(frame, "columns", []))


def split_dataframe(
    probs: Any,
    columns: str | Sequence[Any] | None,
    *,
    what: str = "probs",
    selected: bool | None = None,
    named: Sequence[Any] | None = None,
    names_all: bool = False,
    excluded: Sequence[Any] = (),
) -> tuple[NDArray[Any], Frame]:
    """Split a dataframe into the matrix of its probabilities and a :class:`Frame`.

    Parameters
    ----------
    probs : dataframe
    columns : str or sequence, optional
        A pattern such as ``"p_*"``, or the names of the columns in the requested order. By default all columns, or the
        floating ones that belong to the classes in ``named`` if there are others.
    what : str
        Name of the dataframe for messages.
    selected : bool, optional
        Whether the dataframe may have other columns. By default it may if ``columns`` is given.
    named : sequence, optional
        Classes that the rates name.
    names_all : bool
        Whether there are no other classes.
    excluded : sequence
        Columns that hold something else, such as groups.
    """
    import narwhals as nw

    try:
        frame = nw.from_native(probs, eager_only=True)
    except TypeError:
        library, kind = type(probs).__module__.split(".")[0], type(probs).__name__
        raise BadProbabilities(
            f"{what} is a {library} {kind}, whose rows are not in memory; call .collect() or .compute() on it first"
        ) from None
    except Exception as error:  # narwhals raises a different type for each kind of invalid column names
        raise BadProbabilities(f"{what} is a dataframe that cannot be used: {error}") from None
    names = list(frame.columns)
    if columns is None and selected is None:
        schema = {name: dtype for name, dtype in frame.schema.items() if name not in excluded}
        columns = _columns_of_classes(schema, named, names_all=names_all)
        if columns is None and len(schema) < len(names):
            columns = list(schema)
    found = ColumnSelection(columns, named).among(names, what=what, all_of=True)
    chosen_names, classes = list(found.names), found.classes or found.names
    others_allowed = columns is not None if selected is None else selected
    if len(chosen_names) < len(names) and not others_allowed:
        extra = [name for name in names if name not in chosen_names]
        raise BadProbabilities(f"{what} has the additional columns {quoted(extra)}; pass only {quoted(chosen_names)}")
    chosen = frame if chosen_names == names else frame.select(nw.col(*chosen_names))  # select may copy
    dtypes = tuple(chosen.schema[name] for name in chosen_names)
    _check_numeric(chosen_names, dtypes, what)
    matrix = _matrix(chosen)
    if not frame.implementation.is_pandas_like():
        index, native = None, None
    else:
        at = [names.index(name) for name in chosen_names]
        index, native = probs.index, (probs.columns[at], tuple(probs.dtypes.iloc[at]))
        probs = probs.copy(deep=False)  # so that rows which the caller sorts or adds later do not change it
    form = Frame(frame.implementation, tuple(chosen_names), classes, others_allowed, dtypes, index, native, whole=probs)
    return matrix, form


def _columns_of_classes(schema: Mapping[str, Any], named: Sequence[Any] | None, *, names_all: bool) -> list[str] | None:
    """The floating columns that belong to the classes that the rates name; None if all columns do, or none."""
    floating = [name for name, dtype in schema.items() if dtype.is_float()]
    if not named or not floating:
        return None
    try:
        found = ColumnSelection(None, named).among(floating, what="the dataframe").names
    except BadOption:
        return None
    if names_all or set(matched_names(named, floating)) != set(found):
        return list(found)
    return floating  # the columns have the names of the classes, so other floating ones may be those of further classes


def replace_columns(original: Any, adjusted: Any, names: Sequence[Any]) -> Any:
    """The original dataframe, with the columns of these names taken from an adjusted one."""
    import narwhals as nw

    frame, new = nw.from_native(original, eager_only=True), nw.from_native(adjusted, eager_only=True)
    replaced = frame.with_columns(*(new.get_column(name) for name in names)).to_native()
    if frame.implementation.is_pandas_like():
        replaced.columns = original.columns  # narwhals does not keep the names of its levels
    return replaced


def _check_numeric(names: Sequence[Any], dtypes: Sequence[Any], what: str) -> None:
    import narwhals as nw

    for name, dtype in zip(names, dtypes, strict=True):
        if not (dtype.is_numeric() or dtype == nw.Boolean):
            raise BadProbabilities(
                f"column {quoted_name(name)} of {what} contains {dtype} values, not probabilities; select the columns "
                f"with probabilities by {COLUMN_LIST}",
                options=[COLUMN_LIST],
            )


def from_columns(columns: Mapping[str, Sequence[Any]], backend: Any = None) -> Any:
    """A dataframe with the given columns.

    Parameters
    ----------
    columns : dict
    backend : str or narwhals.Implementation, optional
        The dataframe library. By default the first of pandas, polars and pyarrow that is installed.
    """
    import narwhals as nw

    for library in ("pandas", "polars", "pyarrow") if backend is None else (backend,):
        try:
            return nw.from_dict(dict(columns), backend=library).to_native()
        except ImportError:
            continue
        except (ValueError, TypeError):
            raise BadOption(f"backend must be 'pandas', 'polars' or 'pyarrow', not {backend!r}") from None
    needed = "pandas, polars or pyarrow" if backend is None else backend
    raise ImportError(f"a dataframe needs {needed}; install it, or take the columns from as_dict()")


def _matrix(frame: Any) -> NDArray[Any]:
    if frame.implementation.is_pandas_like() or frame.implementation.is_polars():
        matrix = frame.to_numpy()  # column-major, and without a copy if the columns are one block of memory
        if matrix.dtype.kind in "fiub":
            return np.asarray(matrix)
    columns = [np.asarray(column.to_numpy()) for column in frame.iter_columns()]
    # Nullable columns may arrive as objects. Their missing values become NaN, which a later check reports by row.
    dtypes = [c.dtype if c.dtype.kind in "fiub" else np.dtype(np.float64) for c in columns]
    matrix = np.empty((len(frame), len(columns)), dtype=np.result_type(*dtypes), order="F")
    for j, column in enumerate(columns):
        matrix[:, j] = column
    return matrix
