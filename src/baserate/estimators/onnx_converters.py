"""Converters for skl2onnx, so that pipelines with these estimators can be exported to ONNX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from baserate.deploy.formula import Formula, formula_for_all_rows
from baserate.deploy.onnx_model import add_rows
from baserate.deploy.onnx_nodes import DOUBLE, INT64, STRING, Nodes
from baserate.errors import BadOption
from baserate.estimators.adjusted_classifier import AdjustedClassifier
from baserate.estimators.adjuster import Adjuster
from baserate.estimators.frozen import estimator_name


def register_onnx_converters() -> None:
    """Let skl2onnx convert :class:`Adjuster` and :class:`AdjustedClassifier`, alone or in pipelines.

    Call it once before ``skl2onnx.to_onnx``. It needs ``pip install "baserate[onnx]"``.
    """
    try:
        from skl2onnx import update_registered_converter
    except ImportError:
        raise ImportError('pipelines in ONNX need skl2onnx: pip install "baserate[onnx]"') from None

    update_registered_converter(Adjuster, "BaserateAdjuster", _adjuster_shapes, _convert_adjuster)
    update_registered_converter(
        AdjustedClassifier,
        "BaserateAdjustedClassifier",
        _classifier_shapes,
        _convert_classifier,
        options={"zipmap": [True, False, "columns"], "nocl": [True, False], "output_class_labels": [False, True]},
    )


class ContainerNodes(Nodes):
    """Adds nodes to the graph of a pipeline that skl2onnx makes."""

    def __init__(self, scope: Any, container: Any) -> None:
        self._scope, self._container = scope, container
        self.opset = container.target_opset_any_domain("")

    def constant(self, values: ArrayLike, dtype: Any = np.float64) -> str:
        array = np.asarray(values, dtype=dtype)
        name = str(self._scope.get_unique_variable_name("constant"))
        kind = INT64 if array.dtype == np.int64 else DOUBLE
        self._container.add_initializer(name, kind, list(array.shape), array.ravel().tolist())
        return name

    def add(self, operator: str, inputs: Sequence[str], n_outputs: int = 1, **attributes: Any) -> list[str]:
        outputs = [str(self._scope.get_unique_variable_name(operator.lower())) for _ in range(n_outputs)]
        name = self._scope.get_unique_operator_name(operator)
        self._container.add_node(operator, list(inputs), outputs, op_version=self.opset, name=name, **attributes)
        return outputs


def _is_double(variable: Any) -> bool:
    from skl2onnx.common.data_types import DoubleTensorType

    return isinstance(variable.type, DoubleTensorType)


def _adjuster_shapes(operator: Any) -> None:
    first = operator.inputs[0]
    operator.outputs[0].type = type(first.type)([first.get_first_dimension(), operator.raw_operator.n_features_in_])


def _convert_adjuster(scope: Any, operator: Any, container: Any) -> None:
    adjuster, nodes = operator.raw_operator, ContainerNodes(scope, container)
    [rows], [out] = operator.inputs, operator.outputs
    value = rows.full_name
    if adjuster.adjustment_ is not None:
        formula = formula_for_all_rows(adjuster.adjustment_, "an ONNX model")
        value = add_rows(nodes, formula, value, "float64" if _is_double(rows) else "float32")
    container.add_node("Identity", [value], [out.full_name], name=scope.get_unique_operator_name("Identity"))


def _classifier_shapes(operator: Any) -> None:
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType, Int64TensorType, StringTensorType

    classes = operator.raw_operator.classes_
    n = operator.inputs[0].get_first_dimension()
    label = Int64TensorType if classes.dtype.kind in "iub" else StringTensorType
    number = DoubleTensorType if _is_double(operator.inputs[0]) else FloatTensorType
    operator.outputs[0].type = label([n])
    operator.outputs[1].type = number([n, len(classes)])


def _formula(model: AdjustedClassifier) -> Formula:
    if model.adjustment_ is None:
        raise BadOption(
            f"this AdjustedClassifier of {estimator_name(model.estimator)} is not adapted, so there is no shift to "
            "export; call adapt(X, rates) first"
        )
    return formula_for_all_rows(model.adjustment_, "an ONNX model").reading(from_logits=False)


def _convert_classifier(scope: Any, operator: Any, container: Any) -> None:
    from skl2onnx import get_model_alias
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType

    model, [rows] = operator.raw_operator, operator.inputs
    formula, dtype = _formula(model), "float64" if _is_double(rows) else "float32"
    wrapped = model.estimator_
    wrapped = getattr(wrapped, "estimator", wrapped) if type(wrapped).__name__ == "FrozenEstimator" else wrapped
    # The wrapped classifier, converted by the converter of its own class.
    inner = scope.declare_local_operator(get_model_alias(type(wrapped)), wrapped)
    inner.inputs.append(rows)
    inner.outputs.append(scope.declare_local_variable("label", operator.outputs[0].type))
    number = DoubleTensorType if dtype == "float64" else FloatTensorType
    probs = scope.declare_local_variable("probabilities", number())
    inner.outputs.append(probs)
    nodes = ContainerNodes(scope, container)
    adjusted = add_rows(nodes, formula, probs.full_name, dtype)
    label, out = operator.outputs
    container.add_node("Identity", [adjusted], [out.full_name], name=scope.get_unique_operator_name("Identity"))
    _add_labels(nodes, scope, container, model.classes_, adjusted, label.full_name)


def _add_labels(nodes: ContainerNodes, scope: Any, container: Any, classes: Any, adjusted: str, label: str) -> None:
    """The class with the largest adjusted probability."""
    best = nodes.add("ArgMax", [adjusted], axis=1, keepdims=0)[0]
    name = str(scope.get_unique_variable_name("classes"))
    if classes.dtype.kind in "iub":
        container.add_initializer(name, INT64, [len(classes)], classes.astype(np.int64).tolist())
    else:
        container.add_initializer(name, STRING, [len(classes)], [str(one).encode() for one in classes])
    node = scope.get_unique_operator_name("Gather")
    container.add_node("Gather", [name, best], [label], op_version=nodes.opset, name=node, axis=0)
