"""Messages of the library in the words of the page: what to choose instead of what to write in code."""

from __future__ import annotations

import re

from baserate.errors import BaserateError, Option, respell

_SPELLINGS = {
    Option("old_rates"): "the rates in training, under More options",
    Option("probs_val"): "a validation file",
    Option("y_val"): "its true classes",
    Option("normalize", "True"): "“divide each row by its sum” in step 1",
    Option("from_logits", "True"): "“the columns have scores” in step 1",
    Option("columns", "'p_*'"): "other columns in step 1",
    Option("columns", "[...]"): "other columns in step 1",
    Option("classes", "[...]"): "other names of the columns in your file",
    Option("loss", '"brier"'): "the Brier score, under More options",
    Option("Rates.of_population(rates)"): "the rates of the population in step 2",
    Option("rates", "Rates.of_population(...)"): "the rates of the population in step 2",
    Option("rates", "{'name of a class': ...}"): "the rate of one class",
}
_OF_POPULATION = "state them as such: Rates.of_population(...) in Python, population:... on the command line"


def on_page(error: BaseException) -> str:
    """The message of an error."""
    options = error.options if isinstance(error, BaserateError) else ()
    return respelled(str(error), options)


def respelled(text: str, options: tuple[Option, ...]) -> str:
    """A text of the library that mentions options."""
    return respell(text, (*options, *_SPELLINGS), lambda option: _SPELLINGS.get(option, str(option)))


def sentence(text: str) -> str:
    """A text of the library as a sentence."""
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"


def without_code(text: str) -> str:
    """A sentence of a report, without what to write in code."""
    return re.sub(re.escape(_OF_POPULATION), "choose “the rates of the population” in step 2", text)
