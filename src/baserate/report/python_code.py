"""Python code that makes an adjustment again."""

from __future__ import annotations

from typing import Any

_MAX_LISTED = 20  # Vectors with more classes are not written out.
_CONSTRUCTORS = {"counts": "from_counts", "population": "of_population"}  # where the name is not the kind of rates


def python_code(about: dict[str, Any]) -> str:
    """The call that makes an adjustment again, from the facts about it.

    Comments describe what the code does not contain: the predictions, the weights, and vectors of very many classes.
    """
    comments = [_probs(about)]
    is_prior = about["procedure"] == "prior"
    options: dict[str, str] = {}
    if not is_prior:
        options["loss"] = _loss(about, comments)
        options |= {} if about["bounded"] else {"bounded": "False"}
    options |= {name: "True" for name in ("from_logits", "normalize") if about[name]}
    options |= {"zeros": repr(about["smoothing"])} if about["smoothing"] else {}
    if about["weighted"]:
        options["sample_weight"] = "weights"
        comments.append("weights: the weights of the rows")
    if about["classes_named"]:
        options["classes"] = _classes(about, comments)
    if about["columns"] is not None:
        options["columns"] = repr(about["columns"])
    rates = _rates(about["stated_rates"], comments)
    if is_prior:
        comments.append("old_rates: the class rates in training")
    call = f"prior_adjust(probs, old_rates, {rates}" if is_prior else f"adjust(probs, {rates}"
    keywords = "".join(f", {name}={value}" for name, value in options.items())
    return "\n".join(["import baserate as br", *(f"# {line}" for line in comments), f"result = br.{call}{keywords})"])


def _probs(about: dict[str, Any]) -> str:
    columns = about["columns"]
    if columns is None:
        return "probs: the predictions"
    what = "the path of the files" if about["engine"].startswith("files") else "the dataframe"
    if len(columns) > _MAX_LISTED:
        return f"probs: {what} with the predictions"
    return f"probs: {what} with column{'s' if len(columns) > 1 else ''} {', '.join(map(repr, columns))}"


def _loss(about: dict[str, Any], comments: list[str]) -> str:
    loss: str = about["loss"]
    if loss.endswith("()"):
        return repr(about["loss_key"])
    if len(loss) > 200 or "<" in loss:
        comments.append(f"loss: the {loss.partition('(')[0]} that was used")
        return "loss"
    return f"br.losses.{loss}"


def _classes(about: dict[str, Any], comments: list[str]) -> str:
    classes = [one["class"] for one in about["classes"]]
    if len(classes) <= _MAX_LISTED and all(isinstance(name, (str, int, float, bool)) for name in classes):
        return repr(classes)
    comments.append("classes: the class names in the table of rates, in this order")
    return "classes"


def _rates(stated: dict[str, Any], comments: list[str]) -> str:
    arguments = {name: value for name, value in stated.items() if name != "kind"}
    if any(isinstance(value, list) and len(value) > _MAX_LISTED for value in arguments.values()):
        comments.append("rates: the rates in the table, in the order of the columns")
        return "rates"
    constructor = _CONSTRUCTORS.get(stated["kind"], stated["kind"])
    return f"br.Rates.{constructor}({', '.join(f'{name}={value!r}' for name, value in arguments.items())})"
