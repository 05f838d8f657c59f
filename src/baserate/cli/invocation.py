"""The arguments and options of a command that reads files, as arguments of the library."""

from __future__ import annotations

import glob
import os
import shlex
import sys
import time
from collections import Counter
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path
from typing import Any

import click

from baserate.adjust import adjust
from baserate.adjustment import Adjustment
from baserate.cli.options import parse_columns, parse_names
from baserate.cli.output import print_result
from baserate.cli.progress_bar import progress_bar
from baserate.errors import BadFile, BadOption
from baserate.progress import Progress
from baserate.rates import Margins, Rates
from baserate.report import check_report, write_report
from baserate.support.locations import check_writable, identity, resolved
from baserate.tables import Files

# The values of options that a command does not have.
_ABSENT = dict.fromkeys(
    [
        *("pipe_format", "weight", "zeros", "tol", "save_shift", "report", "columns", "classes", "quiet"),
        *("from_logits", "normalize", "old_rates", "rates", "by", "rates_file", "rounding", "validation"),
    ]
)


class Invocation:
    """One call of a command that reads files.

    Parameters
    ----------
    source : tuple of str
        The files.
    **options
        The options of the command, by the names of their parameters.
    """

    def __init__(self, source: tuple[str, ...], **options: Any) -> None:
        self._source, self._options = source, options
        self._start = time.monotonic()

    def __getitem__(self, option: str) -> Any:
        return self._options[option] if option in self._options else _ABSENT[option]

    @property
    def files(self) -> Files:
        """The input."""
        return self.files_at(self._source)

    def files_at(self, paths: tuple[str, ...]) -> Files:
        """Files at some paths, read with the options of the input."""
        where = paths[0] if len(paths) == 1 else list(paths)
        return Files(where, self["delimiter"], self["decimal"], self["pipe_format"])

    @property
    def row_options(self) -> dict[str, Any]:
        """How rows are read: options of :func:`baserate.adjust`."""
        return {
            "columns": parse_columns(self["columns"]),
            "sample_weight": self["weight"],
            "from_logits": self["from_logits"],
            "normalize": self["normalize"],
            "zeros": "keep" if self["zeros"] is None else self["zeros"],
        }

    @property
    def has_rates(self) -> bool:
        """Whether rates were given, of all rows or per group."""
        return bool(self["rates"] is not None or self["by"] or self["rates_file"])

    @cached_property
    def rates(self) -> Rates:
        """The new rates: of all rows, per group, or both."""
        parts = self._rates_by_group()
        if self["rates"] is None and not parts:
            raise click.UsageError("Missing option '--rates', or '--by' and '--rates-file' for rates per group.")
        if self["rates"] is not None:
            effect = 1.0 if parts and not self["rates"].startswith("counts:") else self["design_effect"]
            parts.append(self._parsed(self["rates"], effect))
        return parts[0] if len(parts) == 1 else Margins(*parts)

    def _rates_by_group(self) -> list[Rates]:
        """The rates of each --by, from its --rates-file."""
        by, files = self["by"] or (), self["rates_file"] or ()
        if len(by) != len(files):
            raise click.UsageError(
                f"--by is given {_times(len(by))}, and --rates-file {_times(len(files))}; each --by needs its own file"
            )
        given = (
            {"kind": self["rates_kind"], "unlisted": self["unlisted"], "joint": not self["each_group"]} if by else {}
        )
        shared = {"confidence": self["confidence"], "design_effect": self["design_effect"], **given}
        return [
            Rates.by(parse_names(names, "--by"), file, rounding=_as_rounding(self["rounding"]), **shared)
            for names, file in zip(by, files, strict=True)
        ]

    @cached_property
    def old_rates(self) -> Rates | None:
        """The rates in training."""
        return None if self["old_rates"] is None else self._parsed(self["old_rates"])

    def _parsed(self, text: str, design_effect: float = 1.0) -> Rates:
        """Rates from an option. Saved rates have a confidence of their own, which --confidence must not contradict."""
        found, level = Rates.parse(text, self["confidence"], design_effect), self["confidence"]
        if found.certainty not in (None, level) and _was_typed("confidence"):
            raise BadOption(
                f"--confidence is {level:.10g}, but the rates in {text} were saved with confidence "
                f"{found.certainty:.10g}; leave out --confidence, or save the rates again with the other confidence"
            )
        return found

    @property
    def classes(self) -> list[str] | None:
        """Names of the classes, if they were given."""
        return parse_names(self["classes"], "--classes")

    def progress(self) -> AbstractContextManager[Progress]:
        """The progress bar of the command."""
        return progress_bar(self["tol"], quiet=bool(self["quiet"] or self["as_json"]))

    def adjust(self, out: str | None) -> Adjustment:
        """Adjust the input."""
        with self.progress() as progress:
            return adjust(
                self.files,
                self.rates,
                loss=self["loss"],
                bounded=not self["unbounded"],
                out=out,
                tol=self["tol"],
                max_passes=self["max_passes"],
                classes=self.classes,
                progress=progress,
                **self.row_options,
            )

    def check_outputs(self, out: str | None) -> None:
        """Raise if an output cannot be written, so that this is known before the work."""
        if self["report"] is not None:
            check_report(self["report"])
        for path in self._extra_outputs:
            self.check_extra_output(path)
        names = [*self._inputs, *([] if out is None else [out]), *map(str, self._extra_outputs)]
        counts = Counter(resolved(name) for name in names if name != "-")
        repeated = next((path for path, count in counts.items() if count > 1), None)
        if repeated is not None:
            raise BadOption(f"{repeated} is named twice, so one file would overwrite the other; choose another name")

    def check_extra_output(self, path: Path | str) -> None:
        """Raise if a file besides the adjusted rows cannot be written, or if a later run would read it as an input."""
        from baserate.tables.sources import later_input, later_remote_input  # needs pyarrow, which is slow to import

        check_writable(path)
        given, place = [*self._source, *(self["validation"] or ())], resolved(path)
        problem = later_input(given, [place]) if isinstance(place, Path) else later_remote_input(given, [str(path)])
        if problem is not None:
            raise BadOption(
                f"{problem}, so a later run on this input would also read it; write to a path that is not part of the "
                "input"
            )

    def check_validation(self) -> None:
        """Raise if a file is both IN and validation data, which must be different rows."""
        given = {identity(name) for name in _expanded(self._source) if name != "-"}
        both = next((name for name in _expanded(self["validation"]) if identity(name) in given), None)
        if both is not None:
            raise BadOption(
                f"{both} is both IN and --validation; the validation data must be other rows than those whose rates "
                "are to be estimated"
            )

    @property
    def _inputs(self) -> list[str]:
        """The files that are read: those of IN, of --validation, and files with rates, but not those in folders."""
        rates = [self._options[name] for name in ("rates", "old_rates") if self._options.get(name)]
        rates += self["rates_file"] or ()
        files = _expanded((*self._source, *(self["validation"] or ())))
        return list(dict.fromkeys([*files, *(text for text in rates if len(text) < 256)]))

    @property
    def _extra_outputs(self) -> list[Path | str]:
        return [path for path in (self["save_shift"], self["report"]) if path is not None]

    def finish(self, result: Adjustment, out: str | None) -> None:
        """Write the shift and the report if they were requested, and print the result."""
        command = shlex.join(["baserate", *sys.argv[1:]])
        try:
            if self["save_shift"] is not None:
                result.save(self["save_shift"])
            if self["report"] is not None:
                write_report(self["report"], result, command=command)
        except OSError as error:
            outcome = "" if out is None else f"; {out} is complete"
            raise BadFile(f"{error.filename or 'a file'} cannot be written: {error.strerror}{outcome}") from None
        outputs = ["standard output" if path == "-" else str(path) for path in [out, *self._extra_outputs] if path]
        seconds = time.monotonic() - self._start
        lines = ["", f"wrote {', '.join(outputs)} in {seconds:.1f} s"] if outputs else []
        more = {"out": out, "seconds": round(seconds, 3)}
        print_result(result, lines, as_json=self["as_json"], quiet=self["quiet"], err=out == "-", **more)


def _expanded(paths: tuple[str, ...]) -> list[str]:
    """Paths with the matches of glob patterns in their place. The name of a file is no pattern."""
    return [name for path in paths for name in _matches(path) or [path]]


def _matches(path: str) -> list[str]:
    return [] if os.path.lexists(path) else glob.glob(path)  # noqa: PTH207  # may be absolute


def _times(n: int) -> str:
    return "once" if n == 1 else f"{n} times"


def _was_typed(option: str) -> bool:
    """Whether an option is on the command line, so that its value is not the default."""
    context = click.get_current_context(silent=True)
    return context is not None and context.get_parameter_source(option) is click.core.ParameterSource.COMMANDLINE


def _as_rounding(text: str | None) -> float | str | None:
    """The value of --rounding as an argument of the library."""
    if text is None or text == "auto":
        return text
    try:
        return float(text)
    except ValueError:
        raise click.UsageError(f"--rounding must be a number, such as 0.005, or auto, not {text!r}") from None
