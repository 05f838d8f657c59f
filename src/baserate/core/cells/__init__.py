"""Rates per group: cells, the dual problem on cells, and the search for the shifts of all groups."""
