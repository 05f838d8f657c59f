"""Messages about rates that are impossible or were not reached, and the options that they mention."""

from __future__ import annotations

from baserate.core.dual import Dual
from baserate.core.feasibility import Blockage
from baserate.core.newton import Solution
from baserate.core.row_model import RowModel
from baserate.core.search import Names, Stop
from baserate.errors import InfeasibleRates, NotConvergedWarning, Option, warn
from baserate.inputs.validation import class_label

_SHOWN_CLASSES = 5  # Blocked classes that a message names.

_ZEROS, _BRIER = Option("zeros", "1e-6"), Option("loss", '"brier"')
_MAX_PASSES, _TOL = Option("max_passes"), Option("tol")


def infeasible_rates(dual: Dual, names: Names, found: Blockage) -> InfeasibleRates:
    """The error for rates that hard zeros make impossible."""
    shown = [class_label(names, int(j)) for j in found.classes[:_SHOWN_CLASSES]]
    if len(found.classes) > _SHOWN_CLASSES:
        shown.append(f"{len(found.classes) - _SHOWN_CLASSES} more")
    who = shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
    least = "" if dual.rate_set.is_point else "at least "
    digits = next((d for d in (6, 12) if f"{found.wanted:.{d}g}" != f"{found.reachable:.{d}g}"), 17)
    wanted, reachable = f"{found.wanted:.{digits}g}", f"{found.reachable:.{digits}g}"
    together, them = (" together", "them") if len(found.classes) > 1 else ("", "it")
    givers = f"only {found.n_rows} of {dual.rows.n_rows} rows give" if found.n_rows else "no row gives"
    reason = (
        f"{who} would need a mean of {least}{wanted}{together}, but {givers} {them} a probability above 0, which "
        f"allows at most {reachable}"
    )
    if found.weighted:
        radius = dual.kept_rate_set.region.radius
        reason = f"the zeros in the predictions allow no rates within {radius:g} of the stated ones"
    return InfeasibleRates(
        f"{reason}; pass {_ZEROS} to smooth the zeros, choose a loss that can move them ({_BRIER}), or correct the "
        "rates",
        classes=[int(j) if names is None else names[j] for j in found.classes],
        reachable=found.reachable,
        wanted=found.wanted,
        options=[_ZEROS, _BRIER],
    )


def warn_not_converged(solution: Solution, model: RowModel, stop: Stop) -> None:
    """Warn that the tolerance was not reached."""
    passes = "1 pass" if solution.n_passes == 1 else f"{solution.n_passes} passes"
    advice, options = advice_on_convergence(model)
    warn(
        NotConvergedWarning(
            f"stopped after {passes} with the rates off by {solution.point.residual:.2g} (tol={stop.tol:g}) and a "
            f"duality gap of {solution.point.gap:.2g}; {advice}. The guarantee is valid nevertheless",
            options=options,
        )
    )


def advice_on_convergence(model: RowModel) -> tuple[str, list[Option]]:
    """What to do if the tolerance is not reached, and the options that this mentions."""
    advice, options = f"raise {_MAX_PASSES} or {_TOL}", [_MAX_PASSES, _TOL]
    if model.loss.pins_zeros and not model.reading.smoothing:
        advice, options = f"{advice}, or pass {_ZEROS} if the reason is predictions close to 0", [*options, _ZEROS]
    return advice, options
