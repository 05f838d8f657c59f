"""The call that makes an adjustment again."""

from __future__ import annotations

from typing import Any

from baserate.result.record import Result

_LISTED = 20  # Classes whose numbers are written out.


def call(result: Result) -> str:
    """Python code, with comments on what it cannot hold: the predictions, weights, numbers of very many classes."""
    comments = ["probs: the predictions"]
    options: dict[str, str] = {}
    if result.procedure != "prior":
        options["loss"] = _loss(result, comments)
        options |= {} if result.bounded else {"bounded": "False"}
    reading = result.model.reading
    options |= {name: "True" for name in ("from_logits", "normalize") if getattr(reading, name)}
    options |= {"zeros": repr(reading.smoothing)} if reading.smoothing else {}
    if result.source is not None and result.source.weighted:
        options["sample_weight"] = "weights"
        comments.append("weights: those of the rows")
    if result.classes is not None:
        options["classes"] = _classes(result, comments)
    if result.frame is not None and result.frame.selected:
        options["columns"] = repr(list(result.frame.columns))
    rates = _rates(result.certificate.known, comments)
    first = f"prior_adjust(probs, old_rates, {rates}" if result.procedure == "prior" else f"adjust(probs, {rates}"
    if result.procedure == "prior":
        comments.append("old_rates: those in training")
    written = "".join(f", {name}={value}" for name, value in options.items())
    return "\n".join(["import baserate as br", *(f"# {line}" for line in comments), f"result = br.{first}{written})"])


def _loss(result: Result, comments: list[str]) -> str:
    loss = result.loss
    if repr(loss) == f"{type(loss).__name__}()":
        return repr(type(loss).name)
    if len(repr(loss)) > 200 or "<" in repr(loss):
        comments.append(f"loss: the {type(loss).__name__} that was used")
        return "loss"
    return f"br.losses.{loss!r}"


def _classes(result: Result, comments: list[str]) -> str:
    classes = list(result.classes or ())
    if len(classes) <= _LISTED and all(isinstance(name, (str, int, float, bool)) for name in classes):
        return repr(classes)
    comments.append("classes: the names in the table of rates, in the order of the columns")
    return "classes"


def _rates(known: Any, comments: list[str]) -> str:
    numbers = {name: value for name, value in known.to_json().items() if name != "kind"}
    if any(isinstance(value, list) and len(value) > _LISTED for value in numbers.values()):
        comments.append("rates: those in the table, in the order of the columns")
        return "rates"
    maker = {"counts": "from_counts", "population": "of_population"}.get(known.kind, known.kind)
    return f"br.Rates.{maker}({', '.join(f'{name}={value!r}' for name, value in numbers.items())})"
