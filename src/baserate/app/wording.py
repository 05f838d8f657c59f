"""Messages of the library in the words of the page: what to choose instead of what to write in code."""

from __future__ import annotations

import re
from collections.abc import Callable

from baserate.errors import QUOTED, BaserateError, Option, respell

_SPELLINGS = {
    Option("old_rates"): "the rates in training, under More options",
    Option("probs_val"): "a validation file",
    Option("y_val"): "its true classes",
    Option("normalize", "True"): "“divide each row by its sum” in step 1",
    Option("from_logits", "True"): "“the columns have scores” in step 1",
    Option("zeros", "1e-6"): "“some probabilities are exactly 0” in step 1",
    Option("columns", "'p_*'"): "the fields in step 1",
    Option("columns", "[...]"): "the fields in step 1",
    Option("classes", "[...]"): "other names of the columns in your file",
    Option("loss", '"brier"'): "the Brier score, under More options",
    Option("Rates.of_population(rates)"): "the rates of the population in step 2",
    Option("rates", "Rates.of_population(...)"): "the rates of the population in step 2",
    Option("rates", "{'name of a class': ...}"): "the rate of one class",
    Option("Rates.of_population"): "“the rates of the population” in step 2",
    Option("Rates.by(..., kind='counts')"): "“counts of a survey” in the field above the table",
    Option("Rates.by(..., kind='population')"): "“rates of the population of each group” in the field above the table",
}
_OF_POPULATION = "state them as such: Rates.of_population(...) in Python, population:... on the command line"
_DIVIDE = "“divide each row by its sum” in step 1"
_TO_CELL = ". Correct this cell in your file, or choose other columns in step 1"

_AS_UTF_8 = (
    ". In Excel, save it again as “CSV UTF-8 (Comma delimited)”; in LibreOffice, choose the character set “Unicode "
    "(UTF-8)”"
)
_LABELS = "choose “labels in a column”"
_TRAINING, _VALIDATION = "the rates in training, under More options", "choose “only a validation file”"

