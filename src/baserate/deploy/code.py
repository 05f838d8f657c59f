"""Write a shift as a function of a few lines in Python or JavaScript, with rows to test it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np

from baserate.deploy.formula import TO_ONNX, Formula, formula_for_all_rows
from baserate.deploy.javascript_code import JavaScript
from baserate.deploy.language import Language
from baserate.deploy.python_code import Python
from baserate.deploy.row_maps import IN_CODE, SupportSearch
from baserate.errors import BadLoss, BadOption, BaserateError, Option
from baserate.inputs.reading import NUMBERED
from baserate.inputs.validation import quoted_name, suggestion
from baserate.inputs.vectors import two_columns
from baserate.result.record import Result
from baserate.support.answer_types import FLOAT64
from baserate.support.arrays import FloatArray

LANGUAGES: dict[str, Language] = {"python": Python(), "javascript": JavaScript()}
_LANGUAGE = Option("language")
_SHARPNESS = (0.5, 1.0, 2.0, 4.0)  # Of the test rows: standard deviations of their logits.
_LARGEST_EXACT = 2**53  # Larger whole numbers are rounded in JavaScript.
_MANY = 20  # With more classes, there are fewer test rows, because they are long.


def to_code(result: Result, language: str) -> str:
    """The adjustment as source code; see :meth:`baserate.Adjustment.to_code`."""
    if not isinstance(language, str) or language not in LANGUAGES:
        raise BadOption(
            f"{_LANGUAGE} must be one of {', '.join(LANGUAGES)}, not {quoted_name(language)}"
            f"{suggestion(language, LANGUAGES)}",
            options=[_LANGUAGE],
        )
    formula = formula_for_all_rows(result, f"a function in {language}", IN_CODE)
    if isinstance(formula.row_map, SupportSearch):
        raise BadLoss(
            f"{formula.loss} needs a table of {len(formula.row_map.offsets)} matrices, which is too long for a "
            f"function of a few lines; use {TO_ONNX}",
            options=[TO_ONNX],
        )
    return LANGUAGES[language].function(formula, _constants(formula), _rows_with_answers(result, formula))


def _constants(formula: Formula) -> dict[str, str]:
    """The numbers of a formula, as lists that are the same in both languages."""
    row_map = formula.row_map
    names = ("shift", "offset", "spread", "weights", "matrix", "levels")
    found = {name.upper(): getattr(row_map, name, None) for name in names}
    listed = {name: _listed(value) for name, value in found.items() if value is not None}
    return {"CLASSES": json.dumps(list(map(_plain, formula.classes))), "KEPT": _listed(formula.kept), **listed}


def _plain(name: Any) -> Any:
    """The name of a class as text, or as a number that is written alike in all languages."""
    if isinstance(name, np.generic):
        name = name.item()
    if isinstance(name, bool) or not isinstance(name, (int, float)):
        return str(name)
    return name if abs(name) <= _LARGEST_EXACT else str(name)  # false for NaN


def _listed(values: Any) -> str:
    return json.dumps(np.asarray(values).tolist())


def _rows_with_answers(result: Result, formula: Formula) -> str:
    """Some rows and their adjustment, as a list of pairs."""
    model = replace(result.model, answer_types=FLOAT64)
    pairs = []
    for row in _test_rows(formula):
        whole = two_columns(row[None], from_logits=formula.from_logits) if formula.one_column else row[None]
        try:
            answer = model.adjust_new_rows(whole, 0, NUMBERED, result.dual_shift).after[0]
        except BaserateError:  # it has no adjustment, for example because it has only classes of rate 0
            continue
        pairs.append(json.dumps([row.tolist(), float(answer[1]) if formula.one_column else answer.tolist()]))
    return "[\n" + "".join(f"    {pair},\n" for pair in pairs) + "]"


def _test_rows(formula: Formula) -> FloatArray:
    rng, k = np.random.default_rng(0), formula.n_classes
    sharpness = _SHARPNESS if k <= _MANY else _SHARPNESS[-1:]
    logits = np.array([scale * rng.normal(size=k) for scale in sharpness])
    probs = np.exp(logits - logits.max(axis=1, keepdims=True))
    probs = np.vstack([probs / probs.sum(axis=1, keepdims=True), np.eye(k)[-1:]])
    if formula.one_column:
        return logits[:, 1] - logits[:, 0] if formula.from_logits else probs[:, 1]
    return logits if formula.from_logits else probs
