"""From the arguments of a caller to a result: parse the request, open the rows, fit, and state the guarantee."""

from baserate.solving.apply_groups import apply_group_shifts
from baserate.solving.certify import certify_shift
from baserate.solving.certify_groups import certify_group_shifts
from baserate.solving.grouped import solve_groups, solve_groups_again
from baserate.solving.predictions import read_predictions
from baserate.solving.procedures import adjusted, prior_adjusted, requested
from baserate.solving.request import Request, known_rates
from baserate.solving.solve import apply_shift, solve, solve_again

__all__ = [
    "Request",
    "adjusted",
    "apply_group_shifts",
    "apply_shift",
    "certify_group_shifts",
    "certify_shift",
    "known_rates",
    "prior_adjusted",
    "read_predictions",
    "requested",
    "solve",
    "solve_again",
    "solve_groups",
    "solve_groups_again",
]