# Advice to programmers for which the page has no option, or another one.
_ADVICE = (
    # The commands that the page runs have another spelling.
    (r"--columns NAME,NAME", "columns=[...]"),
    (r"--decimal ','", "decimal=','"),
    (r"--normalize\b", "normalize=True"),
    (r"--from-logits\b", "from_logits=True"),
    (r"--zeros 1e-6", "zeros=1e-6"),
    (r"--loss brier", 'loss="brier"'),
    (r"--old-rates\b", "old_rates"),
    (r"^(?:y|--labels|its true classes) contains ", "the column with the true classes contains "),
    (r"; select the columns with probabilities by columns=\[\.\.\.\]", _TO_CELL),
    (
        r"; for decimal commas pass decimal=','",
        ". Write decimal points, or save the file with semicolons between the columns",
    ),
    (r": it contains zero bytes, as UTF-16 text does", ""),
    (r"\bpass old_rates=, or validation data as probs_val= and y_val=", f"enter {_TRAINING}, or {_VALIDATION}"),
    (r"\bpass one vector of rates, or validation data as .*", f"enter one rate per class, or {_VALIDATION}"),
    (r"\bpass them as old_rates=", "enter them under More options"),
    (r"^use adjust(?=: )", "adjust to these rates"),
    (r"^use adjust(?= for )", "adjust"),
    (r": it begins with b['\"].*", ""),
    (r"State rates of a population with Rates\.by.*", "If the table has others, choose what its numbers are above it."),
    (r"^rates has no entry for", "the rates have no entry for"),
    (
        r"^rates sum to 100, not 1;.*",
        "the rates are percentages, since they sum to 100. Write shares such as 0.2, or percent signs such as 20%",
    ),
    (r"must be between 0 and 1, or None", "must be between 0 and 1"),
    (
        r" is not a valid CSV file: CSV parse error: Empty CSV file or block: .*",
        " has only one line. Choose a file with the names of the columns, and with one row per case",
    ),
    (r", or for bounds on one rate pass Rates\.between\([^)]*\)", ""),
    (r"; write cat=0\.2,dog=0\.8, or .*", ""),
    (r", or pass Rates\.by\(\.\.\., unlisted='free'\) to .*", ""),
    (
        r"; if the table has other columns, pass classes=\[\.\.\.\] to Rates\.by",
        ". Remove other columns from the table",
    ),
    (r"; rename all but one", ". Give them different names in your file"),
    (r" \('[^']*' codec can't decode [^)]*\)", ""),
    (r"[;.]? ?convert (it|the file) to UTF-8", _AS_UTF_8),
    (r"(?<=is not a CSV file in UTF-8): '[^']*' codec can't decode .*", _AS_UTF_8),
    (
        r", and it is not known to which class it belongs; pass classes=\[\.\.\.\] with both names, .*",
        ". Give the rates the name of this column",
    ),
    (r"if these are logits", "if these are scores"),
    (
        r"(?<=of the batch) and pass them as labelled=(?: of br\.estimate in Python)?",
        f" in a column of your file and {_LABELS}",
    ),
    (r"\bpass (?:--on-refuted|on_refuted=)\s*\S+ to leave predictions", "leave the predictions"),
    (
        r"\bleave (?:sample_weight=|--weight) out, or estimate the rates of these rows with .*",
        "choose no column with weights in step 1",
    ),
    (
        r"\bestimate the rates of these rows with (?:br\.estimate|baserate rates)",
        f"{_VALIDATION} or “labels in a column”",
    ),
    (r", or call without_batch\(\) .*", ""),
    (r"\bis nan; (?=probabilities|logits)", "is empty or not a number; "),
)
_QUOTED_CODE = ("'p_*'", '"brier"', "'name of a class'", "'counts'", "'population'", "'free'", "','")  # of options
_QUOTED = re.compile(QUOTED)
_PERCENT_SIGN = re.compile(rf"(column {QUOTED} is '[^']*%'), which is not a number; select .*")
_INCOMPLETE = re.compile(r"\brow \d.* is [^;]*; (probabilities|logits) must be finite", re.DOTALL)
_ROW = re.compile(r"\brow (\d+)\b( of [^;:]*?\.[a-z]\w*)?")  # the name of a file stays as it is
_ROW_OF_FILE = re.compile(r"\brow \d+ of ")
_NOT_TEXT = re.compile(r"\.(parquet|pq|parq|arrows?|feather|ipc|npy|npz)\b")  # files without a line of names

_NUMBER = r"(\d+(?:\.\d+)?(?:e[+-]?\d+)?)(?![\de]|\.\d| ?%)"  # not yet a percentage
_CLASS = rf"class (?:{QUOTED}|\d+)"
_SHARES = re.compile(
    r"(\ba rate of |\bpredictions, whose mean is |\bstated rate is |\bis stated as |\bneed a mean of (?:at least )?"
    r"|\bwhich allows at most "
    rf"|\bmean prediction for {_CLASS} is |\bmost likely rate of {_CLASS} is |\b(?:[Rr]ates|bounds) sum to ){_NUMBER}"
)
_DIFFERENCES = re.compile(
    r"(\bchance alone gives (?:a difference of )?about |\btoo high by |\brates are off by up to "
    rf"|\bdiffers from the rate of {_CLASS} by ){_NUMBER}"
)


def on_page(error: BaseException) -> str:
    """The message of an error, as the beginning of a sentence."""
    options = error.options if isinstance(error, BaserateError) else ()
    text = in_percent(respelled(_text_of(error), options)).replace(f"{_DIVIDE} to divide each row by its sum", _DIVIDE)
    return capitalised(_outside_quotes(text, _with_advice_on_rows))


