"""A query in levels: each is a SELECT from the one before, with additional columns.

The first level copies the probabilities to columns of its own. The expressions of later levels use only these, since
some databases take a name in an expression for the new column of this name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from baserate.deploy.sql_names import EXCEPTING, KEEP_LIST, REPLACING, identifier
from baserate.errors import BadOption

_PREFIX, _LEVEL = "baserate_", "baserate_level_"
_DIGITS = 12  # Of the fingerprint in names of columns.
_SEPARATE = {"postgres": " OFFSET 0", "sqlite": " LIMIT -1", "mysql": " LIMIT 18446744073709551615"}
"""What keeps a database from replacing the columns of a level by their expressions, which would grow exponentially."""


def unused_name(name: str, text: str) -> str:
    """A name that does not occur in a text, such as that of a table: ``name``, or with underscores at its end."""
    while name in text.lower():
        name += "_"
    return name


@dataclass
class Query:
    """A query that is written level by level, in the general dialect of sqlglot.

    Attributes
    ----------
    dialect : str
        The dialect for which it is written, which determines how other columns are kept.
    columns : list of str
        The columns with probabilities.
    keep : list of str, optional
        The other columns of the result; None for all.
    source : str
        What the first level selects from: a table with the alias t, and joins.
    before : list of str
        Common table expressions that ``source`` uses.
    """

    dialect: str
    columns: Sequence[str]
    keep: Sequence[str] | None
    source: str
    before: Sequence[str] = ()
    _levels: list[str] = field(default_factory=list)
    _helpers: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.keep is None and self.dialect not in REPLACING | EXCEPTING:
            able = ", ".join(sorted(REPLACING | EXCEPTING))
            raise BadOption(
                f"in {self.dialect}, SELECT * cannot leave out columns, so the other columns of the result must be "
                f"named: pass {KEEP_LIST}, which may be empty. Only {able} do not need it",
                options=[KEEP_LIST],
            )
        self._taken = {name.lower() for name in [*self.columns, *(self.keep or [])]}
        self._prefix = _PREFIX if self.keep is not None else f"{_PREFIX}{self._fingerprint()}_"
        self._level = unused_name(_LEVEL, self.source)

    def add_level(self, expressions: Mapping[str, str]) -> list[str]:
        """Add columns, and return their names as they are used in further levels.

        Parameters
        ----------
        expressions : dict
            What the columns contain, by their names without the prefix.
        """
        names = [self._helper_name(name) for name in expressions]
        new = [f"{text} AS {identifier(name)}" for name, text in zip(names, expressions.values(), strict=True)]
        self._levels.append(f"SELECT {', '.join([*self._all_columns(), *new])} FROM {self._last}{self._separate}")
        self._helpers += names
        return [identifier(name) for name in names]

    def add_columns(self, name: str, expressions: Sequence[str]) -> list[str]:
        """The same for columns that are numbered."""
        return self.add_level({f"{name}{j}": text for j, text in enumerate(expressions)})

    def add_column(self, name: str, expression: str) -> str:
        """The same for one column."""
        return self.add_level({name: expression})[0]

    @property
    def _separate(self) -> str:
        return _SEPARATE.get(self.dialect, "")

    def _helper_name(self, name: str) -> str:
        name = f"{self._prefix}{name}"
        while name.lower() in self._taken:
            name += "_"
        self._taken.add(name.lower())
        return name

    def _fingerprint(self) -> str:
        """Digits for names that no column of the table has by accident.

        ``SELECT *`` reads columns that are not known here, and DuckDB takes the first of two columns with one name.
        """
        of = repr([*self.columns, self.source, *self.before])
        return hashlib.sha256(of.encode()).hexdigest()[:_DIGITS]

    def _all_columns(self) -> list[str]:
        if self.keep is None:
            return ["*"] if self._levels else ["t.*"]
        if self._levels:
            return [identifier(name) for name in [*self.keep, *self._helpers]]
        return [f"t.{identifier(name)}" for name in self.keep]

    @property
    def _last(self) -> str:
        """What the next level selects from."""
        return f"{self._level}{len(self._levels)}" if self._levels else self.source

    def result(self, adjusted: Iterable[str]) -> str:
        """The whole query, with an expression for each column with probabilities."""
        new = [f"{text} AS {identifier(name)}" for name, text in zip(self.columns, adjusted, strict=True)]
        # SQLite joins a level with the one below unless both have a limit.
        end = self._separate if self.dialect == "sqlite" else ""
        levels = [*self.before, *(f"{self._level}{i} AS ({level})" for i, level in enumerate(self._levels, 1))]
        return f"WITH {', '.join(levels)} SELECT {self._selected(new)} FROM {self._last}{end}"

    def _selected(self, new: Sequence[str]) -> str:
        if self.keep is not None:
            return ", ".join([*map(identifier, self.keep), *new])
        if self.dialect in EXCEPTING:
            left_out = ", ".join(map(identifier, [*self._helpers, *self.columns]))
            return f"* EXCEPT ({left_out}), {', '.join(new)}"
        return f"* EXCEPT ({', '.join(map(identifier, self._helpers))}) REPLACE ({', '.join(new)})"
