"""What a command was asked to do, in the words of the library."""

from __future__ import annotations

import glob
import shlex
import sys
import time
from collections import Counter
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path
from typing import Any

from baserate.adjust import adjust
from baserate.cli.options import names
from baserate.cli.output import say
from baserate.cli.progress_bar import progress_bar
from baserate.errors import BadFile, BadOption
from baserate.progress import Progress
from baserate.rates import Rates
from baserate.report import check_report, write_report
from baserate.result.adjustment import Adjustment
from baserate.support.atomic_files import check_place
from baserate.tables import Files

# Options that some commands do not have.
_NOT_ASKED = dict.fromkeys(
    ["pipe_format", "weight", "zeros", "tol", "save_shift", "report", "columns", "quiet", "from_logits", "normalize"]
)


class Asked:
    """The arguments and options of a command that works on tables; those that it does not have are not asked for."""

    def __init__(self, source: tuple[str, ...], **given: Any) -> None:
        self._source, self._given = source, given
        self._began = time.monotonic()

    def __getitem__(self, option: str) -> Any:
        return self._given[option] if option in self._given else _NOT_ASKED[option]

    @property
    def files(self) -> Files:
        """The input."""
        where = self._source[0] if len(self._source) == 1 else list(self._source)
        return Files(where, self["delimiter"], self["decimal"], self["pipe_format"])

    @property
    def reading(self) -> dict[str, Any]:
        """How rows are to be read: options of :func:`baserate.adjust`."""
        return {
            "columns": names(self["columns"]),
            "sample_weight": self["weight"],
            "from_logits": self["from_logits"],
            "normalize": self["normalize"],
            "zeros": "keep" if self["zeros"] is None else self["zeros"],
        }

    @cached_property
    def rates(self) -> Rates:
        """The new rates."""
        return Rates.parse(self["rates"], self["confidence"])

    def bar(self) -> AbstractContextManager[Progress]:
        """The progress bar of the command."""
        return progress_bar(self["tol"], quiet=bool(self["quiet"] or self["as_json"]))

    def solved(self, out: str | None) -> Adjustment:
        """The adjustment."""
        with self.bar() as shown:
            return adjust(
                self.files,
                self.rates,
                loss=self["loss"],
                bounded=not self["unbounded"],
                out=out,
                tol=self["tol"],
                max_passes=self["max_passes"],
                progress=shown,
                **self.reading,
            )

    def check_places(self, out: str | None) -> None:
        """Refuse what would else only be noticed after a long time."""
        if self["report"] is not None:
            check_report(self["report"])
        for path in self._beside:
            check_place(path)
        named = [*self._read, *([] if out is None else [out]), *map(str, self._beside)]
        places = Counter(Path(name).resolve() for name in named if name != "-")
        twice = next((path for path, times in places.items() if times > 1), None)
        if twice is not None:
            raise BadOption(f"{twice} is named twice, to be written over what is read or written; choose another name")

    @property
    def _read(self) -> list[str]:
        """What is read, as far as that is said file by file."""
        rates = [self._given[name] for name in ("rates", "old_rates") if self._given.get(name)]
        files = [name for one in self._source for name in (glob.glob(one) or [one])]  # noqa: PTH207  # may be absolute
        return list(dict.fromkeys([*files, *(text for text in rates if len(text) < 256)]))

    @property
    def _beside(self) -> list[Path]:
        return [path for path in (self["save_shift"], self["report"]) if path is not None]

    def finish(self, result: Adjustment, out: str | None) -> None:
        """Write what is wanted beside the rows, and say what was done."""
        command = shlex.join(["baserate", *sys.argv[1:]])
        try:
            if self["save_shift"] is not None:
                result.save(self["save_shift"])
            if self["report"] is not None:
                write_report(self["report"], result, command=command)
        except OSError as error:
            done = "" if out is None else f"; {out} is complete"
            raise BadFile(f"{error.filename or 'a file'} cannot be written: {error.strerror}{done}") from None
        places = ["standard output" if place == "-" else str(place) for place in [out, *self._beside] if place]
        seconds = time.monotonic() - self._began
        lines = ["", f"wrote {', '.join(places)} in {seconds:.1f} s"] if places else []
        more = {"out": out, "seconds": round(seconds, 3)}
        say(result, lines, as_json=self["as_json"], quiet=self["quiet"], err=out == "-", **more)
