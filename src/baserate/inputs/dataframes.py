"""Dataframes in, the same kind out: pandas, polars, pyarrow and their like, through narwhals.

Only this room knows dataframes. It takes them apart into a matrix and a :class:`Frame`, which is all that is needed to
put an answer back into the same form: kind, column names, index and dtypes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from baserate.errors import BadOption, BadProbabilities
from baserate.inputs.columns import Choice
from baserate.inputs.validation import listed
from baserate.support.arrays import FloatArray


@dataclass(frozen=True, eq=False)
class Frame:
    """What a dataframe was besides its numbers.

    Attributes
    ----------
    kind : narwhals.Implementation
    columns : tuple
        Names of the columns with probabilities, in their order.
    classes : tuple
        Names of their classes: the same, or what the star of a pattern stood for.
    selected : bool
        Whether these were chosen among others.
    dtypes : tuple
        Of those columns, as narwhals names them.
    index : pandas Index or None
    native : tuple or None
        Of pandas: the columns as their own index, and their dtypes.
    """

    kind: Any
    columns: tuple[Any, ...]
    classes: tuple[Any, ...]
    selected: bool
    dtypes: tuple[Any, ...]
    index: Any
    native: Any = None

    def wrap(self, answer: FloatArray) -> Any:
        """A dataframe of the same kind around an answer for the same rows."""
        import narwhals as nw

        if self.kind.is_pandas_like():
            labels, native_dtypes = self.native
            native = self.kind.to_native_namespace().DataFrame(
                answer, columns=labels, index=self.index.copy(), copy=False
            )
            changed = {
                name: dtype
                for name, dtype in zip(labels, native_dtypes, strict=True)
                if dtype.kind == "f" and str(dtype) != "float64"
            }
            return native.astype(changed) if changed else native
        parts = {name: np.ascontiguousarray(answer[:, j]) for j, name in enumerate(self.columns)}
        frame = nw.from_dict(parts, backend=self.kind)
        changed = {
            name: dtype
            for name, dtype in zip(self.columns, self.dtypes, strict=True)
            if dtype.is_float() and dtype != nw.Float64
        }
        if changed:
            frame = frame.with_columns(nw.col(name).cast(dtype) for name, dtype in changed.items())
        return frame.to_native()


def is_frame(probs: object) -> bool:
    """Whether this is a dataframe, in memory or not, without importing anything."""
    kind = type(probs)  # its own properties may compute something
    return any(
        hasattr(kind, name) for name in ("__narwhals_dataframe__", "__narwhals_lazyframe__", "columns", "column_names")
    )


def take_apart(
    probs: Any, columns: str | Sequence[Any] | None, *, what: str = "probs", selected: bool | None = None
) -> tuple[NDArray[Any], Frame]:
    """The matrix in a dataframe, and the rest.

    Parameters
    ----------
    probs : dataframe
    columns : str or sequence, optional
        A pattern such as ``"p_*"``, or names of the columns to take, in this order.
    what : str
        What to call the dataframe in messages.
    selected : bool, optional
        Whether other columns may be there; by default if ``columns`` is given.
    """
    import narwhals as nw

    try:
        frame = nw.from_native(probs, eager_only=True)
    except TypeError:
        raise BadProbabilities(
            f"{what} is a {type(probs).__module__.split('.')[0]} {type(probs).__name__}, whose rows are not in memory; "
            "call .collect() or .compute() on it first"
        ) from None
    except Exception as error:  # narwhals has an error of its own for each kind of odd column names
        raise BadProbabilities(f"{what} is not a dataframe that can be used: {error}") from None
    names = list(frame.columns)
    chosen_columns = Choice(columns).among(names, what=what, all_of=True)
    wanted, classes = list(chosen_columns.names), chosen_columns.classes or chosen_columns.names
    choosy = columns is not None if selected is None else selected
    if len(wanted) < len(names) and not choosy:
        raise BadProbabilities(f"{what} has the columns {listed(names)}, but {listed(wanted)} are needed")
    chosen = frame if wanted == names else frame.select(nw.col(*wanted))  # a selection may copy
    dtypes = tuple(chosen.schema[name] for name in wanted)
    odd = [name for name, dtype in zip(wanted, dtypes, strict=True) if not (dtype.is_numeric() or dtype == nw.Boolean)]
    if odd:
        kind = chosen.schema[odd[0]]
        raise BadProbabilities(
            f"column {odd[0]!r} of {what} holds {kind} values, not probabilities; "
            "select the columns with probabilities by columns=[...]"
        )
    matrix = _matrix(chosen)
    if not frame.implementation.is_pandas_like():
        return matrix, Frame(frame.implementation, tuple(wanted), classes, choosy, dtypes, None)
    at = [names.index(name) for name in wanted]
    native = (probs.columns[at], tuple(probs.dtypes.iloc[at]))
    return matrix, Frame(frame.implementation, tuple(wanted), classes, choosy, dtypes, probs.index, native)


def from_columns(columns: Mapping[str, Sequence[Any]], backend: Any = None) -> Any:
    """A dataframe made of columns.

    Parameters
    ----------
    columns : dict
    backend : str or narwhals.Implementation, optional
        By default the first of pandas, polars and pyarrow that is installed.
    """
    import narwhals as nw

    for choice in ("pandas", "polars", "pyarrow") if backend is None else (backend,):
        try:
            return nw.from_dict(dict(columns), backend=choice).to_native()
        except ImportError:
            continue
        except (ValueError, TypeError):
            raise BadOption(f"backend must be 'pandas', 'polars' or 'pyarrow', not {backend!r}") from None
    wanted = "pandas, polars or pyarrow" if backend is None else backend
    raise ImportError(f"a dataframe needs {wanted}: install it, or take the columns from as_dict()")


def _matrix(frame: Any) -> NDArray[Any]:
    if frame.implementation.is_pandas_like() or frame.implementation.is_polars():
        matrix = frame.to_numpy()  # by column, and where it is one block of numbers, that itself
        if matrix.dtype.kind in "fiub":
            return np.asarray(matrix)
    columns = [np.asarray(column.to_numpy()) for column in frame.iter_columns()]
    # Where values may be missing, columns can come as objects; NaN is told with its row and column later.
    dtypes = [c.dtype if c.dtype.kind in "fiub" else np.dtype(np.float64) for c in columns]
    matrix = np.empty((len(frame), len(columns)), dtype=np.result_type(*dtypes), order="F")
    for j, column in enumerate(columns):
        matrix[:, j] = column
    return matrix
