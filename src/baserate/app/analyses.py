"""The open files of a server: what is known about each, and what is computed from it."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from baserate.app.commands import Settings, all_commands, estimate_command
from baserate.app.downloads import downloads
from baserate.app.file_names import FIXED, OLD_RATES, RATES, made_from
from baserate.app.forms import (
    COUNTS,
    FILE,
    GROUPS,
    LABELS,
    NUMBER,
    POPULATION,
    RANGE,
    VALIDATION,
    Entry,
    RatesText,
    changes_of,
    entries_of,
    exact_text,
    rates_text,
)
from baserate.app.group_rates import GroupRates
from baserate.app.jobs import Job, Jobs
from baserate.app.private_folder import FileState, PrivateFolder, link_or_copy, write_text
from baserate.app.recognition import (
    Preview,
    Roles,
    check_percent_signs,
    check_percentages,
    check_rows,
    preview,
    recognise,
)
from baserate.app.what_if import TOO_MANY, OpenRows
from baserate.app.work_folders import FILES, WorkFolders
from baserate.errors import BadFile, BadLabels, BadOption
from baserate.estimation import estimate
from baserate.inputs.labels import match_labels
from baserate.rates import Rates
from baserate.tables import Files

_LOSSES = ("log", "brier", "spherical", "ranked")
_RATES_KINDS = ("rates", "counts", "population")


@dataclass(eq=False)
class Analysis:
    """One open file.

    Attributes
    ----------
    id : str
    name : str
        Name of the file.
    folder : Path
        Private folder with the file, or a link to it, and with folders for results.
    seen : Preview
    roles : Roles
        What the columns are.
    state : FileState or None
        What distinguishes the file from another one that is written to its place.
    extra : dict
        Names of further files that were uploaded, by their purpose.
    """

    id: str
    name: str
    folder: Path
    seen: Preview
    roles: Roles
    state: FileState | None
    extra: dict[str, str] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)
    work: WorkFolders = field(init=False)
    _rows: tuple[Roles, OpenRows] | None = None
    _estimated: dict[Settings, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.work = WorkFolders(self.folder)

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes; "class 0" and so on where the file has no names."""
        if self.seen.selectable:
            return self.roles.classes
        return tuple(f"class {j}" for j in range(len(self.roles.probabilities)))

    @property
    def inputs(self) -> frozenset[str]:
        """Names of the files of the user in the folder."""
        return frozenset((self.name, *self.extra.values()))

    @property
    def taken_names(self) -> set[str]:
        """Names of files in the folder that an upload must not replace."""
        return {*FIXED, *self.inputs, made_from(self.name, "adjusted", self.seen.format, self.inputs)}

    def add_file(self, purpose: str, name: str) -> None:
        """Use an uploaded file. Estimates from an earlier one of the same name are forgotten."""
        self.extra[purpose] = name
        self._estimated = {}  # Not clear(): a job that still runs would store its estimate from the earlier file.

    def set_roles(self, given: Mapping[str, Any]) -> None:
        """Change what the columns are, as the user corrected it."""
        chosen_roles = given.get("roles", {})
        if not isinstance(chosen_roles, dict):
            raise BadOption("Say for each column what it is.")
        roles = {str(name): str(role) for name, role in chosen_roles.items()}
        unknown = next((name for name in roles if name not in self.seen.columns), None)
        if unknown is not None:
            raise BadOption(f"There is no column {unknown!r} in this file.")
        by_role = {role: tuple(n for n in self.seen.names if roles.get(n) == role) for role in set(roles.values())}
        chosen = by_role.get("probability", ()) if self.seen.selectable else self.roles.probabilities
        if not chosen:
            raise BadOption("Choose at least one column with probabilities.")
        for role in ("label", "weight"):
            if len(by_role.get(role, ())) > 1:
                raise BadOption(f"Only one column can have the {role}s: {', '.join(by_role[role])}.")
        self.roles = Roles(
            chosen,
            next(iter(by_role.get("label", ())), None),
            by_role.get("group", ()),
            next(iter(by_role.get("weight", ())), None),
            bool(given.get("from_logits")),
            bool(given.get("normalize")),
            bool(given.get("has_zeros")),
        )

    def check_unchanged(self) -> None:
        """Raise if another program has written the file since it was opened.

        Rows in memory and commands would use different content. Reading the file again without a word would be wrong,
        too: the answer that the page shows would not be that of the files that it then writes.
        """
        if FileState.of(self.folder / self.name) != self.state:
            raise BadFile(
                f"The file {self.name} was changed, moved or removed after it was opened here. Press “Close file”, "
                "and open it again."
            )

    def reading_settings(self, kind: str = NUMBER, loss: str = "log") -> Settings:
        """How the file is read, before anything is known about the rates."""
        self.check_unchanged()
        if not self.roles.probabilities:
            raise BadOption("Choose at least one column with probabilities in step 1.")
        base = Settings(self.name, self.seen.files, self.seen.selectable, self.roles, kind, loss=loss)
        return replace(base, format=self.seen.format, inputs=self.inputs)

    def settings(self, form: Mapping[str, Any]) -> Settings:
        """What the user entered about the rates."""
        kind, loss = str(form.get("kind")), str(form.get("loss", "log"))
        if loss not in _LOSSES:
            raise BadOption(f"There is no loss {loss!r}.")
        base = self.reading_settings(kind, loss)
        if old := entries_of(form.get("old_rates")):
            base = replace(base, old_rates=self._text(NUMBER, old, OLD_RATES))
        if kind in (NUMBER, RANGE, COUNTS, POPULATION):
            return replace(base, rates=self._text(kind, entries_of(form.get("entries"))))
        if kind == FILE:
            return replace(base, rates=RatesText(self._extra_file("rates", "a file with the rates")))
        if kind == GROUPS:
            return self._settings_of_groups(base, form)
        if kind == VALIDATION:
            name = self._extra_file("validation", "a validation file")
            return replace(base, validation=name, validation_labels=str(form.get("validation_labels") or ""))
        if kind == LABELS and self.roles.label is not None:
            return base
        raise BadOption(
            "Say in step 1 which column has the true classes." if kind == LABELS else "Choose what you know."
        )

    def _settings_of_groups(self, base: Settings, form: Mapping[str, Any]) -> Settings:
        by, rates_kind = str(form.get("by") or ""), str(form.get("rates_kind", "rates"))
        if by not in self.seen.columns or rates_kind not in _RATES_KINDS:
            raise BadOption("Choose the column that says to which group a row belongs.")
        name = self._extra_file("groups", "a table with the rates of each group")
        changes = tuple((group, tuple(entries.items())) for group, entries in changes_of(form).items())
        return replace(base, by=by, rates_file=name, rates_kind=rates_kind, group_changes=changes)

    def group_rates(self, by: str) -> GroupRates | None:
        """The uploaded table of rates per group, if its numbers can be changed on the page."""
        name = self.extra.get("groups")
        rate_alone = len(self.roles.probabilities) == 1 or not self.seen.selectable
        return None if name is None else GroupRates.read(self.folder / name, by, self.classes, rate_alone=rate_alone)

    def _text(self, kind: str, entries: Mapping[str, Entry], file: str = RATES) -> RatesText:
        one_column = len(self.roles.probabilities) == 1
        return rates_text(kind, entries, self.classes, named=self.seen.selectable, one_column=one_column, file=file)

    def _extra_file(self, purpose: str, what: str) -> str:
        if purpose not in self.extra:
            raise BadOption(f"Choose {what} first.")
        return self.extra[purpose]

    def rows(self, settings: Settings, job: Any) -> OpenRows:
        """The rows, read once for each choice of columns."""
        if self._rows is None or self._rows[0] != settings.roles:
            self._rows = None  # free the memory first
            source = replace(settings.files, where=str(self.folder / self.name))
            rows = OpenRows.read(source, settings, job)
            self.check_unchanged()
            self._rows = (settings.roles, rows)
        return self._rows[1]

    @property
    def loaded(self) -> OpenRows | None:
        """The rows, if they have been read with the present choice of columns."""
        return self._rows[1] if self._rows is not None and self._rows[0] == self.roles else None

    def rows_and_rates(self, settings: Settings, folder: Path, jobs: Jobs, job: Job) -> tuple[Settings, OpenRows, Any]:
        """The settings with rates that follow from labels, the rows, and what is known about their rates.

        Files with rates that were entered or estimated are written to a folder of this work.
        """
        rows = self.rows(settings, job)
        if settings.old_rates is not None:
            _write_entered(settings.old_rates, folder)
        settings, rates = self._rates(settings, rows, folder, jobs, job)
        return settings, rows, rates

    def _rates(self, settings: Settings, rows: OpenRows, folder: Path, jobs: Jobs, job: Job) -> tuple[Settings, Any]:
        """What is known about the rates. Estimates them if they follow from labels or a validation file."""
        if settings.kind == GROUPS:
            table = self._table_of_groups(settings, folder)
            return settings, Rates.by(settings.by, table, kind=settings.rates_kind)
        if settings.kind == VALIDATION:
            self._estimate(settings, folder, jobs, job)
            return settings, Rates.parse(str(folder / RATES))
        if settings.kind == LABELS:
            settings = replace(settings, rates=self._from_labels(rows, folder))
        return settings, self.parsed(settings.rates, folder)

    def _table_of_groups(self, settings: Settings, folder: Path) -> Path:
        """The uploaded table of rates per group, or a changed one, which is written if something was changed."""
        if not settings.group_changes:
            return self.folder / settings.table
        table = self.group_rates(str(settings.by))
        if table is None:
            raise BadOption("The numbers of this table cannot be changed here. Change the file instead.")
        changes = {group: dict(entries) for group, entries in settings.group_changes}
        write_text(folder / settings.table, table.changed(changes))
        return folder / settings.table

    def parsed(self, text: RatesText | None, folder: Path) -> Rates:
        """Rates from the value of ``--rates``. A file that was entered or estimated is in the folder of this work."""
        assert text is not None
        _write_entered(text, folder)
        if text.content is not None or text.text == RATES:
            return Rates.parse(str(folder / text.text))
        return Rates.parse(str(self.folder / text.text) if text.text in self.extra.values() else text.text)

    def _estimate(self, settings: Settings, folder: Path, jobs: Jobs, job: Job) -> None:
        """Run the command that estimates the rates, unless it has run with the same settings."""
        if not settings.validation_labels:
            raise BadOption("Say which column of the validation file has the true classes.")
        estimated = self._estimated  # replaced if another file is uploaded while the command runs
        content = estimated.get(settings)
        if content is None:
            job.begin("estimating the rates", 0)
            with self.work.temporary() as place:
                self.work.add_inputs(place, settings.inputs)
                jobs.run_command(estimate_command(settings), place, job)
                content = estimated[settings] = (place / RATES).read_text(encoding="utf-8")
        write_text(folder / RATES, content)

    def _from_labels(self, rows: OpenRows, folder: Path) -> RatesText:
        """The rates of a column with labels: exact if all rows have one, else a set from the rows that have one."""
        if rows.held is None:
            raise BadOption(
                f"{TOO_MANY}, so its labels are not counted here. Count them in another program, and enter how many of "
                "100 rows belong to each class as “the rates of these rows”."
            )
        column = str(self.roles.label)
        found = rows.held.rows.read_column(column)
        names = rows.classes or tuple(range(rows.held.probs.shape[1]))
        numbers = match_labels(found.values, names, one_column=rows.one_column)
        if None in numbers:
            raise BadLabels(
                f"{found.values[numbers.index(None)]!r} in the column {column!r} is not a class. The classes are "
                f"{', '.join(map(repr, map(str, names[:20])))}."
            )
        known = np.flatnonzero(found.codes >= 0)
        if not known.size:
            raise BadLabels(f"The column {column!r} is empty.")
        classes = np.array(numbers, dtype=np.intp)[found.codes[known]]
        if len(known) == rows.n_rows:
            weights = None if rows.held.weights is None else rows.held.weights
            counts = np.bincount(classes, weights, minlength=len(names))
            shares = dict(zip(map(str, names), (counts / counts.sum()).tolist(), strict=True))
            return exact_text(shares, named=self.seen.selectable, one_column=rows.one_column)
        labels = [names[j] for j in classes]
        probs = rows.held.probs[:, 1] if rows.one_column else rows.held.probs
        estimate(probs, labelled=known, y_labelled=labels, classes=rows.classes).save(folder / RATES)
        return RatesText(RATES)

    def write_downloads(self, form: Mapping[str, Any], jobs: Jobs, job: Job) -> tuple[str, dict[str, str]]:
        """Run the commands that the page shows. Returns the folder of what they wrote, and what each file is.

        If one of them fails or is cancelled, the files of the others are removed.
        """
        settings = self.settings(form)
        with self.lock, self.work.kept(FILES) as folder:
            settings, _, _ = self.rows_and_rates(settings, folder, jobs, job)
            self.work.add_inputs(folder, settings.inputs)
            for command in all_commands(settings):
                if command[1] != "rates":  # which has run
                    job.begin("writing", 0)
                    jobs.run_command(command, folder, job)
            self.work.remove_inputs(folder, settings.inputs)
            self.check_unchanged()
        files = {name: what for name, what in downloads(settings).items() if (folder / name).exists()}
        return folder.name, files

    def written(self, folder: str, name: str) -> Path | None:
        """A file for download: one that was written, or one that the user uploaded for the commands."""
        uploaded = name in self.extra.values() and name != self.name
        return self.work.written(folder, name) or (self.folder / name if uploaded else None)

    def close(self) -> None:
        """Forget the rows and remove the folder."""
        self._rows = None
        shutil.rmtree(self.folder, ignore_errors=True)


