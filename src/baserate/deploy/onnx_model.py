"""Write a shift as an ONNX model: rows of probabilities in, adjusted rows out."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from baserate.deploy.formula import Formula, formula_for_all_rows
from baserate.deploy.onnx_formulas import add_formula, can_be_adjusted, two_columns
from baserate.deploy.onnx_nodes import DOUBLE, FLOAT, ModelNodes, Nodes
from baserate.errors import BadOption, Option
from baserate.inputs.validation import quoted_name
from baserate.inputs.vectors import LARGEST_EXCESS
from baserate.result.record import Result
from baserate.support.locations import write_atomically

OPSET = 18
"""The version of the operators that models use by default. Newer ones are also tested."""

OLDEST_OPSET, NEWEST_OPSET = 16, 23
_DTYPE, _OPSET = Option("dtype"), Option("opset")


def to_onnx(result: Result, path: str | os.PathLike[str], *, dtype: str = "float32", opset: int = OPSET) -> None:
    """Write the shift of a result as an ONNX model; see :meth:`baserate.Adjustment.to_onnx`."""
    model = onnx_model(formula_for_all_rows(result, "an ONNX model"), dtype, opset)
    with write_atomically(path) as file:
        file.write(model.SerializeToString())


def onnx_model(formula: Formula, dtype: str = "float32", opset: int = OPSET) -> Any:
    """The ONNX model of a formula."""
    try:
        import onnx
        from onnx import helper
    except ImportError:
        raise ImportError('ONNX models need onnx: pip install "baserate[onnx]"') from None
    if dtype not in ("float32", "float64"):
        raise BadOption(f"{_DTYPE} must be 'float32' or 'float64', not {quoted_name(dtype)}", options=[_DTYPE])
    if isinstance(opset, bool) or not isinstance(opset, int) or not OLDEST_OPSET <= opset <= NEWEST_OPSET:
        raise BadOption(
            f"{_OPSET} must be a whole number from {OLDEST_OPSET} to {NEWEST_OPSET}, not {quoted_name(opset)}",
            options=[_OPSET],
        )
    number = FLOAT if dtype == "float32" else DOUBLE
    shape: list[str | int | None] = ["rows"] if formula.one_column else ["rows", formula.n_classes]
    rows = helper.make_tensor_value_info("logits" if formula.from_logits else "probabilities", number, shape)
    adjusted = helper.make_tensor_value_info("adjusted", number, shape)
    nodes = ModelNodes(opset)
    nodes.nodes.append(helper.make_node("Identity", [add_rows(nodes, formula, rows.name, dtype)], ["adjusted"]))
    name = f"baserate: {formula.loss}, {formula.n_classes} classes"
    graph = helper.make_graph(nodes.nodes, name, [rows], [adjusted], nodes.constants)
    opsets = [helper.make_opsetid("", opset)]
    # The oldest version of the format that has these operators, so that older runtimes can read it.
    version = helper.find_min_ir_version_for(opsets, ignore_unknown=True)
    model = helper.make_model(graph, producer_name="baserate", opset_imports=opsets, ir_version=version)
    helper.set_model_props(model, {"classes": repr(list(formula.classes)), "loss": formula.loss})
    onnx.checker.check_model(model, full_check=True)
    return model


def add_rows(nodes: Nodes, formula: Formula, rows: str, dtype: str) -> str:
    """Add nodes that adjust rows of a dtype, in the shape that the formula is for. All is computed in float64.

    Rows that cannot be adjusted become NaN in all columns.
    """
    value = nodes("Cast", rows, to=DOUBLE)
    if formula.one_column:
        value = nodes.along("Unsqueeze", value)
    valid = nodes("Equal", nodes.sum(nodes("Where", nodes("IsNaN", value), 1.0, 0.0)), 0.0)
    if formula.one_column:
        if not formula.from_logits:
            valid = nodes("And", valid, nodes("LessOrEqual", value, 1.0 + LARGEST_EXCESS))
        value = two_columns(nodes, value, from_logits=formula.from_logits)
    valid = nodes("And", valid, can_be_adjusted(nodes, formula, value))
    # Other rows are adjusted as a row of equal entries, because a formula may compute positions from the values.
    equal = np.full((1, formula.n_classes), 0.0 if formula.from_logits else 1.0 / formula.n_classes)
    adjusted = add_formula(nodes, formula, nodes("Where", valid, value, equal))
    value = nodes("Where", valid, adjusted, np.nan)
    if formula.one_column:
        value = nodes.along("Squeeze", nodes.columns(value, [1]))
    if dtype == "float64":
        return value
    if formula.pins_zeros:  # a probability above 0 must not become 0
        smallest = float(np.finfo(np.float32).smallest_normal)
        value = nodes("Where", nodes("Greater", value, 0.0), nodes("Max", value, smallest), value)
    return nodes("Cast", value, to=FLOAT)
