"""An analysis as commands and as Python code, which do the same as the page."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Any

from baserate.app.file_names import OLD_RATES, RATES, REPORT, SHIFT, SQL, made_from
from baserate.app.forms import FILE, GROUPS, VALIDATION, RatesText
from baserate.app.recognition import Roles
from baserate.errors import BadOption
from baserate.tables import Files

ZEROS = 1e-6
"""What is added to every probability if some are exactly 0."""


@dataclass(frozen=True)
class Settings:
    """Everything that the user has chosen for one file.

    Attributes
    ----------
    name : str
        Name of the file, in the folder in which commands run.
    files : Files
        How the file is read.
    selectable : bool
        Whether columns with probabilities can be selected.
    roles : Roles
    kind : str
        What is known about the rates: one of ``forms.KINDS``.
    rates : RatesText or None
        The value of ``--rates``; None for rates per group.
    loss : str
    by : str or None
        The column of groups.
    rates_file : str or None
        The file with rates per group.
    group_changes : tuple
        Pairs of a group and of what was changed for it on the page: pairs of a class and a percentage.
    rates_kind : str
        What its numbers are: "rates", "counts" or "population".
    validation : str or None
        The validation file.
    validation_labels : str or None
        Its column with the true classes.
    old_rates : RatesText or None
        Rates in training: the value of ``--old-rates``.
    format : str
        The format of the file.
    inputs : frozenset of str
        Names of all files of the user in the folder, which nothing that is written may have.
    """

    name: str
    files: Files
    selectable: bool
    roles: Roles
    kind: str
    rates: RatesText | None = None
    loss: str = "log"
    by: str | None = None
    rates_file: str | None = None
    rates_kind: str = "rates"
    group_changes: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = ()
    validation: str | None = None
    validation_labels: str | None = None
    old_rates: RatesText | None = None
    format: str = "CSV"
    inputs: frozenset[str] = frozenset()

    @property
    def argument(self) -> str:
        """The file as the argument of a command; a name that begins like an option is written as a path."""
        return f"./{self.name}" if self.name.startswith("-") else self.name

    @property
    def out(self) -> str:
        """Name of the adjusted file."""
        return made_from(self.name, "adjusted", self.format, self.inputs)

    @property
    def table(self) -> str:
        """The file with rates per group that is used: the one of the user, or the changed one."""
        name = str(self.rates_file)
        return made_from(name, "changed", "CSV", self.inputs) if self.group_changes else name

    @property
    def needed_files(self) -> dict[str, str]:
        """The files that the commands read besides the predictions, and what they are."""
        return self._needed_for_rates | ({OLD_RATES: "the rates in training"} if self.has_old_rates_file else {})

    @property
    def has_old_rates_file(self) -> bool:
        """Whether the command that compares the procedures reads the rates in training from a file."""
        return self.old_rates is not None and self.old_rates.content is not None and self.roles.label is not None

    @property
    def _needed_for_rates(self) -> dict[str, str]:
        if self.kind == GROUPS:
            changed = ", as you changed them here" if self.group_changes else ""
            return {self.table: f"the rates of each group{changed}"}
        if self.kind == VALIDATION:
            return {str(self.validation): "the validation file"}
        if self.rates is not None and (self.rates.text == RATES or self.kind == FILE):
            return {self.rates.text: "the rates"}
        return {}

    @property
    def columns(self) -> str | list[str] | None:
        """The argument ``columns`` of the library; None if the columns cannot be selected."""
        if not self.selectable:
            return None
        pattern = self.roles.pattern
        return list(self.roles.probabilities) if pattern is None else "*".join(pattern)

    @property
    def reading(self) -> dict[str, Any]:
        """How rows are read: options of :func:`baserate.adjust`."""
        options = {
            "columns": self.columns,
            "sample_weight": self.roles.weight,
            "from_logits": self.roles.from_logits,
            "normalize": self.roles.normalize,
            "zeros": ZEROS if self.roles.has_zeros else None,
        }
        return {name: value for name, value in options.items() if value not in (None, False)}


def adjust_command(settings: Settings) -> list[str]:
    """The command that writes the adjusted file, the shift and the report."""
    command = ["baserate", "adjust", settings.argument, *_rates(settings), *_reading(settings)]
    if settings.loss != "log":
        command += ["--loss", settings.loss]
    return [*command, "--out", settings.out, "--save-shift", SHIFT, "--report", REPORT]


def estimate_command(settings: Settings) -> list[str]:
    """The command that estimates the rates from a validation file."""
    assert settings.validation is not None
    assert settings.validation_labels is not None
    given = ["--validation", settings.validation, "--labels", settings.validation_labels]
    return ["baserate", "rates", settings.argument, *given, *_reading(settings, rows_only=True), "--out", RATES]


def sql_command(settings: Settings) -> list[str]:
    """The command that writes the shift as SQL."""
    return ["baserate", "export", SHIFT, "--to", "sql", "--columns", _typed_columns(settings), "--out", SQL]


def compare_command(settings: Settings) -> list[str]:
    """The command that compares the procedures on labelled rows."""
    old = [] if settings.old_rates is None else ["--old-rates", settings.old_rates.text]
    labels = ["--labels", str(settings.roles.label)]
    return ["baserate", "compare", settings.argument, *labels, *_rates(settings), *old, *_reading(settings)]


def all_commands(settings: Settings) -> list[list[str]]:
    """All commands that make the files of the page, in their order."""
    first = [estimate_command(settings)] if settings.kind == VALIDATION else []
    last = [sql_command(settings)] if settings.selectable else []  # a query needs names of columns
    return [*first, adjust_command(settings), *last]


def shell_text(command: list[str]) -> str:
    """A command as it is typed in a shell."""
    return shlex.join(command)


def python_text(settings: Settings) -> str:
    """Python code that makes the adjusted file, the shift, the report and the SQL."""
    source = _python_files(settings, settings.name)
    lines = ["import baserate as br", ""]
    if settings.kind == VALIDATION:
        options = _keywords({k: v for k, v in settings.reading.items() if k not in ("sample_weight", "zeros")})
        given = f"probs_val={_python_files(settings, str(settings.validation))}, y_val={settings.validation_labels!r}"
        lines += [f"rates = br.estimate({source}, {given}{options})", f"rates.save({RATES!r})"]
    elif settings.kind == GROUPS:
        kind = "" if settings.rates_kind == "rates" else f", kind={settings.rates_kind!r}"
        lines.append(f"rates = br.Rates.by({settings.by!r}, {settings.table!r}{kind})")
    else:
        assert settings.rates is not None
        lines.append(f"rates = br.Rates.parse({settings.rates.text!r})")
    loss = {} if settings.loss == "log" else {"loss": settings.loss}
    lines.append(f"result = br.adjust({source}, rates{_keywords(loss | settings.reading)}, out={settings.out!r})")
    lines += [f"result.save({SHIFT!r})", f"result.report({REPORT!r})"]
    if settings.selectable:
        lines.append(f"print(result.to_sql(columns={settings.columns!r}))")
    return "\n".join(lines) + "\n"


def _rates(settings: Settings) -> list[str]:
    if settings.kind == GROUPS:
        kind = [] if settings.rates_kind == "rates" else ["--rates-kind", settings.rates_kind]
        return ["--by", str(settings.by), "--rates-file", str(settings.table), *kind]
    if settings.kind == VALIDATION:
        return ["--rates", RATES]
    assert settings.rates is not None
    return ["--rates", settings.rates.text]


def _reading(settings: Settings, *, rows_only: bool = False) -> list[str]:
    roles, files = settings.roles, settings.files
    options = [] if settings.columns is None else ["--columns", _typed_columns(settings)]
    if not rows_only:  # estimates take no weights, and zeros as they are
        options += ["--weight", roles.weight] if roles.weight is not None else []
        options += ["--zeros", f"{ZEROS:g}"] if roles.has_zeros else []
    options += ["--from-logits"] if roles.from_logits else []
    options += ["--normalize"] if roles.normalize else []
    options += ["--delimiter", "\\t" if files.delimiter == "\t" else files.delimiter] if files.delimiter else []
    return options + (["--decimal", files.decimal] if files.decimal != "." else [])


def _typed_columns(settings: Settings) -> str:
    columns = settings.columns
    if isinstance(columns, str):
        return columns
    odd = next((name for name in columns or () if "," in name or "*" in name or name != name.strip()), None)
    if odd is not None:
        raise BadOption(
            f"The name of the column {odd!r} contains a comma, a star or a space at its end, so a command cannot name "
            "it. Rename the column."
        )
    return ",".join(columns or ())


def _python_files(settings: Settings, name: str) -> str:
    files = settings.files
    given = {"delimiter": files.delimiter, "decimal": None if files.decimal == "." else files.decimal}
    options = _keywords({key: value for key, value in given.items() if value is not None})
    return f"br.Files({name!r}{options})" if options else repr(name)


def _keywords(options: dict[str, Any]) -> str:
    return "".join(f", {name}={value!r}" for name, value in options.items())