def _write_entered(text: RatesText, folder: Path) -> None:
    """Write the file with rates that were entered, if they need one."""
    if text.content is not None:
        write_text(folder / text.text, text.content)


class Analyses:
    """All open files of a server.

    Parameters
    ----------
    folder : PrivateFolder
    named : sequence of Path
        Files that were named when the server was started. No other file of this machine can be opened.
    """

    def __init__(self, folder: PrivateFolder, named: tuple[Path, ...]) -> None:
        self.folder, self.named = folder, named
        self._open: dict[str, Analysis] = {}

    def open_named(self, number: int) -> Analysis:
        """Open a file that was named at the start."""
        path = self.named[number]
        _check_name(path.name)
        folder = self.folder.new_subfolder()
        link_or_copy(path, folder / path.name)
        return self.add(folder, path.name)

    def add(self, folder: Path, name: str) -> Analysis:
        """Open a file that is in a subfolder of the private folder."""
        try:
            _check_name(name)
            state = FileState.of(folder / name)
            seen = preview(folder / name)
            check_rows(seen)
            roles = recognise(seen)
            check_percent_signs(seen, roles)
            check_percentages(seen, roles)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        seen = replace(seen, files=Files(name, seen.files.delimiter, seen.files.decimal))
        analysis = Analysis(folder.name, name, folder, seen, roles, state)
        self._open[analysis.id] = analysis
        return analysis

    def get(self, identifier: str) -> Analysis | None:
        """The open file with this identifier."""
        return self._open.get(identifier)

    def close(self, identifier: str) -> None:
        """Close a file, and remove its results."""
        analysis = self._open.pop(identifier, None)
        if analysis is not None:
            analysis.close()


def _check_name(name: str) -> None:
    """Raise if a file has the name of one that the page writes, so that it would be overwritten."""
    if name.casefold() in FIXED:
        raise BadFile(f"The page itself writes a file called {name.casefold()}. Give your file another name.")
