"""From the arguments of a caller to a result: parse the request, open the rows, fit, and state the guarantee."""

from baserate.solving.new_rows import names_of_classes, new_row_source, open_new_rows
from baserate.solving.predictions import read_predictions
from baserate.solving.request import DEFAULT_STOP, Request, known_rates, parse_request
from baserate.solving.solve import adjusted, apply_shift, prior_adjusted, solve, solve_again

__all__ = [
    "DEFAULT_STOP",
    "Request",
    "adjusted",
    "apply_shift",
    "known_rates",
    "names_of_classes",
    "new_row_source",
    "open_new_rows",
    "parse_request",
    "prior_adjusted",
    "read_predictions",
    "solve",
    "solve_again",
]
