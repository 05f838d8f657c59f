"""From the arguments of a caller to a result: parse the request, open the rows, fit, and state the guarantee."""

from baserate.solving.apply_groups import apply_group_shifts
from baserate.solving.certify import certify_rows, certify_shift
from baserate.solving.certify_groups import certify_group_shifts
from baserate.solving.grouped import solve_groups, solve_groups_again
from baserate.solving.new_rows import names_of_classes, new_row_source, open_new_rows
from baserate.solving.predictions import read_predictions
from baserate.solving.procedures import adjusted, prior_adjusted, requested
from baserate.solving.request import DEFAULT_STOP, Request, known_rates
from baserate.solving.solve import apply_shift, solve, solve_again

__all__ = [
    "DEFAULT_STOP",
    "Request",
    "adjusted",
    "apply_group_shifts",
    "apply_shift",
    "certify_group_shifts",
    "certify_rows",
    "certify_shift",
    "known_rates",
    "names_of_classes",
    "new_row_source",
    "open_new_rows",
    "prior_adjusted",
    "read_predictions",
    "requested",
    "solve",
    "solve_again",
    "solve_groups",
    "solve_groups_again",
]
