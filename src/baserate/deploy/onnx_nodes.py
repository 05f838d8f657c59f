"""The nodes of an ONNX graph, added one by one: for a model of its own, or for the container of skl2onnx."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

DOUBLE, FLOAT, INT64, STRING = 11, 1, 7, 8
"""The numbers of types in ``onnx.TensorProto``, with which ``Cast`` names them."""

_AXES_AS_INPUT = {"ReduceSum": 13, "Unsqueeze": 13, "Squeeze": 13, "ReduceMax": 18, "ReduceMin": 18}
"""The version from which the axes of an operator are an input and not an attribute."""


class Nodes(ABC):
    """Adds nodes to a graph. Values are known by their names; all numbers are float64.

    Attributes
    ----------
    opset : int
        The version of the operators.
    """

    opset: int

    @abstractmethod
    def constant(self, values: ArrayLike, dtype: Any = np.float64) -> str:
        """Add a constant tensor."""

    @abstractmethod
    def add(self, operator: str, inputs: Sequence[str], n_outputs: int = 1, **attributes: Any) -> list[str]:
        """Add a node, and return the names of its outputs."""

    def __call__(self, operator: str, *inputs: str | ArrayLike, **attributes: Any) -> str:
        """Add a node with one output. Numbers and arrays among the inputs become constants."""
        names = [value if isinstance(value, str) else self.constant(value) for value in inputs]
        return self.add(operator, names, **attributes)[0]

    def along(self, operator: str, value: str, axis: int = 1, **attributes: Any) -> str:
        """Add a node that works along one axis, such as ``ReduceSum``. Reduced axes are kept, with length 1."""
        if operator.startswith("Reduce"):
            attributes.setdefault("keepdims", 1)
        if self.opset >= _AXES_AS_INPUT[operator]:
            return self.add(operator, [value, self.constant([axis], np.int64)], **attributes)[0]
        return self.add(operator, [value], axes=[axis], **attributes)[0]

    def sum(self, value: str, axis: int = 1) -> str:
        """Sum along an axis, which is kept."""
        return self.along("ReduceSum", value, axis)

    def max(self, value: str, axis: int = 1) -> str:
        """Maximum along an axis, which is kept."""
        return self.along("ReduceMax", value, axis)

    def min(self, value: str, axis: int = 1) -> str:
        """Minimum along an axis, which is kept."""
        return self.along("ReduceMin", value, axis)

    def columns(self, value: str, which: ArrayLike) -> str:
        """Some columns of a matrix."""
        return self.add("Gather", [value, self.constant(which, np.int64)], axis=1)[0]


class ModelNodes(Nodes):
    """The nodes of a model of its own."""

    def __init__(self, opset: int) -> None:
        self.opset = opset
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._names: dict[tuple[Any, ...], str] = {}

    def constant(self, values: ArrayLike, dtype: Any = np.float64) -> str:
        from onnx import numpy_helper

        array: NDArray[Any] = np.asarray(values, dtype=dtype)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._names:  # the steps of a bisection share their constants
            self._names[key] = f"constant_{len(self.constants)}"
            self.constants.append(numpy_helper.from_array(array, self._names[key]))
        return self._names[key]

    def add(self, operator: str, inputs: Sequence[str], n_outputs: int = 1, **attributes: Any) -> list[str]:
        from onnx import helper

        outputs = [f"{operator.lower()}_{len(self.nodes)}_{i}" for i in range(n_outputs)]
        self.nodes.append(helper.make_node(operator, list(inputs), outputs, **attributes))
        return outputs
