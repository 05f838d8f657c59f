"""What the languages of generated code have in common: the parts of a function, and which of them a row map needs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from baserate.deploy.formula import Formula
from baserate.deploy.row_maps import Isotonic, PowerRoot, Projection, Reweighting, Sphere, Translation


class Language(ABC):
    """A programming language in which a formula is written as a function.

    The attributes are source code that makes ``a``, the adjusted probabilities of the kept classes, from ``p``, the
    probabilities of all classes.
    """

    translation: ClassVar[str]
    projection: ClassVar[str]
    sphere: ClassVar[str]
    unbounded_sphere: ClassVar[str]
    isotonic: ClassVar[str]

    @abstractmethod
    def function(self, formula: Formula, constants: dict[str, str], tests: str) -> str:
        """The source code of the function ``adjust(row)``.

        Parameters
        ----------
        formula : Formula
        constants : dict
            The numbers of the formula, by their names.
        tests : str
            A list of pairs: a row, and what the function returns for it.
        """

    @abstractmethod
    def reweighting(self, row_map: Reweighting) -> list[str]:
        """Lines that make ``a`` from ``logs``, the logarithms of the probabilities of the kept classes."""

    @abstractmethod
    def power_root(self, row_map: PowerRoot) -> list[str]:
        """Lines that make ``a`` from ``p`` by bisection on the largest entry.

        Near beta = 1, ``expm1`` and ``log1p`` keep the digits that powers would lose.
        """

    def adjusted(self, formula: Formula) -> list[str]:
        """Lines that make ``a``."""
        row_map = formula.row_map
        match row_map:
            case Reweighting():
                return self.reweighting(row_map)
            case Translation():
                code = self.translation
            case Projection():
                code = self.projection
            case Sphere():
                code = self.sphere if row_map.bounded else self.unbounded_sphere
            case Isotonic():
                code = self.isotonic
            case PowerRoot():
                return self.power_root(row_map)
            case _:
                raise AssertionError(row_map)  # to_code has refused others
        return code.split("\n")


def input_name(formula: Formula) -> str:
    """What the function takes, in words."""
    if formula.one_column:
        return "log odds" if formula.from_logits else "predicted probability"
    return "logits" if formula.from_logits else "probabilities"


def allowed_numbers(formula: Formula) -> str:
    """What the numbers of a row may be, in words."""
    if formula.one_column:
        return "one number, the log odds" if formula.from_logits else "a probability from 0 to 1"
    return "logits below infinity" if formula.from_logits else "probabilities from 0 to below infinity"