def _text_of(error: BaseException) -> str:
    """The message of an error, without the number that the operating system gives to it."""
    if isinstance(error, OSError) and not isinstance(error, BaserateError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    return str(error)


def _outside_quotes(text: str, change: Callable[[str], str]) -> str:
    """A changed text, in which everything in quotes stays as it is: names and entries of the user."""
    quoted: list[str] = []

    def hidden(match: re.Match[str]) -> str:
        if match[0] in _QUOTED_CODE:
            return match[0]
        quoted.append(match[0])
        return f"'\0{len(quoted) - 1}\0'"

    return re.sub("'\0(\\d+)\0'", lambda match: quoted[int(match[1])], change(_QUOTED.sub(hidden, text)))


def _with_advice_on_rows(text: str) -> str:
    """A text with the numbers that people give to rows, if it names rows, and what to do about these rows."""
    advice = ["Complete this row in your file, or remove it"] if _INCOMPLETE.search(text) else []
    if _ROW.search(text):
        first = first_row(has_names=_ROW_OF_FILE.search(text) is not None and not _NOT_TEXT.search(text))
        return ". ".join([shifted(text, first).removesuffix("."), *advice, how_counted(first)])
    return text


def _without_advice(text: str) -> str:
    """A text of the library without advice to programmers."""
    text = _PERCENT_SIGN.sub(
        lambda match: (
            re.sub(r"\\xa0|\\u202f", " ", match[1])  # no-break spaces
            + ". Remove the percent signs from this column, so that it has numbers only"
        ),
        text,
    )
    return _outside_quotes(text, _with_advice_of_the_page)


def _with_advice_of_the_page(text: str) -> str:
    for pattern, advice in _ADVICE:
        text = re.sub(pattern, advice, text)
    return text


def shifted(text: str, first: int) -> str:
    """A text that numbers rows from 0, with the number that people give to the first row."""
    return _outside_quotes(
        text, lambda found: _ROW.sub(lambda match: f"row {int(match[1]) + first}{match[2] or ''}", found)
    )


def first_row(*, has_names: bool) -> int:
    """The number of the first row: people count from 1, and in a spreadsheet the names of the columns are row 1."""
    return 2 if has_names else 1


def how_counted(first: int) -> str:
    """How rows are counted if the first one has this number."""
    return _COUNTED[first]


_COUNTED = {
    1: "The first row is row 1.",
    2: "Rows are counted as in a spreadsheet, without empty lines: row 1 has the names of the columns.",
}


def in_percent(text: str) -> str:
    """A text of the library with rates of classes as percentages."""
    return _outside_quotes(text, _numbers_in_percent)


def _percentage(share: str) -> str:
    number = 100 * float(share)
    return f"{number:.4g} %" if number < 1e4 else f"{number:.0f} %"


def _numbers_in_percent(text: str) -> str:
    text = _SHARES.sub(lambda match: f"{match[1]}{_percentage(match[2])}", text)
    text = re.sub(rf"(?<=, but ){_NUMBER}(?= of the labels)", lambda match: _percentage(match[1]), text)
    text = re.sub(r"(\b[Rr]ates sum to \S+ %), not 1\b", r"\1, not to 100 %", text)
    return _DIFFERENCES.sub(lambda match: f"{match[1]}{100 * float(match[2]):.3g} percentage points", text)


def respelled(text: str, options: tuple[Option, ...]) -> str:
    """A text of the library that mentions options."""
    found = respell(_without_advice(text), (*options, *_SPELLINGS), lambda option: _SPELLINGS.get(option, str(option)))
    return re.sub(r"\b([Pp])ass (?=“)", lambda match: "Choose " if match[1] == "P" else "choose ", found)


def capitalised(text: str) -> str:
    """A text with a capital letter, unless it begins with a name or a path, which would become another one."""
    return f"{text[:1].upper()}{text[1:]}" if re.match(r"[a-z]+,? ", text) else text


def sentence(text: str) -> str:
    """A text of the library as a sentence."""
    return f"{capitalised(text)}{'' if text.endswith('.') else '.'}"


def without_code(text: str) -> str:
    """A sentence of a report, without what to write in code."""
    text = re.sub(re.escape(_OF_POPULATION), "choose “the rates of the population” in step 2", text)
    return in_percent(_without_advice(text))
