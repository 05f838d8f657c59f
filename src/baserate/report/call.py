"""The call that makes an adjustment again."""

from __future__ import annotations

from typing import Any

import numpy as np

from baserate.result import Adjustment

_LISTED = 20  # Classes whose numbers are written out; more are left to the file of the shift.


def call(result: Adjustment) -> str:
    """Python code; ``probs`` stands for the predictions."""
    known = result.certificate.known
    if result.procedure == "prior":
        return f"br.prior_adjust(probs, old_rates, {_rates(known)})"
    options = {"loss": _loss(result)}
    if not result.bounded:
        options["bounded"] = "False"
    reading = result.model.reading
    options |= {name: "True" for name in ("from_logits", "normalize") if getattr(reading, name)}
    if reading.smoothing:
        options["zeros"] = repr(reading.smoothing)
    return f"br.adjust(probs, {_rates(known)}, {', '.join(f'{name}={value}' for name, value in options.items())})"


def _loss(result: Adjustment) -> str:
    plain = type(result.loss)
    if repr(result.loss) == f"{plain.__name__}()":
        return repr(plain.name)
    return f"br.losses.{result.loss!r}"[:200]


def _rates(known: Any) -> str:
    fields = {name: value for name, value in known.to_json().items() if name != "kind"}
    maker = {"counts": "from_counts", "population": "of_population"}.get(known.kind, known.kind)
    written = ", ".join(f"{name}={_value(value, known.classes)}" for name, value in fields.items())
    return f"br.Rates.{maker}({written})"


def _value(value: Any, classes: tuple[Any, ...] | None) -> str:
    if not isinstance(value, list):
        return repr(value)
    if len(value) > _LISTED:
        return "..."
    plain = [number.item() if isinstance(number, np.generic) else number for number in value]
    return repr(plain if classes is None else dict(zip(classes, plain, strict=True)))
